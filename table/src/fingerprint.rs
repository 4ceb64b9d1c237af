//! The fingerprint: the one number that names a table's content.
//!
//! It is the SHA-256 over the representative words of the losing positions (the smaller of a word
//! and its mirror image), ascending, each as 8 bytes little-endian. It depends on the mathematics
//! alone, so any correct program gets the same one. The words of k bits or less are a prefix of
//! those of any larger table, so a table has a fingerprint for every number of bits up to its own.

use serde::{Deserialize, Serialize};
use sha2::digest::common::hazmat::{SerializableState, SerializedState};
use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use crate::format::{Damage, ensure};
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

/// A builder between two pushes, as plain values: who keeps it can go on another day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FingerprintState {
    /// The bits of the table.
    pub bits: u32,
    /// The state of SHA-256 over the words so far, as the crate `sha2` 0.11 writes it.
    pub hasher: Vec<u8>,
    /// All words to come are at least this.
    pub least: u64,
    /// The number of the words so far.
    pub stored: u64,
    /// What is known of the numbers of bits whose words were all pushed.
    pub finished: Fingerprints,
}

/// What the words of a table say about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

    /// Goes on from `state`.
    ///
    /// # Errors
    ///
    /// If no builder has such a state.
    pub fn resume(state: FingerprintState) -> Result<FingerprintBuilder, Damage> {
        let wrong = "it has a state that no fingerprint has on its way";
        let hasher = SerializedState::<Sha256>::try_from(&state.hasher[..]).ok();
        let hasher = hasher.and_then(|state| Sha256::deserialize(&state).ok());
        let hasher = hasher.ok_or_else(|| Damage::new(wrong))?;
        let (by_bits, stored_by_bits) = (&state.finished.by_bits, &state.finished.stored_by_bits);
        let last_bits = state.least.checked_sub(1).map_or(0, bits);
        let sound = state.bits <= u64::BITS
            && last_bits <= state.bits
            && by_bits.len() == last_bits as usize
            && stored_by_bits.len() == last_bits as usize
            && stored_by_bits.is_sorted()
            && stored_by_bits.iter().all(|&stored| stored <= state.stored)
            && (state.stored == 0) == (state.least == 0);
        ensure(sound, || wrong)?;
        Ok(FingerprintBuilder {
            bits: state.bits,
            hasher,
            least: state.least,
            stored: state.stored,
            finished: state.finished,
        })
    }

    /// What [`FingerprintBuilder::resume`] makes this builder of.
    pub fn state(&self) -> FingerprintState {
        FingerprintState {
            bits: self.bits,
            hasher: self.hasher.serialize().to_vec(),
            least: self.least,
            stored: self.stored,
            finished: self.finished.clone(),
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
    fn goes_on_from_every_state() {
        let words: Vec<u64> = (1..200).chain(900..1000).map(|half| half * 2).collect();
        let all = check(11, &words, words.len());
        for at in 0..=words.len() {
            let mut before = FingerprintBuilder::new(11);
            before.push(&words[..at]);
            let text = serde_json::to_string(&before.state()).unwrap();
            let state: FingerprintState = serde_json::from_str(&text).unwrap();
            assert_eq!(state, before.state());
            let mut after = FingerprintBuilder::resume(state).unwrap();
            after.push(&words[at..]);
            assert_eq!(after.finish(), all, "{at}");
        }
    }

    #[test]
    fn what_is_no_state_is_refused() {
        let mut builder = FingerprintBuilder::new(10);
        builder.push(&[2, 6, 8]);
        let sound = builder.state();
        let mut cut = sound.clone();
        cut.hasher.pop();
        let mut beyond = sound.clone();
        beyond.bits = 3;
        let mut unknown = sound.clone();
        unknown.bits = 65;
        let mut later = sound.clone();
        later.least = 17;
        let mut fewer = sound.clone();
        fewer.stored = 1;
        let mut none = sound.clone();
        none.stored = 0;
        let mut shorter = sound.clone();
        shorter.finished.stored_by_bits.pop();
        let mut falling = sound.clone();
        falling.finished.stored_by_bits[0] = 2;
        let mut last = sound.clone();
        last.least = u64::MAX;
        for (case, state) in [
            cut, beyond, unknown, later, fewer, none, shorter, falling, last,
        ]
        .into_iter()
        .enumerate()
        {
            assert!(FingerprintBuilder::resume(state).is_err(), "{case}");
        }
        assert!(FingerprintBuilder::resume(sound).is_ok());
    }

    /// What is kept on disk has to mean the same to every version that reads it.
    #[test]
    fn the_state_of_the_hasher_is_as_it_was() {
        let mut builder = FingerprintBuilder::new(10);
        builder.push(&[2]);
        // The initial hash value, no full blocks, and a block of which 8 bytes are there.
        let initial: [u32; 8] = [
            0x6a09_e667,
            0xbb67_ae85,
            0x3c6e_f372,
            0xa54f_f53a,
            0x510e_527f,
            0x9b05_688c,
            0x1f83_d9ab,
            0x5be0_cd19,
        ];
        let mut state: Vec<u8> = initial.iter().flat_map(|word| word.to_le_bytes()).collect();
        state.extend([0; 8]);
        state.push(8);
        state.extend(2_u64.to_le_bytes());
        state.resize(state.len() + 55, 0);
        assert_eq!(builder.state().hasher, state);
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
