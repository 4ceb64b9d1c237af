//! The audits of records: a worker reports that a record is lost, and the coordinator tries to read it. Participants
//! take turns. The coordinator ignores a participant for a while after it reported many records that were in order.

use std::collections::{BTreeMap, BTreeSet};

use chomp_plan::{Millis, ParticipantId, WorkerId};
use chomp_serve::turns::Turns;
use chomp_table::Head;

/// The audits that are under way at a time.
const AUDITS_AT_ONCE: usize = 4;
/// The reports of one participant that wait for an audit. More are dropped: a worker that needs a record reports it
/// again.
const WAITING_MAX: usize = 1 << 12;
/// The time in which a participant may be wrong about one more record, in milliseconds.
const FALSE_ALARM_MS: u64 = 100;
/// The records that it may be wrong about at once: a network that fails makes a worker wrong about all that it reads.
const FALSE_ALARMS: u64 = 256;

/// The audits that wait or are under way, and the false alarms of each participant.
#[derive(Debug, Default)]
pub(super) struct RecordAudits {
    waiting: Turns<ParticipantId, (WorkerId, Head)>,
    /// The reports that wait or are under audit.
    known: BTreeSet<(ParticipantId, Head)>,
    under_way: usize,
    /// When the false alarms of each participant will be forgiven.
    forgiven: BTreeMap<ParticipantId, Millis>,
}

impl RecordAudits {
    /// How long reports of a participant are still ignored, in milliseconds; none if they are not.
    pub(super) fn ignored_for(&mut self, participant: ParticipantId, now: Millis) -> Option<u64> {
        let forgiven = self.forgiven.get(&participant)?;
        let left = forgiven.0.saturating_sub(now.0);
        if left == 0 {
            self.forgiven.remove(&participant);
        }
        left.checked_sub(FALSE_ALARM_MS * FALSE_ALARMS)
            .filter(|&wait| wait > 0)
    }

    /// Takes in that a worker reports a record as lost.
    pub(super) fn push(&mut self, worker: WorkerId, head: Head) {
        let participant = worker.participant;
        if self.waiting.count(participant) < WAITING_MAX && self.known.insert((participant, head)) {
            self.waiting.push(participant, (worker, head));
        }
    }

    /// The next audit to begin, unless enough are under way.
    pub(super) fn next(&mut self) -> Option<(WorkerId, Head)> {
        if self.under_way >= AUDITS_AT_ONCE {
            return None;
        }
        let next = self.waiting.pop()?;
        self.under_way += 1;
        Some(next)
    }

    /// Ends an audit that was begun. `in_order` says that nothing is wrong with the record.
    pub(super) fn end(&mut self, worker: WorkerId, head: Head, in_order: bool, now: Millis) {
        let participant = worker.participant;
        self.under_way -= 1;
        self.known.remove(&(participant, head));
        if !in_order {
            return;
        }
        let forgiven = self.forgiven.entry(participant).or_insert(now);
        forgiven.0 = forgiven.0.max(now.0) + FALSE_ALARM_MS;
        if self.ignored_for(participant, now).is_some() {
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

    /// Does the next audit; returns whose report it was.
    fn audit(audits: &mut RecordAudits, in_order: bool, now: Millis) -> Option<u32> {
        let (worker, head) = audits.next()?;
        audits.end(worker, head, in_order, now);
        Some(worker.participant.0)
    }

    #[test]
    fn one_who_reports_everything_is_not_heard_for_a_while_and_delays_nobody() {
        let (mut audits, now) = (RecordAudits::default(), Millis(5000));
        for head in 0..5000 {
            audits.push(worker(1), Head(head));
        }
        assert_eq!(audits.known.len(), WAITING_MAX);
        // Another participant reports the same record: it is audited second.
        audits.push(worker(2), Head(4000));
        audits.push(worker(2), Head(4000));
        assert_eq!(audit(&mut audits, true, now), Some(1));
        assert_eq!(audit(&mut audits, false, now), Some(2));
        for _ in 1..=FALSE_ALARMS {
            assert_eq!(audit(&mut audits, true, now), Some(1));
        }
        assert_eq!(
            audit(&mut audits, true, now),
            None,
            "the others are of no interest"
        );
        assert!(audits.known.is_empty());
        assert_eq!(
            audits.ignored_for(ParticipantId(1), now),
            Some(FALSE_ALARM_MS)
        );
        assert_eq!(audits.ignored_for(ParticipantId(2), now), None);
        assert_eq!(audits.ignored_for(ParticipantId(1), Millis(5100)), None);
        // True reports cost nothing.
        for head in 0..2000 {
            audits.push(worker(2), Head(head));
            assert_eq!(audit(&mut audits, false, now), Some(2));
        }
        assert_eq!(audits.ignored_for(ParticipantId(2), now), None);
        assert_eq!(audits.ignored_for(ParticipantId(1), Millis(1 << 20)), None);
        assert!(audits.forgiven.is_empty());
    }

    #[test]
    fn few_audits_are_under_way_at_a_time() {
        let mut audits = RecordAudits::default();
        for head in 0..10 {
            audits.push(worker(1), Head(head));
        }
        let begun: Vec<_> = std::iter::from_fn(|| audits.next()).collect();
        assert_eq!(begun.len(), AUDITS_AT_ONCE);
        audits.end(begun[0].0, begun[0].1, true, Millis(0));
        assert_eq!(audits.next(), Some((worker(1), Head(4))));
    }
}
