//! `chomp run`: a coordinator and a worker in this process, over gRPC on loopback.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use chomp_access::{Access, Issuer};
use chomp_coordinator::job::Outcome;
use chomp_coordinator::net::Limits;
use chomp_coordinator::plan::HEAD_BITS_MAX;
use chomp_coordinator::server::{Coordinator, Listeners, Options};
use chomp_coordinator::storage::{LocalStorage, TableLock};
use chomp_coordinator::store::{Store, StoreError};
use chomp_kernel::Isa;
use chomp_table::RangeBits;
use chomp_table::format::describe;
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
    let has_parts = Store::has_parts(&*storage).await.with_context(in_table)?;
    let published = published(&args.table, args.bits, has_parts)?;
    if let Some(table) = published
        .as_ref()
        .filter(|table| table.manifest().bits >= args.bits)
    {
        // A store is not opened for more ranges than a plan holds.
        let is_small = range_bits.heads(table.manifest().bits) <= 1 << HEAD_BITS_MAX;
        if has_parts && is_small && !args.keep_parts {
            prune_found(storage, range_bits, table.manifest().bits, display).await;
        }
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
    // It speaks to this process alone, without a certificate, and the token goes nowhere else.
    let issuer = Arc::new(Issuer::in_memory(0)?);
    let token = issuer.issue(None);
    let options = Options {
        bits: args.bits,
        range_bits,
        replicas: 1,
        issuer,
        tls: None,
        tables: None,
        limits: Limits::default(),
    };
    let listeners = Listeners {
        calls: listener,
        pages: None,
    };
    let coordinator = Coordinator::start(storage, options, published, listeners)
        .await
        .with_context(in_table)?;
    let config = Config {
        access: Access {
            coordinator: format!("http://{}", coordinator.address()),
            ca: None,
            token: Some(token),
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
    let store = coordinator.store();
    let (outcome, worker) = work(coordinator, config, &args, range_bits, stop, display).await;
    match outcome {
        Outcome::Finished(manifest) => {
            let Report {
                ranges, evaluation, ..
            } = worker?;
            if !args.keep_parts {
                prune(&store, display).await;
            }
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

fn report(args: &RunArgs, manifest: &Manifest, table: &Path, cost: Cost) -> anyhow::Result<Exit> {
    let summary = Summary::new(manifest, args.bits, table.to_owned(), cost);
    crate::print(&if args.json {
        summary.json()?
    } else {
        summary.text()
    })?;
    Ok(Exit::Done)
}
