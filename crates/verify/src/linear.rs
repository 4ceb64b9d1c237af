//! The fingerprint as it was before version 2: one SHA-256 of all stored words, ascending, each as 8 bytes
//! little-endian. It was published for many tables, and tables of manifest format 1 have it. One thread has to hash
//! all words in their order, so newer tables have another fingerprint.

use chomp_table::digest::DigestBuilder;
use chomp_table::{Digest, Word};

/// How many words are hashed at a time.
const CHUNK_WORDS: usize = 1024;

/// Computes the linear SHA-256 of a table, for every number of bits.
#[derive(Clone, Debug, Default)]
pub struct LinearSha256 {
    hasher: DigestBuilder,
    by_bits: Vec<Digest>,
}

impl LinearSha256 {
    /// Takes the next words, which ascend.
    pub fn push(&mut self, mut words: &[u64]) {
        while let Some(&first) = words.first() {
            self.complete(Word::new(first).bits());
            let bits = self.by_bits.len();
            let these = words.partition_point(|&word| Word::new(word).bits() as usize <= bits);
            let (these, rest) = words.split_at(these);
            self.hash(these);
            words = rest;
        }
    }

    /// Index k holds the SHA-256 of the words of at most k bits, up to `bits`.
    pub fn finish(mut self, bits: u32) -> Vec<Digest> {
        self.complete(bits + 1);
        self.by_bits
    }

    /// Ends the digests of all numbers of bits below `bits`, whose words were all pushed.
    fn complete(&mut self, bits: u32) {
        let length = self.by_bits.len().max(bits as usize);
        self.by_bits
            .resize_with(length, || self.hasher.clone().finish());
    }

    fn hash(&mut self, words: &[u64]) {
        let mut buffer = [0; 8 * CHUNK_WORDS];
        for words in words.chunks(CHUNK_WORDS) {
            for (bytes, word) in buffer.as_chunks_mut().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
            self.hasher.push(&buffer[..8 * words.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_digest_of_the_words_of_each_number_of_bits() {
        let words: Vec<u64> = (1..3000)
            .chain(1 << 40..(1 << 40) + 5)
            .map(|half| half * 2)
            .collect();
        for piece in [1, 1000, words.len()] {
            let mut linear = LinearSha256::default();
            words.chunks(piece).for_each(|words| linear.push(words));
            let found = linear.finish(50);
            assert_eq!(found.len(), 51);
            for (bits, found) in found.iter().enumerate() {
                let words = words.iter().filter(|&word| word >> bits == 0);
                let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
                assert_eq!(*found, Digest::of(&bytes), "{bits} bits, {piece} at a time");
            }
        }
        assert_eq!(LinearSha256::default().finish(0), [Digest::of(&[])]);
    }
}
