//! The entries of a journal.

use chomp_table::Head;

use crate::finders::{FinderParty, Finders};
use crate::keys::PartName;
use crate::part::PlacedRange;
use crate::shard_summary::ShardSummary;

/// An entry of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "shards are few, and an entry lives until it is written"
)]
pub enum Entry {
    /// A coordinator took the table over.
    Opened {
        /// The [digest](crate::journal::secret_digest) of its secret.
        secret_digest: u64,
        /// The bits of its job.
        bits: u32,
    },
    /// Ranges are done: their records are in this part.
    Done {
        /// The part.
        part: PartName,
        /// The number of participants that the job asked to compute each of them alike.
        replicas: u32,
        /// The finders.
        finders: Finders,
        /// The ranges.
        ranges: Vec<PlacedRange>,
    },
    /// Ranges were found wrong, or were computed from wrong ones: they are not done any more.
    Withdrawn {
        /// The ranges.
        heads: Vec<Head>,
    },
    /// The records of ranges are lost: the ranges are not done any more. Their digests stay known, and a new record
    /// must have the same.
    Lost {
        /// The ranges.
        heads: Vec<Head>,
    },
    /// A shard is done.
    Shard {
        /// The bits of the table.
        bits: u32,
        /// The workers that wrote or checked it.
        finders: Finders,
        /// The summary of the shard.
        summary: ShardSummary,
    },
    /// Done ranges and shards were computed again, and came out the same.
    Confirmed {
        /// The finders now.
        finders: Finders,
        /// The ranges.
        heads: Vec<Head>,
        /// The bits of the table of the shards, and their numbers.
        shards: (u32, Vec<u32>),
    },
    /// A party is not trusted any more, and is a finder of nothing.
    Out {
        /// The party.
        party: FinderParty,
        /// Why, for people.
        reason: String,
    },
    /// How long coordinators have worked on the job, all runs together.
    Worked {
        /// The bits of the job.
        bits: u32,
        /// Seconds worked so far, by all runs together.
        seconds: u64,
    },
    /// All done ranges are forgotten: their table is published.
    Pruned,
}
