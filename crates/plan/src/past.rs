//! The state of a job that earlier coordinators left.

use std::collections::BTreeMap;

use chomp_table::{Digest, RangeSummary};

use super::Plan;
use super::ids::{ParticipantId, Unit};
use super::messages::{PlanError, QuarantineReason};
use super::slots::UnitContent;
use super::workers::Quarantined;

/// All that is known of a job from before. Units beyond the table are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The ranges that are durable.
    pub ranges: Vec<RangeSummary>,
    /// The ranges that were durable until their records were lost.
    pub lost: Vec<RangeSummary>,
    /// The shards that are durable. They are of use if they have words of ranges alone before which, and among which,
    /// none was missing; a lost one comes out the same.
    pub shards: Vec<(u32, Digest)>,
    /// Who found which of these. What is not here the coordinator computed itself.
    pub found: BTreeMap<Unit, Found>,
    /// The participants that are not trusted, and why.
    pub quarantined: Vec<(ParticipantId, String)>,
}

/// Who found a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The finders that are still trusted, ascending.
    pub finders: Vec<ParticipantId>,
    /// How many participants had to find it when it was settled.
    pub needed: u32,
}

impl Plan {
    /// Notes what the journal says of ranges, and who is not trusted.
    pub(super) fn recall(&mut self, past: &Past) -> Result<(), PlanError> {
        for (participant, reason) in &past.quarantined {
            let quarantined = Quarantined {
                name: self.name(self.some_worker(*participant)),
                reason: QuarantineReason::Recorded {
                    reason: reason.clone(),
                },
            };
            self.quarantined.insert(*participant, quarantined);
        }
        let is_done = past.ranges.iter().map(|range| (range, true));
        let is_lost = past.lost.iter().map(|range| (range, false));
        for (range, is_done) in is_done.chain(is_lost) {
            let unit = Unit::Range(range.head);
            if !self.units.contains(unit) {
                continue;
            }
            let content = UnitContent::of_range(*range);
            match self.jury.known(unit) {
                Some(known) if known != content && is_done => {
                    return Err(PlanError::Disagreement { unit });
                }
                Some(_) => {}
                None => {
                    let found = past.found.get(&unit).cloned();
                    let Found { finders, needed } = found.unwrap_or_default();
                    self.jury.know(unit, content, finders, needed);
                }
            }
        }
        for &(number, digest) in &past.shards {
            let unit = Unit::Shard(number);
            let found = past.found.get(&unit).cloned().unwrap_or_default();
            let before = self.shards_before.insert(number, (digest, found));
            if before.is_some_and(|(before, _)| before != digest) {
                return Err(PlanError::Disagreement { unit });
            }
        }
        Ok(())
    }
}
