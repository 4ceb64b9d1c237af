//! The values of lower areas, in chunks.

use chomp_table::partition::AREA_MAX;

use super::NONE;

/// The values of some areas: for each one chunk after the other, by ranks from 0 on.
#[derive(Clone, Debug)]
pub struct Lower<'a> {
    chunk_bits: u32,
    areas: Vec<Vec<&'a [u8]>>,
}

impl<'a> Lower<'a> {
    /// No values. Chunks will have 2^`chunk_bits` of them.
    ///
    /// # Panics
    ///
    /// With more than 31 bits.
    pub fn new(chunk_bits: u32) -> Lower<'a> {
        assert!(chunk_bits < u32::BITS, "a chunk of 2^{chunk_bits} values");
        let areas = vec![Vec::new(); AREA_MAX as usize + 1];
        Lower { chunk_bits, areas }
    }

    /// Adds the values of an area, or its first ones, as far as they are needed.
    ///
    /// # Panics
    ///
    /// If there is no such area, a chunk but the last has another length than all chunks, or the last is longer.
    pub fn put(&mut self, area: u32, chunks: Vec<&'a [u8]>) {
        assert!(area > 0, "an area has positions");
        let length = 1 << self.chunk_bits;
        let (last, full) = chunks.split_last().expect("an area has positions");
        let fits = last.len() <= length && full.iter().all(|chunk| chunk.len() == length);
        assert!(fits, "chunks of area {area} with other lengths");
        self.areas[area as usize] = chunks;
    }

    /// The areas that are there, ascending.
    pub(super) fn areas(&self) -> impl Iterator<Item = u32> {
        let areas = (0..).zip(&self.areas);
        areas.filter_map(|(area, chunks)| (!chunks.is_empty()).then_some(area))
    }

    pub(super) fn has(&self, area: usize) -> bool {
        !self.areas[area].is_empty()
    }

    /// The value at `rank`, or [`NONE`] if the area is not there.
    pub(super) fn value(&self, area: usize, rank: u64) -> u8 {
        let chunks = &self.areas[area];
        if chunks.is_empty() {
            NONE
        } else {
            let (chunk, at) = self.place(rank);
            chunks[chunk][at]
        }
    }

    /// Calls `each` with the values from `rank` on, in as many pieces as it takes, until it has `length` or more; the
    /// first argument counts those before.
    pub(super) fn pieces(
        &self,
        area: usize,
        rank: u64,
        length: usize,
        mut each: impl FnMut(usize, &[u8]),
    ) {
        let (mut chunk, mut at) = self.place(rank);
        let mut done = 0;
        while done < length {
            let values = &self.areas[area][chunk][at..];
            each(done, values);
            done += values.len();
            (chunk, at) = (chunk + 1, 0);
        }
    }

    /// In which chunk a rank is, and where in it.
    fn place(&self, rank: u64) -> (usize, usize) {
        let rank = usize::try_from(rank).expect("no more ranks than the memory has values");
        (rank >> self.chunk_bits, rank & ((1 << self.chunk_bits) - 1))
    }
}
