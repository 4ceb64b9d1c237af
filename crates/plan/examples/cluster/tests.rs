//! The simulation beside what can be said without it.

use chomp_plan::forecast::{Forecast, HEADER_BYTES, as_f64, losing_total};
use chomp_table::{Head, RangeBits};

use crate::costs::{Cluster, Costs};
use crate::job::{Job, Outcome};
use crate::liars;
use crate::simulation::{ALONE, Strangers, run};

const COSTS: Costs = Costs {
    position: 1e-6,
    scattered: 1e-6,
    encode: 1e-6,
    decode: 1e-6,
    record_bytes: 1.2,
    shard: 1e-6,
    shard_factor: 0.9,
    range: 1e-4,
    read: 1e-5,
    control: 1e-4,
    commit: 1e-3,
    fetch: 1e-4,
};

fn forecast(bits: u32) -> Forecast {
    Forecast::new(bits, RangeBits::new(12).unwrap())
}

/// The bytes of all records of a table.
fn records(bits: u32) -> f64 {
    let ranges = as_f64(forecast(bits).ranges());
    HEADER_BYTES * ranges + COSTS.record_bytes * losing_total(bits)
}

/// The outcome of a job of `bits` bits on a cluster with this bandwidth.
fn at(bits: u32, costs: Costs, cluster: Cluster, bandwidth: impl Into<Option<f64>>) -> Outcome {
    let mut cluster = cluster;
    cluster.bandwidth = bandwidth.into();
    let job = Job::new(forecast(bits), costs).unwrap();
    run(&job, cluster, None)
}

fn workers(workers: u32, threads: u32) -> Cluster {
    Cluster {
        workers,
        threads,
        ..ALONE
    }
}

/// Seconds, tasks, records and bytes read, bytes written; and the CPU time of evaluation, coding, shards and
/// coordinator. They may differ by a few nanoseconds.
fn check(found: &Outcome, totals: [f64; 5], times: [f64; 4]) {
    let load = &found.load;
    let (tasks, records) = (as_f64(found.tasks), as_f64(load.records));
    let found_totals = [found.seconds, tasks, records, load.down, load.up];
    let found_times = [load.evaluation, load.coding, load.shards, found.coordinator];
    let expected = totals.into_iter().chain(times);
    for (part, expected) in found_totals.into_iter().chain(found_times).zip(expected) {
        let is_near = (part - expected).abs() <= 1e-6 * expected;
        assert!(is_near, "{part} instead of {expected}: {found:?}");
    }
}

/// One thread does everything one after the other: its time is the sum of all work. All of what it made it reads once
/// more for the shards.
#[test]
fn one_thread_takes_as_long_as_all_work() {
    let costs = Costs {
        range: 0.0,
        control: 0.0,
        commit: 0.0,
        fetch: 0.0,
        read: 0.0,
        ..COSTS
    };
    let forecast = forecast(20);
    let outcome = at(20, costs, ALONE, None);
    let heads = (0..forecast.ranges()).map(Head);
    let evaluation: f64 = heads.map(|head| costs.evaluation(&forecast, head)).sum();
    let coding = losing_total(20) * costs.encode;
    let shards = losing_total(20) * (costs.decode + costs.shard);
    let record_bytes = records(20);
    let written = record_bytes + costs.shard_bytes(20);
    let seconds = evaluation + coding + shards;
    let (tasks, ranges) = (as_f64(outcome.tasks), as_f64(forecast.ranges()));
    let totals = [seconds, tasks, ranges, record_bytes, written];
    check(&outcome, totals, [evaluation, coding, shards, 0.0]);
    assert!((outcome.cpu_seconds() / seconds - 1.0).abs() < 1e-6);
}

/// One range, step by step.
#[test]
fn the_time_of_a_table_of_one_range_is_the_sum_of_its_steps() {
    let (costs, bandwidth) = (COSTS, 1e5);
    let losing = losing_total(12);
    let record = records(12);
    let shard = costs.shard_bytes(12);
    let (evaluation, control) = (costs.position * 2048.0, costs.control(1));
    let coding = losing * costs.encode + costs.range;
    let merging = costs.read + losing * (costs.decode + costs.shard);
    let written = |bytes: f64| bytes / bandwidth + costs.commit + control + costs.commit;
    // The journal is read, and then the record.
    let read = 2.0 * costs.fetch + record / bandwidth;
    let of_range = evaluation + coding + written(record);
    // And the manifest.
    let seconds = of_range + read + merging + written(shard) + costs.commit;
    let totals = [seconds, 2.0, 1.0, record, record + shard];
    let outcome = at(12, costs, workers(1, 4), bandwidth);
    check(
        &outcome,
        totals,
        [evaluation, coding, merging, 2.0 * control],
    );
}

#[test]
fn workers_read_what_others_made_and_again_what_they_forgot() {
    let all = records(20);
    let two = at(20, COSTS, workers(2, 1), None);
    // Some ranges are found, and written, by two workers.
    let put = two.load.up / (all + COSTS.shard_bytes(20));
    assert!((1.0..1.2).contains(&put), "{put}: {two:?}");
    assert!(two.load.evaluation > 1.01 * at(20, COSTS, ALONE, None).load.evaluation);
    // Once for the shards, and what the other one made at the most twice.
    assert!((1.1 * all..3.0 * all).contains(&two.load.down), "{two:?}");
    let forgetful = Cluster {
        // A tenth of what all ranges take.
        cache_bytes: 8_000,
        ..workers(2, 1)
    };
    let forgetful = at(20, COSTS, forgetful, None);
    assert!(forgetful.load.down > 1.5 * two.load.down, "{forgetful:?}");
    let read = as_f64(forgetful.load.records - two.load.records);
    let more = forgetful.load.coding - two.load.coding;
    assert!(more > read * COSTS.read, "{more} {read}");
    // Both links carry half of it each.
    let slow = at(20, COSTS, workers(2, 1), two.load.down / 1e4);
    assert!((3e3..2e4).contains(&slow.seconds), "{slow:?}");
}

/// The outcomes of a few jobs whose steps were looked at one by one. Whoever changes what is simulated changes them.
#[test]
fn jobs_take_as_long_as_they_did() {
    let three = |threads| Cluster {
        cache_bytes: 40_000,
        ..workers(3, threads)
    };
    let outcome = at(20, COSTS, three(4), 1e6);
    let totals = [
        0.370_448_087,
        263.0,
        964.0,
        119_149.899_722_547,
        41_507.185_143_173,
    ];
    let times = [0.743_620_772, 0.073_379_247, 0.021_434_368, 0.055_700_000];
    check(&outcome, totals, times);
    assert_eq!(outcome, at(20, COSTS, three(4), 1e6), "the same each time");

    let totals = [
        0.560_725_194,
        168.0,
        921.0,
        113_942.185_916_068,
        41_566.788_769_492,
    ];
    let times = [0.746_270_990, 0.071_559_155, 0.021_434_368, 0.046_300_000];
    check(&at(20, COSTS, three(1), 1e6), totals, times);

    // Many lanes wait for their turn to read.
    let totals = [
        6.092_949_249,
        1110.0,
        9566.0,
        1_143_747.124_861_761,
        144_919.572_953_268,
    ];
    let times = [2.947_369_421, 0.514_894_939, 0.072_634_605, 0.222_000_000];
    check(&at(22, COSTS, three(16), 1e5), totals, times);
}

/// The layers of 16 head bits, each cut for 64 threads. And a job in which each range is a task, and thousands of
/// requests wait.
#[test]
fn large_jobs_run_through() {
    let mut job = Job::new(forecast(28), COSTS).unwrap();
    job.settings.task_positions_min = 0;
    let outcome = run(&job, workers(16, 4), None);
    // At least 128 tasks in each layer with enough ranges, and not many more.
    let tasks = outcome.tasks;
    assert!((137 * 64..137 * 256).contains(&tasks), "{tasks}");
    let outcome = run(&liars::job(26), workers(3000, 1), None);
    let tasks = outcome.tasks;
    assert!((17_000..40_000).contains(&tasks), "{tasks}");
}

/// A wrong table comes of lies that nobody sees, and only of those.
#[test]
fn a_liar_is_found_out_if_it_lies_often() {
    let job = liars::job(20);
    let of = |one_in, is_late, replicas| {
        let kind = Strangers {
            one_in,
            is_late,
            replicas,
            seed: 0,
        };
        liars::outcomes(&job, 5, kind, 8)
    };
    let wrong = |found: &[Outcome]| found.iter().filter(|one| one.is_wrong).count();
    let unseen = |found: &[Outcome]| found.iter().filter(|one| one.found_after.is_none()).count();
    for is_late in [false, true] {
        let often = of(2, is_late, 1);
        assert_eq!((wrong(&often), unseen(&often)), (0, 0), "{often:?}");
        let soon = |one: &Outcome| one.found_after.is_some_and(|after| after < 30);
        assert!(often.iter().all(soon), "{often:?}");
    }
    let mut seldom = of(40, true, 1);
    assert!(wrong(&seldom) > 0, "{seldom:?}");
    assert_eq!(wrong(&of(40, true, 2)), 0);
    seldom.retain(|one| one.found_after.is_some());
    assert_eq!(wrong(&seldom), 0, "what it said is computed again");
    let honest = of(u64::MAX, false, 1);
    assert_eq!((wrong(&honest), unseen(&honest)), (0, honest.len()));
    assert!(honest.iter().all(|one| one.delivered > 30), "{honest:?}");
}
