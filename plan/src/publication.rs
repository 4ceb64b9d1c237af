//! The end of a job: the table is cut into shards, and published when these are merged and read back.

use chomp_table::{Digest, Head};

use super::ids::Unit;
use super::messages::{Action, StopReason};
use super::units::Units;
use super::{Phase, Plan};

impl Plan {
    /// Cuts the table into shards, or begins the publication, when it is time for it.
    pub(super) fn advance_publication(&mut self) {
        let is_time = self.is_running() && !self.publishing && self.in_doubt() == 0;
        if !is_time || !self.units.ranges.is_complete() {
            return;
        }
        if !self.units.shards.is_cut() {
            self.cut_shards();
        }
        if self.units.shards.is_complete() && self.are_read_back() {
            self.publishing = true;
            self.out.push(Action::Publish);
        }
    }

    pub(super) fn cut_shards(&mut self) {
        let Units { ranges, shards } = &mut self.units;
        shards.cut(ranges, self.settings.shard_words);
        for number in self.units.shards.numbers() {
            self.reconsider(Unit::Shard(number));
        }
    }

    pub(super) fn published(&mut self) {
        self.publishing_ended();
        if !self.is_faulty() {
            self.phase = Phase::Finished;
        }
    }

    pub(super) fn publishing_ended(&mut self) {
        assert!(self.publishing, "the table was not to be published");
        self.publishing = false;
    }

    /// Notes that the table is not published because of this range. The coordinator computes it again, or a worker does
    /// if its record is lost. If the coordinator did so before, the job stops.
    pub(super) fn unpublished(&mut self, head: Head, lost: Option<Digest>, reason: String) {
        match lost {
            Some(digest) => self.lost(head, digest),
            None if self.suspects.insert(head) => self.arbitrate(Unit::Range(head)),
            None => self.stop(StopReason::PublishFailed { reason }),
        }
    }
}
