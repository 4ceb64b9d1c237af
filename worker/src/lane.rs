//! One task after the other, from lease to submission.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chomp_table::format::describe;
use tokio_util::sync::CancellationToken;

use crate::End;
use crate::cache::Cache;
use crate::client::{Answer, Client, ClientError, LeaseId, Task, Verdict};
use crate::gather::{GatherError, Gathered, Gatherer};
use crate::pool::{Pool, PoolError};

/// How often the coordinator hears from the worker within the time of a lease.
const HEARTBEATS_PER_LEASE: u32 = 4;
/// The least time between two heartbeats.
const HEARTBEAT_MIN: Duration = Duration::from_millis(100);

/// What a lane works with; all lanes of a worker share it.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) client: Client,
    pub(crate) pool: Arc<Pool>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) gatherer: Arc<Gatherer>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) stop: CancellationToken,
}

/// The leases that the worker holds.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    held: Mutex<BTreeSet<LeaseId>>,
}

/// What becomes of a task.
enum Outcome {
    /// It was submitted.
    Submitted(Verdict),
    /// The worker stops before it has begun to evaluate it.
    Stopped,
    /// It cannot be done here, for this reason.
    Failed(String),
}

impl Lane {
    /// Takes tasks until there are no more, or until it is told to stop.
    pub(crate) async fn run(self) -> Result<End, ClientError> {
        loop {
            let answer = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(End::Stopped),
                answer = self.client.lease() => answer?,
            };
            match answer {
                Answer::Task(task) => self.work(task).await?,
                Answer::Wait => {}
                Answer::Finished => return Ok(End::Finished),
            }
        }
    }

    async fn work(&self, task: Task) -> Result<(), ClientError> {
        let lease = task.lease;
        self.leases.held().insert(lease);
        let outcome = self.evaluate_and_submit(task).await;
        self.leases.held().remove(&lease);
        match outcome? {
            Outcome::Submitted(Verdict::Taken) => Ok(()),
            Outcome::Submitted(Verdict::Rejected(reason)) => {
                tracing::warn!("the coordinator has no use for a result: {reason}");
                Ok(())
            }
            Outcome::Stopped => self.give_back(lease, "").await,
            Outcome::Failed(reason) => {
                tracing::warn!("a task failed: {reason}");
                self.give_back(lease, &reason).await
            }
        }
    }

    async fn give_back(&self, lease: LeaseId, failure: &str) -> Result<(), ClientError> {
        match self.client.give_back(lease, failure).await {
            // It is not ours any more.
            Err(ClientError::Unfit { reason, .. }) => {
                tracing::debug!("a lease was not taken back: {reason}");
                Ok(())
            }
            result => result,
        }
    }

    async fn evaluate_and_submit(&self, task: Task) -> Result<Outcome, ClientError> {
        let table = self.client.job().table;
        let gathered = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Ok(Outcome::Stopped),
            gathered = self.gatherer.gather(&task.heads) => gathered,
        };
        let Gathered { sources, room } = match gathered {
            Ok(gathered) => gathered,
            Err(GatherError::Client(error)) => return failed(error),
            Err(GatherError::Pool(error)) => return Ok(Outcome::Failed(describe(&error))),
        };
        let evaluated = self.pool.evaluate(task.heads, sources, self.stop.clone());
        let ranges = match evaluated.await {
            Ok(ranges) => ranges,
            Err(PoolError::Stopped) => return Ok(Outcome::Stopped),
            Err(error) => return Ok(Outcome::Failed(describe(&error))),
        };
        drop(room);
        let mut records = Vec::with_capacity(ranges.len());
        for (range, record) in ranges {
            records.push((range.head(), record));
            self.cache.insert(table, range);
        }
        match self.client.submit(task.lease, &records).await {
            Ok(verdict) => Ok(Outcome::Submitted(verdict)),
            Err(error) => failed(error),
        }
    }

    /// Says again and again that the worker is there, and what it holds. Ends only when the
    /// coordinator is of no use any more.
    pub(crate) async fn heartbeat(self) -> ClientError {
        loop {
            let interval = self.client.job().lease / HEARTBEATS_PER_LEASE;
            tokio::time::sleep(interval.max(HEARTBEAT_MIN)).await;
            // Those of before the sleep may be done with.
            let leases: Vec<LeaseId> = self.leases.held().iter().copied().collect();
            match self.client.renew(&leases, self.cache.stats()).await {
                Ok(lost) if lost.is_empty() => {}
                // A lease whose result is being written has ended too.
                Ok(lost) => tracing::debug!(
                    "{} leases ended; their results are still submitted",
                    lost.len()
                ),
                Err(error) => return error,
            }
        }
    }
}

/// A call that the coordinator does not accept is one task's failure, everything else the worker's.
fn failed(error: ClientError) -> Result<Outcome, ClientError> {
    match error {
        ClientError::Unfit { .. } => Ok(Outcome::Failed(describe(&error))),
        error => Err(error),
    }
}

impl Leases {
    fn held(&self) -> MutexGuard<'_, BTreeSet<LeaseId>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
