//! The records that are looked at because a worker says that they are lost. Participants take turns, and one that
//! says so of many that are in order is not heard for a while.

use std::collections::{BTreeMap, BTreeSet};

use chomp_plan::{Millis, ParticipantId, WorkerId};
use chomp_table::Head;

use crate::turns::Turns;

/// So many records are looked at at a time.
const LOOKS: usize = 4;
/// So many of one participant wait to be looked at. What is reported beyond that is reported again by who needs it.
const WAITING_MAX: usize = 1 << 12;
/// The time in which a participant may be wrong about one more record, in milliseconds.
const FALSE_ALARM_MS: u64 = 100;
/// The records that it may be wrong about at once: a network that fails makes a worker wrong about all that it reads.
const FALSE_ALARMS: u64 = 256;

/// See above.
#[derive(Debug, Default)]
pub(super) struct Looks {
    waiting: Turns<ParticipantId, (WorkerId, Head)>,
    /// What waits and what is looked at.
    known: BTreeSet<(ParticipantId, Head)>,
    under_way: usize,
    /// When each will be as good as one that was never wrong.
    forgiven: BTreeMap<ParticipantId, Millis>,
}

impl Looks {
    /// How long a participant is not heard, in milliseconds; none if it is.
    pub(super) fn deaf_for(&mut self, participant: ParticipantId, now: Millis) -> Option<u64> {
        let forgiven = self.forgiven.get(&participant)?;
        let left = forgiven.0.saturating_sub(now.0);
        if left == 0 {
            self.forgiven.remove(&participant);
        }
        left.checked_sub(FALSE_ALARM_MS * FALSE_ALARMS)
            .filter(|&wait| wait > 0)
    }

    /// Notes that a worker says that a record is lost.
    pub(super) fn push(&mut self, worker: WorkerId, head: Head) {
        let participant = worker.participant;
        if self.waiting.count(participant) < WAITING_MAX && self.known.insert((participant, head)) {
            self.waiting.push(participant, (worker, head));
        }
    }

    /// The next one to begin with, unless enough are looked at.
    pub(super) fn next(&mut self) -> Option<(WorkerId, Head)> {
        if self.under_way >= LOOKS {
            return None;
        }
        let next = self.waiting.pop()?;
        self.under_way += 1;
        Some(next)
    }

    /// One that was begun with is done, or is of no use any more; `in_order` says that nothing is wrong with the record.
    pub(super) fn done(&mut self, worker: WorkerId, head: Head, in_order: bool, now: Millis) {
        let participant = worker.participant;
        self.under_way -= 1;
        self.known.remove(&(participant, head));
        if !in_order {
            return;
        }
        let forgiven = self.forgiven.entry(participant).or_insert(now);
        forgiven.0 = forgiven.0.max(now.0) + FALSE_ALARM_MS;
        if self.deaf_for(participant, now).is_some() {
            for (worker, head) in self.waiting.take(participant) {
                self.known.remove(&(worker.participant, head));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(participant: u32) -> WorkerId {
        WorkerId {
            participant: ParticipantId(participant),
            number: 7,
        }
    }

    /// Looks at what is next; whose it was.
    fn look(looks: &mut Looks, in_order: bool, now: Millis) -> Option<u32> {
        let (worker, head) = looks.next()?;
        looks.done(worker, head, in_order, now);
        Some(worker.participant.0)
    }

    #[test]
    fn one_who_reports_everything_is_not_heard_for_a_while_and_delays_nobody() {
        let (mut looks, now) = (Looks::default(), Millis(5000));
        for head in 0..5000 {
            looks.push(worker(1), Head(head));
        }
        assert_eq!(looks.known.len(), WAITING_MAX);
        // The same record, and it is the second to be looked at.
        looks.push(worker(2), Head(4000));
        looks.push(worker(2), Head(4000));
        assert_eq!(look(&mut looks, true, now), Some(1));
        assert_eq!(look(&mut looks, false, now), Some(2));
        for _ in 1..=FALSE_ALARMS {
            assert_eq!(look(&mut looks, true, now), Some(1));
        }
        assert_eq!(
            look(&mut looks, true, now),
            None,
            "the others are of no interest"
        );
        assert!(looks.known.is_empty());
        assert_eq!(looks.deaf_for(ParticipantId(1), now), Some(FALSE_ALARM_MS));
        assert_eq!(looks.deaf_for(ParticipantId(2), now), None);
        assert_eq!(looks.deaf_for(ParticipantId(1), Millis(5100)), None);
        // What was lost indeed costs nothing.
        for head in 0..2000 {
            looks.push(worker(2), Head(head));
            assert_eq!(look(&mut looks, false, now), Some(2));
        }
        assert_eq!(looks.deaf_for(ParticipantId(2), now), None);
        assert_eq!(looks.deaf_for(ParticipantId(1), Millis(1 << 20)), None);
        assert!(looks.forgiven.is_empty());
    }

    #[test]
    fn few_are_looked_at_at_a_time() {
        let mut looks = Looks::default();
        for head in 0..10 {
            looks.push(worker(1), Head(head));
        }
        let begun: Vec<_> = std::iter::from_fn(|| looks.next()).collect();
        assert_eq!(begun.len(), LOOKS);
        looks.done(begun[0].0, begun[0].1, true, Millis(0));
        assert_eq!(looks.next(), Some((worker(1), Head(4))));
    }
}
