//! One task after the other, from lease to submission.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chomp_table::format::describe;
use chomp_table::sources::sources;
use tokio_util::sync::CancellationToken;

use crate::End;
use crate::WorkerError;
use crate::cache::{Cache, TaskSources};
use crate::client::{Answer, Client, ClientError, LeaseId, Task};
use crate::pool::{Evaluated, Pool, Work};

/// How often leases are renewed when none says how long it lasts.
const RENEWAL_IDLE: Duration = Duration::from_millis(500);
/// How often a lease is renewed within its time.
const RENEWALS_PER_LEASE: u32 = 4;

/// What a lane works with; all lanes of a worker share it.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) client: Client,
    pub(crate) pool: Arc<Pool>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) stop: CancellationToken,
}

/// The leases that the worker holds, and how long each lasts unless renewed.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    held: Mutex<HashMap<LeaseId, Duration>>,
    /// Held while sources are fetched, so that two lanes do not fetch the same.
    fetching: tokio::sync::Mutex<()>,
}

impl Lane {
    /// Takes tasks until there are no more, or until it is told to stop.
    pub(crate) async fn run(self) -> Result<End, WorkerError> {
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
                Answer::Stopped(reason) => {
                    tracing::debug!("the coordinator stopped the job: {reason}");
                    return Ok(End::Stopped);
                }
            }
        }
    }

    async fn work(&self, task: Task) -> Result<(), WorkerError> {
        let lease = task.lease;
        self.leases.hold(lease, task.duration);
        let result = self.evaluate_and_submit(task).await;
        self.leases.release(lease);
        match result {
            Ok(()) => Ok(()),
            Err(TaskError::Client(error)) => Err(error.into()),
            Err(TaskError::Task(reason)) => {
                tracing::warn!("a task failed: {reason}");
                Ok(self.client.give_back(lease, reason).await?)
            }
        }
    }

    async fn evaluate_and_submit(&self, task: Task) -> Result<(), TaskError> {
        let work = self.gather(&task).await?;
        if self.stop.is_cancelled() {
            return Ok(self.client.give_back(task.lease, String::new()).await?);
        }
        let outcome = self.pool.evaluate(work).await;
        let Evaluated { ranges, decoded } =
            outcome.map_err(|error| TaskError::Task(describe(&error)))?;
        for range in decoded {
            self.cache.insert(range);
        }
        let mut records = Vec::with_capacity(ranges.len());
        for (range, record) in ranges {
            records.push((range.head, record));
            self.cache.insert(range);
        }
        Ok(self.client.submit(task.lease, records).await?)
    }

    /// Finds the sources of a task, in the cache or at the coordinator.
    async fn gather(&self, task: &Task) -> Result<Work, TaskError> {
        let range_bits = self.client.job().range_bits;
        let needed: BTreeSet<_> = task
            .heads
            .iter()
            .flat_map(|&head| sources(head, range_bits))
            .collect();
        let needed: Vec<_> = needed.into_iter().collect();
        let mut found = TaskSources::default();
        let mut missing = self.cache.collect(&needed, &mut found);
        let mut records = Vec::new();
        if !missing.is_empty() {
            let _one_at_a_time = self.leases.fetching.lock().await;
            missing = self.cache.collect(&missing, &mut found);
            records = self.client.fetch(missing).await?;
        }
        Ok(Work {
            heads: task.heads.clone(),
            sources: found,
            records,
        })
    }

    /// Renews all leases, for as long as it is polled.
    pub(crate) async fn renew(self) {
        loop {
            let (_, shortest) = self.leases.all();
            tokio::time::sleep(shortest.map_or(RENEWAL_IDLE, |lease| lease / RENEWALS_PER_LEASE))
                .await;
            // Those of before the sleep may be done with.
            let (leases, _) = self.leases.all();
            if leases.is_empty() {
                continue;
            }
            match self.client.renew(leases).await {
                Ok(lost) if lost.is_empty() => {}
                // A lease whose result is being written has ended too.
                Ok(lost) => tracing::debug!(
                    "{} leases ended; their results are still submitted",
                    lost.len()
                ),
                Err(error) => tracing::warn!("cannot renew leases: {}", describe(&error)),
            }
        }
    }
}

impl Leases {
    fn hold(&self, lease: LeaseId, duration: Duration) {
        self.held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(lease, duration);
    }

    fn release(&self, lease: LeaseId) {
        self.held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&lease);
    }

    fn all(&self) -> (Vec<LeaseId>, Option<Duration>) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        (held.keys().copied().collect(), held.values().copied().min())
    }
}

/// Why a task did not end in a submission.
enum TaskError {
    /// The coordinator cannot be reached: the worker ends.
    Client(ClientError),
    /// This task cannot be done here: it is handed back with the reason.
    Task(String),
}

impl From<ClientError> for TaskError {
    fn from(error: ClientError) -> TaskError {
        TaskError::Client(error)
    }
}
