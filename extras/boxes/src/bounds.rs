//! The largest rows and columns of the boards, and the ranks of their positions.

use crate::ThinError;

/// The most rows.
pub const ROWS_MAX: usize = 32;
/// The most columns.
pub const COLUMNS_MAX: usize = 250;
/// The most positions, so that ranks and sizes fit 64 bits. More positions would take far too long anyway.
const POSITIONS_MAX: u64 = 1 << 60;

/// All positions within some limits of rows and columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    rows: usize,
    columns: usize,
    /// `binomials[k][n]` is binom(n + k − 1, k): the non-increasing sequences of k numbers below n.
    binomials: Vec<Vec<u64>>,
}

impl Bounds {
    /// Fails with [`ThinError::Size`] if `rows` or `columns` is 0 or too large, or if there are too many positions.
    pub fn new(rows: usize, columns: usize) -> Result<Bounds, ThinError> {
        let wrong = ThinError::Size { rows, columns };
        if !(1..=ROWS_MAX).contains(&rows) || !(1..=COLUMNS_MAX).contains(&columns) {
            return Err(wrong);
        }
        let mut binomials = vec![vec![1; columns + 2]];
        for k in 1..=rows {
            let mut row = vec![0_u64; columns + 2];
            for n in 1..columns + 2 {
                row[n] = row[n - 1].saturating_add(binomials[k - 1][n]);
            }
            binomials.push(row);
        }
        if binomials[rows][columns + 1] > POSITIONS_MAX {
            return Err(wrong);
        }
        Ok(Bounds {
            rows,
            columns,
            binomials,
        })
    }

    /// The most rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The most columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The number of positions, the empty one included.
    pub fn positions(&self) -> u64 {
        self.sequences(self.rows, self.columns + 1)
    }

    /// The number of non-increasing sequences of `length` numbers below `below`.
    pub(crate) fn sequences(&self, length: usize, below: usize) -> u64 {
        self.binomials[length][below]
    }

    /// The number of a position in lexicographic order. `rows` has the length of every row, 0 for an empty one.
    pub fn rank(&self, rows: &[u8]) -> u64 {
        assert_eq!(rows.len(), self.rows, "every row has a length");
        let lengths = (1..=self.rows).rev();
        let terms = lengths.zip(rows).map(|(k, &r)| self.sequences(k, r.into()));
        terms.sum()
    }

    /// The lengths of the rows of the position with this rank.
    pub fn position(&self, mut rank: u64) -> Vec<u8> {
        assert!(rank < self.positions(), "there is such a position");
        let row = |k: usize| {
            let found = self.binomials[k].partition_point(|&before| before <= rank) - 1;
            rank -= self.sequences(k, found);
            u8::try_from(found).expect("at most 250 columns")
        };
        (1..=self.rows).rev().map(row).collect()
    }
}
