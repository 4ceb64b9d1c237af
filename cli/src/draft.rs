//! Files for users that are complete or absent: written under another name, synced, and renamed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why a file is not written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DraftError {
    /// Another process is writing the same file.
    #[error("{path} is in use: another process is about to write it")]
    InUse { path: PathBuf },
    /// The system refuses.
    #[error("cannot {what} {path}")]
    Io {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

/// A file that is going to be written. Its name with `.partial` behind it is held by this process
/// meanwhile, and removed if nothing comes of it.
#[derive(Debug)]
pub(crate) struct Draft {
    path: PathBuf,
    partial: PathBuf,
    file: File,
    finished: bool,
}

impl Draft {
    /// Makes sure that `path` can be written, and that nobody else is about to.
    pub(crate) fn begin(path: &Path) -> Result<Draft, DraftError> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        loop {
            let opened = File::options().create(true).append(true).open(&partial);
            let file = opened.map_err(failed("open", &partial))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let path = path.to_owned();
                    return Err(DraftError::InUse { path });
                }
                Err(TryLockError::Error(source)) => return Err(failed("lock", &partial)(source)),
            }
            // The one that held it before may have given the file its name since it was opened here.
            let ours = file.metadata().map_err(failed("look at", &partial))?.ino();
            match fs::metadata(&partial) {
                Ok(found) if found.ino() == ours => {
                    file.set_len(0).map_err(failed("cut", &partial))?;
                    return Ok(Draft {
                        path: path.to_owned(),
                        partial,
                        file,
                        finished: false,
                    });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("look at", &partial)(error)),
            }
        }
    }

    /// Where the file will be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file with this content, durably. What had its name is replaced.
    #[expect(
        clippy::disallowed_methods,
        reason = "the file that is replaced is an earlier one of the same kind, and this one is complete and synced"
    )]
    pub(crate) fn finish(mut self, content: &[u8]) -> Result<(), DraftError> {
        let written = self.file.write_all(content);
        written.map_err(failed("write", &self.partial))?;
        let synced = self.file.sync_all();
        synced.map_err(failed("sync", &self.partial))?;
        fs::rename(&self.partial, &self.path).map_err(failed("rename a file to", &self.path))?;
        self.finished = true;
        sync_folder(folder(&self.path))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.finished {
            // What is left is empty or a part, and is taken over by whoever writes it next.
            fs::remove_file(&self.partial).unwrap_or(());
        }
    }
}

/// Writes the file `path` with this content, durably.
pub(crate) fn put(path: &Path, content: &[u8]) -> Result<(), DraftError> {
    Draft::begin(path)?.finish(content)
}

/// The content of a file, if it is there; of one that is longer than `most` only so much and a byte.
pub(crate) fn get(path: &Path, most: u64) -> Result<Option<Vec<u8>>, DraftError> {
    let mut content = Vec::new();
    let opened = File::open(path);
    match opened.and_then(|file| file.take(most + 1).read_to_end(&mut content)) {
        Ok(_) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// Removes a file, durably. It need not be there.
pub(crate) fn remove(path: &Path) -> Result<(), DraftError> {
    match fs::remove_file(path) {
        Ok(()) => sync_folder(folder(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("remove", path)(error)),
    }
}

/// The folder that a file is in.
pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn sync_folder(path: &Path) -> Result<(), DraftError> {
    let synced = File::open(path).and_then(|folder| folder.sync_all());
    synced.map_err(failed("sync", path))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DraftError {
    let path = path.to_owned();
    move |source| DraftError::Io { what, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_complete_or_absent_and_written_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        let names = || {
            let entries = fs::read_dir(dir.path()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let draft = Draft::begin(&path).unwrap();
        assert_eq!(get(&path, 9).unwrap(), None);
        assert_eq!(names(), ["report.json.partial"]);
        let second = Draft::begin(&path).unwrap_err();
        assert!(matches!(second, DraftError::InUse { .. }), "{second}");
        draft.finish(b"first").unwrap();
        assert_eq!(names(), ["report.json"]);

        // One that comes to nothing leaves what was there.
        drop(Draft::begin(&path).unwrap());
        assert_eq!(names(), ["report.json"]);
        assert_eq!(get(&path, 9).unwrap().unwrap(), b"first");
        // What a killed process left is taken over.
        fs::hard_link(&path, dir.path().join("report.json.partial")).unwrap();
        fs::remove_file(&path).unwrap();
        put(&path, b"2").unwrap();
        assert_eq!(get(&path, 9).unwrap().unwrap(), b"2");
        assert_eq!(get(&path, 0).unwrap().unwrap(), b"2");
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(names(), [""; 0]);
        let nowhere = dir.path().join("none/report.json");
        let error = Draft::begin(&nowhere).unwrap_err().to_string();
        assert!(error.contains("none/report.json.partial"), "{error}");
    }

    #[test]
    fn a_name_alone_is_in_the_folder_where_we_are() {
        assert_eq!(folder(Path::new("a")), Path::new("."));
        assert_eq!(folder(Path::new("a/b")), Path::new("a"));
        assert_eq!(folder(Path::new("/b")), Path::new("/"));
    }
}
