//! Tables of any words, right or wrong.

#![expect(
    clippy::disallowed_methods,
    reason = "a table made for a test need not be durable"
)]

use std::fs;
use std::path::Path;

use chomp_table::fingerprint::FingerprintBuilder;
use chomp_table::manifest::{Manifest, folder_name, sha256sums};
use chomp_table::shard::{ShardInfo, ShardSize, ShardWriter};
use chomp_table::{RangeBits, Table, Word, definition};

/// Small, so that there are many frames and shards.
const SIZE: ShardSize = ShardSize {
    frame_words: 50,
    shard_words: 400,
};

/// The words that a table of `bits` bits has to store, by the definition.
pub(crate) fn right_words(bits: u32) -> Vec<u64> {
    let losing = definition::losing(bits);
    let words = (0..losing.len()).filter(|&index| losing[index]);
    let words = words.map(|index| Word::new(index as u64 * 2));
    words
        .filter(|&word| word == word.representative())
        .map(Word::get)
        .collect()
}

/// Publishes `words` in the directory `dir` as a table of `bits` bits whose manifest, counts and
/// digests are consistent, and opens it.
pub(crate) fn publish(dir: &Path, bits: u32, mut words: &[u64]) -> Table {
    let folder = dir.join(folder_name(bits));
    fs::create_dir(&folder).unwrap();
    let mut fingerprints = FingerprintBuilder::new(bits);
    fingerprints.push(words);
    let mut shards: Vec<ShardInfo> = Vec::new();
    while !words.is_empty() {
        let mut shard = ShardWriter::new(shards.len(), SIZE);
        words = shard.push(words);
        let (info, bytes) = shard.finish();
        fs::write(folder.join(&info.name), bytes).unwrap();
        shards.push(info);
    }
    let range_bits = RangeBits::new(12).unwrap();
    let fingerprints = fingerprints.finish();
    let manifest = Manifest::new(range_bits, 1, "a test".into(), fingerprints, shards);
    let bytes = manifest.to_bytes();
    fs::write(folder.join("SHA256SUMS"), sha256sums(&bytes, &manifest)).unwrap();
    fs::write(folder.join("manifest.json"), bytes).unwrap();
    Table::open(dir).unwrap()
}
