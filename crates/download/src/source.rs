//! Where a table comes from: a server that gives its files, or a bucket.

use std::ops::Range;

use chomp_store::location::Location;
use chomp_table::manifest::MANIFEST_NAME;
use chomp_table::reader::TableName;

use crate::Reach;
use crate::bucket::BucketTable;
use crate::error::DownloadError;
use crate::http::{TableServer, TableUrl};

/// The folder of a published table, wherever it is.
#[derive(Debug)]
pub(crate) enum TableSource {
    /// It is on a server.
    Server(Box<TableServer>, TableUrl),
    /// It is in a bucket.
    Bucket(BucketTable),
}

impl TableSource {
    /// Finds the table whose folder the address is, or else the [first](TableName::first) there.
    pub(crate) async fn find(reach: &Reach) -> Result<TableSource, DownloadError> {
        if Location::is_of_bucket(&reach.from) {
            let table = BucketTable::open(&reach.from, reach.patience).await?;
            return Ok(TableSource::Bucket(table));
        }
        let server = TableServer::new(reach)?;
        let url = server.find_table().await?;
        Ok(TableSource::Server(Box::new(server), url))
    }

    /// Which table it is, if its folder's name tells that.
    pub(crate) fn table(&self) -> Option<TableName> {
        match self {
            TableSource::Server(_, url) => url.table,
            TableSource::Bucket(table) => Some(table.table),
        }
    }

    /// The address of a file; of the folder, if the name is empty.
    pub(crate) fn place(&self, name: &str) -> String {
        match self {
            TableSource::Server(_, url) if name.is_empty() => url.folder.to_string(),
            TableSource::Server(_, url) => url.file(name).to_string(),
            TableSource::Bucket(table) => table.place(name),
        }
    }

    /// A file that must not have more than `most` bytes.
    pub(crate) async fn small(&self, name: &str, most: u64) -> Result<Vec<u8>, DownloadError> {
        match self {
            TableSource::Server(server, url) => match server.get_small(&url.file(name), most).await
            {
                // Without the one that is written last there is no table.
                Err(DownloadError::NotFound(_)) if name == MANIFEST_NAME => {
                    Err(server.no_table(url.table))
                }
                got => got,
            },
            TableSource::Bucket(table) => table.small(name, most).await,
        }
    }

    /// Some bytes of a file that is `length` bytes long.
    pub(crate) async fn part(
        &self,
        name: &str,
        range: Range<u64>,
        length: u64,
    ) -> Result<Vec<u8>, DownloadError> {
        match self {
            TableSource::Server(server, url) => {
                server.get_part(&url.file(name), range, length).await
            }
            TableSource::Bucket(table) => Ok(table.part(name, range).await?.into()),
        }
    }
}
