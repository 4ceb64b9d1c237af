//! The bases of lifts, put together while chunks are solved.
//!
//! The base of a lift, the sets `M_s[0..=s]` of its [pyramid](crate::pyramid), says what a half X0 of 2^s chunks
//! means for moves that end within a chunk. It depends on what is losing in s + 1 chunks of the half: the first
//! one and, for 1 ≤ k ≤ s, the one at 0^(s-k) 1^k. Counted from the end, so that entry o is `M_s[s - o]`,
//!
//! * the first chunk adds its lists [`zeros`](Masks::zeros) from entry 0 on;
//! * the one at 0^(s-k) 1^k adds its losing positions to entry k - 1, its lists [`ones`](Masks::ones) from entry k on.
//!
//! None of this depends on s. So all halves that begin with the same chunk have one base, which grows as they do, and
//! each chunk adds to one base, once. Bases within a block are kept while the block is solved. The base of the halves
//! that begin with the block is kept longer, as it may grow with later blocks.

use crate::chunk::{CHUNK_BITS, Chunk, join};
use crate::isa::Lowest;
use crate::masks::{ChunkLists, Masks, NOTHING};
use crate::pyramid::BASE_SETS_MAX;

/// The most entries that anything is added to.
const ENTRIES: usize = BASE_SETS_MAX + CHUNK_BITS;

/// The bases of the halves that are not finished. A half of 2^s chunks is lifted if its first chunk i is a multiple of
/// 2^(s+1), and until then chunks c from i to i + 2^s - 1 are solved: i is c without its last s + 1 bits, the first of
/// which is 0. Of two such i for one c, the smaller one has fewer 1s, so the number of 1s of i is the index of its
/// base.
#[derive(Debug, Default)]
pub(crate) struct Bases {
    bases: Box<[[Chunk; ENTRIES]; BASE_SETS_MAX]>,
}

impl Bases {
    /// Begins the base of the halves that begin with chunk `i`, which is even, with what its block adds.
    #[inline(always)]
    pub(crate) fn begin(&mut self, i: usize, entries: &[Chunk]) {
        self.bases[i.count_ones() as usize][..entries.len()].copy_from_slice(entries);
    }

    /// Adds chunk `i`, which is odd, to the base that it belongs to.
    #[inline(always)]
    pub(crate) fn go_on<L: Lowest>(&mut self, i: usize, losing: Chunk, masks: &Masks) {
        let k = i.trailing_ones() as usize;
        let base = &mut self.bases[i.count_ones() as usize - k];
        base[k + CHUNK_BITS - 1] = Chunk::EMPTY;
        base[k - 1] |= losing;
        let first_two = masks.ones.first_two_of(losing);
        add::<L>(&mut base[k..], losing, &first_two, &masks.ones);
    }

    /// The sets `M_s[0..=s]` for the half of 2^s chunks that begins with chunk `first`, into `base`.
    #[inline(always)]
    pub(crate) fn write(&self, first: usize, base: &mut [Chunk]) {
        let entries = &self.bases[first.count_ones() as usize][..base.len()];
        for (set, entry) in base.iter_mut().zip(entries.iter().rev()) {
            *set = *entry;
        }
    }
}

/// Adds the lists of the losing positions of a chunk to `base`. `first_two` joins the first two chunks of all these
/// lists, and the rest of each longer list is added by itself.
#[inline(always)]
pub(crate) fn add<L: Lowest>(
    base: &mut [Chunk],
    losing: Chunk,
    first_two: &[Chunk; 2],
    lists: &ChunkLists,
) {
    join(base, first_two);
    if base.len() <= first_two.len() {
        return;
    }
    let mut longer = losing & lists.longer;
    loop {
        let [l, _] = L::lowest(&longer);
        if l >= NOTHING {
            break;
        }
        longer = longer & !Chunk::of(l);
        join(&mut base[2..], lists.rest(l as usize));
    }
}
