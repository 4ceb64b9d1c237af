//! What the parts of a job cost.

use chomp_table::Head;

use super::{Forecast, as_f64};

/// What things cost: seconds of one thread, seconds of waiting, and bytes.
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
    /// The bytes of shards, beside the entropy of their positions.
    pub shard_factor: f64,
    /// What a worker does for each range besides. CPU time.
    pub range: f64,
    /// What a worker does for each record that it reads from the store, besides decoding. CPU time.
    pub read: f64,
    /// What the coordinator does for each task, and as much again for each range of it. CPU time.
    pub control: f64,
    /// How long it takes until a new object of the store is durable, its bytes not counted.
    pub commit: f64,
    /// How long it takes until a record arrives that is read, its bytes not counted.
    pub fetch: f64,
}

impl Costs {
    /// The mean of what several threads measured at the same time.
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

    /// The seconds of the coordinator for a task of so many ranges.
    pub fn control(&self, ranges: usize) -> f64 {
        self.control * as_f64(ranges as u64 + 1)
    }
}
