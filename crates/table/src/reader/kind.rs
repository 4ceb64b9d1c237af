//! Tables of either kind. No other module tells the two kinds apart.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{CACHE_BYTES, Files, Folder, Table, TableError, find};
use crate::digest::Digest;
use crate::format::FormatError;
use crate::manifest::{MANIFEST_BYTES_MAX, MANIFEST_NAME, Manifest, folder_name, sha256sums};
use crate::partition::AREA_MAX;
use crate::shard::ShardInfo;
use crate::values::manifest::folder_name as values_folder_name;
use crate::values::shard::ValueShardInfo;
use crate::values::{Values, ValuesManifest};

/// The kind of a published table, by what it tells of its positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Which are losing: a [`Table`].
    Losing,
    /// The Grundy value of each: [`Values`].
    Values,
}

/// The field that the manifests of tables of values have, and no others.
#[derive(Debug, Deserialize)]
struct Tiles {
    #[serde(rename = "tiles")]
    _tiles: IgnoredAny,
}

impl TableKind {
    /// The kind of the table in `files`, as its manifest has it; nothing is checked. Of what is no manifest, opening the
    /// table will tell.
    pub fn of(files: &dyn Files) -> TableKind {
        match files.whole(MANIFEST_NAME, MANIFEST_BYTES_MAX) {
            Ok(bytes) => TableKind::of_manifest(&bytes),
            Err(_) => TableKind::Losing,
        }
    }

    /// The kind of the table whose manifest has these bytes, which are not checked.
    pub fn of_manifest(bytes: &[u8]) -> TableKind {
        match serde_json::from_slice::<Tiles>(bytes) {
            Ok(_) => TableKind::Values,
            Err(_) => TableKind::Losing,
        }
    }
}

/// The folder of the table at `path`: that folder itself, or the first in the directory `path`. Tables of losing
/// positions come before those of values, and large ones before small ones. Nothing in it is checked.
///
/// # Errors
///
/// If there is none.
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
    /// Opens the table that [`locate`] finds for `path`.
    ///
    /// # Errors
    ///
    /// If there is none, or if its manifest or the list of digests is not what was published.
    pub fn open(path: &Path) -> Result<AnyTable, TableError> {
        Ok(match TableKind::of(&Folder(locate(path)?)) {
            TableKind::Losing => AnyTable::Losing(Box::new(Table::open(path)?)),
            TableKind::Values => AnyTable::Values(Box::new(Values::open(path)?)),
        })
    }

    /// Opens the table in `files`, which is the one that is `named` if it is known.
    ///
    /// # Errors
    ///
    /// As for [`AnyTable::open`].
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

    /// Which table it is.
    pub fn name(&self) -> TableName {
        match self {
            AnyTable::Losing(table) => TableName::Losing(table.manifest().bits),
            AnyTable::Values(table) => TableName::Values(table.manifest().tiles),
        }
    }
}

/// Which table it is, as the name of its folder tells. As JSON, it is a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum TableName {
    /// The losing positions up to this number of bits.
    #[serde(rename = "bits")]
    Losing(u32),
    /// The values of the positions up to this number of tiles.
    #[serde(rename = "tiles")]
    Values(u32),
}

impl TableName {
    /// All that there may be, ascending.
    pub fn all() -> impl DoubleEndedIterator<Item = TableName> {
        let losing = (0..=u64::BITS).map(TableName::Losing);
        losing.chain((1..=AREA_MAX).map(TableName::Values))
    }

    /// The table whose folder has this name, if it is one.
    pub fn of(folder: &str) -> Option<TableName> {
        TableName::all().find(|table| table.folder() == folder)
    }

    /// Of several tables in one place, the one that is meant if none is named: the largest, and one of losing positions if
    /// there is any.
    pub fn first(tables: impl Iterator<Item = TableName>) -> Option<TableName> {
        tables.max_by_key(|table| (table.kind() == TableKind::Losing, *table))
    }

    /// The name of its folder.
    pub fn folder(self) -> String {
        match self {
            TableName::Losing(bits) => folder_name(bits),
            TableName::Values(tiles) => values_folder_name(tiles),
        }
    }

    /// Its kind.
    pub fn kind(self) -> TableKind {
        match self {
            TableName::Losing(_) => TableKind::Losing,
            TableName::Values(_) => TableKind::Values,
        }
    }

    /// Its bits or tiles.
    pub fn size(self) -> u32 {
        let (TableName::Losing(size) | TableName::Values(size)) = self;
        size
    }

    /// Its bits, if it is a table of losing positions.
    pub fn bits(self) -> Option<u32> {
        match self {
            TableName::Losing(bits) => Some(bits),
            TableName::Values(_) => None,
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableName::Losing(bits) => write!(f, "table of {bits} bits"),
            TableName::Values(tiles) => write!(f, "table of the values of {tiles} tiles"),
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
pub struct ShardFileInfo {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256.
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
    /// The manifest in `bytes`, of which everything is checked that it says about itself.
    ///
    /// # Errors
    ///
    /// If it is no manifest, one of a newer format, or one that contradicts itself.
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

    /// Which table it is of.
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

    /// Reads every byte of every shard in `folder`, which need not have the manifest yet, and checks all digests, counts
    /// and fingerprints.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or is not what was published.
    pub fn verify_bytes(&self, folder: PathBuf) -> Result<(), TableError> {
        match self {
            AnyManifest::Losing(manifest) => {
                Table::with_manifest(folder, manifest.clone()).verify_bytes()
            }
            AnyManifest::Values(manifest) => {
                let table = Values::with_manifest(Box::new(Folder(folder)), manifest.clone());
                // The manifest's checks of itself cover what they give together.
                (0..manifest.shards().count())
                    .try_for_each(|number| table.read_shard(number).map(drop))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_name_tables() {
        assert_eq!(TableName::all().count(), 65 + 120);
        for table in TableName::all() {
            assert_eq!(TableName::of(&table.folder()), Some(table));
            let (size, text) = match table {
                TableName::Losing(bits) => (bits, format!("table of {bits} bits")),
                TableName::Values(tiles) => {
                    (tiles, format!("table of the values of {tiles} tiles"))
                }
            };
            let bits = (table.kind() == TableKind::Losing).then_some(size);
            assert_eq!(table.bits(), bits);
            assert_eq!(table.to_string(), text);
        }
        for folder in [
            "table-65",
            "table-100",
            "table-",
            "table-7",
            "table-007",
            "table-+7",
            "table-14/",
            "Table-14",
            "14",
            "values-121",
            "values-000",
            "values-7",
            "values-0082",
            "work",
            "",
        ] {
            assert_eq!(TableName::of(folder), None, "{folder}");
        }
        let first = |tables: &[TableName]| TableName::first(tables.iter().copied());
        let (losing, values) = (TableName::Losing, TableName::Values);
        assert_eq!(
            first(&[values(100), losing(8), losing(14), values(20)]),
            Some(losing(14))
        );
        assert_eq!(first(&[values(20), values(100)]), Some(values(100)));
        assert_eq!(first(&[]), None);
    }
}
