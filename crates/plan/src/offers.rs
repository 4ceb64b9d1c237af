//! Offers: which unit is offered to which workers, and which task a worker gets.

use std::collections::BTreeSet;

use chomp_table::Head;

use super::Plan;
use super::ids::{Party, Unit, WorkerId};
use super::messages::{PlanTypes, Work};
use super::queue::{Offer, OfferKind};
use super::units::{SHARD_LAYER, State, priority};

/// The failed attempts after which a unit is offered alone.
const ALONE_AFTER: u32 = 2;

/// The least number of low bits of a head that do not say in which quarter of the table its range is. In a table whose
/// heads have no more bits, the ranges of a task may lie anywhere: smaller tasks would cost more there than the early
/// removal of parts is worth.
const BITS_IN_QUARTER_MIN: u32 = 12;

impl<T: PlanTypes> Plan<T> {
    /// Offers each unit that has changed to the workers whose result would count, or to nobody if there are none.
    pub(super) fn update_offers(&mut self) {
        loop {
            for unit in self.units.take_changed() {
                self.note_check(unit);
                let offer = self.offer(unit);
                if self.queue.set_offer(unit, offer) {
                    self.review.is_due = true;
                    let assignee = self.queue.fresh.assignee(priority(unit));
                    self.review.workers.extend(assignee);
                }
            }
            let may_merge = self.may_merge();
            if std::mem::replace(&mut self.could_merge, may_merge) == may_merge {
                return;
            }
            self.units.touch(self.units.shards());
        }
    }

    /// The kind of the offer of a unit, and the parties that may not have it: those that found it or hold it. If these
    /// parties are enough, but some of their leases are slow, the unit is offered to every worker that has no lease on
    /// it and whose party has not found it.
    pub(super) fn offer(&self, unit: Unit) -> Option<Offer> {
        let is_held_back = matches!(unit, Unit::Shard(_)) && !self.could_merge;
        if !self.units.contains(unit) || self.is_left_to_referee(unit) || is_held_back {
            return None;
        }
        let party = |worker| self.party_of(worker);
        let pending = self.units.results(unit).iter();
        let (kind, finders, needed): (_, BTreeSet<Party>, _) = match self.units.state(unit) {
            State::Open => {
                let finders = pending.map(|pending| party(pending.worker)).collect();
                (OfferKind::Work, finders, self.participants_needed(unit))
            }
            State::Done if self.debt(unit).is_some() && self.units.has_sources(unit) => {
                let finders = self.units.found_by(unit).iter().copied().map(party);
                let finders: BTreeSet<Party> = finders.collect();
                let needed = finders.len() + 1;
                (OfferKind::Checks, finders, needed)
            }
            _ => return None,
        };
        let leases = self.units.leases(unit);
        let holders = leases.iter().map(|&(_, holder)| party(holder));
        let excluded: BTreeSet<Party> = finders.iter().copied().chain(holders).collect();
        let (layer, _) = priority(unit);
        if excluded.len() < needed {
            return Some((kind, layer, excluded.into_iter().collect()));
        }
        let at_work = leases.iter().filter(|(id, _)| !self.leases.all[id].is_slow);
        if finders.len() + at_work.count() >= needed {
            return None;
        }
        let holders = leases.iter().map(|&(_, holder)| Party::Worker(holder));
        let excluded = finders.into_iter().chain(holders).collect();
        Some((OfferKind::Slow, layer, excluded))
    }

    /// Whether shards may be merged: all ranges are done and none is in doubt.
    pub(super) fn may_merge(&self) -> bool {
        self.units.ranges.is_complete() && !self.are_ranges_in_doubt()
    }

    pub(super) fn work(&self, units: &[Unit]) -> Work {
        let is_check = self.units.state(units[0]) == State::Done;
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

    /// The units of the next task of a worker, if there are any for it. Checks fill the gaps in which nothing else is
    /// ready, and go first when too many wait.
    pub(super) fn cut_task(&mut self, worker: WorkerId) -> Option<Vec<Unit>> {
        if self.ending.is_under_way {
            return None;
        }
        if worker.is_referee() {
            return self.referee_unit().map(|unit| vec![unit]);
        }
        let idle = self.would_idle(worker);
        let some = |layer| 4 * self.task_units(layer);
        let find = |kind| self.queue.units_for(worker, kind, idle, some);
        let most = u64::from(self.settings.checks_waiting_per_thread) * self.workers.threads;
        let units = if self.queue.offered_checks > most {
            find(OfferKind::Checks).or_else(|| find(OfferKind::Work))
        } else {
            find(OfferKind::Work).or_else(|| find(OfferKind::Checks))
        };
        let mut units = units.or_else(|| find(OfferKind::Slow))?;
        let kind = |unit: &Unit| {
            let is_check = self.units.is_done(*unit);
            (self.units.failed_attempts(*unit), is_check)
        };
        let first = kind(&units[0]);
        if first.0 >= ALONE_AFTER {
            units.truncate(1);
        }
        units.retain(|unit| kind(unit) == first);
        // The records of a task are in one part, which is removed when all of them are merged. So that parts can be
        // removed early, the ranges of a task lie in one quarter of the table: the quarter with the most of the units
        // found above, as small tasks cost more.
        let bits = BITS_IN_QUARTER_MIN.max(self.settings.head_bits().saturating_sub(2));
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
        if layer == SHARD_LAYER {
            return 1;
        }
        let missing = self.units.ranges.missing_peak(layer) as u64;
        let ranges = self.settings.task_ranges(missing, self.workers.threads);
        usize::try_from(ranges).unwrap_or(usize::MAX)
    }
}
