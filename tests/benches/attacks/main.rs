//! Measures how far attacks slow honest peers down: a coordinator that serves a table and builds a larger one, two
//! honest workers, honest readers, and one attack after the other.
//!
//! ```text
//! cargo bench -p chomp-tests --bench attacks                      all of them
//! cargo bench -p chomp-tests --bench attacks -- --rounds 3        each three times, medians
//! cargo bench -p chomp-tests --bench attacks -- joins pings       these
//! cargo bench -p chomp-tests --bench attacks -- --ranges 50000    measured over 50,000 ranges, of 65,536
//! ```
//!
//! Each attack has a coordinator of its own, and the time is taken in which the same ranges are done: the rate is told
//! in parts of that of a job that nobody disturbs, which is measured again after every third attack.
//!
//! The figure wanted is what an attack costs the coordinator. Attackers usually run elsewhere, but here they take CPU
//! of the same machine. So the workers have the first CPU and the coordinator the last; attackers share the last, and
//! have the lowest priority there (`nice -n 19`), so that they get what the coordinator leaves. The attack "busy loops"
//! is the control: it takes as much CPU as it gets, and has no contact. An attacker has one participant's token and
//! eight addresses, or none and one address, or several where its name says so; honest peers have another.
//!
//! Where others use the machine too, `nice -n -15` as root keeps them from its CPUs, and `TMPDIR=/dev/shm` from its
//! disk: else the rates say how busy that is.
//!
//! * **rate**: ranges a second, in parts of what they are undisturbed.
//! * **p50, p99**: of the answers to honest questions (over a connection that stays, over new ones, about a
//!   game, parts of a file), heartbeats and joins.
//! * **failed**: those of them without the right answer within ten seconds. **told to wait**: refused as too many.
//! * **leases lost**: tasks of the honest workers that were lost.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod attackers;
#[path = "../../tests/common/mod.rs"]
mod common;
mod honest;
#[path = "../../tests/peers/mod.rs"]
mod peers;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use attackers::{ALL, Attack, Target};
use chomp_access::Access;
use common::cluster::{Cluster, Process};
use common::cpus::{as_f64, cpus, median, pin};
use common::{end, number, run_in};
use honest::Seen;
use serde_json::Value;

/// The job: small ranges, so that the coordinator has something to do.
const BITS: u32 = 36;
const RANGE_BITS: u32 = 20;
/// The table that is served meanwhile.
const SERVED_BITS: u32 = 30;
/// The ranges that are done before anything is measured, and those whose time is: the same for each attack, as
/// ranges differ.
const BEFORE: u64 = 3000;
const MEASURED: u64 = 5000;
/// The ranges that are left to an attack until it is at its height.
const RISE: u64 = 1000;
/// How often to look how far the job is.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// An attack that stops the job is not waited for longer than this.
const PATIENCE: Duration = Duration::from_mins(1);
/// The number of attacks between two measurements of the undisturbed job.
const AGAIN: usize = 3;

/// The figures of a job under one attack.
#[derive(Clone, Debug)]
struct Measured {
    /// Ranges a second.
    rate: f64,
    p50: f64,
    p99: f64,
    answers: usize,
    failed: u64,
    busy: u64,
    lost: u64,
    peak: u64,
    /// The CPU time of the coordinator in a second.
    cpu: f64,
    why: Option<String>,
}

fn main() {
    let (mut rounds, mut ranges, mut names) = (1, MEASURED, Vec::new());
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|arg| arg.parse().ok());
        match &*arg {
            "--rounds" => rounds = number().expect("a number of rounds"),
            "--ranges" => ranges = number().expect("a number of ranges"),
            "--attack" => return attack(&args.collect::<Vec<_>>()),
            _ => names.push(arg),
        }
    }
    for name in &names {
        let is_known = ALL.iter().any(|known| known.name == name);
        assert!(is_known, "{name} is no attack");
    }
    println!(
        "{BITS} bits in ranges of 2^{RANGE_BITS}, and a table of {SERVED_BITS} bits that is served\n"
    );
    println!(
        "| attack | ranges/s | rate | p50, ms | p99, ms | answers | failed | told to wait | leases lost | peak, MiB | coordinator's CPU |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let wanted =
        |attack: &&Attack| names.is_empty() || names.iter().any(|name| name == attack.name);
    let attacks: Vec<Attack> = ALL[1..].iter().filter(wanted).copied().collect();
    let mut alone = measure(ALL[0], ranges);
    let mut all = vec![Vec::new(); attacks.len()];
    for _ in 0..rounds {
        for (turn, attack) in attacks.iter().enumerate() {
            if turn % AGAIN == 0 {
                alone = measure(ALL[0], ranges);
                tell(ALL[0], &[(alone.clone(), 1.0)]);
            }
            let measured = measure(*attack, ranges);
            let rate = measured.rate / alone.rate;
            all[turn].push((measured, rate));
            if rounds == 1 {
                tell(*attack, &all[turn]);
            }
        }
    }
    if rounds > 1 {
        for (attack, all) in attacks.into_iter().zip(all) {
            tell(attack, &all);
        }
    }
}

/// One line of the table: medians, and the worst of what should not be. Each rate comes with its part of the
/// undisturbed.
fn tell(attack: Attack, all: &[(Measured, f64)]) {
    let median = |of: fn(&(Measured, f64)) -> f64| median(all.iter().map(of));
    let peak = all.iter().map(|(one, _)| one.peak).max();
    let sum = |of: fn(&Measured) -> u64| all.iter().map(|(one, _)| of(one)).sum::<u64>();
    println!(
        "| {} | {:.0} | {:.2} | {:.1} | {:.1} | {} | {} | {} | {} | {} | {:.2} |",
        attack.name,
        median(|(one, _)| one.rate),
        median(|(_, part)| *part),
        median(|(one, _)| one.p50),
        median(|(one, _)| one.p99),
        all.iter().map(|(one, _)| one.answers).sum::<usize>(),
        sum(|one| one.failed),
        sum(|one| one.busy),
        sum(|one| one.lost),
        peak.unwrap_or_default() >> 20,
        median(|(one, _)| one.cpu),
    );
    let each = all.iter();
    let each = each.map(|(one, part)| format!("rate {part:.2}, p99 {:.1}", one.p99));
    let each: Vec<String> = each.collect();
    let why = all.iter().find_map(|(one, _)| one.why.clone());
    tell_besides(attack, &each, why);
}

/// Prints, beside the table, each round and the last error of an honest peer.
#[expect(clippy::print_stderr, reason = "beside the figures")]
fn tell_besides(attack: Attack, each: &[String], why: Option<String>) {
    eprintln!("{}: {}", attack.name, each.join("; "));
    if let Some(why) = why {
        eprintln!("    an honest peer heard: {why}");
    }
}

/// The attacker's process.
fn attack(args: &[String]) {
    let [name, access, address, table] = args else {
        panic!("--attack NAME ACCESS ADDRESS TABLE");
    };
    let mut access = Access::read(Path::new(access)).expect("an access file");
    let known = ALL.iter().find(|known| known.name == name);
    let known = known.expect("an attack");
    if !known.token {
        access.token = None;
    }
    let target = Target {
        access,
        address: address.parse().expect("an address"),
        table: PathBuf::from(table),
        addresses: known.addresses,
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(attackers::run(name, target));
}

/// A child that does not outlive the measurement.
struct Attacker(Child);

impl Drop for Attacker {
    fn drop(&mut self) {
        // It has no end of its own.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn measure(attack: Attack, ranges: u64) -> Measured {
    let cluster = Cluster::new();
    end(&mut run_in(&cluster.table(), SERVED_BITS, RANGE_BITS)).summary();
    let cpus = cpus();
    let (first_cpu, last_cpu) = (cpus[0], cpus[cpus.len() - 1]);

    pin(&[last_cpu]);
    let coordinator = cluster.start_coordinator(&mut coordinator(&cluster, attack.tls));
    pin(&[first_cpu]);
    let _workers = ["direct", "proxied"].map(|name| worker(&cluster, name));
    pin(&cpus);
    let access = cluster.access_of("asker");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let seen = Seen::default();
    let asking = {
        let _guard = runtime.enter();
        honest::ask(&seen, &access)
    };
    let owner = Access::read(&cluster.access()).expect("the owner's file");
    let watcher = runtime.block_on(peers::client::connect(&owner));
    let look = || {
        let page = runtime.block_on(watcher.get("/status", &[]));
        let page = page.expect("a status");
        let status: Value = serde_json::from_slice(&page).expect("JSON");
        (Instant::now(), status)
    };
    // The time at which `ranges` ranges are done or `patience` is over, and how many are done then.
    let until = |ranges: u64, patience: Duration| {
        let start = Instant::now();
        loop {
            let (at, status) = look();
            assert_eq!(status["phase"], "running", "the job is too small");
            let done = number(&status, "ranges_done");
            if done >= ranges || start.elapsed() >= patience {
                return (at, done);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    };
    until(BEFORE - RISE, Duration::MAX);
    let attacker = start(&cluster, attack, last_cpu);
    until(BEFORE, PATIENCE);
    seen.begin();
    let cpu = coordinator.cpu_seconds();
    let (begin, before) = until(0, PATIENCE);
    let (finish, after) = until(before + ranges, PATIENCE);
    let seconds = (finish - begin).as_secs_f64();
    let cpu = (coordinator.cpu_seconds() - cpu) / seconds;
    let answers = seen.take();
    let (_, status) = look();
    let peak = coordinator.peak_bytes();
    drop(attacker);
    drop(asking);
    let workers = status["workers"].as_array().expect("workers").iter();
    let is_honest = |worker: &&Value| worker["name"] == "direct" || worker["name"] == "proxied";
    let lost = workers
        .filter(is_honest)
        .map(|worker| number(worker, "failures"));
    let lost: Vec<u64> = lost.collect();
    let said = coordinator.said();
    assert_eq!(lost.len(), 2, "both honest workers are there: {said}");
    let times = &answers.times;
    let millis = |share: usize| {
        let time = times.get((times.len() * share / 100).min(times.len() - 1));
        time.map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    Measured {
        rate: as_f64(after - before) / seconds,
        p50: millis(50),
        p99: millis(99),
        answers: answers.times.len(),
        failed: answers.failed,
        busy: answers.busy,
        lost: lost.iter().sum(),
        peak,
        cpu,
        why: answers.why,
    }
}

/// The command of the coordinator: on loopback in the clear, or everywhere with TLS.
fn coordinator(cluster: &Cluster, tls: bool) -> Command {
    let size = format!("--bits {BITS} --range-bits {RANGE_BITS}");
    let doors = if tls {
        "--advertise 127.0.0.1 --listen 0.0.0.0"
    } else {
        "--no-tls --listen 127.0.0.1"
    };
    let line = format!(
        "coordinator --json --keep-parts {size} {doors}:{} --table",
        cluster.port
    );
    let mut command = cluster.chomp(&line);
    command.arg(cluster.table());
    command
}

/// An honest worker with a thread of its own, which goes through the coordinator if its name says so.
fn worker(cluster: &Cluster, name: &str) -> Process {
    let line = format!("worker --json --threads 1 --memory 512MiB --name {name} --access");
    let mut command = cluster.chomp(&line);
    command.arg(cluster.credential(name));
    if name == "proxied" {
        command.args(["--store", "coordinator"]);
    }
    cluster.start(&mut command)
}

/// Starts an attack, with what the coordinator leaves of the CPU.
fn start(cluster: &Cluster, attack: Attack, cpu: usize) -> Attacker {
    let access = cluster.credential("attacker");
    let mut command = Command::new("nice");
    command.args(["-n", "19"]);
    command.arg(std::env::current_exe().expect("this program"));
    command.args(["--attack", attack.name]).arg(access);
    command
        .arg(format!("127.0.0.1:{}", cluster.port))
        .arg(cluster.table());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let all = cpus();
    pin(&[cpu]);
    let child = command.spawn().expect("`nice` is part of every system");
    pin(&all);
    Attacker(child)
}

/// The path of a file of the table that is served.
pub(crate) fn shard_path() -> String {
    format!("/table-{SERVED_BITS}/shard-0000.zst")
}
