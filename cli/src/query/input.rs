//! Positions as people have them: typed, in a list, drawn, or in a file of `chomp export`.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};

use anyhow::Context;

use super::Notation;
use super::board::Boards;
use crate::exit::usage;

/// The longest line of stdin: no position of a table takes a hundredth of it.
const LINE_BYTES_MAX: u64 = 64 << 10;
const BUFFER_BYTES: usize = 64 << 10;

const NO_DRAWING: &str = "no position and no drawing: a drawing has one character for each cell and none for cells that are taken, \
    x, X, p or P for the poison if that is another, and all rows have the same margin and spaces";
const UNCLEAR: &str = "a drawing or a comment: write an empty line between drawings and comments";

/// The positions in some lines, in order, each with the number of its last line.
pub(super) struct Positions<R> {
    input: BufReader<R>,
    numbers: Notation,
    /// The number of lines read.
    number: u64,
    /// The rows read so far of an unfinished drawing.
    drawn: Vec<String>,
    /// Whether these rows may be comments.
    is_unclear: bool,
    after_comment: bool,
    ready: VecDeque<(u64, anyhow::Result<Boards>)>,
    has_ended: bool,
}

impl<R: Read> Positions<R> {
    pub(super) fn new(input: R, numbers: Notation) -> Self {
        Positions {
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            numbers,
            number: 0,
            drawn: Vec::new(),
            is_unclear: false,
            after_comment: false,
            ready: VecDeque::new(),
            has_ended: false,
        }
    }

    /// Reads the next line; empty at the end of the input.
    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = Vec::new();
        let mut limited = (&mut self.input).take(LINE_BYTES_MAX + 1);
        let mut read = limited.read_until(b'\n', &mut line);
        let is_long = line.len() as u64 > LINE_BYTES_MAX;
        if is_long && !line.ends_with(b"\n") {
            read = read.and_then(|_| self.input.skip_until(b'\n'));
        }
        self.number += 1;
        self.has_ended = read.is_err() || line.is_empty();
        read.context("cannot read stdin")?;
        if is_long {
            let number = self.number;
            return Err(usage(format!(
                "line {number} of stdin has more than {LINE_BYTES_MAX} bytes"
            )));
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_start_matches('\u{feff}');
        Ok(without_comment(line).trim_end().to_owned())
    }

    fn advance(&mut self) {
        let line = self.line();
        let number = self.number;
        let shown = line.as_deref().unwrap_or("");
        let text = shown.trim();
        let is_comment = text.starts_with('#');
        let is_row = if is_comment {
            let only = text.chars().all(|char| char == '#' || char.is_whitespace());
            only && (text.len() > 1 || !self.drawn.is_empty())
        } else {
            is_drawn(text)
        };
        if is_row {
            self.is_unclear |= is_comment && self.after_comment;
            self.drawn.push(shown.to_owned());
            return;
        }
        self.after_comment = is_comment;
        let rows = std::mem::take(&mut self.drawn);
        if !rows.is_empty() {
            // Lines of # before a comment may belong to it.
            let hashes = rows.iter().any(|row| row.contains('#'));
            let is_unclear = std::mem::take(&mut self.is_unclear) || is_comment && hashes;
            let drawn = if is_unclear {
                Err(UNCLEAR)
            } else {
                cells_drawn(&rows).ok_or(NO_DRAWING)
            };
            let drawn = match drawn {
                Ok(cells) => parse(Notation::Rows, &cells, number - 1),
                Err(why) => {
                    let row = rows[0].trim();
                    Err(usage(format!(
                        "line {} of stdin: \"{row}\" begins {why}",
                        number - 1
                    )))
                }
            };
            self.ready.push_back((number - 1, drawn));
        }
        if text == "word" && self.numbers == Notation::Rows {
            // The lines after it are words.
            self.numbers = Notation::Words;
        } else if !text.is_empty() && !is_comment && !is_head(text) {
            let position = parse(self.numbers, field(text), number);
            self.ready.push_back((number, position));
        }
        self.ready
            .extend(line.err().map(|error| (number, Err(error))));
    }
}

fn parse(numbers: Notation, text: &str, line: u64) -> anyhow::Result<Boards> {
    let parsed = numbers.parse(text);
    parsed.with_context(|| format!("line {line} of stdin"))
}

impl<R: Read> Iterator for Positions<R> {
    type Item = (u64, anyhow::Result<Boards>);

    fn next(&mut self) -> Option<(u64, anyhow::Result<Boards>)> {
        while self.ready.is_empty() && !self.has_ended {
            self.advance();
        }
        self.ready.pop_front()
    }
}

/// A line without the comment behind a position. A tail of `#` alone is no comment: it may be cells.
fn without_comment(line: &str) -> &str {
    let is_comment = |&(place, _): &(usize, &str)| {
        let (before, comment) = line.split_at(place);
        let is_text = |char: char| char != '#' && !char.is_whitespace();
        before.ends_with(char::is_whitespace)
            && before.contains(is_text)
            && !before.contains('#')
            && comment.contains(is_text)
    };
    let comment = line.match_indices('#').find(is_comment);
    comment.map_or(line, |(place, _)| &line[..place])
}

/// Whether a line looks like a row of a drawing: it has one or two kinds of characters, or only those with which
/// `chomp query` draws. A line with a digit or a sign of a list is none.
fn is_drawn(text: &str) -> bool {
    let mut kinds = Vec::new();
    for char in text.chars().filter(|char| !char.is_whitespace()) {
        if char.is_ascii_digit() || ",\"[](){}+^\u{fffd}".contains(char) {
            return false;
        }
        if !kinds.contains(&char) {
            kinds.push(char);
        }
    }
    match kinds.len() {
        0 => false,
        1 | 2 => true,
        _ => kinds.iter().all(|&kind| "xXO.".contains(kind)),
    }
}

/// The lengths of the rows of a drawing; none if it can be understood in several ways, or in none.
fn cells_drawn(lines: &[String]) -> Option<String> {
    let margin = &lines[0][..lines[0].len() - lines[0].trim_start().len()];
    let is_spaced = lines.iter().any(|line| line.trim().contains(' '));
    let row = |line: &String| {
        let text = line.strip_prefix(margin)?.chars().enumerate();
        let (spaces, cells): (Vec<_>, Vec<_>) = text.partition(|(at, _)| is_spaced && at % 2 == 1);
        let cells: Vec<char> = cells.into_iter().map(|(_, cell)| cell).collect();
        let is_even = spaces.iter().all(|&(_, space)| space == ' ')
            && !cells.iter().any(|cell| cell.is_whitespace());
        is_even.then_some(cells)
    };
    let rows = lines.iter().map(row).collect::<Option<Vec<Vec<char>>>>()?;
    let corner = rows[0][0];
    let mut others = rows.iter().flatten().skip(1);
    let other = others.clone().next().unwrap_or(&corner);
    let is_plain =
        others.clone().all(|cell| cell == other) && (corner == *other || "xXpP".contains(corner));
    // No row has two moves that win.
    let has_one = |row: &Vec<char>| row.iter().filter(|&&cell| cell == 'O').count() <= 1;
    let is_ours =
        corner == 'x' && others.all(|cell| "O.".contains(*cell)) && rows.iter().all(has_one);
    let lengths: Vec<String> = rows.iter().map(|row| row.len().to_string()).collect();
    (is_plain || is_ours).then(|| lengths.join(","))
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

/// The quoted field of a line of CSV, or the whole line if nothing is quoted.
fn field(line: &str) -> &str {
    let quoted = line
        .split_once('"')
        .and_then(|(_, rest)| rest.split_once('"'));
    quoted.map_or(line, |(field, _)| field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(numbers: Notation, lines: &str) -> Vec<String> {
        let positions = Positions::new(lines.as_bytes(), numbers);
        let rows = |rows: &Vec<u32>| match rows[..] {
            [] => "0".to_owned(),
            _ => format!("{rows:?}").replace([' ', '[', ']'], ""),
        };
        let told = positions.map(|(line, position)| match position {
            Ok(boards) => boards
                .all()
                .iter()
                .map(rows)
                .collect::<Vec<_>>()
                .join(" + "),
            Err(error) => {
                let error = format!("{error:#}");
                let named = format!("line {line} of stdin");
                assert!(error.starts_with(&named), "{error}");
                error
            }
        });
        told.collect()
    }

    #[test]
    fn lists_and_files_of_exports_are_read() {
        let lines = "\u{feff}5,4,2,1\r\n\n# a comment\n[5, 4, 2, 1]\n5 4 2 1 0 # with a zero\n8×2\t## \n3+2 #1\n";
        let expected = ["5,4,2,1", "5,4,2,1", "5,4,2,1", "line 6", "3,2"];
        let mut told = read(Notation::Rows, lines);
        told[3].truncate(6);
        assert_eq!(told, expected);
        let lines = "word,bits,area,rows\n2,2,1,\"1\"\n346,9,12,\"5,4,2,1\"\n";
        assert_eq!(read(Notation::Rows, lines), ["1", "5,4,2,1"]);
        let sums = "2,1 + 2x2 # two\n[3]+[2]\n3 + 2\n\"5 4 + [1]\"\n";
        let expected = ["2,1 + 2,2", "3 + 2", "3,2", "5,4 + 1"];
        assert_eq!(read(Notation::Rows, sums), expected);
        assert_eq!(read(Notation::Words, "346 + 0b10\n"), ["5,4,2,1 + 1"]);
        let told = read(Notation::Rows, "3,1\nthree\n");
        assert!(
            told[1].starts_with("line 2 of stdin: \"three\""),
            "{told:?}"
        );
    }

    #[test]
    fn drawings_are_read() {
        let lines = "ooo\noo\n\n  * * *\n  *\n4,1\n■■\nx O .\n. .\n";
        let expected = ["3,2", "3,1", "4,1", "2,3", "line 9"];
        let told = read(Notation::Rows, lines);
        assert_eq!(told[..3], expected[..3]);
        // The error has the number of the drawing's last line.
        assert!(told[3].starts_with("line 9 of stdin: \"■■\""), "{told:?}");
        // Rows that grow are no position, in a drawing as in a list.
        assert!(read(Notation::Rows, "oo\nooo")[0].contains("row 2 has 3"));
        assert_eq!(read(Notation::Rows, "x O .\n. .\n"), ["3,2"]);
        assert_eq!(read(Notation::Rows, "...\n3,1"), ["3", "3,1"]);
    }

    #[test]
    fn drawings_that_mean_several_things_are_refused() {
        for (lines, expected) in [
            ("XOOO\nOO\n", "4,2"),
            ("x\no\no", "1,1,1"),
            ("P # # #\n# #", "4,2"),
            ("xO..\n....\n", "4,4"),
            ("####\n###\n#\n\n# 2\n\n# #\n", "4,3,1|2"),
            ("#\n# a list\n#\n3,1", "3,1"),
            ("ooo # one row", "3"),
            ("OO**\nOO", "?"),
            ("■□□", "?"),
            ("O...\n....", "?"),
            ("xOO.\nO...", "?"),
            ("XOO.", "?"),
            ("ooo\no o", "?"),
            ("ooo\n  o", "?"),
            ("o o o\no   o", "?"),
            ("####\n# a list\n####\n3,1", "?|?|3,1"),
            ("# a board\n###\n##\n", "?"),
            ("ooo\n#\n", "?"),
        ] {
            let mut told = read(Notation::Rows, lines);
            for told in &mut told {
                if told.contains("begins") {
                    "?".clone_into(told);
                }
            }
            assert_eq!(told.join("|"), expected, "{lines}");
        }
    }

    #[test]
    fn reading_goes_on_behind_lines_that_are_no_text() {
        let long = "1,".repeat(40_000);
        let lines = [
            b"3,1\n".as_slice(),
            long.as_bytes(),
            b"\n# M\xfcller\n\xff\xff\n2,1",
        ]
        .concat();
        let found: Vec<_> = Positions::new(lines.as_slice(), Notation::Rows).collect();
        let right: Vec<u64> = found
            .iter()
            .filter(|one| one.1.is_ok())
            .map(|one| one.0)
            .collect();
        let wrong: Vec<u64> = found
            .iter()
            .filter(|one| one.1.is_err())
            .map(|one| one.0)
            .collect();
        assert_eq!((right, wrong), (vec![1, 5], vec![2, 4]));
    }

    #[test]
    fn numbers_are_words_or_columns_if_that_is_said() {
        // A header line can also say that numbers are words.
        assert_eq!(read(Notation::Rows, "word\n346\n0x15a\n"), ["5,4,2,1"; 2]);
        let words = Notation::Words;
        let expected = ["5,4,2,1", "5,4,2,1", "5,4,2,1", "0"];
        assert_eq!(read(words, "word\n346\n0x15a\n0b101011010\n0\n"), expected);
        assert!(read(words, "347")[0].contains("0b101011011 is not a word"));
        let columns = Notation::Columns;
        assert_eq!(
            read(columns, "4,3,2,2,1\n2x3\n0\n"),
            ["5,4,2,1", "2,2,2", "0"]
        );
        assert_eq!(columns.parse("100").unwrap().rows(), [1; 100]);
    }
}
