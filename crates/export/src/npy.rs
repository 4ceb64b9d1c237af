//! An array of `NumPy`: the words, 8 bytes each, little-endian.
//!
//! ```text
//! 6  0x93 "NUMPY"
//! 2  version, 1 and 0
//! 2  the length of what follows, so that words begin at a multiple of 64
//! …  a dictionary of Python that names type, order and number of the elements, spaces, a line feed
//! 8  each word
//! ```

use std::io::Write;

use crate::words::Words;
use crate::{ExportError, Pieces};

/// The bytes before the dictionary.
const PREFIX_BYTES: usize = 10;
const ALIGNMENT: usize = 64;

pub(crate) fn write(words: &mut Words<'_>, out: &mut dyn Write) -> Result<u64, ExportError> {
    let count = words.count()?;
    out.write_all(&preamble("'<u8'", &format!("({count},)")))?;
    write_words(words, out)
}

/// The bytes before the elements. `kind` is the type of an element and `shape` how many there are, as Python writes it.
pub(crate) fn preamble(kind: &str, shape: &str) -> Vec<u8> {
    let fields = format!("{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}");
    let width = (PREFIX_BYTES + fields.len() + 1).next_multiple_of(ALIGNMENT) - PREFIX_BYTES - 1;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    let length = u16::try_from(width + 1).expect("a short line");
    header.extend(length.to_le_bytes());
    header.extend(format!("{fields:width$}\n").bytes());
    header
}

pub(crate) fn write_words(words: &mut Words<'_>, out: &mut dyn Write) -> Result<u64, ExportError> {
    words.write_each(out, |bytes, word| {
        bytes.extend(word.to_le_bytes());
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_at_a_multiple_of_64() {
        for count in [0, 7, 10_000_000, u64::MAX] {
            let header = preamble("'<u8'", &format!("({count},)"));
            assert_eq!(header.len() % ALIGNMENT, 0, "{count}");
            let length = usize::from(u16::from_le_bytes([header[8], header[9]]));
            assert_eq!(header.len(), PREFIX_BYTES + length);
            let text = std::str::from_utf8(&header[PREFIX_BYTES..]).unwrap();
            assert!(text.contains(&format!("'shape': ({count},)")), "{text}");
            assert!(text.ends_with(" \n") || text.ends_with("}\n"), "{text}");
        }
    }
}
