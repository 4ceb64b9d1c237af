//! Right tables pass every check, and every check agrees with a slow twin of it.

use std::collections::BTreeMap;

use crate::common::{check_all, check_bytes, check_sample, check_window, publish, right_words};
use crate::others::catalogue::{CHECKPOINTS, check_published};
use crate::others::openings::{check_openings, openings};
use chomp_table::{Position, Table, Word};
use chomp_testing::definition;
use chomp_verify::known::{BY_BITS, Compared, compare};
use chomp_verify::marking::{losing, window_count};
use chomp_verify::survey::Survey;

const BITS: u32 = 16;

fn with_table(test: impl FnOnce(&Table, &[u64])) {
    let dir = tempfile::tempdir().unwrap();
    let words = right_words(BITS);
    test(&publish(dir.path(), BITS, &words), &words);
}

/// Losing positions, both of a mirror pair.
fn both(words: &[u64]) -> impl Iterator<Item = Word> {
    words.iter().flat_map(|&word| {
        let word = Word::new(word);
        let mirror = (word.mirror() != word).then_some(word.mirror());
        std::iter::once(word).chain(mirror)
    })
}

#[test]
fn marking_agrees_with_counts_of_others() {
    let (first, counts) = BY_BITS;
    let words = losing(first + 1);
    let shorter = words.partition_point(|&word| Word::new(word).bits() <= first);
    assert_eq!([shorter as u64, words.len() as u64], counts[..2]);
    let stored = words[..shorter].iter().copied();
    let stored = stored.filter(|&word| Word::new(word) <= Word::new(word).mirror());
    let dir = tempfile::tempdir().unwrap();
    let table = publish(dir.path(), first, &stored.collect::<Vec<u64>>());
    let compared = compare(&Survey::of(&table).unwrap()).unwrap();
    assert_eq!(compared.by_bits, 1);
    let mut oracle = definition::Oracle::default();
    for word in [3_u64 << 20, 5 << 18 | 2, 0x15_5554].map(Word::new) {
        let expected = oracle.is_losing(word);
        assert_eq!(words.binary_search(&word.get()).is_ok(), expected);
    }
}

#[test]
fn windows_of_any_size_agree() {
    with_table(|table, words| {
        for window_bits in 7..=BITS + 1 {
            let all = (1 << (BITS - 1), both(words).count() as u64);
            assert_eq!(check_all(table, window_bits).unwrap(), all, "{window_bits}");
        }
        // Each by itself.
        let mut each = (0..window_count(BITS, 12)).rev();
        let sum = each.try_fold(0, |sum, n| Ok(sum + check_window(table, 12, n)?.losing));
        let sum: Result<u64, chomp_verify::CheckError> = sum;
        assert_eq!(sum.unwrap(), both(words).count() as u64);
    });
}

#[test]
fn the_smallest_tables_pass() {
    for bits in (0..=8).chain([15]) {
        let dir = tempfile::tempdir().unwrap();
        let table = publish(dir.path(), bits, &right_words(bits));
        check_all(&table, 64).unwrap();
        check_bytes(&table).unwrap();
        let survey = Survey::of(&table).unwrap();
        compare(&survey).unwrap();
        check_openings(&openings(&table).unwrap()).unwrap();
        check_published(&table, &survey, 0, |file| panic!("{file:?} in {bits} bits")).unwrap();
        assert_eq!(check_sample(&table, 500, 1, 0).unwrap().positions, 500);
    }
}

#[test]
fn samples_agree_whatever_the_memory() {
    with_table(|table, words| {
        let losing: Vec<Word> = both(words).collect();
        let once = check_sample(table, 20_000, 7, u64::MAX).unwrap();
        assert_eq!((once.positions, once.passes), (20_000, 2));
        assert_eq!(
            (once.of_all, once.of_listed, once.beside_listed),
            (10_000, 5_000, 5_000)
        );
        // Of all positions some 1 in 22 is losing, of those listed each, and beside those next to none.
        let expected = 10_000 * losing.len() as u64 / (1 << (BITS - 1)) + 5_000;
        assert!(once.losing.abs_diff(expected) < expected / 20, "{once:?}");
        assert!(
            (20..60).contains(&(once.moves / once.positions)),
            "{once:?}"
        );
        assert_eq!((once.one_in_of_all, once.one_in_of_listed), (2_171, 1_085));
        // Equal seeds pick equal positions, in every version of the program.
        assert_eq!((once.losing, once.moves), (5_264, 621_760));
        let mut often = check_sample(table, 20_000, 7, 0).unwrap();
        assert!(often.passes > 20, "{often:?}");
        often.passes = 2;
        assert_eq!(often, once);
        assert_ne!(check_sample(table, 20_000, 8, u64::MAX).unwrap(), once);
        assert_eq!(check_sample(table, 0, 7, 0).unwrap().passes, 0);
    });
}

#[test]
fn the_survey_counts() {
    with_table(|table, words| {
        let survey = Survey::of(table).unwrap();
        let mut classes = BTreeMap::new();
        let mut areas = vec![0; BITS as usize];
        for word in both(words) {
            let rows = Position::from(word).rows().to_vec();
            *classes
                .entry((u32::try_from(rows.len()).unwrap(), rows[0]))
                .or_insert(0) += 1;
            if let Some(count) = areas.get_mut(rows.iter().sum::<u32>() as usize) {
                *count += 1;
            }
        }
        assert_eq!(survey.by_area(), areas);
        assert_eq!(survey.bits(), BITS);
        for rows in 0..=BITS + 1 {
            for columns in 0..=BITS + 1 {
                let inside = classes
                    .iter()
                    .filter(|((r, c), _)| *r <= rows && *c <= columns);
                let inside = inside.map(|(_, count)| count).sum();
                let expected = (rows + columns <= BITS).then_some(inside);
                assert_eq!(survey.inside(rows, columns), expected, "{rows} {columns}");
            }
        }
        for bits in 0..=BITS {
            let count = both(words).filter(|word| word.bits() <= bits).count();
            assert_eq!(survey.losing(bits), count as u64);
        }
        let compared = compare(&survey).unwrap();
        let expected = Compared {
            by_bits: 0,
            by_area: 15,
            // Boxes of 3 rows and 3 to 13 columns, of 4 rows and 4 to 12, …, 8x8.
            inside: 11 + 9 + 7 + 5 + 3 + 1,
        };
        assert_eq!(compared, expected);
    });
}

#[test]
fn openings_are_all_winning_first_moves() {
    with_table(|table, _| {
        let openings = openings(table).unwrap();
        let mut rectangles = 0;
        for rows in 1..BITS {
            for columns in rows.max(2)..=(BITS - rows).max(rows.max(2) - 1) {
                let opening = &openings[rectangles];
                rectangles += 1;
                assert_eq!((opening.rows, opening.columns), (rows, columns));
                let rectangle = Position::new(vec![columns; rows as usize]).unwrap();
                let moves = Word::from(&rectangle).moves();
                let winning = moves.filter(|(_, next)| table.is_losing(*next).unwrap());
                let mut winning: Vec<_> = winning.map(|(cell, _)| cell).collect();
                winning.sort_unstable();
                assert_eq!(opening.moves, winning, "{rows}x{columns}");
            }
        }
        assert_eq!(openings.len(), rectangles);
        // 3 rows and 4 to 13 columns, 4 and 5 to 12, …, 7x9.
        assert_eq!(check_openings(&openings).unwrap(), 10 + 8 + 6 + 4 + 2);
    });
}

#[test]
fn the_published_sum_of_eight_by_eight() {
    with_table(|table, _| {
        let survey = Survey::of(table).unwrap();
        for memory in [0, 300, 800, u64::MAX] {
            let mut seen = Vec::new();
            check_published(table, &survey, memory, |file| seen.push(file.clone())).unwrap();
            assert_eq!(seen.len(), 1);
            let (side, sum) = CHECKPOINTS[0];
            assert_eq!((seen[0].kind, seen[0].side), ("checkpoint", side));
            assert_eq!(seen[0].sha256.to_string(), sum);
            assert_eq!(seen[0].bytes, 2208);
        }
    });
}
