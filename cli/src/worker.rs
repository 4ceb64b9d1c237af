//! `chomp worker`: computes for a coordinator.

use chomp_store::location::Location;
use std::time::Duration;

use chomp_kernel::Isa;
use chomp_table::shard::ShardSize;
use chomp_worker::{Config, End, Evaluation, Report, StoreChoice};
use serde::Serialize;

use crate::exit::Exit;
use crate::flags::{MachineArgs, ReachArgs, flag, location};
use crate::machine;
use crate::progress::Display;
use crate::reach;
use crate::signals::{drain_on_signal, stop_on_signals};
use crate::summary::Meter;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp worker --access access.json
  chomp worker --coordinator https://localhost:7171 --threads 4 --memory 8GiB
  kill -USR2 PID      has a worker do the tasks in its hands, take no more, and end")]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    /// Where this machine reaches the store, if not where the coordinator says; `coordinator` to go through the
    /// coordinator
    #[arg(long, value_name = "URL", value_parser = way)]
    pub(crate) store: Option<Way>,

    /// The name of this worker in the coordinator's status [default: the machine's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// End after this many seconds without contact to the coordinator [default: 10 at the start,
    /// 1800 later]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) patience: Option<u64>,

    /// Print what was done as one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// How a worker reaches the store.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// By itself.
    Direct(Location),
    /// Through the coordinator.
    Coordinator,
}

fn way(text: &str) -> Result<Way, String> {
    if text == "coordinator" {
        return Ok(Way::Coordinator);
    }
    location(text).map(Way::Direct)
}

/// The report of a worker, as JSON.
#[derive(Debug, Serialize)]
struct Done {
    /// Whether the table is finished.
    finished: bool,
    ranges_evaluated: u64,
    cpu_seconds: f64,
    evaluation_cpu_seconds: f64,
}

pub(crate) async fn run(args: WorkerArgs, display: &Display) -> anyhow::Result<Exit> {
    let meter = Meter::start();
    let stop = stop_on_signals()?;
    let config = Config {
        access: reach::access(&args.reach)?,
        name: args.name.unwrap_or_else(machine::process_name),
        threads: args.machine.share.threads(),
        memory_bytes: args.machine.share.memory_bytes()?,
        isa: args.machine.isa.unwrap_or_else(Isa::detect),
        store: args.store.map(|way| match way {
            Way::Direct(location) => StoreChoice::Location(location),
            Way::Coordinator => StoreChoice::Coordinator,
        }),
        shard: ShardSize::PUBLISHED,
        patience: args.patience.map(Duration::from_secs),
        evaluation: Evaluation::Threads,
        seed: None,
        drain: drain_on_signal()?,
    };
    let coordinator = config.access.coordinator.clone();
    display.say(&format!(
        "worker {} with {} threads, for {coordinator}",
        config.name, config.threads
    ));
    let Report {
        end,
        settled,
        ranges,
        evaluation,
        ..
    } = chomp_worker::run_in_haste(config, display.haste(), stop).await?;
    let done = Done {
        finished: end == End::Finished,
        ranges_evaluated: ranges,
        cpu_seconds: meter.cost().cpu.as_secs_f64(),
        evaluation_cpu_seconds: evaluation.as_secs_f64(),
    };
    let line = match (end, settled) {
        (End::Finished, _) => "the table is finished".to_owned(),
        (End::Drained, _) => {
            "drained: the tasks at hand are done, and no more are taken".to_owned()
        }
        (End::Stopped, true) => {
            "stopped early: finished results are submitted, and other leases are returned"
                .to_owned()
        }
        (End::Stopped, false) => format!(
            "stopped early without contact to the coordinator at {coordinator}: when the leases expire, others do \
             again what was not submitted"
        ),
    };
    display.say(&line);
    crate::print_as(args.json, &done, |done| {
        format!("{ranges} ranges in {:.2} s of CPU\n", done.cpu_seconds)
    })?;
    Ok(match end {
        End::Finished | End::Drained => Exit::Done,
        End::Stopped => Exit::Stopped,
    })
}
