//! The time and the bytes that a simulated job took.

use chomp_table::Head;

use super::job::Job;
use super::{Nanos, seconds};
use chomp_plan::Work;
use chomp_plan::forecast::{HASH, as_f64};

/// The time and the bytes that a simulated job took. Seconds are CPU time but for the first two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Prediction {
    /// The seconds until the table is published.
    pub(crate) seconds: f64,
    /// The seconds until the first shard is begun.
    pub(crate) ranges_seconds: f64,
    /// The tasks, checks and shards included.
    pub(crate) tasks: u64,
    /// The bytes of records that workers read.
    pub(crate) fetched: f64,
    /// The records that they read.
    pub(crate) records_read: u64,
    /// The bytes of parts and shards that they wrote.
    pub(crate) put: f64,
    /// Evaluation, checks included.
    pub(crate) evaluation_seconds: f64,
    /// Reading, decoding and encoding records.
    pub(crate) coding_seconds: f64,
    /// Writing shards, and reading those of others.
    pub(crate) shard_seconds: f64,
    /// The coordinator's work.
    pub(crate) coordinator_seconds: f64,
}

impl Prediction {
    /// All CPU time.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.evaluation_seconds
            + self.coding_seconds
            + self.shard_seconds
            + self.coordinator_seconds
    }
}

#[derive(Debug, Default)]
pub(super) struct Profile {
    pub(super) outcome: Prediction,
}

impl Profile {
    pub(super) fn begun(&mut self, work: &Work, now: Nanos) {
        self.outcome.tasks += 1;
        if matches!(work, Work::Merge { .. }) && self.outcome.ranges_seconds == 0.0 {
            self.outcome.ranges_seconds = seconds(now);
        }
    }

    /// The seconds that a task takes on a thread of its worker, and the bytes of its result. `reads`
    /// records of `bytes` bytes are read, sources with `losing` positions among them.
    pub(super) fn work(
        &mut self,
        job: &Job,
        work: &Work,
        reads: usize,
        losing: f64,
        bytes: f64,
    ) -> (f64, f64) {
        let costs = &job.costs;
        let outcome = &mut self.outcome;
        let reading = as_f64(reads as u64) * costs.read + losing * costs.decode;
        outcome.fetched += bytes;
        outcome.records_read += reads as u64;
        let (seconds, put) = match work {
            Work::Evaluate { heads, .. } => {
                let of = |values: &[f64]| -> f64 {
                    heads.iter().map(|&head| values[super::index(head)]).sum()
                };
                let evaluation = of(&job.evaluation);
                let count = as_f64(heads.len() as u64);
                let coding = reading + of(&job.losing) * costs.encode + count * costs.range;
                outcome.evaluation_seconds += evaluation;
                outcome.coding_seconds += coding;
                let put = heads.iter().map(|&head| job.record_bytes(head)).sum();
                (evaluation + coding, put)
            }
            Work::Merge {
                written: Some(_), ..
            } => {
                let hashing = bytes * HASH;
                outcome.shard_seconds += hashing;
                (hashing, 0.0)
            }
            Work::Merge { shard, head, .. } => {
                let heads = job.merged(*shard, *head);
                let merged: f64 = heads.map(|head| job.losing(Head(head as u64))).sum();
                let merging = reading + merged * (costs.decode + costs.shard);
                outcome.shard_seconds += merging;
                (merging, job.shard_bytes)
            }
        };
        outcome.put += put;
        (seconds, put)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_take_until_the_first_shard_is_begun() {
        let merge = |shard| Work::Merge {
            shard,
            head: Head(0),
            skip: 0,
            written: None,
        };
        let evaluate = Work::Evaluate {
            layer: 0,
            heads: vec![Head(0)],
        };
        let mut profile = Profile::default();
        for (work, at, until) in [
            (evaluate, 1, 0.0_f64),
            (merge(0), 2, 2.0),
            (merge(1), 3, 2.0),
        ] {
            profile.begun(&work, at * 1_000_000_000);
            assert!((profile.outcome.ranges_seconds - until).abs() < 1e-9);
        }
        assert_eq!(profile.outcome.tasks, 3);
    }
}
