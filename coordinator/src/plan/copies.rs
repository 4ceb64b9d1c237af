//! Who has computed which range, or is at it: the copies of each range, and which are wanted.
//!
//! A range is done when [`Settings::replicas`](super::Settings::replicas) workers have computed
//! the same. Until then each of them has a **vote**: the content that it found. Only digests are
//! kept of a vote; the bytes that are written are those of the vote that completes the number.

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::Head;

use super::messages::{LeaseId, WorkerId};
use super::ranges::{Content, Ranges, State};

/// Where a range stands in the order of work: low layers first.
pub(super) type Place = (u32, Head);

pub(super) fn place(head: Head) -> Place {
    (head.layer(), head)
}

/// What a worker says of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vote {
    pub(super) worker: WorkerId,
    pub(super) content: Content,
}

/// What workers did about a range that is not done.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// The leases on it.
    pub(super) leases: BTreeMap<LeaseId, WorkerId>,
    /// One for each worker, or more from one that contradicts itself.
    pub(super) votes: Vec<Vote>,
    /// The workers that could not compute it.
    pub(super) failed: BTreeSet<WorkerId>,
}

impl Copies {
    fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.votes.is_empty() && self.failed.is_empty()
    }

    fn count(&self) -> usize {
        self.leases.len() + self.votes.len()
    }
}

/// The copies of all ranges, and the ranges of which more are wanted.
#[derive(Debug)]
pub(super) struct Board {
    replicas: usize,
    copies: BTreeMap<Head, Copies>,
    /// The ranges that nobody has done anything about: any worker may have them.
    fresh: BTreeSet<Place>,
    /// The others of which a copy is wanted: not every worker may have them.
    shared: BTreeSet<Place>,
}

impl Board {
    pub(super) fn new(replicas: u32) -> Board {
        Board {
            replicas: replicas.max(1) as usize,
            copies: BTreeMap::new(),
            fresh: BTreeSet::new(),
            shared: BTreeSet::new(),
        }
    }

    /// Changes what was done about a range, and files it anew. `ranges` and `held_back` tell
    /// whether it may be offered.
    pub(super) fn update(
        &mut self,
        head: Head,
        ranges: &Ranges,
        held_back: bool,
        change: impl FnOnce(&mut Copies),
    ) {
        let copies = self.copies.entry(head).or_default();
        change(copies);
        let (is_fresh, count) = (copies.is_empty(), copies.count());
        if is_fresh {
            self.copies.remove(&head);
        }
        let wanted = ranges.state(head) == State::Ready && !held_back && count < self.replicas;
        for (set, member) in [
            (&mut self.fresh, wanted && is_fresh),
            (&mut self.shared, wanted && !is_fresh),
        ] {
            if member {
                set.insert(place(head));
            } else {
                set.remove(&place(head));
            }
        }
    }

    /// Forgets what was done about a range that is done, and gives it.
    pub(super) fn close(&mut self, head: Head) -> Copies {
        self.fresh.remove(&place(head));
        self.shared.remove(&place(head));
        self.copies.remove(&head).unwrap_or_default()
    }

    /// What was done about a range, if anything.
    pub(super) fn of(&self, head: Head) -> Option<&Copies> {
        self.copies.get(&head)
    }

    /// The ranges about which something was done.
    pub(super) fn heads(&self) -> Vec<Head> {
        self.copies.keys().copied().collect()
    }

    /// Whether no copy of any range is wanted.
    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.shared.is_empty()
    }

    /// How many ranges wait for another worker than those that have computed them.
    pub(super) fn shared(&self) -> usize {
        self.shared.len()
    }

    /// The ranges that `worker` may have, of the lowest layer that has any, ascending.
    /// `others` is the number of workers that are there besides it.
    pub(super) fn wanted_by(
        &self,
        worker: WorkerId,
        others: usize,
    ) -> impl Iterator<Item = Head> + '_ {
        let may_have = move |place: &&Place| self.may_have(worker, others, place.1);
        let shared = self.shared.iter().find(may_have);
        let fresh = self.fresh.first();
        // Of one layer what was begun goes first, so that it is done and forgotten.
        let of_shared = shared.filter(|shared| fresh.is_none_or(|fresh| shared.0 <= fresh.0));
        let set = if of_shared.is_some() {
            &self.shared
        } else {
            &self.fresh
        };
        of_shared.or(fresh).into_iter().flat_map(move |&first| {
            set.range(first..)
                .take_while(move |place| place.0 == first.0)
                .filter(may_have)
                .map(|place| place.1)
        })
    }

    /// Whether a copy by `worker` would be of use. It may try again what it failed at when nobody
    /// else is there who has not.
    pub(super) fn may_have(&self, worker: WorkerId, others: usize, head: Head) -> bool {
        self.copies.get(&head).is_none_or(|copies| {
            let failed_here = copies.failed.contains(&worker);
            let untried = others + usize::from(failed_here) > copies.failed.len();
            copies.leases.values().all(|&holder| holder != worker)
                && copies.votes.iter().all(|vote| vote.worker != worker)
                && !(failed_here && untried)
        })
    }

    #[cfg(test)]
    pub(super) fn check(&self, ranges: &Ranges, held_back: impl Fn(Head) -> bool) {
        for head in (0..ranges.count()).map(Head) {
            let copies = self.copies.get(&head);
            assert!(copies.is_none_or(|copies| !copies.is_empty()));
            let is_ready = ranges.state(head) == State::Ready;
            assert!(copies.is_none() || is_ready, "{head} is not open");
            let count = copies.map_or(0, Copies::count);
            let wanted = is_ready && !held_back(head) && count < self.replicas;
            let place = place(head);
            assert_eq!(self.fresh.contains(&place), wanted && copies.is_none());
            assert_eq!(self.shared.contains(&place), wanted && copies.is_some());
        }
        assert!(self.copies.keys().all(|&head| ranges.contains(head)));
    }
}
