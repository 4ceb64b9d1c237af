//! Proofs that a first move wins, which can be checked without a table.
//!
//! A set of positions is **closed** if after every move from one of them, but the one that takes the poison, some reply
//! leads into the set again. The player to move from a position of the set loses (`check` has the proof). A closed set
//! with the position that a first move leaves is a proof that this move wins: its **certificate**. A mirror image
//! stands for its position.
//!
//! A closed set has losing positions only, so it is a part of the table. The search begins with the position that the
//! first move leaves. If only one reply to a move from the set leads to a losing position, this position joins the set.
//! Positions that join in this way are **necessary**: every certificate of the first move has them, so no certificate
//! is smaller than their number. Moves with several losing replies come after that, from the largest position down. If
//! no reply leads into the set by then, the losing position with the fewest cells joins, and with it all positions that
//! become necessary.
//!
//! | module | holds |
//! |---|---|
//! | `check` | the check, which is all that has to be believed |
//! | `text` | certificates as text |
//! | `find` | the search in a table |

use std::io;
use std::ops::ControlFlow;

use chomp_table::{Cell, Position, Word};

mod check;
mod find;
#[cfg(test)]
mod tests;
mod text;

pub use find::{Found, Search};

use check::Unproved;

/// A board, a first move, and a set of positions that is to be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The rows and columns of the board.
    pub board: (u32, u32),
    /// The first move.
    pub opening: Cell,
    /// The positions, which are inside the board: of a mirror pair one.
    pub positions: Vec<Word>,
    /// The number of lines before the first position in the text.
    lines_before: u64,
}

/// Why there is no certificate, or it proves nothing.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum CertificateError {
    #[error("{opening} is no first move of {}x{} that leaves the poison", .board.0, .board.1)]
    NoMove { board: (u32, u32), opening: Cell },
    #[error("the position that the first move leaves, {0}, is not among the positions")]
    NoStart(Position),
    #[error("line {line}: {what}")]
    Line {
        /// Counted from 1.
        line: u64,
        what: String,
    },
    /// The table says of some positions what contradicts the rest.
    #[error("{0}")]
    Contradiction(String),
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// `watch` ended the search or the check.
    #[error("stopped")]
    Stopped,
}

impl Certificate {
    /// Checks that the certificate proves its claim, from the rules of the game alone. `watch` gets the part that is
    /// done, and says whether to go on. Fails if the certificate proves nothing, or if `watch` ends the check.
    pub fn check(
        &self,
        watch: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<(), CertificateError> {
        let (board, opening) = (self.board, self.opening);
        let checked = check::check(board, opening, &self.positions, watch);
        let at = |index: usize, what: String| CertificateError::Line {
            line: self.lines_before + index as u64 + 1,
            what,
        };
        checked.map_err(|unproved| match unproved {
            Unproved::NoMove => CertificateError::NoMove { board, opening },
            Unproved::NoStart(first) => CertificateError::NoStart(first.into()),
            Unproved::Empty(index) => at(index, "the position has no cells".to_owned()),
            Unproved::Open(index, cell) => {
                let from = Position::from(self.positions[index]);
                let what = format!(
                    "after the move {cell} from {from} no reply leads to one of the positions"
                );
                at(index, what)
            }
            Unproved::Stopped => CertificateError::Stopped,
        })
    }
}
