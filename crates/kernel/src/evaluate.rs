//! Evaluates one range from its head and its sources.

use std::collections::{BTreeMap, HashMap};

use chomp_table::range::IndexBuckets;
use chomp_table::sources::{corner, trimmed};
use chomp_table::word::mask;
use chomp_table::{Head, Range, RangeBits};

use crate::chunk::{CHUNK_BITS, Chunk};
use crate::isa::{Isa, Lowest, PortableLowest};
use crate::masks::Masks;
use crate::solve::RangeSolver;
use crate::source::{MissingSource, Source, Sources};
use crate::source_sets::{SourceSets, find};

/// Evaluates ranges of one size. A thread should keep its evaluator, for its buffers of [`Evaluator::memory`] bytes.
#[derive(Debug)]
pub struct Evaluator {
    range_bits: RangeBits,
    isa: Isa,
    masks: &'static Masks,
    bitmap: Vec<Chunk>,
    source_sets: SourceSets,
    solver: RangeSolver,
}

impl Evaluator {
    /// With the instruction set `isa`, or the widest below it that this CPU has.
    pub fn new(range_bits: RangeBits, isa: Isa) -> Evaluator {
        Evaluator {
            range_bits,
            isa: isa.min(Isa::detect()),
            masks: Masks::get(),
            bitmap: Vec::new(),
            source_sets: SourceSets::default(),
            solver: RangeSolver::new(range_bits.get() as usize - 1 - CHUNK_BITS),
        }
    }

    /// The bits of the ranges that it evaluates.
    pub fn range_bits(&self) -> RangeBits {
        self.range_bits
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The bytes of memory of an evaluator for `range_bits`, without its result.
    pub fn memory(range_bits: RangeBits) -> u64 {
        // The bitmap, as much memory for sets, and less than that for scratch and for the losing indices, of which
        // there are two copies; besides, some half a MiB for tables, which all evaluators share, and for the state of a
        // block.
        range_bits.positions() / 8 * 4 + (1 << 19)
    }

    /// Evaluates the range `head`. Fails if `sources` lacks one of [`chomp_table::sources::sources`].
    pub fn evaluate(&mut self, head: Head, sources: &dyn Sources) -> Result<Range, MissingSource> {
        self.dispatch(head, sources, true)
    }

    /// The first phase of [`Evaluator::evaluate`], for benchmarks: marks from the sources, without solving.
    pub fn mark_from_sources(
        &mut self,
        head: Head,
        sources: &dyn Sources,
    ) -> Result<(), MissingSource> {
        self.dispatch(head, sources, false).map(|_| ())
    }

    fn dispatch(
        &mut self,
        head: Head,
        sources: &dyn Sources,
        solve: bool,
    ) -> Result<Range, MissingSource> {
        match self.isa {
            Isa::Portable => self.run::<PortableLowest>(head, sources, solve),
            #[cfg(target_arch = "x86_64")]
            #[expect(
                unsafe_code,
                reason = "code for an instruction set that not every CPU has"
            )]
            // SAFETY: `new` allows only instruction sets that `Isa::detect` found.
            Isa::Avx2 => unsafe { avx2(self, head, sources, solve) },
            #[cfg(target_arch = "x86_64")]
            #[expect(
                unsafe_code,
                reason = "code for an instruction set that not every CPU has"
            )]
            // SAFETY: as above.
            Isa::Avx512 => unsafe { avx512(self, head, sources, solve) },
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => unreachable!("`new` allows only what `Isa::detect` found"),
        }
    }

    #[inline(always)]
    fn run<L: Lowest>(
        &mut self,
        head: Head,
        sources: &dyn Sources,
        solve: bool,
    ) -> Result<Range, MissingSource> {
        let b = self.range_bits.get();
        self.bitmap
            .resize(1 << (b as usize - 1 - CHUNK_BITS), Chunk::EMPTY);
        self.solver.finals.reset(self.bitmap.len());
        let mut edges = 0;
        if head.is_zero() {
            self.bitmap.fill(Chunk::EMPTY);
        } else {
            self.source_sets
                .mark(head, sources, &mut self.bitmap, self.masks)?;
            edges = self.apply_trimmed(head, sources)?;
        }
        let mut losing = IndexBuckets::default();
        if solve {
            losing = self
                .solver
                .solve::<L>(&mut self.bitmap, b, head.is_zero(), self.masks);
            edges |= u64::from(losing.bucket(0).first() == Some(&0)) << b;
        }
        Ok(Range {
            head,
            losing,
            edges,
        })
    }

    /// Marks what can move to a losing path of this range with trailing 1s; returns the edges among these paths.
    #[inline(always)]
    fn apply_trimmed(&mut self, head: Head, sources: &dyn Sources) -> Result<u64, MissingSource> {
        let b = self.range_bits.get();
        let mut edges = 0;
        for (c, source) in trimmed(head, self.range_bits) {
            let source = find(sources, source)?;
            let length = b - 1 - c;
            let first = (head.0 & mask(c)) << length;
            for (start, run) in source.runs(first..first + (1 << length)) {
                let run = (start.wrapping_sub(first), run);
                self.solver
                    .finals
                    .apply_run(run, c, b, self.masks, &mut self.bitmap);
            }
            edges |= u64::from(source.contains(first)) << (b - c);
        }
        let corner = corner(head);
        let source = find(sources, Head::of(corner, self.range_bits))?;
        let found = source.contains((corner.get() & mask(b)) / 2);
        Ok(edges | u64::from(found))
    }
}

/// Evaluates the ranges of `heads`, which are in the order of their layers. Panics if a source is not among the heads
/// before.
pub fn evaluate_heads(
    heads: impl IntoIterator<Item = Head>,
    range_bits: RangeBits,
    isa: Isa,
) -> BTreeMap<Head, Range> {
    let mut evaluator = Evaluator::new(range_bits, isa);
    let (mut ranges, mut sources) = (BTreeMap::new(), HashMap::new());
    for head in heads {
        let range = evaluator
            .evaluate(head, &sources)
            .expect("a source is in a lower layer");
        sources.insert(head, Source::new(range.clone()));
        ranges.insert(head, range);
    }
    ranges
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn avx2(
    evaluator: &mut Evaluator,
    head: Head,
    sources: &dyn Sources,
    solve: bool,
) -> Result<Range, MissingSource> {
    evaluator.run::<crate::isa::Avx2Lowest>(head, sources, solve)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn avx512(
    evaluator: &mut Evaluator,
    head: Head,
    sources: &dyn Sources,
    solve: bool,
) -> Result<Range, MissingSource> {
    evaluator.run::<crate::isa::Avx512Lowest>(head, sources, solve)
}
