//! The shards of a table of either kind, each index and frame read when needed; and which shard holds which words.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::cache::{Cache, DECODED_FRAME_BYTES, FrameId, INDEX_BYTES};
use super::files::{FileSlice, Files};
use super::{TableError, refused};
use crate::format::FormatError;
use crate::shard::{Index, ShardIndex, ShardInfo};

/// The frames that are read together: 4 MiB of decoded words.
const FRAMES_AT_ONCE: usize = 64;
/// The indices that are read together, and the most bytes that they have together unless one alone has more.
const INDICES_AT_ONCE: usize = 32;
const INDICES_AT_ONCE_BYTES: u64 = 1 << 20;

/// A shard as its manifest describes it, before it is read.
pub(crate) trait ListedShard: fmt::Debug {
    type Index: Index<Entry: fmt::Debug> + fmt::Debug;

    /// The name of the file, where its index starts, and its length.
    fn file(&self) -> (&str, u64, u64);

    fn parse_index(&self, bytes: &[u8]) -> Result<Self::Index, FormatError>;
}

impl ListedShard for ShardInfo {
    type Index = ShardIndex;

    fn file(&self) -> (&str, u64, u64) {
        (&self.name, self.index_offset, self.bytes)
    }

    fn parse_index(&self, bytes: &[u8]) -> Result<ShardIndex, FormatError> {
        ShardIndex::parse(bytes, self)
    }
}

type Entries<S> = Vec<<<S as ListedShard>::Index as Index>::Entry>;

#[derive(Debug)]
pub(crate) struct Shards<S: ListedShard> {
    pub(crate) files: Box<dyn Files>,
    pub(crate) infos: Vec<S>,
    /// By the numbers of their shards.
    indices: Cache<usize, S::Index>,
    frames: Cache<FrameId, Entries<S>>,
}

impl Shards<ShardInfo> {
    pub(super) fn contains_each(&self, words: &[u64]) -> Result<Vec<bool>, TableError> {
        let mut held = vec![false; words.len()];
        let shards: Vec<Option<usize>> = words.iter().map(|&word| self.shard_of(word)).collect();
        self.read_indices(shards.iter().flatten().copied().collect())?;

        let mut wanted = Vec::with_capacity(words.len());
        for (at, (shard, &word)) in shards.into_iter().zip(words).enumerate() {
            let Some(shard) = shard else { continue };
            if let Some(frame) = self.index(shard)?.frame_of(word) {
                wanted.push((FrameId { shard, frame }, at));
            }
        }
        self.ask(wanted, |_, frame, at| {
            held[at] = frame.binary_search(&words[at]).is_ok();
            Ok(())
        })?;
        Ok(held)
    }

    /// The frame that holds `word` if the shards do.
    pub(super) fn frame_of(&self, word: u64) -> Result<Option<FrameId>, TableError> {
        let Some(shard) = self.shard_of(word) else {
            return Ok(None);
        };
        let frame = self.index(shard)?.frame_of(word);
        Ok(frame.map(|frame| FrameId { shard, frame }))
    }

    pub(super) fn frames_in<E: From<TableError>>(
        &self,
        range: &Range<u64>,
        mut take: impl FnMut(Vec<u64>, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let begun = |end: u64| self.infos.partition_point(|shard| shard.first < end);
        for shard in begun(range.start.saturating_add(1)).saturating_sub(1)..begun(range.end) {
            let index = self.index(shard)?;
            let frames: Vec<usize> = index.frames_in(range).collect();
            for frames in frames.chunks(FRAMES_AT_ONCE) {
                let (start, end) = (
                    index.location(frames[0]).start,
                    index.location(frames[frames.len() - 1]).end,
                );
                let read = self.files.read_slices(&[self.slice(shard, start..end)])?;
                for &frame in frames {
                    let location = index.location(frame);
                    let [from, to] = [location.start, location.end]
                        .map(|at| usize::try_from(at - start).expect("frames are in memory"));
                    let words =
                        index.decode_unsorted(frame, read[0].get(from..to).unwrap_or_default());
                    let words = words.map_err(|error| self.refused(shard, error))?;
                    take(words, index.bound(frame))?;
                }
            }
        }
        Ok(())
    }

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
}

impl<S: ListedShard> Shards<S> {
    pub(crate) fn new(files: Box<dyn Files>, infos: Vec<S>, cache_bytes: u64) -> Shards<S> {
        Shards {
            files,
            infos,
            indices: Cache::new(INDEX_BYTES),
            frames: Cache::of_frames(cache_bytes),
        }
    }

    #[cfg(test)]
    pub(crate) fn keeping(self, index_bytes: u64, cache_bytes: u64) -> Shards<S> {
        Shards {
            indices: Cache::new(index_bytes),
            frames: Cache::of_frames(cache_bytes),
            ..self
        }
    }

    /// All bytes of a shard, unchecked.
    pub(crate) fn whole(&self, shard: usize) -> Result<Vec<u8>, TableError> {
        let (_, _, length) = self.infos[shard].file();
        let mut read = self.files.read_slices(&[self.slice(shard, 0..length)])?;
        Ok(read.pop().expect("one was read"))
    }

    /// The content of a frame, read without the cache of frames.
    pub(super) fn read(&self, id: FrameId) -> Result<Entries<S>, TableError> {
        let index = self.index(id.shard)?;
        let bytes = self
            .files
            .read_slices(&[self.slice(id.shard, index.location(id.frame))])?;
        self.decode(id, &index, &bytes[0])
    }

    fn slice(&self, shard: usize, range: Range<u64>) -> FileSlice<'_> {
        let (name, _, length) = self.infos[shard].file();
        FileSlice {
            name,
            range,
            length,
        }
    }

    fn decode(
        &self,
        id: FrameId,
        index: &S::Index,
        bytes: &[u8],
    ) -> Result<Entries<S>, TableError> {
        let entries = index.decode_frame(id.frame, bytes);
        entries.map_err(|error| self.refused(id.shard, error))
    }

    /// Calls `take` for each question with the frame that has the answer. Frames are read together, some at a time.
    pub(crate) fn ask<Q: Copy + Ord>(
        &self,
        mut questions: Vec<(FrameId, Q)>,
        mut take: impl FnMut(FrameId, &Entries<S>, Q) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        questions.sort_unstable();
        let by_frame: Vec<&[(FrameId, Q)]> = questions.chunk_by(|a, b| a.0 == b.0).collect();
        for group in by_frame.chunks(FRAMES_AT_ONCE) {
            let ids: Vec<FrameId> = group.iter().map(|questions| questions[0].0).collect();
            for (questions, frame) in group.iter().zip(self.frames(&ids)?) {
                for &(id, question) in *questions {
                    take(id, &frame, question)?;
                }
            }
        }
        Ok(())
    }

    fn frames(&self, ids: &[FrameId]) -> Result<Vec<Arc<Entries<S>>>, TableError> {
        let mut frames: Vec<Option<Arc<_>>> = ids.iter().map(|id| self.frames.get(id)).collect();
        let missing = ids
            .iter()
            .zip(&mut frames)
            .filter(|(_, frame)| frame.is_none());
        let missing: Vec<(FrameId, &mut Option<_>)> =
            missing.map(|(id, frame)| (*id, frame)).collect();
        self.read_indices(missing.iter().map(|(id, _)| id.shard).collect())?;
        let slices = missing
            .iter()
            .map(|(id, _)| Ok(self.slice(id.shard, self.index(id.shard)?.location(id.frame))))
            .collect::<Result<Vec<_>, TableError>>()?;
        let all_bytes = self.files.read_slices(&slices)?;
        for ((id, frame), bytes) in missing.into_iter().zip(all_bytes) {
            let entries = Arc::new(self.decode(id, &*self.index(id.shard)?, &bytes)?);
            self.frames
                .insert(id, Arc::clone(&entries), DECODED_FRAME_BYTES);
            *frame = Some(entries);
        }
        let found = frames.into_iter();
        Ok(found
            .map(|frame| frame.expect("what was missing was read"))
            .collect())
    }

    fn index(&self, shard: usize) -> Result<Arc<S::Index>, TableError> {
        if let Some(index) = self.indices.get(&shard) {
            return Ok(index);
        }
        let mut read = self.read_together(&[shard])?;
        Ok(read.pop().expect("one was read"))
    }

    /// Reads the indices of these shards that are not in the cache. The cache keeps them as far as it has room.
    fn read_indices(&self, mut shards: Vec<usize>) -> Result<(), TableError> {
        shards.retain(|shard| !self.indices.has(shard));
        shards.sort_unstable();
        shards.dedup();
        let mut rest = &shards[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let within = rest.iter().take(INDICES_AT_ONCE).take_while(|shard| {
                let (_, index, end) = self.infos[**shard].file();
                bytes += end - index;
                bytes <= INDICES_AT_ONCE_BYTES
            });
            let these;
            (these, rest) = rest.split_at(within.count().max(1));
            self.read_together(these)?;
        }
        Ok(())
    }

    fn read_together(&self, shards: &[usize]) -> Result<Vec<Arc<S::Index>>, TableError> {
        let slice = |&shard: &usize| {
            let (_, index, end) = self.infos[shard].file();
            self.slice(shard, index..end)
        };
        let slices: Vec<FileSlice<'_>> = shards.iter().map(slice).collect();
        let all_bytes = self.files.read_slices(&slices)?;
        let indices = shards.iter().zip(all_bytes).map(|(&shard, bytes)| {
            let index = self.infos[shard].parse_index(&bytes);
            let index = Arc::new(index.map_err(|error| self.refused(shard, error))?);
            let bytes = index.memory() as u64;
            self.indices.insert(shard, Arc::clone(&index), bytes);
            Ok(index)
        });
        indices.collect()
    }

    pub(crate) fn refused(&self, shard: usize, error: FormatError) -> TableError {
        let (name, ..) = self.infos[shard].file();
        refused(self.files.full_name(name), error)
    }
}
