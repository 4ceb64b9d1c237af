//! The state that effects and the job share.

use std::collections::HashSet;
use std::sync::Arc;

use chomp_plan::{LeaseAnswer, LeaseId, PlanTypes, TaskResult, Verdict};
use chomp_store::{Journal, PlacedRange, ShardSummary, Storage};
use chomp_table::Digest;
use chomp_table::shard::ShardSize;
use tokio::sync::{Mutex, RwLock, oneshot};

use crate::log_lines::LogLines;

#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) bits: u32,
    pub(crate) shard_size: ShardSize,
    /// The digests of the shard files that matched their descriptions when they were read. Publication and the removal
    /// of merged parts lock it, so that the two never run at once.
    pub(crate) compared: Mutex<HashSet<Digest>>,
    /// Shards that workers put through the coordinator have it together, publication has it alone: a later one might
    /// replace a file that was compared.
    pub(crate) shard_puts: Arc<RwLock<()>>,
    pub(crate) log_lines: LogLines,
}

impl Tools {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        journal: &Arc<Journal>,
        bits: u32,
        shard_size: ShardSize,
    ) -> Arc<Tools> {
        Arc::new(Tools {
            storage,
            journal: Arc::clone(journal),
            bits,
            shard_size,
            compared: Mutex::default(),
            shard_puts: Arc::default(),
            log_lines: LogLines::default(),
        })
    }
}

/// The handles that the plan keeps for the job: where answers go, and where the content of a unit is stored.
#[derive(Debug)]
pub(crate) struct JobTypes;

impl PlanTypes for JobTypes {
    type LeaseResponder = oneshot::Sender<TaskAnswer>;
    type VerdictResponder = oneshot::Sender<Verdict>;
    type Location = UnitLocation;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnitLocation {
    /// In the part of this lease.
    Record { lease: u64, placed: PlacedRange },
    /// In the file that this describes.
    Shard(Box<ShardSummary>),
}

impl UnitLocation {
    pub(crate) fn in_part(
        LeaseId(lease): LeaseId,
        ranges: Vec<PlacedRange>,
    ) -> TaskResult<UnitLocation> {
        let place = |placed: PlacedRange| (placed.summary, UnitLocation::Record { lease, placed });
        TaskResult::Ranges(ranges.into_iter().map(place).collect())
    }

    pub(crate) fn in_file(summary: Box<ShardSummary>, is_forged: bool) -> TaskResult<UnitLocation> {
        TaskResult::Shard {
            number: summary.number,
            digest: summary.words_digest(),
            is_forged,
            location: UnitLocation::Shard(summary),
        }
    }
}

/// The answer to a request for a task, with what the worker needs for the task.
#[derive(Debug)]
pub(crate) struct TaskAnswer {
    pub(crate) answer: LeaseAnswer,
    /// The segments of the journal below this number say where the sources of the task are.
    pub(crate) journal_end: u64,
    /// The description of the shard, if a shard is to be checked.
    pub(crate) known_summary: Option<Box<ShardSummary>>,
}

pub(crate) type Plan = chomp_plan::Plan<JobTypes>;
pub(crate) type Event = chomp_plan::Event<JobTypes>;
pub(crate) type Action = chomp_plan::Action<JobTypes>;
