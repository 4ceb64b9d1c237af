//! The store of a table: opened for a job, and tidied up after it.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use chomp_store::location::Location;
use chomp_store::objects::Storage;
use chomp_store::{Journal, StoreError, journal, published};
use chomp_table::RangeBits;
use chomp_table::format::describe;
use chomp_table::manifest::Manifest;
use chomp_table::reader::{Table, TableError};

use crate::args::TableArgs;
use crate::machine;
use crate::progress::Display;

/// The store of a table that this process has taken.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) range_bits: RangeBits,
    /// What the published table is, if it has the bits of the job. Every byte of it was checked, if it is in
    /// a directory.
    pub(crate) finished: Option<Manifest>,
    /// Where the store is, for workers and for people.
    pub(crate) location: Location,
    has_parts: bool,
}

impl Directory {
    /// Opens the store for a job that `threads` threads with so much memory will work on.
    pub(crate) async fn open(
        args: &TableArgs,
        threads: NonZeroUsize,
        memory_bytes: u64,
    ) -> anyhow::Result<Directory> {
        let location = args.location();
        let storage = location.open(args.journal.as_deref()).await?;
        let ledger = journal::look(&*storage).await;
        let existing = match &ledger {
            Ok(Some(ledger)) => Some(ledger.range_bits),
            _ => None,
        };
        let range_bits = args
            .range_bits
            .or(existing)
            .unwrap_or_else(|| machine::range_bits(args.bits, threads, memory_bytes));
        if let Some(table) = existing
            && table != range_bits
        {
            let asked = range_bits;
            return Err(StoreError::OtherRangeBits { table, asked })
                .with_context(|| in_table(&location));
        }
        let bits = args.bits;
        let finished = match &location {
            Location::Directory(folder) => {
                let folder = folder.clone();
                // Checking every byte of a table takes long: a signal meanwhile is to be heard.
                let check = tokio::task::spawn_blocking(move || finished(&folder, bits)).await;
                check.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?
            }
            Location::Bucket(_) => published(&*storage, bits)
                .await
                .with_context(|| in_table(&location))?,
        };
        let has_parts = match ledger {
            Ok(ledger) => ledger.is_some_and(|ledger| !ledger.is_empty()),
            // Who wants to remove them is told what is wrong.
            Err(_) if finished.is_some() => true,
            Err(error) => return Err(error).with_context(|| in_table(&location)),
        };
        Ok(Directory {
            storage,
            range_bits,
            finished,
            location,
            has_parts,
        })
    }

    /// Removes working files that a finished table does not need.
    pub(crate) async fn prune(&self, bits: u32, display: &Display) {
        if !self.has_parts {
            return;
        }
        let opened = machine::random();
        let opened = Journal::open(
            Arc::clone(&self.storage),
            self.range_bits,
            bits,
            opened,
            opened,
        );
        match opened.await {
            Ok(journal) => prune(&journal, bits, display).await,
            Err(error) => display.say(&format!(
                "the table is finished; its working files are left alone: {}",
                describe(&error)
            )),
        }
    }

    /// What the published table of `bits` bits is, or a larger one that was there before.
    pub(crate) async fn manifest(&self, bits: u32) -> anyhow::Result<Manifest> {
        if let Some(finished) = &self.finished {
            return Ok(finished.clone());
        }
        let bytes = published::manifest(&*self.storage, bits).await?;
        let bytes = bytes.context("the table that was published is gone")?;
        Manifest::parse(&bytes).with_context(|| in_table(&self.location))
    }

    /// Where the published table of `bits` bits is.
    pub(crate) fn published(&self, bits: u32) -> PathBuf {
        published_at(&self.location, bits)
    }
}

/// What the published table of `bits` bits is, if there is one.
pub(crate) async fn published(
    storage: &dyn Storage,
    bits: u32,
) -> anyhow::Result<Option<Manifest>> {
    let bytes = published::manifest(storage, bits).await?;
    Ok(match bytes {
        Some(bytes) => Some(Manifest::parse(&bytes)?),
        None => None,
    })
}

/// Where the published table of `bits` bits of a store is.
pub(crate) fn published_at(location: &Location, bits: u32) -> PathBuf {
    let folder = chomp_table::manifest::folder_name(bits);
    match location {
        Location::Directory(directory) => directory.join(folder),
        Location::Bucket(bucket) => PathBuf::from(format!("{bucket}/{folder}")),
    }
}

/// The store names its objects by their keys, which are paths within it.
pub(crate) fn in_table(location: &Location) -> String {
    format!("in the table {location}")
}

/// Removes the working files of a table that is published. It is finished whatever comes of this.
pub(crate) async fn prune(journal: &Journal, bits: u32, display: &Display) {
    if let Err(error) = journal.prune(bits).await {
        display.say(&format!(
            "the table is finished; not all of its working files were removed: {}",
            describe(&error)
        ));
    }
}

/// The manifest of the published table, if it has so many bits. Then every byte of it is checked.
fn finished(directory: &Path, bits: u32) -> anyhow::Result<Option<Manifest>> {
    let published = Table::open(directory).and_then(|table| {
        if table.manifest().bits < bits {
            return Ok(None);
        }
        table.verify_bytes()?;
        Ok(Some(table.manifest().clone()))
    });
    match published {
        Ok(published) => Ok(published),
        Err(TableError::NotFound { .. }) => Ok(None),
        Err(error @ TableError::Damaged { .. }) => Err(error).context(
            "remove the folder of the published table and run again: it is made anew from the finished \
             ranges, or computed again",
        ),
        Err(error) => Err(error.into()),
    }
}
