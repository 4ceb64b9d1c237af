//! Ranges, heads and layers.
//!
//! Fix the *range bits* b. A word is *head, then b low bits*, and a **range** has the words among the 2^b consecutive
//! numbers that share a head: the 2^(b-1) even ones. Leading 0s of a head change nothing, so heads keep their meaning
//! when a table grows: the table of k bits is a prefix of the table of k + 1 bits.
//!
//! The **layer** of a head is the sum over its 1 bits of the bit's index from the right, counted from 1. A move that
//! changes the head moves 1s to the right or turns them into 0s, so the new head has a lower layer. So a range depends
//! on itself and on ranges of lower layers only.

use std::fmt;

use crate::word::Word;

/// The most bits of the heads of a table that is computed: it has at most a million ranges.
pub const HEAD_BITS_MAX: u32 = 20;

/// The number of low bits of a range, from [`RangeBits::MIN`] to [`RangeBits::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeBits(u8);

impl RangeBits {
    /// The smallest number of range bits.
    pub const MIN: u32 = 12;
    /// The largest number of range bits: an index within the range then has 31 bits.
    pub const MAX: u32 = 32;

    /// `bits` as range bits, if they are within the limits.
    pub fn new(bits: u32) -> Option<RangeBits> {
        if (Self::MIN..=Self::MAX).contains(&bits) {
            u8::try_from(bits).ok().map(RangeBits)
        } else {
            None
        }
    }

    /// The number of low bits of a word in its range.
    pub const fn get(self) -> u32 {
        self.0 as u32
    }

    /// The number of positions (even words) in a range.
    pub const fn positions(self) -> u64 {
        1 << (self.get() - 1)
    }

    /// How many heads a table of `bits` bits has.
    pub const fn head_count(self, bits: u32) -> u64 {
        1 << bits.saturating_sub(self.get())
    }
}

impl fmt::Display for RangeBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The head of a range: what stands before the low bits of its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Head(pub u64);

impl Head {
    /// The range that holds `word`.
    pub const fn of(word: Word, range_bits: RangeBits) -> Head {
        Head(word.get() >> range_bits.get())
    }

    /// The number of bits from the first 1 on.
    pub const fn bit_len(self) -> u32 {
        u64::BITS - self.0.leading_zeros()
    }

    /// Whether this is the head without a 1, that of the first range.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The layer: the sum over the 1 bits of their index from the right, counted from 1.
    pub fn layer(self) -> u32 {
        (0..self.bit_len())
            .filter(|i| self.0 >> i & 1 == 1)
            .map(|i| i + 1)
            .sum()
    }

    /// The word of the position at `index` (the low bits of the word, halved) in this range.
    pub const fn word(self, index: u64, range_bits: RangeBits) -> Word {
        Word::new(self.0 << range_bits.get() | index << 1)
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// The number of layers of a table of `bits` bits.
pub fn layer_count(bits: u32, range_bits: RangeBits) -> usize {
    let head_bits = bits.saturating_sub(range_bits.get()) as usize;
    head_bits * (head_bits + 1) / 2 + 1
}

/// The heads of a table of `bits` bits by layer: index S holds the heads of layer S, ascending.
pub fn layers(bits: u32, range_bits: RangeBits) -> Vec<Vec<Head>> {
    let mut layers = vec![Vec::new(); layer_count(bits, range_bits)];
    for head in (0..range_bits.head_count(bits)).map(Head) {
        layers[head.layer() as usize].push(head);
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_shown_in_base_sixteen() {
        assert_eq!(Head(0x1f).to_string(), "1f");
    }

    #[test]
    fn limits_of_range_bits() {
        for (bits, valid) in [
            (0, false),
            (11, false),
            (12, true),
            (32, true),
            (33, false),
            (268, false),
        ] {
            assert_eq!(RangeBits::new(bits).is_some(), valid, "{bits}");
        }
    }

    #[test]
    fn layers_hold_every_head_once() {
        for (bits, range_bits) in [(10, 12), (12, 12), (13, 12), (24, 12), (40, 24)] {
            let range_bits = RangeBits::new(range_bits).unwrap();
            let layers = layers(bits, range_bits);
            let mut heads: Vec<Head> = layers.concat();
            assert!(
                layers
                    .iter()
                    .all(|layer| layer.is_sorted() && !layer.is_empty())
            );
            heads.sort_unstable();
            assert!(
                heads
                    .into_iter()
                    .eq((0..range_bits.head_count(bits)).map(Head))
            );
        }
    }

    #[test]
    fn the_fullest_layer_of_sixteen_head_bits() {
        let layers = layers(40, RangeBits::new(24).unwrap());
        assert_eq!(layers.len(), 137);
        assert!((1300..1400).contains(&layers.iter().map(Vec::len).max().unwrap()));
    }

    #[test]
    fn every_move_that_changes_the_head_lowers_the_layer() {
        let range_bits = RangeBits::new(12).unwrap();
        for path in (0..1 << 18).step_by(2) {
            let word = Word::new(path);
            let head = Head::of(word, range_bits);
            for (_, next) in word.moves() {
                let source = Head::of(next, range_bits);
                assert!(source == head || source.layer() < head.layer(), "{path:b}");
            }
        }
    }

    #[test]
    fn words_beyond_32_bits() {
        let range_bits = RangeBits::new(32).unwrap();
        let word = Word::new(0xdead_beef_cafe_babe);
        let head = Head::of(word, range_bits);
        assert_eq!(head, Head(0xdead_beef));
        assert_eq!(head.word((word.get() & 0xffff_ffff) / 2, range_bits), word);
        assert_eq!(range_bits.positions(), 1 << 31);
        assert_eq!(Head(u64::from(u32::MAX)).layer(), 528);
    }
}
