//! A table to query, wherever it is: in a directory, on a server, in a bucket; or one shard of it.

use chomp_query::Losing;
use chomp_table::reader::AnyTable;
use chomp_table::values::Values;
use chomp_table::{ShardFile, Table, TableError, Word};

use crate::args::{Place, SourceArgs};
use crate::exit::usage;
use crate::reach;

/// A table, or a shard, that says whether positions are losing.
#[derive(Debug)]
pub(crate) enum Source {
    Table(Box<Table>),
    Shard(Box<ShardFile>),
}

/// A table of either kind.
#[derive(Debug)]
pub(crate) enum Asked {
    Losing(Source),
    Values(Box<Values>),
}

impl Source {
    /// Opens a table of losing positions.
    pub(crate) async fn open(args: &SourceArgs, haste: u32) -> anyhow::Result<Source> {
        match Asked::open(args, haste).await? {
            Asked::Losing(source) => Ok(source),
            Asked::Values(_) => Err(usage(format!(
                "{} is a table of Grundy values, and this takes one of losing positions",
                args.table
            ))),
        }
    }
}

impl Asked {
    pub(crate) async fn open(args: &SourceArgs, haste: u32) -> anyhow::Result<Asked> {
        if let Place::Here(path) = &args.table
            && path.is_file()
        {
            let path = path.clone();
            let opened = tokio::task::spawn_blocking(move || ShardFile::open(&path)).await;
            return Ok(Asked::Losing(Source::Shard(Box::new(opened??))));
        }
        Ok(open(args, haste).await?.into())
    }
}

/// Opens a table that is read where it is, in threads that may block.
pub(crate) async fn open(args: &SourceArgs, haste: u32) -> anyhow::Result<AnyTable> {
    match &args.table {
        Place::Here(path) => {
            let path = path.clone();
            let opened = tokio::task::spawn_blocking(move || AnyTable::open(&path)).await;
            Ok(opened??)
        }
        Place::Elsewhere(from) => {
            let reach = reach::tables(from, args.access.as_deref(), haste)?;
            Ok(chomp_download::open(reach).await?)
        }
    }
}

impl From<AnyTable> for Asked {
    fn from(table: AnyTable) -> Asked {
        match table {
            AnyTable::Losing(table) => Asked::Losing(Source::Table(table)),
            AnyTable::Values(table) => Asked::Values(table),
        }
    }
}

impl Losing for Source {
    fn are_losing(&self, words: &[Word]) -> Result<Vec<bool>, TableError> {
        match self {
            Source::Table(table) => Losing::are_losing(&**table, words),
            Source::Shard(shard) => Losing::are_losing(&**shard, words),
        }
    }

    fn bits(&self) -> u32 {
        match self {
            Source::Table(table) => Losing::bits(&**table),
            Source::Shard(shard) => Losing::bits(&**shard),
        }
    }
}
