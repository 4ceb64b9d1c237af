//! Chomp with poisons: the fast rule for three rows against the search and against the rule as it is told.

use crate::board;

use super::common::{agrees, answer, corner, rules};

#[test]
fn poisons_anywhere_agree_with_the_search() {
    let cells = || board::cells(&[4, 4, 4]).collect::<Vec<_>>();
    for one in cells() {
        for other in cells() {
            let game = rules(&format!("{},{}@{},{}", one.0, one.1, other.0, other.1));
            agrees(&game, vec![6, 6, 6]);
        }
    }
}

/// On larger boards, by the search, and by the words of the rule: moves are tried one after the other, and may take no
/// poison.
#[test]
fn three_rows_by_the_search_and_by_the_rule() {
    for (poisons, poisoned) in [
        ("", &[(0, 1)][..]),
        ("1,1", &[(0, 1)]),
        ("1,1@2,1", &[(0, 1), (1, 1)]),
        ("1,1@1,2", &[(0, 2)]),
        ("1,1@2,2", &[(0, 1), (1, 2)]),
        ("1,2@2,1", &[(0, 2), (1, 1)]),
        ("3,4@1,9", &[(2, 4), (0, 9)]),
    ] {
        let game = rules(poisons);
        agrees(&game, vec![18, 18, 18]);
        let is_there = |rows: [u32; 3]| poisoned.iter().all(|&(row, column)| rows[row] >= column);
        let mut losing = std::collections::BTreeSet::new();
        for a in 0..=24 {
            for b in 0..=a {
                for c in 0..=b {
                    let rows: [u32; 3] = [a, b, c];
                    let wins = (0..3).any(|row| {
                        (0..rows[row]).any(|left| {
                            let mut next = rows;
                            for length in &mut next[row..] {
                                *length = left.min(*length);
                            }
                            is_there(next) && losing.contains(&next)
                        })
                    });
                    if !wins && is_there(rows) {
                        losing.insert(rows);
                    }
                }
            }
        }
        assert!(
            game.of_three_rows(24).unwrap().into_iter().eq(losing),
            "{poisons}"
        );
    }
}

/// With both poisons in the corner's column two rows are as easy as one: of what is right of it, all may be taken.
#[test]
fn two_rows_with_two_poisons_in_a_column() {
    let found = rules("1,1@2,1").of_three_rows(40).unwrap();
    let found: Vec<_> = found.iter().filter(|rows| rows[2] == 0).collect();
    assert_eq!(found, [&[1, 1, 0]]);
    // Plain Chomp loses on two rows where the second has one cell less.
    let plain: Vec<_> = corner().of_three_rows(40).unwrap();
    for rows in plain.iter().filter(|rows| rows[2] == 0) {
        assert_eq!(rows[0], rows[1] + 1);
    }
}

#[test]
fn large_boards_have_no_values_but_the_same_losing_positions() {
    let text = "150,149,60@1,1@2,2";
    let large = answer("poisons", text).unwrap();
    let set: std::collections::HashSet<_> = rules("1,1@2,2")
        .of_three_rows(150)
        .unwrap()
        .into_iter()
        .collect();
    assert_eq!(large.moves.len(), 150 + 149 + 60);
    for choice in &large.moves {
        let [row, column] = choice.name[..] else {
            panic!("{choice:?}")
        };
        let mut rows = [150, 149, 60];
        for length in &mut rows[row as usize - 1..] {
            *length = (*length).min(column - 1);
        }
        assert_eq!(choice.losing, set.contains(&rows), "{choice:?}");
    }
    assert_eq!(
        (large.value, large.winning_moves.is_empty()),
        (None, large.losing)
    );
    assert!(answer("poisons", "3x60").unwrap().value.is_some());
}

#[test]
fn the_picture_has_the_positions_of_one_length() {
    let game = rules("1,1@2,2");
    let all = game.of_three_rows(40).unwrap();
    for row in 1..=3 {
        let (points, lines) = game.picture(40, &format!("{row}=10")).unwrap();
        let others = |rows: &[u32; 3]| {
            let mut rows = rows.to_vec();
            rows.remove(row - 1);
            (rows[0], rows[1])
        };
        let expected = all.iter().filter(|rows| rows[row - 1] == 10).map(others);
        assert_eq!(points, expected.collect::<Vec<_>>());
        assert!(points.len() > 3, "{row}");
        let longest = if row == 1 { 10 } else { 40 };
        assert_eq!(lines[0].len(), longest + 1);
        let drawn = lines.iter().zip(0..).flat_map(|(line, shorter)| {
            let signs = line.chars().zip(0..).filter(|&(sign, _)| sign == '#');
            signs.map(move |(_, longer)| (longer, shorter))
        });
        let mut drawn: Vec<(u32, u32)> = drawn.collect();
        drawn.sort_unstable();
        assert_eq!(drawn, points, "{row}");
    }
    for fix in ["0=1", "4=1", "1=41", "1", "=", "1=", "1=1=1"] {
        assert!(game.picture(40, fix).is_err(), "{fix}");
    }
    assert!(game.picture(1001, "1=1").is_err());
}
