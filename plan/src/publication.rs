//! The end of a job: the table is cut into shards, and published when these are merged and read back.

use chomp_table::{Digest, Head};

use super::ids::Unit;
use super::messages::{Action, StopReason};
use super::slots::Content;
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

    /// Cuts the table. Shards that are durable already are committed.
    pub(super) fn cut_shards(&mut self) {
        let Units { ranges, shards } = &mut self.units;
        shards.cut(ranges, self.settings.shard_words);
        for number in self.units.shards.numbers() {
            self.reconsider(Unit::Shard(number));
        }
        let missing = self.missing_before;
        for (number, digest) in std::mem::take(&mut self.shards_before) {
            let unit = Unit::Shard(number);
            let shards = &self.units.shards;
            // A shard may have words of the range in which the next one begins.
            let last = if shards.contains(number + 1) {
                shards.start(number + 1).0
            } else {
                Head(self.units.ranges.count() - 1)
            };
            if self.units.contains(unit) && last < missing {
                self.ready.close(unit);
                self.units.claim(unit, Content::of_shard(digest));
                self.units.shards.commit(number);
            }
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
