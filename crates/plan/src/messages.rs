//! The messages between the plan and its caller: events, and the actions that follow from them.

use chomp_table::{Digest, Head, RangeSummary};

pub use super::ids::{LeaseId, Millis, ParticipantId, RequestId, SubmissionId, Unit, WorkerId};
pub use super::reasons::{Loss, PlanError, QuarantineReason, Rejection, StopReason};
pub use super::settings::Settings;

use super::Phase;

/// Something that happened.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A worker is there. Told again, it changes the name and the threads; leases and votes stay.
    Joined {
        worker: WorkerId,
        name: String,
        threads: u32,
    },
    /// A worker goes in good order: its leases go back at once, its requests are forgotten. A
    /// worker that just fell silent must be left to lose its leases first, or a range that kills
    /// every worker would be offered for ever.
    Left { worker: WorkerId },
    /// A participant is not trusted any more: its workers get no more tasks, and what has too few finders
    /// without it is computed again.
    Revoked { participant: ParticipantId },
    /// A worker asks for one task. Answered by exactly one [`Action::Answer`], now or later.
    Wanted {
        request: RequestId,
        worker: WorkerId,
    },
    /// The worker does not wait for the answer to this request any more. If it was answered with a task
    /// already, [`Event::Returned`] gives that back.
    Withdrawn { request: RequestId },
    /// A heartbeat: a worker is there, and still works on these leases, if any. Answered at once by
    /// one [`Action::Renewal`].
    Renewed {
        worker: WorkerId,
        leases: Vec<LeaseId>,
    },
    /// A worker hands a lease back undone. This is no failed attempt.
    Returned { worker: WorkerId, lease: LeaseId },
    /// A worker could not do its task. This is a failed attempt.
    Failed {
        worker: WorkerId,
        lease: LeaseId,
        reason: String,
    },
    /// A result of [`Work::Evaluate`], whose records are durable. Ends the lease. Answered by exactly one
    /// [`Action::Settle`], now or later. Keep the result until then, or if it is [noted](Verdict::Noted), until
    /// [`Action::Forget`].
    Evaluated {
        submission: SubmissionId,
        worker: WorkerId,
        lease: LeaseId,
        ranges: Vec<RangeSummary>,
    },
    /// A result of [`Work::Merge`], whose file is durable. `digest` is that of what is said about the words of the
    /// shard. Ends the lease. Answered by exactly one [`Action::Settle`], now or later.
    Merged {
        submission: SubmissionId,
        worker: WorkerId,
        lease: LeaseId,
        shard: u32,
        digest: Digest,
    },
    /// The record of a committed range, with this digest, is lost or damaged. Of no effect if
    /// the range is not committed, or with another digest.
    Lost {
        worker: WorkerId,
        head: Head,
        digest: Digest,
    },
    /// [`Action::Arbitrate`] is done: the coordinator has computed the unit itself. `range` is there if the
    /// unit is one; `digest` is that of the record, or of what is said about the words of the shard. `is_forged` says
    /// that the file which the votes speak of is what they said, and has other words. Keep the result as that of a
    /// submission, until [`Action::Settle`] or [`Action::Forget`] comes.
    Arbitrated {
        submission: SubmissionId,
        unit: Unit,
        range: Option<RangeSummary>,
        digest: Digest,
        is_forged: bool,
    },
    /// [`Action::Arbitrate`] failed. If a record was missing, [`Event::Lost`] has to come before.
    ArbitrationFailed { unit: Unit, reason: String },
    /// [`Action::Commit`] is done, and durable.
    Committed { submission: SubmissionId },
    /// [`Action::Commit`] failed.
    CommitFailed {
        submission: SubmissionId,
        reason: String,
    },
    /// [`Action::Publish`] is done, and durable.
    Published,
    /// [`Action::Publish`] failed.
    PublishFailed { reason: String },
    /// [`Action::Publish`] failed, but the job can go on: this range is not what its sources make of it.
    Unpublished { head: Head, reason: String },
    /// [`Action::Publish`] failed, but the job can go on: these records, of which it has the digests, cannot be read.
    RecordsLost { records: Vec<(Head, Digest)> },
    /// [`Action::Publish`] failed, but the job can go on: the files of these shards are not what was said of them. Or
    /// the shards contradict each other, and one participant alone has found these.
    ShardsLost { shards: Vec<u32> },
    /// Time passed: leases that were not renewed end.
    Tick,
    /// The coordinator is asked to go: nothing more is offered or published, but results on their
    /// way are still taken.
    Shutdown,
}

impl Event {
    /// The worker that shows by this that it is there.
    pub(super) fn sender(&self) -> Option<WorkerId> {
        match self {
            Event::Wanted { worker, .. }
            | Event::Renewed { worker, .. }
            | Event::Returned { worker, .. }
            | Event::Failed { worker, .. }
            | Event::Evaluated { worker, .. }
            | Event::Merged { worker, .. }
            | Event::Lost { worker, .. } => Some(*worker),
            _ => None,
        }
    }
}

/// Something that the caller has to do.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Answer a request.
    Answer {
        request: RequestId,
        answer: LeaseAnswer,
    },
    /// Answer a heartbeat: of its leases these do not stand any more, and work on them is of no more use.
    Renewal {
        worker: WorkerId,
        lost: Vec<LeaseId>,
    },
    /// Answer a result: tell its worker what became of it.
    Settle {
        submission: SubmissionId,
        verdict: Verdict,
    },
    /// Make these units of a submission durable, and no others of it. Answered by
    /// [`Event::Committed`] or [`Event::CommitFailed`]. Comes again for other units of the
    /// submission, when others have found them too, but only after that answer.
    Commit {
        submission: SubmissionId,
        units: Vec<AgreedUnit>,
    },
    /// This range, which is durable, was computed again and is the same. These are its finders now; there are none if
    /// the coordinator computed it itself. There is no answer. If the action is lost, the range is computed once more.
    Confirmed {
        head: Head,
        finders: Vec<ParticipantId>,
    },
    /// These ranges are wrong, or may be: they are not done any more, and nothing is known of them. The journal has to
    /// have commits, withdrawals and losses in the order in which they were asked for. There is no answer: if this
    /// fails, so does every later commit.
    Withdraw { heads: Vec<Head> },
    /// This range is not done any more, as its record is lost. What is in it [stays known](super::Past::lost). There is
    /// no answer, as for withdrawals.
    Lose { head: Head },
    /// Evaluate this range, or merge this shard, in the coordinator itself. All its sources are committed. A few at a
    /// time. The votes on a shard speak of the file that `vote` does, or the journal. Answered by [`Event::Arbitrated`]
    /// or [`Event::ArbitrationFailed`].
    Arbitrate {
        unit: Unit,
        vote: Option<SubmissionId>,
    },
    /// The result of an arbitration, or one that was [noted](Verdict::Noted), is not needed any more.
    Forget { submission: SubmissionId },
    /// The participant of this worker gets no more tasks, and its results are not taken any more. That has to outlive
    /// the coordinator, as commits and withdrawals do: it counts as a finder of nothing any more.
    Quarantine {
        worker: WorkerId,
        name: String,
        reason: QuarantineReason,
    },
    /// Publish the table, after a look at the file of each shard: all of them are committed.
    Publish,
    /// The job cannot go on. Comes once at most.
    Stop { reason: StopReason },
}

/// A unit whose content is agreed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedUnit {
    /// The range or shard.
    pub unit: Unit,
    /// The participants that found this content, ascending. There are none if the coordinator computed it itself.
    pub finders: Vec<ParticipantId>,
}

/// The answer to a request for a task.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// Do this.
    Task(Task),
    /// The table is published: there is nothing left to do.
    Finished,
    /// The job has stopped.
    Stopped { reason: StopReason },
    /// The worker has not joined, or was forgotten: join first.
    NotJoined,
    /// The worker gets no more tasks.
    Quarantined { reason: QuarantineReason },
}

/// Some work for one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The lease under which the task is given.
    pub lease: LeaseId,
    /// 1 + the number of failed attempts before.
    pub attempt: u32,
    /// The work that is to be done.
    pub work: Work,
}

/// The work of a task. All ranges that it draws on are committed.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Evaluate these ranges of one layer, heads ascending.
    Evaluate { layer: u32, heads: Vec<Head> },
    /// Write a shard. It begins in the range `head`, after `skip` stored words of that.
    Merge {
        shard: u32,
        head: Head,
        skip: u64,
        /// If another participant has written the file, the result that tells of it: read the file instead, and see
        /// whether it is what was said of it and has the words of the ranges.
        written: Option<SubmissionId>,
    },
}

/// The answer to a result.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it is durable, or confirmed, at least something thanks to this result.
    Accepted,
    /// All of it is durable, with these very digests, thanks to others.
    Duplicate,
    /// Some of it waits for others to find the same; all else is durable. The worker need not wait for that, or two
    /// could wait for each other. But the result has to be kept: [`Action::Commit`] may still come for it, until
    /// [`Action::Forget`] does.
    Noted,
    /// It was not used.
    Rejected { reason: Rejection },
}

/// How far a job has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobProgress {
    /// Whether the job runs, is finished, or has stopped.
    pub phase: Phase,
    /// The number of layers.
    pub layers: u32,
    /// The lowest layer that is not complete; the number of layers if all are.
    pub layer: u32,
    /// The number of ranges.
    pub ranges: u64,
    /// The ranges that are committed.
    pub ranges_done: u64,
    /// The ranges that were committed before this plan was made.
    pub ranges_resumed: u64,
    /// The losing positions of the committed ranges.
    pub losing: u64,
    /// The number of shards; 0 until all ranges are committed.
    pub shards: u64,
    /// The shards that are committed.
    pub shards_done: u64,
    /// The [work](crate::forecast::JobWork) of all ranges.
    pub work: u64,
    /// That of the committed ranges.
    pub work_done: u64,
    /// That of writing the shards.
    pub publication_work: u64,
    /// The leases that stand.
    pub leases: u64,
    /// The results that are not answered, or of which something waits for the votes of others.
    pub submissions: u64,
    /// The ranges and shards that have to be computed again, as votes differ or their finders are not trusted.
    pub arbitrations: u64,
    /// The workers that are there.
    pub workers: u64,
    /// Their threads.
    pub threads: u64,
}

/// One worker, as people are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerProgress {
    /// Its id.
    pub id: WorkerId,
    /// Its name, for people.
    pub name: String,
    /// How many ranges it evaluates at a time.
    pub threads: u32,
    /// The leases that it holds.
    pub leases: u64,
    /// The ranges and shards whose agreed content it found.
    pub ranges: u64,
    /// Its tasks that failed, were rejected, or were not renewed in time.
    pub failures: u64,
    /// When it was last heard of.
    pub heard: Millis,
    /// Why it gets no more tasks, if it does not.
    pub quarantine: Option<QuarantineReason>,
}
