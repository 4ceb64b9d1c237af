//! Divisions: into which ranges the positions of a table are cut, and which ranges draw on which.
//!
//! A job computes the ranges of a table layer by layer, and need not know what is in them. What it has to know of the
//! ranges of each kind of table is here. Each range has a number, which names it in journals, messages and parts, and
//! keeps its meaning when a table grows. The type of the number is [`Head`], after the ranges of words: the number of
//! such a range is its [head], the high bits that its words share.
//!
//! | | outcomes | Grundy values |
//! |---|---|---|
//! | the size of a table | bits | tiles |
//! | a range | the words of one [head] | up to 2^b consecutive [ranks](crate::partition) of one area |
//! | its number | the head | counted through, by area and then by rank, from 0 |
//! | its layer | that of the head | the area less 1 |
//! | draws on | the ranges that a move can lead to | the same: in each lower area, the ranks up to the last with no longer first row |
//! | a published shard | so many stored words | 2^24 ranks of one area |

use std::fmt;
use std::ops::Range;

use crate::digest::Digest;
use crate::format::{FormatError, ensure};
use crate::head::{self, Head, RangeBits};
use crate::partition::{AREA_MAX, Partition, count, count_within};
use crate::range::RangeSummary;
use crate::values::record;
use crate::{manifest, range, sources, values};

/// The code of a division into ranks is this and the rank bits: more than any range bits.
const RANKS_CODE: u32 = 1 << 8;

/// The rank bits b: a range of values has 2^b ranks, and the last range of an area has those that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankBits(u8);

impl RankBits {
    /// The smallest number of rank bits.
    pub const MIN: u32 = 8;
    /// The largest: so many ranks are in a published shard, which begins with a range.
    pub const MAX: u32 = 24;

    /// `bits` as rank bits, if they are within the limits.
    pub fn new(bits: u32) -> Option<RankBits> {
        if (Self::MIN..=Self::MAX).contains(&bits) {
            u8::try_from(bits).ok().map(RankBits)
        } else {
            None
        }
    }

    /// The number of bits.
    pub const fn get(self) -> u32 {
        self.0 as u32
    }

    /// The number of ranges of one area.
    pub fn ranges_of(self, area: u32) -> u64 {
        count(area).div_ceil(1 << self.get())
    }

    /// The number of ranges of all areas from 1 to `tiles`.
    pub fn ranges(self, tiles: u32) -> u64 {
        (1..=tiles).map(|area| self.ranges_of(area)).sum()
    }

    /// The range that has a rank of an area.
    pub fn head(self, area: u32, rank: u64) -> Head {
        Head(self.ranges(area - 1) + (rank >> self.get()))
    }

    /// The area and the ranks of a range; none if no area up to 120 has it.
    pub fn ranks(self, head: Head) -> Option<(u32, Range<u64>)> {
        let mut number = head.0;
        for area in 1..=AREA_MAX {
            let ranges = self.ranges_of(area);
            if number < ranges {
                let start = number << self.get();
                return Some((area, start..count(area).min(start + (1 << self.get()))));
            }
            number -= ranges;
        }
        None
    }

    /// The area of a range, and how many ranges of that area are before it.
    ///
    /// # Panics
    ///
    /// If no area up to 120 has it.
    pub fn place(self, head: Head) -> (u32, usize) {
        let (area, ranks) = self.ranks(head).expect("a range of an area up to 120");
        let before = usize::try_from(ranks.start >> self.get());
        (area, before.expect("at most 2^23 ranges"))
    }

    /// The ranges that a range draws on, from the highest area down.
    pub fn sources(self, head: Head) -> impl Iterator<Item = Head> {
        let (area, longest) = self.ranks(head).map_or((1, 0), |(area, ranks)| {
            (area, longest_row(area, ranks.end - 1))
        });
        (1..area).rev().flat_map(move |lower| {
            let first = self.head(lower, 0).0;
            let needed = count_within(lower, longest).div_ceil(1 << self.get());
            (first..first + needed).map(Head)
        })
    }

    /// The record of a range with these values, and what is said of it.
    ///
    /// # Panics
    ///
    /// If these are no values of such a range.
    pub fn encode(self, head: Head, values: &[u8]) -> (RangeSummary, Vec<u8>) {
        let (area, ranks) = self.ranks(head).expect("a range of an area up to 120");
        let count = values.len() as u64;
        assert_eq!(count, ranks.end - ranks.start, "values of range {head}");
        let record = record::encode(area, ranks.start, values);
        let summary = RangeSummary {
            head,
            count,
            stored: count,
            digest: Digest::of(&record),
        };
        (summary, record)
    }

    /// The values in the record of a range.
    ///
    /// # Errors
    ///
    /// If it is no record, or that of other ranks.
    pub fn decode(self, head: Head, record: &[u8]) -> Result<Vec<u8>, FormatError> {
        let (area, first, values) = record::decode(record)?;
        let ranks = first..first + values.len() as u64;
        ensure(self.ranks(head) == Some((area, ranks)), || {
            format!(
                "it has the values of {area} tiles from rank {first} on, not those of range {head}"
            )
        })?;
        Ok(values)
    }

    fn draws_on(self, head: Head, source: Head) -> bool {
        let (Some((area, ranks)), Some((lower, first))) = (self.ranks(head), self.ranks(source))
        else {
            return false;
        };
        lower < area && first.start < count_within(lower, longest_row(area, ranks.end - 1))
    }
}

/// The first row of the position with this rank. No move makes it longer, and no position with a smaller rank has a longer one.
fn longest_row(area: u32, rank: u64) -> u32 {
    let position = Partition::at(area, rank);
    position.rows().first().copied().unwrap_or(0)
}

/// How many values of the area `lower`, from rank 0 on, the positions of `area` with these ranks can need.
pub fn needed(area: u32, ranks: &Range<u64>, lower: u32) -> u64 {
    count_within(lower, longest_row(area, ranks.end - 1))
}

/// The kind of a table, and how it is cut into ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Division {
    /// Which positions are losing: ranges of words.
    Words(RangeBits),
    /// Grundy values: ranges of ranks.
    Ranks(RankBits),
}

impl From<RangeBits> for Division {
    fn from(bits: RangeBits) -> Division {
        Division::Words(bits)
    }
}

impl From<RankBits> for Division {
    fn from(bits: RankBits) -> Division {
        Division::Ranks(bits)
    }
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Division::Words(bits) => write!(f, "{bits} range bits"),
            Division::Ranks(bits) => write!(f, "ranges of 2^{} Grundy values", bits.get()),
        }
    }
}

impl Division {
    /// The number that stands for it in journals and messages: the range bits, or 256 and the rank bits.
    pub const fn code(self) -> u32 {
        match self {
            Division::Words(bits) => bits.get(),
            Division::Ranks(bits) => RANKS_CODE + bits.get(),
        }
    }

    /// The division that a number stands for.
    pub fn from_code(code: u32) -> Option<Division> {
        match code.checked_sub(RANKS_CODE) {
            Some(bits) => RankBits::new(bits).map(Division::Ranks),
            None => RangeBits::new(code).map(Division::Words),
        }
    }

    /// The largest size of a table of this kind: 64 bits, or 120 tiles.
    pub const fn size_max(self) -> u32 {
        match self {
            Division::Words(_) => u64::BITS,
            Division::Ranks(_) => AREA_MAX,
        }
    }

    /// The number of ranges of a table.
    pub fn ranges(self, size: u32) -> u64 {
        match self {
            Division::Words(bits) => bits.heads(size),
            Division::Ranks(bits) => bits.ranges(size),
        }
    }

    /// The number of positions of a table.
    pub fn positions_of(self, size: u32) -> u64 {
        match self {
            Division::Words(_) => 1 << size.saturating_sub(1),
            Division::Ranks(_) => (1..=size).map(count).sum(),
        }
    }

    /// The layer of a range. Ranges of one layer do not depend on each other.
    pub fn layer(self, head: Head) -> u32 {
        match self {
            Division::Words(_) => head.layer(),
            Division::Ranks(bits) => bits.ranks(head).map_or(AREA_MAX, |(area, _)| area - 1),
        }
    }

    /// The ranges of a table by layer, ascending.
    pub fn layers(self, size: u32) -> Vec<Vec<Head>> {
        match self {
            Division::Words(bits) => head::layers(size, bits),
            Division::Ranks(bits) => {
                let of_area = |area| {
                    let first = bits.head(area, 0).0;
                    (first..first + bits.ranges_of(area)).map(Head).collect()
                };
                (1..=size).map(of_area).collect()
            }
        }
    }

    /// Calls `take` with each range that a range draws on, some of them more than once.
    pub fn each_source(self, head: Head, take: &mut impl FnMut(Head)) {
        match self {
            Division::Words(bits) => sources::each(head, bits, take),
            Division::Ranks(bits) => bits.sources(head).for_each(take),
        }
    }

    /// Whether a range draws on another.
    pub fn draws_on(self, head: Head, source: Head) -> bool {
        match self {
            Division::Words(bits) => sources::draws_on(head, source, bits),
            Division::Ranks(bits) => bits.draws_on(head, source),
        }
    }

    /// The positions of a range, or the most if they differ.
    pub const fn positions(self) -> u64 {
        match self {
            Division::Words(bits) => bits.positions(),
            Division::Ranks(bits) => 1 << bits.get(),
        }
    }

    /// The longest record of a range.
    pub fn max_record_len(self) -> u64 {
        match self {
            Division::Words(bits) => range::max_record_len(bits),
            Division::Ranks(bits) => record::max_record_len(1 << bits.get()),
        }
    }

    /// The folder of a published table.
    pub fn folder_name(self, size: u32) -> String {
        match self {
            Division::Words(_) => manifest::folder_name(size),
            Division::Ranks(_) => values::manifest::folder_name(size),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn ranks(bits: u32) -> RankBits {
        RankBits::new(bits).unwrap()
    }

    #[test]
    fn a_code_stands_for_one_division() {
        let divisions: Vec<Division> = (0..1000).filter_map(Division::from_code).collect();
        assert_eq!(divisions.len(), 21 + 17);
        for division in divisions {
            assert_eq!(Division::from_code(division.code()), Some(division));
        }
    }

    /// Each rank is in one range, and the numbers of ranges go on from area to area.
    #[test]
    fn ranges_of_ranks_hold_each_rank_once() {
        let bits = ranks(8);
        let division = Division::Ranks(bits);
        let mut next = 0;
        for (layer, heads) in (0..).zip(division.layers(32)) {
            let area = layer + 1;
            let mut end = 0;
            for (before, head) in heads.into_iter().enumerate() {
                assert_eq!(head, Head(next));
                assert_eq!(bits.place(head), (area, before));
                assert_eq!(division.layer(head), layer);
                let (found, ranks) = bits.ranks(head).unwrap();
                assert_eq!((found, ranks.start), (area, end));
                assert_eq!(bits.head(area, ranks.start), head);
                assert_eq!(bits.head(area, ranks.end - 1), head);
                assert!(ranks.end - ranks.start <= division.positions());
                end = ranks.end;
                next += 1;
            }
            assert_eq!(end, count(area));
        }
        assert_eq!(division.ranges(32), next);
        assert_eq!(division.positions(), 256);
        assert_eq!(bits.ranks(Head(u64::MAX)), None);
    }

    /// By the definition: the moves of all positions of a range.
    #[test]
    fn sources_of_ranks_are_what_moves_lead_to() {
        let bits = ranks(8);
        let division = Division::Ranks(bits);
        for head in (0..bits.ranges(26)).map(Head) {
            let (area, ranks) = bits.ranks(head).unwrap();
            let mut led_to = BTreeSet::new();
            let mut position = Partition::at(area, ranks.start);
            for _ in ranks.clone() {
                for (row, &length) in position.rows().iter().enumerate() {
                    for column in 0..length {
                        let mut rows = position.rows().to_vec();
                        rows[row..]
                            .iter_mut()
                            .for_each(|cut| *cut = column.min(*cut));
                        rows.retain(|&row| row > 0);
                        if let Some(next) = Partition::new(rows).filter(|next| next.area() > 0) {
                            led_to.insert(bits.head(next.area(), next.rank()));
                        }
                    }
                }
                position.advance();
            }
            let mut sources = BTreeSet::new();
            division.each_source(head, &mut |source| assert!(sources.insert(source)));
            assert!(sources.is_superset(&led_to), "{head}");
            for source in (0..bits.ranges(26)).map(Head) {
                let is_source = sources.contains(&source);
                assert_eq!(division.draws_on(head, source), is_source);
                let (lower, first) = bits.ranks(source).unwrap();
                let is_needed = lower < area && first.start < needed(area, &ranks, lower);
                assert_eq!(is_needed, is_source, "{head} {source}");
            }
        }
        // Of 33 tiles, 5,888 positions have rows of at most 10: all that the first 6,912 of 34 tiles lead to.
        let draws_on = |rank| bits.draws_on(bits.head(34, 6911), bits.head(33, rank));
        assert!(draws_on(5887) && !draws_on(5888));
    }

    #[test]
    fn records_of_ranges_come_back() {
        let bits = ranks(8);
        for rank in [0, 256] {
            let head = bits.head(26, rank);
            let values: Vec<u8> = (0..=255).map(|value| value % 26).collect();
            let (summary, record) = bits.encode(head, &values);
            assert_eq!((summary.head, summary.count), (head, 256));
            assert!(record.len() as u64 <= Division::Ranks(bits).max_record_len());
            assert_eq!(bits.decode(head, &record).unwrap(), values);
            assert!(bits.decode(bits.head(26, 512), &record).is_err());
        }
    }

    #[test]
    fn both_divisions_tell_of_their_tables() {
        let words = Division::Words(RangeBits::new(20).unwrap());
        let ranks = Division::Ranks(ranks(8));
        assert_eq!(words.to_string(), "20 range bits");
        assert_eq!(ranks.to_string(), "ranges of 2^8 Grundy values");
        assert_eq!([words.size_max(), ranks.size_max()], [64, 120]);
        // Words of at most 5 bits that end in a 0; and the partitions of 1 to 5.
        assert_eq!(words.positions_of(5), 16);
        assert_eq!(ranks.positions_of(5), 1 + 2 + 3 + 5 + 7);
        assert_eq!(words.folder_name(7), "table-07");
        assert_eq!(ranks.folder_name(7), "values-007");
        assert!((256..1 << 10).contains(&ranks.max_record_len()));
    }
}
