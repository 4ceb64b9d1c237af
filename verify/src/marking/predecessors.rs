//! Moves taken back: the bitmap of a window of words, and how all words with a move to a given one
//! are marked in it.
//!
//! A move sorts a segment of a word that starts at a 1 and ends at a 0: its 0s first, then its 1s;
//! and then trailing 1s are dropped. So the words p with a move to q are found thus:
//!
//! * Append t trailing 1s to q, for every t that leaves it short enough; this is the **path** that
//!   the move left before 1s were dropped. Its leading 0s, up to the bits of the table, count.
//! * Choose a block of 0s followed by 1s in the path, at least one of each: a part of a run of 0s,
//!   and of the run of 1s that follows. With trailing 1s, the block must take in all of them: the
//!   segment ended with the last 0 of p.
//! * Replace it by 1, any arrangement of as many 0s and 1s as are left, 0.
//!
//! Block and arrangement can be told from p and the path, so each pair of p and a move from it is
//! met once. p is larger than q: it has a 1 where the block starts.
//!
//! Only words of the window are visited. They share their high bits, those from the window bits up.
//! If the path has the same high bits, the block lies below them. If not, the block starts
//! at the highest bit where they differ, and those high bits that it covers are known.

use chomp_table::word::mask;

use super::WINDOW_BITS_MIN;
use crate::CheckError;

/// The words that differ in the bits below this one share a number of the bitmap.
const CHUNK_BITS: u32 = WINDOW_BITS_MIN;
const CHUNK: usize = CHUNK_BITS as usize;

/// The arrangements within a number of the bitmap.
///
/// At [from][width][ones]: which indices (halved words) below 64 have so many ones in `width` bits
/// of the word from bit `from` on, and 0 elsewhere.
type Patterns = [[[u64; CHUNK]; CHUNK]; CHUNK + 1];

/// Which words of a window have a move to a losing one, as far as those were met.
#[derive(Debug)]
pub(crate) struct Marks {
    bits: u32,
    window_bits: u32,
    first: u64,
    marked: Vec<u64>,
    patterns: Box<Patterns>,
}

impl Marks {
    /// The window of 2^`window_bits` words with this number, of a table of `bits` bits.
    pub(crate) fn new(bits: u32, window_bits: u32, number: u64) -> Marks {
        assert!(
            window_bits == bits || (WINDOW_BITS_MIN..bits).contains(&window_bits),
            "a window of {window_bits} bits in a table of {bits}"
        );
        assert!(bits <= u64::BITS, "a table of {bits} bits");
        assert!(
            number < 1 << (bits - window_bits),
            "window {number} of windows of {window_bits} bits in a table of {bits}"
        );
        let chunks = 1_usize << window_bits.saturating_sub(CHUNK_BITS);
        Marks {
            bits,
            window_bits,
            first: number.checked_shl(window_bits).unwrap_or(0),
            marked: vec![0; chunks],
            patterns: patterns(),
        }
    }

    /// The first word of the window.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The length of the bitmap.
    pub(crate) fn len(&self) -> usize {
        self.marked.len()
    }

    /// The number and the bit of the bitmap that stand for `word`, which is in the window.
    pub(crate) fn place(&self, word: u64) -> (usize, u64) {
        (self.chunk(word), 1 << (word >> 1 & 63))
    }

    fn chunk(&self, word: u64) -> usize {
        usize::try_from((word - self.first) >> CHUNK_BITS).expect("a bitmap in memory")
    }

    /// Calls `visit` for each number of the bitmap in turn: with its place, the first of its words,
    /// and a bit for each of its words that is losing. All of these are marked backwards.
    pub(crate) fn sweep(
        &mut self,
        mut visit: impl FnMut(usize, u64, u64) -> Result<(), CheckError>,
    ) -> Result<(), CheckError> {
        // The empty position is winning.
        if self.first == 0 {
            self.marked[0] |= 1;
        }
        let exist = mask(1 << self.window_bits.saturating_sub(1).min(CHUNK_BITS - 1));
        for chunk in 0..self.marked.len() {
            let start = self.first | (chunk as u64) << CHUNK_BITS;
            let mut losing = 0;
            loop {
                let left = !self.marked[chunk] & !losing & exist;
                if left == 0 {
                    break;
                }
                losing |= left & left.wrapping_neg();
                self.mark_predecessors(start + 2 * u64::from(left.trailing_zeros()));
            }
            visit(chunk, start, losing)?;
        }
        Ok(())
    }

    /// Marks all words of the window that have a move to `word`, which is in the table.
    pub(crate) fn mark_predecessors(&mut self, word: u64) {
        let room = self.bits - (u64::BITS - word.leading_zeros());
        for trailing in 0..=room {
            let path = word.checked_shl(trailing).unwrap_or(0) | mask(trailing);
            let different = (path ^ self.first) & !mask(self.window_bits);
            if different == 0 {
                self.mark_inside(path, trailing);
            } else if path < self.first {
                self.mark_above(path, trailing, different);
            } else {
                // Longer paths are larger still, and what leads to them is larger than they.
                break;
            }
        }
    }

    /// The path has the high bits of the window.
    fn mark_inside(&mut self, path: u64, trailing: u32) {
        let mut low = path.trailing_zeros();
        while low < self.window_bits {
            // A run of 1s from `low` up to `high`, and of 0s from there up to `next`.
            let high = low + (path >> low).trailing_ones();
            let zeros = path.checked_shr(high).unwrap_or(0).trailing_zeros();
            let next = (high + zeros).min(self.window_bits);
            let ends = if trailing == 0 { low..high } else { 0..1 };
            for end in ends {
                for start in high..next {
                    let kept = path & !(mask(start + 1) & !mask(end));
                    self.fill(kept | 1 << start, end + 1, start, high - end - 1);
                }
            }
            if trailing > 0 {
                break;
            }
            low = high + zeros;
        }
    }

    /// The path has smaller high bits than the window; `different` are those that differ.
    fn mark_above(&mut self, path: u64, trailing: u32, different: u64) {
        let start = u64::BITS - 1 - different.leading_zeros();
        let below = path & mask(start);
        if below == 0 {
            return;
        }
        let high = u64::BITS - below.leading_zeros();
        let low = high - (below << (u64::BITS - high)).leading_ones();
        let ends = if trailing == 0 {
            low..high
        } else if low == 0 {
            0..1
        } else {
            return;
        };
        for end in ends {
            let ones = high - end - 1;
            let covered = mask(start) & !mask(self.window_bits.max(end + 1));
            let known = (self.first & covered).count_ones();
            if end < self.window_bits {
                let free = self.window_bits - end - 1;
                if known <= ones && ones - known <= free {
                    let kept = self.first | path & mask(end);
                    self.fill(kept, end + 1, self.window_bits, ones - known);
                }
            } else {
                // All of the block lies in the high bits: they must be right as they are.
                let rest = (path ^ self.first) & mask(end) & !mask(self.window_bits);
                if known == ones && rest == 0 && self.first >> end & 1 == 0 {
                    let (chunk, bit) = self.place(self.first | path & mask(self.window_bits));
                    self.marked[chunk] |= bit;
                }
            }
        }
    }

    /// Marks all words that are `kept` but for `ones` 1s anywhere from bit `from` up to below `to`,
    /// where `kept` has 0s. Bit 0 is not among them.
    fn fill(&mut self, kept: u64, from: u32, to: u32, ones: u32) {
        let index = kept >> 1 & 63;
        if to <= CHUNK_BITS {
            let pattern = self.patterns[from as usize][(to - from) as usize][ones as usize];
            let chunk = self.chunk(kept);
            self.marked[chunk] |= pattern << index;
            return;
        }
        let split = from.max(CHUNK_BITS);
        let (narrow, wide) = (split - from, to - split);
        for above in ones.saturating_sub(narrow)..=ones.min(wide) {
            let pattern = if narrow == 0 {
                1
            } else {
                self.patterns[from as usize][narrow as usize][(ones - above) as usize]
            };
            for arrangement in Arrangements::new(wide, above) {
                let chunk = self.chunk(kept | arrangement << split);
                self.marked[chunk] |= pattern << index;
            }
        }
    }
}

fn patterns() -> Box<Patterns> {
    let mut patterns = Box::new([[[0; CHUNK]; CHUNK]; CHUNK + 1]);
    for from in 1..=CHUNK {
        for width in 0..=CHUNK - from {
            for arrangement in 0..1_u64 << width {
                let ones = arrangement.count_ones() as usize;
                patterns[from][width][ones] |= 1 << (arrangement << (from - 1));
            }
        }
    }
    patterns
}

/// All numbers of `width` bits with so many 1s, ascending.
#[derive(Debug)]
struct Arrangements {
    next: Option<u64>,
    width: u32,
}

impl Arrangements {
    fn new(width: u32, ones: u32) -> Arrangements {
        Arrangements {
            next: Some(mask(ones)),
            width,
        }
    }
}

impl Iterator for Arrangements {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let this = self.next.take()?;
        if this != 0 {
            // The lowest run of 1s: its highest moves up by one, the others go to the bottom.
            let carried = this + (this & this.wrapping_neg());
            let following = carried | (this ^ carried) >> 2 >> this.trailing_zeros();
            self.next = (following >> self.width == 0).then_some(following);
        }
        Some(this)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use chomp_table::Word;

    use super::*;

    fn marked(marks: &Marks) -> BTreeSet<u64> {
        let words = (0..marks.len() as u64 * 64).map(|index| marks.first + 2 * index);
        words
            .filter(|&word| {
                let (chunk, bit) = marks.place(word);
                marks.marked[chunk] & bit != 0
            })
            .collect()
    }

    #[test]
    fn arrangements_are_complete() {
        for width in 0..=12 {
            for ones in 0..=width {
                let expected = (0..1_u64 << width).filter(|n| n.count_ones() == ones);
                let found = Arrangements::new(width, ones);
                assert!(found.eq(expected), "{ones} of {width}");
            }
        }
        assert_eq!(Arrangements::new(57, 56).count(), 57);
        assert_eq!(Arrangements::new(57, 57).count(), 1);
    }

    /// The words that lead to each word, by the definition of a move.
    fn by_definition(bits: u32) -> BTreeMap<u64, BTreeSet<u64>> {
        let mut predecessors = BTreeMap::<u64, BTreeSet<u64>>::new();
        for word in (0..1_u64 << bits).step_by(2) {
            for (_, next) in Word::new(word).moves() {
                predecessors.entry(next.get()).or_default().insert(word);
            }
        }
        predecessors
    }

    #[test]
    fn predecessors_are_those_of_the_definition() {
        for bits in 1..=13 {
            let expected = by_definition(bits);
            for word in (2..1_u64 << bits).step_by(2) {
                let mut marks = Marks::new(bits, bits, 0);
                marks.mark_predecessors(word);
                let expected = expected.get(&word).cloned().unwrap_or_default();
                assert_eq!(marked(&marks), expected, "to {word:b} in {bits} bits");
            }
        }
    }

    #[test]
    fn windows_have_their_part_of_the_predecessors() {
        let bits = 12;
        let expected = by_definition(bits);
        for window_bits in 7..=11 {
            for number in 0..1 << (bits - window_bits) {
                for word in (2..1_u64 << bits).step_by(2) {
                    let mut marks = Marks::new(bits, window_bits, number);
                    marks.mark_predecessors(word);
                    let expected = expected.get(&word).cloned().unwrap_or_default();
                    let inside = |&word: &u64| word >> window_bits == number;
                    let expected = expected.into_iter().filter(inside).collect();
                    assert_eq!(
                        marked(&marks),
                        expected,
                        "to {word:b} in window {number} of {window_bits} bits"
                    );
                }
            }
        }
    }

    /// Up to 16 bits the last words are compared, which have the longest words and the most 0s.
    #[test]
    fn predecessors_of_longer_words() {
        let bits = 16;
        let expected = by_definition(bits);
        for word in (2..1_u64 << bits).step_by(2).filter(|word| word % 37 < 2) {
            let mut marks = Marks::new(bits, bits, 0);
            marks.mark_predecessors(word);
            let expected = expected.get(&word).cloned().unwrap_or_default();
            assert_eq!(marked(&marks), expected, "to {word:b}");
        }
    }
}
