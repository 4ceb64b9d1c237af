//! Whole boards, beside what the definition says of each position.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use chomp_table::digest::Digest;

use crate::tally::FirstMove;
use crate::{Bounds, BoxSummary, Solver, ThinError};

fn bounds(rows: usize, columns: usize) -> Bounds {
    Bounds::new(rows, columns).unwrap()
}

fn threads(threads: usize) -> NonZeroUsize {
    NonZeroUsize::new(threads).unwrap()
}

/// Everything that is known in the end, and the ranks of the losing positions.
fn solve(rows: usize, columns: usize) -> (BoxSummary, BTreeSet<u64>) {
    let mut solver = Solver::new(bounds(rows, columns), threads(2), u64::MAX, None).unwrap();
    while !solver.is_finished() {
        assert!(solver.advance(&|_| true).unwrap());
    }
    (solver.summary().clone(), solver.ranks)
}

/// All positions of at most `rows` rows and `columns` columns, in their order, and whether they are losing, by the
/// definition: the empty one is not, another one is if no move leads to a losing one.
fn by_definition(rows: usize, columns: u8) -> Vec<(Vec<u8>, bool)> {
    let mut positions = vec![Vec::new()];
    for _ in 0..rows {
        let longer = positions.iter().flat_map(|position: &Vec<u8>| {
            let most = position.last().copied().unwrap_or(columns);
            (0..=most).map(move |next| [&position[..], &[next]].concat())
        });
        positions = longer.collect();
    }
    let mut losing = BTreeSet::new();
    let decide = |position: Vec<u8>| {
        let cells = (0..rows).flat_map(|row| (0..position[row]).map(move |column| (row, column)));
        let mut moves = cells.map(|(row, column)| {
            let mut next = position.clone();
            next[row..].iter_mut().for_each(|r| *r = column.min(*r));
            next
        });
        let is_losing = position[0] > 0 && !moves.any(|next| losing.contains(&next));
        if is_losing {
            losing.insert(position.clone());
        }
        (position, is_losing)
    };
    positions.into_iter().map(decide).collect()
}

/// The winning first moves of a rectangle by the definition.
fn opening(
    rows: usize,
    columns: u8,
    losing: &BTreeSet<Vec<u8>>,
    rows_max: usize,
) -> Vec<(u32, u32)> {
    let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let wins = cells.filter(|&(row, column)| {
        let mut next = vec![columns; rows];
        next[row..].fill(column);
        next.resize(rows_max, 0);
        losing.contains(&next)
    });
    let number = |row: usize| u32::try_from(row).unwrap();
    wins.map(|(row, column)| (number(row) + 1, u32::from(column) + 1))
        .collect()
}

/// The digest as docs/FORMAT.md has it.
fn digest(columns: u8, losing: &[(u64, Vec<u8>)]) -> Digest {
    let mut all = Digest::default();
    for first in 1..=columns {
        let mut parts = all.0.to_vec();
        for second in 0..=first {
            let begins =
                |rows: &[u8]| rows[0] == first && rows.get(1).map_or(second == 0, |&r| r == second);
            let ranks = losing.iter().filter(|(_, rows)| begins(rows));
            let bytes: Vec<u8> = ranks.flat_map(|(rank, _)| rank.to_le_bytes()).collect();
            parts.extend(Digest::of(&bytes).0);
        }
        all = Digest::of(&parts);
    }
    all
}

fn check(rows: usize, columns: u8) {
    let name = format!("{rows}x{columns}");
    let bounds = bounds(rows, columns.into());
    let positions = by_definition(rows, columns);
    assert_eq!(bounds.positions(), positions.len() as u64, "{name}");
    let (summary, ranks) = solve(rows, columns.into());
    let mut losing = Vec::new();
    for (rank, (position, is_losing)) in (0..).zip(&positions) {
        assert_eq!(bounds.rank(position), rank, "{name}");
        assert_eq!(bounds.position(rank), *position, "{name}");
        assert_eq!(ranks.contains(&rank), *is_losing, "{name} {position:?}");
        losing.extend(is_losing.then(|| (rank, position.clone())));
    }
    let set: BTreeSet<Vec<u8>> = losing.iter().map(|(_, rows)| rows.clone()).collect();
    for m in 1..=rows {
        for n in 1..=columns {
            let within = |rows: &&Vec<u8>| rows[0] <= n && rows[m..].iter().all(|&r| r == 0);
            let count = set.iter().filter(within).count() as u64;
            assert_eq!(summary.losing(m, n.into()), count, "{name}: {m}x{n}");
            let expected = opening(m, n, &set, rows);
            assert_eq!(summary.opening(m, n.into()), expected, "{name}");
        }
    }
    let found = summary.digests[usize::from(columns)];
    assert_eq!(found, digest(columns, &losing), "{name}");
}

#[test]
fn every_position_of_small_boards_is_as_the_definition_says() {
    for rows in 1..=5 {
        for columns in 1..=9 {
            check(rows, columns);
        }
    }
}

/// From seven rows on there are steps, and threads; from nine rows on F of a row that only one thread has.
#[test]
fn so_is_every_position_of_boards_that_threads_share() {
    for (rows, columns) in [(6, 8), (7, 1), (7, 2), (7, 8), (8, 7), (9, 6), (10, 5)] {
        check(rows, columns);
    }
}

/// Atoms of many words, and triples beyond the masks.
#[test]
fn so_is_every_position_of_wide_boards() {
    for (rows, columns) in [(2, 70), (3, 40), (4, 21)] {
        check(rows, columns);
    }
}

#[test]
fn counts_and_openings_are_those_that_others_found() {
    let (summary, _) = solve(14, 14);
    assert_eq!(summary.losing(14, 14), 256_366);
    assert_eq!(summary.losing(8, 8), 322);
    let moves = |rows, columns| summary.opening(rows, columns);
    assert_eq!(moves(1, 1), []);
    assert_eq!(moves(6, 13), [(4, 12), (5, 9)]);
    assert_eq!(moves(8, 10), [(4, 9), (5, 6)]);
    assert_eq!(moves(9, 10), [(7, 8), (9, 5)]);
    for n in 2..=14 {
        assert_eq!(moves(1, n), [(1, 2)]);
        assert_eq!(moves(2, n), [(2, u32::try_from(n).unwrap())]);
        assert_eq!(moves(n, n), [(2, 2)]);
        for m in 1..=14 {
            let mirror = moves(m, n).into_iter().map(|(row, column)| (column, row));
            let mut mirror: Vec<_> = mirror.collect();
            mirror.sort_unstable();
            assert_eq!(moves(n, m), mirror);
        }
    }
}

#[test]
fn a_position_is_what_a_first_move_leaves_or_it_is_not() {
    let cut = |rows: &[u8]| {
        FirstMove::leading_to(rows).map(|cut| (cut.rows, cut.columns, cut.row, cut.column))
    };
    assert_eq!(cut(&[5, 5, 3, 3, 0]), Some((4, 5, 3, 4)));
    assert_eq!(cut(&[5, 1]), Some((2, 5, 2, 2)));
    for other in [&[5, 5, 0][..], &[5, 4, 3], &[0, 0], &[5]] {
        assert_eq!(cut(other), None);
    }
    for first in [&[5, 5][..], &[5, 3, 3], &[5, 3, 0], &[5, 0], &[0, 0]] {
        assert!(FirstMove::may_lead_to(first), "{first:?}");
    }
    assert!(!FirstMove::may_lead_to(&[5, 4, 3]));
}

#[test]
fn boards_beyond_the_limits_are_refused() {
    for (rows, columns) in [(0, 1), (1, 0), (33, 1), (1, 251), (32, 250)] {
        let refused = Bounds::new(rows, columns);
        assert!(
            matches!(refused, Err(ThinError::Size { .. })),
            "{rows}x{columns}"
        );
    }
    assert!(Bounds::new(32, 8).is_ok() && Bounds::new(4, 250).is_ok());
}
