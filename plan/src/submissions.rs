//! What becomes of a result.

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::{Digest, RangeSummary};

use super::Plan;
use super::attempts::Vote;
use super::ids::{LeaseId, ParticipantId, SubmissionId, Unit, WorkerId};
use super::messages::{Action, Loss, Rejection, Settled, StopReason, Verdict};
use super::slots::{Content, State};
use super::workers::Delivery;

/// A result that is not settled, or of which something is held back.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Its units that are being written, all by one commit.
    pub(super) writing: Vec<Unit>,
    /// Its units that are written next.
    pub(super) next: Vec<Settled>,
    /// How many of its ranges wait for a check.
    pub(super) held: usize,
    /// Whether some of its units wait for other workers to say the same.
    pub(super) noted: bool,
    /// Whether something of it was written.
    pub(super) wrote: bool,
    /// The number of other submissions whose writes it waits for.
    pub(super) waits: usize,
    /// The submissions that wait for this one's writes.
    pub(super) waiters: Vec<SubmissionId>,
    /// Why it is of no use after all.
    pub(super) spoiled: Option<Rejection>,
    /// Whether it is settled already, as one of which something is held back.
    pub(super) is_settled: bool,
    /// The generation of the shards when it came.
    generation: u32,
}

impl Pending {
    fn is_written(&self) -> bool {
        self.writing.is_empty() && self.next.is_empty()
    }

    fn verdict(&self) -> Verdict {
        match &self.spoiled {
            _ if self.held > 0 => Verdict::Held,
            Some(reason) => Verdict::Rejected {
                reason: reason.clone(),
            },
            None if self.noted => Verdict::Noted,
            None if self.wrote => Verdict::Accepted,
            None => Verdict::Duplicate,
        }
    }
}

/// A result of which all units may be taken in.
struct Findings {
    submission: SubmissionId,
    worker: WorkerId,
    units: Vec<(Unit, Content)>,
    /// Those to be checked if their content is settled now.
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
        let findings = Findings {
            submission,
            worker,
            units,
            sampled: sampled.into_iter().map(Unit::Range).collect(),
        };
        self.take_in(findings, lease, judged);
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
        let findings = Findings {
            submission,
            worker,
            units: vec![unit],
            sampled: BTreeSet::new(),
        };
        self.take_in(findings, lease, judged);
    }

    fn take_in(&mut self, findings: Findings, lease: LeaseId, judged: Result<(), Rejection>) {
        let worker = findings.worker;
        let held = self.holds(worker, lease);
        match judged {
            Ok(()) => {
                // What was taken before says nothing new of its worker.
                if held {
                    self.note_time(lease);
                    self.count_success(worker);
                }
                self.keep(findings);
                // Unless `keep` ended it, something was not handed in: others may try.
                if self.holds(worker, lease) {
                    self.end_lease(lease, None);
                }
            }
            Err(reason) => {
                let doubt = matches!(reason, Rejection::Disagreement { .. });
                // Who is right in a disagreement is not known yet.
                let loss = (!doubt).then(|| Loss::Rejected {
                    worker: self.name(worker),
                    reason: reason.clone(),
                });
                if held {
                    self.end_lease(lease, loss.as_ref());
                }
                if doubt {
                    self.question(worker, &findings.units);
                }
                self.out.push(Action::Settle {
                    submission: findings.submission,
                    verdict: Verdict::Rejected { reason },
                });
            }
        }
    }

    /// Counts the votes that good units are, has those written that have enough of them now, and
    /// waits for those just being written.
    fn keep(&mut self, findings: Findings) {
        let Findings {
            submission,
            worker,
            units,
            sampled,
        } = findings;
        let new = Pending {
            generation: self.units.shards.generation,
            ..Pending::default()
        };
        let earlier = self.pending.insert(submission, new);
        assert!(earlier.is_none(), "submission {submission} was given twice");
        for (unit, content) in units {
            if self.units.state(unit) == State::Ready {
                self.vote(submission, worker, unit, content, sampled.contains(&unit));
            }
            match self.units.state(unit) {
                State::Committing(writer) if writer != submission => {
                    let writer = self.pending_mut(writer);
                    // One that was asked to wait by an earlier unit waits once more: each write tells once.
                    writer.waiters.push(submission);
                    self.pending_mut(submission).waits += 1;
                }
                _ => {}
            }
        }
        self.advance_submission(submission);
    }

    /// Takes in what `worker` found in a unit that is not done.
    fn vote(
        &mut self,
        submission: SubmissionId,
        worker: WorkerId,
        unit: Unit,
        content: Content,
        is_sampled: bool,
    ) {
        let votes = self
            .ready
            .of(unit)
            .map_or(&[][..], |attempts| &attempts.votes);
        let agreed = votes.iter().all(|vote| vote.content == content);
        let of_each = votes
            .iter()
            .map(|vote| (vote.worker.participant, vote.worker));
        let mut finders: BTreeMap<_, WorkerId> = of_each.collect();
        let is_new = finders.insert(worker.participant, worker).is_none();
        let vote = Vote { worker, content };
        let is_known = self.units.known(unit) == Some(content);
        if let Unit::Range(head) = unit
            && self.checks.contains(head)
            && agreed
        {
            // Who computes the same without knowing of it has checked it better than any check.
            if is_new {
                self.update_attempts(unit, |attempts| attempts.votes.push(vote));
                self.release(head);
            } else {
                self.pending_mut(submission).noted = true;
            }
            return;
        }
        let enough = is_known || finders.len() >= self.settings.replicas as usize;
        if agreed && enough && !self.arbitrations.contains(unit) {
            if let Unit::Range(head) = unit
                && is_sampled
                && !is_known
            {
                if is_new {
                    self.update_attempts(unit, |attempts| attempts.votes.push(vote));
                }
                if self.hold(submission, head, content, finders.into_values().collect()) {
                    self.pending_mut(submission).held += 1;
                    return;
                }
            }
            self.settle_unit(submission, unit, content, Some(worker));
            return;
        }
        self.pending_mut(submission).noted = true;
        let same = |other: &Vote| {
            other.worker.participant == worker.participant && other.content == content
        };
        let is_told = |attempts: &super::attempts::Attempts| attempts.votes.iter().any(same);
        if !self.ready.of(unit).is_some_and(is_told) {
            self.update_attempts(unit, |attempts| attempts.votes.push(vote));
        }
        if !agreed {
            self.arbitrate(unit);
        }
    }

    /// Has a result of the coordinator's own written.
    pub(super) fn write(&mut self, submission: SubmissionId, unit: Unit, content: Content) {
        let new = Pending {
            generation: self.units.shards.generation,
            ..Pending::default()
        };
        let earlier = self.pending.insert(submission, new);
        assert!(earlier.is_none(), "submission {submission} was given twice");
        self.conclude(unit, content, None);
        // Whether those who found the same are to be trusted is of no interest.
        if self.units.known(unit).is_some() {
            self.forget_deliveries(|delivery| delivery == Delivery::of(unit));
        }
        self.settle(submission, unit, content, None, BTreeSet::new());
        self.advance_submission(submission);
    }

    /// Notes that the content of a unit is settled, and who found it. It is written next, with `submission`.
    pub(super) fn settle_unit(
        &mut self,
        submission: SubmissionId,
        unit: Unit,
        content: Content,
        worker: Option<WorkerId>,
    ) {
        let mut finders = self.conclude(unit, content, worker);
        // Those who found a content that was lost have found it all the same.
        let earlier: BTreeSet<_> = match self.units.known(unit) {
            Some(_) => self.deliverers(unit).collect(),
            None => BTreeSet::new(),
        };
        for &finder in finders.difference(&earlier) {
            self.note_delivery(finder, unit);
        }
        finders.extend(earlier);
        self.settle(submission, unit, content, worker, finders);
    }

    /// Ends the work on a unit. The participants who found this content, for one worker of each of whom it counts.
    fn conclude(
        &mut self,
        unit: Unit,
        content: Content,
        worker: Option<WorkerId>,
    ) -> BTreeSet<ParticipantId> {
        let votes = self.take(unit, worker).votes.into_iter();
        let agreeing = votes.filter(|vote| vote.content == content);
        let finders: BTreeSet<_> = agreeing.map(|vote| vote.worker).chain(worker).collect();
        let mut participants = BTreeSet::new();
        for finder in finders {
            if participants.insert(finder.participant) {
                self.count_settled(finder);
            }
        }
        participants
    }

    fn settle(
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
        let settled = Settled { unit, finders };
        self.pending_mut(submission).next.push(settled);
    }

    pub(super) fn pending_mut(&mut self, submission: SubmissionId) -> &mut Pending {
        self.pending
            .get_mut(&submission)
            .expect("something of it is held or written")
    }

    /// Begins the next write of a submission, or settles it if there is nothing left to wait for.
    pub(super) fn advance_submission(&mut self, submission: SubmissionId) {
        if self.is_faulty() {
            self.abandon(submission);
        }
        let pending = self.pending_mut(submission);
        if pending.writing.is_empty() && !pending.next.is_empty() {
            let units = std::mem::take(&mut pending.next);
            pending.writing = units.iter().map(|settled| settled.unit).collect();
            pending.wrote = true;
            self.out.push(Action::Commit { submission, units });
        }
        let pending = self.pending_mut(submission);
        if !pending.is_written() || pending.waits > 0 {
            return;
        }
        let (verdict, is_held) = (pending.verdict(), pending.held > 0);
        let was_settled = std::mem::replace(&mut pending.is_settled, true);
        if !was_settled {
            self.out.push(Action::Settle {
                submission,
                verdict,
            });
        }
        if !is_held {
            self.pending.remove(&submission);
            if was_settled {
                self.out.push(Action::Forget { submission });
            }
        }
    }

    /// Begins no more writes of a submission: after a fault it is not known what is durable.
    fn abandon(&mut self, submission: SubmissionId) {
        let pending = self.pending_mut(submission);
        let units = std::mem::take(&mut pending.next);
        if !units.is_empty() {
            pending.spoiled = Some(Rejection::Stopped);
        }
        self.reopen(units.into_iter().map(|settled| settled.unit));
    }

    /// Units that were to be written are not.
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
                    self.pending_mut(submission).spoiled = Some(Rejection::Stale);
                }
                Unit::Shard(number) => self.units.shards.commit(number),
            }
        }
        self.arbitrations.reconsider();
        if !withdrawn.is_empty() {
            self.pending_mut(submission).spoiled = Some(Rejection::Stale);
            self.out.push(Action::Withdraw { heads: withdrawn });
        }
        self.tell_waiters(submission);
    }

    pub(super) fn commit_failed(&mut self, submission: SubmissionId, reason: String) {
        let generation = self.units.shards.generation;
        let mut units = self.written(submission);
        let pending = self.pending_mut(submission);
        units.extend(pending.next.drain(..).map(|settled| settled.unit));
        pending.spoiled = Some(Rejection::Stopped);
        if pending.generation != generation {
            units.retain(|unit| matches!(unit, Unit::Range(_)));
        }
        self.reopen(units);
        self.tell_waiters(submission);
        self.stop(StopReason::CommitFailed { reason });
    }

    /// Ends the write of a submission, and gives its units.
    fn written(&mut self, submission: SubmissionId) -> Vec<Unit> {
        let pending = self.pending.get_mut(&submission);
        let pending = pending.filter(|pending| !pending.writing.is_empty());
        let pending = pending.expect("the caller tells the outcome of each write once");
        std::mem::take(&mut pending.writing)
    }

    /// Settles a submission whose write has ended, and those that waited for it alone.
    fn tell_waiters(&mut self, submission: SubmissionId) {
        if self.is_faulty() {
            self.abandon(submission);
        }
        let pending = self.pending_mut(submission);
        let mut waiters = Vec::new();
        if pending.next.is_empty() {
            waiters = std::mem::take(&mut pending.waiters);
        }
        let spoiled = pending.spoiled.clone();
        self.advance_submission(submission);
        for waiter in waiters {
            let pending = self.pending_mut(waiter);
            pending.waits -= 1;
            if spoiled.is_some() {
                pending.spoiled.clone_from(&spoiled);
            }
            self.advance_submission(waiter);
        }
    }
}
