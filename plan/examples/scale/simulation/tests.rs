//! The simulation beside what can be said without it.

use chomp_plan::forecast::{Bounds, Costs, Forecast, losing_total};
use chomp_table::{RangeBits, head};

use super::*;

const CLUSTER: Cluster = Cluster {
    workers: 1,
    threads: 1,
    cache_bytes: u64::MAX,
    coordinator_threads: 1,
    shared: false,
    bandwidth: None,
};

fn costs() -> Costs {
    Costs {
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
    }
}

fn range_bits(bits: u32) -> RangeBits {
    RangeBits::new(bits).unwrap()
}

fn run(bits: u32, cluster: Cluster) -> Prediction {
    run_at(bits, &costs(), cluster)
}

fn run_at(bits: u32, costs: &Costs, cluster: Cluster) -> Prediction {
    let forecast = Forecast::new(bits, range_bits(12));
    Job::new(&forecast, costs).unwrap().run(cluster).unwrap()
}

/// One thread does everything one after the other: its time is the sum of all work, and what it
/// waits for where a layer has one task.
#[test]
fn one_thread_takes_as_long_as_all_work() {
    let costs = Costs {
        range: 0.0,
        control: 0.0,
        commit: 0.0,
        fetch: 0.0,
        read: 0.0,
        ..costs()
    };
    let forecast = Forecast::new(20, range_bits(12));
    let outcome = run_at(20, &costs, CLUSTER);
    let heads = || (0..forecast.ranges()).map(Head);
    let evaluation: f64 = heads().map(|head| costs.evaluation(&forecast, head)).sum();
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-6, "{a} {b} {outcome:?}");
    near(outcome.evaluation_seconds, evaluation);
    near(outcome.coding_seconds, losing_total(20) * costs.encode);
    let shard_bytes = forecast.shard_bytes(costs.shard_factor);
    near(
        outcome.shard_seconds,
        losing_total(20) * (costs.decode + costs.shard),
    );
    near(outcome.seconds, outcome.cpu_seconds());
    // All of it is made here, and read once more for the shards.
    let record_bytes = forecast.record_bytes(costs.record_bytes);
    near(outcome.fetched, record_bytes);
    near(outcome.put, record_bytes + shard_bytes);
}

/// One range, step by step.
#[test]
fn the_time_of_a_table_of_one_range_is_the_sum_of_its_steps() {
    let (costs, bandwidth) = (costs(), 1e5);
    let forecast = Forecast::new(12, range_bits(12));
    let losing = losing_total(12);
    let record = forecast.record_bytes(costs.record_bytes);
    let shard = forecast.shard_bytes(costs.shard_factor);
    for shared in [false, true] {
        let outcome = run(
            12,
            Cluster {
                threads: 4,
                coordinator_threads: 2,
                shared,
                bandwidth: Some(bandwidth),
                ..CLUSTER
            },
        );
        let control = costs.control(1);
        // The coordinator's threads have the work of twice as many, and their own.
        let on_thread = |work: f64| if shared { 2.0 * (work + control) } else { work };
        let taken_in = if shared { 0.0 } else { control };
        let transfer = |bytes: f64| bytes / bandwidth;
        let evaluation = costs.position * 2048.0;
        let coding = losing * costs.encode + costs.range;
        let ranges_seconds = on_thread(evaluation + coding)
            + transfer(record)
            + costs.commit
            + taken_in
            + costs.commit;
        // The journal is read, and then the record.
        let merging = costs.read + losing * (costs.decode + costs.shard);
        let merged = 2.0 * costs.fetch
            + transfer(record)
            + on_thread(merging)
            + transfer(shard)
            + costs.commit
            + taken_in
            + costs.commit;
        let expected = Prediction {
            // And the manifest.
            seconds: ranges_seconds + merged + costs.commit,
            ranges_seconds,
            tasks: 2,
            fetched: record,
            records_read: 1,
            put: record + shard,
            evaluation_seconds: evaluation,
            coding_seconds: coding,
            shard_seconds: merging,
            coordinator_seconds: 2.0 * control,
        };
        check(&outcome, &expected);
        let cpu = evaluation + coding + merging + 2.0 * control;
        assert!((outcome.cpu_seconds() / cpu - 1.0).abs() < 1e-6);
    }
}

/// Whether two outcomes are the same, but for a few nanoseconds.
fn check(found: &Prediction, expected: &Prediction) {
    let parts = |of: &Prediction| {
        [
            of.seconds,
            of.ranges_seconds,
            as_f64(of.tasks),
            of.fetched,
            as_f64(of.records_read),
            of.put,
            of.evaluation_seconds,
            of.coding_seconds,
            of.shard_seconds,
            of.coordinator_seconds,
        ]
    };
    for (found_part, part) in parts(found).into_iter().zip(parts(expected)) {
        assert!(
            (found_part / part - 1.0).abs() < 1e-6,
            "{found:?} instead of {expected:?}"
        );
    }
}

#[test]
fn more_threads_take_less_time_until_layers_are_too_narrow() {
    let times = [1, 2, 4, 1000, 2000].map(|threads| {
        let cluster = Cluster { threads, ..CLUSTER };
        run(22, cluster).seconds
    });
    assert!(
        times[1] < 0.65 * times[0] && times[2] < 0.75 * times[1],
        "{times:?}"
    );
    assert!((times[4] / times[3] - 1.0).abs() < 0.01, "{times:?}");
}

#[test]
fn workers_read_what_others_made_and_again_what_they_forgot() {
    let forecast = Forecast::new(20, range_bits(12));
    let all = forecast.record_bytes(costs().record_bytes);
    let cluster = Cluster {
        workers: 2,
        ..CLUSTER
    };
    let two = run(20, cluster);
    // Some ranges are found, and written, by two workers.
    let shard_bytes = forecast.shard_bytes(costs().shard_factor);
    let put = two.put / (all + shard_bytes);
    assert!((1.0..1.2).contains(&put), "{put}: {two:?}");
    assert!(two.evaluation_seconds > 1.01 * run(20, CLUSTER).evaluation_seconds);
    // Once for the shards, and what the other one made at the most twice.
    assert!(
        (1.1 * all..3.0 * all).contains(&two.fetched),
        "{two:?} {all}"
    );
    let useful_bytes = Bounds::new(&forecast, &costs(), CLUSTER, None).useful_bytes;
    let cache_bytes = useful_bytes / 10;
    let forgetful = run(
        20,
        Cluster {
            cache_bytes,
            ..cluster
        },
    );
    assert!(forgetful.fetched > 1.5 * two.fetched, "{forgetful:?}");
    let read = as_f64(forgetful.records_read - two.records_read);
    let more = forgetful.coding_seconds - two.coding_seconds;
    assert!(more > read * costs().read, "{more} {read}");

    let bandwidth = Some(two.fetched / 1e4);
    let slow = run(
        20,
        Cluster {
            bandwidth,
            ..cluster
        },
    );
    // Both links carry half of it each.
    assert!((3e3..2e4).contains(&slow.seconds), "{slow:?}");
}

/// A journal that is slow is written less often, with more in each segment.
#[test]
fn commits_are_grouped() {
    let costs = Costs {
        commit: 1.0,
        ..costs()
    };
    let cluster = Cluster {
        workers: 4,
        threads: 8,
        ..CLUSTER
    };
    let outcome = run_at(20, &costs, cluster);
    // Every layer takes about two writes of a part and two of the journal, checks included.
    let layers = as_f64(head::layer_count(20, range_bits(12)) as u64);
    assert!(outcome.seconds < layers * 7.0, "{outcome:?}");
    assert!(as_f64(outcome.tasks) > outcome.seconds, "{outcome:?}");
}

#[test]
fn a_machine_that_is_shared_has_the_coordinators_work_too() {
    let cluster = Cluster {
        threads: 2,
        coordinator_threads: 2,
        ..CLUSTER
    };
    let alone = run(20, cluster);
    // A merge has no ranges, and takes as long as a task with one.
    let control = costs().control * as_f64(alone.tasks + 256 + 1);
    assert!((alone.coordinator_seconds / control - 1.0).abs() < 1e-6);
    let cluster = Cluster {
        shared: true,
        ..cluster
    };
    let shared = run(20, cluster);
    assert!((shared.cpu_seconds() / alone.cpu_seconds() - 1.0).abs() < 1e-6);
    let crowded = run(
        20,
        Cluster {
            threads: 4,
            ..cluster
        },
    );
    assert!(crowded.seconds > 0.85 * shared.seconds, "{crowded:?}");
}

/// What a few jobs took when their steps were looked at one by one. Whoever changes what is simulated changes them.
#[test]
fn jobs_take_as_long_as_they_did() {
    let cluster = Cluster {
        workers: 3,
        threads: 4,
        cache_bytes: 40_000,
        bandwidth: Some(1e6),
        ..CLUSTER
    };
    let expected = Prediction {
        seconds: 0.375_325_828,
        ranges_seconds: 0.307_335_729,
        tasks: 264,
        fetched: 123_523.267_082,
        records_read: 965,
        put: 41_507.185_143,
        evaluation_seconds: 0.743_620_772,
        coding_seconds: 0.073_379_247,
        shard_seconds: 0.021_438_741,
        coordinator_seconds: 0.055_9,
    };
    check(&run(20, cluster), &expected);
    let expected = Prediction {
        seconds: 0.565_502_935,
        ranges_seconds: 0.497_812_836,
        tasks: 169,
        fetched: 118_315.553_275,
        records_read: 922,
        put: 41_566.788_769,
        evaluation_seconds: 0.746_270_991,
        coding_seconds: 0.071_559_155,
        shard_seconds: 0.021_438_741,
        coordinator_seconds: 0.046_5,
    };
    check(
        &run(
            20,
            Cluster {
                threads: 1,
                ..cluster
            },
        ),
        &expected,
    );
    // Many lanes wait for their turn to read.
    let cluster = Cluster {
        threads: 16,
        bandwidth: Some(1e5),
        ..cluster
    };
    let expected = Prediction {
        seconds: 6.244_664_274,
        ranges_seconds: 4.667_646_928,
        tasks: 1111,
        fetched: 1_158_687.133_259,
        records_read: 9567,
        put: 144_919.572_953,
        evaluation_seconds: 2.947_369_421,
        coding_seconds: 0.514_894_939,
        shard_seconds: 0.072_649_545,
        coordinator_seconds: 0.222_2,
    };
    check(&run(22, cluster), &expected);
}

#[test]
fn the_same_job_takes_the_same_time() {
    let cluster = Cluster {
        workers: 3,
        threads: 2,
        bandwidth: Some(1e5),
        ..CLUSTER
    };
    assert_eq!(run(20, cluster), run(20, cluster));
}
