//! The epoch: the turn of one owner of the table.
//!
//! Every owner creates the object of the number after the last. As objects are created once, two
//! owners never have the same number, and an owner that finds the next one has lost the table.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 16 | [envelope](super::envelope), magic `chompepo` |
//! | 16 | 8 | epoch, from 1 |
//! | 24 | 32 | SHA-256 of the bytes before it |
//!
//! Versions: 1, the first.

use super::envelope::{Kind, Reader, Writer, Wrong, check};

pub(super) const KIND: Kind = Kind {
    magic: b"chompepo",
    version: 1,
};

/// The size of the object in bytes.
pub(super) const BYTES: usize = 56;

pub(super) fn encode(epoch: u64) -> Vec<u8> {
    let mut writer = Writer::new(KIND);
    writer.u64(epoch);
    writer.finish().0
}

/// Checks the object of `epoch`.
pub(super) fn decode(bytes: &[u8], epoch: u64) -> Result<(), Wrong> {
    let mut reader = Reader::whole(KIND, bytes)?;
    let found = reader.u64()?;
    reader.finish()?;
    check(found == epoch, || format!("it is that of epoch {found}"))
}
