//! The decoded data frames that were used last.

use std::sync::{Arc, Mutex, PoisonError};

/// How many frames are kept. Decoding one takes about 0.6 ms, holding one 512 KiB: 64 MiB in all.
const FRAMES_MAX: usize = 128;

/// Which data frame of which shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameId {
    pub(super) shard: usize,
    pub(super) frame: usize,
}

/// Frames in the order of their use, the last used at the end.
#[derive(Debug, Default)]
pub(super) struct Cache {
    frames: Mutex<Vec<(FrameId, Arc<Vec<u64>>)>>,
}

impl Cache {
    pub(super) fn get(&self, id: FrameId) -> Option<Arc<Vec<u64>>> {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let at = frames.iter().rposition(|&(other, _)| other == id)?;
        frames[at..].rotate_left(1);
        frames.last().map(|(_, words)| Arc::clone(words))
    }

    /// Keeps `words`, for which the frame used longest ago makes room, and returns them.
    pub(super) fn insert(&self, id: FrameId, words: Arc<Vec<u64>>) -> Arc<Vec<u64>> {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have read the same frame meanwhile.
        frames.retain(|&(other, _)| other != id);
        if frames.len() == FRAMES_MAX {
            frames.remove(0);
        }
        frames.push((id, Arc::clone(&words)));
        words
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
        let cache = Cache::default();
        for frame in 0..FRAMES_MAX {
            cache.insert(id(frame), Arc::new(vec![frame as u64]));
        }
        assert_eq!(cache.get(id(0)).unwrap()[0], 0);
        cache.insert(id(FRAMES_MAX), Arc::default());
        cache.insert(id(FRAMES_MAX), Arc::default());
        assert!(cache.get(id(1)).is_none());
        for frame in (2..FRAMES_MAX).chain([0]) {
            assert_eq!(cache.get(id(frame)).unwrap()[..], [frame as u64]);
        }
        assert!(cache.get(FrameId { shard: 0, frame: 2 }).is_none());
    }
}
