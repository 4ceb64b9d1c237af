//! The worker: leases tasks, and does them with what is in the store.
//!
//! | module | does |
//! |---|---|
//! | [`transport`] | how calls reach the coordinator: over connections, in this process, or as a simulation has it |
//! | `error` | why a worker ends |
//! | `link` | keeps contact with the coordinator, over any number of connections |
//! | [`client`] | speaks to the coordinator, and checks what it says |
//! | `store` | opens the store, and follows the journal |
//! | `relay` | reaches the store through the coordinator |
//! | `cache` | ranges in memory, within a bound |
//! | `gather` | finds the sources of a task |
//! | `pool` | evaluates, decodes and merges, on threads of its own |
//! | `merge` | writes a shard |
//! | `lane` | does one task after the other, from lease to result |
//! | `trouble` | why a task is not done: a variant for each reaction |
//!
//! A worker runs twice as many lanes as it has threads. While the tasks of one half are evaluated, the lanes of the
//! other half lease tasks, read their sources and write results.
//!
//! With [`Config::seed`], [`ExecutionMode::Inline`], a runtime of one thread whose clock is paused, and a deterministic
//! [`Connector`] and store, all that a worker does is determined.
//!
//! # What always holds
//!
//! * A worker does not decide who computes what, and has no state that outlives the process.
//! * Threads of the pool never wait for the network or a disk, and tokio's threads never evaluate.
//! * Every call has a deadline and may be repeated. After an outage one lane joins again for all,
//!   as the same worker, and each call is made again.

mod cache;
pub mod client;
mod error;
mod gather;
mod lane;
mod link;
mod merge;
mod pool;
mod relay;
mod store;
#[cfg(test)]
mod tests;
pub mod transport;
mod trouble;

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use chomp_access::Access;
use chomp_kernel::{Evaluator, Isa};
use chomp_proto::PROTOCOL;
use chomp_proto::v1::JoinRequest;
use chomp_store::tasks::output;
use chomp_store::{RangeRow, StorageError};
use chomp_table::shard::ShardSize;
use chomp_table::{Digest, Head, RangeBits, range};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use cache::RangeCache;
use client::Client;
use gather::Gatherer;
use lane::WorkerContext;
use link::Link;
use pool::Pool;
use store::StoreProvider;
use transport::{Connector, Remote};
use trouble::LogLimiter;

pub use error::ClientError;
pub use store::StoreChoice;

/// The memory that a worker needs besides evaluators and ranges: code, buffers, messages, ranges that the cache has
/// dropped and a task still holds, and what the allocator keeps.
const OVERHEAD_BYTES: u64 = 160 << 20;
/// The least bytes of ranges that are worth starting with.
const CACHE_BYTES_MIN: u64 = 16 << 20;
/// The tasks under way get 1 / `SOURCES_SHARE` of the memory for ranges, and the cache gets the rest.
const SOURCES_SHARE: u64 = 4;
/// Two, so that one lane reads or writes while the other one evaluates.
const LANES_PER_THREAD: usize = 2;
/// How long a worker that stops may take to submit finished results and return its leases.
const GRACE: Duration = Duration::from_secs(15);

/// The settings of a worker.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug)]
pub struct Config {
    pub access: Access,
    pub name: String,
    /// How many ranges to evaluate at a time.
    pub threads: NonZeroUsize,
    /// The bytes of memory to stay within.
    pub memory_bytes: u64,
    /// The widest instruction set to use.
    pub isa: Isa,
    /// How long to go on without contact to the coordinator. If nothing is given, ten seconds at
    /// the start and half an hour later. With zero, one attempt to reach it again is all.
    pub patience: Option<Duration>,
    /// Where the store is, if not where the coordinator says.
    pub store: Option<StoreChoice>,
    /// The size of shards. All workers of a table need the same.
    pub shard_size: ShardSize,
    pub execution: ExecutionMode,
    /// The seed of the worker's identity and of its random waits. Without one, the system's randomness is used.
    pub seed: Option<u64>,
    /// When this is cancelled, the worker does the tasks in its hands, takes no more, and ends.
    pub drain: CancellationToken,
}

/// Where ranges are evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutionMode {
    /// On threads that do nothing else.
    #[default]
    Threads,
    /// On the thread that waits for the result: for simulations, which must not depend on how threads run.
    Inline,
}

/// How a worker's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The job is done.
    Finished,
    /// The worker was told to take no more tasks, and has done those that it had.
    Drained,
    /// The worker was told to stop.
    Stopped,
}

/// The outcome of a worker's run.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Copy, Debug)]
pub struct Report {
    pub end: End,
    /// Whether the coordinator knows of the end: it has the results in hand, and the leases back.
    pub acknowledged: bool,
    pub ranges: u64,
    pub evaluation_cpu: Duration,
}

/// Why a worker gave up.
#[expect(missing_docs, reason = "the variants are named for what they are")]
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The memory is too small for the job's ranges; the text says how much would do.
    #[error("{0}")]
    Memory(String),
    /// The store does not work, and the worker has no other way to it.
    #[error(transparent)]
    Store(#[from] StorageError),
    #[error("cannot start the evaluation threads")]
    Threads(#[source] std::io::Error),
    #[error("the system gives no random numbers")]
    Rng,
}

/// The bytes of a worker's memory that it can use for ranges. `besides` bytes of the memory are for other things. Fails
/// with [`WorkerError::Memory`] if that is too little to work with.
pub fn range_budget(
    memory_bytes: u64,
    besides: u64,
    threads: NonZeroUsize,
    range_bits: RangeBits,
) -> Result<u64, WorkerError> {
    let needed = memory_for_cache(0, threads, range_bits).saturating_add(besides);
    if memory_bytes < needed {
        let given = match memory_bytes >> 20 {
            0 => format!("{memory_bytes} bytes"),
            mib => format!("{mib} MiB"),
        };
        let plural = if threads.get() == 1 { "" } else { "s" };
        return Err(WorkerError::Memory(format!(
            "{given} of memory are too few for {threads} thread{plural} with {range_bits} range bits: give at least \
             --memory {}MiB, fewer threads, or start a table with smaller ranges",
            needed.div_ceil(1 << 20)
        )));
    }
    Ok(memory_bytes - besides - fixed_bytes(threads, range_bits))
}

/// The memory with which a worker of `threads` threads can keep `bytes` of ranges in its cache; with 0 bytes, the
/// least memory that it works with.
pub fn memory_for_cache(bytes: u64, threads: NonZeroUsize, range_bits: RangeBits) -> u64 {
    let ranges = bytes / (SOURCES_SHARE - 1) * SOURCES_SHARE;
    fixed_bytes(threads, range_bits).saturating_add(ranges.max(CACHE_BYTES_MIN))
}

/// The memory for the locations of all records of a table: twice their size, since a checkpoint is read in one piece.
pub fn journal_bytes(size: u32, range_bits: RangeBits) -> u64 {
    let range = 2 * size_of::<(Head, RangeRow)>() as u64;
    range_bits.head_count(size).saturating_mul(range)
}

fn fixed_bytes(threads: NonZeroUsize, range_bits: RangeBits) -> u64 {
    let evaluators = Evaluator::memory(range_bits).saturating_mul(threads.get() as u64);
    evaluators.saturating_add(OVERHEAD_BYTES)
}

/// Joins the job and works until it is done or `stop` is cancelled.
///
/// When `stop` is cancelled, the worker finishes and submits the tasks that it is evaluating, and returns the others.
/// It takes 15 seconds at the most, and leaves undone what takes longer. Dead connections are noticed `haste` times
/// sooner than usual: tests wait for that. Fails if the coordinator cannot be reached or refuses, or if the memory is
/// too small.
pub async fn run(
    config: Config,
    haste: u32,
    stop: CancellationToken,
) -> Result<Report, WorkerError> {
    let remote = Remote::new(&config.access, haste)
        .map_err(|source| ClientError::access(config.access.coordinator.clone(), source))?;
    run_with(config, Arc::new(remote), stop).await
}

/// Does what [`run`] does, over connections of any kind.
pub async fn run_with(
    config: Config,
    connector: Arc<dyn Connector>,
    stop: CancellationToken,
) -> Result<Report, WorkerError> {
    let mut rng = fastrand::Rng::with_seed(match config.seed {
        Some(seed) => seed,
        None => random()?,
    });
    let join_request = JoinRequest {
        protocol: PROTOCOL,
        format: range::VERSION,
        software: concat!("chomp ", env!("CARGO_PKG_VERSION")).to_owned(),
        threads: u32::try_from(config.threads.get()).unwrap_or(u32::MAX),
        worker: rng.u64(..),
        name: config.name.clone(),
        kernel: fingerprint(&config).await.0.to_vec(),
    };
    let link = Link::new(
        &config.access,
        connector,
        join_request,
        config.patience,
        rng,
    )?;
    let client = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(Report {
            end: End::Stopped,
            acknowledged: true,
            ranges: 0,
            evaluation_cpu: Duration::ZERO,
        }),
        client = Client::join(link) => client?,
    };
    let job = client.job();
    let (bits, range_bits, threads) = (job.bits, job.range_bits, config.threads);
    let besides = journal_bytes(bits, range_bits);
    let ranges_bytes = match range_budget(config.memory_bytes, besides, threads, range_bits) {
        Ok(bytes) => bytes,
        Err(error) => {
            client.leave().await;
            return Err(error);
        }
    };
    let pool = Pool::start(config.execution, threads, range_bits, config.isa);
    let pool = Arc::new(pool.map_err(WorkerError::Threads)?);
    tracing::debug!(threads, isa = %config.isa, "joined a job of size {bits} with {range_bits} range bits");

    let sources_bytes = ranges_bytes / SOURCES_SHARE;
    let cache = Arc::new(RangeCache::new(ranges_bytes - sources_bytes, range_bits));
    let context = Arc::new(WorkerContext {
        gatherer: Gatherer::new(Arc::clone(&pool), Arc::clone(&cache), sources_bytes),
        stores: StoreProvider::new(config.store, client.clone()),
        client,
        pool,
        cache,
        leases: Mutex::default(),
        log_limit: LogLimiter::default(),
        shard_size: config.shard_size,
        drain: config.drain,
        stop: stop.child_token(),
    });
    let (end, acknowledged) = work(&context, LANES_PER_THREAD * threads.get()).await?;
    Ok(context.pool.report(end, acknowledged))
}

/// Runs all lanes and the heartbeat until one of them ends, or the worker is told to stop, and then until all lanes
/// have ended. Returns how the work ended, and whether the coordinator knows.
async fn work(context: &Arc<WorkerContext>, count: usize) -> Result<(End, bool), WorkerError> {
    let stop = context.stop.clone();
    let mut grace = pin!(async {
        stop.cancelled().await;
        tokio::time::sleep(GRACE).await;
    });
    let mut heartbeat = pin!(context.heartbeat());
    let mut lanes = JoinSet::new();
    for _ in 0..count {
        lanes.spawn(Arc::clone(context).run_lane());
    }
    let mut end = None;
    let mut beating = true;
    let in_time = loop {
        let ended = tokio::select! {
            biased;
            lane = lanes.join_next() => match lane {
                Some(ended) => output(ended).await,
                None => break true,
            },
            error = &mut heartbeat, if beating => {
                beating = false;
                Err(error.into())
            }
            () = &mut grace => break false,
        };
        // The first lane to end ends all, unless they all end by themselves.
        if !matches!(ended, Ok(End::Drained)) {
            stop.cancel();
        }
        if matches!(end, None | Some(Ok(End::Drained))) {
            end = Some(ended);
        }
    };
    lanes.shutdown().await;
    // Leases that nobody works on would keep the coordinator waiting until they expire.
    let acknowledged = in_time
        && tokio::select! {
            biased;
            left = context.client.leave() => left,
            () = &mut grace => false,
        };
    Ok((end.unwrap_or(Ok(End::Stopped))?, acknowledged))
}

/// The fingerprint of the kernel with the instruction set in use.
async fn fingerprint(config: &Config) -> Digest {
    let isa = config.isa;
    match config.execution {
        ExecutionMode::Inline => chomp_kernel::fingerprint(isa),
        ExecutionMode::Threads => {
            output(tokio::task::spawn_blocking(move || chomp_kernel::fingerprint(isa)).await).await
        }
    }
}

/// A number that no other worker has.
fn random() -> Result<u64, WorkerError> {
    let bytes = ring::rand::generate::<[u8; 8]>(&ring::rand::SystemRandom::new());
    let bytes = bytes.map_err(|_| WorkerError::Rng)?;
    Ok(u64::from_le_bytes(bytes.expose()))
}
