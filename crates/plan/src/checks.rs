//! Checks: how a wrong result is found, and what follows.
//!
//! # The rule
//!
//! * **Parties.** At one replica each worker of the owner is a party. Each other participant is one with all its
//!   workers, and at several replicas so is the owner. It does not matter who is present. A check is done by another
//!   party than those of the finders; an equal result adds a finder.
//! * **Sampled.** When a unit is found, a random number decides whether it is checked, and the journal says so: the
//!   unit *wants* one finder more than [`Settings::replicas`]. All of the first ranges of each participant but the
//!   owner are sampled, and at one replica all of its shards. Nothing waits for a sampled check. It *lapses* when all
//!   ranges are done and no worker is there that may do it, or when only such checks are left and nobody does one for
//!   the time of a lease.
//! * **Owed.** A unit with finders of fewer than `replicas` participants owes a check. Any other party may do it. When it
//!   is not done after the time of a lease, the referee may do it too.
//! * **Results differ**, from each other or from what is known: the unit is left to the [referee](super::referee). Each
//!   party that found something else is **out**: it gets no more tasks, and is a finder of nothing any more. The results
//!   stay until then, whatever else arrives, unless a source is withdrawn. If one of the parties is out meanwhile, the
//!   referee decides all the same. A result without a lease says nothing. A coordinator that takes over does not know of
//!   results that differed.
//! * **Wrong.** A range whose content is not what the referee found is withdrawn with all ranges that follow from it, and
//!   with all shards. All leases end. Results for what is withdrawn are void, and nobody is put out because of them. A
//!   shard is wrong also if the words in its file are not those that its finder reported.
//! * **Lost.** A range whose record is lost is computed again. Its content stays known, and the new result has to be
//!   equal to it. Ranges that depend on it stay committed if they are; otherwise they wait.
//!
//! | event | handlers |
//! |---|---|
//! | a unit is found, and sampled or not | `accept_content` in [results](super::results), `sample_for_check`, `note_check` |
//! | results differ | `add_pending_result` in [results](super::results), `decide` in [referee](super::referee) |
//! | a party is out | `on_revoked`, `put_out` |
//! | a range is wrong | `withdraw` |
//! | a record is lost | `on_lost`, `block_dependants` |
//! | nobody does a check | `may_lapse`, `referee_unit` in [referee](super::referee) |
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
//! A party is put out if its content differs from that of the referee, and both were computed from the same sources: the
//! content of a range depends on those of its sources alone. A lease, also one of the referee, begins when all sources
//! are committed, and is void once one of them is withdrawn.
//!
//! [`Settings::replicas`]: super::Settings::replicas

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::rng::mix;
use chomp_table::{Digest, Head};

use super::ids::{Millis, ParticipantId, Party, Unit, WorkerId};
use super::messages::{Action, PlanTypes, Write};
use super::reasons::{OutReason, StopReason};
use super::units::{Priority, State, Units, participants, priority, unit_at};
use super::{Phase, Plan};

/// Why a committed unit is to be computed once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Debt {
    Owed,
    Sampled,
}

/// The open checks.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) sampled: BTreeSet<Unit>,
    /// Each with the time from which on the referee may do it.
    pub(super) owed: BTreeMap<Unit, Millis>,
    /// The same by time.
    pub(super) due: BTreeSet<(Millis, Unit)>,
    /// The units that only the referee may compute.
    pub(super) left_to_referee: BTreeSet<Priority>,
    /// The number of units for which it was decided whether they are sampled. The next random number depends on it.
    decisions: u64,
    /// The sampled checks that nobody did in time.
    pub(super) lapsed: u64,
    /// When a unit was found or checked last.
    pub(super) quiet_since: Millis,
}

impl Checks {
    /// The number of units that are to be checked.
    pub(super) fn open_count(&self) -> usize {
        self.sampled.len() + self.owed.len()
    }
}

/// Which units are checked.
impl<T: PlanTypes> Plan<T> {
    /// Draws whether a unit that was found is to be checked.
    pub(super) fn sample_for_check(&mut self, unit: Unit, finders: &[WorkerId]) -> bool {
        let mut of = participants(finders.iter().copied());
        of.remove(&ParticipantId::OWNER);
        let Unit::Range(head) = unit else {
            // With more replicas other participants check the shard anyway.
            return self.settings.replicas == 1 && !of.is_empty();
        };
        let mut rate = if of.is_empty() {
            self.settings.owner_checks_per_1000
        } else {
            self.settings.checks_per_1000
        };
        for participant in of {
            let count = self.workers.ranges_found.entry(participant).or_default();
            if *count < self.settings.newcomer_ranges {
                rate = 1000;
            }
            *count = count.saturating_add(1);
        }
        self.checks.decisions += 1;
        let random = mix(self.settings.check_seed ^ mix(head.0) ^ mix(!self.checks.decisions));
        random % 1000 < rate.into()
    }

    pub(super) fn debt(&self, unit: Unit) -> Option<Debt> {
        let finders = self.units.finders(unit);
        if finders.participants().count() < finders.wanted().min(self.settings.replicas) as usize {
            Some(Debt::Owed)
        } else {
            (finders.workers().len() < finders.wanted() as usize).then_some(Debt::Sampled)
        }
    }

    /// Whether the unit wants another finder, and this worker may become that finder.
    pub(super) fn may_check(&self, worker: WorkerId, unit: Unit) -> bool {
        let party = self.party_of(worker);
        let mut finders = self.units.found_by(unit).iter();
        self.debt(unit).is_some()
            && !worker.is_referee()
            && !finders.any(|&finder| party.includes(finder))
    }

    /// Notes whether a unit that has changed is to be checked, and by whom.
    pub(super) fn note_check(&mut self, unit: Unit) {
        let debt = |plan: &Plan<T>| plan.units.is_done(unit).then(|| plan.debt(unit)).flatten();
        if debt(self) == Some(Debt::Sampled) && self.may_lapse(unit) {
            self.checks.lapsed += 1;
            self.units.want_no_more(unit);
            self.end_work_on(unit);
        }
        let debt = debt(self);
        match debt {
            Some(Debt::Sampled) => self.checks.sampled.insert(unit),
            _ => self.checks.sampled.remove(&unit),
        };
        if debt != Some(Debt::Owed) {
            if let Some(at) = self.checks.owed.remove(&unit) {
                self.checks.due.remove(&(at, unit));
            }
        } else if !self.checks.owed.contains_key(&unit) {
            let at = self.now.plus(self.settings.lease_ms);
            self.checks.owed.insert(unit, at);
            self.checks.due.insert((at, unit));
        }
        if self.is_left_to_referee(unit) {
            self.checks.left_to_referee.insert(priority(unit));
        } else {
            self.checks.left_to_referee.remove(&priority(unit));
        }
    }

    /// Whether a sampled check is not waited for: all ranges are done and nobody present may do it; or all else is done,
    /// and nobody has done a check for the time of a lease. If nobody is present at all, somebody may still come.
    fn may_lapse(&self, unit: Unit) -> bool {
        if !self.units.ranges.is_complete() || self.workers.count() == 0 {
            return self.is_lapse_due();
        }
        let finders = self.units.found_by(unit).iter();
        let finders: Vec<Party> = finders.map(|&finder| self.party_of(finder)).collect();
        let mut workers = self.workers.all();
        workers.all(|worker| finders.contains(&self.party_of(worker))) || self.is_lapse_due()
    }

    fn is_lapse_due(&self) -> bool {
        self.sampled_lapse_at().is_some_and(|at| at <= self.now)
    }

    fn sampled_lapse_at(&self) -> Option<Millis> {
        let are_last = self.units.ranges.is_complete() && self.units.are_shards_complete();
        are_last.then(|| self.checks.quiet_since.plus(self.settings.lease_ms))
    }

    /// Looks again whether sampled checks lapse.
    pub(super) fn touch_sampled(&mut self) {
        if self.units.ranges.is_complete() {
            self.units.touch(self.checks.sampled.iter().copied());
        }
    }

    pub(super) fn lapse(&mut self) {
        if self.is_lapse_due() {
            self.touch_sampled();
        }
    }

    /// How many sampled checks were not done, though somebody might have been there to do them.
    pub fn lapsed_checks(&self) -> u64 {
        let could_be_checked = self.workers.parties.len() > self.settings.replicas as usize;
        if could_be_checked {
            self.checks.lapsed
        } else {
            0
        }
    }

    /// Has all open checks be offered anew.
    pub(super) fn touch_checks(&mut self) {
        self.units.touch(self.checks.sampled.iter().copied());
        self.units.touch(self.checks.owed.keys().copied());
    }

    /// Writes the finders of units that were checked, as they are now.
    pub(super) fn confirm(&mut self, units: &[Unit]) {
        if units.is_empty() {
            return;
        }
        let finders = |unit: &Unit| self.units.finders(*unit);
        for group in units.chunk_by(|one, other| finders(one) == finders(other)) {
            let confirm = Write::Confirm {
                units: group.to_vec(),
                finders: finders(&group[0]).clone(),
            };
            self.actions.push(Action::Write(confirm));
        }
        self.checks.quiet_since = self.now;
        for &unit in units {
            if self.debt(unit).is_none() {
                self.end_work_on(unit);
            }
        }
    }

    pub(super) fn next_check_due(&self) -> Option<Millis> {
        let later = (self.now.plus(1), Unit::Range(Head(0)));
        let owed = self.checks.due.range(later..).next().map(|&(at, _)| at);
        let lapse = self.sampled_lapse_at();
        let sampled = lapse.filter(|_| !self.checks.sampled.is_empty());
        let next = owed.into_iter().chain(sampled).min();
        next.filter(|_| self.is_running())
    }

    /// Whether shards have to wait for a range that may turn out wrong: one that owes a check, or that is left to the
    /// referee. Sampled checks go on while shards are merged.
    pub(super) fn are_ranges_in_doubt(&self) -> bool {
        let left = self.checks.left_to_referee.iter().map(|&it| unit_at(it));
        let owed = self.checks.owed.keys().copied();
        // Ranges come first in both.
        let first = left.take(1).chain(owed.take(1));
        first.into_iter().any(|unit| matches!(unit, Unit::Range(_)))
    }

    /// Whether the job runs, and no unit is to be computed once more.
    pub fn has_nothing_to_recheck(&self) -> bool {
        let is_checked = self.checks.open_count() == 0 && self.checks.left_to_referee.is_empty();
        let is_settled = is_checked && self.is_referee_idle();
        self.is_running() && !self.ending.is_under_way && is_settled
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
    pub(super) fn put_out(&mut self, party: Party, worker: WorkerId, reason: OutReason) {
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
            *finders = finders.without(party).unwrap_or_else(|| finders.clone());
        }
        for worker in self.workers.of(party) {
            self.on_left(worker);
        }
    }

    /// Withdraws a range whose content is wrong, with all ranges that follow from it and all that is under way.
    pub(super) fn withdraw(&mut self, head: Head) {
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
        self.drop_shards();
        for &unit in &follows {
            // Computed again, it may be wrong again.
            self.ending.suspects.remove(&Head(priority(unit).1));
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
            // A worker may store bytes that are no record, every time. The referee stores a good record.
            if times > self.settings.failures_max {
                self.units.work_mut(unit).needs_referee = true;
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
        for unit in self.units.all_ranges() {
            if self.units.state(unit) == State::Open && is_blocked(&self.units, unit) {
                self.units.revert(unit);
            }
        }
    }
}
