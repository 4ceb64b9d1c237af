//! Regions: which worker goes on with which ranges.
//!
//! Ranges whose heads begin alike draw on the same sources, and on each other. So the heads of a table are
//! divided into regions by how they begin, and a region has an owner: the first worker that took a range of
//! it. What becomes ready in a region goes to its owner, which has most of the sources already. Workers take
//! regions as they have time, so all of them have something to do in every layer.
//!
//! No worker idles for that: one that has fewer tasks than threads takes units of another's region, if nothing is ready
//! in its own regions or in those without an owner. A worker that goes, or falls silent, leaves its regions to the
//! others.

use std::collections::{BTreeMap, BTreeSet};

use super::ids::WorkerId;
use super::units::{Priority, SHARDS};

/// The leading bits of a head that say which region it is in. With more, a worker reads more sources for each range;
/// with fewer, there are not enough regions for many workers.
const REGION_BITS: u32 = 9;

/// The units without attempts: any worker may have them.
#[derive(Debug)]
pub(super) struct Fresh {
    /// The bits of a head that do not say which region it is in.
    shift: u32,
    pub(super) all: BTreeSet<Priority>,
    /// The units of `all` by the owners of their regions.
    piles: BTreeMap<Option<WorkerId>, BTreeSet<Priority>>,
    owners: BTreeMap<u64, WorkerId>,
}

impl Fresh {
    /// For heads of at most `head_bits` bits.
    pub(super) fn new(head_bits: u32) -> Fresh {
        Fresh {
            shift: head_bits.saturating_sub(REGION_BITS),
            all: BTreeSet::new(),
            piles: BTreeMap::new(),
            owners: BTreeMap::new(),
        }
    }

    /// The owner of the region that a unit is in. Shards are in none.
    pub(super) fn owner(&self, (layer, number): Priority) -> Option<WorkerId> {
        let region = (layer != SHARDS).then_some(number >> self.shift)?;
        self.owners.get(&region).copied()
    }

    pub(super) fn insert(&mut self, priority: Priority) {
        self.all.insert(priority);
        let owner = self.owner(priority);
        self.piles.entry(owner).or_default().insert(priority);
    }

    /// Takes a unit out. Returns whether it was there.
    pub(super) fn remove(&mut self, priority: Priority) -> bool {
        let owner = self.owner(priority);
        if let Some(pile) = self.piles.get_mut(&owner) {
            pile.remove(&priority);
            if pile.is_empty() {
                self.piles.remove(&owner);
            }
        }
        self.all.remove(&priority)
    }

    /// Gives the region of a unit to `worker`, if it has no owner.
    pub(super) fn claim(&mut self, worker: WorkerId, priority: Priority) {
        let (layer, number) = priority;
        if layer == SHARDS || self.owner(priority).is_some() {
            return;
        }
        let region = number >> self.shift;
        let nobodys = self.piles.get(&None).into_iter().flatten().copied();
        let is_in = |&(layer, number): &Priority| layer != SHARDS && number >> self.shift == region;
        let theirs: Vec<Priority> = nobodys.filter(is_in).collect();
        for &priority in &theirs {
            self.remove(priority);
        }
        self.owners.insert(region, worker);
        for priority in theirs {
            self.insert(priority);
        }
    }

    /// Takes all its regions from a worker.
    pub(super) fn release(&mut self, worker: WorkerId) {
        self.owners.retain(|_, owner| *owner != worker);
        if let Some(mut pile) = self.piles.remove(&Some(worker)) {
            self.piles.entry(None).or_default().append(&mut pile);
        }
    }

    /// The units among which `worker` finds its next one, of layers below `below`: those of its regions, or of regions
    /// without an owner, or if it would `idle`, all.
    pub(super) fn pile(
        &self,
        worker: WorkerId,
        idle: bool,
        below: u32,
    ) -> Option<&BTreeSet<Priority>> {
        let own = self.piles.get(&Some(worker));
        let nobodys = self.piles.get(&None);
        let others = idle.then_some(&self.all);
        let mut piles = [own, nobodys, others].into_iter().flatten();
        piles.find(|pile| pile.first().is_some_and(|priority| priority.0 < below))
    }

    /// Whether there is something below this layer, for workers that would `idle` or for all.
    pub(super) fn is_wanted(&self, idle: bool, below: u32) -> bool {
        let pile = if idle {
            Some(&self.all)
        } else {
            self.piles.get(&None)
        };
        let first = pile.and_then(BTreeSet::first);
        first.is_some_and(|priority| priority.0 < below)
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn check(&self, is_there: impl Fn(WorkerId) -> bool) {
        assert!(self.owners.values().all(|&owner| is_there(owner)));
        let mut filed = 0;
        for (&owner, pile) in &self.piles {
            assert!(!pile.is_empty());
            assert!(pile.iter().all(|&priority| self.owner(priority) == owner));
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
        fresh.pile(worker, idle, SHARDS)?.first().copied()
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
            assert!(fresh.is_wanted(false, SHARDS));
            assert!(fresh.remove(priority) && !fresh.remove(priority));
        }
        assert!(fresh.is_wanted(true, SHARDS) && !fresh.is_wanted(false, SHARDS));
        assert_eq!(first(&fresh, A, false), None);
        assert_eq!(first(&fresh, A, true), Some((4, 6)));
        fresh.release(B);
        fresh.check(|_| false);
        assert_eq!(first(&fresh, A, false), Some((4, 6)));
    }

    #[test]
    fn shards_are_nobodys() {
        let mut fresh = Fresh::new(11);
        fresh.insert((SHARDS, 0));
        fresh.claim(A, (SHARDS, 0));
        fresh.claim(A, (1, 1));
        assert_eq!(fresh.owner((SHARDS, 0)), None);
        assert!(fresh.pile(B, false, SHARDS).is_none());
        assert!(!fresh.is_wanted(true, SHARDS) && fresh.is_wanted(true, SHARDS + 1));
        assert!(fresh.pile(B, false, SHARDS + 1).is_some());
    }
}
