//! How fast the job goes on, by the last minute, and how long it will take.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use chomp_plan::forecast::as_f64;
use chomp_plan::{JobProgress, Phase, WorkerId};
use tokio::time::Instant;

use crate::tools::Plan;

/// How old the oldest sample is at the most.
const SAMPLES_TIME: Duration = Duration::from_mins(1);
/// The least time over which a rate is measured before the time left is computed from it.
const RATE_AFTER: Duration = Duration::from_millis(300);

#[derive(Debug)]
struct PaceSample {
    at: Instant,
    progress: JobProgress,
    by_worker: HashMap<WorkerId, u64>,
}

/// The samples of the last minute: one for each status.
#[derive(Debug, Default)]
pub(super) struct JobPace(VecDeque<PaceSample>);

impl JobPace {
    pub(super) fn note(&mut self, at: Instant, plan: &Plan) {
        self.0.retain(|sample| at - sample.at <= SAMPLES_TIME);
        let workers = plan.workers();
        self.0.push_back(PaceSample {
            at,
            progress: plan.progress(),
            by_worker: workers.map(|worker| (worker.id, worker.ranges)).collect(),
        });
    }

    /// By how much `value` grows in a second.
    fn rate(&self, value: impl Fn(&PaceSample) -> f64) -> f64 {
        let (Some(first), Some(last)) = (self.0.front(), self.0.back()) else {
            return 0.0;
        };
        let seconds = (last.at - first.at).as_secs_f64();
        let grown = value(last) - value(first);
        if seconds > 0.0 {
            grown.max(0.0) / seconds
        } else {
            0.0
        }
    }

    /// Ranges per second.
    pub(super) fn of_all(&self) -> f64 {
        self.rate(|sample| as_f64(sample.progress.ranges_done))
    }

    /// Ranges per second of one worker.
    pub(super) fn of_worker(&self, worker: WorkerId) -> f64 {
        self.rate(|sample| as_f64(sample.by_worker.get(&worker).copied().unwrap_or(0)))
    }

    /// The time to the end of the publication, if anything was done in the last minute.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        if last.progress.phase != Phase::Running || last.at - first.at < RATE_AFTER {
            return None;
        }
        let a_second = self.rate(|sample| share_done(&sample.progress));
        Duration::try_from_secs_f64((1.0 - share_done(&last.progress)) / a_second).ok()
    }
}

pub(super) fn share_done(progress: &JobProgress) -> f64 {
    if progress.phase == Phase::Finished {
        return 1.0;
    }
    let publication = as_f64(progress.publication_work);
    let merged = as_f64(progress.shards_done) / as_f64(progress.shards.max(1));
    let done = as_f64(progress.work_done) + publication * merged;
    done / (as_f64(progress.work) + publication)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::job;

    #[test]
    fn the_last_minute_tells_the_pace() {
        let (job, ..) = job();
        let start = Instant::now();
        let ids = [7, 8, 9].map(WorkerId::only);
        let sample = |seconds, work_done, shards_done, by_worker: Vec<_>| PaceSample {
            at: start + Duration::from_secs(seconds),
            progress: JobProgress {
                ranges_done: work_done,
                work: 80,
                work_done,
                publication_work: 20,
                shards: 4,
                shards_done,
                ..job.plan.progress()
            },
            by_worker: by_worker.into_iter().collect(),
        };
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        let mut pace = JobPace::default();
        assert_eq!((pace.time_left(), pace.of_all()), (None, 0.0));
        // Units that were done before say nothing about the pace.
        pace.0.push_back(sample(0, 40, 0, vec![(ids[0], 2)]));
        assert_eq!((pace.time_left(), pace.of_all()), (None, 0.0));
        // One that is out is listed after those that are present.
        let ranges = vec![(ids[1], 3), (ids[0], 22)];
        pace.0.push_back(sample(10, 60, 0, ranges));
        near(pace.of_all(), 2.0);
        near(pace.time_left().unwrap().as_secs_f64(), 20.0);
        for (id, expected) in ids.into_iter().zip([2.0, 0.3, 0.0]) {
            near(pace.of_worker(id), expected);
        }
        // A shard is a quarter of the publication.
        pace.0.push_back(sample(20, 80, 1, Vec::new()));
        near(pace.time_left().unwrap().as_secs_f64(), 15.0 / 45.0 * 20.0);
        // Only the last minute counts.
        pace.note(start + Duration::from_secs(81), &job.plan);
        assert_eq!((pace.time_left(), pace.0.len()), (None, 1));
    }
}
