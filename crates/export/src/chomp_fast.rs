//! The losing positions inside a box in the byte layouts of another program.
//!
//! The program is georgeyanceyjr-hash/chomp-fast. It keeps words as they are kept here (1 for a step along a row, 0 for
//! a step to the next, leading 1 and trailing 0), but both of a mirror pair, and it finds them by another algorithm:
//! class by class of equal rows and columns. All its integers are little-endian. Its **catalogue**:
//!
//! ```text
//! 8  "CHOMPP02"
//! 8  the number of words
//! 8  the largest word
//! 4  the most columns
//! 4  the most rows
//! 8  each word, ascending
//! ```
//!
//! Its **checkpoint** for squares of side n: "CHOMPCP2", and then for each h from 3 on, and for each
//! w from h + 1 to n, the words of more than 12 bits with h rows and w columns or the other way:
//!
//! ```text
//! 4  "CLAS"
//! 2  w
//! 2  h
//! 8  the number of words
//! 8  the checksum: FNV-1a of 64 bits but for its start, over w, h, the number and the words as 8 bytes each
//! 8  each word, ascending
//! ```

use std::io::Write;

use chomp_table::Word;

use crate::words::Words;
use crate::{ExportError, ExportRequest, Filter, Format, Rectangle, npy};

/// The most bits of the words that a checkpoint leaves out.
const CHECKPOINT_SEED_BITS: u32 = 12;
const CHECKPOINT_SIDE_MIN: u32 = 3;
/// Where the checksum of a class starts. FNV-1a has 14,695,981,039,346,656,037; this is what the program has.
const CHECKSUM_START: u64 = 1_469_598_103_934_665_603;
/// The factor of the checksum, as in FNV-1a.
const CHECKSUM_FACTOR: u64 = 1_099_511_628_211;

/// Fails unless the request is for all positions of a box.
pub(crate) fn check(request: &ExportRequest) -> Result<(), ExportError> {
    let format = request.format;
    let unsuited = |what| Err(ExportError::Unsuited { format, what });
    let Filter {
        bits,
        areas,
        within,
        both: _,
    } = request.filter;
    if bits.is_some() || areas.is_some() {
        return unsuited("holds all positions of a box: leave out --bits and --area");
    }
    match within {
        None => unsuited("is for a box: say which with --box, as --box 16x16"),
        Some(within) if format == Format::ChompFastCheckpoint && !within.is_square() => {
            unsuited("is for a square, as --box 16x16")
        }
        Some(_) => Ok(()),
    }
}

fn the_box(words: &Words<'_>) -> Rectangle {
    let within = words.selection.filter.within;
    within.expect("the request was checked for it")
}

pub(crate) fn write_catalogue(
    words: &mut Words<'_>,
    out: &mut dyn Write,
) -> Result<u64, ExportError> {
    let within = the_box(words);
    let totals = words.totals()?;
    out.write_all(b"CHOMPP02")?;
    out.write_all(&totals.words.to_le_bytes())?;
    out.write_all(&totals.largest.to_le_bytes())?;
    out.write_all(&within.columns().to_le_bytes())?;
    out.write_all(&within.rows().to_le_bytes())?;
    npy::write_words(words, out)
}

pub(crate) fn write_checkpoint(
    words: &mut Words<'_>,
    out: &mut dyn Write,
) -> Result<u64, ExportError> {
    let side = the_box(words).rows();
    let classes: Vec<(u32, u32)> = (CHECKPOINT_SIDE_MIN..side)
        .flat_map(|height| (height + 1..=side).map(move |width| (height, width)))
        .collect();
    let places = side as usize + 1;
    let mut class_of = vec![vec![None; places]; places];
    for (class, &(height, width)) in classes.iter().enumerate() {
        class_of[height as usize][width as usize] = Some(class);
        class_of[width as usize][height as usize] = Some(class);
    }
    let class_of = |word: Word| {
        let columns = word.get().count_ones();
        let rows = word.bits() - columns;
        class_of[rows as usize][columns as usize].filter(|_| word.bits() > CHECKPOINT_SEED_BITS)
    };

    let counts = words.count_by_place(classes.len(), class_of)?;
    out.write_all(b"CHOMPCP2")?;
    let mut written = 0;
    let count = words.for_each_place(&counts, class_of, |class, words| {
        // Classes without words have their headers too.
        for &empty in &classes[written..class] {
            write_class(empty, &[], out)?;
        }
        written = class + 1;
        write_class(classes[class], words, out)
    })?;
    for &empty in &classes[written..] {
        write_class(empty, &[], out)?;
    }
    Ok(count)
}

fn write_class(
    (height, width): (u32, u32),
    words: &[u64],
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let mut checksum = CHECKSUM_START;
    let count = words.len() as u64;
    let header = [u64::from(width), u64::from(height), count];
    for byte in header.iter().chain(words).flat_map(|n| n.to_le_bytes()) {
        checksum = (checksum ^ u64::from(byte)).wrapping_mul(CHECKSUM_FACTOR);
    }
    let side = |n: u32| u16::try_from(n).expect("at most 64").to_le_bytes();
    out.write_all(b"CLAS")?;
    out.write_all(&side(width))?;
    out.write_all(&side(height))?;
    out.write_all(&count.to_le_bytes())?;
    out.write_all(&checksum.to_le_bytes())?;
    for word in words {
        out.write_all(&word.to_le_bytes())?;
    }
    Ok(())
}
