//! The referee: the worker in this process that settles what others cannot. The plan says when it is called, and what it
//! gets.

use std::num::NonZeroUsize;
use std::sync::Arc;

use chomp_access::Access;
use chomp_kernel::Isa;
use chomp_worker::transport::InProcess;
use chomp_worker::{
    Config, ExecutionMode, StoreChoice, WorkerError, journal_bytes, memory_for_cache,
};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::background;
use crate::tools::Tools;

/// The ranges that it keeps in memory.
const CACHE_BYTES: u64 = 64 << 20;

/// Works until the job is over or `stop` is cancelled. `calls` answers as for [`ParticipantId::REFEREE`].
///
/// [`ParticipantId::REFEREE`]: chomp_plan::ParticipantId::REFEREE
pub(crate) async fn run(
    tools: &Tools,
    calls: Routes,
    stop: CancellationToken,
) -> Result<(), WorkerError> {
    let (threads, range_bits) = (NonZeroUsize::MIN, tools.range_bits());
    let cache = memory_for_cache(CACHE_BYTES, threads, range_bits);
    let is_simulated = background::multi_thread_runtime().is_none();
    let config = Config {
        access: Access {
            coordinator: "this process".to_owned(),
            ca: None,
            token: None,
        },
        name: "referee".to_owned(),
        threads,
        memory_bytes: cache.saturating_add(journal_bytes(tools.bits, range_bits)),
        isa: Isa::detect(),
        patience: None,
        store: Some(StoreChoice::Shared(Arc::clone(&tools.storage))),
        shard_size: tools.shard_size,
        execution: if is_simulated {
            ExecutionMode::Inline
        } else {
            ExecutionMode::Threads
        },
        seed: is_simulated.then(|| tools.journal.epoch()),
        drain: CancellationToken::new(),
    };
    let connector = Arc::new(InProcess::new(calls));
    chomp_worker::run_with(config, connector, stop)
        .await
        .map(drop)
}
