//! `chomp run`: a coordinator and a worker in this process, over gRPC on loopback.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use chomp_access::Access;
use chomp_coordinator::job::Outcome;
use chomp_coordinator::server::Coordinator;
use chomp_coordinator::storage::{LocalStorage, TableLock};
use chomp_coordinator::store::{Store, StoreError};
use chomp_kernel::Isa;
use chomp_table::RangeBits;
use chomp_table::manifest::{Manifest, folder_name};
use chomp_table::reader::{Table, TableError};
use chomp_worker::{Config, Evaluation, Report};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::RunArgs;
use crate::exit::Exit;
use crate::machine;
use crate::progress::Display;
use crate::summary::{Cost, Summary};

/// Threads for gRPC and the store; evaluation has its own.
const IO_THREADS: usize = 2;

pub(crate) fn main(args: RunArgs, display: &Display) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(IO_THREADS)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(run(args, display))
}

async fn run(args: RunArgs, display: &Display) -> anyhow::Result<Exit> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the summary tells what the run took"
    )]
    let start = Instant::now();
    let stop = stop_on_signals()?;
    let lock = TableLock::acquire(&args.table)?;
    let storage = Arc::new(LocalStorage::open(lock)?);

    let threads = args.threads.unwrap_or_else(machine::threads);
    let memory_bytes = match args.memory {
        Some(memory) => memory.as_u64(),
        None => machine::memory_bytes()?,
    };
    // The store names its objects by their keys, which are paths within the directory.
    let in_table = || format!("in the table {}", args.table.display());
    let existing = Store::range_bits_of(&*storage)
        .await
        .with_context(in_table)?;
    let range_bits = args
        .range_bits
        .or(existing)
        .unwrap_or_else(|| machine::range_bits(args.bits, threads, memory_bytes));

    if let Some(table) = existing
        && table != range_bits
    {
        let asked = range_bits;
        return Err(StoreError::OtherRangeBits { table, asked }).with_context(in_table);
    }
    if let Some(table) = already_published(&args.table, args.bits)? {
        let cost = Cost {
            wall: start.elapsed(),
            cpu: machine::cpu_time(),
            ..Cost::default()
        };
        return report(&args, table.manifest(), table.folder(), cost);
    }

    chomp_worker::cache_bytes(memory_bytes, threads, range_bits)?;
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("cannot listen on loopback")?;
    let coordinator = Coordinator::start(storage, args.bits, range_bits, listener)
        .await
        .with_context(in_table)?;
    let config = Config {
        access: Access {
            coordinator: format!("http://{}", coordinator.address()),
            ca: None,
            token: None,
        },
        name: "run".to_owned(),
        threads,
        memory_bytes,
        isa: args.isa.unwrap_or_else(Isa::detect),
        // The coordinator is in this process: if it is gone, it stays so.
        patience: Some(Duration::ZERO),
        evaluation: Evaluation::Threads,
        seed: None,
    };
    let (outcome, worker) = work(coordinator, config, &args, range_bits, stop, display).await;
    match outcome {
        Outcome::Finished(manifest) => {
            let Report {
                ranges, evaluation, ..
            } = worker?;
            let cost = Cost {
                wall: start.elapsed(),
                cpu: machine::cpu_time(),
                evaluation,
                ranges,
            };
            report(
                &args,
                &manifest,
                &args.table.join(folder_name(args.bits)),
                cost,
            )
        }
        Outcome::Interrupted => {
            worker?;
            display.line(
                "stopped early: what is done so far is kept, run the same command again to go on",
            );
            Ok(Exit::Stopped)
        }
        Outcome::Failed(error) => Err(error).with_context(in_table),
    }
}

/// Runs the worker until the job ends or `stop` is cancelled, and then ends the coordinator.
async fn work(
    coordinator: Coordinator,
    config: Config,
    args: &RunArgs,
    range_bits: RangeBits,
    stop: CancellationToken,
    display: &Display,
) -> (Outcome, Result<Report, chomp_worker::WorkerError>) {
    let worker = tokio::select! {
        worker = chomp_worker::run(config, stop) => worker,
        () = display.follow(coordinator.progress(), args.bits, range_bits) => {
            unreachable!("the display follows for as long as it is polled")
        }
    };
    let outcome = coordinator.stop().await;
    display.clear();
    (outcome, worker)
}

/// The published table that answers for `bits` already, if there is one. Every byte of it is
/// checked.
fn already_published(directory: &Path, bits: u32) -> anyhow::Result<Option<Table>> {
    let published = Table::open(directory).and_then(|table| {
        let answers = table.manifest().bits >= bits;
        if answers {
            table.verify_bytes()?;
        }
        Ok(answers.then_some(table))
    });
    match published {
        Ok(table) => Ok(table),
        Err(TableError::NotFound { .. }) => Ok(None),
        Err(error @ TableError::Damaged { .. }) => Err(error).context(
            "remove the folder of the published table and run again: it is made anew from the \
             finished ranges",
        ),
        Err(error) => Err(error.into()),
    }
}

fn report(args: &RunArgs, manifest: &Manifest, table: &Path, cost: Cost) -> anyhow::Result<Exit> {
    let summary = Summary::new(manifest, args.bits, table.to_owned(), cost);
    crate::print(&if args.json {
        summary.json()?
    } else {
        summary.text()
    })?;
    Ok(Exit::Done)
}

/// A token that is cancelled by SIGINT or SIGTERM. A second signal ends the process at once, which
/// loses nothing that is committed.
#[expect(
    clippy::disallowed_methods,
    reason = "the task ends with the process, and a second signal is to end that at once"
)]
fn stop_on_signals() -> anyhow::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        for signals in 1.. {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if signals > 1 {
                std::process::exit(Exit::Stopped as i32);
            }
            token.cancel();
        }
    });
    Ok(stop)
}
