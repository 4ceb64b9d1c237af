//! A file that is complete or absent.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use tempfile::NamedTempFile;

use crate::open::Unfit;
use crate::{FileError, RareCall, failed};

const MODE: u32 = 0o666;
const MODE_PRIVATE: u32 = 0o600;

/// A file that does not have its name yet, but a random one in its folder. If it is dropped, nothing is left of it.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    replace: bool,
    file: NamedTempFile,
}

impl NewFile {
    /// Fails if there is such a file, unless it is to be replaced; or if something else has this name.
    pub fn create(path: &Path, replace: bool) -> Result<NewFile, FileError> {
        NewFile::with_mode(path, replace, MODE)
    }

    fn with_mode(path: &Path, replace: bool, mode: u32) -> Result<NewFile, FileError> {
        check_place(path, replace)?;
        let Some(name) = path.file_name() else {
            return Err(failed("write", path)(Unfit::Folder.into()));
        };
        let prefix = format!(".{}.", name.display());
        let folder = folder(path);
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".partial")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder)
            .map_err(failed("create a file in", folder))?;
        Ok(NewFile {
            path: path.to_owned(),
            replace,
            file,
        })
    }

    /// Gives the file its name, durably. Fails if the disk fails, or if another file got the name meanwhile.
    pub fn finish(self) -> Result<(), FileError> {
        let NewFile {
            path,
            replace,
            file,
        } = self;
        sync(file.as_file()).map_err(failed("sync", &path))?;
        let named = if replace {
            file.persist(&path)
        } else {
            file.persist_noclobber(&path)
        };
        named.map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => FileError::Exists { path: path.clone() },
            _ => failed("rename a file to", &path)(error.error),
        })?;
        synced(folder(&path))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

pub(crate) fn check_place(path: &Path, replace: bool) -> Result<(), FileError> {
    match path.symlink_metadata() {
        Ok(found) => match Unfit::of_mode(found.mode()) {
            Some(unfit) => Err(failed("write", path)(unfit.into())),
            None if replace => Ok(()),
            None => {
                let path = path.to_owned();
                Err(FileError::Exists { path })
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("look for", path)(error)),
    }
}

/// Writes the file `path` durably. A file of this name is replaced. Fails if something else has this name.
pub fn put(path: &Path, content: &[u8]) -> Result<(), FileError> {
    fill(NewFile::create(path, true)?, content)
}

/// As [`put`], but nobody except its owner can read the file, not even for a moment.
pub fn put_private(path: &Path, content: &[u8]) -> Result<(), FileError> {
    fill(NewFile::with_mode(path, true, MODE_PRIVATE)?, content)
}

/// As [`put_private`], but fails if something has this name.
pub fn create_private(path: &Path, content: &[u8]) -> Result<(), FileError> {
    fill(NewFile::with_mode(path, false, MODE_PRIVATE)?, content)
}

fn fill(mut file: NewFile, content: &[u8]) -> Result<(), FileError> {
    let written = file.write_all(content);
    written.map_err(failed("write", &file.path))?;
    file.finish()
}

/// Removes a file, durably. It need not be there. Fails if it is there and cannot be removed.
pub fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Ok(()) => synced(folder(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("remove", path)(error)),
    }
}

/// The folder that a file is in.
pub fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Makes a folder and those above it, each durable before the next one is made. A process that is killed on the way
/// leaves at most one folder unsynced: so the entry of a folder that is there already is synced too.
pub fn make_folders(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let Some(above) = path.parent() else {
        return Ok(());
    };
    if !path.is_dir() {
        make_folders(above)?;
        make_folder(&path)?;
    }
    match sync_folder(above) {
        // A folder that we may not read is not one where we have made something.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done,
    }
}

/// Makes a folder, unless it is there.
pub fn make_folder(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        done => done,
    }
}

/// The bytes that are free for this user where `path` is; [`u64::MAX`] on a file system without a size.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = statvfs(path)?;
    let bytes = found
        .blocks_available()
        .saturating_mul(found.fragment_size());
    Ok(if found.blocks() == 0 { u64::MAX } else { bytes })
}

/// Makes the entries of a folder durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    sync(&File::open(path)?)
}

/// Makes the content of a file, or the entries of a folder, durable.
pub fn sync(file: &File) -> io::Result<()> {
    let synced = file.sync_all();
    synced.map_err(|error| RareCall::Sync.explain(error))
}

pub(crate) fn synced(folder: &Path) -> Result<(), FileError> {
    sync_folder(folder).map_err(failed("sync", folder))
}
