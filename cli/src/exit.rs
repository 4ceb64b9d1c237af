//! Exit codes: what scripts may rely on.

use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for is done.
    Done = 0,
    /// It failed: a full disk, a missing permission, a bug.
    Failed = 1,
    /// Wrong usage. Most of it is found before anything is done.
    Usage = 2,
    /// Data is damaged, or a check failed.
    Damaged = 3,
    /// The coordinator cannot be reached.
    Unreachable = 4,
    /// Refused: another version, other parameters, or the table is in use.
    Refused = 5,
    /// Stopped early. Everything committed so far is kept: run it again to go on.
    Stopped = 75,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// The command line asks for something that cannot be done: the program ends with [`Exit::Usage`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(String);

/// An error of wrong usage with this text.
pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// A command was told to stop, and did: the program ends with [`Exit::Stopped`], which is no failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Interruption {
    /// The user is told that the same command continues.
    #[error("stopped early: what is done so far is kept, run the same command again to go on")]
    Resumable,
    /// There is nothing to tell, or it was told.
    #[error("stopped early")]
    Silent,
}
