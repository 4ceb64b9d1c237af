//! Access to a coordinator: tokens, certificates, and the files that carry them.
//!
//! | module | holds |
//! |---|---|
//! | [`token`] | the secret that opens calls |
//! | [`mod@file`] | access files: all that one needs to speak to a coordinator |
//! | [`issuer`] | the coordinator's side: makes and checks tokens, and keeps the secrets |
//! | [`participants`] | the list of participants, and which of their credentials are good |
//! | [`authority`] | the certificates by which clients know the coordinator |
//! | [`certificate`] | why a client does not accept one |
//! | [`local`] | the access files of coordinators on this machine, for their own user |
//! | `error` | why a private file is of no use |
//! | `private` | files that nobody but their owner can read |
//!
//! There is no clock here: what depends on time takes it as an argument, in seconds since 1970.
//!
//! # What always holds
//!
//! * Secrets are never shown: not in errors, not when printed for debugging.
//! * Files with secrets belong to their owner alone, from the moment they exist. Others are
//!   refused.
//! * No clock, no network.

pub mod authority;
pub mod certificate;
mod error;
pub mod file;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod issuer;
pub mod local;
pub mod participants;
mod private;
pub mod token;

pub use error::FileError;
pub use file::Access;
pub use issuer::{Denied, Issuer, IssuerError};
pub use participants::Participants;
pub use token::{Holder, Token};
