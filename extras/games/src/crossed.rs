//! Crossed-out Chomp: some cells of a board are crossed out, which means that they are not there. A move takes a cell
//! and all that is neither above nor left of it. Who takes (1,1) loses.
//!
//! The order is that of the cells left. If a rectangle's last cell is there, it is the greatest: who is to move wins.
//!
//! A position is a board and the cells that are crossed out, as `4x5@2,3@4,5`. Only the cells that are left count: one
//! that is crossed out at the end of a row just makes it shorter. A move is (row, column).

use crate::board::{self, COLUMNS_MAX};
use crate::error::GameError;
use crate::game::Move;
use crate::orders::Elements;
use crate::text::{cell, list};

#[derive(Debug)]
pub(crate) struct Crossed(pub(crate) Vec<(u32, u32)>);

impl Crossed {
    /// The game of the rules behind the first `@`.
    pub(crate) fn parse(rules: &str) -> Result<Crossed, GameError> {
        let cells = rules
            .split_terminator('@')
            .map(|text| cell(text, COLUMNS_MAX));
        let cells = cells.map(|cell| cell.filter(|&cell| cell != (1, 1)));
        let cells: Option<Vec<_>> = cells.collect();
        let form = "cells that are crossed out, each as @row,column, as @2,3@4,5, but not @1,1";
        let cells = cells.ok_or_else(|| GameError::syntax(rules, form))?;
        Ok(Crossed(cells))
    }
}

impl Elements for Crossed {
    const NAME: &'static str = "crossed";
    const WORD: &'static str = "cells";
    const SIZE_MAX: (usize, &'static str) = (10, "rows and columns");
    const LARGEST: &'static str = "NxN";

    fn parse(&self, text: &str) -> Result<Vec<Move>, GameError> {
        let rows = board::parse(text)?;
        let cells = board::cells(&rows).filter(|cell| !self.0.contains(cell));
        Ok(cells.map(|(row, column)| vec![row, column]).collect())
    }

    fn text(cells: &[&Move]) -> String {
        let length = |row| {
            let below = cells.iter().filter(|cell| cell[0] >= row);
            below.map(|cell| cell[1]).max().unwrap_or(0)
        };
        let rows: Vec<u32> = (1..=cells.last().map_or(0, |last| last[0]))
            .map(length)
            .collect();
        let is_there = |row, column| cells.iter().any(|cell| cell[..] == [row, column]);
        let crossed = board::cells(&rows).filter(|&(row, column)| !is_there(row, column));
        let crossed = crossed.map(|(row, column)| format!("@{}", list(&[row, column])));
        board::name(&rows) + &crossed.collect::<String>()
    }
}
