//! What the coordinator computes itself, because workers disagree or all of them fail, or as it takes part in
//! [doubts](super::doubts).
//!
//! Arbitrations are done one at a time, those of low layers first. Until all are done no shard is
//! merged and nothing is published.

use std::collections::BTreeMap;

use chomp_table::{Digest, Division, RangeSummary};

use super::Plan;
use super::attempts::Vote;
use super::ids::{ParticipantId, SubmissionId, Unit, WorkerId};
use super::messages::{Action, Loss, QuarantineReason, Rejection, StopReason};
use super::slots::{Content, State};
use super::units::{Priority, priority, unit_at};
use super::workers::Delivery;

/// What is said of a unit whose content is in doubt.
#[derive(Debug, Default)]
struct Claims {
    /// Who claimed what, beside the votes.
    votes: Vec<Vote>,
    /// How often workers tried in vain to compute it, and what came of the last attempt, if that is the reason.
    lost: Option<(u32, Loss)>,
}

/// The units to be computed by the coordinator.
#[derive(Debug)]
pub(super) struct Arbitrations {
    division: Division,
    /// Those that wait or are under way.
    queue: BTreeMap<Priority, Claims>,
    pub(super) under_way: Option<Unit>,
    /// Whether what is under way draws on something that was withdrawn since.
    is_stale: bool,
    /// Whether one may have become possible.
    is_new: bool,
}

impl Arbitrations {
    pub(super) fn new(division: Division) -> Arbitrations {
        Arbitrations {
            division,
            queue: BTreeMap::new(),
            under_way: None,
            is_stale: false,
            is_new: false,
        }
    }

    fn priority(&self, unit: Unit) -> Priority {
        priority(self.division, unit)
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether it is being found out what is in this unit.
    pub(super) fn contains(&self, unit: Unit) -> bool {
        !self.queue.is_empty() && self.queue.contains_key(&self.priority(unit))
    }

    pub(super) fn units(&self) -> impl Iterator<Item = Unit> + '_ {
        self.queue.keys().map(|&priority| unit_at(priority))
    }

    /// Has the queue looked at again.
    pub(super) fn reconsider(&mut self) {
        self.is_new = true;
    }

    /// Notes what somebody says of a unit in doubt.
    pub(super) fn claim(&mut self, unit: Unit, vote: Vote) {
        let priority = self.priority(unit);
        if let Some(claims) = self.queue.get_mut(&priority) {
            claims.votes.push(vote);
        }
    }

    /// Notes that a unit is in the queue because attempts to compute it were lost.
    pub(super) fn note_loss(&mut self, unit: Unit, attempts: u32, last: &Loss) {
        let priority = self.priority(unit);
        if let Some(claims) = self.queue.get_mut(&priority) {
            claims.lost = Some((attempts, last.clone()));
        }
    }

    /// The result of what is under way is of no use, if `is_stale` says so of the unit.
    pub(super) fn spoil(&mut self, is_stale: impl FnOnce(Unit) -> bool) {
        self.is_stale |= self.under_way.is_some_and(is_stale);
    }

    /// Forgets what was said of a unit, which is nothing any more.
    pub(super) fn remove(&mut self, unit: Unit) {
        let priority = self.priority(unit);
        self.queue.remove(&priority);
        self.spoil(|under_way| under_way == unit);
    }
}

impl Plan {
    /// Has the coordinator find out what is in a unit. Nobody else is given it until then.
    pub(super) fn arbitrate(&mut self, unit: Unit) {
        let priority = self.arbitrations.priority(unit);
        self.arbitrations.queue.entry(priority).or_default();
        self.arbitrations.is_new = true;
        if let Unit::Range(head) = unit {
            self.drop_check(head, None);
        }
        self.reconsider(unit);
    }

    /// Has the coordinator find out about units that are said to be other than is known.
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
        // What is missing below a unit has to come back first, and a write under way to end.
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
            self.take_back(unit);
        } else if let Unit::Range(head) = unit
            && self.units.state(unit) == State::Committed
        {
            // Whether those who found the same are to be trusted is of no interest.
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
            self.write(submission, unit, truth);
        } else {
            self.reconsider(unit);
            self.out.push(Action::Forget { submission });
        }
    }

    pub(super) fn arbitration_failed(&mut self, unit: Unit, reason: String) {
        if let Some(claims) = self.arbitration_ended(unit) {
            self.reconsider(unit);
            let reason = match claims.lost {
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

    /// What was said of the unit; nothing if the result is of no use.
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
        let priority = arbitrations.priority(unit);
        let claims = arbitrations.queue.remove(&priority);
        // Shards may be merged after the last.
        self.news |= self.in_doubt() == 0;
        Some(claims.unwrap_or_default())
    }

    /// The workers whose word about the unit is not the truth.
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

    /// The known content of a unit is wrong.
    fn take_back(&mut self, unit: Unit) {
        match unit {
            Unit::Range(head) => self.condemn(head),
            // The right one is written over it. What is in doubt is not being written.
            Unit::Shard(number) => {
                if self.units.state(unit) == State::Committed {
                    self.units.shards.reopen(number);
                }
                self.units.forget(unit);
                self.forget_deliveries(|delivery| delivery == Delivery::of(unit));
            }
        }
    }

    /// The participants that helped to settle this unit.
    pub(super) fn deliverers(&self, unit: Unit) -> impl Iterator<Item = ParticipantId> {
        let delivery = Delivery::of(unit);
        let finders = self.delivered.iter();
        let finders = finders.filter(move |(_, delivered)| delivered.contains(&delivery));
        finders.map(|(&participant, _)| participant)
    }

    /// Nobody has delivered these.
    pub(super) fn forget_deliveries(&mut self, is_gone: impl Fn(Delivery) -> bool) {
        for delivered in self.delivered.values_mut() {
            delivered.retain(|&delivery| !is_gone(delivery));
        }
    }

    /// What was said of a range that is to be computed again from other sources counts no more.
    pub(super) fn forget_claims(&mut self, unit: Unit) {
        self.arbitrations.remove(unit);
        if let Unit::Range(head) = unit {
            self.drop_check(head, Some(Rejection::Stale));
        }
    }
}
