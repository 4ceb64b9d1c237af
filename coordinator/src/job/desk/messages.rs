//! The messages of workers to a desk, and its answers.

use std::sync::Arc;

use chomp_plan::{LeaseAnswer, Verdict};
use chomp_store::{Merged, PartName, Placed};
use chomp_table::Head;
use tokio::sync::oneshot;

use crate::error::Refusal;

/// A result of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerResult {
    /// The ranges in the part of the lease, heads ascending.
    Ranges(Vec<Placed>),
    /// A shard.
    Merged(Box<Merged>),
}

/// The answer to a request for a task, with what the worker needs for the task.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) answer: LeaseAnswer,
    /// The segments of the journal below this number say where the sources of the task are.
    pub(crate) journal: u64,
    /// The description of the shard that is to be read, if one is.
    pub(crate) written: Option<Box<Merged>>,
}

/// An object that a worker asks to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutTarget {
    Part(PartName),
    Shard(u32),
}

/// That an object is on its way into the store. Clones are of the same object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transfer(pub(super) Arc<()>);

/// Why a worker may not put an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PutRefused {
    /// It is of no lease that the worker holds.
    #[error("this object is not this worker's to write: it has no lease for it")]
    NoLease,
    /// The ranges of the lease do not fill it, whatever they are.
    #[error("the part of this lease has at most {most} bytes")]
    TooLong { most: u64 },
    /// The job does not take the call.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A result that the plan has not settled yet.
#[derive(Debug)]
pub(super) struct Submission {
    /// The lease that its part is named for.
    pub(super) lease: u64,
    pub(super) result: WorkerResult,
    /// Where the verdict goes, if a call still waits for it.
    pub(super) reply: Option<oneshot::Sender<Verdict>>,
}

impl Submission {
    /// The range of this head.
    pub(super) fn placed(&self, head: Head) -> &Placed {
        let WorkerResult::Ranges(ranges) = &self.result else {
            unreachable!("only ranges are written as ranges");
        };
        let at = ranges.binary_search_by_key(&head, |placed| placed.summary.head);
        &ranges[at.expect("the plan speaks of the ranges of the submission")]
    }
}
