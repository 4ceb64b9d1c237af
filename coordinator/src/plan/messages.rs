//! What the plan is told, what it asks for, and the names of things in both.

use std::fmt;

use chomp_table::{Head, RangeBits};

use chomp_table::RangeSummary;

use super::Phase;
use super::ranges::HEAD_BITS_MAX;

/// Defines ids that cannot be mixed up with each other.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// A worker, for as long as its process lives. Given by the caller; a worker that lost contact
    /// comes back with the same.
    WorkerId
    /// A lease on one task. Given by the plan; [`Settings::epoch`] keeps those of different plans
    /// apart.
    LeaseId
    /// A request for a task. Given by the caller, never used twice; requests that have to wait
    /// are served in the order of their ids.
    RequestId
    /// A result handed in. Given by the caller, never used twice.
    SubmissionId
}

/// Milliseconds since some start, as told by the caller's monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// The time `millis` later, or the end of time.
    pub(super) const fn plus(self, millis: u64) -> Millis {
        Millis(self.0.saturating_add(millis))
    }
}

/// What a plan is for, and how it shares out the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The bits of the table.
    pub bits: u32,
    /// The low bits of a range.
    pub range_bits: RangeBits,
    /// The number of this owner of the table. Leases are counted from 2^32 times it.
    pub epoch: u64,
    /// A range is done when so many workers have computed the same.
    pub replicas: u32,
    /// How long a lease lasts, in milliseconds, from the moment it is given or renewed.
    pub lease_ms: u64,
    /// A worker without leases and requests that was not heard of for so long is forgotten.
    pub silence_ms: u64,
    /// A lease that has stood for so long is doubled when another worker would have nothing to do.
    pub straggler_ms: u64,
    /// A range whose computation failed so often stops the job.
    pub failures_max: u32,
    /// A range whose leases ran out so often stops the job. Machines die for reasons of their own,
    /// so this is more than [`failures_max`](Self::failures_max).
    pub expiries_max: u32,
    /// A worker that failed so many tasks in a row gets no more.
    pub worker_failures_max: u32,
    /// The most positions of a task. A task of a single range may have more.
    pub task_positions_max: u64,
    /// No task is cut smaller than this, as long as every thread gets one: each costs two syncs.
    pub task_positions_min: u64,
    /// Into how many tasks a layer is cut for each thread, if it has that many ranges.
    pub tasks_per_thread: u32,
}

impl Settings {
    /// The usual way to share out the work for a table of `bits` bits.
    pub const fn new(bits: u32, range_bits: RangeBits) -> Settings {
        Settings {
            bits,
            range_bits,
            epoch: 0,
            replicas: 1,
            lease_ms: 30_000,
            silence_ms: 90_000,
            straggler_ms: 3_000,
            failures_max: 5,
            expiries_max: 20,
            worker_failures_max: 20,
            // About a second of work for one thread.
            task_positions_max: 1 << 31,
            // About a tenth of a second.
            task_positions_min: 1 << 27,
            tasks_per_thread: 2,
        }
    }

    /// Whether the job can be planned. Anything that grows with the number of ranges comes after
    /// this.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooManyRanges`].
    pub fn check(&self) -> Result<(), PlanError> {
        let (bits, range_bits) = (self.bits, self.range_bits);
        if bits.saturating_sub(range_bits.get()) > HEAD_BITS_MAX {
            return Err(PlanError::TooManyRanges {
                bits,
                range_bits,
                least: bits - HEAD_BITS_MAX,
            });
        }
        Ok(())
    }
}

/// Something that happened.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A worker with so many threads is there. Told again, it changes the name and the number of
    /// threads; leases and votes stay.
    Joined {
        worker: WorkerId,
        name: String,
        threads: u32,
    },
    /// A worker shows that it is there.
    Alive { worker: WorkerId },
    /// A worker goes in good order: its leases go back at once, its requests are forgotten. A
    /// worker that just fell silent must be left to lose its leases first, or a range that kills
    /// every worker would be offered for ever.
    Left { worker: WorkerId },
    /// A worker asks for one task. Answered by exactly one [`Action::Answer`], now or later.
    Wanted {
        request: RequestId,
        worker: WorkerId,
    },
    /// Nobody waits for the answer to this request any more. If it was answered with a task
    /// already, [`Event::Returned`] gives that back.
    Withdrawn { request: RequestId },
    /// A worker still works on a lease. Answered at once by [`Action::Renewal`].
    Renewed { worker: WorkerId, lease: LeaseId },
    /// A worker hands a lease back undone. This is no lost attempt.
    Returned { worker: WorkerId, lease: LeaseId },
    /// A worker could not compute its task. This is a lost attempt.
    Failed {
        worker: WorkerId,
        lease: LeaseId,
        reason: String,
    },
    /// A result, its digests already checked against its bytes. Ends the lease. Answered by
    /// exactly one [`Action::Settle`], now or later; keep the bytes until then.
    Submitted {
        submission: SubmissionId,
        worker: WorkerId,
        lease: LeaseId,
        ranges: Vec<RangeSummary>,
    },
    /// A result was found wrong when some of its words were checked by definition.
    Refuted {
        worker: WorkerId,
        lease: LeaseId,
        head: Head,
    },
    /// [`Action::Evaluate`] is done. Keep its record as that of a submission, until that is settled
    /// or forgotten.
    Evaluated {
        submission: SubmissionId,
        range: RangeSummary,
    },
    /// [`Action::Evaluate`] failed.
    EvaluationFailed { head: Head, reason: String },
    /// [`Action::Commit`] is done, and durable.
    Committed { submission: SubmissionId },
    /// [`Action::Commit`] failed.
    CommitFailed {
        submission: SubmissionId,
        reason: String,
    },
    /// [`Action::Seal`] is done, and durable.
    Sealed { layer: u32 },
    /// [`Action::Seal`] failed.
    SealFailed { layer: u32, reason: String },
    /// [`Action::Publish`] is done, and durable.
    Published,
    /// [`Action::Publish`] failed.
    PublishFailed { reason: String },
    /// [`Action::Publish`] was given up after [`Event::Shutdown`]; nothing is wrong.
    PublicationStopped,
    /// What was committed cannot be read any more.
    Unreadable { reason: String },
    /// Time passed: leases that were not renewed end.
    Tick,
    /// The coordinator is asked to go: nothing more is offered, sealed or published, but results
    /// on their way are still taken.
    Shutdown,
}

impl Event {
    /// The worker that shows by this that it is there.
    pub(super) fn sender(&self) -> Option<WorkerId> {
        match self {
            Event::Alive { worker }
            | Event::Wanted { worker, .. }
            | Event::Renewed { worker, .. }
            | Event::Returned { worker, .. }
            | Event::Failed { worker, .. }
            | Event::Submitted { worker, .. } => Some(*worker),
            _ => None,
        }
    }
}

/// Something to be done by the caller.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Answer a request.
    Answer { request: RequestId, answer: Answer },
    /// Tell a worker whether its lease still stands. If not, its work on it is of no more use.
    Renewal { lease: LeaseId, stands: bool },
    /// Tell what became of a result.
    Settle {
        submission: SubmissionId,
        verdict: Verdict,
    },
    /// Make these ranges of a submission durable, and no others of it.
    Commit {
        submission: SubmissionId,
        layer: u32,
        heads: Vec<Head>,
    },
    /// The record of an evaluation is not needed: the range is known.
    Forget { submission: SubmissionId },
    /// Evaluate this range, whose sources are all committed, and trust nobody. One at a time.
    Evaluate { head: Head },
    /// This worker gets no more tasks, and its results are not taken any more.
    Quarantine {
        worker: WorkerId,
        name: String,
        reason: Misdeed,
    },
    /// Make it durable that a layer consists of these ranges. Ascending, one at a time.
    Seal {
        layer: u32,
        ranges: Vec<RangeSummary>,
    },
    /// Publish the table: all layers are sealed.
    Publish,
    /// The job cannot go on. Comes once at most.
    Stop { reason: StopReason },
}

/// The answer to a request for a task.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Compute this.
    Task(Task),
    /// The table is published: there is nothing left to do.
    Finished,
    /// The job has stopped.
    Stopped { reason: StopReason },
    /// The worker has not joined, or was forgotten: join first.
    NotJoined,
    /// The worker gets no more tasks.
    Quarantined { reason: Misdeed },
}

/// Some ranges of one layer to be computed by one worker. All their sources are committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The lease under which the task is given.
    pub lease: LeaseId,
    /// 1 + how often these ranges were tried before in vain.
    pub attempt: u32,
    /// The layer of the ranges.
    pub layer: u32,
    /// The heads of the ranges, ascending.
    pub heads: Vec<Head>,
    /// How long the lease lasts without renewal.
    pub lease_ms: u64,
}

/// What became of a result.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every range of it is durable, at least one thanks to this result.
    Accepted,
    /// Every range of it is durable, with these very digests, thanks to others.
    Duplicate,
    /// Some of its ranges wait for other workers to say the same; all others are durable.
    Noted,
    /// It was not used.
    Rejected { reason: Rejection },
}

/// Why a result was not used.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It has no ranges.
    #[error("the result has no ranges")]
    Empty,
    /// A range is beyond the bits of this table.
    #[error("range {head} is not of this table")]
    Unknown { head: Head },
    /// A range occurs twice.
    #[error("range {head} occurs twice in the result")]
    Twice { head: Head },
    /// The ranges are of several layers.
    #[error("range {head} is not of layer {layer} as the first range of the result is")]
    Mixed { head: Head, layer: u32 },
    /// A range is not one of those that the lease was given for.
    #[error("range {head} is not part of lease {lease}")]
    NotLeased { head: Head, lease: LeaseId },
    /// Nobody can have computed the range yet.
    #[error("range {head} was not to be computed yet: not all of its sources are committed")]
    NotReady { head: Head },
    /// Another result, or the seal, has another content for this range. The coordinator finds out
    /// which one is right.
    #[error("the content of range {head} is not the one that is known already")]
    Disagreement { head: Head },
    /// The worker has not joined, or was forgotten: join first.
    #[error("the worker has not joined the job")]
    NotJoined,
    /// The worker's results are not taken any more.
    #[error("{reason}")]
    Quarantined { reason: Misdeed },
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
    /// A content that was committed is wrong.
    #[error(
        "range {head} of layer {layer}, which is committed, is wrong: evaluated anew by the coordinator it has another \
         content; end all workers, which may keep wrong ranges, remove the folders of layer {layer} and all higher ones \
         from work/parts, and all of work/seals, and start again: they will be computed again"
    )]
    Wrong { head: Head, layer: u32 },
    /// A range could not be computed.
    #[error("range {head} was tried {attempts} times without a result; the last time {last}")]
    GaveUp {
        head: Head,
        attempts: u32,
        last: Loss,
    },
    /// The coordinator could not evaluate a range itself.
    #[error("the coordinator could not evaluate range {head} itself: {reason}")]
    EvaluationFailed { head: Head, reason: String },
    /// What was committed cannot be read any more.
    #[error("{reason}")]
    Unreadable { reason: String },
    /// The store could not keep a result.
    #[error("results could not be committed: {reason}")]
    CommitFailed { reason: String },
    /// The store could not seal a layer.
    #[error("layer {layer} could not be sealed: {reason}")]
    SealFailed { layer: u32, reason: String },
    /// The table could not be published.
    #[error("the table could not be published: {reason}")]
    PublishFailed { reason: String },
}

/// How an attempt to compute a task was lost. Workers are called by their names.
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
pub enum Misdeed {
    /// Its result is not what the coordinator computed itself.
    #[error(
        "this worker sent a wrong content of range {head}: its machine cannot be trusted with this work"
    )]
    Lied { head: Head },
    /// It fails whatever it tries.
    #[error("this worker failed {tasks} tasks in a row; the last time: {last}")]
    Failing { tasks: u32, last: String },
}

/// Why there is no plan for a job.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// More ranges than a plan keeps in memory.
    #[error(
        "{bits} bits with {range_bits} range bits make too many ranges: use at least {least} range bits"
    )]
    TooManyRanges {
        bits: u32,
        range_bits: RangeBits,
        least: u32,
    },
    /// What is said to be done or expected contradicts itself.
    #[error("the content of range {head} is known in two versions")]
    Disagreement { head: Head },
}

/// How far a job has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What the job is about.
    pub phase: Phase,
    /// The number of layers.
    pub layers: u32,
    /// The lowest layer that is not complete; the number of layers if all are.
    pub layer: u32,
    /// The layers that are sealed.
    pub layers_sealed: u32,
    /// The number of ranges.
    pub ranges: u64,
    /// The ranges that are committed.
    pub ranges_done: u64,
    /// The ranges that were committed before this plan was made.
    pub ranges_resumed: u64,
    /// The losing positions of the committed ranges.
    pub losing: u64,
    /// The [work](crate::forecast::Work) of all ranges.
    pub work: u64,
    /// That of the committed ranges.
    pub work_done: u64,
    /// That of the publication.
    pub publication_work: u64,
    /// The leases that stand.
    pub leases: u64,
    /// The results that are not settled.
    pub submissions: u64,
    /// The ranges that the coordinator has to evaluate itself.
    pub audits: u64,
    /// The workers that are there.
    pub workers: u64,
    /// Their threads.
    pub threads: u64,
}

/// What the plan knows of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerProgress {
    /// Which one.
    pub id: WorkerId,
    /// What people call it.
    pub name: String,
    /// How many ranges it evaluates at a time.
    pub threads: u32,
    /// The leases that it holds.
    pub leases: u64,
    /// The ranges of its that were taken.
    pub ranges: u64,
    /// The tasks that it lost: failed, rejected, or not renewed in time.
    pub failures: u64,
    /// When it was last heard of.
    pub heard: Millis,
    /// Why it gets no more tasks, if it does not.
    pub misdeed: Option<Misdeed>,
}
