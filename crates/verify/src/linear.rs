//! The linear SHA-256: that of all stored words, ascending, each as 8 bytes little-endian. It was published for many
//! tables. Several threads cannot share its computation, which is why the fingerprint is made of leaves.

use chomp_table::Digest;
use chomp_table::fingerprint::Leaf;

/// The linear SHA-256 for every number of bits up to `bits`, from the leaf of all words of a table: index k holds that
/// of the words of at most k bits.
pub fn linear_sha256(all: &Leaf, bits: u32) -> Vec<Digest> {
    let mut by_bits = Vec::new();
    let mut last = Leaf::default().digest;
    for length in &all.lengths {
        by_bits.resize(length.bits as usize, last);
        last = length.digest;
    }
    by_bits.resize(bits as usize + 1, last);
    by_bits
}

#[cfg(test)]
mod tests {
    use chomp_table::fingerprint::LeafBuilder;

    use super::*;

    #[test]
    fn it_is_the_digest_of_the_words_of_each_number_of_bits() {
        let words: Vec<u64> = (1..3000)
            .chain(1 << 40..(1 << 40) + 5)
            .map(|half| half * 2)
            .collect();
        let mut leaf = LeafBuilder::new();
        leaf.push(&words);
        let found = linear_sha256(&leaf.finish(), 50);
        assert_eq!(found.len(), 51);
        for (bits, found) in found.iter().enumerate() {
            let words = words.iter().filter(|&word| word >> bits == 0);
            let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(*found, Digest::of(&bytes), "{bits} bits");
        }
        assert_eq!(linear_sha256(&Leaf::default(), 0), [Digest::of(&[])]);
    }
}
