//! What a plan learns from earlier coordinators.

use chomp_table::{Digest, RangeSummary};

use super::Plan;
use super::ids::{ParticipantId, Unit};
use super::messages::QuarantineReason;
use super::workers::{Delivery, Outcast};

/// All that is known of a job from before. Units beyond the table are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The ranges that are durable.
    pub ranges: Vec<RangeSummary>,
    /// The ranges that were durable until their records were lost.
    pub lost: Vec<RangeSummary>,
    /// The shards that are durable. They are of use if they have words of ranges alone before which, and among which, none
    /// is missing.
    pub shards: Vec<(u32, Digest)>,
    /// Which participants found which of these.
    pub found: Vec<(Unit, ParticipantId)>,
    /// Those of these that a participant found that is not trusted any more.
    pub doubted: Vec<Unit>,
    /// The participants that are not trusted, and why.
    pub outcasts: Vec<(ParticipantId, String)>,
}

impl Plan {
    /// Notes which participants found which units, and which are not trusted.
    pub(super) fn recall(&mut self, past: &Past) {
        for &(unit, participant) in &past.found {
            if self.units.contains(unit) && self.units.known(unit).is_some() {
                let delivered = self.delivered.entry(participant).or_default();
                delivered.push(Delivery::of(unit));
                if let Unit::Shard(number) = unit {
                    let writer = self.some_worker(participant);
                    self.units.shards.set_writer(number, Some(writer));
                }
            }
        }
        for (participant, reason) in &past.outcasts {
            let outcast = Outcast {
                name: self.name(self.some_worker(*participant)),
                quarantine: QuarantineReason::Recorded {
                    reason: reason.clone(),
                },
            };
            self.outcasts.insert(*participant, outcast);
        }
        self.doubt(past.doubted.iter().copied());
    }
}
