//! What somebody found who is not trusted any more.

use super::*;

/// What one found that is not trusted any more is checked by others, and the coordinator does its share.
#[test]
fn what_a_liar_found_is_checked_by_others() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join_all(&[A, B, C]);
    let submission = bench.begin_commit(A, LeaseId(9), &[3, 4]);
    bench.committed(submission);
    let actions = bench.revoke(A.participant);
    assert!(actions.contains(&arbitrate(3)), "{actions:?}");
    let task = bench.task(B);
    let (layer, heads) = (3, to_heads(&[4]));
    assert_eq!(task.work, Work::Check { layer, heads });
    assert_eq!(bench.plan.progress().arbitrations, 2);
    // B confirms it, and is its finder now.
    let (check, actions) = bench.check(B, task.lease, summaries([4]));
    let (head, finders) = (Head(4), vec![B.participant]);
    let by_b = Action::Confirmed { head, finders };
    assert_eq!(actions, [by_b, accepted(check)]);
    let (own, actions) = bench.arbitrate(summary(3));
    assert_eq!(actions, [confirmed(3), forget(own)]);
    assert_eq!(bench.plan.progress().arbitrations, 0);
    // When B is not trusted either, what it confirmed is in doubt again.
    let actions = bench.revoke(B.participant);
    assert!(actions.contains(&arbitrate(4)), "{actions:?}");
}

/// With replicas, who has found the same before does not say so twice.
#[test]
fn a_doubt_is_for_who_has_not_found_the_range() {
    let mut bench = Bench::at_layer(two_replicas(16), 3);
    bench.join_all(&[A, B, C]);
    bench.submit(A, LeaseId(9), summaries([3, 4]));
    let (submission, _) = bench.submit(B, LeaseId(10), summaries([3, 4]));
    bench.committed(submission);
    bench.revoke(A.participant);
    let is_check = |task: &Task| matches!(task.work, Work::Check { .. });
    assert!(!is_check(&bench.task(B)));
    let task = bench.task(C);
    assert!(is_check(&task));
    let (_, actions) = bench.check(C, task.lease, summaries([4]));
    let (head, finders) = (Head(4), vec![B.participant, C.participant]);
    assert_eq!(actions[0], Action::Confirmed { head, finders });
    // What the coordinator has found itself is not in doubt if B is not trusted either.
    bench.arbitrate(summary(3));
    bench.revoke(B.participant);
    assert_eq!(bench.plan.progress().arbitrations, 1);
}

/// If the second one finds something else, the coordinator decides, and what was wrong is withdrawn.
#[test]
fn a_doubt_that_is_borne_out_is_decided_by_the_coordinator() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join_all(&[A, B]);
    let (submission, _) = bench.submit(A, LeaseId(9), vec![summary(3), wrong(4)]);
    bench.committed(submission);
    bench.revoke(A.participant);
    let task = bench.task(B);
    let (check, actions) = bench.check(B, task.lease, summaries([4]));
    assert_eq!(actions, [accepted(check)]);
    let (_, actions) = bench.arbitrate(summary(3));
    assert!(actions.contains(&arbitrate(4)), "{actions:?}");
    let (own, actions) = bench.arbitrate(summary(4));
    let heads = to_heads(&[4]);
    assert_eq!(actions[0], Action::Withdraw { heads });
    assert!(actions.contains(&commit_by(own, &[4], &[])), "{actions:?}");
    assert!(bench.plan.is_there(B));
}

/// A record that is lost while its range is doubted, or one that such a range draws on.
#[test]
fn the_coordinator_computes_doubted_ranges_whose_sources_are_lost() {
    for lost in [2, 4] {
        let mut bench = Bench::at_layer(settings(16), 3);
        bench.join_all(&[A, B]);
        let submission = bench.begin_commit(A, LeaseId(9), &[3, 4]);
        bench.committed(submission);
        bench.revoke(A.participant);
        assert_eq!(bench.plan.checks.doubts(), 1);
        bench.lose(lost);
        assert_eq!(bench.plan.checks.doubts(), 0);
        assert_eq!(bench.plan.progress().arbitrations, 2);
    }
}

/// Shards wait until nothing is in doubt, and go on then.
#[test]
fn nothing_is_merged_while_a_range_is_doubted() {
    let past = Past {
        ranges: summaries(0..4),
        found: vec![(range(2), A.participant), (range(3), A.participant)],
        ..Past::default()
    };
    let (mut bench, _) = Bench::resumed(settings(14), &past);
    bench.join_all(&[A, B, C]);
    bench.revoke(A.participant);
    let task = bench.task(B);
    let (layer, heads) = (3, to_heads(&[3]));
    assert_eq!(task.work, Work::Check { layer, heads });
    bench.arbitrate(summary(2));
    assert_eq!(bench.want(C), []);
    let (_, actions) = bench.check(B, task.lease, summaries([3]));
    let merges = |action: &Action| {
        matches!(action, Action::Answer { answer: LeaseAnswer::Task(task), .. }
            if matches!(task.work, Work::Merge { .. }))
    };
    assert!(actions.iter().any(merges), "{actions:?}");
}

/// Nobody checks what is being written, what its sources are missing of, or what the coordinator is at.
#[test]
fn some_doubts_are_for_the_coordinator_alone() {
    for case in 0..3 {
        let mut bench = Bench::at_layer(settings(16), 3);
        bench.join_all(&[A, B]);
        let submission = bench.begin_commit(A, LeaseId(9), &[4]);
        if case > 0 {
            bench.committed(submission);
        }
        match case {
            1 => drop(bench.lose(2)),
            2 => drop(bench.submit(B, LeaseId(9), vec![wrong(4)])),
            _ => {}
        }
        bench.revoke(A.participant);
        assert_eq!(bench.plan.checks.doubts(), 0, "{case}");
        assert_eq!(bench.plan.progress().arbitrations, 1, "{case}");
    }
}
