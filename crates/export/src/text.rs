//! CSV: a line of names, then a line for each position, each ended by a line feed.

use std::io::Write;

use chomp_table::Word;

use crate::words::Words;
use crate::{ExportError, Pieces};

pub(crate) fn write_words(words: &mut Words<'_>, out: &mut dyn Write) -> Result<u64, ExportError> {
    out.write_all(b"word\n")?;
    words.write_each(out, |lines, word| writeln!(lines, "{word}"))
}

/// Writes the columns `word`, `bits`, `area`, and `rows` in quotes, as `"5,4,2,1"`.
pub(crate) fn write_rows(words: &mut Words<'_>, out: &mut dyn Write) -> Result<u64, ExportError> {
    out.write_all(b"word,bits,area,rows\n")?;
    let mut rows = Vec::new();
    words.write_each(out, |lines, &word| {
        rows.clear();
        let mut area: u32 = 0;
        for row in row_lengths(word) {
            area += u32::from(row);
            if row >= 10 {
                rows.push(b'0' + row / 10);
            }
            rows.extend([b'0' + row % 10, b',']);
        }
        rows.pop();
        let bits = Word::new(word).bits();
        write!(lines, "{word},{bits},{area},\"")?;
        lines.extend_from_slice(&rows);
        lines.extend_from_slice(b"\"\n");
        Ok(())
    })
}

/// Longest first. A 0 is a row of as many cells as there are 1s above it, and the lowest 0 is the first row.
pub(crate) fn row_lengths(word: u64) -> impl Iterator<Item = u8> {
    let mut rest = word;
    std::iter::from_fn(move || {
        rest >>= rest.trailing_ones();
        let ones = u8::try_from(rest.count_ones()).expect("at most 64");
        rest >>= 1;
        (ones > 0).then_some(ones)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use chomp_table::Position;

    #[test]
    fn row_lengths_are_those_of_the_position() {
        let large = [u64::MAX - 1, 1 << 63, 0xffff_ffff << 32];
        for path in (0..1 << 12).chain(large) {
            let word = Word::new(path);
            let rows: Vec<u32> = row_lengths(word.get()).map(u32::from).collect();
            assert_eq!(rows, Position::from(word).rows(), "{path:b}");
        }
    }
}
