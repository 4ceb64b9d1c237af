//! How results are accepted and rejected.

use super::*;

/// A plan at layer 3 of 16 bits, ranges 3 and 4, with both leased to A as one task.
fn two_ranges() -> (Bench, Task) {
    let mut bench = Bench::at_layer(
        Settings {
            tasks_per_thread: 1,
            ..settings(16)
        },
        3,
    );
    bench.join_all(&[A, B]);
    bench.leave(B);
    let task = bench.task(A);
    assert_eq!(heads(&task), to_heads(&[3, 4]));
    (bench, task)
}

fn expire(bench: &mut Bench) {
    bench.now += 100;
    bench.tell(Event::Tick);
}

#[test]
fn accepted_when_durable_then_duplicate() {
    let (mut bench, task) = two_ranges();
    let submission = bench.begin_commit(A, task.lease, &[3, 4]);
    assert_eq!(bench.plan.progress().ranges_done, 3);
    assert_eq!(bench.committed(submission), [accepted(submission)]);
    assert_eq!(bench.plan.progress().ranges_done, 5);
    assert_eq!(bench.plan.progress().losing, 1 + 2 + 3 + 4 + 5);
    for heads in [vec![3, 4], vec![4, 3], vec![4]] {
        let (again, actions) = bench.submit_as_it_is(A, task.lease, summaries(heads));
        assert_eq!(actions, [duplicate(again)]);
    }
}

#[test]
fn a_result_counts_only_under_a_lease_of_its_worker() {
    let (mut bench, task) = two_ranges();
    let lease = task.lease;
    let no_lease = |lease| Rejection::NoLease { lease };
    bench.join(B, 1);
    let never = LeaseId(u64::MAX);
    for (worker, lease) in [(B, lease), (A, never), (B, never)] {
        let (bad, actions) = bench.submit_as_it_is(worker, lease, summaries([3, 4]));
        assert_eq!(actions, [rejected(bad, no_lease(lease))]);
    }
    // It was given for these ranges and no others, whether it stands or not.
    let unit = range(0);
    let other = Rejection::NotLeased { unit, lease };
    let (bad, actions) = bench.submit_as_it_is(A, lease, summaries([0]));
    assert_eq!(actions, [rejected(bad, other.clone())]);
    let again = bench.task(B);
    bench.finish(B, &again);
    let (bad, actions) = bench.submit_as_it_is(A, lease, summaries([0]));
    assert_eq!(actions, [rejected(bad, other)]);
    // Another worker of the same participant is another worker.
    let friend = WorkerId::new(1, 9);
    bench.join(friend, 1);
    let (bad, actions) = bench.submit_as_it_is(friend, lease, summaries([3, 4]));
    assert_eq!(actions, [rejected(bad, no_lease(lease))]);
    // Its part is not there any more.
    bench.plan.forget_ended(lease);
    let (bad, actions) = bench.submit_as_it_is(A, lease, summaries([3, 4]));
    assert_eq!(actions, [rejected(bad, no_lease(lease))]);
}

#[test]
fn leases_that_ended_long_ago_are_forgotten() {
    let (mut bench, task) = two_ranges();
    expire(&mut bench);
    let work = |heads| Work::Evaluate { layer: 3, heads };
    let many = (0..1 << 16).map(Head).collect::<Vec<_>>();
    let mut ended = crate::leases::Ended::default();
    for lease in 0..4 {
        ended.note(LeaseId(lease), A, work(many.clone()));
    }
    let known = |lease| ended.work_of(A, LeaseId(lease)).is_some();
    assert_eq!([0, 1, 2, 3].map(known), [false, false, true, true]);
    let (late, actions) = bench.submit_as_it_is(A, task.lease, summaries([3, 4]));
    assert_eq!(actions, [commit(late, &[3, 4])]);
}

#[test]
fn a_result_waits_for_the_write_of_its_ranges() {
    let (mut bench, late) = two_ranges();
    expire(&mut bench);
    let half = bench.begin_commit(B, LeaseId(77), &[4]);
    let (same, actions) = bench.submit(A, late.lease, summaries([4]));
    assert_eq!(actions, []);
    let (whole, actions) = bench.submit(A, late.lease, summaries([3, 4]));
    assert_eq!(actions, [commit(whole, &[3])]);
    let (last, actions) = bench.submit(B, late.lease, summaries([3, 4]));
    assert_eq!(actions, []);
    assert_eq!(bench.plan.progress().submissions, 4);
    // Its own range is durable, the other is not.
    assert_eq!(bench.committed(whole), []);
    let actions = bench.committed(half);
    let settled = [
        accepted(half),
        duplicate(same),
        accepted(whole),
        duplicate(last),
    ];
    assert_eq!(actions[..4], settled);
    assert!(bench.plan.progress().submissions == 0);
}

#[test]
fn bad_results_are_rejected_and_lose_the_attempt() {
    let lease = LeaseId(0);
    for (heads, reason) in [
        (vec![], Rejection::Empty),
        (vec![3, 16], Rejection::Unknown { unit: range(16) }),
        (
            vec![u64::MAX],
            Rejection::Unknown {
                unit: range(u64::MAX),
            },
        ),
        (
            vec![3, 5],
            Rejection::Mixed {
                head: Head(5),
                layer: 3,
            },
        ),
        (vec![3, 4, 3], Rejection::Twice { head: Head(3) }),
        (
            vec![2],
            Rejection::NotLeased {
                unit: range(2),
                lease,
            },
        ),
    ] {
        let (mut bench, task) = two_ranges();
        let (submission, actions) = bench.submit(A, task.lease, summaries(heads.clone()));
        assert_eq!(actions, [rejected(submission, reason)], "{heads:?}");
        assert_eq!(*bench.plan.phase(), Phase::Running);
        assert!(!bench.plan.has_delivered(A), "{heads:?}");
        assert_eq!(bench.task(A).attempt, 2, "{heads:?}");
    }
    // Without the lease an empty result costs nobody an attempt.
    let (mut bench, task) = two_ranges();
    let (submission, actions) = bench.submit(B, task.lease, vec![]);
    assert_eq!(actions, [rejected(submission, Rejection::Empty)]);
    assert_eq!(bench.plan.progress().leases, 1);
}

#[test]
fn only_who_has_joined_hands_in() {
    let mut bench = Bench::at_layer(settings(16), 3);
    let submission = SubmissionId(1);
    let event = Event::Evaluated {
        submission,
        worker: A,
        lease: LeaseId(0),
        ranges: summaries([3]),
    };
    let actions = bench.tell(event.clone());
    assert_eq!(actions, [rejected(submission, Rejection::NotJoined)]);
    bench.join(A, 1);
    let task = bench.task(A);
    assert!(task.lease == LeaseId(0) && heads(&task).contains(&Head(3)));
    assert!(matches!(bench.tell(event)[..], [Action::Commit { .. }]));
}

/// The rest of a half-written result is not written after a fault.
#[test]
fn a_fault_ends_a_result_that_is_half_written() {
    for condemned in [false, true] {
        let done = [summary(0), summary(1), wrong(2)];
        let mut bench = Bench::new(all_drawn(16), &done);
        bench.join_all(&[A, B, C]);
        let theirs = bench.task(B).lease;
        let (submission, actions) = bench.submit(A, LeaseId(9), summaries([3, 4]));
        assert_eq!(actions, [noted(submission)]);
        for head in [3, 4] {
            bench.submit(B, theirs, summaries([head]));
        }
        bench.submit(C, LeaseId(9), summaries([2]));
        let unit = range(2);
        if condemned {
            let (_, actions) = bench.arbitrate(summary(2));
            assert_eq!(actions[0], withdraw(&[2, 3, 4]));
            let stale = bench.committed(submission);
            assert_eq!(stale[0], withdraw(&[3]));
            continue;
        }
        bench.fail_arbitration(unit, "no memory");
        let actions = bench.committed(submission);
        assert_eq!(actions[0], forget(submission));
        assert_eq!(bench.plan.progress().ranges_done, 4);
        assert!(bench.plan.is_quiet());
    }
}

/// Ranges of a task that others have done cost no attempt when the rest of it fails.
#[test]
fn only_what_is_left_of_a_task_has_failed() {
    let (mut bench, task) = two_ranges();
    bench.plan.settings.failures_max = 1;
    bench.begin_commit(B, LeaseId(9), &[3]);
    assert_eq!(bench.fail(A, task.lease), [arbitrate(4)]);
}
