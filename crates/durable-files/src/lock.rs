//! Locks, which one process at a time has.

use std::fs::{self, File, Metadata, Permissions, TryLockError};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::new::{check_place, folder, put};
use crate::open::{Links, check_owner, open_as};
use crate::{FileError, RareCall, failed};

/// The mode of a lock file, and its mode if the group may write in the folder. Everybody who may open it can lock it.
const MODE: u32 = 0o600;
const MODE_GROUP: u32 = 0o660;

/// A lock file, held until this is dropped or the process ends in any way. It stays, and nothing is ever written to it.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file gives the lock back too, but later if a process that was just forked has it open until it
        // begins its program.
        let _ = self.file.unlock();
    }
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

    /// Which process of this machine holds a lock, as far as the system tells.
    pub fn holder(path: &Path) -> Option<String> {
        holder(fs::symlink_metadata(path).ok()?.ino())
    }

    /// Makes the file if need be. Fails with [`FileError::InUse`] if another process holds it; or if it is no file.
    pub fn acquire(path: &Path) -> Result<Lock, FileError> {
        loop {
            let mut options = File::options();
            options.create(true).append(true).mode(MODE);
            let opened = open_as(&mut options, path, Links::Refused);
            let (file, metadata) = opened.map_err(failed("open", path))?;
            restrict(&file, &metadata, folder(path)).map_err(failed("restrict", path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let holder = holder(metadata.ino());
                    let holder = holder.map_or_else(String::new, |holder| format!(" ({holder})"));
                    let path = path.to_owned();
                    return Err(FileError::InUse { path, holder });
                }
                Err(TryLockError::Error(source)) => {
                    return Err(failed("lock", path)(RareCall::Lock.explain(source)));
                }
            }
            // The process that held the lock before may have removed the file since it was opened here.
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

/// Takes the right to open a lock file, and so to lock it, from everybody who may not write in its folder.
fn restrict(file: &File, metadata: &Metadata, folder: &Path) -> io::Result<()> {
    if check_owner(metadata).is_err() {
        return Ok(());
    }
    let group = fs::metadata(folder)?.mode() & 0o020;
    let mode = if group == 0 { MODE } else { MODE_GROUP };
    if metadata.mode() & 0o777 == mode {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(mode))
}

fn holder(inode: u64) -> Option<String> {
    let locks = locks().unwrap_or_default();
    // 1: FLOCK  ADVISORY  WRITE 7 fd:01:1234 0 EOF
    let process = locks.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (kind, process, file) = (words.nth(1)?, words.nth(2)?, words.next()?);
        let found: u64 = file.rsplit(':').next()?.parse().ok()?;
        (kind == "FLOCK" && found == inode).then_some(process)
    });
    let process = process?;
    Some(match fs::read_to_string(format!("/proc/{process}/comm")) {
        Ok(name) => format!("process {process}, {}", name.trim()),
        Err(_) => format!("process {process}"),
    })
}

/// The list of all locks. At each read the system counts from its start, so small reads miss locks while others are
/// taken and released.
fn locks() -> io::Result<String> {
    let mut file = BufReader::with_capacity(1 << 16, File::open("/proc/locks")?);
    let mut text = String::new();
    while file.read_line(&mut text)? > 0 {}
    Ok(text)
}

/// The right to write a file, which one process has at a time. Meanwhile a lock file, `….lock`, is beside it.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    lock: Lock,
}

impl Claim {
    /// Fails with [`FileError::InUse`] if somebody else is about to write the file; if something else than a file has
    /// this name; or if nothing can be written beside it.
    pub fn begin(path: &Path) -> Result<Claim, FileError> {
        check_place(path, true)?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".lock");
        let lock = Lock::acquire(Path::new(&beside)).map_err(|error| match error {
            FileError::InUse { holder, .. } => FileError::InUse {
                path: path.to_owned(),
                holder,
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

    /// Writes the file with this content, durably. A file of this name is replaced. Fails if the disk fails.
    pub fn finish(self, content: &[u8]) -> Result<(), FileError> {
        put(&self.path, content)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A lock file that stays is empty, and the next process that writes the file takes it over.
        fs::remove_file(&self.lock.path).unwrap_or(());
    }
}
