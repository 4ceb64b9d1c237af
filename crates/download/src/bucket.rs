//! A published table in a bucket, or in any other storage.
//!
//! The storage repeats requests as long as its patience lasts, so nothing is repeated here.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use chomp_store::location::Location;
use chomp_store::objects::Bucket;
use chomp_store::{Key, Storage, StorageProblem};
use chomp_table::manifest::MANIFEST_NAME;
use chomp_table::reader::TableName;
use tokio::task::JoinSet;

use crate::error::DownloadError;
use crate::patience::ServerPatience;

/// The tables that are looked for at a time.
const TOGETHER: usize = 16;

/// Where a table is in a storage.
#[derive(Clone, Debug)]
pub(crate) struct BucketTable {
    storage: Arc<dyn Storage>,
    /// The storage's address, for messages.
    address: String,
    pub(crate) table: TableName,
}

impl BucketTable {
    /// Finds the table whose folder the address is, or else the [first](TableName::first) there.
    pub(crate) async fn open(
        from: &str,
        patience: ServerPatience,
    ) -> Result<BucketTable, DownloadError> {
        let Location::Bucket(bucket) = Location::parse(from)? else {
            unreachable!("only addresses of buckets are given here");
        };
        let (bucket, named) = apart(bucket);
        let address = bucket.to_string();
        let first = bucket.open(Some(patience.first))?;
        let found = BucketTable::find(first, address, named).await?;
        Ok(BucketTable {
            storage: bucket.open(Some(patience.later))?,
            ..found
        })
    }

    /// Finds the table that is named, or the first.
    pub(crate) async fn find(
        storage: Arc<dyn Storage>,
        address: String,
        table: Option<TableName>,
    ) -> Result<BucketTable, DownloadError> {
        let found = match table {
            Some(table) => has(&*storage, table).await?.then_some(table),
            None => first(&storage).await?,
        };
        let Some(table) = found else {
            let url = address;
            return Err(DownloadError::NoTable { url, table });
        };
        Ok(BucketTable {
            storage,
            address,
            table,
        })
    }

    /// The address of a file; of the folder, if the name is empty.
    pub(crate) fn place(&self, name: &str) -> String {
        format!("{}/{}/{name}", self.address, self.table.folder())
    }

    /// A file that must not have more than `most` bytes.
    pub(crate) async fn small(&self, name: &str, most: u64) -> Result<Vec<u8>, DownloadError> {
        let bytes = self.read(name, 0..most + 1).await?;
        if bytes.len() as u64 > most {
            return Err(self.wrong(name, format!("it has more than {most} bytes")));
        }
        Ok(bytes.into())
    }

    /// Some bytes of a file, all of them.
    pub(crate) async fn part(&self, name: &str, range: Range<u64>) -> Result<Bytes, DownloadError> {
        let bytes = self.read(name, range.clone()).await?;
        let found = range.start + bytes.len() as u64;
        if found == range.end {
            Ok(bytes)
        } else {
            let what = format!("it ends after {found} bytes, {} are expected", range.end);
            Err(self.wrong(name, what))
        }
    }

    async fn read(&self, name: &str, range: Range<u64>) -> Result<Bytes, DownloadError> {
        let key = key(self.table, name);
        match self.storage.read_at(&key, range).await {
            Err(error) if error.problem == StorageProblem::NotFound => {
                Err(DownloadError::NotFound(self.place(name)))
            }
            read => Ok(read?),
        }
    }

    fn wrong(&self, name: &str, what: String) -> DownloadError {
        DownloadError::Wrong {
            url: self.place(name),
            what,
        }
    }
}

/// The bucket with the folder of tables, and a table if it is this table's folder.
fn apart(mut bucket: Bucket) -> (Bucket, Option<TableName>) {
    let prefix = bucket.prefix.as_ref().map_or("", |prefix| prefix.as_str());
    let (above, last) = prefix.rsplit_once('/').unwrap_or(("", prefix));
    let table = TableName::of(last);
    if table.is_some() {
        bucket.prefix = Key::new(above).ok();
    }
    (bucket, table)
}

fn key(table: TableName, name: &str) -> Key {
    let key = format!("{}/{name}", table.folder());
    Key::new(&key).expect("names are those that a manifest can have")
}

/// Whether there is this table.
async fn has(storage: &dyn Storage, table: TableName) -> Result<bool, DownloadError> {
    match storage.read_at(&key(table, MANIFEST_NAME), 0..1).await {
        Ok(_) => Ok(true),
        Err(error) if error.problem == StorageProblem::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The first table that there is.
async fn first(storage: &Arc<dyn Storage>) -> Result<Option<TableName>, DownloadError> {
    let all: Vec<TableName> = TableName::all().collect();
    let (losing, values): (Vec<_>, Vec<_>) = all
        .into_iter()
        .rev()
        .partition(|table| table.bits().is_some());
    for tables in losing.chunks(TOGETHER).chain(values.chunks(TOGETHER)) {
        let mut looks = JoinSet::new();
        for &table in tables {
            let storage = Arc::clone(storage);
            looks.spawn(async move { Ok(has(&*storage, table).await?.then_some(table)) });
        }
        let mut found = None;
        for look in looks.join_all().await {
            let look: Result<_, DownloadError> = look;
            found = found.max(look?);
        }
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_tables_or_of_one() {
        let losing = |bits| Some(TableName::Losing(bits));
        for (from, bucket, table) in [
            ("s3://b", "s3://b", None),
            ("s3://b/tables/", "s3://b/tables", None),
            ("gs://b/table-32", "gs://b", losing(32)),
            ("az://b/a/c/table-07/", "az://b/a/c", losing(7)),
            ("s3://b/values-082", "s3://b", Some(TableName::Values(82))),
            ("s3://b/table-32/a", "s3://b/table-32/a", None),
            ("s3://b/table-7", "s3://b/table-7", None),
        ] {
            let Location::Bucket(given) = Location::parse(from).unwrap() else {
                panic!("{from}");
            };
            let (found, found_table) = apart(given);
            assert_eq!((found.to_string().as_str(), found_table), (bucket, table));
        }
    }
}
