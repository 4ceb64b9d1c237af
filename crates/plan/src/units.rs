//! All units of a job, be it ranges or shards: their states and contents, and where they stand in the order of work.

use chomp_table::{Digest, Head, RangeSummary};

use super::ids::{SubmissionId, Unit};
use super::messages::Loss;
use super::ranges::RangeStates;
use super::shards::ShardStates;

/// The layer of shards: above all layers of ranges.
pub(super) const SHARDS: u32 = u32::MAX - 1;

/// Where a head is kept: heads of a table are the numbers from 0.
pub(crate) fn index(head: Head) -> usize {
    usize::try_from(head.0).expect("a head of the table, of at most HEAD_BITS_MAX bits")
}

/// Where a unit stands in the order of work: low layers first, and shards last.
pub(super) type Priority = (u32, u64);

pub(super) fn priority(unit: Unit) -> Priority {
    match unit {
        Unit::Range(head) => (head.layer(), head.0),
        Unit::Shard(number) => (SHARDS, number.into()),
    }
}

pub(super) fn unit_at((layer, number): Priority) -> Unit {
    if layer == SHARDS {
        Unit::Shard(u32::try_from(number).expect("made of a shard's number"))
    } else {
        Unit::Range(Head(number))
    }
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
    expiries: u32,
    /// Workers that said that they failed, or sent a bad result.
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
}

/// All units of a job.
#[derive(Debug)]
pub(super) struct Units {
    pub(super) ranges: RangeStates,
    pub(super) shards: ShardStates,
}

impl Units {
    fn slot(&self, unit: Unit) -> &Slot {
        match unit {
            Unit::Range(head) => self.ranges.slot(head),
            Unit::Shard(number) => self.shards.slot(number),
        }
    }

    fn slot_mut(&mut self, unit: Unit) -> &mut Slot {
        match unit {
            Unit::Range(head) => self.ranges.slot_mut(head),
            Unit::Shard(number) => self.shards.slot_mut(number),
        }
    }

    pub(super) fn contains(&self, unit: Unit) -> bool {
        match unit {
            Unit::Range(head) => self.ranges.contains(head),
            Unit::Shard(number) => self.shards.contains(number),
        }
    }

    pub(super) fn state(&self, unit: Unit) -> UnitState {
        self.slot(unit).state
    }

    pub(super) fn set_state(&mut self, unit: Unit, state: UnitState) {
        self.slot_mut(unit).state = state;
    }

    /// The number of attempts at this unit that failed.
    pub(super) fn failed_attempts(&self, unit: Unit) -> u32 {
        let slot = self.slot(unit);
        slot.expiries.saturating_add(slot.failures)
    }

    /// Counts one more failed attempt, and returns the number of those that failed in the same way.
    pub(super) fn count_failed_attempt(&mut self, unit: Unit, how: &Loss) -> u32 {
        let slot = self.slot_mut(unit);
        let count = match how {
            Loss::Expired { .. } => &mut slot.expiries,
            Loss::Failed { .. } | Loss::Rejected { .. } => &mut slot.failures,
        };
        *count = count.saturating_add(1);
        *count
    }

    /// Whether everything that the unit draws on is committed.
    pub(super) fn is_ready(&self, unit: Unit) -> bool {
        match unit {
            Unit::Range(head) => self.ranges.is_ready(head),
            Unit::Shard(_) => self.ranges.is_complete(),
        }
    }
}
