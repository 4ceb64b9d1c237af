//! A coordinator and three workers that are killed, stopped and continued at random, hundreds of
//! times, end with the fingerprint of an undisturbed run; and so do those that are left when others are
//! killed while shards are written.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::cluster::{Cluster, Process, wait_for};
use crate::common::random::Random;
use crate::common::{FINGERPRINT_30, fingerprint};
use nix::sys::signal::Signal;

const BITS: u32 = 30;
/// Small ranges: a job of some thousand tasks, which takes long enough to be disturbed.
const RANGE_BITS: u32 = 14;
const WORKERS: usize = 3;
/// At the least so many faults.
const FAULTS_MIN: u32 = 200;
/// The longest time from a fault to the next, in milliseconds.
const STEP_MILLIS: u64 = 350;
/// How long a worker is stopped once in each table: for longer than a lease lasts.
const LONGER_THAN_A_LEASE: Duration = Duration::from_secs(33);
/// How long the coordinator is stopped once: for longer than the deadlines of calls.
const LONGER_THAN_A_CALL: Duration = Duration::from_secs(22);
/// A job that is disturbed for so long does not get on.
const TIME_MAX: Duration = Duration::from_mins(10);

/// What was done to them.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    workers_killed: u32,
    coordinators_killed: u32,
    workers_stopped: u32,
    coordinators_stopped: u32,
    /// Those of the stops that were longer than a lease, and than the deadlines of calls.
    longer_than_a_lease: u32,
    longer_than_a_call: u32,
}

impl Faults {
    fn count(&self) -> u32 {
        self.workers_killed
            + self.coordinators_killed
            + self.workers_stopped
            + self.coordinators_stopped
    }

    fn are_enough(&self) -> bool {
        self.count() >= FAULTS_MIN && self.longer_than_a_lease > 0 && self.longer_than_a_call > 0
    }
}

/// One of the cluster: there, stopped, or killed.
struct Member {
    command: Command,
    process: Option<Process>,
    /// When a stopped one is continued, or a killed one started again.
    until: Option<Instant>,
    /// Counts when a stop is over.
    counts: fn(&mut Faults),
}

impl Member {
    fn new(cluster: &Cluster, command: Command) -> Member {
        let mut member = Member {
            command,
            process: None,
            until: None,
            counts: |_| {},
        };
        member.heal(cluster);
        member
    }

    fn is_well(&self) -> bool {
        self.until.is_none()
    }

    fn kill(&mut self, until: Instant) {
        drop(self.process.take());
        self.until = Some(until);
        self.counts = |_| {};
    }

    fn stop(&mut self, until: Instant, counts: fn(&mut Faults)) {
        self.process.as_ref().unwrap().send(Signal::SIGSTOP);
        self.until = Some(until);
        self.counts = counts;
    }

    /// Continues it, or starts it again.
    fn heal(&mut self, cluster: &Cluster) {
        self.until = None;
        match &self.process {
            Some(process) => process.send(Signal::SIGCONT),
            None => self.process = Some(cluster.start(&mut self.command)),
        }
    }

    fn heal_if_due(&mut self, cluster: &Cluster, faults: &mut Faults) {
        if self.until.is_some_and(|until| until <= Instant::now()) {
            (self.counts)(faults);
            self.heal(cluster);
        }
    }
}

/// Disturbs one of them.
fn disturb(
    random: &mut Random,
    faults: &mut Faults,
    coordinator: &mut Member,
    workers: &mut [Member],
) {
    let after = |millis| Instant::now() + millis;
    let chosen = random.below(100);
    let worker = &mut workers[random.below(WORKERS)];
    if faults.count() > FAULTS_MIN / 2 && faults.longer_than_a_call == 0 && coordinator.is_well() {
        let until = after(LONGER_THAN_A_CALL);
        coordinator.stop(until, |faults| faults.longer_than_a_call += 1);
        faults.coordinators_stopped += 1;
    } else if chosen < 15 && coordinator.is_well() {
        coordinator.kill(after(random.millis(0, 300)));
        faults.coordinators_killed += 1;
    } else if chosen < 35 && coordinator.is_well() {
        coordinator.stop(after(random.millis(1, 500)), |_| {});
        faults.coordinators_stopped += 1;
    } else if chosen < 65 && worker.is_well() {
        worker.kill(after(random.millis(0, 300)));
        faults.workers_killed += 1;
    } else if worker.is_well() {
        worker.stop(after(random.millis(1, 1500)), |_| {});
        faults.workers_stopped += 1;
    }
}

/// Whether all wait for the coordinator, so that nothing else can be disturbed.
fn waits_for_long(coordinator: &Member) -> bool {
    let until = coordinator.until;
    until.is_some_and(|until| until > Instant::now() + Duration::from_secs(1))
}

/// Builds a table, and disturbs that until there are faults enough.
fn build(random: &mut Random, faults: &mut Faults) {
    let cluster = Cluster::new();
    let mut coordinator = cluster.coordinator(BITS, RANGE_BITS);
    coordinator.arg("--exit-when-done");
    let mut coordinator = Member::new(&cluster, coordinator);
    coordinator.process.as_mut().unwrap().wait_to_listen();
    let mut workers: Vec<Member> = (0..WORKERS)
        .map(|number| {
            let mut worker = cluster.worker(&format!("worker-{number}"));
            worker.args(["--patience", "300"]);
            Member::new(&cluster, worker)
        })
        .collect();
    workers[0].stop(Instant::now() + LONGER_THAN_A_LEASE, |faults| {
        faults.longer_than_a_lease += 1;
    });
    faults.workers_stopped += 1;

    let start = Instant::now();
    let mut finished = false;
    let ended = loop {
        assert!(start.elapsed() < TIME_MAX, "{faults:?}");
        std::thread::sleep(random.millis(0, STEP_MILLIS));
        if let Some(ended) = coordinator.process.as_mut().and_then(Process::ended) {
            break ended;
        }
        for worker in &mut workers {
            // One that hears of the end may be faster than the coordinator.
            if let Some(ended) = worker.process.as_mut().and_then(Process::ended) {
                assert_eq!(ended.code, Some(0), "{ended:?}");
                finished = true;
                worker.until = None;
            }
            worker.heal_if_due(&cluster, faults);
        }
        coordinator.heal_if_due(&cluster, faults);
        if !finished && !faults.are_enough() && !waits_for_long(&coordinator) {
            disturb(random, faults, &mut coordinator, &mut workers);
        }
    };
    let summary = ended.summary();
    assert_eq!(fingerprint(&summary), FINGERPRINT_30);
    // Those that were away when it was done hear of it when they ask again.
    for worker in &mut workers {
        if !worker.is_well() {
            worker.heal(&cluster);
        }
    }
    let _coordinator = cluster.start_coordinator(&mut cluster.coordinator(BITS, RANGE_BITS));
    for worker in workers {
        let ended = worker.process.expect("it is well").wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "the counts")]
fn faults_at_random_change_nothing() {
    let mut random = Random::new();
    let (mut faults, mut tables) = (Faults::default(), 0);
    let start = Instant::now();
    while !faults.are_enough() {
        assert!(start.elapsed() < TIME_MAX, "{faults:?} in {tables} tables");
        build(&mut random, &mut faults);
        tables += 1;
    }
    eprintln!(
        "{} faults in {tables} tables and {:.0?}: {faults:?}",
        faults.count(),
        start.elapsed()
    );
}

/// Builds a table, and kills two of three workers when its shards are begun. Whether some were still to be
/// written then.
fn publish_with_losses() -> bool {
    const FINGERPRINT_35: &str = "47455e1b27a58ce493b603253036a71d2ee68c4f720743fa41896492da3c4bf7";
    let cluster = Cluster::new();
    let coordinator = cluster.start_coordinator(&mut cluster.coordinator(35, 22));
    let [first, second, third] =
        ["first", "second", "third"].map(|name| cluster.start(&mut cluster.worker(name)));
    wait_for("shards", || cluster.metric("chomp_shards") > 0);
    first.send(Signal::SIGKILL);
    second.send(Signal::SIGKILL);
    let in_time = cluster.metric("chomp_shards_done") < cluster.metric("chomp_shards");
    let killed = [first, second].map(|worker| worker.wait().code.is_none());
    assert_eq!(third.wait().code, Some(0));
    coordinator.send(Signal::SIGTERM);
    assert_eq!(fingerprint(&coordinator.wait().summary()), FINGERPRINT_35);
    in_time && killed == [true, true]
}

/// Each shard is a task: those of workers that are gone are done by others.
#[test]
fn a_publication_that_loses_workers_goes_on() {
    let in_time = (0..20).any(|_| publish_with_losses());
    assert!(
        in_time,
        "all publications were over before they lost workers"
    );
}
