//! The theorem of each game against the search, and values against published facts.

use std::collections::HashMap;
use std::hash::Hash;

use crate::answer::Theory;
use crate::board::{self, Rows};
use crate::game::GameValue;
use crate::horse::Horse;
use crate::ichomp::{IChomp, by_search};
use crate::nim::Nim;
use crate::search::Effort;
use crate::sum::Sum;
use crate::towers::{CHESSBOARD, Towers};
use crate::transfinite::Transfinite;

use super::common::{agrees, answer, corner, everything, none, search, value_of, verdicts};

#[test]
fn ichomp_is_the_sum_of_its_quadrants() {
    for start in [
        vec![vec![3, 2], vec![2, 2], vec![2], vec![1, 1]],
        vec![vec![4, 3, 1], vec![3, 3], Rows::new(), Rows::new()],
    ] {
        agrees(&IChomp(Effort::USUAL), start);
    }
}

#[test]
fn a_corner_that_may_be_taken_is_worth_one_more() {
    let mut boards = board::all(14);
    boards.remove(0);
    let kept = by_search(&boards, Effort::USUAL).unwrap();
    let taken = search(&none(), boards.clone()).unwrap();
    for (rows, kept) in boards.iter().zip(kept) {
        let expected = Some(GameValue::of(kept + 1));
        assert_eq!(taken.verdict(rows), expected, "{rows:?}");
    }
}

#[test]
fn values_of_rows_and_hooks() {
    for n in 1..=9 {
        assert_eq!(value_of(&[n]), n - 1);
        for m in 1..=9_u32 {
            let mut hook = vec![1; m as usize];
            hook[0] = n;
            assert_eq!(value_of(&hook), (n - 1) ^ (m - 1), "{hook:?}");
        }
    }
}

#[test]
fn values_of_two_rows() {
    for n in 1..=27_u32 {
        for m in 0..=n {
            let k = (n - 1) / 2;
            let less = |a| if 2 * a <= k { 2 * k - a } else { 3 * (k - a) };
            let expected = match (n % 2, m % 2) {
                (0, 0) => 2 * k + m / 2 + 1,
                (0, _) => less((m - 1) / 2),
                (_, 0) => less(m / 2),
                _ => 2 * k + (m - 1) / 2 + 1,
            };
            let rows: Rows = [n, m].into_iter().filter(|&length| length > 0).collect();
            assert_eq!(value_of(&rows), expected, "{rows:?}");
        }
    }
}

/// OEIS A112470, and that mirror images have the same value.
#[test]
fn positions_of_value_zero_are_counted() {
    let zeros = [
        0, 1, 0, 1, 0, 3, 0, 3, 2, 5, 2, 3, 10, 9, 10, 9, 14, 17, 14, 23, 42,
    ];
    let mut boards = board::all(20);
    boards.remove(0);
    let values = by_search(&boards, Effort::USUAL).unwrap();
    let values: HashMap<&Rows, u32> = boards.iter().zip(values).collect();
    let mut counted = [0; 21];
    for (rows, &value) in &values {
        if value == 0 {
            counted[rows.iter().sum::<u32>() as usize] += 1;
        }
        let column = |column: u32| rows.iter().filter(|&&length| length > column).count();
        let mirror: Rows = (0..rows[0])
            .map(|at| u32::try_from(column(at)).unwrap())
            .collect();
        assert_eq!(value, values[&mirror], "{rows:?}");
    }
    assert_eq!(counted, zeros);
}

#[test]
fn nim_is_bouton_s() {
    for rules in ["", "misere"] {
        agrees(&Nim::parse(rules).unwrap(), vec![6, 5, 4, 2]);
        agrees(&Nim::parse(rules).unwrap(), vec![1, 1, 1, 1, 2]);
    }
    assert_eq!(answer("nim", "3,4,5").unwrap().winning_moves, [[1, 1]]);
    assert_eq!(
        answer("nim", "7,6,5").unwrap().winning_moves,
        [[1, 3], [2, 2], [3, 1]]
    );
}

/// The towers of both may come and go, so nothing but the walk back from the ends can tell.
#[test]
fn towers_are_poker_nim() {
    for (rows, columns) in [(8, 1), (6, 2), (4, 3)] {
        let game = Towers { rows };
        let start = vec![(1, rows); columns];
        let solution = search(&game, [start.clone()]).unwrap();
        let all = everything(&game, start);
        assert!(all.len() > 20);
        for (position, verdict) in all.iter().zip(verdicts(&game, &all)) {
            let found = solution.verdict(position);
            let found = found.expect("somebody can force the end");
            assert_eq!(verdict.losing, found.losing, "{position:?}");
        }
    }
    // A retreat may win too, but there is always an advance.
    let answer = answer("towers", "2-5,1-5").unwrap();
    assert_eq!(answer.winning_moves, [[2, 2], [1, 1]]);
    assert_eq!(answer.reply, Some(vec![2, 2]));
}

#[test]
fn the_board_of_the_horse() {
    let board = [
        "00000000", "00111111", "01112222", "01100000", "01200111", "01201112", "01201100",
        "01201200",
    ];
    assert_eq!(answer("horse", "8,8").unwrap().explanation, board);
    agrees(&Horse, (30, 41));
    agrees(&Horse, (41, 30));
}

/// The list has the losing positions of `all`, each once; `all` has one order of parts.
fn lists<P: Clone + Eq + Hash + Ord>(
    mut listed: Vec<P>,
    all: impl IntoIterator<Item = P>,
    losing: impl Fn(&P) -> bool,
) {
    let count = listed.len();
    listed.sort();
    listed.dedup();
    assert_eq!(listed.len(), count, "none is there twice");
    let mut expected: Vec<P> = all.into_iter().filter(losing).collect();
    expected.sort();
    assert!(count > 5, "{count}");
    assert!(listed == expected, "{count} and {}", expected.len());
}

#[test]
fn lists_are_complete() {
    for rules in ["", "misere"] {
        let nim = Nim::parse(rules).unwrap();
        let heaps = |heaps: Rows| if heaps.is_empty() { vec![0] } else { heaps };
        let all: Vec<Rows> = board::all(14).into_iter().map(heaps).collect();
        let solution = search(&nim, all.clone()).unwrap();
        lists(nim.losing(14).unwrap(), all, |heaps| {
            solution.verdict(heaps).unwrap().losing
        });
    }

    let ichomp = IChomp(Effort::USUAL);
    let boards = board::all(7);
    let mut all = Vec::new();
    for (a, one) in boards.iter().enumerate() {
        for (b, two) in boards[..=a].iter().enumerate() {
            for (c, three) in boards[..=b].iter().enumerate() {
                for four in &boards[..=c] {
                    let position = vec![one.clone(), two.clone(), three.clone(), four.clone()];
                    if position.iter().flatten().sum::<u32>() <= 7 {
                        all.push(position);
                    }
                }
            }
        }
    }
    let solution = search(&Sum(none()), all.clone()).unwrap();
    lists(ichomp.losing(7).unwrap(), all, |position| {
        solution.verdict(position).unwrap().losing
    });

    let corner = corner();
    let solution = search(&corner, [vec![12; 3]]).unwrap();
    let all = everything(&corner, vec![12; 3]);
    lists(corner.losing(12).unwrap(), all, |rows| {
        solution.verdict(rows).unwrap().losing
    });

    let transfinite = Transfinite(Effort::USUAL);
    let all = board::all(14);
    let solution = search(&corner, all.clone()).unwrap();
    let finite = transfinite.losing(14).unwrap().split_off(3);
    let finite = finite.iter().map(|board| transfinite.text(board));
    let all = all.into_iter().map(|rows| (board::name(&rows), rows));
    let all: HashMap<String, Rows> = all.collect();
    lists(finite.collect(), all.keys().cloned(), |name| {
        solution.verdict(&all[name]).unwrap().losing
    });

    let cells = (1..=20).flat_map(|row| (1..=20).map(move |column| (row, column)));
    let solution = search(&Horse, cells.clone()).unwrap();
    lists(Horse.losing(20).unwrap(), cells, |cell| {
        solution.verdict(cell).unwrap().losing
    });

    let towers = CHESSBOARD;
    let column = |columns: Vec<(u32, u32)>| {
        let highest = columns.last().map_or(8, |&(_, row)| row);
        (2..=highest).map(move |row| [&columns[..], &[(1, row)]].concat())
    };
    let one: Vec<_> = column(Vec::new()).collect();
    let two: Vec<_> = one.iter().cloned().flat_map(column).collect();
    let three: Vec<_> = two.iter().cloned().flat_map(column).collect();
    let all = [one, two, three].concat();
    let losing =
        |columns: &Vec<(u32, u32)>| columns.iter().fold(0, |all, (_, row)| all ^ (row - 2)) == 0;
    lists(towers.losing(3).unwrap(), all, losing);
}
