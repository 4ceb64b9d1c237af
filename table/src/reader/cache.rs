//! The decoded data frames that were used last.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use crate::shard::ShardSize;

/// What is kept unless the caller says otherwise: the frames of a table of 32 bits fit.
pub const CACHE_BYTES: u64 = 64 << 20;

/// What a full frame takes: 64 KiB. Decoding one takes some 70 µs.
const FRAME_BYTES: u64 = ShardSize::PUBLISHED.frame_words as u64 * 8;

/// Which data frame of which shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FrameId {
    pub(super) shard: usize,
    pub(super) frame: usize,
}

/// Frames; the least recently used goes first.
#[derive(Debug)]
pub(super) struct Cache {
    frames: Mutex<LruCache<FrameId, Arc<Vec<u64>>>>,
}

impl Cache {
    /// Keeps as many full frames as fit in `bytes`, and one at the least.
    pub(super) fn new(bytes: u64) -> Cache {
        let frames = usize::try_from(bytes / FRAME_BYTES).unwrap_or(usize::MAX);
        let frames = NonZeroUsize::new(frames).unwrap_or(NonZeroUsize::MIN);
        // What is kept is limited, and not reserved beforehand.
        let mut cache = LruCache::unbounded();
        cache.resize(frames);
        Cache {
            frames: Mutex::new(cache),
        }
    }

    pub(super) fn get(&self, id: FrameId) -> Option<Arc<Vec<u64>>> {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.get(&id).map(Arc::clone)
    }

    pub(super) fn insert(&self, id: FrameId, words: Arc<Vec<u64>>) {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.put(id, words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(frame: usize) -> FrameId {
        FrameId { shard: 1, frame }
    }

    #[test]
    fn the_frames_used_last_stay() {
        let cache = Cache::new(4 * FRAME_BYTES + 1);
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
    fn one_frame_is_always_kept() {
        let cache = Cache::new(0);
        cache.insert(id(1), Arc::default());
        assert!(cache.get(id(1)).is_some());
    }
}
