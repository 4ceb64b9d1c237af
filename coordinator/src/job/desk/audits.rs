//! The audits of records: a worker reports that a record is lost, and the coordinator tries to read it.

use std::collections::{BTreeSet, VecDeque};

use chomp_plan::WorkerId;
use chomp_table::Head;

/// The audits that are under way at a time.
const AUDITS_AT_ONCE: usize = 4;
/// The reports that wait for an audit. More are dropped: a worker that needs a record reports it again.
const WAITING_MAX: usize = 1 << 12;

/// The audits that wait or are under way.
#[derive(Debug, Default)]
pub(super) struct RecordAudits {
    waiting: VecDeque<(WorkerId, Head)>,
    /// The ranges whose audits wait or are under way.
    known: BTreeSet<Head>,
    under_way: usize,
}

impl RecordAudits {
    /// Takes in that a worker reports a record as lost.
    pub(super) fn push(&mut self, worker: WorkerId, head: Head) {
        if self.waiting.len() < WAITING_MAX && self.known.insert(head) {
            self.waiting.push_back((worker, head));
        }
    }

    /// The next audit to begin, unless enough are under way.
    pub(super) fn next(&mut self) -> Option<(WorkerId, Head)> {
        if self.under_way >= AUDITS_AT_ONCE {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.under_way += 1;
        Some(next)
    }

    /// Ends an audit that was begun.
    pub(super) fn end(&mut self, head: Head) {
        self.under_way -= 1;
        self.known.remove(&head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audits_are_bounded_and_no_record_has_two() {
        let mut audits = RecordAudits::default();
        for head in (0..5000).chain(0..5000) {
            audits.push(WorkerId::only(7), Head(head));
        }
        assert_eq!(audits.known.len(), WAITING_MAX);
        let begun: Vec<_> = std::iter::from_fn(|| audits.next()).collect();
        assert_eq!(begun.len(), AUDITS_AT_ONCE);
        // One that is under way is not begun twice, and one that has ended may come again.
        audits.push(WorkerId::only(8), Head(0));
        assert_eq!(audits.waiting.len(), WAITING_MAX - AUDITS_AT_ONCE);
        audits.end(Head(0));
        assert_eq!(audits.next(), Some((WorkerId::only(7), Head(4))));
        audits.push(WorkerId::only(8), Head(0));
        assert_eq!(audits.waiting.back(), Some(&(WorkerId::only(8), Head(0))));
    }
}
