//! The layout of bitmaps with a bit for each tail.
//!
//! A bitmap of **level** j and bound x has a bit for each non-increasing sequence of j numbers from 0 to x. An
//! **atom**, of level 3, has that of (a, b, v) at binom(a+2, 3) + binom(b+1, 2) + v, and ends with the byte of its last
//! bit. A higher one joins those of the level below with the bounds y = 0, 1, …, x, for sequences that begin with y.
//!
//! So the bitmap of bound x begins with that of any smaller bound, all bitmaps of a level and bound have the same
//! layout wherever they are, and the union of some is that of their bytes.

use crate::last;

pub(crate) const ATOM: usize = 3;

/// The bytes behind a bitmap that may be read and written, and mean nothing.
pub(crate) const SLACK: usize = 64;

#[derive(Debug)]
pub(crate) struct Layout {
    /// The bytes of all bitmaps of a level whose bounds are smaller than the index.
    before: Vec<Vec<usize>>,
}

impl Layout {
    pub(crate) fn new(rows: usize, columns: usize) -> Layout {
        let mut sizes: Vec<usize> = (0..=columns).map(|x| last::bits(x).div_ceil(8)).collect();
        let mut before = vec![Vec::new(); ATOM];
        for _ in ATOM..=rows {
            let mut sums = vec![0_usize];
            for size in &sizes {
                sums.push(sums[sums.len() - 1].saturating_add(*size));
            }
            sizes = sums[1..].to_vec();
            before.push(sums);
        }
        Layout { before }
    }

    /// The bytes of a bitmap of a level above that of atoms.
    pub(crate) fn size(&self, level: usize, bound: usize) -> usize {
        self.start(level, bound + 1)
    }

    /// Where in it those sequences are that begin with `first`.
    pub(crate) fn start(&self, level: usize, first: usize) -> usize {
        self.before[level - 1][first]
    }

    /// An empty bitmap of bound 0.
    pub(crate) fn empty() -> Vec<u8> {
        vec![0; 1 + SLACK]
    }

    /// `bytes` have, from `at` on, S of all tails of `bound`. Adds those of `bound` + 1: S of the tail cut to `bound`.
    pub(crate) fn grow(&self, bytes: &mut [u8], at: usize, level: usize, bound: usize) {
        if level == ATOM {
            return last::grow(&mut bytes[at..], bound);
        }
        let (from, to) = (at + self.start(level, bound), at + self.size(level, bound));
        bytes.copy_within(from..to, to);
        self.grow(bytes, to, level - 1, bound);
    }

    pub(crate) fn grown(&self, bitmap: &[u8], level: usize, bound: usize) -> Vec<u8> {
        let (size, larger) = (self.size(level, bound), self.size(level, bound + 1));
        let mut bytes = Vec::with_capacity(larger + SLACK);
        bytes.extend_from_slice(&bitmap[..size]);
        bytes.resize(larger + SLACK, 0);
        self.grow(&mut bytes, 0, level, bound);
        bytes
    }
}
