//! Other ways to know which positions are losing, to check published tables by.
//!
//! Nothing here evaluates ranges, and nothing is shared with what does: a mistake there would have
//! to be made here a second time, in other words, to stay unnoticed. All that is used of a table
//! is its stream of words.
//!
//! | module | holds | finds |
//! |---|---|---|
//! | [`marking`] | a second algorithm: the predecessors of losing positions are winning | every wrong word |
//! | [`sample`] | random positions, decided by the definition from what the table says of their moves | errors in a given share of all positions |
//! | [`survey`] | one pass that counts, and holds the table to what is proved about all losing positions | wrong counts, misplaced words |
//! | [`catalogue`] | the words of squares in the byte layouts of another program, by their SHA-256 | any difference from what that program found |
//! | [`openings`] | the winning first moves of rectangles | wrong words among what rectangles lead to |
//! | [`known`] | results of others, and the comparison with them | |
//! | [`join`] | which of many positions a table lists, in one pass | |
//!
//! A check returns what it saw, or a [`CheckError`]: the first thing that is wrong, with its
//! position.

use chomp_table::{Position, Table, TableError, Word};

pub mod catalogue;
pub mod join;
pub mod known;
pub mod marking;
pub mod openings;
pub mod sample;
pub mod survey;

/// Why a table did not pass a check.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The table cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The table says something that is false.
    #[error("{0}; whatever made this table computes wrongly: do not use it, and report this")]
    Wrong(String),
}

/// `Wrong`, unless `holds`.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), CheckError> {
    if holds {
        Ok(())
    } else {
        Err(CheckError::Wrong(what()))
    }
}

/// How messages name the position of `word`.
fn name(word: Word) -> String {
    format!(
        "the position {} (word {})",
        Position::from(word),
        word.get()
    )
}

/// Calls `visit` with the words of the table, ascending, in pieces.
fn each_piece(
    table: &Table,
    mut visit: impl FnMut(&[u64]) -> Result<(), CheckError>,
) -> Result<(), CheckError> {
    for piece in table.words() {
        visit(&piece?)?;
    }
    Ok(())
}

/// Number of rows and of columns of the position of `word`.
fn rows_and_columns(word: Word) -> (u32, u32) {
    let columns = word.get().count_ones();
    (word.bits() - columns, columns)
}
