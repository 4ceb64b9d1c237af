//! Which participants found a result, so that it can be doubted when one of them is quarantined.

use std::fmt;
use std::sync::Arc;

/// Stands for a participant that lost its trust after the result was settled. No participant has this number.
pub const QUARANTINED: u32 = u32::MAX;

/// The participants that found the content of a range or shard, by number, ascending. None if the coordinator computed
/// it itself.
///
/// A ledger has finders for each of up to a million ranges. The ranges of a part mostly share theirs.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Finders(Option<Arc<Vec<u32>>>);

impl Finders {
    /// These participants.
    pub fn new(participants: impl IntoIterator<Item = u32>) -> Finders {
        let mut all: Vec<u32> = participants.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        Finders((!all.is_empty()).then(|| Arc::new(all)))
    }

    /// Their numbers, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.as_slice().iter().copied()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// The finders after `participant` has lost its trust; none if it is not among them.
    pub(crate) fn without(&self, participant: u32) -> Option<Finders> {
        let others = || self.iter().filter(|&one| one != participant);
        (others().count() < self.iter().len()).then(|| Finders::new(others().chain([QUARANTINED])))
    }

    fn as_slice(&self) -> &[u32] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl fmt::Debug for Finders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}
