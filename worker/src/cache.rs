//! Ranges in memory, the least recently used ones forgotten first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chomp_kernel::{Source, Sources};
use chomp_table::Head;
use lru::LruCache;

use crate::client::Stats;

/// A bounded cache of ranges, all of one table.
#[derive(Debug)]
pub(crate) struct Cache {
    bytes_max: u64,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    table: u64,
    ranges: LruCache<Head, Arc<Source>>,
    stats: Stats,
}

/// The sources of one task. They stay in memory until the task is done, whatever the cache does.
#[derive(Debug, Default)]
pub(crate) struct TaskSources {
    ranges: BTreeMap<Head, Arc<Source>>,
}

impl Cache {
    /// A cache of at most `bytes_max` bytes, for ranges of `table`.
    pub(crate) fn new(bytes_max: u64, table: u64) -> Cache {
        Cache {
            bytes_max,
            held: Mutex::new(Held {
                table,
                ranges: LruCache::unbounded(),
                stats: Stats::default(),
            }),
        }
    }

    /// Adds a range of `table`; forgets others if there is no room. A range of another table than
    /// that of the last [`collect`](Cache::collect) comes too late and is not kept.
    pub(crate) fn insert(&self, table: u64, range: Arc<Source>) {
        let mut held = self.held();
        if table != held.table {
            return;
        }
        held.stats.bytes += bytes(&range);
        if let Some(old) = held.ranges.put(range.head(), range) {
            held.stats.bytes -= bytes(&old);
        }
        while held.stats.bytes > self.bytes_max {
            let Some((_, old)) = held.ranges.pop_lru() else {
                break;
            };
            held.stats.bytes -= bytes(&old);
        }
    }

    /// Moves into `sources` those of `heads` that are here; returns those that are not. What is
    /// here of another table is forgotten first.
    pub(crate) fn collect(
        &self,
        table: u64,
        heads: &[Head],
        sources: &mut TaskSources,
    ) -> Vec<Head> {
        let mut held = self.held();
        if table != held.table {
            held.table = table;
            held.ranges.clear();
            held.stats.bytes = 0;
        }
        let mut missing = Vec::new();
        for &head in heads {
            match held.ranges.get(&head) {
                Some(range) => sources.insert(Arc::clone(range)),
                None => missing.push(head),
            }
        }
        held.stats.hits += (heads.len() - missing.len()) as u64;
        missing
    }

    /// Takes note that so many ranges had to be fetched.
    pub(crate) fn missed(&self, ranges: usize) {
        self.held().stats.misses += ranges as u64;
    }

    /// How the cache is doing.
    pub(crate) fn stats(&self) -> Stats {
        self.held().stats
    }

    // Held for single operations on whole values: a panic leaves nothing half done.
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskSources {
    /// Adds a source.
    pub(crate) fn insert(&mut self, range: Arc<Source>) {
        self.ranges.insert(range.head(), range);
    }
}

impl Sources for TaskSources {
    fn find(&self, head: Head) -> Option<&Source> {
        self.ranges.get(&head).map(Arc::as_ref)
    }
}

/// What a cached range takes, its places in the maps included. Ranges have many sizes, so what is
/// forgotten leaves holes that are not all filled: about a quarter more, measured.
fn bytes(range: &Source) -> u64 {
    range.memory() * 5 / 4 + 128
}

#[cfg(test)]
mod tests {
    use chomp_table::Range;

    use super::*;

    /// A range of about so many KiB.
    fn range(head: u64, kib: u32) -> Arc<Source> {
        Arc::new(Source::new(&Range {
            head: Head(head),
            losing: (0..kib * 512).map(|number| number * 64).collect(),
            edges: 0,
        }))
    }

    #[test]
    fn the_least_recently_used_is_forgotten_first() {
        let cache = Cache::new(2 * bytes(&range(0, 1000)), 7);
        cache.insert(7, range(1, 1000));
        cache.insert(7, range(2, 1000));
        let mut sources = TaskSources::default();
        assert_eq!(cache.collect(7, &[Head(1)], &mut sources), []);
        cache.insert(7, range(3, 1000));
        assert_eq!(
            cache.collect(7, &[Head(1), Head(2), Head(3)], &mut sources),
            [Head(2)]
        );
        cache.insert(7, range(3, 10));
        cache.insert(7, range(4, 900));
        assert_eq!(
            cache.collect(7, &[Head(1), Head(3), Head(4)], &mut sources),
            []
        );
        cache.insert(7, range(5, 10_000));
        assert_eq!(
            cache.collect(7, &[Head(1), Head(5)], &mut TaskSources::default()),
            [Head(1), Head(5)]
        );
        assert_eq!(sources.find(Head(3)), Some(&*range(3, 10)));
    }
    #[test]
    fn ranges_of_another_table_are_forgotten_and_those_that_come_late_are_not_kept() {
        let cache = Cache::new(1 << 20, 7);
        cache.insert(7, range(1, 10));
        let mut sources = TaskSources::default();
        assert_eq!(cache.collect(7, &[Head(1)], &mut sources), []);
        assert_eq!(cache.collect(8, &[Head(1)], &mut sources), [Head(1)]);
        assert!(sources.find(Head(1)).is_some(), "a task keeps what it has");
        cache.insert(7, range(2, 10));
        assert_eq!(cache.collect(8, &[Head(2)], &mut sources), [Head(2)]);
        cache.insert(8, range(2, 10));
        assert_eq!(cache.collect(8, &[Head(2)], &mut sources), []);
        cache.missed(3);
        let stats = Stats {
            bytes: bytes(&range(2, 10)),
            hits: 2,
            misses: 3,
        };
        assert_eq!(cache.stats(), stats);
    }
}
