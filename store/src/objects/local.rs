//! A directory as a storage.
//!
//! Creating an object takes these steps: write `<name>#<number>`, sync the file, link it to its name
//! (which fails if the name is taken), sync the folder, remove the first name. So a name never stands
//! for a file in part. What a crash can leave is dealt with as follows:
//!
//! * A process that was killed may have made a folder and not synced it. A folder is used only after its entry was
//!   synced: by [`Folders`] when the folder is made, by [`LocalStorage::open`] when it is found.
//! * After a failed sync the system may say that all is well though the disk lacks what was written. So the first
//!   failure that is not a full disk or a name in use ends all writing until the next start.
//! * An object may have a name that is not yet durable. [`LocalStorage::open`] syncs it before anybody relies on the
//!   object.
//! * A file may have kept its first name. [`LocalStorage::open`] removes it where the owner of the table alone writes.
//!   Elsewhere a worker may be writing it at this moment, and it stays until [`Storage::tidy`].

mod files;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use chomp_files::{FileError, failed, make_folder, sync_folder};
use chomp_table::reader::TableName;
use futures_util::{StreamExt, stream};
use tokio::runtime::{Handle, RuntimeFlavor};

use self::files::{Failure, entries, remove_unfinished, sync_all};
use super::lock::{OpenError, TableLock};
use super::{Action, Key, LISTED_MAX, Problem, READS_MAX, Storage, StorageError};

/// The objects that one blocking thread reads, one after the other: to hand work to a thread takes about as long as to
/// read an object that the system has in memory.
const READS_AT_ONCE: usize = 4;

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
            make_folder(path)?;
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
pub struct LocalStorage(Arc<Directory>);

#[derive(Debug)]
struct Directory {
    root: PathBuf,
    folders: Folders,
    /// Why nothing may be written: a write failed, so that nobody knows what the disk holds.
    broken: AtomicBool,
    writable: bool,
    /// [`LISTED_MAX`].
    listed_max: usize,
    /// Held until the last write has ended.
    lock: Option<TableLock>,
}

impl LocalStorage {
    /// The storage in the directory that `lock` owns, after clearing up what a crash of its owner may
    /// have left there.
    ///
    /// # Errors
    ///
    /// [`OpenError::File`].
    pub fn open(lock: TableLock) -> Result<LocalStorage, OpenError> {
        let root = absolute(lock.directory())?;
        let mut known = BTreeSet::new();
        for (path, kind, name) in entries(&root).map_err(failed("list", &root))? {
            // Anything else there is not ours: it is left alone.
            if kind.is_dir() && (name == "work" || TableName::of(&name).is_some()) {
                sync_all(&path, &mut known)?;
            }
        }
        for folder in ["work/journal", "work/checkpoints"] {
            remove_unfinished(&root.join(folder))?;
        }
        sync_folder(&root).map_err(failed("sync", &root))?;
        Ok(LocalStorage::with(root, known, true, Some(lock)))
    }

    /// The storage in a directory that somebody else owns, on this machine or on another one that
    /// shares the file system: for workers, which create parts and shards there.
    ///
    /// # Errors
    ///
    /// [`OpenError::File`] if the directory or its folder `work` is missing or cannot be written.
    pub fn shared(directory: &Path) -> Result<LocalStorage, OpenError> {
        let root = absolute(directory)?;
        let work = root.join("work");
        files::try_writing(&work).map_err(failed("write in", &work))?;
        // Its owner has synced both before anybody heard of them.
        Ok(LocalStorage::with(root, BTreeSet::from([work]), true, None))
    }

    /// The storage in a directory that somebody else may own: for looking. Nothing can be written.
    ///
    /// # Errors
    ///
    /// [`OpenError::File`].
    pub fn view(directory: &Path) -> Result<LocalStorage, OpenError> {
        let root = absolute(directory)?;
        Ok(LocalStorage::with(root, BTreeSet::new(), false, None))
    }

    fn with(
        root: PathBuf,
        mut known: BTreeSet<PathBuf>,
        writable: bool,
        lock: Option<TableLock>,
    ) -> LocalStorage {
        known.insert(root.clone());
        LocalStorage(Arc::new(Directory {
            root,
            folders: Folders(Mutex::new(known)),
            broken: AtomicBool::new(false),
            writable,
            listed_max: LISTED_MAX,
            lock,
        }))
    }

    /// Does work that blocks: on another thread, if the caller's serves other tasks too.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Directory) -> T + Send + 'static,
    ) -> T {
        match Handle::try_current() {
            Ok(runtime) if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread => {
                let directory = Arc::clone(&self.0);
                let done = runtime.spawn_blocking(move || work(&directory)).await;
                done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
            }
            _ => work(&self.0),
        }
    }
}

fn absolute(directory: &Path) -> Result<PathBuf, FileError> {
    fs::canonicalize(directory).map_err(failed("find the absolute path of", directory))
}

impl Directory {
    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(key.as_str())
    }

    /// Runs a write, unless an earlier one failed.
    fn write(
        &self,
        key: &Key,
        action: Action,
        write: impl FnOnce(&Path, &Path) -> Result<(), Failure>,
    ) -> Result<(), StorageError> {
        if !self.writable || self.broken.load(Ordering::SeqCst) {
            let reason = if self.writable {
                EARLIER_FAILURE
            } else {
                NOT_OURS
            };
            return Err(StorageError::new(Problem::Failed, action, key, reason));
        }
        let path = self.path(key);
        let folder = path.parent().expect("a key is joined to the directory");
        let done = write(&path, folder).map_err(|failure| failure.of(action, key));
        if matches!(&done, Err(error) if error.problem == Problem::Failed) {
            self.broken.store(true, Ordering::SeqCst);
        }
        done
    }

    fn create(&self, key: &Key, bytes: &[u8]) -> Result<(), StorageError> {
        self.write(key, Action::Create, |path, folder| {
            self.folders.create(folder)?;
            files::create(path, folder, bytes)
        })
    }

    fn delete(&self, keys: &[Key]) -> Result<(), StorageError> {
        let mut changed = BTreeMap::new();
        for key in keys {
            self.write(key, Action::Delete, |path, folder| {
                match fs::remove_file(path).map_err(Failure::of_existing) {
                    Err(failure) if failure.problem == Problem::NotFound => {}
                    removed => {
                        removed?;
                        changed.insert(folder.to_owned(), key);
                    }
                }
                Ok(())
            })?;
        }
        for (folder, key) in changed {
            self.write(key, Action::Delete, |_, _| Ok(sync_folder(&folder)?))?;
        }
        Ok(())
    }

    fn read(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        let read = files::read(&self.path(key), range);
        read.map_err(|failure| failure.of(Action::Read, key))
    }

    fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        let mut objects = Vec::new();
        let mut left = Some(self.listed_max);
        let listed = files::list(&self.path(prefix), prefix.as_str(), &mut left, &mut objects);
        listed.map_err(|error| Failure::from(error).of(Action::List, prefix))?;
        if left.is_none() {
            return Err(StorageError::too_many(prefix, self.listed_max));
        }
        objects.sort_unstable();
        Ok(objects)
    }

    fn tidy(&self) -> Result<(), FileError> {
        remove_unfinished(&self.root.join("work"))?;
        for (path, kind, name) in entries(&self.root).map_err(failed("list", &self.root))? {
            if kind.is_dir() && TableName::of(&name).is_some() {
                remove_unfinished(&path)?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Storage for LocalStorage {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        let key = key.clone();
        self.run(move |directory| directory.create(&key, &bytes))
            .await
    }

    async fn read(&self, key: &Key) -> Result<Bytes, StorageError> {
        self.read_at(key, 0..u64::MAX).await
    }

    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        let key = key.clone();
        self.run(move |directory| directory.read(&key, range)).await
    }

    async fn read_each(&self, parts: Vec<(Key, Range<u64>)>) -> Vec<Result<Bytes, StorageError>> {
        let reads = parts.chunks(READS_AT_ONCE).map(|parts| {
            let parts = parts.to_vec();
            self.run(move |directory| {
                let parts = parts.into_iter();
                let reads = parts.map(|(key, range)| directory.read(&key, range));
                reads.collect::<Vec<_>>()
            })
        });
        let reads = stream::iter(reads.collect::<Vec<_>>());
        reads.buffered(READS_MAX / READS_AT_ONCE).concat().await
    }

    async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        let prefix = prefix.clone();
        self.run(move |directory| directory.list(&prefix)).await
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), StorageError> {
        let keys = keys.to_vec();
        self.run(move |directory| directory.delete(&keys)).await
    }

    async fn is_in_place(&self) -> bool {
        let look = |directory: &Directory| {
            let lock = directory.lock.as_ref();
            lock.is_none_or(TableLock::is_in_place)
        };
        self.run(look).await
    }

    async fn tidy(&self) -> Result<(), StorageError> {
        let tidied = self.run(Directory::tidy).await;
        tidied.map_err(|source| {
            let work = Key::new("work").expect("letters are a key");
            StorageError::new(Problem::Failed, Action::Delete, &work, source)
        })
    }
}

#[cfg(test)]
mod tests;
