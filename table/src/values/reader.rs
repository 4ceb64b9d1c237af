//! The reader: opens a published table of values and looks positions up.
//!
//! As with tables of losing positions, nothing is used that was not checked: the manifest against `SHA256SUMS`, the index of
//! a shard against the manifest, each data frame against its index.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::manifest::{ValuesManifest, folder_name};
use super::shard::{ShardPlace, ValueShardIndex, ValueShardInfo, decode_shard};
use crate::format::FormatError;
use crate::manifest::MANIFEST_NAME;
use crate::partition::{AREA_MAX, Partition, count};
use crate::reader::{
    CACHE_BYTES, Cache, FRAMES_AT_ONCE, Files, Folder, FrameId, INDEX_BYTES, Index, IndexCache,
    Part, TableError, find, read_manifest, refused,
};

/// A published table of values that is open for reading. Any number of threads may ask at the same time.
#[derive(Debug)]
pub struct Values {
    files: Box<dyn Files>,
    manifest: ValuesManifest,
    shards: Vec<Shard>,
    /// The number of the first shard of each area, from 0 tiles on.
    first: Vec<usize>,
    indices: IndexCache<ValueShardIndex>,
    cache: Cache<Vec<u8>>,
}

#[derive(Debug)]
struct Shard {
    info: ValueShardInfo,
    place: ShardPlace,
}

impl Index for ValueShardIndex {
    fn memory(&self) -> usize {
        // An offset and a digest for each frame, and a last offset.
        size_of::<ValueShardIndex>() + self.place.frames() * (8 + 32) + 8
    }
}

impl Values {
    /// Opens the table at `path`: its folder, or the directory of a table, of which the table of values of the
    /// most tiles is opened.
    ///
    /// # Errors
    ///
    /// If there is none, or if its manifest or the list of digests is not what was published.
    pub fn open(path: &Path) -> Result<Values, TableError> {
        let (folder, tiles) = find(path, folders())?;
        Values::from_files(Box::new(Folder(folder)), tiles)
    }

    /// The folder of the table that [`Values::open`] opens for `path`; nothing in it is checked.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn locate(path: &Path) -> Result<PathBuf, TableError> {
        find(path, folders()).map(|(folder, _)| folder)
    }

    /// Opens the table in `files`, which has so many `tiles` if they are known.
    ///
    /// # Errors
    ///
    /// As for [`Values::open`].
    pub fn from_files(files: Box<dyn Files>, tiles: Option<u32>) -> Result<Values, TableError> {
        let sums = |bytes: &[u8], manifest: &ValuesManifest| manifest.sha256sums(bytes);
        let manifest = read_manifest(&*files, ValuesManifest::parse, sums)?;
        if tiles.is_some_and(|tiles| tiles != manifest.tiles) {
            return Err(TableError::Damaged {
                file: files.place(MANIFEST_NAME),
                what: format!("it is the manifest of a table of {} tiles", manifest.tiles),
            });
        }
        Ok(Values::with_manifest(files, manifest))
    }

    /// The table whose shards are in `files`, which need not have the manifest yet.
    pub fn with_manifest(files: Box<dyn Files>, manifest: ValuesManifest) -> Values {
        let shards = manifest.shards().zip(manifest.places());
        let shards = shards.map(|(info, place)| Shard {
            info: info.clone(),
            place,
        });
        let mut first = vec![0, 0];
        for area in &manifest.areas {
            first.push(first[first.len() - 1] + area.shards.len());
        }
        Values {
            shards: shards.collect(),
            first,
            files,
            manifest,
            indices: IndexCache::new(INDEX_BYTES),
            cache: Cache::new(CACHE_BYTES),
        }
    }

    /// The same; of indices and of frames, so many bytes stay in memory.
    #[cfg(test)]
    pub(super) fn keeping(self, index_bytes: usize, cache_bytes: u64) -> Values {
        Values {
            indices: IndexCache::new(index_bytes),
            cache: Cache::new(cache_bytes),
            ..self
        }
    }

    /// The manifest.
    pub fn manifest(&self) -> &ValuesManifest {
        &self.manifest
    }

    /// The value of a position.
    ///
    /// # Errors
    ///
    /// If the position has no tiles or more than the table, or if what holds the answer cannot be read or is damaged.
    pub fn value(&self, position: &Partition) -> Result<u8, TableError> {
        Ok(self.values(std::slice::from_ref(position))?[0])
    }

    /// The values of some positions, in their order. What they need is read together.
    ///
    /// # Errors
    ///
    /// As for [`Values::value`], for any of them.
    pub fn values(&self, positions: &[Partition]) -> Result<Vec<u8>, TableError> {
        let places = positions.iter().map(|position| self.place(position));
        let places = places.collect::<Result<Vec<_>, TableError>>()?;
        let mut ids: Vec<FrameId> = places.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut frames = Vec::with_capacity(ids.len());
        for ids in ids.chunks(FRAMES_AT_ONCE) {
            frames.extend(self.frames(ids)?);
        }
        let value = |(id, at): &(FrameId, usize)| {
            let frame = ids.binary_search(id).expect("all were read");
            let damage = || self.damaged(id.shard, format!("frame {} is too short", id.frame));
            frames[frame].get(*at).copied().ok_or_else(damage)
        };
        places.iter().map(value).collect()
    }

    /// The frame that holds the value of a position, and where in it.
    fn place(&self, position: &Partition) -> Result<(FrameId, usize), TableError> {
        let (tiles, table_tiles) = (position.area(), self.manifest.tiles);
        if tiles == 0 || tiles > table_tiles {
            return Err(TableError::BeyondTiles { tiles, table_tiles });
        }
        let rank = position.clone().representative().rank();
        let shard = usize::try_from(rank >> self.manifest.shard_bits).expect("at most 2^31");
        let shard = self.first[tiles as usize] + shard;
        let (frame, at) = self.shards[shard].place.find(rank);
        Ok((FrameId { shard, frame }, at))
    }

    fn frames(&self, ids: &[FrameId]) -> Result<Vec<Arc<Vec<u8>>>, TableError> {
        let mut frames: Vec<_> = ids.iter().map(|&id| self.cache.get(id)).collect();
        let missing = ids.iter().zip(&mut frames);
        let missing: Vec<_> = missing.filter(|(_, frame)| frame.is_none()).collect();
        let indices = self.indices(missing.iter().map(|(id, _)| id.shard))?;
        let parts = missing.iter().map(|(id, _)| {
            let Shard { info, .. } = &self.shards[id.shard];
            part(info, indices[&id.shard].location(id.frame))
        });
        let read = self.files.parts(&parts.collect::<Vec<_>>())?;
        for ((id, frame), bytes) in missing.into_iter().zip(read) {
            let values = indices[&id.shard].decode_frame(id.frame, &bytes);
            let values = Arc::new(values.map_err(|error| self.refused(id.shard, error))?);
            self.cache.insert(*id, Arc::clone(&values));
            *frame = Some(values);
        }
        Ok(frames.into_iter().flatten().collect())
    }

    /// The indices of some shards, of which those that are not in memory are read together.
    fn indices(
        &self,
        shards: impl Iterator<Item = usize>,
    ) -> Result<BTreeMap<usize, Arc<ValueShardIndex>>, TableError> {
        let (mut indices, mut missing) = (BTreeMap::new(), BTreeSet::new());
        for shard in shards {
            match self.indices.get(shard) {
                Some(index) => drop(indices.insert(shard, index)),
                None => drop(missing.insert(shard)),
            }
        }
        let parts = missing.iter().map(|&shard| {
            let info = &self.shards[shard].info;
            part(info, info.index_offset..info.bytes)
        });
        let read = self.files.parts(&parts.collect::<Vec<_>>())?;
        for (number, bytes) in missing.into_iter().zip(read) {
            let Shard { info, place } = &self.shards[number];
            let index = ValueShardIndex::parse(&bytes, info, place);
            let index = Arc::new(index.map_err(|error| self.refused(number, error))?);
            self.indices.insert(number, Arc::clone(&index));
            indices.insert(number, index);
        }
        Ok(indices)
    }

    /// The values of all positions of so many tiles, both of each mirror pair, by rank: a byte each.
    ///
    /// # Errors
    ///
    /// As for [`Values::read_shard`].
    ///
    /// # Panics
    ///
    /// If the table has not so many tiles.
    pub fn area(&self, tiles: u32) -> Result<Vec<u8>, TableError> {
        let mut area = vec![0; usize::try_from(count(tiles)).expect("a length in memory")];
        let shards = self.shards.iter().enumerate();
        for (number, shard) in shards.filter(|(_, shard)| shard.place.area == tiles) {
            shard.place.spread(&self.read_shard(number)?, &mut area);
        }
        Ok(area)
    }

    /// All values of the shard with this number, counted from 0, of which every byte, the counts and the leaf were
    /// checked: those of the representatives among its ranks.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is not what was published.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    pub fn read_shard(&self, number: usize) -> Result<Vec<u8>, TableError> {
        let Shard { info, place, .. } = &self.shards[number];
        let bytes = &self.files.parts(&[part(info, 0..info.bytes)])?[0];
        decode_shard(bytes, info, place).map_err(|error| self.refused(number, error))
    }

    fn damaged(&self, shard: usize, what: String) -> TableError {
        let file = self.files.place(&self.shards[shard].info.name);
        TableError::Damaged { file, what }
    }

    fn refused(&self, shard: usize, error: FormatError) -> TableError {
        refused(self.files.place(&self.shards[shard].info.name), error)
    }
}

/// The folders of published tables by their tiles, the most tiles first.
fn folders() -> impl Iterator<Item = (String, u32)> {
    let tiles = (1..=AREA_MAX).rev();
    tiles.map(|tiles| (folder_name(tiles), tiles))
}

fn part(info: &ValueShardInfo, range: std::ops::Range<u64>) -> Part<'_> {
    Part {
        name: &info.name,
        range,
        length: info.bytes,
    }
}
