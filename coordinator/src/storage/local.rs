//! A directory as a storage.
//!
//! Writing is left to [`LocalFileSystem`] with syncing on, whose creation of an object is: write
//! `<name>#<number>`, sync the file, link it to its name (which fails if the name is taken), sync
//! the folder, remove the first name. So a name never stands for a file in part. What it leaves
//! open is closed here:
//!
//! * It syncs only the folders that it makes itself. A folder that another creation, or a process
//!   killed since, has made but not synced would be taken for durable. Here a folder is used only
//!   after its entry was synced: by [`Folders`] when it is made, by [`LocalStorage::open`] if found.
//! * It does not sync the folder after a removal.
//! * It does not tell a failed sync from other failures, and would try again. After a failed sync the
//!   system may say that all is well though the disk lacks what was written. Here the first
//!   failure that is not a full disk or a name in use ends all writing until the next start.
//! * A crash can leave files under their first names, and objects whose names are not yet
//!   durable: [`LocalStorage::open`] removes the first and syncs the second, before anybody relies
//!   on an object that is there to see.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::{self, FileType};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use tokio_stream::StreamExt;

use super::key::is_segment;
use super::lock::{OpenError, TableLock, create_folder, failed, sync_folder};
use super::{Action, Cause, Key, Storage, StorageError};

/// Why nothing is written any more.
const EARLIER_FAILURE: &str =
    "an earlier write failed, so what the disk holds is not known; start again to find out";

/// Why nothing is written to a directory that is only looked at.
const NOT_OURS: &str = "the table was opened for looking only";

/// The folders whose entries are known to be durable.
#[derive(Debug)]
struct Folders(Mutex<BTreeSet<PathBuf>>);

impl Folders {
    /// Makes `folder` and those above it, durably, where that is not known to be done.
    fn create(&self, folder: &Path) -> io::Result<()> {
        // A set of paths is whole at any time, so a panic elsewhere does not spoil it. The lock is
        // held while folders are made: a second creation must not run ahead of the first's sync.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = folder.ancestors().take_while(|path| !known.contains(*path));
        for path in new.collect::<Vec<_>>().into_iter().rev() {
            create_folder(path)?;
            if let Some(parent) = path.parent() {
                sync_folder(parent)?;
            }
            known.insert(path.to_owned());
        }
        Ok(())
    }
}

/// A table's directory as a storage. Needs a file system with hard links.
#[derive(Debug)]
pub struct LocalStorage {
    files: LocalFileSystem,
    root: PathBuf,
    folders: Folders,
    /// Why nothing may be written: a write failed, so that nobody knows what the disk holds, or the
    /// table is not ours.
    broken: AtomicBool,
    lock: Option<TableLock>,
}

impl LocalStorage {
    /// The storage in the directory that `lock` owns, after clearing up what a crash may have left
    /// there.
    ///
    /// # Errors
    ///
    /// [`OpenError::Failed`].
    pub fn open(lock: TableLock) -> Result<LocalStorage, OpenError> {
        let root = fs::canonicalize(lock.directory())
            .map_err(failed("find the absolute path of", lock.directory()))?;
        let mut known = BTreeSet::new();
        for (path, kind, name) in entries(&root)? {
            // Anything else there is not ours: it is left alone.
            if kind.is_dir() && (name == "work" || name.starts_with("table-")) {
                recover(&path, &mut known)?;
            }
        }
        sync_folder(&root).map_err(failed("sync", &root))?;
        known.insert(root.clone());
        let files = LocalFileSystem::new_with_prefix(&root)
            .map_err(|error| failed("open", &root)(io::Error::other(error)))?
            .with_fsync(true);
        Ok(LocalStorage {
            files,
            root,
            folders: Folders(Mutex::new(known)),
            broken: AtomicBool::new(false),
            lock: Some(lock),
        })
    }

    /// The storage in a directory that somebody else may own: for looking. Nothing can be written.
    ///
    /// # Errors
    ///
    /// [`OpenError::Failed`].
    pub fn view(directory: &Path) -> Result<LocalStorage, OpenError> {
        let root =
            fs::canonicalize(directory).map_err(failed("find the absolute path of", directory))?;
        let files = LocalFileSystem::new_with_prefix(&root)
            .map_err(|error| failed("open", &root)(io::Error::other(error)))?;
        Ok(LocalStorage {
            files,
            root,
            folders: Folders(Mutex::default()),
            broken: AtomicBool::new(true),
            lock: None,
        })
    }

    fn folder_of(&self, key: &Key) -> PathBuf {
        let mut path = self.root.join(key.as_str());
        path.pop();
        path
    }

    /// Runs a write, unless an earlier one failed.
    async fn write(
        &self,
        key: &Key,
        action: Action,
        write: impl Future<Output = Result<(), Cause>>,
    ) -> Result<(), StorageError> {
        if self.broken.load(Ordering::SeqCst) {
            let reason = self.lock.as_ref().map_or(NOT_OURS, |_| EARLIER_FAILURE);
            return Err(error(key, action, reason));
        }
        let done = write.await.map_err(|source| error(key, action, source));
        if matches!(done, Err(StorageError::Failed { .. })) {
            self.broken.store(true, Ordering::SeqCst);
        }
        done
    }

    async fn try_create(&self, key: &Key, bytes: Bytes) -> Result<(), Cause> {
        self.folders.create(&self.folder_of(key))?;
        let options = PutOptions::from(PutMode::Create);
        self.files
            .put_opts(&location(key), bytes.into(), options)
            .await?;
        Ok(())
    }

    async fn try_delete(&self, key: &Key) -> Result<(), Cause> {
        self.files.delete(&location(key)).await?;
        sync_folder(&self.folder_of(key))?;
        Ok(())
    }
}

/// Removes unfinished files from `folder` and its subfolders, and makes what remains durable.
fn recover(folder: &Path, known: &mut BTreeSet<PathBuf>) -> Result<(), OpenError> {
    for (path, kind, name) in entries(folder)? {
        if kind.is_dir() && is_segment(&name) {
            recover(&path, known)?;
        } else if kind.is_file() && is_unfinished(&name) {
            fs::remove_file(&path).map_err(failed("remove the unfinished file", &path))?;
        }
    }
    sync_folder(folder).map_err(failed("sync", folder))?;
    known.insert(folder.to_owned());
    Ok(())
}

/// The files and folders in `folder`, but for those whose names are no text and so not ours.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, FileType, String)>, OpenError> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed("list", folder))? {
        let entry = entry.map_err(failed("list", folder))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(failed("look at", &path))?;
        if let Ok(name) = entry.file_name().into_string() {
            entries.push((path, kind, name));
        }
    }
    Ok(entries)
}

/// Whether a file has the name under which [`LocalFileSystem`] writes an object.
fn is_unfinished(name: &str) -> bool {
    name.split_once('#').is_some_and(|(name, number)| {
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_segment(name) && is_number
    })
}

fn location(key: &Key) -> object_store::path::Path {
    object_store::path::Path::from(key.as_str())
}

/// Sorts an error by what a caller can do about it.
fn error(key: &Key, action: Action, error: impl Into<Cause>) -> StorageError {
    let (key, source) = (key.clone(), error.into());
    match source.downcast_ref() {
        Some(object_store::Error::NotFound { .. }) => StorageError::NotFound {
            key,
            action,
            source,
        },
        Some(object_store::Error::AlreadyExists { .. }) => StorageError::AlreadyExists {
            key,
            action,
            source,
        },
        _ if is_full(&*source) => StorageError::Full {
            key,
            action,
            source,
        },
        _ => StorageError::Failed {
            key,
            action,
            source,
        },
    }
}

/// Whether an error, or one that caused it, is a full disk or an exhausted quota.
fn is_full(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| {
            matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            )
        })
}

// Folders are made, and removals synced, on the calling thread: both are rare.
#[async_trait]
impl Storage for LocalStorage {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        self.write(key, Action::Create, self.try_create(key, bytes))
            .await
    }

    async fn read(&self, key: &Key) -> Result<Bytes, StorageError> {
        let read = async { self.files.get(&location(key)).await?.bytes().await };
        read.await
            .map_err(|source| error(key, Action::Read, source))
    }

    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        let location = location(key);
        let read = async {
            let size = self.files.head(&location).await?.size;
            let range = range.start..range.end.min(size);
            // The file system takes neither an empty range nor one that starts at the end.
            if range.is_empty() {
                return Ok(Bytes::new());
            }
            self.files.get_range(&location, range).await
        };
        read.await
            .map_err(|source| error(key, Action::Read, source))
    }

    async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        let fail = |source| error(prefix, Action::List, source);
        let mut stream = self.files.list(Some(&location(prefix)));
        let mut objects = Vec::new();
        while let Some(meta) = stream.next().await {
            let meta = meta.map_err(fail)?;
            // A name that no key can have is not an object's: a file of the system, say.
            if let Ok(key) = Key::new(meta.location.as_ref()) {
                objects.push((key, meta.size));
            }
        }
        objects.sort_unstable();
        Ok(objects)
    }

    async fn delete(&self, key: &Key) -> Result<(), StorageError> {
        self.write(key, Action::Delete, self.try_delete(key)).await
    }
}

#[cfg(test)]
mod tests;
