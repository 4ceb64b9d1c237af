//! A directory as a storage.
//!
//! Creating an object takes these steps: write `<name>#<number>`, sync the file, link it to its name
//! (which fails if the name is taken), sync the folder, remove the first name. So a name never stands
//! for a file in part. What a crash can leave is dealt with as follows:
//!
//! * A process that was killed may have made a folder and not synced it. A process writes in a folder only after it has
//!   synced the folder's entry itself, whether it has made the folder or found it.
//! * After a failed sync the system may say that all is well though the disk lacks what was written. So a file that was
//!   not synced is removed, and another one gets its bytes. After the failed sync of a folder nothing is written any
//!   more: [`FaultKind::Unsure`].
//! * An object may have a name that is not yet durable. [`LocalStorage::open`] syncs it before anybody relies on the
//!   object.
//! * A file may have kept its first name. [`LocalStorage::open`] removes it where the owner of the table alone writes.
//!   Elsewhere a worker may be writing it at this moment, and it stays until [`Storage::tidy`].
//!
//! Below the directory no link is followed ([`Below`]). If the group may write in a folder, it may also write in the
//! files and folders that are made there: so workers of several users share a directory.

mod files;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chomp_durable_files::{Below, FaultKind, FileError, Unfit, failed};
use chomp_table::reader::TableName;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use self::files::{FileFailure, each_folder, folders, if_there, remove_unfinished};
use super::lock::{OpenError, TableLock};
use super::patience::StoragePatience;
use crate::tasks::output;

use super::{Key, Operation, READS_MAX, Storage, StorageError, StorageProblem, listed};

/// How long the directory is waited for: as long as a file server takes to start again, and to check its disks.
const PATIENCE: Duration = Duration::from_mins(10);
/// How long an unreadable object is waited for; after that it is lost, if others can be read.
const UNREADABLE: Duration = Duration::from_secs(5);
/// The objects that one blocking thread reads, one after the other: to hand work to a thread takes about as long as to
/// read an object that the system has in memory.
const READS_PER_THREAD: usize = 4;

const NOT_OURS: &str = "the table was opened for looking only";

const UNSURE: &str = "an earlier write of this process was not synced";

/// A table's directory as a storage. Needs a file system with hard links.
#[derive(Debug)]
pub struct LocalStorage {
    directory: Arc<Directory>,
    patience: StoragePatience,
}

#[derive(Debug)]
struct Directory {
    root: PathBuf,
    /// The folders whose entries are known to be durable, as keys.
    folders: Mutex<BTreeSet<String>>,
    /// The objects that could not be read, and are not waited for again.
    unreadable: Mutex<BTreeSet<Key>>,
    /// Whether the sync of a folder failed.
    unsure: AtomicBool,
    writable: bool,
    /// Held until the last write has ended.
    lock: Option<TableLock>,
}

impl LocalStorage {
    /// The directory that `lock` owns, after clearing up what a crash of its owner may have left there.
    pub fn open(lock: TableLock) -> Result<LocalStorage, OpenError> {
        let root = absolute(&lock.directory)?;
        let below = Below::open(&root).map_err(failed("open", &root))?;
        if let Ok((Some(Unfit::Link), _)) = below.look("work") {
            let work = below.folder("work");
            work.map_err(failed("open", &root.join("work")))?;
        }
        // Files and folders with other names are not ours: they are left alone.
        for (name, folder) in folders(&below, is_ours)? {
            each_folder(&folder, &|folder| {
                folder.sync().map_err(failed("sync", folder.path()))
            })?;
            if name == "work" {
                let of_owner = |name: &str| ["journal", "checkpoints"].contains(&name);
                for (_, folder) in folders(&folder, of_owner)? {
                    each_folder(&folder, &remove_unfinished)?;
                }
            }
        }
        below.sync().map_err(failed("sync", &root))?;
        Ok(LocalStorage::with(root, true, Some(lock)))
    }

    /// For workers, in a directory that somebody else owns, on this machine or on another one that shares the file
    /// system. Fails with [`OpenError::File`] if the directory or its folder `work` is missing or cannot be written.
    pub fn shared(directory: &Path) -> Result<LocalStorage, OpenError> {
        let root = absolute(directory)?;
        let written = Below::open(&root).and_then(|below| {
            files::try_writing(&below.folder("work")?)?;
            below.sync()
        });
        written.map_err(failed("write in", &root.join("work")))?;
        let storage = LocalStorage::with(root, true, None);
        // The folder `work` is never made here: if it is missing, its volume is not mounted, and `root` is the empty
        // mount point.
        storage.directory.folders.lock().insert("work".to_owned());
        Ok(storage)
    }

    /// The storage in a directory that somebody else may own: for looking. Nothing can be written.
    pub fn view(directory: &Path) -> Result<LocalStorage, OpenError> {
        Ok(LocalStorage::with(absolute(directory)?, false, None))
    }

    fn with(root: PathBuf, writable: bool, lock: Option<TableLock>) -> LocalStorage {
        let patience = StoragePatience::new(root.display().to_string(), PATIENCE);
        let directory = Directory {
            root,
            folders: Mutex::default(),
            unreadable: Mutex::default(),
            unsure: AtomicBool::new(false),
            writable,
            lock,
        };
        LocalStorage {
            directory: Arc::new(directory),
            patience,
        }
    }

    /// Runs work that blocks: on another thread, if the thread of the caller serves other tasks too.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Directory) -> T + Send + 'static,
    ) -> T {
        match Handle::try_current() {
            Ok(runtime) if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread => {
                let directory = Arc::clone(&self.directory);
                output(runtime.spawn_blocking(move || work(&directory)).await).await
            }
            _ => work(&self.directory),
        }
    }

    /// As [`Self::run`], with retries. `work` gets the time since its first attempt.
    async fn try_to<T: Send + 'static>(
        &self,
        work: impl Fn(&Directory, Duration) -> Result<T, StorageError> + Clone + Send + 'static,
    ) -> Result<T, StorageError> {
        let begin = Instant::now();
        let attempt = || {
            let (work, waited) = (work.clone(), begin.elapsed());
            self.run(move |directory| work(directory, waited))
        };
        self.patience.keep_trying(attempt).await
    }
}

fn is_ours(name: &str) -> bool {
    name == "work" || TableName::of(name).is_some()
}

fn absolute(directory: &Path) -> Result<PathBuf, FileError> {
    fs::canonicalize(directory).map_err(failed("find the absolute path of", directory))
}

impl Directory {
    fn folder<'k>(&self, key: &'k Key) -> io::Result<(Below, &'k str)> {
        let mut below = Below::open(&self.root)?;
        let mut components = key.as_str().split('/');
        let name = components.next_back().expect("a key has a component");
        for component in components {
            below = below.folder(component)?;
        }
        Ok((below, name))
    }

    /// Makes the folder of an object, and those above it, durably. Returns it and the object's name there.
    fn make_folder<'k>(&self, key: &'k Key) -> Result<(Below, &'k str), FileFailure> {
        let (folders, name) = key.as_str().rsplit_once('/').unwrap_or(("", key.as_str()));
        // The lock is held while folders are made: a second creation must not run ahead of the first's sync.
        let mut known = self.folders.lock();
        let mut below = Below::open(&self.root)?;
        let mut end = 0;
        for component in folders.split('/').filter(|component| !component.is_empty()) {
            end += component.len();
            let path = &folders[..end];
            end += 1;
            below = if known.contains(path) {
                below.folder(component)?
            } else {
                let made = below.make_folder(component)?;
                files::sync(&below)?;
                known.insert(path.to_owned());
                made
            };
        }
        Ok((below, name))
    }

    /// Runs a write. Fails if the directory takes none: it was opened for looking only, or an earlier write may not be
    /// durable.
    fn write(
        &self,
        key: &Key,
        action: Operation,
        write: impl FnOnce() -> Result<(), FileFailure>,
    ) -> Result<(), StorageError> {
        let fail = |fault, why| Err(StorageError::new(fault, action, key, why));
        if !self.writable {
            return fail(FaultKind::Lasting, NOT_OURS);
        }
        if self.unsure.load(Ordering::SeqCst) {
            return fail(FaultKind::Unsure, UNSURE);
        }
        let done = write().map_err(|failure| failure.of(action, key));
        if matches!(&done, Err(error) if error.is(FaultKind::Unsure)) {
            self.unsure.store(true, Ordering::SeqCst);
        }
        done
    }

    /// Creates an object. A failure that can pass counts as [`StorageProblem::AlreadyExists`] if the name has an object
    /// that cannot be read.
    fn create(&self, key: &Key, bytes: &[u8], waited: Duration) -> Result<(), StorageError> {
        let created = self.write(key, Operation::Create, || {
            let (folder, name) = self.make_folder(key)?;
            files::create(&folder, name, bytes)
        });
        created.map_err(|mut error| {
            let is_damaged = |there: StorageError| there.is(FaultKind::Damage);
            if error.is(FaultKind::Passing) && self.read(key, 0..1, waited).is_err_and(is_damaged) {
                error.problem = StorageProblem::AlreadyExists;
            }
            error
        })
    }

    fn delete(&self, keys: &[Key]) -> Result<(), StorageError> {
        let mut changed = BTreeMap::new();
        for key in keys {
            self.write(key, Operation::Delete, || {
                let folder = self.folder(key);
                let removed =
                    folder.and_then(|(folder, name)| folder.remove(name).map(|()| folder));
                if let Some(folder) = if_there(removed)? {
                    changed.insert(folder.path().to_owned(), (folder, key));
                }
                Ok(())
            })?;
        }
        for (folder, key) in changed.into_values() {
            self.write(key, Operation::Delete, || files::sync(&folder))?;
        }
        Ok(())
    }

    /// Reads an object. If it could not be read for a while, and others can be, it is damaged.
    fn read(&self, key: &Key, range: Range<u64>, waited: Duration) -> Result<Bytes, StorageError> {
        self.read_by(files::read, key, range, waited)
    }

    fn read_by(
        &self,
        read: fn(&Below, &str, Range<u64>) -> Result<Bytes, FileFailure>,
        key: &Key,
        range: Range<u64>,
        waited: Duration,
    ) -> Result<Bytes, StorageError> {
        let folder = self.folder(key).map_err(FileFailure::of_existing);
        let read = folder.and_then(|(folder, name)| read(&folder, name, range));
        let read = read.map_err(|failure| failure.of(Operation::Read, key));
        let is_late = || waited >= UNREADABLE || self.unreadable.lock().contains(key);
        match read {
            Ok(bytes) => {
                self.unreadable.lock().remove(key);
                Ok(bytes)
            }
            Err(mut error) => {
                if error.is(FaultKind::Passing) && is_late() && self.reads_others(key) {
                    self.unreadable.lock().insert(key.clone());
                    error.problem = FaultKind::Damage.into();
                }
                Err(error)
            }
        }
    }

    /// Whether an object beside this one, or a segment of the journal, can be read.
    fn reads_others(&self, key: &Key) -> bool {
        let segments = Key::new("work/journal/segment").expect("letters are a key");
        [key, &segments].into_iter().any(|key| {
            let folder = self.folder(key);
            folder.is_ok_and(|(folder, name)| files::is_other_read(&folder, name))
        })
    }

    fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        let mut objects = Vec::new();
        let folder = self
            .folder(prefix)
            .and_then(|(above, name)| above.folder(name));
        let found = folder.and_then(|folder| files::list(&folder, prefix.as_str(), &mut objects));
        let fail = |error| FileFailure::from(error).of(Operation::List, prefix);
        if_there(found).map_err(fail)?;
        listed(prefix, objects)
    }

    fn tidy(&self) -> Result<(), FileError> {
        let below = Below::open(&self.root).map_err(failed("open", &self.root))?;
        for (_, folder) in folders(&below, is_ours)? {
            each_folder(&folder, &remove_unfinished)?;
        }
        Ok(())
    }
}

#[async_trait]
impl Storage for LocalStorage {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        let key = key.clone();
        self.try_to(move |directory, waited| directory.create(&key, &bytes, waited))
            .await
    }

    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        let key = key.clone();
        self.try_to(move |directory, waited| directory.read(&key, range.clone(), waited))
            .await
    }

    async fn read_each(&self, slices: Vec<(Key, Range<u64>)>) -> Vec<Result<Bytes, StorageError>> {
        let reads = slices.chunks(READS_PER_THREAD).map(|slices| {
            let slices = slices.to_vec();
            self.run(move |directory| {
                let slices = slices.into_iter();
                let reads = slices.map(|(key, range)| directory.read(&key, range, Duration::ZERO));
                reads.collect::<Vec<_>>()
            })
        });
        let reads = stream::iter(reads.collect::<Vec<_>>());
        let mut reads = reads.buffered(READS_MAX / READS_PER_THREAD).concat().await;
        for ((key, range), read) in slices.iter().zip(&mut reads) {
            if matches!(read, Err(error) if error.is(FaultKind::Passing)) {
                *read = self.read_at(key, range.clone()).await;
            }
        }
        reads
    }

    async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        let prefix = prefix.clone();
        self.try_to(move |directory, _| directory.list(&prefix))
            .await
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), StorageError> {
        let keys = keys.to_vec();
        self.try_to(move |directory, _| directory.delete(&keys))
            .await
    }

    async fn is_in_place(&self) -> bool {
        let look = |directory: &Directory| {
            let lock = directory.lock.as_ref();
            lock.is_none_or(|owned| owned.lock.is_in_place())
        };
        self.run(look).await
    }

    async fn read_unaliased(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        let key = key.clone();
        let read = move |directory: &Directory, waited| {
            directory.read_by(files::read_unaliased, &key, range.clone(), waited)
        };
        self.try_to(read).await
    }

    fn waits_for(&self) -> Option<String> {
        self.patience.outages.current()
    }

    async fn tidy(&self) -> Result<(), StorageError> {
        let tidied = self.run(Directory::tidy).await;
        tidied.map_err(|source| {
            let work = Key::new("work").expect("letters are a key");
            StorageError::new(FaultKind::Lasting, Operation::Delete, &work, source)
        })
    }
}

#[cfg(test)]
mod tests;
