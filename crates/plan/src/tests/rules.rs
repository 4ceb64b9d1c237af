//! What counts, what is checked, and what follows when results differ.

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
        own_checks_per_1000: 1000,
        ..settings()
    }
}

#[test]
fn a_result_counts_at_once_at_one_replica() {
    let mut bench = Bench::new(all_checked(), &[A, B]);
    assert_eq!(bench.finds(A, 0, 0), Verdict::Accepted);
    assert!(bench.is_done(0));
    let [(_, found)] = &bench.committed[..] else {
        panic!("{:?}", bench.committed);
    };
    assert_eq!((&found.finders[..], found.wanted), (&[A][..], 2));
    // Others draw on it before it is checked.
    assert_eq!(bench.finds(A, 1, 0), Verdict::Accepted);
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
    assert!(!bench.is_done(0) && bench.computing.is_empty());
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
    let [(unit, found)] = &bench.confirmed[..] else {
        panic!("{:?}", bench.confirmed);
    };
    assert_eq!(
        (*unit, &found.finders[..]),
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
    bench.finds(first, 0, 0);
    assert_eq!(
        bench.plan.progress().checks_waiting,
        0,
        "nobody could check it"
    );
    bench.join(second);
    bench.finds(first, 1, 0);
    let fresh = bench.take(first).unwrap();
    assert_eq!(
        fresh.work,
        Work::Evaluate {
            layer: 2,
            heads: vec![Head(2)],
            is_check: false,
        }
    );
    let (lease, heads) = bench.heads(second).unwrap();
    assert_eq!(heads, [1]);
    bench.returns(second, lease, range(1, 0));
    assert_eq!(bench.finders(1), [first, second]);
    assert_eq!(bench.plan.progress().checks_waiting, 0);
    // One of two machines of the owner is broken, and the job goes on with the other.
    bench.returns(first, fresh.lease, range(2, 0));
    let (lease, heads) = bench.heads(second).unwrap();
    assert_eq!(heads, [2]);
    bench.returns(second, lease, range(2, 1));
    bench.computes(2, 0);
    assert_eq!(bench.out, [Party::Worker(second)]);
    assert!(bench.plan.is_present(first));
}

/// What a worker of the finder has begun while nobody else was there is no check any more.
#[test]
fn a_check_is_for_another_participant_as_soon_as_one_is_there() {
    let [first, second] = [1, 2].map(|number| WorkerId::new(0, number));
    let settings = Settings {
        checks_waiting_per_thread: 0,
        ..all_checked()
    };
    let mut bench = Bench::new(settings, &[first, second]);
    bench.finds(first, 0, 0);
    let (lease, heads) = bench.heads(second).unwrap();
    assert_eq!(heads, [0]);
    bench.join(A);
    assert_eq!(
        bench.returns(second, lease, range(0, 0)),
        Verdict::Duplicate
    );
    assert_eq!(bench.finders(0), [first]);
    assert_eq!(bench.heads(A).unwrap().1, [0]);
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

/// The rate is that of the settings, and the first ranges of each participant are all drawn.
#[test]
fn as_many_are_drawn_as_the_settings_say() {
    for rate in [0, 250, 400, 1000] {
        let settings = Settings {
            checks_per_1000: rate,
            newcomer_ranges: 5,
            ..settings()
        };
        let mut bench = Bench::new(settings, &[A, B]);
        let mut drawn = |_| bench.plan.is_drawn(Unit::Range(Head(3)), &[A]);
        assert!((0..5).all(&mut drawn));
        let count = (0..4000).filter(|&number| drawn(number)).count() as u64;
        let expected = 4 * u64::from(rate);
        assert!(count.abs_diff(expected) <= 130, "{rate}: {count}");
    }
}

#[test]
fn results_that_differ_are_decided_by_the_coordinator() {
    for (a, b, truth, out) in [
        (0, 1, 0, vec![B]),
        (1, 0, 0, vec![A]),
        (1, 2, 0, vec![A, B]),
    ] {
        let mut bench = Bench::new(two_replicas(), &[A, B, C]);
        assert_eq!(bench.finds(A, 0, a), Verdict::Noted);
        assert_eq!(bench.finds(B, 0, b), Verdict::Noted);
        assert_eq!(bench.computing, [Unit::Range(Head(0))]);
        assert_eq!(bench.take(C), None, "the coordinator computes it");
        bench.computes(0, truth);
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
    bench.computes(0, 0);
    assert_eq!(bench.out, [Party::Participant(A.participant)]);
    assert_eq!(bench.withdrawn, [0, 1, 2].map(Head));
    assert!(bench.is_done(0), "the coordinator's is written");
    assert!(!bench.is_done(1) && !bench.is_done(2));
    // All that was begun before is of no use, and nobody is out for it.
    assert!(!bench.plan.holds(A, lease));
    assert_eq!(bench.heads(B).unwrap().1, [1]);
    assert_eq!(bench.out.len(), 1);
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
    // By others, or by the coordinator when nobody takes it for the time of a lease.
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
    assert!(bench.computing.is_empty());
    bench.wait(1);
    let mut left = [0, 2].into_iter().filter(|head| !checked.contains(head));
    let lowest = left.next().map(|head| Unit::Range(Head(head)));
    assert_eq!(bench.computing, lowest.into_iter().collect::<Vec<_>>());
}

#[test]
fn a_lost_record_is_computed_again_and_comes_out_the_same() {
    let mut bench = Bench::new(settings(), &[A, B]);
    bench.finds(A, 0, 0);
    bench.finds(A, 1, 0);
    let lose = |bench: &mut Bench, content| {
        let digest = range(0, content).digest;
        bench.handle(Event::Lost {
            head: Head(0),
            digest,
        });
    };
    lose(&mut bench, 5);
    assert!(bench.is_done(0), "that is not its digest");
    lose(&mut bench, 0);
    assert!(!bench.is_done(0) && bench.is_done(1));
    assert_eq!(bench.finds(B, 0, 0), Verdict::Accepted);
    assert_eq!(bench.finders(0), [A, B]);
    // Something else is a dispute with whoever found it first.
    lose(&mut bench, 0);
    assert_eq!(bench.finds(B, 0, 1), Verdict::Noted);
    bench.computes(0, 0);
    assert_eq!(bench.out, [Party::Participant(B.participant)]);
}

/// When all ranges are done the coordinator does the checks that nobody else can do.
#[test]
fn no_check_is_left_at_the_end() {
    let mut bench = Bench::new(all_checked(), &[A, B]);
    for heads in chomp_table::head::layers(16, RangeBits::new(12).unwrap()) {
        for head in heads {
            bench.finds(A, head.0, 0);
        }
    }
    assert_eq!(bench.plan.progress().checks_waiting, 16);
    bench.handle(Event::Left { worker: B });
    assert_eq!(bench.computing.len(), 1, "those of the lowest layer");
    while let Some(&Unit::Range(head)) = bench.computing.first() {
        bench.computes(head.0, 0);
    }
    assert_eq!(bench.plan.progress().checks_waiting, 0);
    let task = bench.take(A).unwrap();
    assert!(matches!(
        task.work,
        Work::Merge {
            is_check: false,
            ..
        }
    ));
}

/// Nor does one wait for a participant that only holds it.
#[test]
fn no_check_waits_for_one_that_does_nothing() {
    let mut bench = Bench::new(all_checked(), &[A, B]);
    for heads in chomp_table::head::layers(16, RangeBits::new(12).unwrap()) {
        for head in heads {
            bench.finds(A, head.0, 0);
        }
    }
    let held: Vec<LeaseId> = std::iter::from_fn(|| bench.take(B))
        .map(|task| task.lease)
        .collect();
    assert!(held.len() > 10 && bench.computing.is_empty());
    for _ in 0..3 {
        bench.wait(50);
        bench.plan.renew(Millis(bench.now), B, &held);
    }
    while let Some(&Unit::Range(head)) = bench.computing.first() {
        bench.computes(head.0, 0);
    }
    assert_eq!(bench.plan.progress().checks_waiting, 0);
    let left = held.iter().filter(|&&lease| bench.plan.holds(B, lease));
    assert_eq!(left.count(), 1, "the lease on the shard");
}
