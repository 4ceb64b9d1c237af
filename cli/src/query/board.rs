//! Positions of any size, and sums of them: boards side by side, where a move takes a cell of one.

use chomp_query::{drawing, mirrored};
use chomp_table::Position;
use chomp_table::position::{LENGTH_MAX, parse_rows};

use super::Notation;
use crate::exit::usage;

/// The rows of a position, or those of each board of a sum.
pub(super) struct Boards(Vec<Vec<u32>>);

impl Boards {
    pub(super) fn is_sum(&self) -> bool {
        self.0.len() > 1
    }

    pub(super) fn all(&self) -> &[Vec<u32>] {
        &self.0
    }

    /// Panics if it is a sum.
    pub(super) fn rows(&self) -> &[u32] {
        let [rows] = &self.0[..] else {
            panic!("a sum has several boards");
        };
        rows
    }

    pub(super) fn name(&self) -> String {
        let names = self.0.iter().map(|rows| drawing::name(rows));
        names.collect::<Vec<_>>().join(" + ")
    }

    pub(super) fn bits(&self) -> u64 {
        self.rows().len() as u64 + u64::from(self.rows().first().copied().unwrap_or(0))
    }

    /// The position that it is, if a table may have it.
    pub(super) fn position(&self) -> Option<Position> {
        Position::new(self.rows().to_vec()).ok()
    }
}

impl Notation {
    pub(super) fn parse(self, text: &str) -> anyhow::Result<Boards> {
        let text = text.trim_start_matches('\u{feff}').trim();
        let single = self.rows(text);
        if single.is_ok() || !self.is_sum(text) {
            return Ok(Boards(vec![single?]));
        }
        let parts: Vec<&str> = text.split('+').collect();
        let are_rows =
            |pair: &[&str]| self != Notation::Words && pair.iter().all(|part| is_row(part));
        if parts.windows(2).any(are_rows) {
            return Err(usage(format!(
                "\"{text}\" has single numbers side by side: write rows of one board as 3,2 and boards of a sum as [3] + [2]"
            )));
        }
        let boards = parts
            .into_iter()
            .map(|part| self.rows(part))
            .collect::<anyhow::Result<_>>();
        boards.map(Boards).map_err(|error| {
            usage(format!(
                "\"{text}\" is no sum, as \"5,4,2,1 + 3x3\": {error}"
            ))
        })
    }

    /// Whether a text has several boards. Numbers alone, as 3+2, are the rows of one, unless they are words.
    fn is_sum(self, text: &str) -> bool {
        text.contains('+') && (self == Notation::Words || !text.split('+').all(is_row))
    }

    fn rows(self, text: &str) -> anyhow::Result<Vec<u32>> {
        let text = text.trim();
        let is_word = text.starts_with("0b") || text.starts_with("0x");
        if self == Notation::Words && !is_word {
            // `parse_rows` takes words in base 2 and 16, so a decimal word is written in base 2.
            let word = text.parse::<u64>().map_err(|_| {
                usage(format!(
                    "\"{text}\" is no word: write one as 346, 0b101011010 or 0x15a"
                ))
            })?;
            return Ok(parse_rows(&format!("{word:#b}"), LENGTH_MAX)?);
        }
        let rows = parse_rows(text, LENGTH_MAX)?;
        Ok(if self == Notation::Columns && !is_word {
            mirrored(&rows)
        } else {
            rows
        })
    }
}

fn is_row(text: &str) -> bool {
    let is_of_row = |byte: u8| byte.is_ascii_digit() || byte == b'^';
    !text.trim().is_empty() && text.trim().bytes().all(is_of_row)
}
