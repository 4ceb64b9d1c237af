//! Lemma 2 on bitmaps: `M_j[z]` = `R_j[z]` ∪ 0·`M_{j+1}[z+1]` ∪ 1·`M_{j+1}[z]`.
//!
//! The strings that `M_j[z]` holds have s - j bits above the chunk, so it is 2^(s-j) chunks long.
//! The recursion starts with the one-chunk sets `M_s[0..=s]`, the *base*, and ends with `M_0[0]`,
//! which is OR'ed into the 2^s chunks of the target. Two levels are done at a time: for 0 ≤ z ≤ j
//!
//! ```text
//! M_j[z] = R_j[z]  ∪  00·M_{j+2}[z+2]  ∪  01·M_{j+2}[z+1]  ∪  10·M_{j+2}[z+1]  ∪  11·M_{j+2}[z]
//!                  ∪  0·R_{j+1}[z+1]
//! ```
//!
//! Here 1·`R_{j+1}[z]` is left out: it is a part of `R_j[z]`, as [`Sets`] demands.

use crate::chunk::Chunk;

/// The most sets of a base, s + 1: a range with 32 range bits has s = 22.
pub(crate) const BASE_SETS_MAX: usize = 23;

/// The number of chunks of each set that go through the last four levels together.
const PIECE: usize = 8;

/// The sets `M_s[0..]` of a pyramid with s levels.
pub(crate) type Base = [Chunk; BASE_SETS_MAX];

/// The sets `R_j[z]`, for 1 ≤ z ≤ j < s. A string r has to be in `R_{j+1}[z]` exactly if 1r is in `R_j[z]`.
pub(crate) trait Sets {
    /// The 2^(s-j) chunks of `R_j[z]`.
    fn set(&self, j: usize, z: usize) -> &[Chunk];
}

/// Two buffers for the sets of one level, kept from one pyramid to the next.
#[derive(Debug, Default)]
pub(crate) struct LevelBuffers {
    above: Vec<Chunk>,
    below: Vec<Chunk>,
}

/// Marks in the 2^s chunks of `target` what the sets and the s + 1 chunks of the base say: `M_0[0]`, by Lemma 2.
#[inline(always)]
pub(crate) fn expand(
    sets: &impl Sets,
    base: &[Chunk],
    scratch: &mut LevelBuffers,
    target: &mut [Chunk],
) {
    debug_assert_eq!(target.len(), 1 << (base.len() - 1));
    let LevelBuffers { above, below } = scratch;
    let last = if target.len() < 16 * PIECE { 2 } else { 4 };
    // Level j has (j + 1) 2^(s-j) chunks, and all levels above it have fewer.
    let room = ((last + 1) * target.len()) >> last;
    if above.len() < room {
        above.resize(room, Chunk::EMPTY);
        below.resize(room, Chunk::EMPTY);
    }
    above[..base.len()].copy_from_slice(base);
    let mut j = base.len() - 1;
    let mut length = 1;
    if j % 2 == 1 {
        j -= 1;
        for z in 0..=j {
            below[2 * z] = above[z + 1];
            below[2 * z + 1] = above[z];
            if z > 0 {
                let set = sets.set(j, z);
                below[2 * z] |= set[0];
                below[2 * z + 1] |= set[1];
            }
        }
        length = 2;
        std::mem::swap(above, below);
    }
    while j > last {
        j -= 2;
        for z in 0..=j {
            let quarters = [z, z + 1, z + 2].map(|z| &above[z * length..][..length]);
            let set = &mut below[4 * z * length..][..4 * length];
            if z == 0 {
                join(quarters, sets.set(j + 1, 1), None, set);
            } else {
                let whole = Some(sets.set(j, z));
                join(quarters, sets.set(j + 1, z + 1), whole, set);
            }
        }
        length *= 4;
        std::mem::swap(above, below);
    }
    let set = |z: usize| &above[z * length..][..length];
    if last == 2 {
        finish(sets, [0, 1, 2].map(set), target);
    } else {
        finish_by_pieces(sets, [0, 1, 2, 3, 4].map(set), target);
    }
}

/// The last four levels: the sixteen parts of the target from `M_4[0..=4]` and `R_3`, `R_2` and `R_1`. What is at one
/// place of each part depends on the same place of each set and of nothing else, so one piece after the other goes
/// through both steps without leaving the first-level cache in between.
#[inline(always)]
fn finish_by_pieces(sets: &impl Sets, from: [&[Chunk]; 5], target: &mut [Chunk]) {
    let from = from.map(pieces);
    let number = from[0].len();
    let set = |j, z| pieces(sets.set(j, z));
    let one = set(1, 1);
    let two = [1, 2].map(|z| set(2, z));
    let three = [1, 2, 3].map(|z| set(3, z));
    let target = target.as_chunks_mut::<PIECE>().0;
    let mut below = [[[Chunk::EMPTY; PIECE]; 4]; 3];
    for at in 0..number {
        for (z, below) in below.iter_mut().enumerate() {
            for (quarter, out) in below.iter_mut().enumerate() {
                *out = from[z + ZEROS[quarter]][at];
                if z > 0 {
                    add(out, &two[z - 1][quarter * number + at]);
                }
                if quarter < 2 {
                    add(out, &three[z][quarter * number + at]);
                }
            }
        }
        for (quarter, zeros) in ZEROS.into_iter().enumerate() {
            for (rest, below) in below[zeros].iter().enumerate() {
                let place = (4 * quarter + rest) * number + at;
                add(&mut target[place], below);
                if quarter < 2 {
                    add(&mut target[place], &one[place]);
                }
            }
        }
    }
}

fn pieces(chunks: &[Chunk]) -> &[[Chunk; PIECE]] {
    chunks.as_chunks().0
}

#[inline(always)]
fn add(piece: &mut [Chunk; PIECE], more: &[Chunk; PIECE]) {
    for (chunk, more) in piece.iter_mut().zip(more) {
        *chunk |= *more;
    }
}

/// The last two levels: the four quarters of the target from `M_2[0, 1, 2]` and `R_1[1]`.
#[inline(always)]
fn finish(sets: &impl Sets, quarters: [&[Chunk]; 3], target: &mut [Chunk]) {
    let length = quarters[0].len();
    debug_assert_eq!(length * 4, target.len());
    let half = &sets.set(1, 1)[..2 * length];
    for (quarter, out) in target.chunks_exact_mut(length).enumerate() {
        let from = &quarters[ZEROS[quarter]][..length];
        if quarter < 2 {
            let half = &half[quarter * length..][..length];
            for i in 0..length {
                out[i] |= from[i] | half[i];
            }
        } else {
            for i in 0..length {
                out[i] |= from[i];
            }
        }
    }
}

/// The number of 0s in each string of two bits.
const ZEROS: [usize; 4] = [2, 1, 1, 0];

/// Four quarters of `M_j[z]` from `M_{j+2}[z, z+1, z+2]`, `R_{j+1}[z+1]` and, unless z = 0, from `R_j[z]`.
#[inline(always)]
fn join(quarters: [&[Chunk]; 3], first: &[Chunk], whole: Option<&[Chunk]>, set: &mut [Chunk]) {
    let length = quarters[0].len();
    let first = &first[..2 * length];
    for (quarter, out) in set.chunks_exact_mut(length).enumerate() {
        let from = &quarters[ZEROS[quarter]][..length];
        let half = (quarter < 2).then(|| &first[quarter * length..][..length]);
        let whole = whole.map(|whole| &whole[quarter * length..][..length]);
        match (whole, half) {
            (Some(whole), Some(half)) => {
                for i in 0..length {
                    out[i] = from[i] | whole[i] | half[i];
                }
            }
            (Some(more), None) | (None, Some(more)) => {
                for i in 0..length {
                    out[i] = from[i] | more[i];
                }
            }
            (None, None) => out.copy_from_slice(from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Empty(Vec<Chunk>);

    impl Sets for Empty {
        fn set(&self, j: usize, _z: usize) -> &[Chunk] {
            &self.0[..self.0.len() >> j]
        }
    }

    /// `Evaluator::memory` relies on this.
    #[test]
    fn scratch_takes_less_than_the_target() {
        for s in 7..12 {
            let mut target = vec![Chunk::EMPTY; 1 << s];
            let mut scratch = LevelBuffers::default();
            let base = vec![Chunk::EMPTY; s + 1];
            expand(&Empty(target.clone()), &base, &mut scratch, &mut target);
            assert!(scratch.above.capacity() + scratch.below.capacity() < target.len());
        }
    }
}
