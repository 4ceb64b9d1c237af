//! The winning first moves of rectangles.

use chomp_table::{Cell, Position, TableError, Word};
use serde::Serialize;

use crate::Losing;
use crate::answer::winning_moves;

/// The winning first moves of a rectangle. As JSON, a cell is `[row, column]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Opening {
    /// The number of rows.
    pub rows: u32,
    /// The number of columns.
    pub columns: u32,
    /// The winning moves, by row, then by column. There is at least one on any board but 1x1.
    pub moves: Vec<(u32, u32)>,
}

/// The winning first moves of the board with so many rows and columns.
///
/// # Errors
///
/// If the table does not cover the board, or the part of it that holds the answer cannot be read
/// or is damaged.
///
/// # Panics
///
/// If a number is 0, or the two are more than 64 together.
pub fn opening(table: &impl Losing, rows: u32, columns: u32) -> Result<Opening, TableError> {
    let board = Word::from(&board(rows, columns));
    // The board itself has to be covered, whatever its moves leave.
    table.are_losing(&[board])?;
    let moves = winning_moves(table, &[board])?.into_iter().flatten();
    Ok(Opening {
        rows,
        columns,
        moves: moves
            .map(|(Cell { row, column }, _)| (row, column))
            .collect(),
    })
}

/// The boards that a table of `bits` bits covers, with rows <= columns: by rows, then by columns.
pub fn boards(bits: u32) -> impl Iterator<Item = (u32, u32)> {
    (1..=bits / 2).flat_map(move |rows| (rows..=bits - rows).map(move |columns| (rows, columns)))
}

/// The winning first moves of all [`boards`] that a table covers.
///
/// # Errors
///
/// If a part of the table cannot be read or is damaged.
pub fn openings(table: &impl Losing) -> Result<Vec<Opening>, TableError> {
    // All moves of all boards at once, so that each part of the table is read once.
    let words: Vec<Word> = boards(table.bits())
        .map(|(rows, columns)| Word::from(&board(rows, columns)))
        .collect();
    let winning = winning_moves(table, &words)?.into_iter();
    let openings = boards(table.bits()).zip(winning);
    let openings = openings.map(|((rows, columns), moves)| Opening {
        rows,
        columns,
        moves: moves
            .iter()
            .map(|(cell, _)| (cell.row, cell.column))
            .collect(),
    });
    Ok(openings.collect())
}

fn board(rows: u32, columns: u32) -> Position {
    let rows = usize::try_from(rows).expect("rows fit in memory");
    Position::new(vec![columns; rows]).expect("a board of at most 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ByDefinition;

    #[test]
    fn known_openings() {
        let table = ByDefinition::new(18);
        let moves = |rows, columns| opening(&table, rows, columns).unwrap().moves;
        assert_eq!(moves(1, 1), []);
        for n in 2..=9 {
            assert_eq!(moves(n, n), [(2, 2)]);
            assert_eq!(moves(1, n), [(1, 2)]);
            assert_eq!(moves(n, 1), [(2, 1)]);
            assert_eq!(moves(2, n), [(2, n)]);
        }
        assert_eq!(moves(8, 10), [(4, 9), (5, 6)]);
        assert_eq!(moves(10, 8), [(6, 5), (9, 4)]);
    }

    #[test]
    fn all_at_once_are_each_of_them() {
        for bits in 0..=14 {
            let table = ByDefinition::new(bits);
            let mut expected = Vec::new();
            for rows in 1..=bits {
                for columns in rows..=bits {
                    if rows + columns <= bits {
                        expected.push(opening(&table, rows, columns).unwrap());
                    }
                }
            }
            assert_eq!(openings(&table).unwrap(), expected, "{bits} bits");
        }
    }

    #[test]
    fn larger_boards_are_refused() {
        // All moves on a board of one row leave fewer bits.
        for (rows, columns) in [(4, 5), (1, 8), (8, 1)] {
            let error = opening(&ByDefinition::new(8), rows, columns).unwrap_err();
            assert!(matches!(error, TableError::Beyond { bits: 9, .. }));
        }
    }
}
