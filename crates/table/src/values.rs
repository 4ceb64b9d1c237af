//! Tables of Grundy values: the value of every position up to some number of tiles.
//!
//! The value of a position is the least number that no move leads to. The poisoned cell is never taken, so the single
//! cell has value 0. If the poison could be taken, each value would be one more. A position of n tiles has a value
//! below n. Positions are numbered by area and [rank](crate::partition).
//!
//! | module | holds |
//! |---|---|
//! | [`shard`] | the files of a published table: values, one for each mirror pair |
//! | [`manifest`] | what a published table is, its counts and its fingerprint |
//! | [`reader`] | opens a published table and looks positions up |

pub mod manifest;
pub mod reader;
pub mod shard;

pub use manifest::ValuesManifest;
pub use reader::Values;

#[cfg(test)]
mod tests;
