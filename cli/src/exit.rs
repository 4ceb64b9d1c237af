//! Exit codes: what scripts may rely on.

use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for is done.
    Done = 0,
    /// The command failed: a full disk, a missing permission, a bug.
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

#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct CodedError {
    pub(crate) code: Exit,
    text: String,
}

impl Exit {
    pub(crate) fn error(self, text: impl Into<String>) -> anyhow::Error {
        let (code, text) = (self, text.into());
        CodedError { code, text }.into()
    }
}

pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Exit::Usage.error(text)
}

/// A command was told to stop, and did: the program ends with [`Exit::Stopped`], which is no failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Interruption {
    #[error("stopped early: what is done so far is kept, run the same command again to go on")]
    Resumable,
    #[error("stopped early: nothing is kept, the same command starts from the beginning")]
    Lost,
    /// The command has printed a message of its own.
    #[error("stopped early")]
    Silent,
}
