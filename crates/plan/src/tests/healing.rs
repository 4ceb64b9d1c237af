//! Ranges that are not done any more.

use super::*;

#[test]
fn a_lost_range_is_computed_again_and_comes_out_the_same() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join_all(&[A, B]);
    let (three, four) = (bench.task(A), bench.task(A));
    assert_eq!(bench.lose(2), [lose(2)]);
    assert_eq!(bench.lose(2), [], "once");
    assert_eq!(bench.plan.progress().ranges_done, 2);
    assert_eq!(bench.plan.progress().layer, 2);
    // 3 and 4 draw on 2: nobody works on them, and results wait for 2 as well.
    let lost = [three.lease, four.lease];
    let leases = lost.to_vec();
    let worker = A;
    assert_eq!(
        bench.tell(Event::Renewed { worker, leases }),
        renewal(A, &lost)
    );
    let (early, actions) = bench.submit(A, three.lease, summaries([3]));
    let unit = range(3);
    assert_eq!(actions, [rejected(early, Rejection::NotReady { unit })]);
    let task = bench.task(B);
    assert_eq!(heads(&task), to_heads(&[2]));
    let (bad, actions) = bench.submit(A, LeaseId(0), vec![wrong(2)]);
    assert_eq!(actions, [noted(bad), arbitrate(2)]);
    let (own, actions) = bench.arbitrate(summary(2));
    assert_eq!(actions[1], commit_by(own, &[2], &[]));
    bench.committed(own);
    assert_eq!(heads(&bench.task(B)), to_heads(&[3]));
}

#[test]
fn what_is_not_committed_or_another_record_is_not_lost() {
    let mut bench = Bench::at_layer(settings(16), 3);
    for head in [3, 5, 1 << 40] {
        assert_eq!(bench.lose(head), []);
    }
    let worker = A;
    let (head, digest) = (Head(2), wrong(2).digest);
    assert_eq!(
        bench.tell(Event::Lost {
            worker,
            head,
            digest
        }),
        []
    );
    assert_eq!(bench.plan.progress().ranges_done, 3);
}

/// Whoever puts what is no record loses a range as often as he is given it; what the coordinator puts stays, or nothing
/// does.
#[test]
fn a_store_that_keeps_losing_a_range_stops_the_job() {
    let settings = Settings {
        failures_max: 2,
        ..settings(13)
    };
    let mut bench = Bench::new(settings, &summaries([0]));
    bench.join(A, 1);
    for _ in 0..2 {
        assert_eq!(bench.lose(0), [lose(0)]);
        let task = bench.task(A);
        bench.finish(A, &task);
    }
    assert_eq!(bench.lose(0), [lose(0), arbitrate(0)]);
    assert_eq!(bench.want(A), []);
    let (own, actions) = bench.arbitrate(summary(0));
    assert_eq!(actions, [commit_by(own, &[0], &[])]);
    bench.committed(own);
    let (head, times) = (Head(0), 4);
    let reason = StopReason::Lost { head, times };
    let stop = Action::Stop { reason };
    let actions = bench.lose(0);
    assert_eq!(actions[..2], [lose(0), stop]);
}

#[test]
fn a_loss_uncuts_the_table() {
    let mut bench = Bench::to_merge(settings(14));
    bench.join(OWNER, 1);
    let task = bench.task(OWNER);
    assert_eq!(bench.plan.progress().shards, 1);
    assert_eq!(bench.lose(3), [lose(3)]);
    assert_eq!(bench.plan.progress().shards, 0);
    assert!(!bench.plan.holds(OWNER, task.lease));
    let (late, actions) = bench.merge(OWNER, task.lease, 0, shard_digest(0));
    let unit = Unit::Shard(0);
    assert_eq!(actions, [rejected(late, Rejection::NotReady { unit })]);
    let again = bench.task(OWNER);
    bench.finish(OWNER, &again);
    // The cut may be another one now.
    let (late, actions) = bench.merge(OWNER, task.lease, 0, shard_digest(0));
    assert_eq!(actions, [rejected(late, Rejection::Stale)]);
    let task = bench.task(OWNER);
    let (merged, _) = bench.merge(OWNER, task.lease, 0, shard_digest(0));
    assert_eq!(bench.committed(merged), [accepted(merged), publish()]);
    // From now on records are not needed.
    assert_eq!(bench.lose(2), []);
}

#[test]
fn a_shard_on_its_way_when_a_range_is_lost_is_none() {
    let mut bench = Bench::to_merge(settings(14));
    bench.join(A, 1);
    let task = bench.task(A);
    let (merged, _) = bench.merge(A, task.lease, 0, shard_digest(0));
    bench.lose(3);
    let task = bench.task(A);
    bench.finish(A, &task);
    assert_eq!(bench.plan.progress().shards, 1);
    assert_eq!(
        bench.committed(merged),
        [rejected(merged, Rejection::Stale)]
    );
    assert_eq!(bench.plan.progress().shards_done, 0);
    // A shard that was not written is rejected too.
    let lease = bench.task(A).lease;
    let (merged, _) = bench.merge(A, lease, 0, shard_digest(0));
    bench.lose(3);
    let actions = bench.fail_commit(merged);
    assert_eq!(actions[0], rejected(merged, Rejection::Stopped));
}

/// Range 2 is a lie of A, from which B has computed 3 and 4, and is at 8; C finds out.
#[test]
fn what_follows_from_a_lie_is_withdrawn_with_it() {
    let c = WorkerId::only(3);
    let mut bench = Bench::at_layer(settings(16), 2);
    bench.join_all(&[A, B, c]);
    let lease = LeaseId(9);
    let (lie, _) = bench.submit(A, lease, vec![wrong(2)]);
    bench.committed(lie);
    let (four, _) = bench.submit(B, lease, vec![wrong(4)]);
    bench.committed(four);
    // This write is under way all the time.
    let (three, _) = bench.submit(B, lease, vec![wrong(3)]);
    let old = bench.task(B);
    assert_eq!(heads(&old), to_heads(&[8]));
    let (said, _) = bench.submit(c, lease, vec![summary(2)]);
    let (own, actions) = bench.arbitrate(summary(2));
    let expected = [
        withdraw(&[2, 3, 4]),
        quarantine(A, 2),
        commit_by(own, &[2], &[]),
        forget(said),
    ];
    assert_eq!(actions, expected);
    assert_eq!(bench.plan.progress().ranges_done, 2);
    // B did as it was told: its lease ended, and what it finds is not taken.
    assert!(!bench.plan.holds(B, old.lease));
    assert_eq!(bench.plan.quarantine_reason(B), None);
    let actions = bench.committed(three);
    let stale = rejected(three, Rejection::Stale);
    assert_eq!(actions, [withdraw(&[3]), stale]);
    bench.committed(own);
    for worker in [B, c] {
        let task = bench.task(worker);
        bench.finish(worker, &task);
    }
    let (late, actions) = bench.submit(B, old.lease, vec![wrong(8)]);
    assert_eq!(actions, [rejected(late, Rejection::Stale)]);
    assert_eq!(bench.plan.progress().ranges_done, 5);
}

#[test]
fn results_from_before_a_withdrawal_are_not_taken_by_the_next_plan() {
    let settings = Settings {
        epoch: 2,
        oldest_lease: 2 << 32,
        ..settings(16)
    };
    let mut bench = Bench::at_layer(settings, 3);
    let (old, actions) = bench.submit(A, LeaseId(1 << 32), summaries([3]));
    assert_eq!(actions, [rejected(old, Rejection::Stale)]);
    bench.begin_commit(A, LeaseId(2 << 32), &[3]);
}

/// A and B have found the same in range 2, A before its record was lost. The journal names both.
#[test]
fn who_found_what_was_lost_is_among_the_finders_of_what_comes_back() {
    let past = Past {
        ranges: summaries(0..2),
        lost: vec![summary(2)],
        found: [found(range(2), &[A], 1)].into(),
        ..Past::default()
    };
    let (mut bench, _) = Bench::resumed(settings(14), &past);
    bench.join(B, 1);
    let task = bench.task(B);
    let (submission, actions) = bench.submit(B, task.lease, summaries([2]));
    assert_eq!(actions, [commit_by(submission, &[2], &[A, B])]);
}

/// It is of no interest then whether they are to be trusted. They are still the finders of the rest.
#[test]
fn what_the_coordinator_finds_again_is_nobody_elses() {
    let past = Past {
        ranges: summaries(0..2),
        lost: vec![summary(2)],
        found: [1, 2].map(|head| found(range(head), &[A], 1)).into(),
        ..Past::default()
    };
    let (mut bench, _) = Bench::resumed(settings(14), &past);
    bench.join(B, 1);
    let task = bench.task(B);
    bench.submit(B, task.lease, vec![wrong(2)]);
    let (own, _) = bench.arbitrate(summary(2));
    let finders = |head| bench.plan.jury.finders(range(head));
    assert_eq!([finders(1), finders(2)], [&[A.participant][..], &[]]);
    // Nor is it of one that finds it once more.
    bench.committed(own);
    bench.lose(2);
    let (again, actions) = bench.submit(C, LeaseId(9), summaries([2]));
    assert_eq!(actions, [commit_by(again, &[2], &[])]);
}

/// All is committed and merged, and the table contradicts itself: A has lied about range 2.
fn contradicted() -> Bench {
    let ranges = [summary(0), summary(1), wrong(2), summary(3)];
    let past = Past {
        ranges: ranges.to_vec(),
        shards: vec![(0, shard_digest(0))],
        found: [found(range(2), &[A], 1)].into(),
        ..Past::default()
    };
    let (mut bench, actions) = Bench::resumed(settings(14), &past);
    assert_eq!(actions, [publish()]);
    bench.join(C, 1);
    bench
}

fn unpublished(head: u64) -> Event {
    Event::Unpublished {
        head: Head(head),
        reason: "it does not add up".to_owned(),
    }
}

#[test]
fn a_table_that_contradicts_itself_is_healed() {
    let mut bench = contradicted();
    assert_eq!(bench.tell(unpublished(2)), [arbitrate(2)]);
    let (own, actions) = bench.arbitrate(summary(2));
    assert_eq!(actions[0], withdraw(&[2, 3]));
    assert_eq!(actions[2], commit_by(own, &[2], &[]));
    assert!(bench.is_out(A));
    bench.committed(own);
    bench.join(B, 1);
    assert_eq!(heads(&bench.task(B)), to_heads(&[3]));
}

/// A range that was found right is not computed again.
#[test]
fn a_contradiction_that_nothing_explains_stops_the_job() {
    let mut bench = contradicted();
    bench.tell(unpublished(1));
    let (own, actions) = bench.arbitrate(summary(1));
    assert_eq!(actions, [confirmed(1), forget(own), publish()]);
    let reason = StopReason::PublishFailed {
        reason: "it does not add up".to_owned(),
    };
    let actions = bench.tell(unpublished(1));
    assert_eq!(actions, [Action::Stop { reason }]);
}

#[test]
fn a_record_that_is_needed_to_explain_a_contradiction_comes_back() {
    let mut bench = contradicted();
    let actions = bench.tell(Event::RecordsLost {
        records: vec![(Head(1), summary(1).digest)],
    });
    assert_eq!(actions, [lose(1)]);
    bench.join(B, 1);
    assert_eq!(heads(&bench.task(B)), to_heads(&[1]));
}
