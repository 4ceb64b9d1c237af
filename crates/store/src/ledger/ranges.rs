//! The done ranges, in little more memory than they need: there can be a million of them, on every worker.

use std::collections::BTreeMap;

use chomp_plan::Finders;
use chomp_table::Head;

use crate::part::RangeRow;

/// The number of low bits in which the heads of a group may differ.
const GROUP_BITS: u32 = 8;

type Done = (Head, RangeRow, Finders);

/// The ledger rows of ranges with their finders, in groups, by the high bits of the head. A group is sorted by head.
/// When all ranges of a table are done, the length of each group is a power of two: a list that grows by doubling then
/// has no spare room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeMap(BTreeMap<u64, Vec<Done>>);

impl RangeMap {
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, head: Head) -> Option<&RangeRow> {
        let group = self.0.get(&(head.0 >> GROUP_BITS))?;
        let at = find(group, head).ok()?;
        Some(&group[at].1)
    }

    pub(crate) fn finders_mut(&mut self, head: Head) -> Option<&mut Finders> {
        let group = self.0.get_mut(&(head.0 >> GROUP_BITS))?;
        let at = find(group, head).ok()?;
        Some(&mut group[at].2)
    }

    pub(crate) fn all_finders_mut(&mut self) -> impl Iterator<Item = &mut Finders> {
        let done = self.0.values_mut().flatten();
        done.map(|(_, _, finders)| finders)
    }

    pub(crate) fn insert(&mut self, head: Head, row: RangeRow, finders: Finders) {
        let group = self.0.entry(head.0 >> GROUP_BITS).or_default();
        match find(group, head) {
            Ok(at) => group[at] = (head, row, finders),
            Err(at) => group.insert(at, (head, row, finders)),
        }
    }

    pub(crate) fn remove(&mut self, head: Head) -> Option<(RangeRow, Finders)> {
        let number = head.0 >> GROUP_BITS;
        let group = self.0.get_mut(&number)?;
        let at = find(group, head).ok()?;
        let (_, row, finders) = group.remove(at);
        if group.is_empty() {
            self.0.remove(&number);
        }
        Some((row, finders))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// All ranges, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Head, &RangeRow, &Finders)> {
        let done = self.0.values().flatten();
        done.map(|(head, row, finders)| (*head, row, finders))
    }

    /// The ranges below a head, ascending.
    pub(crate) fn below(&self, head: Head) -> impl Iterator<Item = (Head, &RangeRow, &Finders)> {
        self.iter().take_while(move |&(found, ..)| found < head)
    }

    pub(crate) fn last(&self) -> Option<Head> {
        let (_, group) = self.0.last_key_value()?;
        group.last().map(|&(head, ..)| head)
    }
}

fn find(group: &[Done], head: Head) -> Result<usize, usize> {
    group.binary_search_by_key(&head, |&(head, ..)| head)
}

#[cfg(test)]
mod tests {
    use chomp_table::Digest;

    use super::*;

    fn row(lease: u64) -> RangeRow {
        RangeRow {
            layer: 0,
            lease,
            offset: 16,
            length: 99,
            replicas: 1,
            count: 1,
            stored: 1,
            digest: Digest([7; 32]),
        }
    }

    #[test]
    fn as_a_plain_map() {
        let (mut ranges, mut plain) = (RangeMap::default(), BTreeMap::new());
        let mut random = 1_u64;
        for step in 0..20_000_u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let head = Head(random >> 40 & 0x7ff | (random >> 33 & 1) << 55);
            if random >> 60 < 4 {
                ranges.remove(head);
                plain.remove(&head);
            } else {
                let finders = Finders::new(u32::try_from(random >> 62).unwrap(), []);
                ranges.insert(head, row(step), finders.clone());
                plain.insert(head, (row(step), finders));
            }
            assert_eq!(ranges.len(), plain.len());
            assert_eq!(ranges.get(head), plain.get(&head).map(|(row, _)| row));
        }
        let expected = || {
            plain
                .iter()
                .map(|(&head, (row, finders))| (head, row, finders))
        };
        assert!(ranges.iter().eq(expected()));
        assert_eq!(ranges.last(), plain.keys().next_back().copied());
        for head in [0, 1, 255, 256, 257, 1000, 1 << 55, u64::MAX].map(Head) {
            let below = expected().take_while(|&(found, ..)| found < head);
            assert!(ranges.below(head).eq(below), "{head}");
        }
        for &head in plain.keys() {
            ranges.remove(head);
        }
        assert_eq!((ranges.last(), &ranges), (None, &RangeMap::default()));
        ranges.insert(Head(1), row(1), Finders::default());
        let mut other = RangeMap::default();
        other.insert(Head(1), row(2), Finders::default());
        assert_ne!(ranges, other);
        ranges.clear();
        assert_eq!(ranges.len(), 0);
    }
}
