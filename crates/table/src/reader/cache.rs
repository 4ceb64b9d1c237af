//! The decoded data frames and the indices that were used last.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::shard::{Index, ShardSize};

/// The default size of the cache of frames: those of a table of 32 bits fit.
pub const CACHE_BYTES: u64 = 64 << 20;

/// The size of the cache of indices: those of 2,300 full shards, as tables of 42 bits have, or of 1,600 of values.
pub(crate) const INDEX_BYTES: usize = 64 << 20;

/// The memory of a full frame: 64 KiB. Decoding one takes some 70 µs.
const FRAME_BYTES: u64 = ShardSize::PUBLISHED.frame_words as u64 * 8;

/// Which data frame of which shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FrameId {
    pub(crate) shard: usize,
    pub(crate) frame: usize,
}

/// Frames; the least recently used goes first.
#[derive(Debug)]
pub(crate) struct FrameCache<T> {
    frames: Mutex<LruCache<FrameId, Arc<T>>>,
}

impl<T> FrameCache<T> {
    /// Keeps as many full frames as fit in `bytes`, and one at the least.
    pub(crate) fn new(bytes: u64) -> FrameCache<T> {
        let frames = usize::try_from(bytes / FRAME_BYTES).unwrap_or(usize::MAX);
        let frames = NonZeroUsize::new(frames).unwrap_or(NonZeroUsize::MIN);
        // The limit is set afterwards, so that no memory is reserved for it.
        let mut cache = LruCache::unbounded();
        cache.resize(frames);
        FrameCache {
            frames: Mutex::new(cache),
        }
    }

    pub(crate) fn get(&self, id: FrameId) -> Option<Arc<T>> {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.get(&id).map(Arc::clone)
    }

    pub(crate) fn insert(&self, id: FrameId, words: Arc<T>) {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.put(id, words);
    }
}

/// Indices, by the numbers of their shards; the least recently used goes first.
#[derive(Debug)]
pub(crate) struct IndexCache<T> {
    kept: Mutex<Indices<T>>,
    bytes_max: usize,
}

#[derive(Debug)]
struct Indices<T> {
    by_shard: LruCache<usize, Arc<T>>,
    /// Their memory.
    bytes: usize,
}

impl<T: Index> IndexCache<T> {
    /// Keeps as many as fit in `bytes_max`.
    pub(crate) fn new(bytes_max: usize) -> IndexCache<T> {
        let by_shard = LruCache::unbounded();
        IndexCache {
            kept: Mutex::new(Indices { by_shard, bytes: 0 }),
            bytes_max,
        }
    }

    fn kept(&self) -> MutexGuard<'_, Indices<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, shard: usize) -> Option<Arc<T>> {
        self.kept().by_shard.get(&shard).map(Arc::clone)
    }

    pub(crate) fn has(&self, shard: usize) -> bool {
        self.kept().by_shard.contains(&shard)
    }

    pub(crate) fn insert(&self, shard: usize, index: Arc<T>) {
        let kept = &mut *self.kept();
        kept.bytes += index.memory();
        // Another thread may have put the same there.
        if let Some(before) = kept.by_shard.put(shard, index) {
            kept.bytes -= before.memory();
        }
        while kept.bytes > self.bytes_max
            && let Some((_, oldest)) = kept.by_shard.pop_lru()
        {
            kept.bytes -= oldest.memory();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::{ShardIndex, ShardWriter};

    fn id(frame: usize) -> FrameId {
        FrameId { shard: 1, frame }
    }

    #[test]
    fn the_frames_used_last_stay() {
        let cache = FrameCache::new((4 << 16) + 1);
        for frame in 0..4 {
            cache.insert(id(frame), Arc::new(vec![frame as u64]));
        }
        assert_eq!(cache.get(id(0)).unwrap()[0], 0);
        cache.insert(id(4), Arc::default());
        cache.insert(id(4), Arc::default());
        assert!(cache.get(id(1)).is_none());
        for frame in [2, 3, 0] {
            assert_eq!(cache.get(id(frame)).unwrap()[..], [frame as u64]);
        }
        assert!(cache.get(FrameId { shard: 0, frame: 2 }).is_none());
    }

    #[test]
    fn indices_take_no_more_than_they_may() {
        let mut writer = ShardWriter::new(0, ShardSize::PUBLISHED);
        assert!(writer.push(&[2, 4]).is_empty());
        let (info, bytes) = writer.finish();
        let start = usize::try_from(info.index_offset).unwrap();
        let index = Arc::new(ShardIndex::parse(&bytes[start..], &info).unwrap());
        let cache = IndexCache::new(3 * index.memory());
        for shard in [0, 1, 2, 2, 0, 3] {
            cache.insert(shard, Arc::clone(&index));
        }
        for (shard, kept) in [(0, true), (1, false), (2, true), (3, true)] {
            assert_eq!(cache.get(shard).is_some(), kept, "{shard}");
        }
        assert_eq!(cache.kept().bytes, 3 * index.memory());
    }

    #[test]
    fn one_frame_is_always_kept() {
        let cache = FrameCache::<Vec<u64>>::new(0);
        cache.insert(id(1), Arc::default());
        assert!(cache.get(id(1)).is_some());
    }
}
