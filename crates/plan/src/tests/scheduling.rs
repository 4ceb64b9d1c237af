//! Who gets what.

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
    let task = |lease, head| Task {
        lease: LeaseId(lease),
        attempt: 1,
        work: evaluate(head, &[head.into()]),
    };
    assert_eq!(first, task(0, 0));
    assert_eq!(bench.want(A), []);
    let submission = bench.begin_commit(A, first.lease, &[0]);
    let actions = bench.committed(submission);
    let answer = answered(2, LeaseAnswer::Task(task(1, 1)));
    assert_eq!(actions, [accepted(submission), answer]);
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
    let double = only_task(&actions);
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

/// The ranges of a task lie in one quarter of a large table, so that they are merged at about the same time: in the one
/// of which most can be had, so that tasks do not get small.
#[test]
fn a_task_is_of_one_quarter() {
    let mut layer = head::layers(26, settings(26).range_bits)[52].clone();
    let mut bench = Bench::at_layer(settings(26), 52);
    bench.join(A, 1);
    while !layer.is_empty() {
        let heads = heads(&bench.task(A));
        let quarter = |head: &Head| head.0 >> 12;
        let of = |number| layer.iter().filter(move |head| quarter(head) == number);
        assert_eq!(of(quarter(&heads[0])).copied().collect::<Vec<_>>(), heads);
        assert_eq!(
            (0..4).map(|number| of(number).count()).max(),
            Some(heads.len())
        );
        layer.retain(|head| !heads.contains(head));
    }
}

/// No more than the most, and no less than the least unless a thread would go without.
#[test]
fn a_task_has_so_many_positions() {
    let most = u64::MAX;
    for (least, most, threads, expected) in [
        (0, 0, 1, 1),
        (0, 2048, 1, 1),
        (0, 4095, 1, 1),
        (0, 4096, 1, 2),
        (0, 3 * 2048, 1, 3),
        (5 * 2048, most, 62, 2),
        (5 * 2048, most, 31, 4),
        (5 * 2048, most, 4, 15),
        (40 * 2048, most, 4, 31),
        (200 * 2048, most, 1, 124),
    ] {
        let settings = Settings {
            task_positions_min: least,
            task_positions_max: most,
            ..settings(24)
        };
        let mut bench = Bench::at_layer(settings, 39);
        bench.join(A, threads);
        let ranges = heads(&bench.task(A)).len();
        assert_eq!(ranges, expected, "{least} {most} {threads}");
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
        let again = only_task(&actions);
        assert_eq!(
            actions[0],
            answered(request, LeaseAnswer::Task(again.clone()))
        );
        assert_eq!((&again.work, again.attempt), (&task.work, 1));
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
    let stranger = |request| answered(request, LeaseAnswer::NotJoined);
    assert_eq!(bench.want(A), [stranger(1)]);
    bench.join(A, 1);
    bench.leave(A);
    assert_eq!(bench.want(A), [stranger(2)]);
    assert_eq!(bench.leave(A), []);
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
    let mut bench = Bench::to_merge(slow_after(50, 14));
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
