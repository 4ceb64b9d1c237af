//! Why a job does not go on, and why a call of a worker is refused.

use chomp_plan::{OutReason, StopReason};
use chomp_store::{FaultKind, StorageError, StoreError};
use chomp_worker::WorkerError;

use crate::publish::PublishError;

pub(crate) const WORKERS_MAX: usize = 4096;

/// The most calls of workers under way at a time, requests for tasks that wait among them: 16 of each worker.
pub(crate) const CALLS_MAX: usize = 1 << 16;

/// Why a job cannot go on.
#[expect(missing_docs, reason = "the variants are named for what they are")]
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The store failed, or is damaged, or another coordinator has it.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error("the referee cannot go on")]
    Referee(#[source] WorkerError),
    #[error("the job stopped: {0}")]
    Stopped(StopReason),
}

impl JobError {
    /// Whether the store does not work, and does not recover by itself: the job ends, and a person has to repair the
    /// store.
    pub(crate) fn is_storage_fault(&self) -> bool {
        match self {
            JobError::Store(error) | JobError::Publish(PublishError::Store(error)) => {
                matches!(error, StoreError::Storage(error) if ends_job(error))
            }
            JobError::Publish(_) | JobError::Referee(_) | JobError::Stopped(_) => false,
        }
    }
}

/// Whether a job ends for this error of the storage. The storage itself waits out transient faults.
pub(crate) fn ends_job(error: &StorageError) -> bool {
    !matches!(error.problem.fault(), None | Some(FaultKind::Damage))
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the coordinator is shutting down")]
    ShuttingDown,
    #[error(
        "too many calls are under way already, in all or of this participant: come back in 1 s"
    )]
    TooManyCalls,
    /// It has not joined, or was forgotten.
    #[error("this worker has not joined the job")]
    NotJoined,
    #[error(
        "a job has at most {WORKERS_MAX} workers at a time, and of one participant no more than it leaves room for: \
         start fewer with more threads, or come back in 90 s, when those that are gone are forgotten"
    )]
    TooManyWorkers,
    #[error("{0}")]
    Out(OutReason),
}
