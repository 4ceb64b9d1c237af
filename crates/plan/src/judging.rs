//! Whether a result may be used.

use std::collections::BTreeSet;

use chomp_table::RangeSummary;

use super::Plan;
use super::ids::{LeaseId, Unit, WorkerId};
use super::messages::{Rejection, Work};
use super::slots::UnitState;

impl Plan {
    /// Whether results of this worker are taken at all.
    pub(super) fn judge_sender(&self, worker: WorkerId) -> Result<(), Rejection> {
        if self.is_faulty() {
            return Err(Rejection::Stopped);
        }
        if let Some(reason) = self.quarantine_reason(worker) {
            let reason = reason.clone();
            return Err(Rejection::Quarantined { reason });
        }
        if !self.is_there(worker) {
            return Err(Rejection::NotJoined);
        }
        Ok(())
    }

    /// Whether the ranges may be used.
    pub(super) fn judge_ranges(
        &self,
        worker: WorkerId,
        lease: LeaseId,
        ranges: &[RangeSummary],
    ) -> Result<(), Rejection> {
        self.judge_sender(worker)?;
        let first = ranges.first().ok_or(Rejection::Empty)?;
        let layer = first.head.layer();
        let mut heads = BTreeSet::new();
        for &RangeSummary { head, .. } in ranges {
            let unit = Unit::Range(head);
            if !self.units.contains(unit) {
                return Err(Rejection::Unknown { unit });
            }
            if head.layer() != layer {
                return Err(Rejection::Mixed { head, layer });
            }
            if !heads.insert(head) {
                return Err(Rejection::Twice { head });
            }
            self.judge_unit(worker, lease, unit, self.oldest_lease)?;
        }
        Ok(())
    }

    pub(super) fn judge_shard(
        &self,
        worker: WorkerId,
        lease: LeaseId,
        unit: Unit,
    ) -> Result<(), Rejection> {
        self.judge_sender(worker)?;
        if !self.units.shards.is_cut() {
            return Err(Rejection::NotReady { unit });
        }
        if !self.units.contains(unit) {
            return Err(Rejection::Unknown { unit });
        }
        let work = self.judge_unit(worker, lease, unit, self.oldest_merge)?;
        // It may have written the file before somebody else did, or read the one before.
        if work.reads() != self.jury.file(unit) {
            return Err(Rejection::Stale);
        }
        Ok(())
    }

    /// Whether a result about this unit may be used: its worker was given this lease on the unit. The lease may have
    /// ended, unless it is older than `oldest`. Returns the work of the lease.
    fn judge_unit(
        &self,
        worker: WorkerId,
        lease: LeaseId,
        unit: Unit,
        oldest: LeaseId,
    ) -> Result<&Work, Rejection> {
        let work = match self.work_of(worker, lease) {
            Some(work) => work,
            None if lease < oldest => return Err(Rejection::Stale),
            None => self
                .ended
                .work_of(worker, lease)
                .ok_or(Rejection::NoLease { lease })?,
        };
        if !work.contains(unit) {
            return Err(Rejection::NotLeased { unit, lease });
        }
        if self.units.state(unit) == UnitState::Blocked {
            return Err(Rejection::NotReady { unit });
        }
        Ok(work)
    }
}
