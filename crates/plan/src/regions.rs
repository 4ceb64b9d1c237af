//! Regions: which worker goes on with which ranges.
//!
//! Ranges whose heads begin alike depend on the same sources, and on each other. So the heads of a table are divided
//! into regions by how they begin, and a region has an assignee: the first worker that leased a range of it. Ranges of
//! a region that become ready are for its assignee, which has most of the sources already. Workers claim regions as
//! they have time, so all of them have something to do in every layer.
//!
//! Regions make no worker idle: a worker that has fewer tasks than threads gets units of another worker's region, if
//! nothing is ready in its own regions or in those without an assignee. A worker that leaves or falls silent gives up
//! its regions.

use std::collections::{BTreeMap, BTreeSet};

use super::ids::WorkerId;
use super::units::Priority;

/// The leading bits of a head that say which region it is in. With more, a worker reads more sources for each range;
/// with fewer, there are not enough regions for many workers.
const REGION_BITS: u32 = 9;

/// The ready ranges that have no lease and no result: any worker may have them.
#[derive(Debug)]
pub(super) struct Fresh {
    /// The bits of a head that do not say which region it is in.
    shift: u32,
    pub(super) all: BTreeSet<Priority>,
    /// The ranges of `all` by the assignees of their regions.
    piles: BTreeMap<Option<WorkerId>, BTreeSet<Priority>>,
    assignees: BTreeMap<u64, WorkerId>,
}

impl Fresh {
    pub(super) fn new(head_bits: u32) -> Fresh {
        Fresh {
            shift: head_bits.saturating_sub(REGION_BITS),
            all: BTreeSet::new(),
            piles: BTreeMap::new(),
            assignees: BTreeMap::new(),
        }
    }

    pub(super) fn assignee(&self, (_, number): Priority) -> Option<WorkerId> {
        self.assignees.get(&(number >> self.shift)).copied()
    }

    pub(super) fn insert(&mut self, priority: Priority) {
        self.all.insert(priority);
        let assignee = self.assignee(priority);
        self.piles.entry(assignee).or_default().insert(priority);
    }

    pub(super) fn remove(&mut self, priority: Priority) -> bool {
        let assignee = self.assignee(priority);
        if let Some(pile) = self.piles.get_mut(&assignee) {
            pile.remove(&priority);
            if pile.is_empty() {
                self.piles.remove(&assignee);
            }
        }
        self.all.remove(&priority)
    }

    /// Gives the region of a unit to `worker`, if the unit is a fresh range and the region has no assignee.
    pub(super) fn claim(&mut self, worker: WorkerId, priority: Priority) {
        let region = priority.1 >> self.shift;
        if self.assignees.contains_key(&region) || !self.all.contains(&priority) {
            return;
        }
        let nobodys = self.piles.get(&None).into_iter().flatten().copied();
        let theirs: Vec<Priority> = nobodys
            .filter(|&(_, number)| number >> self.shift == region)
            .collect();
        for &priority in &theirs {
            self.remove(priority);
        }
        self.assignees.insert(region, worker);
        for priority in theirs {
            self.insert(priority);
        }
    }

    pub(super) fn release(&mut self, worker: WorkerId) {
        self.assignees.retain(|_, assignee| *assignee != worker);
        if let Some(mut pile) = self.piles.remove(&Some(worker)) {
            self.piles.entry(None).or_default().append(&mut pile);
        }
    }

    /// The ranges among which `worker` finds its next one: those of its regions, else those of regions without an
    /// assignee, else, with `idle`, all.
    pub(super) fn pile(&self, worker: WorkerId, idle: bool) -> Option<&BTreeSet<Priority>> {
        let own = self.piles.get(&Some(worker));
        let nobodys = self.piles.get(&None);
        let others = idle.then_some(&self.all);
        own.or(nobodys).or(others)
    }

    /// Whether some range is there for every worker, or, with `idle`, for workers that would idle.
    pub(super) fn is_wanted(&self, idle: bool) -> bool {
        self.piles.contains_key(&None) || idle && !self.all.is_empty()
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn check(&self, is_there: impl Fn(WorkerId) -> bool) {
        assert!(self.assignees.values().all(|&assignee| is_there(assignee)));
        let mut filed = 0;
        for (&assignee, pile) in &self.piles {
            assert!(!pile.is_empty());
            assert!(
                pile.iter()
                    .all(|&priority| self.assignee(priority) == assignee)
            );
            assert!(pile.is_subset(&self.all));
            filed += pile.len();
        }
        assert_eq!(filed, self.all.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: WorkerId = WorkerId::only(1);
    const B: WorkerId = WorkerId::only(2);

    fn first(fresh: &Fresh, worker: WorkerId, idle: bool) -> Option<Priority> {
        fresh.pile(worker, idle)?.first().copied()
    }

    /// Heads of 11 bits, four to a region.
    #[test]
    fn a_region_is_its_owners_until_that_goes() {
        let mut fresh = Fresh::new(11);
        let places = [(5, 4), (6, 3), (6, 7), (6, 9), (7, 5), (7, 8)];
        for priority in places {
            fresh.insert(priority);
        }
        fresh.claim(B, (6, 7));
        fresh.check(|worker| worker == B);
        assert!(fresh.remove((6, 3)));
        fresh.claim(A, (7, 5));
        fresh.check(|worker| worker == B);
        assert_eq!(first(&fresh, A, true), Some((6, 9)), "nobody's first");
        assert_eq!(first(&fresh, B, true), Some((5, 4)));
        fresh.insert((4, 6));
        assert_eq!(first(&fresh, B, false), Some((4, 6)));
        for priority in [(6, 9), (7, 8)] {
            assert!(fresh.is_wanted(false));
            assert!(fresh.remove(priority) && !fresh.remove(priority));
        }
        assert!(fresh.is_wanted(true) && !fresh.is_wanted(false));
        assert_eq!(first(&fresh, A, false), None);
        assert_eq!(first(&fresh, A, true), Some((4, 6)));
        fresh.release(B);
        fresh.check(|_| false);
        assert_eq!(first(&fresh, A, false), Some((4, 6)));
    }
}
