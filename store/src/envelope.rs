//! The frame that every object of the store has: what it is, which version, and a digest.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic: the kind of object |
//! | 8 | 4 | format version |
//! | 12 | 4 | length L of the object |
//! | 16 | L - 48 | the fields of the kind |
//! | L - 32 | 32 | SHA-256 of the bytes before it |
//!
//! All integers are little-endian. This frame is the same in every version, so that a newer object
//! is told from a damaged one.

use chomp_table::{Digest, Division};

use crate::StoreError;
use crate::objects::Key;

const FIELDS: usize = 16;
const DIGEST: usize = 32;

/// A kind of object, and the version of its format that is known here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) magic: &'static [u8; 8],
    pub(super) version: u32,
    /// The oldest version that is read.
    pub(super) oldest: u32,
}

/// Why bytes are not an object of a kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It has an older version, which is not read any more.
    Older,
    /// It has a newer version.
    Newer { found: u32, known: u32 },
    /// Anything else.
    Damaged(String),
}

impl Wrong {
    pub(super) fn at(self, key: &Key) -> StoreError {
        let key = key.clone();
        match self {
            Wrong::Older => StoreError::Older { key },
            Wrong::Newer { found, known } => StoreError::Newer { key, found, known },
            Wrong::Damaged(what) => StoreError::Damaged { key, what },
        }
    }
}

/// Fails unless `holds`.
pub(super) fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Wrong> {
    if holds {
        Ok(())
    } else {
        Err(Wrong::Damaged(what()))
    }
}

/// Writes a header.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn new(kind: Kind) -> Writer {
        let mut bytes = kind.magic.to_vec();
        bytes.extend(kind.version.to_le_bytes());
        bytes.extend([0; 4]);
        Writer(bytes)
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Writer {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Writer {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn digest(&mut self, digest: &Digest) -> &mut Writer {
        self.0.extend(digest.0);
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Writer {
        self.0.extend(bytes);
        self
    }

    /// The header, complete, and its digest.
    pub(super) fn finish(self) -> (Vec<u8>, Digest) {
        let mut bytes = self.0;
        let length = u32::try_from(bytes.len() + DIGEST).expect("limits keep headers below 4 GiB");
        bytes[12..FIELDS].copy_from_slice(&length.to_le_bytes());
        let digest = Digest::of(&bytes);
        bytes.extend(digest.0);
        (bytes, digest)
    }
}

/// Reads a header whose digest is right.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    fields: &'a [u8],
    /// The digest at the end of the header.
    pub(super) digest: Digest,
}

impl<'a> Reader<'a> {
    /// The fields of the object in `bytes`.
    pub(super) fn new(kind: Kind, bytes: &'a [u8]) -> Result<Reader<'a>, Wrong> {
        let mut start = bytes;
        let (magic, version, length) = (take(&mut start)?, take(&mut start)?, take(&mut start)?);
        check(magic == *kind.magic, || {
            "it is another kind of file".to_owned()
        })?;
        let length = u32::from_le_bytes(length) as usize;
        check(length >= FIELDS + DIGEST && length == bytes.len(), || {
            format!("it claims {length} bytes and has {}", bytes.len())
        })?;
        let (sealed, digest) = bytes.split_at(length - DIGEST);
        let digest: [u8; DIGEST] = digest.try_into().expect("split off with this length");
        check(Digest::of(sealed).0 == digest, || {
            "its digest is wrong".to_owned()
        })?;
        let version = u32::from_le_bytes(version);
        if version > kind.version {
            return Err(Wrong::Newer {
                found: version,
                known: kind.version,
            });
        }
        if version < kind.oldest {
            return Err(Wrong::Older);
        }
        Ok(Reader {
            fields: &sealed[FIELDS..],
            digest: Digest(digest),
        })
    }

    pub(super) fn u32(&mut self) -> Result<u32, Wrong> {
        take(&mut self.fields).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Wrong> {
        take(&mut self.fields).map(u64::from_le_bytes)
    }

    pub(super) fn digest(&mut self) -> Result<Digest, Wrong> {
        take(&mut self.fields).map(Digest)
    }

    pub(super) fn division(&mut self) -> Result<Division, Wrong> {
        let code = self.u32()?;
        let division = Division::from_code(code);
        division.ok_or_else(|| Wrong::Damaged(format!("it claims {code} range bits")))
    }

    /// The next `length` bytes.
    pub(super) fn bytes(&mut self, length: u32) -> Result<&'a [u8], Wrong> {
        let split = self.fields.split_at_checked(length as usize);
        let (taken, rest) = split.ok_or_else(|| Wrong::Damaged("it is too short".to_owned()))?;
        self.fields = rest;
        Ok(taken)
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Wrong> {
    let (taken, rest) = bytes
        .split_first_chunk()
        .ok_or_else(|| Wrong::Damaged("it is too short".to_owned()))?;
    *bytes = rest;
    Ok(*taken)
}
