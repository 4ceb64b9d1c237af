//! Opens the store of a table for a job, and removes working files after it.

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chomp_store::location::StoreLocation;
use chomp_store::objects::Storage;
use chomp_store::{Journal, Key, PartName, StoreError, journal, published};
use chomp_table::RangeBits;
use chomp_table::format::describe;
use chomp_table::manifest::{Manifest, folder_name};
use chomp_table::reader::{AnyManifest, Table, TableError, TableName};
use chomp_table::values::Values;

use crate::flags::{TableArgs, WantedTable};
use crate::machine;
use crate::progress::{Display, blocking};
use crate::summary::{Meter, RunCost, report};

#[derive(Debug)]
pub(crate) struct OwnedStore {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) range_bits: RangeBits,
    /// The manifest of the published table, if that has all positions of the job. In a directory, every byte of the
    /// table was checked.
    pub(crate) finished: Option<Manifest>,
    pub(crate) location: StoreLocation,
    /// The time of the runs before.
    worked: Duration,
}

impl OwnedStore {
    /// Removes a damaged segment if `args` say so, and a finished table's working files unless they are to be kept.
    pub(crate) async fn prepare(
        wanted: WantedTable,
        args: &TableArgs,
        (threads, memory_bytes): (NonZeroUsize, u64),
        display: &Display,
    ) -> anyhow::Result<OwnedStore> {
        let beside = || StoreLocation::Directory(args.table.clone());
        let location = args.store.clone().unwrap_or_else(beside);
        let in_table = || in_table(&location);
        let storage = location.open(args.journal.as_deref()).await?;
        if let Some(number) = args.without_segment {
            let removed = journal::remove_damaged(&*storage, number).await;
            removed.with_context(in_table)?;
        }
        let size = wanted.bits;
        let finished = match &location {
            StoreLocation::Directory(folder) => {
                let folder = folder.clone();
                // A check of every byte takes long. On a thread of its own it does not delay the reaction to a signal.
                let checked =
                    blocking(move || verify_finished(&folder, TableName::Losing(size))).await?;
                checked.and_then(|manifest| match manifest {
                    AnyManifest::Losing(manifest) => Some(manifest),
                    AnyManifest::Values(_) => None,
                })
            }
            StoreLocation::Bucket(_) => published(&*storage, size).await.with_context(in_table)?,
        };
        let (ledger, has_parts) = match journal::read_ledger(&*storage).await {
            Ok(ledger) if finished.is_some() => {
                // A run that was killed after it noted in the journal that the parts are gone may not have removed all
                // of them.
                let parts = storage.list(&Key::new("work/parts")?).await;
                let parts = parts.with_context(in_table)?;
                (
                    ledger,
                    parts.iter().any(|(key, _)| PartName::of(key).is_some()),
                )
            }
            Ok(ledger) => (ledger, false),
            // To remove the working files, the journal is opened again below, and the error is reported there.
            Err(_) if finished.is_some() => (None, true),
            Err(error) => return Err(error).with_context(in_table),
        };
        let suitable = || machine::range_bits(size, threads, memory_bytes);
        let usual = wanted.range_bits.unwrap_or_else(suitable);
        let range_bits = match &ledger {
            Some(ledger) if !ledger.takes(usual) => match wanted.range_bits {
                Some(asked) => {
                    let error = StoreError::other_range_bits(ledger.range_bits, asked);
                    return Err(error).with_context(in_table);
                }
                None => ledger.range_bits,
            },
            _ => usual,
        };
        let worked = ledger.map_or(0, |ledger| ledger.seconds_worked(size));
        let store = OwnedStore {
            storage,
            range_bits,
            finished,
            location,
            worked: Duration::from_secs(worked),
        };
        if let Some(finished) = store
            .finished
            .as_ref()
            .filter(|_| has_parts && !args.keep_parts)
        {
            match store.journal(finished.bits).await {
                Ok(journal) => tell_left(journal.prune(finished.bits).await, display),
                Err(error) => display.say(&format!(
                    "the table is finished; its working files are left alone: {}",
                    describe(&error)
                )),
            }
        }
        Ok(store)
    }

    /// The cost of this run, with the wall time of all runs.
    pub(crate) fn cost(&self, run: Meter) -> RunCost {
        let cost = run.cost();
        RunCost {
            seconds_of_all_runs: Some(self.worked.as_secs_f64() + cost.seconds),
            ..cost
        }
    }

    /// Prints the summary. A run that made the table gives its `journal`, and the working files are removed unless
    /// `args` keep them.
    pub(crate) async fn conclude(
        &self,
        args: &TableArgs,
        size: u32,
        journal: Option<&Journal>,
        cost: RunCost,
        display: &Display,
    ) -> anyhow::Result<()> {
        if let Some(journal) = journal.filter(|_| !args.keep_parts) {
            tell_left(journal.prune(size).await, display);
        }
        let manifest = self.manifest(size).await?;
        let folder = folder_name(manifest.bits);
        let folder = match &self.location {
            StoreLocation::Directory(directory) => directory.join(folder),
            StoreLocation::Bucket(bucket) => PathBuf::from(format!("{bucket}/{folder}")),
        };
        report(args.json, size, manifest, &folder, cost)
    }

    pub(crate) async fn journal(&self, size: u32) -> Result<Journal, StoreError> {
        // One number is both the secret by which workers recognize this coordinator and the name of a new table.
        let random = fastrand::u64(..);
        let storage = Arc::clone(&self.storage);
        Journal::open(storage, self.range_bits, size, random, random).await
    }

    /// The manifest of the published table of this size, or of a larger one that was there before.
    async fn manifest(&self, size: u32) -> anyhow::Result<Manifest> {
        if let Some(finished) = &self.finished {
            return Ok(finished.clone());
        }
        let published = published(&*self.storage, size).await;
        let published = published.with_context(|| in_table(&self.location))?;
        published.context("the table that was published is gone")
    }
}

async fn published(storage: &dyn Storage, size: u32) -> anyhow::Result<Option<Manifest>> {
    let folder = folder_name(size);
    let Some(bytes) = published::manifest(storage, &folder).await? else {
        return Ok(None);
    };
    let manifest = Manifest::parse(&bytes)?;
    AnyManifest::from(manifest.clone()).check_known(Path::new(&folder))?;
    Ok(Some(manifest))
}

/// The context of errors of the store, which name objects by their paths within it.
pub(crate) fn in_table(location: &StoreLocation) -> String {
    format!("in the table {location}")
}

/// Tells if not all working files were `removed`. The table is finished all the same.
pub(crate) fn tell_left<T>(removed: Result<T, impl Error + 'static>, display: &Display) {
    if let Err(error) = removed {
        display.say(&format!(
            "the table is finished; not all of its working files were removed: {}",
            describe(&error)
        ));
    }
}

/// The manifest of the published table of this kind, if it has at least this size, after a check of every byte.
pub(crate) fn verify_finished(
    directory: &Path,
    wanted: TableName,
) -> anyhow::Result<Option<AnyManifest>> {
    let read = || {
        let manifest = match wanted {
            TableName::Losing(_) => Table::open(directory)?.manifest().clone().into(),
            TableName::Values(_) => {
                AnyManifest::Values(Values::open(directory)?.manifest().clone())
            }
        };
        if manifest.size() < wanted.size() {
            return Ok(None);
        }
        let folder = directory.join(manifest.table().folder());
        manifest.check_known(&folder)?;
        manifest.verify_bytes(folder)?;
        Ok(Some(manifest))
    };
    match read() {
        Err(TableError::NotFound { .. }) => Ok(None),
        Err(error @ TableError::Damaged { .. }) => Err(error).context(
            "remove the folder of the published table and run again: it is made anew from the finished ranges, or \
             computed again",
        ),
        read => Ok(read?),
    }
}
