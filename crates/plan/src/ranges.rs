//! The ranges: the state and content of each, and whether it may be computed.
//!
//! A range is blocked until all its sources are committed. To find out when that is, a blocked
//! range watches one uncommitted source at a time: when that is committed it looks for another,
//! the one of the highest layer, and without one it is ready. So each range looks at its sources a
//! few times in all. The watchers of a range are a list through the slots of the watchers.
//!
//! About 110 bytes a range: 115 MB for the million ranges of 20 head bits.

use std::collections::BTreeMap;

use chomp_table::{Head, RangeBits, RangeSummary, head, sources};

use crate::forecast::JobWork;

use super::messages::PlanError;
use super::settings::Settings;
use super::slots::{Slot, UnitState, index};

/// The end of a list of watchers.
const NOBODY: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct RangeStates {
    range_bits: RangeBits,
    /// The heads of each layer, ascending.
    layers: Vec<Vec<Head>>,
    /// For each layer, its ranges that are not committed.
    missing: Vec<usize>,
    /// `missing` when the plan was made.
    missing_at_start: Vec<usize>,
    /// The lowest layer of which ranges are missing; the number of layers if none are.
    open: usize,
    slots: Vec<Slot>,
    /// By head: one bit for each range, whether it is committed. Sources are looked up here.
    committed: Vec<u64>,
    /// By head: the first of the blocked ranges that watch it.
    watchers: Vec<u32>,
    /// By head of a blocked range: the next one that watches the same.
    next_watcher: Vec<u32>,
    /// How often the record of each range was lost.
    lost_records: BTreeMap<Head, u32>,
    /// The committed ranges; those of them that were before the plan was made; and the losing positions of all of them.
    pub(super) done: u64,
    pub(super) resumed: u64,
    pub(super) losing: u64,
    /// The work of each range, of all ranges, and of those that are committed.
    pub(super) work: JobWork,
    pub(super) work_total: u64,
    pub(super) work_done: u64,
}

impl RangeStates {
    pub(super) fn new(
        settings: &Settings,
        done: &[RangeSummary],
    ) -> Result<RangeStates, PlanError> {
        settings.check()?;
        let range_bits = settings.range_bits;
        let layers = head::layers(settings.size, range_bits);
        let count: usize = layers.iter().map(Vec::len).sum();
        let missing: Vec<usize> = layers.iter().map(Vec::len).collect();
        let work = JobWork::new(settings.size, range_bits);
        let of_layers = work.ranges.iter().zip(&missing);
        let work_total = of_layers.map(|(each, &count)| each * count as u64).sum();
        let mut ranges = RangeStates {
            range_bits,
            layers,
            missing_at_start: Vec::new(),
            missing,
            open: 0,
            slots: vec![Slot::new(UnitState::Blocked); count],
            committed: vec![0; count.div_ceil(64)],
            watchers: vec![NOBODY; count],
            next_watcher: vec![NOBODY; count],
            lost_records: BTreeMap::new(),
            done: 0,
            resumed: 0,
            losing: 0,
            work,
            work_total,
            work_done: 0,
        };
        for summary in done {
            let head = summary.head;
            if ranges.contains(head) && !ranges.is_committed(head) {
                ranges.count_committed(head, summary.count);
            }
        }
        ranges.resumed = ranges.done;
        ranges.missing_at_start.clone_from(&ranges.missing);
        for head in (0..count as u64).map(Head) {
            ranges.unblock(head);
        }
        Ok(ranges)
    }

    /// The ranges of a job of which nothing is left to do and nothing needs to be known.
    pub(super) fn all_done(settings: &Settings, losing: u64) -> Result<RangeStates, PlanError> {
        let mut ranges = RangeStates::new(settings, &[])?;
        for head in (0..ranges.count()).map(Head) {
            ranges.count_committed(head, 0);
        }
        ranges.watchers.fill(NOBODY);
        ranges.resumed = ranges.done;
        ranges.losing = losing;
        Ok(ranges)
    }

    /// Notes that a range with so many losing positions is durable. Returns the ranges that became ready by this.
    pub(super) fn commit(&mut self, head: Head, losing: u64) -> Vec<Head> {
        self.count_committed(head, losing);
        let mut ready = Vec::new();
        let mut next = std::mem::replace(&mut self.watchers[index(head)], NOBODY);
        while next != NOBODY {
            let watcher = Head(next.into());
            next = self.next_watcher[index(watcher)];
            if self.unblock(watcher) {
                ready.push(watcher);
            }
        }
        ready
    }

    fn count_committed(&mut self, head: Head, losing: u64) {
        self.slot_mut(head).state = UnitState::Committed;
        self.committed[index(head) / 64] |= 1 << (head.0 % 64);
        let layer = head.layer() as usize;
        self.missing[layer] -= 1;
        self.work_done += self.work.ranges[layer];
        self.done += 1;
        self.losing = self.losing.saturating_add(losing);
        while self.missing.get(self.open) == Some(&0) {
            self.open += 1;
        }
    }

    /// Notes that a committed range is not done any more, because its record is lost or its content is withdrawn.
    /// The caller has to [block](Self::block) the ranges that draw on it next.
    pub(super) fn uncommit(&mut self, head: Head, losing: u64) {
        self.committed[index(head) / 64] &= !(1 << (head.0 % 64));
        let layer = head.layer() as usize;
        self.missing[layer] += 1;
        self.work_done -= self.work.ranges[layer];
        self.done -= 1;
        self.losing = self.losing.saturating_sub(losing);
        self.open = self.open.min(layer);
        self.block(head);
    }

    /// Counts one more lost record of a range, and returns how many it has lost.
    pub(super) fn count_lost_record(&mut self, head: Head) -> u32 {
        let count = self.lost_records.entry(head).or_default();
        *count += 1;
        *count
    }

    /// Finds out anew whether a range that is not committed is ready.
    pub(super) fn block(&mut self, head: Head) {
        self.slot_mut(head).state = UnitState::Blocked;
        self.unblock(head);
    }

    /// Makes a blocked range ready, or has it watch another source. Returns whether it is ready now.
    fn unblock(&mut self, head: Head) -> bool {
        if self.slot(head).state != UnitState::Blocked {
            return false;
        }
        let blocker = self.blocker(head);
        match blocker {
            Some(blocker) => {
                let first = &mut self.watchers[index(blocker)];
                let watcher = u32::try_from(head.0).expect("a head of the table");
                self.next_watcher[index(head)] = std::mem::replace(first, watcher);
            }
            None => self.slot_mut(head).state = UnitState::Ready,
        }
        blocker.is_none()
    }

    /// A source that is not committed, if there is one: the one that is likely to be committed last.
    fn blocker(&self, head: Head) -> Option<Head> {
        // No range is ready before the range of half its head is committed, and that is quickly asked.
        let half = Head(head.0 / 2);
        if !head.is_empty() && !self.is_committed(half) {
            return Some(half);
        }
        let mut highest = None;
        sources::each(head, self.range_bits, &mut |source| {
            if !self.is_committed(source) {
                highest = highest.max(Some((source.layer(), source)));
            }
        });
        highest.map(|(_, source)| source)
    }

    pub(super) fn is_committed(&self, head: Head) -> bool {
        self.committed[index(head) / 64] >> (head.0 % 64) & 1 == 1
    }

    /// Whether all sources of the range are committed.
    pub(super) fn is_ready(&self, head: Head) -> bool {
        self.blocker(head).is_none()
    }

    /// A range and those of higher layers that follow from it, ascending by layer.
    pub(super) fn with_followers(&self, first: Head) -> Vec<Head> {
        let mut follows = vec![false; self.slots.len()];
        follows[index(first)] = true;
        let mut all = vec![first];
        let above = first.layer() as usize + 1;
        for &head in self.layers[above..].iter().flatten() {
            let mut is_one = false;
            sources::each(head, self.range_bits, &mut |source| {
                is_one |= follows[index(source)];
            });
            if is_one {
                follows[index(head)] = true;
                all.push(head);
            }
        }
        all
    }

    pub(super) fn contains(&self, head: Head) -> bool {
        head.0 < self.count()
    }

    pub(super) fn slot(&self, head: Head) -> &Slot {
        &self.slots[index(head)]
    }

    pub(super) fn slot_mut(&mut self, head: Head) -> &mut Slot {
        &mut self.slots[index(head)]
    }

    /// The open layer: all below are complete. The number of layers if all are.
    pub(super) fn open(&self) -> u32 {
        as_u32(self.open)
    }

    /// Whether all ranges are committed.
    pub(super) fn is_complete(&self) -> bool {
        self.open == self.layers.len()
    }

    /// The number of layers.
    pub(super) fn layers(&self) -> u32 {
        as_u32(self.layers.len())
    }

    /// The number of ranges of the layer that were missing at the start, or are missing now if these are more.
    pub(super) fn to_do(&self, layer: u32) -> usize {
        let layer = layer as usize;
        self.missing_at_start[layer].max(self.missing[layer])
    }

    /// For each layer, how many ranges it has, and how many of them are committed.
    pub(super) fn of_layers(&self) -> impl Iterator<Item = (u64, u64)> {
        let layers = self.layers.iter().zip(&self.missing);
        layers.map(|(heads, &missing)| (heads.len() as u64, (heads.len() - missing) as u64))
    }

    pub(super) fn count(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Recounts everything that is kept more than once.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn check(&self, losing: impl Fn(Head) -> u64) {
        let heads = || (0..self.count()).map(Head);
        let mut watching = Vec::new();
        for watched in heads() {
            let mut next = self.watchers[index(watched)];
            while next != NOBODY {
                let draws_on = sources::draws_on(Head(next.into()), watched, self.range_bits);
                assert!(draws_on && !self.is_committed(watched));
                watching.push(Head(next.into()));
                next = self.next_watcher[next as usize];
            }
        }
        watching.sort_unstable();
        let blocked = heads().filter(|&head| self.slot(head).state == UnitState::Blocked);
        assert!(watching.into_iter().eq(blocked), "each watches one");
        for head in heads() {
            let ready = self.is_ready(head);
            let state = self.slot(head).state;
            assert_eq!(self.is_committed(head), state == UnitState::Committed);
            // A committed range may be there without its sources: they may have been lost since.
            assert!(ready || state != UnitState::Ready, "{head} is not ready");
            assert!(
                !ready || state != UnitState::Blocked,
                "{head} could be computed"
            );
        }
        let committed = |head: &&Head| self.is_committed(**head);
        for (heads, &missing) in self.layers.iter().zip(&self.missing) {
            assert_eq!(
                heads.iter().filter(committed).count() + missing,
                heads.len()
            );
        }
        let lowest = self.missing.iter().position(|&missing| missing > 0);
        assert_eq!(self.open, lowest.unwrap_or(self.layers.len()));
        let work_of = |head: &Head| self.work.ranges[head.layer() as usize];
        let work = self.layers.iter().flatten().filter(committed).map(work_of);
        assert_eq!(self.work_done, work.sum::<u64>());
        let done: Vec<&Head> = self.layers.iter().flatten().filter(committed).collect();
        assert_eq!(self.done, done.len() as u64);
        let of_each = done.iter().map(|&&head| losing(head));
        assert_eq!(self.losing, of_each.sum::<u64>());
    }
}

fn as_u32(layers: usize) -> u32 {
    u32::try_from(layers).expect("at most 211 layers, with HEAD_BITS_MAX head bits")
}

#[cfg(test)]
mod tests {
    use chomp_table::sources::sources;

    use super::*;

    /// Each range that draws on one of these, or on one that follows from them.
    #[test]
    fn followers_are_those_of_the_sources() {
        let range_bits = chomp_table::RangeBits::new(12).unwrap();
        let settings = Settings::new(18, range_bits);
        let ranges = RangeStates::new(&settings, &[]).unwrap();
        let by_layer = || ranges.layers.iter().flatten();
        for first in (0..64).map(Head) {
            let mut follows = vec![first];
            for &head in by_layer() {
                let sources = sources(head, range_bits);
                if sources.iter().any(|source| follows.contains(source)) {
                    follows.push(head);
                }
            }
            assert_eq!(ranges.with_followers(first), follows, "{first}");
        }
    }
}
