//! The moves within one chunk, as tables that are the same for all chunks. They take a millisecond to make, once.

use std::sync::LazyLock;

use chomp_table::word::sort_span;

use crate::chunk::{CHUNK_BITS, CHUNK_LEN, Chunk, join};

/// The number of the first bit of a chunk's path: nine index bits and the last 0.
const FIRST_BIT: u32 = CHUNK_LEN.ilog2();

/// A table with an entry for each string of nine bits, and as many empty ones after them, for [`NOTHING`].
pub(crate) type NineBitTable<T> = Box<[T; 2 * CHUNK_LEN]>;

/// The index at which a table is read where there is no string.
pub(crate) const NOTHING: u32 = 1 << CHUNK_BITS;

/// The tables; strings of nine bits are written l.
#[derive(Debug)]
pub(crate) struct Masks {
    pub(crate) alone: NineBitTable<Chunk>,
    /// At l: l, and the l' that have a move, within the chunk, to the position l.
    pub(crate) even: NineBitTable<Chunk>,
    /// At l: the l' that have a move, within the chunk, to the path that ends with l and a 1.
    pub(crate) odd: NineBitTable<Chunk>,
    /// At l = 1^c r': for each d from 1 to c, the strings t r with d 0s in t for which l = 1^|t| r.
    pub(crate) ones: ChunkLists,
    /// At l = 0^a 1^c r': for each o from 0 to c - 1, the strings t r with l = 0^a 1^c' r,
    /// |t| = a + c' and c' - 1 - o 1s in t.
    pub(crate) zeros: ChunkLists,
    /// At k: the strings with k 0s.
    pub(crate) with_zeros: [Chunk; CHUNK_BITS + 1],
}

/// A list of chunks for each string of nine bits.
#[derive(Debug)]
pub(crate) struct ChunkLists {
    /// The first two chunks of each list, or fewer if it is shorter: most lists have no more.
    pub(crate) first_two: NineBitTable<[Chunk; 2]>,
    /// The strings with longer lists.
    pub(crate) longer: Chunk,
    first: Box<[u16; CHUNK_LEN + 1]>,
    chunks: Vec<Chunk>,
}

impl ChunkLists {
    fn new(list: impl Fn(usize) -> Vec<Chunk>) -> ChunkLists {
        let mut lists = ChunkLists {
            first_two: table(),
            longer: Chunk::EMPTY,
            first: Box::new([0; CHUNK_LEN + 1]),
            chunks: Vec::new(),
        };
        for l in 0..CHUNK_LEN {
            let list = list(l);
            join(&mut lists.first_two[l], &list);
            if list.len() > 2 {
                lists.longer.insert(l);
            }
            lists.chunks.extend(list);
            lists.first[l + 1] =
                u16::try_from(lists.chunks.len()).expect("about a thousand chunks");
        }
        lists
    }

    #[inline(always)]
    pub(crate) fn at(&self, l: usize) -> &[Chunk] {
        &self.chunks[usize::from(self.first[l])..usize::from(self.first[l + 1])]
    }

    /// The list at `l` without its first two chunks.
    #[inline(always)]
    pub(crate) fn rest(&self, l: usize) -> &[Chunk] {
        &self.at(l)[2..]
    }

    pub(crate) fn first_two_of(&self, strings: Chunk) -> [Chunk; 2] {
        let mut first_two = [Chunk::EMPTY; 2];
        for l in strings.indices(0) {
            join(&mut first_two, &self.first_two[l]);
        }
        first_two
    }
}

impl Masks {
    pub(crate) fn get() -> &'static Masks {
        static MASKS: LazyLock<Masks> = LazyLock::new(Masks::new);
        &MASKS
    }

    fn new() -> Masks {
        let [mut even, mut odd, mut alone]: [NineBitTable<Chunk>; 3] = [table(), table(), table()];
        let mut with_zeros = [Chunk::EMPTY; CHUNK_BITS + 1];
        for l in 0..CHUNK_LEN {
            with_zeros[zeros(l, CHUNK_BITS)].insert(l);
            alone[l].insert(l);
            even[l].insert(l);
            let path = l as u64 * 2;
            for end in (0..FIRST_BIT).filter(|end| path >> end & 1 == 0) {
                for start in (end + 1..=FIRST_BIT).filter(|start| path >> start & 1 == 1) {
                    let next = sort_span(path, start, end);
                    let table = if next & 1 == 0 { &mut even } else { &mut odd };
                    table[(next >> 1) as usize].insert(l);
                }
            }
        }
        Masks {
            even,
            odd,
            alone,
            ones: ChunkLists::new(ones),
            zeros: ChunkLists::new(zeros_then_ones),
            with_zeros,
        }
    }
}

fn ones(l: usize) -> Vec<Chunk> {
    let c = run(l, 0);
    let with = |d| union((d..=c).map(|length| spread_with(l, length, d)));
    (1..=c).map(with).collect()
}

fn zeros_then_ones(l: usize) -> Vec<Chunk> {
    let a = CHUNK_BITS - (usize::BITS - l.leading_zeros()) as usize;
    let c = run(l, a);
    // t has a + c' bits, c' - 1 - o of them 1s, so a + 1 + o of them 0s.
    let with = |o| union((o + 1..=c).map(|c| spread_with(l, a + c, a + 1 + o)));
    (0..c).map(with).collect()
}

fn union(chunks: impl Iterator<Item = Chunk>) -> Chunk {
    chunks.fold(Chunk::EMPTY, |all, more| all | more)
}

/// The strings t r with |t| = `length` and r the last bits of `l`, each with the number of 0s in t.
pub(crate) fn spread(l: usize, length: usize) -> impl Iterator<Item = (usize, usize)> {
    let rest = CHUNK_BITS - length;
    let r = l % (1 << rest);
    (0..1 << length).map(move |t| (zeros(t, length), t << rest | r))
}

/// The strings of [`spread`] with `with_zeros` 0s in t, as a set.
fn spread_with(l: usize, length: usize, with_zeros: usize) -> Chunk {
    let mut all = Chunk::EMPTY;
    for (_, string) in spread(l, length).filter(|&(zeros, _)| zeros == with_zeros) {
        all.insert(string);
    }
    all
}

/// The length of the run of 1s of `l` that starts after its first `skipped` bits.
fn run(l: usize, skipped: usize) -> usize {
    (l << (usize::BITS as usize - CHUNK_BITS) << skipped).leading_ones() as usize
}

fn zeros(t: usize, length: usize) -> usize {
    length - t.count_ones() as usize
}

#[expect(
    clippy::unnecessary_box_returns,
    reason = "tables are too large for the stack"
)]
fn table<T: Clone + Default>() -> NineBitTable<T> {
    let entries = vec![T::default(); 2 * CHUNK_LEN].into_boxed_slice();
    let entries = entries.try_into();
    entries.unwrap_or_else(|_| unreachable!("so many entries"))
}
