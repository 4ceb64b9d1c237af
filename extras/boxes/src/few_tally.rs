//! Counts, digest and winning first moves of the losing positions of few rows.

use std::collections::BTreeMap;

use chomp_table::digest::{Digest, DigestBuilder};
use serde::{Deserialize, Serialize};

use crate::few::Tail;

/// The counts of losing positions of the third rows so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FewTally {
    rows: usize,
    columns: usize,
    /// Index m, then n: the losing positions of exactly m rows and a first row of n cells.
    counts: Vec<Vec<u64>>,
    /// For a rectangle (rows, columns) its winning first moves (row, column). Those of one row or column are missing.
    openings: Vec<[u32; 4]>,
    digest: Digest,
}

impl FewTally {
    /// An empty tally for boards of at most `rows` rows and `columns` columns.
    pub fn new(rows: usize, columns: usize) -> FewTally {
        FewTally {
            rows,
            columns,
            counts: vec![vec![0; columns + 1]; rows + 1],
            openings: Vec::new(),
            digest: Digest::default(),
        }
    }

    /// The most rows and columns of a position.
    pub fn sides(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// Whether it is of these limits, and its parts fit each other. What was read from a file may not.
    pub fn is_of(&self, rows: usize, columns: usize) -> bool {
        (self.rows, self.columns) == (rows, columns)
            && self.counts.len() == rows + 1
            && self.counts.iter().all(|counts| counts.len() == columns + 1)
    }

    /// Adds the tails of the next third row.
    pub fn add(&mut self, tails: &[Tail]) {
        let mut hash = DigestBuilder::default();
        hash.push(&self.digest.0);
        let mut bytes = Vec::new();
        for tail in tails {
            bytes.clear();
            // Behind the second row.
            let behind = tail.rows.iter().filter(|&&length| length > 0).count();
            for position in tail.positions() {
                let lengths = &position[..self.rows];
                for length in lengths {
                    bytes.extend_from_slice(&length.to_le_bytes());
                }
                let there = if position[1] > 0 { 2 + behind } else { 1 };
                let lengths = &lengths[..there];
                let [first, last] = [position[0], lengths[there - 1]];
                self.counts[there][first as usize] += 1;
                if last < first
                    && lengths
                        .iter()
                        .all(|&length| length == first || length == last)
                {
                    let whole = lengths.partition_point(|&length| length == first);
                    let number = |rows: usize| u32::try_from(rows).expect("few rows");
                    self.openings
                        .push([number(there), first, number(whole) + 1, last + 1]);
                }
            }
            hash.push(&bytes);
        }
        self.digest = hash.finish();
    }

    /// The digest of all losing positions: of each third row, from 0, the SHA-256 of the digest before, and of the
    /// lengths of all rows of its losing positions, in the order of the rows after it and then of the second one, four
    /// bytes each, the first byte the lowest. Before the first there is a digest of zeros.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Index n: the losing positions whose first row has n cells.
    pub fn by_first_row(&self) -> Vec<u64> {
        let of = |first| self.counts.iter().map(|counts| counts[first]).sum();
        (0..=self.columns).map(of).collect()
    }

    /// Index m, then n: the losing positions of at most m rows and n columns.
    pub fn losing(&self) -> Vec<Vec<u64>> {
        let mut sums = self.counts.clone();
        let mut fewer_rows = vec![0; self.columns + 1];
        for of_rows in &mut sums {
            let mut fewer_columns = 0;
            for (count, fewer) in of_rows.iter_mut().zip(&mut fewer_rows) {
                fewer_columns += *count;
                *fewer += fewer_columns;
                *count = *fewer;
            }
        }
        sums
    }

    /// The winning first moves (row, column) of all rectangles (rows, columns), each of which has one but 1x1.
    pub fn openings(&self) -> BTreeMap<(u32, u32), Vec<(u32, u32)>> {
        let [rows, columns] =
            [self.rows, self.columns].map(|n| u32::try_from(n).expect("a length"));
        let boards = (1..=rows).flat_map(|m| (1..=columns).map(move |n| (m, n)));
        let mut openings: BTreeMap<_, _> = boards.map(|board| (board, Vec::new())).collect();
        let alone = |(m, n): (u32, u32)| match (m, n) {
            (1, 2..) => Some((1, 2)),
            (2.., 1) => Some((2, 1)),
            _ => None,
        };
        for (&board, moves) in &mut openings {
            moves.extend(alone(board));
        }
        for &[m, n, row, column] in &self.openings {
            openings.entry((m, n)).or_default().push((row, column));
        }
        for moves in openings.values_mut() {
            moves.sort_unstable();
        }
        openings
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::few::{Few, FewSolver};
    use crate::{Bounds, Solver};

    #[test]
    fn it_says_what_the_solver_of_all_boards_says() {
        for (rows, columns) in [(3, 40), (4, 17), (5, 11)] {
            let mut tally = FewTally::new(rows, columns);
            let mut solver = FewSolver::new(Few::new(&vec![columns; rows]));
            solver.advance(usize::MAX, NonZeroUsize::MIN, |tails, _| {
                tally.add(&tails);
                true
            });
            let bounds = Bounds::new(rows, columns).unwrap();
            let mut other = Solver::new(bounds, NonZeroUsize::MIN, u64::MAX, None).unwrap();
            while !other.is_finished() {
                other.advance(&|_| true).unwrap();
            }
            let (losing, openings) = (tally.losing(), tally.openings());
            for (m, losing) in losing.iter().enumerate().skip(1) {
                for (n, &losing) in losing.iter().enumerate().skip(1) {
                    assert_eq!(losing, other.summary().losing(m, n), "{m}x{n}");
                    let board = (u32::try_from(m).unwrap(), u32::try_from(n).unwrap());
                    assert_eq!(openings[&board], other.summary().opening(m, n), "{m}x{n}");
                }
            }
            assert!(tally.is_of(rows, columns) && !tally.is_of(rows, columns + 1));
        }
    }

    /// Of 3 rows and 3 columns there are few enough losing positions to write them down.
    #[test]
    fn the_digest_is_that_of_the_format() {
        let losing: [&[[u32; 3]]; 4] = [
            &[[1, 0, 0], [2, 1, 0], [3, 2, 0]],
            &[[3, 1, 1], [2, 2, 1]],
            &[],
            &[],
        ];
        let mut expected = Digest::default();
        for of_third in losing {
            let bytes = of_third.as_flattened().iter();
            let bytes: Vec<u8> = bytes.flat_map(|length| length.to_le_bytes()).collect();
            expected = Digest::of_parts(&[&expected.0, &bytes]);
        }
        let mut tally = FewTally::new(3, 3);
        FewSolver::new(Few::new(&[3; 3])).advance(usize::MAX, NonZeroUsize::MIN, |tails, _| {
            tally.add(&tails);
            true
        });
        assert_eq!(tally.digest(), expected);
    }
}
