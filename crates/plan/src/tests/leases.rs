//! Leases: which worker gets which task, and for how long.

use super::*;

#[test]
fn low_layers_go_first_and_nothing_is_offered_before_its_sources_are_done() {
    let mut bench = Bench::new(settings(), &[A, B]);
    let (lease, heads) = bench.heads(A).unwrap();
    assert_eq!(heads, [0]);
    assert_eq!(bench.take(B), None);
    assert_eq!(bench.returns(A, lease, range(0, 0)), Verdict::Accepted);
    assert_eq!(bench.heads(B).unwrap().1, [1]);
}

#[test]
fn a_lease_lasts_as_long_as_it_is_renewed() {
    let mut bench = Bench::new(settings(), &[A, B]);
    let (lease, _) = bench.heads(A).unwrap();
    for _ in 0..5 {
        bench.wait(99);
        assert!(bench.plan.renew(Millis(bench.now), A, &[lease]).is_empty());
        assert_eq!(bench.take(B), None);
    }
    bench.wait(100);
    assert_eq!(bench.plan.renew(Millis(bench.now), A, &[lease]), [lease]);
    assert_eq!(bench.heads(B).unwrap().1, [0]);
    let late = bench.returns(A, lease, range(0, 0));
    let reason = Rejection::NoLease { lease };
    assert_eq!(late, Verdict::Rejected { reason });
}

/// A worker that did not hear the answer returns its result again.
#[test]
fn a_result_that_is_repeated_is_a_duplicate() {
    let mut bench = Bench::new(settings(), &[A]);
    let (lease, _) = bench.heads(A).unwrap();
    assert_eq!(bench.returns(A, lease, range(0, 0)), Verdict::Accepted);
    assert_eq!(bench.returns(A, lease, range(0, 0)), Verdict::Duplicate);
    let other = bench.returns(A, lease, range(0, 1));
    assert!(matches!(other, Verdict::Rejected { .. }));
    assert!(
        bench.out.is_empty(),
        "it holds no lease, so it says nothing"
    );
}

#[test]
fn a_result_counts_only_under_a_lease_of_its_worker() {
    let mut bench = Bench::new(settings(), &[A, B]);
    let (lease, _) = bench.heads(A).unwrap();
    for (worker, range) in [
        (B, range(0, 0)),
        (A, range(1, 0)),
        (A, range(16, 0)),
        (C, range(0, 0)),
    ] {
        let verdict = bench.returns(worker, lease, range);
        assert!(matches!(verdict, Verdict::Rejected { .. }), "{verdict:?}");
        assert!(!bench.is_done(0));
    }
}

#[test]
fn what_one_worker_is_slow_with_is_given_to_another_too() {
    let settings = Settings {
        straggler_ms: 50,
        lease_ms: 1000,
        ..settings()
    };
    let mut bench = Bench::new(settings, &[A, B, C]);
    let (slow, _) = bench.heads(A).unwrap();
    bench.requests += 1;
    let request = RequestId(bench.requests);
    bench.handle(Event::Requested {
        request,
        worker: B,
        responder: (),
    });
    assert_eq!(bench.plan.next_deadline(), Some(Millis(50)));
    bench.wait(50);
    let (worker, task) = bench.tasks.pop().unwrap();
    assert_eq!(worker, B);
    assert_eq!(bench.take(C), None, "two are enough");
    // Unless both are slow: one that goes on renewing holds up nobody.
    bench.wait(50);
    assert_eq!(bench.heads(C).unwrap().1, [0]);
    assert_eq!(bench.returns(B, task.lease, range(0, 0)), Verdict::Accepted);
    // The slow one is not held up by it, and what it returns is known.
    assert_eq!(bench.returns(A, slow, range(0, 0)), Verdict::Duplicate);
}

#[test]
fn a_worker_that_leaves_or_gives_back_loses_nothing_for_others() {
    let mut bench = Bench::new(settings(), &[A, B]);
    let task = bench.take(A).unwrap();
    assert_eq!(task.attempt, 1);
    bench.handle(Event::Returned {
        worker: A,
        lease: task.lease,
        failure: None,
    });
    let task = bench.take(A).unwrap();
    assert_eq!(task.attempt, 1, "that was no failed attempt");
    bench.handle(Event::Left { worker: A });
    assert_eq!(bench.take(B).unwrap().attempt, 1);
}

/// Attempts fail, and then it is left to the referee; if that fails too, the job stops.
#[test]
fn no_range_is_tried_for_ever() {
    for succeeds in [true, false] {
        let mut bench = Bench::new(settings(), &[A, B]);
        for attempt in 1..=5 {
            let worker = if attempt % 2 == 0 { A } else { B };
            let task = bench.take(worker).unwrap();
            assert_eq!(task.attempt, attempt);
            bench.handle(Event::Returned {
                worker,
                lease: task.lease,
                failure: Some("no memory".to_owned()),
            });
        }
        assert_eq!(bench.take(A), None);
        // One that has it still may fail, too.
        let lease = bench.plan.pretend_leased(A, &[Unit::Range(Head(0))]);
        bench.handle(Event::Returned {
            worker: A,
            lease,
            failure: Some("no memory".to_owned()),
        });
        assert_eq!(bench.plan.phase(), &Phase::Running);
        if succeeds {
            bench.decides(0, 0);
            assert!(bench.is_done(0) && bench.out.is_empty());
        } else {
            // A lease that expires, as while a machine sleeps, says nothing.
            bench.take_as_referee().unwrap();
            bench.wait(100);
            for _ in 0..bench.plan.settings.failures_max {
                let task = bench.take_as_referee().unwrap();
                bench.handle(Event::Returned {
                    worker: REFEREE,
                    lease: task.lease,
                    failure: Some("no memory here either".to_owned()),
                });
            }
            let Phase::Stopped(StopReason::GaveUp { attempts, .. }) = bench.plan.phase() else {
                panic!("{:?}", bench.plan.phase());
            };
            assert_eq!(*attempts, 12);
        }
    }
}

/// Of ranges that failed together, the one that fails is found.
#[test]
fn a_range_that_failed_twice_goes_alone() {
    let settings = Settings {
        task_positions_max: 1 << 20,
        task_positions_min: 1 << 20,
        ..settings()
    };
    let mut bench = Bench::new(settings, &[A]);
    for head in 0..3 {
        bench.finds(A, head, 0);
    }
    for _ in 0..2 {
        let (lease, heads) = bench.heads(A).unwrap();
        assert_eq!(heads, [3, 4]);
        bench.handle(Event::Returned {
            worker: A,
            lease,
            failure: Some("no memory".to_owned()),
        });
    }
    assert_eq!(bench.heads(A).unwrap().1, [3]);
}

/// A participant that takes each task and gives it back holds nobody up for longer than a slow lease stands, also where
/// each range takes two others.
#[test]
fn one_that_gives_all_back_holds_up_nobody() {
    for honest in [&[B][..], &[B, C]] {
        let replicas = u32::try_from(honest.len()).unwrap();
        let settings = Settings {
            straggler_ms: 50,
            lease_ms: 30_000,
            replicas,
            ..settings()
        };
        let mut bench = Bench::new(settings, &[&[A], honest].concat());
        let mut done = 0;
        let work = |bench: &mut Bench| {
            let mut found = 0;
            loop {
                let before = found;
                for &worker in honest {
                    if let Some((lease, heads)) = bench.heads(worker) {
                        bench.returns(worker, lease, range(heads[0], 0));
                        found += 1;
                    }
                }
                if found == before {
                    return found;
                }
            }
        };
        let back = |bench: &mut Bench, held: Task| {
            bench.handle(Event::Returned {
                worker: A,
                lease: held.lease,
                failure: None,
            });
        };
        // In each round it costs others one range at the most, and that for as long as a lease is not slow.
        for _ in 0..16 {
            // A task that is given back at once costs nobody anything.
            for _ in 0..3 {
                if let Some(held) = bench.take(A) {
                    back(&mut bench, held);
                }
            }
            let held = bench.take(A);
            done += work(&mut bench);
            if let Some(held) = held {
                bench.wait(50);
                done += work(&mut bench);
                back(&mut bench, held);
            }
        }
        assert_eq!(done, 16 * replicas);
    }
}

/// One that takes tasks and renews them for ever, and hands nothing in, holds up nobody: what it was to check lapses.
#[test]
fn one_that_never_hands_in_holds_up_nobody() {
    let settings = Settings {
        replicas: 2,
        straggler_ms: 50,
        checks_per_1000: 400,
        newcomer_ranges: 2,
        ..settings()
    };
    let mut bench = Bench::new(settings, &[A, B, C]);
    let mut held = Vec::new();
    while bench.publications == 0 {
        assert!(bench.now < 100_000, "{:?}", bench.plan);
        if held.len() < 3 {
            held.extend(bench.take(A).map(|task| task.lease));
        }
        for worker in [B, C] {
            if let Some(task) = bench.take(worker) {
                bench.does(worker, &task);
            }
        }
        bench.wait(20);
        bench.plan.renew(Millis(bench.now), A, &held);
    }
    assert!(!bench.is_referee_called && bench.plan.progress().checks_lapsed > 0);
    let left = bench.plan.renew(Millis(bench.now), A, &held);
    assert_eq!(left, held, "no lease is of use any more");
}
