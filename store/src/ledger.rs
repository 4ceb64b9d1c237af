//! The ledger: what a journal adds up to. It lives in memory, of the coordinator and of each worker.

mod finders;
mod ranges;

use std::collections::BTreeMap;

use chomp_table::fingerprint::Leaf;
use chomp_table::format::Damage;
use chomp_table::manifest::SHARDS_MAX;
use chomp_table::shard::{ShardInfo, shard_name};
use chomp_table::{Digest, Head, RangeBits, RangeSummary};
use serde::{Deserialize, Serialize};

use crate::journal::Entry;
use crate::part::{PartName, Placed};

pub use finders::{DISTRUSTED, Finders};
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

    /// Where the record of the range `head` is in its part.
    pub fn placed(&self, head: Head) -> Placed {
        Placed {
            summary: self.summary(head),
            offset: self.offset,
            length: self.length,
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

impl Merged {
    /// Whether a table of so many bits can have this shard.
    ///
    /// # Errors
    ///
    /// If it contradicts itself, or has what no such table can have.
    pub fn check(&self, bits: u32) -> Result<(), Damage> {
        let Merged { leaf, sums, .. } = self;
        ensure(bits <= u64::BITS, || format!("a table of {bits} bits"))?;
        let number = usize::try_from(self.number).unwrap_or(usize::MAX);
        ensure(number < SHARDS_MAX, || {
            format!("a table has at most {SHARDS_MAX} shards")
        })?;
        let words = self.shard.as_ref().map_or(0, |shard| shard.entries);
        ensure(leaf.words == words, || {
            format!("a leaf of {} words and a shard of {words}", leaf.words)
        })?;
        if let Some(shard) = &self.shard {
            ensure(shard.name == shard_name(number), || {
                "another file name".to_owned()
            })?;
            shard.check_sizes()?;
            ensure(u128::from(shard.last) < 1 << bits, || {
                format!("words from {} to {}", shard.first, shard.last)
            })?;
        }
        let lengths = leaf.lengths.iter();
        ensure(ascend(lengths.clone().map(|of| of.bits), bits), || {
            "leaves of lengths out of order".to_owned()
        })?;
        ensure(lengths.clone().is_sorted_by_key(|of| of.words), || {
            "counts of a leaf that fall".to_owned()
        })?;
        let ends = lengths.last().is_none_or(|last| last.words == leaf.words);
        ensure(ends, || {
            "counts of a leaf that do not end with its words".to_owned()
        })?;
        ensure(ascend(sums.iter().map(|sum| sum.bits), bits), || {
            "sums of lengths out of order".to_owned()
        })?;
        let possible = |sum: &LengthSums| u128::from(sum.losing) <= 1 << sum.bits.saturating_sub(1);
        ensure(sums.iter().all(possible), || {
            "more losing words than there are".to_owned()
        })
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Damage> {
    if holds {
        Ok(())
    } else {
        Err(Damage::new(what()))
    }
}

/// Whether these are different numbers of bits, ascending, of a table of so many.
fn ascend(numbers: impl Iterator<Item = u32> + Clone, bits: u32) -> bool {
    let mut all = numbers.clone();
    numbers.is_sorted_by(|one, next| one < next) && all.all(|number| number <= bits)
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

/// A participant that was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcast {
    /// The serial of its credential then. With a later one its owner trusts it again.
    pub serial: u32,
    /// What it did.
    pub reason: String,
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
    /// Whether ranges were ever found wrong: what was computed before may have drawn on these.
    pub withdrawn: bool,
    /// The done ranges.
    pub(crate) ranges: Ranges,
    /// Those that were done until their record was lost.
    pub(crate) lost: Ranges,
    /// The shards of tables that are being published, by bits and number.
    pub(crate) shards: BTreeMap<(u32, u32), (Merged, Finders)>,
    /// The participants that were found out, by number.
    pub(crate) outcasts: BTreeMap<u32, Outcast>,
}

impl Ledger {
    /// Where the record of a range is; none if it is not done.
    pub fn place(&self, head: Head) -> Option<&Place> {
        self.ranges.get(head)
    }

    /// The done ranges among the first `heads`, ascending.
    pub fn done(&self, heads: u64) -> impl Iterator<Item = (Head, &Place)> {
        self.found(heads).map(|(head, place, _)| (head, place))
    }

    /// The same, and who found each.
    pub fn found(&self, heads: u64) -> impl Iterator<Item = (Head, &Place, &Finders)> {
        self.ranges.below(Head(heads))
    }

    /// The ranges among the first `heads` that have to come out the same when they are computed again, as their
    /// records are lost; and who found each. Ascending.
    pub fn lost(&self, heads: u64) -> impl Iterator<Item = (Head, &Place, &Finders)> {
        self.lost.below(Head(heads))
    }

    /// The number of done ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether nothing is done.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The shards of the table of `bits` bits that are there, ascending.
    pub fn shards(&self, bits: u32) -> impl Iterator<Item = &Merged> {
        self.found_shards(bits).map(|(merged, _)| merged)
    }

    /// The same, and who found each.
    pub fn found_shards(&self, bits: u32) -> impl Iterator<Item = (&Merged, &Finders)> {
        let shards = self.shards.range((bits, 0)..=(bits, u32::MAX));
        shards.map(|(_, (merged, finders))| (merged, finders))
    }

    /// A shard of the table of `bits` bits, if it is there.
    pub fn shard(&self, bits: u32, number: u32) -> Option<&Merged> {
        self.shards.get(&(bits, number)).map(|(merged, _)| merged)
    }

    /// The participants that were found out, by number.
    pub fn outcasts(&self) -> impl Iterator<Item = (u32, &Outcast)> {
        self.outcasts
            .iter()
            .map(|(&number, outcast)| (number, outcast))
    }

    /// Takes in one entry of a segment.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Opened { .. } => {}
            Entry::Done {
                part,
                replicas,
                finders,
                ranges,
            } => {
                for placed in ranges {
                    self.add(part.lease, *replicas, finders, placed);
                }
            }
            Entry::Withdrawn { heads } => {
                for head in heads {
                    self.ranges.remove(*head);
                    self.lost.remove(*head);
                }
                self.withdrawn = true;
                // What was merged of them is not known to be right either.
                self.shards.clear();
            }
            Entry::Shard {
                bits,
                finders,
                merged,
            } => {
                let found = (merged.clone(), finders.clone());
                self.shards.insert((*bits, merged.number), found);
            }
            Entry::Lost { heads } => {
                for head in heads {
                    if let Some((place, finders)) = self.ranges.remove(*head) {
                        self.lost.insert(*head, place, finders);
                    }
                }
                self.shards.clear();
            }
            Entry::Confirmed { finders, heads } => {
                for head in heads {
                    if let Some(before) = self.ranges.finders_mut(*head) {
                        before.clone_from(finders);
                    }
                }
            }
            Entry::FoundOut {
                participant,
                outcast,
            } => {
                self.distrust(*participant);
                self.outcasts.insert(*participant, outcast.clone());
            }
            Entry::Pruned => {
                self.ranges.clear();
                self.lost.clear();
                self.shards.clear();
            }
        }
    }

    /// Notes in all that a participant found that it is not trusted any more.
    fn distrust(&mut self, participant: u32) {
        let shards = self.shards.values_mut().map(|(_, finders)| finders);
        let lost = self.lost.all_finders_mut();
        let ranges = self.ranges.all_finders_mut().chain(lost);
        let mut latest: Option<(Finders, Option<Finders>)> = None;
        for finders in ranges.chain(shards) {
            let known = latest.take().filter(|(before, _)| before == finders);
            let (before, after) =
                known.unwrap_or_else(|| (finders.clone(), finders.without(participant)));
            if let Some(after) = &after {
                *finders = after.clone();
            }
            latest = Some((before, after));
        }
    }

    pub(crate) fn add(&mut self, lease: u64, replicas: u32, finders: &Finders, placed: &Placed) {
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
        self.lost.remove(head);
        self.ranges.insert(head, place, finders.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bits_ascend_up_to_those_of_the_table() {
        for (numbers, fits) in [
            (&[][..], true),
            (&[2, 3, 19], true),
            (&[3, 2], false),
            (&[3, 3], false),
            (&[2, 20], false),
        ] {
            assert_eq!(ascend(numbers.iter().copied(), 19), fits, "{numbers:?}");
        }
    }
}
