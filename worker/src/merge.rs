//! Writes a shard from the ranges that its words are in, or compares one that another worker has written with them.
//!
//! While some ranges are merged, on a thread of the pool, the next ones are read. The memory is that
//! of the shard and of these ranges.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use chomp_kernel::Source;
use chomp_proto::v1;
use chomp_store::merge::{MergeError, Merger, ShardBounds};
use chomp_store::{Difference, RangeRow, ShardSummary, published};
use chomp_table::format::describe;
use chomp_table::manifest::folder_name;
use chomp_table::shard::ShardSize;
use chomp_table::{Head, RangeBits};
use tokio_util::sync::CancellationToken;

use crate::client::lost_record;
use crate::gather::{Gatherer, MEMORY_PER_LENGTH};
use crate::link::JobDescription;
use crate::pool::decode;
use crate::store::Store;
use crate::trouble::Trouble;

/// A batch of records to merge is full once it has this size.
const BATCH_BYTES: u64 = 1 << 20;
/// The most records that are merged at a time.
const BATCH_MAX: usize = 256;

pub(crate) struct Merge<'a> {
    pub(crate) job: &'a JobDescription,
    pub(crate) store: &'a Store,
    pub(crate) gatherer: &'a Gatherer,
    pub(crate) shard_size: ShardSize,
    pub(crate) stop: &'a CancellationToken,
}

/// Ranges with what the journal says of them.
type NotedRanges = Vec<(Head, RangeRow, MergeInput)>;

#[derive(Debug)]
enum MergeInput {
    Cached(Arc<Source>),
    Read(Bytes),
}

impl Merge<'_> {
    /// Returns the shard's description. `start`: its number, its first range, the stored words to skip of that range.
    pub(crate) async fn run(
        &self,
        start: (u32, Head, u64),
        known_summary: Option<Box<ShardSummary>>,
    ) -> Result<v1::Merged, Trouble> {
        let (own, bytes) = self.merge(start).await?;
        let Some(known) = known_summary else {
            self.put(&own, bytes).await?;
            return Ok(v1::Merged {
                json: own.to_json(),
                is_forged: false,
            });
        };
        drop(bytes);
        let is_forged = self.is_forged(&known, own.clone()).await?;
        let shard = known.shard;
        Ok(v1::Merged {
            json: ShardSummary { shard, ..own }.to_json(),
            is_forged,
        })
    }

    /// Whether the file of a shard is as `known` describes it, but has other words than this worker has merged. Fails if
    /// it is not as described.
    async fn is_forged(&self, known: &ShardSummary, own: ShardSummary) -> Result<bool, Trouble> {
        let file = known.file();
        let bytes = file.as_ref().map_or(0, |file| file.bytes);
        let _room = self.gatherer.memory.take(bytes).await;
        let read = match file {
            Some(file) => {
                let read = published::read(&*self.store.storage, self.job.bits, &file).await?;
                read.ok_or_else(|| Trouble::Failed(format!("{} cannot be read", file.name)))?
            }
            None => Bytes::new(),
        };
        let known = known.shard.clone();
        let compare = move |_: &mut _| own.compare(known.as_ref(), &read);
        match self.gatherer.pool.run(false, compare).await? {
            Ok(()) => Ok(false),
            Err(Difference::Forged) => Ok(true),
            Err(error @ Difference::Mismatch) => Err(Trouble::failed(&error)),
        }
    }

    async fn merge(
        &self,
        start: (u32, Head, u64),
    ) -> Result<(ShardSummary, Option<Vec<u8>>), Trouble> {
        let (bits, range_bits) = (self.job.bits, self.job.range_bits);
        let (size, pool) = (self.shard_size, &self.gatherer.pool);
        let bounds = {
            let journal = self.store.journal.read().await;
            ShardBounds::new(journal.ledger(), bits, size.shard_words as u64, start)?
        };
        // The shard, twice when it is finished, and two batches.
        let memory = 4 * size.shard_words as u64 + 2 * MEMORY_PER_LENGTH * BATCH_BYTES;
        let _room = self.gatherer.memory.take(memory).await;

        let mut filling = Merger::new(bits, range_bits, size, bounds);
        let mut batch = self.read(bounds.head..bounds.end).await?;
        while !batch.is_empty() {
            if self.stop.is_cancelled() {
                return Err(Trouble::Stopped);
            }
            let next = batch
                .last()
                .map_or(bounds.head, |(head, ..)| Head(head.0 + 1));
            let merge = pool.run(false, move |_| push(filling, &batch, range_bits));
            let (done, read) = tokio::join!(merge, self.read(next..bounds.end));
            filling = done??;
            if filling.next_head().is_none() {
                break;
            }
            batch = read?;
        }
        let finished = pool.run(false, |_| filling.finish()).await?;
        Ok(finished?)
    }

    async fn put(&self, summary: &ShardSummary, bytes: Option<Vec<u8>>) -> Result<(), Trouble> {
        if let (Some(file), Some(bytes)) = (summary.file(), bytes) {
            let folder = folder_name(self.job.bits);
            let key = published::key(&folder, &file.name);
            let key = key.map_err(|error| Trouble::failed(&error))?;
            // The file replaces another shard of that name, as long as the table is not published.
            published::put(&*self.store.storage, &folder, &key, bytes.into()).await?;
        }
        Ok(())
    }

    /// The next batch: the first of these ranges, as many as are merged at a time. Empty if there are no ranges.
    async fn read(&self, ranges: Range<Head>) -> Result<NotedRanges, Trouble> {
        let heads = (ranges.start.0..ranges.end.0).map(Head);
        let mut rows = self.store.done_ranges(heads.take(BATCH_MAX)).await?;
        let mut bytes = 0;
        rows.retain(|(_, row)| {
            let before = bytes;
            bytes += u64::from(row.length);
            before < BATCH_BYTES
        });
        let mut batch = NotedRanges::with_capacity(rows.len());
        rows.retain(|&(head, row)| match self.gatherer.cache.peek(head, &row) {
            Some(range) => {
                batch.push((head, row, MergeInput::Cached(range)));
                false
            }
            None => true,
        });
        let records = self.store.records(&rows).await?;
        let read = rows.into_iter().zip(records);
        batch.extend(read.map(|((head, row), record)| (head, row, MergeInput::Read(record))));
        batch.sort_unstable_by_key(|(head, ..)| *head);
        Ok(batch)
    }
}

fn push(mut merger: Merger, batch: &NotedRanges, range_bits: RangeBits) -> Result<Merger, Trouble> {
    for (head, row, ready) in batch {
        let lost = |reason| Trouble::Lost(vec![lost_record(*head, row, reason)]);
        if merger.next_head() != Some(*head) {
            break;
        }
        let decoded;
        let range = match ready {
            MergeInput::Cached(range) => range,
            MergeInput::Read(record) => {
                decoded = decode(*head, record, range_bits);
                let decoded = decoded.as_ref();
                decoded.map_err(|error| lost(describe(error)))?
            }
        };
        let losing = range.losing();
        if losing.len() as u64 != row.count {
            return Err(lost("it is not what the journal says".to_owned()));
        }
        let pushed = merger.push(*head, losing, row.stored);
        pushed.map_err(|error| match error {
            MergeError::Stored { .. } => lost(error.to_string()),
            error => error.into(),
        })?;
    }
    Ok(merger)
}
