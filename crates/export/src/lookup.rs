//! The losing positions as small files, for lookups by programs that can only fetch whole files.
//!
//! Every position has a **number**, the same in every table. Mirror images share one: that of the image with more
//! columns than rows or, if the two are equal, that of the representative. The numbers ascend by layer (positions of at
//! most 20, 24, 28, … bits that are in no layer before), then by columns, then by rows, as words in a dictionary. So a
//! move that keeps the first rows leads to a number nearby, and a position and the positions that its moves leave lie
//! in few files.
//!
//! Take a position of c columns whose row i + 1 has a cells. Of all positions of c columns and at most r rows,
//! C(a - 1 + r - i, r - i) have the same first i rows and a row i + 1 that is shorter than a, or none: that many
//! sequences of r - i numbers below a have no number greater than the one before. The sum over all rows of the position
//! after the first is its number within the columns.
//!
//! ```text
//! lookup.json      what there is, with the digest of each index
//! 0/index.bin      of each file of the folder 0:
//!     8                its first number
//!     32               its digest
//! 0/000.bin        a file:
//!     4                how many numbers it has, at most 131,072
//!     8                the first
//!     …                the gaps to the others, as Rice codes of 128 gaps each
//! ```
//!
//! A gap is the difference to the number before, less 1. Before each 128 gaps stand 6 bits with their k. A gap is
//! written as 1s, as many as its part above the lowest k bits says, then a 0, then its lowest k bits. Bits are taken
//! from the lowest of each byte on, and numbers have their lowest bit first. The first layer is a folder of one file,
//! and each layer begins a folder.

use std::io;
use std::ops::ControlFlow;

use chomp_table::{Digest, Table, Word};
use serde::Serialize;

use crate::filter::Selection;
use crate::words::Words;
use crate::{ExportError, ExportProgress, Filter};

/// The most bits of a table that is laid out: numbers stay below 2^53, which JavaScript reads exactly.
pub const LOOKUP_BITS_MAX: u32 = 40;
/// The most bits of the first layer, and how many more each further layer has.
const FIRST_BITS: u32 = 20;
const LAYER_BITS: u32 = 4;
/// The most numbers of a file, which take some 128 KiB. With half as many, a position of 32 bits and its replies would
/// lie in up to 24 files.
const FILE_NUMBERS: usize = 1 << 17;
/// The most files of a folder besides its index.
const FOLDER_FILES: usize = 1_000;
/// The number of gaps that share one k.
const BLOCK_GAPS: usize = 128;
/// The number of bits in which a k is written.
const K_BITS: u32 = 6;
/// The high bits of a number by which numbers are sorted first.
const PLACE_BITS: u32 = 16;

/// The content of `lookup.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LookupManifest {
    /// 1.
    pub format: u32,
    /// The files cover all positions of at most this number of bits.
    pub bits: u32,
    /// The number of numbers: the words that a table of `bits` bits stores.
    pub stored: u64,
    /// The fingerprint of this table.
    pub fingerprint: Digest,
    /// The folders, by their names from 0 on.
    pub folders: Vec<Folder>,
}

/// A folder of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Folder {
    /// The first number in it.
    pub first: u64,
    /// The digest of its index.
    pub sha256: Digest,
}

struct Numbers {
    /// Index layer, then columns: the first number. The last entry of a layer is the first number of the next layer.
    starts: Vec<Vec<u64>>,
    /// Index n, then k: the binomial coefficient, n over k.
    choices: Vec<Vec<u64>>,
}

fn layer_of(bits: u32) -> u32 {
    bits.saturating_sub(FIRST_BITS).div_ceil(LAYER_BITS)
}

/// The most rows in a layer of a position with `columns` columns and no more rows than columns.
fn rows_max(layer: u32, columns: u32) -> u32 {
    columns.min(FIRST_BITS + layer * LAYER_BITS - columns)
}

impl Numbers {
    fn new(bits: u32) -> Numbers {
        let mut choices = vec![vec![1_u64]];
        for n in 1..=LOOKUP_BITS_MAX as usize {
            let above = &choices[n - 1];
            let inner = above.windows(2).map(|pair| pair[0] + pair[1]);
            let row = std::iter::once(1).chain(inner).chain([1]).collect();
            choices.push(row);
        }
        let mut numbers = Numbers {
            starts: Vec::new(),
            choices,
        };
        let mut next = 0;
        for layer in 0..=layer_of(bits) {
            // No position has 0 columns.
            let mut starts = vec![next];
            for columns in 1..FIRST_BITS + layer * LAYER_BITS {
                starts.push(next);
                let below = rows_max(layer, columns) - 1;
                next += numbers.choose(columns + below, below);
            }
            starts.push(next);
            numbers.starts.push(starts);
        }
        numbers
    }

    fn choose(&self, n: u32, k: u32) -> u64 {
        self.choices[n as usize][k as usize]
    }

    /// The first number that is in no layer up to this one.
    fn end(&self, layer: u32) -> u64 {
        *self.starts[layer as usize].last().expect("it has an end")
    }

    /// The number of a position that has cells.
    fn of(&self, word: Word) -> u64 {
        let columns = |word: Word| word.get().count_ones();
        let wide = match (2 * columns(word)).cmp(&word.bits()) {
            std::cmp::Ordering::Less => word.mirror(),
            std::cmp::Ordering::Equal => word.representative(),
            std::cmp::Ordering::Greater => word,
        };
        let layer = layer_of(wide.bits());
        let mut length = columns(wide);
        let mut number = self.starts[layer as usize][length as usize];
        // The most rows that there may be from the present one on.
        let mut rows = rows_max(layer, length) + 1;
        let rows_at_start = rows;
        let mut path = wide.get();
        while path > 0 {
            if path & 1 == 1 {
                length -= 1;
            } else {
                rows -= 1;
                if rows + 1 < rows_at_start {
                    number += self.choose(length - 1 + rows, rows);
                }
            }
            path >>= 1;
        }
        number
    }
}

/// Writes bits, the lowest of each byte first.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    free: u32,
}

impl BitWriter {
    fn push(&mut self, mut value: u64, mut bits: u32) {
        while bits > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let taken = bits.min(self.free);
            let low = u8::try_from(value & ((1 << taken) - 1)).expect("at most 8 bits");
            *self.bytes.last_mut().expect("a byte") |= low << (8 - self.free);
            value >>= taken;
            bits -= taken;
            self.free -= taken;
        }
    }
}

fn file(numbers: &[u64]) -> Vec<u8> {
    let count = u32::try_from(numbers.len()).expect("numbers of one file");
    let mut bytes = count.to_le_bytes().to_vec();
    bytes.extend(numbers[0].to_le_bytes());
    let mut out = BitWriter { bytes, free: 0 };
    let gaps: Vec<u64> = numbers
        .windows(2)
        .map(|pair| pair[1] - pair[0] - 1)
        .collect();
    for block in gaps.chunks(BLOCK_GAPS) {
        let bits = |&k: &u32| {
            block
                .iter()
                .map(|gap| (gap >> k) + u64::from(k))
                .sum::<u64>()
        };
        let k = (0..=LOOKUP_BITS_MAX).min_by_key(bits).expect("some k");
        out.push(k.into(), K_BITS);
        for gap in block {
            (0..gap >> k).for_each(|_| out.push(1, 1));
            out.push(0, 1);
            out.push(gap & ((1 << k) - 1), k);
        }
    }
    out.bytes
}

struct Files<'a> {
    put: &'a mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
    numbers: Vec<u64>,
    /// The index of the folder that is being written.
    index: Vec<u8>,
    folders: Vec<Folder>,
}

impl Files<'_> {
    fn end_file(&mut self) -> io::Result<()> {
        let Some(first) = self.numbers.first() else {
            return Ok(());
        };
        let bytes = file(&self.numbers);
        let name = format!("{}/{:03}.bin", self.folders.len(), self.index.len() / 40);
        (self.put)(&name, &bytes)?;
        self.index.extend(first.to_le_bytes());
        self.index.extend(Digest::of(&bytes).0);
        self.numbers.clear();
        if self.index.len() == 40 * FOLDER_FILES {
            self.end_folder()?;
        }
        Ok(())
    }

    fn end_folder(&mut self) -> io::Result<()> {
        self.end_file()?;
        let Some(first) = self.index.first_chunk::<8>() else {
            return Ok(());
        };
        (self.put)(&format!("{}/index.bin", self.folders.len()), &self.index)?;
        self.folders.push(Folder {
            first: u64::from_le_bytes(*first),
            sha256: Digest::of(&self.index),
        });
        self.index.clear();
        Ok(())
    }
}

/// Hands the files about all positions of at most `bits` bits to `put`, with their paths, and returns what is to be in
/// `lookup.json`. The same table gives the same bytes.
///
/// Numbers are sorted within `memory` bytes, in as many passes over the table as that takes. `watch` gets after each
/// piece of the table how much was read, and returns whether to go on. Fails if the table has fewer bits, or cannot be
/// read; if there are more bits than [`LOOKUP_BITS_MAX`]; if `put` fails; or if `watch` ends it.
pub fn write_lookup_files(
    table: &Table,
    bits: u32,
    memory: u64,
    watch: &mut dyn FnMut(ExportProgress) -> ControlFlow<()>,
    put: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
) -> Result<LookupManifest, ExportError> {
    let filter = Filter {
        bits: Some(bits),
        ..Filter::default()
    };
    let table_bits = table.manifest().bits.min(LOOKUP_BITS_MAX);
    let selection = Selection::new(filter, table_bits)?;
    let mut words = Words::new(table, selection, memory, watch);
    let numbers = Numbers::new(bits);
    let last = layer_of(bits);
    let shift = (u64::BITS - numbers.end(last).leading_zeros()).saturating_sub(PLACE_BITS);
    let place_of = |word| Some(usize::try_from(numbers.of(word) >> shift).expect("a place"));
    let counts = words.count_by_place(1 << PLACE_BITS, place_of)?;
    let mut files = Files {
        put,
        numbers: Vec::with_capacity(FILE_NUMBERS),
        index: Vec::new(),
        folders: Vec::new(),
    };
    let mut layer = 0;
    let stored = words.for_each_place(&counts, place_of, |_, words| {
        let mut found: Vec<u64> = words
            .iter()
            .map(|&word| numbers.of(Word::new(word)))
            .collect();
        found.sort_unstable();
        for number in found {
            while number >= numbers.end(layer) {
                files.end_folder()?;
                layer += 1;
            }
            if files.numbers.len() == FILE_NUMBERS {
                files.end_file()?;
            }
            files.numbers.push(number);
        }
        Ok(())
    })?;
    files.end_folder()?;
    Ok(LookupManifest {
        format: 1,
        bits,
        stored,
        fingerprint: table.manifest().fingerprints_by_bits[bits as usize],
        folders: files.folders,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use chomp_testing::tables;

    use super::*;

    /// The rows that a wide position of these first rows may go on with, in their order.
    fn each(rows: &mut Vec<u32>, most: usize, visit: &mut impl FnMut(&[u32])) {
        visit(rows);
        if rows.len() < most {
            for length in 1..=rows[rows.len() - 1] {
                rows.push(length);
                each(rows, most, visit);
                rows.pop();
            }
        }
    }

    fn word(rows: &[u32]) -> Word {
        Word::from(&chomp_table::Position::new(rows.to_vec()).unwrap())
    }

    #[test]
    fn positions_are_numbered_in_their_order() {
        let numbers = Numbers::new(24);
        let mut next = 0;
        for layer in 0..2 {
            for columns in 1..20 + 4 * layer {
                each(
                    &mut vec![columns],
                    rows_max(layer, columns) as usize,
                    &mut |rows| {
                        let word = word(rows);
                        if layer_of(word.bits()) == layer {
                            let image = word.mirror();
                            let is_other = rows.len() == columns as usize && image < word;
                            let expected = if is_other { numbers.of(image) } else { next };
                            assert_eq!((numbers.of(word), numbers.of(image)), (expected, expected));
                        }
                        next += 1;
                    },
                );
            }
            assert_eq!(numbers.end(layer), next);
        }
        // JavaScript is tested with these.
        for (rows, number) in [
            ("1", 0),
            ("5,4,2,1", 89),
            ("8x10", 125_410),
            ("20x20", 112_714_811_639),
            ("9x15", 4_577_081),
        ] {
            let position: chomp_table::Position = rows.parse().unwrap();
            assert_eq!(Numbers::new(40).of(Word::from(&position)), number, "{rows}");
        }
    }

    /// The numbers of a file, bit by bit.
    fn read(bytes: &[u8]) -> Vec<u64> {
        let count = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        let mut found = vec![u64::from_le_bytes(bytes[4..12].try_into().unwrap())];
        let mut bits = bytes[12..]
            .iter()
            .flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1));
        let mut take = |count| {
            (0..count)
                .map(|bit| u64::from(bits.next().unwrap()) << bit)
                .sum::<u64>()
        };
        let mut k = 0;
        for index in 0..count as usize - 1 {
            if index % 128 == 0 {
                k = take(6);
            }
            let mut gap = 0;
            while take(1) == 1 {
                gap += 1 << k;
            }
            gap += take(k);
            found.push(found[index] + 1 + gap);
        }
        assert!(bits.count() < 8);
        found
    }

    #[test]
    fn files_have_the_numbers_of_the_table() {
        let directory = tempfile::tempdir().unwrap();
        let table = Table::open(&tables::publish(directory.path(), 22, tables::SMALL)).unwrap();
        for (bits, memory) in [(22, 1 << 20), (22, 1 << 12), (21, 1 << 20), (14, 0), (2, 0)] {
            let mut files = BTreeMap::new();
            let mut put = |name: &str, bytes: &[u8]| {
                assert!(files.insert(name.to_owned(), bytes.to_vec()).is_none());
                Ok(())
            };
            let watch = &mut |_| ControlFlow::Continue(());
            let told = write_lookup_files(&table, bits, memory, watch, &mut put).unwrap();
            let mut found = Vec::new();
            for (name, folder) in told.folders.iter().enumerate() {
                let index = files.remove(&format!("{name}/index.bin")).unwrap();
                assert_eq!(folder.sha256, Digest::of(&index));
                for (number, entry) in index.chunks(40).enumerate() {
                    let bytes = files.remove(&format!("{name}/{number:03}.bin")).unwrap();
                    assert_eq!(Digest::of(&bytes).0, entry[8..]);
                    let numbers = read(&bytes);
                    assert_eq!(numbers[0].to_le_bytes(), entry[..8]);
                    assert!(number > 0 || folder.first == numbers[0]);
                    found.extend(numbers);
                }
            }
            assert!(files.is_empty() && found.is_sorted());
            let numbers = Numbers::new(bits);
            let words = table.words().flat_map(Result::unwrap);
            let mut expected: Vec<u64> = words
                .map(Word::new)
                .filter(|word| word.bits() <= bits)
                .map(|word| numbers.of(word))
                .collect();
            expected.sort_unstable();
            assert_eq!(found, expected);
            assert_eq!(told.stored, found.len() as u64);
            assert_eq!(told.folders.len(), if bits > 20 { 2 } else { 1 });
        }
        let refused = write_lookup_files(
            &table,
            23,
            0,
            &mut |_| ControlFlow::Continue(()),
            &mut |_, _| Ok(()),
        );
        assert!(matches!(refused, Err(ExportError::Beyond { .. })));
    }
}
