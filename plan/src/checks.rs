//! Checks: a range is evaluated once more, by a worker of another participant, before its content counts.
//!
//! Two kinds of ranges wait for that:
//!
//! * **Held** ones: their content is agreed, and not committed before it is checked. Chance chooses them when the
//!   result is there, so no worker knows beforehand which they are. If the plan has not heard for a while of any worker
//!   that may check, or two checks failed, the range is committed unchecked. If such a worker is there and does not
//!   take the check for as long as a lease lasts, the coordinator computes the range: a worker that is wrong must not
//!   gain by a friend that idles.
//! * [**Doubted**](super::doubts) ones: they are committed, and a participant that found them is not trusted any more.
//!   The coordinator takes part in these, one at a time, so they come to an end even if no worker is there.
//!
//! Checks are given out before all other work, as other ranges wait for them. If all workers are of one participant,
//! another of its workers gets the check.

mod due;

use std::collections::BTreeSet;

use chomp_table::rng::mix;
use chomp_table::{Head, RangeSummary};

use super::Plan;
use super::attempts::Vote;
use super::ids::{LeaseId, Millis, SubmissionId, Unit, WorkerId};
use super::messages::{Action, Loss, Rejection, Task, Verdict, Work};
use super::slots::Content;
pub(super) use due::{Check, Checks};

/// After so many failed checks a held range is committed unchecked, and a doubted one is computed by the coordinator.
const FAILED_CHECKS_MAX: u32 = 2;

impl Plan {
    /// Which of these ranges, handed in by `worker`, chance chooses for a check.
    pub(super) fn sample(
        &self,
        worker: WorkerId,
        ranges: &[RangeSummary],
        rng: u64,
    ) -> BTreeSet<Head> {
        let one_in = if self.present.len() <= 1 {
            self.settings.check_own_one_in
        } else {
            self.settings.check_one_in
        };
        if one_in == 0 || !self.is_running() {
            return BTreeSet::new();
        }
        let results = self.workers.get(&worker).map_or(0, |entry| entry.results);
        let drawn = |head: &Head| mix(rng ^ mix(head.0 + 1));
        let heads = ranges.iter().map(|range| range.head);
        let chosen = heads
            .clone()
            .filter(|head| drawn(head).is_multiple_of(one_in.into()));
        let mut chosen: BTreeSet<Head> = chosen.collect();
        if chosen.is_empty() && results < self.settings.checks_first.into() {
            chosen.extend(heads.min_by_key(drawn));
        }
        chosen
    }

    /// The workers that were heard of a short time ago and need not wait for tasks, the latest first. Workers that have
    /// fallen silent may be gone.
    fn awake(&self) -> impl Iterator<Item = WorkerId> {
        let contact = self.settings.contact_ms();
        let latest = self.silences.iter().rev();
        let awake = latest.take_while(move |(heard, _)| heard.plus(contact) > self.now);
        let awake = awake.map(|&(_, worker)| worker);
        awake.filter(|worker| !self.owes(worker.participant))
    }

    /// Whether a worker is there that may check what `voters` have found.
    fn may_be_checked(&self, voters: &[WorkerId]) -> bool {
        let mut awake = self.awake();
        self.is_running() && awake.any(|worker| self.may_check(worker, voters))
    }

    /// Whether `worker` may check what `voters` have found.
    pub(super) fn may_check(&self, worker: WorkerId, voters: &[WorkerId]) -> bool {
        let mut voters = voters.iter();
        voters.all(|&voter| self.may_judge(worker, voter))
    }

    /// Holds back a range, on whose content `voters` agree, until it is checked. Returns false if no worker may check
    /// it.
    pub(super) fn hold(
        &mut self,
        submission: SubmissionId,
        head: Head,
        content: Content,
        voters: Vec<WorkerId>,
    ) -> bool {
        if !self.may_be_checked(&voters) {
            return false;
        }
        self.want_check(head, Some(submission), content, voters);
        self.pending_mut(submission).held += 1;
        // Workers that still compute the range work in vain, and no other gets it.
        let unit = Unit::Range(head);
        let attempts = self.finish_unit(unit, None);
        self.update_attempts(unit, |new| new.votes = attempts.votes);
        true
    }

    /// Has a range checked.
    pub(super) fn want_check(
        &mut self,
        head: Head,
        submission: Option<SubmissionId>,
        content: Content,
        voters: Vec<WorkerId>,
    ) {
        let check = Check {
            held: submission,
            content,
            voters,
            lease: None,
            failed: 0,
            since: self.now,
        };
        self.checks.insert(head, check);
        self.requests_dirty = true;
    }

    pub(super) fn offer_check(&mut self, now: Millis, worker: WorkerId) -> Option<Task> {
        let may = |voters: &[WorkerId]| self.may_check(worker, voters);
        // A range should not wait until many others are checked with it.
        let positions = self.settings.range_bits.positions();
        let most = self.settings.task_positions_min / positions;
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
        let (heads, failed) = self.checks.wanted_by(may, most)?;
        let layer = heads[0].layer();
        let work = Work::Check {
            layer,
            heads: heads.clone(),
        };
        let lease = self.lease(now, worker, work.clone(), heads.len());
        for head in heads {
            self.checks.set_leased(head);
            let check = self.checks.due.get_mut(&head);
            check.expect("it was just there").lease = Some(lease);
        }
        self.unspeculated
            .insert((self.leases[&lease].speculate_at, lease));
        Some(Task {
            lease,
            attempt: failed + 1,
            lease_ms: self.settings.lease_ms,
            work,
        })
    }

    /// Whether this lease is one of a check, and `worker` may do the check in place of its holder.
    pub(super) fn may_reassign_check(&self, worker: WorkerId, id: LeaseId) -> bool {
        let lease = &self.leases[&id];
        let Work::Check { heads, .. } = &lease.work else {
            return false;
        };
        let mut checks = heads.iter().filter_map(|head| self.checks.due.get(head));
        let may = |check: &Check| check.lease == Some(id) && self.may_check(worker, &check.voters);
        self.may_judge(worker, lease.worker) && checks.any(may)
    }

    /// Takes a slow check from its worker. This does not count as a failed check: after two of these the range is
    /// committed unchecked.
    pub(super) fn reassign_check(&mut self, id: LeaseId) {
        let lease = self.cancel(id);
        self.note_idled(lease.worker);
        for head in lease.work.heads() {
            let check = self.checks.due.get_mut(head);
            if let Some(check) = check.filter(|check| check.lease == Some(id)) {
                check.lease = None;
                self.checks.set_free(*head);
            }
        }
    }

    /// Counts a failed check of those of these ranges that still wait for this lease. It counts even if the worker gave
    /// the lease back: a worker that always does must not hold up the ranges.
    pub(super) fn check_ended(&mut self, heads: &[Head], lease: LeaseId) {
        for &head in heads {
            let check = self.checks.due.get_mut(&head);
            let Some(check) = check.filter(|check| check.lease == Some(lease)) else {
                continue;
            };
            check.lease = None;
            check.failed += 1;
            let (is_held, enough) = (check.held.is_some(), check.failed >= FAILED_CHECKS_MAX);
            let voters = check.voters.clone();
            self.checks.set_free(head);
            self.requests_dirty = true;
            if is_held && (enough || !self.may_be_checked(&voters)) {
                self.release(head);
            } else if enough {
                self.arbitrate(Unit::Range(head));
            }
        }
        // The coordinator may compute one.
        self.arbitrations.reconsider();
    }

    /// Takes the result of a check: what a worker found in ranges, or that a shard is what was said of it.
    pub(super) fn checked(
        &mut self,
        submission: SubmissionId,
        worker: WorkerId,
        lease: LeaseId,
        ranges: &[RangeSummary],
    ) {
        let verdict = match self.judge_check(worker, lease, ranges) {
            Ok(shard) => {
                self.note_done(worker);
                if let Some(number) = shard {
                    self.confirm(number);
                }
                for range in ranges {
                    let content = Content::of_range(*range);
                    self.compare((worker, lease), range.head, content);
                }
                // Others check what was not handed in.
                if self.holds(worker, lease) {
                    self.end_lease(lease, None);
                }
                Verdict::Accepted
            }
            Err(reason) => {
                if self.holds(worker, lease) {
                    let loss = Loss::Rejected {
                        worker: self.name(worker),
                        reason: reason.clone(),
                    };
                    self.end_lease(lease, Some(&loss));
                }
                Verdict::Rejected { reason }
            }
        };
        self.out.push(Action::Settle {
            submission,
            verdict,
        });
    }

    /// Whether the result of a check may be used. Returns the shard if it is about one that was read back.
    fn judge_check(
        &self,
        worker: WorkerId,
        lease: LeaseId,
        ranges: &[RangeSummary],
    ) -> Result<Option<u32>, Rejection> {
        self.judge_sender(worker)?;
        let (heads, shard) = match self.work_of(worker, lease) {
            Some(Work::Check { heads, .. }) => (heads.as_slice(), None),
            Some(Work::ReadBack { shard }) => (&[][..], Some(*shard)),
            _ => return Err(Rejection::Stale),
        };
        if shard.is_none() && ranges.is_empty() {
            return Err(Rejection::Empty);
        }
        let mut seen = BTreeSet::new();
        for &RangeSummary { head, .. } in ranges {
            if heads.binary_search(&head).is_err() {
                let unit = Unit::Range(head);
                return Err(Rejection::NotLeased { unit, lease });
            }
            if !seen.insert(head) {
                return Err(Rejection::Twice { head });
            }
        }
        Ok(shard)
    }

    /// Compares what a check has found with the agreed content, if the range still waits for this check.
    fn compare(&mut self, (worker, lease): (WorkerId, LeaseId), head: Head, content: Content) {
        let Some(check) = self.checks.due.get(&head) else {
            return;
        };
        if check.lease != Some(lease) {
            return;
        }
        let unit = Unit::Range(head);
        let vote = Vote { worker, content };
        let agrees = content == check.content;
        match (check.held, agrees) {
            (Some(_), true) => {
                self.update_attempts(unit, |attempts| attempts.votes.push(vote));
                self.release(head);
            }
            (Some(_), false) => {
                self.update_attempts(unit, |attempts| attempts.votes.push(vote));
                self.arbitrate(unit);
            }
            (None, true) => self.dispel(head, worker),
            (None, false) => {
                self.arbitrate(unit);
                self.arbitrations.claim(unit, vote);
            }
        }
    }

    /// Ends the wait of a range for a check, and returns the check if there was one.
    pub(super) fn end_check(&mut self, head: Head) -> Option<Check> {
        let check = self.checks.remove(head)?;
        if let Some(id) = check.lease {
            let lease = self.leases.get_mut(&id).expect("the check is leased");
            lease.open_units -= 1;
            if lease.open_units == 0 {
                self.cancel(id);
            }
        }
        Some(check)
    }

    /// Has a held range committed.
    pub(super) fn release(&mut self, head: Head) {
        if self.is_faulty() {
            return self.drop_check(head, Some(Rejection::Stopped));
        }
        let Some(check) = self.end_check(head) else {
            return;
        };
        let submission = check.held.expect("only what is held is released");
        let unit = Unit::Range(head);
        self.accept_content(submission, unit, check.content, None);
        self.pending_mut(submission).held -= 1;
        self.advance_submission(submission);
    }

    /// Ends the check of a range whose content is to be found otherwise. Its votes stay.
    pub(super) fn drop_check(&mut self, head: Head, reason: Option<Rejection>) {
        if let Some(check) = self.end_check(head)
            && let Some(submission) = check.held
        {
            let pending = self.pending_mut(submission);
            pending.held -= 1;
            pending.awaits_votes = true;
            if reason.is_some() {
                pending.rejection = reason;
            }
            self.reconsider(Unit::Range(head));
            self.advance_submission(submission);
        }
    }

    /// Has the held ranges committed that no worker may check any more.
    pub(super) fn release_uncheckable(&mut self) {
        self.holds_checked_at = self.now;
        self.arbitrate_unchecked();
        // As long as there are more participants than agree on a range, one may check it.
        let agreeing = self.settings.replicas.max(1) as usize;
        let mut awake = BTreeSet::new();
        let is_enough = self.awake().any(|worker| {
            awake.insert(worker.participant);
            awake.len() > agreeing
        });
        if self.is_running() && is_enough {
            return;
        }
        // A worker that has a check in hand is counted on no longer than the others.
        for head in self.held_heads() {
            if let Some(check) = self.checks.due.get(&head)
                && !self.may_be_checked(&check.voters)
            {
                self.release(head);
            }
        }
    }

    fn held_heads(&self) -> Vec<Head> {
        self.checks.held.iter().map(|&(_, head)| head).collect()
    }

    /// Has the coordinator compute the held ranges whose check no worker takes.
    fn arbitrate_unchecked(&mut self) {
        if !self.is_running() {
            return;
        }
        let lease_ms = self.settings.lease_ms;
        let late = self.checks.held.iter();
        let late = late.take_while(|(since, _)| since.plus(lease_ms) <= self.now);
        let late = late.filter(|(_, head)| self.checks.due[head].lease.is_none());
        for (_, head) in late.copied().collect::<Vec<_>>() {
            self.arbitrate(Unit::Range(head));
        }
    }

    /// When the held ranges have to be looked at again: the next worker is not counted on for checks any more, or no
    /// worker has taken the next check for too long.
    pub(super) fn next_hold_check(&self) -> Option<Millis> {
        let &(since, _) = self.checks.held.first()?;
        // A check in hand is looked at again when its lease has ended.
        let overdue = since.plus(self.settings.lease_ms);
        let overdue = (overdue > self.holds_checked_at).then_some(overdue);
        let contact = self.settings.contact_ms();
        let silent = Millis(self.holds_checked_at.0.saturating_sub(contact));
        let mut later = self.silences.range((silent, WorkerId::new(0, 0))..);
        let next = later.find(|(heard, _)| heard.plus(contact) > self.holds_checked_at);
        let silence = next.map(|(heard, _)| heard.plus(contact));
        silence.into_iter().chain(overdue).min()
    }

    /// Has all held ranges committed, because the job ends.
    pub(super) fn end_holds(&mut self) {
        for head in self.held_heads() {
            if self.checks.contains(head) {
                self.release(head);
            }
        }
    }
}
