//! The actions that tests expect.

use super::*;

pub(super) fn arbitrate(head: u64) -> Action {
    let (unit, vote) = (range(head), None);
    Action::Arbitrate { unit, vote }
}

/// The coordinator merges a shard, of whose file this result speaks.
pub(super) fn arbitrate_shard(shard: u32, vote: Option<SubmissionId>) -> Action {
    let unit = Unit::Shard(shard);
    Action::Arbitrate { unit, vote }
}

/// The table is published after a look at these shards.
pub(super) fn publish() -> Action {
    Action::Publish
}

/// A request is answered.
pub(super) fn answered(request: u64, answer: LeaseAnswer) -> Action {
    let request = RequestId(request);
    Action::Answer { request, answer }
}

pub(super) fn forget(submission: SubmissionId) -> Action {
    Action::Forget { submission }
}

pub(super) fn quarantine(worker: WorkerId, head: u64) -> Action {
    Action::Quarantine {
        worker,
        name: format!("w{worker}"),
        reason: lied(head),
    }
}

pub(super) fn lied(head: u64) -> QuarantineReason {
    QuarantineReason::Lied { unit: range(head) }
}

/// The coordinator has found the same in a range.
pub(super) fn confirmed(head: u64) -> Action {
    let (head, finders) = (Head(head), Vec::new());
    Action::Confirmed { head, finders }
}

pub(super) fn lose(head: u64) -> Action {
    Action::Lose { head: Head(head) }
}

pub(super) fn withdraw(heads: &[u64]) -> Action {
    let heads = to_heads(heads);
    Action::Withdraw { heads }
}

/// Ranges that A alone found are to be written.
pub(super) fn commit(submission: SubmissionId, heads: &[u64]) -> Action {
    commit_by(submission, heads, &[A])
}

/// Ranges that these found are to be written.
pub(super) fn commit_by(submission: SubmissionId, heads: &[u64], finders: &[WorkerId]) -> Action {
    let units: Vec<Unit> = heads.iter().map(|&head| range(head)).collect();
    commit_units(submission, &units, finders)
}

pub(super) fn commit_units(
    submission: SubmissionId,
    units: &[Unit],
    finders: &[WorkerId],
) -> Action {
    let finders: Vec<ParticipantId> = finders.iter().map(|worker| worker.participant).collect();
    let settled = |&unit: &Unit| AgreedUnit {
        unit,
        finders: finders.clone(),
    };
    let units = units.iter().map(settled).collect();
    Action::Commit { submission, units }
}

pub(super) fn settled(submission: SubmissionId, verdict: Verdict) -> Action {
    Action::Settle {
        submission,
        verdict,
    }
}

pub(super) fn noted(submission: SubmissionId) -> Action {
    settled(submission, Verdict::Noted)
}

pub(super) fn accepted(submission: SubmissionId) -> Action {
    settled(submission, Verdict::Accepted)
}

pub(super) fn duplicate(submission: SubmissionId) -> Action {
    settled(submission, Verdict::Duplicate)
}

pub(super) fn rejected(submission: SubmissionId, reason: Rejection) -> Action {
    settled(submission, Verdict::Rejected { reason })
}

pub(super) fn renewal(worker: WorkerId, lost: &[LeaseId]) -> Vec<Action> {
    let lost = lost.to_vec();
    vec![Action::Renewal { worker, lost }]
}
