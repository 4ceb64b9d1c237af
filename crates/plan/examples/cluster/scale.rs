//! How many threads help: more and more workers do the same job.
//!
//! `scale 48 range_bits=28 bandwidth=1.25e9 workers=16` begins with 16 workers, by default with one, and doubles them
//! until the job takes more than twice its CPU time divided by the threads. It then looks between the last two numbers,
//! and says what each job was limited by. Few workers may have too little memory for a large job: begin with more then.
//! Each cost of a machine may be given.

use chomp_plan::forecast::{Forecast, as_f64, losing_total, round};
use chomp_table::{Head, RangeBits, head};

use crate::costs::{Cluster, Costs};
use crate::job::{Job, Outcome};
use crate::simulation::{ALONE, run};

/// Threads help up to this ratio of the wall time to the CPU time divided by the threads.
const STILL_HELPS: f64 = 2.0;

/// The costs of a thread of an AMD EPYC (family 26), and of its disk. They were measured for ranges of 2^26.
const COSTS: Costs = Costs {
    position: 7.4e-11,
    scattered: 4.9e-10,
    encode: 2.4e-9,
    decode: 9.0e-10,
    record_bytes: 1.18,
    shard: 7.5e-9,
    shard_factor: 0.81,
    range: 1.0e-4,
    read: 4.2e-5,
    control: 2.6e-5,
    commit: 3.9e-4,
    fetch: 4.9e-5,
};

/// The job, its costs and the cluster.
struct Question {
    bits: u32,
    range_bits: u32,
    costs: Costs,
    cluster: Cluster,
}

fn read(mut arguments: impl Iterator<Item = String>) -> Result<Question, String> {
    let bits = arguments.next().ok_or("no bits")?;
    let bits: u32 = bits.parse().map_err(|_| format!("{bits} are no bits"))?;
    let mut question = Question {
        bits,
        range_bits: 26,
        costs: COSTS,
        cluster: Cluster {
            threads: 16,
            cache_bytes: 56 << 30,
            coordinator_threads: 8,
            ..ALONE
        },
    };
    for argument in arguments {
        let wrong = || format!("{argument} is not known");
        let (name, number) = argument.split_once('=').ok_or_else(wrong)?;
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let whole = round(number);
        let small = u32::try_from(whole).unwrap_or(u32::MAX);
        let Question { costs, cluster, .. } = &mut question;
        match name {
            "range_bits" => question.range_bits = small,
            "workers" => cluster.workers = small.max(1),
            "threads" => cluster.threads = small.max(1),
            "coordinator_threads" => cluster.coordinator_threads = small,
            "cache_bytes" => cluster.cache_bytes = whole,
            "bandwidth" => cluster.bandwidth = Some(number),
            "position" => costs.position = number,
            "scattered" => costs.scattered = number,
            "encode" => costs.encode = number,
            "decode" => costs.decode = number,
            "shard" => costs.shard = number,
            "range" => costs.range = number,
            "read" => costs.read = number,
            "control" => costs.control = number,
            "commit" => costs.commit = number,
            "fetch" => costs.fetch = number,
            _ => return Err(wrong()),
        }
    }
    Ok(question)
}

/// Prints the table, and how many threads help.
///
/// # Errors
///
/// If the arguments are not what can be asked.
pub(crate) fn answer(arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let question = read(arguments).map_err(|wrong| {
        format!("{wrong}: give BITS and any of name=number, as threads=16 bandwidth=1.25e9")
    })?;
    let range_bits = RangeBits::new(question.range_bits).ok_or("from 12 to 32 range bits")?;
    let forecast = Forecast::new(question.bits, range_bits);
    let job = Job::new(forecast, question.costs).map_err(|wrong| wrong.to_string())?;
    let path = critical_path(&job);
    println!(
        "| workers | threads | CPU, s | wall, s | times CPU / threads | read by each, GB | most of it |"
    );
    println!("|---|---|---|---|---|---|---|");
    let helps = |workers: u32| {
        let cluster = Cluster {
            workers,
            ..question.cluster
        };
        let found = run(&job, cluster, None);
        tell(&found, path, cluster)
    };
    let (mut enough, mut too_many) = (0, question.cluster.workers);
    while helps(too_many) {
        enough = too_many;
        too_many *= 2;
    }
    while too_many - enough > enough.div_ceil(8).max(1) {
        let middle = enough.midpoint(too_many);
        if helps(middle) {
            enough = middle;
        } else {
            too_many = middle;
        }
    }
    println!("\n{} threads help", enough * question.cluster.threads);
    Ok(())
}

/// The seconds that no number of threads shortens: in each layer a range is evaluated, its part becomes durable, then
/// the segment of the journal that names it, and then its record is read.
fn critical_path(job: &Job) -> f64 {
    let Job {
        forecast, costs, ..
    } = job;
    let heads = (0..forecast.ranges()).map(Head);
    let evaluation: f64 = heads.map(|head| costs.evaluation(forecast, head)).sum();
    let coding = losing_total(forecast.bits()) * costs.encode;
    let range = (evaluation + coding) / as_f64(forecast.ranges());
    let commit = 2.0 * costs.commit + costs.control(1);
    let layers = head::layer_count(forecast.bits(), forecast.range_bits());
    as_f64(layers as u64) * (range + commit + costs.fetch)
}

/// Prints what came out, beside the critical `path`. Returns whether all threads helped.
fn tell(found: &Outcome, path: f64, cluster: Cluster) -> bool {
    let workers = f64::from(cluster.workers);
    let threads = workers * f64::from(cluster.threads);
    let share = found.cpu_seconds() / threads;
    let of_each = found.load.down / workers;
    let links = cluster
        .bandwidth
        .map_or(0.0, |bandwidth| of_each / bandwidth);
    let coordinator = found.coordinator / f64::from(cluster.coordinator_threads);
    let limits = [
        ("threads", share),
        ("critical path", path),
        ("coordinator", coordinator),
        ("links", links),
    ];
    let most = limits.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let (limit, seconds) = most.expect("four");
    println!(
        "| {} | {threads} | {:.0} | {:.1} | {:.2} | {:.1} | {limit}, {seconds:.1} s |",
        cluster.workers,
        found.cpu_seconds(),
        found.seconds,
        found.seconds / share,
        of_each / 1e9,
    );
    found.seconds <= STILL_HELPS * share
}
