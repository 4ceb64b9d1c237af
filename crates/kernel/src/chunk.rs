//! Bitmaps as sequences of 512-bit chunks.

use std::ops::BitOrAssign;

pub(crate) const CHUNK_BITS: usize = 9;
pub(crate) const CHUNK_LEN: usize = 1 << CHUNK_BITS;

/// A set of 512 consecutive indices: one cache line, one AVX-512 register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Chunk(pub(crate) [u64; 8]);

impl Chunk {
    pub(crate) const EMPTY: Chunk = Chunk([0; 8]);

    /// The set of one index without a detour by memory; empty if it is not below 512.
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

    /// The indices from `first`, a multiple of 64, on.
    #[inline(always)]
    pub(crate) fn indices(self, first: usize) -> impl Iterator<Item = usize> {
        let words = (first..CHUNK_LEN).step_by(64);
        words.flat_map(move |start| {
            let mut word = self.0[start / 64];
            std::iter::from_fn(move || {
                let found = (word != 0).then(|| start + word.trailing_zeros() as usize);
                word &= word.wrapping_sub(1);
                found
            })
        })
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

impl std::ops::BitAnd for Chunk {
    type Output = Chunk;

    #[inline(always)]
    fn bitand(mut self, other: Chunk) -> Chunk {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word &= other;
        }
        self
    }
}

impl std::ops::Not for Chunk {
    type Output = Chunk;

    #[inline(always)]
    fn not(self) -> Chunk {
        Chunk(self.0.map(|word| !word))
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

/// Adds each of `more` to the set at the same index, up to the shorter length.
#[inline(always)]
pub(crate) fn join(sets: &mut [Chunk], more: &[Chunk]) {
    for (set, more) in sets.iter_mut().zip(more) {
        *set |= *more;
    }
}

/// The chunks as 32-bit integers, for the inner loop of marking from sources. A bit is found in one step, without its
/// chunk; and consecutive bits share an integer, and so wait for each other, less often than with 64 bits.
#[inline(always)]
#[expect(
    unsafe_code,
    reason = "a tenth of the time to mark from sources, measured"
)]
pub(crate) fn u32s(chunks: &mut [Chunk]) -> &mut [u32] {
    let len = chunks.len() * (CHUNK_LEN / u32::BITS as usize);
    // SAFETY: a chunk is an array of eight `u64`, one after the other by `repr(C)`, and nothing else, since it is as
    // long as its alignment. Two `u32` are as long as one `u64` and need less alignment. All bits are valid in both,
    // and the chunks stay borrowed for as long as the result.
    unsafe { std::slice::from_raw_parts_mut(chunks.as_mut_ptr().cast(), len) }
}

/// The index in [`u32s`] of the one with this bit: on a big-endian machine the upper half of a `u64` is first.
#[inline(always)]
pub(crate) fn u32_of(bit: u16) -> usize {
    usize::from(bit >> u32::BITS.ilog2()) ^ usize::from(cfg!(target_endian = "big"))
}

const _: () = assert!(size_of::<Chunk>() * 8 == CHUNK_LEN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u32s_are_the_bits_of_chunks() {
        let bits = [0, 31, 32, 64, 511, 512, 1000, 1023];
        let mut chunks = [Chunk::EMPTY; 2];
        assert_eq!(u32s(&mut chunks).len(), 32);
        for bit in bits {
            u32s(&mut chunks)[u32_of(bit)] |= 1 << (bit % 32);
        }
        let found: Vec<u16> = (0..1024)
            .filter(|&bit| chunks[usize::from(bit) / CHUNK_LEN].contains(bit.into()))
            .collect();
        assert_eq!(found, bits);
    }
}
