//! A file that is complete or absent.
//!
//! It is written under a temporary name in the folder where it is to be, synced, renamed, and the
//! folder is synced. Whatever goes wrong before, nothing is left; a process that is killed leaves a
//! file whose name begins with a point and ends with `.partial`.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::ExportError;

/// The rights of a new file, of which the process may take some away.
const MODE: u32 = 0o666;

/// A file that is being written and has no name yet.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    folder: PathBuf,
    replace: bool,
    file: NamedTempFile,
}

/// Turns the error of an action on `path` into an [`ExportError`].
fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ExportError {
    move |source| match ExportError::from(source) {
        ExportError::Write(source) => ExportError::File {
            action,
            path: path.to_owned(),
            source,
        },
        error => error,
    }
}

impl NewFile {
    /// Begins the file `path`.
    ///
    /// # Errors
    ///
    /// If there is one, unless it is to be replaced; if something else has this name; or if nothing
    /// can be written beside it.
    pub fn create(path: &Path, replace: bool) -> Result<NewFile, ExportError> {
        match path.symlink_metadata() {
            Ok(found) if !found.is_file() => {
                let path = path.to_owned();
                return Err(ExportError::NotAFile { path });
            }
            Ok(_) if !replace => {
                let path = path.to_owned();
                return Err(ExportError::Exists { path });
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("look for", path)(error)),
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let Some(name) = path.file_name() else {
            let path = path.to_owned();
            return Err(ExportError::NotAFile { path });
        };
        let prefix = format!(".{}.", name.display());
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".partial")
            .permissions(Permissions::from_mode(MODE))
            .tempfile_in(&folder)
            .map_err(failed("create a file in", &folder))?;
        Ok(NewFile {
            path: path.to_owned(),
            folder,
            replace,
            file,
        })
    }

    /// Gives the file its name, durably.
    ///
    /// # Errors
    ///
    /// If the disk fails, or if another file got the name meanwhile.
    pub fn finish(self) -> Result<(), ExportError> {
        let NewFile {
            path,
            folder,
            replace,
            file,
        } = self;
        file.as_file().sync_all().map_err(failed("sync", &path))?;
        let named = if replace {
            file.persist(&path)
        } else {
            file.persist_noclobber(&path)
        };
        named.map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => ExportError::Exists { path: path.clone() },
            _ => failed("rename a file to", &path)(error.error),
        })?;
        let synced = File::open(&folder).and_then(|folder| folder.sync_all());
        synced.map_err(failed("sync", &folder))
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
