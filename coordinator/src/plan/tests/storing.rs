//! Seals, publication, failures of the store, the end of a job.

use super::*;

fn seal(layer: u32, heads: &[u64]) -> Action {
    Action::Seal {
        layer,
        ranges: summaries(heads.iter().copied()),
    }
}

fn stopped(request: u64, reason: StopReason) -> Action {
    Action::Answer {
        request: RequestId(request),
        answer: Answer::Stopped { reason },
    }
}

#[test]
fn seals_are_made_one_by_one_in_order_and_hold_nothing_up() {
    let mut bench = Bench::new(settings(14), &[]);
    bench.join(A, 1);
    for layer in 0..4 {
        let task = bench.task(A);
        assert_eq!(task.layer, layer);
        bench.finish(A, &task);
    }
    assert_eq!(bench.want(A), []);
    assert_eq!(bench.tell(Event::Sealed { layer: 0 }), [seal(1, &[1])]);
    assert_eq!(bench.tell(Event::Sealed { layer: 1 }), [seal(2, &[2])]);
    assert_eq!(bench.tell(Event::Sealed { layer: 2 }), [seal(3, &[3])]);
    assert_eq!(bench.tell(Event::Sealed { layer: 3 }), [Action::Publish]);
    assert_eq!(*bench.plan.phase(), Phase::Running);
    assert!(!bench.plan.is_quiet());
    let finished = |request| Action::Answer {
        request: RequestId(request),
        answer: Answer::Finished,
    };
    assert_eq!(bench.tell(Event::Published), [finished(5)]);
    assert_eq!(bench.want(A), [finished(6)]);
    assert_eq!(*bench.plan.phase(), Phase::Finished);
    assert!(bench.plan.is_quiet());
    // A result that comes even later is still compared.
    let (late, actions) = bench.submit(A, LeaseId(0), summaries([2]));
    assert_eq!(actions, [duplicate(late)]);
    // Who is asked to go after the end has not stopped early.
    assert_eq!(bench.tell(Event::Shutdown), []);
    assert_eq!(*bench.plan.phase(), Phase::Finished);
}

#[test]
fn a_table_of_one_range() {
    for bits in [0, 5, 12] {
        let mut bench = Bench::new(settings(bits), &[]);
        bench.join(A, 3);
        let task = bench.task(A);
        assert_eq!(task.heads, to_heads(&[0]));
        bench.finish(A, &task);
        assert_eq!(bench.tell(Event::Sealed { layer: 0 }), [Action::Publish]);
    }
}

#[test]
fn what_was_done_before_is_sealed_at_the_start() {
    let all = summaries(0..4);
    let (bench, actions) = Bench::with(settings(14), &all, &[], 4);
    assert_eq!(actions, [Action::Publish]);
    assert_eq!(bench.plan.progress().ranges_resumed, 4);
    let (mut bench, actions) = Bench::with(settings(14), &all[..3], &[], 1);
    assert_eq!(actions, [seal(1, &[1])]);
    assert_eq!(bench.tell(Event::Sealed { layer: 1 }), [seal(2, &[2])]);
    assert_eq!(bench.tell(Event::Sealed { layer: 2 }), []);
    let (_, actions) = Bench::with(settings(14), &all[1..], &[], 0);
    assert_eq!(actions, [], "layer 0 is missing");
}

#[test]
fn ranges_of_a_sealed_layer_that_are_lost_are_computed_before_all_else() {
    let all = summaries(0..4);
    let done = [all[0], all[2], all[3]];
    let (mut bench, actions) = Bench::with(settings(14), &done, &all, 4);
    assert_eq!(actions, [], "no publication while a range is missing");
    bench.join(A, 1);
    let task = bench.task(A);
    assert_eq!(task.heads, to_heads(&[1]));
    let submission = bench.begin_commit(A, task.lease, &[1]);
    let actions = bench.tell(Event::Committed { submission });
    assert_eq!(actions, [accepted(submission), Action::Publish]);
}

#[test]
fn what_is_known_of_larger_tables_is_ignored() {
    let (bench, _) = Bench::with(
        settings(14),
        &summaries([0, 4, 1 << 50]),
        &summaries([9]),
        0,
    );
    assert_eq!(bench.plan.progress().ranges_done, 1);
    assert_eq!(bench.plan.progress().losing, 1);
}

#[test]
fn what_is_known_twice_counts_once_and_must_agree() {
    let (bench, _) = Bench::with(settings(14), &summaries([0, 0]), &[], 0);
    assert_eq!(bench.plan.progress().ranges_done, 1);
    let contradiction = PlanError::Disagreement { head: Head(2) };
    for (done, expected) in [
        (vec![summary(2), wrong(2)], vec![]),
        (vec![summary(2)], vec![wrong(2)]),
        (vec![], vec![summary(2), wrong(2)]),
    ] {
        assert_eq!(
            Plan::new(settings(14), &done, &expected, 0).err(),
            Some(contradiction.clone())
        );
    }
}

#[test]
fn the_number_of_ranges_is_limited() {
    let range_bits = RangeBits::new(12).unwrap();
    for bits in [33, 64] {
        let error = PlanError::TooManyRanges {
            bits,
            range_bits,
            least: bits - HEAD_BITS_MAX,
        };
        assert_eq!(Plan::new(settings(bits), &[], &[], 0).err(), Some(error));
    }
    let (plan, _) = Plan::new(settings(32), &[], &[], 0).unwrap();
    assert_eq!(
        (plan.progress().ranges, plan.progress().layers),
        (1 << 20, 211)
    );
}

#[test]
fn a_failed_write_stops_the_job_and_acknowledges_nothing() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join(A, 1);
    let (failing, good) = (
        bench.begin_commit(A, LeaseId(9), &[3]),
        bench.begin_commit(A, LeaseId(9), &[4]),
    );
    let (waiting, _) = bench.submit(B, LeaseId(9), summaries([3, 4]));
    assert_eq!(bench.want(A), []);
    let reason = StopReason::CommitFailed {
        reason: "disk full".to_owned(),
    };
    let failed = Event::CommitFailed {
        submission: failing,
        reason: "disk full".to_owned(),
    };
    assert_eq!(
        bench.tell(failed),
        [
            rejected(failing, Rejection::Stopped),
            Action::Stop {
                reason: reason.clone()
            },
            stopped(1, reason)
        ]
    );
    // What succeeds all the same is told; what waited for the failed write too is not.
    let settled = [accepted(good), rejected(waiting, Rejection::Stopped)];
    assert_eq!(bench.tell(Event::Committed { submission: good }), settled);
    assert!(bench.plan.is_quiet());
    assert_eq!(bench.plan.progress().ranges_done, 4);
}

#[test]
fn a_failed_seal_or_publication_stops_the_job() {
    let reason = "read-only".to_owned();
    let (mut bench, _) = Bench::with(settings(14), &summaries([0]), &[], 0);
    let stop = Action::Stop {
        reason: StopReason::SealFailed {
            layer: 0,
            reason: reason.clone(),
        },
    };
    assert_eq!(
        bench.tell(Event::SealFailed {
            layer: 0,
            reason: reason.clone()
        }),
        [stop]
    );
    let (mut bench, _) = Bench::with(settings(14), &summaries(0..4), &[], 4);
    let stop = Action::Stop {
        reason: StopReason::PublishFailed {
            reason: reason.clone(),
        },
    };
    assert_eq!(bench.tell(Event::PublishFailed { reason }), [stop]);
    assert!(bench.plan.is_quiet());
}

#[test]
fn a_publication_that_is_given_up_is_no_fault() {
    let (mut bench, actions) = Bench::with(settings(14), &summaries(0..4), &[], 4);
    assert_eq!(actions, [Action::Publish]);
    assert_eq!(bench.tell(Event::Shutdown), []);
    assert!(!bench.plan.is_quiet());
    assert_eq!(bench.tell(Event::PublicationStopped), []);
    assert!(bench.plan.is_quiet());
    assert_eq!(bench.plan.phase(), &Phase::Stopped(StopReason::Shutdown));
}

fn unreadable(bench: &mut Bench) -> StopReason {
    let reason = "a bit has flipped".to_owned();
    let stop = StopReason::Unreadable {
        reason: reason.clone(),
    };
    let actions = bench.tell(Event::Unreadable { reason });
    let reason = stop.clone();
    assert_eq!(actions, [Action::Stop { reason }]);
    stop
}

#[test]
fn a_fault_stays_even_if_the_table_is_published() {
    let (mut bench, _) = Bench::with(settings(14), &summaries(0..4), &[], 4);
    let reason = unreadable(&mut bench);
    assert_eq!(bench.tell(Event::Published), []);
    assert_eq!(*bench.plan.phase(), Phase::Stopped(reason));
}

#[test]
fn a_fault_ends_every_lease_sooner_or_later() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join(A, 1);
    let lease = bench.task(A).lease;
    unreadable(&mut bench);
    assert_eq!(
        bench.tell(Event::Renewed { worker: A, lease }),
        renewal(lease, false)
    );
    bench.now = 100;
    assert_eq!(bench.tell(Event::Tick), []);
    assert!(bench.plan.is_quiet());
}

#[test]
fn a_shutdown_offers_nothing_more_and_takes_what_comes() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join(A, 1);
    let tasks = [bench.task(A), bench.task(A)];
    assert_eq!(bench.want(A), []);
    assert_eq!(
        bench.tell(Event::Shutdown),
        [stopped(3, StopReason::Shutdown)]
    );
    assert_eq!(bench.want(A), [stopped(4, StopReason::Shutdown)]);
    let lease = tasks[0].lease;
    assert_eq!(
        bench.tell(Event::Renewed { worker: A, lease }),
        [Action::Renewal {
            lease,
            stands: true
        }]
    );
    assert!(!bench.plan.is_quiet());
    for task in &tasks {
        bench.finish(A, task);
    }
    assert!(bench.plan.is_quiet(), "no seal is begun");
    assert_eq!(bench.plan.progress().ranges_done, 5);
    // A fault is told even now.
    unreadable(&mut bench);
}

#[test]
fn a_publication_under_way_at_a_shutdown_may_end() {
    let (mut bench, _) = Bench::with(settings(14), &summaries(0..4), &[], 4);
    assert_eq!(bench.tell(Event::Shutdown), []);
    assert!(!bench.plan.is_quiet());
    assert_eq!(bench.tell(Event::Published), []);
    assert_eq!(*bench.plan.phase(), Phase::Finished);
}

#[test]
#[should_panic(expected = "the caller tells the outcome of each write once")]
fn an_outcome_told_twice_is_a_bug() {
    let mut bench = Bench::at_layer(settings(16), 3);
    let submission = bench.begin_commit(A, LeaseId(0), &[3]);
    bench.tell(Event::Committed { submission });
    bench.tell(Event::Committed { submission });
}

#[test]
#[should_panic(expected = "layer 1 was not to be sealed")]
fn a_seal_that_was_not_asked_for_is_a_bug() {
    Bench::with(settings(14), &summaries([0]), &[], 0)
        .0
        .tell(Event::Sealed { layer: 1 });
}

#[test]
fn a_finished_job_has_nothing_to_do_and_says_so() {
    let mut plan = Plan::finished(settings(16), 77).unwrap();
    let progress = plan.progress();
    assert_eq!((progress.ranges_done, progress.losing), (16, 77));
    assert_eq!(
        (progress.layer, plan.next_deadline()),
        (progress.layers, None)
    );
    let (worker, request) = (A, RequestId(1));
    plan.handle(
        Millis(0),
        Event::Joined {
            worker,
            name: String::new(),
            threads: 1,
        },
    );
    let actions = plan.handle(Millis(0), Event::Wanted { request, worker });
    let answer = Answer::Finished;
    assert_eq!(actions, [Action::Answer { request, answer }]);
    assert!(plan.is_quiet());
}
