//! A job that can be simulated.

use std::ops::Range;

use chomp_table::{Digest, Head, RangeSummary};

use super::{NEVER_MS, index};
use chomp_plan::forecast::{Costs, Forecast, HEADER_BYTES, as_f64, losing_total, round};
use chomp_plan::{PlanError, Settings};

/// A job that can be simulated.
#[derive(Debug)]
pub(crate) struct Job {
    pub(super) settings: Settings,
    pub(super) costs: Costs,
    /// By head: the expected losing positions, the seconds of its evaluation, and its bytes in a cache.
    pub(super) losing: Vec<f64>,
    pub(super) evaluation: Vec<f64>,
    pub(super) weights: Vec<u64>,
    /// By head: the losing positions before the range.
    pub(super) before: Vec<f64>,
    /// The bytes of a shard.
    pub(super) shard_bytes: f64,
}

impl Job {
    /// The job of this forecast, with these costs.
    ///
    /// # Errors
    ///
    /// If it has more ranges than a plan holds.
    pub(crate) fn new(forecast: &Forecast, costs: &Costs) -> Result<Job, PlanError> {
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
        let losing: Vec<f64> = heads().map(|head| forecast.losing(head)).collect();
        let before = losing.iter().scan(0.0, |sum, losing| {
            let before = *sum;
            *sum += losing;
            Some(before)
        });
        Ok(Job {
            settings,
            costs: *costs,
            before: before.collect(),
            evaluation: heads()
                .map(|head| costs.evaluation(forecast, head))
                .collect(),
            weights: heads().map(|head| forecast.cache_bytes(head)).collect(),
            losing,
            shard_bytes: forecast.shard_bytes(costs.shard_factor) / shards,
        })
    }

    pub(super) fn losing(&self, head: Head) -> f64 {
        self.losing[index(head)]
    }

    pub(super) fn record_bytes(&self, head: Head) -> f64 {
        self.losing(head) * self.costs.record_bytes + HEADER_BYTES
    }

    /// The heads of the ranges that have the words of a shard. The shard begins in the range `first`.
    pub(super) fn merged(&self, shard: u32, first: Head) -> Range<usize> {
        let words = as_f64(self.settings.shard_words) * 2.0;
        let end = (f64::from(shard) + 1.0) * words;
        let beyond = self.before.partition_point(|&before| before < end);
        index(first)..beyond.max(index(first) + 1)
    }

    pub(super) fn summary(&self, head: Head) -> RangeSummary {
        // Rounded so that all of them add up to what is before.
        let half = |losing: f64| round(losing / 2.0);
        let before = self.before[index(head)];
        let after = before + self.losing(head);
        RangeSummary {
            head,
            count: round(after) - round(before),
            stored: half(after) - half(before),
            digest: Digest([0; 32]),
        }
    }
}

#[cfg(test)]
mod tests {
    use chomp_table::RangeBits;

    use super::*;

    /// Six ranges of so many losing positions, and shards of ten words.
    fn job(losing: f64) -> Job {
        let forecast = Forecast::new(15, RangeBits::new(12).unwrap());
        let mut job = Job::new(&forecast, &Costs::default()).unwrap();
        job.settings.shard_words = 10;
        job.losing = vec![losing; 6];
        job.before = (0..6).map(|head| losing * f64::from(head)).collect();
        job
    }

    #[test]
    fn a_shard_is_merged_of_the_ranges_with_its_words() {
        // Both of each mirror pair are losing.
        for (shard, first, heads) in [(0, 0, 0..2), (1, 2, 2..4), (1, 1, 1..4), (0, 5, 5..6)] {
            assert_eq!(job(10.0).merged(shard, Head(first)), heads);
        }
    }

    #[test]
    fn what_ranges_have_adds_up() {
        let job = job(3.0);
        let summaries = (0..6).map(|head| job.summary(Head(head)));
        let counts: Vec<_> = summaries.map(|range| (range.count, range.stored)).collect();
        assert_eq!(counts, [(3, 2), (3, 1), (3, 2), (3, 1), (3, 2), (3, 1)]);
    }
}
