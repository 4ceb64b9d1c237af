//! How fast the job goes on: the ranges of the last minute.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::plan::{Plan, WorkerId};

/// The time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// How many samples are kept: those of a minute.
const SAMPLES: usize = 61;

/// What was done at some time.
#[derive(Debug)]
struct Sample {
    at: Instant,
    ranges: u64,
    by_worker: BTreeMap<WorkerId, u64>,
}

/// What was done at some times of the last minute.
#[derive(Debug, Default)]
pub(super) struct Pace(VecDeque<Sample>);

impl Pace {
    /// Takes a sample, if it is time for one.
    pub(super) fn note(&mut self, now: Instant, plan: &Plan) {
        if self
            .0
            .back()
            .is_some_and(|last| now - last.at < SAMPLE_EVERY)
        {
            return;
        }
        if self.0.len() == SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back(Sample {
            at: now,
            ranges: plan.progress().ranges_done,
            by_worker: plan
                .workers()
                .map(|worker| (worker.id, worker.ranges))
                .collect(),
        });
    }

    /// Ranges per second.
    pub(super) fn of_all(&self) -> f64 {
        self.rate(|sample| sample.ranges)
    }

    /// Ranges per second of one worker.
    pub(super) fn of_worker(&self, worker: WorkerId) -> f64 {
        self.rate(|sample| sample.by_worker.get(&worker).copied().unwrap_or(0))
    }

    fn rate(&self, count: impl Fn(&Sample) -> u64) -> f64 {
        let (Some(first), Some(last)) = (self.0.front(), self.0.back()) else {
            return 0.0;
        };
        let seconds = (last.at - first.at).as_secs_f64();
        if seconds == 0.0 {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let ranges = count(last).saturating_sub(count(first)) as f64;
        ranges / seconds
    }
}
