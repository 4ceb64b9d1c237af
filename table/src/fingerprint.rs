//! The fingerprint: the one number that names a table's content.
//!
//! It is the SHA-256 over the representative words of the losing positions (the smaller of a word
//! and its mirror image), ascending, each as 8 bytes little-endian. It depends on the mathematics
//! alone, so any correct program gets the same one. The words of k bits or less are a prefix of
//! those of any larger table, so a table has a fingerprint for every number of bits up to its own.

use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use crate::word::Word;

/// How many words are hashed at a time.
const CHUNK_WORDS: usize = 1024;

/// Computes the fingerprints of a table from its words.
#[derive(Clone, Debug)]
pub struct FingerprintBuilder {
    bits: u32,
    hasher: Sha256,
    least: u64,
    stored: u64,
    finished: Fingerprints,
}

/// What the words of a table say about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprints {
    /// Index k holds the fingerprint of the words of at most k bits.
    pub by_bits: Vec<Digest>,
    /// Index k holds the number of words of at most k bits.
    pub stored_by_bits: Vec<u64>,
}

impl FingerprintBuilder {
    /// For a table of `bits` bits.
    pub fn new(bits: u32) -> FingerprintBuilder {
        FingerprintBuilder {
            bits,
            hasher: Sha256::new(),
            least: 0,
            stored: 0,
            finished: Fingerprints::default(),
        }
    }

    /// Takes the next words.
    ///
    /// # Panics
    ///
    /// If the words do not ascend, or if one has more bits than the table.
    pub fn push(&mut self, mut words: &[u64]) {
        let (Some(&first), Some(&last)) = (words.first(), words.last()) else {
            return;
        };
        let ascending = first >= self.least && words.is_sorted_by(|one, next| one < next);
        assert!(ascending, "the words of a table ascend");
        assert!(
            bits(last) <= self.bits,
            "a word of more bits than the table"
        );
        self.least = last + 1;
        while let Some(&first) = words.first() {
            while bits(first) > self.complete_bits() {
                self.complete();
            }
            let (these, rest) =
                words.split_at(words.partition_point(|&word| bits(word) <= self.complete_bits()));
            self.hash(these);
            words = rest;
        }
    }

    /// The fingerprints for every number of bits up to the table's.
    pub fn finish(mut self) -> Fingerprints {
        while self.complete_bits() <= self.bits {
            self.complete();
        }
        self.finished
    }

    /// The number of bits whose words are not known to be complete yet.
    fn complete_bits(&self) -> u32 {
        u32::try_from(self.finished.by_bits.len()).expect("at most one more than 64")
    }

    fn complete(&mut self) {
        self.finished
            .by_bits
            .push(Digest(self.hasher.clone().finalize().into()));
        self.finished.stored_by_bits.push(self.stored);
    }

    fn hash(&mut self, words: &[u64]) {
        self.stored += words.len() as u64;
        let mut buffer = [0; 8 * CHUNK_WORDS];
        for words in words.chunks(CHUNK_WORDS) {
            for (bytes, word) in buffer.chunks_exact_mut(8).zip(words) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            self.hasher.update(&buffer[..8 * words.len()]);
        }
    }
}

fn bits(word: u64) -> u32 {
    Word::new(word).bits()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::definition;

    /// The fingerprint and the number of the words of at most `bits` bits, by the definition.
    fn slowly(words: &[u64], bits: u32) -> (Digest, u64) {
        let words = words.iter().filter(|&&word| u128::from(word) < 1 << bits);
        let bytes: Vec<u8> = words.clone().flat_map(|word| word.to_le_bytes()).collect();
        (Digest::of(&bytes), words.count() as u64)
    }

    fn check(bits: u32, words: &[u64], piece: usize) -> Fingerprints {
        let mut builder = FingerprintBuilder::new(bits);
        words.chunks(piece).for_each(|words| builder.push(words));
        let found = builder.finish();
        let expected: (Vec<Digest>, Vec<u64>) = (0..=bits).map(|bits| slowly(words, bits)).unzip();
        assert_eq!(found.by_bits, expected.0);
        assert_eq!(found.stored_by_bits, expected.1);
        found
    }

    #[test]
    fn the_fingerprint_of_twenty_bits() {
        let losing = definition::losing(20);
        let words: Vec<u64> = (0..losing.len())
            .filter(|&index| losing[index])
            .map(|index| Word::new(index as u64 * 2))
            .filter(|&word| word == word.representative())
            .map(Word::get)
            .collect();
        let known = "ccc3c24a30b196dd251acf2a76668b94991ef6839a9491b2bf82128d22dc102e";
        for piece in [1, 7, words.len()] {
            let found = check(20, &words, piece);
            assert_eq!(found.by_bits[20].to_string(), known);
        }
    }

    #[test]
    fn tables_of_no_words_and_of_64_bits() {
        let empty = check(0, &[], 1);
        assert_eq!(empty.by_bits, [Digest::of(&[])]);
        check(1, &[], 1);
        check(5, &[2], 1);
        check(
            64,
            &[2, 1 << 32, 1 << 33, (1 << 63) - 2, 1 << 63, u64::MAX - 1],
            2,
        );
    }

    #[test]
    #[should_panic(expected = "ascend")]
    fn words_out_of_order_are_refused() {
        let mut builder = FingerprintBuilder::new(10);
        builder.push(&[4]);
        builder.push(&[4]);
    }

    #[test]
    #[should_panic(expected = "more bits")]
    fn words_beyond_the_table_are_refused() {
        FingerprintBuilder::new(10).push(&[1 << 10]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn agrees_with_the_definition(
            paths in prop::collection::btree_set((any::<u64>(), 0u32..64), 0..3000),
            piece in 1usize..2000
        ) {
            let mut words: Vec<u64> =
                paths.into_iter().map(|(path, shift)| Word::new(path >> shift).get()).collect();
            words.sort_unstable();
            words.dedup();
            check(64, &words, piece);
        }
    }
}
