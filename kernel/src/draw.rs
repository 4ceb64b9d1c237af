//! Moves that start in the head: marks drawn from the sources of a range.
//!
//! Losing positions are rare, so sources are lists of indices. Those of moves that end inside the
//! head go straight into the bitmap. Those of moves that cross into the index go, by the prefix
//! they lose and the number d of 0s that the move takes from the index, into sets `N_j[d]`; all
//! starts of the head share these, and one [pyramid](crate::pyramid) applies them at the end.
//!
//! With q index bits and a start whose part of the head has `ones` 1s:
//!
//! * d < `ones`: every losing index 1^j r of its source, j ≥ d, puts r into `N_j[d]`;
//! * d ≥ `ones`, one source for all: every losing index 0^x 1^c r, c ≥ `ones`, puts r into
//!   `N_{x+c}[ones + x]`;
//! * moves that end at the last 0 of the word mark every index with d 0s when the path that they
//!   lead to is losing: an *edge* of the same sources.

use chomp_table::Head;
use chomp_table::sources::{Start, starts};

use crate::chunk::{CHUNK_BITS, CHUNK_LEN, Chunk};
use crate::evaluate::{MissingSource, Sources};
use crate::masks::{Masks, spread};
use crate::pyramid::{self, Base, Scratch, Sets};
use crate::source::{BUCKET_BITS, Source, low, scatter_within};
use crate::trailing::all_with_zeros;

/// The sets `N_j[d]`, kept from one range to the next.
#[derive(Debug, Default)]
pub(crate) struct Drawing {
    /// `N_j[d]` for 1 ≤ d ≤ j ≤ s, level by level.
    sets: Vec<Chunk>,
    scratch: Scratch,
}

/// The sets of one range being filled.
struct Crossing<'a> {
    sets: &'a mut [Chunk],
    /// Index bits above the chunk.
    s: usize,
    base: Base,
    /// Bit d: all indices with d 0s are marked.
    finals: u64,
}

impl Drawing {
    /// Marks in the empty `bitmap` every index of range `head` that has a move, starting in the
    /// head, to a losing position.
    #[inline(always)]
    pub(crate) fn draw(
        &mut self,
        head: Head,
        sources: &dyn Sources,
        bitmap: &mut [Chunk],
        masks: &Masks,
    ) -> Result<(), MissingSource> {
        let s = bitmap.len().ilog2() as usize;
        self.sets.clear();
        self.sets.resize(level(s, s + 1), Chunk::EMPTY);
        let mut crossing = Crossing {
            sets: &mut self.sets,
            s,
            base: Base::default(),
            finals: 0,
        };
        for start in starts(head) {
            for source in start.inside() {
                find(sources, source)?.scatter_all(bitmap);
            }
            crossing.draw(start, sources)?;
        }
        let Crossing {
            mut base, finals, ..
        } = crossing;
        all_with_zeros(finals, masks, &mut base[..=s]);
        for (d, set) in (1..).zip(&mut base[1..=s]) {
            *set |= self.sets[place(s, s, d)];
        }
        let levels = Levels {
            sets: &self.sets,
            s,
        };
        pyramid::expand(&levels, &base[..=s], &mut self.scratch, bitmap);
        Ok(())
    }
}

pub(crate) fn find(sources: &dyn Sources, head: Head) -> Result<&Source, MissingSource> {
    sources.find(head).ok_or(MissingSource(head))
}

impl Crossing<'_> {
    #[inline(always)]
    fn draw(&mut self, start: Start, sources: &dyn Sources) -> Result<(), MissingSource> {
        let q = self.s + CHUNK_BITS;
        let ones = start.ones as usize;
        for (d, few) in (1..ones).zip(1..) {
            let source = find(sources, start.crossing(few))?;
            self.finals |= (source.edges() & 1) << (d - 1);
            self.add_runs(source, 0, d, d);
        }
        let source = find(sources, start.crossing(start.ones))?;
        self.finals |= (source.edges() << (ones - 1)) & ((2 << q) - 1);
        for x in 0..=q.saturating_sub(ones) {
            self.add_runs(source, x, ones, ones + x);
        }
        Ok(())
    }

    /// Puts r into `N_{x+c}[d]` for each losing index 0^x 1^c r with c ≥ `ones_min`.
    #[inline(always)]
    fn add_runs(&mut self, source: &Source, x: usize, ones_min: usize, d: usize) {
        let q = self.s + CHUNK_BITS;
        let end: u64 = 1 << (q - x);
        let mut j = x + ones_min;
        while j + BUCKET_BITS <= q {
            let first = end - (1 << (q - j));
            source.scatter(first, self.set(j, d));
            j += 1;
        }
        // All longer runs of 1s end in the bucket that ends with them.
        let last = end - 1;
        let bucket = source.bucket(last >> BUCKET_BITS);
        let mut run = &bucket[..bucket.partition_point(|&index| index <= low(last))];
        for j in j..=q {
            let base = low(end - (1 << (q - j)));
            run = &run[run.partition_point(|&index| index < base)..];
            if run.is_empty() {
                break;
            }
            if j <= self.s {
                scatter_within(run, base, self.set(j, d));
            } else {
                self.add_below_chunk(run, j - self.s, d);
            }
        }
    }

    /// `N_j[d]`.
    #[inline(always)]
    fn set(&mut self, j: usize, d: usize) -> &mut [Chunk] {
        &mut self.sets[place(self.s, j, d)..][..1 << (self.s - j)]
    }

    /// The same where r is shorter than a chunk: the prefix takes `length` bits of the chunk.
    #[cold]
    fn add_below_chunk(&mut self, run: &[u16], length: usize, d: usize) {
        for &index in run {
            for (zeros, string) in spread(usize::from(index) % CHUNK_LEN, length) {
                if let Some(above) = d.checked_sub(zeros)
                    && above <= self.s
                {
                    self.base[above].insert(string);
                }
            }
        }
    }
}

/// Where level j of the sets begins: below it are i sets of 2^(s-i) chunks for each i < j.
fn level(s: usize, j: usize) -> usize {
    (1..j).map(|i| i << (s - i)).sum()
}

/// Where `N_j[d]` begins.
fn place(s: usize, j: usize, d: usize) -> usize {
    level(s, j) + ((d - 1) << (s - j))
}

/// The filled sets as those of a pyramid.
struct Levels<'a> {
    sets: &'a [Chunk],
    s: usize,
}

impl Sets for Levels<'_> {
    #[inline(always)]
    fn set(&self, j: usize, z: usize) -> &[Chunk] {
        &self.sets[place(self.s, j, z)..][..1 << (self.s - j)]
    }
}
