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
    /// As [`Lower::add`].
    pub fn put(&mut self, area: u32, chunks: Vec<&'a [u8]>) {
        for (number, chunk) in chunks.into_iter().enumerate() {
            self.add(area, number, chunk);
        }
    }

    /// Adds chunk number `number` of an area, counted from 0, or its first values, as far as they are needed.
    ///
    /// # Panics
    ///
    /// If there is no such area, or the chunk is too long, or empty.
    pub fn add(&mut self, area: u32, number: usize, values: &'a [u8]) {
        assert!(area > 0, "an area has positions");
        let fits = (1..=1 << self.chunk_bits).contains(&values.len());
        assert!(fits, "a chunk of area {area} with {} values", values.len());
        let chunks = &mut self.areas[area as usize];
        chunks.resize(chunks.len().max(number + 1), &[]);
        chunks[number] = values;
    }

    pub(super) fn chunk_bits(&self) -> u32 {
        self.chunk_bits
    }

    /// The chunks that are there: their areas, their numbers and their lengths.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (u32, usize, usize)> {
        let areas = (0..).zip(&self.areas);
        let chunks = areas.flat_map(|(area, chunks)| {
            let numbered = chunks.iter().enumerate();
            numbered.map(move |(number, chunk)| (area, number, chunk.len()))
        });
        chunks.filter(|&(.., length)| length > 0)
    }

    pub(super) fn has(&self, area: usize) -> bool {
        !self.areas[area].is_empty()
    }

    /// The value at `rank`, or [`NONE`] if it is not there.
    pub(super) fn value(&self, area: usize, rank: u64) -> u8 {
        let (chunk, at) = self.place(rank);
        let chunk = self.areas[area].get(chunk);
        chunk
            .and_then(|chunk| chunk.get(at))
            .copied()
            .unwrap_or(NONE)
    }

    /// Calls `each` with the values from `rank` on, in as many pieces as it takes, up to `length` of them; the first
    /// argument counts those before, with those that are not there.
    pub(super) fn pieces(
        &self,
        area: usize,
        rank: u64,
        length: usize,
        mut each: impl FnMut(usize, &[u8]),
    ) {
        let chunks = &self.areas[area];
        let (mut chunk, mut at) = self.place(rank);
        let mut done = 0;
        while done < length {
            let here = ((1 << self.chunk_bits) - at).min(length - done);
            let values = chunks.get(chunk).and_then(|chunk| chunk.get(at..));
            if let Some(values) = values {
                each(done, &values[..values.len().min(here)]);
            }
            done += here;
            (chunk, at) = (chunk + 1, 0);
        }
    }

    /// In which chunk a rank is, and where in it.
    fn place(&self, rank: u64) -> (usize, usize) {
        let rank = usize::try_from(rank).expect("no more ranks than the memory has values");
        (rank >> self.chunk_bits, rank & ((1 << self.chunk_bits) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From within a chunk to within the next but one, with one that is not there in between.
    #[test]
    fn pieces_begin_and_end_within_chunks() {
        let mut lower = Lower::new(2);
        lower.add(9, 0, &[1, 2, 3, 4]);
        lower.add(9, 2, &[9, 10, 11]);
        let mut pieces = Vec::new();
        lower.pieces(9, 1, 9, |before, values| {
            pieces.push((before, values.to_vec()));
        });
        assert_eq!(pieces, [(0, vec![2, 3, 4]), (3, vec![]), (7, vec![9, 10])]);
        let chunks: Vec<_> = lower.chunks().collect();
        assert_eq!(chunks, [(9, 0, 4), (9, 2, 3)]);
        assert!(lower.has(9) && !lower.has(8));
    }
}
