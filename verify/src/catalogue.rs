//! The losing positions inside a box in the byte layouts of another program, so that its published
//! SHA-256 sums can be compared.
//!
//! The program is georgeyanceyjr-hash/chomp-fast. It keeps words as they are kept here (1 for a
//! step along a row, 0 for a step to the next, leading 1 and trailing 0), but both of a mirror
//! pair, and it finds them by another algorithm: class by class of equal rows and columns. All its
//! integers are little-endian. Its **catalogue**:
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
//!
//! Words are collected in several passes over the table, as many at a time as fit in memory.

use chomp_table::digest::DigestBuilder;
use chomp_table::{Digest, Table, Word};

use crate::survey::Survey;
use crate::{CheckError, UNWATCHED, each_piece, ensure, rows_and_columns};

/// SHA-256 sums of catalogues: the side of the square, and the sum. From `SHA256SUMS` (V5) and
/// `20x20_V11_MANIFEST.json`. (An older one for 18x18 is of a faulty version, 38,331,741 positions,
/// as its author says.)
pub const CATALOGUES: [(u32, &str); 2] = [
    (
        19,
        "7fd428e2381a464b588dcc6b631d021f4003a0b79b84945006929f7e21f7e0fb",
    ),
    (
        20,
        "b2d8e2bda7c158162fc61f14f294d5deeba0acbe96c1fd62ba1e765924a88ec4",
    ),
];

/// SHA-256 sums of checkpoints: the side of the square, and the sum. From `verify_v8_8.py`,
/// `18x18_V10_MANIFEST.json` and `SHA256SUMS` (V5).
pub const CHECKPOINTS: [(u32, &str); 3] = [
    (
        8,
        "9e1779f0056efce30ac104fb10fb321afb649a467d314c3e5c257859c6ccd491",
    ),
    (
        18,
        "a0cb64b2783f8a650e16ab25f8ab0696dbe3e6789728ac2d9fdcc213954e5b8a",
    ),
    (
        19,
        "723271af0730f423cd529f462907feb177f210fcc8ac9c38b01d5070fa99ed06",
    ),
];

/// The checkpoint leaves out words of at most so many bits.
const CHECKPOINT_SEED_BITS: u32 = 12;
/// Words are counted by so many of their high bits, to cut them into passes.
const BIN_BITS: u32 = 16;
/// Where the checksum of a class starts. FNV-1a has 14,695,981,039,346,656,037; this is what the
/// program has.
const CHECKSUM_START: u64 = 1_469_598_103_934_665_603;

/// Calls `write` with the bytes of the catalogue of the box of so many rows and columns.
///
/// `memory` is in bytes, for the words of one pass; one 65,536th of all words is always taken.
///
/// # Errors
///
/// If the table cannot be read.
///
/// # Panics
///
/// If the table does not cover the box.
pub fn write_catalogue(
    table: &Table,
    (rows, columns): (u32, u32),
    memory: u64,
    mut write: impl FnMut(&[u8]),
) -> Result<(), CheckError> {
    let bits = rows + columns;
    assert!(bits <= table.manifest().bits, "the table covers the box");
    let shift = bits.saturating_sub(BIN_BITS);
    let place_of = |word: u64| usize::try_from(word >> shift).expect("65,536 places");
    let inside = |word: Word| {
        let (has_rows, has_columns) = rows_and_columns(word);
        has_rows <= rows && has_columns <= columns
    };
    let mut counts = vec![0_u64; 1 << BIN_BITS];
    let (mut count, mut largest) = (0_u64, 0);
    each_word(table, bits, |word| {
        if inside(word) {
            counts[place_of(word.get())] += 1;
            count += 1;
            largest = largest.max(word.get());
        }
    })?;

    write(b"CHOMPP02");
    write(&count.to_le_bytes());
    write(&largest.to_le_bytes());
    write(&columns.to_le_bytes());
    write(&rows.to_le_bytes());
    for pass in passes(&counts, memory / 8) {
        let mut words = Vec::with_capacity(sum(&counts[pass.clone()]));
        each_word(table, bits, |word| {
            if inside(word) && pass.contains(&place_of(word.get())) {
                words.push(word.get());
            }
        })?;
        words.sort_unstable();
        for word in &words {
            write(&word.to_le_bytes());
        }
    }
    Ok(())
}

/// Calls `write` with the bytes of the checkpoint for squares of this side.
///
/// `memory` is in bytes, for the words of one pass; the words of one class are always taken.
///
/// # Errors
///
/// If the table cannot be read.
///
/// # Panics
///
/// If the table does not cover the square, or is not that of the survey.
pub fn write_checkpoint(
    table: &Table,
    survey: &Survey,
    side: u32,
    memory: u64,
    mut write: impl FnMut(&[u8]),
) -> Result<(), CheckError> {
    let bits = 2 * side;
    assert!(bits <= table.manifest().bits, "the table covers the square");
    assert!(
        survey.bits() == table.manifest().bits,
        "a survey of the table"
    );
    let classes: Vec<(u32, u32)> = (3..side)
        .flat_map(|rows| (rows + 1..=side).map(move |columns| (rows, columns)))
        .collect();
    let counts: Vec<u64> = classes
        .iter()
        .map(|&(rows, columns)| survey.class(rows, columns) + survey.class(columns, rows))
        .collect();
    let mut class_of = vec![vec![usize::MAX; side as usize + 1]; side as usize + 1];
    for (class, &(rows, columns)) in classes.iter().enumerate() {
        class_of[rows as usize][columns as usize] = class;
        class_of[columns as usize][rows as usize] = class;
    }

    write(b"CHOMPCP2");
    for pass in passes(&counts, memory / 8) {
        let room = counts[pass.clone()].iter().map(|&count| sum(&[count]));
        let mut words: Vec<Vec<u64>> = room.map(Vec::with_capacity).collect();
        each_word(table, bits, |word| {
            let (rows, columns) = rows_and_columns(word);
            let class = class_of
                .get(rows as usize)
                .and_then(|classes| classes.get(columns as usize));
            if let Some(class) = class.filter(|class| pass.contains(class))
                && word.bits() > CHECKPOINT_SEED_BITS
            {
                words[class - pass.start].push(word.get());
            }
        })?;
        for (&(rows, columns), words) in classes[pass].iter().zip(&mut words) {
            words.sort_unstable();
            write_class(rows, columns, words, &mut write);
        }
    }
    Ok(())
}

fn write_class(rows: u32, columns: u32, words: &[u64], write: &mut impl FnMut(&[u8])) {
    let mut checksum = CHECKSUM_START;
    let count = words.len() as u64;
    let header = [u64::from(columns), u64::from(rows), count];
    for byte in header.iter().chain(words).flat_map(|n| n.to_le_bytes()) {
        checksum = (checksum ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
    }
    let side = |n: u32| u16::try_from(n).expect("at most 64").to_le_bytes();
    write(b"CLAS");
    write(&side(columns));
    write(&side(rows));
    write(&count.to_le_bytes());
    write(&checksum.to_le_bytes());
    for word in words {
        write(&word.to_le_bytes());
    }
}

/// Runs of places that have at most `most` words together, or are one place.
fn passes(counts: &[u64], most: u64) -> Vec<std::ops::Range<usize>> {
    let mut passes = Vec::new();
    let (mut start, mut words) = (0, 0);
    for (place, &more) in counts.iter().enumerate() {
        if place > start && words + more > most {
            passes.push(start..place);
            (start, words) = (place, 0);
        }
        words += more;
    }
    passes.push(start..counts.len());
    passes
}

/// So many words altogether, which are to be held in memory.
fn sum(counts: &[u64]) -> usize {
    usize::try_from(counts.iter().sum::<u64>()).expect("words that fit in memory")
}

/// Calls `visit` with all losing positions of at most `bits` bits, each word of the table before its
/// mirror image.
fn each_word(table: &Table, bits: u32, mut visit: impl FnMut(Word)) -> Result<(), CheckError> {
    each_piece(table, UNWATCHED, |words| {
        for word in words.iter().map(|&word| Word::new(word)) {
            if word.bits() > bits {
                break;
            }
            visit(word);
            let mirror = word.mirror();
            if mirror != word {
                visit(mirror);
            }
        }
        Ok(())
    })
}

/// SHA-256 of what `write` writes, and its length in bytes.
fn digest_of(
    write: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), CheckError>,
) -> Result<(Digest, u64), CheckError> {
    let mut builder = DigestBuilder::default();
    // Words come one by one, and are hashed many at a time.
    let (mut buffer, mut length) = (Vec::with_capacity(1 << 16), 0);
    write(&mut |bytes| {
        length += bytes.len() as u64;
        buffer.extend_from_slice(bytes);
        if buffer.len() >= 1 << 15 {
            builder.push(&buffer);
            buffer.clear();
        }
    })?;
    builder.push(&buffer);
    Ok((builder.finish(), length))
}

/// A file of the other program that a table gives as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SameFile {
    /// "catalogue" or "checkpoint".
    pub kind: &'static str,
    /// The side of the square.
    pub side: u32,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// Its digest, the published one.
    pub sha256: Digest,
}

/// Compares with all published sums for squares that the table covers; `progress` hears of each
/// that is the same.
///
/// # Errors
///
/// If the table cannot be read, or gives another sum.
///
/// # Panics
///
/// If the survey is not that of the table.
pub fn check_published(
    table: &Table,
    survey: &Survey,
    memory: u64,
    mut progress: impl FnMut(&SameFile),
) -> Result<(), CheckError> {
    let bits = table.manifest().bits;
    let checkpoints = CHECKPOINTS.map(|(side, sum)| ("checkpoint", side, sum));
    let catalogues = CATALOGUES.map(|(side, sum)| ("catalogue", side, sum));
    for (kind, side, published) in checkpoints.into_iter().chain(catalogues) {
        if 2 * side > bits {
            continue;
        }
        let (sha256, bytes) = digest_of(|write| match kind {
            "checkpoint" => write_checkpoint(table, survey, side, memory, write),
            _ => write_catalogue(table, (side, side), memory, write),
        })?;
        ensure(sha256.to_string() == published, || {
            format!(
                "the table gives the {kind} for {side}x{side} the SHA-256 {sha256}; chomp-fast published {published}"
            )
        })?;
        progress(&SameFile {
            kind,
            side,
            bytes,
            sha256,
        });
    }
    Ok(())
}
