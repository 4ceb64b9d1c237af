//! The reader: opens a published table of values and looks positions up.
//!
//! Nothing is used that was not checked, as with tables of losing positions.

use std::path::Path;

use super::manifest::ValuesManifest;
use super::shard::{ShardSpan, ValueShardIndex, ValueShardInfo, decode_shard};
use crate::format::{Damage, FormatError};
use crate::partition::{Partition, count};
use crate::reader::{
    CACHE_BYTES, Files, Folder, FrameId, ListedShard, Shards, TableError, TableKind, check_size,
    find, read_manifest,
};

/// A published table of values that is open for reading. Any number of threads may ask at the same time.
#[derive(Debug)]
pub struct Values {
    manifest: ValuesManifest,
    shards: Shards<Shard>,
    /// The number of the first shard of each area, from 0 tiles on.
    first: Vec<usize>,
}

#[derive(Debug)]
struct Shard {
    info: ValueShardInfo,
    span: ShardSpan,
}

impl ListedShard for Shard {
    type Index = ValueShardIndex;

    fn file(&self) -> (&str, u64, u64) {
        let Shard { info, .. } = self;
        (&info.name, info.index_offset, info.bytes)
    }

    fn parse_index(&self, bytes: &[u8]) -> Result<ValueShardIndex, FormatError> {
        ValueShardIndex::parse(bytes, &self.info, &self.span)
    }
}

impl Values {
    /// Opens the table at `path`: a folder of a table, or a directory of such folders, from which it takes the table of
    /// values of the most tiles. Fails if there is none, or if its manifest or the list of digests is not what was
    /// published.
    pub fn open(path: &Path) -> Result<Values, TableError> {
        let (folder, tiles) = find(path, &[TableKind::Values])?;
        Values::from_files(Box::new(Folder(folder)), tiles)
    }

    /// Opens the table in `files`, which must have `tiles` tiles if these are known.
    pub fn from_files(files: Box<dyn Files>, tiles: Option<u32>) -> Result<Values, TableError> {
        let sums = |bytes: &[u8], manifest: &ValuesManifest| manifest.sha256sums(bytes);
        let manifest = read_manifest(&*files, ValuesManifest::parse, sums)?;
        check_size(&*files, tiles, manifest.tiles, "tiles")?;
        Ok(Values::with_manifest(files, manifest))
    }

    /// The table whose shards are in `files`, which need not have the manifest yet.
    pub fn with_manifest(files: Box<dyn Files>, manifest: ValuesManifest) -> Values {
        let shards = manifest.shards().zip(manifest.spans());
        let shards = shards.map(|(info, span)| Shard {
            info: info.clone(),
            span,
        });
        let mut first = vec![0, 0];
        for area in &manifest.areas {
            first.push(first[first.len() - 1] + area.shards.len());
        }
        Values {
            shards: Shards::new(files, shards.collect(), CACHE_BYTES),
            first,
            manifest,
        }
    }

    #[cfg(test)]
    pub(super) fn keeping(self, index_bytes: u64, cache_bytes: u64) -> Values {
        Values {
            shards: self.shards.keeping(index_bytes, cache_bytes),
            ..self
        }
    }

    /// The manifest.
    pub fn manifest(&self) -> &ValuesManifest {
        &self.manifest
    }

    /// The value of a position. Fails if the position has no tiles or more than the table, or if the part of the table
    /// that holds the answer cannot be read or is damaged.
    pub fn value(&self, position: &Partition) -> Result<u8, TableError> {
        Ok(self.values(std::slice::from_ref(position))?[0])
    }

    /// The values of some positions, in their order. The parts of the table that they need are read together.
    pub fn values(&self, positions: &[Partition]) -> Result<Vec<u8>, TableError> {
        let frame_of = |(number, position)| {
            let (id, at) = self.frame_of(position)?;
            Ok((id, (at, number)))
        };
        let frames = positions.iter().enumerate().map(frame_of);
        let frames = frames.collect::<Result<Vec<_>, TableError>>()?;
        let mut values = vec![0; positions.len()];
        let take = |id: FrameId, frame: &Vec<u8>, (at, number): (usize, usize)| {
            let damage = || Damage::new(format!("frame {} is too short", id.frame)).into();
            let value = frame.get(at).copied().ok_or_else(damage);
            values[number] = value.map_err(|error| self.shards.refused(id.shard, error))?;
            Ok(())
        };
        self.shards.ask(frames, take)?;
        Ok(values)
    }

    /// The frame that holds the value of a position, and where in it.
    fn frame_of(&self, position: &Partition) -> Result<(FrameId, usize), TableError> {
        let tiles = position.area();
        self.check_tiles(tiles)?;
        let rank = position.clone().representative().rank();
        let shard = usize::try_from(rank >> self.manifest.shard_bits).expect("at most 2^31");
        let shard = self.first[tiles as usize] + shard;
        let (frame, at) = self.shards.infos[shard].span.find(rank);
        Ok((FrameId { shard, frame }, at))
    }

    fn check_tiles(&self, tiles: u32) -> Result<(), TableError> {
        let table_tiles = self.manifest.tiles;
        if (1..=table_tiles).contains(&tiles) {
            Ok(())
        } else {
            Err(TableError::BeyondTiles { tiles, table_tiles })
        }
    }

    /// The values of all positions of `tiles` tiles by rank, both of each mirror pair. Fails if the table does not
    /// cover so many tiles, and as for [`Values::read_shard`].
    pub fn area(&self, tiles: u32) -> Result<Vec<u8>, TableError> {
        self.check_tiles(tiles)?;
        let mut area = vec![0; usize::try_from(count(tiles)).expect("a length in memory")];
        let shards = self.shards.infos.iter().enumerate();
        for (number, shard) in shards.filter(|(_, shard)| shard.span.area == tiles) {
            shard.span.spread(&self.read_shard(number)?, &mut area);
        }
        Ok(area)
    }

    /// The values of the representatives in the shard with this number, counted from 0, after a check of every byte and
    /// the leaf. Fails if the file cannot be read, or is not what was published. Panics if there is no such shard.
    pub fn read_shard(&self, number: usize) -> Result<Vec<u8>, TableError> {
        let Shard { info, span } = &self.shards.infos[number];
        let values = decode_shard(&self.shards.whole(number)?, info, span);
        values.map_err(|error| self.shards.refused(number, error))
    }
}
