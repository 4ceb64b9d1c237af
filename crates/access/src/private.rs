//! Files that nobody but their owner can read, not even for a moment. Each holds a JSON object.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use chomp_durable_files::{
    check_only_name, check_owner, failed, open, open_nofollow, open_or_pipe, put_private,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::FileError;

/// The most bytes of a private file: enough for the longest list of participants.
const BYTES_MAX: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// The folders of descriptors that a process gets from its parent, such as the pipes of `<(…)` in a shell.
const PASSED: [&str; 2] = ["/dev/fd", "/proc/self/fd"];
pub(crate) const OF_OTHERS: u32 = 0o077;
const READABLE_BY_GROUP: u32 = 0o040;

#[derive(Clone, Copy, Debug)]
pub(crate) struct PrivateKind {
    /// The name that errors use, as in "an access file".
    pub(crate) name: &'static str,
    /// Whether a file of another user, or one that a link leads to, is refused: somebody else may have put it there.
    pub(crate) own: bool,
}

impl PrivateKind {
    pub(crate) fn malformed(&self, path: &Path, what: impl Into<String>) -> FileError {
        FileError::Malformed {
            path: path.to_owned(),
            kind: self.name,
            what: what.into(),
        }
    }
}

/// Reads the file at `path`. An error does not quote its content.
pub(crate) fn read<T: DeserializeOwned>(path: &Path, kind: PrivateKind) -> Result<T, FileError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => FileError::Missing {
            path: path.to_owned(),
            kind: kind.name,
        },
        _ => failed("read", path)(source).into(),
    };
    let opened = if kind.own {
        open_nofollow(path)
    } else if PASSED.iter().any(|folder| path.starts_with(folder)) {
        open_or_pipe(path)
    } else {
        open(path)
    };
    let (file, metadata) = opened.map_err(failed)?;
    let own = check_owner(&metadata);
    let forbidden = forbidden(kind.own, metadata.uid(), own.is_ok());
    if kind.own {
        own.and_then(|()| check_only_name(&metadata))
            .map_err(failed)?;
    }
    if metadata.mode() & forbidden != 0 {
        return Err(FileError::Exposed {
            path: path.to_owned(),
            mode: "600",
        });
    }
    read_from(file, path, kind)
}

pub(crate) fn read_from<T: DeserializeOwned>(
    from: impl Read,
    path: &Path,
    kind: PrivateKind,
) -> Result<T, FileError> {
    let mut bytes = Vec::new();
    let read = from.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(failed("read", path))?;
    parse(&bytes, path, kind)
}

pub(crate) fn parse<T: DeserializeOwned>(
    bytes: &[u8],
    path: &Path,
    kind: PrivateKind,
) -> Result<T, FileError> {
    if bytes.len() > BYTES_MAX {
        return Err(kind.malformed(path, format!("it has more than {BYTES_MAX} bytes")));
    }
    // Some editors begin a text with it.
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    // The error texts of serde may quote the content.
    serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let what = format!("see line {line}, column {column} of what should be a JSON object");
        kind.malformed(path, what)
    })
}

/// The bits that the mode of a private file must not have. Root may lend a file to a user: programs that start
/// containers let a group of that user read it. A file that has to be this user's own cannot be lent.
fn forbidden(own: bool, uid: u32, is_mine: bool) -> u32 {
    let is_lent = !own && !is_mine && uid == 0;
    if is_lent {
        OF_OTHERS & !READABLE_BY_GROUP
    } else {
        OF_OTHERS
    }
}

pub(crate) fn text(content: &impl Serialize) -> String {
    serde_json::to_string_pretty(content).expect("texts always become JSON") + "\n"
}

/// Replaces the file at `path` if there is one. A program that opens it meanwhile finds the one or the other, whole.
pub(crate) fn write(path: &Path, content: &impl Serialize) -> Result<(), FileError> {
    Ok(put_private(path, text(content).as_bytes())?)
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
            let mut modes = vec![
                0o600, 0o400, 0o640, 0o440, 0o660, 0o650, 0o644, 0o604, 0o777,
            ];
            modes.retain(|mode| mode & forbidden(own, uid, is_mine) == 0);
            assert_eq!(modes, allowed, "{own} {uid} {is_mine}");
        }
    }
}
