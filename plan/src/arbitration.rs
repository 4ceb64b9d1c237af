//! Arbitrations: units that the coordinator computes itself, because workers disagree or all of them fail, or because
//! they are in [doubt](super::doubts).
//!
//! Arbitrations are done one at a time, those of low layers first. Until all are done no shard is
//! merged and nothing is published.

use std::collections::BTreeMap;

use chomp_table::{Digest, RangeSummary};

use super::Plan;
use super::attempts::Vote;
use super::ids::{ParticipantId, SubmissionId, Unit, WorkerId};
use super::messages::{Action, Loss, QuarantineReason, Rejection, StopReason};
use super::slots::{Content, State};
use super::units::{Priority, priority, unit_at};
use super::workers::Delivery;

/// The claims of workers about a unit that the coordinator has to compute.
#[derive(Debug, Default)]
struct Claims {
    /// The contents that workers claimed, beside the votes.
    votes: Vec<Vote>,
    /// The number of failed attempts and how the last one ended, if these are the reason for the arbitration.
    failed_attempts: Option<(u32, Loss)>,
}

/// The units to be computed by the coordinator.
#[derive(Debug, Default)]
pub(super) struct Arbitrations {
    /// Those that wait or are under way.
    queue: BTreeMap<Priority, Claims>,
    pub(super) under_way: Option<Unit>,
    /// Whether the unit under way draws on a range that was withdrawn since.
    is_stale: bool,
    /// Whether one may have become possible.
    is_new: bool,
}

impl Arbitrations {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether the coordinator has to compute this unit.
    pub(super) fn contains(&self, unit: Unit) -> bool {
        !self.queue.is_empty() && self.queue.contains_key(&priority(unit))
    }

    pub(super) fn units(&self) -> impl Iterator<Item = Unit> + '_ {
        self.queue.keys().map(|&priority| unit_at(priority))
    }

    /// Makes the next event look at the queue again.
    pub(super) fn reconsider(&mut self) {
        self.is_new = true;
    }

    /// Notes what a worker says of a unit in doubt.
    pub(super) fn claim(&mut self, unit: Unit, vote: Vote) {
        let priority = priority(unit);
        if let Some(claims) = self.queue.get_mut(&priority) {
            claims.votes.push(vote);
        }
    }

    /// Notes that a unit is in the queue because attempts to compute it failed.
    pub(super) fn note_failed_attempts(&mut self, unit: Unit, attempts: u32, last: &Loss) {
        let priority = priority(unit);
        if let Some(claims) = self.queue.get_mut(&priority) {
            claims.failed_attempts = Some((attempts, last.clone()));
        }
    }

    /// Marks the result of the arbitration under way as useless if `is_stale` says so of its unit.
    pub(super) fn spoil(&mut self, is_stale: impl FnOnce(Unit) -> bool) {
        self.is_stale |= self.under_way.is_some_and(is_stale);
    }

    /// Takes a unit out of the queue, and forgets what was said of it.
    pub(super) fn remove(&mut self, unit: Unit) {
        let priority = priority(unit);
        self.queue.remove(&priority);
        self.spoil(|under_way| under_way == unit);
    }
}

impl Plan {
    /// Has the coordinator compute a unit. No worker gets it until that is done.
    pub(super) fn arbitrate(&mut self, unit: Unit) {
        let priority = priority(unit);
        self.arbitrations.queue.entry(priority).or_default();
        self.arbitrations.is_new = true;
        if let Unit::Range(head) = unit {
            self.drop_check(head, None);
        }
        self.reconsider(unit);
    }

    /// Has the coordinator compute the units of which `worker` says something else than is known.
    pub(super) fn question(&mut self, worker: WorkerId, units: &[(Unit, Content)]) {
        for &(unit, content) in units {
            if self.units.differs(unit, content) {
                self.arbitrate(unit);
                self.arbitrations.claim(unit, Vote { worker, content });
            }
        }
    }

    /// Begins the next arbitration, if one is possible and none is under way.
    pub(super) fn advance_arbitrations(&mut self) {
        let arbitrations = &mut self.arbitrations;
        if arbitrations.under_way.is_some() || !arbitrations.is_new || self.publishing {
            return;
        }
        if self.phase != super::Phase::Running {
            return;
        }
        arbitrations.is_new = false;
        // The sources of a unit have to be there, and a write of it under way has to end.
        let ready = |unit: &Unit| {
            let state = self.units.state(*unit);
            self.units.is_ready(*unit) && !matches!(state, State::Committing(_))
        };
        let next = self.arbitrations.units().find(ready);
        let doubted = || self.checks.doubted().map(Unit::Range);
        if let Some(unit) = next.or_else(|| doubted().find(ready)) {
            self.arbitrate(unit);
            self.arbitrations.is_new = false;
            self.arbitrations.under_way = Some(unit);
            self.out.push(Action::Arbitrate { unit });
        }
    }

    pub(super) fn arbitrated(
        &mut self,
        submission: SubmissionId,
        unit: Unit,
        range: Option<RangeSummary>,
        digest: Digest,
    ) {
        let truth = range.map_or_else(|| Content::of_shard(digest), Content::of_range);
        let Some(claims) = self.arbitration_ended(unit) else {
            self.out.push(Action::Forget { submission });
            return;
        };
        let liars = self.liars(unit, &claims, truth);
        if self.units.differs(unit, truth) {
            self.withdraw_content(unit);
        } else if let Unit::Range(head) = unit
            && self.units.state(unit) == State::Committed
        {
            // Now it does not matter whether the participants that found the same can be trusted.
            self.forget_deliveries(|delivery| delivery == Delivery::of(unit));
            self.out.push(Action::Confirmed {
                head,
                finders: Vec::new(),
            });
        }
        for (worker, quarantine) in liars {
            self.quarantine(worker, quarantine);
        }
        if let Unit::Shard(number) = unit {
            self.confirm(number);
        }
        if self.is_running() && self.units.state(unit) == State::Ready {
            self.submit_own(submission, unit, truth);
        } else {
            self.reconsider(unit);
            self.out.push(Action::Forget { submission });
        }
    }

    pub(super) fn arbitration_failed(&mut self, unit: Unit, reason: String) {
        if let Some(claims) = self.arbitration_ended(unit) {
            self.reconsider(unit);
            let reason = match claims.failed_attempts {
                Some((attempts, last)) => StopReason::GaveUp {
                    unit,
                    attempts,
                    last,
                    own: reason,
                },
                None => StopReason::ArbitrationFailed { unit, reason },
            };
            self.stop(reason);
        }
    }

    /// Ends the arbitration of a unit. Returns what was said of the unit, or `None` if the result is of no use.
    fn arbitration_ended(&mut self, unit: Unit) -> Option<Claims> {
        let arbitrations = &mut self.arbitrations;
        assert_eq!(
            arbitrations.under_way.take(),
            Some(unit),
            "{unit} was not to be arbitrated"
        );
        arbitrations.is_new = true;
        if std::mem::take(&mut arbitrations.is_stale) {
            return None;
        }
        let priority = priority(unit);
        let claims = arbitrations.queue.remove(&priority);
        // Shards may be merged after the last.
        self.requests_dirty |= self.in_doubt() == 0;
        Some(claims.unwrap_or_default())
    }

    /// The workers that said something else of the unit than the truth.
    fn liars(
        &self,
        unit: Unit,
        claims: &Claims,
        truth: Content,
    ) -> Vec<(WorkerId, QuarantineReason)> {
        let lied = QuarantineReason::Lied { unit };
        let attempts = self.ready.of(unit);
        let votes = attempts.iter().flat_map(|attempts| &attempts.votes);
        let wrong = votes
            .chain(&claims.votes)
            .filter(|vote| vote.content != truth);
        let mut liars: Vec<_> = wrong.map(|vote| (vote.worker, lied.clone())).collect();
        if self.units.differs(unit, truth) {
            let finders = self.deliverers(unit);
            let workers = finders.map(|participant| self.some_worker(participant));
            liars.extend(workers.map(|worker| (worker, lied.clone())));
        }
        liars
    }

    /// Forgets the known content of a unit, which is wrong.
    fn withdraw_content(&mut self, unit: Unit) {
        match unit {
            Unit::Range(head) => self.condemn(head),
            // The right shard is written over it. A unit in doubt is not being written.
            Unit::Shard(number) => {
                if self.units.state(unit) == State::Committed {
                    self.units.shards.reopen(number);
                }
                self.units.forget(unit);
                self.forget_deliveries(|delivery| delivery == Delivery::of(unit));
            }
        }
    }

    /// The participants that found the known content of this unit.
    pub(super) fn deliverers(&self, unit: Unit) -> impl Iterator<Item = ParticipantId> {
        let delivery = Delivery::of(unit);
        let finders = self.delivered.iter();
        let finders = finders.filter(move |(_, delivered)| delivered.contains(&delivery));
        finders.map(|(&participant, _)| participant)
    }

    /// Forgets which participants delivered the units that `is_gone` names.
    pub(super) fn forget_deliveries(&mut self, is_gone: impl Fn(Delivery) -> bool) {
        for delivered in self.delivered.values_mut() {
            delivered.retain(|&delivery| !is_gone(delivery));
        }
    }

    /// Forgets what was said of a unit that is to be computed again from other sources.
    pub(super) fn forget_claims(&mut self, unit: Unit) {
        self.arbitrations.remove(unit);
        if let Unit::Range(head) = unit {
            self.drop_check(head, Some(Rejection::Stale));
        }
    }
}
