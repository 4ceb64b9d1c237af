//! Ranges that are not done any more: their record is lost, or it was wrong.
//!
//! * **Lost.** The content stays the known one, also for later coordinators: a worker that computes the range anew has
//!   to find the same. Ranges that draw on it wait for it, unless they are done. Durable shards stay.
//! * **Wrong.** The ranges that were computed from it may be wrong too: all that follow are withdrawn and computed
//!   anew. Results of leases from before are not taken, as nobody knows what they were computed from. The shards are
//!   forgotten.
//!
//! Either way the table is cut anew when all ranges are committed again.

use chomp_table::sources::draws_on;
use chomp_table::{Digest, Head};

use super::arbitration::ArbitrationReason;
use super::ids::{LeaseId, Unit};
use super::messages::{Action, Rejection, StopReason};
use super::slots::UnitState;
use super::{Phase, Plan};

impl Plan {
    /// Has a committed range computed again, whose record is lost or damaged.
    pub(super) fn lost(&mut self, head: Head, digest: Digest) {
        // When all shards are written, records are not needed any more.
        let is_over = self.is_faulty() || self.phase == Phase::Finished || self.publishing;
        let unit = Unit::Range(head);
        let is_committed =
            self.units.contains(unit) && self.units.state(unit) == UnitState::Committed;
        let known = self.jury.known(unit).filter(|_| is_committed && !is_over);
        let Some(known) = known.filter(|known| known.digest == digest) else {
            return;
        };
        self.out.push(Action::Lose { head });
        self.uncut();
        self.end_wait(unit);
        self.units.ranges.uncommit(head, known.count);
        self.block_dependants(head);
        self.block_reopened();
        let times = self.units.ranges.count_lost_record(head);
        // Workers may put records that are none; the coordinator's own record stays.
        if times > self.settings.failures_max {
            self.arbitrate(unit, ArbitrationReason::Unsettled);
        }
        self.reconsider(unit);
        if times > self.settings.failures_max + 1 {
            self.stop(StopReason::Lost { head, times });
        }
    }

    /// Blocks the ranges that draw on a range whose record is lost, as far as their content is not agreed.
    fn block_dependants(&mut self, head: Head) {
        let range_bits = self.settings.range_bits;
        let depends =
            |unit: Unit| matches!(unit, Unit::Range(other) if draws_on(other, head, range_bits));
        self.arbitrations.spoil(depends);
        // A unit that is ready is wanted or begun, or held back for an arbitration.
        let ready = self.ready.ready().chain(self.arbitrations.units());
        let mut dependants: Vec<Unit> = ready.filter(|&unit| depends(unit)).collect();
        dependants.sort_unstable();
        dependants.dedup();
        for unit in dependants {
            if let Unit::Range(other) = unit
                && self.units.state(unit) == UnitState::Ready
            {
                self.void_votes(unit, &Rejection::Stale);
                self.drop_copies(unit);
                self.units.ranges.block(other);
            }
        }
    }

    /// No worker can find a durable range again whose sources are lost. The coordinator waits for them.
    fn block_reopened(&mut self) {
        for unit in self.jury.reopened().collect::<Vec<_>>() {
            if self.units.state(unit) == UnitState::Committed && !self.units.is_ready(unit) {
                self.drop_copies(unit);
                self.arbitrate(unit, ArbitrationReason::Unsettled);
            }
        }
    }

    /// Forgets the attempts at a unit, and ends each lease on it as a whole.
    fn drop_copies(&mut self, unit: Unit) {
        for lease in self.leases_on(unit) {
            self.end_lease(lease, None);
        }
        self.ready.close(unit);
    }

    /// Forgets how the table was cut. As all ranges come out the same, so do its shards: durable ones are known again
    /// when it is cut anew.
    fn uncut(&mut self) {
        if !self.units.shards.is_cut() {
            return;
        }
        let durable = self.units.shards.numbers().filter_map(|number| {
            let unit = Unit::Shard(number);
            let known = self.jury.known(unit)?;
            let is_durable = self.units.state(unit) == UnitState::Committed;
            is_durable.then(|| (number, (known.digest, self.jury.found(unit))))
        });
        let durable: Vec<_> = durable.collect();
        self.drop_shards();
        self.shards_before.extend(durable);
        self.missing_before = Head(self.units.ranges.count());
    }

    /// Forgets the shards, if the table was cut.
    pub(super) fn drop_shards(&mut self) {
        self.shards_before.clear();
        if !self.units.shards.is_cut() {
            return;
        }
        for unit in self.units.shards.numbers().map(Unit::Shard) {
            self.drop_copies(unit);
            self.arbitrations.remove(unit);
            self.withdraw_known(unit);
        }
        self.units.shards.clear();
        self.oldest_merge = LeaseId(self.next_lease);
    }

    /// Withdraws a range whose known content is wrong, with all ranges that follow from it.
    pub(super) fn condemn(&mut self, head: Head) {
        let condemned = self.units.ranges.with_followers(head);
        let is_known = |head: &Head| self.jury.known(Unit::Range(*head)).is_some();
        let heads: Vec<Head> = condemned.iter().copied().filter(is_known).collect();
        if !heads.is_empty() && !self.is_faulty() {
            self.out.push(Action::Withdraw { heads });
        }
        self.drop_shards();
        self.oldest_lease = LeaseId(self.next_lease);
        for head in condemned {
            self.condemn_one(head);
        }
    }

    /// Forgets what is known of a range, whatever state it is in: done or about to be, it is to be computed anew when
    /// its sources are there. If it is being written, the result is stale: what is not in the write yet is left out of
    /// it, and what is in it already is withdrawn when the write has ended.
    fn condemn_one(&mut self, head: Head) {
        let unit = Unit::Range(head);
        self.arbitrations.remove(unit);
        match self.units.state(unit) {
            UnitState::Committed => {
                let known = self.jury.known(unit).expect("it was committed");
                self.drop_copies(unit);
                self.units.ranges.uncommit(head, known.count);
            }
            UnitState::Ready => {
                self.drop_copies(unit);
                self.units.ranges.block(head);
            }
            UnitState::Blocked => {}
            UnitState::Committing(submission) => {
                let pending = self.pending_mut(submission);
                pending.rejection = Some(Rejection::Stale);
                let count = pending.next.len();
                pending.next.retain(|next| next.unit != unit);
                if pending.next.len() == count {
                    // It is withdrawn when the write under way has ended.
                    self.condemned.insert(head);
                } else {
                    self.units.ranges.block(head);
                }
            }
        }
        self.withdraw_known(unit);
        self.reconsider(unit);
    }
}
