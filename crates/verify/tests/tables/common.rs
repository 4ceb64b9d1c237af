//! Tables of any words, right or wrong.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::path::Path;

use chomp_table::Table;
use chomp_table::shard::ShardSize;
use chomp_testing::tables::publish_words;
pub(crate) use chomp_testing::tables::words as right_words;
use chomp_verify::bytes::{self, ComputedFacts, check_shard};
use chomp_verify::marking::{Band, WindowReport, window_count};
use chomp_verify::sample::{self, Sample, SampleReport};
use chomp_verify::{CheckError, UNWATCHED};

/// Small, so that there are many frames and shards.
const SIZE: ShardSize = ShardSize {
    frame_words: 50,
    shard_words: 400,
};

/// Compares all windows of a table; returns how many positions there are, and how many of them are
/// losing.
pub(crate) fn check_all(table: &Table, window_bits: u32) -> Result<(u64, u64), CheckError> {
    let mut sum = (0, 0);
    for number in 0..window_count(table.manifest().bits, window_bits) {
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
    sample::check_sample(table, asked(positions, seed, memory), UNWATCHED)
}

pub(crate) fn asked(positions: u64, seed: u64, memory: u64) -> Sample {
    Sample {
        positions,
        seed,
        memory,
    }
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
pub(crate) fn check_bytes(table: &Table) -> Result<ComputedFacts, CheckError> {
    let shards = 0..table.manifest().shards.len();
    let shards = shards.map(|number| check_shard(table, number));
    bytes::check_all(table, shards, UNWATCHED)
}

/// Publishes `words` in the directory `dir` as a table of `bits` bits whose manifest, counts and
/// digests are consistent, and opens it.
pub(crate) fn publish(dir: &Path, bits: u32, words: &[u64]) -> Table {
    publish_words(dir, bits, SIZE, words);
    Table::open(dir).unwrap()
}
