//! Positions on standard input, one a line: in a notation, in a column of a CSV file, as this program prints them in
//! JSON, or drawn.

use std::io::Read;

use anyhow::Context;
use serde_json::Value;

use super::Notation;
use super::board::Boards;
use super::columns::{Columns, names_columns};
use crate::exit::usage;
use crate::lines::{LINE_BYTES_MAX, Lines, without_comment};

/// The signs of the poison in a drawing.
const POISONS: [char; 4] = ['x', 'X', 'p', 'P'];

const NO_HEADER: &str = "no position, no drawing, which begins with the poison, such as xoo, and no header with a \
    column rows or word: nothing below it is read";
const LATE_HEADER: &str =
    "a header below positions, which may be in another column: a header comes first";
const OTHER_NUMBERS: &str = "the header says what the numbers mean: leave out --numbers";
const NO_DRAWING: &str = "no drawing: after the poison, x, X, p or P, each cell is the same character, and all rows \
    have the same margin and spaces; an empty line ends it";
const MATRIX: &str = "no position but, with the line above, a matrix of 0 and 1: write the lengths of the rows, \
    such as 3,2; rows of one cell as 1^3, and a single row as [110]";

/// The positions in some lines, in order, each with the number of its line, or of the first line of its drawing.
pub(super) struct Positions<R> {
    lines: Lines<R>,
    numbers: Notation,
    form: Form,
    drawing: Option<Drawing>,
    matrix: MatrixRows,
    has_ended: bool,
}

enum Form {
    /// There were only comments and empty lines so far.
    Unknown,
    Plain,
    Csv(Columns),
}

/// A drawing until an empty line ends it.
struct Drawing {
    line: u64,
    rows: Vec<String>,
    bytes: usize,
}

/// Lines of 0 and 1 that may be the rows of a matrix.
#[derive(Default)]
struct MatrixRows {
    width: usize,
    count: u32,
}

impl<R: Read> Positions<R> {
    pub(super) fn new(input: R, numbers: Notation) -> Self {
        Positions {
            lines: Lines::new(input),
            numbers,
            form: Form::Unknown,
            drawing: None,
            matrix: MatrixRows::default(),
            has_ended: false,
        }
    }

    /// The position in a line, or in the drawing that it ends.
    fn read(&mut self, number: u64, line: &str) -> Option<(u64, anyhow::Result<Boards>)> {
        let text = line.trim();
        if let Some(drawing) = &mut self.drawing {
            if text.is_empty() {
                return self.drawing.take().map(Drawing::finish);
            }
            drawing.push(line);
            return None;
        }
        let is_first = matches!(self.form, Form::Unknown);
        if text.is_empty() {
            self.matrix = MatrixRows::default();
            return None;
        }
        if is_first && let Some(columns) = Columns::of(line) {
            let is_clear = columns.may_have(self.numbers);
            self.form = Form::Csv(columns);
            return (!is_clear).then(|| self.end(number, OTHER_NUMBERS));
        }
        if text.starts_with('#') {
            return None;
        }
        if let Form::Csv(columns) = &self.form {
            return Some((number, columns.position(line)));
        }
        self.form = Form::Plain;
        if text.starts_with(POISONS) && cells_drawn(&[line.to_owned()]).is_some() {
            let mut drawing = Drawing {
                line: number,
                rows: Vec::new(),
                bytes: 0,
            };
            drawing.push(line);
            self.drawing = Some(drawing);
            return None;
        }
        let position = self.position(text);
        Some(match position {
            Err(_) if Columns::of(line).is_some() => self.end(number, LATE_HEADER),
            Err(_) if is_first && names_columns(text) => {
                self.end(number, &format!("\"{text}\" is {NO_HEADER}"))
            }
            position => (number, position),
        })
    }

    fn position(&mut self, text: &str) -> anyhow::Result<Boards> {
        if text.starts_with("{\"") {
            let position = of_json(text).context("no JSON object of chomp query or chomp openings");
            return Notation::Rows.parse(&position?);
        }
        let text = without_comment(text);
        if self.numbers != Notation::Words && self.matrix.has_another(text) {
            return Err(usage(format!("\"{text}\" is {MATRIX}")));
        }
        let quoted = text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'));
        self.numbers.parse(quoted.unwrap_or(text))
    }

    /// Reads no line after this one.
    fn end(&mut self, line: u64, why: &str) -> (u64, anyhow::Result<Boards>) {
        self.has_ended = true;
        (line, Err(usage(why)))
    }
}

impl<R: Read> Iterator for Positions<R> {
    type Item = (u64, anyhow::Result<Boards>);

    fn next(&mut self) -> Option<(u64, anyhow::Result<Boards>)> {
        while !self.has_ended {
            let found = match self.lines.next() {
                Some((number, Ok(line))) => self.read(number, &line),
                Some((number, Err(error))) => {
                    self.drawing = None;
                    // It may have been the header.
                    self.has_ended = matches!(self.form, Form::Unknown);
                    return Some((number, Err(error)));
                }
                None => {
                    self.has_ended = true;
                    self.drawing.take().map(Drawing::finish)
                }
            };
            if let Some((number, position)) = found {
                let position = position.with_context(|| format!("line {number} of stdin"));
                return Some((number, position));
            }
        }
        None
    }
}

impl Drawing {
    fn push(&mut self, row: &str) {
        self.bytes += row.len() + 1;
        if self.bytes <= LINE_BYTES_MAX {
            self.rows.push(row.trim_end().to_owned());
        }
    }

    fn finish(self) -> (u64, anyhow::Result<Boards>) {
        let cells = cells_drawn(&self.rows).filter(|_| self.bytes <= LINE_BYTES_MAX);
        let cells = cells.ok_or_else(|| {
            usage(format!(
                "\"{}\" begins {NO_DRAWING}, and at most {LINE_BYTES_MAX} bytes",
                self.rows[0].trim()
            ))
        });
        (
            self.line,
            cells.and_then(|cells| Notation::Rows.parse(&cells)),
        )
    }
}

impl MatrixRows {
    /// Whether this line, below those before it, makes a matrix of 0 and 1.
    fn has_another(&mut self, text: &str) -> bool {
        let is_sign = |byte: u8| b" ,\t[]()".contains(&byte);
        let is_binary = text
            .bytes()
            .all(|byte| is_sign(byte) || b"01".contains(&byte));
        let numbers = text
            .split(|char: char| !char.is_ascii_digit())
            .filter(|number| !number.is_empty());
        // Of three row lengths that follow each other one has another digit, such as 102.
        let most = match numbers.clone().count() {
            _ if !is_binary => 0,
            1 if numbers.clone().next() == Some(text) && text.len() > 1 => 2,
            2.. if numbers.clone().all(|number| number.len() == 1) => 1,
            _ => 0,
        };
        let has_same_width = text.len() == self.width;
        self.width = text.len();
        self.count = match most {
            0 => 0,
            _ if has_same_width => self.count + 1,
            _ => 1,
        };
        self.count > most
    }
}

/// The position in an object of `chomp query --json` or `chomp openings --json`, as text.
fn of_json(line: &str) -> Option<String> {
    let object: Value = serde_json::from_str(line).ok()?;
    let board = |object: &Value| match [&object["rows"], &object["columns"]] {
        [rows @ Value::Array(_), _] => Some(rows.to_string()),
        [Value::Number(rows), Value::Number(columns)] if object["moves"].is_array() => {
            Some(format!("{rows}x{columns}"))
        }
        _ => None,
    };
    match &object["sum"] {
        Value::Array(boards) => {
            let boards = boards.iter().map(board).collect::<Option<Vec<_>>>();
            boards.map(|boards| boards.join(" + "))
        }
        _ => board(&object),
    }
}

/// The lengths of the rows of a drawing; none if it is no drawing, or may be understood in several ways.
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
    let poison = *rows[0].first().filter(|corner| POISONS.contains(corner))?;
    let mut others = rows.iter().flatten().skip(1);
    let other = *others.clone().next().unwrap_or(&poison);
    let is_cell = !other.is_alphanumeric() || "oO".contains(other) || other == poison;
    let is_plain = is_cell && others.clone().all(|&cell| cell == other);
    // No row has two moves that win.
    let has_one = |row: &Vec<char>| row.iter().filter(|&&cell| cell == 'O').count() <= 1;
    let is_ours =
        poison == 'x' && others.all(|cell| "O.".contains(*cell)) && rows.iter().all(has_one);
    let lengths: Vec<String> = rows.iter().map(|row| row.len().to_string()).collect();
    (is_plain || is_ours).then(|| lengths.join(","))
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

    /// The positions of `lines`, with `?` for an error.
    fn found(lines: &str) -> String {
        let mut found = read(Notation::Rows, lines);
        for found in &mut found {
            if found.starts_with("line") {
                "?".clone_into(found);
            }
        }
        found.join("|")
    }

    #[test]
    fn a_line_is_a_position_or_a_comment() {
        let lines = "\u{feff}5,4,2,1\r\n\n# a comment\n[5, 4, 2, 1]\n5 4 2 1 0 # with a zero\n8×2\t## \n3+2#1\n\"4,3\"\n";
        let eight = ["2"; 8].join(",");
        let expected = format!("5,4,2,1|5,4,2,1|5,4,2,1|{eight}|3,2|4,3");
        assert_eq!(found(lines), expected);
        let sums = "2,1 + 2x2 # two\n[3]+[2]\n3 + 2\n\"5 4 + [1]\"\n";
        assert_eq!(found(sums), "2,1 + 2,2|3 + 2|3,2|5,4 + 1");
        assert_eq!(read(Notation::Words, "346 + 0b10\n"), ["5,4,2,1 + 1"]);
        for wrong in [
            "three",
            "abc,def",
            "---",
            "y",
            "NN",
            "ooo",
            "7,\"5,4\"",
            "\"5\",4",
            "\"5\" \"4\"",
            "{5",
            "[",
            "5\0",
        ] {
            assert_eq!(found(&format!("3,1\n{wrong}\n2,1")), "3,1|?|2,1", "{wrong}");
            let told = read(Notation::Rows, &format!("3,1\n{wrong}\n"));
            assert!(told[1].starts_with("line 2 of stdin: "), "{told:?}");
        }
    }

    #[test]
    fn positions_are_in_the_column_of_their_name() {
        for (lines, expected) in [
            ("id,rows\n7,\"5,4,2,1\"\n8,4\n9,3\n", "5,4,2,1|4|3"),
            (
                "word,bits,area,rows\n2,2,1,1\n346,9,12,5+4+2+1\n",
                "1|5,4,2,1",
            ),
            (
                "word,bits,area,rows\n2,2,1,\"1\"\n346,9,12,\"5,4,2,1\"\n",
                "1|5,4,2,1",
            ),
            (
                "# of R\n\"\",\"rows\"\n# more\n\n\"1\",\"4 2\"\n\"2\",\"3\"\n",
                "4,2|3",
            ),
            (",rows\n0,\"2,1\"\n1,3\n", "2,1|3"),
            ("#,rows\n7,5\n", "5"),
            ("id;rows;note\r\n7;4,2;\r\n8;3;\"a;b\"\r\n", "4,2|3"),
            ("id\trows\t\n7\t4 2\t\n\t3\tc\n", "4,2|3"),
            ("rows\n3\n\"2,1\"\n\"2;1\"\n", "3|2,1|?"),
            (
                "name,rows\n\"a, \"\"b\"\"\",3\nc\"d,3\n\"e\"f,3\n\"g,3\n\"3\"\"2\",3\n",
                "3|?|?|?|3",
            ),
            ("id,rows\n1,\"3\"\"2\"\n", "?"),
            ("word\n346\n0x15a\n0b101011010\n", "5,4,2,1|5,4,2,1|5,4,2,1"),
            ("id,word\n7,346\n8,\n9,5,4\n", "5,4,2,1|?|?"),
            // A list without quotes has too many fields, in the only column too.
            ("rows\n5,4,2,1\n3\n7\t5\n", "?|3|?"),
            ("id,rows\n7,5,4\n3\n\n5,4,\n", "?|?|?"),
            // The word shows that a program took the rows for a number.
            (
                "rows,word\n21,10\n\"2,1\",10\n\"2,1\",\n21,\n",
                "?|2,1|2,1|21",
            ),
            ("rows,rows\n3,2\n", "?"),
            ("id,rows\n", ""),
        ] {
            assert_eq!(found(lines), expected, "{lines}");
        }
        let words = Notation::Words;
        assert_eq!(read(words, "word,rows\n10,\"2,1\"\n"), ["2,1"]);
        for (numbers, lines) in [
            (words, "rows\n346\n"),
            (Notation::Columns, "rows\n3\n"),
            (Notation::Columns, "word\n346\n"),
        ] {
            let told = read(numbers, lines);
            assert!(
                told.len() == 1 && told[0].contains("leave out --numbers"),
                "{told:?}"
            );
        }
    }

    /// Positions below a header that is not understood, or above a late one, may be in any column.
    #[test]
    fn nothing_is_read_below_a_header_that_is_not_understood() {
        for header in [
            "abc,def",
            "a,a",
            "length",
            "V1;V2",
            "\"x\"",
            ",0",
            "\"\",\"lengths\"",
            "Rows",
            "position,losing",
            "a\t b",
        ] {
            let lines = format!("# a list\n{header}\n5,3\n4\n");
            let told = read(Notation::Rows, &lines);
            assert!(
                told.len() == 1 && told[0].contains("nothing below it is read"),
                "{header}: {told:?}"
            );
        }
        for header in ["word", "id,rows", "\"rows\"\t\"word\""] {
            let told = read(Notation::Rows, &format!("346\n{header}\n4\n"));
            assert!(
                told.len() == 2 && told[1].contains("a header comes first"),
                "{told:?}"
            );
        }
        let long = "a".repeat(LINE_BYTES_MAX);
        assert_eq!(found(&format!("{long},rows\n5,3\n")), "?");
        // A first line that is a slip of the pen is no header.
        assert_eq!(found("5,4,2,l\n5,4\n"), "?|5,4");
        assert_eq!(found("# rows, longest first\n5,4\n"), "5,4");
    }

    #[test]
    fn lines_of_json_are_read_back() {
        for (lines, expected) in [
            (
                r#"{"rows":[5,4,2,1],"word":346,"losing":false,"winning_moves":[[1,2]]}"#,
                "5,4,2,1",
            ),
            (r#"{"rows":[],"bits":0}"#, "0"),
            (
                r#"{"sum":[{"rows":[2,1],"value":0},{"rows":[3],"value":2}],"value":2}"#,
                "2,1 + 3",
            ),
            (r#"{"rows":2,"columns":3,"moves":[[2,3]]}"#, "3,3"),
            (r#"{"rows":2,"columns":3,"losing":12,"openings":[]}"#, "?"),
            (r#"{"rows":[1,2]}"#, "?"),
            (r#"{"rows":["5"]}"#, "?"),
            (r#"{"rows":[3.5]}"#, "?"),
            (r#"{"word":346}"#, "?"),
            (r#"{"sum":[{"rows":[2,1]},{"value":2}]}"#, "?"),
            (r#"{"rows":[3]} {"rows":[2]}"#, "?"),
            (r#"{"rows":[3]"#, "?"),
        ] {
            assert_eq!(found(lines), expected, "{lines}");
            assert_eq!(
                found(&format!("3\n{lines}\n2\n")),
                format!("3|{expected}|2"),
                "{lines}"
            );
        }
    }

    #[test]
    fn a_matrix_of_0_and_1_is_no_list_of_positions() {
        for (lines, expected) in [
            ("1 1 1\n1 1 0\n1 0 0", "1,1,1|?|?"),
            ("1,1\n1,1", "1,1|?"),
            ("[1, 0]\n[1, 0]\n", "1|?"),
            ("111\n110\n100", "111|110|?"),
            ("111 # cells\n111\n110\n", "111|111|?"),
            // These are lists.
            ("1,1\n1,1,1\n1,1", "1,1|1,1,1|1,1"),
            ("11,10\n11,11\n10,10", "11,10|11,11|10,10"),
            ("10\n11\n12\n100\n101\n102", "10|11|12|100|101|102"),
            ("1\n1\n0\n0", "1|1|0|0"),
            ("[11]\n[10]\n[11]\n", "11|10|11"),
            ("1,1\n\n1,1", "1,1|1,1"),
            ("1,1\n2,1\n1,1", "1,1|2,1|1,1"),
            ("1^2\n1^2", "1,1|1,1"),
        ] {
            assert_eq!(found(lines), expected, "{lines}");
        }
        assert_eq!(read(Notation::Words, "100\n110\n100").len(), 3);
    }

    #[test]
    fn drawings_begin_with_the_poison() {
        for (lines, expected) in [
            ("XOOO\nOO\n", "4,2"),
            ("x\no\no", "1,1,1"),
            ("x", "1"),
            ("P # # #\n# #", "4,2"),
            ("x O .\n. .\n", "3,2"),
            ("  x * *\n  *  \n \n4,1\nxoo\n\n", "3,1|4,1|3"),
            ("xO..\n....\n\n# a list\np..\n", "4,4|3"),
            ("xxx\nxx", "3,2"),
            ("x■■\n■\n", "3,1"),
            // Rows that grow are no position, in a drawing as in a list.
            ("xo\nooo", "?"),
            ("xo\n4,1\n\n3,1", "?|3,1"),
            ("x\n5\n3\n", "?"),
            ("xoo # a row", "?"),
            ("xOO.\nO...", "?"),
            ("XOO.", "?"),
            ("xoo\no o", "?"),
            ("xoo\n  o", "?"),
            ("x o o\no   o", "?"),
            ("xoo\n# a comment\noo", "?"),
            ("x\t\n\to", "?"),
            ("px", "?"),
            ("yoo\noo", "?"),
            ("■■\n■", "?|?"),
        ] {
            assert_eq!(found(lines), expected, "{lines}");
        }
        // The error has the number of the drawing's first line.
        let told = read(Notation::Rows, "3,1\nxoo\no o\n\n2,1\n");
        assert!(told[1].starts_with("line 2 of stdin: \"xoo\""), "{told:?}");
        let row = "o".repeat(LINE_BYTES_MAX / 4);
        let drawing =
            |rows: usize| format!("x{}\n{}", &row[1..], format!("{row}\n").repeat(rows - 1));
        assert_eq!(found(&drawing(5)), "?");
        let told = read(Notation::Rows, &drawing(5));
        assert!(told[0].contains("at most 1048576 bytes"), "{}", told[0]);
    }

    #[test]
    fn reading_goes_on_behind_lines_that_are_no_text() {
        let long = "1,".repeat(LINE_BYTES_MAX);
        let lines = [
            b"3,1\n".as_slice(),
            long.as_bytes(),
            b"\n# M\xfcller\n\xff\xff\n2,1",
        ]
        .concat();
        let found: Vec<_> = Positions::new(lines.as_slice(), Notation::Rows).collect();
        let numbers = |right| {
            let found = found.iter().filter(move |one| one.1.is_ok() == right);
            found.map(|one| one.0).collect::<Vec<u64>>()
        };
        assert_eq!((numbers(true), numbers(false)), (vec![1, 5], vec![2, 4]));
    }

    #[test]
    fn numbers_are_words_or_columns_if_that_is_said() {
        let words = Notation::Words;
        let expected = ["5,4,2,1", "5,4,2,1", "5,4,2,1", "0"];
        assert_eq!(read(words, "word\n346\n0x15a\n0b101011010\n0\n"), expected);
        assert!(read(words, "347")[0].contains("0b101011011 is not a word"));
        for wrong in ["5,4,2,1", "8x10", "346 14", "[346]", "2^3", "346 + 8x10"] {
            assert!(words.parse(wrong).is_err(), "{wrong}");
        }
        let columns = Notation::Columns;
        assert_eq!(
            read(columns, "4,3,2,2,1\n2x3\n0\n"),
            ["5,4,2,1", "2,2,2", "0"]
        );
        assert_eq!(columns.parse("100").unwrap().rows(), [1; 100]);
    }
}
