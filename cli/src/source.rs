//! A table to query, wherever it is: in a directory, on a server, in a bucket; or one shard of it.

use chomp_query::Losing;
use chomp_table::reader::AnyTable;
use chomp_table::values::Values;
use chomp_table::{ShardFile, Table, TableError, Word};

use crate::exit::usage;
use crate::flags::{SourceArgs, TablePlace};
use crate::reach;

/// A table, or a shard, that says whether positions are losing.
#[derive(Debug)]
pub(crate) enum QuerySource {
    Table(Box<Table>),
    Shard(Box<ShardFile>),
}

/// A table of either kind.
#[derive(Debug)]
pub(crate) enum QueriedTable {
    Losing(QuerySource),
    Values(Box<Values>),
}

impl QuerySource {
    /// Opens a table of losing positions.
    pub(crate) async fn open(args: &SourceArgs, haste: u32) -> anyhow::Result<QuerySource> {
        match QueriedTable::open(args, haste).await? {
            QueriedTable::Losing(source) => Ok(source),
            QueriedTable::Values(_) => Err(usage(format!(
                "{} is a table of Grundy values, and this takes one of losing positions",
                args.table
            ))),
        }
    }
}

impl QueriedTable {
    pub(crate) async fn open(args: &SourceArgs, haste: u32) -> anyhow::Result<QueriedTable> {
        if let TablePlace::Here(path) = &args.table
            && path.is_file()
        {
            let path = path.clone();
            let opened = tokio::task::spawn_blocking(move || ShardFile::open(&path)).await;
            return Ok(QueriedTable::Losing(QuerySource::Shard(Box::new(opened??))));
        }
        Ok(open(args, haste).await?.into())
    }
}

/// Opens a table that is read where it is, in threads that may block.
pub(crate) async fn open(args: &SourceArgs, haste: u32) -> anyhow::Result<AnyTable> {
    match &args.table {
        TablePlace::Here(path) => {
            let path = path.clone();
            let opened = tokio::task::spawn_blocking(move || AnyTable::open(&path)).await;
            Ok(opened??)
        }
        TablePlace::Elsewhere(from) => {
            let reach = reach::tables(from, args.access.as_deref(), haste)?;
            Ok(chomp_download::open(reach).await?)
        }
    }
}

impl From<AnyTable> for QueriedTable {
    fn from(table: AnyTable) -> QueriedTable {
        match table {
            AnyTable::Losing(table) => QueriedTable::Losing(QuerySource::Table(table)),
            AnyTable::Values(table) => QueriedTable::Values(table),
        }
    }
}

impl Losing for QuerySource {
    fn are_losing(&self, words: &[Word]) -> Result<Vec<bool>, TableError> {
        match self {
            QuerySource::Table(table) => Losing::are_losing(&**table, words),
            QuerySource::Shard(shard) => Losing::are_losing(&**shard, words),
        }
    }

    fn bits(&self) -> u32 {
        match self {
            QuerySource::Table(table) => Losing::bits(&**table),
            QuerySource::Shard(shard) => Losing::bits(&**shard),
        }
    }
}
