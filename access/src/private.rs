//! Files that nobody but their owner can read, not even for a moment.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::file::FileError;
use crate::issuer::random;

/// A file that is read has at most so many bytes.
const BYTES_MAX: usize = 64 << 10;
/// What group and others may not have.
pub(crate) const OF_OTHERS: u32 = 0o077;

/// What a private file of some kind holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// What it is called, as in "an access file".
    pub(crate) name: &'static str,
    /// The fields it may have.
    pub(crate) fields: &'static [&'static str],
}

/// Reads a JSON object from the file at `path`. What is wrong with it is told without its content.
pub(crate) fn read<T: DeserializeOwned>(path: &Path, kind: Kind) -> Result<T, FileError> {
    let bytes = read_bytes(path, kind)?;
    let wrong = |what: String| FileError::Malformed {
        path: path.to_owned(),
        kind: kind.name,
        what,
    };
    if bytes.len() > BYTES_MAX {
        return Err(wrong(format!("it has more than {BYTES_MAX} bytes")));
    }
    // The texts of serde may quote values, and values are secrets.
    let object: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        wrong(format!(
            "it is not a JSON object, see line {line}, column {column}"
        ))
    })?;
    if let Some(field) = object.keys().find(|key| !kind.fields.contains(&&***key)) {
        return Err(FileError::UnknownField {
            path: path.to_owned(),
            field: field.chars().take(64).collect(),
        });
    }
    serde_json::from_value(Value::Object(object))
        .map_err(|_| wrong("a field is missing, or of another type".to_owned()))
}

fn read_bytes(path: &Path, kind: Kind) -> Result<Vec<u8>, FileError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => FileError::Missing {
            path: path.to_owned(),
            kind: kind.name,
        },
        _ => FileError::Read {
            path: path.to_owned(),
            source,
        },
    };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.mode() & OF_OTHERS != 0 {
        return Err(FileError::Exposed {
            path: path.to_owned(),
            mode: "600",
        });
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

/// Writes the file at `path`, in place of the one that is there. Whoever opens it finds the one or
/// the other, whole.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let write = || {
        let temporary = beside(path)?;
        write_and_rename(&temporary, path, bytes).inspect_err(|_| {
            // What matters is why it could not be written.
            fs::remove_file(&temporary).unwrap_or(());
        })
    };
    write().map_err(|source| FileError::Write {
        path: path.to_owned(),
        source,
    })
}

/// A name beside `path` that nobody has.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let number =
        random::<8>().map_err(|_| io::Error::other("the system gives no random numbers"))?;
    let number = u64::from_le_bytes(number);
    Ok(path.with_file_name(format!(".{}.{number:016x}", name.display())))
}

#[expect(
    clippy::disallowed_methods,
    reason = "not part of the table, and it replaces what is there"
)]
fn write_and_rename(temporary: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, path)?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}
