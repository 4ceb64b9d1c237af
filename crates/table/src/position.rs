//! Positions as people write them: the lengths of the rows, longest first.

use std::str::FromStr;
use std::{fmt, iter};

use crate::word::Word;

/// The signs between the sides of a rectangle, as in `8x10`.
pub const TIMES: [char; 4] = ['x', 'X', '×', '*'];

/// A position: the lengths of its rows from the poisoned corner outwards, longest first. The text form is `5,4,2,1`. It
/// may be a list as programs print it, `[5, 4, 2, 1]`, `{5, 4, 2, 1}` or `5 4 2 1`, with empty rows at its end, or a
/// partition, as `5+4+2+1`; `3^2,1` is `3,3,1`; a rectangle may be written `rows x columns`, as `8x10` or `8*10`; a
/// position may be written as its word, as `0b110100` or `0x34`; the empty position is `0`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    rows: Vec<u32>,
}

/// A position has more tiles than a partition may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the position has more than {0} tiles")]
pub struct TooManyTiles(pub u32);

/// The longest row or column of positions that are solved without a table.
pub const LENGTH_MAX: u32 = 200_000;

/// Why some rows are not a position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum PositionError {
    #[error(
        "\"{0}\" is not a position: write the rows longest first, as 5,4,2,1, or rows x columns, as 8x10, or a word, as 0b110100"
    )]
    Syntax(String),
    #[error("{0} is not a word: words are even, the 1s at the end of a border are dropped")]
    Odd(String),
    #[error(
        "row {row} has {length} cells: rows are listed longest first and have at least one cell"
    )]
    Order {
        /// The row, counted from 1.
        row: usize,
        length: u32,
    },
    #[error(
        "the position has {bits} bits (first row + number of rows), and tables have at most 64; of at most 5 rows or \
         columns, of at most 200,000 cells each, `chomp query POSITION` tells without one"
    )]
    TooLarge { bits: u64 },
    #[error(transparent)]
    TooManyTiles(#[from] TooManyTiles),
}

impl Position {
    /// Fails if the lengths of the rows rise, if one is 0, or if the position has more than 64 bits.
    pub fn new(rows: Vec<u32>) -> Result<Position, PositionError> {
        check_order(&rows)?;
        check_size(rows.len(), rows.first().copied().unwrap_or(0))?;
        Ok(Position { rows })
    }

    /// The lengths of the rows, longest first.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }
}

/// Fails unless the rows are listed longest first and none is 0.
pub(crate) fn check_order(rows: &[u32]) -> Result<(), PositionError> {
    let mut longest = u32::MAX;
    for (index, &length) in rows.iter().enumerate() {
        if length == 0 || length > longest {
            return Err(PositionError::Order {
                row: index + 1,
                length,
            });
        }
        longest = length;
    }
    Ok(())
}

fn check_size(rows: usize, first_row: u32) -> Result<(), PositionError> {
    let bits = rows as u64 + u64::from(first_row);
    if bits > u64::from(u64::BITS) {
        Err(PositionError::TooLarge { bits })
    } else {
        Ok(())
    }
}

impl From<Word> for Position {
    fn from(word: Word) -> Position {
        let mut rows = Vec::new();
        let mut length = 0;
        for i in (0..word.bits()).rev() {
            if word.get() >> i & 1 == 1 {
                length += 1;
            } else {
                rows.push(length);
            }
        }
        rows.reverse();
        Position { rows }
    }
}

impl From<&Position> for Word {
    fn from(position: &Position) -> Word {
        let mut path = 0;
        let mut length = 0;
        for &row in position.rows.iter().rev() {
            for _ in length..row {
                path = path << 1 | 1;
            }
            length = row;
            path <<= 1;
        }
        Word::new(path)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_rows(&self.rows, f)
    }
}

pub(crate) fn write_rows(rows: &[u32], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [first, others @ ..] = rows else {
        return f.write_str("0");
    };
    write!(f, "{first}")?;
    others.iter().try_for_each(|row| write!(f, ",{row}"))
}

impl FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Position, PositionError> {
        Position::new(rows_of(text, check_size)?)
    }
}

/// The rows of the position in `text`, which may be too large for a table. Fails if the text is no position, or has
/// more than `most` rows or columns.
pub fn parse_rows(text: &str, most: u32) -> Result<Vec<u32>, PositionError> {
    let fits = |rows: usize, columns: u32| {
        let bits = rows as u64 + u64::from(columns);
        let fits = rows <= most as usize && columns <= most;
        fits.then_some(()).ok_or(PositionError::TooLarge { bits })
    };
    let rows = rows_of(text, fits)?;
    check_order(&rows)?;
    fits(rows.len(), rows.first().copied().unwrap_or(0))?;
    Ok(rows)
}

/// The rows in `text`, whose order is not checked. Before a rectangle or a repeated row (`3^12`) takes memory, `fits`
/// checks the number of rows so far and the length of these rows.
pub(crate) fn rows_of(
    text: &str,
    fits: impl Fn(usize, u32) -> Result<(), PositionError>,
) -> Result<Vec<u32>, PositionError> {
    let syntax = || PositionError::Syntax(text.to_owned());
    let number = |part: &str| -> Result<u32, PositionError> {
        let digits = part.trim();
        let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        // A word in base 2 without its 0b may begin with zeros, and no number of cells does.
        let is_plain = all_digits && (digits == "0" || !digits.starts_with('0'));
        let parsed = digits.parse().ok().filter(|_| is_plain);
        parsed.ok_or_else(syntax)
    };
    let bare = text.trim();
    for (prefix, base) in [("0b", 2), ("0x", 16)] {
        if let Some(digits) = bare.strip_prefix(prefix) {
            let word = word(digits, base).ok_or_else(syntax)?;
            if word % 2 == 1 {
                return Err(PositionError::Odd(text.to_owned()));
            }
            return Ok(Position::from(Word::new(word)).rows);
        }
    }
    if let Some((rows, columns)) = bare.split_once(TIMES) {
        let (rows, columns) = (number(rows)?, number(columns)?);
        if rows == 0 {
            return Err(syntax());
        }
        fits(rows as usize, columns)?;
        return Ok(vec![columns; rows as usize]);
    }
    let list = [('[', ']'), ('(', ')'), ('{', '}')]
        .into_iter()
        .find_map(|(open, close)| {
            let inner = bare.strip_prefix(open)?.strip_suffix(close)?;
            Some(inner.trim())
        });
    let parts: Vec<&str> = match list.unwrap_or(bare) {
        "" if list.is_some() => Vec::new(),
        "" => return Err(syntax()),
        parts if parts.contains(',') => {
            // Python writes (5,).
            let ended = parts.strip_suffix(',').filter(|_| list.is_some());
            ended.unwrap_or(parts).split(',').collect()
        }
        parts if parts.contains('+') => parts.split('+').collect(),
        parts => parts.split_whitespace().collect(),
    };
    let mut rows = Vec::new();
    for part in parts {
        let Some((length, times)) = part.split_once('^') else {
            rows.push(number(part)?);
            continue;
        };
        // TeX writes 3^{12}.
        let times = times.trim();
        let braced = times
            .strip_prefix('{')
            .and_then(|inner| inner.strip_suffix('}'));
        let (length, times) = (number(length)?, number(braced.unwrap_or(times))? as usize);
        if times == 0 {
            return Err(syntax());
        }
        fits(rows.len() + times, length)?;
        rows.extend(iter::repeat_n(length, times));
    }
    while rows.last() == Some(&0) {
        rows.pop();
    }
    Ok(rows)
}

/// The number that `digits` write in `base`. None if there is another character, or the number has more than 64 bits.
fn word(digits: &str, base: u32) -> Option<u64> {
    let all_digits = digits.chars().all(|digit| digit.is_digit(base));
    u64::from_str_radix(digits, base)
        .ok()
        .filter(|_| all_digits)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cell::Cell;
    use proptest::prelude::*;

    #[test]
    fn text_forms() {
        for (text, rows) in [
            ("5,4,2,1", vec![5, 4, 2, 1]),
            ("2x3", vec![3, 3]),
            ("0", vec![]),
            ("1", vec![1]),
            (" 3 , 1 ", vec![3, 1]),
            ("0b101011010", vec![5, 4, 2, 1]),
            (" 0b0010 ", vec![1]),
            ("63", vec![63]),
            ("0b0", vec![]),
            ("0x15a", vec![5, 4, 2, 1]),
            ("0x15A", vec![5, 4, 2, 1]),
            ("[5, 4, 2, 1]", vec![5, 4, 2, 1]),
            ("(5,4,2,1)", vec![5, 4, 2, 1]),
            ("[5 4 2 1]", vec![5, 4, 2, 1]),
            ("5 4\t2  1", vec![5, 4, 2, 1]),
            ("5,4,2,1,0,0", vec![5, 4, 2, 1]),
            ("0,0", vec![]),
            ("[]", vec![]),
            ("2X3", vec![3, 3]),
            ("2 × 3", vec![3, 3]),
            ("2*3", vec![3, 3]),
            ("3+2", vec![3, 2]),
            ("5 + 4 + 2 + 1", vec![5, 4, 2, 1]),
            ("(3+2)", vec![3, 2]),
            ("3^2,1", vec![3, 3, 1]),
            ("3^2 1", vec![3, 3, 1]),
            ("3^2 + 1^3", vec![3, 3, 1, 1, 1]),
            ("(3^{2}, 1^{12})", [vec![3; 2], vec![1; 12]].concat()),
            ("5,3^1,0^9", vec![5, 3]),
            ("{3,2}", vec![3, 2]),
            ("{}", vec![]),
            ("(5,)", vec![5]),
            ("[5, 4, ]", vec![5, 4]),
        ] {
            assert_eq!(text.parse::<Position>().unwrap().rows(), rows, "{text}");
        }
        for text in [
            "",
            "a",
            "1,2",
            "3,0,1",
            "0x3",
            "0x",
            "0x10x1",
            "0110100",
            "05,04",
            "08x10",
            "3^02",
            "00",
            "0x+2",
            "3x0",
            "[3,1",
            "{3,1]",
            "{{3,1}}",
            "5,4,",
            "(,)",
            "(5,,)",
            "3+",
            "3++2",
            "1+2",
            "3+2,1",
            "3+2 1",
            "3^0",
            "3^",
            "^2",
            "3^2^2",
            "3^{2",
            "3^-1",
            "3^62",
            "3^4294967295",
            "3^4294967295,3^4294967295",
            "2^1,3^1",
            "2**3",
            "2x3x4",
            "2x3+1",
            "3,1]",
            "[[3]]",
            "3;1",
            "3, ,1",
            "-1",
            "+1",
            "65",
            "33x33",
            "4294967296",
            "4294967295x1",
            "1,,1",
            "0b",
            "0b2",
            "0b+10",
            "0b101",
            "0b10x1",
            "0b11111111111111111111111111111111111111111111111111111111111111110",
        ] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }

    /// The moves of a diagram, straight from the rules of the game.
    fn moves_on_the_board(position: &Position) -> BTreeMap<Cell, Position> {
        let mut moves = BTreeMap::new();
        for (index, &length) in position.rows().iter().enumerate() {
            for column in 1..=length {
                let mut rows = position.rows().to_vec();
                for row in &mut rows[index..] {
                    *row = (*row).min(column - 1);
                }
                rows.retain(|&row| row > 0);
                let cell = Cell {
                    row: u32::try_from(index).unwrap() + 1,
                    column,
                };
                moves.insert(cell, Position::new(rows).unwrap());
            }
        }
        moves
    }

    fn check_word(word: Word) {
        let position = Position::from(word);
        assert_eq!(Word::from(&position), word);
        assert_eq!(position.to_string().parse::<Position>().unwrap(), position);
        let binary = format!("{:#b}", word.get());
        assert_eq!(binary.parse::<Position>().unwrap(), position);
        assert_eq!(position.rows().iter().sum::<u32>(), word.area());
        let first_row = position.rows().first().copied().unwrap_or(0);
        assert_eq!(
            first_row as usize + position.rows().len(),
            word.bits() as usize
        );

        let columns: Vec<u32> = (0..first_row)
            .map(|column| {
                u32::try_from(position.rows().iter().filter(|&&row| row > column).count()).unwrap()
            })
            .collect();
        assert_eq!(Position::from(word.mirror()).rows(), columns);

        let moves: BTreeMap<Cell, Position> = word
            .moves()
            .map(|(cell, next)| (cell, Position::from(next)))
            .collect();
        assert_eq!(moves, moves_on_the_board(&position));
    }

    #[test]
    fn every_small_word_agrees_with_the_board() {
        for path in 0..1 << 12 {
            check_word(Word::new(path));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn random_words_of_any_width_agree_with_the_board(path: u64, width in 1u32..=64) {
            check_word(Word::new(path >> (64 - width)));
        }
    }
}
