//! Why something was not done.

use chomp_table::head::HEAD_BITS_MAX;
use chomp_table::{Head, RangeBits};

use super::ids::{LeaseId, Unit};

/// Why a result was not used.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It has no ranges.
    #[error("the result has no ranges")]
    Empty,
    /// A range is beyond the bits of this table, or a shard beyond its words.
    #[error("{unit} is not of this table")]
    Unknown { unit: Unit },
    /// A range occurs twice.
    #[error("range {head} occurs twice in the result")]
    Twice { head: Head },
    /// The ranges are of several layers.
    #[error("range {head} is not of layer {layer} as the first range of the result is")]
    Mixed { head: Head, layer: u32 },
    /// It is about something that the lease was not given for.
    #[error("{unit} is not part of lease {lease}")]
    NotLeased { unit: Unit, lease: LeaseId },
    /// The lease was not given to this worker, or it ended too long ago to be remembered.
    #[error("lease {lease} was not given to this worker by this coordinator, or ended long ago")]
    NoLease { lease: LeaseId },
    /// The part of the lease has bytes that are of no record, or records that it has no bytes for.
    #[error("the part of lease {lease} has {bytes} bytes, and its records fill {filled}")]
    Unfilled {
        lease: LeaseId,
        bytes: u64,
        filled: u64,
    },
    /// No worker can have computed this yet.
    #[error("{unit} was not to be computed yet: not all ranges that it draws on are committed")]
    NotReady { unit: Unit },
    /// Since the lease was given, ranges were withdrawn that the result may draw on. Or a shard was read that nobody
    /// asks for any more.
    #[error("the lease has ended, and its result is of no more use")]
    Stale,
    /// The worker has not joined, or was forgotten: join first.
    #[error("the worker has not joined the job")]
    NotJoined,
    /// The worker's results are not taken any more.
    #[error("{reason}")]
    Quarantined { reason: QuarantineReason },
    /// The job has stopped, and nothing is taken any more.
    #[error("the job has stopped")]
    Stopped,
}

/// Why a job stopped.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The coordinator was asked to go. The only reason that is no fault.
    #[error("the coordinator is shutting down")]
    Shutdown,
    /// A range or shard could not be computed, neither by workers nor by the coordinator.
    #[error(
        "{unit} was tried {attempts} times without a result; the last time {last}. The coordinator could not compute it \
         either: {own}"
    )]
    GaveUp {
        unit: Unit,
        attempts: u32,
        last: Loss,
        own: String,
    },
    /// The store does not keep what it is given.
    #[error(
        "the record of range {head} was lost or damaged {times} times: the store does not keep what \
         it is given; look at its disk, then start again"
    )]
    Lost { head: Head, times: u32 },
    /// The coordinator could not evaluate a range or merge a shard itself.
    #[error("the coordinator could not compute {unit} itself: {reason}")]
    ArbitrationFailed { unit: Unit, reason: String },
    /// The journal could not be written.
    #[error("results could not be committed: {reason}")]
    CommitFailed { reason: String },
    /// The table could not be published.
    #[error("the table could not be published: {reason}")]
    PublishFailed { reason: String },
}

/// How an attempt at a task failed. Workers are called by their names.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// The worker fell silent.
    #[error("worker {worker} did not renew its lease")]
    Expired { worker: String },
    /// The worker said that it could not.
    #[error("worker {worker} failed: {reason}")]
    Failed { worker: String, reason: String },
    /// The worker sent something else.
    #[error("the result of worker {worker} was rejected: {reason}")]
    Rejected { worker: String, reason: Rejection },
}

/// Why a worker gets no more tasks.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuarantineReason {
    /// Its result is not what the coordinator computed itself.
    #[error(
        "this worker sent a wrong content of {unit}: its machine cannot be trusted with this work"
    )]
    Lied { unit: Unit },
    /// An earlier coordinator found it out.
    #[error("{reason} (an earlier coordinator noted this)")]
    Recorded { reason: String },
    /// The owner of the table took its credential back.
    #[error("the owner of the table has taken back the credential of this worker")]
    Revoked,
}

/// Why there is no plan for a job.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// More ranges than a plan keeps in memory.
    #[error(
        "{size} bits with {range_bits} range bits make too many ranges: use at least {} range bits",
        size - HEAD_BITS_MAX
    )]
    TooManyRanges { range_bits: RangeBits, size: u32 },
    /// A unit is said to be done with two different contents.
    #[error("the content of {unit} is known in two versions")]
    Disagreement { unit: Unit },
}
