//! The attempts at each unit: which workers compute it, and whether more of them are wanted.
//!
//! Most units that are wanted are *fresh*: any worker may have them. The others are grouped by those that
//! did something about them. So a worker that may not have one of a thousand units skips the others of its group.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::ids::{LeaseId, ParticipantId, Unit, WorkerId};
use super::jury::Doer;
use super::regions::Fresh;
use super::units::{priority, unit_at};

/// The attempts of workers at a unit that is not settled.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    /// The leases on it.
    pub(super) leases: Vec<(LeaseId, WorkerId)>,
    /// The participants that could not compute it.
    pub(super) failed: BTreeSet<ParticipantId>,
    /// Its group among those that are shared, if it is shared.
    filed: Option<Doers>,
}

impl Attempts {
    fn doers(&self, wish: Wish) -> Doers {
        let mut busy = wish.voters;
        let holders = self.leases.iter().map(|&(_, holder)| holder);
        busy.extend(holders.map(|holder| Doer::of(holder, wish.is_by_worker)));
        Doers {
            busy: busy.into_iter().collect(),
            failed: self.failed.iter().copied().collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.failed.is_empty() && self.filed.is_none()
    }
}

/// The votes that a unit has and needs, if it may be computed.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// How many should compute it.
    pub(super) need: usize,
    /// Those that have.
    pub(super) voters: BTreeSet<Doer>,
    /// Whether workers count, and not participants.
    pub(super) is_by_worker: bool,
}

/// Those that did something about a unit, ascending.
///
/// Of a unit that needs two votes: at first nobody is in it, and it is fresh. Worker a takes it: `busy` is [a], and
/// others may have it. Participant b fails at it: `failed` is [b], and b may not have it again while some participant
/// has neither tried nor voted. a votes: `busy` stays [a], as a's vote counts like its lease. A second one takes it: it
/// has as many as it needs, and is not offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Doers {
    /// Those that have it or have voted on it.
    busy: Vec<Doer>,
    failed: Vec<ParticipantId>,
}

impl Doers {
    /// Whether a result of `worker` would be of use. Its participant may try again what it failed at when every other
    /// participant has done something about it. `others` is the number of participants that are there besides it.
    fn admit(&self, worker: WorkerId, others: usize) -> bool {
        let is_busy = self.busy.iter().any(|doer| doer.includes(worker));
        !is_busy && self.may_try(worker.participant, others)
    }

    /// Whether participant `own` has not failed at the unit, or no other participant is left to try.
    fn may_try(&self, own: ParticipantId, others: usize) -> bool {
        let busy = self.busy.iter().map(|doer| doer.participant());
        let doers: BTreeSet<_> = busy.chain(self.failed.iter().copied()).collect();
        let doers = doers.into_iter().filter(|&doer| doer != own).count();
        !self.failed.contains(&own) || others <= doers
    }

    /// Whether `self` may exclude a worker that `others`, who did something about the same unit later, do not: one that
    /// is not busy any more (it gave its lease back), one that counts as failed no more, or one that failed and may try
    /// again because somebody else has done something since.
    fn exclude_more_than(&self, others: &Doers) -> bool {
        let is_missing = |doer: &Doer| !others.busy.contains(doer);
        let has_not_failed = |one: &ParticipantId| !others.failed.contains(one);
        self.busy.iter().any(is_missing)
            || self.failed.iter().any(has_not_failed)
            || !self.failed.is_empty() && self != others
    }
}

/// Units, grouped by the participants that did something about them.
type Groups = BTreeMap<Doers, BTreeSet<u64>>;

/// The attempts of all units, and the units of which more are wanted.
#[derive(Debug)]
pub(super) struct ReadyQueue {
    attempts: BTreeMap<Unit, Attempts>,
    pub(super) fresh: Fresh,
    /// The others that are wanted, by layer: not every worker may have them.
    shared: BTreeMap<u32, Groups>,
}

impl ReadyQueue {
    /// For ranges whose numbers have at most `head_bits` bits.
    pub(super) fn new(head_bits: u32) -> ReadyQueue {
        ReadyQueue {
            attempts: BTreeMap::new(),
            fresh: Fresh::new(head_bits),
            shared: BTreeMap::new(),
        }
    }

    /// Changes the attempts of a unit, and files it anew. It has a wish if it may be offered. Returns whether some
    /// worker may have the unit now that could not before.
    pub(super) fn update(
        &mut self,
        unit: Unit,
        wish: Option<Wish>,
        change: impl FnOnce(&mut Attempts),
    ) -> bool {
        let before = self.unfile(unit);
        let attempts = self.attempts.entry(unit).or_default();
        change(attempts);
        let doers = wish.map(|wish| (wish.need, attempts.doers(wish)));
        let doers = doers.filter(|(need, doers)| doers.busy.len() < *need);
        let (layer, number) = priority(unit);
        let doers = doers.map(|(_, doers)| doers);
        let is_new = match (&before, &doers) {
            (_, None) => false,
            (None, _) => true,
            // One that nobody has begun may be of a region, for its owner alone.
            (Some(before), Some(doers)) => {
                let was_fresh = *before == Doers::default();
                was_fresh && before != doers || before.exclude_more_than(doers)
            }
        };
        match doers {
            Some(doers) if doers == Doers::default() => self.fresh.insert((layer, number)),
            Some(doers) => {
                let groups = self.shared.entry(layer).or_default();
                groups.entry(doers.clone()).or_default().insert(number);
                attempts.filed = Some(doers);
            }
            None => {}
        }
        if attempts.is_empty() {
            self.attempts.remove(&unit);
        }
        is_new
    }

    /// Takes a unit out of those that are wanted. If it was one, returns those that could not have it.
    fn unfile(&mut self, unit: Unit) -> Option<Doers> {
        let priority = priority(unit);
        if self.fresh.remove(priority) {
            return Some(Doers::default());
        }
        let doers = self.attempts.get_mut(&unit)?.filed.take()?;
        let groups = self.shared.get_mut(&priority.0)?;
        let group = groups.get_mut(&doers)?;
        group.remove(&priority.1);
        if group.is_empty() {
            groups.remove(&doers);
        }
        if groups.is_empty() {
            self.shared.remove(&priority.0);
        }
        Some(doers)
    }

    /// Forgets the attempts of a unit that is not to be computed any more, and returns them.
    pub(super) fn close(&mut self, unit: Unit) -> Attempts {
        self.unfile(unit);
        self.attempts.remove(&unit).unwrap_or_default()
    }

    /// The attempts of a unit, if there are any.
    pub(super) fn of(&self, unit: Unit) -> Option<&Attempts> {
        self.attempts.get(&unit)
    }

    /// The units about which something was done.
    pub(super) fn begun(&self) -> impl Iterator<Item = Unit> + '_ {
        self.attempts.keys().copied()
    }

    /// All units that are begun or wanted.
    pub(super) fn ready(&self) -> impl Iterator<Item = Unit> + '_ {
        let fresh = self.fresh.all.iter().copied().map(unit_at);
        self.begun().chain(fresh)
    }

    /// Whether some unit below this layer is wanted from workers that would `idle`, or from all.
    pub(super) fn is_wanted(&self, idle: bool, below: u32) -> bool {
        self.fresh.is_wanted(idle, below)
            || self
                .shared
                .keys()
                .next()
                .is_some_and(|&layer| layer < below)
    }

    /// Whether some unit waits for another participant than those that have done something about it.
    pub(super) fn is_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// The first units that `worker` may have, of the lowest layer that has any: `most` of that layer at most,
    /// ascending. Fresh ones are among those that others have begun, so that nobody sees which are which. Of the fresh
    /// ones it has its [pile](Fresh::pile). `others` is the number of participants that are there besides its own.
    pub(super) fn wanted_by(
        &self,
        worker: WorkerId,
        others: usize,
        idle: bool,
        below: u32,
        most: impl Fn(u32) -> usize,
    ) -> Option<Vec<Unit>> {
        let pile = self.fresh.pile(worker, idle, below);
        let fresh = pile.and_then(|pile| Some(pile.first()?.0));
        let end = fresh.map_or(Bound::Excluded(below), Bound::Included);
        let shared = self.shared.range((Bound::Unbounded, end));
        let mut shared = shared
            .filter_map(|(&layer, groups)| Some((layer, first_group(groups, worker, others)?)));
        let shared = shared.next();
        let layer = shared.map(|(layer, _)| layer).or(fresh)?;
        // A failed unit goes first, so that it is done and forgotten.
        let has_failed = shared.is_some_and(|(_, (doers, _))| !doers.failed.is_empty());
        let fresh = pile.filter(|_| fresh == Some(layer) && !has_failed);
        let fresh = fresh.map(|pile| pile.range((layer, 0)..=(layer, u64::MAX)));
        let fresh = fresh.into_iter().flatten().map(|&(_, number)| number);
        let shared = shared.into_iter().flat_map(|(_, (_, group))| group);
        let most = most(layer);
        let mut numbers: Vec<u64> = fresh.take(most).collect();
        numbers.extend(shared.take(most));
        numbers.sort_unstable();
        numbers.truncate(most);
        let units = numbers.into_iter().map(|number| unit_at((layer, number)));
        Some(units.collect())
    }

    /// Whether this lease is on the unit, and not ended for it.
    pub(super) fn is_at(&self, lease: LeaseId, unit: Unit) -> bool {
        let attempts = self.attempts.get(&unit);
        attempts.is_some_and(|attempts| attempts.leases.iter().any(|&(id, _)| id == lease))
    }

    /// Whether a participant failed at a unit, and no lease on it stands.
    pub(super) fn is_left_over(&self, unit: Unit) -> bool {
        let attempts = self.attempts.get(&unit);
        attempts.is_some_and(|attempts| attempts.leases.is_empty() && !attempts.failed.is_empty())
    }

    /// Whether `worker` may compute a unit beside the holders of the leases on it, if the jury has use for its vote. If
    /// other participants are there, it has to be of another one than the holders, as a participant that merely holds
    /// its tasks may be many workers.
    pub(super) fn may_speculate(
        &self,
        worker: WorkerId,
        others: usize,
        unit: Unit,
        wish: Wish,
    ) -> bool {
        let own = worker.participant;
        let is_of_use = !wish.voters.iter().any(|voter| voter.includes(worker));
        let may = self.attempts.get(&unit).is_none_or(|attempts| {
            let mut holders = attempts.leases.iter().map(|&(_, holder)| holder);
            let has_it =
                holders.any(|holder| holder == worker || others > 0 && holder.participant == own);
            !has_it && attempts.doers(wish).may_try(own, others)
        });
        is_of_use && may
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn check(
        &self,
        all: impl Iterator<Item = Unit>,
        wish: impl Fn(Unit) -> Option<Wish>,
    ) {
        let mut shared = 0;
        let mut fresh = BTreeSet::new();
        let mut begun = 0;
        for unit in all {
            let attempts = self.attempts.get(&unit);
            assert!(attempts.is_none_or(|attempts| !attempts.is_empty()));
            begun += usize::from(attempts.is_some());
            let none = Attempts::default();
            let doers = wish(unit).map(|wish| (wish.need, attempts.unwrap_or(&none).doers(wish)));
            let wanted = doers.filter(|(need, doers)| doers.busy.len() < *need);
            let priority = priority(unit);
            let filed = attempts.and_then(|attempts| attempts.filed.clone());
            match wanted {
                Some((_, doers)) if doers == Doers::default() => {
                    assert_eq!(filed, None);
                    fresh.insert(priority);
                }
                Some((_, doers)) => {
                    assert_eq!(filed.as_ref(), Some(&doers), "{unit}");
                    assert!(self.shared[&priority.0][&doers].contains(&priority.1));
                    shared += 1;
                }
                None => assert_eq!(filed, None, "{unit}"),
            }
        }
        let groups = || self.shared.values().flatten().map(|(_, group)| group);
        assert!(groups().all(|group| !group.is_empty()));
        assert_eq!(groups().map(BTreeSet::len).sum::<usize>(), shared);
        assert_eq!(self.fresh.all, fresh);
        assert_eq!(self.attempts.len(), begun);
    }
}

/// A group that `worker` may have: the first after its own, so that participants look at different ones.
fn first_group(
    groups: &Groups,
    worker: WorkerId,
    others: usize,
) -> Option<(&Doers, &BTreeSet<u64>)> {
    let start = Doers {
        busy: vec![Doer::Participant(worker.participant)],
        failed: Vec::new(),
    };
    let (before, after) = (groups.range(..&start), groups.range(&start..));
    let mut around = after.chain(before);
    around.find(|(doers, _)| doers.admit(worker, others))
}
