//! Moves that start in the head: marks from the sources of a range, by Lemma 3.
//!
//! Losing positions are rare, so sources are lists of indices. The sources of moves that end inside the head go
//! straight into the bitmap. The sources of moves that cross into the index go into sets `N_j[d]`. All starts of the
//! head share these sets, and one [pyramid](crate::pyramid) applies them at the end.
//!
//! With q index bits and a start whose part of the head has `ones` 1s:
//!
//! * d < `ones`: every losing index 1^j r of the source, j ≥ d, puts r into `N_j[d]`;
//! * d ≥ `ones`, one source for all such d (at d = `ones` both cases of Lemma 3 are the same): every losing index
//!   0^e 1^c r, c ≥ `ones`, puts r into `N_{e+c}[ones + e]`;
//! * moves that end at the last 0 of the word: if the path that they lead to is losing, an *edge* of the same source,
//!   all indices with d - 1 0s are marked, as the last 0 is one of the d that the move takes.
//!
//! In both of the first two cases a string r is in `N_j[d]` when 1^(j-d) r is in `N_d[d]`, for the same losing index
//! puts both strings there. So `N_d[d]`, written `N_d` from here on, is all that is filled, and `N_j[d]` is the end of
//! it.

use chomp_table::Head;
use chomp_table::sources::{Start, starts};

use crate::chunk::{CHUNK_BITS, CHUNK_LEN, Chunk};
use crate::masks::{Masks, spread};
use crate::pyramid::{self, Base, LevelBuffers, Sets};
use crate::source::{
    BUCKET_BITS, MissingSource, Source, SourceTail, Sources, low, scatter, scatter_within,
};
use crate::trailing::all_with_zeros;

/// The sets `N_d`, whose memory is kept from one range to the next.
#[derive(Debug, Default)]
pub(crate) struct SourceSets {
    /// `N_d` of 2^(s-d) chunks, for 1 ≤ d ≤ s.
    sets: Vec<Chunk>,
    scratch: LevelBuffers,
}

/// The sets of one range being filled.
struct Crossing<'a> {
    sets: &'a mut [Chunk],
    /// At d - 1: the parts of sources that go into `N_d`, for each `N_d` of whole buckets, which are the first sets.
    parts: Vec<Vec<SourceTail<'a>>>,
    s: usize,
    base: Base,
    /// Bit z: all indices with z 0s are marked.
    finals: u64,
}

impl SourceSets {
    /// Turns `bitmap` into the marks of the indices with a move that starts in the head and leads to a losing position.
    #[inline(always)]
    pub(crate) fn mark(
        &mut self,
        head: Head,
        sources: &dyn Sources,
        bitmap: &mut [Chunk],
        masks: &Masks,
    ) -> Result<(), MissingSource> {
        let s = bitmap.len().ilog2() as usize;
        self.sets.resize(set_start(s, s + 1), Chunk::EMPTY);
        let whole = (s + CHUNK_BITS).saturating_sub(BUCKET_BITS);
        self.sets[set_start(s, whole + 1)..].fill(Chunk::EMPTY);
        let mut crossing = Crossing {
            sets: &mut self.sets,
            parts: vec![Vec::new(); whole],
            s,
            base: Base::default(),
            finals: 0,
        };
        let mut inside = Vec::new();
        for start in starts(head) {
            for source in start.inside() {
                let source = find(sources, source)?;
                inside.push(SourceTail { source, first: 0 });
            }
            crossing.add_start(start, sources)?;
        }
        scatter(&inside, bitmap);
        crossing.scatter();
        let Crossing {
            mut base, finals, ..
        } = crossing;
        all_with_zeros(finals, masks, &mut base[..=s]);
        let levels = Levels {
            sets: &self.sets,
            s,
        };
        for d in 1..=s {
            let last = levels.set(s, d)[0];
            base[d] |= last;
            for l in last.indices(CHUNK_LEN / 2) {
                for (set, mask) in base[..d].iter_mut().rev().zip(masks.ones.at(l)) {
                    *set |= *mask;
                }
            }
        }
        pyramid::expand(&levels, &base[..=s], &mut self.scratch, bitmap);
        Ok(())
    }
}

pub(crate) fn find(sources: &dyn Sources, head: Head) -> Result<&Source, MissingSource> {
    sources.find(head).ok_or(MissingSource(head))
}

impl<'a> Crossing<'a> {
    #[inline(always)]
    fn add_start(&mut self, start: Start, sources: &'a dyn Sources) -> Result<(), MissingSource> {
        let q = self.s + CHUNK_BITS;
        let ones = start.ones as usize;
        for (d, few) in (1..ones).zip(1..) {
            let source = find(sources, start.crossing(few))?;
            self.finals |= (source.edges() & 1) << (d - 1);
            if d <= q {
                self.add(source, 0, d);
            }
        }
        let source = find(sources, start.crossing(start.ones))?;
        self.finals |= (source.edges() << (ones - 1)) & ((2 << q) - 1);
        for d in ones..=q {
            self.add(source, d - ones, d);
        }
        Ok(())
    }

    /// Puts r into `N_d`, d ≤ q, for each losing index 0^e 1^(d-e) r (Lemma 3).
    #[inline(always)]
    fn add(&mut self, source: &'a Source, e: usize, d: usize) {
        let q = self.s + CHUNK_BITS;
        let end: u64 = 1 << (q - e);
        let first = end - (1 << (q - d));
        if d + BUCKET_BITS <= q {
            self.parts[d - 1].push(SourceTail { source, first });
            return;
        }
        let last = end - 1;
        let bucket = source.bucket(last >> BUCKET_BITS);
        let run = &bucket[..bucket.partition_point(|&index| index <= low(last))];
        let from = |first| run.partition_point(|&index| index < low(first));
        if d <= self.s {
            let set = &mut self.sets[set_start(self.s, d)..][..1 << (self.s - d)];
            scatter_within(&run[from(first)..], low(first), set);
            return;
        }
        for j in d..=q {
            let run = &run[from(end - (1 << (q - j)))..];
            if run.is_empty() {
                break;
            }
            self.add_below_chunk(run, j - self.s, d);
        }
    }

    /// Fills the sets of whole buckets.
    #[inline(always)]
    fn scatter(&mut self) {
        for (d, parts) in (1..).zip(&self.parts) {
            let set = &mut self.sets[set_start(self.s, d)..][..1 << (self.s - d)];
            scatter(parts, set);
        }
    }

    /// Puts r into `N_j[d]` for each index 1^`length` r of a chunk, where r is shorter than a chunk.
    #[cold]
    fn add_below_chunk(&mut self, run: &[u16], length: usize, d: usize) {
        for &index in run {
            for (zeros, string) in spread(index.into(), length) {
                if let Some(above) = d.checked_sub(zeros)
                    && above <= self.s
                {
                    self.base[above].insert(string);
                }
            }
        }
    }
}

/// Where `N_d` begins: below it are `N_i` of 2^(s-i) chunks for each i < d.
fn set_start(s: usize, d: usize) -> usize {
    (1 << s) - (2 << s >> d)
}

struct Levels<'a> {
    sets: &'a [Chunk],
    s: usize,
}

impl Sets for Levels<'_> {
    #[inline(always)]
    fn set(&self, j: usize, z: usize) -> &[Chunk] {
        let end = set_start(self.s, z + 1);
        &self.sets[end - (1 << (self.s - j))..end]
    }
}
