//! The folder of `--scratch` has the state of a solver between two columns: the bitmaps `F_1` of `chomp_boxes`. So work
//! continues after the process has ended, and boards can be larger than the memory.
//!
//! After column n the folder has a file `first-n-c` for each second row c from 0 to n. For each third row from 0 to c
//! the file has the bytes of its bitmap, in the solver's layout, and the mark of this user's seal on the SHA-256 of the
//! bytes rows, n, c, third row and the bitmap. `box.json` has the version of this form, 2, the summary of n columns,
//! and the mark on the SHA-256 of its JSON. It is written when all files of n are there, and before those of fewer
//! columns are removed. So the files that it names are always there.
//!
//! A wrong state cannot be recognized by its content, so a state without this user's mark is refused.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use chomp_boxes::{BoxSummary, RowReader, RowWriter, Scratch, ThinError};
use chomp_durable_files::{Lock, NewFile, failed, make_folders, open_nofollow, put, read_one_past};
use chomp_table::digest::{Digest, Seal};
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

const VERSION: u32 = 2;
const STATE: &str = "box.json";
/// More than the summary of the largest board takes.
const STATE_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    rows: usize,
    pub(super) seal: Seal,
    _lock: Lock,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    version: u32,
    summary: BoxSummary,
    mark: Digest,
}

impl Folder {
    /// The folder, for boards of `rows` rows, is made if it is missing. Fails if another process uses it.
    pub(crate) fn open(folder: &Path, rows: usize, seal: Seal) -> Result<Folder, ThinError> {
        make_folders(folder).map_err(failed("make", folder))?;
        Ok(Folder {
            path: folder.to_owned(),
            rows,
            seal,
            _lock: Lock::acquire(&folder.join("lock"))?,
        })
    }

    /// Removes the files of all other columns than these, and what a process that was killed has not finished.
    fn clean(&self, columns: usize) -> Result<(), ThinError> {
        let entries = std::fs::read_dir(&self.path).map_err(failed("list", &self.path))?;
        for entry in entries {
            let entry = entry.map_err(failed("list", &self.path))?;
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

    fn row(&self, columns: usize, second: usize) -> Row {
        Row {
            path: self.path.join(format!("first-{columns}-{second}")),
            place: [byte(self.rows), byte(columns), byte(second)],
            seal: self.seal.clone(),
        }
    }

    fn mark(&self, summary: &BoxSummary) -> Digest {
        let json = serde_json::to_vec(summary).expect("numbers and texts");
        self.seal.mark(Digest::of(&json))
    }
}

impl Scratch for Folder {
    fn summary(&self) -> Result<Option<BoxSummary>, ThinError> {
        let path = self.path.join(STATE);
        let bytes = match read_one_past(&path, STATE_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(failed("read", &path))?,
        };
        match serde_json::from_slice::<State>(&bytes) {
            Ok(State {
                version,
                summary,
                mark,
            }) if version == VERSION && mark == self.mark(&summary) => Ok(Some(summary)),
            _ => Err(ThinError::Damaged { path }),
        }
    }

    fn commit(&self, summary: &BoxSummary) -> Result<(), ThinError> {
        let state = State {
            version: VERSION,
            summary: summary.clone(),
            mark: self.mark(summary),
        };
        let text = serde_json::to_vec(&state).expect("numbers and texts");
        put(&self.path.join(STATE), &text)?;
        self.clean(summary.columns())
    }

    fn reader(&self, columns: usize, second: usize) -> Result<Box<dyn RowReader>, ThinError> {
        let row = self.row(columns, second);
        let (file, _) = open_nofollow(&row.path).map_err(failed("open", &row.path))?;
        let file = BufReader::new(file);
        Ok(Box::new(Reader { file, row }))
    }

    fn writer(&self, columns: usize, second: usize) -> Result<Box<dyn RowWriter>, ThinError> {
        let row = self.row(columns, second);
        let file = NewFile::create(&row.path, true)?;
        Ok(Box::new(Writer { file, row }))
    }
}

/// The file of a second row.
struct Row {
    path: PathBuf,
    /// The rows, the columns and the second row.
    place: [u8; 3],
    seal: Seal,
}

impl Row {
    fn mark(&self, third: usize, bitmap: &[u8]) -> Digest {
        let digest = Digest::of_parts(&[&self.place, &[byte(third)], bitmap]);
        self.seal.mark(digest)
    }
}

struct Reader {
    file: BufReader<File>,
    row: Row,
}

impl RowReader for Reader {
    fn read(&mut self, third: usize, bitmap: &mut [u8]) -> Result<(), ThinError> {
        let mut found = Digest::default();
        let Row { path, .. } = &self.row;
        let read = self.file.read_exact(bitmap);
        match read.and_then(|()| self.file.read_exact(&mut found.0)) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => found = Digest::default(),
            read => read.map_err(failed("read", path))?,
        }
        if self.row.mark(third, bitmap) != found {
            let path = path.clone();
            return Err(ThinError::Damaged { path });
        }
        Ok(())
    }
}

struct Writer {
    file: NewFile,
    row: Row,
}

impl RowWriter for Writer {
    fn write(&mut self, third: usize, bitmap: &[u8]) -> Result<(), ThinError> {
        let mark = self.row.mark(third, bitmap);
        let written = self.file.write_all(bitmap);
        let written = written.and_then(|()| self.file.write_all(&mark.0));
        Ok(written.map_err(failed("write", &self.row.path))?)
    }

    fn finish(self: Box<Self>) -> Result<(), ThinError> {
        Ok(self.file.finish()?)
    }
}

fn byte(columns: usize) -> u8 {
    u8::try_from(columns).expect("at most 250 columns")
}

/// The columns in the name of a file that is ours.
fn columns_of(name: &str) -> Option<usize> {
    let (columns, second) = name.strip_prefix("first-")?.split_once('-')?;
    second.parse::<usize>().ok()?;
    columns.parse().ok()
}
