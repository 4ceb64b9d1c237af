//! Who gets what.

use std::collections::VecDeque;

use super::*;

fn evaluate(layer: u32, heads: &[u64]) -> Work {
    let heads = to_heads(heads);
    Work::Evaluate { layer, heads }
}

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
            lease_ms: 100,
            work: evaluate(0, &[0])
        }
    );
    assert_eq!(bench.want(A), []);
    let submission = bench.begin_commit(A, first.lease, &[0]);
    let actions = bench.tell(Event::Committed { submission });
    let next = Task {
        lease: LeaseId(1),
        attempt: 1,
        lease_ms: 100,
        work: evaluate(1, &[1]),
    };
    let answer = Action::Answer {
        request: RequestId(2),
        answer: LeaseAnswer::Task(next),
    };
    assert_eq!(actions, [accepted(submission), answer]);
}

#[test]
fn a_range_is_offered_when_its_sources_are_durable() {
    // Layers 3 to 6 of 16 bits are [3 4] [5 8] [6 9] [7 a]; 8 draws on 4 and not on 3.
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join(A, 1);
    let (three, four) = (bench.task(A), bench.task(A));
    assert_eq!(bench.want(A), []);
    let submission = bench.begin_commit(A, four.lease, &[4]);
    let actions = bench.tell(Event::Committed { submission });
    let [settled, answer] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(*settled, accepted(submission));
    let ahead = given(answer);
    assert_eq!(&ahead.work, &evaluate(4, &[8]));
    bench.finish(A, ahead);
    assert_eq!(bench.plan.progress().layer, 3);
    assert_eq!(bench.want(A), []);
    // A task given back goes before those ready above it.
    bench.give_back(A, three.lease);
    assert_eq!(bench.plan.progress().leases, 1);
}

#[test]
fn what_a_slow_worker_holds_is_given_to_one_that_would_idle() {
    let settings = Settings {
        straggler_ms: 50,
        tasks_per_thread: 1,
        ..settings(16)
    };
    let mut bench = Bench::at_layer(settings, 3);
    bench.join(A, 1);
    let slow = bench.task(A);
    assert_eq!(heads(&slow), to_heads(&[3, 4]));
    bench.join(B, 1);
    assert_eq!(bench.want(A), [], "not its own");
    assert_eq!(bench.want(B), []);
    assert_eq!(bench.plan.next_deadline(), Some(Millis(50)));
    bench.now = 50;
    let actions = bench.tell(Event::Tick);
    let [
        Action::Answer {
            request: RequestId(3),
            answer: LeaseAnswer::Task(double),
        },
    ] = actions.as_slice()
    else {
        panic!("{actions:?}")
    };
    assert_eq!((&double.work, double.attempt), (&slow.work, 1));
    // Twice is enough.
    assert_eq!(bench.want(B), []);
    bench.join(WorkerId::only(3), 1);
    assert_eq!(bench.want(WorkerId::only(3)), []);
    // Whoever is first, both are right.
    bench.finish(B, double);
    let (late, actions) = bench.submit(A, slow.lease, summaries([3, 4]));
    assert_eq!(actions, [duplicate(late)]);
}

#[test]
fn a_silent_worker_is_forgotten_and_comes_back_as_itself() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join(A, 4);
    let task = bench.task(A);
    bench.now = 9_999;
    bench.tell(Event::Tick);
    assert_eq!(bench.plan.progress().workers, 1);
    assert_eq!(bench.plan.progress().leases, 0);
    bench.renew(A, task.lease);
    bench.now = 19_998;
    bench.tell(Event::Tick);
    assert_eq!(bench.plan.progress().threads, 4);
    assert_eq!(bench.plan.next_deadline(), Some(Millis(19_999)));
    bench.now = 19_999;
    bench.tell(Event::Tick);
    assert_eq!(bench.plan.progress().threads, 0);
    bench.join(A, 4);
    bench.finish(A, &task);
    let workers: Vec<_> = bench.plan.workers().collect();
    assert_eq!((workers[0].ranges, workers[0].name.as_str()), (1, "w1"));
}

#[test]
fn leases_of_different_owners_have_different_numbers() {
    let settings = Settings {
        epoch: 7,
        ..settings(13)
    };
    let mut bench = Bench::new(settings, &[]);
    bench.join(A, 1);
    assert_eq!(bench.task(A).lease, LeaseId(7 << 32));
}

#[test]
fn tasks_follow_the_number_of_threads() {
    // Layer 39 of 12 head bits has 124 ranges; 2 tasks for each of 5 threads are 12 ranges each.
    let count = head::layers(24, settings(24).range_bits)[39].len();
    assert_eq!(count, 124);
    let mut bench = Bench::at_layer(settings(24), 39);
    bench.join(A, 5);
    assert_eq!(heads(&bench.task(A)).len(), 12);
    bench.join(B, 57);
    assert_eq!(heads(&bench.task(A)).len(), 1);
    assert_eq!(bench.leave(B), []);
    bench.join(A, 1);
    assert_eq!(bench.plan.progress().threads, 1);
    let sizes: Vec<usize> = (0..2).map(|_| heads(&bench.task(A)).len()).collect();
    assert_eq!(sizes, [62, 124 - 62 - 12 - 1]);
    assert_eq!(bench.want(A), []);
}

#[test]
fn tasks_are_cut_from_the_bottom_and_cover_the_layer_once() {
    let mut bench = Bench::at_layer(settings(24), 39);
    bench.join(A, 3);
    let mut all = Vec::new();
    while all.len() < 124 {
        all.extend(heads(&bench.task(A)));
    }
    assert_eq!(all, head::layers(24, settings(24).range_bits)[39]);
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
        assert_eq!(heads(&bench.task(A)).len(), ranges, "{positions}");
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
        assert_eq!(heads(&bench.task(A)).len(), expected, "{ranges} {threads}");
    }
}

#[test]
fn a_worker_without_threads_gets_tasks_too() {
    let mut bench = Bench::new(settings(13), &[]);
    bench.join(A, 0);
    assert_eq!(heads(&bench.task(A)), to_heads(&[0]));
}

#[test]
fn what_comes_back_goes_to_its_owner_before_others() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join_all(&[A, B]);
    let tasks = [bench.task(A), bench.task(A)];
    assert_eq!(bench.want(B), []);
    assert_eq!(bench.want(A), []);
    for (task, request, worker) in [(&tasks[0], 4, A), (&tasks[1], 3, B)] {
        let actions = bench.give_back(A, task.lease);
        let [
            Action::Answer {
                request: answered,
                answer: LeaseAnswer::Task(again),
            },
        ] = actions.as_slice()
        else {
            panic!("{actions:?}")
        };
        assert_eq!(
            (answered.0, &again.work, again.attempt),
            (request, &task.work, 1)
        );
        assert_eq!(bench.renew(worker, again.lease), renewal(worker, &[]));
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
    assert_eq!(bench.give_back(A, task.lease), []);
    assert_eq!(bench.task(A).work, task.work);
}

#[test]
fn strangers_are_told_to_join() {
    let mut bench = Bench::new(settings(13), &[]);
    let stranger = |request| Action::Answer {
        request: RequestId(request),
        answer: LeaseAnswer::NotJoined,
    };
    assert_eq!(bench.want(A), [stranger(1)]);
    bench.join(A, 1);
    bench.leave(A);
    assert_eq!(bench.want(A), [stranger(2)]);
    assert_eq!(bench.leave(A), []);
}

#[test]
fn what_a_leaving_worker_held_goes_back() {
    let mut bench = Bench::new(settings(13), &[]);
    bench.join(A, 2);
    bench.join(B, 1);
    let task = bench.task(A);
    assert_eq!(bench.want(A), []);
    assert_eq!(bench.want(B), []);
    let actions = bench.leave(A);
    let again = Task {
        lease: LeaseId(1),
        ..task.clone()
    };
    assert_eq!(
        actions,
        [Action::Answer {
            request: RequestId(3),
            answer: LeaseAnswer::Task(again)
        }]
    );
    assert_eq!(bench.renew(A, task.lease), renewal(A, &[task.lease]));
    assert_eq!(
        (bench.plan.progress().workers, bench.plan.progress().threads),
        (1, 1)
    );
}

/// Runs a job to its end, without the checks that look at every range, and counts tasks and events.
fn run_through(settings: Settings, workers: u64, threads: u32) -> (Bench, u64, u64) {
    let mut bench = Bench::new(settings, &[]);
    for worker in (0..workers).map(|number| WorkerId::new(0, number)) {
        let name = String::new();
        let joined = Event::Joined {
            worker,
            name,
            threads,
        };
        bench.plan.handle(Millis(0), joined);
    }
    let (mut tasks, mut id) = (0, 0);
    let mut events = VecDeque::new();
    for worker in (0..workers).map(|number| WorkerId::new(0, number)) {
        for _ in 0..2 {
            id += 1;
            let request = RequestId(id);
            events.push_back(Event::Wanted { request, worker });
        }
    }
    let mut holders = std::collections::BTreeMap::new();
    while let Some(event) = events.pop_front() {
        if let Event::Wanted { request, worker } = event {
            holders.insert(request, worker);
        }
        for action in bench.plan.handle(Millis(0), event) {
            id += 1;
            match action {
                Action::Answer {
                    request,
                    answer: LeaseAnswer::Task(Task { lease, work, .. }),
                } => {
                    tasks += 1;
                    let worker = holders.remove(&request).unwrap();
                    let submission = SubmissionId(id);
                    let result = match work {
                        Work::Evaluate { heads, .. } => Event::Evaluated {
                            submission,
                            worker,
                            lease,
                            ranges: summaries(heads.iter().map(|head| head.0)),
                        },
                        Work::Merge { shard, .. } => Event::Merged {
                            submission,
                            worker,
                            lease,
                            shard,
                            digest: shard_digest(shard),
                        },
                    };
                    let request = RequestId(id);
                    events.push_back(Event::Wanted { request, worker });
                    events.push_back(result);
                }
                Action::Commit { submission, .. } => {
                    events.push_back(Event::Committed { submission });
                }
                Action::Publish => events.push_back(Event::Published),
                Action::Settle { .. } | Action::Forget { .. } => {}
                Action::Answer { answer, .. } => assert_eq!(answer, LeaseAnswer::Finished),
                other => panic!("{other:?}"),
            }
        }
    }
    (bench, tasks, id)
}

/// The layers of 16 head bits, each cut for 64 threads.
#[test]
fn a_job_of_65536_ranges_runs_through() {
    let settings = shards_of(1000, 28);
    let (bench, tasks, _) = run_through(settings, 16, 4);
    bench.plan.check_invariants();
    assert_eq!(*bench.plan.phase(), Phase::Finished);
    assert_eq!(bench.plan.progress().ranges_done, 65536);
    // At least 128 tasks in each layer with enough ranges, and not many more.
    assert!((137 * 64..137 * 256).contains(&tasks), "{tasks}");
}

/// Each range is a task, every eighth is drawn, and thousands of requests wait.
#[test]
fn a_job_of_many_workers_runs_through() {
    let settings = Settings {
        draw_own_one_in: 8,
        newcomer_results: 2,
        shard_words: 1 << 20,
        ..settings(26)
    };
    let (bench, tasks, _) = run_through(settings, 3000, 1);
    bench.plan.check_invariants();
    assert_eq!(*bench.plan.phase(), Phase::Finished);
    assert!((17_000..40_000).contains(&tasks), "{tasks}");
}

#[test]
fn what_belongs_to_another_worker_is_for_one_that_would_idle() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join_all(&[A, B]);
    let tasks = [bench.task(A), bench.task(A)];
    bench.give_back(A, tasks[1].lease);
    let stolen = bench.task(B);
    assert_eq!(stolen.work, tasks[1].work);
    bench.give_back(A, tasks[0].lease);
    // It has a task for its thread.
    assert_eq!(bench.want(B), []);
    assert_eq!(bench.task(A).work, tasks[0].work);
}

/// Only somebody who waits is to be told that a lease has become old.
#[test]
fn nobody_is_woken_up_for_a_slow_task_that_nobody_wants() {
    let mut bench = Bench::new(slow_after(50, 13), &[]);
    bench.join_all(&[A, B]);
    bench.task(A);
    assert_eq!(bench.plan.next_deadline(), Some(Millis(100)));
    assert!(!bench.plan.is_anybody_idle() && bench.plan.would_idle(B));
    assert!(!bench.plan.would_idle(A) && !bench.plan.would_idle(C));
    assert_eq!(bench.want(A), []);
    assert!(!bench.plan.is_anybody_idle());
    assert_eq!(bench.want(B), []);
    assert!(bench.plan.is_anybody_idle());
    assert_eq!(bench.plan.next_deadline(), Some(Millis(50)));
}

/// Shards are neither merged nor doubled while a range is in doubt.
#[test]
fn a_slow_merge_is_not_doubled_in_doubt() {
    let (mut bench, _) = Bench::with(slow_after(50, 14), &summaries(0..4), &[]);
    bench.join_all(&[A, B, C]);
    bench.task(A);
    bench.submit(B, LeaseId(9), vec![wrong(3)]);
    bench.now = 50;
    assert_eq!(bench.want(C), []);
    let (_, actions) = bench.arbitrate(summary(3));
    assert!(matches!(
        given(&actions[4]).work,
        Work::Merge { shard: 0, .. }
    ));
}

/// Its task is done by another, so it would idle, and takes what is that one's.
#[test]
fn who_has_nothing_left_to_do_is_looked_at() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join_all(&[A, B]);
    bench.task(A);
    assert!(!bench.plan.has_delivered(A) && !bench.plan.has_delivered(B));
    let (worker, lease) = (B, bench.task(B).lease);
    bench.give_back(worker, lease);
    assert_eq!(bench.want(A), []);
    let (submission, actions) = bench.submit(B, LeaseId(9), summaries([3]));
    assert_eq!(actions[0], commit_by(submission, &[3], &[B]));
    assert_eq!(heads(given(&actions[1])), to_heads(&[4]));
    assert!(bench.plan.has_delivered(B) && !bench.plan.has_delivered(A));
}
