//! Where a table comes from: a server that gives its files, or a bucket.

use std::ops::Range;
use std::sync::Arc;

use chomp_store::location::StoreLocation;
use chomp_store::objects::Bucket;
use chomp_store::{Key, READS_MAX, Storage, StorageProblem};
use chomp_table::manifest::MANIFEST_NAME;
use chomp_table::reader::TableName;

use crate::Reach;
use crate::error::DownloadError;
use crate::http::ServerClient;

#[derive(Debug)]
pub(crate) struct TableSource {
    pub(crate) table: TableName,
    /// The address of the folder, with a slash at its end.
    address: String,
    pub(crate) place: SourcePlace,
}

#[derive(Debug)]
pub(crate) enum SourcePlace {
    Server(Box<ServerClient>),
    /// A bucket, which repeats requests itself as long as its patience lasts.
    Bucket(Arc<dyn Storage>),
}

impl TableSource {
    /// Finds the table whose folder the address is, or else the [preferred](TableName::preferred) one there.
    pub(crate) async fn find(reach: &Reach) -> Result<TableSource, DownloadError> {
        if !StoreLocation::is_of_bucket(&reach.from) {
            let (server, table) = ServerClient::find_table(reach).await?;
            return Ok(TableSource {
                table,
                address: server.address(),
                place: SourcePlace::Server(Box::new(server)),
            });
        }
        let StoreLocation::Bucket(bucket) = StoreLocation::parse(&reach.from)? else {
            unreachable!("it is the address of a bucket");
        };
        let (bucket, named) = split(bucket);
        let first = bucket.open(Some(reach.patience.first))?;
        let found = TableSource::find_in(first, &bucket.to_string(), named).await?;
        Ok(TableSource {
            place: SourcePlace::Bucket(bucket.open(Some(reach.patience.later))?),
            ..found
        })
    }

    /// Finds the table that is named, or else the [preferred](TableName::preferred) one in the bucket.
    pub(crate) async fn find_in(
        storage: Arc<dyn Storage>,
        address: &str,
        named: Option<TableName>,
    ) -> Result<TableSource, DownloadError> {
        let all = TableName::all().rev();
        let (losing, values): (Vec<_>, Vec<_>) = all.partition(|table| table.bits().is_some());
        let wanted = named.map_or_else(|| [losing, values].concat(), |table| vec![table]);
        for tables in wanted.chunks(READS_MAX) {
            let manifests = tables
                .iter()
                .map(|&table| (key(table, MANIFEST_NAME), 0..1));
            let reads = storage.read_each(manifests.collect()).await;
            for (&table, read) in tables.iter().zip(reads) {
                match read {
                    Ok(_) => {
                        return Ok(TableSource {
                            table,
                            address: format!("{address}/{}/", table.folder()),
                            place: SourcePlace::Bucket(storage),
                        });
                    }
                    Err(error) if error.problem == StorageProblem::NotFound => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Err(DownloadError::NoTable {
            url: address.to_owned(),
            table: named,
        })
    }

    /// The address of a file; of the folder, if the name is empty.
    pub(crate) fn address(&self, name: &str) -> String {
        format!("{}{name}", self.address)
    }

    pub(crate) async fn small(&self, name: &str, most: u64) -> Result<Vec<u8>, DownloadError> {
        let read = match &self.place {
            SourcePlace::Server(server) => server.small(name, most).await,
            SourcePlace::Bucket(storage) => match self.read(storage, name, 0..most + 1).await {
                Ok(bytes) if bytes.len() as u64 > most => {
                    Err(self.wrong(name, format!("it has more than {most} bytes")))
                }
                read => read,
            },
        };
        match read {
            // The manifest is written last: without it there is no table.
            Err(DownloadError::NotFound(_)) if name == MANIFEST_NAME => {
                Err(DownloadError::NoTable {
                    url: self.address.clone(),
                    table: Some(self.table),
                })
            }
            read => read,
        }
    }

    /// Some bytes of a file that is `length` bytes long.
    pub(crate) async fn fetch_slice(
        &self,
        name: &str,
        range: Range<u64>,
        length: u64,
    ) -> Result<Vec<u8>, DownloadError> {
        let storage = match &self.place {
            SourcePlace::Server(server) => return server.fetch_slice(name, range, length).await,
            SourcePlace::Bucket(storage) => storage,
        };
        let bytes = self.read(storage, name, range.clone()).await?;
        let end = range.start + bytes.len() as u64;
        if end < range.end {
            let what = format!("it ends after {end} bytes, {} are expected", range.end);
            return Err(self.wrong(name, what));
        }
        Ok(bytes)
    }

    async fn read(
        &self,
        storage: &Arc<dyn Storage>,
        name: &str,
        range: Range<u64>,
    ) -> Result<Vec<u8>, DownloadError> {
        match storage.read_at(&key(self.table, name), range).await {
            Err(error) if error.problem == StorageProblem::NotFound => {
                Err(DownloadError::NotFound(self.address(name)))
            }
            read => Ok(read?.into()),
        }
    }

    fn wrong(&self, name: &str, what: String) -> DownloadError {
        let url = self.address(name);
        DownloadError::Wrong { url, what }
    }
}

/// The bucket with the folder of tables, and a table if the address is that of its folder.
fn split(mut bucket: Bucket) -> (Bucket, Option<TableName>) {
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
            let StoreLocation::Bucket(given) = StoreLocation::parse(from).unwrap() else {
                panic!("{from}");
            };
            let (found, found_table) = split(given);
            assert_eq!((found.to_string().as_str(), found_table), (bucket, table));
        }
    }
}
