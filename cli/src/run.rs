//! `chomp run`: a coordinator and a worker in this process.

use anyhow::Context;
use chomp_coordinator::job::JobOutcome;
use chomp_coordinator::server::Coordinator;
use chomp_plan::{Phase, Settings};
use std::net::SocketAddr;

use crate::exit::Interruption;
use crate::flags::{ShareArgs, TableArgs, WantedTable, address};
use crate::local::{self, Resources};
use crate::owned_store::{OwnedStore, in_table};
use crate::progress::Display;
use crate::restore::restore;
use crate::serve::{self, listen};
use crate::signals::unless_stopped;
use crate::summary::{Meter, RunCost};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp run --bits 32
  chomp run --bits 40 --memory 4GiB --table /data/chomp")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) wanted: WantedTable,
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) share: ShareArgs,

    /// Serve pages with the job's progress and the finished tables at this address while it runs, to everybody who can
    /// reach it
    #[arg(long, value_parser = address, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
}

pub(crate) async fn run(args: RunArgs, display: &Display) -> anyhow::Result<()> {
    let meter = Meter::start();
    let stop = display.stop_token();
    let threads = args.share.threads();
    let memory_bytes = args.share.memory_bytes()?;
    let table = args.table;
    let opening = OwnedStore::prepare(args.wanted, &table, (threads, memory_bytes), display);
    let store = unless_stopped(&stop, opening).await?;
    let (size, range_bits) = (args.wanted.bits, store.range_bits);
    if store.finished.is_some() {
        let cost = store.cost(meter);
        return store.conclude(&table, size, None, cost, display).await;
    }

    Settings::new(size, range_bits).validate()?;
    let memory_bytes = local::worker_memory(memory_bytes, size, range_bits, threads)
        .map_err(|error| args.share.too_small(error))?;
    let share = (threads, memory_bytes);
    restore(&store, size, share, &table.table, &stop, display).await?;
    let resources = Resources {
        threads,
        memory_bytes,
        isa: display.overrides().isa(),
    };
    let pages = match args.http {
        Some(address) => {
            let listener = listen(address, "--http").await?;
            display.say(&format!("serving http://{}/", listener.local_addr()?));
            Some((listener, serve::beside_job(table.table.clone(), display)))
        }
        None => None,
    };
    let storage = store.storage.clone();
    let keep_parts = table.keep_parts;
    let starting = Box::pin(local::start(
        storage, size, range_bits, keep_parts, resources, pages,
    ));
    let in_table = || in_table(&store.location);
    let starting = async { starting.await.with_context(in_table) };
    let (coordinator, config) = unless_stopped(&stop, starting).await?;
    let journal = coordinator.journal();
    // The result is None if the job stops before its end: the worker is then dropped, without a report.
    let work = Box::pin(async {
        tokio::select! {
            worker = local::work(&coordinator, config, stop) => worker.map(Some),
            () = stopped_by_itself(&coordinator) => Ok(None),
        }
    });
    let worker = display.during_job(coordinator.status(), true, work).await;
    match coordinator.stop().await {
        JobOutcome::Finished(_) => {
            let worker = worker?.expect("a worker that ends with the job tells what it did");
            let cost = RunCost {
                evaluation_cpu_seconds: Some(worker.evaluation_cpu.as_secs_f64()),
                ranges_evaluated: worker.ranges,
                ..store.cost(meter)
            };
            let journal = Some(&*journal);
            store.conclude(&table, size, journal, cost, display).await
        }
        JobOutcome::Interrupted => {
            worker.with_context(in_table)?;
            Err(Interruption::Resumable.into())
        }
        JobOutcome::Failed(error) => Err(error).with_context(in_table),
    }
}

/// Waits until the job stops before the table is finished. Never returns if the table is finished.
async fn stopped_by_itself(coordinator: &Coordinator) {
    if coordinator.ended().await == Phase::Finished {
        // The worker ends by itself, as it learns of the end from its next call.
        std::future::pending::<()>().await;
    }
}
