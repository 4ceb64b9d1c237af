//! The forecast beside what is known of true tables.

use chomp_table::head;
use chomp_table::sources::sources;

use super::*;

/// The bits of true tables, and the number of their losing positions.
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
        // Where words can be losing, there are more of them the smaller they are.
        let density = |head: Head| {
            let share = open_share(head);
            (share > 0.0).then(|| forecast.losing(head) * mean_area(head, range_bits(b)) / share)
        };
        let densities = (0..forecast.ranges()).filter_map(|head| density(Head(head)));
        let first = density(Head(0)).unwrap();
        for density in densities {
            assert!((density / first - 1.0).abs() < 1e-9, "{bits} {b}");
        }
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
    assert_eq!(bounds(19, ALONE, None).useful_bytes, most.max().unwrap());
}

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

#[test]
fn small_numbers_are_as_expected() {
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    near(positions(12), 2048.0);
    // Two of 16: three bits and log2 e for each.
    near(
        entropy_bytes(2.0, 16.0),
        (3.0 + std::f64::consts::LOG2_E) / 4.0,
    );
    near(entropy_bytes(0.0, 16.0), 0.0);
    let forecast = Forecast::new(20, range_bits(12));
    let half = losing_total(20) / 2.0;
    near(
        forecast.shard_bytes(3.0),
        3.0 * entropy_bytes(half, positions(20)),
    );
    let large = Forecast::new(30, range_bits(20));
    let bytes = large.memory_bytes(Head(1));
    assert_eq!(bytes, 256 + 2 * round(large.losing(Head(1))) + 8 * 4);
    assert_eq!(large.cache_bytes(Head(1)), bytes / 4 * 5);
    let costs = costs();
    near(costs.control(3), 4.0 * costs.control);
    let scattered = forecast.scattered(Head(5));
    assert!(scattered > 0.0);
    near(
        costs.evaluation(&forecast, Head(5)),
        costs.position * 2048.0 + costs.scattered * scattered,
    );
    let double = Costs {
        range: 3.0 * costs.range,
        ..costs
    };
    near(Costs::mean(&[costs, double]).range, 2.0 * costs.range);
    near(Costs::mean(&[costs, double]).commit, costs.commit);
}

/// Position by position: what is put into bitmaps, if the losing ones lie everywhere with equal chance.
#[test]
fn what_is_scattered_are_the_positions_that_moves_lead_from() {
    let forecast = Forecast::new(20, range_bits(12));
    for head in (1..1 << 8).map(Head) {
        let mut expected = 0.0;
        for start in starts(head) {
            expected += start.inside().map(|at| forecast.losing(at)).sum::<f64>();
            let mut share = 1.0;
            for d in 1..=start.ones {
                // The last has all that are left.
                share /= if d < start.ones { 2.0 } else { 1.0 };
                expected += share * forecast.losing(start.crossing(d));
            }
        }
        let found = forecast.scattered(head);
        assert!(
            (found - expected).abs() < 1e-9,
            "{head}: {found} {expected}"
        );
    }
}

const ALONE: Cluster = Cluster {
    workers: 1,
    threads: 1,
    cache_bytes: u64::MAX,
    coordinator_threads: 1,
    shared: true,
    bandwidth: None,
};

fn bounds(bits: u32, cluster: Cluster, from: Option<u32>) -> CostBounds {
    let forecast = Forecast::new(bits, range_bits(12));
    CostBounds::new(&forecast, &costs(), cluster, from)
}

fn near(a: f64, b: f64) {
    assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
}

/// A table of one range, term by term.
#[test]
fn the_bounds_of_one_range_are_its_costs() {
    let (costs, losing) = (costs(), losing_total(12));
    let forecast = Forecast::new(12, range_bits(12));
    let cluster = Cluster {
        threads: 4,
        coordinator_threads: 2,
        shared: false,
        bandwidth: Some(1e4),
        ..ALONE
    };
    let found = bounds(12, cluster, None);
    let record = forecast.record_bytes(costs.record_bytes);
    let shard = forecast.shard_bytes(costs.shard_factor);
    assert_eq!(found.tasks, 2, "the range and its shard");
    near(found.evaluation, costs.position * 2048.0);
    near(found.coding, losing * costs.encode + costs.range);
    let merging = losing * (costs.decode + costs.shard) + costs.read;
    near(found.shards, merging + HASH * shard);
    near(found.coordinator, 4.0 * costs.control);
    near(found.fetched, record);
    near(found.put, record + shard);
    let on_workers = found.evaluation + found.coding + found.shards;
    near(found.cpu(), on_workers + found.coordinator);
    near(found.threads_seconds(), on_workers / 4.0);
    near(found.coordinator_seconds(), found.coordinator / 2.0);
    near(found.links_seconds(), (record + shard) / 1e4);
    let evaluation = found.evaluation + losing * costs.encode;
    let path = evaluation + 2.0 * costs.commit + 2.0 * costs.control + costs.fetch;
    near(found.path.seconds(), path);
    near(found.least(), found.links_seconds());
    let others = found.threads_seconds() + path + found.coordinator_seconds();
    near(found.most(), found.links_seconds() + others);
    near(found.threads_that_help(), (on_workers / path).max(1.0));
}

/// Those who work together read what the others made, and compute some ranges twice.
#[test]
fn workers_read_each_record_once_if_they_keep_it() {
    let alone = bounds(20, ALONE, None);
    let forecast = Forecast::new(20, range_bits(12));
    let records = forecast.record_bytes(costs().record_bytes);
    let shards = forecast.shard_bytes(costs().shard_factor);
    let three = Cluster {
        workers: 3,
        shared: false,
        ..ALONE
    };
    let found = bounds(20, three, None);
    let read = (found.fetched - alone.fetched - shards) / records;
    assert!((1.0..3.0001).contains(&read), "{read}");
    near(found.evaluation, alone.evaluation * 17.0 / 16.0);
    let forgetful = Cluster {
        cache_bytes: 0,
        ..three
    };
    assert!(bounds(20, forgetful, None).fetched > found.fetched);
    let many = Cluster {
        workers: 1000,
        ..three
    };
    let most = bounds(20, many, None);
    assert!(most.fetched > found.fetched);
    assert!(
        most.tasks > found.tasks && most.tasks < 400,
        "{}",
        most.tasks
    );
}

/// The ranges of a smaller table take no evaluation, but restoring.
#[test]
fn a_job_that_extends_a_table_evaluates_the_rest() {
    let (anew, extended) = (bounds(20, ALONE, None), bounds(20, ALONE, Some(19)));
    let forecast = Forecast::new(20, range_bits(12));
    let rest = (range_bits(12).heads(19)..forecast.ranges()).map(Head);
    near(
        extended.evaluation,
        rest.map(|head| costs().evaluation(&forecast, head)).sum(),
    );
    let restored: f64 = (0..range_bits(12).heads(19))
        .map(|head| forecast.losing(Head(head)))
        .sum();
    near(extended.restoring, 7.0 * restored * costs().encode);
    assert!(anew.restoring == 0.0 && extended.tasks < anew.tasks);
    assert!(extended.put < anew.put && extended.fetched > anew.fetched);
}
