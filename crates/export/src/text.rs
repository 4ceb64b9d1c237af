//! CSV: a line of names, then a line for each position, each ended by a line feed.

use std::io::{self, Write};

use chomp_table::Word;

use crate::words::Words;
use crate::{ExportError, Pieces};

pub(crate) fn write_words(words: &mut Words<'_>, out: &mut dyn Write) -> Result<u64, ExportError> {
    out.write_all(b"word\n")?;
    words.write_each(out, |lines, word| writeln!(lines, "{word}"))
}

/// Writes the columns `word`, `bits`, `area`, and `rows`.
pub(crate) fn write_rows(words: &mut Words<'_>, out: &mut dyn Write) -> Result<u64, ExportError> {
    out.write_all(b"word,bits,area,rows\n")?;
    words.write_each(out, |lines, &word| {
        let area: u32 = row_lengths(word).map(u32::from).sum();
        let bits = Word::new(word).bits();
        write!(lines, "{word},{bits},{area},")?;
        push_rows(lines, row_lengths(word).map(u32::from))?;
        lines.push(b'\n');
        Ok(())
    })
}

/// Appends rows as `5+4+2+1`. Many programs take `5,4,2,1` for one number with signs between its thousands.
pub(crate) fn push_rows(line: &mut Vec<u8>, rows: impl Iterator<Item = u32>) -> io::Result<()> {
    let digit = |row: u32| b'0' + u8::try_from(row % 10).expect("a digit");
    for (place, row) in rows.enumerate() {
        line.extend((place > 0).then_some(b'+'));
        match row {
            0..10 => line.push(digit(row)),
            10..100 => line.extend([digit(row / 10), digit(row)]),
            _ => write!(line, "{row}")?,
        }
    }
    Ok(())
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
