//! Offers: which request is answered with which task.
//!
//! # Requests that wait
//!
//! The plan looked at a waiting request when it came, and had no task for its worker. It looks at it again when a unit
//! becomes wanted that was not, or a lease becomes slow. A unit of a [region](super::regions) matters only to the owner
//! of the region, and to workers that have a thread without a task. So an event does not cost more when a thousand
//! workers wait.

use std::ops::Bound;

use chomp_table::Head;

use super::ids::{LeaseId, Millis, RequestId, Unit, WorkerId};
use super::messages::{Action, LeaseAnswer, Task, Work};
use super::units::{SHARDS, priority};
use super::workers::Worker;
use super::{Phase, Plan};

/// The failed attempts after which a unit is offered alone.
const ALONE_AFTER: u32 = 2;

/// In a table of no more than 2 to the power of this many ranges, those of a task may lie anywhere: its parts are not
/// worth smaller tasks.
const QUARTER_BITS_MIN: u32 = 12;

impl Plan {
    /// Lets the request wait; [`Plan::answer_requests`] ends the wait at once if it can.
    pub(super) fn wanted(&mut self, request: RequestId, worker: WorkerId) {
        if let Some(entry) = self.workers.get_mut(&worker) {
            self.requests.insert(request, worker);
            entry.requests.insert(request);
            self.requeue(worker);
            self.asks(worker);
            return;
        }
        let answer = match self.quarantine_reason(worker) {
            Some(reason) => LeaseAnswer::Quarantined {
                reason: reason.clone(),
            },
            None => LeaseAnswer::NotJoined,
        };
        self.out.push(Action::Answer { request, answer });
    }

    pub(super) fn withdrawn(&mut self, request: RequestId) {
        let Some(worker) = self.requests.remove(&request) else {
            return;
        };
        self.worker(worker).requests.remove(&request);
        self.requeue(worker);
    }

    /// Answers the requests that need not wait any longer.
    pub(super) fn answer_requests(&mut self) {
        let answer = match &self.phase {
            Phase::Running => return self.offer_tasks(),
            Phase::Finished => LeaseAnswer::Finished,
            Phase::Stopped(reason) => LeaseAnswer::Stopped {
                reason: reason.clone(),
            },
        };
        self.recheck_workers.clear();
        while let Some((&request, _)) = self.requests.first_key_value() {
            self.withdrawn(request);
            let answer = answer.clone();
            self.out.push(Action::Answer { request, answer });
        }
    }

    fn offer_tasks(&mut self) {
        let became_slow = (
            Bound::Excluded((self.offered_until, LeaseId(u64::MAX))),
            Bound::Included((self.now, LeaseId(u64::MAX))),
        );
        if self.unspeculated.range(became_slow).next().is_some() {
            self.requests_dirty = true;
        }
        self.requests_dirty |= self.next_patience().is_some_and(|at| at <= self.now);
        self.offered_until = self.now;
        while let Some(worker) = self.recheck_workers.pop_first() {
            while let Some(entry) = self.workers.get(&worker)
                && let Some(&request) = entry.requests.first()
                && self.serve(request, worker)
            {}
        }
        // When a worker gets a unit, a worker that failed at it may be allowed to try again.
        while std::mem::take(&mut self.requests_dirty) {
            let mut looked_at = Bound::Unbounded;
            while let Some(&next) = self.queue.range((looked_at, Bound::Unbounded)).next()
                && self.has_offers(!next.is_busy)
            {
                looked_at = Bound::Excluded(next);
                self.serve(next.request, next.worker);
            }
        }
    }

    /// Whether there may be a task for workers that would `idle`, or for all. It may return true though there is none.
    fn has_offers(&self, idle: bool) -> bool {
        self.ready.is_wanted(idle, self.below()) || self.slow_leases().next().is_some()
    }

    /// The layer below which work may be given out: no shard is merged while some range is in doubt.
    pub(super) fn below(&self) -> u32 {
        if self.are_ranges_in_doubt() {
            SHARDS
        } else {
            u32::MAX
        }
    }

    /// Answers a request if there is a task for its worker. Returns whether there is.
    fn serve(&mut self, request: RequestId, worker: WorkerId) -> bool {
        if !self.may_begin(worker) {
            return false;
        }
        let task = self.offer_units(worker);
        let Some(task) = task.or_else(|| self.speculate(worker)) else {
            return false;
        };
        self.withdrawn(request);
        self.asks(worker);
        let answer = LeaseAnswer::Task(task);
        self.out.push(Action::Answer { request, answer });
        true
    }

    fn offer_units(&mut self, worker: WorkerId) -> Option<Task> {
        let units = self.cut_task(worker)?;
        for &unit in &units {
            self.ready.fresh.claim(worker, priority(unit));
        }
        let task = self.lease(worker, &units);
        let speculate_at = self.leases[&task.lease].speculate_at;
        self.unspeculated.insert((speculate_at, task.lease));
        Some(task)
    }

    /// The work of a task for units: ranges of one layer, or one shard.
    pub(super) fn work(&self, units: &[Unit]) -> Work {
        if let Unit::Shard(shard) = units[0] {
            let (head, skip) = self.units.shards.start(shard);
            let written = self.jury.file(units[0]);
            return Work::Merge {
                shard,
                head,
                skip,
                written,
            };
        }
        let heads = units.iter().map(|&unit| Head(priority(unit).1));
        Work::Evaluate {
            layer: priority(units[0]).0,
            heads: heads.collect(),
        }
    }

    /// The units of the next task of this worker, if there is one.
    fn cut_task(&self, worker: WorkerId) -> Option<Vec<Unit>> {
        let idle = !self.workers.get(&worker)?.is_busy();
        let (others, below) = (self.others(), self.below());
        let some = |layer| 4 * self.task_units(layer);
        let mut units = self.ready.wanted_by(worker, others, idle, below, some)?;
        let failed = |unit: &Unit| self.units.failed_attempts(*unit);
        let of_first = failed(&units[0]);
        if of_first >= ALONE_AFTER {
            units.truncate(1);
        }
        units.retain(|unit| failed(unit) == of_first);
        // Records of a task are in one part, which stays until all of them are merged. So its ranges lie in one quarter
        // of the table: in the one that has most of those that may be had now, as small tasks cost more.
        let bits = QUARTER_BITS_MIN.max(self.settings.head_bits().saturating_sub(2));
        let quarter = |unit: &Unit| priority(*unit).1 >> bits;
        let alike = units.chunk_by(|one, other| quarter(one) == quarter(other));
        let most = alike.rev().max_by_key(|alike| alike.len())?;
        let number = self.task_units(priority(units[0]).0);
        Some(most.iter().copied().take(number).collect())
    }

    /// The number of participants that are there, besides one that is.
    fn others(&self) -> usize {
        self.present.len().saturating_sub(1)
    }

    /// How many units make a good task, at least one. A shard is a task.
    pub(super) fn task_units(&self, layer: u32) -> usize {
        if layer == SHARDS {
            return 1;
        }
        let left = self.units.ranges.to_do(layer) as u64;
        let ranges = self.settings.task_ranges(left, self.threads);
        usize::try_from(ranges).unwrap_or(usize::MAX)
    }

    /// Speculative execution: gives `worker`, which would have nothing to do, the work of another one that is slow.
    fn speculate(&mut self, worker: WorkerId) -> Option<Task> {
        let others = self.others();
        let below = self.below();
        let may = |unit: &Unit| {
            let is_offered = self.is_open(*unit) && priority(*unit).0 < below;
            let may = |wish| self.ready.may_speculate(worker, others, *unit, wish);
            is_offered && may(self.wish(*unit))
        };
        let (lease, units) = self.slow_leases().find_map(|slow| {
            let units: Vec<Unit> = self.leases[&slow.1].work.units().filter(may).collect();
            (!units.is_empty()).then_some((slow, units))
        })?;
        // While that stands neither of the two leases gets another speculative one.
        self.unspeculated.remove(&lease);
        let task = self.lease(worker, &units);
        let speculative = self.leases.get_mut(&task.lease).expect("it was just given");
        speculative.speculates = Some(lease.1);
        Some(task)
    }

    /// The slow leases that have no speculative second one, the slowest first.
    fn slow_leases(&self) -> impl Iterator<Item = (Millis, LeaseId)> {
        let leases = self.unspeculated.iter().copied();
        leases.take_while(|&(speculate_at, _)| speculate_at <= self.now)
    }

    /// When the next lease becomes slow, if a request waits.
    pub(super) fn next_speculation(&self) -> Option<Millis> {
        if self.requests.is_empty() || !self.is_running() {
            return None;
        }
        let later = Bound::Excluded((self.offered_until, LeaseId(u64::MAX)));
        let next = self.unspeculated.range((later, Bound::Unbounded)).next();
        next.map(|&(speculate_at, _)| speculate_at)
    }

    /// A worker that holds a lease or waits, and so is there.
    pub(super) fn worker(&mut self, worker: WorkerId) -> &mut Worker {
        self.workers
            .get_mut(&worker)
            .expect("leases and requests go with their worker")
    }
}
