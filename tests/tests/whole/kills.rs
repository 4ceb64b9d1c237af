//! Jobs whose coordinator and workers are killed, stopped and continued at random end with the bytes of a job that
//! nobody disturbed; and so does one that loses workers while its shards are written. `just kills` does it for longer.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::cluster::{Cluster, HASTE, HASTY_LEASE, Process, wait_for};
use crate::common::faults;
use crate::common::random::Random;
use crate::common::{digests, end, folder, hasten, run_in};
use chomp_table::Digest;
use chomp_testing::trials;
use nix::sys::signal::Signal;

/// Small ranges: a job of some hundred tasks.
const RANGE_BITS: u32 = 16;
/// How long a job is disturbed before it is left to its end.
const DISTURBED: Duration = Duration::from_millis(1500);
/// The least number of faults in each job.
const FAULTS_MIN: u32 = 10;
/// The longest time from a fault to the next, in milliseconds.
const STEP_MILLIS: u64 = 60;
/// How long the coordinator stands still in one of ten jobs: longer than the deadlines of calls.
const LONGER_THAN_A_CALL: Duration = Duration::from_secs(22);
/// A job that takes longer does not get on.
const TIME_MAX: Duration = Duration::from_hours(1);

/// The digests of the files of a published table.
fn published(table: &Path) -> BTreeMap<String, Digest> {
    let files = digests(&table.join("table-28"));
    assert!(files.len() > 2, "{files:?}");
    files
}

fn undisturbed() -> BTreeMap<String, Digest> {
    let table = folder();
    end(&mut run_in(table.path(), 28, RANGE_BITS)).summary();
    published(table.path())
}

fn coordinator(cluster: &Cluster) -> Command {
    let mut command = cluster.coordinator(28, RANGE_BITS);
    command.arg("--exit-when-done");
    hasten(&mut command, HASTE);
    command
}

/// Workers who see the store, and one who does not.
fn workers(cluster: &Cluster) -> [Command; 3] {
    ["one", "two", "proxied"].map(|name| {
        let mut worker = cluster.worker(name);
        worker.args(["--patience", "3600"]);
        worker
    })
}

/// Counts of faults, of coordinators and of workers.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    killed: [u32; 2],
    stopped: [u32; 2],
    longer_than_a_lease: u32,
}

impl Faults {
    fn count(&self) -> u32 {
        self.killed.iter().chain(&self.stopped).sum()
    }

    fn add(&mut self, more: Faults) {
        for who in 0..2 {
            self.killed[who] += more.killed[who];
            self.stopped[who] += more.stopped[who];
        }
        self.longer_than_a_lease += more.longer_than_a_lease;
    }
}

/// One of the cluster: there, stopped, or killed.
struct Member {
    command: Command,
    process: Option<Process>,
    /// When a stopped one is continued, or a killed one started again.
    until: Option<Instant>,
}

impl Member {
    fn start(cluster: &Cluster, command: Command) -> Member {
        let mut member = Member {
            command,
            process: None,
            until: None,
        };
        member.heal(cluster);
        member
    }

    /// Disturbs it, if it is well.
    fn disturb(&mut self, random: &mut Random, is_killed: bool, time: Option<Duration>) -> bool {
        let Some(process) = self.process.as_mut().filter(|_| self.until.is_none()) else {
            return false;
        };
        let usual = random.millis(0, 150);
        if is_killed {
            process.end();
            process.forget();
            self.process = None;
        } else {
            process.send(Signal::SIGSTOP);
        }
        self.until = Some(Instant::now() + time.unwrap_or(usual));
        true
    }

    /// Continues it, or starts it again.
    fn heal(&mut self, cluster: &Cluster) {
        self.until = None;
        match &self.process {
            Some(process) => process.send(Signal::SIGCONT),
            None => self.process = Some(cluster.start(&mut self.command)),
        }
    }
}

/// Builds a table while its builders are disturbed.
fn build(seed: u64, expected: &BTreeMap<String, Digest>) -> Faults {
    let mut random = Random::of(seed);
    let cluster = Cluster::new();
    let mut members = vec![Member::start(&cluster, coordinator(&cluster))];
    members[0]
        .process
        .as_mut()
        .unwrap()
        .wait_to_say("listening on ");
    members.extend(workers(&cluster).map(|worker| Member::start(&cluster, worker)));
    let mut faults = Faults::default();
    let start = Instant::now();
    let mut finished = false;
    let ended = loop {
        assert!(start.elapsed() < TIME_MAX, "{faults:?}");
        std::thread::sleep(random.millis(0, STEP_MILLIS));
        for member in &mut members {
            if member.until.is_some_and(|until| until <= Instant::now()) {
                member.heal(&cluster);
            }
        }
        if let Some(ended) = members[0].process.as_mut().and_then(Process::ended) {
            break ended;
        }
        // One that hears of the end may be faster than the coordinator.
        for worker in &mut members[1..] {
            if let Some(ended) = worker.process.as_mut().and_then(Process::ended) {
                ended.done();
                finished = true;
            }
        }
        if finished || (start.elapsed() > DISTURBED && faults.count() >= FAULTS_MIN) {
            continue;
        }
        // The first faults are of all kinds.
        let (number, is_killed, time) = match faults.count() {
            0 => (0, true, None),
            1 => (1, false, Some(2 * HASTY_LEASE)),
            2 => (2, true, None),
            3 if seed % 10 == 9 => (0, false, Some(LONGER_THAN_A_CALL)),
            3 => (0, false, None),
            _ => (random.below(members.len()), random.below(2) == 0, None),
        };
        if members[number].disturb(&mut random, is_killed, time) {
            let who = number.min(1);
            faults.killed[who] += u32::from(is_killed);
            faults.stopped[who] += u32::from(!is_killed);
            faults.longer_than_a_lease += u32::from(who == 1 && time > Some(HASTY_LEASE));
        }
    };
    ended.summary();
    assert_eq!(&published(&cluster.table()), expected);
    // Workers that were away when it was done hear of it when they ask again.
    let _coordinator = cluster.start_coordinator(&mut cluster.coordinator(28, RANGE_BITS));
    for mut worker in members.drain(1..) {
        if worker.until.is_some() {
            worker.heal(&cluster);
        }
        worker.process.expect("it is well").wait().done();
    }
    faults
}

#[test]
#[expect(clippy::print_stderr, reason = "the counts")]
fn a_job_that_is_killed_all_the_time_gives_the_same_bytes() {
    let expected = undisturbed();
    let jobs = trials("jobs that are killed").seconds(2.0);
    let (jobs, faults) = jobs.gather(|seed| build(seed, &expected), Faults::add);
    eprintln!("{} faults: {faults:?}", faults.count());
    let mut kinds = faults.killed.iter().chain(&faults.stopped);
    let all_kinds = kinds.all(|&count| count > 0) && faults.longer_than_a_lease > 0;
    let enough = u64::from(faults.count()) >= jobs * u64::from(FAULTS_MIN);
    assert!(all_kinds && enough, "{faults:?}");
}

/// A shard that a worker has in hand when it goes is written by another.
#[test]
fn a_publication_that_loses_workers_goes_on() {
    let cluster = Cluster::new();
    let coordinator = cluster.start_coordinator(&mut coordinator(&cluster));
    let [mut first, mut second, _] = workers(&cluster);
    let faults = faults::Faults::new();
    faults.set("write", "table-28", None);
    let lost = cluster.start(faults.reach(&mut first));
    wait_for("shards", || cluster.metric("chomp_shards") > 0);
    assert_eq!(lost.kill().code, None);
    assert_eq!(cluster.metric("chomp_shards_done"), 0);
    assert_eq!(cluster.start(&mut second).wait().code, Some(0));
    coordinator.wait().summary();
    assert_eq!(published(&cluster.table()), undisturbed());
}
