//! Leases: which worker has which task, until when, and what happens when it ends.

use std::collections::BTreeMap;

use chomp_table::Head;

use super::Plan;
use super::arbitration::ArbitrationReason;
use super::attempts::{Attempts, Wish};
use super::ids::{LeaseId, Millis, ParticipantId, SubmissionId, Unit, WorkerId};
use super::messages::{Action, Loss, Task, Work};
use super::slots::UnitState;
use super::units::priority;

/// The most units of ended leases that are remembered: those of some minutes of a large job, and 10 MB at most.
const ENDED_UNITS_MAX: usize = 1 << 17;

/// A task in the hands of a worker.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) worker: WorkerId,
    pub(super) work: Work,
    /// How many of its units are not done, at least one.
    pub(super) open_units: usize,
    given: Millis,
    pub(super) deadline: Millis,
    /// When another worker that has nothing to do may get a speculative lease on the same work.
    pub(super) speculate_at: Millis,
    /// The slow lease of which this is the speculative one.
    pub(super) speculates: Option<LeaseId>,
}

/// An estimate of the time within which nine of ten tasks of ranges get from lease to result, in units of 1/64 ms. Each
/// task that takes longer raises it by an eighth, and each other task lowers it by a 64th.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TypicalTaskTime(Option<u64>);

impl TypicalTaskTime {
    /// The age at which a lease is slow, in typical times.
    const SLOW_FACTOR: u64 = 8;
    /// The least such age, in milliseconds, unless the settings say less.
    const SLOW_LEAST_MS: u64 = 250;

    pub(super) fn note(&mut self, ms: u64) {
        let took = ms.saturating_mul(64);
        self.0 = Some(match self.0 {
            Some(typical) if took > typical => took.min(typical + typical / 8 + 8),
            Some(typical) => typical - typical / 64,
            None => took,
        });
    }

    /// After how many milliseconds a lease is slow: at most `most`, and `most` as long as nothing is known.
    pub(super) fn slow_after(self, most: u64) -> u64 {
        let typical = self.0.map_or(most, |typical| typical / 64);
        most.min(Self::SLOW_LEAST_MS.max(Self::SLOW_FACTOR.saturating_mul(typical)))
    }
}

/// The work of the latest leases that have ended: their results may still come, late or twice.
#[derive(Debug, Default)]
pub(super) struct Ended {
    leases: BTreeMap<LeaseId, (WorkerId, Work)>,
    units: usize,
}

impl Ended {
    pub(super) fn note(&mut self, id: LeaseId, worker: WorkerId, work: Work) {
        let units = work.units().count();
        if units == 0 {
            return;
        }
        self.units += units;
        self.leases.insert(id, (worker, work));
        while self.units > ENDED_UNITS_MAX
            && let Some((&oldest, _)) = self.leases.first_key_value()
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, lease: LeaseId) {
        if let Some((_, work)) = self.leases.remove(&lease) {
            self.units -= work.units().count();
        }
    }

    /// The work of the lease, if this worker held it.
    pub(super) fn work_of(&self, worker: WorkerId, lease: LeaseId) -> Option<&Work> {
        let (holder, work) = self.leases.get(&lease)?;
        (*holder == worker).then_some(work)
    }
}

impl Work {
    /// The units that this work computes.
    pub fn units(&self) -> impl Iterator<Item = Unit> + '_ {
        let (heads, shard): (&[Head], _) = match self {
            Work::Evaluate { heads, .. } => (heads, None),
            Work::Merge { shard, .. } => (&[], Some(*shard)),
        };
        let ranges = heads.iter().map(|&head| Unit::Range(head));
        ranges.chain(shard.map(Unit::Shard))
    }

    /// The result whose shard this work reads, if it reads one.
    pub fn reads(&self) -> Option<SubmissionId> {
        match self {
            Work::Merge { written, .. } => *written,
            Work::Evaluate { .. } => None,
        }
    }

    pub(super) fn contains(&self, unit: Unit) -> bool {
        match (self, unit) {
            (Work::Evaluate { heads, .. }, Unit::Range(head)) => heads.binary_search(&head).is_ok(),
            (Work::Merge { shard, .. }, Unit::Shard(number)) => *shard == number,
            _ => false,
        }
    }
}

impl Plan {
    /// Leases units to a worker, ranges of one layer or one shard, until all of them are done.
    pub(super) fn lease(&mut self, worker: WorkerId, units: &[Unit]) -> Task {
        let attempt = self.units.failed_attempts(units[0]).saturating_add(1);
        let work = self.work(units);
        let id = LeaseId(self.next_lease);
        self.next_lease += 1;
        let deadline = self.now.plus(self.settings.lease_ms);
        let straggler_ms = self.settings.straggler_ms;
        let slow_after = match work {
            Work::Evaluate { .. } => self.task_time.slow_after(straggler_ms),
            Work::Merge { .. } => straggler_ms,
        };
        let lease = Lease {
            worker,
            work: work.clone(),
            open_units: units.len(),
            given: self.now,
            deadline,
            speculate_at: self.now.plus(slow_after),
            speculates: None,
        };
        self.leases.insert(id, lease);
        self.deadlines.insert((deadline, id));
        self.worker(worker).leases.insert(id);
        self.requeue(worker);
        for &unit in units {
            self.update_attempts(unit, |attempts| attempts.leases.push((id, worker)));
        }
        Task {
            lease: id,
            attempt,
            work,
        }
    }

    /// Pretends that this worker held this lease, which has ended unless it stands. For tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn pretend_leased(&mut self, worker: WorkerId, lease: LeaseId, work: Work) {
        self.ended.note(lease, worker, work);
    }

    /// Pretends that this worker was asked to write this shard. For tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn pretend_writing(&mut self, worker: WorkerId, lease: LeaseId, shard: u32) {
        let write = |attempts: &mut Attempts| attempts.leases.push((lease, worker));
        self.ready.update(Unit::Shard(shard), None, write);
    }

    /// Takes no results any more under a lease that has ended.
    pub fn forget_ended(&mut self, lease: LeaseId) {
        self.ended.forget(lease);
    }

    /// Whether a worker may write the file of a shard: it has a lease for that, and nobody has handed one in.
    pub fn may_write(&self, worker: WorkerId, shard: u32) -> bool {
        let unit = Unit::Shard(shard);
        let holds = |lease: LeaseId| self.holds(worker, lease);
        self.jury.votes(unit).is_empty() && self.leases_on(unit).into_iter().any(holds)
    }

    /// Renews the leases of a heartbeat, and tells the worker which of them do not stand any more.
    pub(super) fn renewed(&mut self, worker: WorkerId, leases: Vec<LeaseId>) {
        let deadline = self.now.plus(self.settings.lease_ms);
        let mut lost = Vec::new();
        // After a fault nothing is taken any more.
        let is_over = self.is_faulty();
        for id in leases {
            let lease = self.leases.get_mut(&id);
            match lease.filter(|lease| lease.worker == worker && !is_over) {
                Some(lease) => {
                    self.deadlines.remove(&(lease.deadline, id));
                    self.deadlines.insert((deadline, id));
                    lease.deadline = deadline;
                }
                None => lost.push(id),
            }
        }
        self.out.push(Action::Renewal { worker, lost });
    }

    pub(super) fn returned(&mut self, worker: WorkerId, lease: LeaseId) {
        if self.holds(worker, lease) {
            self.note_idled(worker);
            self.end_lease(lease, None);
        }
    }

    pub(super) fn failed(&mut self, worker: WorkerId, lease: LeaseId, reason: String) {
        if self.holds(worker, lease) {
            self.note_idled(worker);
            let worker = self.name(worker);
            self.end_lease(lease, Some(&Loss::Failed { worker, reason }));
        }
    }

    /// Ends the leases whose time is over.
    pub(super) fn expire(&mut self) {
        while let Some(&(deadline, lease)) = self.deadlines.first()
            && deadline <= self.now
        {
            let silent = self.leases[&lease].worker;
            // A worker that does not say that it works is not waited for.
            self.ready.fresh.release(silent);
            let worker = self.name(silent);
            self.end_lease(lease, Some(&Loss::Expired { worker }));
            self.requests_dirty = true;
        }
    }

    /// Has the coordinator compute the units that a participant failed at, and that no other took for as long as a
    /// lease lasts.
    pub(super) fn arbitrate_left_over(&mut self) {
        while let Some(due) = self.next_left_over()
            && due <= self.now
            && let Some((_, unit)) = self.left_over.pop_first()
        {
            let is_open = self.units.contains(unit) && self.is_open(unit);
            if self.is_running() && is_open && self.ready.is_left_over(unit) {
                self.arbitrate(unit, ArbitrationReason::Unsettled);
            }
        }
    }

    /// When the next unit that was left over is arbitrated.
    pub(super) fn next_left_over(&self) -> Option<Millis> {
        let &(since, _) = self.left_over.first()?;
        Some(since.plus(self.settings.lease_ms))
    }

    /// Whether the lease stands and is this worker's.
    pub fn holds(&self, worker: WorkerId, lease: LeaseId) -> bool {
        self.work_of(worker, lease).is_some()
    }

    /// The work of the lease, if it stands and is this worker's.
    pub fn work_of(&self, worker: WorkerId, lease: LeaseId) -> Option<&Work> {
        let lease = self.leases.get(&lease);
        let lease = lease.filter(|lease| lease.worker == worker);
        lease.map(|lease| &lease.work)
    }

    /// The leases on a unit.
    pub(super) fn leases_on(&self, unit: Unit) -> Vec<LeaseId> {
        let leases = self.ready.of(unit).map(|attempts| &attempts.leases);
        leases.into_iter().flatten().map(|&(id, _)| id).collect()
    }

    /// Ends a lease that stands. Its units that are not finished are wanted again. With a `loss`, each of them counts
    /// one more failed attempt.
    pub(super) fn end_lease(&mut self, id: LeaseId, loss: Option<&Loss>) {
        let lease = self.forget_lease(id);
        let has_failed = matches!(loss, Some(Loss::Failed { .. } | Loss::Rejected { .. }));
        for unit in lease.work.units() {
            if !self.ready.is_at(id, unit) {
                continue;
            }
            self.update_attempts(unit, |attempts| {
                attempts.leases.retain(|&(lease, _)| lease != id);
                if has_failed {
                    attempts.failed.insert(lease.worker.participant);
                }
            });
            if self.ready.is_left_over(unit) {
                self.left_over.insert((self.now, unit));
            }
            if let Some(loss) = loss {
                self.note_failed_attempt(unit, loss);
            }
        }
        if loss.is_some()
            && let Some(worker) = self.workers.get_mut(&lease.worker)
        {
            worker.failures += 1;
        }
    }

    /// Notes how long it took from this lease to its result.
    pub(super) fn note_time(&mut self, id: LeaseId) {
        if let Some(lease) = self.leases.get(&id)
            && let Work::Evaluate { .. } = lease.work
        {
            self.task_time
                .note(self.now.0.saturating_sub(lease.given.0));
        }
    }

    /// Counts a failed attempt at a unit. After too many of them the coordinator computes it itself.
    fn note_failed_attempt(&mut self, unit: Unit, last: &Loss) {
        let attempts = self.units.count_failed_attempt(unit, last);
        let most = match last {
            Loss::Expired { .. } => self.settings.expiries_max,
            Loss::Failed { .. } | Loss::Rejected { .. } => self.settings.failures_max,
        };
        if attempts >= most && !self.is_faulty() {
            self.arbitrate(unit, ArbitrationReason::Failed(attempts, last.clone()));
        }
    }

    fn forget_lease(&mut self, id: LeaseId) -> Lease {
        let lease = self.leases.remove(&id).expect("the lease stands");
        self.ended.note(id, lease.worker, lease.work.clone());
        self.deadlines.remove(&(lease.deadline, id));
        self.unspeculated.remove(&(lease.speculate_at, id));
        // Its units that are still open, as they need one more vote, are for another.
        if let Some(slow) = lease.speculates
            && let Some(speculate_at) = self.leases.get(&slow).map(|slow| slow.speculate_at)
        {
            self.unspeculated.insert((speculate_at, slow));
            self.requests_dirty = true;
        }
        // A worker that goes is gone before its leases.
        if let Some(worker) = self.workers.get_mut(&lease.worker) {
            worker.leases.remove(&id);
            self.requeue(lease.worker);
            self.note_ended(lease.worker.participant);
        }
        lease
    }

    /// Ends all work on a unit whose content is settled, which these participants have found.
    pub(super) fn finish_unit(&mut self, unit: Unit, finders: &[ParticipantId]) {
        let attempts = self.ready.close(unit);
        for &(id, holder) in &attempts.leases {
            let lease = self.leases.get_mut(&id).expect("the unit is leased");
            lease.open_units -= 1;
            if lease.open_units > 0 {
                continue;
            }
            if lease.speculate_at <= self.now && !finders.contains(&holder.participant) {
                self.note_idled(holder);
            }
            self.forget_lease(id);
        }
    }

    /// Changes the attempts of a unit, and has requests looked at again if a worker may have it now that could not
    /// before.
    pub(super) fn update_attempts(&mut self, unit: Unit, change: impl FnOnce(&mut Attempts)) {
        let wish = self.is_open(unit).then(|| self.wish(unit));
        if self.ready.update(unit, wish, change) {
            self.requests_dirty = true;
            let priority = priority(unit);
            self.recheck_workers
                .extend(self.ready.fresh.owner(priority));
        }
    }

    /// Files a unit anew, whose state has changed and whose attempts have not.
    pub(super) fn reconsider(&mut self, unit: Unit) {
        self.update_attempts(unit, |_| {});
    }

    /// The votes that a unit has and needs. A shard is written before others read it.
    pub(super) fn wish(&self, unit: Unit) -> Wish {
        let voters = self.jury.doers(unit);
        let need = self.jury.need(unit);
        Wish {
            need: match unit {
                Unit::Range(_) => need,
                Unit::Shard(_) => need.min(voters.len() + 1),
            },
            voters,
            is_by_worker: self.jury.is_by_worker(),
        }
    }

    /// Whether this unit may be leased for computing it.
    pub(super) fn is_open(&self, unit: Unit) -> bool {
        let is_wanted = match self.units.state(unit) {
            UnitState::Ready => true,
            UnitState::Committed => {
                matches!(unit, Unit::Range(_))
                    && self.jury.is_reopened(unit)
                    && self.units.is_ready(unit)
            }
            UnitState::Blocked | UnitState::Committing(_) => false,
        };
        is_wanted && !self.arbitrations.contains(unit)
    }
}
