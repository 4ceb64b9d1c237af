//! The names of things, which cannot be mixed up with each other.

use std::fmt;
use std::ops::RangeInclusive;

use chomp_table::Head;

/// Defines ids of which each is a number.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// A lease on one task. Given by the plan, ascending; [`Settings::epoch`](crate::Settings::epoch)
    /// keeps those of different plans apart.
    LeaseId
    /// A request for a task. Given by the caller, never used twice; requests that have to wait
    /// are served in the order of their ids.
    RequestId
    /// A result handed in. Given by the caller, never used twice.
    SubmissionId
}

/// A participant: the owner of one credential, with all workers that it starts. Given by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParticipantId(pub u32);

impl ParticipantId {
    /// The owner of the table, who is believed when alone.
    pub const OWNER: ParticipantId = ParticipantId(0);
}

/// A worker, for as long as its process lives. Given by the caller; a worker that lost contact
/// comes back with the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId {
    /// Whose it is, by its credential.
    pub participant: ParticipantId,
    /// Which of that participant's workers, by a number that it chose itself.
    pub number: u64,
}

impl WorkerId {
    /// The worker with this number, of the participant with that one.
    pub const fn new(participant: u32, number: u64) -> WorkerId {
        WorkerId {
            participant: ParticipantId(participant),
            number,
        }
    }

    /// The only worker of a participant, with the same number.
    pub const fn only(participant: u32) -> WorkerId {
        WorkerId::new(participant, participant as u64)
    }

    /// The lowest and the highest id that a worker of this participant may have.
    pub(super) const fn all_of(participant: ParticipantId) -> RangeInclusive<WorkerId> {
        let ParticipantId(participant) = participant;
        WorkerId::new(participant, 0)..=WorkerId::new(participant, u64::MAX)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// Milliseconds since some start, as told by the caller's monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// The time `millis` later, or the end of time.
    pub const fn plus(self, millis: u64) -> Millis {
        Millis(self.0.saturating_add(millis))
    }
}

/// A piece of work that may be done several times, and whose right results are all equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// The range with this head: its result is a record.
    Range(Head),
    /// The shard with this number, from 0: its result is a file of the table.
    Shard(u32),
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unit::Range(head) => write!(f, "range {head}"),
            Unit::Shard(number) => write!(f, "shard {number}"),
        }
    }
}
