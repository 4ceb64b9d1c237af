//! The parts of tables of losing Chomp positions and of Grundy values, and the readers that answer from them.
//!
//! | module | holds |
//! |---|---|
//! | [`word`], [`position`] | the two ways to write a position, its moves, its mirror image |
//! | [`partition`] | positions by area: their ranks, and which of a mirror pair is kept |
//! | [`head`], [`sources`] | ranges, layers, and which ranges a range depends on |
//! | [`digest`], [`format`](mod@format) | SHA-256 digests; why bytes are refused |
//! | [`gaps`], [`classes`], [`range`], [`shard`], [`manifest`] | the bytes, as `docs/FORMAT.md` describes them |
//! | [`values`] | the same for tables of Grundy values: bytes, manifest, reader |
//! | [`rng`] | numbers that look random and are the same for everybody |
//! | [`fingerprint`], [`known`] | the number that names a table's content; the published ones |
//! | [`reader`] | opens a published table and looks positions up |
//!
//! # What always holds
//!
//! * No network, no threads, no clock, no async.
//! * A module that defines bytes starts with their layout, limits and version history.
//! * Bytes from outside give a value or an error, never a panic, and take no more memory than the
//!   stated limit. Nothing is used before its digest was checked.
//! * Forms are canonical. A range has one record, a list of numbers one gap block and one class
//!   block, and a table one fingerprint, so equality of digests is equality of content.
//!
//! To use a table:
//!
//! ```
//! use std::path::Path;
//!
//! use chomp_table::{Position, Table, Word};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = Path::new("chomp-table");
//! # let directory = tempfile::tempdir()?;
//! # let path = &chomp_testing::tables::publish(directory.path(), 16, chomp_testing::tables::SMALL);
//! let table = Table::open(path)?;
//!
//! // Rows, longest first. The mirror image has another word and the same answer.
//! let position: Position = "3,1,1".parse()?;
//! let word = Word::from(&position);
//! assert!(table.is_losing(word)?);
//! assert!(table.is_losing(word.mirror())?);
//!
//! // A move that leaves a losing position wins.
//! let board: Position = "4x5".parse()?;
//! let mut winning = Vec::new();
//! for (cell, left) in Word::from(&board).moves() {
//!     if table.is_losing(left)? {
//!         winning.push((cell.row, cell.column, Position::from(left).to_string()));
//!     }
//! }
//! assert_eq!(winning, [(3, 3, "5,5,2,2".to_owned())]);
//!
//! // All words: one of each mirror pair, ascending, in pieces that were checked.
//! let mut stored = 0;
//! for piece in table.words() {
//!     stored += piece?.len() as u64;
//! }
//! assert_eq!(stored, table.manifest().stored);
//! # Ok(())
//! # }
//! ```
//!
//! `examples/lookup.rs` is a program that does this.

mod cell;
pub mod classes;
pub mod digest;
pub mod fingerprint;
pub mod format;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod gaps;
pub mod head;
pub mod known;
pub mod manifest;
pub mod partition;
pub mod position;
pub mod range;
pub mod reader;
pub mod rng;
pub mod shard;
pub mod sources;
pub mod values;
pub mod word;

pub use cell::Cell;
pub use digest::Digest;
pub use head::{Head, RangeBits};
pub use partition::Partition;
pub use position::Position;
pub use range::{Range, RangeSummary};
pub use reader::{ShardFile, Table, TableError};
pub use values::ValuesManifest;
pub use word::Word;
