//! Whoever has a credential may be many workers, and counts as one.

use super::*;

/// Another worker of the participant of [`A`].
const A2: WorkerId = WorkerId::new(1, 12);

fn quarantined(actions: &[Action]) -> Vec<(WorkerId, &QuarantineReason)> {
    let reasons = actions.iter().filter_map(|action| match action {
        Action::Quarantine { worker, reason, .. } => Some((*worker, reason)),
        _ => None,
    });
    reasons.collect()
}

/// The ranges 3 and 4 are to be computed, by two participants.
fn twice() -> Bench {
    let mut bench = Bench::at_layer(two_replicas(16), 3);
    bench.join_all(&[A, A2]);
    bench
}

#[test]
fn many_workers_of_one_participant_have_one_vote() {
    let mut bench = twice();
    let (three, four) = (bench.task(A), bench.task(A2));
    assert_eq!(
        (heads(&three), heads(&four)),
        (to_heads(&[3]), to_heads(&[4]))
    );
    for (worker, task) in [(A, three), (A2, four)] {
        let (first, actions) = bench.submit(worker, task.lease, summaries([heads(&task)[0].0]));
        assert_eq!(actions, [noted(first)]);
        assert_eq!(
            bench.want(worker),
            [],
            "there is nothing left for it to say"
        );
    }
    // Whatever lease it pretends to have, and under whatever number.
    for number in 20..30 {
        let worker = WorkerId::new(1, number);
        let (again, actions) = bench.submit(worker, LeaseId(number), summaries([3, 4]));
        assert_eq!(actions, [noted(again), forget(again)]);
    }
    assert_eq!(bench.plan.progress().ranges_done, 3);
    let (_, actions) = bench.submit(B, LeaseId(40), summaries([3, 4]));
    let three = commit_by(SubmissionId(1), &[3], &[A, B]);
    let four = commit_by(SubmissionId(2), &[4], &[A, B]);
    assert_eq!(actions, [three, four]);
}

#[test]
fn a_liar_is_out_with_all_its_workers_and_numbers() {
    let mut bench = twice();
    let task = bench.task(A);
    bench.submit(A, task.lease, vec![wrong(3)]);
    bench.submit(B, LeaseId(40), summaries([3]));
    let (_, actions) = bench.arbitrate(summary(3));
    let lied = QuarantineReason::Lied { unit: range(3) };
    assert_eq!(quarantined(&actions), [(A, &lied)]);
    for worker in [A, A2, WorkerId::new(1, 99)] {
        bench.join(worker, 1);
        assert!(!bench.plan.is_there(worker));
        assert_eq!(bench.plan.quarantine_reason(worker), Some(&lied));
        let answer = LeaseAnswer::Quarantined {
            reason: lied.clone(),
        };
        let request = RequestId(bench.requests + 1);
        assert_eq!(bench.want(worker), [Action::Answer { request, answer }]);
    }
    let (result, actions) = bench.submit_as_it_is(A, task.lease, summaries([3]));
    let reason = Rejection::Quarantined { reason: lied };
    assert_eq!(actions, [rejected(result, reason)]);
    assert!(bench.plan.is_there(B));
}

#[test]
fn nobody_votes_for_its_own_participant_while_another_is_there() {
    // Alone, its workers vote: one of its machines may be unsound.
    let mut bench = Bench::at_layer(all_drawn(16), 3);
    bench.join_all(&[A, A2]);
    let [first, second] = [A, A2].map(|worker| bench.task(worker));
    assert_eq!(first.work, second.work);
    // With another one there, that one does.
    let mut bench = Bench::at_layer(all_drawn(16), 3);
    bench.join_all(&[A, A2, B]);
    let [first, other, second] = [A, A2, B].map(|worker| bench.task(worker));
    assert!(first.work != other.work && first.work == second.work);
}

#[test]
fn what_a_revoked_participant_settled_is_computed_again() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join_all(&[A, A2, B]);
    let task = bench.task(A);
    bench.finish(A, &task);
    let head = heads(&task)[0];
    let waiting = bench.want(A2);
    let actions = bench.revoke(A.participant);
    assert_eq!(quarantined(&actions), [(A, &QuarantineReason::Revoked)]);
    assert!(actions.contains(&arbitrate(head.0)), "{actions:?}");
    assert!(!bench.plan.is_there(A) && !bench.plan.is_there(A2) && bench.plan.is_there(B));
    drop(waiting);
    // It is what it was, so it stays, and so does what is said of the participant.
    bench.arbitrate(summary(head.0));
    assert_eq!(
        bench.plan.quarantine_reason(A2),
        Some(&QuarantineReason::Revoked)
    );
    assert_eq!(bench.plan.progress().ranges_done, 4);
}

#[test]
fn nobody_reads_what_its_own_participant_wrote() {
    for is_alone in [true, false] {
        let mut bench = Bench::to_merge(settings(14));
        bench.join_all(&[A, A2]);
        let lease = bench.task(A).lease;
        bench.want(A2);
        if !is_alone {
            bench.join(B, 1);
            bench.want(B);
        }
        let (submission, actions) = bench.merge(A, lease, 0, shard_digest(0));
        if is_alone {
            let commit = commit_units(submission, &[Unit::Shard(0)], &[A]);
            assert_eq!(actions, [commit]);
        } else {
            let read = &given(&actions[1]).work;
            assert_eq!(read.reads(), Some(submission));
        }
    }
}

/// A slow task is doubled by another participant, not by another of its own workers.
#[test]
fn what_a_participant_is_slow_with_is_doubled_by_another() {
    let mut bench = Bench::new(settings(13), &[]);
    bench.join_all(&[A, A2, B]);
    let held = bench.task(A);
    bench.now += bench.plan.settings.straggler_ms;
    assert_eq!(bench.want(A2), []);
    assert_eq!(bench.task(B).work, held.work);
}

#[test]
fn what_one_failed_at_waits_for_nobody_for_ever() {
    let mut bench = Bench::new(settings(13), &[]);
    bench.join_all(&[A, A2, B]);
    let lease = bench.task(A).lease;
    bench.fail(A, lease);
    assert_eq!([bench.want(A), bench.want(A2)], [[], []]);
    // B is there, and wants nothing.
    for _ in 0..2 {
        bench.now += bench.plan.settings.lease_ms / 2;
        let (worker, leases) = (B, Vec::new());
        bench.tell(Event::Renewed { worker, leases });
    }
    assert_eq!(bench.tell(Event::Tick), [arbitrate(0)]);

    // After a shutdown a failed range has no owner: any worker's result for it is taken.
    let mut bench = Bench::new(settings(13), &[]);
    bench.join_all(&[A, B]);
    let lease = bench.task(A).lease;
    bench.fail(A, lease);
    bench.tell(Event::Shutdown);
    bench.now += bench.plan.settings.lease_ms;
    bench.tell(Event::Tick);
    bench.begin_commit(B, LeaseId(9), &[0]);

    // Nor does the coordinator do what somebody is at, or what is none any more.
    let mut bench = Bench::to_merge(settings(14));
    bench.join_all(&[A, B]);
    for taken in [true, false] {
        let lease = bench.task(A).lease;
        bench.fail(A, lease);
        bench.now += 50;
        let lease = if taken {
            bench.task(B).lease
        } else {
            bench.lose(3);
            LeaseId(0)
        };
        bench.now += 60;
        bench.renew(B, lease);
        bench.renew(A, LeaseId(0));
        assert_eq!(bench.tell(Event::Tick), []);
        bench.leave(B);
        bench.join(B, 1);
        if taken {
            bench.plan.ready.close(Unit::Shard(0));
            bench.plan.reconsider(Unit::Shard(0));
        }
    }
}

/// To contradict oneself is to lie, whichever is the truth.
#[test]
fn two_words_of_one_participant_are_not_both_true() {
    let mut bench = twice();
    bench.submit(A, LeaseId(9), summaries([3]));
    let (_, actions) = bench.submit(A2, LeaseId(10), vec![wrong(3)]);
    assert!(actions.contains(&arbitrate(3)));
    let (_, actions) = bench.arbitrate(summary(3));
    assert_eq!(quarantined(&actions).len(), 1, "{actions:?}");
}

/// A slow task is doubled by a participant without a vote on it, or by another worker of one that is alone.
#[test]
fn slow_tasks_are_for_whom_they_are_of_use() {
    let mut bench = twice();
    bench.join(B, 1);
    bench.submit(A, LeaseId(9), summaries([3, 4]));
    let held = bench.task(B);
    assert_eq!(heads(&held), to_heads(&[3]));
    bench.join(C, 1);
    assert_eq!(heads(&bench.task(C)), to_heads(&[4]));
    bench.now += bench.plan.settings.straggler_ms;
    for worker in [B, C] {
        bench.renew(worker, LeaseId(0));
    }
    assert_eq!(bench.want(A), [], "it has said what it is");
    assert_eq!(heads(&bench.task(C)), to_heads(&[3]));

    let mut bench = Bench::new(settings(13), &[]);
    bench.join_all(&[A, A2]);
    let held = bench.task(A);
    bench.now += bench.plan.settings.straggler_ms;
    assert_eq!(bench.task(A2).work, held.work);
}

/// Votes of workers of the participant that was there alone are one when another comes, which is asked then.
#[test]
fn whoever_comes_second_ends_the_votes_of_workers() {
    let mut bench = Bench::at_layer(all_drawn(16), 3);
    bench.join_all(&[A, A2]);
    let tasks = [A, A2].map(|worker| bench.task(worker));
    let (first, actions) = bench.submit(A, tasks[0].lease, summaries([3]));
    assert_eq!(actions, [noted(first)]);
    // B asks for nothing yet, so nobody waits for it.
    let (worker, name, threads) = (B, String::new(), 1);
    let actions = bench.tell(Event::Joined {
        worker,
        name,
        threads,
    });
    assert_eq!(actions, [commit(first, &[3])]);
}
