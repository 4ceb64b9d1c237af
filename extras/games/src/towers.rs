//! Towers on a chessboard: in each column stands one tower of each player. A move takes a tower of one's own along its
//! column, forwards or back, as far as one likes, but not onto the other or past it. Who cannot move loses.
//!
//! **Theorem.** A position is losing exactly if the XOR of the gaps between the two towers of each column is 0. For the
//! gaps are heaps of Nim, to which one may also add by moving back (Poker Nim, or Northcott's game). In vain: the other
//! one advances as far, and the gap is what it was. Whoever wins only advances, for which rows are limited, so the game
//! ends. The players' moves differ, and a move back is undone at once: so the value told is that of Nim.
//!
//! A position is its columns, as `1-8,3-5`: the row of the tower of who is to move, and that of the other one. What a
//! move leaves is written as the other player has it. A move is (column, new row).

use crate::answer::Theory;
use crate::error::GameError;
use crate::game::{Game, Move};
use crate::sum::balanced;
use crate::text::number;

const COLUMNS_MAX: usize = 8;
const FORM: &str = "the rows of both towers of each column, your own first, as 1-8,3-5: at most 8 columns of 8 rows";

#[derive(Debug)]
pub(crate) struct Towers {
    pub(crate) rows: u32,
}

pub(crate) const CHESSBOARD: Towers = Towers { rows: 8 };

/// The rows of one's own tower in each column, and of the other one.
type Columns = Vec<(u32, u32)>;

impl Game for Towers {
    type Position = Columns;

    /// Advances come first: a perfect player never moves back.
    fn moves(&self, columns: &Columns) -> Vec<(Move, Columns)> {
        let turned: Columns = columns.iter().map(|&(own, other)| (other, own)).collect();
        let mut moves = Vec::new();
        for (number, (index, &(own, other))) in (1..).zip(columns.iter().enumerate()) {
            let same_side = |&row: &u32| row != other && (row < other) == (own < other);
            for row in (1..=self.rows).filter(same_side).filter(|&row| row != own) {
                let mut next = turned.clone();
                next[index] = (other, row);
                moves.push((vec![number, row], next));
            }
        }
        moves.sort_by_key(|(name, _)| {
            let (own, other) = columns[name[0] as usize - 1];
            name[1].abs_diff(other) > own.abs_diff(other)
        });
        moves
    }
}

impl Theory for Towers {
    const NAME: &'static str = "towers";
    const PART: &'static str = "column";

    fn position(&self, text: &str) -> Result<Columns, GameError> {
        let row = |text: &str| number(text, self.rows).filter(|&row| row > 0);
        let column = |text: &str| {
            let (own, other) = text.split_once('-')?;
            row(own).zip(row(other)).filter(|(own, other)| own != other)
        };
        let columns: Option<Columns> = text.split(',').map(column).collect();
        let columns = columns.filter(|columns| columns.len() <= COLUMNS_MAX);
        columns.ok_or_else(|| GameError::syntax(text, FORM))
    }

    fn text(&self, columns: &Columns) -> String {
        let columns = columns.iter().map(|(own, other)| format!("{own}-{other}"));
        columns.collect::<Vec<_>>().join(",")
    }

    fn parts(&self, positions: &[Columns]) -> Result<Vec<Vec<u32>>, GameError> {
        let gap = |&(own, other): &(u32, u32)| own.abs_diff(other) - 1;
        let gaps = |columns: &Columns| columns.iter().map(gap).collect();
        Ok(positions.iter().map(gaps).collect())
    }

    /// One position for each way to choose the gaps, the largest first, with one's own towers in row 1.
    fn losing(&self, size: u32) -> Result<Vec<Columns>, GameError> {
        GameError::check(size as usize, COLUMNS_MAX, "columns")?;
        let columns: Vec<_> = (2..=self.rows).map(|row| (1, row - 2, (1, row))).collect();
        // The first one has no columns.
        Ok(balanced(&columns, size as usize, size).split_off(1))
    }
}
