//! How long a lease lasts, and what its loss costs.

use super::*;

#[test]
fn a_lease_lasts_as_long_as_it_is_renewed() {
    let mut bench = Bench::new(settings(13), &[]);
    bench.join_all(&[A, B]);
    let lease = bench.task(A).lease;
    assert_eq!(bench.plan.next_deadline(), Some(Millis(100)));
    bench.now = 99;
    assert_eq!(bench.tell(Event::Tick), []);
    assert_eq!(bench.renew(B, lease), renewal(B, &[lease]));
    assert_eq!(bench.plan.next_deadline(), Some(Millis(100)));
    assert_eq!(bench.renew(A, lease), renewal(A, &[]));
    assert_eq!(bench.plan.next_deadline(), Some(Millis(199)));
    bench.now = 198;
    assert_eq!(bench.tell(Event::Tick), []);
    assert_eq!(bench.want(B), []);
    bench.now = 199;
    let actions = bench.tell(Event::Tick);
    let again = only_task(&actions);
    assert_eq!((again.attempt, heads(again)), (2, to_heads(&[0])));
    assert_eq!(bench.renew(A, lease), renewal(A, &[lease]));
    assert_eq!(bench.plan.next_deadline(), Some(Millis(299)));
}

#[test]
fn lost_attempts_lead_to_the_range_that_cannot_be_computed() {
    let mut bench = Bench::at_layer(settings(24), 39);
    bench.join(A, 1);
    let first = bench.task(A);
    assert_eq!((first.attempt, heads(&first).len()), (1, 62));
    // Only the worker that holds the lease can fail it.
    assert_eq!(bench.fail(B, first.lease), []);
    assert_eq!(bench.fail(A, first.lease), []);
    let second = bench.task(A);
    assert_eq!((second.attempt, heads(&second)), (2, heads(&first)));
    assert_eq!(bench.fail(A, second.lease), []);
    let poison = heads(&first)[0];
    for attempt in 3..=5 {
        let task = bench.task(A);
        assert_eq!((task.attempt, heads(&task)), (attempt, vec![poison]));
        let own = Vec::from_iter((attempt == 5).then(|| arbitrate(poison.0)));
        assert_eq!(bench.fail(A, task.lease), own);
    }
    let last = Loss::Failed {
        worker: "w1".to_owned(),
        reason: "no memory".to_owned(),
    };
    let reason = StopReason::GaveUp {
        unit: Unit::Range(poison),
        attempts: 5,
        last,
        own: "not here either".to_owned(),
    };
    let failed = bench.fail_arbitration(Unit::Range(poison), "not here either");
    assert_eq!(failed, [Action::Stop { reason }]);
}

#[test]
fn a_task_has_ranges_with_the_same_number_of_lost_attempts() {
    let settings = Settings {
        tasks_per_thread: 1,
        ..settings(24)
    };
    for is_silent in [false, true] {
        let mut bench = Bench::at_layer(settings.clone(), 39);
        bench.join(A, 2);
        let (low, high) = (bench.task(A), bench.task(A));
        bench.give_back(A, low.lease);
        if is_silent {
            bench.now = 100;
            bench.tell(Event::Tick);
        } else {
            bench.fail(A, high.lease);
        }
        bench.join(A, 1);
        let mut expected = [(low, 1), (high, 2)];
        if !is_silent {
            // What a participant has failed at comes first.
            expected.reverse();
        }
        for (task, attempt) in expected {
            let again = bench.task(A);
            assert_eq!((again.attempt, heads(&again)), (attempt, heads(&task)));
        }
    }
}

#[test]
fn silence_is_a_lost_attempt_and_an_orderly_return_is_none() {
    let mut bench = Bench::new(settings(13), &[]);
    bench.join(A, 1);
    for _ in 0..20 {
        let task = bench.task(A);
        assert_eq!(task.attempt, 1);
        bench.give_back(A, task.lease);
        bench.task(A);
        bench.leave(A);
        bench.join(A, 1);
    }
    for attempt in 1..=5 {
        assert_eq!(bench.task(A).attempt, attempt);
        bench.now += 100;
        let own = Vec::from_iter((attempt == 5).then(|| arbitrate(0)));
        assert_eq!(bench.tell(Event::Tick), own);
    }
}

#[test]
fn what_belonged_to_a_silent_worker_is_nobodys() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join_all(&[A, B]);
    let tasks = [bench.task(A), bench.task(A)];
    assert_eq!(bench.want(B), []);
    bench.now = 100;
    let actions = bench.tell(Event::Tick);
    assert!(
        matches!(actions[..], [Action::Answer { .. }]),
        "{actions:?}"
    );
    // It has a task for its thread already.
    assert_eq!(bench.task(B).work, tasks[1].work);
}

/// Else a job of two workers would wait for a third one.
#[test]
fn what_a_worker_failed_is_tried_again_when_the_others_have_done_it() {
    let mut bench = Bench::new(two_replicas(13), &[]);
    bench.join_all(&[A, B]);
    let lease = bench.task(A).lease;
    bench.fail(A, lease);
    assert_eq!(bench.want(A), []);
    // As soon as B is at it.
    let actions = bench.want(B);
    let leases: Vec<LeaseId> = actions.iter().map(|action| given(action).lease).collect();
    let [lease, again] = leases[..] else {
        panic!("{actions:?}");
    };
    let (submission, _) = bench.submit(B, lease, summaries([0]));
    let (_, actions) = bench.submit(A, again, summaries([0]));
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::Commit { .. })),
        "{submission}: {actions:?}"
    );
}

#[test]
fn a_heartbeat_tells_of_all_leases_at_once() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join(A, 2);
    let (three, four) = (bench.task(A).lease, bench.task(A).lease);
    bench.now = 60;
    let leases = vec![four, LeaseId(77), three];
    let worker = A;
    let actions = bench.tell(Event::Renewed { worker, leases });
    assert_eq!(actions, renewal(A, &[LeaseId(77)]));
    assert_eq!(bench.plan.next_deadline(), Some(Millis(160)));
    // Also one without leases, and one of a stranger, is answered.
    let leases = Vec::new();
    assert_eq!(
        bench.tell(Event::Renewed { worker, leases }),
        renewal(A, &[])
    );
    assert_eq!(bench.renew(B, three), renewal(B, &[three]));
}
