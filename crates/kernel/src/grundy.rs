//! Sprague-Grundy values of all positions of one area, from those of smaller areas.
//!
//! The value of a position is the least number that no move leads to (mex). The poisoned cell is never taken here, so
//! the single cell has value 0. A position of n tiles has n − 1 moves, so its value is at most n − 1: at most 119, and
//! 128 bits hold the set of the values that its moves lead to.
//!
//! # Blocks of moves
//!
//! A position is a [partition](chomp_table::partition). Take the cell in row r and column t + 1: the rows longer than
//! t, from r on, become t. Let j rows be longer than t, α these rows, and ρ the others, all at most t. The move leads
//!
//! ```text
//! from  α1 … αj ρ  to  α1 … α(r−1) t … t ρ        (t stands j − r + 1 times)
//! ```
//!
//! The letters are those of this page: the rest of the crate uses r, t, j, m and q for other things.
//!
//! For fixed α, t and r, let ρ be any partition of m = n − |α| with rows of at most t. Then the positions on both sides
//! have consecutive ranks, in the same order. So all these moves together are one pass over two blocks of bytes: for
//! each i, the i-th set gets the i-th value. Each move of each position belongs to one such block.
//!
//! The walk goes through the prefixes α as through a tree, in the order of ranks. The rank of the block on the right is
//! a sum over its rows, of which those of α are known from the walk: for every prefix β it keeps, for each q, the sum
//! over the rows of β when β begins a position of |β| + q tiles.
//!
//! # Columns one and two
//!
//! With t = 0 or 1, blocks have one position, α 1…1, so there are as many as positions. So here the walk keeps more for
//! every prefix β without ones. The value of β and q ones is looked up once for all moves to there, and put into
//!
//! ```text
//! first      the values of all prefixes of β, β itself included
//! second[q]  the values of β and q ones, of β without its last row and q + 1 ones, without its last two rows and q + 2, …
//! ```
//!
//! From α and m ones, moves in the first column lead to `first` of α and to α with fewer ones. Those in the second lead
//! to `second[m + 1]` of α without its last row: the row above the ones is cut to one cell, and those above it in turn.
//!
//! # What is shared, and what that costs
//!
//! A position has three blocks of moves on average, and as many values in the first two columns as rows of one cell.
//! All blocks of a prefix and a column are put into the sets at once: eight sets are loaded, get a value of each block,
//! and are stored. Ranks are taken in windows whose sets stay in the cache; the walk leaves out prefixes without
//! positions in the window.
//!
//! A set is two words of 64 bits, the second for values from 64 on, which positions of up to 64 tiles do not have. With
//! AVX2 or AVX-512 a shift makes four or eight values into bits, and values beyond the word into none.

use std::ops::Range;

use chomp_table::partition::{AREA_MAX, count, counts_within};

use crate::Isa;

const LIMIT: usize = AREA_MAX as usize + 1;
/// The sets that are changed at a time.
const LANES: usize = 8;
/// The positions whose sets are in the cache together: 32 KiB.
const WINDOW: usize = 1 << 11;
/// Prefixes have rows of at least two cells.
const DEPTH_MAX: usize = AREA_MAX as usize / 2 + 1;

/// Row k holds the numbers of partitions with parts of at most k, by area.
static WITHIN: [[u32; LIMIT]; LIMIT] = {
    let mut within = [[0; LIMIT]; LIMIT];
    let mut largest = 0;
    while largest < LIMIT {
        let counts = counts_within(largest);
        let mut area = 0;
        while area < LIMIT {
            assert!(counts[area] < 1 << 31, "a rank has 31 bits");
            #[expect(clippy::cast_possible_truncation, reason = "it has 31 bits")]
            let narrow = counts[area] as u32;
            within[largest][area] = narrow;
            area += 1;
        }
        largest += 1;
    }
    within
};

/// The values of all positions of one number of tiles, by rank: a byte each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaValues {
    /// Values are read [`LANES`] at a time, so as many more bytes follow the last value.
    bytes: Vec<u8>,
}

impl AreaValues {
    /// Zeros for all positions of `tiles` tiles; empty if that is 0. Panics with more than [`AREA_MAX`] tiles.
    pub fn zeros(tiles: u32) -> AreaValues {
        let len = if tiles == 0 { 0 } else { count(tiles) };
        let len = usize::try_from(len).expect("a rank has 31 bits");
        AreaValues {
            bytes: vec![0; len + LANES],
        }
    }

    /// The values.
    pub fn get(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - LANES]
    }

    /// The values, to be changed.
    pub fn get_mut(&mut self) -> &mut [u8] {
        let len = self.bytes.len() - LANES;
        &mut self.bytes[..len]
    }

    #[inline(always)]
    fn chunks(&self, rank: u32, chunks: usize) -> &[[u8; LANES]] {
        self.bytes[rank as usize..][..chunks * LANES].as_chunks().0
    }
}

/// Values below 64, and those from 64 on.
type Set = [u64; 2];

/// A prefix β, with its sums for q tiles after it.
#[derive(Clone, Debug)]
struct Prefix {
    /// |β|, and how many tiles the positions of the area have besides.
    size: usize,
    rest: usize,
    last: usize,
    /// The rank of the first position that begins with β.
    start: u32,
    /// The row after β that the walk tries next.
    row: usize,
    /// At q: the sum that the rows of β add to the rank of a position that begins with β and has q more tiles.
    ranks: [u32; LIMIT],
    first: Set,
    second: [Set; LIMIT + 1],
}

impl Prefix {
    const EMPTY: Prefix = Prefix {
        size: 0,
        rest: 0,
        last: 0,
        start: 0,
        row: 0,
        ranks: [0; LIMIT],
        first: [0; 2],
        second: [[0; 2]; LIMIT + 1],
    };
}

/// The parent of the empty prefix.
static NOTHING: Prefix = Prefix::EMPTY;

/// Evaluates Grundy values.
#[derive(Debug)]
pub struct GrundyEvaluator {
    isa: Isa,
    /// The prefixes on the way from the root, which is the first.
    path: Vec<Prefix>,
    /// The sets of the window: of each the word of values below 64, and that of the others.
    sets: [Vec<u64>; 2],
}

impl GrundyEvaluator {
    /// An evaluator for the instruction set `isa`, or the widest below it that this CPU has.
    pub fn new(isa: Isa) -> GrundyEvaluator {
        let words = vec![0; WINDOW + LANES];
        GrundyEvaluator {
            isa: isa.min(Isa::detect()),
            path: vec![Prefix::EMPTY; DEPTH_MAX],
            sets: [words.clone(), words],
        }
    }

    /// Finds the values of the positions of `area` tiles from rank `start` on. `lower` has those of all areas below,
    /// from 0 on. Panics if there is no such area, it has no such ranks, or an area below is missing.
    pub fn evaluate(&mut self, area: u32, start: u64, values: &mut [u8], lower: &[AreaValues]) {
        assert!((1..=AREA_MAX).contains(&area), "no area {area}");
        assert!(
            start + values.len() as u64 <= count(area),
            "area {area} has no such ranks"
        );
        let below = lower.get(1..area as usize);
        let below = below.expect("an area below is missing").iter();
        for (tiles, values) in (1..).zip(below) {
            assert!(
                values.get().len() as u64 == count(tiles),
                "these are not {tiles} tiles"
            );
        }
        let start = u32::try_from(start).expect("a rank has 31 bits");
        let job = (area as usize, start, lower);
        match self.isa {
            Isa::Portable => self.run::<ValueTable>(job, values),
            #[cfg(target_arch = "x86_64")]
            #[expect(
                unsafe_code,
                reason = "code for an instruction set that not every CPU has"
            )]
            // SAFETY: `new` allows only instruction sets that `Isa::detect` found.
            Isa::Avx2 => unsafe { avx2(self, job, values) },
            #[cfg(target_arch = "x86_64")]
            #[expect(
                unsafe_code,
                reason = "code for an instruction set that not every CPU has"
            )]
            // SAFETY: as above.
            Isa::Avx512 => unsafe { avx512(self, job, values) },
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => unreachable!("`new` allows only what `Isa::detect` found"),
        }
    }

    #[inline(always)]
    fn run<B: Bit>(&mut self, job: AreaJob<'_>, values: &mut [u8]) {
        // A value is less than the area.
        if job.0 > u64::BITS as usize {
            self.run_by_windows::<B, 2>(job, values);
        } else {
            self.run_by_windows::<B, 1>(job, values);
        }
    }

    #[inline(always)]
    fn run_by_windows<B: Bit, const WORDS: usize>(
        &mut self,
        (area, start, lower): AreaJob<'_>,
        values: &mut [u8],
    ) {
        for (start, values) in (start..).step_by(WINDOW).zip(values.chunks_mut(WINDOW)) {
            self.sets.iter_mut().for_each(|words| words.fill(0));
            let end = start + u32::try_from(values.len()).expect("a window is small");
            let window = start..end;
            self.walk::<B, WORDS>(area, &window, lower);
            let [low, high] = &self.sets;
            for ((value, low), high) in values.iter_mut().zip(low).zip(high) {
                let ones = match low.trailing_ones() {
                    u64::BITS => u64::BITS + high.trailing_ones(),
                    ones => ones,
                };
                *value = u8::try_from(ones).expect("at most 128");
            }
        }
    }

    #[inline(always)]
    fn walk<B: Bit, const WORDS: usize>(
        &mut self,
        area: usize,
        window: &Range<u32>,
        lower: &[AreaValues],
    ) {
        let root = &mut self.path[0];
        (root.rest, root.last) = (area, area);
        self.visit::<B, WORDS>(0, window, lower);
        let mut depth = 0;
        loop {
            let here = &mut self.path[depth];
            let row = here.row;
            if row > here.last.min(here.rest) {
                if depth == 0 {
                    return;
                }
                depth -= 1;
                continue;
            }
            here.row += 1;
            let start = here.start + WITHIN[row - 1][here.rest];
            let end = here.start + WITHIN[row][here.rest];
            if start < window.end && end > window.start {
                self.enter(depth, row, start);
                depth += 1;
                self.visit::<B, WORDS>(depth, window, lower);
            }
        }
    }

    /// Puts the prefix with one row more on the path. The first position that begins with it has the rank `start`.
    #[inline(always)]
    fn enter(&mut self, depth: usize, row: usize, start: u32) {
        let (above, below) = self.path.split_at_mut(depth + 1);
        let (above, below) = (&above[depth], &mut below[0]);
        below.size = above.size + row;
        below.rest = above.rest - row;
        below.last = row;
        below.start = start;
        let sums = above.ranks[row..].iter().zip(&WITHIN[row - 1][row..]);
        for (rank, (above, count)) in below.ranks[..below.rest].iter_mut().zip(sums) {
            *rank = above + count;
        }
    }

    /// Applies the moves of positions that begin with the first `depth` rows of the path, by columns of the last row.
    #[inline(always)]
    fn visit<B: Bit, const WORDS: usize>(
        &mut self,
        depth: usize,
        window: &Range<u32>,
        lower: &[AreaValues],
    ) {
        self.visit_ones::<WORDS>(depth, window, lower);
        let here = &mut self.path[depth];
        here.row = 2;
        let (last, rest, start) = (here.last, here.rest, here.start);
        if depth == 0 {
            return;
        }
        let from = start.max(window.start);
        let mut led_to: [&[[u8; LANES]]; DEPTH_MAX] = [&[]; DEPTH_MAX];
        for cut in 2..last {
            let to = window.end.min(start + WITHIN[cut][rest]);
            if from >= to {
                continue;
            }
            let len = (to - from) as usize;
            let chunks = len.div_ceil(LANES);
            // For each prefix, the longest first: the tiles after it, and what the rows after it add to the rank.
            let (mut rank, mut after) = (from - start, rest);
            for (prefix, led_to) in self.path[..depth].iter().rev().zip(&mut led_to) {
                after += cut;
                rank += WITHIN[cut - 1][after];
                *led_to = lower[prefix.size + after].chunks(prefix.ranks[after] + rank, chunks);
            }
            let led_to = &led_to[..depth];
            let at =
                (from - window.start) as usize..(from - window.start) as usize + chunks * LANES;
            let [low, high] = &mut self.sets;
            let low = low[at.clone()].as_chunks_mut::<LANES>().0;
            let high = high[at].as_chunks_mut::<LANES>().0;
            for (chunk, (low, high)) in low.iter_mut().zip(high).enumerate() {
                let behind = &BEHIND[(len - chunk * LANES).min(LANES)];
                let (mut low_sets, mut high_sets) = (*low, *high);
                for values in led_to {
                    let values: [u64; LANES] =
                        std::array::from_fn(|lane| (values[chunk][lane] | behind[lane]).into());
                    join::<B>(&mut low_sets, values);
                    if WORDS == 2 {
                        join::<B>(&mut high_sets, values.map(|value| value.wrapping_sub(64)));
                    }
                }
                *low = low_sets;
                if WORDS == 2 {
                    *high = high_sets;
                }
            }
        }
    }

    /// Looks up the values of the prefix with ones after it, for moves in the first two columns, and applies these.
    #[inline(always)]
    fn visit_ones<const WORDS: usize>(
        &mut self,
        depth: usize,
        window: &Range<u32>,
        lower: &[AreaValues],
    ) {
        let (above, here) = self.path.split_at_mut(depth);
        let (above, here) = (above.last().unwrap_or(&NOTHING), &mut here[0]);
        let mut first = above.first;
        let mut own = above.second[here.rest + 1];
        let areas = lower[here.size..].iter().zip(&here.ranks);
        let sets = here.second[..here.rest].iter_mut().zip(&above.second[1..]);
        // The empty prefix without ones is the empty position, which has no value.
        let from = usize::from(depth == 0);
        for (ones, ((lower, rank), (set, above))) in areas.zip(sets).enumerate().skip(from) {
            let value = u64::from(lower.bytes[*rank as usize]);
            for word in 0..WORDS {
                let bit = ValueTable::of(value.wrapping_sub(64 * word as u64));
                own[word] |= bit;
                set[word] = above[word] | bit;
                if ones == 0 {
                    first[word] |= bit;
                }
            }
        }
        here.first = first;
        if window.contains(&here.start) {
            let at = (here.start - window.start) as usize;
            for word in 0..WORDS {
                self.sets[word][at] |= own[word] | first[word];
            }
        }
    }
}

/// An area, the first of the ranks, and the values of all areas below.
type AreaJob<'a> = (usize, u32, &'a [AreaValues]);

/// By the number of values in eight bytes: 255 at the other bytes, which no value has.
static BEHIND: [[u8; LANES]; LANES + 1] = {
    let mut all = [[0; LANES]; LANES + 1];
    let mut values = 0;
    while values < LANES {
        let mut lane = values;
        while lane < LANES {
            all[values][lane] = u8::MAX;
            lane += 1;
        }
        values += 1;
    }
    all
};

#[inline(always)]
fn join<B: Bit>(sets: &mut [u64; LANES], values: [u64; LANES]) {
    let bits = values.map(B::of);
    for (set, bit) in sets.iter_mut().zip(bits) {
        *set |= bit;
    }
}

trait Bit {
    /// The bit of a value; none if it is not below 64.
    fn of(value: u64) -> u64;
}

/// By a shift, which AVX2 and AVX-512 do for several values in one instruction.
struct Shift;

impl Bit for Shift {
    #[inline(always)]
    fn of(value: u64) -> u64 {
        if value < 64 { 1 << value } else { 0 }
    }
}

/// From a table: for one value.
struct ValueTable;

impl Bit for ValueTable {
    #[inline(always)]
    fn of(value: u64) -> u64 {
        static BITS: [u64; 256] = {
            let mut bits = [0; 256];
            let mut value = 0;
            while value < 64 {
                bits[value] = 1 << value;
                value += 1;
            }
            bits
        };
        let [low, ..] = value.to_le_bytes();
        BITS[usize::from(low)]
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn avx2(evaluator: &mut GrundyEvaluator, job: AreaJob<'_>, values: &mut [u8]) {
    evaluator.run::<Shift>(job, values);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn avx512(evaluator: &mut GrundyEvaluator, job: AreaJob<'_>, values: &mut [u8]) {
    evaluator.run::<Shift>(job, values);
}

#[cfg(test)]
mod tests;
