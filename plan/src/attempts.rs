//! The attempts of each unit: which workers compute it or have computed it, and whether more of them are wanted.
//!
//! A unit is done when [`Settings::replicas`](super::Settings::replicas) participants have computed
//! the same. Until then each of them has a **vote**: the content that it found. Only digests are
//! kept of a vote; the result of the vote that completes the number is committed.
//!
//! Most units that are wanted are *fresh*: any worker may have them. The others are grouped by the participants that
//! did something about them. So a worker that may not have one of a thousand units skips the others of its group.

use std::collections::{BTreeMap, BTreeSet, btree_set};
use std::ops::Bound;

use super::ids::{LeaseId, ParticipantId, Unit, WorkerId};
use super::regions::Fresh;
use super::slots::Content;
use super::units::{Priority, SHARDS, priority};

/// The content that a worker found in a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vote {
    pub(super) worker: WorkerId,
    pub(super) content: Content,
}

/// The attempts of workers at a unit that is not done.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    /// The leases on it.
    pub(super) leases: Vec<(LeaseId, WorkerId)>,
    /// One for each participant, or more from one that contradicts itself.
    pub(super) votes: Vec<Vote>,
    /// The participants that could not compute it.
    pub(super) failed: BTreeSet<ParticipantId>,
}

impl Attempts {
    fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.votes.is_empty() && self.failed.is_empty()
    }

    fn doers(&self) -> Doers {
        let holders = self.leases.iter().map(|&(_, worker)| worker);
        let voters = self.votes.iter().map(|vote| vote.worker);
        let busy: BTreeSet<ParticipantId> = holders
            .chain(voters)
            .map(|worker| worker.participant)
            .collect();
        Doers {
            busy: busy.into_iter().collect(),
            failed: self.failed.iter().copied().collect(),
        }
    }
}

/// The participants that did something about a unit, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Doers {
    busy: Vec<ParticipantId>,
    failed: Vec<ParticipantId>,
}

impl Doers {
    /// Whether a result of participant `own` would be of use. It may try again what it failed at when every other
    /// participant has done something about it. `others` is the number of participants that are there besides it.
    fn admit(&self, own: ParticipantId, others: usize) -> bool {
        !self.busy.contains(&own) && self.may_try(own, others)
    }

    /// Whether participant `own` has not failed at the unit, or no other participant is left to try.
    fn may_try(&self, own: ParticipantId, others: usize) -> bool {
        let idle = self
            .failed
            .iter()
            .filter(|failed| !self.busy.contains(failed));
        let busy = self.busy.iter().filter(|&&busy| busy != own);
        let doers = busy.count() + idle.filter(|&&failed| failed != own).count();
        !self.failed.contains(&own) || others <= doers
    }

    /// Whether a worker excluded by `self` could be allowed by `others`. A participant that failed may try again when
    /// others have done something.
    fn exclude_more_than(&self, others: &Doers) -> bool {
        let missing = |these: &[ParticipantId], those: &[ParticipantId]| {
            these.iter().any(|one| !those.contains(one))
        };
        missing(&self.busy, &others.busy)
            || missing(&self.failed, &others.failed)
            || !self.failed.is_empty() && self != others
    }
}

/// Units, grouped by the participants that did something about them.
type Groups = BTreeMap<Doers, BTreeSet<u64>>;

/// The attempts of all units, and the units of which more are wanted.
#[derive(Debug)]
pub(super) struct ReadyQueue {
    replicas: usize,
    attempts: BTreeMap<Unit, Attempts>,
    pub(super) fresh: Fresh,
    /// The others that are wanted, by layer: not every worker may have them.
    shared: BTreeMap<u32, Groups>,
}

impl ReadyQueue {
    /// For ranges whose numbers have at most `head_bits` bits.
    pub(super) fn new(replicas: u32, head_bits: u32) -> ReadyQueue {
        ReadyQueue {
            replicas: replicas.max(1) as usize,
            attempts: BTreeMap::new(),
            fresh: Fresh::new(head_bits),
            shared: BTreeMap::new(),
        }
    }

    /// Changes the attempts of a unit, and files it anew. `open` tells whether it may be offered. Returns whether some
    /// worker may have the unit now that could not before.
    pub(super) fn update(
        &mut self,
        unit: Unit,
        open: bool,
        change: impl FnOnce(&mut Attempts),
    ) -> bool {
        let before = self.unfile(unit);
        let attempts = self.attempts.entry(unit).or_default();
        change(attempts);
        let doers = attempts.doers();
        let wanted = open && doers.busy.len() < self.replicas;
        let (layer, number) = priority(unit);
        let is_fresh = attempts.is_empty();
        if is_fresh {
            self.attempts.remove(&unit);
        }
        let is_new = match &before {
            None => true,
            Some(before) => before.exclude_more_than(&doers),
        };
        if wanted && is_fresh {
            self.fresh.insert((layer, number));
        } else if wanted {
            let groups = self.shared.entry(layer).or_default();
            groups.entry(doers).or_default().insert(number);
        }
        wanted && is_new
    }

    /// Takes a unit out of those that are wanted. If it was one, returns the participants that could not have it.
    fn unfile(&mut self, unit: Unit) -> Option<Doers> {
        let priority = priority(unit);
        if self.fresh.remove(priority) {
            return Some(Doers::default());
        }
        let doers = self.attempts.get(&unit)?.doers();
        let groups = self.shared.get_mut(&priority.0)?;
        let group = groups.get_mut(&doers)?;
        let was_wanted = group.remove(&priority.1);
        if group.is_empty() {
            groups.remove(&doers);
        }
        if groups.is_empty() {
            self.shared.remove(&priority.0);
        }
        was_wanted.then_some(doers)
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
        let fresh = self.fresh.iter().map(super::units::unit_at);
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

    /// The units that `worker` may have, of the lowest layer that has any, ascending. Of those that nobody
    /// has begun it has its [pile](Fresh::pile). `others` is the number of participants that are there besides its own.
    pub(super) fn wanted_by(
        &self,
        worker: WorkerId,
        others: usize,
        idle: bool,
        below: u32,
    ) -> Option<(u32, Run<'_>)> {
        let pile = self.fresh.pile(worker, idle, below);
        let fresh = pile.and_then(|pile| Some(pile.first()?.0));
        // In each layer the units that are begun go first, so that they are done and forgotten.
        let end = fresh.map_or(Bound::Excluded(below), Bound::Included);
        let shared = self.shared.range((Bound::Unbounded, end));
        let mut shared = shared.filter_map(|(&layer, groups)| {
            Some((layer, first_group(groups, worker.participant, others)?))
        });
        if let Some((layer, group)) = shared.next() {
            return Some((layer, Run::Shared(group.range(0..))));
        }
        let layer = fresh?;
        let run = pile?.range((layer, 0)..=(layer, u64::MAX));
        Some((layer, Run::Fresh(run)))
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

    /// Whether `worker` may compute a unit beside the holders of the leases on it. If other participants are there, it
    /// has to be of another one than the holders, as a participant that merely holds its tasks may be many workers.
    pub(super) fn may_speculate(&self, worker: WorkerId, others: usize, unit: Unit) -> bool {
        let own = worker.participant;
        self.attempts.get(&unit).is_none_or(|attempts| {
            let mut holders = attempts.leases.iter().map(|&(_, holder)| holder);
            let has_it =
                holders.any(|holder| holder == worker || others > 0 && holder.participant == own);
            let has_voted = attempts
                .votes
                .iter()
                .any(|vote| vote.worker.participant == own);
            !has_it && !has_voted && attempts.doers().may_try(own, others)
        })
    }

    #[cfg(test)]
    pub(super) fn check(&self, all: impl Iterator<Item = Unit>, is_open: impl Fn(Unit) -> bool) {
        let mut shared = 0;
        let mut fresh = BTreeSet::new();
        let mut begun = 0;
        for unit in all {
            let attempts = self.attempts.get(&unit);
            assert!(attempts.is_none_or(|attempts| !attempts.is_empty()));
            let count = attempts.map_or(0, |attempts| attempts.doers().busy.len());
            let wanted = is_open(unit) && count < self.replicas;
            let priority = priority(unit);
            fresh.extend((wanted && attempts.is_none()).then_some(priority));
            begun += usize::from(attempts.is_some());
            if let Some(attempts) = attempts.filter(|_| wanted) {
                assert!(self.shared[&priority.0][&attempts.doers()].contains(&priority.1));
                shared += 1;
            }
        }
        let groups = || self.shared.values().flatten().map(|(_, group)| group);
        assert!(groups().all(|group| !group.is_empty()));
        assert_eq!(groups().map(BTreeSet::len).sum::<usize>(), shared);
        assert!(self.fresh.iter().eq(fresh));
        assert_eq!(self.attempts.len(), begun);
    }
}

/// A group that participant `own` may have: the first after its own, so that participants look at different ones.
fn first_group(groups: &Groups, own: ParticipantId, others: usize) -> Option<&BTreeSet<u64>> {
    let start = Doers {
        busy: vec![own],
        failed: Vec::new(),
    };
    let (before, after) = (groups.range(..&start), groups.range(&start..));
    let mut around = after.chain(before);
    let group = around.find(|(doers, _)| doers.admit(own, others));
    group.map(|(_, group)| group)
}

/// Units of one layer, ascending.
#[derive(Clone, Debug)]
pub(super) enum Run<'a> {
    Fresh(btree_set::Range<'a, Priority>),
    Shared(btree_set::Range<'a, u64>),
}

impl Iterator for Run<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match self {
            Run::Fresh(run) => run.next().map(|priority| priority.1),
            Run::Shared(run) => run.next().copied(),
        }
    }
}

/// The layer below which work may be given out, with shards or without.
pub(super) const fn below(with_shards: bool) -> u32 {
    if with_shards { u32::MAX } else { SHARDS }
}
