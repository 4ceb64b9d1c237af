//! What the coordinator evaluates itself, and what comes of it.

use super::*;

/// A plan at layer 3 of 16 bits, ranges 3 and 4, of which A has delivered 3, and a lie about 4 if
/// `lie`.
fn delivered(lie: bool) -> Bench {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join(A, 1);
    bench.join(B, 1);
    let four = if lie { wrong(4) } else { summary(4) };
    let ranges = vec![summary(3), four];
    let (submission, _) = bench.submit(A, LeaseId(9), ranges);
    bench.tell(Event::Committed { submission });
    bench.tell(Event::Sealed { layer: 3 });
    bench
}

fn evaluate(head: u64) -> Action {
    Action::Evaluate { head: Head(head) }
}

fn quarantine(worker: WorkerId, head: u64) -> Action {
    Action::Quarantine {
        worker,
        name: format!("w{worker}"),
        reason: lied(head),
    }
}

fn forget(submission: SubmissionId) -> Action {
    Action::Forget { submission }
}

fn lied(head: u64) -> Misdeed {
    Misdeed::Lied { head: Head(head) }
}

fn wrong_range(head: u64) -> StopReason {
    StopReason::Wrong {
        head: Head(head),
        layer: Head(head).layer(),
    }
}

impl Bench {
    /// The coordinator has evaluated a range.
    fn evaluated(&mut self, range: RangeSummary) -> (SubmissionId, Vec<Action>) {
        self.submissions += 1;
        let submission = SubmissionId(self.submissions);
        let actions = self.tell(Event::Evaluated { submission, range });
        (submission, actions)
    }
}

#[test]
fn another_content_than_the_committed_one_is_a_lie_of_one_of_the_two() {
    let mut bench = delivered(false);
    let (bad, actions) = bench.submit(B, LeaseId(9), vec![summary(3), wrong(4)]);
    let refused = rejected(bad, Rejection::Disagreement { head: Head(4) });
    assert_eq!(actions, [refused, evaluate(4)]);
    let (own, actions) = bench.evaluated(summary(4));
    assert_eq!(actions, [quarantine(B, 4), forget(own)]);
    assert_eq!(bench.plan.misdeed(B), Some(&lied(4)));
    assert_eq!(*bench.plan.phase(), Phase::Running);

    let mut bench = delivered(true);
    let (bad, actions) = bench.submit(B, LeaseId(9), vec![summary(4)]);
    let refused = rejected(bad, Rejection::Disagreement { head: Head(4) });
    assert_eq!(actions, [refused, evaluate(4)]);
    let (own, actions) = bench.evaluated(summary(4));
    let reason = wrong_range(4);
    assert_eq!(actions, [Action::Stop { reason }, forget(own)]);
    assert_eq!(bench.plan.misdeed(B), None);
    check_stopped(&mut bench, &wrong_range(4));
}

/// Nothing but refusals from now on.
fn check_stopped(bench: &mut Bench, reason: &StopReason) {
    assert_eq!(*bench.plan.phase(), Phase::Stopped(reason.clone()));
    let request = RequestId(bench.requests + 1);
    let answer = Answer::Stopped {
        reason: reason.clone(),
    };
    assert_eq!(bench.want(A), [Action::Answer { request, answer }]);
    let (submission, actions) = bench.submit(A, LeaseId(9), summaries([0]));
    assert_eq!(actions, [rejected(submission, Rejection::Stopped)]);
    let (submission, actions) = bench.submit(A, LeaseId(9), vec![wrong(0)]);
    assert_eq!(actions, [rejected(submission, Rejection::Stopped)]);
}

#[test]
fn another_count_is_another_content() {
    let mut bench = delivered(false);
    let range = RangeSummary {
        count: 1,
        ..summary(4)
    };
    let (_, actions) = bench.submit(B, LeaseId(9), vec![range]);
    assert_eq!(actions[1], evaluate(4));
}

#[test]
fn what_is_being_written_and_what_is_sealed_is_compared_too() {
    let mut bench = Bench::at_layer(settings(16), 3);
    let writing = bench.begin_commit(A, LeaseId(9), &[3]);
    let (_, actions) = bench.submit(B, LeaseId(9), vec![wrong(3)]);
    assert_eq!(actions[1], evaluate(3));
    assert_eq!(bench.evaluated(summary(3)).1[0], quarantine(B, 3));
    let actions = bench.tell(Event::Committed {
        submission: writing,
    });
    assert_eq!(actions, [accepted(writing)]);

    let (done, expected) = (summaries([0, 1]), summaries([0, 2, 3, 4]));
    let (mut bench, _) = Bench::with(settings(16), &done, &expected, 4);
    bench.join(A, 1);
    let (_, actions) = bench.submit(B, LeaseId(0), vec![wrong(2)]);
    assert_eq!(actions[1], evaluate(2));
    // Nobody is given the range before the coordinator knows.
    assert_eq!(bench.want(A), []);
    let (own, actions) = bench.evaluated(summary(2));
    let commit = Action::Commit {
        submission: own,
        layer: 2,
        heads: to_heads(&[2]),
    };
    assert_eq!(actions, [quarantine(B, 2), commit]);
    let actions = bench.tell(Event::Committed { submission: own });
    assert_eq!(actions[0], accepted(own));
    assert_eq!(bench.plan.progress().ranges_done, 3);
}

#[test]
fn what_a_liar_delivered_is_computed_again_before_anything_is_sealed() {
    let mut bench = delivered(false);
    let head = Head(5);
    let lease = bench.task(B).lease;
    assert_eq!(bench.want(A)[0], {
        let task = Task {
            lease: LeaseId(lease.0 + 1),
            attempt: 1,
            layer: 4,
            heads: to_heads(&[8]),
            lease_ms: 100,
        };
        let (request, answer) = (RequestId(2), Answer::Task(task));
        Action::Answer { request, answer }
    });
    let refuted = Event::Refuted {
        worker: A,
        lease: LeaseId(lease.0 + 1),
        head,
    };
    assert_eq!(bench.tell(refuted), [quarantine(A, 5), evaluate(3)]);
    // Its lease went back at once; the job goes on, but no layer is sealed.
    let (five, eight) = (
        bench.begin_commit(B, lease, &[5]),
        bench.begin_commit(B, LeaseId(0), &[8]),
    );
    for submission in [five, eight] {
        let actions = bench.tell(Event::Committed { submission });
        assert_eq!(actions, [accepted(submission)]);
    }
    let (own, actions) = bench.evaluated(summary(3));
    assert_eq!(actions, [forget(own), evaluate(4)]);
    let (own, actions) = bench.evaluated(summary(4));
    let seal = Action::Seal {
        layer: 4,
        ranges: summaries([5, 8]),
    };
    assert_eq!(actions, [forget(own), seal]);
    // One of them wrong would have stopped the job.
    let mut bench = delivered(true);
    let refuted = Event::Refuted {
        worker: A,
        lease: LeaseId(0),
        head,
    };
    assert_eq!(bench.tell(refuted)[1], evaluate(3));
    bench.evaluated(summary(3));
    let (_, actions) = bench.evaluated(summary(4));
    let reason = wrong_range(4);
    assert_eq!(actions[0], Action::Stop { reason });
}

#[test]
fn a_quarantined_worker_has_no_part_in_the_job() {
    let mut bench = delivered(false);
    let refuted = Event::Refuted {
        worker: B,
        lease: LeaseId(0),
        head: Head(5),
    };
    bench.tell(refuted.clone());
    assert_eq!(bench.tell(refuted), [], "only once");
    assert_eq!(bench.plan.progress().workers, 1);
    bench.join(B, 4);
    assert_eq!(bench.plan.progress().threads, 1);
    let answer = Answer::Quarantined { reason: lied(5) };
    let request = RequestId(1);
    assert_eq!(bench.want(B), [Action::Answer { request, answer }]);
    let submission = SubmissionId(70);
    let actions = bench.tell(Event::Submitted {
        submission,
        worker: B,
        lease: LeaseId(0),
        ranges: summaries([5]),
    });
    let reason = Rejection::Quarantined { reason: lied(5) };
    assert_eq!(actions, [rejected(submission, reason)]);
}

#[test]
fn a_coordinator_that_cannot_evaluate_stops() {
    let mut bench = delivered(false);
    bench.submit(B, LeaseId(9), vec![wrong(4)]);
    let reason = "no memory".to_owned();
    let head = Head(4);
    let actions = bench.tell(Event::EvaluationFailed {
        head,
        reason: reason.clone(),
    });
    let reason = StopReason::EvaluationFailed { head, reason };
    assert_eq!(actions, [Action::Stop { reason }]);
    assert!(bench.plan.is_quiet());
}

#[test]
#[should_panic(expected = "was not to be evaluated")]
fn an_evaluation_that_was_not_asked_for_is_a_bug() {
    delivered(false).evaluated(summary(3));
}
