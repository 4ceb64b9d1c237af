//! Doubts: units that are done, and are computed again because a participant that found them is not trusted any more.
//!
//! Participants that have not found such a range [check](super::checks) it. The coordinator takes part when it has no
//! other unit to compute. It merges doubted shards itself. Until no doubt is left, nothing is merged or published.

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::Head;

use super::Plan;
use super::ids::{ParticipantId, Unit, WorkerId};
use super::messages::Action;
use super::slots::State;
use super::workers::Delivery;

impl Plan {
    /// How many ranges and shards have to be computed again before the table can be finished.
    pub(super) fn in_doubt(&self) -> usize {
        self.arbitrations.len() + self.checks.doubts()
    }

    /// Has these units computed again, as far as their content is still known. A participant found them that is not
    /// trusted any more; its deliveries are forgotten already.
    pub(super) fn doubt(&mut self, units: impl IntoIterator<Item = Unit>) {
        let is_known =
            |unit: &Unit| self.units.contains(*unit) && self.units.known(*unit).is_some();
        let units: BTreeSet<Unit> = units.into_iter().filter(is_known).collect();
        let mut others = self.finders_of(&units);
        for unit in units {
            let voters = others.remove(&Delivery::of(unit)).unwrap_or_default();
            match (unit, self.units.known(unit)) {
                (Unit::Range(head), Some(content))
                    if self.units.state(unit) == State::Committed
                        && self.units.is_ready(unit)
                        && !self.arbitrations.contains(unit) =>
                {
                    // Another finder of the range may have been doubted before.
                    self.end_check(head);
                    self.want_check(head, None, content, voters);
                }
                _ => self.arbitrate(unit),
            }
        }
        self.arbitrations.reconsider();
    }

    /// For each of these units, a worker of each participant that found it, ascending.
    fn finders_of(&self, units: &BTreeSet<Unit>) -> BTreeMap<Delivery, Vec<WorkerId>> {
        let mut finders: BTreeMap<Delivery, Vec<WorkerId>> = BTreeMap::new();
        for (&participant, delivered) in &self.delivered {
            let worker = self.some_worker(participant);
            for &delivery in delivered.iter().filter(|one| units.contains(&one.unit())) {
                let of_it = finders.entry(delivery).or_default();
                if of_it.last() != Some(&worker) {
                    of_it.push(worker);
                }
            }
        }
        finders
    }

    /// Ends the doubt about a range in which `worker` has found the same.
    pub(super) fn dispel(&mut self, head: Head, worker: WorkerId) {
        let Some(check) = self.end_check(head) else {
            return;
        };
        self.count_agreed(worker);
        self.note_delivery(worker.participant, Unit::Range(head));
        let finders = check.voters.iter().chain([&worker]);
        let finders: BTreeSet<ParticipantId> = finders.map(|worker| worker.participant).collect();
        self.out.push(Action::Confirmed {
            head,
            finders: finders.into_iter().collect(),
        });
        self.requests_dirty |= self.in_doubt() == 0;
    }
}
