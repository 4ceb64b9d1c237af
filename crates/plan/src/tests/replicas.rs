//! Ranges that several workers have to compute alike.

use super::*;

/// A plan at layer 3 of 16 bits, ranges 3 and 4, each to be computed twice.
fn twice() -> Bench {
    let mut bench = Bench::at_layer(two_replicas(16), 3);
    bench.join_all(&[A, B, C]);
    bench
}

#[test]
fn the_coordinator_finds_out_who_of_two_is_right() {
    let mut bench = twice();
    bench.submit(A, LeaseId(0), vec![wrong(3)]);
    let (honest, actions) = bench.submit(B, LeaseId(0), summaries([3]));
    let audit = arbitrate(3);
    assert_eq!(actions, [noted(honest), audit]);
    assert_eq!(heads(&bench.task(C)), to_heads(&[4]));
    let (own, actions) = bench.arbitrate(summary(3));
    assert_eq!(actions[..2], [quarantine(A, 3), commit_by(own, &[3], &[])]);
    // B was right and has delivered; the vote of A is gone.
    let delivered: Vec<_> = bench.plan.workers().map(|worker| worker.ranges).collect();
    assert_eq!(delivered, [1, 0, 0]);
}

#[test]
fn the_votes_of_a_liar_do_not_count() {
    let mut bench = twice();
    bench.submit(A, LeaseId(0), summaries([4]));
    bench.submit(A, LeaseId(0), vec![wrong(3)]);
    bench.submit(B, LeaseId(0), summaries([3]));
    bench.arbitrate(summary(3));
    assert!(bench.is_out(A));
    let (one, actions) = bench.submit(B, LeaseId(0), summaries([4]));
    assert_eq!(actions, [noted(one)]);
    bench.begin_commit(C, LeaseId(0), &[4]);
}

/// A unit that is filed anew is news if somebody may have it now who could not before.
#[test]
fn a_unit_is_news_for_whoever_could_not_have_it() {
    let mut ready = attempts::ReadyQueue::new(4);
    let twice = || {
        Some(attempts::Wish {
            need: 2,
            voters: BTreeSet::new(),
            is_by_worker: false,
        })
    };
    let unit = range(3);
    let layer = Head(3).layer();
    assert!(!ready.is_wanted(true, layer + 1));
    assert!(ready.update(unit, twice(), |_| {}), "nobody could have it");
    assert!(!ready.update(unit, twice(), |_| {}));
    let held = ready.update(unit, twice(), |attempts| {
        attempts.leases.push((LeaseId(1), A));
    });
    assert!(
        held && ready.is_shared(),
        "it is nobody's region's any more"
    );
    assert!(ready.is_wanted(false, layer + 1) && !ready.is_wanted(true, layer));
    assert!(!ready.update(unit, None, |_| {}), "nobody may have it");
    assert!(ready.update(unit, twice(), |attempts| attempts.leases.clear()));
    assert!(!ready.is_shared());
    let failed =
        |attempts: &mut attempts::Attempts| attempts.failed = BTreeSet::from([A.participant]);
    assert!(ready.update(unit, twice(), failed), "nor is it a region's");
    assert!(!ready.update(unit, twice(), |_| {}), "nothing has changed");
}

#[test]
fn people_are_told_that_another_participant_is_needed() {
    for (replicas, text) in [(1, "no worker asks for a task"), (2, "by 2 participants")] {
        let settings = Settings {
            replicas,
            ..settings(13)
        };
        let mut bench = Bench::new(settings, &[]);
        bench.join(A, 1);
        let (worker, lease) = (A, bench.task(A).lease);
        if replicas == 1 {
            bench.fail(worker, lease);
            assert!(bench.plan.ready.is_shared());
        } else {
            bench.submit(A, lease, summaries([0]));
        }
        let waits = bench.plan.waits_for().unwrap();
        assert!(waits.contains(text), "{waits}");
    }
}
