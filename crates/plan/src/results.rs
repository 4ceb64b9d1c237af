//! Results: how a unit becomes done.
//!
//! A result counts if its worker holds a lease on the units. A range is *found* when [`Settings::replicas`]
//! participants have returned the same content; a shard, when one has written its file. A found unit is written into
//! the journal. When it is durable, ranges that depend on it may be computed: nothing waits for a
//! [check](super::checks). A result is answered when each of its units is durable, or pending until others find the
//! same.
//!
//! [`Settings::replicas`]: super::Settings::replicas

use std::collections::{BTreeMap, BTreeSet};

use super::Plan;
use super::finders::Finders;
use super::ids::{LeaseId, Party, Unit, WorkerId, WriteId};
use super::messages::{Action, FoundUnit, PlanTypes, TaskResult, Verdict, Write};
use super::reasons::{Failure, Rejection, StopReason};
use super::units::{Content, PendingResult, State, participants};

/// A commit that is being written, and the results that are answered when it is durable, with the answers.
#[derive(Debug)]
struct PendingWrite<R> {
    units: Vec<Unit>,
    results: Vec<(R, Verdict)>,
}

#[derive(Debug)]
pub(super) struct Writes<T: PlanTypes> {
    under_way: BTreeMap<WriteId, PendingWrite<T::VerdictResponder>>,
    last: WriteId,
}

impl<T: PlanTypes> Writes<T> {
    pub(super) fn new() -> Writes<T> {
        Writes {
            under_way: BTreeMap::new(),
            last: WriteId(0),
        }
    }

    pub(super) fn is_writing(&self) -> bool {
        !self.under_way.is_empty()
    }

    pub(super) fn unanswered_count(&self) -> usize {
        let writes = self.under_way.values();
        writes.map(|write| write.results.len()).sum()
    }
}

impl<T: PlanTypes> Plan<T> {
    pub(super) fn on_completed(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        result: TaskResult<T::Location>,
        responder: T::VerdictResponder,
    ) {
        self.workers.hear(self.now, worker);
        let units = match result {
            TaskResult::Ranges(ranges) => {
                let units = ranges.into_iter().map(|(range, location)| {
                    (Unit::Range(range.head), Content::of_range(range), location)
                });
                units.collect()
            }
            TaskResult::Shard {
                number,
                digest,
                is_forged,
                location,
            } => {
                let unit = Unit::Shard(number);
                // The file is there only in a check.
                let content = if is_forged && self.units.is_done(unit) {
                    Content::of_forged(digest)
                } else {
                    Content::of_shard(digest)
                };
                vec![(unit, content, location)]
            }
        };
        let is_leased = self.holds(worker, lease);
        let verdict = match self.validate_result(worker, lease, &units) {
            Ok(()) => return self.use_result(worker, lease, units, responder),
            Err(reason) => {
                if is_leased {
                    let worker = self.workers.name(worker);
                    let reason = format!("its result was rejected: {reason}");
                    self.end_lease(lease, Some(&Failure::Reported { worker, reason }));
                }
                Verdict::Rejected { reason }
            }
        };
        self.actions
            .push(Action::SendVerdict { responder, verdict });
    }

    /// A result has to be of units of a lease that its worker holds, or repeat what is done or being written: the
    /// worker may not have heard the answer.
    fn validate_result(
        &self,
        worker: WorkerId,
        lease: LeaseId,
        units: &[(Unit, Content, T::Location)],
    ) -> Result<(), Rejection> {
        if self.is_faulty() {
            return Err(Rejection::Stopped);
        }
        if let Some(reason) = self.workers.out_reason(worker).cloned() {
            return Err(Rejection::Out { reason });
        }
        if !self.is_present(worker) {
            return Err(Rejection::NotJoined);
        }
        if units.is_empty() || !units.is_sorted_by(|one, next| one.0 < next.0) {
            return Err(Rejection::Unordered);
        }
        let work = self.work_of(worker, lease);
        for &(unit, content, _) in units {
            match work {
                Some(work) if !work.contains(unit) => {
                    return Err(Rejection::NotLeased { unit, lease });
                }
                None if !self.units.is_found(unit, content) => {
                    return Err(Rejection::NoLease { lease });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn use_result(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        units: Vec<(Unit, Content, T::Location)>,
        responder: T::VerdictResponder,
    ) {
        let is_leased = self.holds(worker, lease);
        let (mut found, mut confirmed) = (Vec::new(), Vec::new());
        let (mut write, mut waits_for_others) = (None, false);
        for (unit, content, location) in units {
            let is_equal = self.units.content(unit) == Some(content);
            match self.units.state(unit) {
                State::Writing(under_way) if is_equal => write = write.max(Some(under_way)),
                _ if is_leased && worker.is_referee() => {
                    match self.decide(unit, content, location) {
                        Some(unit) => found.push(unit),
                        None if self.units.is_done(unit) => confirmed.push(unit),
                        None => waits_for_others = true,
                    }
                }
                State::Done if is_equal && is_leased && self.may_check(worker, unit) => {
                    self.units.add_finder(unit, worker);
                    self.workers.credit(worker, unit);
                    confirmed.push(unit);
                }
                State::Done if is_equal => {}
                _ => {
                    self.add_pending_result(unit, worker, content, location);
                    let accepted = self.accept_content(unit);
                    waits_for_others |= accepted.is_none();
                    found.extend(accepted);
                }
            }
        }
        let verdict = if waits_for_others {
            Verdict::Noted
        } else if found.is_empty() && confirmed.is_empty() {
            Verdict::Duplicate
        } else {
            Verdict::Accepted
        };
        if self.holds(worker, lease) {
            self.end_lease(lease, None);
        }
        // Writes become durable in their order, so the last one is enough.
        write = self.begin_write(found).or(write);
        match write.and_then(|write| self.writes.under_way.get_mut(&write)) {
            Some(write) => write.results.push((responder, verdict)),
            None => self
                .actions
                .push(Action::SendVerdict { responder, verdict }),
        }
        self.confirm(&confirmed);
    }

    fn add_pending_result(
        &mut self,
        unit: Unit,
        worker: WorkerId,
        content: Content,
        location: T::Location,
    ) {
        let party = self.party_of(worker);
        let results = &mut self.units.work_mut(unit).results;
        let mut earlier = results.iter();
        if !earlier.any(|it| party.includes(it.worker) && it.content == content) {
            results.push(PendingResult {
                worker,
                content,
                location,
            });
        }
    }

    /// The number of participants that have to find a unit. One suffices if the record is lost and the content known.
    pub(super) fn participants_needed(&self, unit: Unit) -> usize {
        match unit {
            Unit::Range(_) if self.units.content(unit).is_none() => self.settings.replicas as usize,
            _ => 1,
        }
    }

    /// Accepts the content of a unit once enough participants have found it. Returns the unit, to be written.
    fn accept_content(&mut self, unit: Unit) -> Option<FoundUnit<T::Location>> {
        let is_open = self.units.state(unit) == State::Open && !self.is_left_to_referee(unit);
        let pending = self.units.results(unit);
        let first = pending.first().filter(|_| is_open)?.clone();
        let mut workers: Vec<WorkerId> = pending.iter().map(|pending| pending.worker).collect();
        if participants(workers.iter().copied()).len() < self.participants_needed(unit) {
            return None;
        }
        for &worker in &workers {
            self.workers.credit(worker, unit);
        }
        let finders = if self.units.content(unit).is_none() {
            let wanted = self.settings.replicas + u32::from(self.sample_for_check(unit, &workers));
            Finders::new(wanted, workers)
        } else {
            // The record was lost. A party that finds again what it has found checks nothing.
            let finders = self.units.finders(unit);
            let before = finders.workers().iter();
            let before: BTreeSet<Party> = before.map(|&worker| self.party_of(worker)).collect();
            workers.retain(|&worker| !before.contains(&self.party_of(worker)));
            Finders::new(
                finders.wanted(),
                finders.workers().iter().copied().chain(workers),
            )
        };
        self.units.set_known(unit, first.content, finders);
        self.end_work_on(unit);
        Some(FoundUnit {
            unit,
            finders: self.units.finders(unit).clone(),
            location: first.location,
        })
    }

    /// Asks for a segment with these units, whose content is known.
    pub(super) fn begin_write(&mut self, units: Vec<FoundUnit<T::Location>>) -> Option<WriteId> {
        if units.is_empty() {
            return None;
        }
        self.writes.last.0 += 1;
        let write = self.writes.last;
        let pending = PendingWrite {
            units: units.iter().map(|found| found.unit).collect(),
            results: Vec::new(),
        };
        for &unit in &pending.units {
            self.units.set_state(unit, State::Writing(write));
        }
        self.writes.under_way.insert(write, pending);
        let commit = Write::Commit { write, units };
        self.actions.push(Action::Write(commit));
        Some(write)
    }

    pub(super) fn on_written(&mut self, write: WriteId, outcome: Result<(), String>) {
        let pending = self.writes.under_way.remove(&write);
        let PendingWrite { units, results } = pending.expect("the outcome of a write is told once");
        for unit in units {
            // The unit may have been withdrawn meanwhile.
            if !self.units.contains(unit) || self.units.state(unit) != State::Writing(write) {
                continue;
            }
            match &outcome {
                Ok(()) => self.on_committed(unit),
                Err(_) => self.units.set_state(unit, State::Open),
            }
        }
        for (responder, mut verdict) in results {
            if outcome.is_err() {
                let reason = Rejection::Stopped;
                verdict = Verdict::Rejected { reason };
            }
            self.actions
                .push(Action::SendVerdict { responder, verdict });
        }
        if let Err(reason) = outcome {
            self.stop(StopReason::CommitFailed { reason });
        }
    }

    fn on_committed(&mut self, unit: Unit) {
        self.units.mark_done(unit);
        self.checks.quiet_since = self.now;
        if self.units.was_lost(unit) {
            self.touch_checks();
        }
        if matches!(unit, Unit::Range(_)) {
            self.touch_sampled();
        }
    }
}
