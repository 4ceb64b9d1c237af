//! A folder that has F of the first row between two columns, so that work goes on after the process has ended, and
//! boards can be larger than the memory.
//!
//! After column n there is, for each second row c from 0 to n, a file `first-n-c`: for each third row from 0 to c the
//! bytes of its bitmap, as the layout has them, and the SHA-256 of the bytes n, c, third row and the bitmap. `box.json`
//! has the version of this form, 1, and the summary of n columns. It is written when all files of n are there, and
//! before those of fewer columns are removed; so whenever the process ends, the files it speaks of are there.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use chomp_files::{FileError, Lock, NewFile, make_folders, open_within, put, read_within};
use chomp_table::digest::Digest;
use serde::{Deserialize, Serialize};

use crate::ThinError;
use crate::layout::SLACK;
use crate::summary::Summary;

const VERSION: u32 = 1;
const STATE: &str = "box.json";
/// More than the summary of the largest board takes.
const STATE_BYTES_MAX: u64 = 64 << 20;

/// The folder, which nobody else uses meanwhile.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    _lock: Lock,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    version: u32,
    summary: Summary,
}

impl Scratch {
    /// Makes the folder if need be.
    ///
    /// # Errors
    ///
    /// If that fails, or another process uses it.
    pub fn open(folder: &Path) -> Result<Scratch, ThinError> {
        make_folders(folder).map_err(failed("make", folder))?;
        Ok(Scratch {
            folder: folder.to_owned(),
            _lock: Lock::acquire(&folder.join("lock"))?,
        })
    }

    /// What is known, if anything was left.
    pub(crate) fn summary(&self) -> Result<Option<Summary>, ThinError> {
        let path = self.folder.join(STATE);
        let bytes = match read_within(&path, STATE_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(failed("read", &path))?,
        };
        let state = serde_json::from_slice::<State>(&bytes);
        match state
            .ok()
            .filter(|state| state.version == VERSION && state.summary.is_sound())
        {
            Some(state) => Ok(Some(state.summary)),
            None => Err(ThinError::Damaged { path }),
        }
    }

    /// Says that all files of so many columns are there, and removes others.
    pub(crate) fn commit(&self, summary: &Summary) -> Result<(), ThinError> {
        let state = State {
            version: VERSION,
            summary: summary.clone(),
        };
        let text = serde_json::to_vec(&state).expect("numbers and texts");
        put(&self.folder.join(STATE), &text)?;
        self.clean(summary.columns())
    }

    /// Removes the files of all other columns than these, and what a process that was killed has not finished.
    fn clean(&self, columns: usize) -> Result<(), ThinError> {
        let entries = std::fs::read_dir(&self.folder).map_err(failed("list", &self.folder))?;
        for entry in entries {
            let entry = entry.map_err(failed("list", &self.folder))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let unfinished = name
                .strip_prefix('.')
                .and_then(|name| name.strip_suffix(".partial"));
            let whole = unfinished.and_then(|name| name.split('.').next());
            let of = columns_of(whole.unwrap_or(&name));
            if of.is_some_and(|of| of != columns || whole.is_some()) {
                let path = entry.path();
                std::fs::remove_file(&path).map_err(failed("remove", &path))?;
            }
        }
        Ok(())
    }

    fn path(&self, columns: usize, second: usize) -> PathBuf {
        self.folder.join(format!("first-{columns}-{second}"))
    }

    pub(crate) fn reader(&self, columns: usize, second: usize) -> Result<RowReader, ThinError> {
        let path = self.path(columns, second);
        let (file, _) = open_within(&path).map_err(failed("open", &path))?;
        Ok(RowReader {
            file: BufReader::new(file),
            path,
            columns,
            second,
        })
    }

    pub(crate) fn writer(&self, columns: usize, second: usize) -> Result<RowWriter, ThinError> {
        let path = self.path(columns, second);
        Ok(RowWriter {
            file: NewFile::create(&path, true)?,
            path,
            columns,
            second,
        })
    }
}

/// Reads the bitmaps of a second row.
pub(crate) struct RowReader {
    file: BufReader<File>,
    path: PathBuf,
    columns: usize,
    second: usize,
}

impl RowReader {
    /// The bitmap of the next third row.
    pub(crate) fn read(&mut self, third: usize, size: usize) -> Result<Vec<u8>, ThinError> {
        let mut bitmap = Vec::with_capacity(size + SLACK);
        bitmap.resize(size, 0);
        let mut found = Digest::default();
        let read = self.file.read_exact(&mut bitmap);
        let read = read.and_then(|()| self.file.read_exact(&mut found.0));
        let is_short = matches!(&read, Err(error) if error.kind() == ErrorKind::UnexpectedEof);
        if !is_short {
            read.map_err(failed("read", &self.path))?;
        }
        if is_short || digest(self.columns, self.second, third, &bitmap) != found {
            let path = self.path.clone();
            return Err(ThinError::Damaged { path });
        }
        bitmap.resize(size + SLACK, 0);
        Ok(bitmap)
    }
}

/// Writes the bitmaps of a second row.
pub(crate) struct RowWriter {
    file: NewFile,
    path: PathBuf,
    columns: usize,
    second: usize,
}

impl RowWriter {
    /// Adds the bitmap of the next third row.
    pub(crate) fn write(&mut self, third: usize, bitmap: &[u8]) -> Result<(), ThinError> {
        let bitmap = &bitmap[..bitmap.len() - SLACK];
        let digest = digest(self.columns, self.second, third, bitmap);
        let written = self.file.write_all(bitmap);
        let written = written.and_then(|()| self.file.write_all(&digest.0));
        written.map_err(failed("write", &self.path))
    }

    pub(crate) fn finish(self) -> Result<(), ThinError> {
        Ok(self.file.finish()?)
    }
}

/// The columns in the name of a file that is ours.
fn columns_of(name: &str) -> Option<usize> {
    let (columns, second) = name.strip_prefix("first-")?.split_once('-')?;
    second.parse::<usize>().ok()?;
    columns.parse().ok()
}

fn digest(columns: usize, second: usize, third: usize, bitmap: &[u8]) -> Digest {
    let place = [columns, second, third].map(|n| n as u8);
    Digest::of_parts(&[&place, bitmap])
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> ThinError {
    move |source| {
        let path = path.to_owned();
        ThinError::File(FileError::Failed {
            action,
            path,
            source,
        })
    }
}
