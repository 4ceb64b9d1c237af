//! A coordinator and three workers on four machines, as far as they can tell: over TLS, with links
//! that are cut in one direction or both, and some of them killed, they end with the fingerprint of an
//! undisturbed run.
//!
//! Where the system does not permit networks of a test, this says so; with `CHOMP_REQUIRE_NETNS=1`
//! it fails.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::cluster::{Cluster, Process, at_home};
use crate::common::netns::{COORDINATOR, Cut, Network, address};
use crate::common::random::Random;
use crate::common::{FINGERPRINT_26, chomp, hasten, read_json};
use chomp_testing::effort;
use chomp_testing::needs;
use serde_json::Value;

const BITS: u32 = 26;
/// Small ranges: a job of some thousand tasks, which takes long enough to be disturbed.
const RANGE_BITS: u32 = 13;
const HOSTS: usize = 4;
const PORT: u16 = 7171;
/// The least number of cuts, of kinds that chance chooses, times the effort.
const CUTS_MIN: f64 = 8.0;
/// The least number of kills, times the effort.
const KILLS_MIN: f64 = 2.0;
/// The longest time from a fault to the next, in milliseconds.
const STEP_MILLIS: u64 = 250;
/// Divides leases.
const HASTE: u32 = 10;
/// Longer than a lease, in seconds, times the effort: from six times on longer than the deadlines of calls, too.
const LONG: f64 = 3.5;
/// A job that takes longer does not get on.
const TIME_MAX: Duration = Duration::from_hours(1);

const CUTS: [Cut; 5] = [
    Cut::Both,
    Cut::Outwards,
    Cut::Inwards,
    Cut::Unreachable,
    Cut::Unplugged,
];

/// A machine with its process, and what became of its link.
struct Host {
    command: Command,
    process: Process,
    cut: Option<Gap>,
}

/// A cut, and how long it lasts.
struct Gap {
    cut: Cut,
    until: Instant,
    is_long: bool,
}

/// Counts of faults.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    /// By kind.
    cuts: [usize; CUTS.len()],
    /// The cuts that were longer than a lease, and are over.
    long_cuts: usize,
    kills: usize,
}

/// A number of faults times the effort, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few hundred"
)]
fn times(faults: f64) -> usize {
    (faults * effort()).ceil() as usize
}

fn long() -> Duration {
    Duration::from_secs_f64(LONG * effort().clamp(1.0, 10.0))
}

impl Faults {
    fn are_enough(&self) -> bool {
        let cuts: usize = self.cuts.iter().sum();
        cuts >= times(CUTS_MIN) && self.long_cuts > 0 && self.kills >= times(KILLS_MIN)
    }
}

/// All of them, with a table to build.
struct Machines<'a> {
    network: &'a Network,
    cluster: Cluster,
    hosts: Vec<Host>,
}

impl Machines<'_> {
    fn new(network: &Network) -> Machines<'_> {
        let cluster = Cluster::on(PORT);
        let mut coordinator = coordinator(&cluster);
        coordinator.arg("--exit-when-done");
        let mut machines = Machines {
            network,
            cluster,
            hosts: Vec::new(),
        };
        machines.start(coordinator);
        machines.hosts[COORDINATOR]
            .process
            .wait_to_say("listening on ");
        for host in 1..HOSTS {
            // The machines of this test share their disk. Most act as if they did not.
            let way = if host > 1 { "proxied" } else { "direct" };
            let mut worker = machines.cluster.worker(&format!("worker-{host}-{way}"));
            worker.args(["--patience", "3600"]);
            machines.start(worker);
        }
        machines
    }

    /// Starts the process of the next host.
    fn start(&mut self, command: Command) {
        let host = self.hosts.len();
        let process = self.network.start(host, &self.cluster, &command);
        self.hosts.push(Host {
            command,
            process,
            cut: None,
        });
    }

    fn cut(&mut self, host: usize, kind: usize, lasts: Duration, faults: &mut Faults) {
        let cut = CUTS[kind];
        self.network.cut(host, cut);
        self.hosts[host].cut = Some(Gap {
            cut,
            until: Instant::now() + lasts,
            is_long: lasts >= long(),
        });
        faults.cuts[kind] += 1;
    }

    /// Undoes the cuts whose time is over.
    fn mend(&mut self, faults: &mut Faults) {
        for (number, host) in self.hosts.iter_mut().enumerate() {
            if let Some(gap) = host.cut.take_if(|gap| gap.until <= Instant::now()) {
                self.network.mend(number, gap.cut);
                faults.long_cuts += usize::from(gap.is_long);
            }
        }
    }

    fn mend_all(&mut self) {
        for (number, host) in self.hosts.iter_mut().enumerate() {
            if let Some(gap) = host.cut.take() {
                self.network.mend(number, gap.cut);
            }
        }
    }

    fn kill(&mut self, number: usize) {
        let host = &mut self.hosts[number];
        // Only when it is gone its port is free.
        host.process.end();
        host.process = self.network.start(number, &self.cluster, &host.command);
    }

    fn disturb(&mut self, random: &mut Random, faults: &mut Faults) {
        let host = random.below(HOSTS);
        if faults.kills < times(KILLS_MIN) && random.below(5) == 0 {
            self.kill(host);
            faults.kills += 1;
        } else if self.hosts[host].cut.is_none() {
            let kind = random.below(CUTS.len());
            self.cut(host, kind, random.millis(20, 1500), faults);
        }
    }
}

fn coordinator(cluster: &Cluster) -> Command {
    let size = format!("--bits {BITS} --range-bits {RANGE_BITS}");
    let listen = format!("--listen {}:{PORT}", address(COORDINATOR));
    let mut command = cluster.chomp(&format!("coordinator --json {size} {listen} --table"));
    hasten(command.arg(cluster.table()), HASTE);
    command
}

/// Everything beyond loopback is encrypted, and the access file says by which authority.
fn check_access(cluster: &Cluster) {
    let access: Value = read_json(&cluster.access());
    let url = format!("https://{}:{PORT}", address(COORDINATOR));
    assert_eq!(access["coordinator"], url);
    assert!(access["ca"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
}

/// The table can be had from another machine by whoever knows the authority, and by nobody else.
fn check_download(network: &Network, cluster: &Cluster) {
    let stranger = tempfile::tempdir().unwrap();
    let from = format!("https://{}:{PORT}", address(COORDINATOR));
    let line = format!("download --json --from {from} --out");
    let mut known = at_home(chomp(&line), stranger.path());
    known.arg(stranger.path().join("out"));
    known.arg("--access").arg(cluster.access());
    network
        .start(1, cluster, &known)
        .wait()
        .made(FINGERPRINT_26);
    let mut access = read_json(&cluster.access());
    let authority = access.as_object_mut().unwrap().remove("ca");
    assert!(authority.is_some());
    let file = stranger.path().join("access.json");
    fs::write(&file, access.to_string()).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let mut worker = at_home(chomp("worker --access"), stranger.path());
    let refused = network.start(1, cluster, worker.arg(&file)).wait();
    refused.refuses(1, &["certificate", "access file"]);
}

/// Builds a table, and disturbs that until there are faults enough.
fn build(network: &Network, random: &mut Random, faults: &mut Faults) {
    let mut machines = Machines::new(network);
    check_access(&machines.cluster);
    // One hears the coordinator and is not heard, the other the reverse, for longer than a lease.
    for (host, cut) in [(1, Cut::Outwards), (2, Cut::Inwards)] {
        let kind = CUTS.iter().position(|kind| *kind == cut).unwrap();
        machines.cut(host, kind, long(), faults);
    }
    let start = Instant::now();
    let mut finished = false;
    let ended = loop {
        assert!(start.elapsed() < TIME_MAX, "{faults:?}");
        std::thread::sleep(random.millis(0, STEP_MILLIS));
        if let Some(ended) = machines.hosts[COORDINATOR].process.ended() {
            break ended;
        }
        for worker in &mut machines.hosts[1..] {
            if let Some(ended) = worker.process.ended() {
                ended.done();
                finished = true;
            }
        }
        machines.mend(faults);
        if !finished && !faults.are_enough() {
            machines.disturb(random, faults);
        }
    };
    ended.made(FINGERPRINT_26);

    // Workers that were cut off when it was done hear of it when they ask again.
    machines.mend_all();
    let again = coordinator(&machines.cluster);
    let mut coordinator = network.start(COORDINATOR, &machines.cluster, &again);
    coordinator.wait_to_say("listening on ");
    check_download(network, &machines.cluster);
    for worker in machines.hosts.into_iter().skip(1) {
        worker.process.wait().done();
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "the counts")]
fn cuts_at_random_change_nothing() {
    let Some(network) = needs::found("NETNS", Network::new(HOSTS)) else {
        return;
    };
    let mut random = Random::new();
    let (mut faults, mut tables) = (Faults::default(), 0);
    let start = Instant::now();
    while !faults.are_enough() {
        build(&network, &mut random, &mut faults);
        tables += 1;
    }
    eprintln!("{tables} tables, {:.0?}: {faults:?}", start.elapsed());
}
