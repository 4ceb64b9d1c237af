//! The state and content of one unit, be it a range or a shard.

use chomp_table::{Digest, RangeSummary};

use super::ids::SubmissionId;

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

/// How an attempt at a unit failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailedAttempt {
    /// The lease was not renewed in time.
    Expired,
    /// The worker said that it failed, or sent a bad result.
    Failed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) state: UnitState,
    expiries: u32,
    failures: u32,
}

impl Slot {
    pub(super) const fn new(state: UnitState) -> Slot {
        Slot {
            state,
            expiries: 0,
            failures: 0,
        }
    }

    /// The number of attempts that failed.
    pub(super) fn failed_attempts(&self) -> u32 {
        self.expiries.saturating_add(self.failures)
    }

    /// Counts one more failed attempt, and returns the number of those that failed in the same way.
    pub(super) fn count_failed_attempt(&mut self, how: FailedAttempt) -> u32 {
        let count = match how {
            FailedAttempt::Expired => &mut self.expiries,
            FailedAttempt::Failed => &mut self.failures,
        };
        *count = count.saturating_add(1);
        *count
    }
}
