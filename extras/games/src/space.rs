//! Chomp in space: a move takes a cell and all whose row, column and layer are not less. Who takes (1,1,1) loses.
//!
//! By coordinates a box of two cells or more has a greatest one: who is to move wins. With a side of 1 it is Chomp.
//!
//! A position is a box of rows x columns x layers, as `3x3x4`, or the heights of the columns of cells by rows, as
//! `4,4,2/3,1`. A move is (row, column, layer).

use crate::error::GameError;
use crate::game::Move;
use crate::orders::{ELEMENTS_MAX, Elements};
use crate::text::{list, number, numbers};

const FORM: &str = "a box, as 3x3x4, or heights by rows, as 4,4,2/3,1, none more than those left of it and above it";

#[derive(Debug)]
pub(crate) struct Space;

impl Elements for Space {
    const NAME: &'static str = "space";
    const WORD: &'static str = "cells";
    const SIZE_MAX: (usize, &'static str) = (4, "rows, columns and layers");
    const LARGEST: &'static str = "NxNxN";

    fn parse(&self, text: &str) -> Result<Vec<Move>, GameError> {
        let sides = text
            .split(['x', 'X', '×', '*'])
            .map(|side| number(side.trim(), u32::MAX));
        let sides: Option<Vec<u32>> = sides.map(|side| side.filter(|&side| side > 0)).collect();
        let rows = text.split('/').map(|row| numbers(row, u32::MAX));
        let mut rows: Option<Vec<Vec<u32>>> = rows.collect();
        if let Some(&[row, column, layer]) = sides.as_deref() {
            let cells = row.saturating_mul(column).saturating_mul(layer);
            GameError::check(cells as usize, ELEMENTS_MAX, Self::WORD)?;
            rows = Some(vec![vec![layer; column as usize]; row as usize]);
        }
        let rows = rows.ok_or_else(|| GameError::syntax(text, FORM))?;
        let cells = (1..).zip(rows).flat_map(|(row, heights)| {
            let columns = (1..).zip(heights);
            columns.flat_map(move |(column, height)| {
                (1..=height).map(move |layer| vec![row, column, layer])
            })
        });
        let cells: Vec<Move> = cells.take(ELEMENTS_MAX + 1).collect();
        // Each stands on another one, and has one above it and one left of it, up to the walls.
        let leans = |cell: &Move, at: usize| {
            let mut next = cell.clone();
            next[at] -= 1;
            next[at] == 0 || cells.binary_search(&next).is_ok()
        };
        if !cells.iter().all(|cell| (0..3).all(|at| leans(cell, at))) {
            return Err(GameError::syntax(text, FORM));
        }
        Ok(cells)
    }

    fn text(cells: &[&Move]) -> String {
        let height = |column: &[&Move]| column.iter().map(|cell| cell[2]).max();
        let row = |row: &[&Move]| {
            let columns = row.chunk_by(|a, b| a[1] == b[1]);
            list(&columns.filter_map(height).collect::<Vec<u32>>())
        };
        let rows = cells.chunk_by(|a, b| a[0] == b[0]).map(row);
        match cells.last() {
            None => "0".to_owned(),
            Some(last) if last.iter().product::<u32>() as usize == cells.len() => {
                format!("{}x{}x{}", last[0], last[1], last[2])
            }
            Some(_) => rows.collect::<Vec<_>>().join("/"),
        }
    }
}
