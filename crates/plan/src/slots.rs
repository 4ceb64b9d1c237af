//! The state and content of one unit, be it a range or a shard.

use chomp_table::{Digest, Head, RangeSummary};

use super::ids::SubmissionId;

/// Where a head is kept: heads of a table are the numbers from 0.
pub(crate) fn index(head: Head) -> usize {
    usize::try_from(head.0).expect("a head of the table, of at most HEAD_BITS_MAX bits")
}

/// The content of a unit. A worker tells the counts of a range as it tells the digest, so all three have to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitContent {
    pub(super) count: u64,
    pub(super) stored: u64,
    pub(super) digest: Digest,
}

impl UnitContent {
    pub(super) fn of_range(summary: RangeSummary) -> UnitContent {
        UnitContent {
            count: summary.count,
            stored: summary.stored,
            digest: summary.digest,
        }
    }

    pub(super) fn of_shard(digest: Digest) -> UnitContent {
        UnitContent {
            count: 0,
            stored: 0,
            digest,
        }
    }
}

/// How far a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitState {
    /// Some of its sources are not committed.
    Blocked,
    /// It may be computed.
    Ready,
    /// It is being written.
    Committing(SubmissionId),
    /// It is durable.
    Committed,
}

/// The state of a unit, and how many attempts at it failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) state: UnitState,
    /// Leases that were not renewed in time.
    pub(super) expiries: u32,
    /// Workers that said that they failed, or sent a bad result.
    pub(super) failures: u32,
}

impl Slot {
    pub(super) const fn new(state: UnitState) -> Slot {
        Slot {
            state,
            expiries: 0,
            failures: 0,
        }
    }
}
