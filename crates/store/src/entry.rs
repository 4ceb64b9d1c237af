//! The entries of a journal.

use chomp_plan::{Finders, Party};
use chomp_table::Head;

use crate::keys::PartName;
use crate::part::PlacedRange;
use crate::shard_summary::ShardSummary;

/// An entry of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "shards are few, and an entry lives until it is written"
)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum Entry {
    /// A coordinator took the table over.
    Opened {
        /// The [digest](crate::journal::secret_digest) of its secret.
        secret_digest: u64,
        bits: u32,
    },
    /// Ranges are done: their records are in this part.
    Done {
        part: PartName,
        /// The number of participants that had to compute each range with equal results, as the job demanded.
        replicas: u32,
        finders: Finders,
        ranges: Vec<PlacedRange>,
    },
    /// Ranges were found wrong, or were computed from wrong ones: they are not done any more.
    Withdrawn { heads: Vec<Head> },
    /// The records of ranges are lost: the ranges are not done any more. The ledger keeps their digests, and a new
    /// record must have the same digest.
    Lost { heads: Vec<Head> },
    Shard {
        bits: u32,
        /// The workers that wrote or checked it.
        finders: Finders,
        summary: ShardSummary,
    },
    /// Done ranges and shards were computed again, and came out the same.
    Confirmed {
        /// All finders of each of these units, in place of those before.
        finders: Finders,
        heads: Vec<Head>,
        /// The bits of the table that the shards belong to, and the numbers of the shards.
        shards: (u32, Vec<u32>),
    },
    /// A party is not trusted any more, and is a finder of nothing.
    Out { party: Party, reason: String },
    /// How long coordinators have worked on the job, all runs together.
    Worked { bits: u32, seconds: u64 },
    /// All ranges and shards are forgotten: their table is published.
    Pruned,
}
