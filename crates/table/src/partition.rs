//! Positions by area: the partitions of n, in the order of their rows, and the number of each in that order.
//!
//! A position of n tiles is a partition of n, its rows λ1 ≥ λ2 ≥ …. **Order**: partitions of the same n ascend
//! lexicographically, so 1,1,…,1 is first and the row n is last. The **rank** of one is the number of those before it.
//!
//! # Rank and unrank
//!
//! Let p(m, k) be the number of partitions of m whose parts are at most k. It is p(m, k−1), for those without a part k,
//! plus p(m−k, k), for those with one. Partitions of m whose first row is at most k come before all others, so they are
//! the first p(m, k). A partition is before λ if it agrees with λ in the rows before some row i and has a shorter row
//! i: then its rows from i on are any partition of mi = n − λ1 − … − λ(i−1) with parts at most λi − 1. (These are at
//! most λ(i−1), so the rows still do not rise.) Each such partition has exactly one i, therefore
//!
//! ```text
//! rank(λ) = Σ p(mi, λi − 1) over the rows i
//! ```
//!
//! Backwards: the terms after row i count partitions of mi that begin with λi, so they add up to less than p(mi, λi) −
//! p(mi, λi − 1). So λi is the only x with p(mi, x − 1) ≤ r < p(mi, x), where r is what is left of the rank.
//!
//! # Blocks
//!
//! By the same argument, the partitions that begin with the rows α and go on with rows of at most t cells, t at most
//! the last of α, have consecutive ranks, in the order of the rows after α. The evaluation of Grundy values uses this.
//!
//! # Mirror images
//!
//! The mirror image of a partition, its conjugate, has as many rows as the other has columns. The **representative** of
//! a mirror pair is the one with the lower rank, which is the one that is first in the order.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::cell::Cell;
use crate::position::{PositionError, TooManyTiles, check_order, rows_of, write_rows};

/// The most tiles of a partition here: p(120) is 1,844,349,560.
pub const AREA_MAX: u32 = 120;
const LIMIT: usize = AREA_MAX as usize + 1;

/// Row k holds p(m, k) for all m.
static WITHIN: [[u64; LIMIT]; LIMIT] = {
    let mut within = [[0; LIMIT]; LIMIT];
    let mut largest = 0;
    while largest < LIMIT {
        within[largest][0] = 1;
        let mut area = 1;
        while area < LIMIT && largest > 0 {
            within[largest][area] = within[largest - 1][area];
            if area >= largest {
                within[largest][area] += within[largest][area - largest];
            }
            area += 1;
        }
        largest += 1;
    }
    within
};

/// The number of partitions of `area`. Panics if `area` is more than [`AREA_MAX`], as all functions here.
pub fn count(area: u32) -> u64 {
    count_within(area, area)
}

/// The number of partitions of `area` with parts of at most `largest`.
pub fn count_within(area: u32, largest: u32) -> u64 {
    counts_within(largest.min(area) as usize)[area as usize]
}

/// The numbers of partitions with parts of at most `largest`, by area from 0 on.
pub const fn counts_within(largest: usize) -> &'static [u64; LIMIT] {
    &WITHIN[largest]
}

/// The number of mirror pairs: half of all partitions, and half of the partitions that are their own mirror image.
/// There are as many of these as partitions into different odd parts: each part, folded in the middle, is a hook.
pub fn count_representatives(area: u32) -> u64 {
    let mut symmetric = [0; LIMIT];
    symmetric[0] = 1;
    for part in (1..LIMIT).step_by(2) {
        for area in (part..LIMIT).rev() {
            symmetric[area] += symmetric[area - part];
        }
    }
    u64::midpoint(count(area), symmetric[area as usize])
}

/// A position of at most [`AREA_MAX`] tiles as a partition: its rows, longest first. Unlike a
/// [`Position`](crate::Position), it may have more than 64 bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    rows: Vec<u32>,
}

impl Partition {
    /// The partition with these rows; none if they rise, one is 0, or they have too many tiles.
    pub fn new(rows: Vec<u32>) -> Option<Partition> {
        let area = rows
            .iter()
            .try_fold(0u32, |area, &row| area.checked_add(row))?;
        let falls = rows.is_sorted_by(|one, next| one >= next) && rows.last() != Some(&0);
        (falls && area <= AREA_MAX).then_some(Partition { rows })
    }

    /// The first partition of `area`: a column.
    pub fn first(area: u32) -> Partition {
        assert!(area <= AREA_MAX, "at most {AREA_MAX} tiles");
        let rows = vec![1; area as usize];
        Partition { rows }
    }

    /// The partition of `area` with this rank. Panics if `area` has at most `rank` partitions.
    pub fn at(area: u32, rank: u64) -> Partition {
        assert!(rank < count(area), "{area} tiles have no rank {rank}");
        let (mut area, mut left) = (area, rank);
        let mut rows = Vec::new();
        while area > 0 {
            let row = (1..=area).find(|&row| left < count_within(area, row));
            let row = row.expect("the rank is that of a partition");
            left -= count_within(area, row - 1);
            area -= row;
            rows.push(row);
        }
        Partition { rows }
    }

    /// The lengths of the rows, longest first.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The number of tiles.
    pub fn area(&self) -> u32 {
        self.rows.iter().sum()
    }

    /// How many partitions of the same area come before this one.
    pub fn rank(&self) -> u64 {
        let before = self.rows.iter().scan(self.area(), |area, &row| {
            let before = count_within(*area, row - 1);
            *area -= row;
            Some(before)
        });
        before.sum()
    }

    /// Becomes the next partition of the same area; false, and nothing changes, if this is the last. The next one
    /// agrees in as many rows as it can. A row can grow if the row above is longer and there is something below to take
    /// a tile from; the lowest such row grows by one, and what is left below it becomes a column.
    pub fn advance(&mut self) -> bool {
        let Some(mut below) = self.rows.pop() else {
            return false;
        };
        while let Some(row) = self.rows.pop() {
            if self.rows.last().is_none_or(|&above| above > row) {
                self.rows.push(row + 1);
                let ones = self.rows.len() + below as usize - 1;
                self.rows.resize(ones, 1);
                return true;
            }
            below += row;
        }
        self.rows.push(below);
        false
    }

    /// The mirror image: the lengths of the columns.
    pub fn mirror(&self) -> Partition {
        let rows = self.columns().collect();
        Partition { rows }
    }

    fn columns(&self) -> impl Iterator<Item = u32> {
        let mut rows = &self.rows[..];
        (1..=self.rows.first().copied().unwrap_or(0)).map(move |column| {
            while let [above @ .., row] = rows
                && *row < column
            {
                rows = above;
            }
            u32::try_from(rows.len()).expect("at most 120 rows")
        })
    }

    /// The moves, by row, then by column, and what they leave. The poison is not taken.
    pub fn moves(&self) -> impl Iterator<Item = (Cell, Partition)> + '_ {
        (0..).zip(&self.rows).flat_map(move |(above, &length)| {
            let first = u32::from(above == 0);
            (first..length).map(move |kept| self.cut(above, kept))
        })
    }

    /// The move that leaves the first `above` rows as they are, and at most `kept` cells of each row after them.
    fn cut(&self, above: usize, kept: u32) -> (Cell, Partition) {
        let mut rows = self.rows.clone();
        for row in &mut rows[above..] {
            *row = (*row).min(kept);
        }
        if kept == 0 {
            rows.truncate(above);
        }
        let row = u32::try_from(above).expect("at most 120 rows") + 1;
        let column = kept + 1;
        (Cell { row, column }, Partition { rows })
    }

    /// Whether this one of the mirror pair is the representative.
    pub fn is_representative(&self) -> bool {
        self.stands_for() > 0
    }

    /// The number of positions that this one stands for: 2 for the representative of a pair, 1 for a position that is
    /// its own mirror image, and 0 for any other position.
    pub fn stands_for(&self) -> u64 {
        match self.rows.iter().copied().cmp(self.columns()) {
            Ordering::Less => 2,
            Ordering::Equal => 1,
            Ordering::Greater => 0,
        }
    }

    /// The representative of the mirror pair.
    pub fn representative(self) -> Partition {
        if self.is_representative() {
            self
        } else {
            self.mirror()
        }
    }
}

/// The partitions of an area from a rank on, as an iterator over the results of [`Partition::stands_for`]. A step leads
/// to the same partition as [`Partition::advance`]. It does not list the rows of one tile, but counts them: most steps
/// turn two of them into a row of two tiles, and change nothing else.
#[derive(Debug)]
pub(crate) struct Walk {
    /// The rows of more than one tile, longest first.
    rows: Vec<u32>,
    ones: u32,
    is_over: bool,
}

impl Walk {
    pub(crate) fn from(area: u32, rank: u64) -> Walk {
        let mut rows = Partition::at(area, rank).rows;
        let long = rows.partition_point(|&row| row > 1);
        let ones = u32::try_from(rows.len() - long).expect("at most 120 rows");
        rows.truncate(long);
        Walk {
            rows,
            ones,
            is_over: false,
        }
    }

    fn stands_for(&self) -> u64 {
        let of_ones = self.ones.min(1);
        let longest = self.rows.first().copied().unwrap_or(of_ones);
        match (longest as usize).cmp(&(self.rows.len() + self.ones as usize)) {
            Ordering::Less => 2,
            Ordering::Greater => 0,
            // The sides are equal, so the other rows decide.
            Ordering::Equal => {
                let ones = std::iter::repeat_n(1, self.ones as usize);
                let rows = self.rows.iter().copied().chain(ones).collect();
                Partition { rows }.stands_for()
            }
        }
    }

    fn advance(&mut self) {
        if self.ones >= 2 {
            self.rows.push(2);
            self.ones -= 2;
            return;
        }
        while let Some(row) = self.rows.pop() {
            if self.ones > 0 && self.rows.last().is_none_or(|&above| above > row) {
                self.rows.push(row + 1);
                self.ones -= 1;
                return;
            }
            self.ones += row;
        }
        self.is_over = true;
    }
}

impl Iterator for Walk {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        (!self.is_over).then(|| {
            let positions = self.stands_for();
            self.advance();
            positions
        })
    }
}

impl FromStr for Partition {
    type Err = PositionError;

    /// The text forms are those of a [`Position`](crate::Position).
    fn from_str(text: &str) -> Result<Partition, PositionError> {
        let rows = rows_of(text, |rows, columns| {
            let fits = rows as u64 * u64::from(columns) <= u64::from(AREA_MAX);
            if fits {
                Ok(())
            } else {
                Err(TooManyTiles(AREA_MAX).into())
            }
        })?;
        check_order(&rows)?;
        Ok(Partition::new(rows).ok_or(TooManyTiles(AREA_MAX))?)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_rows(&self.rows, f)
    }
}

#[cfg(test)]
mod tests;
