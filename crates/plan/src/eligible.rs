//! Who may still vote: units that wait for one more vote wait only as long as somebody is there to give it.
//!
//! A worker is **eligible** for a unit if its vote would be of use, and it asks for a task, or has asked for one or
//! handed one in within the time of a lease. Heartbeats do not count, nor does one who has to wait for its next task.
//! If nobody is eligible, a unit on which enough agree is settled without the vote, and one that has too few finders
//! left is computed by the coordinator. If somebody is, and does not vote for the time of a lease, the coordinator
//! computes it: a worker that is wrong must not gain by a friend that idles. The coordinator takes a few of these at a
//! time, the oldest first, and the others stay on offer: it is one of many, and need not do what workers come to.

use std::collections::{BTreeMap, BTreeSet};

use super::arbitration::ArbitrationReason;
use super::ids::{Millis, Unit, WorkerId};
use super::jury::Standing;
use super::messages::Rejection;
use super::slots::UnitState;
use super::{Phase, Plan};

/// The units that wait for votes.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// Drawn ones on which enough agree, and those that are open again.
    pub(super) since: BTreeMap<Unit, Millis>,
    oldest: BTreeSet<(Millis, Unit)>,
    /// When the plan last looked at all of them.
    reviewed: Millis,
}

impl Plan {
    /// Notes that a unit waits for votes from now on.
    pub(super) fn await_votes(&mut self, unit: Unit) {
        let since = *self.awaited.since.entry(unit).or_insert(self.now);
        self.awaited.oldest.insert((since, unit));
    }

    pub(super) fn end_wait(&mut self, unit: Unit) {
        if let Some(since) = self.awaited.since.remove(&unit) {
            self.awaited.oldest.remove(&(since, unit));
        }
    }

    /// Has others find a known unit again that has too few finders left.
    pub(super) fn reopened(&mut self, unit: Unit) {
        if !self.units.contains(unit) {
            return;
        }
        let may_wait = matches!(unit, Unit::Range(_)) && self.units.is_ready(unit);
        if may_wait && !self.arbitrations.contains(unit) {
            self.await_votes(unit);
            self.reconsider(unit);
        } else if let Unit::Shard(number) = unit {
            self.rewrite(number);
        } else if !matches!(
            self.units.state(unit),
            UnitState::Ready | UnitState::Blocked
        ) {
            self.arbitrate(unit, ArbitrationReason::Unsettled);
        }
    }

    /// The workers that ask for tasks, or have done so or handed one in a short time ago.
    pub(super) fn active(&self) -> impl Iterator<Item = WorkerId> {
        let asking = self.queue.iter().map(|waiter| waiter.worker);
        let lease_ms = self.settings.lease_ms;
        let latest = self.asked.iter().rev();
        let recent = latest.take_while(move |(asked, _)| asked.plus(lease_ms) > self.now);
        let active = asking.chain(recent.map(|&(_, worker)| worker));
        active.filter(|worker| !self.owes(worker.participant))
    }

    /// Whether somebody is there to vote on a unit who has not.
    pub(super) fn is_eligible(&self, unit: Unit) -> bool {
        let doers = self.jury.doers(unit);
        let may = |worker: WorkerId| !doers.iter().any(|doer| doer.includes(worker));
        self.is_running() && self.active().any(may)
    }

    /// Notes that a worker asks for a task, or has done one.
    pub(super) fn asks(&mut self, worker: WorkerId) {
        if let Some(entry) = self.workers.get_mut(&worker) {
            self.asked.remove(&(entry.asked, worker));
            entry.asked = self.now;
            self.asked.insert((self.now, worker));
        }
    }

    /// Whether more participants are active than agree on a unit: then one is eligible, whatever the unit.
    fn is_in_company(&self) -> bool {
        let agreeing = self.settings.replicas as usize;
        let mut active = BTreeSet::new();
        let mut workers = self.active();
        let is_enough = workers.any(|worker| {
            active.insert(worker.participant);
            active.len() > agreeing
        });
        self.is_running() && is_enough
    }

    /// Settles the units on which enough agree and nobody else can vote any more.
    pub(super) fn review(&mut self) {
        self.awaited.reviewed = self.now;
        self.arbitrations.is_new = true;
        if self.is_in_company() {
            return;
        }
        for unit in self.awaited.since.keys().copied().collect::<Vec<_>>() {
            if self.jury.standing(unit) == Standing::Agreed && !self.is_eligible(unit) {
                self.settle(unit, None);
            }
        }
    }

    /// A unit that the coordinator computes since nobody else does, if there is one.
    pub(super) fn neglected(&self) -> Option<Unit> {
        let &(since, oldest) = self.awaited.oldest.first()?;
        if since.plus(self.settings.lease_ms) <= self.now {
            return Some(oldest);
        }
        if self.is_in_company() {
            return None;
        }
        let mut waiting = self.awaited.oldest.iter().map(|&(_, unit)| unit);
        waiting.find(|&unit| !self.is_eligible(unit))
    }

    /// Ends the wait of all votes, because the job ends.
    pub(super) fn end_votes(&mut self) {
        if self.is_faulty() || self.phase == Phase::Finished {
            for unit in self.jury.voted().collect::<Vec<_>>() {
                self.void_votes(unit, &Rejection::Stopped);
            }
        } else if !self.awaited.since.is_empty() {
            self.review();
        }
    }

    /// When the units that wait have to be looked at again: a worker is not counted on any more, or one of them has
    /// waited for too long.
    pub(super) fn next_review(&self) -> Option<Millis> {
        let &(since, _) = self.awaited.oldest.first()?;
        if !self.is_running() {
            return None;
        }
        let lease_ms = self.settings.lease_ms;
        let reviewed = self.awaited.reviewed;
        let inactive = Millis(reviewed.0.saturating_sub(lease_ms));
        let mut later = self.asked.range((inactive, WorkerId::new(0, 0))..);
        let next = later.find(|(asked, _)| asked.plus(lease_ms) > reviewed);
        let next = next.map(|(asked, _)| asked.plus(lease_ms));
        // If the coordinator has its hands full, it takes the next unit when it has done one.
        let late = self.arbitrations.has_room().then(|| since.plus(lease_ms));
        next.into_iter().chain(late).min()
    }

    /// Notes that a participant came or went.
    pub(super) fn company_changed(&mut self) {
        if self.jury.set_alone(self.present.len() <= 1) {
            // Who has voted counts in another way now.
            for unit in self.ready.begun().collect::<Vec<_>>() {
                self.reconsider(unit);
            }
            for unit in self.awaited.since.keys().copied().collect::<Vec<_>>() {
                self.reconsider(unit);
                if let Standing::Settled(_) = self.jury.standing(unit) {
                    self.settle(unit, None);
                }
            }
        }
        self.review();
    }
}
