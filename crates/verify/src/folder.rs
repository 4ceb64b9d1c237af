//! The first checks of a table's folder: the manifest has the digest that `SHA256SUMS` says, and the folder has no
//! files that the manifest does not name.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use chomp_table::format::escape_control;
use chomp_table::manifest::{MANIFEST_BYTES_MAX, MANIFEST_NAME, SHA256SUMS_NAME};
use chomp_table::reader::{AnyManifest, AnyTable, Files, Folder};
use chomp_table::{Digest, TableError};

/// `SHA256SUMS` has a line of about 80 bytes for each shard, and there are at most 65,536.
const SHA256SUMS_BYTES_MAX: u64 = 8 << 20;
/// The most unknown files that are named; the others are only counted.
const STRANGERS_MAX: usize = 20;

/// The two lists of a table, `manifest.json` and `SHA256SUMS`, which agree about the digest of the manifest.
#[derive(Clone, Debug)]
pub struct FolderLists {
    /// SHA-256 of `manifest.json`.
    pub manifest_sha256: Digest,
    /// SHA-256 of `SHA256SUMS`.
    pub sha256sums_sha256: Digest,
    manifest: Vec<u8>,
}

impl FolderLists {
    /// Reads both lists in `folder`. The digest of the manifest is compared with that in `SHA256SUMS` before anything
    /// else in the manifest is looked at, even the number of its format. Fails if a file is missing, too large or
    /// cannot be read; if the digest is another.
    pub fn read(folder: &Path) -> Result<FolderLists, TableError> {
        let files = Folder(folder.to_owned());
        let manifest = files.whole(MANIFEST_NAME, MANIFEST_BYTES_MAX)?;
        let sums = files.whole(SHA256SUMS_NAME, SHA256SUMS_BYTES_MAX)?;
        let found = Digest::of(&manifest);
        let line = format!("{found}  {MANIFEST_NAME}");
        if sums.split(|&byte| byte == b'\n').next() != Some(line.as_bytes()) {
            let what = format!(
                "it has the SHA-256 {found}, and the first line of {SHA256SUMS_NAME} says otherwise: one of the two is not as it was"
            );
            return Err(TableError::damaged(folder.join(MANIFEST_NAME), what));
        }
        Ok(FolderLists {
            manifest_sha256: found,
            sha256sums_sha256: Digest::of(&sums),
            manifest,
        })
    }

    /// Opens the table of these lists in `folder`. Fails if it cannot be opened, or has another manifest by now.
    pub fn open(&self, folder: &Path) -> Result<AnyTable, TableError> {
        let table = AnyTable::open(folder)?;
        let found = table.manifest();
        if AnyManifest::parse(&self.manifest).is_ok_and(|manifest| manifest == found) {
            return Ok(table);
        }
        let what = "it changed while it was read";
        Err(TableError::damaged(folder.join(MANIFEST_NAME), what))
    }
}

/// Warnings about files in the folder of a table that are neither its `shards` nor its lists. Missing files are found
/// when they are opened. Fails if the folder cannot be listed.
pub fn warnings_of_strangers<'a>(
    folder: &Path,
    shards: impl Iterator<Item = &'a str>,
) -> Result<Vec<String>, TableError> {
    let known: BTreeSet<&str> = shards.chain([MANIFEST_NAME, SHA256SUMS_NAME]).collect();
    let failed = TableError::io(folder);
    let mut strangers = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(&failed)? {
        let name = entry.map_err(&failed)?.file_name();
        if name.to_str().is_none_or(|name| !known.contains(name)) {
            strangers.insert(name);
        }
    }
    let named = strangers.iter().take(STRANGERS_MAX);
    let mut warnings: Vec<String> = named
        .map(|name| {
            let name = name.to_string_lossy();
            let name = escape_control(&name, &[]);
            format!("{name} is in the folder and not part of the table: it was not looked at")
        })
        .collect();
    if strangers.len() > STRANGERS_MAX {
        let more = strangers.len() - STRANGERS_MAX;
        warnings.push(format!("and {more} more that are not part of the table"));
    }
    Ok(warnings)
}
