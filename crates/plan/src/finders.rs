//! The finders of a content, so that it can be checked when one of them is not trusted any more.

use std::sync::Arc;

use super::ids::{ParticipantId, Party, WorkerId};

/// The most participants that have to find the same before it counts.
pub const REPLICAS_MAX: u32 = 16;

/// The trusted workers that found the content of a unit, ascending, and the number of finders that it should have. The
/// default has no finder and should have none: the referee has found the content.
///
/// There are finders for each of up to a million ranges. Those of a result share one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finders(Option<Arc<(u32, Vec<WorkerId>)>>);

impl Finders {
    /// The finders of a unit of which nothing is known.
    pub(super) const NOBODY: Finders = Finders(None);

    /// The finders of a content that should have `wanted` of them.
    pub fn new(wanted: u32, workers: impl IntoIterator<Item = WorkerId>) -> Finders {
        let mut all: Vec<WorkerId> = workers.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        let is_default = wanted == 0 && all.is_empty();
        Finders((!is_default).then(|| Arc::new((wanted, all))))
    }

    /// The number of finders that the content should have.
    pub fn wanted(&self) -> u32 {
        self.0.as_ref().map_or(0, |found| found.0)
    }

    /// The workers, ascending.
    pub fn workers(&self) -> &[WorkerId] {
        self.0.as_ref().map_or(&[], |found| &found.1)
    }

    /// The participants that they belong to, ascending.
    pub fn participants(&self) -> impl Iterator<Item = ParticipantId> + '_ {
        let alike = |one: &WorkerId, next: &WorkerId| one.participant == next.participant;
        self.workers().chunk_by(alike).map(|of| of[0].participant)
    }

    /// The finders that are left when `party` is not trusted any more; `None` if none of them belongs to it.
    pub fn without(&self, party: Party) -> Option<Finders> {
        let workers = self.workers().iter().copied();
        let others = workers.filter(|&finder| !party.includes(finder));
        (others.clone().count() < self.workers().len()).then(|| Finders::new(self.wanted(), others))
    }
}
