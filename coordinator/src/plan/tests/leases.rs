//! How long a lease lasts, and what its loss costs.

use super::*;

#[test]
fn a_lease_lasts_as_long_as_it_is_renewed() {
    let mut bench = Bench::new(settings(13), &[]);
    bench.join(A, 1);
    bench.join(B, 1);
    let lease = bench.task(A).lease;
    assert_eq!(bench.plan.next_deadline(), Some(Millis(100)));
    bench.now = 99;
    assert_eq!(bench.tell(Event::Tick), []);
    assert_eq!(
        bench.tell(Event::Renewed { worker: B, lease }),
        renewal(lease, false)
    );
    assert_eq!(bench.plan.next_deadline(), Some(Millis(100)));
    assert_eq!(
        bench.tell(Event::Renewed { worker: A, lease }),
        renewal(lease, true)
    );
    assert_eq!(bench.plan.next_deadline(), Some(Millis(199)));
    bench.now = 198;
    assert_eq!(bench.tell(Event::Tick), []);
    assert_eq!(bench.want(B), []);
    bench.now = 199;
    let actions = bench.tell(Event::Tick);
    let [
        Action::Answer {
            answer: Answer::Task(again),
            ..
        },
    ] = actions.as_slice()
    else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (again.attempt, again.heads.as_slice()),
        (2, to_heads(&[0]).as_slice())
    );
    assert_eq!(
        bench.tell(Event::Renewed { worker: A, lease }),
        renewal(lease, false)
    );
    assert_eq!(bench.plan.next_deadline(), Some(Millis(299)));
}

#[test]
fn lost_attempts_lead_to_the_range_that_cannot_be_computed() {
    let mut bench = Bench::at_layer(settings(24), 39);
    bench.join(A, 1);
    let fail = |bench: &mut Bench, task: &Task| {
        let reason = "no memory".to_owned();
        bench.tell(Event::Failed {
            worker: A,
            lease: task.lease,
            reason,
        })
    };
    let first = bench.task(A);
    assert_eq!((first.attempt, first.heads.len()), (1, 62));
    // Only the worker that holds the lease can fail it.
    let reason = String::new();
    assert_eq!(
        bench.tell(Event::Failed {
            worker: B,
            lease: first.lease,
            reason
        }),
        []
    );
    assert_eq!(fail(&mut bench, &first), []);
    let second = bench.task(A);
    assert_eq!((second.attempt, &second.heads), (2, &first.heads));
    assert_eq!(fail(&mut bench, &second), []);
    let poison = first.heads[0];
    for attempt in 3..=5 {
        let task = bench.task(A);
        assert_eq!((task.attempt, &task.heads), (attempt, &vec![poison]));
        let last = Loss::Failed {
            worker: "w1".to_owned(),
            reason: "no memory".to_owned(),
        };
        let reason = StopReason::GaveUp {
            head: poison,
            attempts: 5,
            last,
        };
        let stop = if attempt == 5 {
            vec![Action::Stop { reason }]
        } else {
            vec![]
        };
        assert_eq!(fail(&mut bench, &task), stop);
    }
    assert!(matches!(
        bench.plan.phase(),
        Phase::Stopped(StopReason::GaveUp { .. })
    ));
}

#[test]
fn a_task_has_ranges_with_the_same_number_of_lost_attempts() {
    let settings = Settings {
        tasks_per_thread: 1,
        ..settings(24)
    };
    let mut bench = Bench::at_layer(settings, 39);
    bench.join(A, 2);
    let (low, high) = (bench.task(A), bench.task(A));
    let reason = String::new();
    bench.tell(Event::Failed {
        worker: A,
        lease: high.lease,
        reason,
    });
    bench.tell(Event::Returned {
        worker: A,
        lease: low.lease,
    });
    bench.join(A, 1);
    // What was begun comes first.
    for (task, attempt) in [(high, 2), (low, 1)] {
        let again = bench.task(A);
        assert_eq!((again.attempt, again.heads), (attempt, task.heads));
    }
}

#[test]
fn silence_is_a_lost_attempt_and_an_orderly_return_is_none() {
    let mut bench = Bench::new(settings(13), &[]);
    bench.join(A, 1);
    for _ in 0..20 {
        let task = bench.task(A);
        assert_eq!(task.attempt, 1);
        bench.tell(Event::Returned {
            worker: A,
            lease: task.lease,
        });
        bench.task(A);
        bench.tell(Event::Left { worker: A });
        bench.join(A, 1);
    }
    for attempt in 1..=5 {
        assert_eq!(bench.task(A).attempt, attempt);
        bench.now += 100;
        let last = Loss::Expired {
            worker: "w1".to_owned(),
        };
        let reason = StopReason::GaveUp {
            head: Head(0),
            attempts: 5,
            last,
        };
        let stop = if attempt == 5 {
            vec![Action::Stop { reason }]
        } else {
            vec![]
        };
        assert_eq!(bench.tell(Event::Tick), stop);
    }
}

#[test]
fn a_lease_ends_when_others_have_handed_in_all_of_it() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join(A, 1);
    bench.join(B, 1);
    let late = bench.task(A);
    bench.now = 100;
    bench.tell(Event::Tick);
    let again = bench.task(B);
    assert_eq!(
        (&late.heads, &again.heads),
        (&to_heads(&[3]), &to_heads(&[3]))
    );
    bench.begin_commit(A, late.lease, &[3]);
    assert_eq!(
        bench.tell(Event::Renewed {
            worker: B,
            lease: again.lease
        }),
        renewal(again.lease, false)
    );
}

#[test]
fn what_a_worker_failed_goes_to_others_while_there_are_any() {
    let mut bench = Bench::new(settings(13), &[]);
    bench.join(A, 1);
    bench.join(B, 1);
    let lease = bench.task(A).lease;
    let fail = |bench: &mut Bench, worker, lease| {
        let reason = "no memory".to_owned();
        bench.tell(Event::Failed {
            worker,
            lease,
            reason,
        })
    };
    fail(&mut bench, A, lease);
    assert_eq!(bench.want(A), []);
    let lease = bench.task(B).lease;
    // Both have failed: A, which waits, may try again.
    let actions = fail(&mut bench, B, lease);
    let [
        Action::Answer {
            answer: Answer::Task(task),
            ..
        },
    ] = actions.as_slice()
    else {
        panic!("{actions:?}")
    };
    assert_eq!(task.attempt, 3);
}

#[test]
fn a_worker_that_fails_everything_gets_no_more() {
    let settings = Settings {
        worker_failures_max: 3,
        ..settings(24)
    };
    let mut bench = Bench::at_layer(settings, 39);
    bench.join(A, 8);
    bench.join(B, 8);
    for failures in 1..=3 {
        let lease = bench.task(A).lease;
        let reason = "no memory".to_owned();
        let actions = bench.tell(Event::Failed {
            worker: A,
            lease,
            reason,
        });
        if failures < 3 {
            assert_eq!(actions, []);
            continue;
        }
        let [Action::Quarantine { worker, reason, .. }] = actions.as_slice() else {
            panic!("{actions:?}");
        };
        let tasks = 3;
        let last = "worker w1 failed: no memory".to_owned();
        assert_eq!((*worker, reason), (A, &Misdeed::Failing { tasks, last }));
    }
    assert_eq!(*bench.plan.phase(), Phase::Running);
    assert_eq!(bench.plan.progress().threads, 8);
}
