//! The directory of a table, and the lock that says who owns it.

use std::path::{Path, PathBuf};

use chomp_durable_files::{FileError, Lock, failed, make_folders};

use super::{Bucket, Cause};

const LOCK: &str = "lock";

/// Why a directory or a bucket cannot be used as a storage.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum OpenError {
    #[error("the table is in use: another process{holder} has locked {}", path.display())]
    InUse {
        path: PathBuf,
        /// Which one, as in [`FileError::InUse`].
        holder: String,
    },
    #[error(transparent)]
    File(#[from] FileError),
    /// The bucket is not reached, or is not fit for a table.
    #[error("cannot use {bucket}: {what}")]
    Bucket {
        bucket: String,
        what: String,
        source: Option<Cause>,
    },
}

impl OpenError {
    pub(super) fn bucket(bucket: &Bucket, what: &str, source: Option<Cause>) -> OpenError {
        OpenError::Bucket {
            bucket: bucket.to_string(),
            what: what.to_owned(),
            source,
        }
    }
}

/// The ownership of a table's directory, until it is dropped or the process ends in any way.
#[derive(Debug)]
pub struct TableLock {
    /// The directory, absolute.
    pub(super) directory: PathBuf,
    /// Dropping it gives the lock back.
    pub(super) lock: Lock,
}

impl TableLock {
    /// Makes the directory if need be, and becomes its only owner. Fails with [`OpenError::InUse`] if another process
    /// owns it.
    pub fn acquire(directory: &Path) -> Result<TableLock, OpenError> {
        let directory = std::path::absolute(directory)
            .map_err(failed("find the absolute path of", directory))?;
        make_folders(&directory).map_err(failed("create the directory", &directory))?;
        let path = directory.join(LOCK);
        // The file is never removed: a process that has the removed file open would lock another file than a newcomer.
        match Lock::acquire(&path) {
            Ok(lock) => Ok(TableLock { directory, lock }),
            Err(FileError::InUse { path, holder }) => Err(OpenError::InUse { path, holder }),
            Err(error) => Err(error.into()),
        }
    }

    /// Which process of this machine owns a directory, as far as the system tells.
    pub fn holder(directory: &Path) -> Option<String> {
        Lock::holder(&directory.join(LOCK))
    }
}
