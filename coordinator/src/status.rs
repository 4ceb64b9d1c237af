//! The status of a coordinator's job: the JSON of `/status`, and the source of its metrics.

use std::collections::BTreeMap;

use chomp_table::RangeBits;
use serde::{Deserialize, Serialize};

use crate::job::{Snapshot, WorkerSnapshot};
use crate::roster::Roster;
use chomp_plan::{JobProgress, Phase};

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
    /// The ranges that are on disk.
    pub ranges_done: u64,
    /// Those of them that were there when this coordinator started.
    pub ranges_resumed: u64,
    /// The shards of the table; 0 as long as ranges are missing.
    pub shards: u64,
    /// The shards that are on disk.
    pub shards_done: u64,
    /// The part of the job's work that is done, from 0 to 1. Ranges differ in it; the publication
    /// belongs to it.
    pub done: f64,
    /// The positions of the table.
    pub positions: u64,
    /// The positions of the ranges that are on disk.
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
    /// Those of them that are on disk.
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

/// The constants of one run of a coordinator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobInfo {
    pub(crate) range_bits: RangeBits,
    pub(crate) size: u32,
    pub(crate) replicas: u32,
    pub(crate) epoch: u64,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "rates and times left need not be exact"
)]
impl Status {
    pub(crate) fn of(told: &JobInfo, snapshot: Snapshot, roster: &Roster) -> Status {
        let progress = snapshot.progress;
        let positions = 1 << told.size.saturating_sub(1);
        let positions_done = (progress.ranges_done * told.range_bits.positions()).min(positions);
        let in_range = told.range_bits.positions().min(positions) as f64;
        let positions_per_second = snapshot.ranges_per_second * in_range;
        let finished = snapshot.phase == Phase::Finished;
        Status {
            bits: told.size,
            range_bits: told.range_bits.get(),
            phase: match snapshot.phase {
                Phase::Running if progress.layer == progress.layers => JobPhase::Publishing,
                Phase::Running => JobPhase::Running,
                Phase::Finished => JobPhase::Finished,
                Phase::Stopped(_) => JobPhase::Stopped,
            },
            waiting_for: snapshot.waits_for,
            layer: progress.layer,
            layers: progress.layers,
            ranges: progress.ranges,
            ranges_done: progress.ranges_done,
            ranges_resumed: progress.ranges_resumed,
            shards: progress.shards,
            shards_done: progress.shards_done,
            done: if finished { 1.0 } else { done(&progress) },
            positions,
            positions_done,
            losing: progress.losing,
            positions_per_second,
            seconds_left: snapshot.time_left.map(|left| left.as_secs_f64()),
            leases: progress.leases,
            submissions: progress.submissions,
            arbitrations: progress.arbitrations,
            replicas: told.replicas,
            epoch: told.epoch,
            software: concat!("chomp ", env!("CARGO_PKG_VERSION")).to_owned(),
            layer_progress: snapshot
                .layers
                .into_iter()
                .map(|(ranges, done)| LayerStatus { ranges, done })
                .collect(),
            workers: WorkerStatus::of_all(snapshot.workers, in_range, roster),
        }
    }
}

/// The part of the work that is done.
#[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
fn done(progress: &JobProgress) -> f64 {
    let publication = progress.publication_work as f64;
    let merged = progress.shards_done as f64 / progress.shards.max(1) as f64;
    let done = progress.work_done as f64 + publication * merged;
    done / (progress.work as f64 + publication)
}

impl WorkerStatus {
    /// Of workers with one name, as two containers may give it, each has a part of the number that it chose behind it.
    fn of_all(workers: Vec<WorkerSnapshot>, in_range: f64, roster: &Roster) -> Vec<WorkerStatus> {
        let mut named = BTreeMap::<String, u32>::new();
        for worker in &workers {
            *named.entry(worker.progress.name.clone()).or_default() += 1;
        }
        let one = |worker: WorkerSnapshot| {
            let number = worker.progress.id.number & 0xffff;
            let mut status = WorkerStatus::of(worker, in_range, roster);
            if named[&status.name] > 1 {
                status.name = format!("{} #{number:04x}", status.name);
            }
            status
        };
        workers.into_iter().map(one).collect()
    }

    fn of(worker: WorkerSnapshot, positions_in_range: f64, roster: &Roster) -> WorkerStatus {
        WorkerStatus {
            name: worker.progress.name,
            participant: roster.name(worker.progress.id.participant),
            threads: worker.progress.threads,
            leases: worker.progress.leases,
            ranges: worker.progress.ranges,
            positions_per_second: worker.ranges_per_second * positions_in_range,
            failures: worker.progress.failures,
            cache_bytes: worker.stats.cache_bytes,
            cache_hits: worker.stats.cache_hits,
            cache_misses: worker.stats.cache_misses,
            last_contact_ms: u64::try_from(worker.last_contact.as_millis()).unwrap_or(u64::MAX),
            quarantined: worker
                .progress
                .quarantine
                .map(|quarantine| quarantine.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use chomp_plan::{Plan, Settings};

    use super::*;
    use crate::list::ParticipantList;

    #[test]
    fn a_status_is_that_of_the_job() {
        let range_bits = chomp_table::RangeBits::new(12).unwrap();
        let plan = Plan::new(Settings::new(16, range_bits), &chomp_plan::Past::default());
        let progress = chomp_plan::JobProgress {
            ranges_done: 3,
            shards: 4,
            shards_done: 1,
            work: 100,
            work_done: 40,
            publication_work: 20,
            ..plan.unwrap().0.progress()
        };
        let told = JobInfo {
            size: 16,
            range_bits,
            replicas: 1,
            epoch: 5,
        };
        let worker = |(number, name): (u64, &str)| WorkerSnapshot {
            progress: chomp_plan::WorkerProgress {
                id: chomp_plan::WorkerId::new(7, number),
                name: name.to_owned(),
                threads: 2,
                leases: 0,
                ranges: 3,
                failures: 0,
                heard: chomp_plan::Millis(0),
                quarantine: None,
            },
            ranges_per_second: 0.5,
            last_contact: std::time::Duration::from_secs(2),
            stats: crate::job::WorkerStats::default(),
        };
        let of = |progress: &JobProgress| {
            let snapshot = Snapshot {
                phase: progress.phase.clone(),
                progress: progress.clone(),
                layers: vec![(1, 1)],
                waits_for: None,
                is_store_away: false,
                ranges_per_second: 2.0,
                time_left: None,
                workers: [(1, "w"), (2, "v"), (0x7_0002, "w")].map(worker).into(),
            };
            Status::of(
                &told,
                snapshot,
                &Roster::new(ParticipantList::default(), None),
            )
        };
        let status = of(&progress);
        assert_eq!(status.phase, JobPhase::Running);
        assert_eq!(
            (status.positions, status.positions_done),
            (1 << 15, 3 << 11)
        );
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        near(status.positions_per_second, 4096.0);
        let worker = &status.workers[0];
        near(worker.positions_per_second, 1024.0);
        assert_eq!((worker.ranges, worker.last_contact_ms), (3, 2000));
        assert_eq!(worker.participant, "number 7");
        let names = status.workers.iter().map(|worker| &*worker.name);
        assert_eq!(names.collect::<Vec<_>>(), ["w #0001", "v", "w #0002"]);
        // A quarter of the publication, too.
        near(status.done, 45.0 / 120.0);
        let mut ending = progress;
        ending.layer = ending.layers;
        assert_eq!(of(&ending).phase, JobPhase::Publishing);
        ending.phase = Phase::Finished;
        let status = of(&ending);
        assert_eq!(status.phase, JobPhase::Finished);
        near(status.done, 1.0);
    }
}
