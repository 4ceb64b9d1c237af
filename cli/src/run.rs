//! `chomp run`: a coordinator and a worker in this process, over gRPC on loopback.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use chomp_coordinator::job::Outcome;
use chomp_coordinator::plan::Settings;
use chomp_coordinator::server::Coordinator;
use chomp_kernel::Isa;
use chomp_table::manifest::{Manifest, folder_name};
use chomp_worker::{Config, Report};
use tokio_util::sync::CancellationToken;

use crate::args::{RunArgs, TableArgs};
use crate::directory::{Directory, in_table, prune};
use crate::exit::Exit;
use crate::local::{self, Means};
use crate::machine;
use crate::progress::Display;
use crate::serve::{self, listen};
use crate::signals::{stop_on_signals, unless_stopped};
use crate::summary::{Cost, Summary};

pub(crate) async fn run(args: RunArgs, display: &Display) -> anyhow::Result<Exit> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the summary tells what the run took"
    )]
    let start = Instant::now();
    let stop = stop_on_signals()?;
    let threads = args.machine.share.threads();
    let memory_bytes = args.machine.share.memory_bytes()?;
    let (table, isa) = (args.table, args.machine.isa);
    let opening = Directory::open(&table, threads, memory_bytes);
    let Some(directory) = unless_stopped(&stop, opening).await else {
        return Ok(stopped(display));
    };
    let directory = directory?;
    let range_bits = directory.range_bits;
    if let Some(finished) = directory.finished(table.bits) {
        if !table.keep_parts {
            directory.prune(finished.manifest().bits, display).await;
        }
        let cost = Cost {
            wall: start.elapsed(),
            cpu: machine::cpu_time(),
            ..Cost::default()
        };
        return report(&table, finished.manifest(), finished.folder(), cost);
    }

    Settings::new(table.bits, range_bits).check()?;
    let memory_bytes = local::worker_memory(memory_bytes, table.bits, range_bits, threads)?;
    let means = Means {
        threads,
        memory_bytes,
        isa: isa.unwrap_or_else(Isa::detect),
    };
    let published = directory.published;
    let pages = match args.http {
        Some(address) => {
            let listener = listen(address, "--http").await?;
            display.say(&format!("serving http://{}/", listener.local_addr()?));
            Some((listener, serve::usual(table.table.clone())))
        }
        None => None,
    };
    let starting = Box::pin(local::start(
        directory.storage,
        table.bits,
        range_bits,
        published,
        means,
        pages,
    ));
    let Some(started) = unless_stopped(&stop, starting).await else {
        return Ok(stopped(display));
    };
    let (coordinator, config) = started.with_context(|| in_table(&table.table))?;
    let store = coordinator.store();
    let (outcome, worker) = work(coordinator, config, stop, display).await;
    match outcome {
        Outcome::Finished(manifest) => {
            let Report {
                ranges, evaluation, ..
            } = worker?;
            if !table.keep_parts {
                prune(&store, display).await;
            }
            let cost = Cost {
                wall: start.elapsed(),
                cpu: machine::cpu_time(),
                evaluation,
                ranges,
            };
            let folder = table.table.join(folder_name(table.bits));
            report(&table, &manifest, &folder, cost)
        }
        Outcome::Interrupted => {
            worker?;
            Ok(stopped(display))
        }
        Outcome::Failed(error) => Err(error).with_context(|| in_table(&table.table)),
    }
}

/// Runs the worker until the job ends or `stop` is cancelled, and then ends the coordinator.
async fn work(
    coordinator: Coordinator,
    config: Config,
    stop: CancellationToken,
    display: &Display,
) -> (Outcome, Result<Report, chomp_worker::WorkerError>) {
    let worker = tokio::select! {
        worker = chomp_worker::run(config, stop) => worker,
        () = display.follow(coordinator.status()) => {
            unreachable!("the display follows for as long as it is polled")
        }
    };
    let outcome = coordinator.stop().await;
    display.clear();
    (outcome, worker)
}

/// Says that the job may go on at another time.
pub(crate) fn stopped(display: &Display) -> Exit {
    display.say("stopped early: what is done so far is kept, run the same command again to go on");
    Exit::Stopped
}

/// Prints what there is now.
pub(crate) fn report(
    args: &TableArgs,
    manifest: &Manifest,
    table: &Path,
    cost: Cost,
) -> anyhow::Result<Exit> {
    let summary = Summary::new(manifest, args.bits, table.to_owned(), cost);
    crate::print(&if args.json {
        summary.json()?
    } else {
        summary.text()
    })?;
    Ok(Exit::Done)
}
