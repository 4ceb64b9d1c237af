//! `chomp worker`: computes for a coordinator.

use std::time::Duration;

use chomp_plan::counted;
use chomp_store::location::StoreLocation;
use chomp_table::shard::ShardSize;
use chomp_worker::{Config, End, ExecutionMode, StoreChoice};
use clap::builder::TypedValueParser;
use serde_json::json;

use crate::connect;
use crate::exit::Interruption;
use crate::flags::{ReachArgs, ShareArgs, flag, location, number};
use crate::machine;
use crate::progress::Display;
use crate::signals::drain_on_signal;
use crate::summary::Meter;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp worker --access access.json
  chomp worker --coordinator https://localhost:7171 --threads 4 --memory 8GiB
  kill -USR2 PID    has a worker finish its tasks, take no more, and end")]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    #[command(flatten)]
    pub(crate) share: ShareArgs,

    /// Where this machine reaches the store, if not where the coordinator says; `coordinator` to go through the
    /// coordinator
    #[arg(long, value_name = "DIR|URL", value_parser = location().map(way))]
    pub(crate) store: Option<StoreChoice>,

    /// The name of this worker in the coordinator's status [default: the machine's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// End after this many seconds without contact to the coordinator [default: 10 at the start,
    /// 1800 later]
    #[arg(long, value_name = "SECONDS", value_parser = number::<u64>(0..=u64::MAX))]
    pub(crate) patience: Option<u64>,

    /// Print what was done as one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

fn way(store: StoreLocation) -> StoreChoice {
    if store == StoreLocation::Directory("coordinator".into()) {
        return StoreChoice::Coordinator;
    }
    StoreChoice::Location(store)
}

pub(crate) async fn run(args: WorkerArgs, display: &Display) -> anyhow::Result<()> {
    let meter = Meter::start();
    let stop = display.stop_token();
    let config = Config {
        access: connect::coordinator(&args.reach)?,
        name: args.name.unwrap_or_else(machine::process_name),
        threads: args.share.threads(),
        memory_bytes: args.share.memory_bytes()?,
        isa: display.overrides().isa(),
        store: args.store,
        shard_size: ShardSize::PUBLISHED,
        patience: args.patience.map(Duration::from_secs),
        execution: ExecutionMode::Threads,
        seed: None,
        drain: drain_on_signal()?,
    };
    let coordinator = config.access.coordinator.clone();
    display.say(&format!(
        "worker {} with {}, for {coordinator}",
        config.name,
        counted(config.threads, "thread")
    ));
    let report = chomp_worker::run(config, display.overrides().limit_haste, stop).await?;
    let line = match (report.end, report.acknowledged) {
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
    let (ranges, seconds) = (report.ranges, meter.cpu().as_secs_f64());
    let done = json!({
        "finished": report.end == End::Finished,
        "ranges_evaluated": ranges,
        "cpu_seconds": seconds,
        "evaluation_cpu_seconds": report.evaluation_cpu.as_secs_f64(),
    });
    crate::print_as(args.json, &done, |_| {
        format!("{} in {seconds:.2} s of CPU\n", counted(ranges, "range"))
    })?;
    match report.end {
        End::Finished | End::Drained => Ok(()),
        End::Stopped => Err(Interruption::Silent.into()),
    }
}
