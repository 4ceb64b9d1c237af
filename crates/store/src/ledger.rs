//! The ledger: what a journal adds up to. The coordinator and each worker have one in memory.

mod ranges;

use std::collections::BTreeMap;

use chomp_plan::{Finders, Party};
use chomp_table::{Digest, Head, RangeBits, RangeSummary};

use crate::entry::Entry;
use crate::part::{PlacedRange, RangeRow};
use crate::shard_summary::ShardSummary;

pub(crate) use ranges::RangeMap;

/// The state that the entries of a journal add up to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct Ledger {
    pub next_segment: u64,
    pub last_segment_digest: Digest,
    /// Names the table. A worker sees by it that its store is the right one.
    pub table: u64,
    pub range_bits: RangeBits,
    /// The bits of the last job, and the seconds that coordinators have worked on it together.
    pub worked: Option<(u32, u64)>,
    pub(crate) ranges: RangeMap,
    /// The ranges that were done until their record was lost.
    pub(crate) lost: RangeMap,
    /// The shards of tables that are being published, by bits and number.
    pub(crate) shards: BTreeMap<(u32, u32), (ShardSummary, Finders)>,
    pub(crate) out: BTreeMap<Party, String>,
}

impl Ledger {
    pub(crate) fn new(table: u64, range_bits: RangeBits) -> Ledger {
        Ledger {
            next_segment: 0,
            last_segment_digest: Digest([0; 32]),
            table,
            range_bits,
            worked: None,
            ranges: RangeMap::default(),
            lost: RangeMap::default(),
            shards: BTreeMap::new(),
            out: BTreeMap::new(),
        }
    }

    /// The row of a range; none if the range is not done.
    pub fn range(&self, head: Head) -> Option<&RangeRow> {
        self.ranges.get(head)
    }

    /// The done ranges among the first `head_count`, ascending, with the finders of each.
    pub fn done(&self, head_count: u64) -> impl Iterator<Item = (Head, &RangeRow, &Finders)> {
        self.ranges.below(Head(head_count))
    }

    /// As [`Self::done`], of ranges whose records are lost. Computed again, they have to come out the same.
    pub fn lost(&self, head_count: u64) -> impl Iterator<Item = (Head, &RangeRow, &Finders)> {
        self.lost.below(Head(head_count))
    }

    /// The number of done ranges.
    pub fn done_count(&self) -> usize {
        self.ranges.len()
    }

    /// Whether a job may cut the table into ranges of this size: another size than before needs a ledger without ranges
    /// and shards.
    pub fn takes(&self, range_bits: RangeBits) -> bool {
        let depends = !self.ranges.is_empty() || !self.lost.is_empty() || !self.shards.is_empty();
        self.range_bits == range_bits || !depends
    }

    /// The seconds that coordinators have worked on the job of `bits` bits if it is the last one.
    pub fn seconds_worked(&self, bits: u32) -> u64 {
        let worked = self.worked.filter(|(of, _)| *of == bits);
        worked.map_or(0, |(_, seconds)| seconds)
    }

    /// The done and lost ranges that the table of `bits` bits does not have, but larger ones do.
    pub fn beyond(&self, bits: u32) -> impl Iterator<Item = Head> + '_ {
        let heads = Head(self.range_bits.head_count(bits));
        let known = self.ranges.iter().chain(self.lost.iter());
        known
            .map(|(head, ..)| head)
            .filter(move |&head| head >= heads)
    }

    /// Whether ranges are done that the table of `bits` bits does not have.
    pub(crate) fn has_done_beyond(&self, bits: u32) -> bool {
        let last = self.ranges.last();
        last.is_some_and(|head| head.0 >= self.range_bits.head_count(bits))
    }

    /// The shards of the table of `bits` bits that are there, ascending, with the finders of each.
    pub fn shards(&self, bits: u32) -> impl Iterator<Item = (&ShardSummary, &Finders)> {
        let shards = self.shards.range((bits, 0)..=(bits, u32::MAX));
        shards.map(|(_, (summary, finders))| (summary, finders))
    }

    /// A shard of the table of `bits` bits if it is there.
    pub fn shard(&self, bits: u32, number: u32) -> Option<&ShardSummary> {
        self.shards.get(&(bits, number)).map(|(summary, _)| summary)
    }

    /// The parties that are not trusted any more, and why.
    pub fn out(&self) -> impl Iterator<Item = (Party, &str)> {
        let all = self.out.iter();
        all.map(|(&party, reason)| (party, reason.as_str()))
    }

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
                // The shards may have been merged from these ranges.
                self.shards.clear();
            }
            Entry::Shard {
                bits,
                finders,
                summary,
            } => {
                let found = (summary.clone(), finders.clone());
                self.shards.insert((*bits, summary.number), found);
            }
            Entry::Lost { heads } => {
                for head in heads {
                    if let Some((row, finders)) = self.ranges.remove(*head) {
                        self.lost.insert(*head, row, finders);
                    }
                }
            }
            Entry::Confirmed {
                finders,
                heads,
                shards: (bits, shards),
            } => {
                for head in heads {
                    if let Some(before) = self.ranges.finders_mut(*head) {
                        before.clone_from(finders);
                    }
                }
                for number in shards {
                    if let Some((_, before)) = self.shards.get_mut(&(*bits, *number)) {
                        before.clone_from(finders);
                    }
                }
            }
            Entry::Out { party, reason } => {
                self.remove_finder(*party);
                self.out.insert(*party, reason.clone());
            }
            Entry::Worked { bits, seconds } => self.worked = Some((*bits, *seconds)),
            Entry::Pruned => {
                self.ranges.clear();
                self.lost.clear();
                self.shards.clear();
            }
        }
    }

    fn remove_finder(&mut self, party: Party) {
        let shards = self.shards.values_mut().map(|(_, finders)| finders);
        let lost = self.lost.all_finders_mut();
        let ranges = self.ranges.all_finders_mut().chain(lost);
        let mut latest: Option<(Finders, Option<Finders>)> = None;
        for finders in ranges.chain(shards) {
            let known = latest.take().filter(|(before, _)| before == finders);
            let (before, after) =
                known.unwrap_or_else(|| (finders.clone(), finders.without(party)));
            if let Some(after) = &after {
                *finders = after.clone();
            }
            latest = Some((before, after));
        }
    }

    pub(crate) fn add(
        &mut self,
        lease: u64,
        replicas: u32,
        finders: &Finders,
        placed: &PlacedRange,
    ) {
        let RangeSummary {
            head,
            count,
            stored,
            digest,
        } = placed.summary;
        let row = RangeRow {
            lease,
            layer: head.layer(),
            offset: placed.offset,
            length: placed.length,
            replicas,
            count,
            stored,
            digest,
        };
        self.lost.remove(head);
        self.ranges.insert(head, row, finders.clone());
    }
}
