//! The worker's cache of ranges: those that tasks need most stay.
//!
//! The cache finds a range only if its record has the digest that is asked for. So a range that was computed again with
//! another content is not taken for the old one, and a range of another table with the same digest is used.

use std::collections::BTreeMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use chomp_kernel::{Source, Sources};
use chomp_store::RangeRow;
use chomp_table::{Digest, Head, RangeBits};
use parking_lot::Mutex;
use quick_cache::unsync;
use quick_cache::{OptionsBuilder, Weighter, unsync::DefaultLifecycle};

/// The positions for each losing one, as a rule.
const POSITIONS_PER_LOSING: u64 = 150;

#[derive(Debug)]
pub(crate) struct RangeCache {
    held: Mutex<RangeMap>,
}

/// The hashes are the same in every run, so that simulations are.
type RangeMap = unsync::Cache<Head, Cached, Bytes, BuildHasherDefault<DefaultHasher>>;

#[derive(Clone, Debug)]
struct Cached {
    digest: Digest,
    range: Arc<Source>,
}

#[derive(Clone, Debug)]
struct Bytes;

/// The sources of one task. They stay in memory until the task is done, whatever the cache does.
#[derive(Debug, Default)]
pub(crate) struct TaskSources {
    ranges: BTreeMap<Head, Arc<Source>>,
}

impl RangeCache {
    pub(crate) fn new(bytes_max: u64, range_bits: RangeBits) -> RangeCache {
        let each = 2 * (range_bits.positions() / POSITIONS_PER_LOSING);
        let ranges = bytes_max / (each + 256);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(usize::try_from(ranges).unwrap_or(usize::MAX))
            .weight_capacity(bytes_max)
            .build()
            .expect("both capacities are given");
        let hashes = BuildHasherDefault::default();
        RangeCache {
            held: Mutex::new(RangeMap::with_options(
                options,
                Bytes,
                hashes,
                DefaultLifecycle::default(),
            )),
        }
    }

    pub(crate) fn insert(&self, digest: Digest, range: Arc<Source>) {
        let cached = Cached { digest, range };
        self.held.lock().insert(cached.range.head(), cached);
    }

    /// Puts the cached ranges of `rows` into `sources`; returns the rows of the others.
    pub(crate) fn collect_cached(
        &self,
        rows: Vec<(Head, RangeRow)>,
        sources: &mut TaskSources,
    ) -> Vec<(Head, RangeRow)> {
        let held = self.held.lock();
        let mut missing = rows;
        missing.retain(|(head, row)| match held.get(head) {
            Some(cached) if cached.digest == row.digest => {
                sources.insert(Arc::clone(&cached.range));
                false
            }
            _ => true,
        });
        missing
    }

    /// A range, if it is here. This does not count as a use of it.
    pub(crate) fn peek(&self, head: Head, row: &RangeRow) -> Option<Arc<Source>> {
        let all = self.held.lock();
        let found = all.peek(&head)?;
        (found.digest == row.digest).then(|| Arc::clone(&found.range))
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.held.lock().weight()
    }
}

impl Weighter<Head, Cached> for Bytes {
    /// The memory of a cached range, its places in the maps included. Ranges have many sizes, so those
    /// that are forgotten leave holes that are not all filled: about a quarter more, measured.
    fn weight(&self, _: &Head, cached: &Cached) -> u64 {
        let bytes = cached.range.memory();
        bytes + bytes / 4 + 192
    }
}

impl TaskSources {
    pub(crate) fn insert(&mut self, range: Arc<Source>) {
        self.ranges.insert(range.head(), range);
    }
}

impl Sources for TaskSources {
    fn find(&self, head: Head) -> Option<&Source> {
        self.ranges.get(&head).map(Arc::as_ref)
    }
}

#[cfg(test)]
mod tests;
