//! Words that wait for their region, and the region.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::low;

/// The words of one thread, by regions.
#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    /// The bytes in the file.
    written: u64,
    region_bits: u32,
    /// How many words may wait in memory, and how many more.
    room: u64,
    left: u64,
    regions: Vec<Waiting>,
}

/// The places of words in one region: in memory, and in a file.
#[derive(Clone, Debug, Default)]
struct Waiting {
    places: Vec<u32>,
    written: Vec<Range<u64>>,
}

impl Spill {
    pub(super) fn new(
        scratch: &Path,
        regions: usize,
        region_bits: u32,
        room: u64,
    ) -> io::Result<Spill> {
        Ok(Spill {
            file: tempfile::tempfile_in(scratch)?,
            written: 0,
            region_bits,
            room: room.max(1),
            left: room.max(1),
            regions: vec![Waiting::default(); regions],
        })
    }

    pub(super) fn push(&mut self, word: u64) -> io::Result<()> {
        let region = usize::try_from(word >> self.region_bits).expect("a region of the table");
        let place = place(word, self.region_bits);
        self.regions[region].places.push(place);
        self.left -= 1;
        if self.left > 0 {
            return Ok(());
        }
        self.left = self.room;
        for region in &mut self.regions {
            // Next time other regions may have most of the words.
            let places = mem::take(&mut region.places).into_iter();
            let bytes: Vec<u8> = places.flat_map(u32::to_le_bytes).collect();
            self.file.write_all(&bytes)?;
            let end = self.written + bytes.len() as u64;
            region.written.push(self.written..end);
            self.written = end;
        }
        Ok(())
    }

    /// Adds the words that wait for the region of this number.
    pub(super) fn add_to(&self, region: &mut Region, number: usize) -> io::Result<()> {
        let Waiting { places, written } = &self.regions[number];
        for piece in written {
            let length = usize::try_from(piece.end - piece.start).expect("it was in memory");
            let mut bytes = vec![0; length];
            self.file.read_exact_at(&mut bytes, piece.start)?;
            for &place in bytes.as_chunks().0 {
                region.insert(u32::from_le_bytes(place));
            }
        }
        for &place in places {
            region.insert(place);
        }
        Ok(())
    }
}

/// The place of a word in its region, halved.
pub(super) fn place(word: u64, region_bits: u32) -> u32 {
    low((word & ((1 << region_bits) - 1)) / 2)
}

/// A region that is put together: a bit for each of its positions.
pub(super) struct Region {
    positions: Vec<u64>,
    /// A bit for each number of `positions` that is not 0: losing positions are rare.
    some: Vec<u64>,
}

impl Region {
    /// The bytes of memory that a region takes.
    pub(super) fn bytes(region_bits: u32) -> u64 {
        (1 << (region_bits - 1)) / 8 * 65 / 64
    }

    pub(super) fn new(region_bits: u32) -> Region {
        let positions = 1_usize << (region_bits - 1);
        Region {
            positions: vec![0; positions.div_ceil(1 << 6)],
            some: vec![0; positions.div_ceil(1 << 12)],
        }
    }

    /// Adds the word at a place.
    pub(super) fn insert(&mut self, place: u32) {
        self.positions[(place >> 6) as usize] |= 1 << (place & 63);
        self.some[(place >> 12) as usize] |= 1 << (place >> 6 & 63);
    }

    /// Takes the places of all words out, ascending, halved.
    pub(super) fn drain(&mut self) -> Vec<u32> {
        let mut places = Vec::new();
        for (group, some) in (0_u32..).zip(&mut self.some) {
            for number in ones(mem::take(some)) {
                let number = group << 6 | number;
                let bits = ones(mem::take(&mut self.positions[number as usize]));
                places.extend(bits.map(|bit| number << 6 | bit));
            }
        }
        places
    }
}

/// The places of the bits that are set, ascending.
fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit)
    })
}
