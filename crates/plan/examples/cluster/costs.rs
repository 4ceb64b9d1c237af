//! The costs of the parts of a job, and the machines that bear them.

use chomp_plan::forecast::{
    Forecast, HEADER_BYTES, as_f64, entropy_bytes, losing_total, positions, round,
};
use chomp_table::Head;

/// The bytes of a range in memory besides its positions, of two bytes each.
const RANGE_BYTES: u64 = 256;

/// The workers of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cluster {
    pub(crate) workers: u32,
    /// The threads of each worker, at least one.
    pub(crate) threads: u32,
    /// The bytes that each worker has for ranges.
    pub(crate) cache_bytes: u64,
    /// The threads of the coordinator's machine, at least one.
    pub(crate) coordinator_threads: u32,
    /// The bytes a second that go from the store to each worker, and as many back; without one, they
    /// take no time.
    pub(crate) bandwidth: Option<f64>,
}

/// The costs of the parts of a job: seconds of one thread, seconds of waiting, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Costs {
    /// Evaluation, for each position of a range. CPU time.
    pub(crate) position: f64,
    /// Evaluation, for each losing position that is scattered. CPU time.
    pub(crate) scattered: f64,
    /// Encoding a record, for each losing position. CPU time.
    pub(crate) encode: f64,
    /// Decoding a record and comparing its digest, for each losing position. CPU time.
    pub(crate) decode: f64,
    /// The bytes of a record for each losing position.
    pub(crate) record_bytes: f64,
    /// Merging and compressing shards, for each losing position, mirror images counted. CPU time.
    pub(crate) shard: f64,
    /// The bytes of shards, as a multiple of the entropy of their positions.
    pub(crate) shard_factor: f64,
    /// Other work of a worker for each range. CPU time.
    pub(crate) range: f64,
    /// The work of a worker for each record that it reads from the store, without decoding. CPU time.
    pub(crate) read: f64,
    /// The work of the coordinator for each task, and as much again for each range of it. CPU time.
    pub(crate) control: f64,
    /// How long a new object of the store takes to become durable, without the time to send its bytes.
    pub(crate) commit: f64,
    /// How long a record takes to arrive from the store, without the time to send its bytes.
    pub(crate) fetch: f64,
}

impl Costs {
    /// The seconds of one thread for the evaluation of a range.
    pub(crate) fn evaluation(&self, forecast: &Forecast, head: Head) -> f64 {
        self.position * as_f64(forecast.range_bits().positions())
            + self.scattered * forecast.scattered(head)
    }

    /// The seconds of the coordinator for a task of `ranges` ranges.
    pub(crate) fn control(&self, ranges: usize) -> f64 {
        self.control * as_f64(ranges as u64 + 1)
    }

    /// The bytes of the record of a range.
    pub(crate) fn record_bytes(&self, forecast: &Forecast, head: Head) -> f64 {
        forecast.losing(head) * self.record_bytes + HEADER_BYTES
    }

    /// The bytes of all shards.
    pub(crate) fn shard_bytes(&self, bits: u32) -> f64 {
        self.shard_factor * entropy_bytes(losing_total(bits) / 2.0, positions(bits))
    }
}

/// The bytes that a range takes of a worker's cache. Ranges have many sizes, so removed ranges leave holes that
/// are not all filled.
pub(crate) fn cache_bytes(forecast: &Forecast, head: Head) -> u64 {
    let buckets = forecast.range_bits().positions() >> 16;
    (RANGE_BYTES + 2 * round(forecast.losing(head)) + 4 * buckets) / 4 * 5
}
