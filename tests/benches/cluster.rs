//! CPU time and memory of a cluster: a coordinator with worker processes, all on this machine and one directory.
//!
//! ```text
//! cargo bench -p chomp-tests --bench cluster
//! cargo bench -p chomp-tests --bench cluster -- --bits 36 --range-bits 24 --rounds 1
//! ```
//!
//! `chomp run --threads 2`, and coordinators with 2 and 16 workers of one thread, that share its directory or go through
//! it. They take turns; the medians are printed. CPU time is user and system time of all processes from start to shards
//! on disk, and the share of it that the coordinator takes. Its peak of memory is the highest of all rounds.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::cluster::{Cluster, Process, wait_for};
use common::cpus::{as_f64, median};
use common::{end, fingerprint, number, run_in};
use serde_json::Value;

/// The size of the table unless the command line says otherwise, in ranges as large as a cluster has them.
const BITS: u32 = 32;
const RANGE_BITS: u32 = 20;
/// How often each is run.
const ROUNDS: usize = 3;

fn main() {
    let (mut bits, mut range_bits, mut rounds) = (BITS, RANGE_BITS, ROUNDS);
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|arg| arg.parse().ok());
        match &*arg {
            "--bits" => bits = number().expect("a number of bits"),
            "--range-bits" => range_bits = number().expect("a number of bits"),
            "--rounds" => rounds = number().expect("a number of rounds") as usize,
            _ => panic!("{arg} is none of --bits, --range-bits, --rounds"),
        }
    }
    beside(bits, range_bits, rounds);
}

/// The cost of one run: times in seconds, memory in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    wall: f64,
    cpu: f64,
    coordinator_cpu: f64,
    coordinator_peak: u64,
}

fn beside(bits: u32, range_bits: u32, rounds: usize) {
    let all: [(&str, usize, &[&str]); 5] = [
        ("run --threads 2", 0, &[]),
        ("2 workers", 2, &[]),
        ("16 workers", 16, &[]),
        ("2 through it", 2, &["--store", "coordinator"]),
        ("16 through it", 16, &["--store", "coordinator"]),
    ];
    let mut taken = all.map(|_| Vec::new());
    let mut expected = None;
    for _ in 0..rounds {
        for ((_, workers, args), taken) in all.iter().zip(&mut taken) {
            let (summary, this) = match workers {
                0 => alone(bits, range_bits),
                _ => together(bits, range_bits, *workers, args),
            };
            let found = fingerprint(&summary).to_owned();
            assert_eq!(expected.get_or_insert_with(|| found.clone()), &found);
            taken.push(this);
        }
    }
    let ranges = 1_u64 << (bits - range_bits);
    println!("{bits} bits, {ranges} ranges");
    println!(
        "who               wall s    CPU s   beside run   coordinator CPU s   share   ms a range   peak MiB"
    );
    let median = |taken: &[Taken], of: fn(&Taken) -> f64| median(taken.iter().map(of));
    let run = median(&taken[0], |taken| taken.cpu);
    for ((name, ..), taken) in all.iter().zip(&taken) {
        let wall = median(taken, |taken| taken.wall);
        let cpu = median(taken, |taken| taken.cpu);
        let own = median(taken, |taken| taken.coordinator_cpu);
        let each = own * 1000.0 / as_f64(ranges);
        let peak = taken.iter().map(|taken| taken.coordinator_peak).max();
        println!(
            "{name:<15} {wall:>8.2} {cpu:>8.2} {:>12.3} {own:>19.2} {:>6.1}% {each:>12.3} {:>10}",
            cpu / run,
            own / cpu * 100.0,
            peak.unwrap_or_default() >> 20
        );
    }
    println!();
}

fn alone(bits: u32, range_bits: u32) -> (Value, Taken) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let summary = end(&mut run_in(directory.path(), bits, range_bits)).summary();
    let taken = Taken {
        wall: seconds(&summary, "seconds"),
        cpu: seconds(&summary, "cpu_seconds"),
        ..Taken::default()
    };
    (summary, taken)
}

fn together(bits: u32, range_bits: u32, workers: usize, args: &[&str]) -> (Value, Taken) {
    let cluster = Cluster::new();
    let mut coordinator = cluster.start_coordinator(&mut cluster.coordinator(bits, range_bits));
    let workers: Vec<Process> = (0..workers)
        .map(|number| cluster.start(cluster.worker(&format!("worker-{number}")).args(args)))
        .collect();
    let ended = workers.into_iter().map(|worker| worker.wait().summary());
    let workers_cpu: f64 = ended.map(|summary| seconds(&summary, "cpu_seconds")).sum();
    wait_for("the table", || {
        assert!(coordinator.ended().is_none(), "{}", coordinator.said());
        coordinator.printed().ends_with('\n')
    });
    let coordinator_peak = coordinator.peak_bytes();
    let summary = coordinator.stop().summary();
    let coordinator_cpu = seconds(&summary, "cpu_seconds");
    let taken = Taken {
        wall: seconds(&summary, "seconds"),
        cpu: workers_cpu + coordinator_cpu,
        coordinator_cpu,
        coordinator_peak,
    };
    assert!(number(&summary, "losing") > 0);
    (summary, taken)
}

fn seconds(summary: &Value, name: &str) -> f64 {
    summary[name].as_f64().expect("seconds")
}
