//! The parts: how long those are that come through the coordinator, and what becomes of those that nobody has use for.
//!
//! The records of a part fill it: a result that leaves bytes of its part to no record is refused. A part whose lease
//! has ended is an orphan if the journal does not name it and no result of it waits. A result may still come late, so
//! the desk removes an orphan only when it finds it for the second time, and from then on takes no result under its
//! lease. Parts of merged ranges are removed while other shards are merged.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chomp_plan::{LeaseId, Millis, Rejection, Work, WorkerId};
use chomp_store::{PartName, Placed, part};

use super::{Desk, PutRefused, PutTarget, Transfer};
use crate::effects::Effect;

/// The time from one search for orphans to the next.
const SEARCH_EVERY_MS: u64 = 10_000;

/// In about how many steps the parts of a table are removed while it is merged. Each looks at all ranges.
const REMOVALS: u64 = 32;

/// The parts that workers have begun to put, until the journal names them or they are removed.
#[derive(Debug, Default)]
pub(super) struct Parts {
    begun: HashMap<LeaseId, PendingPart>,
    next_search: Millis,
}

#[derive(Debug)]
struct PendingPart {
    name: PartName,
    worker: WorkerId,
    /// The most bytes that were announced for it: it has no more.
    bytes: u64,
    transfer: Transfer,
    /// Whether the last search found it to be an orphan.
    is_orphan: bool,
}

impl Parts {
    /// Fails unless these records fill the part of the lease. Nothing is known of a part that its worker wrote into the
    /// store itself.
    pub(super) fn check(
        &self,
        worker: WorkerId,
        lease: LeaseId,
        placed: &[Placed],
    ) -> Result<(), Rejection> {
        let end = |last: &Placed| u64::from(last.offset) + u64::from(last.length);
        let filled = placed.last().map_or(part::HEADER_BYTES, end);
        let part = self.begun.get(&lease);
        match part.filter(|part| part.worker == worker && part.bytes != filled) {
            None => Ok(()),
            Some(&PendingPart { bytes, .. }) => Err(Rejection::Unfilled {
                lease,
                bytes,
                filled,
            }),
        }
    }

    /// When orphans are searched for, if there may be any.
    pub(super) fn next_search(&self) -> Option<Millis> {
        (!self.begun.is_empty()).then_some(self.next_search)
    }
}

impl Desk {
    /// Takes in that `worker` begins to put `bytes` bytes through the coordinator. The transfer is to be kept for
    /// as long as they may get into the store.
    pub(crate) fn begin_put(
        &mut self,
        worker: WorkerId,
        target: PutTarget,
        bytes: u64,
    ) -> Result<Transfer, PutRefused> {
        let name = match target {
            PutTarget::Part(name) => name,
            PutTarget::Shard(shard) => {
                let may = self.plan.may_write(worker, shard);
                return may.then(Transfer::default).ok_or(PutRefused::NoLease);
            }
        };
        let lease = LeaseId(name.lease);
        let ranges = match self.plan.work_of(worker, lease) {
            Some(Work::Evaluate { layer, heads }) if *layer == name.layer => heads.len(),
            _ => return Err(PutRefused::NoLease),
        };
        let most = part::bytes_max(ranges, self.journal.ledger().range_bits);
        if bytes > most {
            return Err(PutRefused::TooLong { most });
        }
        let part = self
            .parts
            .begun
            .entry(lease)
            .or_insert_with(|| PendingPart {
                name,
                worker,
                bytes,
                transfer: Transfer::default(),
                is_orphan: false,
            });
        part.bytes = part.bytes.max(bytes);
        Ok(part.transfer.clone())
    }

    /// Searches for orphans, if it is time to, and has them removed.
    pub(super) fn remove_orphans(&mut self, now: Millis) {
        if self.writes.failed.is_some() {
            // Nobody knows what the journal names.
            self.parts.begun.clear();
        }
        if self.parts.next_search().is_none_or(|at| now < at) {
            return;
        }
        self.parts.next_search = now.plus(SEARCH_EVERY_MS);
        let waiting = self.submissions.values().map(|waiting| waiting.lease);
        let waiting: HashSet<u64> = waiting.collect();
        let mut orphans = Vec::new();
        self.parts.begun.retain(|&lease, part| {
            if self.journal.names(&part.name.key()) {
                return false;
            }
            let was_orphan = part.is_orphan;
            part.is_orphan = !self.plan.holds(part.worker, lease)
                && !waiting.contains(&lease.0)
                && Arc::strong_count(&part.transfer.0) == 1;
            if !was_orphan || !part.is_orphan {
                return true;
            }
            self.plan.forget_ended(lease);
            orphans.push(part.name.key());
            false
        });
        if !orphans.is_empty() {
            self.effects.push(Effect::Remove { orphans });
        }
    }

    /// Has the parts removed of ranges that are merged, if there are enough of these.
    pub(super) fn remove_merged(&mut self) {
        let from = self.plan.merged_from();
        let step = self.plan.progress().ranges.div_ceil(REMOVALS);
        if self.plan.is_calm() && from.0 + step <= self.removed_from.0 {
            let ranges = from..std::mem::replace(&mut self.removed_from, from);
            self.effects.push(Effect::RemoveMerged { ranges });
        }
    }
}
