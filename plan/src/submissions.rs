//! Submissions: how a result becomes votes, and agreed contents are written.

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::{Digest, Head, RangeSummary};

use super::Plan;
use super::attempts::Vote;
use super::ids::{LeaseId, ParticipantId, SubmissionId, Unit, WorkerId};
use super::messages::{Action, AgreedUnit, Loss, Rejection, StopReason, Verdict};
use super::slots::{Content, State};
use super::workers::Delivery;

/// A result that is not answered, or of which a range is held back.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Its units that are being written, all by one commit.
    pub(super) writing: Vec<Unit>,
    /// Its units that are written next.
    pub(super) next: Vec<AgreedUnit>,
    /// The number of its ranges that wait for a check.
    pub(super) held: usize,
    /// Whether some of its units wait for the votes of other workers.
    pub(super) awaits_votes: bool,
    /// Whether something of it was written.
    pub(super) wrote: bool,
    /// The number of writes of other submissions that it waits for.
    pub(super) writes_awaited: usize,
    /// The submissions that wait for this one's writes.
    pub(super) waiters: Vec<SubmissionId>,
    /// Why it is rejected after all.
    pub(super) rejection: Option<Rejection>,
    /// Whether its worker was answered already, though a range is still held back.
    pub(super) is_answered: bool,
    /// The generation of the shards when the result came.
    generation: u32,
}

impl Pending {
    fn is_written(&self) -> bool {
        self.writing.is_empty() && self.next.is_empty()
    }

    fn verdict(&self) -> Verdict {
        match &self.rejection {
            _ if self.held > 0 => Verdict::Held,
            Some(reason) => Verdict::Rejected {
                reason: reason.clone(),
            },
            None if self.awaits_votes => Verdict::Noted,
            None if self.wrote => Verdict::Accepted,
            None => Verdict::Duplicate,
        }
    }
}

/// A result with the contents that it tells.
struct JudgedResult {
    submission: SubmissionId,
    worker: WorkerId,
    units: Vec<(Unit, Content)>,
    /// The units that are to be checked if this result completes their votes.
    sampled: BTreeSet<Unit>,
}

impl Plan {
    pub(super) fn evaluated(
        &mut self,
        submission: SubmissionId,
        worker: WorkerId,
        lease: LeaseId,
        ranges: &[RangeSummary],
        rng: u64,
    ) {
        let unit = |range: &RangeSummary| (Unit::Range(range.head), Content::of_range(*range));
        let units: Vec<(Unit, Content)> = ranges.iter().map(unit).collect();
        let judged = self.judge_ranges(worker, lease, ranges);
        let sampled = self.sample(worker, ranges, rng);
        if judged.is_ok()
            && let Some(entry) = self.workers.get_mut(&worker)
        {
            entry.results += 1;
        }
        let result = JudgedResult {
            submission,
            worker,
            units,
            sampled: sampled.into_iter().map(Unit::Range).collect(),
        };
        self.receive_result(result, lease, judged);
    }

    pub(super) fn merged(
        &mut self,
        submission: SubmissionId,
        worker: WorkerId,
        lease: LeaseId,
        shard: u32,
        digest: Digest,
    ) {
        let unit = (Unit::Shard(shard), Content::of_shard(digest));
        let judged = self.judge_shard(worker, lease, unit);
        let result = JudgedResult {
            submission,
            worker,
            units: vec![unit],
            sampled: BTreeSet::new(),
        };
        self.receive_result(result, lease, judged);
    }

    fn receive_result(
        &mut self,
        result: JudgedResult,
        lease: LeaseId,
        judged: Result<(), Rejection>,
    ) {
        let worker = result.worker;
        let held = self.holds(worker, lease);
        match judged {
            Ok(()) => {
                // A result under an ended lease may have been taken before, and says nothing new of its worker.
                if held {
                    self.note_time(lease);
                    self.note_done(worker);
                }
                self.count_votes(result);
                // If the lease still stands, the result does not have all its units: others may try the rest.
                if self.holds(worker, lease) {
                    self.end_lease(lease, None);
                }
            }
            Err(reason) => {
                let is_disputed = matches!(reason, Rejection::Disagreement { .. });
                // In a disagreement it is not known yet which worker is right.
                let loss = (!is_disputed).then(|| Loss::Rejected {
                    worker: self.name(worker),
                    reason: reason.clone(),
                });
                if held {
                    self.end_lease(lease, loss.as_ref());
                }
                if is_disputed {
                    self.question(worker, &result.units);
                }
                self.out.push(Action::Settle {
                    submission: result.submission,
                    verdict: Verdict::Rejected { reason },
                });
            }
        }
    }

    /// Counts each unit of a good result as a vote. Has the units written that have enough votes now, and waits for the
    /// units that are just being written.
    fn count_votes(&mut self, result: JudgedResult) {
        let JudgedResult {
            submission,
            worker,
            units,
            sampled,
        } = result;
        self.begin_submission(submission);
        for (unit, content) in units {
            if self.units.state(unit) == State::Ready {
                let vote = Vote { worker, content };
                self.vote(submission, unit, vote, sampled.contains(&unit));
            }
            match self.units.state(unit) {
                State::Committing(writer) if writer != submission => {
                    let writer = self.pending_mut(writer);
                    // One that was asked to wait by an earlier unit waits once more: each write tells once.
                    writer.waiters.push(submission);
                    self.pending_mut(submission).writes_awaited += 1;
                }
                _ => {}
            }
        }
        self.advance_submission(submission);
    }

    fn begin_submission(&mut self, submission: SubmissionId) {
        let new = Pending {
            generation: self.units.shards.generation,
            ..Pending::default()
        };
        let earlier = self.pending.insert(submission, new);
        assert!(earlier.is_none(), "submission {submission} was given twice");
    }

    /// Takes the vote of a worker for the content of a unit that is not done.
    fn vote(&mut self, submission: SubmissionId, unit: Unit, vote: Vote, is_sampled: bool) {
        let Vote { worker, content } = vote;
        let attempts = self.ready.of(unit);
        let earlier = attempts.map_or(&[][..], |attempts| &attempts.votes);
        let is_agreed = earlier.iter().all(|vote| vote.content == content);
        if let Unit::Range(head) = unit
            && is_agreed
            && self.checks.contains(head)
        {
            return self.vote_on_held(submission, head, vote);
        }
        let voters = earlier.iter().map(|vote| vote.worker).chain([worker]);
        let of_each = voters.map(|voter| (voter.participant, voter));
        let finders: BTreeMap<ParticipantId, WorkerId> = of_each.collect();
        let is_known = self.units.known(unit) == Some(content);
        let is_enough = is_known || finders.len() >= self.settings.replicas as usize;
        if !is_agreed || !is_enough || self.arbitrations.contains(unit) {
            self.note_vote(unit, vote);
            self.pending_mut(submission).awaits_votes = true;
            if !is_agreed {
                self.arbitrate(unit);
            }
            return;
        }
        if let Unit::Range(head) = unit
            && is_sampled
            && !is_known
        {
            self.note_vote(unit, vote);
            if self.hold(submission, head, content, finders.into_values().collect()) {
                return;
            }
        }
        self.accept_content(submission, unit, content, Some(worker));
    }

    /// Takes one more vote for the content of a held range.
    fn vote_on_held(&mut self, submission: SubmissionId, head: Head, vote: Vote) {
        // A worker that finds the same without knowing that it checks is better than any check.
        if self.note_vote(Unit::Range(head), vote) {
            self.release(head);
        } else {
            self.pending_mut(submission).awaits_votes = true;
        }
    }

    /// Notes a vote, unless its participant has said the same before. Returns whether it is new.
    fn note_vote(&mut self, unit: Unit, vote: Vote) -> bool {
        let is_same = |other: &Vote| {
            other.worker.participant == vote.worker.participant && other.content == vote.content
        };
        let attempts = self.ready.of(unit);
        let is_new = !attempts.is_some_and(|attempts| attempts.votes.iter().any(is_same));
        if is_new {
            self.update_attempts(unit, |attempts| attempts.votes.push(vote));
        }
        is_new
    }

    /// Has a result written that the coordinator computed itself.
    pub(super) fn submit_own(&mut self, submission: SubmissionId, unit: Unit, content: Content) {
        self.begin_submission(submission);
        self.close_unit(unit, content, None);
        // Now it does not matter whether the participants that found the same can be trusted.
        if self.units.known(unit).is_some() {
            self.forget_deliveries(|delivery| delivery == Delivery::of(unit));
        }
        self.queue_write(submission, unit, content, None, BTreeSet::new());
        self.advance_submission(submission);
    }

    /// Notes that the content of a unit is agreed, and the participants that found it. The unit is written next, with
    /// `submission`. `worker` is the one that gave the last vote, unless that was noted before.
    pub(super) fn accept_content(
        &mut self,
        submission: SubmissionId,
        unit: Unit,
        content: Content,
        worker: Option<WorkerId>,
    ) {
        let mut finders = self.close_unit(unit, content, worker);
        // The participants that found the content before its record was lost count as finders too.
        let earlier: BTreeSet<_> = match self.units.known(unit) {
            Some(_) => self.deliverers(unit).collect(),
            None => BTreeSet::new(),
        };
        for &finder in finders.difference(&earlier) {
            self.note_delivery(finder, unit);
        }
        finders.extend(earlier);
        self.queue_write(submission, unit, content, worker, finders);
    }

    /// Ends the work on a unit. Returns the participants that found this content, and counts it for one worker of each.
    fn close_unit(
        &mut self,
        unit: Unit,
        content: Content,
        worker: Option<WorkerId>,
    ) -> BTreeSet<ParticipantId> {
        let votes = self.finish_unit(unit, worker).votes.into_iter();
        let agreeing = votes.filter(|vote| vote.content == content);
        let finders: BTreeSet<_> = agreeing.map(|vote| vote.worker).chain(worker).collect();
        let mut participants = BTreeSet::new();
        for finder in finders {
            if participants.insert(finder.participant) {
                self.count_agreed(finder);
            }
        }
        participants
    }

    /// Takes this content for the known one of a unit, and has the unit written next, with `submission`.
    fn queue_write(
        &mut self,
        submission: SubmissionId,
        unit: Unit,
        content: Content,
        worker: Option<WorkerId>,
        finders: BTreeSet<ParticipantId>,
    ) {
        self.units.claim(unit, content);
        self.units.set_state(unit, State::Committing(submission));
        if let Unit::Shard(number) = unit {
            self.units.shards.set_writer(number, worker);
        }
        let finders = finders.into_iter().collect();
        let agreed = AgreedUnit { unit, finders };
        self.pending_mut(submission).next.push(agreed);
    }

    pub(super) fn pending_mut(&mut self, submission: SubmissionId) -> &mut Pending {
        self.pending
            .get_mut(&submission)
            .expect("something of it is held or written")
    }

    /// Begins the next write of a submission. Answers its worker when nothing is left to wait for but checks, and
    /// forgets the submission when these have ended too.
    pub(super) fn advance_submission(&mut self, submission: SubmissionId) {
        if self.is_faulty() {
            self.abandon(submission);
        }
        let pending = self.pending_mut(submission);
        if pending.writing.is_empty() && !pending.next.is_empty() {
            let units = std::mem::take(&mut pending.next);
            pending.writing = units.iter().map(|agreed| agreed.unit).collect();
            pending.wrote = true;
            self.out.push(Action::Commit { submission, units });
        }
        let pending = self.pending_mut(submission);
        if !pending.is_written() || pending.writes_awaited > 0 {
            return;
        }
        let (verdict, is_held) = (pending.verdict(), pending.held > 0);
        let was_answered = std::mem::replace(&mut pending.is_answered, true);
        if !was_answered {
            self.out.push(Action::Settle {
                submission,
                verdict,
            });
        }
        if !is_held {
            self.pending.remove(&submission);
            if was_answered {
                self.out.push(Action::Forget { submission });
            }
        }
    }

    /// Begins no more writes of a submission: after a fault the plan does not know what is durable.
    fn abandon(&mut self, submission: SubmissionId) {
        let pending = self.pending_mut(submission);
        let units = std::mem::take(&mut pending.next);
        if !units.is_empty() {
            pending.rejection = Some(Rejection::Stopped);
        }
        self.reopen(units.into_iter().map(|agreed| agreed.unit));
    }

    /// Makes units ready or blocked again that were to be written and are not.
    fn reopen(&mut self, units: impl IntoIterator<Item = Unit>) {
        for unit in units {
            match unit {
                Unit::Range(head) => {
                    self.condemned.remove(&head);
                    self.units.ranges.block(head);
                }
                Unit::Shard(_) => self.units.set_state(unit, State::Ready),
            }
            self.reconsider(unit);
        }
    }

    pub(super) fn committed(&mut self, submission: SubmissionId) {
        let generation = self.units.shards.generation;
        let units = self.written(submission);
        let pending = self.pending_mut(submission);
        let is_stale = pending.generation != generation;
        let mut withdrawn = Vec::new();
        for unit in units {
            match unit {
                Unit::Range(head) if self.condemned.remove(&head) => {
                    withdrawn.push(head);
                    self.units.ranges.block(head);
                    self.reconsider(unit);
                }
                Unit::Range(head) => {
                    for ready in self.units.ranges.commit(head) {
                        self.reconsider(Unit::Range(ready));
                    }
                }
                Unit::Shard(_) if is_stale => {
                    self.pending_mut(submission).rejection = Some(Rejection::Stale);
                }
                Unit::Shard(number) => self.units.shards.commit(number),
            }
        }
        self.arbitrations.reconsider();
        if !withdrawn.is_empty() {
            self.pending_mut(submission).rejection = Some(Rejection::Stale);
            self.out.push(Action::Withdraw { heads: withdrawn });
        }
        self.tell_waiters(submission);
    }

    pub(super) fn commit_failed(&mut self, submission: SubmissionId, reason: String) {
        let generation = self.units.shards.generation;
        let mut units = self.written(submission);
        let pending = self.pending_mut(submission);
        units.extend(pending.next.drain(..).map(|agreed| agreed.unit));
        pending.rejection = Some(Rejection::Stopped);
        if pending.generation != generation {
            units.retain(|unit| matches!(unit, Unit::Range(_)));
        }
        self.reopen(units);
        self.tell_waiters(submission);
        self.stop(StopReason::CommitFailed { reason });
    }

    /// Ends the write of a submission, and returns its units.
    fn written(&mut self, submission: SubmissionId) -> Vec<Unit> {
        let pending = self.pending.get_mut(&submission);
        let pending = pending.filter(|pending| !pending.writing.is_empty());
        let pending = pending.expect("the caller tells the outcome of each write once");
        std::mem::take(&mut pending.writing)
    }

    /// Goes on with a submission whose write has ended, and with those that waited for it.
    fn tell_waiters(&mut self, submission: SubmissionId) {
        if self.is_faulty() {
            self.abandon(submission);
        }
        let pending = self.pending_mut(submission);
        let mut waiters = Vec::new();
        if pending.next.is_empty() {
            waiters = std::mem::take(&mut pending.waiters);
        }
        let rejection = pending.rejection.clone();
        self.advance_submission(submission);
        for waiter in waiters {
            let pending = self.pending_mut(waiter);
            pending.writes_awaited -= 1;
            if rejection.is_some() {
                pending.rejection.clone_from(&rejection);
            }
            self.advance_submission(waiter);
        }
    }
}
