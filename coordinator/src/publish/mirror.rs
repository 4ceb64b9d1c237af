//! Mirror pairs: which words are stored, and whether all mirror images were found.
//!
//! The check sum of some words is the sum, with 64 bits, of a number for each: for a word smaller
//! than its mirror image the hash of the word, for a larger one the hash of the mirror image with a
//! minus, for one that is its own 0. The words of whole pairs have the sum 0 in any order. Others
//! have it with a chance of one in 2^64, whatever went wrong by accident.

use chomp_table::{Range, RangeBits, Word};

use crate::chance::mix;

/// What a word adds to the check sum.
#[inline]
pub(super) fn unpaired(word: u64, mirror: u64) -> u64 {
    let hash = mix(word.min(mirror));
    // Masks, since branches would be guesses.
    let plus = hash & 0_u64.wrapping_sub(u64::from(word <= mirror));
    let minus = hash & 0_u64.wrapping_sub(u64::from(word >= mirror));
    plus.wrapping_sub(minus)
}

/// Appends the words of `range`, which are all of one length, that are not larger than their
/// mirror image; returns what all of its words add to the check sum.
pub(super) fn representatives(range: &Range, range_bits: RangeBits, words: &mut Vec<u64>) -> u64 {
    let shift = u64::BITS - range.head.len() - range_bits.get();
    let head = range.head.0 << range_bits.get();
    let (start, mut sum) = (words.len(), 0_u64);
    words.resize(start + range.losing.len(), 0);
    let mut kept = start;
    for &index in &range.losing {
        let word = head | u64::from(index) << 1;
        let mirror = (!word).reverse_bits() >> shift;
        words[kept] = word;
        kept += usize::from(word <= mirror);
        sum = sum.wrapping_add(unpaired(word, mirror));
    }
    words.truncate(kept);
    sum
}

/// The same for words of all lengths, those of the empty head, of at most `bits` bits; calls
/// `note` with each word's length and what it adds to the check sum.
pub(super) fn first_representatives(
    range: &Range,
    range_bits: RangeBits,
    bits: u32,
    words: &mut Vec<u64>,
    mut note: impl FnMut(u32, u64),
) {
    for &index in &range.losing {
        let word: Word = range.head.word(index.into(), range_bits);
        if word.bits() > bits {
            break;
        }
        let mirror = word.mirror();
        note(word.bits(), unpaired(word.get(), mirror.get()));
        if word <= mirror {
            words.push(word.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use chomp_table::Head;

    use super::*;

    /// What a word adds, by the description above.
    fn slowly(word: Word) -> u64 {
        let mirror = word.mirror();
        match word.get().cmp(&mirror.get()) {
            std::cmp::Ordering::Less => mix(word.get()),
            std::cmp::Ordering::Equal => 0,
            std::cmp::Ordering::Greater => 0_u64.wrapping_sub(mix(mirror.get())),
        }
    }

    #[test]
    fn representatives_are_those_of_the_words() {
        let range_bits = RangeBits::new(12).expect("valid");
        for head in [1, 2, 3, 0b1010_1100, (1 << 52) - 1, 1 << 51].map(Head) {
            let losing: Vec<u32> = (0..2048).step_by(3).collect();
            let all = || {
                let word = |&index: &u32| head.word(index.into(), range_bits);
                losing.iter().map(word)
            };
            let expected: Vec<u64> = all()
                .filter(|word| word.representative() == *word)
                .map(Word::get)
                .collect();
            let expected_sum = all().map(slowly).fold(0, u64::wrapping_add);
            let mut words = vec![7];
            let range = Range {
                head,
                losing: losing.clone(),
                edges: 0,
            };
            let sum = representatives(&range, range_bits, &mut words);
            assert_eq!(words.remove(0), 7);
            assert_eq!(words, expected, "{head}");
            assert_eq!(sum, expected_sum, "{head}");
        }
    }

    #[test]
    fn the_first_range_has_words_of_all_lengths() {
        let range_bits = RangeBits::new(12).expect("valid");
        let range = Range {
            head: Head(0),
            losing: (0..2048).step_by(3).collect(),
            edges: 0,
        };
        for bits in [0, 1, 5, 11, 12, 13] {
            let (mut words, mut sums) = (Vec::new(), [(0, 0_u64); 14]);
            first_representatives(&range, range_bits, bits, &mut words, |bits, sum| {
                let (count, all) = &mut sums[bits as usize];
                (*count, *all) = (*count + 1, all.wrapping_add(sum));
            });
            for length in 0..14 {
                let of_length = (0..2048)
                    .step_by(3)
                    .map(|index| Word::new(index * 2))
                    .filter(|word| word.bits() == length && length <= bits);
                let sum = of_length.clone().map(slowly).fold(0, u64::wrapping_add);
                assert_eq!(sums[length as usize], (of_length.count(), sum));
            }
            let kept: Vec<u64> = (0..2048)
                .step_by(3)
                .map(|index| Word::new(index * 2))
                .filter(|word| word.bits() <= bits && *word == word.representative())
                .map(Word::get)
                .collect();
            assert_eq!(words, kept);
        }
    }

    #[test]
    fn whole_pairs_have_the_sum_0_and_others_have_not() {
        let sum = |words: &[Word]| words.iter().copied().map(slowly).fold(0, u64::wrapping_add);
        let words: Vec<Word> = (1..500).map(|half| Word::new(half * 2)).collect();
        let mut whole: Vec<Word> = words
            .iter()
            .flat_map(|word| [*word, word.mirror()])
            .collect();
        whole.sort_unstable();
        whole.dedup();
        assert_eq!(sum(&whole), 0);
        for without in 0..whole.len() {
            let mut fewer = whole.clone();
            let gone = fewer.remove(without);
            assert_eq!(sum(&fewer) == 0, gone == gone.mirror());
            for other in [Word::new(2000), Word::new(4444)] {
                let mut others = fewer.clone();
                others.push(other);
                assert_ne!(sum(&others), 0);
            }
        }
    }
}
