//! A second algorithm: mark what has a move to a losing position.
//!
//! Words ascend along moves taken back, so in ascending order the lowest word that is not marked is
//! losing; all positions with a move to it are marked, and so on. One bit a position, no ranges,
//! layers or edges, and moves are taken backwards, not forwards.
//!
//! A table too large for that is checked in **windows** of 2^w words that share their high bits.
//! What is losing below a window comes from the table itself; it has to be checked as well, window
//! by window, in any order and by anyone. If every window of a table agrees, so does the table: the
//! first wrong word would have been found in its window. A window reads the table up to its end and
//! takes two bits of memory for each of its positions.
//!
//! [`predecessors`] says which moves lead to a word.

use chomp_table::word::mask;
use chomp_table::{Table, Word};

use crate::explain::contradiction;
use crate::{CheckError, Watch, tell};

pub mod predecessors;

use predecessors::Marks;

/// A window has at least 2^7 words, unless it is the whole table: one number of the bitmap.
pub const WINDOW_BITS_MIN: u32 = 7;

/// How often a sweep tells how far it is: some milliseconds of work.
const TELL_CHUNKS: usize = 1 << 12;

/// A table has at most 2^16 windows.
const WINDOWS_MAX_BITS: u32 = 16;
/// Smaller windows than of 2^20 words are not worth their pass over the table.
const WINDOW_BITS_LEAST: u32 = 20;
/// There are 16 windows of a large table, so that it is seen how the work goes on; their bitmaps
/// are then in part in the cache, which is faster than one large one.
const WINDOWS_USUAL_BITS: u32 = 4;
/// To mark all positions takes as long as so many windows to read what lies below them: 4 ns for a
/// position, and 40 ns for each of the words, of which there is 1 in 400 positions, half of the table
/// on average.
const MARKING_IN_WINDOWS: u64 = 80;

/// How much more work may be done to save one part of the time.
const WORK_PER_TIME: u64 = 256;

/// What agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowReport {
    /// The positions of the window, the empty one included.
    pub positions: u64,
    /// How many of them are losing.
    pub losing: u64,
}

/// How the work is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The windows have 2^`window_bits` words.
    pub window_bits: u32,
    /// So many windows at a time fit in the memory.
    pub threads: u64,
}

/// The number of windows of 2^`window_bits` words in a table of `bits` bits.
pub fn windows(bits: u32, window_bits: u32) -> u64 {
    1 << (bits.saturating_sub(window_bits))
}

/// Bytes of memory that [`check_window`] takes for its bitmaps.
pub fn window_bytes(window_bits: u32) -> u64 {
    2 << window_bits.saturating_sub(4).max(3)
}

/// The bits of the smallest windows that a table of `bits` bits is cut into.
pub fn window_bits_min(bits: u32) -> u32 {
    let least = bits.saturating_sub(WINDOWS_MAX_BITS);
    least.max(WINDOW_BITS_LEAST).min(bits)
}

/// How to check a table of `bits` bits with at most `threads` threads, whose windows take at most
/// `memory` bytes together. Fewer threads with larger windows may be faster. Nothing, if not even
/// one of the smallest windows fits.
pub fn plan(bits: u32, threads: u64, memory: u64) -> Option<Plan> {
    let least = window_bits_min(bits);
    let cost = |plan: &Plan| {
        let windows = windows(bits, plan.window_bits);
        let work = 1024 * (MARKING_IN_WINDOWS + windows);
        // Each thread has a window at a time. The work itself counts a little, so that no small part
        // of the time is bought with many times the work.
        work / windows * windows.div_ceil(plan.threads) + work / WORK_PER_TIME
    };
    let plans = (1..=threads).filter_map(|threads| {
        // At least four windows for each thread.
        let usual = WINDOWS_USUAL_BITS.max(2 + threads.next_power_of_two().trailing_zeros());
        let most = bits.saturating_sub(usual).max(least);
        let mut sizes = (least..=most).rev();
        let fits = |window_bits: &u32| window_bytes(*window_bits) <= memory / threads;
        let window_bits = sizes.find(fits)?;
        Some(Plan {
            window_bits,
            threads,
        })
    });
    plans.min_by_key(cost)
}

/// Compares one window of a table, counted from 0, word for word with what marking finds.
///
/// # Errors
///
/// If the table cannot be read; if a word in the window is wrong: the lowest is named;
/// [`CheckError::Stopped`].
///
/// # Panics
///
/// If there is no such window, or a window has fewer than 2^[`WINDOW_BITS_MIN`] words and is not
/// the whole table.
pub fn check_window(
    table: &Table,
    window_bits: u32,
    number: u64,
    watch: Watch<'_>,
) -> Result<WindowReport, CheckError> {
    let bits = table.manifest().bits;
    let window_bits = window_bits.min(bits);
    let mut marks = Marks::new(bits, window_bits, number);
    let (first, last) = (marks.first(), marks.first() | mask(window_bits));
    let mut listed = vec![0_u64; marks.len()];
    'pieces: for piece in table.words() {
        let piece = piece?;
        // Words are dense enough for a display to take them for evenly spread.
        let seen = piece.first().map_or(0, |&word| word.min(last));
        tell(watch, seen / 2, last)?;
        for representative in piece.into_iter().map(Word::new) {
            // The mirror image is larger: nothing more in the window or below it.
            if representative.get() > last {
                break 'pieces;
            }
            let mirror = representative.mirror();
            let pair = [representative, mirror];
            let pair = if mirror == representative {
                &pair[..1]
            } else {
                &pair
            };
            for word in pair.iter().map(|word| word.get()) {
                if word < first {
                    marks.mark_predecessors(word);
                } else if word <= last {
                    let (chunk, bit) = marks.place(word);
                    listed[chunk] |= bit;
                }
            }
        }
    }
    let mut report = WindowReport {
        positions: 1 << window_bits.saturating_sub(1),
        losing: 0,
    };
    let chunks = marks.len();
    marks.sweep(|chunk, start, losing| {
        if chunk % TELL_CHUNKS == 0 {
            tell(watch, (chunks + chunk) as u64, 2 * chunks as u64)?;
        }
        report.losing += u64::from(losing.count_ones());
        let different = losing ^ listed[chunk];
        if different == 0 {
            return Ok(());
        }
        let lowest = different.trailing_zeros();
        let word = Word::new(start + 2 * u64::from(lowest));
        Err(contradiction(table, word, losing >> lowest & 1 == 0))
    })?;
    Ok(report)
}

/// The words of all losing positions of at most `bits` bits, both of a mirror pair, ascending:
/// found by marking alone. Takes 2^(bits-4) bytes and the words.
///
/// # Panics
///
/// If `bits` is over 64.
pub fn losing(bits: u32) -> Vec<u64> {
    let mut words = Vec::new();
    let mut marks = Marks::new(bits, bits, 0);
    let all: Result<(), CheckError> = marks.sweep(|_, start, mut losing| {
        while losing != 0 {
            words.push(start + 2 * u64::from(losing.trailing_zeros()));
            losing &= losing - 1;
        }
        Ok(())
    });
    all.expect("nothing is compared");
    words
}
