//! The recursion `M_j[z]` = `R_j[z]` ∪ 0·`M_{j+1}[z+1]` ∪ 1·`M_{j+1}[z]` on bitmaps.
//!
//! The strings that `M_j[z]` holds have s - j bits above the chunk, so it is 2^(s-j) chunks long.
//! The recursion starts with the one-chunk sets `M_s[0..=s]`, the *base*, and ends with `M_0[0]`,
//! which is OR'ed into the 2^s chunks of the target. Two levels are done at a time: for 0 ≤ z ≤ j
//!
//! ```text
//! M_j[z] = R_j[z]  ∪  00·M_{j+2}[z+2]  ∪  01·(M_{j+2}[z+1])  ∪  10·M_{j+2}[z+1]  ∪  11·M_{j+2}[z]
//!                  ∪  0·R_{j+1}[z+1]  ∪  1·R_{j+1}[z]
//! ```

use crate::chunk::Chunk;

/// The most levels a range can have above its chunks.
pub(crate) const LEVELS: usize = 23;

/// The sets `M_s[0..]` of a pyramid with s levels.
pub(crate) type Base = [Chunk; LEVELS];

/// Where the sets `R_j[z]` come from, for 1 ≤ z ≤ j < s. `R_j[0]` is empty for all j.
pub(crate) trait Sets {
    /// The 2^(s-j) chunks of `R_j[z]`.
    fn set(&self, j: usize, z: usize) -> &[Chunk];
}

/// Two buffers for the sets of one level, kept from one pyramid to the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    above: Vec<Chunk>,
    below: Vec<Chunk>,
}

/// Marks in the 2^s chunks of `target` what the sets and the s + 1 chunks of the base say.
#[inline(always)]
pub(crate) fn expand(
    sets: &impl Sets,
    base: &[Chunk],
    scratch: &mut Scratch,
    target: &mut [Chunk],
) {
    debug_assert_eq!(target.len(), 1 << (base.len() - 1));
    match *base {
        [all] => target[0] |= all,
        [zero, one] => {
            target[0] |= one;
            target[1] |= zero;
        }
        [ref zero, ref one, ref two] => {
            finish(sets, [zero, one, two].map(std::slice::from_ref), target);
        }
        [zero, one, two, three] => {
            let (second, third) = (&sets.set(2, 1)[..2], &sets.set(2, 2)[..2]);
            let below = [
                [one, zero],
                [two | second[0], one | second[1]],
                [three | third[0], two | third[1]],
            ];
            finish(sets, below.each_ref().map(<[Chunk; 2]>::as_slice), target);
        }
        // Many pyramids are low, and those of a known height become code without loops.
        _ => match (base.as_array::<5>(), base.as_array::<6>()) {
            (Some(base), _) => expand_tall(sets, base, scratch, target),
            (_, Some(base)) => expand_tall(sets, base, scratch, target),
            _ => expand_tall(sets, base, scratch, target),
        },
    }
}

#[inline(always)]
fn expand_tall(sets: &impl Sets, base: &[Chunk], scratch: &mut Scratch, target: &mut [Chunk]) {
    let Scratch { above, below } = scratch;
    // Level j has (j + 1) 2^(s-j) chunks: at most 3/4 of the target from level 2 on.
    if above.len() < target.len() {
        above.resize(target.len(), Chunk::EMPTY);
        below.resize(target.len(), Chunk::EMPTY);
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
    while j > 2 {
        j -= 2;
        for z in 0..=j {
            let quarters = [z, z + 1, z + 2].map(|z| &above[z * length..][..length]);
            let set = &mut below[4 * z * length..][..4 * length];
            if z == 0 {
                join(quarters, sets.set(j + 1, 1), None, set);
            } else {
                let (whole, second) = (sets.set(j, z), sets.set(j + 1, z));
                join(quarters, sets.set(j + 1, z + 1), Some((whole, second)), set);
            }
        }
        length *= 4;
        std::mem::swap(above, below);
    }
    let quarters = [0, 1, 2].map(|z| &above[z * length..][..length]);
    finish(sets, quarters, target);
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

/// Four quarters of `M_j[z]` from `M_{j+2}[z, z+1, z+2]`, `R_{j+1}[z+1]` and, unless z = 0, from
/// `R_j[z]` and `R_{j+1}[z]`.
#[inline(always)]
fn join(
    quarters: [&[Chunk]; 3],
    first: &[Chunk],
    rest: Option<(&[Chunk], &[Chunk])>,
    set: &mut [Chunk],
) {
    let length = quarters[0].len();
    let first = &first[..2 * length];
    for (quarter, out) in set.chunks_exact_mut(length).enumerate() {
        let from = &quarters[ZEROS[quarter]][..length];
        let half = |set: &'_ [Chunk], i: usize| set[(quarter % 2) * length + i];
        match rest {
            Some((whole, second)) => {
                let whole = &whole[quarter * length..][..length];
                if quarter < 2 {
                    for i in 0..length {
                        out[i] = from[i] | whole[i] | half(first, i);
                    }
                } else {
                    for i in 0..length {
                        out[i] = from[i] | whole[i] | half(second, i);
                    }
                }
            }
            None if quarter < 2 => {
                for i in 0..length {
                    out[i] = from[i] | half(first, i);
                }
            }
            None => out.copy_from_slice(from),
        }
    }
}
