//! Storage: immutable objects by key. All durable data of a job goes through it, but for secrets and access files.
//!
//! An object is created once, whole, and never overwritten. When [`Storage::create`] returns, the object survives a
//! crash of the process and of the machine; when it fails, the object may be there or not, but never in part.
//!
//! The storage itself retries for some minutes if a failure can pass. So each [`StorageProblem`] that a caller meets is
//! an answer, or a [fault](StorageProblem::Fault) to which the caller has to react.

mod address;
#[cfg(feature = "buckets")]
mod bucket;
#[cfg(not(feature = "buckets"))]
#[path = "objects/no_bucket.rs"]
mod bucket;
mod key;
mod local;
mod lock;
mod patience;
mod routed;
#[cfg(any(test, feature = "simulation"))]
mod simulated;

use std::error::Error;
use std::fmt::{self, Debug};
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use chomp_durable_files::FaultKind;
use chomp_table::head::HEAD_BITS_MAX;
use futures_util::{StreamExt, stream};

pub use address::{Bucket, Service};
pub use key::{Key, KeyError};
pub use local::LocalStorage;
pub use lock::{OpenError, TableLock};
pub use routed::Routed;
#[cfg(any(test, feature = "simulation"))]
pub use simulated::{Fault, Moment, SimulatedStorage};

/// The number of objects that are read at a time.
pub const READS_MAX: usize = 16;
/// The most objects of a folder that are listed: twice as many as a job can have ranges. Some 200 MB of keys.
pub const LISTED_MAX: usize = if cfg!(test) { 1200 } else { 2 << HEAD_BITS_MAX };

/// Immutable objects by key.
#[async_trait]
pub trait Storage: Send + Sync + Debug + 'static {
    /// Creates an object that is durable when this returns. If the key has an object with the same bytes already, that
    /// is taken for this one: an answer may have been lost on the way. Fails with [`StorageProblem::AlreadyExists`] if
    /// the key has another object; or a [fault](StorageProblem::fault).
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError>;

    /// The bytes of an object. Fails with [`StorageProblem::NotFound`] or a [fault](StorageProblem::fault).
    async fn read(&self, key: &Key) -> Result<Bytes, StorageError> {
        self.read_at(key, 0..u64::MAX).await
    }

    /// The bytes of an object in `range`: fewer, or none, if the object ends before the end of the range. Takes no more
    /// memory than the bytes that are there. Fails with [`StorageProblem::NotFound`] or a
    /// [fault](StorageProblem::fault).
    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError>;

    /// Reads slices of several objects, each as [`read_at`](Storage::read_at) does, in this order.
    async fn read_each(&self, slices: Vec<(Key, Range<u64>)>) -> Vec<Result<Bytes, StorageError>> {
        let reads = slices.iter();
        let reads: Vec<_> = reads
            .map(|(key, range)| self.read_at(key, range.clone()))
            .collect();
        stream::iter(reads).buffered(READS_MAX).collect().await
    }

    /// All objects in the folder `prefix` and its subfolders with their sizes in bytes, sorted by key. A folder that is
    /// not there has no objects. Fails with a [fault](StorageProblem::fault) if there are more than [`LISTED_MAX`].
    async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError>;

    /// Removes durably, in any order. An object that is not there is removed already. If it fails, some may be removed.
    async fn delete(&self, keys: &[Key]) -> Result<(), StorageError>;

    /// Removes unfinished files that creations of any process have left. Called only while no process creates objects.
    async fn tidy(&self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Whether a directory that was opened, and that this process owns, is still at its path.
    async fn is_in_place(&self) -> bool {
        true
    }

    /// As [`read_at`](Storage::read_at), for bytes that are sent to others. A file with further hard links counts as
    /// damaged: somebody may have linked a file from elsewhere to this name.
    async fn read_unaliased(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        self.read_at(key, range).await
    }

    /// A text for people if requests wait for the storage at present.
    fn waits_for(&self) -> Option<String> {
        None
    }
}

/// The operation that failed, by its method of [`Storage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum Operation {
    Create,
    Read,
    List,
    Delete,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Create => "create",
            Operation::Read => "read",
            Operation::List => "list",
            Operation::Delete => "delete",
        })
    }
}

/// Why the storage failed, as the implementation tells it.
pub type Cause = Box<dyn Error + Send + Sync>;

/// An action that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {key}{problem}")]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct StorageError {
    pub problem: StorageProblem,
    pub action: Operation,
    pub key: Key,
    pub source: Cause,
}

/// A kind of failure, by what a caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageProblem {
    /// The key has no object.
    NotFound,
    /// The key has another object already.
    AlreadyExists,
    /// A fault. After a [passing](FaultKind::Passing) one it is not known whether a creation or removal took place.
    /// [Damage](FaultKind::Damage) means that the object is lost: it cannot be read though others can be, or something
    /// that is no file has its name.
    Fault(FaultKind),
}

impl StorageProblem {
    /// The kind of fault; none if this is an answer of the storage.
    pub fn fault(self) -> Option<FaultKind> {
        match self {
            StorageProblem::NotFound | StorageProblem::AlreadyExists => None,
            StorageProblem::Fault(kind) => Some(kind),
        }
    }
}

impl From<FaultKind> for StorageProblem {
    fn from(kind: FaultKind) -> StorageProblem {
        StorageProblem::Fault(kind)
    }
}

impl fmt::Display for StorageProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StorageProblem::NotFound => ": it does not exist",
            StorageProblem::AlreadyExists => ": it exists already",
            StorageProblem::Fault(FaultKind::Full) => ": no space left; free some and run again",
            StorageProblem::Fault(FaultKind::Unsure) => {
                ": a sync failed, so nobody knows what the disk holds; run again, which finds out"
            }
            StorageProblem::Fault(_) => "",
        })
    }
}

impl StorageError {
    /// The failure of `action` on the object `key`.
    pub fn new(
        problem: impl Into<StorageProblem>,
        action: Operation,
        key: &Key,
        source: impl Into<Cause>,
    ) -> StorageError {
        StorageError {
            problem: problem.into(),
            action,
            key: key.clone(),
            source: source.into(),
        }
    }

    /// Whether it is a fault of this kind.
    pub fn is(&self, fault: FaultKind) -> bool {
        self.problem == StorageProblem::Fault(fault)
    }

    /// Whether the store does not accept the credentials or rights, or has no such bucket: waiting does not help.
    pub fn is_refusal(&self) -> bool {
        bucket::is_refusal(&self.source)
    }
}

/// Sorts a listing of `folder`, which ends with one object too many if there are more than [`LISTED_MAX`].
fn listed(folder: &Key, mut objects: Vec<(Key, u64)>) -> Result<Vec<(Key, u64)>, StorageError> {
    if objects.len() > LISTED_MAX {
        let what = format!(
            "it has more than {LISTED_MAX} objects, more than a job makes: somebody else writes there. Remove what no \
             job has written, or use another place"
        );
        let lasting = FaultKind::Lasting;
        return Err(StorageError::new(lasting, Operation::List, folder, what));
    }
    objects.sort_unstable();
    Ok(objects)
}

#[cfg(test)]
mod contract;
#[cfg(test)]
mod synced_tests;
#[cfg(test)]
pub(crate) mod testing;
