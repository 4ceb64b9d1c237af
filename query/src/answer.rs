//! All that is to be said of one position.

use chomp_table::{Cell, Position, TableError, Word};
use serde::Serialize;

use crate::Losing;

/// A position, and what a table says of it. As JSON, a cell is `[row, column]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The lengths of its rows, from the poisoned corner outwards.
    pub rows: Vec<u32>,
    /// Its word.
    pub word: u64,
    /// First row + number of rows.
    pub bits: u32,
    /// The number of its cells.
    pub area: u32,
    /// Whether who is to move loses against perfect play.
    pub losing: bool,
    /// The moves that leave a losing position, by row, then by column.
    pub winning_moves: Vec<(u32, u32)>,
    /// The rows of what these moves leave, in the same order: all losing positions that are one
    /// move away.
    pub losing_positions: Vec<Vec<u32>>,
    /// What a perfect player takes: see [`reply`]. There is none on the empty board.
    pub reply: Option<(u32, u32)>,
}

/// What `table` says of `position`.
///
/// # Errors
///
/// If the table does not cover the position, or the part of it that holds the answer cannot be
/// read or is damaged.
pub fn answer(table: &impl Losing, position: &Position) -> Result<Answer, TableError> {
    let word = Word::from(position);
    let losing = table.are_losing(&[word])?[0];
    let winning = if losing {
        Vec::new()
    } else {
        winning_moves(table, word)?
    };
    let cells: Vec<Cell> = winning.iter().map(|&(cell, _)| cell).collect();
    Ok(Answer {
        rows: position.rows().to_vec(),
        word: word.get(),
        bits: word.bits(),
        area: word.area(),
        losing,
        reply: reply(position, &cells).map(pair),
        winning_moves: cells.into_iter().map(pair).collect(),
        losing_positions: winning
            .into_iter()
            .map(|(_, next)| Position::from(next).rows().to_vec())
            .collect(),
    })
}

/// The moves from `word` that leave a losing position, and what they leave, by row, then by column.
///
/// # Errors
///
/// As for [`answer`].
pub fn winning_moves(table: &impl Losing, word: Word) -> Result<Vec<(Cell, Word)>, TableError> {
    let moves: Vec<(Cell, Word)> = word.moves().collect();
    let nexts: Vec<Word> = moves.iter().map(|&(_, next)| next).collect();
    let losing = table.are_losing(&nexts)?;
    let winning = moves.into_iter().zip(losing).filter(|(_, losing)| *losing);
    let mut winning: Vec<(Cell, Word)> = winning.map(|(taken, _)| taken).collect();
    winning.sort_unstable_by_key(|&(cell, _)| cell);
    Ok(winning)
}

/// The move of a perfect player who knows the `winning` moves: the first of them. If there is
/// none, every move loses, and it takes the single cell that is farthest from the edges of the
/// board: the most is left to go wrong for the other one.
///
/// Farthest is the corner of the border with the largest min(row, column), then the largest
/// row + column, then the smallest row.
pub fn reply(position: &Position, winning: &[Cell]) -> Option<Cell> {
    let rows = position.rows();
    let corner = |(index, &column): (usize, &u32)| {
        let below = rows.get(index + 1).copied().unwrap_or(0);
        let row = u32::try_from(index).expect("at most 64 rows") + 1;
        (below < column).then_some(Cell { row, column })
    };
    let corners = rows.iter().enumerate().filter_map(corner);
    let inner = |cell: &Cell| {
        let depth = cell.row.min(cell.column);
        (depth, cell.row + cell.column, u32::MAX - cell.row)
    };
    winning
        .first()
        .copied()
        .or_else(|| corners.max_by_key(inner))
}

fn pair(cell: Cell) -> (u32, u32) {
    (cell.row, cell.column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ByDefinition;

    fn of(text: &str) -> Answer {
        answer(&ByDefinition::new(14), &text.parse().unwrap()).unwrap()
    }

    #[test]
    fn small_positions() {
        let empty = of("0");
        assert!(!empty.losing);
        assert_eq!((empty.winning_moves, empty.reply), (vec![], None));

        let poison = of("1");
        assert!(poison.losing);
        assert_eq!(poison.reply, Some((1, 1)));

        let row = of("1x5");
        assert_eq!(row.winning_moves, [(1, 2)]);
        assert_eq!(row.losing_positions, [[1]]);
        assert_eq!(row.reply, Some((1, 2)));

        let square = of("4x4");
        assert_eq!((square.bits, square.area), (8, 16));
        assert_eq!(square.winning_moves, [(2, 2)]);
        assert_eq!(square.losing_positions, [[4, 1, 1, 1]]);
    }

    #[test]
    fn a_lost_game_goes_on_far_from_the_edges() {
        for (rows, expected) in [
            ("4,1,1,1", (1, 4)),
            ("2,1", (1, 2)),
            ("3,1,1", (1, 3)),
            ("5,3,3,2", (3, 3)),
            ("5,4,3,2,1", (3, 3)),
            ("4,3,2,1", (2, 3)),
            ("8,8,2,2", (2, 8)),
        ] {
            let position: Position = rows.parse().unwrap();
            let cell = reply(&position, &[]).unwrap();
            assert_eq!(pair(cell), expected, "{rows}");
            let taken = Word::from(&position).moves();
            let left = taken.filter(|&(other, _)| other == cell);
            let left: Vec<u32> = left.map(|(_, next)| next.area()).collect();
            assert_eq!(
                left,
                [Word::from(&position).area() - 1],
                "one cell is taken"
            );
        }
    }

    /// Every position of 12 bits, against the rules of the game.
    #[test]
    fn every_small_position_agrees_with_the_definition() {
        let table = ByDefinition::new(12);
        for index in 0..1u64 << 11 {
            let word = Word::new(index * 2);
            let position = Position::from(word);
            let answer = answer(&table, &position).unwrap();
            assert_eq!(answer.losing, table.is_losing(word));
            assert_eq!(answer.word, word.get());
            assert_eq!(
                (answer.bits, answer.area),
                (word.bits(), position.rows().iter().sum())
            );
            let mut expected = Vec::new();
            for row in 1..=position.rows().len() {
                for column in 1..=position.rows()[row - 1] {
                    let mut rows = position.rows().to_vec();
                    for length in &mut rows[row - 1..] {
                        *length = (*length).min(column - 1);
                    }
                    rows.retain(|&length| length > 0);
                    if table.is_losing(Word::from(&Position::new(rows.clone()).unwrap())) {
                        expected.push(((u32::try_from(row).unwrap(), column), rows));
                    }
                }
            }
            let found = answer.winning_moves.iter().copied();
            let found: Vec<_> = found.zip(answer.losing_positions).collect();
            assert_eq!(found, expected, "{position}");
            if let Some(best) = expected.first() {
                assert_eq!(answer.reply, Some(best.0));
            }
            assert_eq!(answer.reply.is_none(), word == Word::EMPTY);
        }
    }

    #[test]
    fn larger_positions_are_refused() {
        let table = ByDefinition::new(8);
        let error = answer(&table, &"5x4".parse().unwrap()).unwrap_err();
        assert!(matches!(
            error,
            TableError::Beyond {
                bits: 9,
                table_bits: 8
            }
        ));
    }
}
