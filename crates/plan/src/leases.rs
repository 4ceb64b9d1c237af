//! Leases: which worker has which task, until when, and what happens when it ends.

use std::collections::{BTreeMap, BTreeSet};

use super::Plan;
use super::ids::{LeaseId, Millis, Unit, WorkerId};
use super::messages::{PlanTypes, Task, Work};
use super::reasons::{Failure, StopReason};
use super::units::Units;

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) worker: WorkerId,
    pub(super) work: Work,
    /// How many of its units it still has to compute, at least one.
    open_units: usize,
    deadline: Millis,
    slow_at: Millis,
    /// Whether a worker that would idle may get a speculative second lease on its units.
    pub(super) is_slow: bool,
}

#[derive(Debug, Default)]
pub(super) struct Leases {
    pub(super) all: BTreeMap<LeaseId, Lease>,
    deadlines: BTreeSet<(Millis, LeaseId)>,
    /// When each lease that is not slow yet becomes slow.
    slow_at: BTreeSet<(Millis, LeaseId)>,
    next: u64,
}

impl Leases {
    /// Numbers begin at `first`, above those of every earlier coordinator, so none is used twice.
    pub(super) fn new(first: u64) -> Leases {
        Leases {
            next: first,
            ..Leases::default()
        }
    }

    /// When the next lease expires or becomes slow.
    pub(super) fn next_deadline(&self) -> Option<Millis> {
        let next = [self.deadlines.first(), self.slow_at.first()];
        next.into_iter().flatten().map(|&(at, _)| at).min()
    }
}

impl<T: PlanTypes> Plan<T> {
    /// Leases units to a worker: ranges of one layer, or one shard.
    pub(super) fn lease(&mut self, worker: WorkerId, units: &[Unit]) -> Task {
        let attempt = self.units.failed_attempts(units[0]).saturating_add(1);
        let work = self.work(units);
        let lease = self.begin_lease(worker, work.clone());
        for &unit in units {
            self.units.work_mut(unit).leases.push((lease, worker));
        }
        Task {
            lease,
            attempt,
            work,
        }
    }

    fn begin_lease(&mut self, worker: WorkerId, work: Work) -> LeaseId {
        let id = LeaseId(self.leases.next);
        self.leases.next += 1;
        let deadline = self.now.plus(self.settings.lease_ms);
        let slow_at = self.now.plus(self.settings.straggler_ms);
        let lease = Lease {
            worker,
            open_units: work.units().count(),
            work,
            deadline,
            slow_at,
            is_slow: false,
        };
        self.leases.all.insert(id, lease);
        self.leases.deadlines.insert((deadline, id));
        self.leases.slow_at.insert((slow_at, id));
        self.workers.get_mut(worker).leases.insert(id);
        self.update_waiter(worker);
        id
    }

    /// Leases units to a worker, whoever else may have them. For tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn pretend_leased(&mut self, worker: WorkerId, units: &[Unit]) -> LeaseId {
        let lease = self.lease(worker, units).lease;
        self.update_offers();
        lease
    }

    /// Lets a worker write this shard, which need not be there. For tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn pretend_writing(&mut self, worker: WorkerId, shard: u32) {
        let work = Work::Merge {
            shard,
            head: chomp_table::Head(0),
            skip: 0,
            is_check: false,
        };
        self.begin_lease(worker, work);
    }

    /// Renews the leases that the worker holds. Returns the others, on which work is of no use any more.
    pub fn renew(&mut self, now: Millis, worker: WorkerId, leases: &[LeaseId]) -> Vec<LeaseId> {
        let now = self.now.max(now);
        self.workers.hear(now, worker);
        let deadline = now.plus(self.settings.lease_ms);
        let is_over = self.is_faulty();
        let mut lost = Vec::new();
        for &id in leases {
            let lease = self.leases.all.get_mut(&id);
            match lease.filter(|lease| lease.worker == worker && !is_over) {
                Some(lease) => {
                    self.leases.deadlines.remove(&(lease.deadline, id));
                    self.leases.deadlines.insert((deadline, id));
                    lease.deadline = deadline;
                }
                None => lost.push(id),
            }
        }
        lost
    }

    pub(super) fn on_returned(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        failure: Option<String>,
    ) {
        self.workers.hear(self.now, worker);
        if self.holds(worker, lease) {
            let worker = self.workers.name(worker);
            let failure = failure.map(|reason| Failure::Reported { worker, reason });
            self.end_lease(lease, failure.as_ref());
        }
    }

    pub(super) fn expire(&mut self) {
        while let Some(&(deadline, lease)) = self.leases.deadlines.first()
            && deadline <= self.now
        {
            let silent = self.leases.all[&lease].worker;
            // A worker that does not renew its lease loses its regions, so that others need not wait for it.
            self.queue.fresh.release(silent);
            self.review.is_due = true;
            let worker = self.workers.name(silent);
            self.end_lease(lease, Some(&Failure::Expired { worker }));
        }
    }

    pub(super) fn speculate(&mut self) {
        while let Some(&(at, id)) = self.leases.slow_at.first()
            && at <= self.now
        {
            self.leases.slow_at.pop_first();
            let lease = self.leases.all.get_mut(&id).expect("it stands");
            lease.is_slow = true;
            self.units.touch(lease.work.units());
        }
    }

    /// Whether this worker holds the lease.
    pub fn holds(&self, worker: WorkerId, lease: LeaseId) -> bool {
        self.work_of(worker, lease).is_some()
    }

    /// The work of the lease, if this worker holds it.
    pub fn work_of(&self, worker: WorkerId, lease: LeaseId) -> Option<&Work> {
        let lease = self.leases.all.get(&lease);
        let lease = lease.filter(|lease| lease.worker == worker);
        lease.map(|lease| &lease.work)
    }

    /// Whether a worker may write the file of a shard: it holds a lease for that.
    pub fn may_write(&self, worker: WorkerId, shard: u32) -> bool {
        let leases = self.workers.by_id.get(&worker).map(|worker| &worker.leases);
        let mut works = leases
            .into_iter()
            .flatten()
            .map(|id| &self.leases.all[id].work);
        works.any(|work| {
            matches!(*work, Work::Merge { shard: number, is_check: false, .. } if number == shard)
        })
    }

    /// Units that are not done are offered again, with one more failed attempt if the lease failed.
    pub(super) fn end_lease(&mut self, id: LeaseId, failure: Option<&Failure>) {
        let lease = self.remove_lease(id);
        if let Some(worker) = self.workers.by_id.get_mut(&lease.worker) {
            worker.progress.failures += u64::from(failure.is_some());
        }
        for unit in lease.work.units() {
            if !self.units.leases(unit).iter().any(|&(one, _)| one == id) {
                continue;
            }
            let work = self.units.work_mut(unit);
            work.leases.retain(|&(lease, _)| lease != id);
            let Some(failure) = failure else {
                continue;
            };
            match failure {
                Failure::Expired { .. } => work.expiries += 1,
                Failure::Reported { .. } => work.failures += 1,
            }
            let is_referees =
                lease.worker.is_referee() && matches!(failure, Failure::Reported { .. });
            work.referee_failures += u32::from(is_referees);
            if is_referees && work.referee_failures >= self.settings.failures_max {
                let (attempts, last) = (self.units.failed_attempts(unit), failure.clone());
                self.stop(StopReason::GaveUp {
                    unit,
                    attempts,
                    last,
                });
            } else if matches!(unit, Unit::Shard(_))
                && self.units.is_done(unit)
                && self.units.failed_often(unit, &self.settings)
            {
                // Its file may be damaged.
                self.on_shard_lost(unit);
            }
        }
    }

    /// Ends all leases on a unit, each as a whole.
    pub(super) fn end_leases_on(&mut self, unit: Unit) {
        for (lease, _) in self.units.leases(unit).to_vec() {
            self.end_lease(lease, None);
        }
    }

    /// Ends all leases that have such a unit, each as a whole.
    pub(super) fn end_leases_with(&mut self, is_one: impl Fn(&Units<T::Location>, Unit) -> bool) {
        let leases = self.leases.all.iter();
        let ends = |lease: &Lease| lease.work.units().any(|unit| is_one(&self.units, unit));
        let ending = leases.filter(|(_, lease)| ends(lease));
        for lease in ending.map(|(&id, _)| id).collect::<Vec<_>>() {
            self.end_lease(lease, None);
        }
    }

    /// Ends all work on a unit that is found, or needs no more checks, unless the referee has to decide about it.
    pub(super) fn end_work_on(&mut self, unit: Unit) {
        if self.units.awaits_decision(unit) {
            return;
        }
        let work = self.units.work_mut(unit);
        (work.expiries, work.failures, work.referee_failures) = (0, 0, 0);
        work.results.clear();
        // The referee may find something else than what is held to be right now.
        let ends = |(_, worker): &mut (LeaseId, WorkerId)| !worker.is_referee();
        for (id, _) in work.leases.extract_if(.., ends).collect::<Vec<_>>() {
            let lease = self.leases.all.get_mut(&id).expect("the unit is leased");
            lease.open_units -= 1;
            if lease.open_units == 0 {
                self.remove_lease(id);
            }
        }
    }

    fn remove_lease(&mut self, id: LeaseId) -> Lease {
        let lease = self.leases.all.remove(&id).expect("the lease stands");
        self.leases.deadlines.remove(&(lease.deadline, id));
        self.leases.slow_at.remove(&(lease.slow_at, id));
        if let Some(worker) = self.workers.by_id.get_mut(&lease.worker) {
            worker.leases.remove(&id);
            self.update_waiter(lease.worker);
        }
        lease
    }
}
