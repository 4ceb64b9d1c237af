//! Reads one shard without the rest of its table.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::cache::{CACHE_BYTES, Cache, DECODED_FRAME_BYTES, FrameId};
use super::files::read;
use super::{TableError, refused};
use crate::shard::{self, Index, ShardIndex, TRAILER_LENGTH};
use crate::values;
use crate::word::Word;

/// A shard that is open for reading, without its manifest. The digests in it cover all bytes, so no damage goes
/// unnoticed. Nothing shows that it is a shard of a true table. It covers the positions whose representatives are
/// between its first and its last word. The first shard of a table, which starts with the poison's word, 2, covers all
/// up to its last word.
#[derive(Debug)]
pub struct ShardFile {
    path: PathBuf,
    file: Mutex<File>,
    first: u64,
    index: ShardIndex,
    cache: Cache<FrameId, Vec<u64>>,
}

impl ShardFile {
    /// Opens the shard at `path`. Fails if the file cannot be read, or is no shard or not a whole one.
    pub fn open(path: &Path) -> Result<ShardFile, TableError> {
        let failed = TableError::io(path);
        let refused = |error| refused(path.to_owned(), error);
        let (mut file, metadata) = chomp_durable_files::open(path).map_err(&failed)?;
        let length = metadata.len();
        let mut read = |range| read(&mut file, range).map_err(&failed);

        let header = read(0..length.min(shard::HEADER_LENGTH))?;
        let foreign = match &header {
            header if shard::HEADER.resembles(header) => None,
            header if values::shard::HEADER.resembles(header) => {
                Some("a shard of Grundy values, which only its whole table explains")
            }
            _ => Some("no table and no shard of one"),
        };
        if let Some(what) = foreign {
            let file = path.to_owned();
            return Err(TableError::NotAShard { file, what });
        }
        shard::HEADER.read(&header).map_err(refused)?;
        let trailer = read(length.saturating_sub(TRAILER_LENGTH as u64)..length)?;
        let trailer = trailer
            .first_chunk()
            .ok_or_else(|| TableError::damaged(path, "it is cut short"))?;
        let start = ShardIndex::start(trailer);
        if start > length || length - start > shard::INDEX_LENGTH_MAX {
            let what = "it does not end with the index of a shard";
            return Err(TableError::damaged(path, what));
        }
        let index = ShardIndex::parse_alone(&read(start..length)?, start).map_err(refused)?;
        Ok(ShardFile {
            path: path.to_owned(),
            file: Mutex::new(file),
            first: index.first().expect("an index has frames"),
            index,
            cache: Cache::of_frames(CACHE_BYTES),
        })
    }

    /// Fails if the shard does not cover the position, or the part that holds the answer cannot be read or is damaged.
    pub fn is_losing(&self, word: Word) -> Result<bool, TableError> {
        let representative = word.representative().get();
        let (first, last) = (self.first, self.index.last());
        if representative > last || (representative < first && first > 2) {
            return Err(TableError::NotInShard {
                file: self.path.clone(),
                word: representative,
                first,
                last,
            });
        }
        let Some(frame) = self.index.frame_of(representative) else {
            return Ok(false);
        };
        let words = self.frame(frame)?;
        Ok(words.binary_search(&representative).is_ok())
    }

    /// The most bits of which it covers all positions: one less than its last word has, and 0 unless it is the first
    /// shard.
    pub fn bits(&self) -> u32 {
        match self.first {
            2 => Word::new(self.index.last()).bits().saturating_sub(1),
            _ => 0,
        }
    }

    fn frame(&self, frame: usize) -> Result<Arc<Vec<u64>>, TableError> {
        let id = FrameId { shard: 0, frame };
        if let Some(words) = self.cache.get(&id) {
            return Ok(words);
        }
        let mut file = self.file.lock();
        let bytes = read(&mut file, self.index.location(frame));
        let bytes = bytes.map_err(TableError::io(&self.path))?;
        drop(file);
        let words = self.index.decode_frame(frame, &bytes);
        let words = Arc::new(words.map_err(|error| refused(self.path.clone(), error))?);
        self.cache
            .insert(id, Arc::clone(&words), DECODED_FRAME_BYTES);
        Ok(words)
    }
}
