//! Submissions: how a result becomes votes, and settled contents are written.

use std::collections::BTreeSet;

use chomp_table::{Digest, RangeSummary};

use super::Plan;
use super::arbitration::ArbitrationReason;
use super::ids::{LeaseId, ParticipantId, SubmissionId, Unit, WorkerId};
use super::jury::{Standing, Vote};
use super::messages::{Action, AgreedUnit, Loss, Rejection, StopReason, Verdict};
use super::slots::{UnitContent, UnitState};

/// A result that is not answered, or whose votes on some unit wait for others.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Its units that are being written, all by one commit.
    pub(super) writing: Vec<Unit>,
    /// Its units that are written next.
    pub(super) next: Vec<AgreedUnit>,
    /// The number of its votes on units that are not settled.
    pub(super) votes: usize,
    /// Whether one of its units has to be found by others too.
    awaits_others: bool,
    /// Whether something of it was of use.
    is_of_use: bool,
    /// The number of writes of other submissions that it waits for.
    pub(super) writes_awaited: usize,
    /// The submissions that wait for this one's writes.
    pub(super) waiters: Vec<SubmissionId>,
    /// Why it is rejected after all.
    pub(super) rejection: Option<Rejection>,
    /// Whether its worker was answered already.
    pub(super) is_answered: bool,
    /// The generation of the shards when the result came.
    generation: u32,
}

impl Pending {
    fn is_written(&self) -> bool {
        self.writing.is_empty() && self.next.is_empty()
    }

    /// Whether nothing is under way for it: it only waits for the votes of others.
    pub(super) fn rests(&self) -> bool {
        self.is_answered && self.is_written()
    }

    fn verdict(&self) -> Verdict {
        match &self.rejection {
            _ if self.votes > 0 => Verdict::Noted,
            Some(reason) => Verdict::Rejected {
                reason: reason.clone(),
            },
            None if self.awaits_others => Verdict::Noted,
            None if self.is_of_use => Verdict::Accepted,
            None => Verdict::Duplicate,
        }
    }
}

impl Plan {
    pub(super) fn evaluated(
        &mut self,
        submission: SubmissionId,
        worker: WorkerId,
        lease: LeaseId,
        ranges: &[RangeSummary],
    ) {
        let judged = self.judge_ranges(worker, lease, ranges).map(|()| {
            let unit = |range: &RangeSummary| {
                let unit = Unit::Range(range.head);
                (unit, UnitContent::of_range(*range))
            };
            ranges.iter().map(unit).collect()
        });
        if judged.is_ok()
            && let Some(entry) = self.workers.get_mut(&worker)
        {
            entry.results += 1;
        }
        self.receive_result(submission, worker, lease, judged);
    }

    pub(super) fn merged(
        &mut self,
        submission: SubmissionId,
        worker: WorkerId,
        lease: LeaseId,
        shard: u32,
        digest: Digest,
    ) {
        let unit = Unit::Shard(shard);
        let judged = self.judge_shard(worker, lease, unit);
        let judged = judged.map(|()| vec![(unit, UnitContent::of_shard(digest))]);
        self.receive_result(submission, worker, lease, judged);
    }

    /// Takes a result with the contents that it tells, unless it was judged not to be of use.
    fn receive_result(
        &mut self,
        submission: SubmissionId,
        worker: WorkerId,
        lease: LeaseId,
        judged: Result<Vec<(Unit, UnitContent)>, Rejection>,
    ) {
        let held = self.holds(worker, lease);
        match judged {
            Ok(units) => {
                // A result under an ended lease may have been taken before, and says nothing new of its worker.
                if held {
                    self.note_time(lease);
                    self.note_done(worker);
                }
                self.count_votes(submission, worker, units);
                // If the lease still stands, others may try what the result has not.
                if self.holds(worker, lease) {
                    self.end_lease(lease, None);
                }
            }
            Err(reason) => {
                if held {
                    let loss = Loss::Rejected {
                        worker: self.name(worker),
                        reason: reason.clone(),
                    };
                    self.end_lease(lease, Some(&loss));
                }
                let verdict = Verdict::Rejected { reason };
                self.out.push(Action::Settle {
                    submission,
                    verdict,
                });
            }
        }
    }

    /// Counts each unit of a good result as a vote. Has the units written that have enough votes now, and waits for the
    /// units that are just being written.
    fn count_votes(
        &mut self,
        submission: SubmissionId,
        worker: WorkerId,
        units: Vec<(Unit, UnitContent)>,
    ) {
        self.begin_submission(submission);
        // The unit that is to be found by another one too, since its worker is new.
        let results = self.workers.get(&worker).map_or(0, |entry| entry.results);
        let is_newcomer = results <= self.settings.newcomer_results.into();
        let of_newcomer = self.jury.of_newcomer(units.iter().map(|(unit, _)| *unit));
        let of_newcomer = of_newcomer.filter(|_| is_newcomer);
        for (unit, content) in units {
            let vote = Vote {
                worker,
                content,
                submission,
            };
            self.take_vote(unit, vote, of_newcomer == Some(unit));
            if let UnitState::Committing(writer) = self.units.state(unit)
                && writer != submission
            {
                // One that was asked to wait by an earlier unit waits once more: each write tells once.
                self.pending_mut(writer).waiters.push(submission);
                self.pending_mut(submission).writes_awaited += 1;
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

    /// Takes a vote, and does what follows from it.
    fn take_vote(&mut self, unit: Unit, vote: Vote, is_of_newcomer: bool) {
        let is_missing = self.units.state(unit) == UnitState::Ready;
        let is_counted = self.jury.vote(unit, vote, is_of_newcomer);
        if is_counted {
            self.pending_mut(vote.submission).votes += 1;
            self.end_stale_merges(unit);
        } else if !is_missing && !self.jury.differs(unit, vote.content) {
            return;
        }
        let standing = self.jury.standing(unit);
        if !self.arbitrations.contains(unit) {
            match standing {
                Standing::Settled(_) => return self.settle(unit, Some(vote)),
                Standing::Agreed if !self.is_eligible(unit) => {
                    return self.settle(unit, Some(vote));
                }
                Standing::Agreed => self.await_votes(unit),
                Standing::Open => {}
                Standing::Disputed => self.arbitrate(unit, ArbitrationReason::Dispute),
            }
        }
        self.pending_mut(vote.submission).awaits_others = true;
        self.reconsider(unit);
    }

    /// Ends the leases for writing a shard that is written, since the others read it; and those for reading what one
    /// wrote that is quarantined.
    fn end_stale_merges(&mut self, unit: Unit) {
        if let Unit::Shard(_) = unit {
            let first = self.jury.file(unit);
            for lease in self.leases_on(unit) {
                if self.leases[&lease].work.reads() != first {
                    self.end_lease(lease, None);
                }
            }
        }
    }

    /// Takes the content on which all agree for right. If the unit has to be written, that is done next with the first
    /// result that has it. `current` is the vote that is just being taken.
    pub(super) fn settle(&mut self, unit: Unit, current: Option<Vote>) {
        let is_missing = self.units.state(unit) == UnitState::Ready;
        let (content, finders, votes) = self.jury.settle(unit, current);
        self.end_wait(unit);
        self.finish_unit(unit, &finders);
        let mut counted = BTreeSet::new();
        for vote in votes.iter().chain(&current) {
            if vote.content == content && counted.insert(vote.worker.participant) {
                self.count_agreed(vote.worker);
            }
        }
        let writer = votes.first().copied().or(current);
        if let Some(writer) = writer.filter(|_| is_missing) {
            self.queue_write(writer.submission, unit, finders);
        } else if let Unit::Range(head) = unit {
            self.out.push(Action::Confirmed { head, finders });
        }
        if let Some(current) = current {
            self.pending_mut(current.submission).is_of_use |= votes.contains(&current);
        }
        self.release_votes(&votes, None);
    }

    /// Notes that votes do not wait any more.
    pub(super) fn release_votes(&mut self, votes: &[Vote], rejection: Option<&Rejection>) {
        for vote in votes {
            let pending = self.pending_mut(vote.submission);
            pending.votes -= 1;
            if rejection.is_some() && !pending.is_answered {
                pending.rejection = rejection.cloned();
            }
            self.stirred.insert(vote.submission);
        }
    }

    /// Goes on with the submissions whose votes do not wait any more.
    pub(super) fn advance_stirred(&mut self) {
        while let Some(submission) = self.stirred.pop_first() {
            if self.pending.contains_key(&submission) {
                self.advance_submission(submission);
            }
        }
    }

    /// Forgets the votes on a unit.
    pub(super) fn void_votes(&mut self, unit: Unit, reason: &Rejection) {
        let votes = self.jury.void(unit);
        self.end_wait(unit);
        self.reconsider(unit);
        self.release_votes(&votes, Some(reason));
    }

    /// Forgets what is known of a unit, and the votes on it.
    pub(super) fn withdraw_known(&mut self, unit: Unit) {
        let votes = self.jury.withdraw(unit);
        self.end_wait(unit);
        self.release_votes(&votes, Some(&Rejection::Stale));
    }

    /// Removes the votes of a participant, and does what follows for units.
    pub(super) fn remove_votes(&mut self, participant: ParticipantId, reason: &Rejection) {
        let removed = self.jury.remove_votes(participant);
        for &(unit, vote) in &removed.votes {
            self.release_votes(&[vote], Some(reason));
            self.judge_again(unit);
        }
        for unit in removed.reopened {
            self.reopened(unit);
        }
    }

    /// Looks anew at a unit that has lost votes.
    fn judge_again(&mut self, unit: Unit) {
        if !self.units.contains(unit) {
            return;
        }
        self.end_stale_merges(unit);
        let standing = self.jury.standing(unit);
        let is_over = standing != Standing::Disputed && self.arbitrations.remove_dispute(unit);
        self.end_wait(unit);
        if is_over && self.jury.is_reopened(unit) {
            self.await_votes(unit);
        }
        if self.arbitrations.contains(unit) || self.jury.votes(unit).is_empty() {
            self.reconsider(unit);
            return;
        }
        match standing {
            Standing::Settled(_) => self.settle(unit, None),
            Standing::Agreed => {
                self.await_votes(unit);
                self.reconsider(unit);
            }
            Standing::Open | Standing::Disputed => self.reconsider(unit),
        }
    }

    /// Has a result written that the coordinator computed itself.
    pub(super) fn submit_own(&mut self, submission: SubmissionId, unit: Unit) {
        self.begin_submission(submission);
        self.finish_unit(unit, &[]);
        self.queue_write(submission, unit, Vec::new());
        self.advance_submission(submission);
    }

    /// Has a unit of this result written next.
    fn queue_write(&mut self, submission: SubmissionId, unit: Unit, finders: Vec<ParticipantId>) {
        self.units
            .set_state(unit, UnitState::Committing(submission));
        let agreed = AgreedUnit { unit, finders };
        let pending = self.pending_mut(submission);
        pending.is_of_use = true;
        pending.next.push(agreed);
    }

    pub(super) fn pending_mut(&mut self, submission: SubmissionId) -> &mut Pending {
        self.pending
            .get_mut(&submission)
            .expect("something of it waits or is written")
    }

    /// Begins the next write of a submission. Answers its worker when nothing is left to wait for but votes of others,
    /// and forgets the submission when these are there too.
    pub(super) fn advance_submission(&mut self, submission: SubmissionId) {
        if self.is_faulty() {
            self.abandon(submission);
        }
        let pending = self.pending_mut(submission);
        if pending.writing.is_empty() && !pending.next.is_empty() {
            let units = std::mem::take(&mut pending.next);
            pending.writing = units.iter().map(|agreed| agreed.unit).collect();
            self.out.push(Action::Commit { submission, units });
        }
        let pending = self.pending_mut(submission);
        if !pending.is_written() || pending.writes_awaited > 0 {
            return;
        }
        let (verdict, is_open) = (pending.verdict(), pending.votes > 0);
        let was_answered = std::mem::replace(&mut pending.is_answered, true);
        let is_noted = was_answered || verdict == Verdict::Noted;
        if !was_answered {
            self.out.push(Action::Settle {
                submission,
                verdict,
            });
        }
        if !is_open {
            self.pending.remove(&submission);
            if is_noted {
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
                Unit::Shard(_) => self.units.set_state(unit, UnitState::Ready),
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
                    let known = self.jury.known(unit).expect("known before it is written");
                    for ready in self.units.ranges.commit(head, known.count) {
                        self.reconsider(Unit::Range(ready));
                    }
                    // A finder may have been quarantined while it was written.
                    if self.jury.is_reopened(unit) {
                        self.reconsider(unit);
                    }
                }
                Unit::Shard(_) if is_stale => {
                    self.pending_mut(submission).rejection = Some(Rejection::Stale);
                }
                Unit::Shard(number) => {
                    self.units.shards.commit(number);
                    if self.arbitrations.contains(unit) {
                        self.units.shards.reopen(number);
                    }
                }
            }
        }
        self.arbitrations.is_new = true;
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
