//! Why a private file is of no use.

use std::path::PathBuf;

/// Why a private file is of no use. Never says what is in it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is not there.
    #[error("there is no {kind} {}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The kind of file that it should be.
        kind: &'static str,
    },
    /// Others can read it, so it is a secret no more.
    #[error(
        "others on this machine may read {0}, and what it holds is secret: chmod {mode} {0}", path.display()
    )]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// The mode that it should have.
        mode: &'static str,
    },
    /// It is something else.
    #[error("{} is not an intact {kind}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The kind of file that it should be.
        kind: &'static str,
        /// The defect.
        what: String,
    },
    /// There is no folder for it.
    #[error("neither XDG_STATE_HOME nor HOME is set")]
    NoPlace,
    /// It cannot be read or written, or is not this user's own.
    #[error(transparent)]
    File(#[from] chomp_durable_files::FileError),
}
