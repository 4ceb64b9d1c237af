//! Other ways to know which positions are losing, to check published tables by.
//!
//! Nothing here evaluates ranges, and nothing is shared with what does: a mistake there would have
//! to be made here a second time, in other words, to stay unnoticed. All that is used of a table
//! is its stream of words, and where the reader found each.
//!
//! | module | holds | finds |
//! |---|---|---|
//! | [`folder`] | the files of a table, and the digests of its two lists | missing files, changed lists |
//! | [`bytes`] | one pass over every byte of a table | changed bytes, a manifest that is not that of its words |
//! | [`linear`] | the fingerprint as it was before version 2 | what was published then |
//! | [`marking`] | a second algorithm: the predecessors of losing positions are winning | every wrong word |
//! | [`sample`] | random positions, decided by the definition from what the table says of their moves | errors in a given share of all positions, or of those listed |
//! | [`survey`] | counts, and holds the words to what is proved about all losing positions | wrong counts, misplaced words |
//! | [`values`] | tables of Grundy values by the definition: all of few tiles, random ones of more | every wrong value, of few tiles; errors in a given share of the others |
//! | [`known`] | results of others, published fingerprints, and the comparison with them | |
//! | [`join`] | which of many positions a table lists, in one pass | |
//! | [`progress`] | how far marking has come, as bytes for another day | |
//! | [`report`] | what was checked and what came of it, for people and programs | |
//!
//! A check returns what it saw, or a [`CheckError`]: the first thing that is wrong, with its
//! position. Checks that take long tell a [`Watch`] how far they are, and stop if it says so.
//!
//! # What always holds
//!
//! * Nothing of the kernel, of heads, sources or ranges: of a table, only the stream of its words,
//!   and which shard and frame has a word.
//! * Nothing is written here. What is kept of a check names the table by its digests and the
//!   program by its version, has a digest of its own, and is not believed otherwise.
//! * A check that takes long tells how far it is and may be stopped. Parts that do not depend on
//!   each other (shards, windows) may be checked by many threads, which are the caller's.
//! * A table is read in one pass, or a known number of passes, in bounded memory.
//! * No network, no threads, no clock, no async.

use std::ops::ControlFlow;

use chomp_table::{Table, TableError, Word};

pub mod bytes;
mod explain;
pub mod folder;
pub mod join;
pub mod known;
pub mod linear;
pub mod marking;
pub mod progress;
pub mod report;
pub mod sample;
pub mod survey;
pub mod values;

/// Why a table did not pass a check.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The table cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The table says something that is false.
    #[error("{0}; whatever made this table computes wrongly: do not use it, and report this")]
    Wrong(String),
    /// Whoever watches the check has stopped it.
    #[error("stopped before the check was done")]
    Stopped,
}

/// Hears how much of a check is done, from 0 to 1, and says whether to go on.
pub type Watch<'a> = &'a dyn Fn(f64) -> ControlFlow<()>;

/// Lets every check go on to its end.
pub const UNWATCHED: Watch<'static> = &|_| ControlFlow::Continue(());

/// Tells `watch` that `done` of `all` is done.
fn tell(watch: Watch<'_>, done: u64, all: u64) -> Result<(), CheckError> {
    #[expect(clippy::cast_precision_loss, reason = "it is shown to people")]
    let part = done as f64 / all.max(1) as f64;
    match watch(part) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(CheckError::Stopped),
    }
}

/// `Wrong`, unless `holds`.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), CheckError> {
    if holds {
        Ok(())
    } else {
        Err(CheckError::Wrong(what()))
    }
}

/// Calls `visit` with the words of the table, ascending, in pieces.
fn each_piece(
    table: &Table,
    watch: Watch<'_>,
    mut visit: impl FnMut(&[u64]) -> Result<(), CheckError>,
) -> Result<(), CheckError> {
    let mut seen = 0;
    for piece in table.words() {
        let piece = piece?;
        visit(&piece)?;
        seen += piece.len() as u64;
        tell(watch, seen, table.manifest().stored)?;
    }
    Ok(())
}

/// Number of rows and of columns of the position of `word`.
fn rows_and_columns(word: Word) -> (u32, u32) {
    let columns = word.get().count_ones();
    (word.bits() - columns, columns)
}
