//! What the coordinator evaluates itself, because workers disagree or one of them lied.
//!
//! Audits are done one at a time, those of low layers first. Until all are done no layer is
//! sealed and nothing is published.

use std::collections::BTreeMap;

use chomp_table::{Head, RangeSummary};

use super::Plan;
use super::copies::{Place, Vote, place};
use super::messages::{Action, Misdeed, StopReason, SubmissionId};
use super::ranges::{State, content};

/// The ranges to be evaluated by the coordinator.
#[derive(Debug, Default)]
pub(super) struct Audits {
    /// Those that wait or are under way, and who claimed what of ranges that are known already.
    queue: BTreeMap<Place, Vec<Vote>>,
    pub(super) under_way: Option<Head>,
}

impl Audits {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether it is being found out what is in this range.
    pub(super) fn contains(&self, head: Head) -> bool {
        self.queue.contains_key(&place(head))
    }
}

impl Plan {
    /// Has the coordinator find out what is in a range. Nobody else is given it until then.
    pub(super) fn audit(&mut self, head: Head, claim: Option<Vote>) {
        let claims = self.audits.queue.entry(place(head)).or_default();
        claims.extend(claim);
        if self.ranges.state(head) == State::Ready {
            self.refile(head, |_| {});
        }
    }

    pub(super) fn audit_all(&mut self, heads: &[Head]) {
        for &head in heads {
            self.audit(head, None);
        }
    }

    /// Begins the next audit, if there is one and none is under way.
    pub(super) fn advance_audits(&mut self, out: &mut Vec<Action>) {
        if self.audits.under_way.is_some() || !self.is_running() {
            return;
        }
        let next = self.audits.queue.first_key_value();
        if let Some((&(_, head), _)) = next {
            self.audits.under_way = Some(head);
            out.push(Action::Evaluate { head });
        }
    }

    pub(super) fn evaluated(
        &mut self,
        submission: SubmissionId,
        range: RangeSummary,
        out: &mut Vec<Action>,
    ) {
        let head = range.head;
        let claims = self.audit_ended(head);
        let truth = content(range);
        let votes = self.board.of(head).map(|copies| copies.votes.clone());
        let votes = votes.unwrap_or_default();
        let liars = votes.iter().chain(&claims);
        let liars = liars.filter(|vote| vote.content != truth);
        for liar in liars.map(|vote| vote.worker).collect::<Vec<_>>() {
            self.quarantine(liar, Misdeed::Lied { head }, out);
        }
        if self.ranges.known(head).is_some_and(|known| known != truth) {
            let layer = head.layer();
            self.stop(StopReason::Wrong { head, layer }, out);
        }
        if self.is_running() && self.ranges.state(head) == State::Ready {
            self.write(submission, range, out);
        } else {
            self.reopen(head);
            out.push(Action::Forget { submission });
        }
    }

    pub(super) fn evaluation_failed(&mut self, head: Head, reason: String, out: &mut Vec<Action>) {
        self.audit_ended(head);
        self.reopen(head);
        self.stop(StopReason::EvaluationFailed { head, reason }, out);
    }

    fn audit_ended(&mut self, head: Head) -> Vec<Vote> {
        assert_eq!(
            self.audits.under_way.take(),
            Some(head),
            "range {head} was not to be evaluated"
        );
        self.audits.queue.remove(&place(head)).unwrap_or_default()
    }

    /// Offers a range again that was held back, if it is not done.
    fn reopen(&mut self, head: Head) {
        if self.ranges.state(head) == State::Ready {
            self.refile(head, |_| {});
        }
    }
}
