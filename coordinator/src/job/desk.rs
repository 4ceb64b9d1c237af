//! The desk: the plan, with the requests and results that wait for what the plan decides. The desk has no clock, no
//! tasks and no I/O: the job gives it those, and tests give it others.
//!
//! An event costs as much as what it brings, whatever the number of workers and ranges.

mod audits;
mod parts;
mod writes;

use std::collections::{HashMap, VecDeque};
use std::mem::take;
use std::sync::Arc;

use chomp_access::Participants;
use chomp_plan::{
    Action, Event, LeaseAnswer, LeaseId, Millis, ParticipantId, Phase, Plan, RequestId, StopReason,
    SubmissionId, Unit, Verdict, WorkerId,
};
use chomp_store::{Entry, Finders, Journal, Merged, PartName, Placed, StoreError};
use chomp_table::format::describe;
use chomp_table::manifest::Manifest;
use chomp_table::{Digest, Head};
use tokio::sync::{oneshot, watch};

use audits::RecordAudits;
use parts::Parts;
use writes::{Write, Writes};

use crate::arbiter::Arbitrated;
use crate::effects::{Effect, EffectResult};
use crate::error::{JobError, Refusal};
use crate::tools::WorkerResult;

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

/// Kept while an object is on its way into the store. Clones are of the same object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transfer(Arc<()>);

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
struct Submission {
    /// The lease that its part is named for.
    lease: u64,
    result: WorkerResult,
    /// Where the verdict goes, if a call still waits for it.
    reply: Option<oneshot::Sender<Verdict>>,
}

impl Submission {
    /// The range of this head.
    fn placed(&self, head: Head) -> &Placed {
        let WorkerResult::Ranges(ranges) = &self.result else {
            unreachable!("only ranges are written as ranges");
        };
        let at = ranges.binary_search_by_key(&head, |placed| placed.summary.head);
        &ranges[at.expect("the plan speaks of the ranges of the submission")]
    }
}

/// The job that a desk serves.
#[derive(Debug)]
pub(crate) struct DeskJob {
    pub(crate) bits: u32,
    /// The number of participants that have to compute each range alike.
    pub(crate) replicas: u32,
    pub(crate) participants: watch::Receiver<Participants>,
}

/// The plan, with the requests and results that wait for its decisions.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) plan: Plan,
    /// The effects that the job has to begin.
    pub(crate) effects: Vec<Effect>,
    pub(crate) published: Option<Manifest>,
    pub(crate) fault: Option<JobError>,
    journal: Arc<Journal>,
    pub(super) subject: DeskJob,
    requests: HashMap<RequestId, (WorkerId, oneshot::Sender<Reply>)>,
    submissions: HashMap<SubmissionId, Submission>,
    submission_count: u64,
    writes: Writes,
    parts: Parts,
    audits: RecordAudits,
    /// The first of the ranges at the end of the table whose parts are removed.
    removed_from: Head,
    /// The events of the plan, and the actions after each.
    #[cfg(test)]
    pub(crate) told: Vec<(Event, Vec<Action>)>,
}

impl Desk {
    pub(crate) fn new(plan: Plan, journal: Arc<Journal>, subject: DeskJob) -> Desk {
        let ranges = journal.ledger().range_bits.heads(subject.bits);
        Desk {
            plan,
            removed_from: Head(ranges),
            effects: Vec::new(),
            published: None,
            fault: None,
            journal,
            subject,
            requests: HashMap::new(),
            submissions: HashMap::new(),
            submission_count: 0,
            writes: Writes::default(),
            parts: Parts::default(),
            audits: RecordAudits::default(),
            #[cfg(test)]
            told: Vec::new(),
        }
    }

    /// Tells the plan what happened; returns what it asks for.
    fn tell(&mut self, now: Millis, event: Event) -> Vec<Action> {
        #[cfg(test)]
        let told = event.clone();
        let actions = self.plan.handle(now, event);
        #[cfg(test)]
        self.told.push((told, actions.clone()));
        actions
    }

    /// Tells the plan what happened, and does what follows from that.
    pub(crate) fn handle(&mut self, now: Millis, event: Event) {
        if let Event::Withdrawn { request } = event {
            self.requests.remove(&request);
        }
        let actions = self.tell(now, event);
        self.perform(now, actions);
    }

    /// Does what the plan asks for, and what follows from that.
    pub(crate) fn perform(&mut self, now: Millis, mut actions: Vec<Action>) {
        let mut events = VecDeque::new();
        loop {
            let follow = actions.into_iter().filter_map(|action| self.act(action));
            events.extend(follow);
            let Some(event) = events.pop_front() else {
                break;
            };
            actions = self.tell(now, event);
        }
        self.write(now);
        self.remove_orphans(now);
    }

    /// Takes a request for a task in; it is answered now or later.
    pub(crate) fn lease(
        &mut self,
        now: Millis,
        request: RequestId,
        worker: WorkerId,
        reply: oneshot::Sender<Reply>,
    ) {
        self.requests.insert(request, (worker, reply));
        self.handle(now, Event::Wanted { request, worker });
    }

    /// Takes a heartbeat in; returns the leases that do not stand any more.
    pub(crate) fn renew(
        &mut self,
        now: Millis,
        worker: WorkerId,
        leases: Vec<LeaseId>,
    ) -> Vec<LeaseId> {
        let mut actions = self.tell(now, Event::Renewed { worker, leases });
        let lost = actions.iter_mut().find_map(|action| match action {
            Action::Renewal { lost, .. } => Some(take(lost)),
            _ => None,
        });
        self.perform(now, actions);
        lost.unwrap_or_default()
    }

    /// Takes a result in; the verdict comes now or later.
    pub(crate) fn complete(
        &mut self,
        now: Millis,
        worker: WorkerId,
        lease: LeaseId,
        result: WorkerResult,
        reply: oneshot::Sender<Verdict>,
    ) {
        if let WorkerResult::Ranges(placed) = &result
            && let Err(reason) = self.parts.check(worker, lease, placed)
        {
            let failed = Event::Failed {
                worker,
                lease,
                reason: reason.to_string(),
            };
            self.handle(now, failed);
            // A worker that is gone needs no answer.
            let _ = reply.send(Verdict::Rejected { reason });
            return;
        }
        let submission = self.next_submission();
        let event = match &result {
            WorkerResult::Ranges(placed) => Event::Evaluated {
                submission,
                worker,
                lease,
                ranges: placed.iter().map(|placed| placed.summary).collect(),
            },
            WorkerResult::Merged(merged) => Event::Merged {
                submission,
                worker,
                lease,
                shard: merged.number,
                digest: merged.words_digest(),
            },
        };
        let pending = Submission {
            lease: lease.0,
            result,
            reply: Some(reply),
        };
        self.submissions.insert(submission, pending);
        self.handle(now, event);
        if self.plan.would_idle(worker) {
            self.writes.is_urgent = true;
            self.write(now);
        }
    }

    /// Takes in that a worker says that records are lost. A report is out of date if the journal has another digest, or
    /// nobody needs the record any more.
    pub(crate) fn report(&mut self, worker: WorkerId, records: &[(Head, Digest)]) {
        for &(head, digest) in records {
            let known = self.journal.ledger().place(head).map(|place| place.digest);
            if known == Some(digest) && head < self.plan.merged_from() {
                self.audits.push(worker, head);
            }
        }
        self.audit();
    }

    /// Takes in what came of an effect.
    pub(crate) fn end_effect(&mut self, now: Millis, done: EffectResult) {
        match done {
            EffectResult::Appended {
                submissions,
                written,
            } => self.end_append(now, submissions, written),
            EffectResult::Arbitrated {
                submission,
                arbitrated: Arbitrated { lease, result, .. },
                event,
            } => {
                let pending = Submission {
                    lease,
                    result,
                    reply: None,
                };
                self.submissions.insert(submission, pending);
                self.handle(now, event);
            }
            EffectResult::Audited { worker, head, lost } => {
                self.audits.end(head);
                self.audit();
                // Otherwise it was merged, and its part removed, while it was looked for.
                if let Some(digest) = lost
                    && head < self.plan.merged_from()
                {
                    let event = Event::Lost {
                        worker,
                        head,
                        digest,
                    };
                    self.handle(now, event);
                }
            }
            EffectResult::Published(manifest) => {
                self.published = Some(manifest);
                self.handle(now, Event::Published);
            }
            EffectResult::Other { events, fault } => {
                for event in events {
                    self.handle(now, event);
                }
                match fault {
                    Some(fault) if fault.is_of_store() => self.fail(now, fault),
                    // A fault that comes too late to matter does not end the job.
                    fault if self.is_faulty() => self.fault = self.fault.take().or(fault),
                    _ => {}
                }
            }
        }
        self.write(now);
    }

    fn end_append(
        &mut self,
        now: Millis,
        submissions: Vec<SubmissionId>,
        written: Result<(), StoreError>,
    ) {
        self.written(now);
        let fault = written.err();
        let reason = fault.as_ref().map(|error| describe(error));
        if reason.is_some() {
            self.writes.failed.clone_from(&reason);
            if submissions.is_empty() {
                // Nobody waits for what was withdrawn, and the job ends all the same.
                self.handle(now, Event::Shutdown);
            }
        }
        for submission in submissions {
            let event = match reason.clone() {
                None => Event::Committed { submission },
                Some(reason) => Event::CommitFailed { submission, reason },
            };
            self.handle(now, event);
        }
        self.remove_merged();
        match fault.map(JobError::Store) {
            Some(fault) if fault.is_of_store() => self.fail(now, fault),
            fault => self.fault = self.fault.take().or(fault),
        }
    }

    /// Ends the job.
    pub(crate) fn fail(&mut self, now: Millis, fault: JobError) {
        if self.fault.is_none() {
            tracing::error!("the job stops: {}", describe(&fault));
            self.fault = Some(fault);
        }
        self.handle(now, Event::Shutdown);
    }

    /// Whether the job ends with an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.fault.is_some() || self.is_faulty()
    }

    /// Whether the job has stopped for another reason than that it was asked to.
    fn is_faulty(&self) -> bool {
        matches!(self.plan.phase(), Phase::Stopped(reason) if *reason != StopReason::Shutdown)
    }

    /// Whether something is on its way into the journal.
    pub(crate) fn is_writing(&self) -> bool {
        self.writes.under_way.is_some()
    }

    fn next_submission(&mut self) -> SubmissionId {
        self.submission_count += 1;
        SubmissionId(self.submission_count)
    }

    /// Does one thing that the plan asks for. It returns the event that follows at once, if one does.
    fn act(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Answer { request, answer } => return self.answer(request, answer),
            // `renew` has taken the answer.
            Action::Renewal { .. } => {}
            Action::Settle {
                submission,
                verdict,
            } => self.settle(submission, verdict),
            Action::Commit { submission, units } => {
                if let Some(reason) = self.writes.failed.clone() {
                    return Some(Event::CommitFailed { submission, reason });
                }
                let write = Write::Commit { submission, units };
                self.writes.waiting.push_back(write);
            }
            Action::Withdraw { heads } => {
                self.note(Entry::Withdrawn { heads });
            }
            Action::Lose { head } => self.note(Entry::Lost { heads: vec![head] }),
            Action::Confirmed { head, finders } => self.note(Entry::Confirmed {
                finders: Finders::new(finders.into_iter().map(|ParticipantId(one)| one)),
                heads: vec![head],
            }),
            Action::Arbitrate { unit, vote } => {
                let said = self.said(unit, vote);
                let submission = self.next_submission();
                self.effects.push(Effect::Arbitrate {
                    submission,
                    unit,
                    said,
                });
            }
            Action::Forget { submission } => {
                self.submissions.remove(&submission);
            }
            Action::Quarantine {
                worker,
                name,
                reason,
            } => {
                let of = self.participant(worker);
                tracing::warn!("worker {name}{of} gets no more tasks: {reason}");
                self.note_quarantine(worker.participant, &reason);
            }
            Action::Publish => self.effects.push(Effect::Publish),
            Action::Stop { reason } => tracing::warn!("the job stops: {reason}"),
        }
        None
    }

    /// The description of a shard in a result, or in the journal if no result is named.
    pub(crate) fn said(&self, unit: Unit, result: Option<SubmissionId>) -> Option<Box<Merged>> {
        let Unit::Shard(shard) = unit else {
            return None;
        };
        if let Some(submission) = result {
            return match &self.submissions.get(&submission)?.result {
                WorkerResult::Merged(merged) => Some(merged.clone()),
                WorkerResult::Ranges(_) => None,
            };
        }
        let ledger = self.journal.ledger();
        ledger
            .shard(self.subject.bits, shard)
            .cloned()
            .map(Box::new)
    }

    /// Whose worker it is, for people.
    fn participant(&self, worker: WorkerId) -> String {
        let participants = self.subject.participants.borrow();
        let participant = participants.get(worker.participant.0);
        participant.map_or_else(String::new, |of| format!(" (participant {})", of.name))
    }

    fn settle(&mut self, submission: SubmissionId, verdict: Verdict) {
        let reply = if verdict == Verdict::Noted {
            let pending = self.submissions.get_mut(&submission);
            pending.and_then(|pending| pending.reply.take())
        } else {
            let settled = self.submissions.remove(&submission);
            settled.and_then(|settled| settled.reply)
        };
        if let Some(reply) = reply {
            // A worker that is gone learns it when it hands in again.
            let _ = reply.send(verdict);
        }
    }

    fn answer(&mut self, request: RequestId, answer: LeaseAnswer) -> Option<Event> {
        let (worker, reply) = self.requests.remove(&request)?;
        let reads = match &answer {
            LeaseAnswer::Task(task) => task.work.units().next().zip(task.work.reads()),
            _ => None,
        };
        let written = reads.and_then(|(unit, written)| self.said(unit, Some(written)));
        let journal = self.journal.ledger().next;
        let reply = reply.send(Reply {
            answer,
            journal,
            written,
        });
        match reply {
            // The call was dropped. Its `WaitingLease` saw no task, so it goes back from here.
            Err(Reply {
                answer: LeaseAnswer::Task(task),
                ..
            }) => Some(Event::Returned {
                worker,
                lease: task.lease,
            }),
            _ => None,
        }
    }

    /// Begins to audit records, unless enough audits are under way.
    fn audit(&mut self) {
        while let Some((worker, head)) = self.audits.next() {
            let place = self.journal.ledger().place(head).copied();
            let Some(place) = place else {
                self.audits.end(head);
                continue;
            };
            self.effects.push(Effect::Audit {
                worker,
                head,
                place,
            });
        }
    }
}

#[cfg(test)]
impl Desk {
    /// How many requests wait.
    pub(crate) fn waiting(&self) -> usize {
        self.requests.len()
    }

    /// How many results are not settled.
    pub(crate) fn pending(&self) -> usize {
        self.submissions.len()
    }
}
