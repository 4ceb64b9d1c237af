//! The shards of a table: which one holds which words, each index and frame read when it is needed.

use std::cell::Cell;
use std::sync::Arc;

use super::cache::{Cache, FrameId, INDEX_BYTES, IndexCache};
use super::files::{Files, Part};
use super::{TableError, refused};
use crate::format::FormatError;
use crate::shard::{ShardIndex, ShardInfo};

/// The frames that are read together: 4 MiB of decoded words.
pub(crate) const FRAMES_AT_ONCE: usize = 64;
/// The indices that are read together, and the most bytes that they have together unless one alone has more.
const INDICES_AT_ONCE: usize = 32;
const INDICES_AT_ONCE_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Shards {
    pub(super) files: Box<dyn Files>,
    infos: Vec<ShardInfo>,
    indices: IndexCache<ShardIndex>,
    cache: Cache,
}

/// Adds what is about to be read.
fn count(read: &Cell<u32>, more: usize) {
    let more = u32::try_from(more).unwrap_or(u32::MAX);
    read.set(read.get().saturating_add(more));
}

impl Shards {
    pub(super) fn new(files: Box<dyn Files>, infos: &[ShardInfo], cache_bytes: u64) -> Shards {
        Shards {
            files,
            infos: infos.to_vec(),
            indices: IndexCache::new(INDEX_BYTES),
            cache: Cache::new(cache_bytes),
        }
    }

    /// Which of `words` the shards hold. The frames and indices that are read for it are added to
    /// `read`.
    pub(super) fn hold(&self, words: &[u64], read: &Cell<u32>) -> Result<Vec<bool>, TableError> {
        let mut held = vec![false; words.len()];
        let shards: Vec<Option<usize>> = words.iter().map(|&word| self.shard_of(word)).collect();
        self.read_indices(shards.iter().flatten().copied().collect(), read)?;

        let mut wanted = Vec::with_capacity(words.len());
        for (at, (shard, &word)) in shards.into_iter().zip(words).enumerate() {
            let Some(shard) = shard else { continue };
            if let Some(frame) = self.index(shard)?.frame_of(word) {
                wanted.push((FrameId { shard, frame }, at));
            }
        }
        wanted.sort_unstable();
        let by_frame: Vec<&[(FrameId, usize)]> = wanted.chunk_by(|a, b| a.0 == b.0).collect();
        for group in by_frame.chunks(FRAMES_AT_ONCE) {
            let ids: Vec<FrameId> = group.iter().map(|questions| questions[0].0).collect();
            for (questions, frame) in group.iter().zip(self.frames(&ids, read)?) {
                for &(_, at) in *questions {
                    held[at] = frame.binary_search(&words[at]).is_ok();
                }
            }
        }
        Ok(held)
    }

    /// The frame that holds `word` if the shards do.
    pub(super) fn place(&self, word: u64) -> Result<Option<FrameId>, TableError> {
        let Some(shard) = self.shard_of(word) else {
            return Ok(None);
        };
        let frame = self.index(shard)?.frame_of(word);
        Ok(frame.map(|frame| FrameId { shard, frame }))
    }

    /// The shard that holds `word` if one does.
    fn shard_of(&self, word: u64) -> Option<usize> {
        let after = self.infos.partition_point(|shard| shard.first <= word);
        after.checked_sub(1)
    }

    /// The ids of all frames, in the order of their words.
    pub(super) fn all(&self) -> impl Iterator<Item = Result<FrameId, TableError>> {
        (0..self.infos.len()).flat_map(|shard| {
            let (frames, error) = match self.index(shard) {
                Ok(index) => (index.len(), None),
                Err(error) => (0, Some(Err(error))),
            };
            let frames = (0..frames).map(move |frame| Ok(FrameId { shard, frame }));
            error.into_iter().chain(frames)
        })
    }

    /// The words of a frame, read anew.
    pub(super) fn read(&self, id: FrameId) -> Result<Vec<u64>, TableError> {
        let index = self.index(id.shard)?;
        let bytes = self.files.parts(&[self.part(id, &index)])?;
        self.decode(id, &index, &bytes[0])
    }

    fn part(&self, id: FrameId, index: &ShardIndex) -> Part<'_> {
        let info = &self.infos[id.shard];
        Part {
            name: &info.name,
            range: index.location(id.frame),
            length: info.bytes,
        }
    }

    fn decode(
        &self,
        id: FrameId,
        index: &ShardIndex,
        bytes: &[u8],
    ) -> Result<Vec<u64>, TableError> {
        let words = index.decode_frame(id.frame, bytes);
        words.map_err(|error| self.refused(id.shard, error))
    }

    /// The words of some frames, from the cache or read together.
    fn frames(&self, ids: &[FrameId], read: &Cell<u32>) -> Result<Vec<Arc<Vec<u64>>>, TableError> {
        let mut frames: Vec<Option<Arc<Vec<u64>>>> =
            ids.iter().map(|&id| self.cache.get(id)).collect();
        let missing = ids
            .iter()
            .zip(&mut frames)
            .filter(|(_, frame)| frame.is_none());
        let missing: Vec<(FrameId, &mut Option<_>)> =
            missing.map(|(id, frame)| (*id, frame)).collect();
        let parts = missing
            .iter()
            .map(|(id, _)| Ok(self.part(*id, &*self.index(id.shard)?)))
            .collect::<Result<Vec<_>, TableError>>()?;
        count(read, parts.len());
        let all_bytes = self.files.parts(&parts)?;
        for ((id, frame), bytes) in missing.into_iter().zip(all_bytes) {
            let words = Arc::new(self.decode(id, &*self.index(id.shard)?, &bytes)?);
            self.cache.insert(id, Arc::clone(&words));
            *frame = Some(words);
        }
        let found = frames.into_iter();
        Ok(found
            .map(|frame| frame.expect("what was missing was read"))
            .collect())
    }

    fn index(&self, shard: usize) -> Result<Arc<ShardIndex>, TableError> {
        if let Some(index) = self.indices.get(shard) {
            return Ok(index);
        }
        let mut read = self.read_together(&[shard])?;
        Ok(read.pop().expect("one was read"))
    }

    /// Reads all indices that are not there.
    pub(super) fn read_all_indices(&self) -> Result<(), TableError> {
        self.read_indices((0..self.infos.len()).collect(), &Cell::default())
    }

    /// Reads the indices of these shards that are not there. They are kept as far as there is room.
    fn read_indices(&self, mut shards: Vec<usize>, read: &Cell<u32>) -> Result<(), TableError> {
        shards.retain(|&shard| !self.indices.has(shard));
        shards.sort_unstable();
        shards.dedup();
        count(read, shards.len());
        let mut rest = &shards[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let within = rest.iter().take(INDICES_AT_ONCE).take_while(|shard| {
                let info = &self.infos[**shard];
                bytes += info.bytes - info.index_offset;
                bytes <= INDICES_AT_ONCE_BYTES
            });
            let these;
            (these, rest) = rest.split_at(within.count().max(1));
            self.read_together(these)?;
        }
        Ok(())
    }

    fn read_together(&self, shards: &[usize]) -> Result<Vec<Arc<ShardIndex>>, TableError> {
        let part = |&shard: &usize| {
            let info = &self.infos[shard];
            Part {
                name: &info.name,
                range: info.index_offset..info.bytes,
                length: info.bytes,
            }
        };
        let parts: Vec<Part<'_>> = shards.iter().map(part).collect();
        let all_bytes = self.files.parts(&parts)?;
        let indices = shards.iter().zip(all_bytes).map(|(&shard, bytes)| {
            let index = ShardIndex::parse(&bytes, &self.infos[shard]);
            let index = Arc::new(index.map_err(|error| self.refused(shard, error))?);
            self.indices.insert(shard, Arc::clone(&index));
            Ok(index)
        });
        indices.collect()
    }

    fn refused(&self, shard: usize, error: FormatError) -> TableError {
        refused(self.files.place(&self.infos[shard].name), error)
    }
}
