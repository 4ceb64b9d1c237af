//! A small published table, by the definition.

use std::fs;
use std::path::{Path, PathBuf};

use chomp_table::fingerprint::FingerprintBuilder;
use chomp_table::manifest::{Manifest, folder_name, sha256sums};
use chomp_table::shard::{ShardInfo, ShardSize, ShardWriter};
use chomp_table::{RangeBits, Word, definition};

/// Shards and frames that are small, so that there are several.
pub(crate) const SMALL: ShardSize = ShardSize {
    frame_words: 8,
    shard_words: 30,
};

/// The representative words of the losing positions of at most `bits` bits.
pub(crate) fn words(bits: u32) -> Vec<u64> {
    let losing = definition::losing(bits);
    let words = (0..losing.len())
        .filter(|&index| losing[index])
        .map(|index| Word::new(index as u64 * 2));
    words
        .filter(|&word| word == word.representative())
        .map(Word::get)
        .collect()
}

/// Publishes the table of `bits` bits in the directory `dir`, and returns its folder.
pub(crate) fn publish_small(dir: &Path, bits: u32, size: ShardSize) -> PathBuf {
    publish_words(dir, bits, size, &words(bits))
}

/// Publishes `words` as a table of `bits` bits in the directory `dir`, and returns its folder.
pub(crate) fn publish_words(dir: &Path, bits: u32, size: ShardSize, mut words: &[u64]) -> PathBuf {
    let folder = dir.join(folder_name(bits));
    fs::create_dir(&folder).unwrap();
    let mut fingerprints = FingerprintBuilder::with_leaf(bits, size.shard_words);
    fingerprints.push(words);
    let mut shards: Vec<ShardInfo> = Vec::new();
    while !words.is_empty() {
        let mut shard = ShardWriter::new(shards.len(), size);
        words = shard.push(words);
        let (info, bytes) = shard.finish();
        fs::write(folder.join(&info.name), bytes).unwrap();
        shards.push(info);
    }
    let range_bits = RangeBits::new(12).unwrap();
    let manifest = Manifest::new(
        range_bits,
        1,
        "chomp 0.0.0".into(),
        fingerprints.finish(),
        shards,
    );
    write_manifest(&folder, &manifest);
    folder
}

/// Writes `manifest` and the list of digests that goes with it.
pub(crate) fn write_manifest(folder: &Path, manifest: &Manifest) {
    let bytes = manifest.to_bytes();
    fs::write(folder.join("SHA256SUMS"), sha256sums(&bytes, manifest)).unwrap();
    fs::write(folder.join("manifest.json"), bytes).unwrap();
}
