//! The directory of a table: opened for a job, and tidied up after it.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use chomp_coordinator::plan::HEAD_BITS_MAX;
use chomp_coordinator::storage::{LocalStorage, TableLock};
use chomp_coordinator::store::{Store, StoreError};
use chomp_table::RangeBits;
use chomp_table::format::describe;
use chomp_table::reader::{Table, TableError};

use crate::args::TableArgs;
use crate::machine;
use crate::progress::Display;

/// A table that this process owns.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) storage: Arc<LocalStorage>,
    pub(crate) range_bits: RangeBits,
    /// The published table, if there is one. If it has the bits of the job, every byte of it was
    /// checked.
    pub(crate) published: Option<Table>,
    has_parts: bool,
}

impl Directory {
    /// Opens the table for a job that `threads` threads with so much memory will work on.
    pub(crate) async fn open(
        args: &TableArgs,
        threads: NonZeroUsize,
        memory_bytes: u64,
    ) -> anyhow::Result<Directory> {
        let lock = TableLock::acquire(&args.table)?;
        let storage = Arc::new(LocalStorage::open(lock)?);
        let existing = Store::range_bits_of(&*storage).await;
        let existing = existing.with_context(|| in_table(&args.table))?;
        let range_bits = args
            .range_bits
            .or(existing)
            .unwrap_or_else(|| machine::range_bits(args.bits, threads, memory_bytes));
        if let Some(table) = existing
            && table != range_bits
        {
            let asked = range_bits;
            return Err(StoreError::OtherRangeBits { table, asked })
                .with_context(|| in_table(&args.table));
        }
        let has_parts = Store::has_parts(&*storage).await;
        let has_parts = has_parts.with_context(|| in_table(&args.table))?;
        let (folder, bits) = (args.table.clone(), args.bits);
        // Checking every byte of a table takes long: a signal meanwhile is to be heard.
        let published =
            tokio::task::spawn_blocking(move || published(&folder, bits, has_parts)).await;
        let published =
            published.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        Ok(Directory {
            storage,
            range_bits,
            published,
            has_parts,
        })
    }

    /// The published table, if it answers for `bits`.
    pub(crate) fn finished(&self, bits: u32) -> Option<&Table> {
        let published = self.published.as_ref();
        published.filter(|table| table.manifest().bits >= bits)
    }

    /// Removes working files that a finished table does not need.
    pub(crate) async fn prune(&self, bits: u32, display: &Display) {
        // A store is not opened for more ranges than a plan holds.
        if !self.has_parts || self.range_bits.heads(bits) > 1 << HEAD_BITS_MAX {
            return;
        }
        let storage = Arc::clone(&self.storage);
        match Store::open(storage, self.range_bits, bits).await {
            Ok((store, _)) => prune(&store, display).await,
            Err(error) => display.say(&format!(
                "the table is finished; its working files are left alone: {}",
                describe(&error)
            )),
        }
    }
}

/// The store names its objects by their keys, which are paths within the directory.
pub(crate) fn in_table(directory: &Path) -> String {
    format!("in the table {}", directory.display())
}

/// Removes the working files of a table that is published. It is finished whatever comes of this.
pub(crate) async fn prune(store: &Store, display: &Display) {
    if let Err(error) = store.prune().await {
        display.say(&format!(
            "the table is finished; not all of its working files were removed: {}",
            describe(&error)
        ));
    }
}

/// The published table, if there is one. If it answers for `bits` already, every byte of it is
/// checked; else its indices are, and the rest when something is taken from it.
fn published(directory: &Path, bits: u32, has_parts: bool) -> anyhow::Result<Option<Table>> {
    let published = Table::open(directory).and_then(|table| {
        if table.manifest().bits >= bits {
            table.verify_bytes()?;
        } else {
            table.check_indices()?;
        }
        Ok(Some(table))
    });
    match published {
        Ok(published) => Ok(published),
        Err(TableError::NotFound { .. }) => Ok(None),
        Err(error @ TableError::Damaged { .. }) => {
            let how = if has_parts {
                "made anew from the finished ranges"
            } else {
                "computed again"
            };
            Err(error).context(format!(
                "remove the folder of the published table and run again: it is {how}"
            ))
        }
        Err(error) => Err(error.into()),
    }
}
