//! Gives a job the ranges of the published table that it extends.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use chomp_plan::forecast::as_f64;
use chomp_store::location::StoreLocation;
use chomp_store::objects::Storage;
use chomp_store::part::PartBuilder;
use chomp_store::restore::{Records, RestoreError, Restorer};
use chomp_store::{Entry, Finders, Journal, PartName, StoreError, journal};
use chomp_table::format::describe;
use chomp_table::reader::{AnyManifest, AnyTable};
use chomp_table::{RangeBits, Table};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::exit::Interruption;
use crate::owned_store::{OwnedStore, in_table};
use crate::progress::Display;
use crate::source;

/// The fewest bits of a table whose ranges are restored. The ranges of a smaller table are computed as fast.
const BITS_MIN: u32 = 24;

/// Restored ranges are written when they take more than the memory divided by this.
const WAITING_DIVISOR: u64 = 16;

/// Whether a job of `size` bits restores the ranges that it lacks from a published table of `bits` bits.
pub(crate) fn would_be_restored(bits: u32, size: u32, range_bits: RangeBits) -> bool {
    bits < size && bits >= BITS_MIN.max(range_bits.get())
}

/// Restores the ranges that the largest published table in the job's store has and the job has not.
pub(crate) async fn restore(
    store: &OwnedStore,
    size: u32,
    (threads, memory_bytes): (NonZeroUsize, u64),
    scratch: &Path,
    stop: &CancellationToken,
    display: &Display,
) -> anyhow::Result<()> {
    let range_bits = store.range_bits;
    if store.finished.is_some() {
        return Ok(());
    }
    let Some(table) = published(&store.location, display).await else {
        return Ok(());
    };
    let bits = table.manifest().bits;
    let known = AnyManifest::from(table.manifest().clone()).check_known(table.folder());
    known.context("remove this table, and run again: its ranges are computed then")?;
    let ledger = journal::read_ledger(&*store.storage).await;
    let ledger = ledger.with_context(|| in_table(&store.location))?;
    let heads = range_bits.head_count(bits);
    let is_done = ledger.is_some_and(|ledger| ledger.done(heads).count() as u64 == heads);
    if is_done || !would_be_restored(bits, size, range_bits) {
        return Ok(());
    }
    let made = chomp_durable_files::make_folders(scratch);
    made.with_context(|| format!("cannot create the directory {}", scratch.display()))?;
    display.say(&format!(
        "the ranges of the table of {bits} bits are restored from its shards"
    ));
    let opened = store.journal(size).await;
    let keeper = RecordKeeper {
        storage: Arc::clone(&store.storage),
        journal: opened.with_context(|| in_table(&store.location))?,
        replicas: table.manifest().replicas.max(1),
        parts: AtomicU64::new(0),
        waiting: Mutex::default(),
        waiting_bytes_max: usize::try_from(memory_bytes / WAITING_DIVISOR).unwrap_or(usize::MAX),
        runtime: Handle::current(),
    };
    let scratch = scratch.to_owned();
    let restoring = display.during("restoring", stop, move |teller| {
        let restorer = Restorer {
            table: &table,
            range_bits,
            threads: threads.get(),
            memory_bytes: memory_bytes / 2,
            scratch: &scratch,
        };
        let outcome = restorer.run(
            &|head| keeper.journal.ledger().range(head).is_none(),
            &|layers| keeper.keep(layers),
            &|done, all| teller.stage("restoring", as_f64(done) / as_f64(all)),
        );
        // Restored ranges are right even if the restorer failed, so they are kept.
        keeper.finish().map_err(RestoreError::Keep)?;
        outcome
    });
    match restoring.await {
        Ok(()) => Ok(()),
        Err(RestoreError::Stopped) => Err(Interruption::Resumable.into()),
        Err(RestoreError::Keep(error)) => Err(error).with_context(|| in_table(&store.location)),
        Err(error @ (RestoreError::Table(_) | RestoreError::Scratch(_))) => {
            display.say(&format!(
                "not all ranges were restored, the others are computed: {}",
                describe(&error)
            ));
            Ok(())
        }
    }
}

/// The published table of losing positions. None if there is none, or if it cannot be read.
async fn published(location: &StoreLocation, display: &Display) -> Option<Table> {
    match source::published(location, display.overrides()).await {
        Ok(Some(AnyTable::Losing(table))) => Some(*table),
        Ok(_) => None,
        Err(error) => {
            display.say(&format!(
                "the ranges of the published table are computed: {error:#}"
            ));
            None
        }
    }
}

struct RecordKeeper {
    storage: Arc<dyn Storage>,
    journal: Journal,
    /// The number of participants that have computed each range, as the manifest of the table says.
    replicas: u32,
    parts: AtomicU64,
    /// The records that are in no part yet. They are collected because `Restorer` gives few ranges at a time.
    waiting: Mutex<WaitingRecords>,
    waiting_bytes_max: usize,
    runtime: Handle,
}

#[derive(Default)]
struct WaitingRecords {
    bytes: usize,
    layers: BTreeMap<u32, Records>,
}

impl RecordKeeper {
    fn keep(&self, layers: BTreeMap<u32, Records>) -> Result<(), StoreError> {
        let full = {
            let mut waiting = self.waiting.lock();
            for (layer, records) in layers {
                let bytes = records.iter().map(|(_, record)| record.len());
                waiting.bytes += bytes.sum::<usize>();
                waiting.layers.entry(layer).or_default().extend(records);
            }
            let is_full = waiting.bytes > self.waiting_bytes_max;
            is_full.then(|| std::mem::take(&mut *waiting))
        };
        full.map_or(Ok(()), |full| self.write(full))
    }

    fn finish(&self) -> Result<(), StoreError> {
        self.write(std::mem::take(&mut *self.waiting.lock()))
    }

    fn write(&self, waiting: WaitingRecords) -> Result<(), StoreError> {
        let mut entries = Vec::new();
        for (layer, mut records) in waiting.layers {
            records.sort_unstable_by_key(|(summary, _)| summary.head);
            let mut records = records.into_iter().peekable();
            while records.peek().is_some() {
                let mut builder = PartBuilder::default();
                while let Some((summary, record)) =
                    records.next_if(|(_, record)| builder.has_room(record))
                {
                    builder.push(summary, &record);
                }
                let number = self.parts.fetch_add(1, Ordering::Relaxed);
                let part = PartName {
                    layer,
                    lease: self.journal.epoch() << 32 | number,
                };
                let (bytes, ranges) = builder.finish();
                let key = part.key();
                self.runtime.block_on(self.storage.create(&key, bytes))?;
                entries.push(Entry::Done {
                    part,
                    replicas: self.replicas,
                    finders: Finders::default(),
                    ranges,
                });
            }
        }
        self.runtime.block_on(self.journal.append(entries))
    }
}
