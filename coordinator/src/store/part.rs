//! A part: the result of one task, some ranges of one layer.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 16 | [envelope](super::envelope), magic `chomppar` |
//! | 16 | 4 | range bits |
//! | 20 | 4 | layer |
//! | 24 | 8 | epoch of the owner that wrote it |
//! | 32 | 4 | replicas: how many different workers computed each of the ranges alike, at least 1 |
//! | 36 | 4 | number of ranges n, from 1 to [`RANGES_MAX`] |
//! | 40 | 88 n | for each range, heads ascending: head (8), losing positions (8), digest of the content (32), length of the record (8), SHA-256 of the record (32) |
//! | 40 + 88 n | 32 | SHA-256 of the bytes before it |
//! | 72 + 88 n | | the records, one after the other |
//!
//! A record is what the range format makes of a range; here it is just bytes. Every byte of a part
//! is covered by one digest: the header's by the one at its end, a record's by the one in the
//! header. A part has at most [`BYTES_MAX`] bytes.
//!
//! Versions: 1, the first.

use bytes::Bytes;
use chomp_table::RangeBits;

use super::envelope::{Kind, Reader, SUMMARY, Writer, Wrong, check, check_ranges};
use super::keys::PartName;
use chomp_table::{Digest, RangeSummary};

pub(super) const KIND: Kind = Kind {
    magic: b"chomppar",
    version: 1,
};

/// The most ranges that a part may have.
pub const RANGES_MAX: usize = 1 << 16;

/// The most bytes that a part may have: reading one back takes this much memory.
pub const BYTES_MAX: u64 = 1 << 28;

/// The most bytes of records that fit into a part however many ranges it has.
pub const RECORDS_BYTES_MAX: u64 = BYTES_MAX - header_size(RANGES_MAX);

const ENTRY: usize = SUMMARY + 8 + 32;

/// Where a record is in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) summary: RangeSummary,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The digest of the record's bytes.
    pub(super) stored: Digest,
    /// How many workers computed the range alike.
    pub(super) replicas: u32,
}

/// The size of a part with these records.
pub(super) fn size(records: &[(RangeSummary, Bytes)]) -> u64 {
    let stored = records.iter().map(|(_, record)| record.len() as u64);
    header_size(records.len()) + stored.sum::<u64>()
}

const fn header_size(ranges: usize) -> u64 {
    (40 + ENTRY * ranges + 32) as u64
}

/// The bytes of a part, and where the records are in it. The heads must ascend.
pub(super) fn encode(
    name: PartName,
    range_bits: RangeBits,
    replicas: u32,
    records: &[(RangeSummary, Bytes)],
) -> (Vec<u8>, Vec<Entry>) {
    let mut writer = Writer::new(KIND);
    writer.u32(range_bits.get()).u32(name.layer).u64(name.epoch);
    writer.u32(replicas);
    writer.u32(u32::try_from(records.len()).expect("at most RANGES_MAX records"));
    let mut entries = Vec::with_capacity(records.len());
    let mut offset = header_size(records.len());
    for (summary, record) in records {
        let (length, stored) = (record.len() as u64, Digest::of(record));
        writer.summary(summary).u64(length).digest(&stored);
        entries.push(Entry {
            summary: *summary,
            offset,
            length,
            stored,
            replicas,
        });
        offset += length;
    }
    let (mut bytes, _) = writer.finish();
    bytes.reserve_exact(records.iter().map(|(_, record)| record.len()).sum());
    for (_, record) in records {
        bytes.extend_from_slice(record);
    }
    (bytes, entries)
}

/// Checks every byte of the part of this name, and tells where its records are.
pub(super) fn decode(
    bytes: &[u8],
    name: PartName,
    range_bits: RangeBits,
) -> Result<Vec<Entry>, Wrong> {
    let (mut reader, records) = Reader::new(KIND, bytes)?;
    let found = reader.range_bits()?;
    check(found == range_bits, || {
        format!("it is of {found} range bits, the table of {range_bits}")
    })?;
    let (layer, epoch, replicas) = (reader.u32()?, reader.u64()?, reader.u32()?);
    check(replicas > 0, || "nobody computed its ranges".to_owned())?;
    let ranges = reader.entries(ENTRY)?;
    check((1..=RANGES_MAX).contains(&(ranges as usize)), || {
        format!("it claims {ranges} ranges")
    })?;
    let mut offset = header_size(ranges as usize);
    let mut rest = records;
    let mut entries = Vec::with_capacity(ranges as usize);
    for _ in 0..ranges {
        let summary = reader.summary()?;
        let (length, stored) = (reader.u64()?, reader.digest()?);
        let at = usize::try_from(length).ok();
        let (record, after) = at
            .and_then(|at| rest.split_at_checked(at))
            .ok_or_else(|| Wrong::Damaged(format!("it ends in the record of {}", summary.head)))?;
        check(Digest::of(record) == stored, || {
            format!(
                "the digest of the record of range {} is wrong",
                summary.head
            )
        })?;
        entries.push(Entry {
            summary,
            offset,
            length,
            stored,
            replicas,
        });
        (offset, rest) = (offset + length, after);
    }
    check(rest.is_empty(), || "it is too long".to_owned())?;
    check_ranges(
        entries.iter().map(|entry| &entry.summary),
        range_bits,
        layer,
    )?;
    let first = entries[0].summary.head;
    let actual = PartName {
        layer,
        first,
        epoch,
    };
    check(actual == name, || {
        format!("its content is that of {}", actual.key())
    })?;
    Ok(entries)
}
