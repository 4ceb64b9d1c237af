//! The referee: it settles what workers cannot.
//!
//! The referee is a worker in the process of the coordinator. It is called when it is first needed, and gets only units
//! that are left to it and owed checks that nobody has done in time. It is no party and no finder: what it finds is
//! final until a source of it is withdrawn. It has one unit at a time under a lease, which nothing ends that others find.
//! A unit is left to it if
//!
//! * results differ, from each other or from what is known;
//! * attempts have failed too often;
//! * its record or its file was lost too often, or the table could not be published because of it.
//!
//! It evaluates what is done as any check, without storing it. If the content of a range was wrong, the range is
//! withdrawn, and any worker may compute it again, with what the referee found. It merges a wrong shard again itself,
//! since a worker might put other words into the file than it reports.

use std::collections::BTreeSet;
use std::mem;

use super::Plan;
use super::finders::Finders;
use super::ids::{Unit, WorkerId};
use super::messages::{Action, FoundUnit, PlanTypes};
use super::reasons::OutReason;
use super::units::{Content, State, unit_at};

impl<T: PlanTypes> Plan<T> {
    /// Whether only the referee may compute the unit, until it has decided.
    pub(super) fn is_left_to_referee(&self, unit: Unit) -> bool {
        self.units.awaits_decision(unit) || self.units.failed_often(unit, &self.settings)
    }

    /// Calls the referee if there is something for it and it was not called, or sees whether it waits for that.
    pub(super) fn call_referee(&mut self) {
        let is_due = self.checks.due.first().is_some_and(|due| due.0 <= self.now);
        let is_needed = is_due || !self.checks.left_to_referee.is_empty();
        if !is_needed || !self.is_running() || self.ending.is_under_way {
            return;
        }
        if let Some(referee) = self.workers.referee {
            self.review.workers.insert(referee);
        } else if !mem::replace(&mut self.is_referee_called, true) {
            self.actions.push(Action::CallReferee);
        }
    }

    /// Whether the referee has no unit under a lease.
    pub(super) fn is_referee_idle(&self) -> bool {
        let referee = self.workers.referee;
        referee.is_none_or(|referee| self.workers.by_id[&referee].leases.is_empty())
    }

    /// The next unit for the referee: one that is left to it, of the lowest layer, as units of higher ones may depend on
    /// it; else a check that is due, if possible one that no worker has leased.
    pub(super) fn referee_unit(&self) -> Option<Unit> {
        let is_free = |unit: &Unit| {
            let is_ready = matches!(self.units.state(*unit), State::Open | State::Done);
            let may_begin = match unit {
                Unit::Range(_) => self.units.has_sources(*unit),
                Unit::Shard(_) => self.could_merge,
            };
            let mut leases = self.units.leases(*unit).iter();
            is_ready && may_begin && !leases.any(|(_, worker)| worker.is_referee())
        };
        let mut left = self.checks.left_to_referee.iter().map(|&it| unit_at(it));
        let due = || {
            let due = self.checks.due.iter().take_while(|due| due.0 <= self.now);
            due.map(|&(_, unit)| unit).filter(is_free)
        };
        let is_leased = |unit: &Unit| !self.units.leases(*unit).is_empty();
        let left = left.find(is_free);
        left.or_else(|| due().find(|unit| !is_leased(unit)))
            .or_else(|| due().next())
    }

    /// The referee has found this content. Each party that found something else is out. Returns the unit if the referee
    /// has stored it, to be written.
    pub(super) fn decide(
        &mut self,
        unit: Unit,
        content: Content,
        location: T::Location,
    ) -> Option<FoundUnit<T::Location>> {
        let work = self.units.work_mut(unit);
        work.needs_referee = false;
        let results = mem::take(&mut work.results);
        let wrong = results.iter().filter(|result| result.content != content);
        let mut wrong: BTreeSet<WorkerId> = wrong.map(|result| result.worker).collect();
        let is_known_wrong = self.units.differs(unit, content);
        if is_known_wrong {
            wrong.extend(self.units.found_by(unit));
        }
        for worker in wrong {
            self.put_out(self.party_of(worker), worker, OutReason::Wrong { unit });
        }
        let content = match unit {
            Unit::Range(head) => {
                if is_known_wrong {
                    self.withdraw(head);
                }
                content
            }
            Unit::Shard(_) => {
                if is_known_wrong {
                    self.units.revert(unit);
                    self.units.work_mut(unit).needs_referee = true;
                }
                Content::of_shard(content.digest)
            }
        };
        let finders = Finders::default();
        self.units.set_known(unit, content, finders.clone());
        if is_known_wrong {
            return None;
        }
        self.end_work_on(unit);
        // What is done is only checked.
        let is_stored = self.units.state(unit) == State::Open;
        is_stored.then_some(FoundUnit {
            unit,
            finders,
            location,
        })
    }
}
