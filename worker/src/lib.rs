//! The worker: leases tasks, fetches the sources it does not hold, evaluates, submits.
//!
//! | module | does |
//! |---|---|
//! | [`client`] | speaks to the coordinator; the wire types end there |
//! | [`cache`] | keeps ranges in memory, within a bound |
//! | [`pool`] | evaluates, on threads of its own |
//! | [`lane`] | takes one task after the other from lease to submission |
//!
//! A worker runs twice as many lanes as it has threads: while one lane's task is evaluated, the
//! other's next task is leased and its sources are fetched, or its result is being written.

pub mod cache;
pub mod client;
mod lane;
pub mod pool;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use chomp_access::Access;
use chomp_kernel::{Evaluator, Isa};
use chomp_table::RangeBits;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use cache::Cache;
use client::{Client, ClientError};
use lane::{Lane, Leases};
use pool::Pool;

/// The memory that a worker needs besides evaluators and cache: code, buffers, messages.
const OVERHEAD_BYTES: u64 = 64 << 20;
/// The least bytes of cache that are worth starting with.
const CACHE_BYTES_MIN: u64 = 16 << 20;

/// What a worker is told before it starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the coordinator is, and what opens its calls.
    pub access: Access,
    /// How many ranges to evaluate at a time.
    pub threads: NonZeroUsize,
    /// The bytes of memory to stay within.
    pub memory_bytes: u64,
    /// The widest instruction set to use.
    pub isa: Isa,
}

/// How a worker's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The job is done.
    Finished,
    /// The coordinator stopped the job, or the worker was told to stop.
    Stopped,
}

/// What a worker did.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// How its work ended.
    pub end: End,
    /// The ranges it evaluated.
    pub ranges: u64,
    /// The CPU time that evaluating them took.
    pub evaluation: Duration,
}

/// Why a worker gave up.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The coordinator could not be reached, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The memory is too small for the job's ranges.
    #[error(
        "{given} bytes of memory are too few for {threads} threads with ranges of {range_bits} bits: give at least \
         {needed} bytes, fewer threads, or start a table with fewer range bits"
    )]
    Memory {
        /// The bytes given.
        given: u64,
        /// The least bytes that will do.
        needed: u64,
        /// The threads asked for.
        threads: usize,
        /// The range bits of the job.
        range_bits: u32,
    },
    /// The evaluation threads cannot be started.
    #[error("cannot start the evaluation threads")]
    Threads(#[source] std::io::Error),
}

/// What a worker with so many bytes of memory and so many threads has left to keep ranges of
/// `range_bits` in.
///
/// # Errors
///
/// [`WorkerError::Memory`] if that is too little to work with.
pub fn cache_bytes(
    memory_bytes: u64,
    threads: NonZeroUsize,
    range_bits: RangeBits,
) -> Result<u64, WorkerError> {
    let threads = threads.get();
    let fixed = OVERHEAD_BYTES + Evaluator::memory(range_bits).saturating_mul(threads as u64);
    let needed = fixed.saturating_add(CACHE_BYTES_MIN);
    if memory_bytes < needed {
        return Err(WorkerError::Memory {
            given: memory_bytes,
            needed,
            threads,
            range_bits: range_bits.get(),
        });
    }
    Ok(memory_bytes - fixed)
}

/// Joins the job and works until it is done, it is stopped, or `stop` is cancelled.
///
/// When `stop` is cancelled, tasks that are being evaluated are finished and submitted, and the
/// others are handed back.
///
/// # Errors
///
/// If the coordinator cannot be reached or refuses, or if the memory is too small.
pub async fn run(config: Config, stop: CancellationToken) -> Result<Report, WorkerError> {
    let threads = config.threads.get();
    let client = Client::join(&config.access, threads).await?;
    let range_bits = client.job().range_bits;

    let cache = match cache_bytes(config.memory_bytes, config.threads, range_bits) {
        Ok(bytes_max) => Arc::new(Cache::new(bytes_max)),
        Err(error) => {
            client.leave().await?;
            return Err(error);
        }
    };
    let pool = Pool::start(config.threads, range_bits, config.isa).map_err(WorkerError::Threads)?;
    tracing::debug!(threads, isa = %pool.isa(), "joined a job of {} bits", client.job().bits);

    let lane = Lane {
        client: client.clone(),
        pool: Arc::new(pool),
        cache,
        leases: Arc::new(Leases::default()),
        stop: stop.clone(),
    };
    #[expect(clippy::disallowed_methods, reason = "aborted below")]
    let renewing = tokio::spawn(lane.clone().renew());
    let mut lanes = JoinSet::new();
    for _ in 0..2 * threads {
        lanes.spawn(lane.clone().run());
    }
    let mut end = Ok(End::Finished);
    while let Some(lane) = lanes.join_next().await {
        let lane = lane.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        if !matches!(lane, Ok(End::Finished)) && end.is_ok() {
            // One lane's end is every lane's: the others finish what they have in hand.
            stop.cancel();
            end = lane;
        }
    }
    renewing.abort();
    // Leases that nobody works on would keep the coordinator waiting until they expire.
    let left = client.leave().await;
    if end.is_ok() {
        left?;
    }
    let (ranges, evaluation) = lane.pool.done();
    Ok(Report {
        end: end?,
        ranges,
        evaluation,
    })
}
