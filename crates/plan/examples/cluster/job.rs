//! A job that can be simulated: what its tasks take, and what was taken in the end.

use std::ops::AddAssign;

use chomp_plan::forecast::{Forecast, as_f64, losing_total, round};
use chomp_plan::{PlanError, Settings, Work};
use chomp_table::{Digest, Head, RangeSummary};

use crate::costs::Costs;

/// Longer than any job.
const NEVER_MS: u64 = u64::MAX / 4;
/// The records that are read at a time, for one task.
const READS_MAX: usize = 16;
/// The bytes of the records that are merged at a time.
const BATCH_BYTES: f64 = 1_048_576.0;
/// The CPU time for the SHA-256 of a byte of a shard that is read once more, on a CPU with instructions for it.
const HASH: f64 = 1e-9;

/// A job that can be simulated.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) settings: Settings,
    pub(crate) costs: Costs,
    pub(crate) forecast: Forecast,
    /// By head: the seconds of its evaluation, and the losing positions before the range.
    evaluation: Vec<f64>,
    before: Vec<f64>,
    /// The bytes of a shard.
    shard_bytes: f64,
}

/// The costs of tasks. Seconds are CPU time of the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// The records that are read, the batches that follow each other, and the bytes of all.
    pub(crate) records: u64,
    pub(crate) turns: f64,
    pub(crate) down: f64,
    /// Evaluation; reading, decoding and encoding records; and writing or reading shards.
    pub(crate) evaluation: f64,
    pub(crate) coding: f64,
    pub(crate) shards: f64,
    /// The bytes of the part or shard that is written.
    pub(crate) up: f64,
}

impl Load {
    pub(crate) fn seconds(&self) -> f64 {
        self.evaluation + self.coding + self.shards
    }
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Load) {
        self.records += other.records;
        self.turns += other.turns;
        self.down += other.down;
        self.evaluation += other.evaluation;
        self.coding += other.coding;
        self.shards += other.shards;
        self.up += other.up;
    }
}

/// The outcome of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// The seconds until the table is published.
    pub(crate) seconds: f64,
    /// The tasks, checks and shards included, and what they took.
    pub(crate) tasks: u64,
    pub(crate) load: Load,
    /// The CPU time of the coordinator.
    pub(crate) coordinator: f64,
    /// Whether something in the published table is wrong.
    pub(crate) is_wrong: bool,
    /// The ranges that the liar delivered since it began to lie, and how many these were when it was found out.
    pub(crate) delivered: u64,
    pub(crate) found_after: Option<u64>,
}

impl Outcome {
    /// All CPU time.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.load.seconds() + self.coordinator
    }
}

impl Job {
    /// The job of this forecast, with these costs.
    ///
    /// # Errors
    ///
    /// If it has more ranges than a plan holds.
    pub(crate) fn new(forecast: Forecast, costs: Costs) -> Result<Job, PlanError> {
        let settings = Settings {
            lease_ms: NEVER_MS,
            silence_ms: NEVER_MS,
            straggler_ms: NEVER_MS,
            ..Settings::new(forecast.bits(), forecast.range_bits())
        };
        settings.check()?;
        let heads = || (0..forecast.ranges()).map(Head);
        let stored = losing_total(forecast.bits()) / 2.0;
        let shards = (stored / as_f64(settings.shard_words)).max(1.0);
        let before = heads().scan(0.0, |sum, head| {
            let before = *sum;
            *sum += forecast.losing(head);
            Some(before)
        });
        let evaluation = heads().map(|head| costs.evaluation(&forecast, head));
        Ok(Job {
            settings,
            before: before.collect(),
            evaluation: evaluation.collect(),
            shard_bytes: costs.shard_bytes(forecast.bits()) / shards,
            costs,
            forecast,
        })
    }

    /// The load of a task whose worker reads these sources for it.
    pub(crate) fn load(&self, work: &Work, sources: &[Head]) -> Load {
        let costs = &self.costs;
        let count = |heads: &[Head]| as_f64(heads.len() as u64);
        let turns = |heads: &[Head]| as_f64(heads.len().div_ceil(READS_MAX) as u64);
        let losing = |heads: &[Head]| -> f64 {
            let of_each = |&head| self.forecast.losing(head);
            heads.iter().map(of_each).sum()
        };
        let bytes = |heads: &[Head]| -> f64 {
            let of_each = |&head| costs.record_bytes(&self.forecast, head);
            heads.iter().map(of_each).sum()
        };
        match work {
            Work::Evaluate { heads, .. } => Load {
                records: sources.len() as u64,
                turns: turns(sources),
                down: bytes(sources),
                evaluation: heads.iter().map(|&head| self.evaluation[index(head)]).sum(),
                coding: count(sources) * costs.read
                    + losing(sources) * costs.decode
                    + losing(heads) * costs.encode
                    + count(heads) * costs.range,
                shards: 0.0,
                up: bytes(heads),
            },
            Work::Merge {
                shard,
                head,
                written,
                ..
            } => {
                let heads = self.merged(*shard, *head);
                let down = bytes(&heads);
                // Who reads a shard merges it too, and compares the file.
                let read = if written.is_some() {
                    self.shard_bytes
                } else {
                    0.0
                };
                Load {
                    records: heads.len() as u64,
                    turns: turns(&heads).max(down / BATCH_BYTES),
                    down: down + read,
                    shards: count(&heads) * costs.read
                        + losing(&heads) * (costs.decode + costs.shard)
                        + read * HASH,
                    up: self.shard_bytes - read,
                    ..Load::default()
                }
            }
        }
    }

    /// The heads of the ranges that have the words of a shard. The shard begins in the range `first`.
    fn merged(&self, shard: u32, first: Head) -> Vec<Head> {
        let words = as_f64(self.settings.shard_words) * 2.0;
        let end = (f64::from(shard) + 1.0) * words;
        let beyond = self.before.partition_point(|&before| before < end) as u64;
        (first.0..beyond.max(first.0 + 1)).map(Head).collect()
    }

    pub(crate) fn summary(&self, head: Head, digest: Digest) -> RangeSummary {
        // Rounded so that all of them add up to what is before.
        let half = |losing: f64| round(losing / 2.0);
        let before = self.before[index(head)];
        let after = before + self.forecast.losing(head);
        RangeSummary {
            head,
            count: round(after) - round(before),
            stored: half(after) - half(before),
            digest,
        }
    }
}

pub(crate) fn index(head: Head) -> usize {
    usize::try_from(head.0).expect("a head of the table")
}

#[cfg(test)]
mod tests {
    use chomp_table::RangeBits;

    use super::*;

    fn job() -> Job {
        let forecast = Forecast::new(15, RangeBits::new(12).unwrap());
        Job::new(forecast, Costs::default()).unwrap()
    }

    #[test]
    fn a_shard_is_merged_of_the_ranges_with_its_words() {
        let mut job = job();
        job.settings.shard_words = 10;
        job.before = (0..6).map(|head| 10.0 * f64::from(head)).collect();
        // Both of each mirror pair are losing.
        for (shard, first, heads) in [(0, 0, 0..2), (1, 2, 2..4), (1, 1, 1..4), (0, 5, 5..6)] {
            let heads: Vec<Head> = heads.map(Head).collect();
            assert_eq!(job.merged(shard, Head(first)), heads);
        }
    }

    #[test]
    fn what_ranges_have_adds_up() {
        let job = job();
        let of_all = |part: fn(RangeSummary) -> u64| -> u64 {
            let heads = (0..job.forecast.ranges()).map(Head);
            heads
                .map(|head| part(job.summary(head, Digest([0; 32]))))
                .sum()
        };
        assert_eq!(of_all(|range| range.count), round(losing_total(15)));
        assert_eq!(of_all(|range| range.stored), round(losing_total(15) / 2.0));
    }
}
