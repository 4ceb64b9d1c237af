//! A table to ask, wherever it is: a directory, one shard, a server, a bucket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chomp_access::Access;
use chomp_download::Reach;
use chomp_query::Losing;
use chomp_store::location::Location;
use chomp_table::{ShardFile, Table, TableError, Word};

use crate::args::SourceArgs;
use crate::reach;

/// How long a server may give nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// What answers.
#[derive(Debug)]
pub(crate) enum Source {
    Table(Box<Table>),
    Shard(Box<ShardFile>),
}

impl Source {
    pub(crate) async fn open(args: &SourceArgs) -> anyhow::Result<Source> {
        if Location::is_of_bucket(&args.table) {
            let reach = Reach {
                from: args.table.clone(),
                ca: None,
                token: None,
                patience: PATIENCE,
            };
            let table = chomp_download::open(reach).await?;
            return Ok(Source::Table(Box::new(table)));
        }
        if args.table.starts_with("http://") || args.table.starts_with("https://") {
            // Finished tables are open to everybody: the token stays here.
            let Access { ca, .. } = match &args.access {
                Some(file) => Access::read(file)?,
                None => reach::local_access(&args.table)?,
            };
            let reach = Reach {
                from: args.table.clone(),
                ca,
                token: None,
                patience: PATIENCE,
            };
            let table = chomp_download::open(reach).await?;
            return Ok(Source::Table(Box::new(table)));
        }
        let path = PathBuf::from(&args.table);
        let opened = tokio::task::spawn_blocking(move || Source::open_path(&path));
        Ok(opened.await??)
    }

    fn open_path(path: &Path) -> Result<Source, TableError> {
        if path.is_file() {
            Ok(Source::Shard(Box::new(ShardFile::open(path)?)))
        } else {
            Ok(Source::Table(Box::new(Table::open(path)?)))
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
