//! What evaluates units, and what comes of it: shared by effects, the arbiter and the job.

use std::collections::HashSet;
use std::sync::Arc;

use chomp_store::{Journal, Merged, Placed, Storage};
use chomp_table::Digest;
use chomp_table::shard::ShardSize;
use tokio::sync::Mutex;

/// The state that effects share.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) journal: Arc<Journal>,
    /// The bits of the table.
    pub(crate) bits: u32,
    /// The size of its shards.
    pub(crate) size: ShardSize,
    /// The digests of the files of shards that were what was said of them when they were read. Who removes parts of
    /// merged ranges, or publishes the table, holds it meanwhile.
    pub(crate) compared: Mutex<HashSet<Digest>>,
}

impl Tools {
    /// The tools of a job of `bits` bits, whose shards have this size.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        journal: &Arc<Journal>,
        bits: u32,
        size: ShardSize,
    ) -> Arc<Tools> {
        Arc::new(Tools {
            storage,
            journal: Arc::clone(journal),
            bits,
            size,
            compared: Mutex::default(),
        })
    }
}

/// A result of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerResult {
    /// The ranges in the part of the lease, heads ascending.
    Ranges(Vec<Placed>),
    /// A shard.
    Merged(Box<Merged>),
}
