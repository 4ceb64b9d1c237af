//! Ascending numbers class by class: the form in which shards hold the words, halved.
//!
//! The **class** of a number is its low 6 bits. A **class block** has first the numbers of class 0, then those of class
//! 1, and so on, each class ascending: it is the gap block (see `gaps`) of the numbers *turned*, ascending, where
//!
//! ```text
//! turned = (number mod 64) · 2^57 + number / 64, rounded down
//! ```
//!
//! so every list of numbers has exactly one block.
//!
//! Why: the low bits of a word say much about whether it is losing. Whole classes are empty: some have no losing word,
//! and in others the mirror image of every losing word is smaller. The other classes have densities of their own. And
//! words that differ in their low bits alone are often a move apart, so at most one of them is losing. The gaps of a
//! list of all words show nothing of this. Within a class, the gaps are nearly those of a random list, among fewer
//! numbers. This saves half a bit off each word. More than 6 bits gain little, and each class costs a wide gap.
//!
//! Limits: numbers below 2^63. Version history: the formats that use blocks have versions.

use crate::format::{Damage, ensure};
use crate::gaps;

const CLASS_BITS: u32 = 6;

const HIGH_BITS: u32 = 63 - CLASS_BITS;

const CLASSES: usize = 1 << CLASS_BITS;

/// The most numbers in a bucket for the insertion sort. Words of tables have a handful in each; crowded or
/// malicious lists are sorted by the standard library.
const INSERTION_SORT_MAX: u32 = 32;

/// All numbers are below this.
const END: u64 = 1 << (HIGH_BITS + CLASS_BITS);

const fn turned(number: u64) -> u64 {
    ((number % CLASSES as u64) << HIGH_BITS) | (number >> CLASS_BITS)
}

const fn turned_back(turned: u64) -> u64 {
    (turned >> HIGH_BITS) | ((turned << CLASS_BITS) & (END - 1))
}

/// The most bytes of `blocks` class blocks together, with `count` numbers among `span` consecutive ones. The gap before
/// the first number of each class may be wide. The other gaps of a class are gaps among `span` / 64 numbers, so all
/// classes together have at most as many wide gaps as `span` has room for.
pub(crate) const fn block_len_max(count: u64, span: u64, blocks: u64) -> u64 {
    gaps::block_len_max(count, blocks * CLASSES as u64 + gaps::wide_max(span))
}

/// The class block of `numbers`. Panics if the numbers do not ascend, or the last is not below 2^63.
pub(crate) fn encode(numbers: impl ExactSizeIterator<Item = u64> + Clone) -> Vec<u8> {
    let class = |number: u64| usize::try_from(number % CLASSES as u64).expect("below 64");
    let mut counts = [0; CLASSES];
    let mut least = 0;
    for number in numbers.clone() {
        assert!(
            (least..END).contains(&number),
            "the numbers of a class block ascend"
        );
        least = number + 1;
        counts[class(number)] += 1;
    }
    let mut starts = counts;
    let mut before = 0;
    for start in &mut starts {
        before += std::mem::replace(start, before);
    }
    let mut by_class = vec![0; numbers.len()];
    for number in numbers {
        let start = &mut starts[class(number)];
        by_class[*start] = turned(number);
        *start += 1;
    }
    gaps::encode(&by_class)
}

/// The `count` numbers of `block`, ascending, all below `end`. Allocates a few times the memory of `count` numbers,
/// after it has seen that the block has the bytes for them.
pub(crate) fn decode(block: &[u8], count: u64, end: u64) -> Result<Vec<u64>, Damage> {
    Ok(sorted(decode_unsorted(block, count, end)?))
}

/// As [`decode`], but the numbers come class by class.
pub(crate) fn decode_unsorted(block: &[u8], count: u64, end: u64) -> Result<Vec<u64>, Damage> {
    let numbers = gaps::decode(block, count, END, turned_back)?;
    let last = numbers.iter().max();
    ensure(last.is_none_or(|&last| last < end), || {
        format!(
            "the number {} where all are below {end}",
            last.unwrap_or(&0)
        )
    })?;
    Ok(numbers)
}

/// The words of a table lie about evenly between the first and the last. So a bucket sort, with up to twice as many
/// buckets as numbers, puts each nearly where it belongs.
pub(crate) fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    let (Some(&least), Some(&most)) = (numbers.iter().min(), numbers.iter().max()) else {
        return numbers;
    };
    let span_bits = u64::BITS - (most - least).leading_zeros();
    let shift = span_bits.saturating_sub(numbers.len().ilog2() + 1);
    let bucket = |number: u64| {
        let bucket = usize::try_from((number - least) >> shift);
        bucket.expect("below four times the number of numbers")
    };

    let mut starts = vec![0u32; bucket(most) + 1];
    for &number in &numbers {
        starts[bucket(number)] += 1;
    }
    if starts.iter().any(|&count| count > INSERTION_SORT_MAX) {
        numbers.sort_unstable();
        return numbers;
    }
    let mut before = 0;
    for start in &mut starts {
        before += std::mem::replace(start, before);
    }
    let mut result = vec![0; numbers.len()];
    for number in numbers {
        let start = &mut starts[bucket(number)];
        result[*start as usize] = number;
        *start += 1;
    }
    // An insertion sort does the rest: no number leaves its bucket, and buckets are short.
    for at in 1..result.len() {
        let number = result[at];
        let mut to = at;
        while to > 0 && result[to - 1] > number {
            result[to] = result[to - 1];
            to -= 1;
        }
        result[to] = number;
    }
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The block of `numbers`, class after class as the layout has it.
    fn encode_slowly(numbers: &[u64]) -> Vec<u8> {
        let class = |class| numbers.iter().filter(move |number| *number % 64 == class);
        let turned =
            (0..64).flat_map(|low| class(low).map(move |number| (low << 57) + number / 64));
        let turned: Vec<u64> = turned.collect();
        gaps::encode(&turned)
    }

    fn check_round_trip(numbers: &[u64]) {
        let block = encode(numbers.iter().copied());
        assert_eq!(block, encode_slowly(numbers));
        let count = numbers.len() as u64;
        let span = numbers.last().zip(numbers.first());
        let span = span.map_or(0, |(last, first)| last - first + 1);
        assert!(block.len() as u64 <= block_len_max(count, span, 1));
        let end = numbers.last().map_or(0, |last| last + 1);
        assert_eq!(decode(&block, count, end).unwrap(), numbers);
        if let Some(last) = numbers.last() {
            let error = decode(&block, count, *last).unwrap_err().to_string();
            assert!(
                error.contains(&format!("the number {last} where")),
                "{error}"
            );
        }
    }

    fn check_sorted(numbers: &[u64]) {
        let mut expected = numbers.to_vec();
        expected.sort_unstable();
        assert_eq!(sorted(numbers.to_vec()), expected);
    }

    #[test]
    fn known_blocks() {
        let wide = |classes: u64, gap: u64| (classes << 57) + gap;
        for (numbers, bytes, wide_gaps) in [
            (&[][..], &[][..], vec![]),
            (&[0], &[0], vec![]),
            (&[64, 192, 65_536], &[1, 1, 227, 28], vec![]),
            (&[1, 2], &[255, 255], vec![wide(1, 0), wide(1, 0) - 1]),
            (&[63, 64], &[1, 255], vec![wide(63, 0) - 2]),
            (&[(1 << 63) - 1], &[255], vec![(1 << 63) - 1]),
        ] {
            let wide_gaps = wide_gaps.iter().flat_map(|gap| gap.to_le_bytes());
            let block: Vec<u8> = bytes.iter().copied().chain(wide_gaps).collect();
            assert_eq!(encode(numbers.iter().copied()), block, "{numbers:?}");
            check_round_trip(numbers);
        }
        check_round_trip(&(0..1 << 17).collect::<Vec<u64>>());
        check_round_trip(
            &(0..1 << 16)
                .map(|number| number << 47)
                .collect::<Vec<u64>>(),
        );
    }

    #[test]
    fn turning_keeps_all_there_is() {
        for number in (0..1000).chain(END - 1000..END) {
            assert!(turned(number) < END);
            assert_eq!(turned_back(turned(number)), number);
            assert_eq!(turned(turned_back(number)), number);
        }
    }

    #[test]
    fn numbers_that_do_not_ascend_are_refused() {
        for numbers in [&[2, 1][..], &[64, 0], &[5, 5], &[1 << 63]] {
            let result = std::panic::catch_unwind(|| encode(numbers.iter().copied()));
            assert!(result.is_err(), "{numbers:?}");
        }
    }

    /// Half of the numbers in one bucket: a sort that moves them one by one would take minutes.
    #[test]
    fn crowded_numbers_are_sorted_in_time() {
        let crowd = (0..1 << 20).rev().map(|number| number * 64);
        let crowded: Vec<u64> = crowd
            .chain((0..1 << 20).map(|number| number << 42))
            .collect();
        check_sorted(&crowded);
        check_sorted(&[u64::MAX, 0, u64::MAX, 1]);
        check_sorted(&[7; 100]);
    }

    #[test]
    fn malformed_blocks() {
        assert!(decode(&[], 1, 10).is_err());
        assert!(decode(&[0, 0], 1, 10).is_err());
        assert!(decode(&[], u64::MAX, 10).is_err());
        let beyond = [&[255][..], &END.to_le_bytes()].concat();
        assert!(decode(&beyond, 1, END).is_err());
    }

    proptest! {
        #[test]
        fn round_trips(
            numbers in prop::collection::btree_set((0u64..1 << 63, 0u32..63), 0..400),
        ) {
            let mut numbers: Vec<u64> = numbers.iter().map(|(number, shift)| number >> shift).collect();
            numbers.sort_unstable();
            numbers.dedup();
            check_round_trip(&numbers);
        }

        #[test]
        fn any_numbers_are_sorted(
            numbers in prop::collection::vec((any::<u64>(), 0u32..64), 0..400),
        ) {
            let numbers: Vec<u64> = numbers.iter().map(|(number, shift)| number >> shift).collect();
            check_sorted(&numbers);
        }
    }
}
