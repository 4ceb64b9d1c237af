//! Why a private file is of no use.

use std::path::PathBuf;

/// Why a private file is of no use. Never says what is in it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum FileError {
    #[error("there is no {kind} {}", path.display())]
    Missing { path: PathBuf, kind: &'static str },
    #[error(
        "others on this machine may read {0}, and what it holds is secret: chmod {mode} {0}", path.display()
    )]
    Exposed { path: PathBuf, mode: &'static str },
    #[error("{} is not an intact {kind}: {what}", path.display())]
    Malformed {
        path: PathBuf,
        kind: &'static str,
        what: String,
    },
    #[error("neither XDG_STATE_HOME nor HOME is set")]
    NoPlace,
    /// It cannot be read or written, or is not this user's own.
    #[error(transparent)]
    File(#[from] chomp_durable_files::FileError),
}
