//! Shards that are read once more before the table is published.

use super::*;

/// A table of which all but the publication is done: A wrote shard 0, and B shard 1. Both have asked for nothing since.
pub(super) fn merged() -> Bench {
    let (mut bench, _) = Bench::with(shards_of(5, 14), &summaries(0..4), &[]);
    for (worker, shard) in [(A, 0), (B, 1)] {
        bench.join(worker, 1);
        let lease = bench.task(worker).lease;
        let (merged, _) = bench.merge(worker, lease, shard, shard_digest(shard));
        assert_eq!(bench.committed(merged), [accepted(merged)]);
    }
    bench
}

/// A makes what was lost, and both shards.
fn make_again(bench: &mut Bench) {
    let again = bench.task(A);
    bench.finish(A, &again);
    for shard in [0, 1] {
        let lease = bench.task(A).lease;
        let (merged, _) = bench.merge(A, lease, shard, shard_digest(shard));
        assert_eq!(bench.committed(merged), [accepted(merged)]);
    }
}

pub(super) fn reads(task: &Task, number: u32) {
    assert_eq!(task.work, Work::ReadBack { shard: number });
}

#[test]
fn nobody_reads_what_he_has_written_while_another_may() {
    let mut bench = merged();
    let task = bench.task(A);
    reads(&task, 1);
    assert_eq!(bench.want(A), [], "the other one is its own");
    let (checked, actions) = bench.confirm(A, task.lease);
    assert_eq!(actions, [accepted(checked)]);
    let task = bench.task(B);
    reads(&task, 0);
    let (checked, actions) = bench.confirm(B, task.lease);
    assert_eq!(actions, [accepted(checked), Action::Publish]);
}

#[test]
fn a_friend_who_idles_does_not_hold_up_the_publication() {
    let mut bench = merged();
    let task = bench.task(A);
    bench.confirm(A, task.lease);
    assert_eq!(bench.want(A), []);
    // B is there, and asks for nothing.
    assert_eq!(bench.plan.next_deadline(), Some(Millis(100)));
    bench.now = 99;
    bench.renew(B, LeaseId(0));
    bench.now = 100;
    let actions = bench.tell(Event::Tick);
    let task = only_task(&actions);
    reads(task, 0);
    let waits = bench.plan.next_deadline();
    assert!(waits > Some(Millis(100)), "{waits:?}");
    let (checked, actions) = bench.confirm(A, task.lease);
    assert_eq!(actions, [accepted(checked), Action::Publish]);
}

#[test]
fn who_is_alone_reads_all() {
    let mut bench = merged();
    let task = bench.task(A);
    bench.confirm(A, task.lease);
    assert_eq!(bench.want(A), []);
    let actions = bench.leave(B);
    let task = only_task(&actions);
    reads(task, 0);
}

#[test]
fn if_nobody_is_there_the_coordinator_goes_on_alone() {
    let mut bench = merged();
    for worker in [A, B] {
        assert_eq!(bench.leave(worker), []);
    }
    bench.now = 100;
    let mut actions = bench.tell(Event::Tick);
    for shard in [0, 1] {
        assert_eq!(actions, [Action::ReadBack { shard }]);
        assert!(!bench.plan.is_quiet());
        let is_whole = true;
        actions = bench.tell(Event::ReadBack { shard, is_whole });
    }
    assert_eq!(actions, [Action::Publish]);
}

#[test]
fn what_two_could_not_confirm_the_coordinator_reads_and_merges_again() {
    for fails in [false, true] {
        let mut bench = merged();
        let name = "w2".to_owned();
        let threads = 1;
        bench.tell(Event::Joined {
            worker: C,
            name,
            threads,
        });
        let lose = if fails { Bench::fail } else { Bench::give_back };
        let task = bench.task(B);
        reads(&task, 0);
        assert_eq!(task.attempt, 1);
        assert_eq!(lose(&mut bench, B, task.lease), []);
        // Not to the same again.
        assert_eq!(bench.want(B), []);
        let task = bench.task(C);
        reads(&task, 0);
        assert_eq!(task.attempt, 2);
        let unit = Unit::Shard(0);
        assert_eq!(
            lose(&mut bench, C, task.lease),
            [Action::ReadBack { shard: 0 }]
        );
        let task = bench.task(A);
        reads(&task, 1);
        let (checked, actions) = bench.confirm(A, task.lease);
        assert_eq!(
            actions,
            [accepted(checked)],
            "not before the other one is decided"
        );
        let is_whole = !fails;
        let actions = bench.tell(Event::ReadBack { shard: 0, is_whole });
        if is_whole {
            assert_eq!(actions, [Action::Publish]);
            continue;
        }
        assert_eq!(actions, [Action::Arbitrate { unit }]);
        let (submission, actions) = bench.arbitrate_shard(0);
        assert_eq!(actions, [forget(submission), Action::Publish]);
    }
}

#[test]
fn a_reader_who_falls_silent_loses_the_shard() {
    let mut bench = merged();
    let task = bench.task(A);
    reads(&task, 1);
    bench.now = 50;
    assert_eq!(bench.renew(A, task.lease), renewal(A, &[]));
    bench.now = 100;
    bench.tell(Event::Tick);
    assert!(!bench.plan.holds(A, task.lease), "it is not renewed");
    let (late, actions) = bench.confirm(A, task.lease);
    assert_eq!(actions, [rejected(late, Rejection::Stale)]);
}

#[test]
fn a_lost_record_ends_the_reading() {
    let mut bench = merged();
    let task = bench.task(A);
    assert_eq!(bench.lose(3), [lose(3)]);
    assert!(!bench.plan.holds(A, task.lease));
    make_again(&mut bench);
    // All are read, and by the other one.
    assert_eq!(bench.read_back(&[B, B]), [Action::Publish]);
}

#[test]
fn what_the_coordinator_read_before_says_nothing_of_new_shards() {
    for is_whole in [false, true] {
        let mut bench = merged();
        for worker in [A, B] {
            bench.leave(worker);
        }
        bench.now = 100;
        let reads = [Action::ReadBack { shard: 0 }];
        assert_eq!(bench.tell(Event::Tick), reads);
        // While it reads, a record is lost, and all is made again.
        assert_eq!(bench.lose(3), [lose(3)]);
        bench.join(A, 1);
        make_again(&mut bench);
        bench.leave(A);
        bench.now = 200;
        assert_eq!(bench.tell(Event::Tick), [], "it has not ended");
        let actions = bench.tell(Event::ReadBack { shard: 0, is_whole });
        assert_eq!(actions, reads);
    }
}

/// When all are in hand nothing is due before their leases end.
#[test]
fn nobody_is_woken_up_for_shards_that_are_read() {
    let mut bench = merged();
    bench.now = 50;
    reads(&bench.task(A), 1);
    reads(&bench.task(B), 0);
    assert!(!bench.plan.read_backs.is_wanted());
    assert_eq!(bench.plan.next_deadline(), Some(Millis(150)));
}
