//! Who works on what: the leases.

use std::collections::BTreeMap;

use chomp_table::Head;

use super::Plan;
use super::attempts::Attempts;
use super::ids::{LeaseId, Millis, ParticipantId, Unit, WorkerId};
use super::messages::{Action, Loss, Work};
use super::slots::{Lost, State};
use super::units::priority;

/// Of so many units it is remembered who had a lease on them that has ended: some minutes of a large job, and 10 MB at
/// the most.
const ENDED_UNITS_MAX: usize = 1 << 17;

/// A task in the hands of a worker.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) worker: WorkerId,
    pub(super) work: Work,
    /// How many of its units are not done, at least one.
    pub(super) left: usize,
    given: Millis,
    pub(super) deadline: Millis,
    /// When another worker that has nothing to do may have the same.
    pub(super) slow: Millis,
}

/// How long nine of ten tasks of ranges take from lease to result, in units of 1/64 ms: each that takes longer raises it
/// by an eighth, and each other lowers it by a 64th.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usual(Option<u64>);

impl Usual {
    /// A lease is old when it has stood for so many times what is usual,
    const TIMES: u64 = 8;
    /// and for so long.
    const LEAST_MS: u64 = 250;

    pub(super) fn note(&mut self, ms: u64) {
        let took = ms.saturating_mul(64);
        self.0 = Some(match self.0 {
            Some(usual) if took > usual => took.min(usual + usual / 8 + 8),
            Some(usual) => usual - usual / 64,
            None => took,
        });
    }

    /// When a task that is leased now will be old, in milliseconds from now; `most` as long as nothing is known.
    pub(super) fn old_after(self, most: u64) -> u64 {
        let usual = self.0.map_or(most, |usual| usual / 64);
        most.min(Usual::LEAST_MS.max(Usual::TIMES.saturating_mul(usual)))
    }
}

/// What leases were about that do not stand any more, so that a result may come late or twice: the last ones.
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
            && let Some((_, (_, work))) = self.leases.pop_first()
        {
            self.units -= work.units().count();
        }
    }

    /// What the lease was about, if it was this worker's.
    pub(super) fn work_of(&self, worker: WorkerId, lease: LeaseId) -> Option<&Work> {
        let (holder, work) = self.leases.get(&lease)?;
        (*holder == worker).then_some(work)
    }
}

impl Work {
    /// The units that are to be computed. Who checks something or reads it back computes none.
    pub(super) fn units(&self) -> impl Iterator<Item = Unit> + '_ {
        let (heads, shard): (&[Head], _) = match self {
            Work::Evaluate { heads, .. } => (heads, None),
            Work::Check { .. } | Work::ReadBack { .. } => (&[], None),
            Work::Merge { shard, .. } => (&[], Some(*shard)),
        };
        let ranges = heads.iter().map(|&head| Unit::Range(head));
        ranges.chain(shard.map(Unit::Shard))
    }

    /// The ranges that are evaluated, to be put or to check them.
    pub(super) fn heads(&self) -> &[Head] {
        match self {
            Work::Evaluate { heads, .. } | Work::Check { heads, .. } => heads,
            Work::Merge { .. } | Work::ReadBack { .. } => &[],
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
    /// Gives a worker a task that `left` units are to be computed of.
    pub(super) fn lease(
        &mut self,
        now: Millis,
        worker: WorkerId,
        work: Work,
        left: usize,
    ) -> LeaseId {
        let id = LeaseId(self.next_lease);
        self.next_lease += 1;
        let deadline = now.plus(self.settings.lease_ms);
        let straggler_ms = self.settings.straggler_ms;
        let slow = match work {
            Work::Evaluate { .. } | Work::Check { .. } => self.usual.old_after(straggler_ms),
            Work::Merge { .. } | Work::ReadBack { .. } => straggler_ms,
        };
        let lease = Lease {
            worker,
            work,
            left,
            given: now,
            deadline,
            slow: now.plus(slow),
        };
        self.leases.insert(id, lease);
        self.deadlines.insert((deadline, id));
        self.worker(worker).leases.insert(id);
        self.requeue(worker);
        id
    }

    /// Has it so that this worker was given this lease, which has ended, unless it stands. For tests.
    #[cfg(any(test, feature = "pretence"))]
    pub fn pretend_leased(&mut self, worker: WorkerId, lease: LeaseId, work: Work) {
        self.ended.leases.insert(lease, (worker, work));
    }

    /// A heartbeat.
    pub(super) fn renewed(&mut self, now: Millis, worker: WorkerId, leases: Vec<LeaseId>) {
        let deadline = now.plus(self.settings.lease_ms);
        let mut lost = Vec::new();
        // After a fault nothing is taken any more.
        let is_over = self.is_faulty();
        for id in leases {
            let lease = self.leases.get_mut(&id);
            match lease.filter(|lease| lease.worker == worker && !is_over) {
                // These are short, and something waits for them that perhaps nobody else may do.
                Some(lease) if matches!(lease.work, Work::Check { .. } | Work::ReadBack { .. }) => {
                }
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
            let name = self.name(worker);
            let loss = Loss::Failed {
                worker: name,
                reason,
            };
            self.end_lease(lease, Some(&loss));
        }
    }

    /// Ends the leases whose time is over.
    pub(super) fn expire(&mut self, now: Millis) {
        while let Some(&(deadline, lease)) = self.deadlines.first()
            && deadline <= now
        {
            let silent = self.leases[&lease].worker;
            // Whoever does not say that it works is not waited for.
            self.ready.fresh.release(silent);
            let worker = self.name(silent);
            self.end_lease(lease, Some(&Loss::Expired { worker }));
            self.news = true;
        }
    }

    /// Has the coordinator compute what one failed at, and others who are there have not taken for as long as a lease
    /// lasts.
    pub(super) fn arbitrate_left_over(&mut self, now: Millis) {
        while let Some(due) = self.next_left_over()
            && due <= now
            && let Some((_, unit)) = self.left_over.pop_first()
        {
            let is_open = self.units.contains(unit) && self.is_open(unit);
            if self.is_running() && is_open && self.ready.is_left_over(unit) {
                self.arbitrate(unit);
            }
        }
    }

    /// When the next of these is due.
    pub(super) fn next_left_over(&self) -> Option<Millis> {
        let &(since, _) = self.left_over.first()?;
        Some(since.plus(self.settings.lease_ms))
    }

    /// Whether the lease stands and is this worker's.
    pub fn holds(&self, worker: WorkerId, lease: LeaseId) -> bool {
        self.work_of(worker, lease).is_some()
    }

    /// What the lease is about, if it stands and is this worker's.
    pub fn work_of(&self, worker: WorkerId, lease: LeaseId) -> Option<&Work> {
        let lease = self.leases.get(&lease);
        let lease = lease.filter(|lease| lease.worker == worker);
        lease.map(|lease| &lease.work)
    }

    /// Ends a lease that stands. What is not done of it is wanted again; with a `loss` it has one
    /// attempt less.
    pub(super) fn end_lease(&mut self, id: LeaseId, loss: Option<&Loss>) {
        let lease = self.forget_lease(id);
        let how = loss.map(|loss| match loss {
            Loss::Expired { .. } => Lost::Expired,
            Loss::Failed { .. } | Loss::Rejected { .. } => Lost::Failed,
        });
        match &lease.work {
            Work::Check { heads, .. } => self.check_ended(heads, id),
            // That it is something else is no failure of who found it out.
            Work::ReadBack { shard } => {
                return self.read_back_ended(*shard, id, lease.worker);
            }
            Work::Evaluate { .. } | Work::Merge { .. } => {}
        }
        for unit in lease.work.units() {
            if !self.ready.is_at(id, unit) {
                continue;
            }
            self.update_attempts(unit, |attempts| {
                attempts.leases.retain(|&(lease, _)| lease != id);
                if how == Some(Lost::Failed) {
                    attempts.failed.insert(lease.worker.participant);
                }
            });
            if self.ready.is_left_over(unit) {
                self.left_over.insert((self.now, unit));
            }
            if let (Some(how), Some(loss)) = (how, loss) {
                self.count_attempt(unit, how, loss);
            }
        }
        if let (Some(how), Some(loss)) = (how, loss) {
            self.count_loss(lease.worker, how, loss);
        }
    }

    /// Learns from a lease that has come to a result how long tasks take.
    pub(super) fn note_time(&mut self, id: LeaseId) {
        if let Some(lease) = self.leases.get(&id)
            && let Work::Evaluate { .. } = lease.work
        {
            self.usual.note(self.now.0.saturating_sub(lease.given.0));
        }
    }

    /// Counts a lost attempt at a unit; after too many the coordinator computes it itself.
    fn count_attempt(&mut self, unit: Unit, how: Lost, last: &Loss) {
        let attempts = self.units.lose(unit, how);
        let most = match how {
            Lost::Expired => self.settings.expiries_max,
            Lost::Failed => self.settings.failures_max,
        };
        if attempts >= most && !self.is_faulty() {
            self.arbitrate(unit);
            self.arbitrations.note_loss(unit, attempts, last);
        }
    }

    fn forget_lease(&mut self, id: LeaseId) -> Lease {
        let lease = self.leases.remove(&id).expect("the lease stands");
        self.ended.note(id, lease.worker, lease.work.clone());
        self.deadlines.remove(&(lease.deadline, id));
        self.singles.remove(&(lease.slow, id));
        // A worker that goes is gone before its leases.
        if let Some(worker) = self.workers.get_mut(&lease.worker) {
            worker.leases.remove(&id);
            self.requeue(lease.worker);
            self.note_ended(lease.worker.participant);
        }
        lease
    }

    /// Ends the lease of a check that is of no more use.
    pub(super) fn cancel(&mut self, id: LeaseId) -> Lease {
        self.forget_lease(id)
    }

    /// Takes a unit that is done, by `finisher` if by a worker, out of the hands of whoever works on it; tells what they
    /// said.
    pub(super) fn take(&mut self, unit: Unit, finisher: Option<WorkerId>) -> Attempts {
        let attempts = self.ready.close(unit);
        let voters = attempts.votes.iter().map(|vote| vote.worker);
        let finders = voters.chain(finisher).map(|worker| worker.participant);
        let finders: Vec<ParticipantId> = finders.collect();
        for &(id, holder) in &attempts.leases {
            let lease = self.leases.get_mut(&id).expect("the unit is leased");
            lease.left -= 1;
            if lease.left > 0 {
                continue;
            }
            if lease.slow <= self.now && !finders.contains(&holder.participant) {
                self.note_idled(holder);
            }
            self.forget_lease(id);
        }
        attempts
    }

    /// Changes what is known of the attempts of a unit that is ready.
    pub(super) fn update_attempts(&mut self, unit: Unit, change: impl FnOnce(&mut Attempts)) {
        let open = self.is_open(unit);
        if self.ready.update(unit, open, change) {
            self.news = true;
            let priority = priority(self.settings.division, unit);
            self.callers.extend(self.ready.fresh.owner(priority));
        }
    }

    /// Files a unit, of which nothing was done since it was filed last.
    pub(super) fn reconsider(&mut self, unit: Unit) {
        self.update_attempts(unit, |_| {});
    }

    /// Whether attempts of this unit may be given out.
    pub(super) fn is_open(&self, unit: Unit) -> bool {
        let is_held = matches!(unit, Unit::Range(head) if self.checks.contains(head));
        self.units.state(unit) == State::Ready && !self.arbitrations.contains(unit) && !is_held
    }
}
