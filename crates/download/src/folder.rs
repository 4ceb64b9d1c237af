//! The folder on this machine that gets the table: locked, and in order after a crash at any moment.
//!
//! A shard is written as `<name>.partial`, to which the next attempt appends. A complete one is synced and renamed, and
//! the folder is synced: so a name stands for a complete file or for none.
//!
//! Work that blocks holds the target, and so its lock, until it is done: so a dropped download cannot write into the
//! files of the next one.

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use chomp_durable_files::{
    failed, free_bytes, make_folders, open_nofollow, open_to_append, put, read_one_past, sync,
    sync_folder,
};
use chomp_store::objects::TableLock;
use chomp_store::tasks::output;
use chomp_table::digest::{Digest, DigestBuilder};
use chomp_table::manifest::{MANIFEST_BYTES_MAX, MANIFEST_NAME};
use chomp_table::reader::{ShardFileInfo, TableName};

use crate::error::DownloadError;

const BUFFER_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct TargetFolder {
    folder: PathBuf,
    /// Dropping it gives the lock back.
    _lock: TableLock,
}

#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    file: File,
    pub(crate) length: u64,
    digest: DigestBuilder,
}

pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    output(tokio::task::spawn_blocking(work).await).await
}

impl TargetFolder {
    /// Makes the folder of a table in `out`, and becomes the only owner of `out`.
    pub(crate) fn acquire(out: &Path, table: TableName) -> Result<TargetFolder, DownloadError> {
        let lock = TableLock::acquire(out)?;
        let folder = out.join(table.folder());
        make_folders(&folder).map_err(failed("create the folder", &folder))?;
        // Names that an earlier attempt gave may not be durable yet, and these files are not written again.
        sync_folder(&folder).map_err(failed("sync", &folder))?;
        Ok(TargetFolder {
            folder,
            _lock: lock,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fails if a table is here that has another manifest than `bytes`.
    pub(crate) fn check_same(&self, bytes: &[u8]) -> Result<(), DownloadError> {
        let path = self.folder.join(MANIFEST_NAME);
        match read_one_past(&path, MANIFEST_BYTES_MAX) {
            Ok(found) if found == bytes => Ok(()),
            Ok(_) => Err(DownloadError::OtherTable(self.folder.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("read", &path)(error).into()),
        }
    }

    /// Fails if the disk has less than what is missing of these shards.
    pub(crate) fn check_space(&self, shards: &[ShardFileInfo]) -> Result<(), DownloadError> {
        let free = free_bytes(&self.folder).map_err(failed("see the space of", &self.folder))?;
        self.check_free(shards, free)
    }

    pub(crate) fn check_free(
        &self,
        shards: &[ShardFileInfo],
        free: u64,
    ) -> Result<(), DownloadError> {
        let there = |name: &str| {
            let found = fs::symlink_metadata(self.folder.join(name));
            found.map_or(0, |found| found.len())
        };
        let missing = |shard: &ShardFileInfo| {
            let there = there(&shard.name).max(there(&format!("{}.partial", shard.name)));
            shard.bytes.saturating_sub(there)
        };
        let needed = shards.iter().map(missing).sum();
        if needed <= free {
            return Ok(());
        }
        Err(DownloadError::NoSpace {
            folder: self.folder.clone(),
            needed,
            free,
        })
    }

    pub(crate) fn has(
        &self,
        name: &str,
        length: u64,
        digest: Digest,
    ) -> Result<bool, DownloadError> {
        let path = self.folder.join(name);
        let (file, metadata) = match open_nofollow(&path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed("open", &path)(error).into()),
        };
        if metadata.len() != length {
            return Ok(false);
        }
        let (found, _) = hash(&file).map_err(failed("read", &path))?;
        Ok(found.finish() == digest)
    }

    /// Opens the partial file of a shard, to go on at its end. A file that is longer than `length_max` is begun anew.
    pub(crate) fn open(&self, name: &str, length_max: u64) -> Result<Partial, DownloadError> {
        let path = self.folder.join(format!("{name}.partial"));
        // Somebody else may have put a link there: only a file with no other name is opened.
        let (file, metadata) = open_to_append(&path).map_err(failed("open", &path))?;
        if metadata.len() > length_max {
            file.set_len(0).map_err(failed("cut", &path))?;
        }
        let (digest, length) = hash(&file).map_err(failed("read", &path))?;
        Ok(Partial {
            path,
            file,
            length,
            digest,
        })
    }

    /// Gives a partial file its name, durably.
    #[expect(
        clippy::disallowed_methods,
        reason = "the file that is replaced, if any, was found to be another than this, which is complete and synced"
    )]
    pub(crate) fn finish(&self, partial: Partial, name: &str) -> Result<(), DownloadError> {
        let Partial { path, file, .. } = partial;
        sync(&file).map_err(failed("sync", &path))?;
        let named = self.folder.join(name);
        fs::rename(&path, &named).map_err(failed("rename a file to", &named))?;
        Ok(sync_folder(&self.folder).map_err(failed("sync", &self.folder))?)
    }

    /// Writes a file, durably, unless it is there.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), DownloadError> {
        if self.has(name, bytes.len() as u64, Digest::of(bytes))? {
            return Ok(());
        }
        Ok(put(&self.folder.join(name), bytes)?)
    }
}

impl Partial {
    /// Appends `bytes`. They go to the system's memory, which takes microseconds.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), DownloadError> {
        self.file
            .write_all(bytes)
            .map_err(failed("write", &self.path))?;
        self.digest.push(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn clear(&mut self) -> Result<(), DownloadError> {
        self.file.set_len(0).map_err(failed("cut", &self.path))?;
        self.digest = DigestBuilder::default();
        self.length = 0;
        Ok(())
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest.clone().finish()
    }
}

/// Hashes a file from its start to its end; returns its length too.
fn hash(file: &File) -> io::Result<(DigestBuilder, u64)> {
    let mut digest = DigestBuilder::default();
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let length = io::copy(&mut reader, &mut digest)?;
    Ok((digest, length))
}
