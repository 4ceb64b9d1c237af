//! The store: what the objects of a table mean. The store is the journal.
//!
//! The objects are all there is: finished ranges are in parts, complete layers have seals, and a
//! start reads them all. There is no second record that could disagree with them, and nothing to
//! repair: an object is there in whole or not at all, and one whose digests are wrong is
//! named, for what it held can be computed again.
//!
//! * What [`Store::commit`] has returned from is in [`Progress::done`] of every later start, until
//!   somebody damages or removes the part.
//! * A range has one content. A second result for a range is compared with the first; the first stays.
//! * A table has one owner, that of the highest epoch. An older one learns so before it writes.
//!   A write that overtakes that check does no harm: results do not depend on who computed
//!   them, and the names of its parts are its own.
//!
//! `keys` lists the objects; `envelope`, `job`, `epoch`, `part`, `seal` and `checkpoint` have the bytes.

mod checkpoint;
mod contents;
mod envelope;
mod epoch;
mod index;
mod job;
mod keys;
mod open;
mod part;
mod prune;
mod publish;
mod seal;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use chomp_table::{Head, RangeBits};

pub(crate) use checkpoint::Checkpoint;
pub use contents::Contents;
pub use part::{
    BYTES_MAX as PART_BYTES_MAX, RANGES_MAX as PART_RANGES_MAX,
    RECORDS_BYTES_MAX as PART_RECORDS_BYTES_MAX,
};
pub use publish::MANIFEST_BYTES_MAX;

use crate::storage::{Key, KeyError, Storage, StorageError};
use chomp_table::{Digest, RangeSummary};
use envelope::Wrong;
use index::{Index, Place};
use keys::PartName;
use publish::exists;

/// What can be wrong with a store, by what a caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A newer version of the program wrote an object.
    #[error(
        "{key} has format version {found}, newer than {known}, the newest known here: use the program that wrote it, or a newer one"
    )]
    Newer {
        /// The object.
        key: Key,
        /// Its version.
        found: u32,
        /// The newest version that is known here.
        known: u32,
    },
    /// An object is not what was written there.
    #[error(
        "{key} is damaged: {what}; remove it and run again: what it held will be computed again"
    )]
    Damaged {
        /// The object, or a folder of them.
        key: Key,
        /// What is wrong with it.
        what: String,
    },
    /// The table was begun with other range bits.
    #[error(
        "the table has {table} range bits, {asked} were asked for: leave them out, or use another directory"
    )]
    OtherRangeBits {
        /// Those of the table.
        table: RangeBits,
        /// Those that were asked for.
        asked: RangeBits,
    },
    /// Two results for one range differ.
    #[error(
        "{key} and {other} differ on range {head}: one of them was computed wrongly, so nothing in this table can be trusted; build it anew in another directory"
    )]
    Disagrees {
        /// The range.
        head: Head,
        /// The object with one result.
        key: Key,
        /// The object with the other.
        other: Key,
    },
    /// Another owner has taken the table over.
    #[error(
        "the table was taken over by another coordinator: epoch {newer} follows {epoch}, which is ours"
    )]
    Fenced {
        /// Our epoch.
        epoch: u64,
        /// The other's.
        newer: u64,
    },
    /// The range is not committed.
    #[error("range {head} is not committed")]
    Missing {
        /// The range.
        head: Head,
    },
    /// More was to be committed at once than a part may hold.
    #[error(
        "a part of {ranges} ranges in {bytes} bytes is too large: at most {PART_RANGES_MAX} ranges and {PART_BYTES_MAX} bytes"
    )]
    TooLarge {
        /// The number of ranges.
        ranges: usize,
        /// The size of the part.
        bytes: u64,
    },
    /// The name of a published object cannot be part of a key.
    #[error(transparent)]
    Name(#[from] KeyError),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// What a store holds of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The committed ranges of the job, ascending.
    pub done: Vec<RangeSummary>,
    /// Ranges of sealed layers that are not in `done`: they must be computed again, and the same
    /// content must come back.
    pub expected: Vec<RangeSummary>,
    /// The number of sealed layers, from layer 0 on.
    pub sealed_layers: u32,
}

impl Progress {
    /// Adds ranges that were committed since.
    pub(crate) fn add(&mut self, ranges: Vec<RangeSummary>) {
        self.done.extend(ranges);
        self.done.sort_unstable_by_key(|range| range.head);
        let done = |head| self.done.binary_search_by_key(&head, |range| range.head);
        self.expected.retain(|range| done(range.head).is_err());
    }
}

/// The store of a table, open for one job. It keeps where records are, not the records.
#[derive(Debug)]
pub struct Store {
    storage: Arc<dyn Storage>,
    range_bits: RangeBits,
    bits: u32,
    epoch: u64,
    replicas: u32,
    /// The number of ranges in each layer.
    layer_sizes: Vec<usize>,
    index: Mutex<Index>,
    /// The digests of the seals from layer 0 on.
    chain: Mutex<Vec<Digest>>,
    publication: publish::Publication,
}

impl Store {
    /// The bits of the job.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The range bits of the table.
    pub fn range_bits(&self) -> RangeBits {
        self.range_bits
    }

    /// The number of this owner.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The same store, for a job of which so many workers compute each range alike before it is
    /// committed; else it is one.
    pub fn with_replicas(self, replicas: u32) -> Store {
        Store { replicas, ..self }
    }

    /// How many workers have computed alike each range of the job that is committed, at the least.
    pub fn replicas(&self) -> u32 {
        let least = self.index().replicas(self.range_bits.heads(self.bits));
        least.unwrap_or(self.replicas)
    }

    /// Whether a range is committed.
    pub fn is_committed(&self, head: Head) -> bool {
        self.index().get(head).is_some()
    }

    // Both locks are held for single operations on whole values: a panic leaves nothing half done.
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chain(&self) -> MutexGuard<'_, Vec<Digest>> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if another owner has taken the table over.
    async fn check_owner(&self) -> Result<(), StoreError> {
        let (epoch, newer) = (self.epoch, self.epoch + 1);
        if exists(&*self.storage, &keys::epoch(newer)).await? {
            Err(StoreError::Fenced { epoch, newer })
        } else {
            Ok(())
        }
    }

    /// Makes the records of some ranges of a layer durable, all or none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`]; [`StoreError::Disagrees`] if a range has another content already;
    /// [`StoreError::TooLarge`]; [`StoreError::Storage`], after which the ranges may turn up at
    /// the next start, or not.
    ///
    /// # Panics
    ///
    /// If there are no records, or not each of another range of the layer.
    pub async fn commit(
        &self,
        layer: u32,
        records: Vec<(RangeSummary, Bytes)>,
    ) -> Result<(), StoreError> {
        self.commit_with(self.replicas, layer, records).await
    }

    /// The same for records that so many workers have computed alike.
    pub(crate) async fn commit_with(
        &self,
        replicas: u32,
        layer: u32,
        mut records: Vec<(RangeSummary, Bytes)>,
    ) -> Result<(), StoreError> {
        records.sort_unstable_by_key(|(summary, _)| summary.head);
        let summaries = || records.iter().map(|(summary, _)| summary);
        let sound = envelope::check_ranges(summaries(), self.range_bits, layer);
        assert!(sound.is_ok(), "not ranges of layer {layer}: {sound:?}");
        let (ranges, bytes) = (records.len(), part::size(&records));
        if ranges > PART_RANGES_MAX || bytes > PART_BYTES_MAX {
            return Err(StoreError::TooLarge { ranges, bytes });
        }
        let first = summaries().next().expect("a part has ranges").head;
        let name = PartName {
            layer,
            first,
            epoch: self.epoch,
        };
        let key = name.key();
        for summary in summaries() {
            self.index().agrees(summary, &key)?;
        }
        self.check_owner().await?;
        let (bytes, entries) = part::encode(name, self.range_bits, replicas, &records);
        self.storage.create(&key, bytes.into()).await?;
        self.index().add(&key, entries);
        Ok(())
    }

    /// The record of a committed range.
    ///
    /// # Errors
    ///
    /// [`StoreError::Missing`] if it is not committed; [`StoreError::Damaged`] if it is not what
    /// was committed; [`StoreError::Storage`].
    pub async fn read_record(&self, head: Head) -> Result<Bytes, StoreError> {
        let place = self.index().get(head).cloned();
        let Place { key, entry } = place.ok_or(StoreError::Missing { head })?;
        let end = entry.offset + entry.length;
        let record = self.storage.read_at(&key, entry.offset..end).await?;
        if Digest::of(&record) == entry.stored {
            Ok(record)
        } else {
            let what = format!("the digest of the record of range {head} is wrong");
            Err(StoreError::Damaged { key, what })
        }
    }

    /// Seals a layer: `ranges` are all of it, ascending. A layer that is sealed already with the
    /// same content stays as it is.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`]; [`StoreError::Disagrees`] or [`StoreError::Damaged`] if the layer
    /// is sealed already with another content; [`StoreError::Storage`].
    ///
    /// # Panics
    ///
    /// If the layer before is not sealed, or if `ranges` are not those of the layer.
    pub async fn seal(&self, layer: u32, ranges: &[RangeSummary]) -> Result<(), StoreError> {
        let subject = self.subject(layer).expect("a layer of the job");
        let sound = subject.check(ranges);
        assert!(sound.is_ok(), "not the ranges of layer {layer}: {sound:?}");
        let previous = self.digest_before(layer);
        let previous = previous.expect("layers are sealed in order");
        self.check_owner().await?;
        let key = keys::seal(self.bits, layer);
        let (bytes, digest) = subject.encode(self.epoch, &previous, ranges);
        let digest = match self.storage.create(&key, bytes.into()).await {
            Err(StorageError::AlreadyExists { .. }) => {
                let seal = self.read_seal(&key, subject).await?;
                self.check_same(&key, &seal, &previous, ranges)?;
                seal.digest
            }
            created => created.map(|()| digest)?,
        };
        let mut chain = self.chain();
        if chain.len() == layer as usize {
            chain.push(digest);
        }
        Ok(())
    }

    /// Checks that a seal that is there says what one of `ranges` would.
    fn check_same(
        &self,
        key: &Key,
        seal: &seal::Seal,
        previous: &Digest,
        ranges: &[RangeSummary],
    ) -> Result<(), StoreError> {
        let mut pairs = seal.ranges.iter().zip(ranges);
        if let Some((_, range)) = pairs.find(|(sealed, range)| sealed != range) {
            let place = self.index().get(range.head).cloned();
            return Err(StoreError::Disagrees {
                head: range.head,
                key: key.clone(),
                other: place.map_or_else(keys::parts, |place| place.key),
            });
        }
        if seal.previous == *previous {
            return Ok(());
        }
        let what = "it does not follow from the seal of the layer before";
        Err(Wrong::Damaged(what.to_owned()).at(key))
    }
}

/// Reads an object of at most `bytes_max` bytes.
async fn read_small(storage: &dyn Storage, key: &Key, bytes_max: u64) -> Result<Bytes, StoreError> {
    let bytes = storage.read_at(key, 0..bytes_max + 1).await?;
    if bytes.len() as u64 > bytes_max {
        return Err(Wrong::Damaged("it is too long".to_owned()).at(key));
    }
    Ok(bytes)
}
