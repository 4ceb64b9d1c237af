//! The end of a job: the table is cut into shards, and published when these are merged.
//!
//! One worker writes a shard, and another one reads the file, which is its vote. What only one participant has found,
//! the coordinator merges too, unless that is the owner of the table. Before it publishes the table, the coordinator
//! compares each file with what was said of it.

use chomp_table::Head;

use super::arbitration::ArbitrationReason;
use super::ids::{ParticipantId, Unit};
use super::messages::{Action, StopReason};
use super::slots::{UnitContent, UnitState};
use super::units::Units;
use super::{Phase, Plan};

impl Plan {
    /// Cuts the table into shards, or begins the publication, when it is time for it.
    pub(super) fn advance_publication(&mut self) {
        if !self.is_calm() || !self.units.ranges.is_complete() {
            return;
        }
        if !self.units.shards.is_cut() {
            self.cut_shards();
            // Nobody who is trusted may have found one of them.
            self.advance_arbitrations();
        }
        if self.units.shards.is_complete() {
            // Those that one participant alone has found, who is not the owner of the table.
            let finders = |number: u32| self.jury.finders(Unit::Shard(number));
            let is_of_one =
                |number: &u32| matches!(finders(*number), [one] if *one != ParticipantId::OWNER);
            let of_strangers: Vec<u32> = self.units.shards.numbers().filter(is_of_one).collect();
            for &number in &of_strangers {
                self.rewrite(number);
            }
            if !of_strangers.is_empty() {
                return self.advance_arbitrations();
            }
            self.publishing = true;
            self.out.push(Action::Publish);
        }
    }

    /// Whether the job goes on, and nothing is in doubt or being published.
    pub fn is_calm(&self) -> bool {
        // An arbitration that is of no more use may still write a shard.
        let is_settled = !self.is_in_doubt() && !self.arbitrations.is_busy();
        self.is_running() && !self.publishing && is_settled
    }

    /// Cuts the table. Shards that are durable already are committed.
    pub(super) fn cut_shards(&mut self) {
        let Units { ranges, shards } = &mut self.units;
        let jury = &self.jury;
        let stored = |head| {
            let known = jury.known(Unit::Range(head));
            known.map_or(0, |known| known.stored)
        };
        shards.cut(ranges, stored, self.settings.shard_words);
        for number in self.units.shards.numbers() {
            self.reconsider(Unit::Shard(number));
        }
        let mut heads = (0..self.units.ranges.count()).map(Head);
        let is_of_owner = heads.all(|head| self.jury.is_of_owner(Unit::Range(head)));
        self.may_trim = is_of_owner && !self.settings.keep_parts;
        let missing = self.missing_before;
        for (number, (digest, mut found)) in std::mem::take(&mut self.shards_before) {
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
                found
                    .finders
                    .retain(|finder| !self.quarantined.contains_key(finder));
                let content = UnitContent::of_shard(digest);
                self.jury.know(unit, content, found.finders, found.needed);
                self.units.shards.commit(number);
                if self.jury.is_reopened(unit) {
                    self.reopened(unit);
                }
            }
        }
    }

    /// The first range of those at the end of the table whose records nobody needs any more: their words are in durable
    /// shards, and no range before them draws on them. Only a contradiction of the whole table would ask for them. That
    /// costs a job which nobody but the owner works for much time, and no more, so there it is worth the space.
    pub fn merged_from(&self) -> Head {
        let Units { ranges, shards } = &self.units;
        let is_done = |&number: &u32| {
            let unit = Unit::Shard(number);
            self.units.state(unit) == UnitState::Committed && self.jury.is_of_owner(unit)
        };
        let done = shards.numbers().rev().take_while(is_done);
        match done.last().filter(|_| self.may_trim) {
            // The shard before has words of the range in which this one begins.
            Some(number) => Head(shards.start(number).0.0 + 1),
            None => Head(ranges.count()),
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

    /// Has the coordinator merge these shards. If it did so too often, the job stops.
    pub(super) fn shards_lost(&mut self, shards: &[u32]) {
        for &number in shards {
            let losses = self.units.shards.count_loss(number);
            if losses > self.settings.failures_max {
                let unit = Unit::Shard(number);
                let reason = format!("the file of {unit} was damaged {losses} times");
                self.stop(StopReason::PublishFailed { reason });
            }
            self.rewrite(number);
        }
    }

    /// Has the coordinator write a shard.
    pub(super) fn rewrite(&mut self, number: u32) {
        let unit = Unit::Shard(number);
        self.units.shards.reopen(number);
        self.arbitrate(unit, ArbitrationReason::Unsettled);
    }

    /// Notes that the table is not published because of this range. The coordinator computes it again. If it did so
    /// before, the job stops.
    pub(super) fn unpublished(&mut self, head: Head, reason: String) {
        if self.suspects.insert(head) {
            self.arbitrate(Unit::Range(head), ArbitrationReason::Unsettled);
        } else {
            self.stop(StopReason::PublishFailed { reason });
        }
    }
}
