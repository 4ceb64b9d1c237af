//! Tables of any words, right or wrong.

#![expect(
    clippy::disallowed_methods,
    reason = "a table made for a test need not be durable"
)]
#![allow(dead_code, reason = "each test file uses a part of this")]

use std::fs;
use std::path::Path;

use chomp_table::fingerprint::FingerprintBuilder;
use chomp_table::manifest::{Manifest, folder_name, sha256sums};
use chomp_table::shard::{ShardInfo, ShardSize, ShardWriter};
use chomp_table::{RangeBits, Table, Word, definition};
use chomp_verify::bytes::{self, Content, check_shard};
use chomp_verify::marking::{Band, WindowReport, windows};
use chomp_verify::sample::{self, Sample, SampleReport};
use chomp_verify::{CheckError, UNWATCHED};

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

/// Compares all windows of a table; returns how many positions there are, and how many of them are
/// losing.
pub(crate) fn check_all(table: &Table, window_bits: u32) -> Result<(u64, u64), CheckError> {
    let mut sum = (0, 0);
    for number in 0..windows(table.manifest().bits, window_bits) {
        let report = check_window(table, window_bits, number)?;
        sum = (sum.0 + report.positions, sum.1 + report.losing);
    }
    Ok(sum)
}

/// Decides `positions` random positions.
pub(crate) fn check_sample(
    table: &Table,
    positions: u64,
    seed: u64,
    memory: u64,
) -> Result<SampleReport, CheckError> {
    let sample = Sample {
        positions,
        seed,
        memory,
    };
    sample::check_sample(table, sample, UNWATCHED)
}

/// A window that is a band of its own.
pub(crate) fn check_window(
    table: &Table,
    window_bits: u32,
    number: u64,
) -> Result<WindowReport, CheckError> {
    let band = Band::gather(table, window_bits, number, UNWATCHED)?;
    band.check_window(window_bits, number, UNWATCHED)
}

/// Every byte, in one thread.
pub(crate) fn check_bytes(table: &Table) -> Result<Content, CheckError> {
    let shards = 0..table.manifest().shards.len();
    let shards = shards.map(|number| check_shard(table, number));
    bytes::check_all(table, shards, UNWATCHED)
}

/// Publishes `words` in the directory `dir` as a table of `bits` bits whose manifest, counts and
/// digests are consistent, and opens it.
pub(crate) fn publish(dir: &Path, bits: u32, mut words: &[u64]) -> Table {
    let folder = dir.join(folder_name(bits));
    fs::create_dir(&folder).unwrap();
    let mut fingerprints = FingerprintBuilder::with_leaf(bits, SIZE.shard_words);
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
