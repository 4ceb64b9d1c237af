//! What becomes of a result.

use std::collections::BTreeSet;

use chomp_table::Head;

use super::Plan;
use super::messages::{
    Action, LeaseId, Loss, Rejection, StopReason, SubmissionId, Verdict, WorkerId,
};
use super::ranges::State;
use chomp_table::RangeSummary;

/// A result that is not settled.
#[derive(Debug)]
pub(super) struct Pending {
    /// The ranges that were missing, so that this submission has them written.
    pub(super) own: Vec<Head>,
    /// Whether that write is under way.
    pub(super) writing: bool,
    /// The number of other submissions whose writes it waits for.
    pub(super) waits: usize,
    /// The submissions that wait for this one's write.
    pub(super) waiters: Vec<SubmissionId>,
    /// Whether one of the writes has failed.
    pub(super) failed: bool,
}

impl Plan {
    pub(super) fn submitted(
        &mut self,
        submission: SubmissionId,
        worker: WorkerId,
        lease: LeaseId,
        ranges: &[RangeSummary],
        out: &mut Vec<Action>,
    ) {
        let judged = self.judge(worker, lease, ranges);
        let held = self.holds(worker, lease);
        match judged {
            Ok(layer) => {
                self.keep(submission, layer, ranges, out);
                // Unless `keep` ended it, something was not handed in: others may try.
                if self.holds(worker, lease) {
                    self.end_lease(lease, None, out);
                }
            }
            Err(reason) => {
                if let Rejection::Disagreement { head } = reason {
                    self.stop(StopReason::Disagreement { head, worker }, out);
                }
                if held {
                    let loss = Loss::Rejected {
                        worker,
                        reason: reason.clone(),
                    };
                    self.end_lease(lease, Some(&loss), out);
                }
                out.push(Action::Settle {
                    submission,
                    verdict: Verdict::Rejected { reason },
                });
            }
        }
    }

    /// The layer of the ranges, if they may be used.
    fn judge(
        &self,
        worker: WorkerId,
        lease: LeaseId,
        ranges: &[RangeSummary],
    ) -> Result<u32, Rejection> {
        if self.is_faulty() {
            return Err(Rejection::Stopped);
        }
        let first = ranges.first().ok_or(Rejection::Empty)?;
        let layer = first.head.layer();
        // A lease that ended, or is another worker's, says nothing about a result.
        let leased = self
            .leases
            .get(&lease)
            .filter(|lease| lease.worker == worker);
        let mut heads = BTreeSet::new();
        for &RangeSummary { head, .. } in ranges {
            if !self.ranges.contains(head) {
                return Err(Rejection::Unknown { head });
            }
            if head.layer() != layer {
                return Err(Rejection::Mixed { head, layer });
            }
            if leased.is_some_and(|lease| lease.heads.binary_search(&head).is_err()) {
                return Err(Rejection::NotLeased { head, lease });
            }
            if !heads.insert(head) {
                return Err(Rejection::Twice { head });
            }
        }
        if let Some(&RangeSummary { head, .. }) = ranges.iter().find(|&&r| self.ranges.differs(r)) {
            return Err(Rejection::Disagreement { head });
        }
        let open = self.ranges.open();
        let is_done = |range: &RangeSummary| self.ranges.state(range.head) == State::Committed;
        if layer > open && !ranges.iter().all(is_done) {
            return Err(Rejection::Closed { layer, open });
        }
        Ok(layer)
    }

    /// Has the missing ones of some good ranges written, and waits for those just being written.
    fn keep(
        &mut self,
        submission: SubmissionId,
        layer: u32,
        ranges: &[RangeSummary],
        out: &mut Vec<Action>,
    ) {
        let mut own = Vec::new();
        let mut writers = BTreeSet::new();
        for &summary in ranges {
            match self.ranges.state(summary.head) {
                State::Committed => {}
                State::Committing(writer) => {
                    writers.insert(writer);
                }
                State::Waiting | State::Leased(_) => {
                    self.take(summary.head);
                    self.ranges.claim(summary);
                    self.ranges
                        .set_state(summary.head, State::Committing(submission));
                    own.push(summary.head);
                }
            }
        }
        if !own.is_empty() {
            out.push(Action::Commit {
                submission,
                layer,
                heads: own.clone(),
            });
        }
        for writer in &writers {
            let writer = self
                .pending
                .get_mut(writer)
                .expect("a range is being written by it");
            writer.waiters.push(submission);
        }
        let (writing, waits) = (!own.is_empty(), writers.len());
        let new = Pending {
            own,
            writing,
            waits,
            waiters: Vec::new(),
            failed: false,
        };
        let earlier = self.pending.insert(submission, new);
        assert!(earlier.is_none(), "submission {submission} was given twice");
        self.settle_if_done(submission, out);
    }

    pub(super) fn committed(&mut self, submission: SubmissionId, out: &mut Vec<Action>) {
        for head in self.written(submission, false, out) {
            self.ranges.commit(head);
        }
        if self.ranges.open_next() {
            self.share_open_layer();
        }
    }

    pub(super) fn commit_failed(
        &mut self,
        submission: SubmissionId,
        reason: String,
        out: &mut Vec<Action>,
    ) {
        for head in self.written(submission, true, out) {
            self.ranges.set_state(head, State::Waiting);
            self.free.insert(head);
        }
        self.stop(StopReason::CommitFailed { reason }, out);
    }

    /// Ends the write of a submission, settles what waited for it alone, and gives its ranges.
    fn written(
        &mut self,
        submission: SubmissionId,
        failed: bool,
        out: &mut Vec<Action>,
    ) -> Vec<Head> {
        let pending = self
            .pending
            .get_mut(&submission)
            .filter(|pending| pending.writing);
        let pending = pending.expect("the caller tells the outcome of each write once");
        pending.writing = false;
        pending.failed |= failed;
        let waiters = std::mem::take(&mut pending.waiters);
        let heads = pending.own.clone();
        self.settle_if_done(submission, out);
        for waiter in waiters {
            let pending = self.pending.get_mut(&waiter).expect("it waits");
            pending.waits -= 1;
            pending.failed |= failed;
            self.settle_if_done(waiter, out);
        }
        heads
    }

    fn settle_if_done(&mut self, submission: SubmissionId, out: &mut Vec<Action>) {
        let pending = &self.pending[&submission];
        if pending.writing || pending.waits > 0 {
            return;
        }
        let verdict = if pending.failed {
            Verdict::Rejected {
                reason: Rejection::Stopped,
            }
        } else if pending.own.is_empty() {
            Verdict::Duplicate
        } else {
            Verdict::Accepted
        };
        self.pending.remove(&submission);
        out.push(Action::Settle {
            submission,
            verdict,
        });
    }
}
