//! How fast the job goes on, by the last minute, and how long it will take.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use chomp_plan::forecast::as_f64;
use chomp_plan::{JobProgress, Phase, Plan, WorkerId};

/// The time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// How old the oldest sample is at the most.
const SAMPLES_TIME: Duration = Duration::from_mins(1);
/// The least time over which a rate is measured before it tells the time left.
const RATE_AFTER: Duration = Duration::from_millis(300);

/// The progress at one moment.
#[derive(Debug)]
struct PaceSample {
    at: Instant,
    progress: JobProgress,
    /// Ascending.
    by_worker: Vec<(WorkerId, u64)>,
}

/// The samples of the last minute, and the latest progress.
#[derive(Debug, Default)]
pub(super) struct JobPace {
    samples: VecDeque<PaceSample>,
    /// When shards were first seen, and how many were done then.
    publishing: Option<(Instant, u64)>,
    last: Option<(Instant, JobProgress)>,
}

impl JobPace {
    /// Takes in what is done now.
    pub(super) fn note(&mut self, now: Instant, plan: &Plan) {
        let progress = plan.progress();
        // The table is cut into shards when all ranges are there, until one is lost.
        // It may go on from where another was interrupted.
        let begin = self.publishing.unwrap_or((now, progress.shards_done));
        self.publishing = (progress.shards > 0).then_some(begin);
        let newest = self.samples.back();
        if newest.is_none_or(|newest| now - newest.at >= SAMPLE_EVERY) {
            self.samples
                .retain(|sample| now - sample.at <= SAMPLES_TIME);
            self.samples.push_back(PaceSample {
                at: now,
                progress: progress.clone(),
                by_worker: plan
                    .workers()
                    .map(|worker| (worker.id, worker.ranges))
                    .collect(),
            });
        }
        self.last = Some((now, progress));
    }

    /// Ranges per second.
    pub(super) fn of_all(&self) -> f64 {
        let (Some((now, last)), Some(first)) = (&self.last, self.samples.front()) else {
            return 0.0;
        };
        let done = last.ranges_done.saturating_sub(first.progress.ranges_done);
        rate(*now - first.at, done)
    }

    /// Ranges per second of one worker.
    pub(super) fn of_worker(&self, worker: WorkerId) -> f64 {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return 0.0;
        };
        let count = |sample: &PaceSample| {
            let at = sample
                .by_worker
                .binary_search_by_key(&worker, |&(id, _)| id);
            at.map_or(0, |at| sample.by_worker[at].1)
        };
        rate(last.at - first.at, count(last).saturating_sub(count(first)))
    }

    /// The time to the end of the publication, if anything was done in the last minute.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let (now, last) = self.last.as_ref()?;
        if last.phase != Phase::Running {
            return None;
        }
        let seconds = if let Some((since, done_then)) = self.publishing {
            let done = last.shards_done.saturating_sub(done_then);
            let merging = rate_since(*now - since, done)?;
            as_f64(last.shards - last.shards_done) / merging
        } else {
            let first = self.samples.front()?;
            let done = last.work_done.saturating_sub(first.progress.work_done);
            let work = rate_since(*now - first.at, done)?;
            as_f64(last.work - last.work_done + last.publication_work) / work
        };
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// The rate, if enough was done in enough time.
fn rate_since(time: Duration, count: u64) -> Option<f64> {
    (count > 0 && time >= RATE_AFTER).then(|| rate(time, count))
}

fn rate(time: Duration, count: u64) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds == 0.0 {
        return 0.0;
    }
    as_f64(count) / seconds
}

#[cfg(test)]
mod tests {
    use chomp_table::head::layers;
    use chomp_table::{Digest, Head, RangeSummary};

    use super::*;
    use crate::testing::range_bits;
    use chomp_plan::{Past, Settings};

    /// A plan of 16 ranges, those of the lowest layers done.
    fn plan(layers_done: usize) -> Plan {
        let range_bits = range_bits();
        let done = layers(16, range_bits)[..layers_done].concat();
        let done: Vec<RangeSummary> = done.into_iter().map(summary).collect();
        let settings = Settings::new(16, range_bits);
        let past = Past {
            ranges: done,
            ..Past::default()
        };
        Plan::new(settings, &past).unwrap().0
    }

    fn summary(head: Head) -> RangeSummary {
        RangeSummary {
            head,
            count: 1,
            stored: 1,
            digest: Digest([0; 32]),
        }
    }

    #[test]
    fn the_time_left_follows_from_the_work_of_this_run_alone() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pace = JobPace::default();
        // Five ranges were there before: they say nothing about how fast it goes.
        pace.note(at(0), &plan(4));
        assert_eq!(pace.time_left(), None);
        pace.note(at(10), &plan(4));
        assert_eq!(pace.time_left(), None, "nothing is done yet");
        pace.note(at(20), &plan(6));
        let (before, now) = (plan(4).progress(), plan(6).progress());
        let a_second = as_f64(now.work_done - before.work_done) / 20.0;
        let left = as_f64(now.work - now.work_done + now.publication_work) / a_second;
        let told = pace.time_left().unwrap().as_secs_f64();
        assert!((told - left).abs() < 1e-6, "{told} {left}");
        let ranges = as_f64(now.ranges_done - before.ranges_done);
        assert!((pace.of_all() - ranges / 20.0).abs() < 1e-9);
        assert_eq!(rate_since(RATE_AFTER, 0), None);
        // Only the last minute counts.
        for second in 21..90 {
            pace.note(at(second), &plan(6));
        }
        assert_eq!(pace.time_left(), None);
        for (seconds, is_told) in [(60, true), (61, false)] {
            let mut pace = JobPace::default();
            pace.note(at(0), &plan(4));
            pace.note(at(seconds), &plan(6));
            assert_eq!(pace.time_left().is_some(), is_told, "{seconds}");
        }
    }

    #[test]
    fn each_worker_has_a_pace() {
        let (start, progress) = (Instant::now(), plan(4).progress());
        let ids = [7, 8, 9].map(WorkerId::only);
        let sample = |seconds, by_worker| PaceSample {
            at: start + Duration::from_secs(seconds),
            progress: progress.clone(),
            by_worker,
        };
        let pace = JobPace {
            samples: VecDeque::from([
                sample(0, vec![(ids[0], 2)]),
                sample(5, vec![(ids[0], 3)]),
                sample(10, vec![(ids[0], 22), (ids[1], 3)]),
            ]),
            ..JobPace::default()
        };
        for (id, expected) in ids.into_iter().zip([2.0, 0.3, 0.0]) {
            assert!((pace.of_worker(id) - expected).abs() < 1e-9, "{id:?}");
        }
    }

    /// As soon as all ranges are there, and until one of them is lost.
    #[test]
    fn a_publication_begins_with_the_last_range() {
        let now = Instant::now();
        let mut pace = JobPace::default();
        for (layers, publishes) in [(10, false), (11, true), (11, true), (10, false)] {
            pace.note(now, &plan(layers));
            assert_eq!(pace.publishing, publishes.then_some((now, 0)), "{layers}");
        }
    }

    #[test]
    fn a_publication_has_a_pace_of_its_own() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pace = JobPace::default();
        pace.note(at(0), &plan(0));
        pace.note(at(100), &plan(11));
        let progress = |shards_done| JobProgress {
            shards: 19,
            shards_done,
            ..plan(11).progress()
        };
        // It goes on from where another was interrupted.
        pace.publishing = Some((at(102), 5));
        pace.last = Some((at(102), progress(5)));
        assert_eq!(pace.time_left(), None, "it has only begun");
        pace.last = Some((at(108), progress(9)));
        let left = pace.time_left().unwrap().as_secs_f64();
        assert!((left - 15.0).abs() < 1e-9, "{left}");
    }
}
