//! Ranges that wait for a check.

use super::*;

/// A plan at layer 3 of 16 bits, ranges 3 and 4, every range of which is checked.
fn checked() -> Bench {
    let mut bench = Bench::at_layer(all_checked(16), 3);
    bench.join_all(&[A, B]);
    bench
}

/// A hands in range 3; B gets the check.
fn begin(bench: &mut Bench) -> (SubmissionId, Task) {
    let (submission, actions) = bench.submit(A, LeaseId(9), summaries([3]));
    assert_eq!(actions, [held(submission)]);
    let task = bench.task(B);
    let work = Work::Check {
        layer: 3,
        heads: to_heads(&[3]),
    };
    assert_eq!((task.attempt, &task.work), (1, &work));
    (submission, task)
}

#[test]
fn another_worker_checks_before_all_else() {
    let mut bench = checked();
    let (submission, task) = begin(&mut bench);
    // Nobody computes the range meanwhile.
    assert_eq!(heads(&bench.task(B)), to_heads(&[4]));
    assert_eq!(bench.want(A), []);
    assert_eq!(bench.plan.progress().submissions, 1);
    assert_eq!(bench.plan.waits_for(), None);
    let (check, actions) = bench.check(B, task.lease, summaries([3]));
    assert_eq!(
        actions,
        [commit_by(submission, &[3], &[A, B]), accepted(check)]
    );
    assert_eq!(bench.committed(submission)[0], forget(submission));
    assert_eq!(bench.plan.progress().ranges_done, 4);
}

#[test]
fn what_chance_does_not_choose_is_not_held_up() {
    let mut bench = checked();
    bench.plan.settings.check_one_in = 2;
    bench.plan.settings.checks_first = 0;
    let mut halves = [0, 0];
    let mut none = 0;
    for rng in 0..100 {
        let chosen = bench.plan.sample(A, &summaries([3, 4]), rng);
        none += u32::from(chosen.is_empty());
        for (half, head) in halves.iter_mut().zip([3, 4]) {
            *half += u32::from(chosen.contains(&Head(head)));
        }
    }
    assert!(
        halves.iter().all(|half| (30..70).contains(half)),
        "{halves:?}"
    );
    assert!((15..35).contains(&none), "{none}");
    // Of the first results one is checked, even if chance chooses none.
    bench.plan.settings.checks_first = 1;
    bench.plan.settings.check_one_in = 1_000_000;
    let mut halves = [0, 0];
    for rng in 0..100 {
        let chosen = bench.plan.sample(A, &summaries([3, 4]), rng);
        assert_eq!(chosen.len(), 1);
        for (half, head) in halves.iter_mut().zip([3, 4]) {
            *half += u32::from(chosen.contains(&Head(head)));
        }
    }
    assert!(
        halves.iter().all(|half| (30..70).contains(half)),
        "{halves:?}"
    );
    bench.plan.settings.check_one_in = 0;
    assert!(bench.plan.sample(A, &summaries([3, 4]), 0).is_empty());
}

#[test]
fn a_worker_alone_is_not_checked() {
    let mut bench = checked();
    bench.leave(B);
    bench.begin_commit(A, LeaseId(9), &[3]);
}

#[test]
fn what_nobody_may_check_any_more_is_committed() {
    let mut bench = checked();
    let (submission, _) = bench.submit(A, LeaseId(9), summaries([3]));
    let waits = bench.plan.waits_for();
    assert_eq!(
        waits.unwrap(),
        "1 ranges wait for a worker that checks them"
    );
    let actions = bench.leave(B);
    assert_eq!(actions, [commit(submission, &[3])]);

    let mut bench = checked();
    let (submission, _) = begin(&mut bench);
    let actions = bench.leave(B);
    assert_eq!(actions, [commit(submission, &[3])]);

    let mut bench = checked();
    let (submission, _) = begin(&mut bench);
    let actions = bench.tell(Event::Shutdown);
    assert_eq!(actions, [commit(submission, &[3])]);
}

/// Long before B is forgotten.
#[test]
fn what_only_a_silent_worker_may_check_is_committed() {
    for is_begun in [false, true] {
        let mut bench = checked();
        bench.now = 10;
        let (submission, task) = if is_begun {
            let (submission, task) = begin(&mut bench);
            (submission, Some(task))
        } else {
            bench.renew(B, LeaseId(0));
            (bench.submit(A, LeaseId(9), summaries([3])).0, None)
        };
        bench.now = 40;
        bench.renew(A, LeaseId(0));
        assert_eq!(bench.plan.next_deadline(), Some(Millis(60)));
        bench.now = 59;
        assert_eq!(bench.tell(Event::Tick), []);
        // Other events do not hide that it is time.
        bench.now = 61;
        bench.renew(A, LeaseId(0));
        assert_eq!(bench.plan.next_deadline(), Some(Millis(60)));
        let actions = bench.tell(Event::Tick);
        assert_eq!(actions, [commit(submission, &[3])]);
        assert!(bench.plan.is_there(B));
        assert!(task.is_none_or(|task| !bench.plan.holds(B, task.lease)));
        // Nothing more is held for it until it is heard of.
        bench.begin_commit(A, LeaseId(9), &[4]);
        assert!(bench.plan.next_deadline() > Some(Millis(61)));
    }
}

#[test]
fn a_range_waits_as_long_as_its_checker_is_heard_of() {
    let mut bench = checked();
    let (submission, _) = bench.submit(A, LeaseId(9), summaries([3]));
    for now in [49, 50, 98] {
        bench.now = now;
        bench.renew(B, LeaseId(0));
        assert_eq!(bench.tell(Event::Tick), []);
        // A is silent from 50 on, which is of no matter: no other tick is due for it.
        assert!(bench.plan.next_deadline() > Some(Millis(now)));
    }
    let task = bench.task(B);
    let (check, actions) = bench.check(B, task.lease, summaries([3]));
    assert_eq!(
        actions,
        [commit_by(submission, &[3], &[A, B]), accepted(check)]
    );
}

#[test]
fn after_two_lost_checks_the_range_is_committed() {
    let mut bench = checked();
    let (submission, task) = begin(&mut bench);
    assert_eq!(bench.fail(B, task.lease), []);
    let again = bench.task(B);
    assert_eq!((again.attempt, &again.work), (2, &task.work));
    // It stands no longer for being renewed, and one that is given back is lost too.
    bench.now += 99;
    assert_eq!(bench.renew(B, again.lease), renewal(B, &[]));
    assert!(bench.plan.next_deadline() <= Some(Millis(bench.now + 1)));
    let actions = bench.give_back(B, again.lease);
    assert_eq!(actions, [commit(submission, &[3])]);
    // The late answer is of no use.
    let (check, actions) = bench.check(B, again.lease, summaries([3]));
    assert_eq!(actions, [rejected(check, Rejection::Stale)]);
}

#[test]
fn who_finds_something_else_is_right_or_a_liar() {
    for lie in [true, false] {
        let mut bench = checked();
        let (first, second) = if lie {
            (wrong(3), summary(3))
        } else {
            (summary(3), wrong(3))
        };
        let (submission, _) = bench.submit(A, LeaseId(9), vec![first]);
        let task = bench.task(B);
        let (check, actions) = bench.check(B, task.lease, vec![second]);
        let expected = [forget(submission), accepted(check), arbitrate(3)];
        assert_eq!(actions, expected);
        let (own, actions) = bench.arbitrate(summary(3));
        let worker = if lie { A } else { B };
        assert_eq!(actions, [quarantine(worker, 3), commit_by(own, &[3], &[])]);
    }
}

/// What a check says of other ranges than those it was given for, or twice, is of no use, and costs an attempt.
#[test]
fn a_check_is_about_its_ranges() {
    for (ranges, reason) in [
        (vec![], Rejection::Empty),
        (summaries([3, 3]), Rejection::Twice { head: Head(3) }),
    ] {
        let mut bench = checked();
        let (submission, task) = begin(&mut bench);
        let (check, actions) = bench.check(B, task.lease, ranges);
        assert_eq!(actions, [rejected(check, reason)]);
        assert_eq!(bench.task(B).attempt, 2);
        assert!(bench.plan.pending.contains_key(&submission));
    }
    let mut bench = checked();
    let (_, task) = begin(&mut bench);
    let (check, actions) = bench.check(B, task.lease, summaries([4]));
    let (unit, lease) = (range(4), task.lease);
    let reason = Rejection::NotLeased { unit, lease };
    assert_eq!(actions, [rejected(check, reason)]);
}

/// Ranges that lie together are checked together, and each by itself: what is not handed in waits for another.
#[test]
fn one_task_checks_several_ranges() {
    let mut bench = checked();
    bench.submit(A, LeaseId(9), summaries([3, 4]));
    bench.plan.settings.task_positions_min = 2048;
    let (layer, heads) = (3, to_heads(&[3]));
    assert_eq!(bench.task(B).work, Work::Check { layer, heads });

    let mut bench = checked();
    bench.plan.settings.task_positions_min = 1 << 20;
    let (submission, actions) = bench.submit(A, LeaseId(9), summaries([3, 4]));
    assert_eq!(actions, [held(submission)]);
    let task = bench.task(B);
    let (layer, heads) = (3, to_heads(&[3, 4]));
    assert_eq!(task.work, Work::Check { layer, heads });
    let (check, actions) = bench.check(B, task.lease, summaries([4]));
    assert_eq!(
        actions,
        [commit_by(submission, &[4], &[A, B]), accepted(check)]
    );
    let again = bench.task(B);
    let (layer, heads) = (3, to_heads(&[3]));
    assert_eq!(
        (again.attempt, again.work),
        (2, Work::Check { layer, heads })
    );
}

#[test]
fn who_computes_the_same_has_checked_it() {
    let mut bench = checked();
    let (submission, task) = begin(&mut bench);
    // The same worker once more says nothing.
    let (again, actions) = bench.submit(A, LeaseId(9), summaries([3]));
    assert_eq!(actions, [noted(again)]);
    let (other, actions) = bench.submit(B, LeaseId(9), summaries([3]));
    assert_eq!(actions, [commit_by(submission, &[3], &[A, B])]);
    assert!(!bench.plan.holds(B, task.lease));
    assert_eq!(
        bench.committed(submission)[..2],
        [forget(submission), duplicate(other)]
    );
}

#[test]
fn only_what_is_sampled_of_a_result_waits() {
    let mut bench = checked();
    bench.plan.settings.check_one_in = 2;
    bench.plan.settings.checks_first = 0;
    let ranges = summaries([3, 4]);
    let rng = (0..100).find(|&rng| bench.plan.sample(A, &ranges, rng) == BTreeSet::from([Head(4)]));
    let submission = SubmissionId(50);
    let (layer, heads) = (4, to_heads(&[3, 4]));
    let work = Work::Evaluate { layer, heads };
    bench.plan.pretend_leased(A, LeaseId(9), work);
    let actions = bench.tell(Event::Evaluated {
        submission,
        worker: A,
        lease: LeaseId(9),
        ranges,
        rng: rng.unwrap(),
    });
    assert_eq!(actions, [commit(submission, &[3])]);
    let task = bench.task(B);
    // The second write begins when the first has ended.
    let (check, actions) = bench.check(B, task.lease, summaries([4]));
    assert_eq!(actions, [accepted(check)]);
    let next = commit_by(submission, &[4], &[A, B]);
    assert_eq!(bench.committed(submission), [next]);
    assert_eq!(bench.committed(submission), [accepted(submission)]);
}

#[test]
fn agreed_ranges_are_checked_by_a_third() {
    let mut bench = checked();
    bench.plan.settings.replicas = 2;
    bench.plan.ready = attempts::ReadyQueue::new(2, bench.plan.settings.head_bits());
    bench.plan.reconsider(range(3));
    bench.plan.reconsider(range(4));
    bench.join(C, 1);
    bench.submit(A, LeaseId(9), summaries([3]));
    let (submission, actions) = bench.submit(B, LeaseId(9), summaries([3]));
    assert_eq!(actions, [held(submission)]);
    for worker in [A, B] {
        assert_eq!(heads(&bench.task(worker)), to_heads(&[4]));
    }
    assert!(matches!(bench.task(C).work, Work::Check { .. }));
}

/// A worker that stays in contact and asks for nothing does not hold up a range for ever, nor does it get it
/// past the check.
#[test]
fn what_nobody_takes_to_check_is_computed_by_the_coordinator() {
    let settings = all_checked(13);
    let lease_ms = settings.lease_ms;
    let mut bench = Bench::new(settings, &[]);
    bench.join_all(&[A, B]);
    let lease = bench.task(A).lease;
    let (_, actions) = bench.submit(A, lease, summaries([0]));
    assert!(!actions.contains(&arbitrate(0)));
    let mut all = Vec::new();
    for _ in 0..8 {
        bench.now += lease_ms / 6;
        all.extend(bench.renew(B, LeaseId(99)));
        all.extend(bench.renew(A, LeaseId(99)));
        all.extend(bench.tell(Event::Tick));
    }
    assert!(all.contains(&arbitrate(0)), "{all:?}");
}

/// Whoever holds a check does not hold up the range for the time of a lease.
#[test]
fn a_check_that_is_slow_goes_to_another() {
    let mut bench = checked();
    bench.plan.settings.straggler_ms = 30;
    bench.join(C, 1);
    let (submission, task) = begin(&mut bench);
    assert_eq!(heads(&bench.task(C)), to_heads(&[4]));
    assert_eq!(bench.want(C), []);
    bench.now += 30;
    let actions = bench.tell(Event::Tick);
    let again = only_task(&actions);
    // It is not a lost one, of which two would let the range pass.
    assert_eq!((again.attempt, &again.work), (1, &task.work));
    let (late, actions) = bench.check(B, task.lease, summaries([3]));
    assert_eq!(actions, [rejected(late, Rejection::Stale)]);
    let (check, actions) = bench.check(C, again.lease, summaries([3]));
    let commit = commit_by(submission, &[3], &[A, C]);
    assert_eq!(actions, [commit, accepted(check)]);
}

#[test]
fn ranges_that_were_checked_in_vain_are_checked_alone() {
    let mut bench = checked();
    bench.plan.settings.task_positions_min = 1 << 20;
    bench.submit(A, LeaseId(9), summaries([3, 4]));
    assert_eq!(
        bench.plan.progress().arbitrations,
        0,
        "what is held is not doubted"
    );
    let lease = bench.task(B).lease;
    bench.give_back(B, lease);
    let again = bench.task(B);
    let (layer, heads) = (3, to_heads(&[3]));
    assert_eq!(
        (again.attempt, again.work),
        (2, Work::Check { layer, heads })
    );
}

/// Who found the range does not get the check, however slow it is.
#[test]
fn a_slow_check_stays_where_it_is_if_nobody_else_may() {
    let mut bench = checked();
    bench.plan.settings.straggler_ms = 30;
    let (_, task) = begin(&mut bench);
    assert_eq!(heads(&bench.task(A)), to_heads(&[4]));
    assert_eq!(bench.want(A), []);
    bench.now += 30;
    assert_eq!(bench.tell(Event::Tick), []);
    assert!(bench.plan.holds(B, task.lease));
}

/// A tick is due when a check has waited for too long, and not when it is in hand.
#[test]
fn it_is_known_when_a_check_is_overdue() {
    for is_taken in [false, true] {
        let mut bench = checked();
        bench.submit(A, LeaseId(9), summaries([3]));
        bench.now = 49;
        bench.renew(A, LeaseId(0));
        bench.renew(B, LeaseId(0));
        bench.now = 98;
        bench.renew(A, LeaseId(0));
        if is_taken {
            bench.task(B);
        } else {
            bench.renew(B, LeaseId(0));
        }
        assert_eq!(bench.plan.next_deadline(), Some(Millis(100)));
        bench.now = 100;
        let actions = bench.tell(Event::Tick);
        assert_eq!(!actions.contains(&arbitrate(3)), is_taken);
        assert!(bench.plan.next_deadline() > Some(Millis(100)));
    }
}
