//! The job: what the working files of a table are for.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 16 | [envelope](super::envelope), magic `chompjob` |
//! | 16 | 4 | range bits, 12 to 32 |
//! | 20 | 32 | SHA-256 of the bytes before it |
//!
//! The number of bits is not part of it: a table is extended by a job of more bits.
//!
//! Versions: 1, the first.

use chomp_table::RangeBits;

use super::envelope::{Kind, Reader, Writer, Wrong};

pub(super) const KIND: Kind = Kind {
    magic: b"chompjob",
    version: 1,
};

/// The size of the object in bytes.
pub(super) const BYTES: usize = 52;

pub(super) fn encode(range_bits: RangeBits) -> Vec<u8> {
    let mut writer = Writer::new(KIND);
    writer.u32(range_bits.get());
    writer.finish().0
}

pub(super) fn decode(bytes: &[u8]) -> Result<RangeBits, Wrong> {
    let mut reader = Reader::whole(KIND, bytes)?;
    let range_bits = reader.range_bits()?;
    reader.finish()?;
    Ok(range_bits)
}
