//! The values of consecutive ranks of one area, and their bytes, the **value record**.
//!
//! ```text
//!  0   8  "chompval"
//!  8   4  format version, 1
//! 12   4  area
//! 16   8  the first rank
//! 24   8  n, the number of values
//! 32  32  the digest: SHA-256 of the bytes 0 to 31 and then of the values
//! 64   …  one zstd frame, with a checksum and its length, of the values: n bytes, both of a mirror pair
//! ```
//!
//! All integers are little-endian. The digest names the content, however zstd wrote it: two records of the same ranks have the same
//! digest if and only if they have the same values. [`decode`] makes it again from them.
//!
//! Limits: areas 1 to 120, 1 to 2^24 values, each below its area, no ranks that the area does not have; a record has at most
//! [`max_record_len`] bytes.
//!
//! Version history: 1 is the first.

use crate::digest::Digest;
use crate::format::{Damage, Fields, FormatError, ensure};
use crate::gaps;
use crate::partition::{AREA_MAX, count};

const MAGIC: [u8; 8] = *b"chompval";
/// The version of the format.
pub const VERSION: u32 = 1;
const NAMED_LENGTH: usize = 32;
const HEADER_LENGTH: u64 = 64;
/// The most values of a record.
pub const VALUES_MAX: u64 = 1 << 24;

/// The longest record of `count` values.
pub const fn max_record_len(count: u64) -> u64 {
    HEADER_LENGTH + gaps::frame_len_max(count)
}

/// The record of the values of `area` from rank `first` on.
///
/// # Panics
///
/// If these are no values of that area: such a record could not be read back.
pub fn encode(area: u32, first: u64, values: &[u8]) -> Vec<u8> {
    let count = values.len() as u64;
    check(area, first, count).expect("ranks of the area");
    check_values(area, values).expect("values of the area");
    let named = named(area, first, count);
    let digest = Digest::of_parts(&[&named, values]);
    [&named[..], &digest.0, &gaps::compress(values, values.len())].concat()
}

/// The area, the first rank and the values of `record`, everything checked.
///
/// Takes memory for the values that the header tells, after it has seen that the frame can hold so many.
///
/// # Errors
///
/// If this is not a record.
pub fn decode(record: &[u8]) -> Result<(u32, u64, Vec<u8>), FormatError> {
    let mut fields = Fields::new("a value record", record);
    fields.version(MAGIC, VERSION)?;
    let (area, first, count) = (fields.u32()?, fields.u64()?, fields.u64()?);
    let digest = Digest(fields.array()?);
    check(area, first, count)?;
    let values = gaps::decompress(fields.rest(), count)?;
    ensure(values.len() as u64 == count, || {
        format!("{} values where the header says {count}", values.len())
    })?;
    let found = Digest::of_parts(&[&named(area, first, count), &values]);
    ensure(found == digest, || {
        format!("the values have the digest {found} instead of {digest}")
    })?;
    check_values(area, &values)?;
    Ok((area, first, values))
}

/// The part of the header that the digest is of.
fn named(area: u32, first: u64, count: u64) -> [u8; NAMED_LENGTH] {
    let mut bytes = [0; NAMED_LENGTH];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&area.to_le_bytes());
    bytes[16..24].copy_from_slice(&first.to_le_bytes());
    bytes[24..].copy_from_slice(&count.to_le_bytes());
    bytes
}

fn check(area: u32, first: u64, values: u64) -> Result<(), Damage> {
    ensure((1..=AREA_MAX).contains(&area), || {
        format!("an area of {area} tiles")
    })?;
    let end = first.checked_add(values);
    let has = (1..=VALUES_MAX).contains(&values) && end.is_some_and(|end| end <= count(area));
    ensure(has, || {
        format!("{values} values from rank {first} on, of {area} tiles")
    })
}

/// Whether all values are below the area, as those of its positions are.
pub(super) fn check_values(area: u32, values: &[u8]) -> Result<(), Damage> {
    let largest = values.iter().fold(0, |largest, &value| value.max(largest));
    ensure(u32::from(largest) < area, || {
        format!("the value {largest} where all are below {area}")
    })
}
