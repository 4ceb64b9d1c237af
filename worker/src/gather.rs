//! The sources of a task, from the cache or from the store.
//!
//! If several lanes need a source at once, one of them reads it, and the others wait for that source and for nothing
//! else. [`MemoryBudget`] bounds what is read for the tasks under way.
//!
//! A few lanes read at a time, in the order in which they came. If all read at once, all would have their sources at
//! the same late moment, and the threads would have nothing to do until then.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use chomp_store::{READS_MAX, RangeRow};
use chomp_table::Head;
use chomp_table::format::describe;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::cache::{RangeCache, TaskSources};
use crate::client::lost_record;
use crate::pool::{Pool, decode_all};
use crate::store::Store;
use crate::trouble::Trouble;

/// The tasks that read sources at a time.
const READERS_MAX: usize = 4;
/// The bytes of memory that one permit stands for.
const PERMIT_BYTES: u64 = 1 << 10;
/// Up to this size, records are decoded on the thread that read them, as a change of threads takes longer.
const DECODED_HERE_MAX: usize = 1 << 16;
/// The most memory that a record and the range in it take, in lengths of the record: one for the record, two for the
/// range. A losing position has two bytes in the range and at least one in the record, a bucket four and two.
pub(crate) const MEMORY_PER_LENGTH: u64 = 3;

/// Gathers the sources of tasks, for all lanes of a worker.
pub(crate) struct Gatherer {
    pub(crate) pool: Arc<Pool>,
    pub(crate) cache: Arc<RangeCache>,
    pub(crate) memory: MemoryBudget,
    readers: Semaphore,
    /// The sources that are being read, each with a token that says when that is over.
    under_way: Mutex<BTreeMap<Head, CancellationToken>>,
}

/// The memory for sources that tasks under way have read. A source counts until its task is done, whether the cache
/// keeps it too or not. A task that needs more than the whole budget gets the whole budget.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    permits: Semaphore,
    permits_max: u32,
}

impl Gatherer {
    pub(crate) fn new(pool: Arc<Pool>, cache: Arc<RangeCache>, bytes_max: u64) -> Gatherer {
        Gatherer {
            pool,
            cache,
            memory: MemoryBudget::new(bytes_max),
            readers: Semaphore::new(READERS_MAX),
            under_way: Mutex::default(),
        }
    }

    /// `needed` ascends. The memory that the ranges take is given back when the permit is dropped.
    pub(crate) async fn gather(
        &self,
        store: &Store,
        needed: impl IntoIterator<Item = Head>,
    ) -> Result<(TaskSources, SemaphorePermit<'_>), Trouble> {
        let mut sources = TaskSources::default();
        let rows = store.done_ranges(needed).await?;
        let mut missing = self.cache.collect_cached(rows, &mut sources);
        let lengths = missing.iter().map(|(_, row)| u64::from(row.length));
        // A lane that waits here has claimed no source, so it blocks no other.
        let bytes = lengths.sum::<u64>() * MEMORY_PER_LENGTH;
        let memory = self.memory.take(bytes).await;
        if missing.is_empty() {
            return Ok((sources, memory));
        }
        // Only lanes that have a permit to read claim sources, so no reader waits for a lane that does not read.
        let turn = self.readers.acquire().await;
        let _turn = turn.expect("the semaphore is never closed");
        while !missing.is_empty() {
            missing = self.cache.collect_cached(missing, &mut sources);
            let claim = self.claim(&mut missing);
            if claim.rows.is_empty() {
                if let Some(other) = &claim.other {
                    other.cancelled().await;
                }
                continue;
            }
            self.read(store, &claim.rows, &mut sources).await?;
        }
        Ok((sources, memory))
    }

    async fn read(
        &self,
        store: &Store,
        rows: &[(Head, RangeRow)],
        sources: &mut TaskSources,
    ) -> Result<(), Trouble> {
        let records = store.records(rows).await?;
        let bytes: usize = records.iter().map(Bytes::len).sum();
        let heads = rows.iter().map(|(head, _)| *head);
        let records: Vec<(Head, Bytes)> = heads.zip(records).collect();
        let range_bits = store.range_bits;
        let decoded = if bytes <= DECODED_HERE_MAX {
            decode_all(&records, range_bits)
        } else {
            let decode = move |_: &mut _| decode_all(&records, range_bits);
            self.pool.run(true, decode).await?
        };
        let mut lost = Vec::new();
        for ((head, row), decoded) in rows.iter().zip(decoded) {
            match decoded {
                Ok(range) => {
                    sources.insert(Arc::clone(&range));
                    self.cache.insert(row.digest, range);
                }
                Err(error) => lost.push(lost_record(*head, row, describe(&error))),
            }
        }
        if lost.is_empty() {
            Ok(())
        } else {
            Err(Trouble::Lost(lost))
        }
    }

    /// Claims sources of `missing` that no lane reads, [`READS_MAX`] at most, and removes them from `missing`, which
    /// ascends.
    fn claim(&self, missing: &mut Vec<(Head, RangeRow)>) -> ReadClaim<'_> {
        let mut under_way = self.under_way.lock();
        let mut claim = ReadClaim {
            gatherer: self,
            rows: Vec::new(),
            over: CancellationToken::new(),
            other: None,
        };
        missing.retain(|&(head, row)| {
            if claim.rows.len() == READS_MAX {
                return true;
            }
            if let Some(other) = under_way.get(&head) {
                claim.other.get_or_insert_with(|| other.clone());
                return true;
            }
            under_way.insert(head, claim.over.clone());
            claim.rows.push((head, row));
            false
        });
        claim
    }
}

/// The right to read some sources. When it is dropped, the lanes that wait for them look again.
struct ReadClaim<'a> {
    gatherer: &'a Gatherer,
    rows: Vec<(Head, RangeRow)>,
    over: CancellationToken,
    /// Cancelled when another lane has read one of the sources that could not be claimed.
    other: Option<CancellationToken>,
}

impl Drop for ReadClaim<'_> {
    fn drop(&mut self) {
        let mut under_way = self.gatherer.under_way.lock();
        for (head, _) in &self.rows {
            under_way.remove(head);
        }
        self.over.cancel();
    }
}

impl MemoryBudget {
    fn new(bytes_max: u64) -> MemoryBudget {
        let permits_max = u32::try_from(bytes_max / PERMIT_BYTES)
            .unwrap_or(u32::MAX)
            .max(1);
        MemoryBudget {
            permits: Semaphore::new(permits_max as usize),
            permits_max,
        }
    }

    pub(crate) async fn take(&self, bytes: u64) -> SemaphorePermit<'_> {
        let permits = u32::try_from(bytes / PERMIT_BYTES).unwrap_or(u32::MAX);
        let permits = permits.min(self.permits_max);
        let permit = self.permits.acquire_many(permits).await;
        permit.expect("the semaphore is never closed")
    }
}
