//! Checks of published tables, by other ways to know which positions are losing.
//!
//! This crate shares no algorithm with the kernel, which computes tables: only what a word is, and how a move sorts its
//! bits. So a mistake of the kernel stays unnoticed only if the same mistake was made here too. A check uses only the
//! stream of a table's words, and where the reader found each word.
//!
//! | module | holds | finds |
//! |---|---|---|
//! | [`folder`] | the two lists of a table, `manifest.json` and `SHA256SUMS`, and the names of its files | missing or changed lists, unknown files |
//! | [`bytes`] | one pass over every byte of a table | changed bytes, a manifest that is not that of its words |
//! | [`linear`] | the SHA-256 of all words, which was published before there were leaves | words that differ from the published ones |
//! | [`marking`] | a second algorithm: the predecessors of losing positions are winning | every wrong word |
//! | [`sample`] | random positions, decided by the definition from what the table says of their moves | errors in a given share of all positions, or of those listed |
//! | [`survey`] | counts of the words, and what is proved about all losing positions | wrong counts, misplaced words |
//! | [`values`] | tables of Grundy values by the definition: all of few tiles, random ones of more | every wrong value, of few tiles; errors in a given share of the others |
//! | [`known`] | results of others, published fingerprints, and the comparison with them | |
//! | [`join`] | which of many positions a table lists, in one pass | |
//! | [`progress`] | how far marking has come, as bytes that a later run reads | |
//! | [`report`] | what was checked, and the results | |
//!
//! A check returns what it saw, or a [`CheckError`]: the first thing that is wrong, with its
//! position. A check that takes long tells a [`Watch`] how far it is, and stops if the `Watch` says so.
//!
//! # What always holds
//!
//! * A check knows nothing of the kernel, of heads, sources or ranges. It knows the words of a table,
//!   and which shard and frame has a word.
//! * This crate writes no file. The bytes of a [`progress`] name the table by its digests and the
//!   program by its version, and have a digest of their own. A check ignores bytes that name another
//!   table or program, or that have changed.
//! * Neither shards nor windows depend on each other: threads of the caller may check many at the same time.
//! * A check reads the table in a known number of passes, in bounded memory.
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
    /// The [`Watch`] stopped the check.
    #[error("stopped before the check was done")]
    Stopped,
}

/// Hears how much of a check is done, from 0 to 1, and says whether to go on.
pub type Watch<'a> = &'a dyn Fn(f64) -> ControlFlow<()>;

/// Lets every check go on to its end.
pub const UNWATCHED: Watch<'static> = &|_| ControlFlow::Continue(());

fn tell(watch: Watch<'_>, done: u64, all: u64) -> Result<(), CheckError> {
    #[expect(clippy::cast_precision_loss, reason = "it is shown to people")]
    let fraction = done as f64 / all.max(1) as f64;
    match watch(fraction) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(CheckError::Stopped),
    }
}

/// Returns [`CheckError::Wrong`] unless `holds`.
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

fn rows_and_columns(word: Word) -> (u32, u32) {
    let columns = word.get().count_ones();
    (word.bits() - columns, columns)
}
