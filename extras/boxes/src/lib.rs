//! All losing positions of at most M rows and C columns, for boards of few rows and many columns.
//!
//! A table of k bits has the boards with rows + columns ≤ k. Here rows and columns have separate limits. So this crate
//! can solve boards of ten rows and sixty columns, which are far outside of any table.
//!
//! # The mathematics
//!
//! A position is (`r_1` ≥ … ≥ `r_M`), `r_1` ≤ C; rows of length 0 are not there. It is **losing** if no move leads to a
//! losing position; the empty one is not. A move in row i to a length c < `r_i` cuts that row and all behind it to c:
//!
//! ```text
//! cut(r, i, c) = (r_1, …, r_(i−1), min(r_i, c), …, min(r_M, c))
//! ```
//!
//! Let `S_i(r)` say whether a move in row i leads from r to a losing position, and `F_i(r)` whether r is losing or
//! `S_i(r)` holds. A position that is not empty is losing exactly if none of `S_1(r)`, …, `S_M(r)` holds. The moves in
//! row i are that to q = cut(r, i, `r_i` − 1) and, as cut(q, i, c) = cut(r, i, c), those that q has in row i. So
//!
//! ```text
//! S_i(r) = F_i(q),   q = cut(r, i, r_i − 1),   and S_i(r) does not hold if r_i = 0
//! ```
//!
//! and each row takes one look, however many cells it has.
//!
//! Go through the positions in lexicographic order. With the rows before i fixed, and `r_i` counted up from 0, `F_i` is
//! kept for one value of `r_i` only: one bit for each **tail** (`r_(i+1)`, …, `r_M`), `r_(i+1)` ≤ `r_i`. Where the tail
//! begins with less than `r_i`, q has the same tail, so the bit is `S_i(r)` already; when r is found to be losing, it
//! is set, and is `F_i(r)`. Where the tail begins with `r_i`, it is new: its bit is that of the tail cut to `r_i` − 1.
//! Such tails are made when `r_i` − 1 is done ([`layout::Layout::grow`]), before anything is set for `r_i`. If the
//! first t numbers of a tail are `r_i`, those of q are `r_i` − 1: in the layout, a few copies of whole stretches.
//!
//! Tails of the same number of rows have the same order for every i, so `S_1`, …, `S_i` of all positions with the same
//! `r_1`, …, `r_i` are i stretches of bits of the same layout. Their union is computed many bytes at a time; what
//! remains is one short chain through the last three rows, and only the positions that no move in another row excludes
//! take part in it ([`last`]). Then the losing positions found are put into all `F_i` at once, in the same way.
//!
//! Of two positions that differ in the last row only, at most one is losing, since the longer one could move to the
//! other. So a board's losing positions are a function of the first M − 1 rows: the losing last row, if there is one.
//!
//! # How it is computed
//!
//! | module | holds |
//! |---|---|
//! | `bounds` | the largest rows and columns, and the ranks of positions |
//! | `layout` | where the bits of tails lie, and how new tails get theirs |
//! | `last` | the last three rows |
//! | `sweep` | goes through the positions that begin with given rows, in one thread |
//! | `tally`, `summary` | counts, digests and winning first moves of losing positions |
//! | `run` | the first rows, one after the other, and the threads |
//! | `scratch` | the interface to a store of the state between two first rows; other crates implement it |
//!
//! Three other families have methods of their own, with their proofs: [`few`] rows to thousands of columns, which
//! `few_tally` counts, `few_queries` asks, and [`periods`] follows without end; [`hooks`], where an opening near the poison wins; and [`space`], boxes of three dimensions.
//!
//! Between two first rows the state is `F_1`, by far the largest bitmap: `binom(C + M − 1, M − 1)` bits, and a tenth
//! more as atoms end at whole bytes. It is read and written once for each first row, in order: see [`Scratch`].
//!
//! # What always holds
//!
//! * No network, files, clock, async; threads in `run`, `few` and `space` only. No algorithm is shared with the kernel.
//! * The result depends on rows and columns alone: not on threads, memory, or where it was interrupted.
//! * A scratch keeps states after whole columns only.

#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths and places within a block are small"
)]

use std::path::PathBuf;

use chomp_durable_files::FileError;

mod bounds;
pub mod few;
mod few_queries;
mod few_tally;
pub mod hooks;
mod last;
mod layout;
pub mod periods;
mod run;
mod scratch;
pub mod space;
mod summary;
mod sweep;
mod tally;
#[cfg(test)]
mod tests;

pub use bounds::{Bounds, COLUMNS_MAX, ROWS_MAX};
pub use few_queries::{FewAnswer, FewQuery, in_order};
pub use few_tally::FewTally;
pub use run::{Control, Memory, Solver};
pub use scratch::{RowReader, RowWriter, Scratch};
pub use summary::BoxSummary;

/// Why boards cannot be solved.
#[expect(missing_docs, reason = "the variants are named for what they are")]
#[derive(Debug, thiserror::Error)]
pub enum ThinError {
    #[error(
        "{rows} rows and {columns} columns are beyond the limits: 1 to {ROWS_MAX} rows, 1 to {COLUMNS_MAX} columns, \
         and 2^60 positions"
    )]
    Size { rows: usize, columns: usize },
    #[error(
        "{} is damaged, or another user or machine wrote it: remove the folder, and begin again", path.display()
    )]
    Damaged { path: PathBuf },
    #[error("the folder has boards of {found} rows: take another one")]
    Rows { found: usize },
    /// The folder belongs to few rows and as many columns as were wanted then.
    #[error("the folder has boards of {rows} rows and {columns} columns: take another one")]
    Few { rows: usize, columns: usize },
    #[error(transparent)]
    File(#[from] FileError),
}
