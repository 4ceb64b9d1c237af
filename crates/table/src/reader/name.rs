//! The kind and the name of a table.

use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::Files;
use crate::manifest::{MANIFEST_BYTES_MAX, MANIFEST_NAME, folder_name};
use crate::partition::AREA_MAX;
use crate::values::manifest::values_folder_name;

/// The kind of a published table, by what it tells of its positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// The losing positions: a [`Table`](crate::Table).
    Losing,
    /// The Grundy value of each position: [`Values`](crate::values::Values).
    Values,
}

/// The field that the manifests of tables of values have, and no others.
#[derive(Debug, Deserialize)]
struct Tiles {
    #[serde(rename = "tiles")]
    _tiles: IgnoredAny,
}

impl TableKind {
    /// The kind that the manifest in `files` has, unchecked. Without a manifest it is `Losing`, and to open the table
    /// will fail.
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

/// The kind and size of a table, which its folder is named after. In JSON, it is a field `bits` or `tiles`.
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
    /// The names of all possible tables, ascending.
    pub fn all() -> impl DoubleEndedIterator<Item = TableName> {
        let losing = (0..=u64::BITS).map(TableName::Losing);
        losing.chain((1..=AREA_MAX).map(TableName::Values))
    }

    /// The table whose folder has this name, if it is one.
    pub fn of(folder: &str) -> Option<TableName> {
        TableName::all().find(|table| table.folder() == folder)
    }

    /// The default of several tables: the largest of losing positions, or else the largest of values.
    pub fn preferred(tables: impl Iterator<Item = TableName>) -> Option<TableName> {
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
        let preferred = |tables: &[TableName]| TableName::preferred(tables.iter().copied());
        let (losing, values) = (TableName::Losing, TableName::Values);
        assert_eq!(
            preferred(&[values(100), losing(8), losing(14), values(20)]),
            Some(losing(14))
        );
        assert_eq!(preferred(&[values(20), values(100)]), Some(values(100)));
        assert_eq!(preferred(&[]), None);
    }
}
