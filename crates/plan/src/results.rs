//! Results: how a unit becomes done.
//!
//! A result counts if its worker holds a lease on the units. A range is *found* when [`Settings::replicas`] participants
//! have returned the same content; a shard, when one has written its file. It is written into the journal then, and when
//! that is durable others draw on it: nothing waits for a [check](super::checks). A result is answered when all of it is
//! durable, or waits for others to find the same.
//!
//! [`Settings::replicas`]: super::Settings::replicas

use std::collections::BTreeMap;

use super::Plan;
use super::checks::Cause;
use super::ids::{LeaseId, Unit, WorkerId, WriteId};
use super::messages::{Action, Caller, FoundUnit, TaskResult, Verdict, Write};
use super::reasons::{Failure, Rejection, StopReason};
use super::units::{Content, Found, State, participants};

/// A result of a worker for a unit.
#[derive(Clone, Debug)]
pub(super) struct Finding<P> {
    pub(super) worker: WorkerId,
    pub(super) content: Content,
    pub(super) place: P,
}

/// A commit that is being written, and the results that are answered when it is durable, with the answers.
#[derive(Debug)]
struct PendingWrite<R> {
    units: Vec<Unit>,
    results: Vec<(R, Verdict)>,
}

#[derive(Debug)]
pub(super) struct Results<C: Caller> {
    /// The findings that count for nothing yet, as others have to find the same, or as they differ.
    pub(super) findings: BTreeMap<Unit, Vec<Finding<C::Place>>>,
    writes: BTreeMap<WriteId, PendingWrite<C::Reply>>,
    last_write: WriteId,
}

impl<C: Caller> Results<C> {
    pub(super) fn new() -> Results<C> {
        Results {
            findings: BTreeMap::new(),
            writes: BTreeMap::new(),
            last_write: WriteId(0),
        }
    }

    pub(super) fn findings(&self, unit: Unit) -> &[Finding<C::Place>] {
        self.findings.get(&unit).map_or(&[], Vec::as_slice)
    }

    pub(super) fn is_writing(&self) -> bool {
        !self.writes.is_empty()
    }

    /// The number of results that are not answered.
    pub(super) fn pending(&self) -> usize {
        self.writes.values().map(|write| write.results.len()).sum()
    }
}

impl<C: Caller> Plan<C> {
    pub(super) fn on_completed(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        result: TaskResult<C::Place>,
        reply: C::Reply,
    ) {
        self.workers.hear(self.now, worker);
        let units = match result {
            TaskResult::Ranges(ranges) => {
                let units = ranges.into_iter().map(|(range, place)| {
                    (Unit::Range(range.head), Content::of_range(range), place)
                });
                units.collect()
            }
            TaskResult::Shard(number, digest, place) => {
                vec![(Unit::Shard(number), Content::of_shard(digest), place)]
            }
        };
        let is_leased = self.holds(worker, lease);
        let verdict = match self.check_result(worker, lease, &units) {
            Ok(()) if is_leased => return self.use_result(worker, lease, units, reply),
            Ok(()) => Verdict::Duplicate,
            Err(reason) => {
                if is_leased {
                    let worker = self.workers.name(worker);
                    let reason = format!("its result was rejected: {reason}");
                    self.end_lease(lease, Some(&Failure::Reported { worker, reason }));
                }
                Verdict::Rejected { reason }
            }
        };
        self.actions.push(Action::Settle { reply, verdict });
    }

    /// A result has to be of units of a lease that its worker holds, or repeat what is done: the worker may not have heard
    /// the answer.
    fn check_result(
        &self,
        worker: WorkerId,
        lease: LeaseId,
        units: &[(Unit, Content, C::Place)],
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
            let is_done =
                self.units.is_committed(unit) && self.units.content(unit) == Some(content);
            match work {
                Some(work) if !work.contains(unit) => {
                    return Err(Rejection::NotLeased { unit, lease });
                }
                None if !is_done => return Err(Rejection::NoLease { lease }),
                _ => {}
            }
        }
        Ok(())
    }

    fn use_result(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        units: Vec<(Unit, Content, C::Place)>,
        reply: C::Reply,
    ) {
        let (mut found, mut confirmed) = (Vec::new(), Vec::new());
        let (mut write, mut waits_for_others) = (None, false);
        for (unit, content, place) in units {
            let is_equal = self.units.content(unit) == Some(content);
            match self.units.state(unit) {
                State::Writing(under_way) if is_equal => write = write.max(Some(under_way)),
                State::Committed if is_equal && self.may_check(worker, unit) => {
                    self.units.add_finder(unit, worker);
                    self.workers.credit(worker);
                    confirmed.push(unit);
                }
                State::Committed if is_equal => {}
                _ => {
                    self.add_finding(unit, worker, content, place);
                    let settled = self.settle(unit);
                    waits_for_others |= settled.is_none();
                    found.extend(settled);
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
        write = self.commit(found).or(write);
        match write.and_then(|write| self.results.writes.get_mut(&write)) {
            Some(write) => write.results.push((reply, verdict)),
            None => self.actions.push(Action::Settle { reply, verdict }),
        }
        self.confirm(&confirmed);
    }

    /// Keeps what a worker found until others find the same, or the coordinator decides.
    fn add_finding(&mut self, unit: Unit, worker: WorkerId, content: Content, place: C::Place) {
        let party = self.party_of(worker);
        let findings = self.results.findings.entry(unit).or_default();
        let mut earlier = findings.iter();
        if !earlier.any(|it| party.includes(it.worker) && it.content == content) {
            findings.push(Finding {
                worker,
                content,
                place,
            });
        }
        if self.is_disputed(unit) {
            self.compute(unit, Cause::Dispute);
        }
    }

    /// How many participants have to find a unit. When a record is lost, one has to find what is known.
    pub(super) fn finders_needed(&self, unit: Unit) -> usize {
        match unit {
            Unit::Range(_) if self.units.content(unit).is_none() => self.settings.replicas as usize,
            _ => 1,
        }
    }

    /// Takes the content of a unit for known that enough participants have found. Returns it, to be written.
    fn settle(&mut self, unit: Unit) -> Option<FoundUnit<C::Place>> {
        let is_open = self.units.state(unit) == State::Ready && !self.own.contains(unit);
        let findings = self.results.findings(unit);
        let first = findings.first().filter(|_| is_open)?.clone();
        let mut finders: Vec<WorkerId> = findings.iter().map(|finding| finding.worker).collect();
        if participants(finders.iter().copied()).len() < self.finders_needed(unit) {
            return None;
        }
        for &finder in &finders {
            self.workers.credit(finder);
        }
        let found = if self.units.content(unit).is_none() {
            let wanted = self.settings.replicas + u32::from(self.is_drawn(unit, &finders));
            Found { finders, wanted }
        } else {
            // Its record was lost. To find again what one has found is no check.
            let mut found = self.units.found(unit).clone();
            let before = participants(found.finders.iter().copied());
            finders.retain(|it| !before.contains(&it.participant));
            found.finders.append(&mut finders);
            found
        };
        self.units.set_known(unit, first.content, found);
        self.close(unit);
        Some(FoundUnit {
            unit,
            found: self.units.found(unit).clone(),
            place: first.place,
        })
    }

    /// Has units written that are known.
    pub(super) fn commit(&mut self, units: Vec<FoundUnit<C::Place>>) -> Option<WriteId> {
        if units.is_empty() {
            return None;
        }
        self.results.last_write.0 += 1;
        let write = self.results.last_write;
        let pending = PendingWrite {
            units: units.iter().map(|found| found.unit).collect(),
            results: Vec::new(),
        };
        for &unit in &pending.units {
            self.units.set_state(unit, State::Writing(write));
            self.queue.file(unit, None);
        }
        self.results.writes.insert(write, pending);
        let commit = Write::Commit { write, units };
        self.actions.push(Action::Write(commit));
        Some(write)
    }

    pub(super) fn on_written(&mut self, write: WriteId, outcome: Result<(), String>) {
        let pending = self.results.writes.remove(&write);
        let PendingWrite { units, results } = pending.expect("the outcome of a write is told once");
        for unit in units {
            // It may have been withdrawn meanwhile.
            if !self.units.contains(unit) || self.units.state(unit) != State::Writing(write) {
                continue;
            }
            match &outcome {
                Ok(()) => self.on_durable(unit),
                Err(_) => self.units.set_state(unit, State::Ready),
            }
            self.file(unit);
        }
        for (reply, mut verdict) in results {
            if outcome.is_err() {
                let reason = Rejection::Stopped;
                verdict = Verdict::Rejected { reason };
            }
            self.actions.push(Action::Settle { reply, verdict });
        }
        if let Err(reason) = outcome {
            self.stop(StopReason::CommitFailed { reason });
        }
    }

    /// Others may draw on a unit from now on.
    fn on_durable(&mut self, unit: Unit) {
        for ready in self.units.commit(unit) {
            self.file(ready);
        }
        let may_matter = self.units.ranges.is_complete() || self.units.was_lost(unit);
        if matches!(unit, Unit::Range(_)) && may_matter {
            self.file_checks();
        }
    }
}
