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

    /// Makes room in memory for so many words that are pushed next.
    pub(super) fn reserve(&mut self, words: u64) -> io::Result<()> {
        if words <= self.room {
            self.room -= words;
            return Ok(());
        }
        self.room = self.capacity.saturating_sub(words);
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

    pub(super) fn push(&mut self, word: u64) {
        let stretch = usize::try_from(word >> self.stretch_bits).expect("a stretch of the table");
        let index = index_in_stretch(word, self.stretch_bits);
        self.stretches[stretch].indices.push(index);
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

/// The bits of a word but the lowest that [`KeptWords`] have in common, and one more: a stretch of more bits has all words
/// of a group or none.
pub(super) const KEPT_BITS_MIN: u32 = 16;

/// The words of a shard, in two bytes each: in groups of those whose halves agree but for their last 16 bits.
#[derive(Debug, Default)]
pub(super) struct KeptWords {
    /// The last 16 bits of the half of each word.
    lows: Vec<u16>,
    /// For each group, ascending, the other bits, and the place in `lows` at which the group ends.
    groups: Vec<(u64, usize)>,
}

impl KeptWords {
    /// Takes the next words, which ascend.
    pub(super) fn push(&mut self, words: &[u64]) {
        let high = |word: &u64| word >> 1 >> u16::BITS;
        self.lows.reserve(words.len());
        for group in words.chunk_by(|one, next| high(one) == high(next)) {
            let low = |word: &u64| {
                let [low, high, ..] = (word >> 1).to_le_bytes();
                u16::from_le_bytes([low, high])
            };
            self.lows.extend(group.iter().map(low));
            let (high, end) = (high(&group[0]), self.lows.len());
            match self.groups.last_mut() {
                Some(last) if last.0 == high => last.1 = end,
                _ => self.groups.push((high, end)),
            }
        }
    }

    /// Inserts the words that are in a stretch. Returns their number.
    pub(super) fn add_to(&self, stretch: &mut Stretch, span: &Range<u64>) -> usize {
        let [from, to] = [span.start, span.end].map(|word| {
            let before = |group: &(u64, usize)| group.0 < word >> 1 >> u16::BITS;
            self.groups.partition_point(before)
        });
        let first = from
            .checked_sub(1)
            .map_or(0, |before| self.groups[before].1);
        let mut start = first;
        for &(high, end) in &self.groups[from..to] {
            let base = low((high << u16::BITS) - (span.start >> 1));
            for &low in &self.lows[start..end] {
                stretch.insert(base | u32::from(low));
            }
            start = end;
        }
        start - first
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
    /// How many were inserted, some of them perhaps twice.
    inserted: usize,
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
            inserted: 0,
        }
    }

    pub(super) fn insert(&mut self, index: u32) {
        self.positions[(index >> 6) as usize] |= 1 << (index & 63);
        self.some[(index >> 12) as usize] |= 1 << (index >> 6 & 63);
        self.inserted += 1;
    }

    /// Empties the stretch. Returns the indices of its words, ascending.
    pub(super) fn drain(&mut self) -> Vec<u32> {
        // Two nested loops that write into memory that is there: this takes half the time of restoring a stretch.
        let mut indices = vec![0; mem::take(&mut self.inserted)];
        let mut next = 0;
        for (group, some) in (0_u32..).zip(&mut self.some) {
            let mut some = mem::take(some);
            while some != 0 {
                let number = group << 6 | some.trailing_zeros();
                some &= some - 1;
                let mut bits = mem::take(&mut self.positions[number as usize]);
                while bits != 0 {
                    indices[next] = number << 6 | bits.trailing_zeros();
                    next += 1;
                    bits &= bits - 1;
                }
            }
        }
        indices.truncate(next);
        indices
    }
}
