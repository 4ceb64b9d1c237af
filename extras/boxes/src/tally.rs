//! Counts, digests and winning first moves of the losing positions that begin with the same two rows.

use chomp_table::digest::{Digest, DigestBuilder};
use serde::{Deserialize, Serialize};

use crate::bounds::{Bounds, ROWS_MAX};

/// How many ranks are hashed at a time.
const RANKS: usize = 4096;

/// A winning first move of a rectangle of `rows` and `columns`, by its cell, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct FirstMove {
    pub(crate) rows: u8,
    pub(crate) columns: u8,
    pub(crate) row: u8,
    pub(crate) column: u8,
}

impl FirstMove {
    /// The first move that leads to this position from a rectangle with the same first row and as many rows.
    pub(crate) fn leading_to(position: &[u8]) -> Option<FirstMove> {
        let rows = position.iter().take_while(|&&r| r > 0).count();
        let (columns, shorter) = (*position.first()?, *position[..rows].last()?);
        let whole = position.iter().take_while(|&&r| r == columns).count();
        let is_cut = whole < rows && position[whole..rows].iter().all(|&r| r == shorter);
        let number = |n: usize| u8::try_from(n).expect("at most 32 rows");
        is_cut.then(|| FirstMove {
            rows: number(rows),
            columns,
            row: number(whole + 1),
            column: shorter + 1,
        })
    }

    /// Whether the first rows may be those of such a position.
    pub(crate) fn may_lead_to(first: &[u8]) -> bool {
        let mut lengths = first.to_vec();
        lengths.dedup();
        lengths.len() < 3 || lengths.len() == 3 && lengths[2] == 0
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct RowPair {
    pub(crate) first: usize,
    pub(crate) second: usize,
    /// At index m: how many of them have m rows.
    pub(crate) by_rows: Vec<u64>,
    pub(crate) cuts: Vec<FirstMove>,
    pub(crate) digest: Digest,
    /// Their ranks, ascending.
    #[cfg(test)]
    pub(crate) ranks: Vec<u64>,
}

/// Takes losing positions, ascending.
pub(crate) struct Tally<'a> {
    bounds: &'a Bounds,
    ranks: Vec<u64>,
    bytes: Vec<u8>,
    hash: DigestBuilder,
    open: RowPair,
    pairs: Vec<RowPair>,
}

impl<'a> Tally<'a> {
    pub(crate) fn new(bounds: &'a Bounds) -> Tally<'a> {
        Tally {
            bounds,
            ranks: Vec::with_capacity(RANKS),
            bytes: Vec::with_capacity(RANKS * 8),
            hash: DigestBuilder::default(),
            open: RowPair::default(),
            pairs: Vec::new(),
        }
    }

    /// From now on positions begin with these two rows.
    pub(crate) fn begin(&mut self, first: usize, second: usize) {
        if (self.open.first, self.open.second) != (first, second) {
            self.flush();
            self.open.digest = std::mem::take(&mut self.hash).finish();
            let next = RowPair {
                first,
                second,
                by_rows: vec![0; ROWS_MAX + 1],
                ..RowPair::default()
            };
            self.pairs.push(std::mem::replace(&mut self.open, next));
        }
    }

    pub(crate) fn extend(&mut self, ranks: impl Iterator<Item = u64>) {
        self.ranks.extend(ranks);
        if self.ranks.len() >= RANKS {
            self.flush();
        }
    }

    /// Counts positions with `rows` rows. Their ranks are added by [`extend`](Tally::extend).
    pub(crate) fn count(&mut self, rows: usize, positions: u64) {
        self.open.by_rows[rows] += positions;
    }

    pub(crate) fn look_at(&mut self, position: &[u8]) {
        self.open.cuts.extend(FirstMove::leading_to(position));
    }

    pub(crate) fn take(&mut self, position: &[u8]) {
        let second = position.get(1).copied().unwrap_or(0);
        self.begin(position[0].into(), second.into());
        self.count(position.iter().filter(|&&r| r > 0).count(), 1);
        self.look_at(position);
        let rank = self.bounds.rank(position);
        self.extend(std::iter::once(rank));
    }

    fn flush(&mut self) {
        #[cfg(test)]
        self.open.ranks.extend(&self.ranks);
        self.bytes.clear();
        let words = self.ranks.drain(..).map(u64::to_le_bytes);
        words.for_each(|word| self.bytes.extend_from_slice(&word));
        self.hash.push(&self.bytes);
    }

    /// The pairs of rows since the last call that have a position.
    pub(crate) fn pairs(&mut self) -> Vec<RowPair> {
        // No position begins with such rows.
        self.begin(0, 1);
        let pairs = std::mem::take(&mut self.pairs).into_iter();
        pairs
            .filter(|pair| pair.by_rows.iter().any(|&n| n > 0))
            .collect()
    }
}
