//! Drawn ranges, and what was found by somebody who is not trusted any more.

use super::*;

/// A plan at layer 3 of 16 bits, ranges 3 and 4, which are drawn.
fn drawn(workers: &[WorkerId]) -> Bench {
    let mut bench = Bench::at_layer(all_drawn(16), 3);
    bench.join_all(workers);
    bench
}

/// Both are offered from the start, and neither is told which it is.
#[test]
fn a_drawn_range_is_given_to_two() {
    let mut bench = drawn(&[A, B, C]);
    let [first, second] = [A, B].map(|worker| bench.task(worker));
    assert_eq!(first.work, second.work);
    let (one, actions) = bench.submit(B, second.lease, summaries([3]));
    assert_eq!(actions, [noted(one)]);
    assert_eq!(bench.plan.progress().ranges_done, 3);
    let (two, actions) = bench.submit(A, first.lease, summaries([3]));
    assert_eq!(actions, [commit_by(one, &[3], &[A, B])]);
    assert_eq!(bench.committed(one), [forget(one), accepted(two)]);
    let found: Vec<u64> = bench.plan.workers().map(|worker| worker.ranges).collect();
    assert_eq!(found, [1, 1, 0]);
}

/// Fresh ranges and ranges that another has begun come in one task.
#[test]
fn nobody_sees_in_a_task_what_is_computed_twice() {
    let settings = Settings {
        draw_one_in: 2,
        key: 3,
        task_positions_min: 8 << 12,
        ..settings(20)
    };
    let mut bench = Bench::at_layer(settings, 12);
    bench.join_all(&[A, B]);
    let first = heads(&bench.task(A));
    let mut second = heads(&bench.task(B));
    assert!(second.iter().any(|head| first.contains(head)));
    second.retain(|head| !first.contains(head));
    assert!(!second.is_empty(), "{first:?}");
}

/// A range that turns out to need two, when one has found it in the place of one that holds it.
#[test]
fn what_one_holds_gets_its_votes_from_others() {
    let settings = Settings {
        draw_one_in: 1000,
        newcomer_results: 1,
        straggler_ms: 50,
        ..settings(16)
    };
    let mut bench = Bench::at_layer(settings, 3);
    bench.join_all(&[A, B, C]);
    let held = [bench.task(C), bench.task(C)].map(|task| heads(&task));
    assert_eq!(held.concat(), to_heads(&[3, 4]));
    bench.now += 50;
    let task = bench.task(A);
    assert_eq!(heads(&task), held[0]);
    let (first, actions) = bench.submit(A, task.lease, summaries([3]));
    assert_eq!(actions, [noted(first)], "another has to find it");
    let task = bench.task(B);
    assert_eq!(heads(&task), held[0]);
    let (_, actions) = bench.submit(B, task.lease, summaries([3]));
    assert_eq!(actions, [commit_by(first, &[3], &[A, B])]);
}

#[test]
fn only_what_is_drawn_of_a_result_waits() {
    let settings = Settings {
        draw_one_in: 1000,
        newcomer_results: 1,
        ..settings(16)
    };
    let mut bench = Bench::at_layer(settings, 3);
    bench.join_all(&[A, B]);
    let task = bench.task(B);
    // Of the first result of a worker one range is drawn.
    let (first, actions) = bench.submit(A, LeaseId(9), summaries([3, 4]));
    let [Action::Commit { submission, units }] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!((*submission, units.len()), (first, 1));
    assert_eq!(bench.committed(first), [noted(first)]);
    let waits = [3, 4]
        .into_iter()
        .find(|&head| units[0].unit != range(head));
    let (_, actions) = bench.submit(B, task.lease, summaries(waits));
    assert_eq!(actions[0], commit_by(first, &[waits.unwrap()], &[A, B]));
    bench.committed(first);
    // Of the second none is.
    bench.begin_commit(A, LeaseId(10), &[5]);
}

#[test]
fn what_nobody_can_vote_on_any_more_is_committed() {
    for case in 0..4 {
        let mut bench = drawn(&[A, B]);
        bench.task(B);
        bench.now = 10;
        let (submission, actions) = bench.submit(A, LeaseId(9), summaries([3, 4]));
        assert_eq!(actions, [noted(submission)]);
        let actions = match case {
            0 => bench.leave(B),
            1 => bench.revoke(B.participant),
            2 => bench.tell(Event::Shutdown),
            _ => {
                bench.now = 99;
                bench.renew(B, LeaseId(0));
                assert_eq!(bench.tell(Event::Tick), []);
                assert_eq!(bench.plan.next_deadline(), Some(Millis(100)));
                bench.now = 100;
                bench.tell(Event::Tick)
            }
        };
        let commit = commit(submission, &[3, 4]);
        assert!(actions.contains(&commit), "{actions:?}");
    }
}

/// Each of them is looked at once when it does not count any more.
#[test]
fn who_falls_silent_is_not_looked_at_again() {
    let mut bench = drawn(&[A, B, C]);
    let first = bench.task(C).lease;
    bench.now = 50;
    let second = bench.task(B).lease;
    bench.submit(A, LeaseId(9), summaries([3, 4]));
    bench.now = 99;
    bench.renew(C, first);
    bench.renew(B, second);
    assert_eq!(bench.plan.next_deadline(), Some(Millis(100)));
    bench.now = 100;
    assert_eq!(bench.tell(Event::Tick), []);
    assert_eq!(bench.plan.next_deadline(), Some(Millis(150)));
}

/// Four are computed at a time. The fifth need not be: with the liar its votes go.
#[test]
fn a_dispute_ends_with_its_liar() {
    let mut bench = Bench::at_layer(all_drawn(20), 12);
    bench.join_all(&[A, B, C]);
    bench.task(C);
    let heads = of_layer_12(5);
    bench.submit(A, LeaseId(99), heads.iter().copied().map(wrong).collect());
    let said = summaries(heads.iter().copied());
    let (honest, actions) = bench.submit(B, LeaseId(99), said);
    assert_eq!(actions.len(), 5, "{actions:?}");
    assert_eq!(bench.plan.progress().arbitrations, 5);
    bench.revoke(A.participant);
    assert_eq!(bench.plan.progress().arbitrations, 4);
    let (_, actions) = bench.submit(C, LeaseId(99), summaries([heads[4]]));
    assert_eq!(actions[0], commit_by(honest, &[heads[4]], &[B, C]));
}

/// Its finder is not trusted any more when the dispute about it ends.
#[test]
fn what_is_not_disputed_any_more_may_be_open() {
    let mut bench = Bench::at_layer(settings(20), 12);
    bench.join_all(&[A, B, C]);
    let heads = of_layer_12(5);
    let submission = bench.begin_commit(A, LeaseId(99), &heads);
    bench.committed(submission);
    bench.submit(B, LeaseId(99), heads.iter().copied().map(wrong).collect());
    bench.task(C);
    bench.revoke(A.participant);
    bench.revoke(B.participant);
    let (_, actions) = bench.submit(C, LeaseId(99), summaries([heads[4]]));
    let (head, finders) = (Head(heads[4]), vec![C.participant]);
    assert_eq!(actions[0], Action::Confirmed { head, finders });
}

/// A and B have found 3 and 4, where two had to; C has found nothing.
fn found_by_two() -> Bench {
    let mut bench = Bench::at_layer(two_replicas(16), 3);
    bench.join_all(&[A, B, C]);
    let (submission, _) = bench.submit(A, LeaseId(9), summaries([3, 4]));
    bench.submit(B, LeaseId(10), summaries([3, 4]));
    bench.committed(submission);
    bench.task(C);
    bench
}

#[test]
fn what_was_found_by_more_than_it_needs_stays() {
    let mut bench = drawn(&[A, B, C]);
    let [first, second] = [A, B].map(|worker| bench.task(worker));
    let (submission, _) = bench.submit(A, first.lease, summaries([3]));
    bench.submit(B, second.lease, summaries([3]));
    bench.committed(submission);
    bench.revoke(A.participant);
    assert_eq!(bench.plan.progress().arbitrations, 0);
    // With the last finder it is open again.
    bench.revoke(B.participant);
    assert_eq!(bench.plan.progress().arbitrations, 1);
}

/// Its only finder is quarantined while it is written.
#[test]
fn what_is_being_written_is_found_again_too() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join_all(&[A, B]);
    bench.task(B);
    let submission = bench.begin_commit(A, LeaseId(9), &[4]);
    bench.revoke(A.participant);
    bench.committed(submission);
    assert_eq!(heads(&bench.task(B)), to_heads(&[4]));
}

/// Nobody else is there, or nobody takes it, or its sources are lost.
#[test]
fn the_coordinator_finds_again_what_nobody_else_does() {
    for case in 0..4 {
        let mut bench = found_by_two();
        let actions = match case {
            0 => {
                bench.leave(C);
                bench.revoke(A.participant)
            }
            1 => {
                bench.revoke(A.participant);
                bench.now = 50;
                bench.want(C);
                bench.now = 100;
                bench.tell(Event::Tick)
            }
            2 => {
                bench.revoke(A.participant);
                assert_eq!(bench.lose(2), [lose(2)]);
                let submission = bench.submit(B, LeaseId(11), summaries([2])).0;
                bench.committed(submission)
            }
            _ => {
                bench.lose(2);
                bench.revoke(A.participant);
                let submission = bench.submit(B, LeaseId(11), summaries([2])).0;
                bench.committed(submission)
            }
        };
        for head in [3, 4] {
            assert!(actions.contains(&arbitrate(head)), "{case}: {actions:?}");
        }
        let (own, actions) = bench.arbitrate(summary(3));
        assert_eq!(actions, [confirmed(3), forget(own)]);
    }
}

/// Shards wait until all has been found again, and go on then.
#[test]
fn nothing_is_merged_while_a_range_is_open_again() {
    let past = past(summaries(0..4), &[found(range(3), &[A], 1)]);
    let (mut bench, _) = Bench::resumed(shards_of(4, 14), &past);
    bench.join_all(&[A, B, C]);
    assert!(matches!(bench.task(C).work, Work::Merge { .. }));
    bench.revoke(A.participant);
    let task = bench.task(B);
    assert_eq!(heads(&task), to_heads(&[3]));
    assert_eq!(bench.want(C), []);
    bench.leave(C);
    let (_, actions) = bench.submit(B, task.lease, summaries([3]));
    assert_eq!(actions[1], accepted(SubmissionId(1)), "{actions:?}");
    assert!(matches!(bench.task(B).work, Work::Merge { .. }));
}

/// The last shard is being written when a range becomes open again.
#[test]
fn nothing_is_published_while_a_range_is_open_again() {
    let past = past(summaries(0..4), &[found(range(3), &[A], 1)]);
    let (mut bench, _) = Bench::resumed(settings(14), &past);
    bench.join_all(&[OWNER, A]);
    let lease = bench.task(OWNER).lease;
    let (one, _) = bench.merge(OWNER, lease, 0, shard_digest(0));
    bench.revoke(A.participant);
    assert_eq!(bench.committed(one), [accepted(one)]);
    let (_, actions) = bench.submit(OWNER, LeaseId(9), summaries([3]));
    assert_eq!(actions.last(), Some(&publish()));
}

/// All ranges are done, and there is one shard. A has it to write.
fn cut(settings: Settings, workers: &[WorkerId]) -> (Bench, LeaseId) {
    let mut bench = Bench::to_merge(settings);
    bench.join_all(workers);
    let lease = bench.task(workers[0]).lease;
    (bench, lease)
}

/// The first worker has written the only shard. Returns its result.
fn written(settings: Settings, workers: &[WorkerId]) -> (Bench, SubmissionId) {
    let (mut bench, lease) = cut(settings, workers);
    for &worker in workers {
        bench.want(worker);
    }
    for request in 2..=bench.requests {
        let request = RequestId(request);
        bench.tell(Event::Withdrawn { request });
    }
    let (one, actions) = bench.merge(workers[0], lease, 0, shard_digest(0));
    assert_eq!(actions, [noted(one)]);
    (bench, one)
}

/// B is the only one that is asked to read what A has written.
fn read_by_b(settings: Settings) -> (Bench, SubmissionId, LeaseId) {
    let (mut bench, one) = written(settings, &[A, B, C]);
    let task = bench.task(B);
    assert_eq!(task.work.reads(), Some(one));
    for worker in [A, C] {
        assert_eq!(bench.want(worker), []);
    }
    (bench, one, task.lease)
}

#[test]
fn another_one_reads_a_shard() {
    let (mut bench, one, lease) = read_by_b(settings(14));
    let (two, actions) = bench.merge(B, lease, 0, shard_digest(0));
    assert_eq!(actions, [commit_units(one, &[Unit::Shard(0)], &[A, B])]);
    let told = [forget(one), accepted(two), publish()];
    assert_eq!(bench.committed(one), told);
}

/// A stranger who is alone may have written anything.
#[test]
fn what_one_stranger_alone_has_merged_the_coordinator_merges_too() {
    for is_forged in [false, true] {
        let (mut bench, lease) = cut(settings(14), &[A]);
        let (one, _) = bench.merge(A, lease, 0, shard_digest(0));
        let arbitrates = arbitrate_shard(0, None);
        assert_eq!(bench.committed(one), [accepted(one), arbitrates]);
        let (own, actions) = bench.arbitrate_shard(0, is_forged);
        let commit = commit_units(own, &[Unit::Shard(0)], &[]);
        assert_eq!(actions.last(), Some(&commit));
        assert_eq!(bench.is_out(A), is_forged);
        assert_eq!(bench.committed(own), [accepted(own), publish()]);
    }
}

/// If nobody asks to read a shard, or does any more, it is left to the coordinator.
#[test]
fn a_shard_does_not_wait_for_one_that_idles() {
    let (mut bench, lease) = cut(settings(14), &[OWNER, B]);
    let (one, actions) = bench.merge(OWNER, lease, 0, shard_digest(0));
    let commit = |one| commit_units(one, &[Unit::Shard(0)], &[OWNER]);
    assert_eq!(actions, [commit(one)]);
    assert_eq!(bench.committed(one), [accepted(one), publish()]);

    let (mut bench, one) = written(settings(14), &[OWNER, B]);
    bench.now = 100;
    bench.renew(B, LeaseId(0));
    assert_eq!(bench.tell(Event::Tick), [commit(one)]);
    assert_eq!(bench.committed(one), [forget(one), publish()]);
}

#[test]
fn what_is_written_is_not_written_by_another() {
    let (mut bench, late) = cut(settings(14), &[A, B]);
    bench.now = 100;
    bench.tell(Event::Tick);
    let lease = bench.task(B).lease;
    assert!(bench.plan.may_write(B, 0) && !bench.plan.may_write(A, 0));
    let (one, actions) = bench.merge(A, late, 0, shard_digest(0));
    assert_eq!(actions, [noted(one)]);
    assert!(!bench.plan.may_write(B, 0));
    assert_eq!(bench.renew(B, lease), renewal(B, &[lease]));
    let (two, actions) = bench.merge(B, lease, 0, shard_digest(0));
    assert_eq!(actions, [rejected(two, Rejection::Stale)]);
    // B reads it, and so does the coordinator, as B may have begun to write.
    let lease = bench.task(B).lease;
    assert!(!bench.plan.may_write(B, 0));
    bench.merge(B, lease, 0, shard_digest(0));
    assert_eq!(bench.committed(one)[2..], [publish()]);
}

/// A shard whose writer is revoked is written again.
#[test]
fn nobody_reads_what_one_wrote_that_is_not_trusted() {
    let (mut bench, _, lease) = read_by_b(settings(14));
    let actions = bench.revoke(A.participant);
    assert!(!bench.plan.holds(B, lease));
    let again = some_task(&actions).unwrap();
    assert_eq!(again.work.reads(), None);
}

#[test]
fn whoever_forges_a_file_or_vouches_for_it_is_out() {
    let settings = || Settings {
        replicas: 3,
        ..settings(14)
    };
    let (mut bench, one, lease) = read_by_b(settings());
    let (_, actions) = bench.merge(B, lease, 0, shard_digest(0));
    let lease = given(&actions[1]).lease;
    bench.fail(C, lease);
    bench.now = 100;
    let actions = bench.tell(Event::Tick);
    assert_eq!(actions, [arbitrate_shard(0, Some(one))]);
    bench.arbitrate_shard(0, true);
    assert_eq!(
        [A, B, C].map(|worker| bench.is_out(worker)),
        [true, true, false]
    );

    // The journal says who did so before.
    let past = Past {
        ranges: summaries(0..4),
        shards: vec![(0, shard_digest(0))],
        found: [found(Unit::Shard(0), &[A, B], 2)].into(),
        ..Past::default()
    };
    let (mut bench, actions) = Bench::resumed(settings(), &past);
    assert_eq!(actions, [publish()]);
    let shards = vec![0];
    let actions = bench.tell(Event::ShardsLost { shards });
    assert_eq!(actions, [arbitrate_shard(0, None)]);
    bench.arbitrate_shard(0, true);
    assert_eq!(
        [A, B, C].map(|worker| bench.is_out(worker)),
        [true, true, false]
    );
}

/// C says something else while the shard is written. The file of the coordinator is the one that counts.
#[test]
fn what_is_disputed_while_it_is_written_is_not_done() {
    let (mut bench, one, lease) = read_by_b(settings(14));
    bench.merge(B, lease, 0, shard_digest(0));
    let (bad, _) = bench.merge(C, LeaseId(9), 0, Digest([1; 32]));
    let actions = bench.committed(one);
    assert!(
        actions.contains(&arbitrate_shard(0, Some(bad))),
        "{actions:?}"
    );
    let (own, actions) = bench.arbitrate_shard(0, false);
    let commit = commit_units(own, &[Unit::Shard(0)], &[]);
    assert!(actions.contains(&commit), "{actions:?}");
    assert!(bench.committed(own).contains(&publish()));
}
