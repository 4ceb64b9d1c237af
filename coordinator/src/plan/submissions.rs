//! What becomes of a result.

use std::collections::BTreeSet;

use chomp_table::{Head, RangeSummary};

use super::Plan;
use super::copies::Vote;
use super::messages::{
    Action, LeaseId, Loss, Misdeed, Rejection, StopReason, SubmissionId, Verdict, WorkerId,
};
use super::ranges::{State, content};

/// A result that is not settled.
#[derive(Debug)]
pub(super) struct Pending {
    /// The ranges that were missing, so that this submission has them written.
    pub(super) own: Vec<Head>,
    /// Whether some of its ranges wait for other workers to say the same.
    pub(super) noted: bool,
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
                if let Some(entry) = self.workers.get_mut(&worker) {
                    entry.failures_in_a_row = 0;
                }
                self.keep(submission, worker, layer, ranges, out);
                // Unless `keep` ended it, something was not handed in: others may try.
                if self.holds(worker, lease) {
                    self.end_lease(lease, None, out);
                }
            }
            Err(reason) => {
                let doubt = matches!(reason, Rejection::Disagreement { .. });
                // Who is right in a disagreement is not known yet.
                let loss = (!doubt).then(|| Loss::Rejected {
                    worker: self.name(worker),
                    reason: reason.clone(),
                });
                if held {
                    self.end_lease(lease, loss.as_ref(), out);
                }
                if doubt {
                    self.question(worker, ranges);
                }
                out.push(Action::Settle {
                    submission,
                    verdict: Verdict::Rejected { reason },
                });
            }
        }
    }

    /// Has the coordinator find out about ranges that are said to be other than is known.
    fn question(&mut self, worker: WorkerId, ranges: &[RangeSummary]) {
        for &range in ranges {
            let content = content(range);
            // What is missing below a range that is on disk has to come back first.
            let is_ready = self.ranges.is_ready(range.head);
            if self.ranges.differs(range) && is_ready {
                self.audit(range.head, Some(Vote { worker, content }));
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
        if let Some(reason) = self.misdeed(worker) {
            let reason = reason.clone();
            return Err(Rejection::Quarantined { reason });
        }
        if !self.is_there(worker) {
            return Err(Rejection::NotJoined);
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
            if self.ranges.state(head) == State::Blocked {
                return Err(Rejection::NotReady { head });
            }
        }
        match ranges.iter().find(|&&range| self.ranges.differs(range)) {
            Some(&RangeSummary { head, .. }) => Err(Rejection::Disagreement { head }),
            None => Ok(layer),
        }
    }

    /// Counts the votes that good ranges are, has those written that have enough of them now, and
    /// waits for those just being written.
    fn keep(
        &mut self,
        submission: SubmissionId,
        worker: WorkerId,
        layer: u32,
        ranges: &[RangeSummary],
        out: &mut Vec<Action>,
    ) {
        let mut own = Vec::new();
        let mut writers = BTreeSet::new();
        let mut noted = false;
        for &range in ranges {
            match self.ranges.state(range.head) {
                State::Committed => {}
                State::Committing(writer) => {
                    writers.insert(writer);
                }
                State::Blocked | State::Ready => {
                    if self.vote(worker, range) {
                        own.push(range);
                    } else {
                        noted = true;
                    }
                }
            }
        }
        if own.is_empty() {
            self.wait(submission, Vec::new(), &writers, noted, out);
        } else {
            self.begin_write(submission, Some(worker), layer, &own, out);
            let own = own.iter().map(|range| range.head).collect();
            self.wait(submission, own, &writers, noted, out);
        }
    }

    /// Takes in what `worker` found in a range that is not known; says whether that settles it.
    fn vote(&mut self, worker: WorkerId, range: RangeSummary) -> bool {
        let (head, content) = (range.head, content(range));
        let votes = self.board.of(head).map_or(&[][..], |copies| &copies.votes);
        let agreed = votes.iter().all(|vote| vote.content == content);
        let others = votes.iter().filter(|vote| vote.worker != worker).count();
        let enough = others + 1 >= self.settings.replicas as usize;
        if agreed && enough && !self.audits.contains(head) {
            return true;
        }
        let vote = Vote { worker, content };
        if !votes.contains(&vote) {
            self.refile(head, |copies| copies.votes.push(vote));
        }
        if !agreed {
            self.audit(head, None);
        }
        false
    }

    /// Has a result of the coordinator's own written.
    pub(super) fn write(
        &mut self,
        submission: SubmissionId,
        range: RangeSummary,
        out: &mut Vec<Action>,
    ) {
        self.begin_write(submission, None, range.head.layer(), &[range], out);
        self.wait(submission, vec![range.head], &BTreeSet::new(), false, out);
    }

    /// Has ranges written, whose content is settled, and notes who found it.
    fn begin_write(
        &mut self,
        submission: SubmissionId,
        worker: Option<WorkerId>,
        layer: u32,
        ranges: &[RangeSummary],
        out: &mut Vec<Action>,
    ) {
        for &range in ranges {
            let votes = self.take(range.head).votes.into_iter();
            let agreeing = votes.filter(|vote| vote.content == content(range));
            let finders: BTreeSet<_> = agreeing.map(|vote| vote.worker).chain(worker).collect();
            for finder in finders {
                self.credit(finder, range.head);
            }
            self.ranges.claim(range);
            self.ranges
                .set_state(range.head, State::Committing(submission));
        }
        out.push(Action::Commit {
            submission,
            layer,
            heads: ranges.iter().map(|range| range.head).collect(),
        });
    }

    /// Settles a submission when its own ranges and those of `writers` are durable.
    fn wait(
        &mut self,
        submission: SubmissionId,
        own: Vec<Head>,
        writers: &BTreeSet<SubmissionId>,
        noted: bool,
        out: &mut Vec<Action>,
    ) {
        for writer in writers {
            let writer = self
                .pending
                .get_mut(writer)
                .expect("a range is being written by it");
            writer.waiters.push(submission);
        }
        let new = Pending {
            writing: !own.is_empty(),
            own,
            noted,
            waits: writers.len(),
            waiters: Vec::new(),
            failed: false,
        };
        let earlier = self.pending.insert(submission, new);
        assert!(earlier.is_none(), "submission {submission} was given twice");
        self.settle_if_done(submission, out);
    }

    /// A spot check found a result wrong.
    pub(super) fn refuted(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        head: Head,
        out: &mut Vec<Action>,
    ) {
        if self.holds(worker, lease) {
            self.end_lease(lease, None, out);
        }
        if self.is_there(worker) {
            self.quarantine(worker, Misdeed::Lied { head }, out);
        }
    }

    pub(super) fn committed(&mut self, submission: SubmissionId, out: &mut Vec<Action>) {
        for head in self.written(submission, false, out) {
            for ready in self.ranges.commit(head) {
                self.refile(ready, |_| {});
            }
        }
    }

    pub(super) fn commit_failed(
        &mut self,
        submission: SubmissionId,
        reason: String,
        out: &mut Vec<Action>,
    ) {
        for head in self.written(submission, true, out) {
            self.ranges.set_state(head, State::Ready);
            self.refile(head, |_| {});
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
        } else if pending.noted {
            Verdict::Noted
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
