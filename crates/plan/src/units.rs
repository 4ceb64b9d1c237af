//! All units of a job, be it ranges or shards, and where they stand in the order of work.

use chomp_table::Head;

use super::ids::Unit;
use super::messages::Loss;
use super::ranges::RangeStates;
use super::shards::ShardStates;
use super::slots::{Slot, UnitState};

/// The layer of shards: above all layers of ranges.
pub(super) const SHARDS: u32 = u32::MAX - 1;

/// Where a unit stands in the order of work: low layers first, and shards last. The last shard is the first of these:
/// no source of a range comes after it, so of the records of ranges after a merged shard none is needed any more.
pub(super) type Priority = (u32, u64);

pub(super) fn priority(unit: Unit) -> Priority {
    match unit {
        Unit::Range(head) => (head.layer(), head.0),
        Unit::Shard(number) => (SHARDS, (u32::MAX - number).into()),
    }
}

pub(super) fn unit_at((layer, number): Priority) -> Unit {
    if layer == SHARDS {
        Unit::Shard(u32::MAX - u32::try_from(number).expect("made of a shard's number"))
    } else {
        Unit::Range(Head(number))
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
