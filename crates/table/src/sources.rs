//! The sources of a range: the ranges of lower layers that its evaluation reads.
//!
//! A move starts at a 1. Let that 1 be in the head `h`, at bit i; X is what stands before it, and
//! g the i + 1 bits from it to the end of the head, with `zeros` 0s and `ones` 1s. The move
//!
//! * **ends inside** the head: the source is the head with that span sorted, and the low bits stay as they are;
//! * **crosses** into the low bits: the sorted span starts with `zeros` + d 0s, d ≥ 1 of them from the low bits. The
//!   source is X 0^z 1^(|g|-z) with z = `zeros` + d, or X 0^|g| for all d ≥ `ones`.
//!
//! A move that ends at the last 0 of a word leaves trailing 1s, so its result is a shorter word. Two kinds of such
//! results matter to a range: those with the same head, whose ranges are h >> c for c ≥ 1 (the **trimmed** heads), and
//! those with the head of a crossing source, which that source keeps as its *edges* (see [`crate::range`]).

use std::collections::BTreeSet;

use crate::head::{Head, RangeBits};
use crate::word::{mask, sort_span};

/// A 1 of a head at which a move may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    head: Head,
    bit: u32,
    /// The 0s from the start to the end of the head.
    pub zeros: u32,
    /// The 1s from the start to the end of the head, the start itself included.
    pub ones: u32,
}

/// The starts of moves in `head`.
pub fn starts(head: Head) -> impl Iterator<Item = Start> {
    (0..head.bit_len())
        .filter(move |i| head.0 >> i & 1 == 1)
        .map(move |bit| {
            let ones = (head.0 & mask(bit + 1)).count_ones();
            Start {
                head,
                bit,
                zeros: bit + 1 - ones,
                ones,
            }
        })
}

impl Start {
    /// The sources of the moves from here that end inside the head.
    pub fn inside(self) -> impl Iterator<Item = Head> {
        let ends = (0..self.bit).filter(move |end| self.head.0 >> end & 1 == 0);
        ends.map(move |end| Head(sort_span(self.head.0, self.bit, end)))
    }

    /// The source of moves from here that take `d` 0s of the low bits, 1 ≤ d ≤ `ones`; `ones` serves for larger d too.
    pub fn crossing(self, d: u32) -> Head {
        let length = self.bit + 1;
        Head((self.head.0 & !mask(length)) | mask(length - self.zeros - d))
    }
}

/// For each c from 1 to b - 1: c, and the range that holds the paths of range `head` with c trailing 1s.
pub fn trimmed(head: Head, range_bits: RangeBits) -> impl Iterator<Item = (u32, Head)> {
    (1..range_bits.get()).map(move |c| (c, Head(head.0.checked_shr(c).unwrap_or(0))))
}

/// The word that the path `head`, followed by 1s only, stands for. It is the head read as a word.
pub fn corner(head: Head) -> crate::word::Word {
    crate::word::Word::new(head.0)
}

/// All sources of the range `head`, ascending, each once. Range 0 has none.
pub fn sources(head: Head, range_bits: RangeBits) -> Vec<Head> {
    let mut sources = Vec::new();
    each(head, range_bits, &mut |source| sources.push(source));
    sources.sort_unstable();
    sources.dedup();
    sources
}

/// A head and all heads that it depends on, directly or not, in the order of their layers.
pub fn closure(head: Head, range_bits: RangeBits) -> Vec<Head> {
    let mut known = BTreeSet::from([head]);
    let mut open = vec![head];
    while let Some(head) = open.pop() {
        let sources = sources(head, range_bits).into_iter();
        open.extend(sources.filter(|&source| known.insert(source)));
    }
    let mut heads: Vec<Head> = known.into_iter().collect();
    heads.sort_by_key(|head| head.layer());
    heads
}

/// Calls `take` with each source of a range, some of them more than once: [`sources`] without a list.
pub fn each(head: Head, range_bits: RangeBits, take: &mut impl FnMut(Head)) {
    if head.is_zero() {
        return;
    }
    for shift in 1..range_bits.get().min(head.bit_len() + 1) {
        take(Head(head.0 >> shift));
    }
    take(Head::of(corner(head), range_bits));
    for start in starts(head) {
        start.inside().for_each(&mut *take);
        (1..=start.ones).for_each(|d| take(start.crossing(d)));
    }
}

/// Whether the range `head` depends on the range `source`. Makes no list of its sources.
pub fn depends_on(head: Head, source: Head, range_bits: RangeBits) -> bool {
    if source >= head {
        return false;
    }
    let shorter = head.bit_len() - source.bit_len();
    let is_trimmed = (1..range_bits.get()).contains(&shorter) && head.0 >> shorter == source.0;
    if is_trimmed || source == Head::of(corner(head), range_bits) {
        return true;
    }
    if source.is_zero() {
        // A move that starts at the first 1 of the head can move all 1s into the low bits.
        return true;
    }
    // A move turns the 1 at which it starts into a 0 and leaves the bits before it, so it starts at the highest bit
    // that differs.
    let bit = (head.0 ^ source.0).ilog2();
    let low = |head: Head| head.0 & ((1 << bit << 1) - 1);
    let ones = low(head).count_ones();
    let left = low(source);
    // The move crosses into the low bits and leaves some 1s at the end of the head…
    let crosses = (left + 1).is_power_of_two() && left.count_ones() < ones;
    // …or it ends inside the head, and sorts the bits from its start to its end. An end at a 1 gives the same result as
    // an end at the next 0 before it.
    let ends_at = |end: u32| {
        let below = (1 << end) - 1;
        let sorted = (1u64 << (low(head) >> end).count_ones()) - 1;
        left == sorted << end | low(head) & below
    };
    crosses || (0..bit).any(ends_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::Word;

    /// Heads of more than 12 bits, even ones and ones that end with 1s.
    const LONG: [u64; 6] = [0x1_0000, 0xa_5a5a, 0xf_0000, 0x4001, 0x8_2fff, 0xf_ffff];

    #[test]
    fn ones_behind_a_head_leave_the_head() {
        assert_eq!(corner(Head(0b110)), crate::word::Word::new(0b110));
    }

    #[test]
    fn sources_are_of_lower_layers() {
        let range_bits = RangeBits::new(12).unwrap();
        for head in (1..1 << 14)
            .map(Head)
            .chain([Head(0xf0f0_f0f0_f0f0), Head(mask(52))])
        {
            for source in sources(head, range_bits) {
                assert!(
                    source < head && source.layer() < head.layer(),
                    "{source} for {head}"
                );
            }
        }
        assert!(sources(Head(0), range_bits).is_empty());
    }

    /// Every move to a word of full length leads into the range itself or into one of its sources.
    #[test]
    fn every_move_leads_to_a_source() {
        let range_bits = RangeBits::new(12).unwrap();
        for head in (1..1 << 6).map(Head) {
            let known: BTreeSet<Head> = sources(head, range_bits)
                .into_iter()
                .chain([head])
                .collect();
            for index in 0..range_bits.positions() {
                let word = head.word(index, range_bits).get();
                for end in (0..word.ilog2()).filter(|end| word >> end & 1 == 0) {
                    for start in (end + 1..=word.ilog2()).filter(|start| word >> start & 1 == 1) {
                        let path = sort_span(word, start, end);
                        assert!(
                            known.contains(&Head(path >> range_bits.get())),
                            "{word:b} to {path:b}"
                        );
                        if path >> range_bits.get() == head.0 {
                            let trimmed = Head::of(Word::new(path), range_bits);
                            assert!(known.contains(&trimmed), "{word:b} to {path:b}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_reverse_of_sources() {
        for range_bits in [12, 20].map(|bits| RangeBits::new(bits).unwrap()) {
            for head in (0..1 << 10).chain(LONG).map(Head) {
                let sources = sources(head, range_bits);
                for source in (0..head.0 + 2).map(Head) {
                    assert_eq!(
                        depends_on(head, source, range_bits),
                        sources.contains(&source),
                        "{head} on {source}"
                    );
                }
            }
        }
    }
}
