//! The bitmap of a block, and the marks that the losing words of the block make in it.
//!
//! A **chunk** is a number of 64 bits in the bitmap: it has a bit for each even word among 128 that share their
//! high bits. A losing word marks the words from which a move leads to it. The span of that move (see `moves`)
//! may be in three places:
//!
//! * It lies in the chunk of the losing word: a table has the marks by the losing word.
//! * It lies above the chunk: the marks are at the same places of other chunks, so whole chunks are joined.
//! * It reaches across the end of the chunk: further tables have the marks by the losing word, one for each
//!   [`kind`] of such spans.
//!
//! Which chunks these are is the same for all blocks of a size, and is found once.

use chomp_table::Word;
use chomp_table::word::mask;

use super::moves::{above, across, fills};
use crate::CheckError;

/// Words that differ in the bits below this one alone share a chunk.
pub(crate) const CHUNK_BITS: u32 = 7;
const CHUNK: usize = CHUNK_BITS as usize;
const WORDS: usize = 1 << (CHUNK_BITS - 1);
/// A block has at most 2^`WIDE` chunks.
const WIDE: usize = 13;
/// For a span across the end of a chunk, `fewer` (see [`across`]) is less than this: a chunk has no room for more 1s.
const ACROSS: usize = CHUNK - 1;

/// The arrangements within a chunk.
///
/// At [from][width][ones]: which indices (halved words) below 64 have `ones` 1s in `width` bits of the
/// word from bit `from` on, and 0 elsewhere.
type Patterns = [[[u64; CHUNK]; CHUNK]; CHUNK + 1];

/// The words of a block that have a move to one of the losing words met so far. A solved chunk has its losing words
/// instead.
#[derive(Debug)]
pub(crate) struct Block {
    /// The block has 2^`size_bits` words.
    size_bits: u32,
    first: u64,
    pub(crate) chunks: Vec<u64>,
    tables: Box<MarkTables>,
    arrangements: Arrangements,
    joins: Joins,
}

/// The words that a losing word marks in a chunk, by the losing word's place in its own chunk.
#[derive(Debug)]
struct MarkTables {
    patterns: Patterns,
    /// The words that it marks in its own chunk.
    inside: [u64; WORDS],
    /// The words that it marks in another chunk, by the [`kind`] of spans across the end of that chunk.
    across: [[u64; WORDS]; 2 * ACROSS],
    /// The places of words that mark anything.
    across_any: [u64; 2 * ACROSS],
}

/// The chunks of a block to which a move leads from each of its chunks.
#[derive(Debug)]
struct Joins {
    /// The chunks that are reached by moves whose span lies above the chunk.
    above: Vec<u16>,
    /// The chunks that are reached by moves whose span reaches across the end, with the [`kind`] of the span.
    across: Vec<(u16, u8)>,
    /// For each chunk: where its entries end in both lists.
    ends: Vec<(u32, u32)>,
}

impl Block {
    /// The first block of 2^`block_bits` words in a table of `bits` bits.
    pub(crate) fn new(bits: u32, block_bits: u32) -> Block {
        assert!(bits <= u64::BITS, "a table of {bits} bits");
        assert!(
            block_bits == bits || (CHUNK_BITS..bits).contains(&block_bits),
            "blocks of {block_bits} bits in a table of {bits}"
        );
        let chunks = 1_usize << block_bits.saturating_sub(CHUNK_BITS);
        Block {
            size_bits: block_bits,
            first: 0,
            chunks: vec![0; chunks],
            tables: MarkTables::new(),
            arrangements: Arrangements::new(),
            joins: Joins::new(chunks),
        }
    }

    /// Begins another block, without marks.
    pub(crate) fn begin(&mut self, number: u64) {
        self.first = number.checked_shl(self.size_bits).unwrap_or(0);
        self.chunks.fill(0);
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Solves the block, and calls `visit` for each chunk in turn: with its place, the first of its words, and a bit
    /// for each of its words that is losing.
    pub(crate) fn solve(
        &mut self,
        mut visit: impl FnMut(usize, u64, u64) -> Result<(), CheckError>,
    ) -> Result<(), CheckError> {
        // The empty position is winning.
        if self.first == 0 {
            self.chunks[0] |= 1;
        }
        let exist = mask(1 << self.size_bits.saturating_sub(1).min(CHUNK_BITS - 1));
        for chunk in 0..self.chunks.len() {
            let start = self.first | (chunk as u64) << CHUNK_BITS;
            let mut marks = self.chunks[chunk] | self.joined(chunk);
            let mut losing = 0;
            loop {
                let left = !(marks | losing) & exist;
                if left == 0 {
                    break;
                }
                let place = left.trailing_zeros();
                losing |= 1 << place;
                marks |= self.tables.inside[place as usize];
                if self.first == 0 {
                    // Only the first block has words together with longer words that have a move to them.
                    self.mark_longer(start + 2 * u64::from(place));
                    marks |= self.chunks[chunk];
                }
            }
            visit(chunk, start, losing)?;
            self.chunks[chunk] = losing;
        }
        Ok(())
    }

    /// The words of this chunk that losing words of the chunks before it mark.
    fn joined(&self, chunk: usize) -> u64 {
        let (above, across) = self.joins.of(chunk);
        let mut marks = 0;
        for &source in above {
            marks |= self.chunks[usize::from(source)];
        }
        for &(source, kind) in across {
            let kind = usize::from(kind);
            let mut losing = self.chunks[usize::from(source)] & self.tables.across_any[kind];
            while losing != 0 {
                marks |= self.tables.across[kind][losing.trailing_zeros() as usize];
                losing &= losing - 1;
            }
        }
        marks
    }

    /// Marks the words of the first block with a move to `word` that drops trailing 1s.
    fn mark_longer(&mut self, word: u64) {
        let room = self.size_bits - Word::new(word).bits();
        for trailing in 1..=room {
            self.mark_trailing(word << trailing | mask(trailing), trailing);
        }
    }

    /// Marks the words of the block with a move to `path`, before its trailing 1s are dropped, if the span lies in the
    /// low part. `path` has the high part of the block.
    pub(crate) fn mark_trailing(&mut self, path: u64, trailing: u32) {
        let zeros = (path >> trailing).trailing_zeros();
        for start in trailing..(trailing + zeros).min(self.size_bits) {
            let kept = path & !mask(start + 1) | 1 << start;
            self.fill(kept, 1, start, trailing - 1);
        }
    }

    /// Marks all words of the block that are `kept` but for `ones` 1s anywhere from bit `from` up to below
    /// `to`, where `kept` has 0s. Bit 0 is not among them.
    pub(crate) fn fill(&mut self, kept: u64, from: u32, to: u32, ones: u32) {
        let index = kept >> 1 & 63;
        let first = ((kept & mask(self.size_bits)) >> CHUNK_BITS) as usize;
        let patterns = &self.tables.patterns;
        if to <= CHUNK_BITS {
            let pattern = patterns[from as usize][(to - from) as usize][ones as usize];
            self.chunks[first] |= pattern << index;
            return;
        }
        let split = from.max(CHUNK_BITS);
        let shift = split - CHUNK_BITS;
        let (narrow, wide) = (split - from, to - split);
        for above in ones.saturating_sub(narrow)..=ones.min(wide) {
            let pattern = if narrow == 0 {
                1
            } else {
                patterns[from as usize][narrow as usize][(ones - above) as usize]
            };
            for &arrangement in self.arrangements.of(wide, above) {
                self.chunks[first | usize::from(arrangement) << shift] |= pattern << index;
            }
        }
    }
}

impl Joins {
    fn new(chunks: usize) -> Joins {
        let mut joins = Joins {
            above: Vec::new(),
            across: Vec::new(),
            ends: vec![(0, 0)],
        };
        let short = |chunk: u64| u16::try_from(chunk).expect("a block has at most 2^13 chunks");
        for chunk in 0..chunks as u64 {
            above(chunk, |source| joins.above.push(short(source)));
            across(chunk, |source, fewer, after| {
                if let Some(kind) = kind(fewer, after) {
                    joins.across.push((short(source), kind));
                }
            });
            let end = |length: usize| u32::try_from(length).expect("some dozens for each chunk");
            joins
                .ends
                .push((end(joins.above.len()), end(joins.across.len())));
        }
        joins
    }

    fn of(&self, chunk: usize) -> (&[u16], &[(u16, u8)]) {
        let ((a, b), (c, d)) = (self.ends[chunk], self.ends[chunk + 1]);
        (
            &self.above[a as usize..c as usize],
            &self.across[b as usize..d as usize],
        )
    }
}

/// The index of the table for spans across the end of a chunk with these `fewer` and `after` (see [`across`]). None
/// if there can be no such span.
fn kind(fewer: u32, after: u32) -> Option<u8> {
    let kind = 2 * fewer + u32::from(after > 0);
    (fewer < CHUNK_BITS - 1).then(|| u8::try_from(kind).expect("a small number"))
}

impl MarkTables {
    fn new() -> Box<MarkTables> {
        let mut tables = Box::new(MarkTables {
            patterns: patterns(),
            inside: [0; WORDS],
            across: [[0; WORDS]; 2 * ACROSS],
            across_any: [0; 2 * ACROSS],
        });
        for place in 0..WORDS {
            let word = 2 * place as u64;
            tables.inside[place] = tables.marks_inside(word);
            for fewer in 0..CHUNK_BITS - 1 {
                for after in 0..2 {
                    let kind = usize::from(kind(fewer, after).expect("it is small"));
                    let mut marks = 0;
                    fills(word, CHUNK_BITS, fewer, after, |end, ones| {
                        marks |= tables.pattern(word & mask(end), end + 1, CHUNK_BITS, ones);
                    });
                    tables.across[kind][place] = marks;
                    tables.across_any[kind] |= u64::from(marks != 0) << place;
                }
            }
        }
        tables
    }

    /// The words of a chunk with a move to `word` whose span lies in the chunk.
    fn marks_inside(&self, word: u64) -> u64 {
        let mut marks = 0;
        let mut low = word.trailing_zeros();
        while low < CHUNK_BITS {
            // A run of 1s from `low` up to `high`, and of 0s from there up to `next`.
            let high = low + (word >> low).trailing_ones();
            let zeros = (word >> high).trailing_zeros();
            let next = (high + zeros).min(CHUNK_BITS);
            for end in low..high {
                for start in high..next {
                    let kept = word & !(mask(start + 1) & !mask(end)) | 1 << start;
                    marks |= self.pattern(kept, end + 1, start, high - end - 1);
                }
            }
            low = next;
        }
        marks
    }

    fn pattern(&self, kept: u64, from: u32, to: u32, ones: u32) -> u64 {
        self.patterns[from as usize][(to - from) as usize][ones as usize] << (kept >> 1 & 63)
    }
}

fn patterns() -> Patterns {
    let mut patterns = Patterns::default();
    for (from, widths) in patterns.iter_mut().enumerate().skip(1) {
        for (width, patterns) in widths.iter_mut().enumerate().take(CHUNK + 1 - from) {
            for arrangement in 0..1_u64 << width {
                let ones = arrangement.count_ones() as usize;
                patterns[ones] |= 1 << (arrangement << (from - 1));
            }
        }
    }
    patterns
}

/// The numbers of at most [`WIDE`] bits by how many 1s they have, ascending: those of fewer bits come first.
#[derive(Debug)]
struct Arrangements {
    /// At [ones]: where the numbers with `ones` 1s start; the last entry is where all end.
    starts: [usize; WIDE + 2],
    numbers: Vec<u16>,
    /// At [width][ones], how many there are.
    counts: [[usize; WIDE + 1]; WIDE + 1],
}

impl Arrangements {
    fn new() -> Arrangements {
        let mut numbers: Vec<u16> = (0..1 << WIDE).collect();
        numbers.sort_by_key(|number| number.count_ones());
        let ones =
            |ones: usize| numbers.partition_point(|number| (number.count_ones() as usize) < ones);
        let starts = std::array::from_fn(ones);
        let of = |width: usize, ones: usize| {
            let numbers = &numbers[starts[ones]..starts[ones + 1]];
            numbers.partition_point(|number| number >> width == 0)
        };
        let counts = std::array::from_fn(|width| std::array::from_fn(|ones| of(width, ones)));
        Arrangements {
            starts,
            numbers,
            counts,
        }
    }

    /// All numbers of `width` bits with `ones` 1s.
    fn of(&self, width: u32, ones: u32) -> &[u16] {
        let (width, ones) = (width as usize, ones as usize);
        let start = self.starts[ones];
        &self.numbers[start..start + self.counts[width][ones]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements_are_complete() {
        let arrangements = Arrangements::new();
        for width in 0..=13 {
            for ones in 0..=13 {
                let expected = (0..1_u16 << width).filter(|n| n.count_ones() == ones);
                let found = arrangements.of(width, ones).iter().copied();
                assert!(found.eq(expected), "{ones} of {width}");
            }
        }
    }
}
