//! Tables of either kind. No module but this one and `name` tells the two kinds apart.

use std::path::{Path, PathBuf};

use super::name::{TableKind, TableName};
use super::{CACHE_BYTES, Files, Folder, Table, TableError, find};
use crate::digest::Digest;
use crate::fingerprint::LEAF_WORDS;
use crate::format::FormatError;
use crate::known;
use crate::manifest::{MANIFEST_NAME, Manifest, sha256sums};
use crate::shard::ShardInfo;
use crate::values::shard::{ValueShardInfo, ValueShardSize};
use crate::values::{Values, ValuesManifest};

/// The folder of the table at `path`: `path` if it has a manifest, else the first folder of a table in it. Tables of
/// losing positions are before those of values, and large ones before small ones. Nothing in the folder is checked.
/// Fails if there is none.
pub fn locate(path: &Path) -> Result<PathBuf, TableError> {
    find(path, &[TableKind::Losing, TableKind::Values]).map(|(folder, _)| folder)
}

/// A table of either kind that is open for reading.
#[derive(Debug)]
pub enum AnyTable {
    /// Of losing positions.
    Losing(Box<Table>),
    /// Of values.
    Values(Box<Values>),
}

impl AnyTable {
    /// Opens what [`locate`] finds. Fails if there is none, or its manifest or `SHA256SUMS` is not the published one.
    pub fn open(path: &Path) -> Result<AnyTable, TableError> {
        Ok(match TableKind::of(&Folder(locate(path)?)) {
            TableKind::Losing => AnyTable::Losing(Box::new(Table::open(path)?)),
            TableKind::Values => AnyTable::Values(Box::new(Values::open(path)?)),
        })
    }

    /// Opens the table in `files`. Fails if it is not the table `named`, if one is given.
    pub fn from_files(
        files: Box<dyn Files>,
        named: Option<TableName>,
    ) -> Result<AnyTable, TableError> {
        let kind = named.map_or_else(|| TableKind::of(&*files), TableName::kind);
        let size = named.map(TableName::size);
        Ok(match kind {
            TableKind::Losing => {
                let table = Table::from_files(files, size, CACHE_BYTES)?;
                AnyTable::Losing(Box::new(table))
            }
            TableKind::Values => AnyTable::Values(Box::new(Values::from_files(files, size)?)),
        })
    }

    /// Its manifest.
    pub fn manifest(&self) -> AnyManifest {
        match self {
            AnyTable::Losing(table) => AnyManifest::Losing(table.manifest().clone()),
            AnyTable::Values(table) => AnyManifest::Values(table.manifest().clone()),
        }
    }

    /// The name of the table.
    pub fn name(&self) -> TableName {
        match self {
            AnyTable::Losing(table) => TableName::Losing(table.manifest().bits),
            AnyTable::Values(table) => TableName::Values(table.manifest().tiles),
        }
    }
}

/// The manifest of a table of either kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyManifest {
    /// Of losing positions.
    Losing(Manifest),
    /// Of values.
    Values(ValuesManifest),
}

impl From<Manifest> for AnyManifest {
    fn from(manifest: Manifest) -> AnyManifest {
        AnyManifest::Losing(manifest)
    }
}

/// The file of a shard, as a manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct ShardFileInfo {
    pub name: String,
    pub bytes: u64,
    pub sha256: Digest,
}

impl From<&ShardInfo> for ShardFileInfo {
    fn from(shard: &ShardInfo) -> ShardFileInfo {
        ShardFileInfo {
            name: shard.name.clone(),
            bytes: shard.bytes,
            sha256: shard.sha256,
        }
    }
}

impl From<&ValueShardInfo> for ShardFileInfo {
    fn from(shard: &ValueShardInfo) -> ShardFileInfo {
        ShardFileInfo {
            name: shard.name.clone(),
            bytes: shard.bytes,
            sha256: shard.sha256,
        }
    }
}

impl AnyManifest {
    /// Fails if the bytes are no manifest, one of a newer format, or one that contradicts itself.
    pub fn parse(bytes: &[u8]) -> Result<AnyManifest, FormatError> {
        Ok(match TableKind::of_manifest(bytes) {
            TableKind::Losing => AnyManifest::Losing(Manifest::parse(bytes)?),
            TableKind::Values => AnyManifest::Values(ValuesManifest::parse(bytes)?),
        })
    }

    /// The bits or tiles of the table.
    pub fn size(&self) -> u32 {
        self.table().size()
    }

    /// The name of its table.
    pub fn table(&self) -> TableName {
        match self {
            AnyManifest::Losing(manifest) => TableName::Losing(manifest.bits),
            AnyManifest::Values(manifest) => TableName::Values(manifest.tiles),
        }
    }

    /// The fingerprint of the table.
    pub fn fingerprint(&self) -> Digest {
        match self {
            AnyManifest::Losing(manifest) => manifest.fingerprint,
            AnyManifest::Values(manifest) => manifest.fingerprint,
        }
    }

    /// The files of the shards, in their order.
    pub fn shards(&self) -> Vec<ShardFileInfo> {
        match self {
            AnyManifest::Losing(manifest) => manifest.shards.iter().map(Into::into).collect(),
            AnyManifest::Values(manifest) => manifest.shards().map(Into::into).collect(),
        }
    }

    /// The bytes of `manifest.json`.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            AnyManifest::Losing(manifest) => manifest.to_bytes(),
            AnyManifest::Values(manifest) => manifest.to_bytes(),
        }
    }

    /// The content of `SHA256SUMS` for this manifest, whose bytes are `bytes`.
    pub fn sha256sums(&self, bytes: &[u8]) -> String {
        match self {
            AnyManifest::Losing(manifest) => sha256sums(bytes, manifest),
            AnyManifest::Values(manifest) => manifest.sha256sums(bytes),
        }
    }

    /// Fails if a fingerprint is not the known one, or not comparable, as the shards are not of the published sizes.
    pub fn check_known(&self, folder: &Path) -> Result<(), TableError> {
        let (is_usual, compared) = match self {
            AnyManifest::Losing(manifest) => {
                let is_full = |first: &ShardInfo| first.entries == LEAF_WORDS as u64;
                let is_known = known::fingerprints().any(|(bits, _)| bits <= manifest.bits);
                let is_usual = manifest.shards.len() < 2 || is_full(&manifest.shards[0]);
                let compared = known::compare_losing(&manifest.fingerprints_by_bits);
                (is_usual || !is_known, compared)
            }
            AnyManifest::Values(manifest) => (
                manifest.size() == ValueShardSize::PUBLISHED,
                known::compare_values(|tiles| manifest.fingerprint_of(tiles)),
            ),
        };
        let damaged = |what| TableError::damaged(folder.join(MANIFEST_NAME), what);
        if !is_usual {
            let what = "its shards have other sizes, so whether its fingerprint is the known one is not to be told";
            return Err(damaged(what.to_owned()));
        }
        let compared = compared.map_err(|other| other.to_string());
        compared.map_err(damaged)
    }

    /// Reads every byte of every shard in `folder`, which need not have the manifest yet, and checks all digests,
    /// counts and fingerprints. Fails if a file cannot be read, or is not what was published.
    pub fn verify_bytes(&self, folder: PathBuf) -> Result<(), TableError> {
        match self {
            AnyManifest::Losing(manifest) => {
                Table::with_manifest(folder, manifest.clone()).verify_bytes()
            }
            AnyManifest::Values(manifest) => {
                let table = Values::with_manifest(Box::new(Folder(folder)), manifest.clone());
                // The manifest was checked when it was parsed: its totals and fingerprints follow from those of its
                // shards.
                (0..manifest.shards().count())
                    .try_for_each(|number| table.read_shard(number).map(drop))
            }
        }
    }
}
