//! Boards that go on without end, against boards that are so large that the end does not matter.

use std::collections::HashMap;

use super::common::answer;
use crate::GameError;
use crate::board::{self, Rows};

/// Infinite rows and columns have this length here.
const FAR: u32 = 40;
/// The rows and columns in which moves are tried. All finite parts of the positions have far fewer.
const NEAR: u32 = 14;

/// Rows of a large board that mean a text.
fn rows_of(text: &str) -> Rows {
    let length = |text: &str| match text {
        "w" => FAR,
        digits => digits.parse().unwrap(),
    };
    let lengths = text.trim_end_matches("...").split(',');
    let mut rows: Rows = if let Some((rows, columns)) = text.split_once('x') {
        vec![length(columns); length(rows) as usize]
    } else {
        lengths.map(length).collect()
    };
    if text.ends_with("...") {
        rows.resize(FAR as usize, rows[rows.len() - 1]);
    }
    rows
}

fn left(rows: &[u32], row: u32, column: u32) -> Rows {
    let length = |(at, &length): (u32, &u32)| {
        if at < row {
            length
        } else {
            length.min(column - 1)
        }
    };
    let cut = (1..).zip(rows).map(length);
    cut.take_while(|&length| length > 0).collect()
}

/// Plain recursion.
fn is_lost(rows: &[u32], known: &mut HashMap<Rows, bool>) -> bool {
    if let Some(&lost) = known.get(rows) {
        return lost;
    }
    let mut moves = board::cells(rows);
    let lost =
        !rows.is_empty() && !moves.any(|(row, column)| is_lost(&left(rows, row, column), known));
    known.insert(rows.to_vec(), lost);
    lost
}

/// The three infinite boards, or a finite one that is lost.
fn is_claimed(rows: &[u32], known: &mut HashMap<Rows, bool>) -> bool {
    let is_far = rows.first() == Some(&FAR) || rows.len() == FAR as usize;
    let three = || ["w,w", "2...", "w,1..."].map(rows_of);
    if is_far {
        three().iter().any(|other| other == rows)
    } else {
        is_lost(rows, known)
    }
}

/// All boards of four rows as long as 0 to 3 or infinite, and rows below that are all 0 to 3 or infinite.
fn family() -> Vec<String> {
    let mut family = vec![(0, Vec::new())];
    for _ in 0..5 {
        let longer = |(from, rows): (usize, Vec<&'static str>)| {
            let lengths = ["w", "3", "2", "1", "0"].into_iter().enumerate();
            let longer = lengths.skip(from);
            longer.map(move |(from, length)| (from, [&rows[..], &[length]].concat()))
        };
        family = family.into_iter().flat_map(longer).collect();
    }
    let texts = family.into_iter().map(|(_, rows)| rows.join(",") + "...");
    texts
        .filter(|text| text.contains('w') || !text.ends_with("0..."))
        .collect()
}

/// No move among many leads from what is called losing to what is called losing, and one does from all else: as every
/// game ends, this is what losing means.
#[test]
fn losing_boards_and_winning_moves_are_those_of_the_definition() {
    let (mut known, mut losing) = (HashMap::new(), 0);
    let family = family();
    assert_eq!(family.len(), 126 - 35);
    for text in family {
        let answer = answer("transfinite", &text).unwrap();
        let rows = rows_of(&text);
        let is_claimed = |rows: &[u32], known: &mut _| {
            let rows: Rows = rows
                .iter()
                .copied()
                .take_while(|&length| length > 0)
                .collect();
            is_claimed(&rows, known)
        };
        let mut winning = Vec::new();
        for row in 1..=NEAR.min(u32::try_from(rows.len()).unwrap()) {
            for column in 1..=NEAR.min(rows[row as usize - 1]) {
                if is_claimed(&left(&rows, row, column), &mut known) {
                    winning.push(vec![row, column]);
                }
            }
        }
        assert_eq!(answer.losing, is_claimed(&rows, &mut known), "{text}");
        assert_eq!(answer.losing, winning.is_empty(), "{text}");
        assert_eq!(answer.winning_moves, winning, "{text}");
        assert_eq!(answer.value, answer.losing.then_some(0), "{text}");
        losing += usize::from(answer.losing);
        for choice in &answer.moves {
            let [row, column] = choice.name[..] else {
                panic!("{choice:?}")
            };
            let mut named = rows_of(&choice.position);
            named.retain(|&length| length > 0);
            let mut expected = left(&rows, row, column);
            expected.retain(|&length| length > 0);
            assert_eq!(named, expected, "{text} {choice:?}");
        }
    }
    assert_eq!(losing, 3);
}

/// One infinite row, or column, above or beside larger finite parts: the bound holds.
#[test]
fn one_infinite_row_or_column_has_one_winning_move() {
    let mut known = HashMap::new();
    let mut furthest = 0;
    for below in board::all(9) {
        let first = below.first().copied().unwrap_or(0);
        let cells: u32 = below.iter().sum();
        let row = |text: String| answer("transfinite", &text).unwrap();
        let lengths = below.iter().map(|length| format!(",{length}"));
        let wide = row(format!("w{}", lengths.collect::<String>()));
        // The mirror image: a column more in each row.
        let longer = below.iter().map(|length| format!("{},", length + 1));
        let high = row(format!("{}1...", longer.collect::<String>()));
        let [[1, cut]] = &wide
            .winning_moves
            .iter()
            .map(|name| [name[0], name[1]])
            .collect::<Vec<_>>()[..]
        else {
            panic!("{wide:?}")
        };
        assert!(*cut <= first.max(1) + cells + 1, "{below:?}");
        furthest = furthest.max(*cut);
        let rows = [&[FAR], &below[..]].concat();
        assert!(is_lost(&left(&rows, 1, *cut), &mut known), "{below:?}");
        assert!(
            matches!(&high.winning_moves[..], [name] if name[1] == 1),
            "{high:?}"
        );
    }
    assert_eq!(furthest, 11);
}

#[test]
fn what_is_not_known_is_said() {
    let said = |text: &str| {
        answer("transfinite", text)
            .unwrap()
            .explanation
            .pop()
            .unwrap()
    };
    let wins = "At most one other move wins, if any: in ";
    assert_eq!(said("w,w,2"), format!("{wins}row 1, beyond column 8."));
    assert_eq!(said("w,w,w,5"), format!("{wins}row 1, beyond column 12."));
    assert_eq!(said("3,3,2..."), format!("{wins}column 1, beyond row 8."));
    // One was found, or there can be none.
    for text in [
        "w,w,3", "3xw", "w,5", "2xw", "wxw", "w,w,1...", "3,2...", "w,3...",
    ] {
        assert!(said(text).starts_with("Of all"), "{text}");
    }
}

#[test]
fn texts_of_endless_boards() {
    let normal = |text: &str| answer("transfinite", text).map(|answer| answer.position);
    for (text, expected) in [
        ("w,w,5", "w,w,5"),
        ("W, ω ,5,0", "w,w,5"),
        ("ω", "w"),
        ("w,w", "2xw"),
        ("3xw", "3xw"),
        ("1 x ω", "w"),
        ("ω×ω", "wxw"),
        ("w...", "wxw"),
        ("w,w,w…", "wxw"),
        ("3...", "wx3"),
        ("wx1", "wx1"),
        ("w,4,1,1...", "w,4,1..."),
        ("5,3,0...", "5,3"),
        ("2x3", "2x3"),
        ("[5 4]", "5,4"),
        ("0", "0"),
        ("wx0", "0"),
    ] {
        assert_eq!(normal(text).unwrap(), expected, "{text}");
        assert_eq!(normal(expected).unwrap(), expected);
    }
    let many = "w,".repeat(256) + "w";
    for text in [
        "", "w,", "...", "5,w", "1,2...", "w,...", "w..", "ww", "wx", "xw", "wxwxw", "w,-1",
        "w,1001", "257xw", "w@1", &many,
    ] {
        let refused = answer("transfinite", text);
        assert!(matches!(refused, Err(GameError::Syntax(..))), "{text}");
    }
    for text in [
        "w,500,1",
        "w,10,10,10,10,10,10,10,10,10",
        "100xw",
        "300,1,1...",
        "wx1000",
    ] {
        let refused = answer("transfinite", text);
        assert!(matches!(refused, Err(GameError::TooLarge(..))), "{text}");
    }
}
