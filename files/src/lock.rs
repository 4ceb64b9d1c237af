//! Locks, which one process at a time has.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::new::{check_place, put};
use crate::open::{Links, open_as};
use crate::{FileError, failed};

/// A lock file that this process holds, until it is dropped or the process ends in any way. The file
/// stays, and nothing is ever written to it.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// Closing it gives the lock back.
    file: File,
}

impl Lock {
    /// Whether the lock file is still to be found at its path. It is not if a folder above it was renamed or removed,
    /// or its volume was detached. If the system cannot tell at the moment, it counts as found.
    pub fn is_in_place(&self) -> bool {
        match (self.file.metadata(), fs::symlink_metadata(&self.path)) {
            (Ok(held), Ok(found)) => (held.dev(), held.ino()) == (found.dev(), found.ino()),
            (_, Err(error)) => !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ),
            (Err(_), _) => true,
        }
    }

    /// Makes the lock file if need be, and locks it.
    ///
    /// # Errors
    ///
    /// [`FileError::InUse`] if another process holds it; or if it is no file or cannot be made.
    pub fn acquire(path: &Path) -> Result<Lock, FileError> {
        loop {
            let mut options = File::options();
            let opened = open_as(options.create(true).append(true), path, Links::Refused);
            let (file, metadata) = opened.map_err(failed("open", path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let path = path.to_owned();
                    return Err(FileError::InUse { path });
                }
                Err(TryLockError::Error(source)) => return Err(failed("lock", path)(source)),
            }
            // The one that held it before may have removed it since it was opened here.
            match fs::symlink_metadata(path) {
                Ok(found) if found.ino() == metadata.ino() => {
                    return Ok(Lock {
                        path: path.to_owned(),
                        file,
                    });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("look at", path)(error)),
            }
        }
    }
}

/// The right to write a file, which one process has at a time. Meanwhile there is a lock file beside
/// it, whose name ends with `.lock`.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    lock: Lock,
}

impl Claim {
    /// Makes sure that the file `path` can be written, and that nobody else is about to.
    ///
    /// # Errors
    ///
    /// [`FileError::InUse`] if somebody is; if something else than a file has this name; or if nothing
    /// can be written beside it.
    pub fn begin(path: &Path) -> Result<Claim, FileError> {
        check_place(path, true)?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".lock");
        let lock = Lock::acquire(Path::new(&beside)).map_err(|error| match error {
            FileError::InUse { .. } => FileError::InUse {
                path: path.to_owned(),
            },
            error => error,
        })?;
        Ok(Claim {
            path: path.to_owned(),
            lock,
        })
    }

    /// Where the file will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file with this content, durably. A file of this name is replaced.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub fn finish(self, content: &[u8]) -> Result<(), FileError> {
        put(&self.path, content)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // One that stays is empty, and is taken over by whoever writes the file next.
        fs::remove_file(&self.lock.path).unwrap_or(());
    }
}
