//! The names of things, which cannot be mixed up with each other.

use std::fmt;
use std::ops::RangeInclusive;

use chomp_table::Head;

/// A lease on one task. Given by the plan, ascending; [`Settings::epoch`](crate::Settings::epoch) keeps those of
/// different plans apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// A request for a task. Given by the caller, never used twice. Requests of one worker are answered in the order of
/// their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A commit that is being written. Given by the plan, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A participant: the owner of one credential, with all workers that it starts. Given by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParticipantId(pub u32);

impl ParticipantId {
    /// The owner of the table. At one replica each of the owner's workers is a party of its own.
    pub const OWNER: ParticipantId = ParticipantId(0);
    /// The referee's worker, in the process of the coordinator. It is no party: what it finds is final.
    pub const REFEREE: ParticipantId = ParticipantId(u32::MAX);
}

/// A worker, for as long as its process lives. Given by the caller; a worker that lost contact joins again with the
/// same id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId {
    /// The participant whose credential the worker uses.
    pub participant: ParticipantId,
    /// The number that the worker chose for itself.
    pub number: u64,
}

impl WorkerId {
    /// The worker `number` of the participant `participant`.
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

    /// Whether it is the referee.
    pub fn is_referee(self) -> bool {
        self.participant == ParticipantId::REFEREE
    }

    pub(crate) const fn all_of(participant: ParticipantId) -> RangeInclusive<WorkerId> {
        let ParticipantId(participant) = participant;
        WorkerId::new(participant, 0)..=WorkerId::new(participant, u64::MAX)
    }
}

/// A participant with all its workers, or one worker alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// All workers of a participant.
    Participant(ParticipantId),
    /// One worker.
    Worker(WorkerId),
}

impl Party {
    /// The participant, or that of the worker.
    pub fn participant(self) -> ParticipantId {
        match self {
            Party::Participant(participant) => participant,
            Party::Worker(worker) => worker.participant,
        }
    }

    /// Whether a worker belongs to it.
    pub fn includes(self, worker: WorkerId) -> bool {
        match self {
            Party::Participant(participant) => participant == worker.participant,
            Party::Worker(one) => one == worker,
        }
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// Milliseconds since some start, by the caller's monotonic clock.
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
