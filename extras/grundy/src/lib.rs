//! Builds tables of Grundy values: the value of every position up to a number of tiles, in one process.
//!
//! All values are in memory, a byte a position. Threads share the [evaluation](chomp_kernel::grundy) of one area after
//! the other, as a move leads to fewer tiles; one first writes the file of the area before. Then they write the shards.
//!
//! # What a crash can do
//!
//! Cost the area at hand. [`area_file`] has the bytes of the file of an area, which has its name only when it is whole
//! and durable. The next run reads those that are there. One that is damaged, or that another user wrote, is named, and
//! computed again. The shards of the table are written beside them, and the manifest last; then the files of areas go.

mod area_file;
mod build;

pub use area_file::{FOLDER, areas_done, remove_areas};
pub use build::{BuildError, BuildWatch, Builder, Built, memory_bytes};
