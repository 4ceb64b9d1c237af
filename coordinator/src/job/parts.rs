//! The parts that come through the coordinator: which a worker may put, and what becomes of those that nobody has use
//! for.
//!
//! The records of a result have to fill its part: a result is refused if some bytes of the part belong to no record. A
//! part whose lease has ended is an orphan if the journal does not name it and no pending result is in it. Parts of
//! merged ranges are removed while other shards are merged.

use std::collections::HashMap;
use std::sync::Arc;

use chomp_plan::{LeaseId, Millis, Rejection, TaskResult, Work, WorkerId};
use chomp_store::{PartName, part};

use super::Job;
use crate::effects::Effect;
use crate::error::Refusal;
use crate::tools::UnitLocation;

/// The time from one search for orphans to the next.
const SEARCH_EVERY_MS: u64 = 10_000;

/// In about how many steps the parts of a table are removed while it is merged. Each looks at all ranges.
const REMOVALS: u64 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutTarget {
    Part(PartName),
    Shard(u32),
}

/// Kept while an object is on its way into the store. Clones are of the same object.
#[derive(Clone, Debug, Default)]
pub(crate) struct PutGuard(Arc<()>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PutRefused {
    #[error("this object is not this worker's to write: it has no lease for it")]
    NoLease,
    /// The part is longer than the largest possible records of the leased ranges.
    #[error("the part of this lease has at most {most} bytes")]
    TooLong { most: u64 },
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The parts that workers have begun to put, until the journal names them or they are removed.
#[derive(Debug, Default)]
pub(super) struct RelayedParts {
    begun: HashMap<LeaseId, RelayedPart>,
    next_search: Millis,
}

#[derive(Debug)]
struct RelayedPart {
    name: PartName,
    worker: WorkerId,
    /// The most bytes that were announced for it: it has no more.
    bytes: u64,
    guard: PutGuard,
}

impl RelayedParts {
    /// Fails unless the records of a result fill the part of its lease. A part that its worker wrote into the store
    /// directly is not checked: its length is not known here.
    pub(super) fn require_filled(
        &self,
        worker: WorkerId,
        lease: LeaseId,
        result: &TaskResult<UnitLocation>,
    ) -> Result<(), Rejection> {
        let part = self.begun.get(&lease).filter(|part| part.worker == worker);
        let (Some(part), TaskResult::Ranges(ranges)) = (part, result) else {
            return Ok(());
        };
        let filled = match ranges.last() {
            Some((_, UnitLocation::Record { placed, .. })) => placed.end(),
            _ => part::HEADER_BYTES,
        };
        if part.bytes == filled {
            return Ok(());
        }
        Err(Rejection::Unfilled {
            lease,
            bytes: part.bytes,
            filled,
        })
    }

    /// When orphans are searched for, if there may be any.
    pub(super) fn next_search(&self) -> Option<Millis> {
        (!self.begun.is_empty()).then_some(self.next_search)
    }
}

impl Job {
    /// Notes that a part is begun. May be repeated for the same object. The [`PutGuard`] is to be held until no more
    /// bytes can be written: without it the part may be removed as an orphan.
    pub(crate) fn authorize_put(
        &mut self,
        worker: WorkerId,
        target: PutTarget,
        bytes: u64,
    ) -> Result<PutGuard, PutRefused> {
        let name = match target {
            PutTarget::Part(name) => name,
            PutTarget::Shard(shard) => {
                let may = self.plan.may_write(worker, shard);
                return may.then(PutGuard::default).ok_or(PutRefused::NoLease);
            }
        };
        let lease = LeaseId(name.lease);
        let ranges = match self.plan.work_of(worker, lease) {
            Some(Work::Evaluate {
                layer,
                heads,
                is_check: false,
            }) if *layer == name.layer => heads.len(),
            _ => return Err(PutRefused::NoLease),
        };
        let most = part::bytes_max(ranges, self.tools.journal.ledger().range_bits);
        if bytes > most {
            return Err(PutRefused::TooLong { most });
        }
        let part = self
            .relayed_parts
            .begun
            .entry(lease)
            .or_insert_with(|| RelayedPart {
                name,
                worker,
                bytes,
                guard: PutGuard::default(),
            });
        part.bytes = part.bytes.max(bytes);
        Ok(part.guard.clone())
    }

    pub(super) fn remove_orphans(&mut self) {
        if self.writes.failed.is_some() {
            // After a failed write it is not known which parts the journal names, so none is removed as an orphan.
            self.relayed_parts.begun.clear();
        }
        if self
            .relayed_parts
            .next_search()
            .is_none_or(|at| self.now < at)
        {
            return;
        }
        self.relayed_parts.next_search = self.now.plus(SEARCH_EVERY_MS);
        let mut waiting = self.writes.leases();
        waiting.extend(
            self.plan
                .pending_locations()
                .filter_map(UnitLocation::lease),
        );
        let mut orphans = Vec::new();
        self.relayed_parts.begun.retain(|&lease, part| {
            if self.tools.journal.refers_to(&part.name.key()) {
                return false;
            }
            let is_orphan = !self.plan.holds(part.worker, lease)
                && !waiting.contains(&lease.0)
                && Arc::strong_count(&part.guard.0) == 1;
            if !is_orphan {
                return true;
            }
            orphans.push(part.name.key());
            false
        });
        if !orphans.is_empty() {
            self.effects.push(Effect::Remove { orphans });
        }
    }

    /// Begins to remove the parts of merged ranges, if there are enough of these ranges.
    pub(super) fn remove_merged(&mut self) {
        let from = self.plan.first_unneeded_head();
        let step = self.plan.progress().ranges.div_ceil(REMOVALS);
        if self.plan.has_nothing_to_recheck() && from.0 + step <= self.removed_from.0 {
            let ranges = from..std::mem::replace(&mut self.removed_from, from);
            self.effects.push(Effect::RemoveMerged { ranges });
        }
    }
}
