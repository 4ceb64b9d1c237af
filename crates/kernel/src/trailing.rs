//! Moves that end at the last 0 of a word.
//!
//! Such a move turns `X 1 t 0`, with z 0s in t, into `X 0^(z+1)` followed by 1s only: a path with
//! C ≥ 1 trailing 1s, which stands for a shorter word. Let `Y = X' 0^A 1^C` be such a path with the head
//! of this range, and losing. The moves to it start at one of the A places of its 0s, and the word
//! before the move is Y's prefix up to there, a 1, any t with the right number of 0s, and the last 0.
//!
//! Starts within Y's chunk are a table. A start at bit s above the chunk concerns exactly the
//! lift into the half that begins with the chunk X 1 0^s, and there all t with z 0s: [`Finals`]
//! keeps z for it.

use crate::chunk::{CHUNK_LEN, Chunk};
use crate::masks::Masks;

/// The bits of a path within a chunk: nine index bits and the last one.
const PATH_BITS: u32 = CHUNK_LEN.ilog2() + 1;

/// For each chunk, seen as the first chunk of the half X1 of a lift: bit z says that all t with z
/// 0s are marked.
#[derive(Debug, Default)]
pub(crate) struct Finals {
    zeros: Vec<u32>,
}

impl Finals {
    pub(crate) fn reset(&mut self, chunks: usize) {
        self.zeros.clear();
        self.zeros.resize(chunks, 0);
    }

    /// Takes in that `path`, the low bits of a losing path with at least one trailing 1, is losing.
    ///
    /// `path` must be less than 2^`range_bits`, and not all 1s.
    #[inline(always)]
    pub(crate) fn apply(
        &mut self,
        path: u64,
        range_bits: u32,
        masks: &Masks,
        bitmap: &mut [Chunk],
    ) {
        let above = (path >> PATH_BITS) as usize;
        let within = (path >> 1) as usize % CHUNK_LEN;
        bitmap[above] |= masks.odd[within];

        let trailing = path.trailing_ones();
        let end = (path >> trailing)
            .trailing_zeros()
            .saturating_add(trailing)
            .min(range_bits);
        for start in trailing.max(PATH_BITS)..end {
            let s = start - PATH_BITS;
            let half = (above >> s | 1) << s;
            self.zeros[half] |= 1 << (start - trailing);
        }
    }

    /// Whether there are marks for the lift into the half that begins with chunk `half`.
    #[inline(always)]
    pub(crate) fn is_any(&self, half: usize) -> bool {
        self.zeros[half] != 0
    }

    /// The marks for the lift into the half that begins with chunk `half`.
    #[inline(always)]
    pub(crate) fn lift(&self, half: usize, masks: &Masks, base: &mut [Chunk]) {
        let zeros = self.zeros[half];
        if zeros != 0 {
            all_with_zeros(u64::from(zeros), masks, base);
        }
    }
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
