use chomp_table::digest::{Digest, DigestBuilder};
use serde::{Deserialize, Serialize};

use crate::bounds::Bounds;
use crate::tally::{FirstMove, RowPair};

/// The counts, digests and winning first moves of all positions up to some number of columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoxSummary {
    /// The most rows of a position.
    pub rows: usize,
    /// Index n, then m: the losing positions with a first row of n cells and exactly m rows.
    counts: Vec<Vec<u64>>,
    /// Index n: the digest of the losing positions of at most n columns.
    pub digests: Vec<Digest>,
    /// The winning first moves, ascending.
    cuts: Vec<FirstMove>,
}

impl BoxSummary {
    pub(crate) fn new(bounds: &Bounds) -> BoxSummary {
        BoxSummary {
            rows: bounds.rows(),
            counts: vec![vec![0; bounds.rows() + 1]],
            digests: vec![Digest::default()],
            cuts: Vec::new(),
        }
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.counts.len() - 1
    }

    /// Adds one more column: a pair for each second row, but for those without a losing position.
    pub(crate) fn add(&mut self, pairs: &[&RowPair]) {
        let columns = self.counts.len();
        let mut counts = vec![0; self.rows + 1];
        let mut hash = DigestBuilder::default();
        hash.push(&self.digests[columns - 1].0);
        for second in 0..=columns {
            let pair = pairs.iter().find(|pair| pair.second == second);
            hash.push(&pair.map_or_else(|| Digest::of(&[]), |pair| pair.digest).0);
        }
        for pair in pairs {
            assert_eq!(pair.first, columns, "columns come one after the other");
            counts
                .iter_mut()
                .zip(&pair.by_rows)
                .for_each(|(all, n)| *all += n);
            self.cuts.extend(&pair.cuts);
        }
        self.cuts.sort_unstable();
        self.counts.push(counts);
        self.digests.push(hash.finish());
    }

    /// The number of losing positions of at most `rows` rows and `columns` columns.
    pub fn losing(&self, rows: usize, columns: usize) -> u64 {
        let exact = self.counts[..=columns]
            .iter()
            .flat_map(|counts| &counts[..=rows]);
        exact.sum()
    }

    /// The winning first moves of a rectangle: the cells that are taken, (row, column), counted from 1.
    pub fn opening(&self, rows: usize, columns: usize) -> Vec<(u32, u32)> {
        let of_it =
            |cut: &&FirstMove| (usize::from(cut.rows), usize::from(cut.columns)) == (rows, columns);
        let cuts = self.cuts.iter().filter(of_it);
        let mut moves: Vec<_> = cuts
            .map(|cut| (cut.row.into(), cut.column.into()))
            .collect();
        // All but the first column, or all but the first row.
        match (rows, columns) {
            (1, 2..) => moves.push((1, 2)),
            (2.., 1) => moves.push((2, 1)),
            _ => {}
        }
        moves
    }
}
