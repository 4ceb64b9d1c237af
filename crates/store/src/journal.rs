//! The journal: the only record of what is done.
//!
//! Segments are numbered. Each is created only if it is absent, and has the digest of the one before. So a journal has
//! one writer: of two coordinators only one creates segment n, and the other finds out and ends. What a segment says is
//! true once the segment is durable, and is acknowledged after that. Now and then the coordinator writes a checkpoint:
//! what all segments before it add up to. So a start need not read all segments.
//!
//! # Bytes
//!
//! Segments have the [envelope](crate::envelope) `chompseg`, checkpoints `chompchk`. After it:
//!
//! | bytes | field |
//! |---|---|
//! | 8 | number n; of a checkpoint, that of the first segment that it does not cover |
//! | 32 | digest of segment n - 1, zeros for n = 0 |
//! | 8 | a number that names the table |
//! | 4 | range bits. They differ from those of the segment before only if nothing is done, as after a publication. |
//! | … | entries, up to the end |
//!
//! An entry begins with its kind, 4 bytes:
//!
//! | kind | entry | fields |
//! |---|---|---|
//! | 1 | a coordinator took the table over | the [digest](secret_digest) of its secret (8), bits of its job (4) |
//! | 6 | ranges are done | lease of the part (8), replicas (4), [finders](chomp_plan::Finders), number of ranges (4), and for each: head, number of losing positions, number of stored ones (8 each), digest (32), offset and length of the record (4 each) |
//! | 3 | ranges were wrong: they are not done any more | number of ranges (4), heads (8 each) |
//! | 7 | a shard is done | bits of the table (4), finders, length (4), [`ShardSummary`](crate::ShardSummary) as JSON |
//! | 5 | all ranges and shards before are forgotten: the table is published | |
//! | 9 | a party is not trusted any more | the number of the participant (4), 1 if it is one worker alone (4), the number of that worker or 0 (8), length (4), the reason as UTF-8 |
//! | 10 | ranges and shards that are done were computed again and came out the same: these are their finders now | finders, number of ranges (4), heads (8 each), bits of the table of the shards (4), number of shards (4), their numbers (4 each) |
//! | 11 | the records of ranges are lost: they are not done any more, but have to come out the same | number of ranges (4), heads (8 each) |
//! | 12 | the time that coordinators have worked on the job, all runs together | bits of the job (4), seconds (8) |
//!
//! Finders are the number that there should be (4), the number that there are (4), and for each the numbers of the
//! participant (4) and of the worker (8), ascending. If the first two numbers are 0, the referee computed
//! the content.
//!
//! The entries of a checkpoint are, in this order: one of kind 12 and those of kind 9; for lost ranges, entries of kind
//! 6 and one of kind 11; for done ranges, entries of kind 6; for shards, entries of kind 7. The ranges of one of these
//! entries of kind 6 may be of several layers.
//!
//! # What is removed
//!
//! The last two checkpoints are kept while the job runs: if one is damaged, the other serves, or all segments do.
//! Segments stay for ever, also when their table is published. They take some 80 bytes a range. If a segment were
//! removed, an older coordinator that was suspended all the while could create it again, and believe that it owns the
//! table.
//!
//! The version is 6. A journal of another version is refused: a job is finished by the version that began it.

mod format;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod start;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use chomp_table::manifest::folder_name;
use chomp_table::{Digest, Head, RangeBits};
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;
use tokio::time::Instant;

use self::format::{SEGMENT, encode, encode_checkpoint, opened_by, read_segment, write};
#[cfg(feature = "fuzzing")]
pub use self::fuzzing::is_read;
pub use self::start::remove_damaged;
use self::start::{BYTES_MAX, begin, check_no_gap, exists, read_all, read_within};
use crate::StoreError;
use crate::entry::Entry;
use crate::keys::{self, PartName};
use crate::ledger::Ledger;
use crate::objects::{Key, Storage, StorageProblem};

/// The most segments from one checkpoint to the next.
const CHECKPOINT_SEGMENTS: u64 = 1024;
/// After this many segments a checkpoint is due as soon as the segments since the last one have together at least
/// 1/[`CHECKPOINT_SHARE`] of its bytes.
const CHECKPOINT_SEGMENTS_MIN: u64 = if cfg!(test) { 4 } else { 64 };
const CHECKPOINT_SHARE: u64 = 8;
/// The least time between two checkpoints that are written for readers.
const RENEWAL_INTERVAL_MIN: Duration = Duration::from_secs(10);
/// The number of checkpoints that are kept, the newest ones.
const CHECKPOINTS_KEPT: usize = 2;

/// A journal, and the right to write it.
#[derive(Debug)]
pub struct Journal {
    storage: Arc<dyn Storage>,
    ledger: RwLock<Ledger>,
    coordinator_secret: u64,
    epoch: u64,
    bits: u32,
    /// The parts that it has named since the last publication.
    parts: RwLock<HashSet<PartName>>,
    /// The newest checkpoint.
    checkpoint: RwLock<Option<u64>>,
    /// Locked while a segment is written, so that segments come one after the other.
    writer: tokio::sync::Mutex<CheckpointSchedule>,
}

#[derive(Debug, Default)]
struct CheckpointSchedule {
    /// The time up to which the seconds of work are in the journal, in [`Entry::Worked`]; none outside a tokio runtime,
    /// as in tests that count calls.
    noted: Option<Instant>,
    /// When a checkpoint was last begun because a reader asked for one.
    renewed: Option<Instant>,
    /// The number of segments since the last checkpoint.
    segments: u64,
    /// The bytes of these segments.
    bytes: u64,
    checkpoint_bytes: u64,
    /// The checkpoints that are there, ascending.
    checkpoints: Vec<u64>,
}

impl Journal {
    /// Takes over the journal in `storage`, or begins one, for a job of `bits` bits. `coordinator_secret` and `table`
    /// are random numbers: by the first, workers know this writer; the second names the table, if it is new. Fails with
    /// [`StoreError::Fenced`] if another coordinator takes the table over at this very moment.
    pub async fn open(
        storage: Arc<dyn Storage>,
        range_bits: RangeBits,
        bits: u32,
        coordinator_secret: u64,
        table: u64,
    ) -> Result<Journal, StoreError> {
        let mut schedule = CheckpointSchedule {
            noted: Handle::try_current().ok().map(|_| Instant::now()),
            ..CheckpointSchedule::default()
        };
        let mut ledger = match read_all(&*storage, &mut schedule).await? {
            Some(ledger) => ledger,
            None => Ledger::new(table, range_bits),
        };
        if !ledger.takes(range_bits) {
            return Err(StoreError::other_range_bits(ledger.range_bits, range_bits));
        }
        ledger.range_bits = range_bits;
        check_no_gap(&*storage, ledger.next_segment).await?;
        let parts = ledger.ranges.iter().map(|(_, row, _)| row.part());
        let journal = Journal {
            storage,
            coordinator_secret,
            epoch: ledger.next_segment,
            bits,
            parts: RwLock::new(parts.collect()),
            checkpoint: RwLock::new(schedule.checkpoints.last().copied()),
            ledger: RwLock::new(ledger),
            writer: tokio::sync::Mutex::new(schedule),
        };
        // The system may show segments that the disk does not have, if an earlier process could not sync them. The
        // checkpoint makes their content durable.
        journal
            .write_checkpoint(&mut *journal.writer.lock().await, CHECKPOINTS_KEPT)
            .await?;
        let opened = Entry::Opened {
            secret_digest: secret_digest(coordinator_secret),
            bits,
        };
        journal.append(vec![opened]).await?;
        Ok(journal)
    }

    /// The random number of this coordinator, which only its workers learn.
    pub fn coordinator_secret(&self) -> u64 {
        self.coordinator_secret
    }

    /// The number of the segment with which this coordinator took the table over. Every later coordinator has a larger
    /// one.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of the newest checkpoint, for [`Follower::open`].
    pub fn latest_checkpoint(&self) -> Option<u64> {
        *self.checkpoint.read()
    }

    /// Whether this is the key of one of its segments or checkpoints, or of a part that it names.
    pub fn refers_to(&self, key: &Key) -> bool {
        let parts = self.parts.read();
        match PartName::of(key) {
            Some(part) => parts.contains(&part),
            None => keys::number_of(key).is_some_and(|number| number <= self.ledger().next_segment),
        }
    }

    /// The ledger after the last segment that was written.
    pub fn ledger(&self) -> RwLockReadGuard<'_, Ledger> {
        self.ledger.read()
    }

    /// Makes entries durable, all or none, in one segment. The caller must await it to its end: a call that is dropped
    /// may have written the segment, which the next call then takes for another coordinator's. After
    /// [`StoreError::Storage`] the entries may turn up at the next start, or not.
    pub async fn append(&self, mut entries: Vec<Entry>) -> Result<(), StoreError> {
        let mut schedule = self.writer.lock().await;
        let (bits, more) = (
            self.bits,
            schedule.noted.map_or(0, |at| at.elapsed().as_secs()),
        );
        if more > 0 {
            let seconds = self.ledger().seconds_worked(bits).saturating_add(more);
            entries.push(Entry::Worked { bits, seconds });
        }
        let (number, bytes, digest) = {
            let ledger = self.ledger();
            let (bytes, digest) = encode(SEGMENT, &ledger, |writer| {
                for entry in &entries {
                    write(writer, entry);
                }
            });
            (ledger.next_segment, bytes, digest)
        };
        let key = keys::segment(number);
        let length = bytes.len() as u64;
        match self.storage.create(&key, bytes.into()).await {
            Err(error) if error.problem == StorageProblem::AlreadyExists => {
                return Err(StoreError::Fenced { key });
            }
            created => created?,
        }
        {
            let mut parts = self.parts.write();
            let mut ledger = self.ledger.write();
            for entry in &entries {
                match entry {
                    Entry::Done { part, .. } => drop(parts.insert(*part)),
                    Entry::Pruned => parts.clear(),
                    _ => {}
                }
                ledger.apply(entry);
            }
            (ledger.next_segment, ledger.last_segment_digest) = (number + 1, digest);
        }
        schedule.noted = schedule.noted.map(|at| at + Duration::from_secs(more));
        schedule.segments += 1;
        schedule.bytes += length;
        let due = schedule.segments >= CHECKPOINT_SEGMENTS
            || schedule.segments >= CHECKPOINT_SEGMENTS_MIN
                && schedule.bytes >= schedule.checkpoint_bytes / CHECKPOINT_SHARE;
        if due {
            self.write_checkpoint(&mut schedule, CHECKPOINTS_KEPT)
                .await?;
        }
        Ok(())
    }

    /// Writes a checkpoint, for a reader who cannot read a segment. At most once in [`RENEWAL_INTERVAL_MIN`].
    pub async fn renew_checkpoint(&self) -> Result<(), StoreError> {
        let mut schedule = self.writer.lock().await;
        if schedule
            .renewed
            .is_some_and(|at| at.elapsed() < RENEWAL_INTERVAL_MIN)
        {
            return Ok(());
        }
        schedule.renewed = Some(Instant::now());
        self.write_checkpoint(&mut schedule, CHECKPOINTS_KEPT).await
    }

    /// Writes a checkpoint, unless nothing was written since the last one, and removes all but the last `keep`.
    async fn write_checkpoint(
        &self,
        schedule: &mut CheckpointSchedule,
        keep: usize,
    ) -> Result<(), StoreError> {
        let (next, bytes) = {
            let ledger = self.ledger();
            let bytes = compute(|| encode_checkpoint(&ledger));
            (ledger.next_segment, bytes)
        };
        // Without new segments the last checkpoint has the same content.
        if schedule.segments > 0 {
            let length = bytes.len() as u64;
            match self.storage.create(&keys::checkpoint(next), bytes).await {
                Err(error) if error.problem == StorageProblem::AlreadyExists => {}
                created => created?,
            }
            *self.checkpoint.write() = Some(next);
            (schedule.segments, schedule.bytes, schedule.checkpoint_bytes) = (0, 0, length);
            schedule.checkpoints.retain(|&number| number != next);
            schedule.checkpoints.push(next);
        }
        while schedule.checkpoints.len() > keep {
            let oldest = keys::checkpoint(schedule.checkpoints[0]);
            self.storage.delete(&[oldest]).await?;
            schedule.checkpoints.remove(0);
        }
        Ok(())
    }

    /// Removes the parts that have a record of a range in `merged` and none of a range before `merged`. The caller has
    /// made sure that nobody needs the records of ranges from the start of `merged` on. Does nothing if ranges are done
    /// that only tables of more than `bits` bits have, since a larger table needs the records of all its ranges. May be
    /// repeated after any failure.
    pub async fn remove_merged(&self, bits: u32, merged: Range<Head>) -> Result<(), StoreError> {
        let mut parts = HashSet::new();
        {
            let ledger = self.ledger();
            if ledger.has_done_beyond(bits) {
                return Ok(());
            }
            let done = ledger.done(merged.end.0);
            let done = done.filter(|(head, ..)| *head >= merged.start);
            parts.extend(done.map(|(_, row, _)| row.part()));
            for (_, row, _) in ledger.done(merged.start.0) {
                parts.remove(&row.part());
            }
        }
        let parts: Vec<Key> = parts.into_iter().map(PartName::key).collect();
        Ok(self.storage.delete(&parts).await?)
    }

    /// Done ranges of the table of `bits` bits whose part is not there, ascending, with the digests of their records.
    pub async fn ranges_without_part(&self, bits: u32) -> Result<Vec<(Head, Digest)>, StoreError> {
        let parts = self.storage.list(&keys::parts_prefix()).await?;
        let parts = parts.iter().filter_map(|(key, _)| PartName::of(key));
        let parts: HashSet<PartName> = parts.collect();
        let ledger = self.ledger();
        let done = ledger.done(ledger.range_bits.head_count(bits));
        let gone = done.filter(|(_, row, _)| !parts.contains(&row.part()));
        Ok(gone.map(|(head, row, _)| (head, row.digest)).collect())
    }

    /// Forgets all done ranges and removes all parts, if the published table of `bits` bits has all that they hold, and
    /// returns whether it has. May be repeated after any failure.
    pub async fn prune(&self, bits: u32) -> Result<bool, StoreError> {
        if self.ledger().has_done_beyond(bits)
            || !exists(&*self.storage, &keys::manifest(&folder_name(bits))).await?
        {
            return Ok(false);
        }
        self.append(vec![Entry::Pruned]).await?;
        // Only the new checkpoint is kept: those before are large, as they still have all that is forgotten.
        let mut schedule = self.writer.lock().await;
        self.write_checkpoint(&mut schedule, 1).await?;
        let parts = self.storage.list(&keys::parts_prefix()).await?;
        // Objects with other names were put there by somebody else.
        let parts = parts.into_iter().map(|(key, _)| key);
        let parts: Vec<Key> = parts.filter(|key| PartName::of(key).is_some()).collect();
        self.storage.delete(&parts).await?;
        self.storage.tidy().await?;
        Ok(true)
    }
}

/// Does work that takes long, such as encoding the checkpoint of a million ranges, on this thread. Another thread takes
/// over the tasks that this one serves.
fn compute<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
            block_in_place(work)
        }
        _ => work(),
    }
}

/// The digest of a coordinator's secret, as the journal has it. The secret cannot be computed from the digest.
pub fn secret_digest(coordinator_secret: u64) -> u64 {
    let digest = Digest::of_parts(&[b"chomp coordinator\0", &coordinator_secret.to_le_bytes()]);
    u64::from_le_bytes(*digest.0.first_chunk().expect("a digest has 32 bytes"))
}

/// Whether the coordinator with this secret took the table in `storage` over with segment `epoch`. A worker asks this
/// of the store that its coordinator names, so that no coordinator makes it write in a store of others.
pub async fn is_opened_by(
    storage: &dyn Storage,
    epoch: u64,
    coordinator_secret: u64,
) -> Result<bool, StoreError> {
    let key = keys::segment(epoch);
    let bytes = read_within(storage, &key, BYTES_MAX).await?;
    let opened = opened_by(&bytes).map_err(|wrong| wrong.at(&key))?;
    Ok(opened == Some(secret_digest(coordinator_secret)))
}

/// A journal that somebody else writes.
#[derive(Debug)]
pub struct Follower {
    storage: Arc<dyn Storage>,
    ledger: Ledger,
}

impl Follower {
    /// The journal up to this checkpoint, or only its first segment if the checkpoint is missing or damaged.
    pub async fn open(
        storage: Arc<dyn Storage>,
        checkpoint: Option<u64>,
    ) -> Result<Follower, StoreError> {
        let ledger = begin(&*storage, checkpoint).await?;
        Ok(Follower { storage, ledger })
    }

    /// The ledger after the last segment that was read.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Reads on until all segments below `next` are read. If it fails, what was read before stays.
    pub async fn catch_up(&mut self, next: u64) -> Result<(), StoreError> {
        while self.ledger.next_segment < next {
            let key = keys::segment(self.ledger.next_segment);
            let bytes = read_within(&*self.storage, &key, BYTES_MAX).await?;
            let read = read_segment(&mut self.ledger, &bytes);
            read.map_err(|wrong| wrong.at(&key))?;
        }
        Ok(())
    }
}

/// The ledger of the journal in `storage`, if there is a journal, without taking it over.
pub async fn read_ledger(storage: &dyn Storage) -> Result<Option<Ledger>, StoreError> {
    read_all(storage, &mut CheckpointSchedule::default()).await
}

#[cfg(test)]
mod tests;
