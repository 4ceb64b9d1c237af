//! What the plan knows of each unit, be it a range or a shard.

use chomp_table::{Digest, Division, Head, RangeSummary};

use super::ids::{SubmissionId, Unit};
use super::ranges::Ranges;
use super::shards::Shards;

/// The layer of shards: above all layers of ranges.
pub(super) const SHARDS: u32 = u32::MAX - 1;

/// Where a unit stands in the order of work: low layers first, and shards last.
pub(super) type Place = (u32, u64);

pub(super) fn place(division: Division, unit: Unit) -> Place {
    match unit {
        Unit::Range(head) => (division.layer(head), head.0),
        Unit::Shard(number) => (SHARDS, number.into()),
    }
}

pub(super) fn unit_at((layer, number): Place) -> Unit {
    if layer == SHARDS {
        Unit::Shard(u32::try_from(number).expect("made of a shard's number"))
    } else {
        Unit::Range(Head(number))
    }
}

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
    pub(super) fn summary(self, head: Head) -> RangeSummary {
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
}

/// All units of a job.
#[derive(Debug)]
pub(super) struct Units {
    pub(super) ranges: Ranges,
    pub(super) shards: Shards,
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

    pub(super) fn state(&self, unit: Unit) -> State {
        self.slot(unit).state
    }

    pub(super) fn set_state(&mut self, unit: Unit, state: State) {
        self.slot_mut(unit).state = state;
    }

    /// The content of the unit, as far as it is known.
    pub(super) fn known(&self, unit: Unit) -> Option<Content> {
        self.slot(unit).known
    }

    /// Keeps the content of a unit as the known one.
    pub(super) fn claim(&mut self, unit: Unit, content: Content) {
        self.slot_mut(unit).known = Some(content);
    }

    /// Has nothing known of a unit, as before it was first computed.
    pub(super) fn forget(&mut self, unit: Unit) {
        self.slot_mut(unit).known = None;
    }

    /// Whether another content of this unit is known.
    pub(super) fn differs(&self, unit: Unit, content: Content) -> bool {
        self.known(unit).is_some_and(|known| known != content)
    }

    /// How many attempts to compute this unit were lost.
    pub(super) fn lost(&self, unit: Unit) -> u32 {
        let slot = self.slot(unit);
        slot.expiries.saturating_add(slot.failures)
    }

    /// Counts one more lost attempt, and gives the number of those lost in the same way.
    pub(super) fn lose(&mut self, unit: Unit, how: Lost) -> u32 {
        let slot = self.slot_mut(unit);
        let count = match how {
            Lost::Expired => &mut slot.expiries,
            Lost::Failed => &mut slot.failures,
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
