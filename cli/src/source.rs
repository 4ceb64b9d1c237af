//! A table to query, wherever it is: in a directory, on a server, in a bucket; or one shard of it.

use std::path::Path;

use chomp_access::Access;
use chomp_download::{Patience, Reach};
use chomp_query::Losing;
use chomp_store::location::{Location, local};
use chomp_table::reader::AnyTable;
use chomp_table::values::Values;
use chomp_table::{ShardFile, Table, TableError, Word};

use crate::args::SourceArgs;
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
                args.table.display()
            ))),
        }
    }
}

impl Asked {
    pub(crate) async fn open(args: &SourceArgs, haste: u32) -> anyhow::Result<Asked> {
        let is_url = |text: &str| text.starts_with("http://") || text.starts_with("https://");
        let elsewhere = args.table.to_str();
        let elsewhere = elsewhere.filter(|text| is_url(text) || Location::is_of_bucket(text));
        let Some(from) = elsewhere else {
            let path = local(&args.table).map_err(|error| usage(error.to_string()))?;
            let opened = tokio::task::spawn_blocking(move || Asked::open_path(&path));
            return Ok(opened.await??);
        };
        // Finished tables are open to everybody: the token stays here.
        let ca = match &args.access {
            _ if Location::is_of_bucket(from) => None,
            Some(file) => Access::read(file)?.ca,
            None => reach::local_access(from)?.ca,
        };
        let reach = Reach {
            from: from.to_owned(),
            ca,
            token: None,
            patience: Patience::USUAL.hastened(haste),
        };
        Ok(chomp_download::open(reach).await?.into())
    }

    fn open_path(path: &Path) -> Result<Asked, TableError> {
        if path.is_file() {
            let shard = Box::new(ShardFile::open(path)?);
            return Ok(Asked::Losing(Source::Shard(shard)));
        }
        Ok(AnyTable::open(path)?.into())
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
