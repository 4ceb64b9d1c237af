//! Arbitrations: units that the coordinator computes itself, because votes differ, because all attempts fail, or
//! because nobody gives the votes that are missing.
//!
//! Those of low layers go first, and a few are under way at a time. Until those of ranges are done no shard is merged,
//! and until all are, nothing is published.

use std::collections::BTreeMap;

use chomp_table::{Digest, RangeSummary};

use super::Plan;
use super::ids::{SubmissionId, Unit};
use super::jury::Doer;
use super::messages::{Action, Loss, QuarantineReason, StopReason};
use super::slots::{UnitContent, UnitState};
use super::units::{Priority, priority, unit_at};

/// The units that the coordinator computes at a time.
const AT_A_TIME: usize = 4;

/// Why the coordinator computes a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ArbitrationReason {
    /// Votes differ.
    Dispute,
    /// Nobody gives the votes that are missing.
    Unsettled,
    /// The failed attempts, and the last loss.
    Failed(u32, Loss),
}

/// The units to be computed by the coordinator.
#[derive(Debug, Default)]
pub(super) struct Arbitrations {
    /// Those that wait or are under way.
    queue: BTreeMap<Priority, ArbitrationReason>,
    /// Those under way, and whether each draws on a range that was withdrawn since.
    under_way: BTreeMap<Unit, bool>,
    /// Whether one may have become possible, so that the next event looks at the queue again.
    pub(super) is_new: bool,
}

impl Arbitrations {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether the coordinator computes something just now.
    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether the coordinator has to compute this unit.
    pub(super) fn contains(&self, unit: Unit) -> bool {
        !self.queue.is_empty() && self.queue.contains_key(&priority(unit))
    }

    pub(super) fn units(&self) -> impl Iterator<Item = Unit> + '_ {
        self.queue.keys().map(|&priority| unit_at(priority))
    }

    /// Whether one more could be begun.
    pub(super) fn has_room(&self) -> bool {
        self.under_way.len() < AT_A_TIME
    }

    fn insert(&mut self, unit: Unit, cause: ArbitrationReason) {
        let before = self
            .queue
            .entry(priority(unit))
            .or_insert_with(|| cause.clone());
        if matches!(cause, ArbitrationReason::Failed(..)) {
            *before = cause;
        }
        self.is_new = true;
    }

    /// Marks the results under way as useless of whose units `is_stale` says so.
    pub(super) fn spoil(&mut self, is_stale: impl Fn(Unit) -> bool) {
        for (&unit, stale) in &mut self.under_way {
            *stale |= is_stale(unit);
        }
    }

    /// Takes a unit out of the queue.
    pub(super) fn remove(&mut self, unit: Unit) {
        self.queue.remove(&priority(unit));
        self.spoil(|under_way| under_way == unit);
    }

    /// Takes a unit out if it is in the queue only because votes differed, and not yet under way. Returns whether it
    /// was.
    pub(super) fn remove_dispute(&mut self, unit: Unit) -> bool {
        let is_one = self.queue.get(&priority(unit)) == Some(&ArbitrationReason::Dispute);
        let is_over = is_one && !self.under_way.contains_key(&unit);
        if is_over {
            self.queue.remove(&priority(unit));
        }
        is_over
    }
}

impl Plan {
    /// Has the coordinator compute a unit. No worker gets it until that is done.
    pub(super) fn arbitrate(&mut self, unit: Unit, cause: ArbitrationReason) {
        self.arbitrations.insert(unit, cause);
        self.end_wait(unit);
        self.reconsider(unit);
    }

    /// Begins as many arbitrations as are possible.
    pub(super) fn advance_arbitrations(&mut self) {
        if !self.arbitrations.is_new || self.publishing || !self.is_running() {
            return;
        }
        while self.arbitrations.has_room() {
            // The sources of a unit have to be there, and a write of it under way has to end.
            let ready = |unit: &Unit| {
                let state = self.units.state(*unit);
                let is_free = !self.arbitrations.under_way.contains_key(unit);
                is_free && self.units.is_ready(*unit) && !matches!(state, UnitState::Committing(_))
            };
            let next = self.arbitrations.units().find(ready);
            if let Some(unit) = next {
                self.arbitrations.under_way.insert(unit, false);
                let is_shard = matches!(unit, Unit::Shard(_));
                let vote = self.jury.file(unit).filter(|_| is_shard);
                self.out.push(Action::Arbitrate { unit, vote });
            } else if let Some(unit) = self.neglected() {
                self.arbitrate(unit, ArbitrationReason::Unsettled);
            } else {
                break;
            }
        }
        self.arbitrations.is_new = false;
    }

    pub(super) fn arbitrated(
        &mut self,
        submission: SubmissionId,
        unit: Unit,
        range: Option<RangeSummary>,
        digest: Digest,
        is_forged: bool,
    ) {
        let truth = range.map_or_else(|| UnitContent::of_shard(digest), UnitContent::of_range);
        if self.arbitration_ended(unit).is_none() {
            self.out.push(Action::Forget { submission });
            return;
        }
        let liars = self.jury.liars(unit, truth, is_forged);
        if self.jury.differs(unit, truth) {
            self.withdraw_content(unit);
        }
        let state = self.units.state(unit);
        if let Unit::Range(head) = unit
            && state == UnitState::Committed
        {
            self.finish_unit(unit, &[]);
            self.out.push(Action::Confirmed {
                head,
                finders: Vec::new(),
            });
        }
        for vote in self.jury.votes(unit).to_vec() {
            if vote.content == truth {
                self.count_agreed(vote.worker);
            }
        }
        // Whatever blocks it meanwhile makes the result useless.
        let votes = self.jury.truth(unit, truth);
        for liar in liars {
            let worker = match liar {
                Doer::Worker(worker) => worker,
                Doer::Participant(participant) => self.some_worker(participant),
            };
            self.quarantine(worker, QuarantineReason::Lied { unit });
        }
        if self.is_running() && state == UnitState::Ready {
            self.submit_own(submission, unit);
        } else {
            self.reconsider(unit);
            self.out.push(Action::Forget { submission });
        }
        self.release_votes(&votes, None);
    }

    pub(super) fn arbitration_failed(&mut self, unit: Unit, reason: String) {
        if let Some(cause) = self.arbitration_ended(unit) {
            self.reconsider(unit);
            let reason = match cause {
                ArbitrationReason::Failed(attempts, last) => StopReason::GaveUp {
                    unit,
                    attempts,
                    last,
                    own: reason,
                },
                ArbitrationReason::Dispute | ArbitrationReason::Unsettled => {
                    StopReason::ArbitrationFailed { unit, reason }
                }
            };
            self.stop(reason);
        }
    }

    /// Ends the arbitration of a unit. Returns its cause, or `None` if the result is of no use.
    fn arbitration_ended(&mut self, unit: Unit) -> Option<ArbitrationReason> {
        let arbitrations = &mut self.arbitrations;
        let is_stale = arbitrations.under_way.remove(&unit);
        let is_stale = is_stale.unwrap_or_else(|| panic!("{unit} was not to be arbitrated"));
        arbitrations.is_new = true;
        if is_stale {
            return None;
        }
        arbitrations.queue.remove(&priority(unit))
    }

    /// Forgets the known content of a unit, which is wrong.
    fn withdraw_content(&mut self, unit: Unit) {
        match unit {
            Unit::Range(head) => self.condemn(head),
            // The right shard is written over it. One that is computed is not being written.
            Unit::Shard(number) => self.units.shards.reopen(number),
        }
    }

    /// Whether something has to be computed again before the table is published.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.arbitrations.len() > 0 || self.jury.reopened().next().is_some()
    }

    /// Whether some range has to be computed again before shards are merged.
    pub(super) fn are_ranges_in_doubt(&self) -> bool {
        let is_range = |unit: Unit| matches!(unit, Unit::Range(_));
        let arbitrated = self.arbitrations.units().next();
        arbitrated.is_some_and(is_range) || self.jury.reopened().next().is_some_and(is_range)
    }

    /// How many ranges and shards have to be computed again before the table can be finished.
    pub(super) fn in_doubt(&self) -> usize {
        let reopened = self.jury.reopened();
        let others = reopened.filter(|&unit| !self.arbitrations.contains(unit));
        self.arbitrations.len() + others.count()
    }
}
