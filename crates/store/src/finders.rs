//! The finders of a result, so that it can be checked when one of the finders is not trusted any more.

use std::fmt;
use std::sync::Arc;

/// A worker: the number of its participant, and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct Finder {
    pub participant: u32,
    pub worker: u64,
}

/// A participant with all its workers, or one worker alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct FinderParty {
    pub participant: u32,
    pub worker: Option<u64>,
}

impl FinderParty {
    fn includes(self, finder: Finder) -> bool {
        let is_worker = self.worker.is_none_or(|worker| worker == finder.worker);
        finder.participant == self.participant && is_worker
    }
}

/// The trusted workers that found the content of a range or shard, ascending, and the number of finders that it should
/// have. The default has no finder and should have none: the coordinator computed the content itself.
///
/// A ledger has finders for each of up to a million ranges. Ranges of the same part mostly share one allocation.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Finders(Option<Arc<(u32, Vec<Finder>)>>);

/// The most participants that have to find the same before it counts.
pub const REPLICAS_MAX: u32 = 16;

impl Finders {
    /// The finders of a content that should have `wanted` of them.
    pub fn new(wanted: u32, finders: impl IntoIterator<Item = Finder>) -> Finders {
        let mut all: Vec<Finder> = finders.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        let is_own = wanted == 0 && all.is_empty();
        Finders((!is_own).then(|| Arc::new((wanted, all))))
    }

    /// The number of finders that the content should have.
    pub fn wanted(&self) -> u32 {
        self.0.as_ref().map_or(0, |found| found.0)
    }

    /// The workers, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Finder> + '_ {
        self.as_slice().iter().copied()
    }

    /// The number of participants that they belong to.
    pub fn participants(&self) -> usize {
        let alike = |one: &Finder, next: &Finder| one.participant == next.participant;
        self.as_slice().chunk_by(alike).count()
    }

    /// The finders that are left when `party` is not trusted any more; `None` if none of them belongs to it.
    pub(crate) fn without(&self, party: FinderParty) -> Option<Finders> {
        let others = || self.iter().filter(|&finder| !party.includes(finder));
        (others().count() < self.iter().len()).then(|| Finders::new(self.wanted(), others()))
    }

    fn as_slice(&self) -> &[Finder] {
        self.0.as_ref().map_or(&[], |found| &found.1)
    }
}

impl fmt::Debug for Finders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}", self.as_slice(), self.wanted())
    }
}
