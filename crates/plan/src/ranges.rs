//! The ranges: which of them are committed, and which may be computed.
//!
//! A range is blocked until all its sources are committed. To find out when that is, a blocked range watches one
//! uncommitted source at a time. When this source is committed, the range watches another uncommitted one, that of the
//! highest layer; if there is none, the range is ready. So each range looks at its sources a few times in all. The
//! watchers of a range are a list through `next_watcher`.
//!
//! About 120 bytes a range, with its [entry](super::units): 125 MB for the million ranges of 20 head bits.

use chomp_table::{Head, RangeBits, head, sources};

use crate::forecast::JobCost;

use super::settings::Settings;
#[cfg(any(test, feature = "testing"))]
use super::units::State;
use super::units::index;

/// The end of a list of watchers.
const NOBODY: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Ranges {
    range_bits: RangeBits,
    /// The heads of each layer, ascending.
    layers: Vec<Vec<Head>>,
    /// For each layer, its ranges that are not committed.
    missing: Vec<usize>,
    missing_at_start: Vec<usize>,
    /// The lowest layer of which ranges are missing; the number of layers if none are.
    current_layer: usize,
    /// By head: one bit for each range, whether it is committed. Sources are looked up here.
    committed: Vec<u64>,
    /// By head: the first of the blocked ranges that watch it.
    watchers: Vec<u32>,
    /// By head of a blocked range: the next one that watches the same.
    next_watcher: Vec<u32>,
    /// The number of ranges that were committed before the plan was made.
    pub(super) resumed: u64,
    pub(super) losing: u64,
    pub(super) cost: JobCost,
}

impl Ranges {
    pub(super) fn new(settings: &Settings) -> Ranges {
        let range_bits = settings.range_bits;
        let layers = head::layers(settings.bits, range_bits);
        let missing: Vec<usize> = layers.iter().map(Vec::len).collect();
        let count: usize = missing.iter().sum();
        Ranges {
            range_bits,
            layers,
            missing_at_start: missing.clone(),
            missing,
            current_layer: 0,
            committed: vec![0; count.div_ceil(64)],
            watchers: vec![NOBODY; count],
            next_watcher: vec![NOBODY; count],
            resumed: 0,
            losing: 0,
            cost: JobCost::new(settings.bits, range_bits),
        }
    }

    /// Counts the ranges that are committed now as committed before the plan was made.
    pub(super) fn begin(&mut self) {
        self.resumed = self.committed_count();
        self.missing_at_start.clone_from(&self.missing);
    }

    /// Marks a range as committed. Returns the ranges that watched it, and now have to [watch](Self::watch) another
    /// source.
    pub(super) fn commit(&mut self, head: Head, losing: u64) -> Vec<Head> {
        self.committed[index(head) / 64] |= 1 << (head.0 % 64);
        self.missing[head.layer() as usize] -= 1;
        self.losing = self.losing.saturating_add(losing);
        while self.missing.get(self.current_layer) == Some(&0) {
            self.current_layer += 1;
        }
        let mut watchers = Vec::new();
        let mut next = std::mem::replace(&mut self.watchers[index(head)], NOBODY);
        while next != NOBODY {
            watchers.push(Head(next.into()));
            next = self.next_watcher[next as usize];
        }
        watchers
    }

    /// Marks a committed range as missing again. After this the caller has to deal with the ranges that depend on it.
    pub(super) fn uncommit(&mut self, head: Head, losing: u64) {
        self.committed[index(head) / 64] &= !(1 << (head.0 % 64));
        let layer = head.layer() as usize;
        self.missing[layer] += 1;
        self.losing = self.losing.saturating_sub(losing);
        self.current_layer = self.current_layer.min(layer);
    }

    /// Lets a range that watches nothing watch an uncommitted source. Returns true if there is none: the range is
    /// ready.
    pub(super) fn watch(&mut self, head: Head) -> bool {
        let blocker = self.blocker(head);
        if let Some(blocker) = blocker {
            let first = &mut self.watchers[index(blocker)];
            let watcher = u32::try_from(head.0).expect("a head of the table");
            self.next_watcher[index(head)] = std::mem::replace(first, watcher);
        }
        blocker.is_none()
    }

    /// A source that is not committed, if there is one: the one that is likely to be committed last.
    fn blocker(&self, head: Head) -> Option<Head> {
        // The range of half the head is a source of each range but the first, and is looked up fast.
        let half = Head(head.0 / 2);
        if !head.is_zero() && !self.is_committed(half) {
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

    pub(super) fn has_all_sources(&self, head: Head) -> bool {
        self.blocker(head).is_none()
    }

    /// A range and those of higher layers that follow from it, ascending by layer.
    pub(super) fn with_followers(&self, first: Head) -> Vec<Head> {
        let mut follows = vec![false; self.watchers.len()];
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

    pub(super) fn current_layer(&self) -> u32 {
        as_u32(self.current_layer)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.current_layer == self.layers.len()
    }

    pub(super) fn layer_count(&self) -> u32 {
        as_u32(self.layers.len())
    }

    /// The number of ranges of the layer that were missing at the start, or are missing now if these are more. It does
    /// not shrink while the layer is computed.
    pub(super) fn missing_peak(&self, layer: u32) -> usize {
        let layer = layer as usize;
        self.missing_at_start[layer].max(self.missing[layer])
    }

    pub(super) fn of_layers(&self) -> impl Iterator<Item = (u64, u64)> {
        let layers = self.layers.iter().zip(&self.missing);
        layers.map(|(heads, &missing)| (heads.len() as u64, (heads.len() - missing) as u64))
    }

    pub(super) fn count(&self) -> u64 {
        self.watchers.len() as u64
    }

    pub(super) fn committed_count(&self) -> u64 {
        self.of_layers().map(|(_, done)| done).sum()
    }

    /// The cost of all ranges, and of the committed ones.
    pub(super) fn cost(&self) -> (u64, u64) {
        let layers = self.of_layers().zip(&self.cost.per_range);
        layers.fold((0, 0), |(all, done), ((ranges, committed), each)| {
            (all + ranges * each, done + committed * each)
        })
    }

    /// Recounts everything that is kept more than once.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn check(&self, state: impl Fn(Head) -> State, losing: impl Fn(Head) -> u64) {
        let heads = || (0..self.count()).map(Head);
        let mut watching = Vec::new();
        for watched in heads() {
            let mut next = self.watchers[index(watched)];
            while next != NOBODY {
                let depends_on = sources::depends_on(Head(next.into()), watched, self.range_bits);
                assert!(depends_on && !self.is_committed(watched));
                watching.push(Head(next.into()));
                next = self.next_watcher[next as usize];
            }
        }
        watching.sort_unstable();
        let blocked = heads().filter(|&head| state(head) == State::Blocked);
        assert!(watching.into_iter().eq(blocked), "each watches one");
        for head in heads() {
            let ready = self.has_all_sources(head);
            let state = state(head);
            assert_eq!(self.is_committed(head), state == State::Done);
            // A committed range may be there without its sources: they may have been lost since.
            assert!(ready || state != State::Open, "{head} is not ready");
            assert!(
                !ready || state != State::Blocked,
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
        assert_eq!(self.current_layer, lowest.unwrap_or(self.layers.len()));
        let done = self.layers.iter().flatten().filter(committed);
        let of_each = done.map(|&head| losing(head));
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

    /// Each range that depends on one of these, or on one that follows from them.
    #[test]
    fn followers_are_those_of_the_sources() {
        let range_bits = chomp_table::RangeBits::new(12).unwrap();
        let settings = Settings::new(18, range_bits);
        let ranges = Ranges::new(&settings);
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
