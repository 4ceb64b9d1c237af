//! `chomp plan`: what a table will take, before anything is computed.
//!
//! The [forecast](chomp_coordinator::forecast) with the costs of this machine, measured now.

use std::fmt::Write;
use std::num::NonZeroUsize;

use anyhow::Context;
use chomp_coordinator::forecast::simulation::{Cluster, Outcome, simulate};
use chomp_coordinator::forecast::{Costs, Forecast, losing_total};
use chomp_coordinator::plan::Settings;
use chomp_kernel::Isa;
use chomp_table::{Head, RangeBits, head};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use crate::args::PlanArgs;
use crate::exit::Exit;
use crate::local::COORDINATOR_RANGE_BYTES;
use crate::{coordinator, local, machine, trial};

/// A job with more ranges is simulated with larger ones: a million would take half a minute.
const SIMULATED_HEAD_BITS_MAX: u32 = 18;
/// The same for each of the simulations that look for the number of workers that help.
const SCANNED_HEAD_BITS_MAX: u32 = 12;
/// A number of workers helps as long as the job takes more than this times the least time.
const NEAR_LEAST: f64 = 1.1;
/// What the coordinator's process takes before it has a job.
const COORDINATOR_BYTES: u64 = 32 << 20;
/// The words of the shards that are filled and compressed at the same time.
const PUBLICATION_BYTES_MAX: u64 = 96 << 20;
/// So many threads publish, if there are as many: one merges, and reading and compressing are as much
/// work.
const PUBLISHING_THREADS_MAX: u32 = 2;
/// The most that results on their way take of its memory.
const SUBMISSIONS_BYTES_MAX: u64 = 128 << 20;
/// The bytes of parts for each range and each task, and of seals for each range and each layer.
const WORK_FILE_BYTES: [u64; 4] = [88, 72, 48, 104];

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
    /// Expected.
    losing: u64,
    /// Expected: one of each mirror pair.
    stored: u64,
    /// Nothing for `chomp run`.
    workers: Option<u32>,
    /// Of each worker.
    threads: usize,
    coordinator_threads: u32,
    cpu: Cpu,
    wall_seconds: f64,
    /// The part of the wall time after the last range.
    publication_seconds: f64,
    /// The range bits of the job that was simulated for the wall time.
    simulated_range_bits: u32,
    tasks: u64,
    memory: Memory,
    disk: Disk,
    network: Network,
    /// More workers of as many threads shorten the wall time by less than a tenth.
    workers_that_help: u32,
    /// The seconds that the measurement of this machine came to, for each unit.
    costs: CostsOfThisMachine,
}

/// Seconds of CPU time on this machine.
#[derive(Debug, Serialize)]
struct Cpu {
    total: f64,
    evaluation: f64,
    /// Encoding and decoding by workers.
    coding: f64,
    /// Checking, writing and sending by the coordinator.
    coordinator: f64,
    /// Merging into shards, by one thread of the coordinator.
    publication: f64,
}

#[derive(Debug, Serialize)]
struct Memory {
    /// With less, a worker refuses the job.
    worker_least: u64,
    /// With more, a worker fetches nothing less.
    worker_useful: u64,
    /// What the simulated workers have.
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
    /// On average.
    each_worker: u64,
    fetched: u64,
    submitted: u64,
}

#[derive(Debug, Serialize)]
struct CostsOfThisMachine {
    position: f64,
    scattered: f64,
    encode: f64,
    decode: f64,
    shard: f64,
    handling: f64,
    range: f64,
    round_trip: f64,
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
    let plan = plan(&args, range_bits, &costs, cluster, memory_bytes)?;
    crate::print(&if args.json {
        serde_json::to_string(&plan)? + "\n"
    } else {
        plan.text()
    })?;
    Ok(Exit::Done)
}

/// What things cost while so many threads are at work: they share caches, and maybe cores.
fn measure(bits: u32, range_bits: RangeBits, isa: Isa, threads: NonZeroUsize) -> Costs {
    let measured: Vec<Costs> = std::thread::scope(|scope| {
        let measure = || Costs::measure(bits, range_bits, isa, &mut machine::thread_cpu_time);
        let threads: Vec<_> = (0..threads.get()).map(|_| scope.spawn(measure)).collect();
        let measured = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        measured
            .map(|costs| costs.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    Costs::mean(&measured)
}

/// The plan, from what things cost.
fn plan(
    args: &PlanArgs,
    range_bits: RangeBits,
    costs: &Costs,
    cluster: Cluster,
    memory_bytes: u64,
) -> anyhow::Result<JobPlan> {
    let bits = args.bits;
    let forecast = Forecast::new(bits, range_bits);
    let layers = head::layers(bits, range_bits);
    let losing = losing_total(bits);
    let ranges = forecast.ranges();

    let simulated = simulated_range_bits(bits, range_bits, SIMULATED_HEAD_BITS_MAX);
    let outcome = simulated_job(&forecast, simulated, costs, cluster)?;
    let publication = publication_seconds(&forecast, costs);
    let publishing = cluster.coordinator_threads.clamp(1, PUBLISHING_THREADS_MAX);
    let publication_wall = publication / f64::from(publishing);
    let scanned = simulated_range_bits(bits, range_bits, SCANNED_HEAD_BITS_MAX);
    let workers_that_help = scan(&forecast, scanned, costs, cluster)?;

    let heads = || (0..ranges).map(Head);
    let evaluation: f64 = heads().map(|head| costs.evaluation(&forecast, head)).sum();
    let fetched_losing = losing * outcome.fetched / outcome.submitted;
    let coding = losing * costs.encode + fetched_losing * costs.decode;
    let coordinator = outcome
        .coordinator_seconds
        .max(checking_seconds(&forecast, costs));
    let threads = NonZeroUsize::new(cluster.threads as usize).unwrap_or(NonZeroUsize::MIN);
    let record_bytes = whole(forecast.all_record_bytes(costs.record_factor));
    let shards = whole(forecast.shard_bytes(costs.shard_factor));
    let tasks = outcome.tasks;
    let [part_range, part, seal_range, seal] = WORK_FILE_BYTES;
    let work = record_bytes
        + (part_range + seal_range) * ranges
        + part * tasks
        + seal * layers.len() as u64;
    let largest = heads()
        .map(|head| forecast.losing(head))
        .fold(0.0, f64::max);
    let on_their_way = whole(outcome.submitted) / tasks.max(1)
        * 2
        * u64::from(cluster.threads)
        * u64::from(cluster.workers);
    Ok(JobPlan {
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
            total: evaluation + coding + coordinator + publication,
            evaluation,
            coding,
            coordinator,
            publication,
        },
        wall_seconds: outcome.seconds + publication_wall,
        publication_seconds: publication_wall,
        simulated_range_bits: simulated.get(),
        tasks,
        memory: Memory {
            worker_least: chomp_worker::memory_bytes(0, threads, range_bits),
            worker_useful: chomp_worker::memory_bytes(forecast.useful_bytes(), threads, range_bits),
            worker: memory_bytes,
            coordinator: COORDINATOR_BYTES
                + COORDINATOR_RANGE_BYTES * ranges
                + on_their_way.min(SUBMISSIONS_BYTES_MAX)
                // Five ranges are decoded, and one is merged into a shard while others are compressed.
                + (5 * 4 + 8) * whole(largest)
                + whole(8.0 * losing / 2.0).min(PUBLICATION_BYTES_MAX)
                + shards.min(32 << 20),
        },
        disk: Disk {
            peak: work + shards,
            work,
            shards,
        },
        network: Network {
            total: whole(outcome.fetched + outcome.submitted),
            each_worker: whole(outcome.fetched + outcome.submitted) / u64::from(cluster.workers),
            fetched: whole(outcome.fetched),
            submitted: whole(outcome.submitted),
        },
        workers_that_help,
        costs: CostsOfThisMachine {
            position: costs.position,
            scattered: costs.scattered,
            encode: costs.encode,
            decode: costs.decode,
            shard: costs.shard,
            handling: costs.handling,
            range: costs.range,
            round_trip: costs.round_trip,
        },
    })
}

/// The range bits of a job that is simulated: those of the job, or more if it has too many ranges.
fn simulated_range_bits(bits: u32, range_bits: RangeBits, head_bits_max: u32) -> RangeBits {
    let least = bits.saturating_sub(head_bits_max).min(RangeBits::MAX);
    RangeBits::new(range_bits.get().max(least)).expect("within the limits")
}

/// Simulates the job in ranges of `range_bits`. What ranges of the true size cost besides their
/// positions is spread over the larger ones.
fn simulated_job(
    forecast: &Forecast,
    range_bits: RangeBits,
    costs: &Costs,
    cluster: Cluster,
) -> anyhow::Result<Outcome> {
    if range_bits == forecast.range_bits() {
        return Ok(simulate(forecast, costs, cluster)?);
    }
    let larger = Forecast::new(forecast.bits(), range_bits);
    let mut costs = *costs;
    costs.range *= as_f64(forecast.ranges()) / as_f64(larger.ranges());
    Ok(simulate(&larger, &costs, cluster)?)
}

/// The fewest workers with which the job takes at most [`NEAR_LEAST`] times the least time.
fn scan(
    forecast: &Forecast,
    range_bits: RangeBits,
    costs: &Costs,
    cluster: Cluster,
) -> anyhow::Result<u32> {
    let layers = head::layers(forecast.bits(), range_bits);
    let widest = layers.iter().map(Vec::len).max().unwrap_or(1);
    let mut times = Vec::new();
    for doublings in 0..u32::BITS {
        let workers = 1 << doublings;
        let cluster = Cluster {
            workers,
            shared: false,
            ..cluster
        };
        let outcome = simulated_job(forecast, range_bits, costs, cluster)?;
        times.push((workers, outcome.seconds));
        // Beyond that, some have nothing to do even in the widest layer.
        if workers as usize * cluster.threads as usize >= widest {
            break;
        }
    }
    let least = times
        .iter()
        .map(|&(_, time)| time)
        .fold(f64::INFINITY, f64::min);
    let enough = times.iter().find(|&&(_, time)| time <= NEAR_LEAST * least);
    Ok(enough.map_or(1, |&(workers, _)| workers))
}

/// What the coordinator does with results.
fn checking_seconds(forecast: &Forecast, costs: &Costs) -> f64 {
    let heads = (0..forecast.ranges()).map(Head);
    heads.map(|head| costs.checking(forecast, head)).sum()
}

/// What publication takes of CPU time: all ranges are read, merged, and written as shards.
fn publication_seconds(forecast: &Forecast, costs: &Costs) -> f64 {
    losing_total(forecast.bits()) * (costs.decode + costs.shard)
}

impl JobPlan {
    fn text(&self) -> String {
        let mut text = format!(
            "All Chomp positions of at most {} bits, in ranges of 2^{}\n",
            self.bits, self.range_bits
        );
        let mut line = |name: &str, value: String| {
            writeln!(text, "  {name:<12} {value}").expect("writing to a string does not fail");
        };
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
                "{} with {who}; {} of it to write the shards",
                time(self.wall_seconds),
                time(self.publication_seconds)
            ),
        );
        if self.simulated_range_bits != self.range_bits {
            line(
                "",
                format!("(simulated with {} range bits)", self.simulated_range_bits),
            );
        }
        line(
            "workers",
            format!(
                "up to {} of {} threads help, with {} for the coordinator; more shorten it by less than a tenth",
                HumanCount(self.workers_that_help.into()),
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
                "{}, {} for each worker; {} fetched, {} submitted",
                HumanBytes(self.network.total),
                HumanBytes(self.network.each_worker),
                HumanBytes(self.network.fetched),
                HumanBytes(self.network.submitted)
            ),
        );
        text
    }
}

impl Cpu {
    fn text(&self) -> String {
        format!(
            "{} on this machine: evaluation {}, coding {}, coordinator {}, shards {}",
            time(self.total),
            time(self.evaluation),
            time(self.coding),
            time(self.coordinator),
            time(self.publication)
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
