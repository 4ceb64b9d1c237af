//! What a cluster costs: a coordinator with worker processes, all on this machine.
//!
//! ```text
//! cargo bench -p chomp-tests --bench cluster                   cpu, bytes and idle
//! cargo bench -p chomp-tests --bench cluster -- idle           1,000 workers that wait
//! cargo bench -p chomp-tests --bench cluster -- memory         at 36 bits; takes minutes
//! ```
//!
//! * **cpu**: user and system time of all processes from start to shards on disk, of `chomp run
//!   --threads 2` and of a coordinator with two workers of one thread, at 32 bits. They take turns,
//!   three times; the medians are printed. The share is the CPU time of evaluation, as the workers
//!   tell it, of two threads times the wall time from the start of the workers to the last seal: it
//!   counts their start, the narrow layers at both ends, and that all share this machine's CPUs.
//! * **bytes**: what was sent and received for each range with 1, 4 and 16 workers of one thread.
//! * **memory**: the peak of the coordinator.
//! * **idle**: what 1,000 workers cost that wait, and whether one that works is disturbed by them.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "../../tests/common/mod.rs"]
mod common;
mod idle;
#[path = "../../tests/peers/mod.rs"]
mod peers;

use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use serde_json::Value;

use common::{end, fingerprint, number, run, wait};
use peers::Cluster;

/// How often each is run.
const ROUNDS: usize = 3;

fn main() {
    let args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let mut sections: Vec<String> = args.collect();
    if sections.is_empty() {
        sections = ["cpu", "bytes", "idle"].map(str::to_owned).to_vec();
    }
    for section in sections {
        match &*section {
            "cpu" => cpu(32),
            "bytes" => bytes(&[32, 34]),
            "memory" => memory(36),
            "idle" => idle::measure(),
            other => panic!("{other} is none of cpu, bytes, memory, idle"),
        }
    }
}

/// A finished job of a cluster, whose coordinator still serves.
struct Done {
    cluster: Cluster,
    manifest: Value,
    /// From the start of the workers to the last seal, in seconds.
    wall: f64,
    /// The CPU time of evaluation of all workers, in seconds.
    evaluation: f64,
}

impl Done {
    fn of(bits: u32, workers: usize) -> Done {
        // The last seal is looked for, so it has to stay.
        let mut cluster = Cluster::start(bits, &["--keep-parts"]);
        let start = Instant::now();
        let workers: Vec<Child> = (0..workers)
            .map(|number| cluster.worker(&format!("worker-{number}")))
            .collect();
        let layers = cluster.metric("chomp_layers");
        let seal = cluster
            .table()
            .join(format!("work/seals/{bits:02}/{:04}", layers - 1));
        cluster.wait_until("the last seal", |_| seal.try_exists().unwrap());
        let wall = start.elapsed().as_secs_f64();
        let manifest = cluster.published();
        let evaluation = workers.into_iter().map(|worker| {
            let summary = wait(worker).summary();
            summary["evaluation_cpu_seconds"].as_f64().expect("seconds")
        });
        Done {
            evaluation: evaluation.sum(),
            cluster,
            manifest,
            wall,
        }
    }
}

fn cpu(bits: u32) {
    let (mut alone, mut together, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let before = cpu_seconds();
        let summary = end(&mut run(directory.path(), bits)).summary();
        alone.push(cpu_seconds() - before);

        let before = cpu_seconds();
        let done = Done::of(bits, 2);
        assert_eq!(done.manifest["fingerprint"], fingerprint(&summary));
        shares.push(done.evaluation / (2.0 * done.wall));
        done.cluster.stop();
        together.push(cpu_seconds() - before);
    }
    let (alone, together, share) = (median(alone), median(together), median(shares));
    println!("bits   run CPU s   cluster CPU s   ratio   evaluation of 2 threads x wall");
    println!(
        "{bits:>4}   {alone:>9.2}   {together:>13.2}   {:>5.3}   {:>28.1} %\n",
        together / alone,
        share * 100.0
    );
}

fn bytes(bits: &[u32]) {
    println!(
        "bits   workers   ranges   fetched/range   submitted/range   wall s   coordinator peak MiB"
    );
    for &bits in bits {
        for workers in [1, 4, 16] {
            let done = Done::of(bits, workers);
            let ranges = done.cluster.metric("chomp_ranges");
            let each = |name| done.cluster.metric(name) / ranges;
            println!(
                "{bits:>4}   {workers:>7}   {ranges:>6}   {:>13}   {:>15}   {:>6.2}   {:>20}",
                each("chomp_fetched_bytes_total"),
                each("chomp_submitted_bytes_total"),
                done.wall,
                done.cluster.peak_bytes() >> 20
            );
            done.cluster.stop();
        }
    }
    println!();
}

fn memory(bits: u32) {
    let done = Done::of(bits, 2);
    println!("bits   losing         shards   wall s   coordinator peak MiB");
    println!(
        "{bits:>4}   {:>12}   {:>6}   {:>6.1}   {:>20}\n",
        number(&done.manifest, "losing"),
        done.manifest["shards"].as_array().map_or(0, Vec::len),
        done.wall,
        done.cluster.peak_bytes() >> 20
    );
    done.cluster.stop();
}

/// The CPU time of all processes that were waited for.
fn cpu_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the usage of ended children");
    let times = [usage.user_time(), usage.system_time()].map(|time| {
        Duration::from_secs(time.tv_sec().unsigned_abs())
            + Duration::from_micros(time.tv_usec().unsigned_abs())
    });
    times.iter().sum::<Duration>().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
