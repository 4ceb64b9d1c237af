//! Sums: boards side by side, where a move takes a cell of one of them, but no poison. The value of a sum is the XOR of
//! the Grundy values of its boards, and a player loses who finds the value 0.

use chomp_table::Cell;

use crate::drawing;
use crate::inside::{Inside, TooManyInside, cells, cut};

/// The answer about a sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumAnswer {
    /// The Grundy value of the sum, 0 if it is losing.
    pub value: u32,
    /// The boards, in order.
    pub boards: Vec<BoardAnswer>,
}

impl SumAnswer {
    /// The moves that win, each as (board, row, column), all counted from 1.
    pub fn winning_moves(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        let of_board = |(number, board): (u32, &BoardAnswer)| {
            let moves = board.winning_moves.clone().into_iter();
            moves.map(move |(row, column)| (number, row, column))
        };
        (1..).zip(&self.boards).flat_map(of_board)
    }
}

/// The answer about a board of a sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardAnswer {
    /// The Grundy value of the board, that of the poison alone being 0.
    pub value: u32,
    /// The moves on this board that win the sum, as (row, column), by row, then by column.
    pub winning_moves: Vec<(u32, u32)>,
}

/// Why a sum has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum SumError {
    /// A board is empty. No move of a sum leaves such a board, as none takes the poison.
    #[error("a sum has a board without cells")]
    NoCells,
    #[error("{board} is too large: {many}")]
    TooLarge { board: String, many: TooManyInside },
}

/// The answer about a sum of boards, as rows. Fails if a board has no cells, or more than `most` positions inside.
pub fn sum(boards: &[Vec<u32>], most: u64) -> Result<SumAnswer, SumError> {
    let mut solved = Vec::new();
    for rows in boards {
        if rows.is_empty() {
            return Err(SumError::NoCells);
        }
        let inside = Inside::values(rows, most).map_err(|many| SumError::TooLarge {
            board: drawing::name(rows),
            many,
        })?;
        let left = |cell| (cell, inside.result_of(&cut(rows, cell)));
        // The first cell is the poison.
        let left: Vec<(Cell, u32)> = cells(rows).skip(1).map(left).collect();
        solved.push((inside.result_of(rows), left));
    }
    let total = solved.iter().fold(0, |all, (value, _)| all ^ value);
    // A move wins if it leaves the value 0: if it gives its board the XOR of the values of the others.
    let answer = |(value, mut left): (u32, Vec<(Cell, u32)>)| {
        left.retain(|&(_, left)| total > 0 && left == value ^ total);
        let pairs = left.iter().map(|(cell, _)| (cell.row, cell.column));
        let winning_moves = pairs.collect();
        BoardAnswer {
            value,
            winning_moves,
        }
    };
    Ok(SumAnswer {
        value: total,
        boards: solved.into_iter().map(answer).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Boards = Vec<Vec<u32>>;

    /// The moves (board, row, column), and the boards that they leave.
    fn moves(boards: &[Vec<u32>]) -> Vec<((u32, u32, u32), Boards)> {
        let mut moves = Vec::new();
        for (number, (board, rows)) in (1..).zip(boards.iter().enumerate()) {
            for cell in cells(rows).filter(|cell| cell.row + cell.column > 2) {
                let mut left = boards.to_vec();
                left[board] = cut(rows, cell);
                moves.push(((number, cell.row, cell.column), left));
            }
        }
        moves
    }

    /// The Grundy value by the definition, straight from the rules of a sum.
    fn value(boards: &[Vec<u32>]) -> u32 {
        let left: Vec<u32> = moves(boards).iter().map(|(_, left)| value(left)).collect();
        (0..100).find(|value| !left.contains(value)).unwrap()
    }

    #[test]
    fn sums_are_answered_as_the_rules_say() {
        let boards: [&[u32]; 6] = [&[1], &[2, 1], &[2, 2], &[3], &[1, 1], &[3, 1, 1]];
        let mut losing = 0;
        for one in boards {
            for other in boards {
                let sum_of = [one.to_vec(), other.to_vec()];
                let answer = sum(&sum_of, 100).unwrap();
                assert_eq!(answer.value, value(&sum_of), "{sum_of:?}");
                let mut expected = moves(&sum_of);
                expected.retain(|(_, left)| value(left) == 0);
                let expected = expected.iter().map(|(cell, _)| *cell);
                assert!(answer.winning_moves().eq(expected), "{sum_of:?}");
                losing += usize::from(answer.value == 0);
            }
        }
        assert!((6..30).contains(&losing), "{losing}");
        let none = sum(&[], 100).unwrap();
        assert_eq!((none.value, none.boards.len()), (0, 0));
    }

    #[test]
    fn boards_without_an_answer_are_named() {
        let refused = |board: &[u32]| {
            sum(&[vec![2], board.to_vec()], 100)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(refused(&[]), "a sum has a board without cells");
        let large = "20x20 is too large: at least 400 positions are inside, and 100 are the most";
        assert_eq!(refused(&[20; 20]), large);
    }
}
