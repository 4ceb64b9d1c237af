//! The ledger: what a journal adds up to. It lives in memory, of the coordinator and of each worker.

mod ranges;

use std::collections::BTreeMap;

use chomp_table::fingerprint::Leaf;
use chomp_table::shard::ShardInfo;
use chomp_table::{Digest, Head, RangeBits, RangeSummary};
use serde::{Deserialize, Serialize};

use crate::journal::Entry;
use crate::part::{PartName, Placed};

pub(crate) use ranges::Ranges;

/// Where the record of a range is, and what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The lease that its part is named for.
    pub lease: u64,
    /// The first byte of the record in the part.
    pub offset: u32,
    /// The bytes of the record.
    pub length: u32,
    /// How many workers computed the range alike, at least 1.
    pub replicas: u32,
    /// The number of losing positions.
    pub count: u64,
    /// How many of them are not larger than their mirror image.
    pub stored: u64,
    /// The digest of the record.
    pub digest: Digest,
}

impl Place {
    /// The part with the record of the range `head`.
    pub fn part(&self, head: Head) -> PartName {
        PartName {
            layer: head.layer(),
            lease: self.lease,
        }
    }

    /// The summary of the range `head`, whose place this is.
    pub fn summary(&self, head: Head) -> RangeSummary {
        RangeSummary {
            head,
            count: self.count,
            stored: self.stored,
            digest: self.digest,
        }
    }
}

/// A shard of a table that is being published, and what its words add up to. The words of a shard
/// come with those that follow the last stored word before them and are not stored themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merged {
    /// The number of the shard, from 0.
    pub number: u32,
    /// The shard; none if no words are left for it, as at the end of a table of one range.
    pub shard: Option<ShardInfo>,
    /// The leaf of the fingerprint that its words are.
    pub leaf: Leaf,
    /// What all words that were read add up to, by number of bits, ascending.
    pub sums: Vec<LengthSums>,
}

/// What the words of one number of bits add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthSums {
    /// The number of bits.
    pub bits: u32,
    /// The number of losing words, mirror images too.
    pub losing: u64,
    /// The check sum of mirror pairs: 0 once all words of so many bits are in it.
    pub unpaired: u64,
}

/// What a journal adds up to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// The number of the next segment.
    pub next: u64,
    /// The digest of the last segment.
    pub last: Digest,
    /// Names the table; workers tell by it that they look at the right store.
    pub table: u64,
    /// The range bits of the table.
    pub range_bits: RangeBits,
    /// Whether ranges were ever withdrawn: what was computed before may have drawn on wrong ones.
    pub withdrawn: bool,
    /// The done ranges.
    pub(crate) ranges: Ranges,
    /// The shards of tables that are being published, by bits and number.
    pub(crate) shards: BTreeMap<(u32, u32), Merged>,
}

impl Ledger {
    /// Where the record of a range is; none if it is not done.
    pub fn place(&self, head: Head) -> Option<&Place> {
        self.ranges.get(head)
    }

    /// The done ranges among the first `heads`, ascending.
    pub fn done(&self, heads: u64) -> impl Iterator<Item = (Head, &Place)> {
        self.ranges.below(Head(heads))
    }

    /// The number of done ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether nothing is done.
    pub fn is_empty(&self) -> bool {
        self.ranges.len() == 0
    }

    /// The shards of the table of `bits` bits that are there, ascending.
    pub fn shards(&self, bits: u32) -> impl Iterator<Item = &Merged> {
        let shards = self.shards.range((bits, 0)..=(bits, u32::MAX));
        shards.map(|(_, merged)| merged)
    }

    /// A shard of the table of `bits` bits, if it is there.
    pub fn shard(&self, bits: u32, number: u32) -> Option<&Merged> {
        self.shards.get(&(bits, number))
    }

    /// Takes in one entry of a segment.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Opened { .. } => {}
            Entry::Done {
                part,
                replicas,
                ranges,
            } => {
                for placed in ranges {
                    self.add(part.lease, *replicas, placed);
                }
            }
            Entry::Withdrawn { heads } => {
                for head in heads {
                    self.ranges.remove(*head);
                }
                self.withdrawn = true;
                // What was merged of them is not known to be right either.
                self.shards.clear();
            }
            Entry::Shard { bits, merged } => {
                self.shards.insert((*bits, merged.number), merged.clone());
            }
            Entry::Pruned => {
                self.ranges.clear();
                self.shards.clear();
            }
        }
    }

    pub(crate) fn add(&mut self, lease: u64, replicas: u32, placed: &Placed) {
        let RangeSummary {
            head,
            count,
            stored,
            digest,
        } = placed.summary;
        let place = Place {
            lease,
            offset: placed.offset,
            length: placed.length,
            replicas,
            count,
            stored,
            digest,
        };
        self.ranges.insert(head, place);
    }
}
