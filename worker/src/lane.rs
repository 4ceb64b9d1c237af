//! A lane: it does one task after the other, each from its lease to its result.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chomp_store::{PartName, PlacedRange};
use chomp_table::Head;
use chomp_table::format::describe;
use chomp_table::shard::ShardSize;
use chomp_table::sources::sources;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::cache::RangeCache;
use crate::client::{Client, LeasedTask, TaskAnswer, TaskResult, TaskWork, evaluated};
use crate::error::ClientError;
use crate::gather::Gatherer;
use crate::merge::Merge;
use crate::pool::Pool;
use crate::store::{Store, StoreProvider};
use crate::trouble::{LogLimiter, Trouble};
use crate::{End, WorkerError};

const HEARTBEATS_PER_LEASE: u32 = 4;
/// The least time between two heartbeats.
const HEARTBEAT_MIN: Duration = Duration::from_millis(100);

/// The pause after a task that failed, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(8));

/// The context that all lanes of a worker share. Each lane runs [`run_lane`](WorkerContext::run_lane).
pub(crate) struct WorkerContext {
    pub(crate) client: Client,
    pub(crate) pool: Arc<Pool>,
    pub(crate) cache: Arc<RangeCache>,
    pub(crate) gatherer: Gatherer,
    pub(crate) stores: StoreProvider,
    pub(crate) leases: Mutex<BTreeSet<u64>>,
    pub(crate) log_limit: LogLimiter,
    pub(crate) shard_size: ShardSize,
    pub(crate) drain: CancellationToken,
    pub(crate) stop: CancellationToken,
}

impl WorkerContext {
    /// Takes tasks until there are no more, or until it is told to drain or to stop. After a task that failed it
    /// pauses, twice as long after each further one.
    pub(crate) async fn run_lane(self: Arc<WorkerContext>) -> Result<End, WorkerError> {
        let mut answer = TaskAnswer::Wait;
        let mut pause = PAUSES.0;
        loop {
            answer = match answer {
                // A task that was leased too late is offered to others when the worker leaves.
                TaskAnswer::Task(_) | TaskAnswer::Wait if self.drain.is_cancelled() => {
                    return Ok(End::Drained);
                }
                TaskAnswer::Task(task) => {
                    if let Some(next) = self.run_task(task).await? {
                        pause = PAUSES.0;
                        next
                    } else {
                        let paused = tokio::time::timeout(pause, self.stop.cancelled());
                        // The next round notices if the worker was told to stop.
                        let _ = paused.await;
                        pause = (pause * 2).min(PAUSES.1);
                        TaskAnswer::Wait
                    }
                }
                TaskAnswer::Wait => tokio::select! {
                    biased;
                    () = self.stop.cancelled() => return Ok(End::Stopped),
                    () = self.drain.cancelled() => return Ok(End::Drained),
                    answer = self.client.lease() => answer?,
                },
                TaskAnswer::Finished => return Ok(End::Finished),
            }
        }
    }

    /// Returns the answer to the request for the next task; or nothing if the task failed, and its lease was returned.
    async fn run_task(&self, task: LeasedTask) -> Result<Option<TaskAnswer>, WorkerError> {
        let (lease, journal_end) = (task.lease, task.journal_end);
        self.leases.lock().insert(lease);
        let done = self.perform(task).await;
        self.leases.lock().remove(&lease);
        let trouble = match done {
            Ok(next) => return Ok(Some(next)),
            Err(trouble) => trouble,
        };
        let failure = match trouble {
            Trouble::Stopped => String::new(),
            Trouble::Lost(lost) => {
                for lost in &lost {
                    let (head, reason) = (Head(lost.head), &lost.reason);
                    tracing::warn!("cannot read the record of range {head}: {reason}");
                }
                let found = self.client.report(lost.clone()).await?;
                let unreadable = lost.iter().find(|lost| found.in_order.contains(&lost.head));
                if let Some(lost) = unreadable {
                    self.stores.detour(found.in_order).await;
                    let (head, reason) = (Head(lost.head), &lost.reason);
                    format!(
                        "the record of range {head} is in order and cannot be read here: {reason}"
                    )
                } else if lost.iter().all(|lost| found.lost.contains(&lost.head)) {
                    String::new()
                } else {
                    "the coordinator could not look at records that cannot be read here".to_owned()
                }
            }
            // The range was withdrawn after the coordinator leased the task, so it has withdrawn the task too.
            Trouble::Missing(_) if self.stores.has_read_beyond(journal_end).await => String::new(),
            Trouble::Missing(head) => format!("range {head} is not done"),
            Trouble::Failed(reason) => reason,
            Trouble::Store(error) => {
                self.give_back(lease, &describe(&error)).await?;
                if self.stores.fall_back(&error).await {
                    return Ok(Some(TaskAnswer::Wait));
                }
                return Err(WorkerError::Store(error));
            }
            Trouble::Client(error) => return Err(error.into()),
        };
        self.give_back(lease, &failure).await?;
        if failure.is_empty() {
            return Ok(Some(TaskAnswer::Wait));
        }
        if self.log_limit.may_log() {
            tracing::warn!("a task failed: {failure}");
        }
        Ok(None)
    }

    async fn give_back(&self, lease: u64, failure: &str) -> Result<(), ClientError> {
        match self.client.give_back(lease, failure).await {
            // The lease had ended already.
            Err(ClientError::Rejected { reason, .. }) => {
                tracing::debug!("a lease was not taken back: {reason}");
                Ok(())
            }
            result => result,
        }
    }

    /// Does a task and submits its result, with the request for the next task.
    async fn perform(&self, task: LeasedTask) -> Result<TaskAnswer, Trouble> {
        let store = self
            .unless_stopped(self.stores.caught_up_to(task.journal_end))
            .await?;
        let lease = task.lease;
        let result = match task.work {
            TaskWork::Evaluate {
                layer,
                heads,
                is_check,
            } => {
                let (part, placed) = self.evaluate(&store, heads).await?;
                if !is_check {
                    let key = PartName { layer, lease }.key();
                    store.storage.create(&key, part).await?;
                }
                evaluated(&placed)
            }
            TaskWork::Merge {
                start,
                known_summary,
            } => {
                let merge = Merge {
                    job: &self.client.job(),
                    store: &store,
                    gatherer: &self.gatherer,
                    shard_size: self.shard_size,
                    stop: &self.stop,
                };
                TaskResult::Merged(merge.run(start, known_summary).await?)
            }
        };
        if !self.drain.is_cancelled() {
            tokio::select! {
                biased;
                // The worker stops: it waits for the verdict below, and wants no further task.
                () = self.stop.cancelled() => {}
                next = self.client.complete(lease, &result, true) => return Ok(next?),
            }
        }
        Ok(self.client.complete(lease, &result, false).await?)
    }

    /// Evaluates ranges; returns their part, and where each is in it.
    async fn evaluate(
        &self,
        store: &Store,
        heads: Vec<Head>,
    ) -> Result<(Bytes, Vec<PlacedRange>), Trouble> {
        let range_bits = self.client.job().range_bits;
        let needed = heads.iter().flat_map(|&head| sources(head, range_bits));
        let needed: BTreeSet<Head> = needed.collect();
        let gathered = self.gatherer.gather(store, needed);
        let (sources, memory) = self.unless_stopped(gathered).await?;
        let evaluated = self.pool.evaluate(heads, sources, self.stop.clone());
        let (part, placed, ranges) = evaluated.await?;
        drop(memory);
        for (placed, range) in placed.iter().zip(ranges) {
            self.cache.insert(placed.summary.digest, range);
        }
        Ok((part, placed))
    }

    async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Trouble::Stopped),
            done = work => done,
        }
    }

    /// Heartbeats have the leases of all lanes. Ends only when the worker has to give the coordinator up.
    pub(crate) async fn heartbeat(&self) -> ClientError {
        loop {
            let interval = self.client.job().lease / HEARTBEATS_PER_LEASE;
            tokio::time::sleep(interval.max(HEARTBEAT_MIN)).await;
            // Read after the sleep, since leases may end during it.
            let leases = self.leases.lock().iter().copied().collect();
            match self.client.renew(leases).await {
                Ok(lost) if lost.is_empty() => {}
                // A lease whose result is being written has ended too.
                Ok(lost) => tracing::debug!(
                    "{} leases ended: their results count only if they repeat what is done",
                    lost.len()
                ),
                Err(error) => return error,
            }
        }
    }
}
