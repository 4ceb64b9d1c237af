//! Solves a range whose moves that start in the head are marked already.
//!
//! Chunks are taken in ascending order, in blocks of four. When chunk i is done, the 2^s chunks that
//! end with it, for the number s of trailing 0s of i + 1, are a finished half X0 whose other half
//! X1 comes next: its losing positions are lifted. So each lift happens once, just in time. The
//! small lifts within a block, which are most, are by table.
//!
//! The lift of `X0` with s index bits above the chunk has `R_j[z]` = the slice of X0's losing
//! positions at the prefix 0^(z-1) 1^(j-z+1). What is below a chunk is its [base](crate::bases).

use crate::bases::Bases;
use crate::chunk::{CHUNK_LEN, Chunk};
use crate::isa::Lowest;
use crate::masks::{Firsts, Masks, NOTHING};
use crate::pyramid::{self, Base, LevelBuffers, Sets};
use crate::trailing::Finals;

/// The paths of the first range that are in its first chunk are below this.
const FIRST_CHUNK_PATHS: u64 = 2 * CHUNK_LEN as u64;

/// The chunks that are solved together. No range has fewer.
const BLOCK: usize = 4;

/// The state and the buffers to solve a range besides its bitmap, kept from one range to the next.
#[derive(Debug, Default)]
pub(crate) struct RangeSolver {
    pub(crate) finals: Finals,
    /// The losing indices so far, and room for those of one more block and one that is none.
    out: Vec<u32>,
    /// How many there are so far.
    len: usize,
    bases: Bases,
    base: Base,
    scratch: LevelBuffers,
}

/// A finished half X0 as the sets of its lift.
struct Half<'a> {
    losing: &'a [Chunk],
    s: usize,
}

impl Sets for Half<'_> {
    #[inline(always)]
    fn set(&self, j: usize, z: usize) -> &[Chunk] {
        let prefix = (1 << (j - z + 1)) - 1;
        let length = 1 << (self.s - j);
        &self.losing[prefix * length..][..length]
    }
}

impl RangeSolver {
    /// Turns `bitmap` from marked into losing positions and returns the losing indices, ascending.
    ///
    /// `first_range` says that this is the range of the empty head: its first position is the
    /// empty one, which is not losing, and its paths with trailing 1s are positions of its own.
    #[inline(always)]
    pub(crate) fn solve<L: Lowest>(
        &mut self,
        bitmap: &mut [Chunk],
        range_bits: u32,
        first_range: bool,
        masks: &Masks,
    ) -> Vec<u32> {
        self.len = 0;
        if first_range {
            bitmap[0].insert(0);
        }
        for i in (0..bitmap.len()).step_by(BLOCK) {
            let room = BLOCK * CHUNK_LEN + 1;
            if self.out.len() < self.len + room {
                self.out.resize(2 * self.len + room, 0);
            }
            if first_range {
                self.solve_first::<L>(bitmap, i, range_bits, masks);
            } else {
                self.solve_block::<L>(bitmap, i, masks);
            }
            if i + BLOCK < bitmap.len() {
                self.lift(bitmap, i + BLOCK, masks);
            }
        }
        self.out[..self.len].to_vec()
    }

    /// Solves the chunks 00, 01, 10 and 11 of the block that begins with chunk i, of which only
    /// moves within the block are not marked yet. These are the three lifts within it, put together:
    /// each losing index marks by table, when it is found, what can move to it from later chunks.
    #[inline(always)]
    fn solve_block<L: Lowest>(&mut self, bitmap: &mut [Chunk], i: usize, masks: &Masks) {
        for half in i + 1..i + BLOCK {
            if self.finals.is_any(half) {
                let s = half.trailing_zeros() as usize;
                let mut base = [Chunk::EMPTY; 2];
                self.finals.lift(half, masks, &mut base[..=s]);
                for (chunk, marks) in bitmap[half..].iter_mut().zip(base[..=s].iter().rev()) {
                    *chunk |= *marks;
                }
            }
        }
        let chunks: &mut [Chunk; BLOCK] = bitmap[i..].first_chunk_mut().expect("whole blocks");
        let [first, second, third, fourth] = chunks;
        let [mut zeros, mut ones, mut last] = [[Chunk::EMPTY; 2]; 3];
        self.sweep::<L>(first, i, masks, |l| {
            join(&mut zeros, masks.first_zeros.at(l));
        });
        *second |= zeros[0];
        self.sweep::<L>(second, i + 1, masks, |l| {
            join(&mut ones, masks.first_ones.at(l));
        });
        // 10 l can move to 01 l, and to 00 l' as 01 l can.
        *third |= zeros[0] | *second;
        let mut to_fourth = zeros[1] | ones[0];
        self.sweep::<L>(third, i + 2, masks, |l| {
            to_fourth |= masks.first_zeros.at(l)[0];
        });
        *fourth |= to_fourth;
        self.sweep::<L>(fourth, i + 3, masks, |l| {
            join(&mut last, masks.first_ones.at(l));
        });
        if i.is_multiple_of(2 * BLOCK) {
            self.bases.begin::<L>(i, *first, &zeros, masks);
            self.bases.go_on::<L>(i + 1, *second, &ones, masks);
        }
        self.bases.go_on::<L>(i + 3, *fourth, &last, masks);
    }

    /// The lowest unmarked position is losing; mark the positions that can move to it; repeat. Two
    /// are taken at a time, unless the second can move to the first: to find one takes long,
    /// and little longer for two.
    ///
    /// `each` is called for each of them, and perhaps for [`NOTHING`].
    #[inline(always)]
    fn sweep<L: Lowest>(
        &mut self,
        chunk: &mut Chunk,
        number: usize,
        masks: &Masks,
        mut each: impl FnMut(usize),
    ) {
        let index = u32::try_from(number * CHUNK_LEN).expect("at most 31 index bits");
        let out = &mut self.out[self.len..][..=CHUNK_LEN];
        let mut open = !*chunk;
        let mut losing = Chunk::EMPTY;
        let mut found = 0;
        while let Some([first, second]) = L::lowest(&open) {
            let by_first = &masks.even[first as usize % CHUNK_LEN];
            let second = if by_first.contains(second as usize) {
                NOTHING
            } else {
                second
            };
            let by_second = &masks.even[second as usize % (2 * CHUNK_LEN)];
            open = open & !(*by_first | *by_second);
            losing |= Chunk::of(first) | Chunk::of(second);
            each(first as usize);
            each(second as usize);
            out[found] = index + first;
            out[found + 1] = index + second;
            found += 1 + usize::from(second != NOTHING);
        }
        *chunk = losing;
        self.len += found;
    }

    /// As [`RangeSolver::solve_block`], for a block of the first range, where each losing position may mark
    /// others of the block as a path with trailing 1s.
    fn solve_first<L: Lowest>(
        &mut self,
        bitmap: &mut [Chunk],
        first: usize,
        range_bits: u32,
        masks: &Masks,
    ) {
        for i in first..first + BLOCK {
            let before = self.len;
            if i == 0 {
                let found = sweep_first(&mut bitmap[0], masks, &mut self.out);
                self.len += found;
            } else {
                self.sweep::<L>(&mut bitmap[i], i, masks, |_| {});
            }
            for &losing in &self.out[before..self.len] {
                let finals = &mut self.finals;
                apply_longer(u64::from(losing), range_bits, masks, finals, bitmap);
            }
            let losing = bitmap[i];
            if i % 2 == 0 {
                let firsts = firsts_of(losing, &masks.first_zeros);
                self.bases.begin::<L>(i, losing, &firsts, masks);
            } else {
                let firsts = firsts_of(losing, &masks.first_ones);
                self.bases.go_on::<L>(i, losing, &firsts, masks);
            }
            if i + 1 < first + BLOCK {
                self.lift(bitmap, i + 1, masks);
            }
        }
    }

    /// Lifts the finished half that ends before chunk `half` into the half that begins there: the theorem.
    #[inline(always)]
    fn lift(&mut self, bitmap: &mut [Chunk], half: usize, masks: &Masks) {
        let s = half.trailing_zeros() as usize;
        let first = half - (1 << s);
        let (done, open) = bitmap.split_at_mut(half);
        let losing = &done[first..];
        let base = &mut self.base[..=s];
        self.bases.write(first, base);
        self.finals.lift(half, masks, base);
        let half = Half { losing, s };
        pyramid::expand(&half, base, &mut self.scratch, &mut open[..1 << s]);
    }
}

#[inline(always)]
fn join(sets: &mut [Chunk; 2], more: &[Chunk; 2]) {
    for (set, more) in sets.iter_mut().zip(more) {
        *set |= *more;
    }
}

/// The first two of the lists of all these positions.
fn firsts_of(losing: Chunk, table: &Firsts) -> [Chunk; 2] {
    let mut firsts = [Chunk::EMPTY; 2];
    for l in losing.indices(0) {
        join(&mut firsts, table.at(l));
    }
    firsts
}

/// As [`RangeSolver::sweep`], for the first chunk of the first range, whose paths with trailing 1s are
/// positions of the same chunk.
fn sweep_first(chunk: &mut Chunk, masks: &Masks, out: &mut [u32]) -> usize {
    let mut losing = Chunk::EMPTY;
    let mut found = 0;
    for (l, index) in (0..CHUNK_LEN).zip(0..) {
        if !chunk.contains(l) {
            losing.insert(l);
            *chunk |= masks.even[l];
            for path in longer(l as u64).take_while(|&path| path < FIRST_CHUNK_PATHS) {
                *chunk |= masks.odd[(path >> 1) as usize];
            }
            out[found] = index;
            found += 1;
        }
    }
    *chunk = losing;
    found
}

/// The paths with trailing 1s that stand for the position of the first range at `index`.
fn longer(index: u64) -> impl Iterator<Item = u64> {
    (1..).map(move |ones: u32| ((2 * index + 1) << ones) - 1)
}

/// Applies, in the first range, that the position at `index` is losing, for the longer paths that
/// stand for it. Those in the first chunk were applied when it was swept.
fn apply_longer(
    index: u64,
    range_bits: u32,
    masks: &Masks,
    finals: &mut Finals,
    bitmap: &mut [Chunk],
) {
    let later = longer(index).skip_while(|&path| path < FIRST_CHUNK_PATHS);
    for path in later.take_while(|&path| path < 1 << range_bits) {
        finals.apply(path, range_bits, masks, bitmap);
    }
}
