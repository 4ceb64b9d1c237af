//! Ranges in memory, the least recently used ones forgotten first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use chomp_kernel::Sources;
use chomp_table::{Head, Range};
use lru::LruCache;

/// A bounded cache of ranges.
#[derive(Debug)]
pub struct Cache {
    bytes_max: u64,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    ranges: LruCache<Head, Arc<Range>>,
    bytes: u64,
}

/// The sources of one task. They stay in memory until the task is done, whatever the cache does.
#[derive(Debug, Default)]
pub struct TaskSources {
    ranges: HashMap<Head, Arc<Range>>,
}

impl Cache {
    /// A cache of at most `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Cache {
        Cache {
            bytes_max,
            held: Mutex::new(Held {
                ranges: LruCache::unbounded(),
                bytes: 0,
            }),
        }
    }

    /// Adds a range; forgets others if there is no room.
    pub fn insert(&self, range: Arc<Range>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.bytes += bytes(&range);
        if let Some(old) = held.ranges.put(range.head, range) {
            held.bytes -= bytes(&old);
        }
        while held.bytes > self.bytes_max {
            let Some((_, old)) = held.ranges.pop_lru() else {
                break;
            };
            held.bytes -= bytes(&old);
        }
    }

    /// Moves into `sources` those of `heads` that are here; returns those that are not.
    pub fn collect(&self, heads: &[Head], sources: &mut TaskSources) -> Vec<Head> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut missing = Vec::new();
        for &head in heads {
            match held.ranges.get(&head) {
                Some(range) => sources.insert(Arc::clone(range)),
                None => missing.push(head),
            }
        }
        missing
    }
}

impl TaskSources {
    /// Adds a source.
    pub fn insert(&mut self, range: Arc<Range>) {
        self.ranges.insert(range.head, range);
    }
}

impl Sources for TaskSources {
    fn find(&self, head: Head) -> Option<&Range> {
        self.ranges.get(&head).map(Arc::as_ref)
    }
}

/// What a cached range takes, its places in the maps included.
fn bytes(range: &Range) -> u64 {
    (range.losing.capacity() * size_of::<u32>() + size_of::<Range>() + 128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(head: u64, len: usize) -> Arc<Range> {
        Arc::new(Range {
            head: Head(head),
            losing: vec![0; len],
            edges: 0,
        })
    }

    #[test]
    fn the_least_recently_used_is_forgotten_first() {
        let cache = Cache::new(2 * bytes(&range(0, 1000)));
        cache.insert(range(1, 1000));
        cache.insert(range(2, 1000));
        let mut sources = TaskSources::default();
        assert_eq!(cache.collect(&[Head(1)], &mut sources), []);
        cache.insert(range(3, 1000));
        assert_eq!(
            cache.collect(&[Head(1), Head(2), Head(3)], &mut sources),
            [Head(2)]
        );
        cache.insert(range(3, 10));
        cache.insert(range(4, 900));
        assert_eq!(
            cache.collect(&[Head(1), Head(3), Head(4)], &mut sources),
            []
        );
        cache.insert(range(5, 10_000));
        assert_eq!(
            cache.collect(&[Head(1), Head(5)], &mut TaskSources::default()),
            [Head(1), Head(5)]
        );
        assert_eq!(
            sources.find(Head(3)).map(|range| range.losing.len()),
            Some(10)
        );
    }
}
