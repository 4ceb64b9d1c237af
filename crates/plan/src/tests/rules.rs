//! The rules: which results count, which are checked, and the consequences when results differ.

use super::*;

fn two_replicas() -> Settings {
    Settings {
        replicas: 2,
        ..settings()
    }
}

fn all_checked() -> Settings {
    Settings {
        checks_per_1000: 1000,
        owner_checks_per_1000: 1000,
        ..settings()
    }
}

#[test]
fn a_result_counts_at_once_at_one_replica() {
    let mut bench = Bench::new(all_checked(), &[A, B]);
    assert_eq!(bench.finds(A, 0, 0), Verdict::Accepted);
    assert!(bench.is_done(0));
    let [(_, finders)] = &bench.committed[..] else {
        panic!("{:?}", bench.committed);
    };
    assert_eq!((finders.workers(), finders.wanted()), (&[A][..], 2));
    // Others depend on it before it is checked, and the referee does no sampled check.
    assert_eq!(bench.finds(A, 1, 0), Verdict::Accepted);
    bench.wait(1_000);
    assert!(!bench.is_referee_called);
}

#[test]
fn many_workers_of_one_participant_count_once() {
    let mut bench = Bench::new(two_replicas(), &[A, B]);
    for number in 0..5 {
        let worker = WorkerId::new(1, number);
        bench.join(worker);
        assert_eq!(bench.finds(worker, 0, 0), Verdict::Noted);
        assert!(!bench.is_done(0));
    }
    assert_eq!(bench.finds(B, 0, 0), Verdict::Accepted);
    assert!(bench.is_done(0));
    assert_eq!(bench.plan.settings.replicas, 2);
}

/// However many workers it starts, and however long it holds what others could do: what it says alone counts for
/// nothing at two replicas.
#[test]
fn one_participant_settles_nothing_alone_at_two_replicas() {
    let mut bench = Bench::new(two_replicas(), &[A]);
    assert_eq!(bench.finds(A, 0, 1), Verdict::Noted);
    bench.wait(1_000_000);
    assert!(!bench.is_done(0) && !bench.is_referee_called);
    let waits_for = bench.plan.waits_for();
    assert!(
        waits_for.is_none_or(|text| text.contains("participants") || text.contains("no worker"))
    );
}

#[test]
fn a_check_is_a_task_for_another_participant() {
    let mut bench = Bench::new(all_checked(), &[A, B]);
    bench.finds(A, 0, 0);
    bench.finds(A, 1, 0);
    let own = WorkerId::new(1, 9);
    bench.join(own);
    // Fresh ranges go first, and the finder's other workers are no others.
    let (_, fresh) = bench.heads(own).unwrap();
    assert_eq!(fresh, [2]);
    assert_eq!(bench.take(own), None);
    let task = bench.take(B).unwrap();
    let check = Work::Evaluate {
        layer: 0,
        heads: vec![Head(0)],
        is_check: true,
    };
    assert_eq!(task.work, check);
    assert_eq!(bench.returns(B, task.lease, range(0, 0)), Verdict::Accepted);
    assert_eq!(bench.finders(0), [A, B]);
    let [(unit, finders)] = &bench.confirmed[..] else {
        panic!("{:?}", bench.confirmed);
    };
    assert_eq!(
        (*unit, finders.workers()),
        (Unit::Range(Head(0)), &[A, B][..])
    );
}

#[test]
fn workers_of_the_only_participant_check_each_other() {
    let [first, second] = [1, 2].map(|number| WorkerId::new(0, number));
    let settings = Settings {
        checks_waiting_per_thread: 0,
        ..all_checked()
    };
    let mut bench = Bench::new(settings, &[first]);
    // It does not matter who was there when it was found.
    bench.finds(first, 0, 0);
    bench.finds(first, 1, 0);
    assert_eq!(bench.plan.progress().checks_waiting, 2);
    bench.join(second);
    let fresh = bench.take(first).unwrap();
    assert_eq!(
        fresh.work,
        Work::Evaluate {
            layer: 2,
            heads: vec![Head(2)],
            is_check: false,
        }
    );
    for head in [0, 1] {
        let (lease, heads) = bench.heads(second).unwrap();
        assert_eq!(heads, [head]);
        bench.returns(second, lease, range(head, 0));
        assert_eq!(bench.finders(head), [first, second]);
    }
    assert_eq!(bench.plan.progress().checks_waiting, 0);
    // One of two machines of the owner is broken, and the job goes on with the other.
    bench.returns(first, fresh.lease, range(2, 0));
    let (lease, heads) = bench.heads(second).unwrap();
    assert_eq!(heads, [2]);
    bench.returns(second, lease, range(2, 1));
    // Also if it is decided when nobody is there any more.
    for worker in [first, second] {
        bench.handle(Event::Left { worker });
    }
    bench.decides(2, 0);
    assert_eq!(bench.out, [Party::Worker(second)]);
}

/// Only the owner's word counts as that of two. Of another participant one worker would confirm what another one says.
#[test]
fn workers_of_others_do_not_check_each_other() {
    let own = WorkerId::new(A.participant.0, 9);
    let mut bench = Bench::new(all_checked(), &[A, own, B]);
    bench.finds(A, 0, 0);
    bench.handle(Event::Left { worker: B });
    for head in [1, 2] {
        bench.finds(A, head, 0);
    }
    assert_eq!(bench.plan.progress().checks_waiting, 3);
    while let Some((_, heads)) = bench.heads(own) {
        assert!(!bench.is_done(heads[0]));
    }
}

/// Each worker of the owner is a party at one replica, and the owner is one at several, whoever else is there.
#[test]
fn a_party_does_not_depend_on_those_present() {
    let [first, second] = [1, 2].map(|number| WorkerId::new(0, number));
    for replicas in [1, 2] {
        let settings = Settings {
            replicas,
            checks_waiting_per_thread: 0,
            ..all_checked()
        };
        let mut bench = Bench::new(settings, &[first, second, A]);
        bench.finds(first, 0, 0);
        let (lease, heads) = bench.heads(A).unwrap();
        assert_eq!(heads, [0]);
        bench.handle(Event::Left { worker: A });
        bench.returns(A, lease, range(0, 0));
        let of_second = bench.heads(second).filter(|(_, heads)| heads[0] == 0);
        assert_eq!(of_second.is_some(), replicas == 1);
    }
}

#[test]
fn too_many_checks_go_before_fresh_ranges() {
    let settings = Settings {
        checks_waiting_per_thread: 1,
        ..all_checked()
    };
    let mut bench = Bench::new(settings, &[A, B]);
    for head in 0..3 {
        bench.finds(A, head, 0);
    }
    assert_eq!(bench.heads(B).unwrap().1, [0]);
}

/// The rate is that of the settings, and the first ranges of each participant are all sampled.
#[test]
fn as_many_are_sampled_as_the_settings_say() {
    for rate in [0, 250, 400, 1000] {
        let settings = Settings {
            checks_per_1000: rate,
            newcomer_ranges: 5,
            ..settings()
        };
        let mut bench = Bench::new(settings, &[A, B]);
        let mut sampled = |_| bench.plan.sample_for_check(Unit::Range(Head(3)), &[A]);
        assert!((0..5).all(&mut sampled));
        let count = (0..4000).filter(|&number| sampled(number)).count() as u64;
        let expected = 4 * u64::from(rate);
        assert!(count.abs_diff(expected) <= 130, "{rate}: {count}");
    }
}

/// The owner's own ranges have a rate of their own, and nobody has to check its shards.
#[test]
fn the_owner_is_checked_less() {
    let owner = WorkerId::new(ParticipantId::OWNER.0, 1);
    for (replicas, finders, rate, is_shard) in [
        (1, &[owner][..], 100, false),
        (1, &[A], 400, true),
        (2, &[owner, A], 400, false),
    ] {
        let settings = Settings {
            replicas,
            checks_per_1000: 400,
            owner_checks_per_1000: 100,
            ..settings()
        };
        let mut bench = Bench::new(settings, &[owner, A]);
        let mut sampled = |unit| bench.plan.sample_for_check(unit, finders);
        assert_eq!(sampled(Unit::Shard(0)), is_shard);
        let count = (0..4000).filter(|_| sampled(Unit::Range(Head(3)))).count();
        assert!(count.abs_diff(4 * rate) <= 130, "{rate}: {count}");
    }
}

#[test]
fn results_that_differ_are_decided_by_the_referee() {
    for (a, b, truth, out) in [
        (0, 1, 0, vec![B]),
        (1, 0, 0, vec![A]),
        (1, 2, 0, vec![A, B]),
    ] {
        let mut bench = Bench::new(two_replicas(), &[A, B, C]);
        assert_eq!(bench.finds(A, 0, a), Verdict::Noted);
        assert_eq!(bench.finds(B, 0, b), Verdict::Noted);
        assert_eq!(bench.take(C), None, "it is left to the referee");
        bench.decides(0, truth);
        let out: Vec<Party> = out
            .iter()
            .map(|worker| Party::Participant(worker.participant))
            .collect();
        assert_eq!(bench.out, out);
        assert!(bench.is_done(0) && bench.finders(0).is_empty());
        assert!(bench.withdrawn.is_empty());
    }
}

#[test]
fn a_range_that_is_wrong_goes_with_all_that_follows_from_it() {
    let mut bench = Bench::new(all_checked(), &[A, B, C]);
    bench.finds(A, 0, 1);
    bench.finds(B, 1, 0);
    bench.finds(C, 2, 0);
    let (lease, _) = bench.heads(A).unwrap();
    assert_eq!(bench.finds(B, 0, 0), Verdict::Noted);
    bench.decides(0, 0);
    assert_eq!(bench.out, [Party::Participant(A.participant)]);
    assert_eq!(bench.withdrawn, [0, 1, 2].map(Head));
    assert!((0..3).all(|head| !bench.is_done(head)));
    // All that was begun before is of no use, and nobody is out for it.
    assert!(!bench.plan.holds(A, lease));
    // What the referee has found is known, and any worker may compute it again.
    let (lease, heads) = bench.heads(C).unwrap();
    assert_eq!(heads, [0]);
    assert_eq!(bench.returns(C, lease, range(0, 2)), Verdict::Noted);
    bench.decides(0, 0);
    assert!(bench.is_done(0), "the referee has stored it");
    let out = [A, C].map(|worker| Party::Participant(worker.participant));
    assert_eq!(bench.out, out);
    assert_eq!(bench.heads(B).unwrap().1, [1]);
}

#[test]
fn what_one_that_is_out_alone_found_is_checked() {
    let mut bench = Bench::new(settings(), &[A, B]);
    bench.finds(A, 0, 0);
    bench.finds(B, 1, 0);
    bench.finds(A, 2, 0);
    let participant = A.participant;
    bench.handle(Event::Revoked { participant });
    assert_eq!(bench.plan.progress().checks_waiting, 2);
    assert!(
        bench.is_done(0) && bench.is_done(2),
        "nothing waits for a check"
    );
    // By others, or by the referee when nobody takes it for the time of a lease.
    let mut checked = Vec::new();
    while let Some((lease, heads)) = bench.heads(B) {
        if !bench.is_done(heads[0]) {
            bench.handle(Event::Returned {
                worker: B,
                lease,
                failure: None,
            });
            break;
        }
        checked.extend(heads);
    }
    bench.now += 99;
    bench.handle(Event::Tick);
    assert!(!bench.is_referee_called);
    bench.wait(1);
    let mut left = [0, 2].into_iter().filter(|head| !checked.contains(head));
    let lowest = left.next().map(|head| Unit::Range(Head(head)));
    assert_eq!(bench.for_referee(), lowest);
}

#[test]
fn what_one_that_is_out_has_found_counts_no_more() {
    let mut bench = Bench::new(two_replicas(), &[A, B, C]);
    assert_eq!(bench.finds(A, 0, 0), Verdict::Noted);
    let participant = A.participant;
    bench.handle(Event::Revoked { participant });
    assert_eq!(bench.finds(B, 0, 0), Verdict::Noted);
    assert_eq!(bench.finds(C, 0, 0), Verdict::Accepted);
    assert_eq!(bench.finders(0), [B, C]);
    let late = bench.returns(A, LeaseId(0), range(0, 0));
    let reason = Rejection::Out {
        reason: OutReason::Revoked,
    };
    assert_eq!(late, Verdict::Rejected { reason });
}

#[test]
fn a_lost_record_is_computed_again_and_comes_out_the_same() {
    let mut bench = Bench::new(settings(), &[A, B]);
    bench.finds(A, 0, 0);
    bench.finds(A, 1, 0);
    let lose = |bench: &mut Bench, content| bench.loses(0, content);
    lose(&mut bench, 5);
    assert!(bench.is_done(0), "that is not its digest");
    lose(&mut bench, 0);
    assert!(!bench.is_done(0) && bench.is_done(1));
    assert_eq!(bench.finds(B, 0, 0), Verdict::Accepted);
    assert_eq!(bench.finders(0), [A, B]);
    // To find it again is no check of what one has found.
    bench.finds(B, 2, 0);
    bench.loses(2, 0);
    let other = WorkerId::new(B.participant.0, 7);
    bench.join(other);
    assert_eq!(bench.finds(other, 2, 0), Verdict::Accepted);
    assert_eq!(bench.finders(2), [B]);
    // Something else is a dispute with whoever found it first.
    lose(&mut bench, 0);
    assert_eq!(bench.finds(B, 0, 1), Verdict::Noted);
    bench.decides(0, 0);
    assert_eq!(bench.out, [Party::Participant(B.participant)]);
}

/// A lease on several ranges goes on when one of them is done. It is of no use when that one is lost.
#[test]
fn what_is_lost_is_begun_anew() {
    let mut bench = Bench::new(settings(), &[A, B]);
    for head in [0, 1, 2] {
        bench.finds(A, head, 0);
    }
    let both = [3, 4].map(|head| Unit::Range(Head(head)));
    let lease = bench.plan.pretend_leased(B, &both);
    bench.finds(A, 3, 0);
    assert!(bench.plan.holds(B, lease));
    bench.loses(3, 0);
    assert!(!bench.plan.holds(B, lease));
}

/// A participant that is revoked before the table is cut again is a finder of no shard from before.
#[test]
fn shards_from_before_have_only_finders_that_are_trusted() {
    let finders = Finders::new(2, [A, B]);
    let known = |head| (range(head, 0), finders.clone());
    let past = Past {
        ranges: (1..16).map(known).collect(),
        lost: vec![known(0)],
        shards: vec![(0, Digest([0; 32]), finders.clone())],
        out: Vec::new(),
    };
    let mut bench = Bench::from(two_replicas(), past);
    bench.join(C);
    let participant = A.participant;
    bench.handle(Event::Revoked { participant });
    bench.finds(C, 0, 0);
    assert_eq!(bench.plan.units.found_by(Unit::Shard(0)), [B]);
}

/// Workers may store records that are none, but the referee does not.
#[test]
fn what_is_lost_again_and_again_is_left_to_the_referee() {
    let mut bench = Bench::new(settings(), &[A]);
    let lose = |bench: &mut Bench| bench.loses(0, 0);
    bench.finds(A, 0, 0);
    for _ in 0..bench.plan.settings.failures_max {
        lose(&mut bench);
        assert!(!bench.is_referee_called);
        bench.finds(A, 0, 0);
    }
    lose(&mut bench);
    assert_eq!(bench.take(A), None);
    bench.decides(0, 0);
    assert!(bench.is_done(0));
    lose(&mut bench);
    let phase = bench.plan.phase();
    assert!(matches!(phase, Phase::Stopped(StopReason::Lost { .. })));
}

/// A task of the referee for which a record is missing is begun again when that is there.
#[test]
fn a_record_that_is_lost_meanwhile_stops_no_job() {
    let mut bench = Bench::new(settings(), &[A, B]);
    bench.finds(A, 0, 0);
    bench.finds(A, 1, 0);
    bench.finds(B, 1, 1);
    let task = bench.take_as_referee().unwrap();
    bench.loses(0, 0);
    assert_eq!(bench.for_referee(), None, "it lacks a source");
    bench.handle(Event::Returned {
        worker: REFEREE,
        lease: task.lease,
        failure: Some("a record is lost".to_owned()),
    });
    bench.finds(A, 0, 0);
    bench.decides(1, 0);
    assert_eq!(bench.out, [Party::Participant(B.participant)]);
}

/// A shard whose file has other words than its finder reported is merged again by the referee.
#[test]
fn a_forged_shard_puts_its_finder_out() {
    for (is_forged, wrong) in [(true, A), (false, B)] {
        let mut bench = all_found();
        let shard = bench.take(A).unwrap();
        bench.merges(A, &shard);
        let unit = Unit::Shard(0);
        let lease = bench.plan.pretend_leased(B, &[unit]);
        let said = bench.completes(B, lease, shard_of(0, true));
        assert_eq!(said, Verdict::Noted);
        let check = bench.take_as_referee().unwrap();
        assert!(matches!(check.work, Work::Merge { is_check: true, .. }));
        bench.completes(REFEREE, check.lease, shard_of(0, is_forged));
        assert_eq!(bench.out, [Party::Participant(wrong.participant)]);
        assert_eq!(bench.plan.units.is_done(unit), !is_forged);
        if is_forged {
            // The ranges that the forger found are checked first.
            while let Some(check) = bench.take(B) {
                bench.does(B, &check);
            }
            let merge = bench.take_as_referee().unwrap();
            assert!(matches!(
                merge.work,
                Work::Merge {
                    is_check: false,
                    ..
                }
            ));
            bench.merges(REFEREE, &merge);
            assert!(bench.plan.units.is_done(unit));
        }
    }
}

/// When the checks of a shard fail too often, what was said of its file and is under way for it counts no more: the file
/// is merged anew, and nobody is out for what was true of the one before.
#[test]
fn a_file_that_is_replaced_is_not_judged() {
    let mut bench = all_found_by(A, B, all_checked());
    let shard = bench.take(A).unwrap();
    bench.merges(A, &shard);
    let unit = [Unit::Shard(0)];
    let lease = bench.plan.pretend_leased(B, &unit);
    assert_eq!(bench.completes(B, lease, shard_of(0, true)), Verdict::Noted);
    let check = bench.take_as_referee().unwrap();
    for _ in 0..bench.plan.settings.failures_max {
        let lease = bench.plan.pretend_leased(B, &unit);
        let failure = Some("it cannot be read".to_owned());
        bench.handle(Event::Returned {
            worker: B,
            lease,
            failure,
        });
    }
    let late = bench.completes(REFEREE, check.lease, shard_of(0, true));
    assert!(matches!(late, Verdict::Rejected { .. }), "{late:?}");
    let merge = bench.take_as_referee().unwrap();
    assert!(matches!(
        merge.work,
        Work::Merge {
            is_check: false,
            ..
        }
    ));
    bench.merges(REFEREE, &merge);
    assert!(bench.plan.units.are_shards_complete() && bench.out.is_empty());
}

/// A result that is repeated is no sign that checks are done.
#[test]
fn who_repeats_results_does_not_hold_up_the_end() {
    let mut bench = all_found();
    let shard = bench.take(A).unwrap();
    bench.merges(A, &shard);
    bench.wait(60);
    let again = bench.returns(A, LeaseId(0), range(0, 0));
    assert_eq!(again, Verdict::Duplicate);
    bench.wait(40);
    assert_eq!(bench.publications, 1);
}

/// While the table is being published nothing is leased, and what came up is done if it is not.
#[test]
fn nothing_is_leased_during_the_publication() {
    let mut bench = all_found_by(A, B, settings());
    let shard = bench.take(A).unwrap();
    bench.merges(A, &shard);
    let check = bench.take(B).unwrap();
    bench.does(B, &check);
    assert_eq!(bench.publications, 1);
    let participant = A.participant;
    bench.handle(Event::Revoked { participant });
    assert_eq!(bench.take(B), None);
    let shards = vec![0, 99];
    bench.handle(Event::Published(PublishOutcome::MergeAgain { shards }));
    assert!(bench.take(B).is_some());
}

/// A shard that nobody can check is merged again by the referee.
#[test]
fn a_shard_whose_checks_fail_is_merged_again() {
    let settings = Settings {
        newcomer_ranges: 0,
        ..all_checked()
    };
    let mut bench = all_found_by(A, B, settings);
    let shard = bench.take(A).unwrap();
    bench.merges(A, &shard);
    for _ in 0..bench.plan.settings.failures_max {
        let lease = bench.plan.pretend_leased(B, &[Unit::Shard(0)]);
        bench.handle(Event::Returned {
            worker: B,
            lease,
            failure: Some("shard-00000.bin cannot be read".to_owned()),
        });
    }
    let merge = bench.take_as_referee().unwrap();
    assert!(matches!(
        merge.work,
        Work::Merge {
            is_check: false,
            ..
        }
    ));
    bench.merges(REFEREE, &merge);
    assert!(bench.plan.units.are_shards_complete() && bench.out.is_empty());
}

/// Two that tell the same lie do not settle what the referee has begun to check.
#[test]
fn nothing_ends_what_the_referee_has_begun() {
    let mut bench = Bench::new(settings(), &[A, B]);
    bench.finds(A, 0, 1);
    let participant = A.participant;
    bench.handle(Event::Revoked { participant });
    bench.wait(100);
    let check = bench.take_as_referee().unwrap();
    assert_eq!(bench.for_referee(), None, "it has begun");
    assert_eq!(bench.finds(B, 0, 1), Verdict::Accepted);
    assert!(!bench.plan.has_nothing_to_recheck());
    bench.returns(REFEREE, check.lease, range(0, 0));
    let out = [A, B].map(|worker| Party::Participant(worker.participant));
    assert_eq!(bench.out, out);
    assert_eq!(bench.withdrawn, [Head(0)]);
}

/// A file can only be forged where there is one.
#[test]
fn who_merges_a_shard_cannot_say_that_it_is_forged() {
    let mut bench = all_found();
    let shard = bench.take(A).unwrap();
    let said = bench.completes(A, shard.lease, shard_of(0, true));
    assert_eq!(said, Verdict::Accepted);
    let unit = Unit::Shard(0);
    assert_eq!(bench.plan.units.content(unit).unwrap().count, 0);
}

/// The ranges of which one should be wrong are evaluated once, and then the job stops.
#[test]
fn a_contradiction_is_not_followed_for_ever() {
    let mut bench = all_found_by(A, B, settings());
    let shard = bench.take(A).unwrap();
    bench.merges(A, &shard);
    let check = bench.take(B).unwrap();
    bench.does(B, &check);
    for is_new in [true, false] {
        assert_eq!(std::mem::take(&mut bench.publications), 1);
        let (heads, reason) = (vec![Head(3), Head(0)], "it is wrong".to_owned());
        bench.handle(Event::Published(PublishOutcome::Wrong { heads, reason }));
        let stopped = matches!(bench.plan.phase(), Phase::Stopped(_));
        assert_eq!(stopped, !is_new);
        if is_new {
            // Those of low layers first.
            bench.decides(0, 0);
            bench.decides(3, 0);
        }
    }
}

/// Where nobody is, somebody may still come who checks what was found before.
#[test]
fn no_check_lapses_before_anybody_has_come() {
    let known = |head| (range(head, 0), Finders::new(2, [A]));
    let past = Past {
        ranges: (0..16).map(known).collect(),
        ..Past::default()
    };
    let mut bench = Bench::from(all_checked(), past);
    assert_eq!(bench.plan.progress().checks_waiting, 16);
    bench.join(B);
    assert_eq!(bench.plan.progress().checks_waiting, 16);
    bench.handle(Event::Left { worker: B });
    bench.join(A);
    assert_eq!(bench.plan.progress().checks_waiting, 0);
}

/// The referee is no worker of the job: nobody waits for it, and it finds nothing that others could.
#[test]
fn the_referee_gets_only_what_is_left_to_it() {
    let mut bench = Bench::new(all_checked(), &[A, B]);
    bench.finds(A, 0, 0);
    bench.join(REFEREE);
    assert_eq!(bench.take(REFEREE), None);
    assert_eq!(bench.plan.progress().workers, 2);
    assert_eq!(bench.plan.workers().count(), 2);
    for worker in [A, B] {
        bench.handle(Event::Left { worker });
    }
    assert_eq!(bench.plan.waits_for().as_deref(), Some(NO_WORKER));
}

/// A sampled check waits for nobody, and the referee does none.
#[test]
fn sampled_checks_lapse_at_the_end() {
    let mut bench = all_found();
    let checks = |bench: &Bench| {
        let progress = bench.plan.progress();
        (progress.checks_waiting, progress.checks_lapsed)
    };
    assert_eq!(checks(&bench), (16, 0));
    bench.handle(Event::Left { worker: B });
    assert_eq!(checks(&bench), (0, 16));
    let shard = bench.take(A).unwrap();
    bench.merges(A, &shard);
    assert_eq!((bench.publications, bench.is_referee_called), (1, false));
}

/// As long as some is done, the others are waited for.
#[test]
fn a_check_that_is_done_gives_the_others_time() {
    let mut bench = all_found();
    let shard = bench.take(A).unwrap();
    bench.merges(A, &shard);
    for left in (15..17).rev() {
        bench.wait(99);
        let check = bench.take(B).unwrap();
        bench.does(B, &check);
        assert_eq!(bench.plan.progress().checks_waiting, left);
    }
    assert_eq!(bench.plan.next_deadline(), Some(Millis(bench.now + 100)));
    bench.wait(100);
    let progress = bench.plan.progress();
    assert_eq!((progress.checks_waiting, progress.checks_lapsed), (0, 15));
    assert_eq!((bench.publications, bench.is_referee_called), (1, false));
}

/// Where only as many parties were ever there as have to find the same, nothing could be checked.
#[test]
fn no_check_is_missed_where_nobody_could_do_it() {
    for (others, lapsed) in [(&[][..], 0), (&[B][..], 16)] {
        let mut bench = Bench::new(all_checked(), &[A]);
        for &other in others {
            bench.join(other);
            bench.handle(Event::Left { worker: other });
        }
        find_all(&mut bench, A);
        let progress = bench.plan.progress();
        assert_eq!(
            (progress.checks_waiting, progress.checks_lapsed),
            (0, lapsed)
        );
    }
}

/// One worker has found all ranges, which are to be checked.
fn all_found() -> Bench {
    all_found_by(A, B, all_checked())
}

fn all_found_by(finder: WorkerId, other: WorkerId, settings: Settings) -> Bench {
    let mut bench = Bench::new(settings, &[finder, other]);
    find_all(&mut bench, finder);
    bench
}

fn find_all(bench: &mut Bench, finder: WorkerId) {
    for heads in chomp_table::head::layers(16, RangeBits::new(12).unwrap()) {
        for head in heads {
            bench.finds(finder, head.0, 0);
        }
    }
}

#[test]
fn a_table_is_published_when_no_check_is_left() {
    let mut bench = all_found();
    let shard = bench.take(A).unwrap();
    bench.merges(A, &shard);
    assert!(bench.plan.units.are_shards_complete());
    while let Some(check) = bench.take(B) {
        assert_eq!(bench.publications, 0);
        bench.does(B, &check);
    }
    assert_eq!(bench.publications, 1);
}

/// The speed of a worker is that of its ranges.
#[test]
fn shards_are_no_ranges_of_a_worker() {
    let mut bench = all_found();
    let ranges = |bench: &Bench| -> Vec<u64> {
        let workers = bench.plan.workers();
        workers.map(|worker| worker.ranges).collect()
    };
    let shard = bench.take(A).unwrap();
    bench.merges(A, &shard);
    assert_eq!(ranges(&bench), [16, 0]);
    while let Some(check) = bench.take(B) {
        bench.does(B, &check);
    }
    assert_eq!(ranges(&bench), [16, 16], "checks count");
}

/// Parts go when their ranges are merged, if nobody but the owner has found anything. Each range has 3 words, so the
/// last of 5 shards begins within range 13.
#[test]
fn parts_go_early_where_the_owner_has_found_all() {
    let owner = WorkerId::new(ParticipantId::OWNER.0, 1);
    for (finder, merger, from) in [(owner, owner, 14), (A, owner, 16), (owner, A, 16)] {
        let settings = Settings {
            shard_words: 10,
            ..settings()
        };
        let mut bench = all_found_by(finder, merger, settings);
        assert_eq!(bench.plan.first_unneeded_head(), Head(16));
        let shard = bench.take(merger).unwrap();
        bench.merges(merger, &shard);
        assert_eq!(bench.plan.first_unneeded_head(), Head(from));
    }
}

#[test]
fn no_shard_is_merged_while_a_range_owes_a_check() {
    let mut bench = all_found();
    let shard = bench.take(A).unwrap();
    assert!(matches!(shard.work, Work::Merge { .. }));
    bench.handle(Event::Returned {
        worker: A,
        lease: shard.lease,
        failure: None,
    });
    let participant = A.participant;
    bench.handle(Event::Revoked { participant });
    let held: Vec<(LeaseId, Vec<u64>)> = (0..16).filter_map(|_| bench.heads(B)).collect();
    assert_eq!(held.len(), 16, "no check waits for another one");
    assert_eq!(bench.take(B), None);
    for (lease, heads) in held {
        bench.returns(B, lease, range(heads[0], 0));
    }
    // Nobody else is there for the sampled checks.
    assert_eq!(bench.plan.progress().checks_waiting, 0);
    let shard = bench.take(B).unwrap();
    assert!(matches!(shard.work, Work::Merge { .. }));
}

/// The referee takes one check at a time, and leaves the others to workers.
#[test]
fn workers_go_on_with_checks_that_are_due() {
    let mut bench = all_found();
    let participant = A.participant;
    bench.handle(Event::Revoked { participant });
    bench.wait(100);
    // The first is leased: the referee begins with another one.
    let held = bench.heads(B).unwrap();
    assert_eq!(held.1, [0]);
    assert_eq!(bench.for_referee(), Some(Unit::Range(Head(1))));
    assert!(bench.take_as_referee().is_some());
    let others = std::iter::from_fn(|| bench.heads(B)).count();
    assert_eq!(others, 14);
    assert_eq!(bench.for_referee(), Some(Unit::Range(Head(0))));
}

#[test]
fn no_shard_is_merged_while_a_range_is_disputed() {
    let mut bench = all_found();
    assert_eq!(bench.finds(B, 3, 1), Verdict::Noted);
    assert_eq!(bench.take(A), None);
    bench.decides(3, 0);
    assert!(matches!(bench.take(A).unwrap().work, Work::Merge { .. }));
}

/// A right result that comes before the referee has decided saves no liar.
#[test]
fn a_dispute_outlives_a_check() {
    for (first, second, wrong) in [(0, 1, B), (1, 0, A)] {
        let mut bench = Bench::new(all_checked(), &[A, B, C]);
        bench.finds(A, 0, first);
        assert_eq!(bench.finds(B, 0, second), Verdict::Noted);
        // The unit has as many finders as it should have.
        assert_eq!(bench.finds(C, 0, first), Verdict::Accepted);
        assert_eq!(bench.finders(0), [A, C]);
        bench.decides(0, 0);
        assert!(bench.out.contains(&Party::Participant(wrong.participant)));
        assert_eq!(bench.out.len(), if first == 0 { 1 } else { 2 });
    }
}

/// What the referee began from a range that was wrong is of no use, also if it gets the same again.
#[test]
fn what_follows_from_a_wrong_range_decides_nothing() {
    let mut bench = Bench::new(all_checked(), &[A, B, C]);
    bench.finds(A, 0, 1);
    bench.finds(B, 1, 1);
    bench.finds(C, 1, 2);
    let void = bench.take_as_referee().unwrap();
    bench.finds(B, 0, 0);
    bench.decides(0, 0);
    assert_eq!(bench.withdrawn, [0, 1].map(Head));
    assert_eq!(bench.finds(B, 0, 0), Verdict::Accepted);
    assert_eq!(bench.finds(B, 1, 0), Verdict::Accepted);
    assert_eq!(bench.finds(C, 1, 3), Verdict::Noted);
    bench.returns(REFEREE, void.lease, range(1, 3));
    assert_eq!(bench.out, [Party::Participant(A.participant)]);
    bench.decides(1, 0);
    let wrong = [A, C].map(|worker| Party::Participant(worker.participant));
    assert_eq!(bench.out, wrong);
}

/// A dispute is decided, though one of those who differ is out, and though another range turns out to be wrong.
#[test]
fn no_dispute_is_forgotten() {
    let mut bench = Bench::new(settings(), &[A, B, C]);
    for head in [0, 1, 2] {
        bench.finds(C, head, 0);
    }
    // 3 and 4 depend on none of each other.
    bench.finds(A, 3, 0);
    assert_eq!(bench.finds(B, 3, 1), Verdict::Noted);
    bench.finds(A, 4, 1);
    assert_eq!(bench.finds(C, 4, 0), Verdict::Noted);
    let participant = B.participant;
    bench.handle(Event::Revoked { participant });
    bench.decides(3, 0);
    assert!(bench.finders(3).is_empty(), "the referee has decided");
    bench.decides(4, 0);
    assert_eq!(bench.withdrawn, [Head(4)]);
    assert!(bench.is_done(3));
}

/// Nor does one wait for a participant that only holds it.
#[test]
fn no_check_waits_for_one_that_does_nothing() {
    for is_owed in [false, true] {
        let mut bench = all_found();
        if is_owed {
            let participant = A.participant;
            bench.handle(Event::Revoked { participant });
        } else {
            let shard = bench.take(A).unwrap();
            bench.merges(A, &shard);
        }
        let held: Vec<LeaseId> = std::iter::from_fn(|| bench.take(B))
            .map(|task| task.lease)
            .collect();
        assert!(held.len() > 10 && !bench.is_referee_called);
        for _ in 0..3 {
            bench.wait(50);
            bench.plan.renew(Millis(bench.now), B, &held);
        }
        assert_eq!(bench.is_referee_called, is_owed);
        while let Some(check) = bench.take_as_referee() {
            bench.does(REFEREE, &check);
        }
        bench.wait(99);
        bench.plan.renew(Millis(bench.now), B, &held);
        bench.wait(1);
        assert_eq!(bench.plan.progress().checks_waiting, 0);
        assert_eq!(bench.publications, usize::from(!is_owed));
    }
}

/// A result that is equal to one that is being written is answered when that is durable.
#[test]
fn nothing_is_acknowledged_before_it_is_durable() {
    let mut bench = Bench::new(settings(), &[A, B]);
    for head in [0, 1, 2] {
        bench.finds(A, head, 0);
    }
    let both = [3, 4].map(|head| Unit::Range(Head(head)));
    let [first, second] = [A, B].map(|worker| bench.plan.pretend_leased(worker, &both));
    bench.is_slow = true;
    for (worker, lease) in [(A, first), (B, second)] {
        let result = TaskResult::Ranges(vec![(range(3, 0), ())]);
        bench.handle(Event::Completed {
            worker,
            lease,
            result,
            responder: (),
        });
        assert_eq!(bench.verdicts, []);
    }
    bench.is_slow = false;
    bench.perform(Vec::new());
    assert_eq!(bench.verdicts, [Verdict::Accepted, Verdict::Duplicate]);
}

/// A worker that stops repeats its last result, and wants no further task.
#[test]
fn a_result_that_is_repeated_while_it_is_written_is_a_duplicate_when_it_is_durable() {
    let mut bench = Bench::new(settings(), &[A]);
    let task = bench.take(A).unwrap();
    bench.is_slow = true;
    for content in [0, 0, 1] {
        bench.handle(Event::Completed {
            worker: A,
            lease: task.lease,
            result: TaskResult::Ranges(vec![(range(0, content), ())]),
            responder: (),
        });
    }
    let lease = task.lease;
    let reason = Rejection::NoLease { lease };
    let other = Verdict::Rejected { reason };
    assert_eq!(std::mem::take(&mut bench.verdicts), [other]);
    bench.is_slow = false;
    bench.perform(Vec::new());
    assert_eq!(bench.verdicts, [Verdict::Accepted, Verdict::Duplicate]);
    assert_eq!(bench.finders(0), [A]);
}

#[test]
fn what_cannot_be_written_is_not_acknowledged() {
    let mut bench = Bench::new(settings(), &[A]);
    bench.is_slow = true;
    let lease = bench.plan.pretend_leased(A, &[Unit::Range(Head(0))]);
    bench.handle(Event::Completed {
        worker: A,
        lease,
        result: TaskResult::Ranges(vec![(range(0, 0), ())]),
        responder: (),
    });
    let write = bench.written.remove(0);
    let outcome = Err("no space".to_owned());
    bench.handle(Event::Written { write, outcome });
    let reason = Rejection::Stopped;
    assert_eq!(bench.verdicts, [Verdict::Rejected { reason }]);
    let phase = bench.plan.phase();
    assert!(matches!(
        phase,
        Phase::Stopped(StopReason::CommitFailed { .. })
    ));
}
