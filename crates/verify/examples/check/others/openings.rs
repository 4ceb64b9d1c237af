//! The winning first moves of rectangles.

use chomp_table::{Cell, Position, Table, Word};
use chomp_verify::join::{Query, join};
use chomp_verify::{CheckError, UNWATCHED};

use super::ensure;

/// The winning first moves of rectangles of up to 20 columns, as others have found them.
///
/// The first line has the rectangles of 3 rows and 4 to 20 columns, the second those of 4 rows and
/// 5 to 20 columns, and so on. A move is `row,column`; the moves of a rectangle ascend, with a `+`
/// between them.
///
/// They are from the picture `chomp_winning_moves_color.png` of the repository
/// Kitatai/chomp-memoized-search, which counts from 0. It has the pairs that were known before:
/// 8x10 (K. Thompson), 9x10 and 6x13.
const MORE_COLUMNS: &str = include_str!("openings.txt");

/// A rectangle and its winning first moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Number of rows, at most that of the columns.
    pub(crate) rows: u32,
    /// Number of columns.
    pub(crate) columns: u32,
    /// The cells that lead to a losing position, ascending.
    pub(crate) moves: Vec<Cell>,
}

/// All rectangles that the table covers, without those of more rows than columns (which are mirror images) and without
/// 1x1, and the moves from them to positions that the table lists. Fails if the table cannot be read.
pub(crate) fn openings(table: &Table) -> Result<Vec<Opening>, CheckError> {
    let bits = table.manifest().bits;
    let mut openings = Vec::new();
    let (mut moves, mut queries) = (Vec::new(), Vec::new());
    for rows in 1..=bits / 2 {
        for columns in rows.max(2)..=bits - rows {
            let rectangle = Position::new(vec![columns; rows as usize]);
            let rectangle = Word::from(&rectangle.expect("a rectangle within the table"));
            for (cell, next) in rectangle.moves() {
                let tag = u32::try_from(moves.len()).expect("a few hundred thousand moves");
                queries.push(Query::new(next, tag));
                moves.push((openings.len(), cell));
            }
            openings.push(Opening {
                rows,
                columns,
                moves: Vec::new(),
            });
        }
    }
    join(table, &mut queries, UNWATCHED, |tag| {
        let (opening, cell) = moves[tag as usize];
        openings[opening].moves.push(cell);
    })?;
    for opening in &mut openings {
        opening.moves.sort_unstable();
    }
    Ok(openings)
}

/// Compares with what is known of all rectangles, and with what others have found for those of up to 20x20. Returns how
/// many rectangles were compared with what others have found. Fails if a rectangle has other winning first moves.
pub(crate) fn check_openings(openings: &[Opening]) -> Result<u64, CheckError> {
    let mut compared = 0;
    for opening in openings {
        let (rows, columns) = (opening.rows, opening.columns);
        let found: Vec<_> = opening.moves.iter().map(|m| (m.row, m.column)).collect();
        let wrong = |so: &str| {
            format!("the table has the winning first moves {found:?} of {rows}x{columns}; {so}")
        };
        // If taking the last cell does not win, some answer to it does; and that answer is a move
        // that the first player can make at once.
        ensure(!found.is_empty(), || {
            wrong("there is one for each rectangle")
        })?;
        let proved = match (rows, columns) {
            (1, _) => Some((1, 2)),
            (2, _) => Some((2, columns)),
            _ if rows == columns => Some((2, 2)),
            _ => None,
        };
        if let Some(only) = proved {
            ensure(found == [only], || {
                wrong(&format!("{only:?} is the only one"))
            })?;
        }
        ensure(rows != 3 || found.len() == 1, || {
            wrong("three rows have exactly one")
        })?;
        if let Some(known) = known(rows, columns) {
            ensure(found == known, || {
                wrong(&format!("others have found {known:?}"))
            })?;
            compared += 1;
        }
    }
    Ok(compared)
}

/// The winning first moves that others have found, of a rectangle with more columns than rows, 3
/// rows at least and 20 columns at most.
fn known(rows: u32, columns: u32) -> Option<Vec<(u32, u32)>> {
    let line = MORE_COLUMNS.lines().nth(rows.checked_sub(3)? as usize)?;
    let moves = line
        .split(' ')
        .nth(columns.checked_sub(rows + 1)? as usize)?;
    let number = |text: &str| text.parse().expect("a number");
    let cell = |text: &str| {
        let (row, column) = text.split_once(',').expect("a row and a column");
        (number(row), number(column))
    };
    Some(moves.split('+').map(cell).collect())
}
