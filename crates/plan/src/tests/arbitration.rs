//! The units that the coordinator computes itself, and what comes of it.

use super::*;

/// A plan at layer 3 of 16 bits, ranges 3 and 4, of which A has delivered both; 4 is a lie if `lie`.
fn delivered(lie: bool) -> Bench {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join_all(&[A, B]);
    let four = if lie { wrong(4) } else { summary(4) };
    let ranges = vec![summary(3), four];
    let (submission, _) = bench.submit(A, LeaseId(9), ranges);
    bench.committed(submission);
    bench
}

#[test]
fn another_count_is_another_content() {
    for range in [
        RangeSummary {
            count: 1,
            ..summary(4)
        },
        RangeSummary {
            stored: 77,
            ..summary(4)
        },
    ] {
        let mut bench = delivered(false);
        let (_, actions) = bench.submit(B, LeaseId(9), vec![range]);
        assert_eq!(actions[1], arbitrate(4));
    }
}

#[test]
#[should_panic(expected = "was not to be arbitrated")]
fn an_arbitration_that_was_not_asked_for_is_a_bug() {
    delivered(false).arbitrate(summary(3));
}

/// A job of which ranges 0 to 3 are done: A found 2 and 3, and B, which is not trusted any more, helped with 3.
fn resumed() -> (Bench, Vec<Action>) {
    let past = Past {
        ranges: summaries(0..3).into_iter().chain([wrong(3)]).collect(),
        found: [
            found(range(2), &[A], 1),
            found(range(3), &[A], 2),
            found(range(1 << 20), &[A], 2),
        ]
        .into(),
        quarantined: vec![(B.participant, "it lied".to_owned())],
        ..Past::default()
    };
    Bench::resumed(settings(16), &past)
}

#[test]
fn a_restart_forgets_no_suspicion() {
    let (mut bench, actions) = resumed();
    assert_eq!(actions, [arbitrate(3)]);
    let reason = "it lied".to_owned();
    assert_eq!(
        bench.plan.quarantine_reason(B),
        Some(&QuarantineReason::Recorded { reason })
    );
    bench.join(B, 1);
    assert!(!bench.plan.is_there(B));
    // Who else found it is known too.
    bench.join(A, 1);
    let (own, actions) = bench.arbitrate(summary(3));
    let withdrawn = Action::Withdraw {
        heads: to_heads(&[3]),
    };
    assert_eq!(
        actions,
        [
            withdrawn,
            quarantine(A, 3),
            commit_by(own, &[3], &[]),
            arbitrate(2)
        ]
    );
}

/// A result of the coordinator is of no use if a source of it is lost meanwhile, and nobody is blamed by it.
#[test]
fn what_is_computed_from_a_lost_range_says_nothing() {
    let mut bench = delivered(false);
    bench.submit(B, LeaseId(9), vec![wrong(4)]);
    bench.lose(2);
    let (own, actions) = bench.arbitrate(wrong(4));
    assert_eq!(actions, [forget(own)]);
    assert_eq!(bench.plan.progress().arbitrations, 1, "when 2 is back");
    let again = bench.begin_commit(B, LeaseId(9), &[2]);
    let actions = bench.committed(again);
    assert_eq!(actions, [accepted(again), arbitrate(4)]);
}

#[test]
fn a_shard_that_is_none_any_more_is_not_decided() {
    let shards = [(0, shard_digest(0))];
    let (mut bench, _) = Bench::with_shards(shards_of(4, 14), &summaries(0..4), &shards);
    bench.join(A, 1);
    bench.merge(A, LeaseId(9), 0, Digest([1; 32]));
    assert_eq!(bench.lose(3)[0], lose(3));
    assert_eq!(bench.plan.progress().arbitrations, 0);
    // The table is not cut again as long as the coordinator may write that one.
    let task = bench.task(A);
    bench.finish(A, &task);
    assert_eq!(bench.plan.progress().shards, 0);
    let (submission, actions) = bench.arbitrate_shard(0, false);
    assert_eq!(actions, [forget(submission)]);
    assert_eq!(bench.plan.quarantine_reason(A), None);
    // The coordinator merges one of the new cut as any other.
    let lease = bench.task(A).lease;
    let (merged, _) = bench.merge(A, lease, 1, Digest([1; 32]));
    bench.committed(merged);
    bench.merge(A, lease, 1, shard_digest(1));
    let (submission, actions) = bench.arbitrate_shard(1, false);
    assert!(actions.contains(&commit_units(submission, &[Unit::Shard(1)], &[])));
    assert_eq!(bench.committed(submission)[0], accepted(submission));
    assert_eq!(bench.plan.progress().shards_done, 2);
}

/// Disputes about a range that is withdrawn, and results for it, count no more.
#[test]
fn what_follows_from_a_lie_is_nobodys_fault() {
    let past = past(
        vec![summary(0), summary(1), wrong(2), wrong(3)],
        &[found(range(2), &[A], 1), found(range(3), &[B], 1)],
    );
    let (mut bench, _) = Bench::resumed(settings(16), &past);
    bench.join_all(&[B, C]);
    bench.submit(C, LeaseId(9), summaries([2]));
    bench.submit(C, LeaseId(9), summaries([3]));
    assert_eq!(bench.plan.progress().arbitrations, 2);
    let (own, _) = bench.arbitrate(summary(2));
    assert_eq!(bench.plan.progress().arbitrations, 0);
    let actions = bench.committed(own);
    assert_eq!(actions, [accepted(own)]);
    // C finds range 3 now, and B, which is not trusted any more, has no part in that.
    let three = bench.begin_commit(C, LeaseId(10), &[3]);
    bench.committed(three);
    bench.revoke(B.participant);
    assert_eq!(bench.plan.progress().arbitrations, 0);
    // If it is disputed again, what the coordinator began before the withdrawal is still of no use.
    let liar = WorkerId::only(4);
    bench.submit(liar, LeaseId(10), vec![wrong(3)]);
    let (old, actions) = bench.arbitrate(wrong(3));
    assert_eq!(actions, [forget(old), arbitrate(3)]);
}

/// Shards of whoever is not trusted any more are merged again; what others found stands.
#[test]
fn a_liar_is_not_trusted_in_shards_either() {
    let wrong_shard = Digest([1; 32]);
    let shards = [0, 1].map(Unit::Shard);
    let by_a = shards.map(|unit| found(unit, &[A], 1)).into_iter();
    let past = Past {
        ranges: summaries(0..4),
        shards: vec![(0, wrong_shard), (1, shard_digest(1))],
        found: by_a.chain([found(range(3), &[B], 1)]).collect(),
        ..Past::default()
    };
    let (mut bench, _) = Bench::resumed(shards_of(2, 14), &past);
    bench.join(C, 1);
    bench.merge(C, LeaseId(9), 0, shard_digest(0));
    let mut told = Vec::new();
    for shard in [0, 1] {
        (_, told) = bench.arbitrate_shard(shard, false);
        if shard == 0 {
            assert!(told.contains(&arbitrate_shard(1, None)));
        }
    }
    assert!(bench.is_out(A), "{told:?}");
    let actions = bench.revoke(B.participant);
    assert!(actions.contains(&arbitrate(3)), "{actions:?}");
}

#[test]
fn whoever_waits_hears_that_nothing_is_in_doubt() {
    let past = past(summaries(0..4), &[found(range(3), &[], 1)]);
    let (mut bench, _) = Bench::resumed(settings(14), &past);
    bench.join(A, 1);
    assert_eq!(bench.want(A), []);
    let (own, actions) = bench.arbitrate(summary(3));
    assert_eq!(actions[..2], [confirmed(3), forget(own)]);
    assert!(matches!(given(&actions[2]).work, Work::Merge { .. }));
}

/// After a fault nothing is withdrawn any more.
#[test]
fn what_is_decided_after_a_fault_changes_nothing() {
    let mut bench = delivered(true);
    bench.submit(B, LeaseId(9), vec![summary(4)]);
    let submission = bench.begin_commit(B, LeaseId(9), &[8]);
    bench.fail_commit(submission);
    let (own, actions) = bench.arbitrate(summary(4));
    assert_eq!(actions, [quarantine(A, 4), forget(own)]);
    assert_eq!(bench.lose(2), []);
}
