//! Moves that end at the last 0 of a word.
//!
//! Such a move turns `X 1 t 0`, with z 0s in t, into `X 0^(z+1)` followed by 1s only: a path with
//! C ≥ 1 trailing 1s, which stands for a shorter word. Let `Y = X' 0^A 1^C` be such a path with the head
//! of this range, and losing. The moves to it start at one of the A places of its 0s, and the word
//! before the move is Y's prefix up to there, a 1, any t with the right number of 0s, and the last 0.
//!
//! Starts within Y's chunk are read from a table. For a start at bit s above the chunk, the words lie in the half that
//! begins with chunk X 1 0^s, and have any t with z 0s there. In a half of a block these words are marked at once; for
//! a lift, [`Finals`] keeps z.

use crate::chunk::{CHUNK_BITS, CHUNK_LEN, Chunk};
use crate::masks::Masks;

/// The bits of a path within a chunk: nine index bits and the last one.
const PATH_BITS: u32 = CHUNK_LEN.ilog2() + 1;

/// For each block, seen as the beginning of the half X1 of a lift: bit z says that all t with z 0s are marked.
#[derive(Debug)]
pub(crate) struct Finals {
    zeros: Vec<u32>,
    block_bits: usize,
}

impl Finals {
    pub(crate) fn new(block_bits: usize) -> Finals {
        Finals {
            zeros: Vec::new(),
            block_bits,
        }
    }

    pub(crate) fn reset(&mut self, chunks: usize) {
        self.zeros.clear();
        self.zeros.resize(chunks >> self.block_bits, 0);
    }

    /// Applies the losing paths index 0 1^c, for the indices that are one of `run` more than `first`, as
    /// [`Finals::apply`] does.
    #[inline(always)]
    pub(crate) fn apply_run(
        &mut self,
        (first, run): (u64, &[u16]),
        c: u32,
        range_bits: u32,
        masks: &Masks,
        bitmap: &mut [Chunk],
    ) {
        // The number of bits of the index that are in the chunk of its path.
        let within = CHUNK_BITS.saturating_sub(c as usize);
        for &low in run {
            let index = first.wrapping_add(low.into());
            let path = ((index * 2 + 1) << c) - 1;
            if index & ((1 << within) - 1) == 0 {
                self.apply(path, range_bits, masks, bitmap);
            } else {
                // A 1 stands before the 0s within the chunk, so no start is above the chunk.
                mark_within(path, masks, bitmap);
            }
        }
    }

    /// Marks, or keeps for a lift, the words with a move to a losing path of this range. `path` is the path's low bits:
    /// below 2^`range_bits`, with a trailing 1, not all 1s.
    pub(crate) fn apply(
        &mut self,
        path: u64,
        range_bits: u32,
        masks: &Masks,
        bitmap: &mut [Chunk],
    ) {
        mark_within(path, masks, bitmap);
        let above = (path >> PATH_BITS) as usize;
        let trailing = path.trailing_ones();
        let end = (path >> trailing)
            .trailing_zeros()
            .saturating_add(trailing)
            .min(range_bits);
        for start in trailing.max(PATH_BITS)..end {
            let s = start - PATH_BITS;
            let half = (above >> s | 1) << s;
            let zeros = start - trailing;
            if s as usize >= self.block_bits {
                self.zeros[half >> self.block_bits] |= 1 << zeros;
                continue;
            }
            for (t, chunk) in (0u32..).zip(&mut bitmap[half..][..1 << s]) {
                let within = (zeros + t.count_ones()).checked_sub(s);
                if let Some(mask) = within.and_then(|within| masks.with_zeros.get(within as usize))
                {
                    *chunk |= *mask;
                }
            }
        }
    }

    /// The marks for the lift into the half that begins with chunk `half`.
    #[inline(always)]
    pub(crate) fn lift(&self, half: usize, masks: &Masks, base: &mut [Chunk]) {
        let zeros = self.zeros[half >> self.block_bits];
        if zeros != 0 {
            all_with_zeros(u64::from(zeros), masks, base);
        }
    }
}

/// Marks what can move to the path from within its chunk.
#[inline(always)]
fn mark_within(path: u64, masks: &Masks, bitmap: &mut [Chunk]) {
    bitmap[(path >> PATH_BITS) as usize] |= masks.odd[(path >> 1) as usize % CHUNK_LEN];
}

/// Marks, in a pyramid with this base, every string that has z 0s for a bit z of `zeros`.
pub(crate) fn all_with_zeros(zeros: u64, masks: &Masks, base: &mut [Chunk]) {
    for (above, chunk) in base.iter_mut().enumerate() {
        for (within, mask) in masks.with_zeros.iter().enumerate() {
            if zeros >> (above + within) & 1 == 1 {
                *chunk |= *mask;
            }
        }
    }
}
