//! One pass over every byte of a table. The check does not believe what the manifest says of the
//! content: it makes counts and fingerprints again from the words.
//!
//! Shards are independent: several threads may call [`check_shard`]. [`check_all`] puts the results
//! together in the order of the shards.

use chomp_table::fingerprint::{FingerprintBuilder, Fingerprints, LEAF_WORDS, Leaf, LeafBuilder};
use chomp_table::{Digest, Table};

use crate::linear::linear_sha256;
use crate::survey::{Counter, Survey};
use crate::{CheckError, Watch, known, tell};

/// The most bytes that a frame of 8,192 words and an index take while they are decoded.
const FRAME_BYTES: u64 = 4 << 20;

/// The result of checking every byte of a shard.
#[derive(Debug)]
pub struct CheckedShard<'a> {
    words: Vec<u64>,
    leaf: Leaf,
    counted: Counter<'a>,
}

/// The fingerprints and counts that the words of a table give. They agree with its manifest.
#[derive(Debug)]
pub struct ComputedFacts {
    /// Fingerprints and numbers of words, for each number of bits.
    pub fingerprints: Fingerprints,
    /// Index k holds the [linear SHA-256](crate::linear) of the words of at most k bits.
    pub linear_sha256: Vec<Digest>,
    /// The counts of the losing positions.
    pub survey: Survey,
}

/// The memory that [`check_shard`] takes for any shard of `table`, in bytes: its words, the bytes of
/// its file, and one frame as it is decoded.
pub fn shard_bytes(table: &Table) -> u64 {
    let shards = table.manifest().shards.iter();
    let largest = shards.map(|shard| 8 * shard.entries + shard.bytes).max();
    largest.unwrap_or(0) + FRAME_BYTES
}

/// Checks one shard, counted from 0: its digest, its index and each of its frames. Its words must ascend, be the
/// smaller ones of their mirror pairs, and agree with what is proved about losing positions. Fails if the file cannot
/// be read or is not what was published; if a word contradicts what is proved. Panics if there is no such shard.
pub fn check_shard(table: &Table, number: usize) -> Result<CheckedShard<'_>, CheckError> {
    let words = table.read_shard(number)?;
    let mut counted = Counter::new(table);
    counted.push(&words)?;
    let mut leaf = LeafBuilder::new();
    leaf.push(&words);
    Ok(CheckedShard {
        words,
        leaf: leaf.finish(),
        counted,
    })
}

/// Puts together the results of [`check_shard`] for all shards of `table`, in their order, and compares counts and
/// fingerprints with the manifest, for every number of bits. The losing positions are counted in two ways: word by word
/// with mirror images, and by the formula that each even number of bits has one position that is its own mirror image.
/// Both must give the same. Fails at the first error of a shard, and if the words are not those that the manifest
/// speaks of or contradict what is proved.
pub fn check_all<'a>(
    table: &'a Table,
    shards: impl Iterator<Item = Result<CheckedShard<'a>, CheckError>>,
    watch: Watch<'_>,
) -> Result<ComputedFacts, CheckError> {
    let manifest = table.manifest();
    let mut all_words = LeafBuilder::new();
    let mut leaves = Vec::with_capacity(manifest.shards.len());
    // Shards of other sizes are no leaves of the fingerprint that is known to others.
    let mut whole = manifest.shards.iter().rev().skip(1);
    let full = whole.all(|shard| shard.entries == LEAF_WORDS as u64);
    let mut regrouped = (!full).then(|| FingerprintBuilder::new(manifest.bits));
    let mut counted = Counter::new(table);
    let mut seen = 0;
    for shard in shards {
        let shard = shard?;
        counted.append(shard.counted)?;
        all_words.push(&shard.words);
        leaves.push(shard.leaf);
        if let Some(regrouped) = &mut regrouped {
            regrouped.push(&shard.words);
        }
        seen += shard.words.len() as u64;
        tell(watch, seen, manifest.stored)?;
    }
    let fingerprints = table.combine_leaves(&leaves)?;
    let linear_sha256 = linear_sha256(&all_words.finish(), manifest.bits);
    table.check_fingerprints(&fingerprints.by_bits)?;
    table.check_counts(&fingerprints.stored_by_bits)?;
    Ok(ComputedFacts {
        fingerprints: regrouped.map_or(fingerprints, FingerprintBuilder::finish),
        linear_sha256,
        survey: counted.finish()?,
    })
}

impl ComputedFacts {
    /// Compares the linear SHA-256s and the fingerprints with the published ones. Returns how many were compared.
    pub fn check_known_fingerprints(&self) -> Result<u64, CheckError> {
        let linear = known::linear_sha256();
        let linear = linear.map(|known| ("linear SHA-256", known, &self.linear_sha256));
        let trees = known::fingerprints();
        let trees = trees.map(|known| ("fingerprint", known, &self.fingerprints.by_bits));
        let mut compared = 0;
        for (what, (bits, known), by_bits) in linear.chain(trees) {
            let Some(found) = by_bits.get(bits as usize) else {
                continue;
            };
            crate::ensure(*found == known, || {
                format!(
                    "the words of {bits} bits have the {what} {found}; the published one is {known}"
                )
            })?;
            compared += 1;
        }
        Ok(compared)
    }
}
