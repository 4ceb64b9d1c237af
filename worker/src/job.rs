//! The coordinator's description of its job.

use std::time::Duration;

use chomp_table::RangeBits;

/// The job, as the coordinator describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDescription {
    /// The bits of the table.
    pub bits: u32,
    /// The kind of the table, and how it is cut into ranges.
    pub range_bits: RangeBits,
    /// Names the table.
    pub table: u64,
    /// How long a lease lasts unless renewed.
    pub lease: Duration,
    /// Where the store is; empty if only the coordinator reaches it.
    pub store: String,
    /// A checkpoint of the journal to begin with, if there is one.
    pub checkpoint: Option<u64>,
    /// The segment of the journal with which the coordinator took the table over.
    pub epoch: u64,
}
