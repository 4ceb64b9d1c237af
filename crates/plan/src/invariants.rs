//! Recounts everything that the plan keeps more than once. Looks at every range: for tests.

use std::collections::{BTreeMap, BTreeSet};

use super::messages::PlanTypes;
use super::queue::OfferKind;
use super::units::{State, priority};
use super::{LeaseId, Plan, Unit, WorkerId};

impl<T: PlanTypes> Plan<T> {
    /// Panics if the plan does not agree with itself, or a request waits in vain.
    pub fn assert_invariants(&self) {
        let state = |head| self.units.state(Unit::Range(head));
        let known = |head| self.units.content(Unit::Range(head)).expect("committed");
        self.units.ranges.check(state, |head| known(head).count);
        self.assert_shards();
        self.assert_leases();
        self.assert_checks();
        self.assert_requests();
    }

    fn all_units(&self) -> impl Iterator<Item = Unit> + '_ {
        self.units.all_ranges().chain(self.units.shards())
    }

    fn assert_shards(&self) {
        let is_done = |&unit: &Unit| self.units.is_done(unit);
        let done = self.units.shards().filter(is_done).count();
        assert_eq!(self.units.shards_done, done as u64);
        let mut shards = self.units.shards();
        assert!(shards.all(|unit| self.units.state(unit) != State::Blocked));
        let is_known = |unit| self.units.content(unit).is_some();
        let are_known = || self.units.all_ranges().all(is_known);
        assert!(!self.units.is_cut() || are_known(), "cut too early");
    }

    /// Each lease is listed at its worker and at those of its units that are open.
    fn assert_leases(&self) {
        let mut of_units: BTreeMap<LeaseId, usize> = BTreeMap::new();
        for unit in self.all_units() {
            let is_open = matches!(self.units.state(unit), State::Open | State::Done);
            let of_unit = self.units.leases(unit);
            assert!(is_open || of_unit.is_empty(), "{unit} is leased");
            for &(lease, holder) in of_unit {
                assert_eq!(self.leases.all[&lease].worker, holder);
                let is_shard = matches!(unit, Unit::Shard(_));
                assert!(
                    is_shard || self.units.has_sources(unit),
                    "{unit} is leased too early"
                );
                *of_units.entry(lease).or_default() += 1;
            }
        }
        assert!(self.leases.all.keys().eq(of_units.keys()), "{of_units:?}");
        let mut of_workers: BTreeSet<(WorkerId, LeaseId)> = BTreeSet::new();
        for (&worker, entry) in &self.workers.by_id {
            of_workers.extend(entry.leases.iter().map(|&lease| (worker, lease)));
        }
        let leases = self.leases.all.iter();
        let leases: BTreeSet<_> = leases.map(|(&id, lease)| (lease.worker, id)).collect();
        assert_eq!(of_workers, leases);
    }

    fn assert_checks(&self) {
        let is_owing = |unit: &Unit| self.units.is_done(*unit) && self.debt(*unit).is_some();
        let owing = self.all_units().filter(is_owing).count();
        assert_eq!(owing, self.checks.open_count());
    }

    /// A request of a worker waits only if there is nothing for it.
    fn assert_requests(&self) {
        for waiter in &self.review.waiting {
            assert!(self.is_running(), "a request waits for nothing");
            if self.ending.is_under_way {
                continue;
            }
            if waiter.worker.is_referee() {
                assert_eq!(self.referee_unit(), None, "the referee waits in vain");
                continue;
            }
            let worker = &self.workers.by_id[&waiter.worker];
            let idle = !worker.is_busy();
            let first = |pool| {
                let worker = waiter.worker;
                self.queue.units_for(worker, pool, idle, |_| 1)
            };
            for pool in [OfferKind::Work, OfferKind::Checks, OfferKind::Slow] {
                let units = first(pool);
                assert!(units.is_none(), "{waiter:?} waits in vain for {units:?}");
            }
        }
        self.queue.fresh.check(|worker| self.is_present(worker));
        for unit in self.all_units() {
            assert_eq!(self.queue.offer(unit), self.offer(unit), "{unit}");
            let is_left = self.checks.left_to_referee.contains(&priority(unit));
            assert_eq!(is_left, self.is_left_to_referee(unit), "{unit}");
        }
    }
}
