//! Checks: a range whose content is settled waits until another worker has looked at its record.
//!
//! Which ranges that is, chance decides when the result is there, so that no worker knows it
//! beforehand. The check goes to a worker of a participant that did not find the content, before all other
//! work: what draws on the range waits for it. (If all workers are one participant's, it goes to another of them.)
//! If no such worker was heard of for a while, or two have tried in vain, the range is committed without. If one is there and does not take the check for as long as a
//! lease lasts, the coordinator computes the range itself: a worker that is wrong must not gain by a friend who idles.

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::chance::mix;
use chomp_table::{Head, RangeSummary};

use super::Plan;
use super::ids::{LeaseId, Millis, SubmissionId, Unit, WorkerId};
use super::messages::{Action, Rejection, Task, Verdict, Work};
use super::units::{Content, Place, place};

/// After so many lost checks a range is committed without.
const LOST_MAX: u32 = 2;
/// Of so many groups of checks the lowest range is chosen.
const GROUPS_LOOKED_AT: usize = 16;

/// A range that waits for a check.
#[derive(Debug)]
pub(super) struct Hold {
    /// The result that is committed after the check.
    pub(super) submission: SubmissionId,
    pub(super) content: Content,
    /// Who found that content, one of each participant, ascending.
    pub(super) voters: Vec<WorkerId>,
    /// The check that is under way.
    pub(super) lease: Option<LeaseId>,
    lost: u32,
    since: Millis,
}

/// What a result of a check is about.
enum Checked {
    Range(Head, Content),
    Shard(u32),
}

/// The checks that nobody has in hand, by who must not have them.
#[derive(Debug, Default)]
pub(super) struct Checks(BTreeMap<Vec<WorkerId>, BTreeSet<Place>>);

impl Checks {
    pub(super) fn is_wanted(&self) -> bool {
        !self.0.is_empty()
    }

    fn insert(&mut self, voters: &[WorkerId], head: Head) {
        let group = self.0.entry(voters.to_vec()).or_default();
        group.insert(place(Unit::Range(head)));
    }

    fn remove(&mut self, voters: &[WorkerId], head: Head) {
        if let Some(group) = self.0.get_mut(voters) {
            group.remove(&place(Unit::Range(head)));
            if group.is_empty() {
                self.0.remove(voters);
            }
        }
    }

    /// A range that somebody may check who `may` look at what these have found, one of a low layer.
    fn wanted_by(&self, may: impl Fn(&[WorkerId]) -> bool) -> Option<Head> {
        let admitted = self.0.iter().filter(|(voters, _)| may(voters));
        let first = |(_, group): (_, &BTreeSet<Place>)| group.first().copied();
        let firsts = admitted.take(GROUPS_LOOKED_AT).filter_map(first);
        firsts.min().map(|(_, number)| Head(number))
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = (&Vec<WorkerId>, Head)> {
        let groups = self.0.iter();
        groups.flat_map(|(voters, group)| group.iter().map(move |place| (voters, Head(place.1))))
    }
}

impl Plan {
    /// Which of these ranges, handed in by `worker`, chance chooses for a check.
    pub(super) fn sample(
        &self,
        worker: WorkerId,
        ranges: &[RangeSummary],
        chance: u64,
    ) -> BTreeSet<Head> {
        let one_in = u64::from(self.settings.check_one_in);
        if one_in == 0 || !self.is_running() {
            return BTreeSet::new();
        }
        let results = self.workers.get(&worker).map_or(0, |entry| entry.results);
        let drawn = |head: &Head| mix(chance ^ mix(head.0 + 1));
        let heads = ranges.iter().map(|range| range.head);
        let chosen = heads
            .clone()
            .filter(|head| drawn(head).is_multiple_of(one_in));
        let mut chosen: BTreeSet<Head> = chosen.collect();
        if chosen.is_empty() && results < self.settings.checks_first.into() {
            chosen.extend(heads.min_by_key(drawn));
        }
        chosen
    }

    /// The workers that were heard of a short time ago, the last one first. Those that have fallen silent may
    /// be gone.
    fn awake(&self) -> impl Iterator<Item = WorkerId> {
        let contact = self.settings.contact_ms();
        let latest = self.silences.iter().rev();
        let awake = latest.take_while(move |(heard, _)| heard.plus(contact) > self.now);
        awake.map(|&(_, worker)| worker)
    }

    /// Whether somebody is there who may check what these have found.
    fn may_be_checked(&self, voters: &[WorkerId]) -> bool {
        let mut awake = self.awake();
        self.is_running() && awake.any(|worker| self.may_check(worker, voters))
    }

    /// Whether `worker` may check what these have found.
    pub(super) fn may_check(&self, worker: WorkerId, voters: &[WorkerId]) -> bool {
        let mut voters = voters.iter();
        voters.all(|&voter| self.may_judge(worker, voter))
    }

    /// Holds back a range, on whose content `voters` agree, until it is checked. False if nobody
    /// may check it.
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
        self.checks.insert(&voters, head);
        self.news = true;
        let hold = Hold {
            submission,
            content,
            voters,
            lease: None,
            lost: 0,
            since: self.now,
        };
        self.held_since.insert((hold.since, head));
        self.holds.insert(head, hold);
        self.withdraw_offers(head);
        true
    }

    /// Those who still compute a range that is held work in vain, and nobody else is given it.
    fn withdraw_offers(&mut self, head: Head) {
        let unit = Unit::Range(head);
        let copies = self.take(unit);
        self.refile(unit, |new| new.votes = copies.votes);
    }

    pub(super) fn offer_check(&mut self, now: Millis, worker: WorkerId) -> Option<Task> {
        let may = |voters: &[WorkerId]| self.may_check(worker, voters);
        let head = self.checks.wanted_by(may)?;
        let hold = &self.holds[&head];
        let work = Work::Check {
            range: hold.content.summary(head),
            submission: hold.submission,
        };
        let attempt = hold.lost + 1;
        let lease = self.lease(now, worker, work.clone(), 1);
        let hold = self.holds.get_mut(&head).expect("it was just there");
        hold.lease = Some(lease);
        self.checks.remove(&hold.voters, head);
        Some(Task {
            lease,
            attempt,
            lease_ms: self.settings.lease_ms,
            work,
        })
    }

    /// The lease of a check ended without a result. That counts even if the worker gave it back in order: one that
    /// always does must not hold up the range.
    pub(super) fn check_ended(&mut self, head: Head, lease: LeaseId, out: &mut Vec<Action>) {
        let Some(hold) = self.holds.get_mut(&head) else {
            return;
        };
        if hold.lease != Some(lease) {
            return;
        }
        hold.lease = None;
        hold.lost += 1;
        let enough = hold.lost >= LOST_MAX;
        let voters = hold.voters.clone();
        self.checks.insert(&voters, head);
        self.news = true;
        if enough || !self.may_be_checked(&voters) {
            self.release(head, out);
        }
    }

    pub(super) fn checked(
        &mut self,
        submission: SubmissionId,
        worker: WorkerId,
        lease: LeaseId,
        refuted: bool,
        out: &mut Vec<Action>,
    ) {
        let verdict = match self.judge_check(worker, lease) {
            Ok(checked) => {
                self.count_success(worker);
                match checked {
                    Checked::Range(head, content) => {
                        self.cancel_check(head);
                        if refuted {
                            self.arbitrate(Unit::Range(head), out);
                            self.arbitrations.accuse(Unit::Range(head), worker, content);
                        } else {
                            self.release(head, out);
                        }
                    }
                    Checked::Shard(_) if refuted => self.end_lease(lease, None, out),
                    Checked::Shard(number) => self.confirm(number),
                }
                Verdict::Accepted
            }
            Err(reason) => Verdict::Rejected { reason },
        };
        out.push(Action::Settle {
            submission,
            verdict,
        });
    }

    /// What was checked.
    fn judge_check(&self, worker: WorkerId, lease: LeaseId) -> Result<Checked, Rejection> {
        self.judge_sender(worker)?;
        match self.work_of(worker, lease) {
            Some(Work::Check { range, .. }) => {
                let content = self.holds[&range.head].content;
                Ok(Checked::Range(range.head, content))
            }
            Some(Work::ReadBack { shard }) => Ok(Checked::Shard(*shard)),
            _ => Err(Rejection::Stale),
        }
    }

    /// Ends the check that is under way, if one is.
    fn cancel_check(&mut self, head: Head) {
        let Some(hold) = self.holds.get_mut(&head) else {
            return;
        };
        let voters = hold.voters.clone();
        match hold.lease.take() {
            Some(lease) => {
                self.cancel(lease);
                self.checks.insert(&voters, head);
            }
            None => debug_assert!(self.checks.is_wanted()),
        }
    }

    fn end_hold(&mut self, head: Head) -> Option<Hold> {
        self.cancel_check(head);
        let hold = self.holds.remove(&head)?;
        self.held_since.remove(&(hold.since, head));
        self.checks.remove(&hold.voters, head);
        Some(hold)
    }

    /// Has a range committed that was held back.
    pub(super) fn release(&mut self, head: Head, out: &mut Vec<Action>) {
        if self.is_faulty() {
            return self.drop_hold(head, Some(Rejection::Stopped), out);
        }
        let Some(hold) = self.end_hold(head) else {
            return;
        };
        let unit = Unit::Range(head);
        self.settle_unit(hold.submission, unit, hold.content, None);
        self.pending_mut(hold.submission).held -= 1;
        self.advance_submission(hold.submission, out);
    }

    /// A range is not held back any more, because its content is in doubt. Its votes stay.
    pub(super) fn drop_hold(
        &mut self,
        head: Head,
        reason: Option<Rejection>,
        out: &mut Vec<Action>,
    ) {
        if let Some(hold) = self.end_hold(head) {
            let pending = self.pending_mut(hold.submission);
            pending.held -= 1;
            pending.noted = true;
            if reason.is_some() {
                pending.spoiled = reason;
            }
            self.reconsider(Unit::Range(head));
            self.advance_submission(hold.submission, out);
        }
    }

    /// Commits what nobody may check any more.
    pub(super) fn release_unwatched(&mut self, out: &mut Vec<Action>) {
        self.watched = self.now;
        self.arbitrate_unchecked(out);
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
        // Who has a check in hand is counted on no longer than the others.
        let heads = self.holds.iter();
        let heads = heads.filter(|(_, hold)| !self.may_be_checked(&hold.voters));
        let heads: Vec<Head> = heads.map(|(&head, _)| head).collect();
        for head in heads {
            self.release(head, out);
        }
    }

    /// Has the coordinator compute the ranges whose check nobody takes.
    fn arbitrate_unchecked(&mut self, out: &mut Vec<Action>) {
        if !self.is_running() {
            return;
        }
        let lease_ms = self.settings.lease_ms;
        let late = self.held_since.iter();
        let late = late.take_while(|(since, _)| since.plus(lease_ms) <= self.now);
        let late = late.filter(|(_, head)| self.holds[head].lease.is_none());
        for (_, head) in late.copied().collect::<Vec<_>>() {
            self.arbitrate(Unit::Range(head), out);
        }
    }

    /// When the next worker is not counted on any more, or the next check was not taken for too long, if something
    /// is held.
    pub(super) fn next_unwatched(&self) -> Option<Millis> {
        let &(since, _) = self.held_since.first()?;
        // One that is in hand is looked at again when its lease has ended.
        let overdue = since.plus(self.settings.lease_ms);
        let overdue = (overdue > self.watched).then_some(overdue);
        let contact = self.settings.contact_ms();
        let silent = Millis(self.watched.0.saturating_sub(contact));
        let mut later = self.silences.range((silent, WorkerId::new(0, 0))..);
        let next = later.find(|(heard, _)| heard.plus(contact) > self.watched);
        let silence = next.map(|(heard, _)| heard.plus(contact));
        silence.into_iter().chain(overdue).min()
    }

    /// Nothing is checked any more: the job ends.
    pub(super) fn end_holds(&mut self, out: &mut Vec<Action>) {
        for head in self.holds.keys().copied().collect::<Vec<_>>() {
            self.release(head, out);
        }
    }
}
