//! A table to query, wherever it is: in a directory, on a server, in a bucket; or one shard of it.

use std::path::Path;

use chomp_download::DownloadError;
use chomp_query::Losing;
use chomp_store::location::Location;
use chomp_table::reader::AnyTable;
use chomp_table::values::Values;
use chomp_table::{ShardFile, TableError, Word};

use crate::Haste;
use crate::connect;
use crate::exit::usage;
use crate::flags::{SourceArgs, TablePlace};
use crate::progress::blocking;

/// A table, or a shard, that says whether positions are losing.
pub(crate) struct LosingTable(pub(crate) Box<dyn Losing + Send>);

/// A table of either kind.
pub(crate) enum QueriedTable {
    Losing(LosingTable),
    Values(Box<Values>),
}

/// Opens a table of losing positions.
pub(crate) async fn losing(args: &SourceArgs, haste: Haste) -> anyhow::Result<LosingTable> {
    match queried(args, haste).await? {
        QueriedTable::Losing(table) => Ok(table),
        QueriedTable::Values(_) => Err(usage(format!(
            "{} is a table of Grundy values, and this takes one of losing positions",
            args.table
        ))),
    }
}

/// Opens a table, or a shard.
pub(crate) async fn queried(args: &SourceArgs, haste: Haste) -> anyhow::Result<QueriedTable> {
    if let TablePlace::Here(path) = &args.table
        && path.is_file()
    {
        let shard = here(path, ShardFile::open).await?;
        return Ok(QueriedTable::Losing(LosingTable(Box::new(shard))));
    }
    Ok(match open(args, haste).await? {
        AnyTable::Losing(table) => QueriedTable::Losing(LosingTable(table)),
        AnyTable::Values(table) => QueriedTable::Values(table),
    })
}

/// Opens a table that is read where it is, in threads that may block.
pub(crate) async fn open(args: &SourceArgs, haste: Haste) -> anyhow::Result<AnyTable> {
    match &args.table {
        TablePlace::Here(path) => here(path, AnyTable::open).await,
        TablePlace::Elsewhere(from) => {
            let reach = connect::tables(from, args.access.as_deref(), haste)?;
            Ok(chomp_download::open(reach).await?)
        }
    }
}

/// The first table that is published in a store, if there is one.
pub(crate) async fn published(store: &Location, haste: Haste) -> anyhow::Result<Option<AnyTable>> {
    match store {
        Location::Directory(path) => match here(path, AnyTable::open).await {
            Err(error) if is_missing(&error) => Ok(None),
            opened => opened.map(Some),
        },
        Location::Bucket(bucket) => {
            let reach = connect::tables(&bucket.to_string(), None, haste)?;
            match chomp_download::open(reach).await {
                Err(DownloadError::NoTable { .. }) => Ok(None),
                opened => Ok(Some(opened?)),
            }
        }
    }
}

/// Whether there is no table.
pub(crate) fn is_missing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(TableError::NotFound { .. }))
}

async fn here<T: Send + 'static>(
    path: &Path,
    open: fn(&Path) -> Result<T, TableError>,
) -> anyhow::Result<T> {
    let path = path.to_owned();
    Ok(blocking(move || open(&path)).await?)
}

impl Losing for LosingTable {
    fn are_losing(&self, words: &[Word]) -> Result<Vec<bool>, TableError> {
        self.0.are_losing(words)
    }

    fn bits(&self) -> u32 {
        self.0.bits()
    }
}
