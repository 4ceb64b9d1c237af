//! The settings of a plan: the table that it is for, and how it shares out the work.

use chomp_table::RangeBits;
pub use chomp_table::head::HEAD_BITS_MAX;
use chomp_table::shard::ShardSize;

use super::reasons::PlanError;

/// The most ranges of a task: a part of the store holds no more.
const TASK_RANGES_MAX: u64 = 1 << 12;

/// The table that a plan is for, and how it shares out the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many low bits of a word a range spans.
    pub range_bits: RangeBits,
    /// The bits of the table.
    pub bits: u32,
    /// The number of the segment with which this coordinator took over. Lease numbers start at 2^32 times it.
    pub epoch: u64,
    /// How many participants have to find the same before a range is done.
    pub replicas: u32,
    /// Whether parts stay when all their ranges are merged.
    pub keep_parts: bool,
    /// How long a lease lasts, in milliseconds, from the moment it is given or renewed.
    pub lease_ms: u64,
    /// The silence after which the plan forgets a worker, in milliseconds.
    pub silence_ms: u64,
    /// The age in milliseconds at which a lease is slow: an idle worker gets a speculative second one on the same work.
    pub straggler_ms: u64,
    /// The failures after which a range or shard is left to the referee, as is a range whose record was lost more often
    /// than this. If the referee fails too, or its record is lost too, the job stops.
    pub failures_max: u32,
    /// The expired leases after which a range or shard is left to the referee. Machines die for reasons of their own, so
    /// this is more than [`failures_max`](Self::failures_max).
    pub expiries_max: u32,
    /// The most positions of a task. A task of a single range may have more.
    pub task_positions_max: u64,
    /// The least positions of a task, unless some thread would get no task then: each task costs a file of the store
    /// and a journal entry.
    pub task_positions_min: u64,
    /// Into how many tasks a layer is cut for each thread, if it has that many ranges.
    pub tasks_per_thread: u32,
    /// The stored words of every shard but the last.
    pub shard_words: u64,
    /// The number of ranges in 1,000 that others check, of those that a participant but the owner has found.
    pub checks_per_1000: u32,
    /// The number of ranges in 1,000 that others check, of those that a worker of the owner has found.
    pub owner_checks_per_1000: u32,
    /// The number of ranges that a participant but the owner finds as a newcomer: all of them are to be checked.
    pub newcomer_ranges: u32,
    /// The number of checks for each thread that may wait while other ranges are ready.
    pub checks_waiting_per_thread: u32,
    /// The seed of the sample of units that are checked: a random number that no worker can know.
    pub check_seed: u64,
}

impl Settings {
    /// The usual way to share out the work for a table of this size.
    pub fn new(bits: u32, range_bits: RangeBits) -> Settings {
        // About a second of work for one thread.
        let task_positions_max = 1 << 31;
        Settings {
            range_bits,
            bits,
            epoch: 0,
            replicas: 1,
            keep_parts: false,
            lease_ms: 30_000,
            silence_ms: 90_000,
            straggler_ms: 3_000,
            failures_max: 5,
            expiries_max: 20,
            task_positions_max,
            // About a tenth of a second.
            task_positions_min: task_positions_max >> 4,
            tasks_per_thread: 2,
            shard_words: ShardSize::PUBLISHED.shard_words as u64,
            checks_per_1000: 400,
            owner_checks_per_1000: 31,
            newcomer_ranges: 16,
            checks_waiting_per_thread: 4,
            check_seed: 0,
        }
    }

    /// Divides the times of leases, silence and stragglers by `haste`: for tests, which wait for them.
    #[must_use]
    pub fn hastened(self, haste: u32) -> Settings {
        let haste = u64::from(haste);
        Settings {
            lease_ms: self.lease_ms / haste,
            silence_ms: self.silence_ms / haste,
            straggler_ms: self.straggler_ms / haste,
            ..self
        }
    }

    /// The bits of the largest head of the table.
    pub(super) fn head_bits(&self) -> u32 {
        let last = self.range_bits.head_count(self.bits).saturating_sub(1);
        u64::BITS - last.leading_zeros()
    }

    /// How many of the `missing` ranges of a layer make a good task for one of `threads`: few enough that every thread
    /// gets several tasks of the layer, so that few idle at its end; but not so few that the store and the journal take
    /// longer than computing them, unless a thread would go without.
    pub(super) fn task_ranges(&self, missing: u64, threads: u64) -> u64 {
        let ranges = |positions| positions / self.range_bits.positions();
        let to_share = missing * u64::from(self.replicas);
        let tasks_per_thread = u64::from(self.tasks_per_thread);
        let share = to_share / threads.saturating_mul(tasks_per_thread).max(1);
        let one_for_each_thread = to_share.div_ceil(threads.max(1));
        let least = ranges(self.task_positions_min).min(one_for_each_thread);
        let most = ranges(self.task_positions_max).min(TASK_RANGES_MAX);
        share.max(least).min(most).max(1)
    }

    /// Fails if the table has too many ranges. To be called before any memory is allocated for the ranges.
    pub fn validate(&self) -> Result<(), PlanError> {
        let (range_bits, bits) = (self.range_bits, self.bits);
        if self.head_bits() > HEAD_BITS_MAX {
            return Err(PlanError::TooManyRanges { range_bits, bits });
        }
        Ok(())
    }
}
