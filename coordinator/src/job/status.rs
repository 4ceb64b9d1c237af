//! The status of a coordinator's job: the JSON of `/status`, and the source of its metrics.

use std::collections::HashMap;
use std::time::Duration;

use chomp_plan::{JobProgress, ParticipantId, Phase, WorkerProgress};
use chomp_table::RangeBits;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Job;

/// The time after which a job that waits is worth a line in the log.
const WAITS: Duration = Duration::from_secs(3);
/// The least time between two such lines.
const TELL_EVERY: Duration = Duration::from_mins(1);

/// A phase of a job, as `/status` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobPhase {
    /// Ranges are missing.
    #[default]
    Running,
    /// All ranges are there, and the table is being made of them.
    Publishing,
    /// The table is published.
    Finished,
    /// The job cannot go on, or was told to stop.
    Stopped,
}

/// A job at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The bits of the table.
    pub bits: u32,
    /// The bits of a range.
    pub range_bits: u32,
    /// Whether it runs, publishes or has ended.
    pub phase: JobPhase,
    /// Why nothing is evaluated when nothing is, for people: nobody has joined, all wait for the
    /// last ranges of a layer, or the reason why the job stopped.
    pub waiting_for: Option<String>,
    /// The lowest layer that is not complete; the number of layers if all are.
    pub layer: u32,
    /// The number of layers.
    pub layers: u32,
    /// The number of ranges.
    pub ranges: u64,
    /// The ranges that are in the store.
    pub ranges_done: u64,
    /// Those of them that were there when this coordinator started.
    pub ranges_resumed: u64,
    /// The shards of the table; 0 as long as ranges are missing.
    pub shards: u64,
    /// The shards that are in the store.
    pub shards_done: u64,
    /// The part of the job's work that is done, from 0 to 1. Ranges differ in it; the publication
    /// belongs to it.
    pub done: f64,
    /// The positions of the table.
    pub positions: u64,
    /// The positions of the ranges that are in the store.
    pub positions_done: u64,
    /// The losing positions among them.
    pub losing: u64,
    /// How fast it goes, over the last minute or so.
    pub positions_per_second: f64,
    /// How long it will take to the end of the publication, by the work that is left and what was
    /// done in the last minute, if anything was.
    pub seconds_left: Option<f64>,
    /// The leases that stand.
    pub leases: u64,
    /// The results that wait for votes of others, or are being written.
    pub submissions: u64,
    /// The ranges and shards that are computed again, because workers disagreed or one of them is not trusted any more.
    pub arbitrations: u64,
    /// How many participants have to agree on a range.
    pub replicas: u32,
    /// The number of this owner of the table: larger than that of every other before.
    pub epoch: u64,
    /// The program, as `chomp 1.2.3`.
    pub software: String,
    /// How far each layer has come, from the lowest.
    pub layer_progress: Vec<LayerStatus>,
    /// The workers that are there.
    pub workers: Vec<WorkerStatus>,
}

/// A layer at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerStatus {
    /// The number of its ranges.
    pub ranges: u64,
    /// Those of them that are in the store.
    pub done: u64,
}

/// A worker at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its name, for people.
    pub name: String,
    /// The participant whose credential it has.
    pub participant: String,
    /// How many ranges it evaluates at a time.
    pub threads: u32,
    /// The leases that it holds.
    pub leases: u64,
    /// The ranges that it contributed.
    pub ranges: u64,
    /// How fast it goes, over the last minute or so.
    pub positions_per_second: f64,
    /// How often a task of its was lost.
    pub failures: u64,
    /// The bytes of the ranges that it keeps.
    pub cache_bytes: u64,
    /// How many sources it found there.
    pub cache_hits: u64,
    /// How many it had to fetch.
    pub cache_misses: u64,
    /// How long ago it was last heard of.
    pub last_contact_ms: u64,
    /// Why it gets no more tasks, if it does not.
    pub quarantined: Option<String>,
}

/// The wait of the job, and its line in the log.
#[derive(Debug, Default)]
pub(super) struct Waits {
    since: Option<Instant>,
    told: Option<(Instant, String)>,
}

impl Waits {
    /// Notes what the job waits for, if it does. It returns whether that is to be told.
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
    /// The job as it is now. The log hears what it waits for.
    pub(super) fn status(&mut self) -> Status {
        let now = Instant::now();
        let plan = &self.desk.plan;
        self.pace.note(now, plan);
        self.stats.retain(|&worker, _| plan.is_there(worker));
        self.newcomers.retain(|&worker, _| plan.is_there(worker));
        let progress = plan.progress();
        self.progress.send_replace(progress.clone());

        let (of_store, of_plan) = (self.tools.storage.waits_for(), plan.waits_for());
        // The store says itself in the log that it is waited for.
        let is_plain = of_store.is_none() && progress.phase == Phase::Running;
        let waits = of_plan.as_deref().filter(|_| is_plain);
        if self.waits.note(now, waits) {
            tracing::warn!("the job waits: {}", waits.unwrap_or_default());
        }
        let subject = &self.desk.subject;
        let range_bits = self.tools.journal.ledger().range_bits;
        let layers = plan.layer_progress();
        Status {
            waiting_for: of_store.or(of_plan),
            positions_per_second: self.pace.of_all() * positions_of_range(subject.bits, range_bits),
            seconds_left: self.pace.time_left().map(|left| left.as_secs_f64()),
            replicas: subject.replicas,
            epoch: self.tools.journal.epoch(),
            layer_progress: layers
                .map(|(ranges, done)| LayerStatus { ranges, done })
                .collect(),
            workers: self.workers(range_bits),
            ..Status::of(subject.bits, range_bits, &progress)
        }
    }

    /// Of workers with one name, as two containers may give it, each has a part of the number that it chose behind it.
    fn workers(&self, range_bits: RangeBits) -> Vec<WorkerStatus> {
        let workers: Vec<WorkerProgress> = self.desk.plan.workers().collect();
        let mut named = HashMap::<&str, u32>::new();
        for worker in &workers {
            *named.entry(&worker.name).or_default() += 1;
        }
        let (now, subject) = (self.now(), &self.desk.subject);
        let participants = subject.participants.borrow();
        let one = |worker: &WorkerProgress| {
            let id = worker.id;
            let ParticipantId(number) = id.participant;
            let participant = participants.get(number);
            let newcomer = self.newcomers.get(&id);
            let stats = self.stats.get(&id).copied().unwrap_or_default();
            WorkerStatus {
                name: match named[&*worker.name] {
                    1 => worker.name.clone(),
                    _ => format!("{} #{:04x}", worker.name, id.number & 0xffff),
                },
                participant: participant
                    .map_or_else(|| format!("number {number}"), |one| one.name.clone()),
                threads: newcomer.map_or(worker.threads, |newcomer| newcomer.threads),
                leases: worker.leases,
                ranges: worker.ranges,
                positions_per_second: self.pace.of_worker(id)
                    * positions_of_range(subject.bits, range_bits),
                failures: worker.failures,
                cache_bytes: stats.bytes,
                cache_hits: stats.hits,
                cache_misses: stats.misses,
                last_contact_ms: now.0.saturating_sub(worker.heard.0),
                quarantined: worker.quarantine.as_ref().map(ToString::to_string),
            }
        };
        workers.iter().map(one).collect()
    }
}

impl Status {
    /// What the progress of a job of `bits` bits tells.
    fn of(bits: u32, range_bits: RangeBits, progress: &JobProgress) -> Status {
        let positions = 1 << bits.saturating_sub(1);
        let finished = progress.phase == Phase::Finished;
        Status {
            bits,
            range_bits: range_bits.get(),
            phase: match progress.phase {
                Phase::Running if progress.layer == progress.layers => JobPhase::Publishing,
                Phase::Running => JobPhase::Running,
                Phase::Finished => JobPhase::Finished,
                Phase::Stopped(_) => JobPhase::Stopped,
            },
            layer: progress.layer,
            layers: progress.layers,
            ranges: progress.ranges,
            ranges_done: progress.ranges_done,
            ranges_resumed: progress.ranges_resumed,
            shards: progress.shards,
            shards_done: progress.shards_done,
            done: if finished { 1.0 } else { done(progress) },
            positions,
            positions_done: (progress.ranges_done * range_bits.positions()).min(positions),
            losing: progress.losing,
            leases: progress.leases,
            submissions: progress.submissions,
            arbitrations: progress.arbitrations,
            software: concat!("chomp ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..Status::default()
        }
    }
}

/// The positions of a range: no more than those of the table of `bits` bits.
#[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
fn positions_of_range(bits: u32, range_bits: RangeBits) -> f64 {
    range_bits.positions().min(1 << bits.saturating_sub(1)) as f64
}

/// The part of the work that is done.
#[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
fn done(progress: &JobProgress) -> f64 {
    let publication = progress.publication_work as f64;
    let merged = progress.shards_done as f64 / progress.shards.max(1) as f64;
    let done = progress.work_done as f64 + publication * merged;
    done / (progress.work as f64 + publication)
}

#[cfg(test)]
mod tests {
    use chomp_plan::WorkerId;

    use super::*;
    use crate::job::tests::job;
    use crate::testing::range_bits;

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
            ..job.desk.plan.progress()
        };
        let of = |progress: &_| Status::of(16, range_bits(), progress);
        let status = of(&progress);
        assert_eq!(status.phase, JobPhase::Running);
        let positions = (status.positions, status.positions_done);
        assert_eq!(positions, (1 << 15, 3 << 11));
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        // A quarter of the publication, too.
        near(status.done, 45.0 / 120.0);
        near(positions_of_range(16, range_bits()), 2048.0);
        near(positions_of_range(8, range_bits()), 128.0);
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
