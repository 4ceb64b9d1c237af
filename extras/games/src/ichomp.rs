//! iChomp: four boards of Chomp, the quadrants, meet with their corners in the middle of a bar of chocolate. A move
//! takes a cell and all beyond it, outwards, in its quadrant; no cell is poisoned. Who takes the last cell wins.
//!
//! **Theorem.** A position is losing if and only if the XOR of the values of its quadrants is 0. An empty quadrant has
//! the value 0. Any other one has one more than the same board in Chomp, where the poisoned corner may not be taken: to
//! take it is one more move from every board, and leads to 0, so by induction every value is one higher.
//!
//! A position is up to four boards, as `4x4/3,1/2/0`, others empty. A move is (quadrant, row, column) from the middle.

use std::collections::{HashMap, HashSet};

use crate::answer::Theory;
use crate::board::{self, Rows};
use crate::error::GameError;
use crate::game::{Game, Move};
use crate::poisons::Poisons;
use crate::search::{Effort, search};
use crate::sum::{Sum, balanced};

const QUADRANTS: usize = 4;
const FORM: &str = "at most four boards, as 4x4/3,1/2/0";
/// The most cells of positions in a list.
const LIST_MAX: usize = 16;

pub(crate) fn by_search(boards: &[Rows], effort: Effort) -> Result<Vec<u32>, GameError> {
    let chomp = Poisons::new(vec![(1, 1)], effort);
    let solution = search(&chomp, boards.iter().cloned(), effort)?;
    let value = |rows| solution.verdict(rows)?.value;
    let value = |rows| value(rows).expect("the game goes on, and ends");
    Ok(boards.iter().map(value).collect())
}

#[derive(Debug)]
pub(crate) struct IChomp(pub(crate) Effort);

impl Game for IChomp {
    type Position = Vec<Rows>;

    fn moves(&self, position: &Vec<Rows>) -> Vec<(Move, Vec<Rows>)> {
        Sum(Poisons::new(Vec::new(), self.0)).moves(position)
    }
}

impl Theory for IChomp {
    const NAME: &'static str = "ichomp";
    const PART: &'static str = "quadrant";

    fn position(&self, text: &str) -> Result<Vec<Rows>, GameError> {
        let quadrants = text.split('/').map(board::parse);
        let mut quadrants = quadrants.collect::<Result<Vec<_>, _>>()?;
        if quadrants.len() > QUADRANTS {
            return Err(GameError::syntax(text, FORM));
        }
        quadrants.resize(QUADRANTS, Rows::new());
        Ok(quadrants)
    }

    fn text(&self, position: &Vec<Rows>) -> String {
        let quadrants: Vec<String> = position.iter().map(|rows| board::name(rows)).collect();
        quadrants.join("/")
    }

    fn parts(&self, positions: &[Vec<Rows>]) -> Result<Vec<Vec<u32>>, GameError> {
        let boards = positions.iter().flatten().filter(|rows| !rows.is_empty());
        let boards: HashSet<Rows> = boards.cloned().collect();
        let boards: Vec<Rows> = boards.into_iter().collect();
        let values = by_search(&boards, self.0)?;
        let values: HashMap<Rows, u32> = boards.into_iter().zip(values).collect();
        let value = |rows: &Rows| values.get(rows).map_or(0, |value| value + 1);
        let parts = |position: &Vec<Rows>| position.iter().map(value).collect();
        Ok(positions.iter().map(parts).collect())
    }

    /// One position for each way to choose four boards, the largest first.
    fn losing(&self, size: u32) -> Result<Vec<Vec<Rows>>, GameError> {
        GameError::check(size as usize, LIST_MAX, "cells")?;
        let boards = board::all(size);
        let values = self.parts(std::slice::from_ref(&boards))?.concat();
        let sized = values.into_iter().zip(boards);
        let sized = sized.map(|(value, rows)| (rows.iter().sum(), value, rows));
        let sized: Vec<_> = sized.filter(|&(cells, ..)| cells > 0).collect();
        let mut found = balanced(&sized, QUADRANTS, size);
        for position in &mut found {
            position.resize(QUADRANTS, Rows::new());
        }
        Ok(found)
    }
}
