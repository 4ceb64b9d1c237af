//! The Trojan horse on a board moves two columns left and one row up, or one left and two up. Who cannot move loses.
//!
//! **Theorem.** With value(row, column) = mex{value(row − 1, column − 2), value(row − 2, column − 1)} over the moves
//! that stay on the board, a position is losing if and only if its value is 0. There are at most two moves, so no value
//! is more than 2, and the values of a board are filled in one after the other, from the upper left.
//!
//! A position is the cell of the piece, as `4,7`: row and column, (1,1) being upper left. A move is its new cell.

use crate::answer::{GameAnswer, Theory};
use crate::board::cells;
use crate::error::GameError;
use crate::game::{Game, Move, mex};
use crate::text::{cell, list};

const LENGTH_MAX: u32 = 100;
/// Rows up, columns to the left.
const STEPS: [(u32, u32); 2] = [(1, 2), (2, 1)];

#[derive(Debug)]
pub(crate) struct Horse;

/// The values of a board, by row and column from 1: the first of each stand for what is off the board.
fn values(rows: u32, columns: u32) -> Vec<Vec<Option<u32>>> {
    let mut values = vec![vec![None; columns as usize + 1]; rows as usize + 1];
    for (row, column) in cells(&vec![columns; rows as usize]) {
        let steps = steps((row, column));
        let reached = steps.filter_map(|(row, column)| values[row as usize][column as usize]);
        values[row as usize][column as usize] = Some(mex(reached));
    }
    values
}

fn steps((row, column): (u32, u32)) -> impl Iterator<Item = (u32, u32)> {
    let stays = move |&(up, left): &(u32, u32)| row > up && column > left;
    let steps = STEPS.into_iter().filter(stays);
    steps.map(move |(up, left)| (row - up, column - left))
}

impl Game for Horse {
    /// Row and column, counted from 1.
    type Position = (u32, u32);

    fn moves(&self, &cell: &(u32, u32)) -> Vec<(Move, (u32, u32))> {
        let steps = steps(cell).map(|(row, column)| (vec![row, column], (row, column)));
        steps.collect()
    }
}

impl Theory for Horse {
    const NAME: &'static str = "horse";

    fn position(&self, text: &str) -> Result<(u32, u32), GameError> {
        let form = "row and column from 1 to 100, as 4,7";
        cell(text, LENGTH_MAX).ok_or_else(|| GameError::syntax(text, form))
    }

    fn text(&self, &(row, column): &(u32, u32)) -> String {
        list(&[row, column])
    }

    fn parts(&self, positions: &[(u32, u32)]) -> Result<Vec<Vec<u32>>, GameError> {
        let values = values(positions[0].0, positions[0].1);
        let value = |&(row, column): &(u32, u32)| values[row as usize][column as usize];
        let parts = |cell| value(cell).into_iter().collect();
        Ok(positions.iter().map(parts).collect())
    }

    /// The values of the board up to the piece.
    fn explain(&self, &(rows, columns): &(u32, u32), _: &GameAnswer) -> Vec<String> {
        let line = |row: &Vec<_>| row.iter().flatten().map(u32::to_string).collect();
        values(rows, columns)[1..].iter().map(line).collect()
    }

    fn losing(&self, size: u32) -> Result<Vec<(u32, u32)>, GameError> {
        GameError::check(size as usize, LENGTH_MAX as usize, "rows and columns")?;
        let values = values(size, size);
        let is_losing =
            |&(row, column): &(u32, u32)| values[row as usize][column as usize] == Some(0);
        let board = vec![size; size as usize];
        Ok(cells(&board).filter(is_losing).collect())
    }
}
