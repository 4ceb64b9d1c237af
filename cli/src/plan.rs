//! `chomp plan`: the time, memory, disk and network that a table takes, before anything is computed.
//!
//! A short [trial] measures the costs on this machine, and the [forecast](chomp_plan::forecast) says how often each of
//! them comes.

use std::num::NonZeroUsize;

use anyhow::Context;
use chomp_plan::Settings;
use chomp_plan::forecast::{
    Estimate, losing_total, memory_bytes, record_bytes, round, shard_bytes,
};
use chomp_table::{RangeBits, head};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use crate::flags::{BITS_MAX, BITS_MIN, ShareArgs, WantedTable, flag};
use crate::local::COORDINATOR_RANGE_BYTES;
use crate::restore::is_restored;
use crate::summary::Lines;
use crate::{coordinator, local, machine, trial};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp plan --bits 40
  chomp plan --bits 41 --from 40
  chomp plan --bits 44 --workers 20 --threads 16 --memory 32GiB")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) wanted: WantedTable,

    /// Plan for a job beside the published table of this many bits, which it extends
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(i64::from(BITS_MIN)..=i64::from(BITS_MAX)))]
    pub(crate) from: Option<u32>,

    /// Plan for this many workers, each with the threads and the memory given here, and a coordinator [default: for
    /// `chomp run` on this machine]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) workers: Option<u32>,

    #[command(flatten)]
    pub(crate) share: ShareArgs,

    /// Print it as one JSON object
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// The memory that the coordinator's process takes before it has a job.
const COORDINATOR_BYTES: u64 = 64 << 20;
/// The bytes that the store takes for each range, beside its record: the header of its part, a segment of the journal
/// with an entry, and an entry in a checkpoint.
const RANGE_FILE_BYTES: u64 = 310;

/// The plan of a job. Times are in seconds, memory and disk in bytes.
#[derive(Debug, Serialize)]
struct JobPlan {
    bits: u32,
    range_bits: u32,
    positions: u64,
    /// The expected number.
    losing: u64,
    /// The expected number, one of each mirror pair.
    stored: u64,
    ranges: u64,
    layers: u64,
    /// The most ranges of one layer.
    widest_layer: usize,
    /// Null for `chomp run`.
    workers: Option<u32>,
    /// The threads of each worker.
    threads: usize,
    /// The CPU time of all processes.
    cpu_seconds: f64,
    /// At least the longer of the CPU time on all threads and the critical path, and at most both together.
    wall_seconds_least: f64,
    wall_seconds: f64,
    critical_path: CriticalPath,
    /// With more threads the critical path takes longer than they do.
    threads_that_help: u64,
    memory: Memory,
    disk: Disk,
    /// Null for `chomp run`.
    network: Option<Network>,
}

/// The time that no number of threads shortens: layers x (evaluation + commit).
#[derive(Debug, Serialize)]
struct CriticalPath {
    seconds: f64,
    evaluation: f64,
    commit: f64,
}

#[derive(Debug, Serialize)]
struct Memory {
    /// With less memory, a worker refuses the job.
    worker_least: u64,
    /// With more memory, a worker is no faster.
    worker_useful: u64,
    /// The memory of each worker here.
    worker: u64,
    coordinator: u64,
}

#[derive(Debug, Serialize)]
struct Disk {
    /// Working files and shards. In a large job of one owner working files go before most shards come.
    peak: u64,
    work: u64,
    shards: u64,
}

/// The bytes between the store and all workers.
#[derive(Debug, Serialize)]
struct Network {
    /// The bytes that workers read, if each of them reads every record, and for the shards once more.
    fetched: u64,
    /// The bytes that workers write.
    put: u64,
    /// The average of all bytes.
    each_worker: u64,
}

pub(crate) async fn run(args: PlanArgs) -> anyhow::Result<()> {
    let bits = args.wanted.bits;
    let threads = args.share.threads();
    let memory = args.share.memory_bytes()?;
    let range_bits = args
        .wanted
        .range_bits
        .unwrap_or_else(|| match args.workers {
            None => machine::range_bits(bits, threads, memory),
            Some(_) => machine::range_bits(bits, coordinator::THREADS, coordinator::MEMORY_BYTES),
        });
    Settings::new(bits, range_bits).check()?;
    match args.workers {
        None => local::worker_memory(memory, bits, range_bits, threads)?,
        Some(_) => chomp_worker::cache_bytes(memory, 0, threads, range_bits)?,
    };

    let costs = trial::measure(threads.min(machine::threads()), &std::env::temp_dir())
        .await
        .context("cannot measure what a job costs on this machine")?;
    let from = args
        .from
        .filter(|&from| is_restored(from, bits, range_bits));
    let estimate = Estimate::new(bits, range_bits, from, args.workers.unwrap_or(1), costs);
    let plan = JobPlan::new(bits, range_bits, (args.workers, threads), memory, estimate);
    crate::print_as(args.json, &plan, JobPlan::text)
}

impl JobPlan {
    fn new(
        bits: u32,
        range_bits: RangeBits,
        (workers, threads): (Option<u32>, NonZeroUsize),
        memory: u64,
        estimate: Estimate,
    ) -> JobPlan {
        let losing = losing_total(bits);
        let ranges = range_bits.heads(bits);
        let records = round(record_bytes(bits, range_bits));
        let work = records + RANGE_FILE_BYTES * ranges;
        let shards = round(shard_bytes(bits));
        let all_threads = match workers {
            None => threads.min(machine::threads()).get() as u64,
            Some(workers) => threads.get() as u64 * u64::from(workers),
        };
        let [wall_seconds_least, wall_seconds] = estimate.wall(all_threads);
        let network = workers.map(|workers| {
            let workers = u64::from(workers);
            // The only worker has all records.
            let times = if workers > 1 { workers + 1 } else { 1 };
            let (fetched, put) = (times * records, records + shards);
            let each_worker = (fetched + put) / workers;
            Network {
                fetched,
                put,
                each_worker,
            }
        });
        let widths = head::layers(bits, range_bits).into_iter();
        JobPlan {
            bits,
            range_bits: range_bits.get(),
            positions: 1 << (bits - 1),
            losing: round(losing),
            stored: round(losing / 2.0),
            ranges,
            layers: estimate.layers,
            widest_layer: widths.map(|heads| heads.len()).max().unwrap_or(0),
            workers,
            threads: threads.get(),
            cpu_seconds: estimate.cpu,
            wall_seconds_least,
            wall_seconds,
            critical_path: CriticalPath {
                seconds: estimate.critical_path(),
                evaluation: estimate.evaluation,
                commit: estimate.commit,
            },
            threads_that_help: round(estimate.threads_that_help()),
            memory: Memory {
                worker_least: chomp_worker::memory_bytes(0, threads, range_bits),
                worker_useful: chomp_worker::memory_bytes(
                    memory_bytes(bits, range_bits),
                    threads,
                    range_bits,
                ),
                worker: memory,
                coordinator: COORDINATOR_BYTES + COORDINATOR_RANGE_BYTES * ranges,
            },
            disk: Disk {
                peak: work + shards,
                work,
                shards,
            },
            network,
        }
    }

    fn text(&self) -> String {
        let (count, bytes) = (HumanCount, HumanBytes);
        let mut lines = Lines::new(format_args!(
            "All Chomp positions of at most {} bits, in ranges of 2^{}",
            self.bits, self.range_bits
        ));
        lines.line("positions", count(self.positions));
        let (losing, stored) = (count(self.losing), count(self.stored));
        lines.line("losing", format_args!("about {losing}, {stored} stored"));
        let (ranges, layers, widest) = (count(self.ranges), self.layers, self.widest_layer);
        lines.line(
            "ranges",
            format_args!("{ranges} in {layers} layers, {widest} in the widest"),
        );
        lines.line("CPU time", time(self.cpu_seconds));
        let threads = self.threads;
        let machines = match self.workers {
            None => format!("{threads} threads of this machine"),
            Some(workers) => format!("{workers} workers of {threads} threads like this machine's"),
        };
        let (least, most) = (time(self.wall_seconds_least), time(self.wall_seconds));
        lines.line(
            "wall time",
            format_args!("{least} to {most} with {machines}"),
        );
        let path = &self.critical_path;
        let milliseconds = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
        lines.line(
            "critical path",
            format_args!(
                "{}, with any number of threads: {layers} layers x ({} to evaluate a range + {} to commit it)",
                time(path.seconds),
                milliseconds(path.evaluation),
                milliseconds(path.commit)
            ),
        );
        lines.line(
            "threads",
            format_args!("up to {} help", count(self.threads_that_help)),
        );
        let memory = &self.memory;
        let (least, useful) = (bytes(memory.worker_least), bytes(memory.worker_useful));
        let (here, coordinator) = (bytes(memory.worker), bytes(memory.coordinator));
        lines.line(
            "memory",
            format_args!("a worker at least {least}, with use up to {useful}, here {here}; the coordinator {coordinator}"),
        );
        let Disk { peak, work, shards } = self.disk;
        let [peak, work, shards] = [peak, work, shards].map(bytes);
        lines.line(
            "disk",
            format_args!("up to {peak} at the peak; {work} working files, {shards} shards"),
        );
        if let Some(network) = &self.network {
            let each = bytes(network.each_worker);
            let (fetched, put) = (bytes(network.fetched), bytes(network.put));
            lines.line(
                "network",
                format_args!("up to {fetched} read from the store, {put} written to it; {each} for each worker"),
            );
        }
        lines.into_text()
    }
}

/// Seconds in a form for people, with about three digits.
fn time(seconds: f64) -> String {
    let hours = seconds / 3600.0;
    match seconds {
        ..100.0 => format!("{seconds:.2} s"),
        ..6_000.0 => format!("{:.1} min", seconds / 60.0),
        ..360_000.0 => format!("{hours:.1} h"),
        _ if hours < 24.0 * 1000.0 => format!("{:.1} days", hours / 24.0),
        _ => format!("{:.1} years", hours / 24.0 / 365.25),
    }
}
