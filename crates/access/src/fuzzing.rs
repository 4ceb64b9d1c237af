//! Entries for the fuzzer: the decoders of files' contents, which are not public otherwise.

use std::path::Path;

use crate::certificate::Certificate;
use crate::error::FileError;
use crate::file::{self, Access};
use crate::participants::{self, Participants};
use crate::private;
use crate::secrets::{self, Secrets};

/// An access file with this content.
pub fn access(bytes: &[u8]) -> Result<Access, FileError> {
    private::parse::<Access>(bytes, path(), file::KIND)?.checked(path())
}

/// The content of the access file that [`Access::write`] makes.
pub fn content(access: &Access) -> Vec<u8> {
    access.to_text().into_bytes()
}

/// The secrets and the certificate in a file with this content.
pub fn secrets(bytes: &[u8]) -> Result<(Secrets, Certificate), FileError> {
    let content = private::parse(bytes, path(), secrets::KIND)?;
    Secrets::from_content(&content, path())
}

/// The participants in a file with this content.
pub fn participants(bytes: &[u8]) -> Result<Participants, FileError> {
    let content = private::parse(bytes, path(), participants::KIND)?;
    Participants::from_content(content, path())
}

/// The name of the file in errors.
fn path() -> &'static Path {
    Path::new("file")
}
