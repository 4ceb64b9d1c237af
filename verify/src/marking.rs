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

use crate::{CheckError, name};

pub mod predecessors;

use predecessors::Marks;

/// A window has at least 2^7 words, unless it is the whole table: one number of the bitmap.
pub const WINDOW_BITS_MIN: u32 = 7;

/// What agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowReport {
    /// The positions of the window, the empty one included.
    pub positions: u64,
    /// How many of them are losing.
    pub losing: u64,
}

/// The number of windows of 2^`window_bits` words in a table of `bits` bits.
pub fn windows(bits: u32, window_bits: u32) -> u64 {
    1 << (bits.saturating_sub(window_bits))
}

/// Bytes of memory that [`check_window`] takes for its bitmaps.
pub fn window_bytes(window_bits: u32) -> u64 {
    2 << window_bits.saturating_sub(4).max(3)
}

/// Compares one window of a table, counted from 0, word for word with what marking finds.
///
/// # Errors
///
/// If the table cannot be read; if a word in the window is wrong: the lowest is named.
///
/// # Panics
///
/// If there is no such window, or a window has fewer than 2^[`WINDOW_BITS_MIN`] words and is not
/// the whole table.
pub fn check_window(
    table: &Table,
    window_bits: u32,
    number: u64,
) -> Result<WindowReport, CheckError> {
    let bits = table.manifest().bits;
    let window_bits = window_bits.min(bits);
    let mut marks = Marks::new(bits, window_bits, number);
    let (first, last) = (marks.first(), marks.first() | mask(window_bits));
    let mut listed = vec![0_u64; marks.len()];
    'pieces: for piece in table.words() {
        for representative in piece?.into_iter().map(Word::new) {
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
    marks.sweep(|chunk, start, losing| {
        report.losing += u64::from(losing.count_ones());
        let different = losing ^ listed[chunk];
        if different == 0 {
            return Ok(());
        }
        let lowest = different.trailing_zeros();
        let name = name(Word::new(start + 2 * u64::from(lowest)));
        Err(CheckError::Wrong(if losing >> lowest & 1 == 1 {
            format!("the table does not list {name}, which has no move to a losing one")
        } else {
            format!("the table lists {name}, which has a move to a losing one or no cells")
        }))
    })?;
    Ok(report)
}

/// Compares all windows of a table; `progress` hears of each one that agreed.
///
/// # Errors
///
/// As [`check_window`].
///
/// # Panics
///
/// As [`check_window`].
pub fn check_all(
    table: &Table,
    window_bits: u32,
    mut progress: impl FnMut(u64, WindowReport),
) -> Result<WindowReport, CheckError> {
    let mut sum = WindowReport::default();
    for number in 0..windows(table.manifest().bits, window_bits) {
        let report = check_window(table, window_bits, number)?;
        sum.positions += report.positions;
        sum.losing += report.losing;
        progress(number, report);
    }
    Ok(sum)
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
