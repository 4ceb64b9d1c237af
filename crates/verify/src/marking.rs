//! A second algorithm: it marks each position that has a move to a losing position.
//!
//! A move leads to a smaller word. So the lowest word without a mark is losing; the algorithm marks all
//! positions with a move to it, and goes on with the next word without a mark. It keeps one bit for each
//! position, has no ranges, layers or edges, and takes moves backwards, not forwards.
//!
//! The bitmap covers a **block** of 2^20 words that share their high bits, and stays in the CPU's cache. The losing
//! words below a block come from the table itself, and are checked in their own blocks. Blocks may be checked in any
//! order. If every block agrees, the table is right: the first wrong word would have been found in its block.
//!
//! Before a **band** of 2^b words is checked, the table is read. The memory then holds the losing words of those parts
//! of the table to which a move leads from the band, two bytes each. The blocks of a band are checked in **windows**:
//! the progress counts windows.
//!
//! The module `moves` finds the moves that lead to a word, and `block` takes back those within a block.

use std::collections::BTreeSet;

use chomp_table::word::mask;
use chomp_table::{Table, Word};

use self::block::Block;
use self::lists::{Lists, index};
use self::moves::{above, across, dropped, fills, least_low, reached};
use crate::explain::reexamine;
use crate::survey::{Survey, interval_bits};
use crate::{CheckError, Watch, tell};

mod block;
mod lists;
mod moves;

/// A block has 2^20 words: a bitmap of 64 KiB. All blocks use the same megabyte of tables.
const BLOCK_BITS: u32 = 20;

/// A large table has at least 16 windows, so that progress shows, and at least four for each thread.
const WINDOWS_USUAL_BITS: u32 = 4;
const WINDOWS_FOR_THREAD_BITS: u32 = 2;

/// The memory of a thread: a block and its tables.
const BLOCK_BYTES: u64 = 4 << 20;

/// The counts of a window that agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowReport {
    /// The positions of the window, the empty one included.
    pub positions: u64,
    /// How many of them are losing.
    pub losing: u64,
}

/// The sizes of windows and bands, and the number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The windows have 2^`window_bits` words.
    pub window_bits: u32,
    /// The bands have 2^`band_bits` words.
    pub band_bits: u32,
    /// The number of windows that are checked at a time.
    pub threads: u64,
}

/// The numbers of losing words, from which the memory that bands take is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LosingCounts {
    bits: u32,
    /// The losing words of each of the smallest bands.
    losing: Vec<u64>,
}

/// A band, and all losing words that its check needs.
#[derive(Debug)]
pub struct Band<'a> {
    table: &'a Table,
    /// The band has 2^`size_bits` words.
    size_bits: u32,
    number: u64,
    block_bits: u32,
    listed: Lists,
}

/// The number of windows of 2^`window_bits` words in a table of `bits` bits.
pub fn window_count(bits: u32, window_bits: u32) -> u64 {
    1 << (bits.saturating_sub(window_bits))
}

/// The bits of the smallest windows that a table of `bits` bits is cut into.
pub fn window_bits_min(bits: u32) -> u32 {
    interval_bits(bits)
}

impl LosingCounts {
    /// The counts of the table that was surveyed.
    pub fn new(survey: &Survey) -> LosingCounts {
        LosingCounts::of(survey.bits(), survey.intervals().to_vec())
    }

    /// The counts of a table of `bits` bits with these numbers of losing words in its smallest bands, of
    /// 2^[`window_bits_min`] words.
    pub fn of(bits: u32, losing: Vec<u64>) -> LosingCounts {
        LosingCounts { bits, losing }
    }

    /// The bits of the smallest windows.
    pub fn window_bits_min(&self) -> u32 {
        window_bits_min(self.bits)
    }

    /// The least memory, in bytes, that checks in windows of 2^`window_bits` words take: one thread, and a band of one
    /// window. Panics if `window_bits` is less than [`window_bits_min`], or a window is larger than the whole table.
    pub fn least_bytes(&self, window_bits: u32) -> u64 {
        BLOCK_BYTES + self.band_bytes(window_bits)
    }

    /// The most bytes that a band takes.
    fn band_bytes(&self, band_bits: u32) -> u64 {
        let least = window_bits_min(self.bits);
        assert!((least..=self.bits).contains(&band_bits), "no band");
        let intervals = self.losing.chunks(1 << (band_bits - least));
        let losing: Vec<u64> = intervals.map(|interval| interval.iter().sum()).collect();
        let band = |number: u64| {
            let read_from = reached(self.bits, band_bits, number);
            let words = read_from.iter().map(|&interval| losing[index(interval)]);
            Lists::bytes(band_bits, read_from.len() as u64, words.sum())
        };
        let most = (0..losing.len() as u64).map(band).max();
        most.unwrap_or(0)
    }

    /// The layout to check the table with at most `threads` threads within `memory` bytes. None if not even one of the
    /// smallest bands fits.
    pub fn layout(&self, threads: u64, memory: u64) -> Option<Layout> {
        let (bits, least) = (self.bits, window_bits_min(self.bits));
        let threads_bits = threads.next_power_of_two().trailing_zeros();
        let usual = WINDOWS_USUAL_BITS.max(WINDOWS_FOR_THREAD_BITS + threads_bits);
        let layout = self.layout_of_windows(least, threads, memory)?;
        // A band has a window for each thread, if windows can be so small.
        let window_bits =
            (bits.saturating_sub(usual)).min(layout.band_bits.saturating_sub(threads_bits));
        Some(Layout {
            window_bits: window_bits.max(least),
            ..layout
        })
    }

    /// The layout with windows of a given size.
    pub fn layout_of_windows(&self, window_bits: u32, threads: u64, memory: u64) -> Option<Layout> {
        // Threads get at most a quarter of the memory. Even less would not leave much more for the band.
        let threads = threads.min(memory / 4 / BLOCK_BYTES).max(1);
        let rest = memory.checked_sub(threads * BLOCK_BYTES)?;
        let mut bands = (window_bits..=self.bits).rev();
        let band_bits = bands.find(|&band_bits| self.band_bytes(band_bits) <= rest)?;
        Some(Layout {
            window_bits,
            band_bits,
            threads,
        })
    }
}

impl Layout {
    /// The number of the band of a window.
    pub fn band(&self, window: u64) -> u64 {
        window >> (self.band_bits - self.window_bits)
    }
}

impl<'a> Band<'a> {
    /// Gathers the losing words for a band, counted from 0, of 2^`band_bits` words. Reads the table twice up to the end
    /// of the band. Fails if the table cannot be read, or is not the same twice. Panics if there is no such band, or a
    /// band has fewer than 128 words and is not the whole table.
    pub fn gather(
        table: &'a Table,
        band_bits: u32,
        number: u64,
        watch: Watch<'_>,
    ) -> Result<Band<'a>, CheckError> {
        let bits = table.manifest().bits;
        let band_bits = band_bits.min(bits);
        let block_bits = BLOCK_BITS.min(band_bits);
        assert!(
            number < window_count(bits, band_bits),
            "band {number} of bands of {band_bits} bits in a table of {bits}"
        );
        let last = number.checked_shl(band_bits).unwrap_or(0) | mask(band_bits);
        let read_from = reached(bits, band_bits, number);
        let listed = Lists::gather(table, (band_bits, block_bits), &read_from, last, watch)?;
        Ok(Band {
            table,
            size_bits: band_bits,
            number,
            block_bits,
            listed,
        })
    }

    /// Compares a window of the band, word for word, with the words that marking finds. Windows are counted from 0 in
    /// the whole table. Fails if a word in the window is wrong: the error names the lowest. Panics if the band has no
    /// such window, or a window has fewer words than a block.
    pub fn check_window(
        &self,
        window_bits: u32,
        number: u64,
        watch: Watch<'_>,
    ) -> Result<WindowReport, CheckError> {
        let (bits, block_bits) = (self.table.manifest().bits, self.block_bits);
        let window_bits = window_bits.min(bits);
        assert!(
            window_bits >= block_bits && number >> (self.size_bits - window_bits) == self.number,
            "window {number} of {window_bits} bits in another band than {}",
            self.number
        );
        let mut report = WindowReport {
            positions: 1 << window_bits.saturating_sub(1),
            losing: 0,
        };
        let mut block = Block::new(bits, block_bits);
        let mut expected = vec![0_u64; block.chunks.len()];
        let blocks = 1 << (window_bits - block_bits);
        for inside in 0..blocks {
            tell(watch, inside, blocks)?;
            let this = number * blocks + inside;
            block.begin(this);
            mark_from_below(&mut block, block_bits, &self.listed);
            expected.fill(0);
            self.listed.set_bits(this, &mut expected);
            block.solve(|chunk, start, losing| {
                report.losing += u64::from(losing.count_ones());
                let different = losing ^ expected[chunk];
                if different == 0 {
                    return Ok(());
                }
                let lowest = different.trailing_zeros();
                let word = Word::new(start + 2 * u64::from(lowest));
                Err(reexamine(self.table, word, losing >> lowest & 1 == 0))
            })?;
        }
        Ok(report)
    }
}

/// Marks all words of a block that have a move to a losing word below the block.
fn mark_from_below(block: &mut Block, block_bits: u32, losing: &Lists) {
    let first = block.first();
    let number = first.checked_shr(block_bits).unwrap_or(0);
    if number == 0 {
        return;
    }
    above(number, |source| losing.set_bits(source, &mut block.chunks));
    across(number, |source, fewer, after| {
        let Some(least) = least_low(block_bits, fewer, after) else {
            return;
        };
        let start = source << block_bits;
        for word in losing.words(start | least, start | mask(block_bits)) {
            let low = word & mask(block_bits);
            fills(low, block_bits, fewer, after, |end, ones| {
                block.fill(first | low & mask(end), end + 1, block_bits, ones);
            });
        }
    });
    for trailing in 1..block_bits {
        let (start, last) = (first >> trailing, (first | mask(block_bits)) >> trailing);
        for word in losing.words(start, last) {
            block.mark_trailing(word << trailing | mask(trailing), trailing);
        }
    }
    let mut free = BTreeSet::new();
    dropped(block_bits, number, |word, ones| {
        if !free.contains(&ones) && losing.contains(word) {
            free.insert(ones);
        }
    });
    for ones in free {
        block.fill(first, 1, block_bits, ones);
    }
}

/// The words of all losing positions of at most `bits` bits, both of a mirror pair, ascending. Marking alone finds
/// them. It takes ten bytes of memory for each word, besides a block. Panics if `bits` is over 64.
pub fn losing(bits: u32) -> Vec<u64> {
    losing_in_blocks(bits, BLOCK_BITS.min(bits))
}

fn losing_in_blocks(bits: u32, block_bits: u32) -> Vec<u64> {
    let mut words = Vec::new();
    let mut lists = Lists::begin(bits, block_bits);
    let mut block = Block::new(bits, block_bits);
    for number in 0..window_count(bits, block_bits) {
        block.begin(number);
        mark_from_below(&mut block, block_bits, &lists);
        let before = words.len();
        let all = block.solve(|_, start, mut losing| {
            while losing != 0 {
                words.push(start + 2 * u64::from(losing.trailing_zeros()));
                losing &= losing - 1;
            }
            Ok(())
        });
        all.expect("nothing is compared");
        lists.push_block(block_bits, &words[before..]);
    }
    words
}

#[cfg(test)]
mod tests;
