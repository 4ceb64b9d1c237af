//! The costs of the parts of a job.

use chomp_table::Head;

use super::{Forecast, as_f64};

/// The costs of the parts of a job: seconds of one thread, seconds of waiting, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Evaluation, for each position of a range. CPU time.
    pub position: f64,
    /// Evaluation, for each losing position that is scattered. CPU time.
    pub scattered: f64,
    /// Encoding a record, for each losing position. CPU time.
    pub encode: f64,
    /// Decoding a record and comparing its digest, for each losing position. CPU time.
    pub decode: f64,
    /// The bytes of a record for each losing position.
    pub record_bytes: f64,
    /// Merging and compressing shards, for each losing position, mirror images counted. CPU time.
    pub shard: f64,
    /// The bytes of shards, as a multiple of the entropy of their positions.
    pub shard_factor: f64,
    /// Other work of a worker for each range. CPU time.
    pub range: f64,
    /// The work of a worker for each record that it reads from the store, without decoding. CPU time.
    pub read: f64,
    /// The work of the coordinator for each task, and as much again for each range of it. CPU time.
    pub control: f64,
    /// How long a new object of the store takes to become durable, without the time to send its bytes.
    pub commit: f64,
    /// How long a record takes to arrive from the store, without the time to send its bytes.
    pub fetch: f64,
}

impl Costs {
    /// The mean of the costs that several threads measured at the same time.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn mean(all: &[Costs]) -> Costs {
        assert!(!all.is_empty(), "there is something to take the mean of");
        let mean =
            |part: fn(&Costs) -> f64| all.iter().map(part).sum::<f64>() / as_f64(all.len() as u64);
        Costs {
            position: mean(|costs| costs.position),
            scattered: mean(|costs| costs.scattered),
            encode: mean(|costs| costs.encode),
            decode: mean(|costs| costs.decode),
            record_bytes: mean(|costs| costs.record_bytes),
            shard: mean(|costs| costs.shard),
            shard_factor: mean(|costs| costs.shard_factor),
            range: mean(|costs| costs.range),
            read: mean(|costs| costs.read),
            control: mean(|costs| costs.control),
            commit: mean(|costs| costs.commit),
            fetch: mean(|costs| costs.fetch),
        }
    }

    /// The seconds of one thread for the evaluation of a range.
    pub fn evaluation(&self, forecast: &Forecast, head: Head) -> f64 {
        self.position * as_f64(forecast.range_bits().positions())
            + self.scattered * forecast.scattered(head)
    }

    /// The seconds of the coordinator for a task of `ranges` ranges.
    pub fn control(&self, ranges: usize) -> f64 {
        self.control * as_f64(ranges as u64 + 1)
    }
}
