//! The forecast beside what is known of true tables.

use chomp_table::sources;

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
fn small_numbers_are_as_expected() {
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    let half = losing_total(20) / 2.0;
    let bits = (f64::from(1 << 19) / half).log2() + std::f64::consts::LOG2_E;
    near(shard_bytes(20), 0.81 * half * bits / 8.0);
    near(
        record_bytes(20, range_bits(12)),
        80.0 * 256.0 + 1.18 * 2.0 * half,
    );
    let positions = 2 * round(losing_total(30));
    assert_eq!(
        memory_bytes(30, range_bits(20)),
        1024 * (256 + 8 * 4) + positions
    );
}

/// Each move that ends inside, and one for all that cross, as these have half, a quarter and so on of a range.
#[test]
fn what_is_scattered_are_the_positions_that_moves_lead_from() {
    for head in (0..1 << 10).map(Head) {
        let of_each = |start: sources::Start| start.inside().count() + 1;
        let expected: usize = sources::starts(head).map(of_each).sum();
        assert_eq!(moves(head) as usize, expected, "{head}");
    }
}

const COSTS: MachineCosts = MachineCosts {
    work: 1e-6,
    range: 1e-3,
    commit: 1e-2,
};

fn estimate(bits: u32, from: Option<u32>, workers: u32) -> Estimate {
    Estimate::new(bits, range_bits(12), from, workers, COSTS)
}

fn near(a: f64, b: f64) {
    assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
}

/// A table of one range, term by term.
#[test]
fn the_estimate_of_one_range_is_its_costs() {
    let work = JobCost::new(12, range_bits(12));
    let evaluation = as_f64(work.per_range[0]) * 1e-6;
    let publication = as_f64(work.publication) * 1e-6;
    let found = estimate(12, None, 1);
    near(found.cpu, evaluation + publication + 1e-3);
    near(found.critical_path(), evaluation + 2e-2);
    let [least, most] = found.wall(4);
    near(least, found.critical_path());
    near(most, found.critical_path() + found.cpu / 4.0);
    near(found.threads_that_help(), 1.0);
}

/// Workers check some of each other's ranges, and the critical path limits how many threads help.
#[test]
fn threads_help_until_the_critical_path_is_longer() {
    let (one, two) = (estimate(24, None, 1), estimate(24, None, 2));
    assert!((1.0..1.07).contains(&(two.cpu / one.cpu)), "{two:?}");
    near(two.critical_path(), 79.0 * (two.evaluation + 2e-2));
    near(two.cpu / two.threads_that_help(), two.critical_path());
    let [least, most] = two.wall(2);
    assert!(two.threads_that_help() > 1.0 && least < most);
}

/// The ranges of a smaller table take no evaluation, but restoring.
#[test]
fn a_job_that_extends_a_table_evaluates_the_rest() {
    let (anew, extended) = (estimate(20, None, 1), estimate(20, Some(19), 1));
    let work = JobCost::new(20, range_bits(12));
    let new = (range_bits(12).head_count(19)..range_bits(12).head_count(20)).map(Head);
    let new: u64 = new.map(|head| work.per_range[head.layer() as usize]).sum();
    near(extended.evaluation, as_f64(new) * 1e-6 / 128.0);
    let others = as_f64(work.publication) + 17.0 * losing_total(19);
    near(extended.cpu, (as_f64(new) + others) * 1e-6 + 128.0 * 1e-3);
    assert!(extended.cpu < anew.cpu);
}

/// Ranges of high layers depend on more sources, so they are more work than those of low ones.
#[test]
fn work_grows_with_the_layer_and_is_never_nothing() {
    let range_bits = RangeBits::new(20).unwrap();
    let work = JobCost::new(32, range_bits);
    assert_eq!(work.per_range.len(), head::layer_count(32, range_bits));
    assert!(work.per_range.iter().all(|&work| work > 0));
    assert!(work.per_range[40] > work.per_range[1], "{work:?}");
    let total = work.total(&head::layers(32, range_bits));
    assert!(
        (total / 50..total / 2).contains(&work.publication),
        "{total} and {}",
        work.publication
    );
    assert_eq!(JobCost::new(2, range_bits).per_range.len(), 1);
    // With its publication there is always some left.
    let layers = head::layers(32, range_bits);
    let all: Vec<Head> = layers.iter().flatten().copied().collect();
    let part = |done: &[Head]| work.fraction_done(&layers, done);
    assert!(part(&[]) == 0.0 && (0.5..1.0).contains(&part(&all)));
    assert!(part(&layers[40][..1]) > part(&layers[1][..1]));
    // A range without sources.
    let positions = as_f64(range_bits.positions());
    let expected = positions / 16.0 + 20.0 * losing_total(20);
    assert_eq!(JobCost::new(20, range_bits).per_range, [round(expected)]);
}
