//! Access to a coordinator: tokens, its certificate, and the files that carry them.
//!
//! | module | holds |
//! |---|---|
//! | [`token`] | the secret that authorizes calls, and its digest |
//! | [`mod@file`] | access files: all that one needs to speak to a coordinator |
//! | [`participants`] | the list of participants, with the digests of their tokens |
//! | [`secrets`] | the coordinator's side: what it keeps secret, and its certificate |
//! | [`certificate`] | the certificate by which clients know the coordinator, and why they do not accept one |
//! | [`local`] | what is for this user alone: access files of coordinators on this machine, and a seal |
//! | `error` | why a private file is of no use |
//! | `private` | files that nobody but their owner can read |
//!
//! Nothing here expires: a token is good until its participant is taken out, and the certificate until the names of its
//! coordinator change.
//!
//! # What always holds
//!
//! * Secrets are never shown: not in errors, not when printed for debugging.
//! * Files with secrets belong to their owner alone, from the moment they exist. A file that others can read is
//!   refused.
//! * No clock, no network.

pub mod certificate;
mod error;
pub mod file;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod local;
pub mod participants;
mod private;
pub mod secrets;
pub mod token;

#[cfg(test)]
mod tests;

pub use certificate::Certificate;
pub use error::FileError;
pub use file::Access;
pub use participants::{Denied, Participants};
pub use secrets::{Hosts, Secrets, SecretsError};
pub use token::{Token, TokenDigest};
