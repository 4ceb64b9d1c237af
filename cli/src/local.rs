//! A coordinator for a worker in the same process, which calls it without a connection.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use chomp_access::participants::OWNER;
use chomp_access::{Access, Participants, Secrets};
use chomp_coordinator::server::{Coordinator, CoordinatorOptions, Listeners};
use chomp_kernel::Isa;
use chomp_serve::net::Limits;
use chomp_store::objects::Storage;
use chomp_table::RangeBits;
use chomp_table::shard::ShardSize;
use chomp_worker::transport::InProcess;
use chomp_worker::{Config, ExecutionMode, Report, StoreChoice, WorkerError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::machine;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Resources {
    pub(crate) threads: NonZeroUsize,
    pub(crate) memory_bytes: u64,
    pub(crate) isa: Isa,
}

/// The [`Limits::finish_time`] of the coordinator. It is short: the worker has ended before, so only readers of pages
/// may still ask.
const FINISH_TIME: Duration = Duration::from_millis(500);
/// The memory that a coordinator takes besides its ranges.
const COORDINATOR_BYTES: u64 = 128 << 20;
/// The memory of a coordinator for each range: its entries in the plan and in the journal.
pub(crate) const COORDINATOR_RANGE_BYTES: u64 = 250;

/// The part of `memory_bytes` for the worker: all but that of the coordinator. Fails with [`WorkerError::Memory`] if it
/// is too little to work with.
pub(crate) fn worker_memory(
    memory_bytes: u64,
    size: u32,
    range_bits: RangeBits,
    threads: NonZeroUsize,
) -> Result<u64, WorkerError> {
    let coordinator = COORDINATOR_BYTES + COORDINATOR_RANGE_BYTES * range_bits.head_count(size);
    chomp_worker::range_budget(memory_bytes, coordinator, threads, range_bits)?;
    Ok(memory_bytes - coordinator)
}

/// Starts a coordinator, and makes the configuration of its worker. With `pages`, the coordinator serves pages to
/// everybody.
pub(crate) async fn start(
    storage: Arc<dyn Storage>,
    size: u32,
    range_bits: RangeBits,
    keep_parts: bool,
    resources: Resources,
    pages: Option<(TcpListener, chomp_serve::SiteOptions)>,
) -> anyhow::Result<(Coordinator, Config)> {
    // Nobody has the token of the owner, whose worker needs none.
    let mut participants = Participants::default();
    participants.add(OWNER)?;
    let options = CoordinatorOptions {
        range_bits,
        bits: size,
        replicas: 1,
        keep_parts,
        // The worker of a resumed run is another party, which would evaluate the sampled ranges of this one again.
        checks_per_1000: Some(0),
        store_hint: None,
        secrets: Arc::new(Secrets::in_memory()),
        participants,
        participants_file: None,
        tls: None,
        open_status: pages.is_some(),
        site: pages.as_ref().map(|(_, site)| site.clone()),
        limits: Limits {
            finish_time: FINISH_TIME,
            ..machine::raise_file_limit()
        },
        haste: 1,
    };
    let listeners = Listeners {
        calls: None,
        pages: pages.map(|(listener, _)| listener),
    };
    let coordinator = Coordinator::start(Arc::clone(&storage), options, None, listeners).await?;
    let config = Config {
        access: Access {
            coordinator: "this process".to_owned(),
            ca: None,
            token: None,
        },
        name: "this process".to_owned(),
        threads: resources.threads,
        memory_bytes: resources.memory_bytes,
        isa: resources.isa,
        store: Some(StoreChoice::Shared(storage)),
        shard_size: ShardSize::PUBLISHED,
        // The worker never gives up: the coordinator is in the same process, and may have to wait for its store for any
        // time.
        patience: Some(Duration::MAX),
        execution: ExecutionMode::Threads,
        seed: None,
        drain: CancellationToken::new(),
    };
    Ok((coordinator, config))
}

/// Runs the worker of `config` for a coordinator in this process.
pub(crate) async fn work(
    coordinator: &Coordinator,
    config: Config,
    stop: CancellationToken,
) -> Result<Report, WorkerError> {
    let connector = InProcess::new(coordinator.owner_calls());
    chomp_worker::run_with(config, Arc::new(connector), stop).await
}
