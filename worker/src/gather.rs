//! The sources of a task, from the cache or from the coordinator.
//!
//! A source that several lanes need at once is fetched by one of them; the others wait for that
//! source, and for nothing else. What is fetched for the tasks under way is bounded: see [`Room`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chomp_table::sources::sources;
use chomp_table::{Head, RangeBits};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::cache::{Cache, TaskSources};
use crate::client::{Client, ClientError};
use crate::pool::{Pool, PoolError};

/// The unit in which memory is given out.
const UNIT: u64 = 1 << 10;
/// The sources that are fetched together: they are decoded when all of their records are there.
const CLAIM_MAX: usize = 8;
/// A source counts as if one in so many of its positions were losing: twice what is usual.
const POSITIONS_PER_LOSING: u64 = 64;

/// Gathers the sources of tasks, for all lanes of a worker.
#[derive(Debug)]
pub(crate) struct Gatherer {
    client: Client,
    pool: Arc<Pool>,
    cache: Arc<Cache>,
    room: Room,
    /// The sources that are being fetched, each with a token that says when that is over.
    under_way: Mutex<BTreeMap<Head, CancellationToken>>,
}

/// The memory for what is fetched, from then until the task that needs it is evaluated, whether
/// the cache keeps it too or not. A task that needs more than all of it has all of it for itself.
#[derive(Debug)]
struct Room {
    units: Semaphore,
    units_max: u32,
}

/// The sources of a task, and the memory that they take.
#[derive(Debug)]
pub(crate) struct Gathered<'a> {
    pub(crate) sources: TaskSources,
    pub(crate) room: SemaphorePermit<'a>,
}

/// Why sources cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatherError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl Gatherer {
    /// With `bytes_max` for the sources of tasks under way.
    pub(crate) fn new(
        client: Client,
        pool: Arc<Pool>,
        cache: Arc<Cache>,
        bytes_max: u64,
    ) -> Gatherer {
        Gatherer {
            client,
            pool,
            cache,
            room: Room::new(bytes_max),
            under_way: Mutex::default(),
        }
    }

    /// The sources of the ranges `heads`.
    pub(crate) async fn gather(&self, heads: &[Head]) -> Result<Gathered<'_>, GatherError> {
        let job = self.client.job();
        let needed = heads.iter().flat_map(|&head| sources(head, job.range_bits));
        let needed: Vec<Head> = needed.collect::<BTreeSet<_>>().into_iter().collect();
        let mut found = TaskSources::default();
        let mut missing = self.cache.collect(job.table, &needed, &mut found);
        // Whoever waits here has claimed nothing yet, so nobody waits for them.
        let room = self.room.take(missing.len(), job.range_bits).await;
        while !missing.is_empty() {
            missing = self.cache.collect(job.table, &missing, &mut found);
            let claim = self.claim(&missing);
            if claim.heads.is_empty() {
                if let Some(other) = &claim.other {
                    other.cancelled().await;
                }
                continue;
            }
            self.cache.missed(claim.heads.len());
            let records = self.client.fetch(&claim.heads).await?;
            for range in self.pool.decode(records).await? {
                found.insert(Arc::clone(&range));
                self.cache.insert(job.table, range);
            }
            missing.retain(|head| claim.heads.binary_search(head).is_err());
        }
        Ok(Gathered {
            sources: found,
            room,
        })
    }

    /// Claims those of `missing`, which ascend, that nobody fetches, up to [`CLAIM_MAX`].
    fn claim(&self, missing: &[Head]) -> Claim<'_> {
        let mut under_way = self.under_way();
        let mut claim = Claim {
            gatherer: self,
            heads: Vec::new(),
            over: CancellationToken::new(),
            other: None,
        };
        for &head in missing {
            if claim.heads.len() == CLAIM_MAX {
                break;
            }
            if let Some(other) = under_way.get(&head) {
                claim.other.get_or_insert_with(|| other.clone());
            } else {
                under_way.insert(head, claim.over.clone());
                claim.heads.push(head);
            }
        }
        claim
    }

    // Held for single operations on whole values: a panic leaves nothing half done.
    fn under_way(&self) -> MutexGuard<'_, BTreeMap<Head, CancellationToken>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to fetch some sources. When it is dropped, those who wait look again.
struct Claim<'a> {
    gatherer: &'a Gatherer,
    heads: Vec<Head>,
    over: CancellationToken,
    /// When another lane's fetch of one of the others is over.
    other: Option<CancellationToken>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut under_way = self.gatherer.under_way();
        for head in &self.heads {
            under_way.remove(head);
        }
        self.over.cancel();
    }
}

impl Room {
    fn new(bytes_max: u64) -> Room {
        let units_max = u32::try_from(bytes_max / UNIT).unwrap_or(u32::MAX).max(1);
        Room {
            units: Semaphore::new(units_max as usize),
            units_max,
        }
    }

    async fn take(&self, sources: usize, range_bits: RangeBits) -> SemaphorePermit<'_> {
        let losing = range_bits.positions() / POSITIONS_PER_LOSING;
        let bytes = (losing * size_of::<u16>() as u64).saturating_mul(sources as u64);
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX);
        let units = units.min(self.units_max);
        let permit = self.units.acquire_many(units).await;
        permit.expect("the semaphore is never closed")
    }
}
