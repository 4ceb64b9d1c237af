//! Small published tables of losing positions: the right one, by the definition, or one of any words.

use std::fs;
use std::path::{Path, PathBuf};

use crate::definition;
use chomp_table::fingerprint::FingerprintBuilder;
use chomp_table::manifest::{MANIFEST_NAME, Manifest, SHA256SUMS_NAME, folder_name, sha256sums};
use chomp_table::shard::{ShardInfo, ShardSize, ShardWriter};
use chomp_table::{RangeBits, Word};

/// Shards and frames that are small, so that there are several.
pub const SMALL: ShardSize = ShardSize {
    frame_words: 8,
    shard_words: 30,
};

/// The words that a table of `bits` bits stores: of the losing positions one of each mirror pair.
pub fn words(bits: u32) -> Vec<u64> {
    words_of(&definition::losing(bits))
}

/// The words that a table stores in which these positions are losing: those of the words 0, 2, 4, …
pub fn words_of(losing: &[bool]) -> Vec<u64> {
    let words = (0..losing.len()).filter(|&index| losing[index]);
    words
        .map(|index| Word::new(index as u64 * 2))
        .filter(|&word| word == word.representative())
        .map(Word::get)
        .collect()
}

/// The shards of a table of these words, and its manifest: digests and counts agree.
pub fn shards(bits: u32, size: ShardSize, mut words: &[u64]) -> (Manifest, Vec<Vec<u8>>) {
    let mut fingerprints = FingerprintBuilder::with_leaf(bits, size.shard_words);
    fingerprints.push(words);
    let (mut infos, mut files): (Vec<ShardInfo>, _) = (Vec::new(), Vec::new());
    while !words.is_empty() {
        let mut shard = ShardWriter::new(infos.len(), size);
        words = shard.push(words);
        let (info, _, bytes) = shard.finish();
        infos.push(info);
        files.push(bytes);
    }
    let range_bits = RangeBits::new(12).expect("a number of bits");
    let software = "chomp 0.0.0".into();
    let manifest = Manifest::new(range_bits, 1, software, fingerprints.finish(), infos);
    (manifest.expect("a table"), files)
}

/// Publishes the table of `bits` bits in `directory`, and returns its folder. Panics if it is there already, or cannot
/// be written.
pub fn publish(directory: &Path, bits: u32, size: ShardSize) -> PathBuf {
    publish_words(directory, bits, size, &words(bits))
}

/// Publishes `words` as a table of `bits` bits in `directory`, and returns its folder. Panics if it is there already,
/// or cannot be written.
pub fn publish_words(directory: &Path, bits: u32, size: ShardSize, words: &[u64]) -> PathBuf {
    let folder = directory.join(folder_name(bits));
    fs::create_dir(&folder).unwrap();
    let (manifest, shards) = shards(bits, size, words);
    for (info, bytes) in manifest.shards.iter().zip(shards) {
        fs::write(folder.join(&info.name), bytes).unwrap();
    }
    write_manifest(&folder, &manifest);
    folder
}

/// Writes `manifest` and the list of digests that goes with it. Panics if that is not possible.
pub fn write_manifest(folder: &Path, manifest: &Manifest) {
    let bytes = manifest.to_bytes();
    let sums = sha256sums(&bytes, manifest);
    fs::write(folder.join(SHA256SUMS_NAME), sums).unwrap();
    fs::write(folder.join(MANIFEST_NAME), bytes).unwrap();
}
