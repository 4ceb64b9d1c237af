//! How results get into the journal: one segment at a time, with all units that were found since the last one.
//!
//! A segment costs the same whatever is in it. So while all workers have tasks, the next segment begins no sooner than
//! [`WRITE_EVERY_MS`] after the last one. After each segment the journal pauses for [`PAUSE_FACTOR`] times as long as
//! the write took, at most [`WRITE_EVERY_MS`], even if a worker waits: a busy coordinator then writes fewer and larger
//! segments, and a fast one pauses for hardly any time.

use std::collections::{HashSet, VecDeque};
use std::mem::take;

use chomp_plan::{FoundUnit, Millis, Phase, Unit, Write};
use chomp_store::{Entry, PartName, PlacedRange};

use super::Job;
use crate::effects::{Effect, SegmentContent};
use crate::tools::{Event, UnitLocation};

/// A segment of the journal gets no further write once it has this many ranges.
const SEGMENT_RANGES: usize = if cfg!(test) { 16 } else { 1 << 16 };
/// The least time from the beginning of one segment to that of the next, unless a worker waits for it.
const WRITE_EVERY_MS: u64 = 100;
/// The pause after a segment, as a multiple of the time that the segment took, but at most [`WRITE_EVERY_MS`]. With 2
/// the journal is written to for a third of the time at most, unless a segment takes more than 50 ms.
const PAUSE_FACTOR: u64 = 2;

#[derive(Debug, Default)]
pub(super) struct Writes {
    waiting: VecDeque<Write<UnitLocation>>,
    under_way: Option<UnderWay>,
    /// Until then a segment begins only if a worker waits for it.
    collects_until: Millis,
    /// Until then no segment begins.
    pauses_until: Millis,
    /// Whether a worker that waits to hear if its result is accepted will soon be idle: then the next segment does not
    /// wait for `collects_until`.
    pub(super) is_urgent: bool,
    /// Why nothing more can be written.
    pub(super) failed: Option<String>,
}

/// A segment that is being written.
#[derive(Debug)]
struct UnderWay {
    since: Millis,
    /// The leases whose parts it names.
    leases: HashSet<u64>,
}

impl Writes {
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    pub(super) fn push(&mut self, write: Write<UnitLocation>) {
        self.waiting.push_back(write);
    }

    pub(super) fn end(&mut self, now: Millis) {
        if let Some(UnderWay { since, .. }) = self.under_way.take() {
            let took = now.0.saturating_sub(since.0);
            self.pauses_until = now.plus((PAUSE_FACTOR * took).min(WRITE_EVERY_MS));
        }
    }

    /// The leases whose parts are named by what is to be written.
    pub(super) fn leases(&self) -> HashSet<u64> {
        let waiting = self.waiting.iter().flat_map(|write| match write {
            Write::Commit { units, .. } => &units[..],
            _ => &[],
        });
        let waiting = waiting.filter_map(|unit| unit.location.lease());
        let under_way = self.under_way.iter().flat_map(|it| &it.leases).copied();
        waiting.chain(under_way).collect()
    }
}

impl UnitLocation {
    pub(super) fn lease(&self) -> Option<u64> {
        match self {
            UnitLocation::Record { lease, .. } => Some(*lease),
            UnitLocation::Shard(_) => None,
        }
    }
}

impl Job {
    pub(super) fn begin_segment_if_due(&mut self) {
        if self.writes.is_under_way() {
            return;
        }
        if let Some(reason) = self.writes.failed.clone() {
            self.give_up(&reason);
            return;
        }
        if self.now < self.next_begin() {
            return;
        }
        let mut batch = SegmentContent::default();
        let mut leases = HashSet::new();
        let mut size = 0;
        while size < SEGMENT_RANGES
            && let Some(write) = self.writes.waiting.pop_front()
        {
            if let Write::Commit { write, units } = &write {
                size += units.len();
                batch.writes.push(*write);
                leases.extend(units.iter().filter_map(|unit| unit.location.lease()));
            } else {
                size += 1;
            }
            self.add_entries(&mut batch.entries, write);
        }
        if !batch.entries.is_empty() {
            self.writes.under_way = Some(UnderWay {
                since: self.now,
                leases,
            });
            self.writes.is_urgent = false;
            self.writes.collects_until = self.now.plus(WRITE_EVERY_MS);
            self.effects.push(Effect::Append(batch));
        }
    }

    fn next_begin(&self) -> Millis {
        let writes = &self.writes;
        if *self.plan.phase() != Phase::Running {
            Millis::default()
        } else if writes.is_urgent || self.plan.is_anybody_idle() {
            writes.pauses_until
        } else {
            writes.pauses_until.max(writes.collects_until)
        }
    }

    /// When the job has something to do even if no call and no effect reaches it.
    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        let rests = !self.writes.is_under_way() && !self.writes.waiting.is_empty();
        let rest = rests.then(|| self.next_begin());
        let search = self.relayed_parts.next_search();
        let others = search.into_iter().chain(self.plan.next_deadline());
        rest.into_iter().chain(others).min()
    }

    /// Once the journal has failed, what waits for it has failed too.
    fn give_up(&mut self, reason: &str) {
        for write in take(&mut self.writes.waiting) {
            if let Write::Commit { write, .. } = write {
                let outcome = Err(reason.to_owned());
                self.handle(Event::Written { write, outcome });
            }
        }
    }

    fn add_entries(&self, entries: &mut Vec<Entry>, write: Write<UnitLocation>) {
        let bits = self.tools.bits;
        match write {
            Write::Commit { units, .. } => {
                let key =
                    |unit: &FoundUnit<UnitLocation>| (unit.location.lease(), unit.finders.clone());
                for group in units.chunk_by(|one, next| key(one) == key(next)) {
                    entries.extend(self.done(group));
                }
            }
            Write::Confirm { units, finders } => {
                let (mut heads, mut shards) = (Vec::new(), Vec::new());
                for unit in units {
                    match unit {
                        Unit::Range(head) => heads.push(head),
                        Unit::Shard(number) => shards.push(number),
                    }
                }
                entries.push(Entry::Confirmed {
                    finders,
                    heads,
                    shards: (bits, shards),
                });
            }
            Write::Withdraw { mut heads } => {
                // Ranges of a larger table that was begun may follow from them, too.
                heads.extend(self.tools.journal.ledger().beyond(bits));
                entries.push(Entry::Withdrawn { heads });
            }
            Write::Lose { head } => entries.push(Entry::Lost { heads: vec![head] }),
            Write::Out { party, reason, .. } => {
                let reason = reason.to_string();
                entries.push(Entry::Out { party, reason });
            }
        }
    }

    /// The entry for units of one part with the same finders, or for a shard.
    fn done(&self, units: &[FoundUnit<UnitLocation>]) -> Option<Entry> {
        let FoundUnit {
            finders, location, ..
        } = units.first()?;
        let finders = finders.clone();
        let lease = match location {
            UnitLocation::Record { lease, .. } => *lease,
            UnitLocation::Shard(summary) => {
                return Some(Entry::Shard {
                    bits: self.tools.bits,
                    finders,
                    summary: (**summary).clone(),
                });
            }
        };
        let ranges = units.iter().filter_map(|unit| match &unit.location {
            UnitLocation::Record { placed, .. } => Some(*placed),
            UnitLocation::Shard(_) => None,
        });
        let ranges: Vec<PlacedRange> = ranges.collect();
        let layer = ranges.first()?.summary.head.layer();
        Some(Entry::Done {
            part: PartName { layer, lease },
            replicas: self.replicas,
            finders,
            ranges,
        })
    }
}
