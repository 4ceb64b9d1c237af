//! The state of a job that earlier coordinators left.

use chomp_table::{Digest, RangeSummary};

use super::Plan;
use super::finders::Finders;
use super::ids::{Party, Unit};
use super::messages::PlanTypes;
use super::reasons::{OutReason, PlanError};
use super::units::Content;

/// All that is known of a job from before. Units beyond the table are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The ranges that are durable.
    pub ranges: Vec<(RangeSummary, Finders)>,
    /// The ranges that were durable until their records were lost.
    pub lost: Vec<(RangeSummary, Finders)>,
    /// The shards that are durable. They count only if the contents of all ranges are known.
    pub shards: Vec<(u32, Digest, Finders)>,
    /// The parties that are out, and why.
    pub out: Vec<(Party, String)>,
}

impl<T: PlanTypes> Plan<T> {
    pub(super) fn recall(&mut self, past: Past) -> Result<(), PlanError> {
        for (party, reason) in past.out {
            let name = match party {
                Party::Participant(participant) => format!("of participant {}", participant.0),
                Party::Worker(worker) => format!("number {worker}"),
            };
            let reason = OutReason::Recorded { reason };
            self.workers.out.insert(party, (name, reason));
        }
        let ranges = past.ranges.into_iter().map(|range| (range, true));
        let lost = past.lost.into_iter().map(|range| (range, false));
        for ((range, finders), is_durable) in ranges.chain(lost) {
            let (unit, content) = (Unit::Range(range.head), Content::of_range(range));
            if !self.units.contains(unit) {
                continue;
            }
            if self.units.differs(unit, content) {
                return Err(PlanError::Disagreement { unit });
            }
            if self.units.content(unit).is_none() {
                for participant in finders.participants() {
                    *self.workers.ranges_found.entry(participant).or_default() += 1;
                }
                self.units.set_known(unit, content, finders);
                if is_durable {
                    self.units.mark_done(unit);
                }
            }
            if !is_durable {
                self.units.count_losses(unit, 0);
            }
        }
        let mut ranges = self.units.all_ranges();
        if ranges.all(|unit| self.units.content(unit).is_some()) {
            self.ending.shards_before = past.shards;
        }
        Ok(())
    }
}
