//! Offers: which unit is offered to which workers, and which task a worker gets.

use std::collections::BTreeSet;

use chomp_table::Head;

use super::Plan;
use super::ids::{Party, Unit, WorkerId};
use super::messages::{Caller, Work};
use super::queue::{Offer, Pool};
use super::units::{SHARDS, State, priority};

/// The failed attempts after which a unit is offered alone.
const ALONE_AFTER: u32 = 2;

/// In a table of no more than 2 to the power of this many ranges, those of a task may lie anywhere: its parts are not
/// worth smaller tasks.
const QUARTER_BITS_MIN: u32 = 12;

impl<C: Caller> Plan<C> {
    /// Offers a unit to those whose result would count, and to nobody if there are none.
    pub(super) fn file(&mut self, unit: Unit) {
        self.note_check(unit);
        let offer = self.offer(unit, true);
        if self.queue.file(unit, offer) {
            self.review.is_due = true;
            let owner = self.queue.fresh.owner(priority(unit));
            self.review.workers.extend(owner);
        }
    }

    /// The pool of a unit that is to be computed, and the parties that may not have it: those that found it. If
    /// `leases` count, those that hold it too; then there is no offer if these are enough.
    pub(super) fn offer(&self, unit: Unit, leases: bool) -> Option<Offer> {
        if !self.units.contains(unit) || self.own.contains(unit) {
            return None;
        }
        let holders = self.queue.leases(unit).iter().map(|&(_, holder)| holder);
        let mut holders = holders.filter(|_| leases);
        let party = |worker| self.party_of(worker);
        let (layer, _) = priority(unit);
        match self.units.state(unit) {
            State::Ready => {
                let findings = self.results.findings(unit).iter();
                let workers = findings.map(|finding| finding.worker).chain(holders);
                let excluded: BTreeSet<Party> = workers.map(party).collect();
                let is_open = excluded.len() < self.finders_needed(unit);
                is_open.then(|| (Pool::Work, layer, excluded.into_iter().collect()))
            }
            State::Committed if self.debt(unit).is_some() && self.units.has_sources(unit) => {
                let finders = self.units.finders(unit).iter().copied();
                let excluded: BTreeSet<Party> = finders.map(party).collect();
                let is_free = holders.next().is_none();
                is_free.then(|| (Pool::Checks, layer, excluded.into_iter().collect()))
            }
            _ => None,
        }
    }

    /// Whether there may be a task for workers that would `idle`, or for all.
    pub(super) fn has_offers(&self, idle: bool) -> bool {
        self.queue.has_offers(idle, self.below()) || self.leases.slow(self.now).next().is_some()
    }

    /// Whether shards may be merged: all ranges are done and none is in doubt.
    pub(super) fn may_merge(&self) -> bool {
        self.units.ranges.is_complete() && !self.are_ranges_in_doubt()
    }

    /// The layer below which units may be leased.
    pub(super) fn below(&self) -> u32 {
        if self.may_merge() { u32::MAX } else { SHARDS }
    }

    /// The work of a task for units: ranges of one layer, or one shard.
    pub(super) fn work(&self, units: &[Unit]) -> Work {
        let is_check = self.units.state(units[0]) == State::Committed;
        if let Unit::Shard(shard) = units[0] {
            let (head, skip) = self.units.start(shard);
            return Work::Merge {
                shard,
                head,
                skip,
                is_check,
            };
        }
        let heads = units.iter().map(|&unit| Head(priority(unit).1));
        Work::Evaluate {
            layer: priority(units[0]).0,
            heads: heads.collect(),
            is_check,
        }
    }

    /// The units of the next task of this worker, if there is one. Checks fill the gaps in which nothing else is ready,
    /// and go first when too many wait.
    pub(super) fn cut_task(&mut self, worker: WorkerId) -> Option<Vec<Unit>> {
        let idle = self.would_idle(worker);
        let some = |layer| 4 * self.task_units(layer);
        let find = |pool| {
            let below = self.below();
            self.queue.units_for(worker, pool, idle, below, some)
        };
        let most = u64::from(self.settings.checks_waiting_per_thread) * self.workers.threads;
        let units = if self.queue.checks > most {
            find(Pool::Checks).or_else(|| find(Pool::Work))
        } else {
            find(Pool::Work).or_else(|| find(Pool::Checks))
        };
        let mut units = units?;
        let failed = |unit: &Unit| self.queue.failed_attempts(*unit);
        let first = failed(&units[0]);
        if first >= ALONE_AFTER {
            units.truncate(1);
        }
        units.retain(|unit| failed(unit) == first);
        // Records of a task are in one part, which stays until all of them are merged. So its ranges lie in one quarter
        // of the table: in the one that has most of those that may be had now, as small tasks cost more.
        let bits = QUARTER_BITS_MIN.max(self.settings.head_bits().saturating_sub(2));
        let quarter = |unit: &Unit| priority(*unit).1 >> bits;
        let alike = units.chunk_by(|one, other| quarter(one) == quarter(other));
        let most = alike.rev().max_by_key(|alike| alike.len())?;
        let number = self.task_units(priority(units[0]).0);
        let units: Vec<Unit> = most.iter().copied().take(number).collect();
        for &unit in &units {
            self.queue.fresh.claim(worker, priority(unit));
        }
        Some(units)
    }

    /// How many units make a good task, at least one. A shard is a task.
    pub(super) fn task_units(&self, layer: u32) -> usize {
        if layer == SHARDS {
            return 1;
        }
        let left = self.units.ranges.to_do(layer) as u64;
        let ranges = self.settings.task_ranges(left, self.workers.threads);
        usize::try_from(ranges).unwrap_or(usize::MAX)
    }
}
