//! Solves a range whose moves that start in the head are marked already.
//!
//! Chunks are taken in blocks, and those of a block as its [schedule](crate::schedule) says. When a block is done, the
//! 2^s chunks that end with its last chunk i, for the number s of trailing 0s of i + 1, are a finished half X0 whose
//! other half X1 comes next: its losing positions are lifted. So each lift happens once, just in time. Within a block,
//! a chunk takes what it needs from those before it, which costs less where the sets of a lift would have few chunks.
//!
//! The lift of `X0` with s index bits above the chunk has `R_j[z]` = the slice of X0's losing positions at the prefix
//! 0^(z-1) 1^(j-z+1). The marks of moves that end within a chunk follow from the [base](crate::bases) of the lift.

use std::hint::select_unpredictable;

use chomp_table::range::IndexBuckets;

use crate::bases::{Bases, add};
use crate::chunk::{CHUNK_BITS, CHUNK_LEN, Chunk, join};
use crate::isa::Lowest;
use crate::masks::{ChunkLists, Masks, NOTHING};
use crate::pyramid::{self, Base, LevelBuffers, Sets};
use crate::schedule::{BLOCK_BITS_MAX, Schedule};
use crate::source::{BUCKET_BITS, low};
use crate::trailing::Finals;

/// The paths of the first range that are in its first chunk are below this.
const FIRST_CHUNK_PATHS: u64 = 2 * CHUNK_LEN as u64;

/// Room for the positions of a chunk and two more. The length is no power of two, so the beginnings of many such lists
/// do not share the same few lines of the cache.
const ROOM: usize = CHUNK_LEN + 32;
/// The number of losing positions of a chunk that are copied at a time.
const PIECE: usize = 16;
/// The chunks of a bucket.
const BUCKET: usize = 1 << (BUCKET_BITS - CHUNK_BITS);

/// The state and the buffers to solve a range besides its bitmap, kept from one range to the next.
#[derive(Debug)]
pub(crate) struct RangeSolver {
    pub(crate) finals: Finals,
    schedule: Schedule,
    /// The losing positions of the chunks of a block.
    found: Vec<Found>,
    /// The entries of the bases of a block.
    entries: Vec<Chunk>,
    /// The last 16 bits of the losing indices so far, and room for those of one more block.
    out: Vec<u16>,
    /// The number of losing indices so far.
    len: usize,
    bases: Bases,
    base: Base,
    scratch: LevelBuffers,
}

/// The losing positions of a chunk.
#[derive(Clone, Debug)]
struct Found {
    positions: [u16; ROOM],
    number: usize,
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
    /// For ranges of 2^`s` chunks.
    pub(crate) fn new(s: usize) -> RangeSolver {
        let bits = s.min(BLOCK_BITS_MAX);
        let schedule = Schedule::new(bits);
        RangeSolver {
            finals: Finals::new(bits),
            found: vec![
                Found {
                    positions: [0; ROOM],
                    number: 0
                };
                1 << bits
            ],
            entries: vec![Chunk::EMPTY; schedule.entries],
            schedule,
            out: Vec::new(),
            len: 0,
            bases: Bases::default(),
            base: Base::default(),
            scratch: LevelBuffers::default(),
        }
    }

    /// Turns `bitmap` from marked into losing positions and returns these. `first_range` says that it is the range of
    /// the empty head: its first position is empty and so not losing, and its paths with trailing 1s are positions of
    /// the same range.
    #[inline(always)]
    pub(crate) fn solve<L: Lowest>(
        &mut self,
        bitmap: &mut [Chunk],
        range_bits: u32,
        first_range: bool,
        masks: &Masks,
    ) -> IndexBuckets {
        self.len = 0;
        let mut first = Vec::with_capacity(bitmap.len() / BUCKET + 2);
        if first_range {
            bitmap[0].insert(0);
        }
        let block = self.found.len();
        for i in (0..bitmap.len()).step_by(block) {
            if i.is_multiple_of(BUCKET) {
                first.push(u32::try_from(self.len).expect("at most 2^31 positions"));
            }
            self.entries.fill(Chunk::EMPTY);
            if first_range {
                self.solve_first::<L>(bitmap, i, range_bits, masks);
            } else {
                self.solve_block::<L>(&mut bitmap[i..][..block], masks);
            }
            self.copy_found(i);
            if i.is_multiple_of(2 * block) {
                let base = self.schedule.links[0].lists.clone();
                self.bases.begin(i, &self.entries[base]);
            }
            let next = i + block;
            self.bases.go_on::<L>(next - 1, bitmap[next - 1], masks);
            if next < bitmap.len() {
                self.lift(bitmap, next, masks);
            }
        }
        first.push(u32::try_from(self.len).expect("at most 2^31 positions"));
        IndexBuckets::new(self.out[..self.len].to_vec(), first)
    }

    #[inline(always)]
    fn copy_found(&mut self, first: usize) {
        let room = self.len + self.found.len() * CHUNK_LEN + PIECE;
        if self.out.len() < room {
            self.out.resize(2 * self.len + room, 0);
        }
        let starts = (first * CHUNK_LEN..).step_by(CHUNK_LEN);
        for (start, Found { positions, number }) in starts.zip(&self.found) {
            let start = low(start as u64);
            let pieces = positions.as_chunks::<PIECE>().0;
            let out = self.out[self.len..].as_chunks_mut::<PIECE>().0;
            // One piece is copied even without positions: hardly any chunk needs two, and a branch takes longer than a
            // copy.
            for (piece, out) in pieces[..number.div_ceil(PIECE).max(1)].iter().zip(out) {
                for (out, &position) in out.iter_mut().zip(piece) {
                    *out = start | position;
                }
            }
            self.len += number;
        }
    }

    /// Solves a block of which only moves within it are not marked yet.
    #[inline(always)]
    fn solve_block<L: Lowest>(&mut self, block: &mut [Chunk], masks: &Masks) {
        for step in 0..self.schedule.steps.len() {
            match self.schedule.steps[step] {
                (one, Some(other)) => self.solve_chunks::<L, 2>(block, [one, other], masks),
                (one, None) => self.solve_chunks::<L, 1>(block, [one], masks),
            }
        }
    }

    /// Solves chunks of which none has a move to another. The lowest unmarked position of a chunk is losing; mark the
    /// positions that can move to it; repeat. The two lowest are taken at a time, unless the second can move to the
    /// first: the search for two takes little longer than for one. Only the end of the loop is a branch: a CPU could
    /// not predict the other decisions.
    #[inline(always)]
    fn solve_chunks<L: Lowest, const N: usize>(
        &mut self,
        block: &mut [Chunk],
        chunks: [usize; N],
        masks: &Masks,
    ) {
        let mut open = [Chunk::EMPTY; N];
        let mut first_two = [&*masks.ones.first_two; N];
        for (n, &chunk) in chunks.iter().enumerate() {
            let links = &self.schedule.links[chunk];
            let mut won = block[chunk];
            for &from in &links.inside {
                won |= block[from];
            }
            for &from in &links.across {
                won |= self.entries[from];
            }
            open[n] = !won;
            first_two[n] = &*lists(chunk, masks).first_two;
        }
        let found = self.found.get_disjoint_mut(chunks).expect("two chunks");
        let mut losing = [Chunk::EMPTY; N];
        let mut lists = [[Chunk::EMPTY; 2]; N];
        let mut number = [0; N];
        loop {
            let mut lowest = [[NOTHING; 2]; N];
            for n in 0..N {
                lowest[n] = L::lowest(&open[n]);
            }
            if lowest[0][0] & lowest[N - 1][0] >= NOTHING {
                break;
            }
            for n in 0..N {
                let [first, second] = lowest[n].map(|index| index as usize % (2 * CHUNK_LEN));
                let by_first = &masks.even[first];
                let can_move = by_first.contains(second);
                let second = select_unpredictable(can_move, NOTHING as usize, second);
                open[n] = open[n] & !(*by_first | masks.even[second]);
                losing[n] |= masks.alone[first] | masks.alone[second];
                join(&mut lists[n], &first_two[n][first]);
                join(&mut lists[n], &first_two[n][second]);
                let at = number[n] % CHUNK_LEN;
                found[n].positions[at] = low(first as u64);
                found[n].positions[at + 1] = low(second as u64);
                number[n] += 2 - first / CHUNK_LEN - second / CHUNK_LEN;
            }
        }
        for (n, chunk) in chunks.into_iter().enumerate() {
            block[chunk] = losing[n];
            self.found[chunk].number = number[n];
            self.add_lists::<L>(chunk, losing[n], &lists[n], masks);
        }
    }

    /// Adds a chunk to its base in the block; `first_two` are those of the lists of all its losing positions.
    #[inline(always)]
    fn add_lists<L: Lowest>(
        &mut self,
        chunk: usize,
        losing: Chunk,
        first_two: &[Chunk; 2],
        masks: &Masks,
    ) {
        let entries = self.schedule.links[chunk].lists.clone();
        self.entries[entries.start - 1] |= losing;
        add::<L>(
            &mut self.entries[entries],
            losing,
            first_two,
            lists(chunk, masks),
        );
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
        for chunk in 0..self.found.len() {
            let i = first + chunk;
            if i == 0 {
                let found = &mut self.found[0];
                found.number = sweep_first(&mut bitmap[0], masks, &mut found.positions);
                let first_two = masks.zeros.first_two_of(bitmap[0]);
                self.add_lists::<L>(0, bitmap[0], &first_two, masks);
            } else {
                let block = &mut bitmap[first..][..self.found.len()];
                self.solve_chunks::<L, 1>(block, [chunk], masks);
            }
            let Found { positions, number } = &self.found[chunk];
            for &position in &positions[..*number] {
                let index = (i * CHUNK_LEN) as u64 + u64::from(position);
                apply_longer(index, range_bits, masks, &mut self.finals, bitmap);
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

/// The lists by which a chunk adds to its base.
#[inline(always)]
fn lists(chunk: usize, masks: &Masks) -> &ChunkLists {
    if chunk.is_multiple_of(2) {
        &masks.zeros
    } else {
        &masks.ones
    }
}

/// As [`RangeSolver::solve_chunks`], for the first chunk of all, whose paths with trailing 1s are positions of it.
fn sweep_first(chunk: &mut Chunk, masks: &Masks, out: &mut [u16]) -> usize {
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

/// Applies the longer paths of the losing position at `index` of the first range, but those that `sweep_first` applied.
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
