//! `chomp worker`: computes for a coordinator.

use std::time::Duration;

use chomp_kernel::Isa;
use chomp_table::shard::ShardSize;
use chomp_worker::{Config, End, Evaluation, Report, StoreChoice};
use serde::Serialize;

use crate::args::{Way, WorkerArgs};
use crate::exit::Exit;
use crate::machine;
use crate::progress::Display;
use crate::reach;
use crate::signals::{drain_on_signal, stop_on_signals};
use crate::summary::Meter;

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
