//! The messages between the plan and its caller: events, and the actions that follow from them.

use std::fmt::Debug;

use chomp_table::{Digest, Head, RangeSummary};

use super::Phase;
use super::finders::Finders;
use super::ids::{LeaseId, Millis, ParticipantId, Party, RequestId, Unit, WorkerId, WriteId};
use super::reasons::{OutReason, Rejection, StopReason};

/// The types of the caller that a plan keeps and returns unread.
pub trait PlanTypes: Debug {
    /// Sends the answer to a request for a task.
    type LeaseResponder: Debug;
    /// Sends the verdict on a result.
    type VerdictResponder: Debug;
    /// Where the content of a unit is stored: the caller needs it to write the journal.
    type Location: Clone + Debug;
}

/// Something that happened.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Debug)]
pub enum Event<T: PlanTypes> {
    /// A worker is present. Repeated, it changes the name and the threads.
    Joined {
        worker: WorkerId,
        name: String,
        threads: u32,
    },
    /// A worker leaves in good order: its leases are offered again at once, and are no failed attempts. The caller must
    /// not report this of a silent worker, whose leases have to expire: otherwise a range that kills every worker would
    /// be offered for ever.
    Left { worker: WorkerId },
    /// A worker asks for a task. Answered by exactly one [`Action::Answer`], now or later, unless it is withdrawn or
    /// the worker leaves.
    Requested {
        request: RequestId,
        worker: WorkerId,
        responder: T::LeaseResponder,
    },
    /// The worker does not wait for the answer any more.
    Withdrawn { request: RequestId },
    /// A worker returns the result of a task, whose records or file are durable. Ends the lease. Answered by exactly
    /// one [`Action::SendVerdict`], now or later.
    Completed {
        worker: WorkerId,
        lease: LeaseId,
        result: TaskResult<T::Location>,
        responder: T::VerdictResponder,
    },
    /// A worker gives a lease back without a result. With a failure, this is a failed attempt.
    Returned {
        worker: WorkerId,
        lease: LeaseId,
        failure: Option<String>,
    },
    /// The records of these ranges, with these digests, cannot be read. Of no effect on a range that is not done, or has
    /// another digest.
    Lost { records: Vec<(Head, Digest)> },
    /// The owner takes back the credential of a participant, which is out then: units that it alone found are checked.
    Revoked { participant: ParticipantId },
    /// [`Write::Commit`] is durable, or failed. Commits become durable in their order.
    Written {
        write: WriteId,
        outcome: Result<(), String>,
    },
    /// [`Action::Publish`] is done, or failed.
    Published(PublishOutcome),
    /// Time passed: leases that were not renewed expire.
    Tick,
    /// The coordinator is asked to stop: nothing more is offered or published, but results are still taken.
    Shutdown,
}

/// The result of a task.
#[derive(Clone, Debug)]
pub enum TaskResult<P> {
    /// The result of [`Work::Evaluate`].
    Ranges(Vec<(RangeSummary, P)>),
    /// The result of [`Work::Merge`].
    Shard {
        /// The number of the shard.
        number: u32,
        /// The digest of its words, which is the same however they are packed into its file.
        digest: Digest,
        /// In a check, whether the file is as its finder described it, but has other words than the ranges.
        is_forged: bool,
        /// The place of the file.
        location: P,
    },
}

/// How the publication of a table ended.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// The manifest is durable.
    Done,
    /// The job cannot go on.
    Failed { reason: String },
    /// The content of one of these ranges does not follow from its sources.
    Wrong { heads: Vec<Head>, reason: String },
    /// These records, which are needed to find a wrong range, cannot be read.
    RecordsLost { records: Vec<(Head, Digest)> },
    /// The referee has to merge these shards: either their files are not what was described, or the table contradicts
    /// itself, and one participant alone has found each of these shards.
    MergeAgain { shards: Vec<u32> },
}

/// Something that the caller has to do.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Debug)]
pub enum Action<T: PlanTypes> {
    Answer {
        worker: WorkerId,
        responder: T::LeaseResponder,
        answer: LeaseAnswer,
    },
    SendVerdict {
        responder: T::VerdictResponder,
        verdict: Verdict,
    },
    /// Write this into the journal, in the order of these actions.
    Write(Write<T::Location>),
    /// Start the referee: a worker that joins as [`ParticipantId::REFEREE`] and stays until the job ends. Returned once
    /// at most.
    CallReferee,
    /// Publish the table: all shards are committed. Answered by [`Event::Published`].
    Publish,
    /// The job cannot go on. Returned once at most.
    Stop { reason: StopReason },
}

/// Something to be written into the journal.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug)]
pub enum Write<P> {
    /// These units are done. Answered by [`Event::Written`]. The other kinds of write have no answer: if one of them
    /// fails, so does every later commit.
    Commit {
        write: WriteId,
        units: Vec<FoundUnit<P>>,
    },
    /// These committed units were computed again, with equal contents. `finders` are their finders from now on.
    Confirm { units: Vec<Unit>, finders: Finders },
    /// These ranges are wrong, or follow from a wrong one: their contents are unknown again, and so are those of all
    /// shards.
    Withdraw { heads: Vec<Head> },
    /// The record of this range is lost. What is in it stays known.
    Lose { head: Head },
    /// This party gets no more tasks, and is a finder of nothing any more.
    Out {
        party: Party,
        name: String,
        reason: OutReason,
    },
}

/// A unit whose content was found, and where it is.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug)]
pub struct FoundUnit<P> {
    pub unit: Unit,
    pub finders: Finders,
    pub location: P,
}

/// The answer to a request for a task.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    Task(Task),
    /// The table is published: there is nothing left to do.
    Finished,
    Stopped {
        reason: StopReason,
    },
    /// The worker has not joined, or was forgotten: join first.
    NotJoined,
    Out {
        reason: OutReason,
    },
}

/// Some work for one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The lease under which the task is given.
    pub lease: LeaseId,
    /// The number of this attempt: one more than the failed attempts so far.
    pub attempt: u32,
    /// The work to do.
    pub work: Work,
}

/// The work of a task. All ranges that it depends on are committed.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Evaluate these ranges of one layer, heads ascending. In a check they are committed, and the worker stores no
    /// records: it only reports the contents.
    Evaluate {
        layer: u32,
        heads: Vec<Head>,
        is_check: bool,
    },
    /// Write a shard. It begins in the range `head`, after `skip` stored words of that range. In a check the file is
    /// there: merge the ranges, and compare the file with them.
    Merge {
        shard: u32,
        head: Head,
        skip: u64,
        is_check: bool,
    },
}

impl Work {
    /// The units that this work computes.
    pub fn units(&self) -> impl Iterator<Item = Unit> + '_ {
        let (heads, shard): (&[Head], _) = match self {
            Work::Evaluate { heads, .. } => (heads, None),
            Work::Merge { shard, .. } => (&[], Some(*shard)),
        };
        let ranges = heads.iter().map(|&head| Unit::Range(head));
        ranges.chain(shard.map(Unit::Shard))
    }

    pub(super) fn contains(&self, unit: Unit) -> bool {
        match (self, unit) {
            (Work::Evaluate { heads, .. }, Unit::Range(head)) => heads.binary_search(&head).is_ok(),
            (Work::Merge { shard, .. }, Unit::Shard(number)) => *shard == number,
            _ => false,
        }
    }
}

/// The verdict on a result.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All units are durable, at least one thanks to this result.
    Accepted,
    /// All units are durable, with these very digests, thanks to others.
    Duplicate,
    /// Some units are pending until other participants find the same, or the referee has decided between results that
    /// differ. The rest is durable.
    Noted,
    /// The result was not used.
    Rejected { reason: Rejection },
}

/// How far a job has come.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobProgress {
    pub phase: Phase,
    pub layers: u32,
    /// The lowest layer that is not complete; the number of layers if all are.
    pub layer: u32,
    pub ranges: u64,
    pub ranges_done: u64,
    /// The ranges that were committed before this plan was made.
    pub ranges_resumed: u64,
    /// The losing positions of the committed ranges.
    pub losing: u64,
    /// The number of shards. It is 0 until all ranges are committed.
    pub shards: u64,
    pub shards_done: u64,
    /// The estimated cost of all ranges. Progress is measured in it.
    pub work: u64,
    pub work_done: u64,
    /// The estimated cost of writing the shards.
    pub publication_work: u64,
    pub leases: u64,
    /// The results that are not answered.
    pub results_waiting: u64,
    pub checks_waiting: u64,
    /// The sampled checks that were not done, though more parties have joined than have to find the same.
    pub checks_lapsed: u64,
    /// The units that only the referee may compute.
    pub left_to_referee: u64,
    pub workers: u64,
}

/// The facts about one worker that the status shows.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerProgress {
    pub id: WorkerId,
    /// Its name, for people.
    pub name: String,
    /// How many ranges it evaluates at a time.
    pub threads: u32,
    pub leases: u64,
    /// The ranges that it found or checked.
    pub ranges: u64,
    pub failures: u64,
    /// The records that it could not read, though they are in order.
    pub unreadable: u64,
    pub heard: Millis,
    /// Why the worker is out, if it is.
    pub out: Option<OutReason>,
}
