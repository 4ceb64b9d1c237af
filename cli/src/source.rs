//! A table to query, wherever it is: in a directory, on a server, in a bucket; or one shard of it.

use std::fs;
use std::path::Path;

use chomp_download::DownloadError;
use chomp_query::Losing;
use chomp_store::location::StoreLocation;
use chomp_table::manifest::MANIFEST_NAME;
use chomp_table::reader::{AnyManifest, AnyTable};
use chomp_table::values::Values;
use chomp_table::{ShardFile, TableError, Word};

use crate::TestOverrides;
use crate::connect;
use crate::exit::usage;
use crate::flags::{SourceArgs, TablePlace};
use crate::progress::blocking;

/// A table, or a shard, that says whether positions are losing.
pub(crate) struct LosingTable(pub(crate) Box<dyn Losing + Send>);

pub(crate) enum QueriedTable {
    Losing(LosingTable),
    Values(Box<Values>),
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoTable(String);

const WITHOUT_TABLE: &str = "without one, `chomp query` answers for small positions, as 10x14, and `chomp box` for \
     rectangles of few rows";

pub(crate) async fn losing(
    args: &SourceArgs,
    overrides: TestOverrides,
) -> anyhow::Result<LosingTable> {
    match queried(args, overrides).await? {
        QueriedTable::Losing(table) => Ok(table),
        QueriedTable::Values(_) => Err(usage(format!(
            "{} is a table of Grundy values, and this takes one of losing positions",
            args.table
        ))),
    }
}

pub(crate) async fn queried(
    args: &SourceArgs,
    overrides: TestOverrides,
) -> anyhow::Result<QueriedTable> {
    if let TablePlace::Here(path) = &args.table
        && path.is_file()
    {
        let shard = here(path, ShardFile::open).await?;
        return Ok(QueriedTable::Losing(LosingTable(Box::new(shard))));
    }
    match open(args, overrides).await {
        Ok(AnyTable::Losing(table)) => Ok(QueriedTable::Losing(LosingTable(table))),
        Ok(AnyTable::Values(table)) => Ok(QueriedTable::Values(table)),
        Err(error) if is_missing(&error) => {
            Err(NoTable(format!("{error}; {WITHOUT_TABLE}")).into())
        }
        Err(error) => Err(error),
    }
}

/// Opens a table without downloading it. Its reads block, so they need threads that may.
pub(crate) async fn open(args: &SourceArgs, overrides: TestOverrides) -> anyhow::Result<AnyTable> {
    let table = open_unwarned(args, overrides).await?;
    warn_of_wrong_fingerprint(&table.manifest(), &table.name().folder());
    Ok(table)
}

pub(crate) fn warn_of_wrong_fingerprint(manifest: &AnyManifest, folder: &str) {
    if let Err(error) = manifest.check_known(Path::new(folder)) {
        tracing::warn!("{error}");
    }
}

async fn open_unwarned(args: &SourceArgs, overrides: TestOverrides) -> anyhow::Result<AnyTable> {
    match &args.table {
        TablePlace::Here(path) => here(path, AnyTable::open).await,
        TablePlace::Elsewhere(from) => {
            let reach = connect::reach_of_tables(from, args.access.as_deref(), overrides)?;
            match chomp_download::open(reach.clone()).await {
                Ok(table) => Ok(table),
                Err(error) => Err(connect::explain(error, &reach, args.access.as_deref()).await),
            }
        }
    }
}

/// The largest table that is published in a store, if there is one; one of losing positions before one of values.
pub(crate) async fn published(
    store: &StoreLocation,
    overrides: TestOverrides,
) -> anyhow::Result<Option<AnyTable>> {
    match store {
        StoreLocation::Directory(path) => match here(path, AnyTable::open).await {
            Err(error) if is_missing(&error) => Ok(None),
            opened => opened.map(Some),
        },
        StoreLocation::Bucket(bucket) => {
            let reach = connect::reach_of_tables(&bucket.to_string(), None, overrides)?;
            match chomp_download::open(reach).await {
                Err(DownloadError::NoTable { .. }) => Ok(None),
                opened => Ok(Some(opened?)),
            }
        }
    }
}

/// How many losing positions a table has, and how many positions it stores.
pub(crate) fn counts(table: &AnyTable) -> (u64, u64) {
    match table {
        AnyTable::Losing(table) => (table.manifest().losing, table.manifest().stored),
        AnyTable::Values(table) => {
            let manifest = table.manifest();
            let areas = manifest.areas.iter();
            let losing = areas.map(|area| area.positions_by_value()[0]).sum();
            (losing, manifest.shards().map(|shard| shard.stored).sum())
        }
    }
}

pub(crate) fn is_missing(error: &anyhow::Error) -> bool {
    error.is::<NoTable>()
}

/// Returns `error` or, if there is no table on this machine, an error that says what the directory has and how to get a
/// table.
pub(crate) fn explained(error: TableError) -> anyhow::Error {
    match error {
        TableError::NotFound { path } => NoTable(no_table(&path)).into(),
        error => error.into(),
    }
}

fn no_table(path: &Path) -> String {
    let name = path.display();
    let has = |inner: &str| path.join(inner).is_dir();
    let found = match fs::metadata(path) {
        Err(_) => "there is no such folder",
        Ok(metadata) if metadata.is_file() => {
            let folder = chomp_durable_files::folder(path);
            let folder = if folder.join(MANIFEST_NAME).is_file() {
                format!("{}, its folder", folder.display())
            } else {
                "the folder of a table".to_owned()
            };
            return format!(
                "{name} has no published table: it is a file; give {folder} (one shard is for `chomp query` and \
                 `chomp openings` only)"
            );
        }
        Ok(metadata) if !metadata.is_dir() => {
            return format!("{name} has no published table: it is neither a folder nor a file");
        }
        Ok(_) if has("work") || has("values-work") => {
            return format!(
                "{name} has no published table yet: `chomp status --table {name}` tells how much is done, and the \
                 command that began it goes on"
            );
        }
        Ok(_) if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()) => {
            "the folder is empty"
        }
        Ok(_) => "the folder has other files",
    };
    format!(
        "{name} has no published table: {found}; build one with `chomp run --table {name} --bits N`, or fetch one with \
         `chomp download --from URL --out {name}`"
    )
}

async fn here<T: Send + 'static>(
    path: &Path,
    open: fn(&Path) -> Result<T, TableError>,
) -> anyhow::Result<T> {
    let path = path.to_owned();
    blocking(move || open(&path)).await.map_err(explained)
}

impl Losing for LosingTable {
    fn are_losing(&self, words: &[Word]) -> Result<Vec<bool>, TableError> {
        self.0.are_losing(words)
    }

    fn bits(&self) -> u32 {
        self.0.bits()
    }
}
