//! The forecast beside what is known of true tables, and the simulation beside what can be said
//! without it.

use std::collections::BTreeSet;

use chomp_table::sources::sources;

use super::simulation::{Cluster, Outcome, simulate};
use super::*;

/// The losing positions of at most so many bits, as true tables have them.
const KNOWN: [(u32, u64); 14] = [
    (23, 57_173),
    (24, 104_364),
    (25, 189_710),
    (26, 363_603),
    (27, 632_105),
    (28, 1_154_468),
    (29, 2_356_886),
    (30, 3_893_679),
    (31, 8_295_977),
    (32, 15_220_362),
    (33, 30_823_564),
    (34, 57_211_411),
    (35, 102_950_737),
    (36, 191_372_350),
];

fn range_bits(bits: u32) -> RangeBits {
    RangeBits::new(bits).unwrap()
}

#[test]
fn the_law_is_as_good_as_it_says() {
    for (bits, losing) in KNOWN {
        let error = (losing_total(bits) / as_f64(losing) - 1.0).abs();
        let allowed = if bits < 27 { 0.18 } else { 0.11 };
        assert!(error < allowed, "{bits} bits: {error}");
    }
}

#[test]
fn the_ranges_share_what_the_law_says() {
    for (bits, b) in [(12, 12), (20, 12), (30, 20), (40, 26)] {
        let forecast = Forecast::new(bits, range_bits(b));
        let sum: f64 = (0..forecast.ranges())
            .map(|head| forecast.losing(Head(head)))
            .sum();
        assert!((sum / losing_total(bits) - 1.0).abs() < 1e-9, "{bits} {b}");
    }
}

/// The average over all words of a range, counted cell by cell.
#[test]
fn the_mean_area_is_that_of_the_words() {
    let b = range_bits(12);
    for head in [0, 1, 0b10, 0b101, 0b1101_0011].map(Head) {
        let mut area = 0;
        for index in 0..b.positions() {
            let word = head.word(index, b).get();
            let mut ones = 0;
            for bit in (0..u64::BITS).rev() {
                if word >> bit & 1 == 1 {
                    ones += 1;
                } else {
                    area += ones;
                }
            }
        }
        let expected = f64::from(area) / as_f64(b.positions());
        let mean = mean_area(head, b);
        assert!((mean - expected).abs() < 1e-9, "{head}: {mean} {expected}");
    }
}

/// By the definition of W: of the words that begin with 101 those of two rows are losing, no others.
#[test]
fn words_that_begin_with_101_are_winning() {
    let mut oracle = chomp_table::definition::Oracle::default();
    let mut losing = 0;
    for path in (0..1u64 << 16).step_by(2) {
        if oracle.is_losing(chomp_table::Word::new(path)) {
            losing += 1;
            let length = u64::BITS - path.leading_zeros();
            let begins = length >= 3 && path >> (length - 3) == 0b101;
            assert!(!begins || path.count_ones() == 2, "{path:b}");
        }
    }
    assert_eq!(losing, 872);
}

#[test]
fn open_shares_are_those_of_the_words() {
    let b = range_bits(12);
    for head in (0..64).map(Head) {
        let open = (0..b.positions()).filter(|&index| {
            let word = head.word(index, b).get();
            let length = u64::BITS - word.leading_zeros();
            length < 3 || word >> (length - 3) != 0b101
        });
        let share = as_f64(open.count() as u64) / as_f64(b.positions());
        // Words of one or two bits make the little difference of the first range.
        assert!((share - open_share(head)).abs() < 1e-2, "{head}: {share}");
    }
}

#[test]
fn each_source_is_a_source_and_none_is_left_out() {
    for b in [12, 20].map(range_bits) {
        for head in (1..1 << 11).map(Head) {
            let mut found = BTreeSet::new();
            each_source(head, b, &mut |source| {
                found.insert(source);
            });
            let mut all: BTreeSet<Head> = sources(head, b).into_iter().collect();
            // The range that holds the corner is the first one, or one of those that are shifted.
            all.remove(&Head(0));
            found.remove(&Head(0));
            assert_eq!(found, all, "{head}");
        }
    }
}

/// Every range is kept from its own layer to the last that draws on it.
#[test]
fn useful_bytes_are_those_of_the_fullest_layer() {
    let b = range_bits(12);
    let forecast = Forecast::new(19, b);
    let heads = || (0..forecast.ranges()).map(Head);
    let layers = head::layer_count(19, b);
    let most = (0..u32::try_from(layers).unwrap()).map(|layer| {
        let is_kept = |&range: &Head| {
            let draws = |user: &Head| user.layer() >= layer && sources(*user, b).contains(&range);
            range.layer() <= layer && heads().any(|user| draws(&user))
        };
        let kept = heads().filter(is_kept);
        kept.map(|head| forecast.memory_bytes(head)).sum::<u64>()
    });
    assert_eq!(forecast.useful_bytes(), most.max().unwrap());
}

fn costs() -> Costs {
    Costs {
        position: 1e-6,
        scattered: 1e-6,
        encode: 1e-6,
        decode: 1e-6,
        shard: 1e-6,
        record_factor: 1.0,
        shard_factor: 0.9,
        handling: 1e-6,
        range: 1e-4,
        round_trip: 1e-3,
    }
}

fn run(forecast: &Forecast, costs: &Costs, workers: u32, threads: u32) -> Outcome {
    let cluster = Cluster {
        workers,
        threads,
        cache_bytes: u64::MAX,
        coordinator_threads: 1,
        shared: false,
        bandwidth: None,
    };
    simulate(forecast, costs, cluster).unwrap()
}

/// One thread does everything one after the other: its time is the sum of all work, and what it
/// waits for where a layer has one task.
#[test]
fn one_thread_takes_as_long_as_all_work() {
    let forecast = Forecast::new(20, range_bits(12));
    let costs = Costs {
        range: 0.0,
        round_trip: 0.0,
        ..costs()
    };
    let outcome = run(&forecast, &costs, 1, 1);
    let evaluation: f64 = (0..forecast.ranges())
        .map(|head| costs.evaluation(&forecast, Head(head)))
        .sum();
    let work = evaluation + losing_total(20) * costs.encode;
    assert!((outcome.worker_seconds / work - 1.0).abs() < 1e-6);
    assert!(
        (work..1.05 * work).contains(&outcome.seconds),
        "{outcome:?} {work}"
    );
    assert!(
        outcome.fetched.abs() < 1e-9,
        "it has made all of it: {outcome:?}"
    );
    let records = forecast.all_record_bytes(1.0);
    assert!((outcome.submitted / records - 1.0).abs() < 1e-9);
}

#[test]
fn more_threads_take_less_time_until_layers_are_too_narrow() {
    let forecast = Forecast::new(22, range_bits(12));
    let times: Vec<f64> = [1, 2, 4, 1000, 2000]
        .map(|threads| run(&forecast, &costs(), 1, threads).seconds)
        .into();
    assert!(
        times[1] < 0.6 * times[0] && times[2] < 0.65 * times[1],
        "{times:?}"
    );
    assert!((times[4] / times[3] - 1.0).abs() < 0.01, "{times:?}");
}

#[test]
fn workers_fetch_what_others_made_and_again_what_they_forgot() {
    let forecast = Forecast::new(20, range_bits(12));
    let cluster = Cluster {
        workers: 2,
        threads: 1,
        cache_bytes: u64::MAX,
        coordinator_threads: 1,
        shared: false,
        bandwidth: None,
    };
    let all = forecast.all_record_bytes(1.0);
    let two = simulate(&forecast, &costs(), cluster).unwrap();
    assert!(
        (0.2 * all..1.01 * all).contains(&two.fetched),
        "{two:?} {all}"
    );
    let cache_bytes = forecast.useful_bytes() / 10;
    let forgetful = simulate(
        &forecast,
        &costs(),
        Cluster {
            cache_bytes,
            ..cluster
        },
    )
    .unwrap();
    assert!(forgetful.fetched > 2.0 * two.fetched, "{forgetful:?}");

    let bandwidth = Some(two.fetched / 1e4);
    let slow = simulate(
        &forecast,
        &costs(),
        Cluster {
            bandwidth,
            ..cluster
        },
    )
    .unwrap();
    assert!(slow.seconds > 1e4, "{slow:?}");
}

#[test]
fn a_machine_that_is_shared_has_the_coordinators_work_too() {
    let forecast = Forecast::new(20, range_bits(12));
    let cluster = Cluster {
        workers: 1,
        threads: 2,
        cache_bytes: u64::MAX,
        coordinator_threads: 2,
        shared: true,
        bandwidth: None,
    };
    let alone = simulate(
        &forecast,
        &costs(),
        Cluster {
            shared: false,
            ..cluster
        },
    )
    .unwrap();
    let shared = simulate(&forecast, &costs(), cluster).unwrap();
    let work = |outcome: Outcome| outcome.worker_seconds + outcome.coordinator_seconds;
    assert!((work(shared) / work(alone) - 1.0).abs() < 1e-6);
    assert!(shared.seconds > alone.seconds);
    let crowded = simulate(
        &forecast,
        &costs(),
        Cluster {
            threads: 4,
            ..cluster
        },
    )
    .unwrap();
    assert!(crowded.seconds > 0.9 * shared.seconds, "{crowded:?}");
}
