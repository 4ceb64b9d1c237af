//! Who gets what.

use super::*;

#[test]
fn a_layer_is_offered_when_the_one_below_is_durable() {
    let mut bench = Bench::new(settings(14), &[]);
    bench.join(A, 1);
    let first = bench.task(A);
    assert_eq!(
        first,
        Task {
            lease: LeaseId(0),
            attempt: 1,
            layer: 0,
            heads: to_heads(&[0]),
            lease_ms: 100
        }
    );
    assert_eq!(bench.want(A), []);
    let submission = bench.begin_commit(A, first.lease, &[0]);
    let actions = bench.tell(Event::Committed { submission });
    let next = Task {
        lease: LeaseId(1),
        attempt: 1,
        layer: 1,
        heads: to_heads(&[1]),
        lease_ms: 100,
    };
    let answer = Action::Answer {
        request: RequestId(2),
        answer: Answer::Task(next),
    };
    assert_eq!(
        actions,
        [
            accepted(submission),
            Action::Seal {
                layer: 0,
                ranges: summaries([0])
            },
            answer
        ]
    );
}

#[test]
fn tasks_follow_the_number_of_threads() {
    // Layer 39 of 12 head bits has 124 ranges; 2 tasks for each of 5 threads are 12 ranges each.
    let heads = layers(24, settings(24).range_bits)[39].len();
    assert_eq!(heads, 124);
    let mut bench = Bench::at_layer(settings(24), 39);
    bench.join(A, 5);
    assert_eq!(bench.task(A).heads.len(), 12);
    bench.join(B, 57);
    assert_eq!(bench.task(A).heads.len(), 1);
    assert_eq!(bench.tell(Event::Left { worker: B }), []);
    bench.join(A, 1);
    assert_eq!(bench.plan.progress().threads, 1);
    let sizes: Vec<usize> = (0..2).map(|_| bench.task(A).heads.len()).collect();
    assert_eq!(sizes, [62, 124 - 62 - 12 - 1]);
    assert_eq!(bench.want(A), []);
}

#[test]
fn tasks_are_cut_from_the_bottom_and_cover_the_layer_once() {
    let mut bench = Bench::at_layer(settings(24), 39);
    bench.join(A, 3);
    let mut heads = Vec::new();
    while heads.len() < 124 {
        heads.extend(bench.task(A).heads);
    }
    assert_eq!(heads, layers(24, settings(24).range_bits)[39]);
}

#[test]
fn a_task_has_so_many_positions_at_most() {
    for (positions, ranges) in [(0, 1), (2048, 1), (4095, 1), (4096, 2), (3 * 2048, 3)] {
        let settings = Settings {
            task_positions_max: positions,
            ..settings(24)
        };
        let mut bench = Bench::at_layer(settings, 39);
        bench.join(A, 1);
        assert_eq!(bench.task(A).heads.len(), ranges, "{positions}");
    }
}

#[test]
fn a_task_has_so_many_positions_at_least_unless_a_thread_would_go_without() {
    for (ranges, threads, expected) in [
        (5, 62, 2),
        (5, 31, 4),
        (5, 4, 15),
        (40, 4, 31),
        (200, 1, 124),
    ] {
        let settings = Settings {
            task_positions_min: ranges * 2048,
            ..settings(24)
        };
        let mut bench = Bench::at_layer(settings, 39);
        bench.join(A, threads);
        assert_eq!(bench.task(A).heads.len(), expected, "{ranges} {threads}");
    }
}

#[test]
fn a_worker_without_threads_gets_tasks_too() {
    let mut bench = Bench::new(settings(13), &[]);
    bench.join(A, 0);
    assert_eq!(bench.task(A).heads, to_heads(&[0]));
}

#[test]
fn requests_wait_in_order() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join(A, 1);
    bench.join(B, 1);
    let tasks = [bench.task(A), bench.task(A)];
    assert_eq!(bench.want(B), []);
    assert_eq!(bench.want(A), []);
    for (task, request, worker) in [(&tasks[0], 3, B), (&tasks[1], 4, A)] {
        let actions = bench.tell(Event::Returned {
            worker: A,
            lease: task.lease,
        });
        let [
            Action::Answer {
                request: answered,
                answer: Answer::Task(again),
            },
        ] = actions.as_slice()
        else {
            panic!("{actions:?}")
        };
        assert_eq!(
            (answered.0, &again.heads, again.attempt),
            (request, &task.heads, 1)
        );
        assert_eq!(
            bench.tell(Event::Renewed {
                worker,
                lease: again.lease
            }),
            renewal(again.lease, true)
        );
    }
}

#[test]
fn a_withdrawn_request_is_not_answered() {
    let mut bench = Bench::new(settings(13), &[]);
    bench.join(A, 1);
    let task = bench.task(A);
    assert_eq!(bench.want(A), []);
    assert_eq!(
        bench.tell(Event::Withdrawn {
            request: RequestId(2)
        }),
        []
    );
    // Too late: that one was answered.
    assert_eq!(
        bench.tell(Event::Withdrawn {
            request: RequestId(1)
        }),
        []
    );
    assert_eq!(
        bench.tell(Event::Returned {
            worker: A,
            lease: task.lease
        }),
        []
    );
    assert_eq!(bench.task(A).heads, task.heads);
}

#[test]
fn strangers_are_told_to_join() {
    let mut bench = Bench::new(settings(13), &[]);
    let stranger = |request| Action::Answer {
        request: RequestId(request),
        answer: Answer::NotJoined,
    };
    assert_eq!(bench.want(A), [stranger(1)]);
    bench.join(A, 1);
    bench.tell(Event::Left { worker: A });
    assert_eq!(bench.want(A), [stranger(2)]);
    assert_eq!(bench.tell(Event::Left { worker: A }), []);
}

#[test]
fn what_a_leaving_worker_held_goes_back() {
    let mut bench = Bench::new(settings(13), &[]);
    bench.join(A, 2);
    bench.join(B, 1);
    let task = bench.task(A);
    assert_eq!(bench.want(A), []);
    assert_eq!(bench.want(B), []);
    let actions = bench.tell(Event::Left { worker: A });
    let again = Task {
        lease: LeaseId(1),
        ..task.clone()
    };
    assert_eq!(
        actions,
        [Action::Answer {
            request: RequestId(3),
            answer: Answer::Task(again)
        }]
    );
    assert_eq!(
        bench.tell(Event::Renewed {
            worker: A,
            lease: task.lease
        }),
        renewal(task.lease, false)
    );
    assert_eq!(
        (bench.plan.progress().workers, bench.plan.progress().threads),
        (1, 1)
    );
}

/// The layers of 16 head bits, each cut for 64 threads, without the checks that look at every range.
#[test]
fn a_job_of_65536_ranges_runs_through() {
    let mut bench = Bench::new(settings(28), &[]);
    for worker in 0..16 {
        bench.join(WorkerId(worker), 4);
    }
    let mut tasks = 0;
    let mut id = 0;
    let mut events = Vec::new();
    while *bench.plan.phase() == Phase::Running {
        id += 1;
        let event = events.pop().unwrap_or(Event::Wanted {
            request: RequestId(id),
            worker: A,
        });
        for action in bench.plan.handle(Millis(0), event) {
            match action {
                Action::Answer {
                    answer: Answer::Task(task),
                    ..
                } => {
                    tasks += 1;
                    let ranges = summaries(task.heads.iter().map(|head| head.0));
                    let (submission, lease) = (SubmissionId(id), task.lease);
                    events.push(Event::Submitted {
                        submission,
                        worker: A,
                        lease,
                        ranges,
                    });
                }
                Action::Commit { submission, .. } => events.push(Event::Committed { submission }),
                Action::Seal { layer, .. } => events.push(Event::Sealed { layer }),
                Action::Publish => events.push(Event::Published),
                Action::Settle { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    bench.plan.check_invariants();
    assert_eq!(bench.plan.progress().ranges_done, 65536);
    // At least 128 tasks a layer, where there are so many ranges, and not many more.
    assert!((137 * 64..137 * 256).contains(&tasks), "{tasks}");
}
