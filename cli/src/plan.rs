//! `chomp plan`: the time, memory, disk and network that a table takes, before anything is computed.
//!
//! A short [trial] measures the costs on this machine, and the [forecast](chomp_plan::forecast) says how often each
//! cost occurs.

use chomp_plan::forecast::{
    Estimate, MachineCosts, losing_total, memory_bytes, record_bytes, round, shard_bytes,
};
use chomp_plan::{Settings, counted};
use chomp_table::{RangeBits, head};
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};

use crate::exit::usage;
use crate::flags::{ShareArgs, WantedTable, bits, flag, number};
use crate::local::COORDINATOR_RANGE_BYTES;
use crate::restore::would_be_restored;
use crate::summary::TextReport;
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
    #[arg(long, value_name = "M", value_parser = bits)]
    pub(crate) from: Option<u32>,

    /// Plan for this many workers, each with the threads and the memory given here, and a coordinator [default: for
    /// `chomp run` on this machine]
    #[arg(long, value_name = "W", value_parser = number::<u32>(1..=65_536))]
    pub(crate) workers: Option<u32>,

    #[command(flatten)]
    pub(crate) share: ShareArgs,

    /// Print it as one JSON object
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// The memory that the coordinator's process takes before it has a job.
const COORDINATOR_BYTES: u64 = 64 << 20;
/// The bytes of files for a range besides its record: the header of the part, a segment of the journal with an entry,
/// and an entry in a checkpoint.
const RANGE_FILE_BYTES: u64 = 310;

pub(crate) async fn run(args: PlanArgs) -> anyhow::Result<()> {
    let WantedTable { bits, range_bits } = args.wanted;
    if let Some(from) = args.from.filter(|&from| from >= bits) {
        return Err(usage(format!(
            "a table of {from} bits has all of {bits}, and nothing is left to compute: --from takes fewer bits than --bits"
        )));
    }
    let (threads, memory) = (args.share.threads(), args.share.memory_bytes()?);
    let range_bits = range_bits.unwrap_or_else(|| match args.workers {
        None => machine::range_bits(bits, threads, memory),
        Some(_) => machine::range_bits(
            bits,
            coordinator::ASSUMED_WORKER_THREADS,
            coordinator::ASSUMED_WORKER_MEMORY_BYTES,
        ),
    });
    Settings::new(bits, range_bits).validate()?;
    match args.workers {
        None => local::worker_memory(memory, bits, range_bits, threads)?,
        Some(_) => chomp_worker::range_budget(memory, 0, threads, range_bits)?,
    };
    let costs = trial::measure(threads.min(machine::threads())).await;
    let plan = plan(&args, range_bits, memory, costs);
    crate::print_as(args.json, &plan, text)
}

/// Times are in seconds, memory and disk in bytes.
fn plan(args: &PlanArgs, range_bits: RangeBits, memory: u64, costs: MachineCosts) -> Value {
    let (bits, threads, workers) = (args.wanted.bits, args.share.threads(), args.workers);
    let from = args.from;
    let from = from.filter(|&from| would_be_restored(from, bits, range_bits));
    let estimate = Estimate::new(bits, range_bits, from, workers.unwrap_or(1), costs);
    let [wall_seconds_least, wall_seconds] = estimate.wall(match workers {
        None => threads.min(machine::threads()).get() as u64,
        Some(workers) => threads.get() as u64 * u64::from(workers),
    });
    let (losing, ranges) = (losing_total(bits), range_bits.head_count(bits));
    let layers = head::layers(bits, range_bits);
    let records = round(record_bytes(bits, range_bits));
    let (work, shards) = (
        records + RANGE_FILE_BYTES * ranges,
        round(shard_bytes(bits)),
    );
    let worker_memory = |cache| chomp_worker::memory_for_cache(cache, threads, range_bits);
    let network = workers.map(u64::from).map(|workers| {
        // Each worker reads every record, and one of them reads it once more for the shards. A single worker reads its
        // own records only for the shards.
        let times = if workers > 1 { workers + 1 } else { 1 };
        let (fetched, put) = (times * records, records + shards);
        json!({ "fetched": fetched, "put": put, "each_worker": (fetched + put) / workers })
    });
    json!({
        "bits": bits,
        "range_bits": range_bits.get(),
        "positions": 1_u64 << (bits - 1),
        "losing": round(losing),
        "stored": round(losing / 2.0),
        "ranges": ranges,
        "layers": estimate.layers,
        "widest_layer": layers.iter().map(Vec::len).max(),
        "workers": workers,
        "threads": threads,
        "cpu_seconds": estimate.cpu,
        "wall_seconds_least": wall_seconds_least,
        "wall_seconds": wall_seconds,
        "critical_path": {
            "seconds": estimate.critical_path(),
            "evaluation": estimate.evaluation,
            "commit": estimate.commit,
        },
        "threads_that_help": round(estimate.threads_that_help()),
        "memory": {
            // With less memory a worker refuses the job, and with more it is no faster.
            "worker_least": worker_memory(0),
            "worker_useful": worker_memory(memory_bytes(bits, range_bits)),
            "worker": memory,
            "coordinator": COORDINATOR_BYTES + COORDINATOR_RANGE_BYTES * ranges,
        },
        // Working files and shards together. A large job of the owner alone takes less: it removes working files while
        // it writes shards.
        "disk": { "peak": work + shards, "work": work, "shards": shards },
        "network": network,
    })
}

fn text(plan: &Value) -> String {
    let number = |field| plan.pointer(field).expect("a field of the plan");
    let count = |field| HumanCount(number(field).as_u64().expect("a count"));
    let bytes = |field| HumanBytes(number(field).as_u64().expect("bytes"));
    let seconds = |field| number(field).as_f64().expect("seconds");
    let time = |field| time(seconds(field));
    let heading = format!("All Chomp positions of at most {} bits", plan["bits"]);
    let layers = counted(count("/layers"), "layer");
    let threads = counted(&plan["threads"], "thread");
    let machines = match &plan["workers"] {
        Value::Null => format!("{threads} of this machine"),
        workers => {
            let workers = counted(workers, "worker");
            format!("{workers}, each with {threads} like this machine's")
        }
    };
    let mut lines = TextReport::new(heading);
    let mut line = |name, value: String| lines.line(name, value);
    line("positions", count("/positions").to_string());
    let (losing, stored) = (count("/losing"), count("/stored"));
    let stored = format!("about {losing}; {stored} are stored, one of each mirror pair");
    line("losing", stored);
    let (ranges, range_bits) = (count("/ranges"), &plan["range_bits"]);
    let widest = counted(count("/widest_layer"), "range");
    let ranges = format!("{ranges} of 2^{range_bits} numbers");
    let order = format!("{layers}, one after the other, of at most {widest}");
    line("ranges", format!("{ranges}, in {order}"));
    line("CPU time", time("/cpu_seconds"));
    let (least, most) = (time("/wall_seconds_least"), time("/wall_seconds"));
    line("wall time", format!("{least} to {most} with {machines}"));
    line(
        "at least",
        format!(
            "{} with any number of threads: {layers}, each {:.2} ms to evaluate a range and {:.2} ms to store it",
            time("/critical_path/seconds"),
            seconds("/critical_path/evaluation") * 1e3,
            seconds("/critical_path/commit") * 1e3
        ),
    );
    let help = count("/threads_that_help");
    line(
        "threads",
        format!("at most {help} are of use, on all machines together"),
    );
    line(
        "memory",
        format!(
            "{} for a worker (at least {}, at most {} are of use); {} for the coordinator",
            bytes("/memory/worker"),
            bytes("/memory/worker_least"),
            bytes("/memory/worker_useful"),
            bytes("/memory/coordinator")
        ),
    );
    let [peak, work, shards] = ["/disk/peak", "/disk/work", "/disk/shards"].map(bytes);
    line(
        "disk",
        format!("{peak} at the most: {work} of working files, {shards} of shards"),
    );
    if !plan["network"].is_null() {
        let fields = ["/network/fetched", "/network/put", "/network/each_worker"];
        let [fetched, put, each] = fields.map(bytes);
        line(
            "network",
            format!(
                "{fetched} read from the store at the most, {put} written to it; {each} for each worker"
            ),
        );
    }
    lines.into_text()
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
