//! The frame that every object of the journal has: its kind, its version, and a digest.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic: the kind of object |
//! | 8 | 4 | format version |
//! | 12 | 4 | length L of the object |
//! | 16 | L - 48 | the fields of the kind |
//! | L - 32 | 32 | SHA-256 of the bytes before it |
//!
//! All integers are little-endian. This frame is the same in every version, so that a reader can distinguish an object
//! of another version from a damaged one.

use chomp_table::Digest;
use chomp_table::format::{Damage, Fields, ensure};

use crate::StoreError;
use crate::objects::Key;

const FIELDS: usize = 16;
const DIGEST: usize = 32;

#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectKind {
    pub(super) magic: &'static [u8; 8],
    pub(super) version: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadObject {
    OtherVersion { found: u32, known: u32 },
    Damaged(Damage),
}

impl From<Damage> for BadObject {
    fn from(damage: Damage) -> BadObject {
        BadObject::Damaged(damage)
    }
}

impl BadObject {
    pub(super) fn at(self, key: &Key) -> StoreError {
        match self {
            BadObject::OtherVersion { found, known } => StoreError::Refused(format!(
                "{key} has format version {found}, and this program reads {known}: finish the job with the version that \
                 began it, or remove the folder work and begin it anew"
            )),
            BadObject::Damaged(damage) => StoreError::damaged(key, damage.to_string()),
        }
    }
}

/// Writes an object of the journal, field by field.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn new(kind: ObjectKind) -> Writer {
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

    pub(super) fn finish(self) -> (Vec<u8>, Digest) {
        let mut bytes = self.0;
        let length = u32::try_from(bytes.len() + DIGEST).expect("limits keep headers below 4 GiB");
        bytes[12..FIELDS].copy_from_slice(&length.to_le_bytes());
        let digest = Digest::of(&bytes);
        bytes.extend(digest.0);
        (bytes, digest)
    }
}

/// The fields of the object in `bytes`, and its digest. Fails if the digest is not that of the bytes.
pub(super) fn open(kind: ObjectKind, bytes: &[u8]) -> Result<(Fields<'_>, Digest), BadObject> {
    let mut start = Fields::new("it", bytes);
    let (magic, version, length) = (start.array()?, start.u32()?, start.u32()? as usize);
    ensure(magic == *kind.magic, || "it is another kind of file")?;
    ensure(length >= FIELDS + DIGEST && length == bytes.len(), || {
        format!("it claims {length} bytes and has {}", bytes.len())
    })?;
    let (sealed, digest) = bytes.split_at(length - DIGEST);
    let right = Digest::of(sealed);
    ensure(right.0 == *digest, || "its digest is wrong")?;
    if version != kind.version {
        return Err(BadObject::OtherVersion {
            found: version,
            known: kind.version,
        });
    }
    Ok((Fields::new("it", &sealed[FIELDS..]), right))
}
