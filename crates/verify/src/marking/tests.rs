//! Tests of marking, block by block, against the definition of a move.

use std::collections::{BTreeMap, BTreeSet};

use chomp_testing::definition;

use super::block::CHUNK_BITS;
use super::*;

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

/// The words of a block that are marked.
fn marked(block: &Block) -> BTreeSet<u64> {
    let words = (0..block.chunks.len() as u64 * 64).map(|index| block.first() + 2 * index);
    words
        .filter(|&word| {
            let place = (word - block.first()) / 2;
            block.chunks[index(place / 64)] >> (place % 64) & 1 == 1
        })
        .collect()
}

#[test]
fn blocks_of_any_size_have_the_losing_words_of_the_definition() {
    for bits in 0..=15 {
        let losing = definition::losing(bits);
        let expected: Vec<u64> = (0..)
            .zip(losing)
            .filter_map(|(index, losing)| losing.then_some(2 * index))
            .collect();
        for block_bits in CHUNK_BITS.min(bits)..=bits {
            let found = losing_in_blocks(bits, block_bits);
            assert_eq!(found, expected, "{bits} bits, blocks of {block_bits}");
        }
    }
}

/// One word at a time is losing, whether it is or not: what it marks in each block above its own.
#[test]
fn a_word_below_a_block_marks_its_predecessors() {
    for bits in [9, 12] {
        let expected = by_definition(bits);
        for block_bits in 7..bits {
            let mut block = Block::new(bits, block_bits);
            for word in (2..1_u64 << bits).step_by(2) {
                let expected = expected.get(&word).cloned().unwrap_or_default();
                let mut lists = Lists::begin(bits, block_bits);
                for number in 0..1 << (bits - block_bits) {
                    block.begin(number);
                    let is_own = word >> block_bits == number;
                    if word >> block_bits < number {
                        mark_from_below(&mut block, block_bits, &lists);
                        let inside = |&word: &u64| word >> block_bits == number;
                        let expected: BTreeSet<u64> =
                            expected.iter().copied().filter(inside).collect();
                        let what = format!("to {word:b} in block {number} of {block_bits} bits");
                        assert_eq!(marked(&block), expected, "{what}");
                    }
                    let words = [word];
                    lists.push_block(block_bits, if is_own { &words } else { &[] });
                }
            }
        }
    }
}

/// The intervals that a window reads are those to which a move leads from it.
#[test]
fn what_is_reached_is_that_of_the_definition() {
    let bits = 12;
    for width in 7..=bits {
        let mut expected = BTreeMap::<u64, BTreeSet<u64>>::new();
        for word in (2..1_u64 << bits).step_by(2) {
            let read_from = expected.entry(word >> width).or_default();
            let next = Word::new(word).moves().map(|(_, next)| next.get());
            read_from.extend(next.filter(|&next| next != 0).map(|next| next >> width));
        }
        for (number, expected) in expected {
            let found: BTreeSet<u64> = reached(bits, width, number).into_iter().collect();
            assert!(found.is_superset(&expected), "{number:b}, {width}");
            let more = found.difference(&expected).count();
            assert!(more <= 2, "{number:b}, {width}: {found:?} {expected:?}");
        }
    }
}

/// Each bucket of 2^17 words has where it begins, in eight bytes, and there are two more; each word has two bytes.
#[test]
fn lists_take_two_bytes_for_each_word() {
    assert_eq!(Lists::bytes(20, 3, 1000), 8 * 26 + 2000);
    assert_eq!(Lists::bytes(9, 1, 4), 8 * 3 + 8);
}
