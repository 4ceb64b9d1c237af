//! One job that is killed as often as one likes, coordinator and workers alike, ends with the bytes of a job that nobody
//! disturbed. `just kills COUNT` says how often; a few are among the usual tests.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::cluster::{Cluster, Member, wait_for};
use crate::common::random::Random;
use crate::common::{FINGERPRINT_30, digests, end, fingerprint, ranges_done, run_in};
use chomp_table::Digest;

const BITS: u32 = 30;
/// Small ranges: a job of some thousand tasks.
const RANGE_BITS: u32 = 14;
const RANGES: u64 = 1 << (BITS - RANGE_BITS);
const WORKERS: usize = 2;
/// So many kills if nobody says how many.
const KILLS: u64 = 40;
/// After so many kills it is seen how far the job is.
const LOOK_EVERY: u64 = 20;
/// The shortest and the longest time that there may be between two kills.
const PACE_MIN: Duration = Duration::from_millis(10);
const PACE_MAX: Duration = Duration::from_secs(10);
/// A job that has done nothing more after so many kills at the slowest pace does not get on.
const STUCK_KILLS: u64 = 200;

/// How many were killed.
#[derive(Clone, Copy, Debug, Default)]
struct Kills {
    coordinators: u64,
    workers: u64,
}

impl Kills {
    fn count(self) -> u64 {
        self.coordinators + self.workers
    }
}

/// The digests of the files of a published table.
fn published(table: &Path) -> BTreeMap<String, Digest> {
    digests(&table.join(format!("table-{BITS}")))
}

/// The time between kills, so that the last of them come when the job is nearly done.
struct Pace {
    most: Duration,
    done: u64,
    stuck: u64,
}

impl Pace {
    fn look(&mut self, table: &Path, kills: u64, all: u64) {
        let done = ranges_done(table);
        assert!(done >= self.done, "{done} of {} ranges are left", self.done);
        let gets_on = done > self.done || self.most < PACE_MAX;
        self.stuck = if gets_on { 0 } else { self.stuck + LOOK_EVERY };
        assert!(self.stuck < STUCK_KILLS, "it stands still at {done} ranges");
        self.done = done;
        let is_behind = u128::from(done) * u128::from(all) < u128::from(kills) * u128::from(RANGES);
        let factor = if is_behind { 1.2 } else { 0.85 };
        self.most = self.most.mul_f64(factor).clamp(PACE_MIN, PACE_MAX);
    }
}

/// Builds a table while its builders are killed `most` times, as far as it takes so long.
#[expect(clippy::print_stderr, reason = "how far it is")]
fn build(random: &mut Random, most: u64, expected: &BTreeMap<String, Digest>) -> Kills {
    let cluster = Cluster::new();
    let mut coordinator = cluster.coordinator(BITS, RANGE_BITS);
    coordinator.arg("--exit-when-done");
    let mut coordinator = Member::start(&cluster, coordinator);
    coordinator.process.wait_to_listen();
    let mut workers: Vec<Member> = (0..WORKERS)
        .map(|number| {
            let mut worker = cluster.worker(&format!("worker-{number}"));
            worker.args(["--patience", "300"]);
            Member::start(&cluster, worker)
        })
        .collect();
    let mut kills = Kills::default();
    let mut pace = Pace {
        most: Duration::from_millis(300),
        done: 0,
        stuck: 0,
    };
    let mut is_there = true;
    while is_there && kills.count() < most {
        std::thread::sleep(random.millis(0, u64::try_from(pace.most.as_millis()).unwrap()));
        let number = random.below(WORKERS + 1);
        let killed = if let Some(worker) = workers.get_mut(number) {
            is_there = worker.kill(&cluster);
            &mut kills.workers
        } else {
            is_there = coordinator.kill(&cluster);
            &mut kills.coordinators
        };
        *killed += u64::from(is_there);
        if is_there && kills.count().is_multiple_of(LOOK_EVERY) {
            pace.look(&cluster.table(), kills.count(), most);
        }
        if is_there && kills.count().is_multiple_of(50 * LOOK_EVERY) {
            let Pace { most, done, .. } = pace;
            eprintln!("{kills:?}: {done} of {RANGES} ranges, up to {most:.0?} between kills");
        }
    }
    wait_for("the end of the job", || {
        coordinator.process.ended().is_some()
    });
    let ended = coordinator.process.ended().expect("it has ended");
    assert_eq!(fingerprint(&ended.summary()), FINGERPRINT_30);
    assert_eq!(&published(&cluster.table()), expected);
    kills
}

#[test]
#[expect(clippy::print_stderr, reason = "the counts")]
fn a_job_that_is_killed_all_the_time_gives_the_same_bytes() {
    let all = std::env::var("CHOMP_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path();
    let summary = end(&mut run_in(table, BITS, RANGE_BITS)).summary();
    assert_eq!(fingerprint(&summary), FINGERPRINT_30);
    let expected = published(table);
    assert!(expected.len() > 2, "{expected:?}");

    let mut random = Random::new();
    let (mut kills, mut jobs) = (Kills::default(), 0);
    let start = Instant::now();
    while kills.count() < all {
        let more = build(&mut random, all - kills.count(), &expected);
        kills.coordinators += more.coordinators;
        kills.workers += more.workers;
        jobs += 1;
        let time = start.elapsed();
        eprintln!("{kills:?} in {jobs} jobs and {time:.0?}, and the bytes are the same");
    }
}
