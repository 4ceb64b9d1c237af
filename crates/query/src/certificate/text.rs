//! The text of certificates: lines that end with a line feed, which the last one may lack.
//!
//! ```text
//! # …          any number of comments, and nothing before them
//! board 8x10   the rows and columns of the board
//! move 5,6     the row and column of the first move
//! 10,10,5,1    the rows of a position, longest first: one position a line
//! ```
//!
//! A number is one or two digits, and the first is not 0. Nothing else is in a line: no spaces, no other form of a
//! position. A position fits on the board, and neither it nor its mirror image has another line. So a text says one
//! thing only, and every program that checks certificates takes the same texts.
//!
//! Limits: 64 rows and columns together, 1,000 bytes in a line, 2^28 positions. Only positions are kept in memory.

use std::collections::HashSet;
use std::fmt;
use std::io::{BufRead, Read};
use std::ops::ControlFlow;

use chomp_table::{Cell, Position, Word};
use foldhash::fast::RandomState;

use super::check::BITS_MAX;
use super::{Certificate, CertificateError};

/// The most bytes of a line, without the line feed.
const LINE_BYTES_MAX: usize = 1_000;

/// The most positions of a certificate.
const POSITIONS_MAX: usize = 1 << 28;

/// The most characters of a line that an error shows.
const SHOWN_CHARS_MAX: usize = 40;

/// Between two calls of `watch`.
const WATCH_LINES: u64 = 1 << 12;

/// The lines before the first position of a certificate that is written.
pub(super) const LINES_BEFORE: u64 = 5;

impl Certificate {
    /// Reads a certificate, line by line. `watch` gets the number of lines so far, and says whether to go on. Fails if
    /// the text is no certificate or cannot be read, or if `watch` ends it. Whether it proves its claim is for
    /// [`check`](Certificate::check) to say.
    pub fn read(
        input: &mut dyn BufRead,
        watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Certificate, CertificateError> {
        let mut lines = Lines {
            input,
            watch,
            number: 0,
            line: Vec::new(),
        };
        while lines.next()? && lines.line.starts_with(b"#") {}
        let board = lines.pair("board ", b'x', "8x10")?;
        if board.0 + board.1 > BITS_MAX {
            let what = format!("a board has at most {BITS_MAX} rows and columns together");
            return Err(lines.refused(what));
        }
        lines.next()?;
        let (row, column) = lines.pair("move ", b',', "5,6")?;
        let lines_before = lines.number;
        let (mut positions, mut seen) = (Vec::new(), HashSet::<Word, RandomState>::default());
        while lines.next()? {
            let position = lines.position(board)?;
            if positions.len() == POSITIONS_MAX {
                return Err(lines.refused("there are too many positions"));
            }
            if !seen.insert(position.representative()) {
                return Err(lines.refused("the position or its mirror image has a line before"));
            }
            positions.push(position);
        }
        Ok(Certificate {
            board,
            opening: Cell { row, column },
            positions,
            lines_before,
        })
    }
}

struct Lines<'a> {
    input: &'a mut dyn BufRead,
    watch: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    /// The number of the line.
    number: u64,
    /// The line, without the line feed. Empty at the end of the text.
    line: Vec<u8>,
}

impl Lines<'_> {
    /// Reads the next line; false at the end.
    fn next(&mut self) -> Result<bool, CertificateError> {
        if self.number.is_multiple_of(WATCH_LINES) && (self.watch)(self.number).is_break() {
            return Err(CertificateError::Stopped);
        }
        self.number += 1;
        self.line.clear();
        let most = LINE_BYTES_MAX + 1;
        let mut input = (&mut self.input).take(most as u64);
        let read = input.read_until(b'\n', &mut self.line);
        let read = read.map_err(CertificateError::Read)?;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if read == most {
            return Err(self.refused(format!("it has more than {LINE_BYTES_MAX} bytes")));
        }
        Ok(read > 0)
    }

    fn refused(&self, what: impl Into<String>) -> CertificateError {
        CertificateError::Line {
            line: self.number,
            what: what.into(),
        }
    }

    /// The error that the line is not what belongs here.
    fn is_not(&self, wanted: &str) -> CertificateError {
        let text = String::from_utf8_lossy(&self.line);
        let shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
        let found = if shown.is_empty() {
            "nothing".to_owned()
        } else {
            format!("{shown:?}")
        };
        self.refused(format!("{found} where {wanted} belongs"))
    }

    /// The two numbers of the line, behind `name` and with `sign` between them.
    fn pair(&self, name: &str, sign: u8, example: &str) -> Result<(u32, u32), CertificateError> {
        let numbers = self.line.strip_prefix(name.as_bytes());
        match numbers.and_then(|text| numbers_of(text, sign)).as_deref() {
            Some(&[one, other]) => Ok((one, other)),
            _ => Err(self.is_not(&format!("a line such as \"{name}{example}\""))),
        }
    }

    /// The position in the line, which is to fit on a board of so many rows and columns.
    fn position(&self, (most_rows, columns): (u32, u32)) -> Result<Word, CertificateError> {
        let rows = numbers_of(&self.line, b',');
        let rows = rows.ok_or_else(|| self.is_not("a position such as \"5,4,2,1\""))?;
        if rows.len() > most_rows as usize || rows.iter().any(|&row| row > columns) {
            return Err(self.is_not(&format!("a position inside {most_rows}x{columns}")));
        }
        let position = Position::new(rows);
        let position = position.map_err(|error| self.refused(error.to_string()))?;
        Ok(Word::from(&position))
    }
}

/// The numbers with `sign` between them: one or two digits each, and the first is not 0.
fn numbers_of(text: &[u8], sign: u8) -> Option<Vec<u32>> {
    let number = |digits: &[u8]| match digits {
        [b'1'..=b'9'] | [b'1'..=b'9', b'0'..=b'9'] => str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    };
    text.split(|&byte| byte == sign).map(number).collect()
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((rows, columns), Cell { row, column }) = (self.board, self.opening);
        writeln!(
            f,
            "# The first move ({row},{column}) wins on {rows}x{columns}: whoever is to move from one of these positions \
             loses.\n# After each move from one of them, but the one that takes the poison (1,1), some reply leads to \
             one of\n# them, or to the mirror image of one. Each line has the rows of one, longest first.\n\
             board {rows}x{columns}\nmove {row},{column}"
        )?;
        let mut positions = self.positions.iter().map(|&word| Position::from(word));
        positions.try_for_each(|position| writeln!(f, "{position}"))
    }
}
