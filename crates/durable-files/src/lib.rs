//! Writes files that are complete or absent, and opens files that strangers may have put in a folder.
//!
//! [`NewFile`] is complete or absent, and nothing is written through a link that somebody has planted. A failure leaves
//! no file. A process that is killed leaves one whose name begins with a point and ends with `.partial`. [`put`] writes
//! all at once, [`put_private`] a secret.
//!
//! [`open`] follows links. [`open_nofollow`], for folders that somebody else may have filled, opens none.
//!
//! [`Below`] is a folder below a directory that a user has named: on the way to it, and to what is in it, no link is
//! followed.
//!
//! One process at a time has a [`Lock`], or a [`Claim`] to a file. [`FaultKind`] has the kinds of fault.
//!
//! # What always holds
//!
//! * A file gets a random name that was free; it is synced, renamed, and its folder is synced.
//!   (`store` makes its objects itself.)
//! * Only regular files are opened, without waiting. In a table's folder no link is followed.

use std::io;
use std::path::{Path, PathBuf};

mod below;
mod fault;
mod lock;
mod new;
mod open;
#[cfg(test)]
mod tests;

pub use below::Below;
pub use fault::{FaultKind, RareCall};
pub use lock::{Claim, Lock};
pub use new::{
    NewFile, create_private, folder, free_bytes, make_folder, make_folders, put, put_private,
    remove, sync, sync_folder,
};
pub use open::{
    Unfit, check_only_name, check_owner, open, open_nofollow, open_or_pipe, open_to_append,
    read_one_past, read_owned,
};

/// Why a file is not written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum FileError {
    #[error("{path} is there already: remove it, or take another name")]
    Exists { path: PathBuf },
    /// Another process writes the same file, or holds the lock.
    #[error("{path} is in use: another process{holder} is about to write it")]
    InUse {
        path: PathBuf,
        /// Which one, as ` (process 7, chomp)`; empty if the system does not tell.
        holder: String,
    },
    #[error("cannot {action} {path}")]
    Failed {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

/// Turns the error of an action on `path` into a [`FileError`].
pub fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |source| FileError::Failed {
        action,
        path: path.to_owned(),
        source,
    }
}
