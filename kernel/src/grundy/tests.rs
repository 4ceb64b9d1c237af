//! Values by blocks against the definition, theorems, and what others counted.

use chomp_table::rng::Rng;
use chomp_table::{Partition, Position};

use super::*;

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// The values of all positions of 1 to `tiles` tiles, by area and rank, made by `evaluate`.
fn areas(tiles: u32, evaluate: impl Fn(u32, &[Vec<u8>]) -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut areas = vec![vec![]];
    for area in 1..=tiles {
        areas.push(evaluate(area, &areas));
    }
    areas
}

fn lower(areas: &[Vec<u8>], these: impl IntoIterator<Item = u32>, chunk_bits: u32) -> Lower<'_> {
    let mut lower = Lower::new(chunk_bits);
    for area in these {
        let chunks = areas[area as usize].chunks(1 << chunk_bits).collect();
        lower.put(area, chunks);
    }
    lower
}

fn fast(area: u32, areas: &[Vec<u8>]) -> Vec<u8> {
    let mut evaluation = Evaluation::new(area, 0..count(area));
    evaluation.apply(&lower(areas, 1..area, 20));
    evaluation.finish()
}

/// What the moves of a position lead to.
fn moves(position: &Partition) -> Vec<Partition> {
    let rows = position.rows();
    let mut moves = Vec::new();
    for (row, &length) in rows.iter().enumerate() {
        for left in u32::from(row == 0)..length {
            let mut after = rows.to_vec();
            for row in &mut after[row..] {
                *row = left.min(*row);
            }
            after.retain(|&row| row > 0);
            moves.push(Partition::new(after).unwrap());
        }
    }
    moves
}

/// By definition: the least number that no move leads to.
fn slow(area: u32, areas: &[Vec<u8>]) -> Vec<u8> {
    let value = |rank| {
        let moves = moves(&Partition::at(area, rank));
        let reached: Vec<u8> = moves
            .iter()
            .map(|after| value(areas, after.rows()))
            .collect();
        (0..=u8::MAX)
            .find(|value| !reached.contains(value))
            .unwrap()
    };
    (0..count(area)).map(value).collect()
}

/// Not all values of large areas can be here, but all moves to small ones.
#[test]
fn moves_of_the_largest_areas_to_small_ones() {
    let areas = areas(30, fast);
    let mut rng = Rng(2);
    for area in [63, 64, 65, 101, 119, 120] {
        let most = count(area) - 300;
        for start in [0, 3000, rng.below(most), rng.below(most), most] {
            let mut evaluation = Evaluation::new(area, start..start + 300);
            evaluation.apply(&lower(&areas, 1..31, 9));
            for (rank, &found) in (start..).zip(&evaluation.sets) {
                let moves = moves(&Partition::at(area, rank));
                let small = moves.iter().filter(|after| after.area() <= 30);
                let values = small.map(|after| value(&areas, after.rows()));
                let expected = values.fold(0, |set, value| set | 1 << value);
                assert_eq!(found, expected, "{area} {rank}");
            }
        }
    }
}

#[test]
fn values_are_those_of_the_definition() {
    assert_eq!(areas(26, fast), areas(26, slow));
}

fn value(areas: &[Vec<u8>], rows: &[u32]) -> u8 {
    let rows = rows.iter().copied().filter(|&row| row > 0).collect();
    let partition = Partition::new(rows).unwrap();
    areas[partition.area() as usize][size(partition.rank())]
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
    let areas = areas(46, fast);
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
        let values = &areas[area as usize];
        assert!(values.iter().all(|&value| u32::from(value) < area));
        for (rank, &found) in (0..).zip(values) {
            let mirror = Partition::at(area, rank).mirror();
            assert_eq!(value(&areas, mirror.rows()), found, "{mirror}");
        }
    }
}

/// Losing positions of n tiles from n = 1 on: OEIS A112470, and from 40 on what tables of losing positions gave.
const LOSING: [usize; 43] = [
    1, 0, 1, 0, 3, 0, 3, 2, 5, 2, 3, 10, 9, 10, 9, 14, 17, 14, 23, 42, 45, 28, 55, 74, 67, 96, 107,
    136, 177, 220, 241, 302, 315, 422, 421, 542, 641, 812, 877, 1022, 1221, 1490, 1655,
];

#[test]
fn losing_positions_are_as_many_as_others_found_and_those_of_the_bits_table() {
    let areas = areas(43, fast);
    let losing = chomp_table::definition::losing(16);
    for (area, known) in (1..).zip(LOSING) {
        let values = &areas[area as usize];
        let found: usize = values.iter().map(|&value| usize::from(value == 0)).sum();
        assert_eq!(found, known);
        for (rank, &value) in (0..).zip(values) {
            let position = Position::new(Partition::at(area, rank).rows().to_vec()).unwrap();
            let index = chomp_table::definition::index_of((&position).into());
            if let Some(&is_losing) = losing.get(index) {
                assert_eq!(value == 0, is_losing, "{position}");
            }
        }
    }
}

#[test]
fn ranges_chunks_windows_and_passes_change_nothing() {
    let areas = areas(38, fast);
    let mut rng = Rng(1);
    for _ in 0..60 {
        let area = 2 + u32::try_from(rng.below(37)).unwrap();
        let all = &areas[area as usize];
        let mut cuts = [
            0,
            count(area),
            rng.below(count(area)),
            rng.below(count(area)),
        ];
        cuts.sort_unstable();
        let chunk_bits = 3 + u32::try_from(rng.below(12)).unwrap();
        let passes = 1 + rng.below(4);
        let passes: Vec<u64> = (0..area).map(|_| rng.below(passes)).collect();
        for ranks in cuts.windows(2).map(|cut| cut[0]..cut[1]) {
            if ranks.is_empty() {
                continue;
            }
            let mut evaluation = Evaluation::new(area, ranks.clone());
            for pass in 0..4 {
                let these = (1..area).filter(|&area| passes[area as usize] == pass);
                evaluation.apply(&only_needed(area, &ranks, &areas, these, chunk_bits));
            }
            let expected = &all[size(ranks.start)..size(ranks.end)];
            assert_eq!(evaluation.finish(), expected, "{area} {ranks:?}");
        }
    }
}

fn only_needed<'a>(
    area: u32,
    ranks: &Range<u64>,
    areas: &'a [Vec<u8>],
    these: impl Iterator<Item = u32>,
    chunk_bits: u32,
) -> Lower<'a> {
    let mut lower = Lower::new(chunk_bits);
    for other in these {
        let values = &areas[other as usize][..size(needed(area, ranks, other))];
        lower.put(other, values.chunks(1 << chunk_bits).collect());
    }
    lower
}

#[test]
fn wrong_calls_are_refused() {
    let areas = areas(6, fast);
    let refused = |call: &dyn Fn()| {
        let call = std::panic::AssertUnwindSafe(call);
        assert!(std::panic::catch_unwind(call).is_err());
    };
    refused(&|| drop(Evaluation::new(0, 0..1)));
    refused(&|| drop(Evaluation::new(121, 0..1)));
    refused(&|| drop(Evaluation::new(5, 3..3)));
    refused(&|| drop(Evaluation::new(5, 0..8)));
    refused(&|| Evaluation::new(5, 0..7).apply(&lower(&areas, [5], 20)));
    refused(&|| {
        let mut evaluation = Evaluation::new(5, 0..7);
        evaluation.apply(&lower(&areas, 1..4, 20));
        drop(evaluation.finish());
    });
    // Of an area of five values the first four.
    refused(&|| {
        let mut lower = lower(&areas, 1..4, 20);
        lower.add(4, 0, &areas[4][..4]);
        let mut evaluation = Evaluation::new(5, 0..7);
        evaluation.apply(&lower);
        drop(evaluation.finish());
    });
    refused(&|| {
        let mut evaluation = Evaluation::new(5, 0..7);
        evaluation.apply(&lower(&areas, [2], 20));
        evaluation.apply(&lower(&areas, [2], 20));
    });
    refused(&|| Lower::new(1).put(0, vec![&[0]]));
    refused(&|| Lower::new(1).put(4, areas[4].chunks(3).collect()));
}
