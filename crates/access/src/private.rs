//! Files that nobody but their owner can read, not even for a moment.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use chomp_durable_files::{Unfit, check_only_name, check_own, open, open_within, put_private};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::FileError;

/// The most bytes of an access file or a file of secrets.
pub(crate) const BYTES_MAX: usize = 64 << 10;
/// The bits of a mode that let in the group and others.
pub(crate) const OF_OTHERS: u32 = 0o077;

/// The rules for one kind of private file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrivateKind {
    /// The name that errors use, as in "an access file".
    pub(crate) name: &'static str,
    /// Whether it counts only as this user's own: a file of another user, or one that a link leads
    /// to, was put there by somebody else.
    pub(crate) own: bool,
    /// How many bytes it has at the most.
    pub(crate) bytes_max: usize,
}

impl PrivateKind {
    /// The error of a file of this kind that is something else.
    pub(crate) fn malformed(&self, path: &Path, what: impl Into<String>) -> FileError {
        FileError::Malformed {
            path: path.to_owned(),
            kind: self.name,
            what: what.into(),
        }
    }
}

/// Reads a JSON object from the file at `path`. An error does not quote its content.
pub(crate) fn read<T: DeserializeOwned>(path: &Path, kind: PrivateKind) -> Result<T, FileError> {
    parse(&read_bytes(path, kind)?, path, kind)
}

/// Reads the content of the file at `path`.
pub(crate) fn parse<T: DeserializeOwned>(
    bytes: &[u8],
    path: &Path,
    kind: PrivateKind,
) -> Result<T, FileError> {
    let wrong = |what: String| kind.malformed(path, what);
    if bytes.len() > kind.bytes_max {
        return Err(wrong(format!("it has more than {} bytes", kind.bytes_max)));
    }
    // The texts of serde may quote what is there.
    let object: Map<String, Value> = serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        wrong(format!(
            "it is not a JSON object, see line {line}, column {column}"
        ))
    })?;
    serde_json::from_value(Value::Object(object))
        .map_err(|_| wrong("a field is missing, unknown or of another type".to_owned()))
}

fn read_bytes(path: &Path, kind: PrivateKind) -> Result<Vec<u8>, FileError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => FileError::Missing {
            path: path.to_owned(),
            kind: kind.name,
        },
        _ if kind.own && Unfit::of(&source).is_some() => FileError::Planted {
            path: path.to_owned(),
            kind: kind.name,
            source,
        },
        _ => FileError::Read {
            path: path.to_owned(),
            source,
        },
    };
    let (file, metadata) = if kind.own {
        let (file, metadata) = open_within(path).map_err(failed)?;
        check_own(&metadata).map_err(failed)?;
        check_only_name(&metadata).map_err(failed)?;
        (file, metadata)
    } else {
        open(path).map_err(failed)?
    };
    let is_mine = check_own(&metadata).is_ok();
    if metadata.mode() & forbidden(kind.own, metadata.uid(), is_mine) != 0 {
        return Err(FileError::Exposed {
            path: path.to_owned(),
            mode: "600",
        });
    }
    let mut bytes = Vec::new();
    file.take(kind.bytes_max as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

/// The bits that the mode of a private file must not have. Root lends a file to a user by a group of that user, as
/// programs do that start containers. A file that counts only as this user's own is not lent.
fn forbidden(own: bool, uid: u32, is_mine: bool) -> u32 {
    const READABLE_BY_GROUP: u32 = 0o040;
    let is_lent = !own && !is_mine && uid == 0;
    if is_lent {
        OF_OTHERS & !READABLE_BY_GROUP
    } else {
        OF_OTHERS
    }
}

/// Writes the file at `path`, in place of the one that is there. A program that opens it meanwhile finds the one or the
/// other, whole.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    Ok(put_private(path, bytes)?)
}

#[cfg(test)]
mod tests {
    use super::forbidden;

    #[test]
    fn root_alone_lends_a_file_and_to_its_group_alone() {
        const ROOT: u32 = 0;
        const USER: u32 = 1000;
        for (own, uid, is_mine, allowed) in [
            (false, ROOT, false, [0o600, 0o400, 0o640, 0o440].as_slice()),
            (false, USER, true, &[0o600, 0o400]),
            (false, USER, false, &[0o600, 0o400]),
            (false, ROOT, true, &[0o600, 0o400]),
            (true, ROOT, false, &[0o600, 0o400]),
        ] {
            let modes = [
                0o600, 0o400, 0o640, 0o440, 0o660, 0o650, 0o644, 0o604, 0o777,
            ];
            let found = modes
                .into_iter()
                .filter(|mode| mode & forbidden(own, uid, is_mine) == 0);
            assert_eq!(
                found.collect::<Vec<u32>>(),
                allowed,
                "{own} {uid} {is_mine}"
            );
        }
    }
}
