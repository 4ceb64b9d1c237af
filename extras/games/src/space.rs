//! Chomp in space: cells lie in layers on a board of rows and columns. A move takes a cell and all whose row, column and
//! layer are not less. Who takes (1,1,1) loses.
//!
//! The order is that of the three coordinates. A box of two cells or more has a greatest cell, so who is to move wins.
//! A box with a side of 1 is a board of Chomp.
//!
//! A position is a box of rows x columns x layers, as `3x3x4`, or the heights of the columns of cells by rows, as
//! `4,4,2/3,1`. A move is (row, column, layer).

use crate::answer::GameAnswer;
use crate::error::GameError;
use crate::game::Move;
use crate::orders::{ELEMENTS_MAX, Elements, sign};
use crate::text::{list, number, numbers};

const FORM: &str = "a box, as 3x3x4, or heights by rows, as 4,4,2/3,1, none more than those left of it and above it";

/// The game.
#[derive(Debug)]
pub(crate) struct Space;

/// The heights of a box, or those that are written.
fn heights(text: &str) -> Result<Vec<Vec<u32>>, GameError> {
    let sides: Vec<&str> = text.split(['x', 'X', '×']).map(str::trim).collect();
    let sides = sides.into_iter().map(|side| number(side, u32::MAX));
    let sides = sides.map(|side| side.filter(|&side| side > 0));
    let sides: Option<Vec<u32>> = sides.collect();
    if let Some(&[rows, columns, layers]) = sides.as_deref() {
        let cells = rows.saturating_mul(columns).saturating_mul(layers);
        GameError::check(cells as usize, ELEMENTS_MAX, Space::WORD)?;
        return Ok(vec![vec![layers; columns as usize]; rows as usize]);
    }
    let rows = text.split('/').map(|row| numbers(row, u32::MAX));
    let rows: Option<Vec<Vec<u32>>> = rows.collect();
    let is_below = |upper: &Vec<u32>, lower: &Vec<u32>| {
        let upper = upper.iter().chain(std::iter::repeat(&0));
        lower.iter().zip(upper).all(|(lower, upper)| lower <= upper)
    };
    let falls = |rows: &Vec<Vec<u32>>| {
        rows.iter().all(|row| row.is_sorted_by(|a, b| a >= b)) && rows.is_sorted_by(is_below)
    };
    let rows = rows.filter(falls);
    rows.ok_or_else(|| GameError::syntax(text, FORM))
}

impl Elements for Space {
    const NAME: &'static str = "space";
    const WORD: &'static str = "cells";
    const SIZE_MAX: (usize, &'static str) = (4, "rows, columns and layers");

    fn parse(&self, text: &str) -> Result<Vec<Move>, GameError> {
        let rows = (1..).zip(heights(text)?);
        let cells = rows.flat_map(|(row, heights)| {
            let columns = (1..).zip(heights);
            columns.flat_map(move |(column, height)| {
                (1..=height).map(move |layer| vec![row, column, layer])
            })
        });
        Ok(cells.take(ELEMENTS_MAX + 1).collect())
    }

    fn text(cells: &[&Move]) -> String {
        let mut rows: Vec<Vec<u32>> = Vec::new();
        for cell in cells {
            // They ascend, so the last one of a column of cells is its highest.
            rows.resize_with(cell[0] as usize, Vec::new);
            let row = rows.last_mut().expect("the row of the cell");
            row.resize(cell[1] as usize, cell[2]);
            row[cell[1] as usize - 1] = cell[2];
        }
        match cells.last() {
            None => "0".to_owned(),
            Some(last) if last.iter().product::<u32>() as usize == cells.len() => {
                format!("{}x{}x{}", last[0], last[1], last[2])
            }
            Some(_) => {
                let rows: Vec<String> = rows.iter().map(|row| list(row)).collect();
                rows.join("/")
            }
        }
    }

    fn largest(size: u32) -> String {
        format!("{size}x{size}x{size}")
    }

    /// The layers, side by side.
    fn draw(answer: &GameAnswer) -> Vec<String> {
        let cells = answer.moves.iter().map(|choice| &choice.name);
        let most = |at: usize| cells.clone().map(|cell| cell[at]).max().unwrap_or(0);
        let of = |row, layer| {
            let there = cells.clone().filter(move |cell| cell[2] == layer);
            let width = there.clone().map(|cell| cell[1]).max().unwrap_or(0);
            let signs = (1..=width).map(|column| match sign(answer, &[row, column, layer]) {
                "-" => " ",
                sign => sign,
            });
            signs.collect::<Vec<_>>().join(" ")
        };
        let line = |row| {
            let layers = (1..=most(2)).map(|layer| of(row, layer));
            let line = layers.collect::<Vec<_>>().join("   ");
            line.trim_end().to_owned()
        };
        (1..=most(0)).map(line).collect()
    }
}
