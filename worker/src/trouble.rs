//! Why a task is not done here.

use std::time::Duration;

use chomp_proto::v1::LostRecord;
use chomp_store::merge::MergeError;
use chomp_store::{FaultKind, StorageError, StoreError};
use chomp_table::Head;
use chomp_table::format::describe;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::ClientError;

const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Why a task is not done here; each variant has a reaction of its own.
#[derive(Debug)]
pub(crate) enum Trouble {
    Stopped,
    /// Records that it needs are missing or damaged: the worker reports them.
    Lost(Vec<LostRecord>),
    /// A range that it needs is not in the journal, as far as the worker has read it.
    Missing(Head),
    /// The worker has to give the coordinator up.
    Client(ClientError),
    /// The store does not work for this worker, and will not by itself.
    Store(StorageError),
    /// Anything else. Another worker may do the task, or this one later.
    Failed(String),
}

impl Trouble {
    pub(crate) fn failed(error: &(dyn std::error::Error + 'static)) -> Trouble {
        Trouble::Failed(describe(error))
    }
}

impl From<ClientError> for Trouble {
    /// A call that the coordinator does not accept is one task's failure, everything else the worker's.
    fn from(error: ClientError) -> Trouble {
        match error {
            ClientError::Rejected { .. } => Trouble::failed(&error),
            error => Trouble::Client(error),
        }
    }
}

impl From<StorageError> for Trouble {
    fn from(error: StorageError) -> Trouble {
        // Requests through the coordinator fail as calls to it do.
        match error.source.downcast_ref::<ClientError>() {
            Some(client) => client.clone().into(),
            None => match error.problem.fault() {
                None | Some(FaultKind::Damage) => Trouble::failed(&error),
                // The store has retried after passing faults already, so this one lasts.
                Some(_) => Trouble::Store(error),
            },
        }
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        match error {
            StoreError::Storage(error) => error.into(),
            error => Trouble::failed(&error),
        }
    }
}

impl From<MergeError> for Trouble {
    fn from(error: MergeError) -> Trouble {
        match error {
            MergeError::Missing { head } => Trouble::Missing(head),
            error => Trouble::failed(&error),
        }
    }
}

/// Lets a message be logged at most once in [`LOG_INTERVAL`].
#[derive(Debug, Default)]
pub(crate) struct LogLimiter(Mutex<Option<Instant>>);

impl LogLimiter {
    /// Whether the message may be logged now. The caller then logs it.
    pub(crate) fn may_log(&self) -> bool {
        let mut logged = self.0.lock();
        let may = logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL);
        if may {
            *logged = Some(Instant::now());
        }
        may
    }
}
