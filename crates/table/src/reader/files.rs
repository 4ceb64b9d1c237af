//! Where the bytes of a table come from.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use chomp_durable_files::Unfit;

use super::TableError;

/// A slice of a file of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSlice<'a> {
    /// The name of the file in the table's folder.
    pub name: &'a str,
    /// The range of its bytes.
    pub range: Range<u64>,
    /// How long the file must be.
    pub length: u64,
}

/// The files of one published table, wherever they are: a folder, or a server. An implementation has to give as many
/// bytes as were asked for, or an error. It need not check the bytes, since its callers do.
pub trait Files: fmt::Debug + Send + Sync {
    /// The path or address of a file, for messages; of the folder, if `name` is empty.
    fn full_name(&self, name: &str) -> PathBuf;

    /// The content of a small file. Fails if it is missing, longer than `most` bytes, or cannot be read.
    fn whole(&self, name: &str, most: u64) -> Result<Vec<u8>, TableError>;

    /// The bytes of `slices`, in their order. Fails if a file is missing, is not as long as it must be, or cannot be
    /// read.
    fn read_slices(&self, slices: &[FileSlice<'_>]) -> Result<Vec<Vec<u8>>, TableError>;
}

/// The files in a folder.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Files for Folder {
    fn full_name(&self, name: &str) -> PathBuf {
        if name.is_empty() {
            self.0.clone()
        } else {
            self.0.join(name)
        }
    }

    fn whole(&self, name: &str, most: u64) -> Result<Vec<u8>, TableError> {
        let file = self.full_name(name);
        let read = chomp_durable_files::read_one_past(&file, most);
        let bytes = read.map_err(|error| not_opened(&file, error))?;
        if bytes.len() as u64 <= most {
            Ok(bytes)
        } else {
            let what = format!("it has more than {most} bytes");
            Err(TableError::damaged(file, what))
        }
    }

    fn read_slices(&self, slices: &[FileSlice<'_>]) -> Result<Vec<Vec<u8>>, TableError> {
        let mut opened: Option<(&str, File)> = None;
        let mut all = Vec::with_capacity(slices.len());
        for slice in slices {
            let file = self.full_name(slice.name);
            // Slices of one file mostly follow each other, so the last file stays open.
            let handle = match &mut opened {
                Some((name, handle)) if *name == slice.name => handle,
                _ => {
                    let handle = open_whole(&file, slice.length)?;
                    &mut opened.insert((slice.name, handle)).1
                }
            };
            let bytes = read(handle, slice.range.clone());
            all.push(bytes.map_err(TableError::io(&file))?);
        }
        Ok(all)
    }
}

/// The most bytes of a file `box-….json`, and the most such files: the openings of 32 rows and 250 columns take 800 kB.
const BOX_BYTES_MAX: u64 = 4 << 20;
const BOXES_MAX: usize = 64;

/// The files `box-….json` of a directory, which hold outputs of `chomp box --json`: paths in order, and bytes. Empty if
/// `directory` is no directory, as for a shard or an address. Fails if a file cannot be read or has over 4 MiB, or if
/// there are more than 64.
pub fn boxes(directory: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, TableError> {
    let none = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    let entries = match std::fs::read_dir(directory) {
        Err(error) if none.contains(&error.kind()) => return Ok(Vec::new()),
        entries => entries.map_err(TableError::io(directory))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(TableError::io(directory))?.file_name();
        let name = name.to_str().unwrap_or_default();
        let inner = name.strip_prefix("box-");
        if inner
            .and_then(|inner| inner.strip_suffix(".json"))
            .is_none()
        {
            continue;
        }
        let file = directory.join(name);
        let bytes = chomp_durable_files::read_one_past(&file, BOX_BYTES_MAX);
        let bytes = bytes.map_err(TableError::io(&file))?;
        if bytes.len() as u64 > BOX_BYTES_MAX || found.len() == BOXES_MAX {
            let what = format!(
                "it has more than {BOX_BYTES_MAX} bytes, or is one of more than {BOXES_MAX}"
            );
            return Err(TableError::Openings { file, what });
        }
        found.push((file, bytes));
    }
    found.sort_unstable();
    Ok(found)
}

/// The bytes `range` of a file, fewer if it ends before.
pub(super) fn read(file: &mut File, range: Range<u64>) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(range.start))?;
    let mut bytes = Vec::new();
    file.take(range.end - range.start).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open_whole(file: &Path, length: u64) -> Result<File, TableError> {
    let opened = chomp_durable_files::open_nofollow(file);
    let (handle, metadata) = opened.map_err(|error| not_opened(file, error))?;
    let found = metadata.len();
    if found == length {
        Ok(handle)
    } else {
        let what = format!("it has {found} bytes instead of {length}");
        Err(TableError::damaged(file, what))
    }
}

/// Why a file that belongs to a published table cannot be read: that it is not there, or is no file, is damage.
fn not_opened(file: &Path, error: io::Error) -> TableError {
    match Unfit::of(&error) {
        Some(unfit) => TableError::damaged(file, unfit.to_string()),
        None if error.kind() == io::ErrorKind::NotFound => {
            TableError::damaged(file, "it is missing")
        }
        None => TableError::io(file)(error),
    }
}
