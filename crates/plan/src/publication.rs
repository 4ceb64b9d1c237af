//! The end of a job: the table is cut into shards, and published when these are merged and checked.
//!
//! Before it publishes the table, the coordinator compares each file with what was said of it, the words with their
//! mirror images, and the counts with those that are known.

use std::collections::BTreeSet;

use chomp_table::{Digest, Head};

use super::finders::Finders;
use super::ids::Unit;
use super::messages::{Action, PlanTypes, PublishOutcome};
use super::reasons::StopReason;
use super::units::Content;
use super::{Phase, Plan};

#[derive(Debug, Default)]
pub(super) struct Ending {
    pub(super) is_under_way: bool,
    /// Whether parts are removed when their ranges are merged: only the owner had found ranges when the table was cut.
    may_trim: bool,
    /// The durable shards of earlier coordinators, until the table is cut.
    pub(super) shards_before: Vec<(u32, Digest, Finders)>,
    /// The ranges that the referee computed because the table could not be published.
    pub(super) suspects: BTreeSet<Head>,
}

impl<T: PlanTypes> Plan<T> {
    pub(super) fn advance_publication(&mut self) {
        let may_cut = self.is_running() && !self.ending.is_under_way;
        if may_cut && self.units.ranges.is_complete() && !self.units.is_cut() {
            self.cut_shards();
        }
        if self.has_nothing_to_recheck()
            && self.units.ranges.is_complete()
            && self.units.are_shards_complete()
        {
            self.ending.is_under_way = true;
            self.actions.push(Action::Publish);
        }
    }

    /// Cuts the table. Shards that are durable already are committed.
    fn cut_shards(&mut self) {
        self.units.cut(self.settings.shard_words);
        let is_of_owner = self
            .units
            .all_ranges()
            .all(|unit| self.units.has_no_foreign_finder(unit));
        self.ending.may_trim = is_of_owner && !self.settings.keep_parts;
        for (number, digest, finders) in std::mem::take(&mut self.ending.shards_before) {
            let unit = Unit::Shard(number);
            if self.units.contains(unit) {
                let content = Content::of_shard(digest);
                self.units.set_known(unit, content, finders);
                self.units.mark_done(unit);
            }
        }
    }

    /// Forgets the shards: some range is not what it was when they were merged.
    pub(super) fn drop_shards(&mut self) {
        self.ending.shards_before.clear();
        for unit in self.units.shards() {
            self.end_leases_on(unit);
        }
        self.units.drop_shards();
    }

    /// The first of the ranges at the end of the table whose records are not needed: durable shards have their words,
    /// and no range before them depends on them. Only a table that contradicts itself would need the records again. A
    /// job that the owner alone computes takes that risk, since it costs only time and saves space.
    pub fn first_unneeded_head(&self) -> Head {
        let is_done =
            |unit: &Unit| self.units.is_done(*unit) && self.units.has_no_foreign_finder(*unit);
        let done = self.units.shards().rev().take_while(is_done);
        let is_complete = self.units.ranges.is_complete() && self.has_nothing_to_recheck();
        match done.last() {
            // The shard before has words of the range in which this one begins.
            Some(Unit::Shard(first)) if self.ending.may_trim && is_complete => {
                Head(self.units.start(first).0.0 + 1)
            }
            _ => Head(self.units.ranges.count()),
        }
    }

    pub(super) fn on_published(&mut self, outcome: PublishOutcome) {
        let was_under_way = std::mem::take(&mut self.ending.is_under_way);
        self.review.is_due = true;
        assert!(was_under_way, "the table was not to be published");
        match outcome {
            PublishOutcome::Done if self.is_faulty() => {}
            PublishOutcome::Done => self.phase = Phase::Finished,
            PublishOutcome::Failed { reason } => self.stop(StopReason::PublishFailed { reason }),
            PublishOutcome::Wrong { mut heads, reason } => {
                heads.retain(|&head| self.ending.suspects.insert(head));
                if heads.is_empty() {
                    self.stop(StopReason::PublishFailed { reason });
                }
                for unit in heads.into_iter().map(Unit::Range) {
                    self.units.work_mut(unit).needs_referee = true;
                }
            }
            PublishOutcome::RecordsLost { records } => {
                self.on_lost(&records);
            }
            PublishOutcome::MergeAgain { shards } => {
                for unit in shards.into_iter().map(Unit::Shard) {
                    self.on_shard_lost(unit);
                }
            }
        }
    }

    /// Has the referee merge a shard again. If its file was damaged too often, the job stops.
    pub(super) fn on_shard_lost(&mut self, unit: Unit) {
        if !self.units.contains(unit) {
            return;
        }
        // What is under way, or was said of the file, is about a file that is of no use.
        self.end_leases_on(unit);
        let work = self.units.work_mut(unit);
        (work.expiries, work.failures) = (0, 0);
        work.results.retain(|result| !result.content.is_forged());
        let losses = self.units.count_losses(unit, 1);
        if losses > self.settings.failures_max {
            let reason = format!("the file of {unit} was damaged {losses} times");
            self.stop(StopReason::PublishFailed { reason });
        }
        self.units.revert(unit);
        self.units.work_mut(unit).needs_referee = true;
    }
}
