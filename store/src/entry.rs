//! What a journal says, entry by entry.

use chomp_table::Head;

use crate::finders::Finders;
use crate::keys::PartName;
use crate::merged::MergedShard;
use crate::part::Placed;

/// Something that a journal says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "shards are few, and an entry lives until it is written"
)]
pub enum Entry {
    /// A coordinator took the table over.
    Opened {
        /// A random number of its own.
        coordinator: u64,
        /// The bits of its job, or the tiles.
        bits: u32,
    },
    /// Ranges are done: their records are in this part.
    Done {
        /// The part.
        part: PartName,
        /// How many workers computed each of them alike.
        replicas: u32,
        /// Who these are.
        finders: Finders,
        /// The ranges.
        ranges: Vec<Placed>,
    },
    /// Ranges were found wrong, or may be since they follow from such: they are not done any more.
    Withdrawn {
        /// The ranges.
        heads: Vec<Head>,
    },
    /// The records of ranges are lost: they are not done any more. What is in them stays known.
    Lost {
        /// The ranges.
        heads: Vec<Head>,
    },
    /// A shard is done.
    Shard {
        /// The bits of the table, or the tiles.
        bits: u32,
        /// Who merged it.
        finders: Finders,
        /// The shard.
        merged: MergedShard,
    },
    /// Ranges that are done were computed again, and are the same. Who found them before is of no interest any more.
    Confirmed {
        /// Who found them now.
        finders: Finders,
        /// The ranges.
        heads: Vec<Head>,
    },
    /// A participant is not trusted any more: what it found is to be computed again.
    FoundOut {
        /// Its number.
        participant: u32,
        /// What it did, and when.
        outcast: Outcast,
    },
    /// All done ranges are forgotten: their table is published.
    Pruned,
}

/// A participant that was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcast {
    /// The serial of its credential then. With a later one its owner trusts it again.
    pub serial: u32,
    /// What it did.
    pub reason: String,
}
