//! Leases: which worker has which task, until when, and what happens when it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::Plan;
use super::checks::Cause;
use super::ids::{LeaseId, Millis, Unit, WorkerId};
use super::messages::{Caller, Task, Work};
use super::reasons::Failure;
use super::units::priority;

/// A task in the hands of a worker.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) worker: WorkerId,
    pub(super) work: Work,
    /// How many of its units it still has to compute, at least one.
    open_units: usize,
    given: Millis,
    deadline: Millis,
    /// When a worker that has nothing to do may get a speculative lease on the same work.
    pub(super) speculate_at: Millis,
    /// The slow lease of which this is the speculative one.
    pub(super) speculates: Option<LeaseId>,
}

/// An estimate of the time within which nine of ten tasks of ranges get from lease to result, in units of 1/64 ms. Each
/// task that takes longer raises it by an eighth, and each other task lowers it by a 64th.
#[derive(Clone, Copy, Debug, Default)]
struct TypicalTaskTime(Option<u64>);

impl TypicalTaskTime {
    /// The age at which a lease is slow, in typical times.
    const SLOW_FACTOR: u64 = 8;
    /// The least such age, in milliseconds, unless the settings say less.
    const SLOW_LEAST_MS: u64 = 250;

    fn note(&mut self, ms: u64) {
        let took = ms.saturating_mul(64);
        self.0 = Some(match self.0 {
            Some(typical) if took > typical => took.min(typical + typical / 8 + 8),
            Some(typical) => typical - typical / 64,
            None => took,
        });
    }

    /// After how many milliseconds a lease is slow: at most `most`, and `most` as long as nothing is known.
    fn slow_after(self, most: u64) -> u64 {
        let typical = self.0.map_or(most, |typical| typical / 64);
        most.min(Self::SLOW_LEAST_MS.max(Self::SLOW_FACTOR.saturating_mul(typical)))
    }
}

/// The leases that stand.
#[derive(Debug, Default)]
pub(super) struct Leases {
    pub(super) all: BTreeMap<LeaseId, Lease>,
    deadlines: BTreeSet<(Millis, LeaseId)>,
    /// The leases without a speculative second one, by the time when they may get one.
    pub(super) unspeculated: BTreeSet<(Millis, LeaseId)>,
    pub(super) next: u64,
    task_time: TypicalTaskTime,
}

impl Leases {
    /// None yet. The first lease has this number.
    pub(super) fn new(first: u64) -> Leases {
        Leases {
            next: first,
            ..Leases::default()
        }
    }

    /// When the next lease expires.
    pub(super) fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// The slow leases that have no speculative second one, the slowest first.
    pub(super) fn slow(&self, now: Millis) -> impl Iterator<Item = LeaseId> {
        let leases = self.unspeculated.iter();
        let slow = leases.take_while(move |&&(speculate_at, _)| speculate_at <= now);
        slow.map(|&(_, lease)| lease)
    }

    /// When the next lease becomes slow after a time.
    pub(super) fn next_slow(&self, after: Millis) -> Option<Millis> {
        let later = Bound::Excluded((after, LeaseId(u64::MAX)));
        let next = self.unspeculated.range((later, Bound::Unbounded)).next();
        next.map(|&(speculate_at, _)| speculate_at)
    }
}

impl<C: Caller> Plan<C> {
    /// Leases units to a worker: ranges of one layer, or one shard.
    pub(super) fn lease(&mut self, worker: WorkerId, units: &[Unit]) -> Task {
        let attempt = self.queue.failed_attempts(units[0]).saturating_add(1);
        let work = self.work(units);
        let id = LeaseId(self.leases.next);
        self.leases.next += 1;
        let deadline = self.now.plus(self.settings.lease_ms);
        let straggler_ms = self.settings.straggler_ms;
        let slow_after = match work {
            Work::Evaluate { .. } => self.leases.task_time.slow_after(straggler_ms),
            Work::Merge { .. } => straggler_ms,
        };
        let speculate_at = self.now.plus(slow_after);
        let lease = Lease {
            worker,
            work: work.clone(),
            open_units: units.len(),
            given: self.now,
            deadline,
            speculate_at,
            speculates: None,
        };
        self.leases.all.insert(id, lease);
        self.leases.deadlines.insert((deadline, id));
        self.leases.unspeculated.insert((speculate_at, id));
        self.workers.get_mut(worker).leases.insert(id);
        self.requeue(worker);
        for &unit in units {
            self.queue.open(unit).leases.push((id, worker));
            self.file(unit);
        }
        Task {
            lease: id,
            attempt,
            work,
        }
    }

    /// Leases units to a worker, whoever else may have them. For tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn pretend_leased(&mut self, worker: WorkerId, units: &[Unit]) -> LeaseId {
        self.lease(worker, units).lease
    }

    /// Has this lease count for writing this shard, too. For tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn pretend_writing(&mut self, worker: WorkerId, lease: LeaseId, shard: u32) {
        let open = self.queue.open(Unit::Shard(shard));
        open.leases.push((lease, worker));
    }

    /// Renews the leases of a heartbeat. Returns those that the worker does not hold any more: work on them is of no use.
    pub fn renew(&mut self, now: Millis, worker: WorkerId, leases: &[LeaseId]) -> Vec<LeaseId> {
        self.now = self.now.max(now);
        self.workers.hear(self.now, worker);
        let deadline = self.now.plus(self.settings.lease_ms);
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

    /// Speculative execution: leases to `worker`, which would have nothing to do, the work of another one that is slow.
    pub(super) fn speculate(&mut self, worker: WorkerId) -> Option<Task> {
        let below = self.below();
        let (slow, units) = self.leases.slow(self.now).find_map(|slow| {
            let lease = &self.leases.all[&slow];
            let may =
                |unit: &Unit| priority(*unit).0 < below && self.may_repeat(worker, slow, *unit);
            let units: Vec<Unit> = lease.work.units().filter(may).collect();
            (!units.is_empty()).then_some((slow, units))
        })?;
        let task = self.lease(worker, &units);
        // While that stands neither of the two leases gets another speculative one.
        for lease in [slow, task.lease] {
            let speculate_at = self.leases.all[&lease].speculate_at;
            self.leases.unspeculated.remove(&(speculate_at, lease));
        }
        let speculative = self.leases.all.get_mut(&task.lease);
        speculative.expect("it was just given").speculates = Some(slow);
        Some(task)
    }

    /// Whether a worker may compute a unit beside the holder of a lease on it: a result of it would count.
    fn may_repeat(&self, worker: WorkerId, slow: LeaseId, unit: Unit) -> bool {
        let mut leases = self.queue.leases(unit).iter();
        let is_own = leases.any(|&(_, holder)| holder == worker);
        let excluded = self.offer(unit, false).map(|(.., excluded)| excluded);
        let may = excluded.is_some_and(|parties| !parties.iter().any(|it| it.includes(worker)));
        self.queue.is_leased(unit, slow) && !is_own && may
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

    /// Ends the leases that were not renewed in time.
    pub(super) fn expire(&mut self) {
        while let Some(&(deadline, lease)) = self.leases.deadlines.first()
            && deadline <= self.now
        {
            let silent = self.leases.all[&lease].worker;
            // Nobody waits for a worker that does not renew.
            self.queue.fresh.release(silent);
            self.review.is_due = true;
            let worker = self.workers.name(silent);
            self.end_lease(lease, Some(&Failure::Expired { worker }));
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
        let leases = self.queue.leases(Unit::Shard(shard)).iter();
        let mut works = leases.filter_map(|&(lease, _)| self.work_of(worker, lease));
        works.any(|work| !matches!(work, Work::Merge { is_check: true, .. }))
    }

    /// Ends a lease that stands. Its units that are not done are offered again, and count one more failed attempt if it
    /// failed: after too many the coordinator computes them.
    pub(super) fn end_lease(&mut self, id: LeaseId, failure: Option<&Failure>) {
        let lease = self.remove_lease(id);
        if let Some(worker) = self.workers.all.get_mut(&lease.worker) {
            worker.progress.failures += u64::from(failure.is_some());
        }
        for unit in lease.work.units() {
            if !self.queue.is_leased(unit, id) {
                continue;
            }
            let open = self.queue.open(unit);
            open.leases.retain(|&(lease, _)| lease != id);
            match failure {
                None => {}
                Some(Failure::Expired { .. }) => open.expiries += 1,
                Some(_) => open.failures += 1,
            }
            let failed_often = open.expiries >= self.settings.expiries_max
                || open.failures >= self.settings.failures_max;
            if let Some(failure) = failure.filter(|_| failed_often && !self.is_faulty()) {
                let attempts = self.queue.failed_attempts(unit);
                self.compute(unit, Cause::Failed(attempts, failure.clone()));
            }
            self.file(unit);
        }
    }

    /// Ends all leases on a unit, each as a whole.
    pub(super) fn end_leases_on(&mut self, unit: Unit) {
        for (lease, _) in self.queue.leases(unit).to_vec() {
            self.end_lease(lease, None);
        }
    }

    /// Ends the work on a unit that is found, or that is checked as often as it has to be. The caller has to file it next.
    pub(super) fn close(&mut self, unit: Unit) {
        self.results.findings.remove(&unit);
        let open = self.queue.open(unit);
        (open.expiries, open.failures) = (0, 0);
        for (id, _) in std::mem::take(&mut open.leases) {
            let lease = self.leases.all.get_mut(&id).expect("the unit is leased");
            lease.open_units -= 1;
            if lease.open_units == 0 {
                self.remove_lease(id);
            }
        }
    }

    /// A result came under this lease.
    pub(super) fn note_task_time(&mut self, id: LeaseId) {
        if let Some(lease) = self.leases.all.get(&id)
            && let Work::Evaluate { .. } = lease.work
        {
            let took = self.now.0.saturating_sub(lease.given.0);
            self.leases.task_time.note(took);
        }
    }

    fn remove_lease(&mut self, id: LeaseId) -> Lease {
        let lease = self.leases.all.remove(&id).expect("the lease stands");
        self.leases.deadlines.remove(&(lease.deadline, id));
        self.leases.unspeculated.remove(&(lease.speculate_at, id));
        // What is still open of the slow lease may be tried by another worker.
        if let Some(slow) = lease.speculates
            && let Some(speculate_at) = self.leases.all.get(&slow).map(|slow| slow.speculate_at)
        {
            self.leases.unspeculated.insert((speculate_at, slow));
            self.review.is_due = true;
        }
        if let Some(worker) = self.workers.all.get_mut(&lease.worker) {
            worker.leases.remove(&id);
            self.requeue(lease.worker);
        }
        lease
    }
}
