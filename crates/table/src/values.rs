//! Tables of Grundy values: the value of every position up to some number of tiles.
//!
//! The value of a position is the least number that no move leads to. The poisoned cell is never taken, so the single
//! cell has value 0; where the corner may be taken too, as in sums of games, the value is one more. A position of n
//! tiles has a value below n. Positions are numbered by area and [rank](crate::partition).
//!
//! | module | holds |
//! |---|---|
//! | [`shard`] | those of a published table, one of each mirror pair |
//! | [`manifest`] | what a published table is, its counts and its fingerprint |
//! | [`reader`] | opens a published table and looks positions up |

pub mod manifest;
pub mod reader;
pub mod shard;

pub use manifest::ValuesManifest;
pub use reader::Values;

#[cfg(test)]
mod tests;
