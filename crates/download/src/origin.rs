//! Where a table comes from: a server that gives its files, or a bucket.

use std::ops::Range;

use chomp_access::Token;
use chomp_store::location::Location;
use chomp_table::manifest::MANIFEST_NAME;
use chomp_table::reader::TableName;

use crate::bucket::BucketTable;
use crate::contact::ServerPatience;
use crate::error::DownloadError;
use crate::part;
use crate::server::{Server, TableUrl};

/// The folder of a published table, wherever it is.
#[derive(Debug)]
pub(crate) enum Origin {
    /// It is on a server.
    Server(Box<Server>, TableUrl),
    /// It is in a bucket.
    Bucket(BucketTable),
}

impl Origin {
    /// Finds a table, or the [first](TableName::first), at an address, if this is not that of a table
    /// itself.
    pub(crate) async fn find(
        from: &str,
        table: Option<TableName>,
        ca: Option<&str>,
        token: Option<&Token>,
        patience: ServerPatience,
    ) -> Result<Origin, DownloadError> {
        if Location::is_of_bucket(from) {
            let table = BucketTable::open(from, table, patience).await?;
            return Ok(Origin::Bucket(table));
        }
        let server = Server::new(from, ca, token, patience)?;
        let url = server.find_table(table).await?;
        Ok(Origin::Server(Box::new(server), url))
    }

    /// Which table it is, if its folder's name tells that.
    pub(crate) fn table(&self) -> Option<TableName> {
        match self {
            Origin::Server(_, url) => url.table,
            Origin::Bucket(table) => Some(table.table),
        }
    }

    /// The address of a file; of the folder, if the name is empty.
    pub(crate) fn place(&self, name: &str) -> String {
        match self {
            Origin::Server(_, url) if name.is_empty() => url.folder().to_string(),
            Origin::Server(_, url) => url.file(name).to_string(),
            Origin::Bucket(table) => table.place(name),
        }
    }

    /// A file that must not have more than `most` bytes.
    pub(crate) async fn small(&self, name: &str, most: u64) -> Result<Vec<u8>, DownloadError> {
        match self {
            Origin::Server(server, url) => match server.get_small(&url.file(name), most).await {
                // Without the one that is written last there is no table.
                Err(DownloadError::NotFound { .. }) if name == MANIFEST_NAME => {
                    Err(server.no_table(url.table))
                }
                got => got,
            },
            Origin::Bucket(table) => table.small(name, most).await,
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
            Origin::Server(server, url) => {
                part::fetch(server, &url.file(name), range, length).await
            }
            Origin::Bucket(table) => Ok(table.part(name, range).await?.into()),
        }
    }
}
