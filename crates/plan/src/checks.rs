//! Checks: how a wrong result is found, and what follows.
//!
//! # The rule
//!
//! * **Sampled.** When a unit is found, a random number decides whether it is checked, and the journal says so: the
//!   unit *wants* one finder more than [`Settings::replicas`]. All of the first ranges of each participant are sampled.
//!   No range is sampled that nobody present could check. At one replica all shards are sampled, unless the owner is
//!   alone. A check is a task like others, for a participant that has not found the unit; while only the owner is
//!   present, for another worker of the owner. An equal result adds a finder.
//! * **Results differ**, from each other or from what is known: the coordinator computes the unit itself. Each party
//!   that found something else is **out**: it gets no more tasks, and is a finder of nothing any more. If its
//!   participant is the only one present, the party is the worker alone: a node with bad memory does not end the job of
//!   its owner.
//! * **Owed.** A unit with finders of fewer than `replicas` participants owes a check. Any other party may do it. If it
//!   is not done after the time of a lease, the coordinator does it. A content that the coordinator computed is final
//!   until a source of it is withdrawn.
//! * **Wrong.** A range whose content is not what the coordinator computed is withdrawn with all ranges that follow
//!   from it, and with all shards. All leases, pending results and computations of the coordinator that began before
//!   are void, and nobody is put out because of them. A shard is wrong also if the words in its file are not those that
//!   its finder reported.
//! * **Lost.** A range whose record is lost is computed again. Its content stays known, and the new result has to be
//!   equal to it. Ranges that depend on it stay committed if they are; otherwise they wait.
//! * **At the end**, when all ranges are done, the coordinator does the sampled checks that nobody present can do, and
//!   after the time of a lease the others.
//!
//! | event | handlers |
//! |---|---|
//! | a unit is found, and sampled or not | `accept_content` in [results](super::results), `sample_for_check`, `note_check` |
//! | results differ | `add_pending_result` in [results](super::results), `take_over`, `on_computed`, `decide` |
//! | a party is out | `on_revoked`, `put_out` |
//! | a range is wrong | `withdraw` |
//! | a record is lost | `on_lost`, `block_dependants` |
//! | nobody does a check | `due_at`, `next_overdue` |
//!
//! # Why a wrong result of one participant does not stay
//!
//! With two replicas, the content of a range is known only when two participants have returned it, so a lie needs two
//! liars. A shard is done after one result, and then owes a check. With one replica, each lie of a participant among
//! others stays unchecked with a chance of 1 − r, where r is the rate of checks. When a lie is found, the participant
//! is out, and everything that it alone found is checked by others. Whatever was computed from a wrong range follows
//! from it, and is withdrawn with it.
//!
//! # Why honest participants are not put out
//!
//! A party is put out if its content differs from that of the coordinator, and both were computed from the same
//! sources: the content of a range depends on those of its sources alone. A lease, like a computation of the
//! coordinator, begins when all sources are committed, and is void once one of them is withdrawn.
//!
//! [`Settings::replicas`]: super::Settings::replicas

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::rng::mix;
use chomp_table::{Digest, Head};

use super::ids::{Millis, ParticipantId, Party, Unit, WorkerId};
use super::messages::{Action, Computed, FoundUnit, PlanTypes, Write};
use super::reasons::{Failure, OutReason, StopReason};
use super::units::{Content, Priority, State, UnitFinders, Units, participants, priority, unit_at};
use super::{Phase, Plan};

const ARBITRATIONS_AT_A_TIME: usize = 4;

/// Why a committed unit is to be computed once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Debt {
    Owed,
    Sampled,
}

const DEBTS: [Debt; 2] = [Debt::Owed, Debt::Sampled];

/// The due time of a check that may wait until all ranges are done.
const NEVER: Millis = Millis(u64::MAX);

/// The open checks, to find those that are due.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// Each open check: its reason, the time from which on the coordinator may do it, and the unit.
    pub(super) open: BTreeSet<(Debt, Millis, Unit)>,
    /// The same by unit.
    of_units: BTreeMap<Unit, (Debt, Millis)>,
    /// The number of ranges for which it was decided whether they are sampled. The next random number depends on it.
    decisions: u64,
}

impl Checks {
    /// The checks with this debt that are due at `first` or later, in the order of their due times.
    fn due_from(&self, debt: Debt, first: Millis) -> impl Iterator<Item = (Millis, Unit)> {
        let due = self.open.range((debt, first, Unit::Range(Head(0)))..);
        let due = due.take_while(move |it| it.0 == debt);
        due.map(|&(_, at, unit)| (at, unit))
    }
}

/// Why the coordinator computes a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Dispute,
    /// Nobody checks it, the publication failed because of it, or its record or file was lost.
    Recompute,
    /// The failed attempts, and the last one.
    Failed(u32, Failure),
}

/// The units that the coordinator computes itself, to find the next one.
#[derive(Debug, Default)]
pub(super) struct Arbitrations {
    /// Also those under way.
    pub(super) undecided: BTreeSet<Priority>,
    /// The units under way, and whether the result is of no use any more.
    pub(super) under_way: BTreeMap<Unit, bool>,
}

impl Arbitrations {
    pub(super) fn note(&mut self, unit: Unit, cause: Option<&Cause>) {
        match cause {
            Some(_) => self.undecided.insert(priority(unit)),
            None => self.undecided.remove(&priority(unit)),
        };
    }
}

/// Which units are checked, and when the coordinator does it.
impl<T: PlanTypes> Plan<T> {
    pub(super) fn sample_for_check(&mut self, unit: Unit, finders: &[WorkerId]) -> bool {
        let of = participants(finders.iter().copied());
        let has_others = self.has_others(&of);
        let Unit::Range(head) = unit else {
            // With more replicas other participants check the shard anyway.
            let is_trusted = !has_others && of.contains(&ParticipantId::OWNER);
            return self.settings.replicas == 1 && !is_trusted;
        };
        let mut is_newcomer = false;
        for participant in of {
            let count = self.workers.ranges_found.entry(participant).or_default();
            is_newcomer |= *count < self.settings.newcomer_ranges;
            *count = count.saturating_add(1);
        }
        let mut workers = self.workers.by_id.keys();
        let has_more_workers = workers.any(|worker| !finders.contains(worker));
        let rate = match has_others {
            true if is_newcomer => 1000,
            true => self.settings.checks_per_1000,
            false if self.trusts_workers_singly() && has_more_workers => {
                self.settings.owner_checks_per_1000
            }
            false => 0,
        };
        self.checks.decisions += 1;
        let random = mix(self.settings.check_seed ^ mix(head.0) ^ mix(!self.checks.decisions));
        random % 1000 < rate.into()
    }

    /// Whether a participant is present that is none of these.
    fn has_others(&self, participants: &BTreeSet<ParticipantId>) -> bool {
        let mut present = self.workers.count_by_participant.keys();
        present.any(|participant| !participants.contains(participant))
    }

    pub(super) fn debt(&self, unit: Unit) -> Option<Debt> {
        let finders = self.units.finders(unit);
        if finders.participant_count() < finders.wanted.min(self.settings.replicas) as usize {
            Some(Debt::Owed)
        } else {
            (finders.workers.len() < finders.wanted as usize).then_some(Debt::Sampled)
        }
    }

    /// Whether the unit wants another finder, and this worker may become that finder.
    pub(super) fn may_check(&self, worker: WorkerId, unit: Unit) -> bool {
        let party = self.party_of(worker);
        let mut finders = self.units.found_by(unit).iter();
        self.debt(unit).is_some() && !finders.any(|&finder| party.includes(finder))
    }

    /// Notes whether a unit that has changed is to be checked, and from when on by the coordinator.
    pub(super) fn note_check(&mut self, unit: Unit) {
        let debt = self.units.is_done(unit).then(|| self.debt(unit)).flatten();
        let old = self.checks.of_units.remove(&unit);
        let new = debt.map(|debt| (debt, self.due_at(unit, debt, old)));
        if let Some((debt, at)) = old {
            self.checks.open.remove(&(debt, at, unit));
        }
        if let Some((debt, at)) = new {
            self.checks.open.insert((debt, at, unit));
            self.checks.of_units.insert(unit, (debt, at));
        }
    }

    fn due_at(&self, unit: Unit, debt: Debt, old: Option<(Debt, Millis)>) -> Millis {
        let is_sampled = debt == Debt::Sampled;
        let waits = is_sampled && !self.units.ranges.is_complete();
        match old {
            _ if waits => NEVER,
            _ if is_sampled && !self.may_anybody_check(unit) => self.now,
            Some((before, at)) if before == debt && at != NEVER => at,
            _ => self.now.plus(self.settings.lease_ms),
        }
    }

    fn may_anybody_check(&self, unit: Unit) -> bool {
        let finders = self.units.found_by(unit);
        if self.trusts_workers_singly() {
            let mut workers = self.workers.by_id.keys();
            workers.any(|worker| !finders.contains(worker))
        } else {
            self.has_others(&participants(finders.iter().copied()))
        }
    }

    /// Has all open checks be offered anew.
    pub(super) fn touch_checks(&mut self) {
        self.units.touch(self.checks.of_units.keys().copied());
    }

    /// Writes the finders of units that were checked, as they are now.
    pub(super) fn confirm(&mut self, units: &[Unit]) {
        let finders = |unit: &Unit| self.units.finders(*unit);
        for group in units.chunk_by(|one, other| finders(one) == finders(other)) {
            let confirm = Write::Confirm {
                units: group.to_vec(),
                finders: finders(&group[0]).clone(),
            };
            self.actions.push(Action::Write(confirm));
        }
        for &unit in units {
            if self.debt(unit).is_none() {
                self.end_work_on(unit);
            }
        }
    }

    /// The first due check that no worker has leased; if workers have leased all due checks, the first of them.
    fn next_overdue(&self) -> Option<Unit> {
        let all = DEBTS.map(|debt| self.checks.due_from(debt, Millis(0)));
        let due = all
            .into_iter()
            .flat_map(|all| all.take_while(|it| it.0 <= self.now));
        let mut leased = None;
        for (_, unit) in due {
            if self.units.cause(unit).is_some() || !self.units.has_sources(unit) {
                continue;
            }
            if self.units.leases(unit).is_empty() {
                return Some(unit);
            }
            leased.get_or_insert(unit);
        }
        leased
    }

    pub(super) fn next_check_due(&self) -> Option<Millis> {
        let later = DEBTS.map(|debt| self.checks.due_from(debt, self.now.plus(1)).next());
        let next = later.into_iter().flatten().map(|(at, _)| at).min();
        next.filter(|&at| at != NEVER && self.is_running())
    }

    /// Whether shards have to wait for a range that may turn out wrong: one that owes a check, or that the coordinator
    /// computes for another reason than a sampled check. Sampled checks go on while shards are merged.
    pub(super) fn are_ranges_in_doubt(&self) -> bool {
        let is_range = |unit: Unit| matches!(unit, Unit::Range(_));
        let mut owed = self.checks.due_from(Debt::Owed, Millis(0));
        let mut undecided = self.arbitrations.undecided.iter();
        let is_in_doubt = |&priority: &Priority| {
            let unit = unit_at(priority);
            let is_sampled = self.debt(unit) == Some(Debt::Sampled);
            let is_check = is_sampled && self.units.cause(unit) == Some(&Cause::Recompute);
            is_range(unit) && !is_check
        };
        undecided.any(is_in_doubt) || owed.any(|(_, unit)| is_range(unit))
    }

    /// Whether the job runs, and no unit is to be computed once more.
    pub fn has_nothing_to_recheck(&self) -> bool {
        let is_checked = self.checks.open.is_empty();
        let is_settled =
            self.arbitrations.undecided.is_empty() && self.arbitrations.under_way.is_empty();
        self.is_running() && !self.ending.is_under_way && is_checked && is_settled
    }
}

/// Results that differ.
impl<T: PlanTypes> Plan<T> {
    /// Leaves a unit to the coordinator. No worker gets it until that has computed it.
    pub(super) fn take_over(&mut self, unit: Unit, cause: Cause) {
        let is_failure = matches!(cause, Cause::Failed(..));
        let work = self.units.work_mut(unit);
        if is_failure || work.cause.is_none() {
            work.cause = Some(cause);
        }
    }

    pub(super) fn advance_arbitrations(&mut self) {
        if !self.is_running() || self.ending.is_under_way {
            return;
        }
        while self.arbitrations.under_way.len() < ARBITRATIONS_AT_A_TIME {
            if let Some(unit) = self.next_arbitration() {
                self.arbitrations.under_way.insert(unit, false);
                self.actions.push(Action::Compute { unit });
            } else if self.arbitrations.undecided.len() < ARBITRATIONS_AT_A_TIME
                && let Some(unit) = self.next_overdue()
            {
                self.take_over(unit, Cause::Recompute);
                self.update_offers();
            } else {
                break;
            }
        }
    }

    /// The next unit to compute: one of the lowest layer, as units of higher ones may depend on it.
    fn next_arbitration(&self) -> Option<Unit> {
        let &(lowest, _) = self.arbitrations.undecided.first()?;
        let units = self.arbitrations.undecided.range(..(lowest + 1, 0));
        let mut units = units.map(|&priority| unit_at(priority));
        units.find(|&unit| {
            let is_free = !self.arbitrations.under_way.contains_key(&unit);
            let is_writing = matches!(self.units.state(unit), State::Writing(_));
            is_free && !is_writing && self.units.has_sources(unit)
        })
    }

    pub(super) fn on_computed(
        &mut self,
        unit: Unit,
        outcome: Result<Computed<T::Location>, String>,
    ) {
        let is_stale = self.arbitrations.under_way.remove(&unit);
        let is_stale = is_stale.unwrap_or_else(|| panic!("{unit} was not to be computed"));
        if is_stale || self.is_faulty() || self.units.cause(unit).is_none() {
            return;
        }
        match outcome {
            Ok(computed) => self.decide(unit, computed),
            // The unit is tried again once its lost source is done again.
            Err(_) if !self.units.has_sources(unit) => {}
            Err(own) => {
                let reason = match self.units.work_mut(unit).cause.take() {
                    Some(Cause::Failed(attempts, last)) => StopReason::GaveUp {
                        unit,
                        attempts,
                        last,
                        own,
                    },
                    _ => StopReason::ArbitrationFailed { unit, reason: own },
                };
                self.stop(reason);
            }
        }
    }

    /// The coordinator's own result counts as right. Each party that found something else is out.
    fn decide(&mut self, unit: Unit, computed: Computed<T::Location>) {
        let digest = Content::of_shard(computed.digest);
        let content = computed.range.map_or(digest, Content::of_range);
        let work = self.units.work_mut(unit);
        work.cause = None;
        let results = std::mem::take(&mut work.results);
        let wrong = results.iter().filter(|result| result.content != content);
        let mut wrong: BTreeSet<WorkerId> = wrong.map(|result| result.worker).collect();
        let is_known_wrong = computed.is_forged || self.units.differs(unit, content);
        if is_known_wrong {
            wrong.extend(self.units.found_by(unit));
        }
        let party = |worker: WorkerId| {
            let has_others = self.has_others(&BTreeSet::from([worker.participant]));
            let participant = Party::Participant(worker.participant);
            let party = has_others.then_some(participant);
            (party.unwrap_or(Party::Worker(worker)), worker)
        };
        let wrong: Vec<(Party, WorkerId)> = wrong.into_iter().map(party).collect();
        for (party, worker) in wrong {
            self.put_out(party, worker, OutReason::Wrong { unit });
        }
        match unit {
            Unit::Range(head) if is_known_wrong => self.withdraw(head),
            Unit::Shard(_) if is_known_wrong => self.units.revert(unit),
            _ => {}
        }
        let finders = UnitFinders::default();
        self.units.set_known(unit, content, finders.clone());
        match self.units.state(unit) {
            State::Done => self.confirm(&[unit]),
            State::Open => {
                self.end_work_on(unit);
                let location = computed.location;
                self.begin_write(vec![FoundUnit {
                    unit,
                    finders,
                    location,
                }]);
            }
            // Nothing to commit now. The content is kept above, and any later result must equal it.
            State::Blocked | State::Writing(_) => {}
        }
    }
}

/// A party that is out, a range that is wrong, a record that is lost.
impl<T: PlanTypes> Plan<T> {
    pub(super) fn on_revoked(&mut self, participant: ParticipantId) {
        let party = Party::Participant(participant);
        let present = self.workers.of(party).first().copied();
        let worker = present.unwrap_or_else(|| WorkerId::new(participant.0, 0));
        self.put_out(party, worker, OutReason::Revoked);
    }

    /// Puts `party` out, because of `worker`. Units that now have too few finders are checked.
    fn put_out(&mut self, party: Party, worker: WorkerId, reason: OutReason) {
        if self.workers.out.contains_key(&party) {
            return;
        }
        let name = self.workers.name(worker);
        let why = (name.clone(), reason.clone());
        self.workers.out.insert(party, why);
        self.actions.push(Action::Write(Write::Out {
            party,
            name,
            reason,
        }));
        self.units.remove_finder(party);
        for (.., finders) in &mut self.ending.shards_before {
            finders.workers.retain(|&finder| !party.includes(finder));
        }
        for worker in self.workers.of(party) {
            self.on_left(worker);
        }
    }

    /// Withdraws a range whose content is wrong, with all ranges that follow from it and all that is under way.
    fn withdraw(&mut self, head: Head) {
        let follows = self.units.ranges.with_followers(head).into_iter();
        let follows: Vec<Unit> = follows.map(Unit::Range).collect();
        let known = follows
            .iter()
            .filter(|&&unit| self.units.content(unit).is_some());
        let heads = known.map(|&unit| Head(priority(unit).1)).collect();
        self.actions.push(Action::Write(Write::Withdraw { heads }));
        while let Some(&lease) = self.leases.all.keys().next() {
            self.end_lease(lease, None);
        }
        let is_one: BTreeSet<Unit> = follows.iter().copied().collect();
        for (unit, is_stale) in &mut self.arbitrations.under_way {
            *is_stale |= matches!(unit, Unit::Shard(_)) || is_one.contains(unit);
        }
        self.drop_shards();
        for &unit in &follows {
            self.units.revert(unit);
            self.units.forget(unit);
        }
        self.touch_checks();
    }

    pub(super) fn on_lost(&mut self, records: &[(Head, Digest)]) {
        // When all shards are written, records are not needed any more.
        let is_over = self.is_faulty() || self.phase == Phase::Finished || self.ending.is_under_way;
        let has_digest = |&(head, digest): &(Head, Digest)| {
            let unit = Unit::Range(head);
            let content = self.units.content(unit);
            self.units.is_done(unit) && content.is_some_and(|content| content.digest == digest)
        };
        let lost = records.iter().copied().filter(has_digest);
        let lost: BTreeSet<Unit> = lost.map(|(head, _)| Unit::Range(head)).collect();
        if is_over || lost.is_empty() {
            return;
        }
        // Also a lease under which a range was computed before, and that stands for other units, is of no use.
        self.end_leases_with(|_, unit| lost.contains(&unit));
        for &unit in &lost {
            let head = Head(priority(unit).1);
            self.actions.push(Action::Write(Write::Lose { head }));
            self.units.revert(unit);
        }
        self.block_dependants();
        for &unit in &lost {
            let times = self.units.count_losses(unit, 1);
            // A worker may store bytes that are no record, every time. The coordinator stores a good record.
            if times > self.settings.failures_max {
                self.take_over(unit, Cause::Recompute);
            }
            if times > self.settings.failures_max + 1 {
                let head = Head(priority(unit).1);
                self.stop(StopReason::Lost { head, times });
            }
        }
        self.touch_checks();
    }

    /// Ends the work on ranges of which a source is lost: if they are not done, they wait for it.
    fn block_dependants(&mut self) {
        let is_blocked = |units: &Units<T::Location>, unit| {
            matches!(unit, Unit::Range(_)) && !units.has_sources(unit)
        };
        self.end_leases_with(is_blocked);
        // What the coordinator computes from it may fail, so the outcome does not count, and it is tried again.
        for (&unit, is_stale) in &mut self.arbitrations.under_way {
            *is_stale |= !self.units.has_sources(unit);
        }
        for unit in self.units.all_ranges() {
            if self.units.state(unit) == State::Open && is_blocked(&self.units, unit) {
                self.units.revert(unit);
            }
        }
    }
}
