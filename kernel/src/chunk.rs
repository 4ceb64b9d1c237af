//! Bitmaps as sequences of 512-bit chunks.

use std::ops::BitOrAssign;

/// The number of index bits within a chunk.
pub(crate) const CHUNK_BITS: usize = 9;
/// The number of indices in a chunk.
pub(crate) const CHUNK_LEN: usize = 1 << CHUNK_BITS;

/// A set of 512 consecutive indices: one cache line, one AVX-512 register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Chunk(pub(crate) [u64; 8]);

impl Chunk {
    pub(crate) const EMPTY: Chunk = Chunk([0; 8]);

    /// The set of one index, below 512, without a detour by memory.
    #[inline(always)]
    pub(crate) fn of(index: u32) -> Chunk {
        let bit = 1 << (index % u64::BITS);
        let mut chunk = Chunk::EMPTY;
        for (lane, word) in (0..).zip(&mut chunk.0) {
            *word = if lane == u64::from(index / u64::BITS) {
                bit
            } else {
                0
            };
        }
        chunk
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, index: usize) {
        self.0[index / 64 % 8] |= 1 << (index % 64);
    }

    #[inline(always)]
    pub(crate) fn contains(&self, index: usize) -> bool {
        self.0[index / 64 % 8] >> (index % 64) & 1 == 1
    }
}

impl BitOrAssign for Chunk {
    #[inline(always)]
    fn bitor_assign(&mut self, other: Chunk) {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
    }
}

impl std::ops::BitOr for Chunk {
    type Output = Chunk;

    #[inline(always)]
    fn bitor(mut self, other: Chunk) -> Chunk {
        self |= other;
        self
    }
}

/// Inserts `index - base` into `set` for each index of `list`.
#[inline(always)]
pub(crate) fn scatter(list: &[u32], base: u32, set: &mut [Chunk]) {
    for &index in list {
        let place = (index - base) as usize;
        set[place / CHUNK_LEN].insert(place);
    }
}
