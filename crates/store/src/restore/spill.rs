//! Words that wait for their stretch, and the stretch.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::low;

/// The words of one thread, by stretches.
#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    written: u64,
    stretch_bits: u32,
    /// The number of words that may wait in memory, and how many more may.
    capacity: u64,
    room: u64,
    stretches: Vec<Waiting>,
}

/// The indices of words in one stretch: in memory, and in a file.
#[derive(Clone, Debug, Default)]
struct Waiting {
    indices: Vec<u32>,
    pieces: Vec<Range<u64>>,
}

impl Spill {
    pub(super) fn new(
        scratch: &Path,
        stretches: usize,
        stretch_bits: u32,
        capacity: u64,
    ) -> io::Result<Spill> {
        Ok(Spill {
            file: tempfile::tempfile_in(scratch)?,
            written: 0,
            stretch_bits,
            capacity: capacity.max(1),
            room: capacity.max(1),
            stretches: vec![Waiting::default(); stretches],
        })
    }

    pub(super) fn push(&mut self, word: u64) -> io::Result<()> {
        let stretch = usize::try_from(word >> self.stretch_bits).expect("a stretch of the table");
        let index = index_in_stretch(word, self.stretch_bits);
        self.stretches[stretch].indices.push(index);
        self.room -= 1;
        if self.room > 0 {
            return Ok(());
        }
        self.room = self.capacity;
        for stretch in &mut self.stretches {
            // The memory of the list is freed: most of the next words may belong to other stretches.
            let indices = mem::take(&mut stretch.indices).into_iter();
            let bytes: Vec<u8> = indices.flat_map(u32::to_le_bytes).collect();
            self.file.write_all(&bytes)?;
            let end = self.written + bytes.len() as u64;
            stretch.pieces.push(self.written..end);
            self.written = end;
        }
        Ok(())
    }

    pub(super) fn add_to(&self, stretch: &mut Stretch, number: usize) -> io::Result<()> {
        let Waiting { indices, pieces } = &self.stretches[number];
        for piece in pieces {
            let length = usize::try_from(piece.end - piece.start).expect("it was in memory");
            let mut bytes = vec![0; length];
            self.file.read_exact_at(&mut bytes, piece.start)?;
            for &index in bytes.as_chunks().0 {
                stretch.insert(u32::from_le_bytes(index));
            }
        }
        for &index in indices {
            stretch.insert(index);
        }
        Ok(())
    }
}

/// The index of a word in its stretch: half of its offset there.
pub(super) fn index_in_stretch(word: u64, stretch_bits: u32) -> u32 {
    low((word & ((1 << stretch_bits) - 1)) / 2)
}

/// A stretch that is put together: a bit for each of its positions.
pub(super) struct Stretch {
    positions: Vec<u64>,
    /// A bit for each number of `positions` that is not 0: losing positions are rare.
    some: Vec<u64>,
}

impl Stretch {
    pub(super) fn bytes(stretch_bits: u32) -> u64 {
        (1 << (stretch_bits - 1)) / 8 * 65 / 64
    }

    pub(super) fn new(stretch_bits: u32) -> Stretch {
        let positions = 1_usize << (stretch_bits - 1);
        Stretch {
            positions: vec![0; positions.div_ceil(1 << 6)],
            some: vec![0; positions.div_ceil(1 << 12)],
        }
    }

    pub(super) fn insert(&mut self, index: u32) {
        self.positions[(index >> 6) as usize] |= 1 << (index & 63);
        self.some[(index >> 12) as usize] |= 1 << (index >> 6 & 63);
    }

    /// Empties the stretch. Returns the indices of its words, ascending.
    pub(super) fn drain(&mut self) -> Vec<u32> {
        let mut indices = Vec::new();
        for (group, some) in (0_u32..).zip(&mut self.some) {
            for number in ones(mem::take(some)) {
                let number = group << 6 | number;
                let bits = ones(mem::take(&mut self.positions[number as usize]));
                indices.extend(bits.map(|bit| number << 6 | bit));
            }
        }
        indices
    }
}

/// The indices of the bits that are set, ascending.
fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit)
    })
}
