//! `chomp plan`: bounds for the time, memory, disk and network that a table takes, before anything is computed.
//!
//! It measures what the parts of a job cost on this machine, and gives that to the [forecast](chomp_plan::forecast).

use bytesize::ByteSize;
use std::num::NonZeroUsize;
use std::thread::ScopedJoinHandle;

use anyhow::Context;
use chomp_kernel::Isa;
use chomp_plan::Settings;
use chomp_plan::forecast::{Cluster, CostBounds, Costs, Forecast, as_f64, losing_total, round};
use chomp_table::{RangeBits, head};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use crate::flags::{BITS_MAX, BITS_MIN, MachineArgs, count, flag, range_bits, size};
use crate::local::COORDINATOR_RANGE_BYTES;
use crate::restore::is_restored;
use crate::summary::Lines;
use crate::{coordinator, costs, local, machine, trial};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp plan --bits 40
  chomp plan --bits 41 --from 40
  chomp plan --bits 44 --workers 20 --threads 16 --memory 32GiB --bandwidth 1GiB")]
pub(crate) struct PlanArgs {
    /// Plan for all positions of at most this many bits (first row + number of rows)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(BITS_MIN)..=i64::from(BITS_MAX)))]
    pub(crate) bits: u32,

    /// Plan for a job beside the published table of this many bits, which it extends
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(i64::from(BITS_MIN)..=i64::from(BITS_MAX)))]
    pub(crate) from: Option<u32>,

    /// Plan for this many workers, each with the threads and the memory given here, and a coordinator
    /// on a machine like this one [default: for `chomp run` on this machine]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) workers: Option<u32>,

    /// Work on ranges of 2^B numbers, half of which are words, from 2^12 to 2^32 [default: what the job would choose]
    #[arg(long, value_name = "B", value_parser = range_bits)]
    pub(crate) range_bits: Option<RangeBits>,

    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    /// The number of threads of the coordinator's machine [default: one for each CPU of this one]
    #[arg(long, value_parser = count, value_name = "C", requires = "workers")]
    pub(crate) coordinator_threads: Option<NonZeroUsize>,

    /// The bandwidth of each worker's link in bytes a second, as 1GiB [default: unlimited]
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub(crate) bandwidth: Option<ByteSize>,

    /// Print it as one JSON object
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// The memory that the coordinator's process takes before it has a job.
const COORDINATOR_BYTES: u64 = 64 << 20;
/// How many bytes the store takes for each range, beside its record: an entry in a segment of the journal and one in a
/// checkpoint. And for each task, at most: the header of its part, and a segment.
const WORK_FILE_BYTES: [u64; 2] = [64 + 80, 16 + 150];

/// The plan of a job. Times are in seconds, memory and disk in bytes.
#[derive(Debug, Serialize)]
struct JobPlan {
    bits: u32,
    range_bits: u32,
    positions: u64,
    layers: u64,
    ranges: u64,
    /// The most ranges of one layer.
    widest_layer: u64,
    /// The expected number.
    losing: u64,
    /// The expected number, one of each mirror pair.
    stored: u64,
    /// Null for `chomp run`.
    workers: Option<u32>,
    /// The threads of each worker.
    threads: usize,
    coordinator_threads: u32,
    cpu: Cpu,
    /// At least the longest of the bounds, and at most all of them.
    wall_seconds_least: f64,
    wall_seconds: f64,
    bounds: WallBounds,
    critical_path: Path,
    tasks: u64,
    memory: MemoryNeeds,
    disk: Disk,
    network: Network,
    /// With more threads the critical path or the coordinator takes longer than they do.
    threads_that_help: u64,
    /// The workers that have these threads.
    workers_that_help: u64,
    /// The measured seconds for each unit.
    #[serde(with = "CostsOfThisMachine")]
    costs: Costs,
}

/// Seconds that no part of the job can make up for.
#[derive(Debug, Serialize)]
struct WallBounds {
    /// The CPU time, divided by the threads.
    threads: f64,
    critical_path: f64,
    coordinator: f64,
    /// The bytes, over the links of the workers.
    links: f64,
}

/// Seconds of CPU time.
#[derive(Debug, Serialize)]
struct Cpu {
    total: f64,
    evaluation: f64,
    /// Encoding, reading and decoding records; at most.
    coding: f64,
    coordinator: f64,
    /// Merging ranges into shards.
    shards: f64,
    /// Restoring ranges from the shards of the table that is extended.
    restoring: f64,
}

/// Seconds that no number of workers shortens: layers x (evaluation + commit + fetch).
#[derive(Debug, Serialize)]
struct Path {
    seconds: f64,
    layers: u64,
    evaluation: f64,
    commit: f64,
    fetch: f64,
}

#[derive(Debug, Serialize)]
struct MemoryNeeds {
    /// With less memory, a worker refuses the job.
    worker_least: u64,
    /// More memory does not save a worker any reading.
    worker_useful: u64,
    /// The memory of each simulated worker.
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

#[derive(Debug, Serialize)]
struct Network {
    total: u64,
    /// The average.
    each_worker: u64,
    /// From the store to workers, at most.
    fetched: u64,
    /// From workers to the store.
    put: u64,
}

#[derive(Serialize)]
#[serde(remote = "Costs")]
struct CostsOfThisMachine {
    position: f64,
    scattered: f64,
    encode: f64,
    decode: f64,
    shard: f64,
    range: f64,
    read: f64,
    control: f64,
    commit: f64,
    fetch: f64,
}

pub(crate) async fn run(args: PlanArgs) -> anyhow::Result<()> {
    let threads = args.machine.share.threads();
    let memory_bytes = args.machine.share.memory_bytes()?;
    let range_bits = args.range_bits.unwrap_or_else(|| match args.workers {
        None => machine::range_bits(args.bits, threads, memory_bytes),
        Some(_) => machine::range_bits(args.bits, coordinator::THREADS, coordinator::MEMORY_BYTES),
    });
    Settings::new(args.bits, range_bits).check()?;
    let for_worker = match args.workers {
        None => local::worker_memory(memory_bytes, args.bits, range_bits, threads)?,
        Some(_) => memory_bytes,
    };
    let cache_bytes = chomp_worker::cache_bytes(for_worker, 0, threads, range_bits)?;

    let isa = args.machine.isa.unwrap_or_else(Isa::detect);
    let busy = threads.min(machine::threads());
    let mut costs = measure(args.bits, range_bits, isa, busy);
    trial::complete(&mut costs, busy, isa, &std::env::temp_dir())
        .await
        .context("cannot measure what a job costs on this machine")?;
    let coordinator_threads = args.coordinator_threads.unwrap_or_else(machine::threads);
    let cluster = Cluster {
        workers: args.workers.unwrap_or(1),
        threads: u32::try_from(threads.get()).unwrap_or(u32::MAX),
        cache_bytes,
        coordinator_threads: u32::try_from(coordinator_threads.get()).unwrap_or(u32::MAX),
        shared: args.workers.is_none(),
        bandwidth: args.bandwidth.map(|bytes| as_f64(bytes.as_u64())),
    };
    let plan = plan(&args, range_bits, costs, cluster, memory_bytes);
    crate::print_as(args.json, &plan, JobPlan::text)
}

/// Measures the costs in `threads` threads at the same time, as they share caches, and maybe cores.
fn measure(bits: u32, range_bits: RangeBits, isa: Isa, threads: NonZeroUsize) -> Costs {
    let measured: Vec<Costs> = std::thread::scope(|scope| {
        let measure = || costs::measure(bits, range_bits, isa, &mut machine::thread_cpu_time);
        let threads: Vec<_> = (0..threads.get()).map(|_| scope.spawn(measure)).collect();
        let measured = threads.into_iter().map(ScopedJoinHandle::join);
        measured
            .map(|costs| costs.expect("measuring does not panic"))
            .collect()
    });
    Costs::mean(&measured)
}

/// The plan of a job with these costs.
fn plan(
    args: &PlanArgs,
    range_bits: RangeBits,
    costs: Costs,
    cluster: Cluster,
    memory_bytes: u64,
) -> JobPlan {
    let bits = args.bits;
    let forecast = Forecast::new(bits, range_bits);
    let layers = head::layers(bits, range_bits);
    let losing = losing_total(bits);
    let ranges = forecast.ranges();

    let from = args
        .from
        .filter(|&from| is_restored(from, bits, range_bits));
    let bounds = CostBounds::new(&forecast, &costs, cluster, from);
    let path = bounds.path;
    let workers_that_help = bounds.threads_that_help() / f64::from(cluster.threads);
    let workers_that_help = round(workers_that_help.ceil());

    let threads = NonZeroUsize::new(cluster.threads as usize).unwrap_or(NonZeroUsize::MIN);
    let shards = round(forecast.shard_bytes(costs.shard_factor));
    let [of_range, of_task] = WORK_FILE_BYTES;
    let records = round(forecast.record_bytes(costs.record_bytes));
    let work = records + of_range * ranges + of_task * bounds.tasks;
    let (fetched, put) = match args.workers {
        // It has no network.
        None => (0, 0),
        Some(_) => (round(bounds.fetched), round(bounds.put)),
    };
    JobPlan {
        bits,
        range_bits: range_bits.get(),
        positions: 1 << (bits - 1),
        layers: layers.len() as u64,
        ranges,
        widest_layer: layers
            .iter()
            .map(|layer| layer.len() as u64)
            .max()
            .unwrap_or(0),
        losing: round(losing),
        stored: round(losing / 2.0),
        workers: args.workers,
        threads: threads.get(),
        coordinator_threads: cluster.coordinator_threads,
        cpu: Cpu {
            total: bounds.cpu(),
            evaluation: bounds.evaluation,
            coding: bounds.coding,
            coordinator: bounds.coordinator,
            shards: bounds.shards,
            restoring: bounds.restoring,
        },
        wall_seconds_least: bounds.least(),
        wall_seconds: bounds.most(),
        bounds: WallBounds {
            threads: bounds.threads_seconds(),
            critical_path: path.seconds(),
            coordinator: bounds.coordinator_seconds(),
            links: bounds.links_seconds(),
        },
        critical_path: Path {
            seconds: path.seconds(),
            layers: layers.len() as u64,
            evaluation: path.evaluation,
            commit: path.commit,
            fetch: path.fetch,
        },
        tasks: bounds.tasks,
        memory: MemoryNeeds {
            worker_least: chomp_worker::memory_bytes(0, threads, range_bits),
            worker_useful: chomp_worker::memory_bytes(bounds.useful_bytes, threads, range_bits),
            worker: memory_bytes,
            coordinator: COORDINATOR_BYTES + COORDINATOR_RANGE_BYTES * ranges,
        },
        disk: Disk {
            peak: work + shards,
            work,
            shards,
        },
        network: Network {
            total: fetched + put,
            each_worker: (fetched + put) / u64::from(cluster.workers),
            fetched,
            put,
        },
        threads_that_help: workers_that_help * u64::from(cluster.threads),
        workers_that_help,
        costs,
    }
}

impl JobPlan {
    fn text(&self) -> String {
        let count = HumanCount;
        let bytes = HumanBytes;
        let mut lines = Lines::new(format_args!(
            "All Chomp positions of at most {} bits, in ranges of 2^{}",
            self.bits, self.range_bits
        ));
        lines.line("positions", count(self.positions));
        let (losing, stored) = (count(self.losing), count(self.stored));
        lines.line("losing", format_args!("about {losing}, {stored} stored"));
        let (ranges, widest) = (count(self.ranges), count(self.widest_layer));
        let (layers, tasks) = (self.layers, count(self.tasks));
        lines.line(
            "ranges",
            format_args!("{ranges} in {layers} layers, {widest} in the widest; {tasks} tasks"),
        );
        lines.line("CPU time", self.cpu.text());
        let threads = self.threads;
        let who = match self.workers {
            None => format!("{threads} threads of this machine"),
            Some(workers) => {
                let workers = count(workers.into());
                format!("{workers} workers of {threads} threads like this machine's")
            }
        };
        let (least, most) = (time(self.wall_seconds_least), time(self.wall_seconds));
        let bounds = self.bounds.text();
        lines.line(
            "wall time",
            format_args!(
                "{least} to {most} with {who}: the longest of these, to all of them: {bounds}"
            ),
        );
        lines.line("critical path", self.critical_path.text());
        lines.line(
            "threads",
            format_args!(
                "up to {} help ({} workers of {threads}, with {} for the coordinator): with more, the critical path or the coordinator takes longer than they do",
                count(self.threads_that_help),
                count(self.workers_that_help),
                self.coordinator_threads
            ),
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
        let network = &self.network;
        let (total, each) = (bytes(network.total), bytes(network.each_worker));
        let (fetched, put) = (bytes(network.fetched), bytes(network.put));
        lines.line(
            "network",
            format_args!("{total}, {each} for each worker; {fetched} read from the store, {put} written to it"),
        );
        lines.into_text()
    }
}

impl WallBounds {
    fn text(&self) -> String {
        let (threads, path) = (time(self.threads), time(self.critical_path));
        let (coordinator, links) = (time(self.coordinator), time(self.links));
        format!("threads {threads}, critical path {path}, coordinator {coordinator}, links {links}")
    }
}

impl Path {
    fn text(&self) -> String {
        let milliseconds = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
        format!(
            "{}, with any number of threads: {} layers x ({} to evaluate a range + {} to commit it + {} to fetch a source)",
            time(self.seconds),
            self.layers,
            milliseconds(self.evaluation),
            milliseconds(self.commit),
            milliseconds(self.fetch)
        )
    }
}

impl Cpu {
    fn text(&self) -> String {
        let restoring = match self.restoring {
            0.0 => String::new(),
            seconds => format!(", restoring {}", time(seconds)),
        };
        format!(
            "{} of threads like this machine's: evaluation {}, coding {}, coordinator {}, shards {}{restoring}",
            time(self.total),
            time(self.evaluation),
            time(self.coding),
            time(self.coordinator),
            time(self.shards)
        )
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
