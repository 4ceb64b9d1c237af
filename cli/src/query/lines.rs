//! Positions as people have them: typed, in a list, drawn, or in a file of `chomp export`.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::str::FromStr;

use anyhow::Context;
use chomp_query::mirrored;
use chomp_table::position::PositionError;

use super::Numbers;
use crate::exit::usage;

/// The longest line of stdin: no position of a table takes a hundredth of it.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// The bytes of stdin read at a time.
const BUFFER_BYTES: usize = 64 << 10;

impl Numbers {
    /// The position that a text stands for.
    pub(super) fn parse<P>(self, text: &str) -> Result<P, PositionError>
    where
        P: FromStr<Err = PositionError> + ToString,
    {
        let text = text.trim_start_matches('\u{feff}').trim();
        if self == Numbers::Words {
            // In any base: what is no number is told as it was written.
            let word = text.parse::<u64>().map(|word| format!("{word:#b}"));
            return word.as_deref().unwrap_or(text).parse();
        }
        let position: P = text.parse()?;
        let is_word = text.starts_with("0b") || text.starts_with("0x");
        if self == Numbers::Columns && !is_word {
            let rows = position.to_string();
            let rows: Vec<u32> = rows.split(',').filter_map(|row| row.parse().ok()).collect();
            // No columns are the empty position.
            return format!("{:?}", mirrored(&rows)).parse();
        }
        Ok(position)
    }
}

/// The positions in some lines, in order, up to the first that is none.
pub(super) struct Positions<R, P> {
    input: BufReader<R>,
    numbers: Numbers,
    /// The lines that were read.
    number: u64,
    /// Rows of a drawing whose end is not known yet.
    drawn: Vec<String>,
    /// The lines that are read and not taken yet: a drawing, and those after it.
    ready: VecDeque<anyhow::Result<P>>,
    has_ended: bool,
}

impl<R: Read, P: FromStr<Err = PositionError> + ToString> Positions<R, P> {
    pub(super) fn new(input: R, numbers: Numbers) -> Self {
        Positions {
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            numbers,
            number: 0,
            drawn: Vec::new(),
            ready: VecDeque::new(),
            has_ended: false,
        }
    }

    /// The next line; none after the last.
    fn line(&mut self) -> anyhow::Result<Option<String>> {
        let mut line = String::new();
        let read = (&mut self.input)
            .take(LINE_BYTES_MAX + 1)
            .read_line(&mut line);
        self.number += 1;
        let (bytes, number) = (read.context("cannot read stdin")?, self.number);
        if bytes as u64 > LINE_BYTES_MAX {
            return Err(usage(format!(
                "line {number} of stdin has more than {LINE_BYTES_MAX} bytes"
            )));
        }
        Ok((bytes > 0).then_some(line))
    }

    /// Reads one line more.
    fn advance(&mut self) {
        let line = self.line();
        let text = match &line {
            Ok(Some(line)) => line.trim_start_matches('\u{feff}').trim(),
            _ => "",
        };
        if let Some(cells) = cells_drawn(text) {
            self.drawn.push(cells.to_string());
            return;
        }
        let rows = std::mem::take(&mut self.drawn);
        if !rows.is_empty() {
            let drawn = parse(Numbers::Rows, &rows.join(","), self.number - 1);
            self.ready.push_back(drawn);
        }
        if !text.is_empty() && !text.starts_with('#') && !is_head(text) {
            let position = parse(self.numbers, field(text), self.number);
            self.ready.push_back(position);
        }
        self.has_ended = !matches!(line, Ok(Some(_)));
        self.ready.extend(line.err().map(Err));
    }
}

/// The position of a text, of which this line is the last.
fn parse<P>(numbers: Numbers, text: &str, line: u64) -> anyhow::Result<P>
where
    P: FromStr<Err = PositionError> + ToString,
{
    let parsed = numbers.parse(text);
    parsed.with_context(|| format!("line {line} of stdin"))
}

impl<R: Read, P: FromStr<Err = PositionError> + ToString> Iterator for Positions<R, P> {
    type Item = anyhow::Result<P>;

    fn next(&mut self) -> Option<anyhow::Result<P>> {
        while self.ready.is_empty() && !self.has_ended {
            self.advance();
        }
        self.ready.pop_front()
    }
}

/// How many cells a line of a drawing has: one character again and again, with or without spaces, or the three that
/// `chomp query` draws with. No digit, which is a row, and no `#`, which begins a comment.
fn cells_drawn(line: &str) -> Option<usize> {
    let mut cells = line.chars().filter(|char| !char.is_whitespace());
    let first = cells.clone().next()?;
    let is_cell = !first.is_ascii_digit() && !"#,\"[]()".contains(first);
    let is_ours = |cell: char| "xO.".contains(cell);
    let (same, ours) = (cells.clone().all(|cell| cell == first), cells.all(is_ours));
    let count = || line.chars().filter(|char| !char.is_whitespace()).count();
    (is_cell && (same || ours)).then(count)
}

/// Whether a line names the columns of a CSV file.
fn is_head(line: &str) -> bool {
    let is_name = |field: &str| {
        !field.is_empty()
            && field
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    ["word", "rows"].contains(&line) || line.contains(',') && line.split(',').all(is_name)
}

/// Of a line of CSV what is quoted, and else the line.
fn field(line: &str) -> &str {
    let quoted = line
        .split_once('"')
        .and_then(|(_, rest)| rest.split_once('"'));
    quoted.map_or(line, |(field, _)| field)
}

#[cfg(test)]
mod tests {
    use chomp_table::{Partition, Position};

    use super::*;

    fn read(numbers: Numbers, lines: &str) -> Vec<String> {
        let positions = Positions::<_, Position>::new(lines.as_bytes(), numbers);
        let told = positions.map(|position| match position {
            Ok(position) => position.to_string(),
            Err(error) => format!("{error:#}"),
        });
        told.collect()
    }

    #[test]
    fn lists_and_files_of_exports_are_read() {
        let lines = "\u{feff}5,4,2,1\r\n\n# a comment\n[5, 4, 2, 1]\n5 4 2 1 0\n8×2\n";
        let expected = ["5,4,2,1", "5,4,2,1", "5,4,2,1", "2,2,2,2,2,2,2,2"];
        assert_eq!(read(Numbers::Rows, lines), expected);
        let lines = "word,bits,area,rows\n2,2,1,\"1\"\n346,9,12,\"5,4,2,1\"\n";
        assert_eq!(read(Numbers::Rows, lines), ["1", "5,4,2,1"]);
        let told = read(Numbers::Rows, "3,1\nthree\n");
        assert!(
            told[1].starts_with("line 2 of stdin: \"three\""),
            "{told:?}"
        );
    }

    #[test]
    fn drawings_are_read() {
        let lines = "ooo\noo\n\n  * * *\n  *\n4,1\n■■\nx O .\n. .\n";
        let expected = ["3,2", "3,1", "4,1", "2,3", "line 9"];
        let told = read(Numbers::Rows, lines);
        assert_eq!(told[..3], expected[..3]);
        // Rows that grow are no position, in a drawing as in a list; it is named by its last line.
        assert!(told[3].starts_with("line 9 of stdin: row 2"), "{told:?}");
        assert_eq!(read(Numbers::Rows, "x O .\n. .\n"), ["3,2"]);
        assert_eq!(read(Numbers::Rows, "...\n3,1"), ["3", "3,1"]);
    }

    #[test]
    fn numbers_are_words_or_columns_if_that_is_said() {
        let words = Numbers::Words;
        let expected = ["5,4,2,1", "5,4,2,1", "5,4,2,1", "0"];
        assert_eq!(read(words, "word\n346\n0x15a\n0b101011010\n0\n"), expected);
        assert!(read(words, "347")[0].contains("0b101011011 is not a word"));
        let columns = Numbers::Columns;
        assert_eq!(
            read(columns, "4,3,2,2,1\n2x3\n0\n"),
            ["5,4,2,1", "2,2,2", "0"]
        );
        let partition: Partition = columns.parse("100").unwrap();
        assert_eq!(partition.rows(), [1; 100]);
    }
}
