//! Words: a position as one number.
//!
//! A position is a Young diagram. Walk its border from the end of the first column to the end of the first row: a step
//! along a row is 1, a step from one row to the next is 0. Leading 0s and trailing 1s do not change the diagram, so the
//! *canonical* word starts with 1 and ends with 0. Its length is (first row + number of rows): the position's **bits**.
//! The even numbers below 2^k are exactly the positions of at most k bits, and 0 is the empty position.
//!
//! A move takes a cell and all cells beyond it in both directions. On the word it sorts a span that starts at a 1 and
//! ends at a 0: all its 0s first, then its 1s. There is one such span for each cell, and the number always falls.

use crate::cell::Cell;

/// A canonical word: an even number, at most 64 bits long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(u64);

impl Word {
    /// The position without cells. The player to move there has won: the other took the poison.
    pub const EMPTY: Word = Word(0);

    /// The word of the border path `path`; its trailing 1s are dropped.
    pub const fn new(path: u64) -> Word {
        match path.checked_shr(path.trailing_ones()) {
            Some(word) => Word(word),
            None => Word::EMPTY,
        }
    }

    /// The number itself, always even.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// First row + number of rows; 0 for the empty position.
    pub const fn bits(self) -> u32 {
        u64::BITS - self.0.leading_zeros()
    }

    /// The number of cells. Each cell is a pair of a 1 and a later 0.
    pub fn area(self) -> u32 {
        // Mask k has the places whose number has bit k, so each 1 of the word adds the number of its place.
        let by_bit = [
            0xaaaa_aaaa_aaaa_aaaa,
            0xcccc_cccc_cccc_cccc,
            0xf0f0_f0f0_f0f0_f0f0,
            0xff00_ff00_ff00_ff00,
            0xffff_0000_ffff_0000,
            0xffff_ffff_0000_0000,
        ];
        let ones = |mask: u64| (self.0 & mask).count_ones();
        let places: u32 = (0..).zip(by_bit).map(|(bit, mask)| ones(mask) << bit).sum();
        // A 1 has as many bits after it as its place says. The 1s among them make no cell with it, so each pair of 1s
        // takes off one.
        let all = self.0.count_ones();
        places - all * all.saturating_sub(1) / 2
    }

    /// The conjugate diagram: the word reversed with every bit flipped. Both are losing, or neither.
    pub const fn mirror(self) -> Word {
        match (!self.0)
            .reverse_bits()
            .checked_shr(u64::BITS - self.bits())
        {
            Some(word) => Word(word),
            None => Word::EMPTY,
        }
    }

    /// The smaller of the word and its mirror image: the one that a published table holds.
    pub fn representative(self) -> Word {
        self.min(self.mirror())
    }

    /// Whether it is its own representative, which is faster to tell than to find.
    pub fn is_representative(self) -> bool {
        let Some(word) = self.0.checked_shl(self.0.leading_zeros()) else {
            return true;
        };
        // Behind its end, the mirror image has 1s here, and the word has 0s.
        word <= (!self.0).reverse_bits()
    }

    /// All moves: the cell taken and the position it leaves.
    pub fn moves(self) -> impl Iterator<Item = (Cell, Word)> {
        let zeros = (0..self.bits()).filter(move |&end| self.0 >> end & 1 == 0);
        zeros.flat_map(move |end| {
            let starts = (end + 1..self.bits()).filter(move |&start| self.0 >> start & 1 == 1);
            starts.map(move |start| {
                (
                    self.cell(start, end),
                    Word::new(sort_span(self.0, start, end)),
                )
            })
        })
    }

    /// Columns are counted by the 1s from the left, rows by the 0s from the right.
    fn cell(self, start: u32, end: u32) -> Cell {
        Cell {
            row: end + 1 - (self.0 & mask(end + 1)).count_ones(),
            column: (self.0 >> start).count_ones(),
        }
    }
}

/// The lowest `bits` bits set, for any number of bits up to 64.
pub const fn mask(bits: u32) -> u64 {
    match u64::MAX.checked_shr(u64::BITS - bits) {
        Some(mask) => mask,
        None => 0,
    }
}

/// `path` with its bits from `start` down to `end` sorted: all 0s first, then the 1s.
pub const fn sort_span(path: u64, start: u32, end: u32) -> u64 {
    let span = mask(start + 1) & !mask(end);
    let ones = (path & span).count_ones();
    (path & !span) | mask(ones) << end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_words() {
        // (path, canonical, bits, area, mirror)
        for (path, word, bits, area, mirror) in [
            (0b0, 0b0, 0, 0, 0b0),
            (0b1, 0b0, 0, 0, 0b0),
            (u64::MAX, 0, 0, 0, 0),
            (0b10, 0b10, 2, 1, 0b10),
            (0b1011, 0b10, 2, 1, 0b10),
            (0b110, 0b110, 3, 2, 0b100),
            (0b1100, 0b1100, 4, 4, 0b1100),
            (
                0xffff_ffff_0000_0000,
                0xffff_ffff_0000_0000,
                64,
                1024,
                0xffff_ffff_0000_0000,
            ),
            (
                0xffff_ffff_ffff_fffe,
                0xffff_ffff_ffff_fffe,
                64,
                63,
                1 << 63,
            ),
        ] {
            let got = Word::new(path);
            assert_eq!(got.get(), word, "{path:b}");
            assert_eq!(got.bits(), bits, "{path:b}");
            assert_eq!(got.area(), area, "{path:b}");
            assert_eq!(got.mirror().get(), mirror, "{path:b}");
        }
    }

    proptest! {
        #[test]
        fn mirror_keeps_the_shape(path: u64) {
            let word = Word::new(path);
            prop_assert_eq!(word.mirror().mirror(), word);
            prop_assert_eq!(word.mirror().bits(), word.bits());
            prop_assert_eq!(word.mirror().area(), word.area());
            prop_assert_eq!(word.mirror().representative(), word.representative());
            prop_assert_eq!(word.is_representative(), word.representative() == word);
        }

        #[test]
        fn one_move_for_each_cell_and_each_falls(path: u64) {
            let word = Word::new(path);
            let mut count = 0;
            for (_, next) in word.moves() {
                prop_assert!(next < word);
                count += 1;
            }
            prop_assert_eq!(count, word.area());
        }
    }

    /// docs/RESULTS.md has the proof.
    #[test]
    fn all_positions_of_k_bits_have_so_many_moves_together() {
        for bits in 2..=18u64 {
            let positions = (0..1u64 << (bits - 1)).map(|index| Word::new(index * 2));
            let moves: u64 = positions.map(|word| word.moves().count() as u64).sum();
            let expected = ((bits - 1) * (bits + 2)) << bits >> 4;
            assert_eq!(moves, expected, "{bits} bits");
        }
    }
}
