//! What the plan knows of each unit, be it a range or a shard.

use chomp_table::{Digest, RangeSummary};

use super::ids::SubmissionId;

/// What is in a unit. The counts are those of a range, told by its worker as the digest is, so
/// all three have to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) count: u64,
    pub(super) stored: u64,
    pub(super) digest: Digest,
}

impl Content {
    pub(super) fn of_range(summary: RangeSummary) -> Content {
        Content {
            count: summary.count,
            stored: summary.stored,
            digest: summary.digest,
        }
    }

    pub(super) fn of_shard(digest: Digest) -> Content {
        Content {
            count: 0,
            stored: 0,
            digest,
        }
    }

    #[cfg(test)]
    pub(super) fn summary(self, head: chomp_table::Head) -> RangeSummary {
        RangeSummary {
            head,
            count: self.count,
            stored: self.stored,
            digest: self.digest,
        }
    }
}

/// Where a unit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Some of its sources are not committed.
    Blocked,
    /// It may be computed.
    Ready,
    /// It is being written.
    Committing(SubmissionId),
    /// It is durable.
    Committed,
}

/// How an attempt is lost, as far as its unit is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    Expired,
    Failed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The content: of a committed unit, or of one that is being written; otherwise the one that
    /// is expected, if any is.
    pub(super) known: Option<Content>,
    pub(super) state: State,
    expiries: u32,
    failures: u32,
}

impl Slot {
    pub(super) const fn new(state: State) -> Slot {
        Slot {
            known: None,
            state,
            expiries: 0,
            failures: 0,
        }
    }

    /// How many attempts were lost.
    pub(super) fn lost(&self) -> u32 {
        self.expiries.saturating_add(self.failures)
    }

    /// Counts one more lost attempt, and gives the number of those lost in the same way.
    pub(super) fn lose(&mut self, how: Lost) -> u32 {
        let count = match how {
            Lost::Expired => &mut self.expiries,
            Lost::Failed => &mut self.failures,
        };
        *count = count.saturating_add(1);
        *count
    }
}
