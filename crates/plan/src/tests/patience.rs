//! Who takes tasks and does nothing with them.

use super::*;

/// Another worker of the participant that A is of.
const A2: WorkerId = WorkerId::new(1, 77);

/// Layers of many ranges, all below which is done.
fn busy(straggler_ms: u64) -> Bench {
    let settings = Settings {
        straggler_ms,
        lease_ms: 1_000_000,
        silence_ms: 1_000_000,
        task_positions_max: 0,
        ..settings(20)
    };
    let mut bench = Bench::at_layer(settings, 12);
    for worker in [A, A2, B] {
        bench.join(worker, 8);
    }
    bench
}

#[test]
fn who_gives_tasks_back_waits_longer_each_time() {
    let mut bench = busy(1_000_000);
    for _ in 0..3 {
        let lease = bench.task(A).lease;
        bench.give_back(A, lease);
    }
    let lease = bench.task(A).lease;
    let kept = bench.task(A).lease;
    bench.give_back(A, lease);
    // It may finish the task that it holds, and none of its workers gets more before.
    bench.now += 1_000;
    assert_eq!(bench.want(A2), []);
    let actions = bench.give_back(A, kept);
    assert_eq!(actions, []);
    for wait in [
        400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 51_200,
    ] {
        let due = Millis(bench.now + wait);
        assert_eq!(bench.plan.next_deadline(), Some(due), "{wait}");
        bench.now += wait - 1;
        assert_eq!(bench.tell(Event::Tick), []);
        bench.now += 1;
        let task = some_task(&bench.tell(Event::Tick)).unwrap();
        bench.give_back(A2, task.lease);
        assert_eq!(bench.want(A2), []);
    }
    // B notices nothing.
    bench.task(B);
    // With four results all is forgotten.
    bench.now += 51_200;
    let first = some_task(&bench.tell(Event::Tick)).unwrap();
    bench.finish(A2, &first);
    for _ in 0..3 {
        let next = bench.task(A2);
        assert_eq!(bench.want(A), [], "one at a time");
        let request = RequestId(bench.requests);
        bench.tell(Event::Withdrawn { request });
        bench.finish(A2, &next);
    }
    bench.task(A);
    bench.task(A2);
}

#[test]
fn who_holds_tasks_until_others_have_done_them_waits() {
    let mut bench = busy(3_000);
    let held: Vec<Task> = (0..8).map(|_| bench.task(A)).collect();
    // All else of the layer.
    while let Some(task) = some_task(&bench.want(B)) {
        bench.finish(B, &task);
        if heads(&task)[0].layer() > 12 {
            break;
        }
    }
    bench.now += 3_000;
    let mut doubled = 0;
    while let Some(task) = some_task(&bench.tell(Event::Tick)).or_else(|| some_task(&bench.want(B)))
    {
        doubled += usize::from(held.iter().any(|held| heads(held) == heads(&task)));
        bench.finish(B, &task);
        if doubled > 3 {
            break;
        }
    }
    assert_eq!(doubled, 4);
    assert_eq!(some_task(&bench.want(A)), None);
    // A second equal result says nothing new.
    let again = heads(&held[0])
        .iter()
        .map(|head| head.0)
        .collect::<Vec<_>>();
    bench.submit(A, held[0].lease, summaries(again));
    bench.now += 300;
    assert_eq!(some_task(&bench.tell(Event::Tick)), None);
    assert_eq!(some_task(&bench.want(A)), None);
}

/// Where tasks take milliseconds nobody is waited for as if they took seconds.
#[test]
fn a_task_is_old_when_it_takes_much_longer_than_others() {
    for (ms, old) in [(0, 250), (10, 250), (100, 800), (1_000, 3_000)] {
        let mut bench = busy(3_000);
        let held = bench.task(A);
        let slow = |bench: &Bench, lease| bench.plan.leases[&lease].speculate_at.0 - bench.now;
        assert_eq!(slow(&bench, held.lease), 3_000, "nothing is known yet");
        let task = bench.task(B);
        bench.now += ms;
        bench.finish(B, &task);
        let next = bench.task(B);
        assert_eq!(slow(&bench, next.lease), old, "{ms}");
    }
}

/// One that delivers late makes others wait no longer than one that never does, and not for long.
#[test]
fn what_is_usual_follows_the_many() {
    let mut usual = TypicalTaskTime::default();
    let old = |usual: TypicalTaskTime| usual.slow_after(3_000);
    usual.note(60_000);
    assert_eq!(old(usual), 3_000);
    for _ in 0..600 {
        usual.note(20);
    }
    assert_eq!(old(usual), 250);
    for round in 0..100 {
        usual.note(60_000);
        for _ in 0..19 {
            usual.note(20);
        }
        assert_eq!(old(usual), 250, "{round}");
    }
    for _ in 0..40 {
        usual.note(200);
    }
    usual.note(10);
    let old = old(usual);
    assert!((1_500..=1_600).contains(&old), "{old}");
    usual.note(u64::MAX);
    // Tasks of the usual time do not raise the estimate.
    let mut usual = TypicalTaskTime::default();
    usual.note(100);
    usual.note(100);
    assert_eq!(usual.slow_after(3_000), 8 * 98);
}

/// To go and come back is no way around it.
#[test]
fn who_leaves_with_tasks_in_hand_waits_too() {
    let mut bench = busy(1_000_000);
    for _ in 0..4 {
        bench.task(A);
        bench.leave(A);
        bench.join(A, 8);
    }
    assert_eq!(bench.want(A2), []);
    bench.task(B);
}

#[test]
fn who_is_alone_does_not_wait() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join(A, 1);
    for _ in 0..20 {
        let lease = bench.task(A).lease;
        bench.give_back(A, lease);
    }
    bench.task(A);
}

#[test]
fn what_waits_for_a_vote_of_who_has_to_wait_now_is_committed() {
    let settings = Settings {
        draw_one_in: 1,
        task_positions_max: 0,
        ..settings(20)
    };
    let mut bench = Bench::at_layer(settings, 12);
    for worker in [A, B] {
        bench.join(worker, 8);
    }
    let leases: Vec<LeaseId> = (0..4).map(|_| bench.task(B).lease).collect();
    let task = bench.task(A);
    let head = heads(&task)[0].0;
    let (submission, actions) = bench.submit(A, task.lease, summaries([head]));
    assert_eq!(actions, [noted(submission)]);
    let mut actions = Vec::new();
    for lease in leases {
        assert_eq!(actions, []);
        actions = bench.give_back(B, lease);
    }
    assert_eq!(actions, [commit(submission, &[head])]);
}

/// It has used its credit up, and earns one more task.
#[test]
fn who_owes_nothing_earns_credit() {
    let mut bench = busy(1_000_000);
    for _ in 0..3 {
        let lease = bench.task(A).lease;
        bench.give_back(A, lease);
    }
    let task = bench.task(A);
    bench.finish(A, &task);
    for is_free in [true, false] {
        let lease = bench.task(A).lease;
        bench.give_back(A, lease);
        let request = bench.want(A);
        assert_eq!(some_task(&request).is_some(), is_free);
        if let Some(task) = some_task(&request) {
            bench.finish(A, &task);
            let lease = bench.task(A).lease;
            bench.give_back(A, lease);
        }
    }
}

/// Nobody asks, so there is nothing to wake up for. Then one asks while another worker of its holds a task, and gets
/// one when that has ended.
#[test]
fn who_waits_goes_on_when_its_other_task_has_ended() {
    let mut bench = busy(1_000_000);
    let kept = bench.task(A);
    for _ in 0..4 {
        let lease = bench.task(A).lease;
        bench.give_back(A, lease);
    }
    assert!(bench.plan.next_deadline() > Some(Millis(10_000)));
    assert_eq!(bench.want(A2), []);
    bench.now += 200;
    assert_eq!(bench.tell(Event::Tick), []);
    let head = heads(&kept)[0].0;
    let (_, actions) = bench.submit(B, LeaseId(9), summaries([head]));
    assert!(some_task(&actions).is_some(), "{actions:?}");
}

/// Its other worker has waited for that.
#[test]
fn who_owes_nothing_any_more_goes_on_at_once() {
    let mut bench = busy(1_000_000);
    let kept = bench.task(A);
    for _ in 0..4 {
        let lease = bench.task(A).lease;
        bench.give_back(A, lease);
    }
    assert_eq!(bench.want(A2), []);
    let head = heads(&kept)[0].0;
    let (_, actions) = bench.submit(A, kept.lease, summaries([head]));
    assert!(some_task(&actions).is_some(), "{actions:?}");
}
