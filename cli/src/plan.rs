//! `chomp plan`: bounds for the time, memory, disk and network that a table takes, before anything is computed.
//!
//! It measures what the parts of a job cost on this machine, and gives that to the [forecast](chomp_plan::forecast).

use bytesize::ByteSize;
use std::num::NonZeroUsize;

use anyhow::Context;
use chomp_kernel::Isa;
use chomp_plan::Settings;
use chomp_plan::forecast::{Cluster, CostBounds, Costs, Forecast, losing_total};
use chomp_table::{RangeBits, head};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use crate::exit::Exit;
use crate::flags::{BITS_MAX, BITS_MIN, MachineArgs, count, flag, range_bits, size};
use crate::local::COORDINATOR_RANGE_BYTES;
use crate::restore::is_restored;
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
    costs: CostsOfThisMachine,
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
    /// Working files and shards, before the working files go.
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

#[derive(Debug, Serialize)]
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

pub(crate) async fn run(args: PlanArgs) -> anyhow::Result<Exit> {
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
    let plan = plan(&args, range_bits, &costs, cluster, memory_bytes);
    crate::print_as(args.json, &plan, JobPlan::text)?;
    Ok(Exit::Done)
}

/// Measures the costs in `threads` threads at the same time, as they share caches, and maybe cores.
fn measure(bits: u32, range_bits: RangeBits, isa: Isa, threads: NonZeroUsize) -> Costs {
    let measured: Vec<Costs> = std::thread::scope(|scope| {
        let measure = || costs::measure(bits, range_bits, isa, &mut machine::thread_cpu_time);
        let threads: Vec<_> = (0..threads.get()).map(|_| scope.spawn(measure)).collect();
        let measured = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        measured
            .map(|costs| costs.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    Costs::mean(&measured)
}

/// The plan of a job with these costs.
fn plan(
    args: &PlanArgs,
    range_bits: RangeBits,
    costs: &Costs,
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
    let bounds = CostBounds::new(&forecast, costs, cluster, from);
    let path = bounds.path;
    let workers_that_help = bounds.threads_that_help() / f64::from(cluster.threads);
    let workers_that_help = whole(workers_that_help.ceil());

    let threads = NonZeroUsize::new(cluster.threads as usize).unwrap_or(NonZeroUsize::MIN);
    let shards = whole(forecast.shard_bytes(costs.shard_factor));
    let [of_range, of_task] = WORK_FILE_BYTES;
    let records = whole(forecast.record_bytes(costs.record_bytes));
    let work = records + of_range * ranges + of_task * bounds.tasks;
    let (fetched, put) = match args.workers {
        // It has no network.
        None => (0, 0),
        Some(_) => (whole(bounds.fetched), whole(bounds.put)),
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
        losing: whole(losing),
        stored: whole(losing / 2.0),
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
        costs: CostsOfThisMachine {
            position: costs.position,
            scattered: costs.scattered,
            encode: costs.encode,
            decode: costs.decode,
            shard: costs.shard,
            range: costs.range,
            read: costs.read,
            control: costs.control,
            commit: costs.commit,
            fetch: costs.fetch,
        },
    }
}

impl JobPlan {
    fn text(&self) -> String {
        let mut text = format!(
            "All Chomp positions of at most {} bits, in ranges of 2^{}\n",
            self.bits, self.range_bits
        );
        let mut line = |name: &str, value: String| crate::add_line(&mut text, name, &value);
        line("positions", HumanCount(self.positions).to_string());
        line(
            "losing",
            format!(
                "about {}, {} stored",
                HumanCount(self.losing),
                HumanCount(self.stored)
            ),
        );
        line(
            "ranges",
            format!(
                "{} in {} layers, {} in the widest; {} tasks",
                HumanCount(self.ranges),
                self.layers,
                HumanCount(self.widest_layer),
                HumanCount(self.tasks)
            ),
        );
        line("CPU time", self.cpu.text());
        let who = match self.workers {
            None => format!("{} threads of this machine", self.threads),
            Some(workers) => format!(
                "{} workers of {} threads like this machine's",
                HumanCount(workers.into()),
                self.threads
            ),
        };
        line(
            "wall time",
            format!(
                "{} to {} with {who}: the longest of these, to all of them: {}",
                time(self.wall_seconds_least),
                time(self.wall_seconds),
                self.bounds.text()
            ),
        );
        line("critical path", self.critical_path.text());
        line(
            "threads",
            format!(
                "up to {} help ({} workers of {}, with {} for the coordinator): with more, the critical path or the coordinator takes longer than they do",
                HumanCount(self.threads_that_help),
                HumanCount(self.workers_that_help),
                self.threads,
                self.coordinator_threads
            ),
        );
        line(
            "memory",
            format!(
                "a worker at least {}, with use up to {}, here {}; the coordinator {}",
                HumanBytes(self.memory.worker_least),
                HumanBytes(self.memory.worker_useful),
                HumanBytes(self.memory.worker),
                HumanBytes(self.memory.coordinator)
            ),
        );
        line(
            "disk",
            format!(
                "{} at the peak; {} working files, {} shards",
                HumanBytes(self.disk.peak),
                HumanBytes(self.disk.work),
                HumanBytes(self.disk.shards)
            ),
        );
        line(
            "network",
            format!(
                "{}, {} for each worker; {} read from the store, {} written to it",
                HumanBytes(self.network.total),
                HumanBytes(self.network.each_worker),
                HumanBytes(self.network.fetched),
                HumanBytes(self.network.put)
            ),
        );
        text
    }
}

impl WallBounds {
    fn text(&self) -> String {
        format!(
            "threads {}, critical path {}, coordinator {}, links {}",
            time(self.threads),
            time(self.critical_path),
            time(self.coordinator),
            time(self.links)
        )
    }
}

impl Path {
    fn text(&self) -> String {
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

fn milliseconds(seconds: f64) -> String {
    format!("{:.2} ms", seconds * 1e3)
}

#[expect(clippy::cast_precision_loss, reason = "a forecast need not be exact")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "expected numbers are not negative, and need not be exact"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
