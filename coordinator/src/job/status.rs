//! The status of a coordinator's job: the JSON of `/status`, and the source of its metrics.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chomp_plan::{JobProgress, ParticipantId, Phase, WorkerProgress};
use chomp_serve::StatusText;
pub use chomp_serve::job::{JobPhase, LayerStatus, Status, WorkerStatus};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Job;
use super::pace::{JobPace, share_done};

/// The time from one status to the next, for as long as anybody follows the job.
pub(super) const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// The time after which a job that waits is worth a line in the log.
const WAITS: Duration = Duration::from_secs(3);
/// The least time between two such lines.
const TELL_EVERY: Duration = Duration::from_mins(1);

/// The newest status of the job: one for all that follow it.
#[derive(Clone, Debug)]
pub(crate) struct StatusFeed {
    pub(crate) status: watch::Receiver<Arc<Status>>,
    pub(crate) text: watch::Receiver<StatusText>,
}

/// Where statuses go, and what they are made of beside the plan.
#[derive(Debug, Default)]
pub(super) struct StatusMaker {
    status: watch::Sender<Arc<Status>>,
    text: watch::Sender<StatusText>,
    pace: JobPace,
    waits: Waits,
}

impl StatusMaker {
    pub(super) fn has_readers(&self) -> bool {
        self.status.receiver_count() + self.text.receiver_count() > 0
    }
}

/// The wait of the job, and its line in the log.
#[derive(Debug, Default)]
struct Waits {
    since: Option<Instant>,
    told: Option<(Instant, String)>,
}

impl Waits {
    /// Notes what the job waits for; `None` if it does not wait. Returns whether the caller has to log it.
    fn note(&mut self, now: Instant, what: Option<&str>) -> bool {
        let Some(what) = what else {
            self.since = None;
            return false;
        };
        let since = *self.since.get_or_insert(now);
        let is_new = self
            .told
            .as_ref()
            .is_none_or(|(at, told)| now - *at >= TELL_EVERY && (told != what || *at < since));
        let tells = is_new && now - since >= WAITS;
        if tells {
            self.told = Some((now, what.to_owned()));
        }
        tells
    }
}

impl Job {
    pub(crate) fn follow(&mut self) -> StatusFeed {
        self.send_status();
        StatusFeed {
            status: self.status.status.subscribe(),
            text: self.status.text.subscribe(),
        }
    }

    pub(super) fn send_status(&mut self) {
        let status = self.status();
        let StatusMaker {
            status: to, text, ..
        } = &self.status;
        text.send_replace(StatusText::new(&status));
        to.send_replace(Arc::new(status));
        // A reader that sees that the job has ended finds a status that says so.
        self.progress.send_replace(self.plan.progress());
    }

    /// The job as it is now. Logs what the job waits for.
    pub(crate) fn status(&mut self) -> Status {
        let now = Instant::now();
        let plan = &self.plan;
        self.status.pace.note(now, plan);
        let progress = plan.progress();
        let (of_store, of_plan) = (self.tools.storage.waits_for(), plan.waits_for());
        // The store logs its own waits. Only the plan's are logged here.
        let is_plain = of_store.is_none() && progress.phase == Phase::Running;
        let waits = of_plan.as_deref().filter(|_| is_plain);
        if self.status.waits.note(now, waits) {
            tracing::warn!("the job waits: {}", waits.unwrap_or_default());
        }
        Status {
            waiting_for: of_store.or(of_plan),
            ..self.status_of(&progress)
        }
    }

    fn status_of(&self, progress: &JobProgress) -> Status {
        let (bits, range_bits) = (self.tools.bits, self.tools.range_bits());
        let positions = 1 << bits.saturating_sub(1);
        let pace = &self.status.pace;
        Status {
            bits,
            range_bits: range_bits.get(),
            phase: match progress.phase {
                Phase::Running if progress.layer == progress.layers => JobPhase::Publishing,
                Phase::Running => JobPhase::Running,
                Phase::Finished => JobPhase::Finished,
                Phase::Stopped(_) => JobPhase::Stopped,
            },
            waiting_for: None,
            layer: progress.layer,
            layers: progress.layers,
            ranges: progress.ranges,
            ranges_done: progress.ranges_done,
            ranges_resumed: progress.ranges_resumed,
            shards: progress.shards,
            shards_done: progress.shards_done,
            done: share_done(progress),
            positions,
            positions_done: (progress.ranges_done * range_bits.positions()).min(positions),
            losing: progress.losing,
            positions_per_second: pace.of_all() * self.positions_of_range(),
            seconds_left: pace.time_left().map(|left| left.as_secs_f64()),
            leases: progress.leases,
            results_waiting: progress.results_waiting,
            arbitrations: progress.left_to_referee,
            replicas: self.replicas,
            epoch: self.tools.journal.epoch(),
            software: concat!("chomp ", env!("CARGO_PKG_VERSION")).to_owned(),
            layer_progress: self
                .plan
                .layer_progress()
                .map(|(ranges, done)| LayerStatus { ranges, done })
                .collect(),
            workers: self.workers(),
        }
    }

    /// The positions of a range: no more than those of the table.
    #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
    fn positions_of_range(&self) -> f64 {
        let positions = 1 << self.tools.bits.saturating_sub(1);
        self.tools.range_bits().positions().min(positions) as f64
    }

    /// If several workers have one name, as those of two containers may, each name is followed by the low digits of the
    /// worker's number.
    fn workers(&self) -> Vec<WorkerStatus> {
        let workers: Vec<WorkerProgress> = self.plan.workers().collect();
        let mut named = HashMap::<&str, u32>::new();
        for worker in &workers {
            *named.entry(&worker.name).or_default() += 1;
        }
        let now = self.time();
        let participants = self.participants.borrow();
        let one = |worker: &WorkerProgress| {
            let id = worker.id;
            let ParticipantId(number) = id.participant;
            let participant = participants.get(number);
            WorkerStatus {
                name: match named[&*worker.name] {
                    1 => worker.name.clone(),
                    _ => format!("{} #{:04x}", worker.name, id.number & 0xffff),
                },
                participant: participant
                    .map_or_else(|| format!("number {number}"), |one| one.name.clone()),
                threads: worker.threads,
                leases: worker.leases,
                ranges: worker.ranges,
                positions_per_second: self.status.pace.of_worker(id) * self.positions_of_range(),
                failures: worker.failures,
                unreadable: worker.unreadable,
                last_contact_ms: now.0.saturating_sub(worker.heard.0),
                out: worker.out.as_ref().map(ToString::to_string),
            }
        };
        workers.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use chomp_plan::WorkerId;

    use super::*;
    use crate::job::tests::job;

    #[test]
    fn a_status_is_that_of_the_job() {
        let (mut job, ..) = job();
        for (number, name) in [(1, "w"), (2, "v"), (0x7_0002, "w")] {
            let worker = WorkerId::new(7, number);
            job.join(worker, name.to_owned(), 2).unwrap();
        }
        let status = job.status();
        let workers = status.workers.iter();
        let told = workers.map(|one| (&*one.name, &*one.participant, one.threads));
        let expected = [("w #0001", 2), ("v", 2), ("w #0002", 2)];
        assert!(told.eq(expected.map(|(name, threads)| (name, "number 7", threads))));
        assert_eq!((status.bits, status.range_bits), (20, 12));

        let mut progress = JobProgress {
            ranges_done: 3,
            shards: 4,
            shards_done: 1,
            work: 100,
            work_done: 40,
            publication_work: 20,
            ..job.plan.progress()
        };
        let of = |progress: &_| job.status_of(progress);
        let status = of(&progress);
        assert_eq!(status.phase, JobPhase::Running);
        let positions = (status.positions, status.positions_done);
        assert_eq!(positions, (1 << 19, 3 << 11));
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        // A quarter of the publication, too.
        near(status.done, 45.0 / 120.0);
        near(job.positions_of_range(), 2048.0);
        progress.layer = progress.layers;
        assert_eq!(of(&progress).phase, JobPhase::Publishing);
        progress.phase = Phase::Finished;
        let status = of(&progress);
        assert_eq!(status.phase, JobPhase::Finished);
        near(status.done, 1.0);
    }

    #[test]
    fn a_job_that_waits_is_told_once_and_seldom_again() {
        let start = Instant::now();
        let mut waits = Waits::default();
        for (second, what, told) in [
            (0, Some("a"), false),
            (2, Some("b"), false),
            (3, Some("b"), true),
            (30, Some("c"), false),
            (62, Some("c"), false),
            (63, Some("c"), true),
            (200, Some("c"), false),
            (201, None, false),
            (202, Some("c"), false),
            (204, Some("c"), false),
            (205, Some("c"), true),
        ] {
            let now = start + Duration::from_secs(second);
            assert_eq!(waits.note(now, what), told, "{second}");
        }
    }
}
