//! Values by blocks against the definition, theorems, and what others counted.

use chomp_table::known::LOSING_BY_TILES;
use chomp_table::rng::Rng;
use chomp_table::{Partition, Position};

use super::*;

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// The values of all positions of at most `tiles` tiles.
fn areas(tiles: u32) -> Vec<AreaValues> {
    let mut evaluator = GrundyEvaluator::new(Isa::detect());
    let mut areas = vec![AreaValues::zeros(0)];
    for area in 1..=tiles {
        let mut values = AreaValues::zeros(area);
        evaluator.evaluate(area, 0, values.get_mut(), &areas);
        areas.push(values);
    }
    areas
}

/// By definition: the least number that no move leads to.
fn least(position: &Partition, areas: &[AreaValues]) -> u8 {
    let moves = position.moves();
    let reached: Vec<u8> = moves.map(|(_, after)| value(areas, after.rows())).collect();
    (0..=u8::MAX)
        .find(|value| !reached.contains(value))
        .unwrap()
}

#[test]
fn values_are_those_of_the_definition() {
    let areas = areas(26);
    for area in 1..=26 {
        for (rank, &value) in (0..).zip(areas[area as usize].get()) {
            let position = Partition::at(area, rank);
            assert_eq!(value, least(&position, &areas), "{position}");
        }
    }
}

/// Values of more than 64 are in a word of their own.
#[test]
fn values_of_more_tiles_than_a_word_has_bits_are_those_of_the_definition() {
    let areas = areas(67);
    let mut rng = Rng(2);
    let mut high = 0;
    for area in 63..=67 {
        let most = count(area);
        let ranks = (0..300)
            .map(|_| rng.below(most))
            .chain([0, most - 2, most - 1]);
        // Positions of few rows have the large values.
        for rank in ranks.chain((1..60).map(|back| most - back)) {
            let position = Partition::at(area, rank);
            let value = value(&areas, position.rows());
            high += usize::from(value >= 64);
            assert_eq!(value, least(&position, &areas), "{position}");
        }
    }
    assert!(high >= 5, "{high}");
}

fn value(areas: &[AreaValues], rows: &[u32]) -> u8 {
    let rows = rows.iter().copied().filter(|&row| row > 0).collect();
    let partition = Partition::new(rows).unwrap();
    areas[partition.area() as usize].get()[size(partition.rank())]
}

/// The value of two rows n ≥ m, as the theorem has it.
fn two_rows(n: u32, m: u32) -> u32 {
    let k = (n - 1) / 2;
    let mixed = |a| if 2 * a <= k { 2 * k - a } else { 3 * (k - a) };
    match (n % 2, m % 2) {
        (0, 1) => mixed((m - 1) / 2),
        (1, 0) => mixed(m / 2),
        _ => 2 * k + m / 2 + 1,
    }
}

#[test]
fn known_families() {
    let areas = areas(46);
    for area in 1..=46 {
        assert_eq!(u32::from(value(&areas, &[area])), area - 1, "one row");
        for column in 1..=area {
            let row = area + 1 - column;
            let mut hook = vec![1; column as usize];
            hook[0] = row;
            let nim = (row - 1) ^ (column - 1);
            assert_eq!(u32::from(value(&areas, &hook)), nim, "{row} and {column}");
        }
        for m in 1..=area / 2 {
            let n = area - m;
            let found = value(&areas, &[n, m]);
            assert_eq!(u32::from(found), two_rows(n, m), "{n},{m}");
        }
        let values = areas[area as usize].get();
        assert!(values.iter().all(|&value| u32::from(value) < area));
        for (rank, &found) in (0..).zip(values) {
            let mirror = Partition::at(area, rank).mirror();
            assert_eq!(value(&areas, mirror.rows()), found, "{mirror}");
        }
    }
}

#[test]
fn losing_positions_are_as_many_as_others_found_and_those_of_the_bits_table() {
    let areas = areas(43);
    let losing = chomp_testing::definition::losing(16);
    for (area, known) in (1..=43).zip(LOSING_BY_TILES) {
        let values = areas[area as usize].get();
        let found: u64 = values.iter().map(|&value| u64::from(value == 0)).sum();
        assert_eq!(found, known);
        for (rank, &value) in (0..).zip(values) {
            let position = Position::new(Partition::at(area, rank).rows().to_vec()).unwrap();
            let index = chomp_testing::definition::index_of((&position).into());
            if let Some(&is_losing) = losing.get(index) {
                assert_eq!(value == 0, is_losing, "{position}");
            }
        }
    }
}

#[test]
fn windows_and_instruction_sets_change_nothing() {
    let areas = areas(38);
    let mut rng = Rng(1);
    for isa in Isa::ALL {
        let mut evaluator = GrundyEvaluator::new(isa);
        for _ in 0..40 {
            let area = 1 + u32::try_from(rng.below(38)).unwrap();
            let cut = |rng: &mut Rng| size(rng.below(count(area) + 1));
            let (one, other) = (cut(&mut rng), cut(&mut rng));
            let ranks = one.min(other)..one.max(other);
            let mut values = vec![7; ranks.len()];
            evaluator.evaluate(area, ranks.start as u64, &mut values, &areas);
            assert_eq!(
                values,
                areas[area as usize].get()[ranks.clone()],
                "{isa} {area} {ranks:?}"
            );
        }
    }
}

#[test]
fn wrong_calls_are_refused() {
    let areas = areas(6);
    let refused = |area: u32, start: u64, len: usize, lower: &[AreaValues]| {
        let call =
            || GrundyEvaluator::new(Isa::detect()).evaluate(area, start, &mut vec![0; len], lower);
        let call = std::panic::AssertUnwindSafe(call);
        assert!(std::panic::catch_unwind(call).is_err());
    };
    refused(0, 0, 1, &areas);
    refused(121, 0, 1, &areas);
    refused(5, 0, 8, &areas);
    refused(5, 7, 1, &areas);
    refused(5, 0, 7, &areas[..4]);
    refused(5, 0, 7, &areas[1..]);
}
