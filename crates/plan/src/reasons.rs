//! Why something was not done.

use std::fmt::Display;

use chomp_table::head::HEAD_BITS_MAX;
use chomp_table::{Head, RangeBits};

use super::ids::{LeaseId, Unit};

/// A number of things, for people: "1 range", "2 ranges".
pub fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let ending = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// Why a result was not used.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the ranges of the result are not in ascending order, or there are none")]
    Unordered,
    #[error("{unit} is not part of lease {lease}")]
    NotLeased { unit: Unit, lease: LeaseId },
    /// A late result equal to what is committed is accepted all the same.
    #[error("this worker does not hold lease {lease}: it was never given to it, or has ended")]
    NoLease { lease: LeaseId },
    #[error("the part of lease {lease} has {bytes} bytes, and its records fill {filled}")]
    Unfilled {
        lease: LeaseId,
        bytes: u64,
        filled: u64,
    },
    /// The worker has not joined, or was forgotten: join first.
    #[error("the worker has not joined the job")]
    NotJoined,
    #[error("{reason}")]
    Out { reason: OutReason },
    #[error("the job has stopped")]
    Stopped,
}

/// Why a job stopped.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The only reason that is no fault.
    #[error("the coordinator is shutting down")]
    Shutdown,
    #[error("{unit} was tried {attempts} times without a result; the last time {last}")]
    GaveUp {
        unit: Unit,
        attempts: u32,
        last: Failure,
    },
    #[error(
        "the record of range {head} was lost or damaged {times} times: the store does not keep what \
         it is given; look at its disk, then start again"
    )]
    Lost { head: Head, times: u32 },
    #[error("results could not be committed: {reason}")]
    CommitFailed { reason: String },
    #[error("the table could not be published: {reason}")]
    PublishFailed { reason: String },
}

/// How an attempt at a task failed. `worker` is a name for people to read.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("worker {worker} did not renew its lease")]
    Expired { worker: String },
    #[error("worker {worker} failed: {reason}")]
    Reported { worker: String, reason: String },
}

/// Why a worker gets no more tasks.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutReason {
    /// Its result is not what the referee found.
    #[error(
        "this worker sent a wrong content of {unit}: its machine cannot be trusted with this work"
    )]
    Wrong { unit: Unit },
    #[error("{reason} (an earlier coordinator noted this)")]
    Recorded { reason: String },
    #[error("the owner of the table has taken back the credential of this worker")]
    Revoked,
}

/// Why there is no plan for a job.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// More ranges than a plan keeps in memory.
    #[error(
        "{bits} bits with {range_bits} range bits make too many ranges: use at least {} range bits",
        bits - HEAD_BITS_MAX
    )]
    TooManyRanges { range_bits: RangeBits, bits: u32 },
    #[error("the content of {unit} is known in two versions")]
    Disagreement { unit: Unit },
}
