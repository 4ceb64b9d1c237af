//! The fingerprint: the one number that names a table's content.
//!
//! The **stored words** of a table are the representative words of its losing positions (the smaller of a word and its
//! mirror image), ascending. **Leaf** i is the SHA-256 of the stored words number i · 2^22 to before (i + 1) · 2^22,
//! each as 8 bytes little-endian; the last leaf may have fewer. The fingerprint is the SHA-256 of all leaves, in order.
//!
//! It depends on the mathematics alone, so any correct program gets the same one; leaves can be computed apart from
//! each other, and each can be checked alone: a leaf holds the words of one shard. The words of k bits or less are a
//! prefix of those of any larger table, so a table has a fingerprint for every number of bits up to its own.
//!
//! Version history: 1 was one SHA-256 of all stored words, computed from the first to the last. 2 is this one.

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, DigestBuilder};
use crate::format::{Damage, ensure};
use crate::shard::ShardSize;
use crate::word::Word;

/// The words of every leaf of a table but its last.
pub const LEAF_WORDS: usize = ShardSize::PUBLISHED.shard_words;

const CHUNK_WORDS: usize = 1024;

/// A leaf of the fingerprint: the stored words of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaf {
    /// The number of words.
    pub words: u64,
    /// The SHA-256 of the words, 8 bytes each, little-endian.
    pub digest: Digest,
    /// For each number of bits k of which the leaf has words, ascending: its words of at most k bits.
    pub lengths: Vec<LeafLength>,
}

/// The words of a leaf that have at most `bits` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct LeafLength {
    pub bits: u32,
    pub words: u64,
    pub digest: Digest,
}

/// The fingerprints and the numbers of words of a table, for every number of bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprints {
    /// Index k holds the fingerprint of the words of at most k bits.
    pub by_bits: Vec<Digest>,
    /// Index k holds the number of words of at most k bits.
    pub stored_by_bits: Vec<u64>,
}

impl Default for Leaf {
    fn default() -> Leaf {
        LeafBuilder::new().finish()
    }
}

/// Computes a leaf from its words.
#[derive(Clone, Debug, Default)]
pub struct LeafBuilder {
    hasher: DigestBuilder,
    words: u64,
    /// All words to come are at least this.
    least: u64,
    bits: u32,
    /// The entries for the numbers of bits whose words were all pushed.
    lengths: Vec<LeafLength>,
}

impl LeafBuilder {
    /// A leaf of no words yet.
    pub fn new() -> LeafBuilder {
        LeafBuilder::default()
    }

    /// Takes the next words. Panics if the words do not ascend.
    pub fn push(&mut self, mut words: &[u64]) {
        let (Some(&first), Some(&last)) = (words.first(), words.last()) else {
            return;
        };
        let ascending = first >= self.least && words.is_sorted_by(|one, next| one < next);
        assert!(ascending, "the words of a table ascend");
        self.least = last + 1;
        while let Some(&first) = words.first() {
            if bits(first) > self.bits {
                self.end_length();
                self.bits = bits(first);
            }
            let these = words.partition_point(|&word| bits(word) <= self.bits);
            let (these, rest) = words.split_at(these);
            self.hash(these);
            words = rest;
        }
    }

    /// The number of words so far.
    pub fn words(&self) -> u64 {
        self.words
    }

    /// The leaf of all words that were pushed.
    pub fn finish(mut self) -> Leaf {
        self.end_length();
        Leaf {
            words: self.words,
            digest: self.hasher.finish(),
            lengths: self.lengths,
        }
    }

    /// Notes that all words of at most `self.bits` bits were pushed, if there are any.
    fn end_length(&mut self) {
        if self.words > 0 {
            self.lengths.push(LeafLength {
                bits: self.bits,
                words: self.words,
                digest: self.hasher.clone().finish(),
            });
        }
    }

    fn hash(&mut self, words: &[u64]) {
        self.words += words.len() as u64;
        let mut buffer = [0; 8 * CHUNK_WORDS];
        for words in words.chunks(CHUNK_WORDS) {
            for (bytes, word) in buffer.as_chunks_mut().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
            self.hasher.push(&buffer[..8 * words.len()]);
        }
    }
}

/// The fingerprints of the table of `bits` bits that has these leaves. Fails if there is no such table.
pub fn combine(bits: u32, leaves: &[Leaf]) -> Result<Fingerprints, Damage> {
    ensure(bits <= u64::BITS, || {
        format!("{bits} bits; at most 64 are possible")
    })?;
    let mut found = Fingerprints::default();
    // `hasher` has the leaves before, `before` is the number of their words. `last` has the fingerprint and the number
    // of words for the last number of bits so far.
    let mut hasher = DigestBuilder::default();
    let mut before = 0;
    let mut last = (hasher.clone().finish(), 0);
    let full = leaves.first().map_or(0, |leaf| leaf.words);
    for (number, leaf) in (0..).zip(leaves) {
        let fits = leaf.words == 0 || leaf.words <= full && before == full * number;
        ensure(fits, || {
            format!(
                "leaf {number} has {} words after {before}; the first has {full}",
                leaf.words
            )
        })?;
        leaf.check()
            .map_err(|damage| Damage::new(format!("leaf {number}: {damage}")))?;
        for length in &leaf.lengths {
            let known_bits = found.by_bits.len();
            let possible = (known_bits..=bits as usize).contains(&(length.bits as usize));
            ensure(possible, || {
                format!(
                    "leaf {number} has words of {} bits in a table of {bits}, after words of {known_bits}",
                    length.bits
                )
            })?;
            found.extend(length.bits, last);
            let mut hasher = hasher.clone();
            hasher.push(&length.digest.0);
            last = (hasher.finish(), before + length.words);
        }
        hasher.push(&leaf.digest.0);
        before += leaf.words;
    }
    found.extend(bits + 1, last);
    Ok(found)
}

impl Fingerprints {
    /// Notes this fingerprint and number of words for each number of bits below `end` that has none yet.
    fn extend(&mut self, end: u32, (fingerprint, stored): (Digest, u64)) {
        self.by_bits.resize(end as usize, fingerprint);
        self.stored_by_bits.resize(end as usize, stored);
    }
}

impl Leaf {
    fn check(&self) -> Result<(), Damage> {
        let lengths = &self.lengths;
        let ascend =
            |one: &LeafLength, next: &LeafLength| one.bits < next.bits && one.words < next.words;
        let first = lengths.first().is_none_or(|first| first.words > 0);
        ensure(
            first && lengths.is_sorted_by(ascend),
            || "numbers of bits or words that do not ascend",
        )?;
        let ends = match lengths.last() {
            Some(last) => (last.words, last.digest) == (self.words, self.digest),
            None => *self == Leaf::default(),
        };
        ensure(ends, || "the last number of bits has not all its words")
    }
}

/// Computes the fingerprints of a table from its words, from the first to the last.
#[derive(Clone, Debug)]
pub struct FingerprintBuilder {
    bits: u32,
    leaf_words: usize,
    leaf: LeafBuilder,
    leaves: Vec<Leaf>,
}

impl FingerprintBuilder {
    /// For a table of `bits` bits.
    pub fn new(bits: u32) -> FingerprintBuilder {
        FingerprintBuilder::with_leaf(bits, LEAF_WORDS)
    }

    /// With leaves of `leaf_words` words. Only [`LEAF_WORDS`] gives the fingerprint that others get; tables made for
    /// tests have shards, and so leaves, of fewer words. Panics if `leaf_words` is 0.
    pub fn with_leaf(bits: u32, leaf_words: usize) -> FingerprintBuilder {
        assert!(leaf_words > 0, "a leaf has words");
        FingerprintBuilder {
            bits,
            leaf_words,
            leaf: LeafBuilder::new(),
            leaves: Vec::new(),
        }
    }

    /// Takes the next words. Panics if the words do not ascend, or if one has more bits than the table.
    pub fn push(&mut self, mut words: &[u64]) {
        let within = words.last().is_none_or(|&last| bits(last) <= self.bits);
        assert!(within, "a word of more bits than the table");
        while !words.is_empty() {
            if self.leaf.words() == self.leaf_words as u64 {
                let next = LeafBuilder {
                    least: self.leaf.least,
                    ..LeafBuilder::new()
                };
                self.leaves
                    .push(std::mem::replace(&mut self.leaf, next).finish());
            }
            let taken = usize::try_from(self.leaf.words()).expect("at most `leaf_words`");
            let (these, rest) = words.split_at(words.len().min(self.leaf_words - taken));
            self.leaf.push(these);
            words = rest;
        }
    }

    /// The fingerprints for every number of bits up to the table's.
    pub fn finish(mut self) -> Fingerprints {
        self.leaves.push(self.leaf.finish());
        combine(self.bits, &self.leaves).expect("the leaves are those of a table")
    }
}

fn bits(word: u64) -> u32 {
    Word::new(word).bits()
}

#[cfg(test)]
mod tests;
