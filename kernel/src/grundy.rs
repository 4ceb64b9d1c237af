//! Sprague-Grundy values of all positions of one area, from those of smaller areas.
//!
//! The value of a position is the least number that no move leads to (mex). The poisoned cell is never taken here, so the
//! single cell has value 0. A position of n tiles has n − 1 moves, so its value is at most n − 1: at most 119, and 128 bits hold the set of
//! the values that its moves lead to.
//!
//! # Blocks of moves
//!
//! A position is a [partition](chomp_table::partition). Take the cell in row r and column t + 1: the rows longer than t,
//! from r on, become t. Let j rows be longer than t, α these rows, and ρ the others, all at most t. The move leads
//!
//! ```text
//! from  α1 … αj ρ  to  α1 … α(r−1) t … t ρ        (t stands j − r + 1 times)
//! ```
//!
//! The letters are those of this page: the rest of the crate uses r, t, j, m and q for other things.
//!
//! For fixed α, t and r, let ρ be any partition of m = n − |α| with rows of at most t. Then the positions on both sides have
//! consecutive ranks, in the same order. So all these moves together are one pass over two blocks of bytes: for each i, the set
//! i gets the value i. Each move of each position belongs to one such block.
//!
//! The walk goes through the prefixes α as through a tree, in the order of ranks. The rank of the block on the right is a sum
//! over its rows, of which those of α are known from the walk: for every prefix β it keeps, for each q, the sum over the rows
//! of β when β begins a position of |β| + q tiles.
//!
//! # Columns one and two
//!
//! With t = 0 or 1, blocks have one position, α 1…1, and these are as many as there are positions. So here the walk keeps
//! more for every prefix β without ones. The value of β and q ones is looked up once, for all moves that lead there, and
//! put into
//!
//! ```text
//! first      the values of all prefixes of β, β itself included
//! second[q]  the values of β and q ones, of β without its last row and q + 1 ones, without its last two rows and q + 2, …
//! ```
//!
//! The moves of α and m ones in the first column lead to `first` of α, and to α with fewer than m ones. Those in the second
//! column lead to `second[m + 1]` of α without its last row: the row above the ones is cut to one cell, and those above it in turn.
//!
//! What this costs: a position of n tiles has n − 1 moves, a byte and an OR of 16 bytes each, and there are as many
//! prefixes without ones as positions, whose work the positions share. So the cost of a position grows no faster than n:
//! measured, 50 to 70 ns from 50 to 100 tiles.
//!
//! # Windows and passes
//!
//! The ranks of the range are taken in windows whose sets stay in the cache; the walk leaves out what is not in the window.
//! Values of lower areas may come in any number of groups: moves to values that are not there lead to no value, and sets only grow.

mod lower;
mod walk;

use std::collections::BTreeMap;
use std::ops::Range;

use chomp_table::division::needed;
use chomp_table::partition::{AREA_MAX, count};

pub use lower::Lower;

/// A set of values.
type Set = u128;

/// The value of a position that is not there: no set has it.
const NONE: u8 = u8::MAX;

/// The sets of one value each, and of none for what is no value.
static SETS: [Set; 256] = {
    let mut sets = [0; 256];
    let mut value = 0;
    while value < Set::BITS {
        sets[value as usize] = 1 << value;
        value += 1;
    }
    sets
};

fn set_of(value: u8) -> Set {
    SETS[usize::from(value)]
}

/// The evaluation of some positions of one area.
#[derive(Debug)]
pub struct Evaluation {
    area: u32,
    start: u64,
    sets: Vec<Set>,
    /// The chunks whose moves were applied, by area and number, and their lengths.
    applied: BTreeMap<(u32, usize), usize>,
    /// The values of a chunk, once some were applied.
    chunk_bits: Option<u32>,
}

impl Evaluation {
    /// Of the positions of `area` with these ranks. It has 16 bytes for each.
    ///
    /// # Panics
    ///
    /// If there are no such ranks.
    pub fn new(area: u32, ranks: Range<u64>) -> Evaluation {
        assert!((1..=AREA_MAX).contains(&area), "no area {area}");
        assert!(
            ranks.start < ranks.end && ranks.end <= count(area),
            "no ranks {ranks:?}"
        );
        let length = usize::try_from(ranks.end - ranks.start).expect("no more than the memory has");
        Evaluation {
            area,
            start: ranks.start,
            sets: vec![0; length],
            applied: BTreeMap::new(),
            chunk_bits: None,
        }
    }

    /// Applies all moves that lead to the values of `lower`.
    ///
    /// # Panics
    ///
    /// If a chunk is of an area that is not a lower one, was applied before, or has another size than those before.
    pub fn apply(&mut self, lower: &Lower<'_>) {
        let chunk_bits = *self.chunk_bits.get_or_insert_with(|| lower.chunk_bits());
        assert_eq!(chunk_bits, lower.chunk_bits(), "chunks of another size");
        for (area, number, length) in lower.chunks() {
            assert!(area < self.area, "area {area} is not below {}", self.area);
            let before = self.applied.insert((area, number), length);
            assert_eq!(before, None, "chunk {number} of area {area} twice");
        }
        walk::apply(self.area, self.start, &mut self.sets, lower);
    }

    /// The values, one byte for each position.
    ///
    /// # Panics
    ///
    /// Unless the moves to all values were applied that [are needed](needed).
    pub fn finish(self) -> Vec<u8> {
        let ranks = self.start..self.start + self.sets.len() as u64;
        let size = 1 << self.chunk_bits.unwrap_or(0);
        for lower in 1..self.area {
            let needed = needed(self.area, &ranks, lower);
            for (number, start) in (0..needed).step_by(size).enumerate() {
                let length = self.applied.get(&(lower, number)).copied().unwrap_or(0);
                let needed = (needed - start).min(size as u64);
                assert!(
                    length as u64 >= needed,
                    "values of area {lower} are missing"
                );
            }
        }
        let values = self.sets.iter().map(|set| set.trailing_ones());
        let values = values.map(|value| u8::try_from(value).expect("at most 128"));
        values.collect()
    }
}

#[cfg(test)]
mod tests;
