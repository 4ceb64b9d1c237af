//! The decoded data frames and the indices that were used last.

use std::hash::Hash;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};

use crate::shard::ShardSize;

/// The default size of the cache of frames: those of a table of 32 bits fit.
pub const CACHE_BYTES: u64 = 64 << 20;

/// The size of the cache of indices: those of 2,300 full shards, as tables of 42 bits have, or of 1,600 of values.
pub(crate) const INDEX_BYTES: u64 = 64 << 20;

/// The memory of a full frame: 64 KiB. Decoding one takes some 70 µs.
pub(crate) const DECODED_FRAME_BYTES: u64 = ShardSize::PUBLISHED.frame_words as u64 * 8;

/// A data frame of a table, by the numbers of its shard and within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FrameId {
    pub(crate) shard: usize,
    pub(crate) frame: usize,
}

/// A cache of parts of files, which evicts the least recently used one first.
#[derive(Debug)]
pub(crate) struct Cache<K: Eq + Hash, T> {
    kept: Mutex<Kept<K, T>>,
    bytes_max: u64,
}

#[derive(Debug)]
struct Kept<K: Eq + Hash, T> {
    /// The values, each with its size in bytes as given by the caller.
    entries: LruCache<K, (Arc<T>, u64)>,
    bytes: u64,
}

impl<T> Cache<FrameId, T> {
    /// Keeps as many full frames as fit in `bytes`, and one at the least.
    pub(crate) fn of_frames(bytes: u64) -> Cache<FrameId, T> {
        Cache::new(bytes.max(DECODED_FRAME_BYTES))
    }
}

impl<K: Eq + Hash, T> Cache<K, T> {
    pub(crate) fn new(bytes_max: u64) -> Cache<K, T> {
        let entries = LruCache::unbounded();
        Cache {
            kept: Mutex::new(Kept { entries, bytes: 0 }),
            bytes_max,
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept<K, T>> {
        self.kept.lock()
    }

    pub(crate) fn get(&self, key: &K) -> Option<Arc<T>> {
        let mut kept = self.kept();
        kept.entries.get(key).map(|(value, _)| Arc::clone(value))
    }

    pub(crate) fn has(&self, key: &K) -> bool {
        self.kept().entries.contains(key)
    }

    pub(crate) fn insert(&self, key: K, value: Arc<T>, bytes: u64) {
        let kept = &mut *self.kept();
        kept.bytes += bytes;
        // Another thread may have inserted the same part.
        if let Some((_, before)) = kept.entries.put(key, (value, bytes)) {
            kept.bytes -= before;
        }
        while kept.bytes > self.bytes_max
            && let Some((_, (_, oldest))) = kept.entries.pop_lru()
        {
            kept.bytes -= oldest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_stays_as_far_as_there_is_room() {
        let cache = Cache::new(9);
        for (key, bytes) in [(0, 3), (1, 2), (2, 4), (2, 4), (0, 3), (3, 1)] {
            cache.insert(key, Arc::new(key), bytes);
        }
        assert_eq!(cache.kept().bytes, 8);
        for (key, kept) in [(2, true), (0, true), (1, false), (3, true)] {
            assert_eq!(cache.has(&key), kept, "{key}");
            assert_eq!(cache.get(&key), kept.then(|| Arc::new(key)));
        }
        // Now the second is the oldest.
        cache.insert(4, Arc::new(4), 3);
        assert!(!cache.has(&2) && cache.has(&0));
    }

    #[test]
    fn as_many_full_frames_are_kept_as_fit_and_one_at_the_least() {
        for (bytes, kept) in [
            (0, 1),
            (DECODED_FRAME_BYTES, 1),
            (4 * DECODED_FRAME_BYTES + 1, 4),
        ] {
            let cache = Cache::of_frames(bytes);
            let id = |frame| FrameId { shard: 1, frame };
            for frame in 0..6 {
                cache.insert(id(frame), Arc::new(()), DECODED_FRAME_BYTES);
            }
            let found = (0..6).filter(|&frame| cache.has(&id(frame)));
            assert!(found.eq(6 - kept..6), "{bytes}");
        }
    }
}
