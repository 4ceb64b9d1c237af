//! Chomp's boards: the lengths of the rows, longest first, and nothing for empty ones.

use crate::error::GameError;
use crate::text::{list, number, numbers};

pub(crate) type Rows = Vec<u32>;

/// The most columns of a board, and its most cells if it has more than three rows.
pub(crate) const COLUMNS_MAX: u32 = 1000;
const CELLS_MAX: u32 = 256;
const FORM: &str = "rows, longest first, as 5,4,2, or rows x columns, as 3x8: at most 1000 columns, and 256 cells if there are more than three rows";

pub(crate) fn parse(text: &str) -> Result<Rows, GameError> {
    let side = |text: &str, max| number(text.trim(), max).filter(|&side| side > 0);
    let rows = of_word(text.trim()).or_else(|| match text.split_once(['x', 'X', '×', '*']) {
        Some((rows, columns)) => side(rows, CELLS_MAX)
            .zip(side(columns, COLUMNS_MAX))
            .map(|(rows, columns)| vec![columns; rows as usize]),
        None => numbers(text, COLUMNS_MAX),
    });
    let rows = rows.filter(|rows| rows.is_sorted_by(|a, b| a >= b) && rows.len() <= 256);
    let Some(mut rows) = rows else {
        return Err(GameError::syntax(text, FORM));
    };
    rows.retain(|&length| length > 0);
    if rows.len() > 3 && rows.iter().sum::<u32>() > CELLS_MAX {
        return Err(GameError::syntax(text, FORM));
    }
    Ok(rows)
}

/// The board of a word, as tables have it: the border from the last row on, 1 for each column and 0 for each row.
fn of_word(text: &str) -> Option<Rows> {
    let (base, digits) = match text.split_at_checked(2)? {
        ("0b", digits) => (2, digits),
        ("0x", digits) => (16, digits),
        _ => return None,
    };
    let digits = Some(digits).filter(|digits| !digits.starts_with('+'))?;
    let word = u64::from_str_radix(digits, base).ok()?;
    let (mut rows, mut length) = (Rows::new(), 0);
    for bit in (0..u64::BITS - word.leading_zeros()).rev() {
        match word >> bit & 1 {
            1 => length += 1,
            _ => rows.insert(0, length),
        }
    }
    (word % 2 == 0).then_some(rows)
}

/// The text of a board: `3x8` for a rectangle of several rows, else its rows.
pub(crate) fn name(rows: &[u32]) -> String {
    match rows {
        [] => "0".to_owned(),
        [columns, _, ..] if rows.iter().all(|length| length == columns) => {
            format!("{}x{columns}", rows.len())
        }
        _ => list(rows),
    }
}

/// Whether a cell, counted from (1,1), is on the board.
pub(crate) fn has(rows: &[u32], (row, column): (u32, u32)) -> bool {
    rows.get(row as usize - 1)
        .is_some_and(|&length| length >= column)
}

pub(crate) fn take(rows: &[u32], (row, column): (u32, u32)) -> Rows {
    let mut rows = rows.to_vec();
    for length in &mut rows[row as usize - 1..] {
        *length = (*length).min(column - 1);
    }
    rows.retain(|&length| length > 0);
    rows
}

/// All cells, row by row.
pub(crate) fn cells(rows: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    let row = |(row, &length)| (1..=length).map(move |column| (row, column));
    (1..).zip(rows).flat_map(row)
}

/// All boards of at most `cells` cells, the smallest first, then those of few rows.
pub(crate) fn all(cells: u32) -> Vec<Rows> {
    let mut all = vec![Rows::new()];
    let mut at = 0;
    while let Some(rows) = all.get(at).cloned() {
        let left = cells - rows.iter().sum::<u32>();
        let longest = rows.last().map_or(left, |&last| last.min(left));
        all.extend((1..=longest).map(|length| [&rows[..], &[length]].concat()));
        at += 1;
    }
    all.sort_by_key(|rows| rows.iter().sum::<u32>());
    all
}
