//! Shards, publication, failures of the store, the end of a job.

use super::*;

fn disk_full() -> StopReason {
    let reason = "disk full".to_owned();
    StopReason::CommitFailed { reason }
}

fn publish_failed(reason: &str) -> StopReason {
    let reason = reason.to_owned();
    StopReason::PublishFailed { reason }
}

fn stop(reason: StopReason) -> Action {
    Action::Stop { reason }
}

fn stopped(request: u64, reason: StopReason) -> Action {
    answered(request, LeaseAnswer::Stopped { reason })
}

#[test]
fn the_table_is_cut_when_all_ranges_are_done_and_published_when_all_shards_are() {
    let mut bench = Bench::new(shards_of(4, 14), &[]);
    bench.join(OWNER, 1);
    for layer in 0..4 {
        assert_eq!(bench.plan.progress().shards, 0);
        let task = bench.task(OWNER);
        assert_eq!(heads(&task), to_heads(&[layer]));
        bench.finish(OWNER, &task);
    }
    // Ranges 0 to 3 store 0, 1, 2 and 3 words: 6 in all.
    assert_eq!(bench.plan.progress().shards, 2);
    let (second, first) = (bench.task(OWNER), bench.task(OWNER));
    assert_eq!(first.work, merge(0, 0, 0));
    assert_eq!(second.work, merge(1, 3, 1));
    assert_eq!(bench.want(OWNER), []);
    let commit = |submission, shard| commit_units(submission, &[Unit::Shard(shard)], &[OWNER]);
    let (two, actions) = bench.merge(OWNER, second.lease, 1, shard_digest(1));
    assert_eq!(actions, [commit(two, 1)]);
    assert_eq!(bench.committed(two), [accepted(two)]);
    assert_eq!(bench.plan.progress().shards_done, 1);
    let (one, actions) = bench.merge(OWNER, first.lease, 0, shard_digest(0));
    assert_eq!(actions, [commit(one, 0)]);
    let (same, actions) = bench.merge(OWNER, first.lease, 0, shard_digest(0));
    assert_eq!(actions, []);
    // Nobody else is there to read them.
    let told = [accepted(one), duplicate(same), publish()];
    assert_eq!(bench.committed(one), told);
    assert_eq!(*bench.plan.phase(), Phase::Running);
    assert!(!bench.plan.is_quiet());
    let finished = |request| answered(request, LeaseAnswer::Finished);
    assert_eq!(bench.tell(Event::Published), [finished(7)]);
    assert_eq!(bench.want(OWNER), [finished(8)]);
    assert_eq!(*bench.plan.phase(), Phase::Finished);
    assert!(bench.plan.is_quiet());
    // OWNER result that comes even later is still compared.
    let (late, actions) = bench.submit(OWNER, LeaseId(0), summaries([2]));
    assert_eq!(actions, [duplicate(late)]);
    assert_eq!(bench.lose(2), []);
    // Who is asked to go after the end has not stopped early.
    assert_eq!(bench.tell(Event::Shutdown), []);
    assert_eq!(*bench.plan.phase(), Phase::Finished);
}

fn merge(shard: u32, head: u64, skip: u64) -> Work {
    let (head, written) = (Head(head), None);
    Work::Merge {
        shard,
        head,
        skip,
        written,
    }
}

/// Word by word: the slow twin of the cut.
#[test]
fn every_shard_begins_at_its_word() {
    let done = summaries(0..64);
    let words: Vec<(Head, u64)> = done
        .iter()
        .flat_map(|range| (0..range.stored).map(|skip| (range.head, skip)))
        .collect();
    for shard_words in [1, 2, 3, 7, 63, 64, 126, 127, 128, 1000] {
        let mut bench = Bench::new(shards_of(shard_words, 18), &done);
        bench.join(A, 1);
        let step = usize::try_from(shard_words).unwrap();
        let starts: Vec<(u32, &(Head, u64))> = (0..).zip(words.iter().step_by(step)).collect();
        for (shard, &(head, skip)) in starts.into_iter().rev() {
            let (head, skip) = if shard == 0 {
                (Head(0), 0)
            } else {
                (head, skip)
            };
            assert_eq!(bench.task(A).work, merge(shard, head.0, skip));
        }
        assert_eq!(bench.want(A), []);
    }
}

#[test]
fn a_table_of_one_range_has_one_shard() {
    for bits in [0, 5, 12] {
        let mut bench = Bench::new(settings(bits), &[]);
        bench.join(OWNER, 3);
        let task = bench.task(OWNER);
        assert_eq!(heads(&task), to_heads(&[0]));
        bench.finish(OWNER, &task);
        let task = bench.task(OWNER);
        assert_eq!(task.work, merge(0, 0, 0));
        let (merged, _) = bench.merge(OWNER, task.lease, 0, shard_digest(0));
        assert_eq!(bench.committed(merged), [accepted(merged), publish()]);
    }
}

#[test]
fn what_was_done_before_is_not_done_again() {
    let all = summaries(0..4);
    let shards = [(0, shard_digest(0)), (7, shard_digest(7))];
    let (bench, actions) = Bench::with_shards(settings(14), &summaries(0..4), &shards);
    assert_eq!(actions, [publish()]);
    assert_eq!(bench.plan.progress().ranges_resumed, 4);
    // A shard is of no use if one of its ranges is missing: it may have come out otherwise.
    let (mut bench, actions) = Bench::with_shards(settings(14), &all[..3], &shards);
    assert_eq!(actions, []);
    bench.join(A, 1);
    let task = bench.task(A);
    assert_eq!(heads(&task), to_heads(&[3]));
    bench.finish(A, &task);
    assert_eq!(bench.plan.progress().shards_done, 0);
}

/// The records of ranges that later shards alone have words of are not needed: for that, all later shards have to be
/// durable, and everything found by the owner.
#[test]
fn merged_ranges_are_those_at_the_end_whose_shards_are_durable() {
    let shards = |of: &[u32]| {
        of.iter()
            .map(|&shard| (shard, shard_digest(shard)))
            .collect()
    };
    // Ranges 0 to 3 store 0, 1, 2 and 3 words, so three shards begin in ranges 0, 2 and 3.
    let cases: [(&[u32], u64); 6] = [
        (&[], 4),
        (&[0, 1], 4),
        (&[2], 4),
        (&[1, 2], 3),
        (&[0, 2], 4),
        (&[0, 1, 2], 1),
    ];
    let past = |of: &[u32]| Past {
        ranges: summaries(0..4),
        shards: shards(of),
        ..Past::default()
    };
    for (durable, from) in cases {
        let (bench, _) = Bench::resumed(shards_of(2, 14), &past(durable));
        assert_eq!(bench.plan.merged_from(), Head(from), "{durable:?}");
    }
    let by = |unit, finder| Past {
        found: [found(unit, &[finder], 1)].into(),
        ..past(&[1, 2])
    };
    let units = [(range(0), 4), (Unit::Shard(1), 4), (Unit::Shard(2), 4)];
    for (unit, from) in units {
        let (bench, _) = Bench::resumed(shards_of(2, 14), &by(unit, OWNER));
        assert_eq!(bench.plan.merged_from(), Head(3), "{unit}");
        let (bench, _) = Bench::resumed(shards_of(2, 14), &by(unit, A));
        assert_eq!(bench.plan.merged_from(), Head(from), "{unit}");
    }
}

/// A range whose record is lost comes out the same, so what was merged stays: in this plan, and in the next.
#[test]
fn a_lost_record_leaves_what_was_merged() {
    let mut bench = Bench::new(shards_of(2, 14), &[]);
    bench.join(OWNER, 1);
    for head in 0..4 {
        let task = bench.task(OWNER);
        assert_eq!(heads(&task), to_heads(&[head]));
        bench.finish(OWNER, &task);
    }
    for shard in [2, 1] {
        let lease = bench.task(OWNER).lease;
        let (merged, _) = bench.merge(OWNER, lease, shard, shard_digest(shard));
        bench.committed(merged);
    }
    assert_eq!(bench.plan.merged_from(), Head(3));
    bench.lose(1);
    let past = Past {
        ranges: summaries([0, 2, 3]),
        lost: summaries([1]),
        shards: vec![(1, shard_digest(1)), (2, shard_digest(2))],
        ..Past::default()
    };
    let (mut resumed, _) = Bench::resumed(shards_of(2, 14), &past);
    resumed.join(OWNER, 1);
    for mut bench in [bench, resumed] {
        assert_eq!(bench.plan.merged_from(), Head(4));
        let task = bench.task(OWNER);
        assert_eq!(heads(&task), to_heads(&[1]));
        bench.finish(OWNER, &task);
        assert_eq!(bench.plan.progress().shards_done, 2);
        assert_eq!(bench.plan.merged_from(), Head(3));
    }
}

/// As when a table is extended: its shards are those of the larger table too, up to where ranges are missing.
#[test]
fn shards_of_a_smaller_table_are_not_merged_again() {
    let all = summaries(0..4);
    let shards = [(0, shard_digest(0)), (1, shard_digest(1))];
    let (mut bench, actions) = Bench::with_shards(shards_of(2, 14), &all[..3], &shards);
    assert_eq!(actions, []);
    bench.join(A, 1);
    let task = bench.task(A);
    bench.finish(A, &task);
    // Ranges 0 to 3 store 0, 1, 2 and 3 words: shard 0 ends in range 2, and shard 1 in the one that was missing.
    let progress = bench.plan.progress();
    assert_eq!((progress.shards, progress.shards_done), (3, 1));
    let works = [bench.task(A).work, bench.task(A).work];
    assert_eq!(works, [merge(2, 3, 1), merge(1, 2, 1)]);
}

/// They are of no use if nobody who found them is trusted, be it since before or since a moment ago, and whether a range
/// was lost meanwhile or not.
#[test]
fn shards_of_a_smaller_table_may_be_wrong() {
    let all = summaries(0..4);
    let past = Past {
        ranges: all[..3].to_vec(),
        shards: vec![(0, shard_digest(0))],
        found: [found(Unit::Shard(0), &[], 1)].into(),
        ..Past::default()
    };
    let of_b = Past {
        found: [found(Unit::Shard(0), &[B], 1)].into(),
        ..past.clone()
    };
    for (past, is_lost) in [(&past, false), (&past, true), (&of_b, false)] {
        let (mut bench, actions) = Bench::resumed(shards_of(2, 14), past);
        assert_eq!(actions, []);
        bench.revoke(B.participant);
        if is_lost {
            bench.lose(0);
            let submission = bench.begin_commit(A, LeaseId(9), &[0]);
            bench.committed(submission);
        }
        let submission = bench.begin_commit(A, LeaseId(9), &[3]);
        let actions = bench.committed(submission);
        assert!(actions.contains(&arbitrate_shard(0, None)), "{is_lost}");
        assert_eq!(bench.plan.progress().shards_done, 0);
    }
}

#[test]
fn bad_shards_are_rejected() {
    let mut bench = Bench::to_merge(settings(14));
    bench.join(A, 1);
    let task = bench.task(A);
    let (bad, actions) = bench.merge(A, LeaseId(9), 1, shard_digest(1));
    let unit = Unit::Shard(1);
    assert_eq!(actions, [rejected(bad, Rejection::Unknown { unit })]);
    let lease = task.lease;
    let (bad, actions) = bench.submit(A, lease, summaries([3]));
    let unit = range(3);
    let not_leased = Rejection::NotLeased { unit, lease };
    assert_eq!(actions, [rejected(bad, not_leased)]);
    assert_eq!(bench.task(A).attempt, 2);
    // Before the table is cut there is none.
    let mut bench = Bench::new(settings(14), &[]);
    bench.join(A, 1);
    let (bad, actions) = bench.merge(A, LeaseId(9), 0, shard_digest(0));
    let unit = Unit::Shard(0);
    assert_eq!(actions, [rejected(bad, Rejection::NotReady { unit })]);
}

#[test]
fn what_is_known_of_larger_tables_is_ignored() {
    let bench = Bench::new(settings(14), &summaries([0, 4, 1 << 50]));
    assert_eq!(bench.plan.progress().ranges_done, 1);
    assert_eq!(bench.plan.progress().losing, 1);
}

#[test]
fn what_is_known_twice_counts_once_and_must_agree() {
    let bench = Bench::new(settings(14), &summaries([0, 0]));
    assert_eq!(bench.plan.progress().ranges_done, 1);
    let of_range = past(vec![summary(2), wrong(2)], &[]);
    let of_shard = Past {
        shards: vec![(0, shard_digest(0)), (0, shard_digest(1))],
        ..past(summaries(0..4), &[])
    };
    for (past, unit) in [(of_range, range(2)), (of_shard, Unit::Shard(0))] {
        let error = Plan::new(settings(14), &past).err();
        assert_eq!(error, Some(PlanError::Disagreement { unit }));
    }
}

#[test]
fn the_number_of_ranges_is_limited() {
    let range_bits = RangeBits::new(12).unwrap();
    for bits in [33, 64] {
        let error = PlanError::TooManyRanges {
            range_bits,
            size: bits,
        };
        let least = format!("at least {} range bits", bits - HEAD_BITS_MAX);
        assert!(error.to_string().contains(&least), "{error}");
        let plan = Plan::new(settings(bits), &Past::default());
        assert_eq!(plan.err(), Some(error));
    }
    let (plan, _) = Plan::new(settings(32), &Past::default()).unwrap();
    assert_eq!(
        (plan.progress().ranges, plan.progress().layers),
        (1 << 20, 211)
    );
}

#[test]
fn a_failed_write_stops_the_job_and_acknowledges_nothing() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join(A, 1);
    let (failing, good) = (
        bench.begin_commit(A, LeaseId(9), &[3]),
        bench.begin_commit(A, LeaseId(9), &[4]),
    );
    let (waiting, _) = bench.submit(B, LeaseId(9), summaries([3, 4]));
    assert_eq!(bench.want(A), []);
    let told = [
        rejected(failing, Rejection::Stopped),
        stop(disk_full()),
        stopped(1, disk_full()),
    ];
    assert_eq!(bench.fail_commit(failing), told);
    // A later success is acknowledged; a result that waited for the failed write is not.
    let settled = [accepted(good), rejected(waiting, Rejection::Stopped)];
    assert_eq!(bench.committed(good), settled);
    assert!(bench.plan.is_quiet());
    assert_eq!(bench.plan.progress().ranges_done, 4);
}

/// A table of which everything is done but the publication.
fn publishing() -> Bench {
    let shards = [(0, shard_digest(0))];
    let (mut bench, actions) = Bench::with_shards(settings(14), &summaries(0..4), &shards);
    assert_eq!(actions, [publish()]);
    bench.join(A, 1);
    bench
}

#[test]
fn a_failed_publication_stops_the_job() {
    let reason = "read-only".to_owned();
    let mut bench = publishing();
    let actions = bench.tell(Event::PublishFailed { reason });
    assert_eq!(actions, [stop(publish_failed("read-only"))]);
    assert!(bench.plan.is_quiet());
}

/// The store loses what the coordinator has written, too.
#[test]
fn a_shard_whose_file_is_lost_is_merged_by_the_coordinator() {
    let settings = Settings {
        failures_max: 2,
        ..settings(14)
    };
    let mut bench = Bench::to_merge(settings);
    bench.join(OWNER, 1);
    let lease = bench.task(OWNER).lease;
    let (one, _) = bench.merge(OWNER, lease, 0, shard_digest(0));
    assert_eq!(bench.committed(one), [accepted(one), publish()]);
    let lost = || Event::ShardsLost { shards: vec![0] };
    for _ in 0..2 {
        assert_eq!(bench.tell(lost()), [arbitrate_shard(0, None)]);
        let (own, actions) = bench.arbitrate_shard(0, false);
        assert_eq!(actions, [commit_units(own, &[Unit::Shard(0)], &[])]);
        assert_eq!(bench.committed(own), [accepted(own), publish()]);
    }
    assert_eq!(bench.plan.quarantine_reason(OWNER), None);
    let reason = publish_failed("the file of shard 0 was damaged 3 times");
    assert_eq!(bench.tell(lost()), [stop(reason)]);
    assert!(bench.plan.is_quiet());
}

#[test]
fn a_fault_ends_every_lease_sooner_or_later() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join(A, 1);
    let lease = bench.task(A).lease;
    let submission = bench.begin_commit(A, LeaseId(9), &[4]);
    bench.fail_commit(submission);
    // Its worker is told by the answer to its next request.
    assert_eq!(bench.renew(A, lease), renewal(A, &[lease]));
    bench.now = 100;
    assert_eq!(bench.tell(Event::Tick), []);
    assert!(bench.plan.is_quiet());
}

#[test]
fn a_shutdown_offers_nothing_more_and_takes_what_comes() {
    let mut bench = Bench::at_layer(settings(16), 3);
    bench.join(A, 1);
    let tasks = [bench.task(A), bench.task(A)];
    assert_eq!(bench.want(A), []);
    assert_eq!(
        bench.tell(Event::Shutdown),
        [stopped(3, StopReason::Shutdown)]
    );
    assert_eq!(bench.want(A), [stopped(4, StopReason::Shutdown)]);
    let lease = tasks[0].lease;
    assert_eq!(bench.renew(A, lease), renewal(A, &[]));
    assert!(!bench.plan.is_quiet());
    for task in &tasks {
        bench.finish(A, task);
    }
    assert!(bench.plan.is_quiet());
    assert_eq!(bench.plan.progress().ranges_done, 5);
    // A fault is told even now.
    let submission = bench.begin_commit(A, LeaseId(9), &[5]);
    assert_eq!(bench.fail_commit(submission)[1], stop(disk_full()));
}

#[test]
#[should_panic(expected = "the caller tells the outcome of each write once")]
fn an_outcome_told_twice_is_a_bug() {
    let mut bench = Bench::at_layer(settings(16), 3);
    let submission = bench.begin_commit(A, LeaseId(0), &[3]);
    bench.committed(submission);
    bench.committed(submission);
}

#[test]
#[should_panic(expected = "was not to be published")]
fn a_publication_that_was_not_asked_for_is_a_bug() {
    Bench::new(settings(14), &[]).tell(Event::Published);
}

#[test]
fn a_finished_job_has_nothing_to_do_and_says_so() {
    let mut plan = Plan::finished(settings(16), 77).unwrap();
    let progress = plan.progress();
    let ranges = [progress.ranges_done, progress.ranges_resumed];
    assert_eq!((ranges, progress.losing), ([16, 16], 77));
    assert_eq!(
        (progress.layer, plan.next_deadline()),
        (progress.layers, None)
    );
    let (worker, request) = (A, RequestId(1));
    let (name, threads) = (String::new(), 1);
    let joined = Event::Joined {
        worker,
        name,
        threads,
    };
    plan.handle(Millis(0), joined);
    let actions = plan.handle(Millis(0), Event::Wanted { request, worker });
    assert_eq!(actions, [answered(1, LeaseAnswer::Finished)]);
    assert!(plan.is_quiet());
}

/// A shard whose write failed is open again, as is the range.
#[test]
fn a_shard_that_could_not_be_written_is_not_done() {
    let mut bench = Bench::to_merge(settings(14));
    bench.join(A, 1);
    let lease = bench.task(A).lease;
    let (submission, _) = bench.merge(A, lease, 0, shard_digest(0));
    bench.fail_commit(submission);
    assert_eq!(
        bench.plan.units.state(Unit::Shard(0)),
        slots::UnitState::Ready
    );
}

#[test]
fn nothing_is_decided_while_the_manifest_is_written() {
    let mut bench = publishing();
    let (bad, actions) = bench.submit(B, LeaseId(9), vec![wrong(3)]);
    assert_eq!(actions, [noted(bad)]);
    assert_eq!(bench.tell(Event::Published), [forget(bad)]);
}

#[test]
fn people_are_told_of_layers_work_and_what_a_job_waits_for() {
    let mut bench = Bench::at_layer(settings(16), 3);
    let layers: Vec<(u64, u64)> = bench.plan.layer_progress().collect();
    assert_eq!(layers[..5], [(1, 1), (1, 1), (1, 1), (2, 0), (2, 0)]);
    let work = forecast::JobWork::new(16, settings(16).range_bits);
    let of_layer = |(each, (count, _)): (&u64, &(u64, u64))| each * count;
    let progress = bench.plan.progress();
    let total = work.ranges.iter().zip(&layers).map(of_layer).sum::<u64>();
    assert_eq!(
        (progress.work, progress.work_done, progress.publication_work),
        (total, work.ranges[..3].iter().sum(), work.publication)
    );
    let waits = |bench: &Bench| bench.plan.waits_for().unwrap_or_default();
    assert_eq!(waits(&bench), "no worker is there");
    bench.join(A, 1);
    assert_eq!(waits(&bench), "no worker asks for a task");
    let task = bench.task(A);
    assert_eq!(waits(&bench), "");
    let submission = bench.begin_commit(A, task.lease, &[3]);
    assert_eq!(waits(&bench), "", "it is being written");
    bench.committed(submission);
    bench.submit(A, LeaseId(9), vec![wrong(3)]);
    let text = "1 ranges or shards are computed again, since results differ or whoever found them is not trusted";
    assert_eq!(waits(&bench), text);
    bench.fail_arbitration(range(3), "no memory");
    assert!(waits(&bench).contains("range 3"), "{}", waits(&bench));
    assert_eq!(waits(&publishing()), "the manifest is being written");
    assert_eq!(Plan::finished(settings(16), 0).unwrap().waits_for(), None);
}
