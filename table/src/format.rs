//! What every format has in common: errors and how they are told, and reading integers from
//! untrusted bytes.

use std::error::Error;

/// Why some bytes are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// A later version of this program wrote them.
    #[error("{what} has format {found}, and this program knows format {known}: use a newer chomp")]
    Newer {
        /// What was read.
        what: &'static str,
        /// The format found.
        found: u32,
        /// The newest format that this program knows.
        known: u32,
    },
    /// They are not what the format says.
    #[error(transparent)]
    Damaged(#[from] Damage),
}

/// What is wrong with some bytes, in words for a person: a program can only refuse them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Damage {
    what: String,
}

impl Damage {
    /// Damage that is described by `what`.
    pub fn new(what: impl Into<String>) -> Damage {
        Damage { what: what.into() }
    }
}

/// An error and its causes on one line.
pub fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Fails with the damage that `what` describes unless `condition` holds.
pub(crate) fn ensure<T: Into<String>>(
    condition: bool,
    what: impl FnOnce() -> T,
) -> Result<(), Damage> {
    if condition {
        Ok(())
    } else {
        Err(Damage::new(what()))
    }
}

/// Takes fields, all little-endian, from the start of some bytes.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of `bytes`, which are `what` in an error text.
    pub(crate) fn new(what: &'static str, bytes: &'a [u8]) -> Fields<'a> {
        Fields { what, rest: bytes }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let (field, rest) = self
            .rest
            .split_first_chunk()
            .ok_or_else(|| Damage::new(format!("{} is cut short", self.what)))?;
        self.rest = rest;
        Ok(*field)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Damage> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Damage> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a magic number and a version, which must be `known`.
    pub(crate) fn version(&mut self, magic: [u8; 8], known: u32) -> Result<(), FormatError> {
        let found = self.array()?;
        ensure(found == magic, || {
            format!("this is not {}: it starts with {found:02x?}", self.what)
        })?;
        match self.u32()? {
            found if found > known => Err(FormatError::Newer {
                what: self.what,
                found,
                known,
            }),
            found => Ok(ensure(found == known, || {
                format!("{} has the unknown format {found}", self.what)
            })?),
        }
    }

    /// The number of bytes left.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// What is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }
}
