//! A part: the result of one evaluation task, the records of some ranges of one layer.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `chomppar` |
//! | 8 | 4 | format version, 2 |
//! | 12 | 4 | 0 |
//! | 16 | … | the [records](chomp_table::range) of the ranges, one after the other, heads ascending |
//!
//! A part does not say where its records are: the journal does, and it has their digests. A part that no segment of the
//! journal names is an orphan. Publication removes it; the coordinator removes an orphan that it has relayed soon after
//! the lease has ended.
//!
//! Limits: [`RANGES_MAX`] ranges and [`BYTES_MAX`] bytes. Versions: 2, the first of this layout.

use bytes::Bytes;
use chomp_table::format::Damage;
use chomp_table::head::HEAD_BITS_MAX;
use chomp_table::range::{losing_max, max_record_len};
use chomp_table::{Digest, Head, RangeBits, RangeSummary};

use crate::keys::PartName;
use crate::objects::{Storage, StorageError, StorageProblem};
use crate::{FaultKind, StoreError};

/// The most ranges that a part may have.
pub const RANGES_MAX: usize = 1 << 12;
/// The most bytes that a part may have: putting one takes this much memory.
pub const BYTES_MAX: u64 = 1 << 28;

/// The most bytes that a part of `ranges` ranges of `range_bits` bits has.
pub fn bytes_max(ranges: usize, range_bits: RangeBits) -> u64 {
    let records = max_record_len(range_bits).saturating_mul(ranges as u64);
    BYTES_MAX.min(HEADER_BYTES.saturating_add(records))
}

const HEADER: [u8; 16] = *b"chomppar\x02\0\0\0\0\0\0\0";
/// The bytes of a part before its first record.
pub const HEADER_BYTES: u64 = HEADER.len() as u64;

/// A range, and the place of its record in a part, in bytes. Workers send it, and the journal has it in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct PlacedRange {
    pub summary: RangeSummary,
    pub offset: u32,
    pub length: u32,
}

impl PlacedRange {
    /// The first byte after the record.
    pub fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.length)
    }

    /// Fails unless a table with `range_bits` can have this range, and a part its record at this place.
    pub fn validate(&self, range_bits: RangeBits) -> Result<(), Damage> {
        let RangeSummary {
            head,
            count,
            stored,
            ..
        } = self.summary;
        const { assert!(HEAD_BITS_MAX + RangeBits::MAX <= u64::BITS) };
        if head.bit_len() > HEAD_BITS_MAX {
            return Err(Damage::new(format!("range {head} is not of this table")));
        }
        let most = losing_max(range_bits);
        if stored > count || count > most {
            return Err(Damage::new(format!(
                "range {head} with {count} positions, {stored} of them stored, where {most} are possible"
            )));
        }
        let (start, length) = (u64::from(self.offset), u64::from(self.length));
        let fits = HEADER_BYTES <= start && self.end() <= BYTES_MAX;
        if !fits || !(1..=max_record_len(range_bits)).contains(&length) {
            return Err(Damage::new(format!(
                "the record of range {head} cannot be at {start} with {length} bytes"
            )));
        }
        Ok(())
    }
}

/// The row of a ledger for a range that is done, or was before its record was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct RangeRow {
    /// The lease that names the part.
    pub lease: u64,
    pub layer: u32,
    pub offset: u32,
    pub length: u32,
    /// The number of participants that had to compute the range with equal results, as the job demanded.
    pub replicas: u32,
    /// The number of losing positions.
    pub count: u64,
    /// How many of them are not larger than their mirror image.
    pub stored: u64,
    pub digest: Digest,
}

impl RangeRow {
    /// The part with the record.
    pub fn part(&self) -> PartName {
        PartName {
            layer: self.layer,
            lease: self.lease,
        }
    }

    /// Where the record of the range `head` is in its part.
    pub fn placed(&self, head: Head) -> PlacedRange {
        PlacedRange {
            summary: self.summary(head),
            offset: self.offset,
            length: self.length,
        }
    }

    /// The summary of this range, whose head is `head`.
    pub fn summary(&self, head: Head) -> RangeSummary {
        RangeSummary {
            head,
            count: self.count,
            stored: self.stored,
            digest: self.digest,
        }
    }
}

/// A part that is being filled.
#[derive(Clone, Debug)]
pub struct PartBuilder {
    bytes: Vec<u8>,
    placed: Vec<PlacedRange>,
}

impl Default for PartBuilder {
    fn default() -> PartBuilder {
        PartBuilder {
            bytes: HEADER.to_vec(),
            placed: Vec::new(),
        }
    }
}

impl PartBuilder {
    /// Whether the record of another range fits in.
    pub fn has_room(&self, record: &[u8]) -> bool {
        self.placed.len() < RANGES_MAX && (self.bytes.len() + record.len()) as u64 <= BYTES_MAX
    }

    /// Appends the record of a range. Panics unless heads ascend, or if the part becomes too large: tasks are cut so
    /// that their parts stay within the limits.
    pub fn push(&mut self, summary: RangeSummary, record: &[u8]) {
        let last = self.placed.last().map(|placed| placed.summary.head);
        assert!(last < Some(summary.head), "the heads of a part ascend");
        let size = |bytes: usize| u32::try_from(bytes).expect("a part is smaller than 4 GiB");
        self.placed.push(PlacedRange {
            summary,
            offset: size(self.bytes.len()),
            length: size(record.len()),
        });
        self.bytes.extend_from_slice(record);
        let fits = self.placed.len() <= RANGES_MAX && self.bytes.len() as u64 <= BYTES_MAX;
        assert!(fits, "a part of a task is within its limits");
    }

    /// The bytes of the part, and where its records are.
    pub fn finish(self) -> (Bytes, Vec<PlacedRange>) {
        (self.bytes.into(), self.placed)
    }
}

/// The record of a range. Fails with [`StoreError::Lost`] unless every byte is as the journal says.
pub async fn read_record(
    storage: &dyn Storage,
    head: Head,
    row: &RangeRow,
) -> Result<Bytes, StoreError> {
    let mut read = read_records(storage, &[(head, *row)]).await;
    read.pop().expect("one was read")
}

/// The records of ranges, each as [`read_record`] reads it, in this order.
pub async fn read_records(
    storage: &dyn Storage,
    rows: &[(Head, RangeRow)],
) -> Vec<Result<Bytes, StoreError>> {
    let slices = rows.iter().map(|(_, row)| {
        let start = u64::from(row.offset);
        let end = start + u64::from(row.length);
        (row.part().key(), start..end)
    });
    let reads = storage.read_each(slices.collect()).await;
    let rows = rows.iter().zip(reads);
    let checked = rows.map(|((head, row), read)| check(*head, row, read));
    checked.collect()
}

fn check(
    head: Head,
    row: &RangeRow,
    read: Result<Bytes, StorageError>,
) -> Result<Bytes, StoreError> {
    let lost = |what| StoreError::Lost {
        head,
        key: row.part().key(),
        what,
    };
    let record = read.map_err(|error| match error.problem {
        StorageProblem::NotFound => lost("it does not exist".to_owned()),
        StorageProblem::Fault(FaultKind::Damage) => lost(error.source.to_string()),
        _ => error.into(),
    })?;
    let found = Digest::of(&record);
    if found != row.digest {
        let what = format!("it has the digest {found} instead of {}", row.digest);
        return Err(lost(what));
    }
    Ok(record)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::objects::SimulatedStorage;
    use crate::ready;

    const RANGE_BITS: u32 = 12;

    fn range_bits() -> RangeBits {
        RangeBits::new(RANGE_BITS).unwrap()
    }

    fn summary(head: u64) -> RangeSummary {
        RangeSummary {
            head: Head(head),
            count: 3,
            stored: 2,
            digest: Digest::of(&head.to_le_bytes()),
        }
    }

    /// A part of ranges of layer 3 in a storage, and where they are.
    fn written() -> (SimulatedStorage, Vec<(Head, RangeRow)>) {
        let mut part = PartBuilder::default();
        for (head, record) in [(0b11, &b"eleven"[..]), (0b100, b"a hundred")] {
            let mut summary = summary(head);
            summary.digest = Digest::of(record);
            part.push(summary, record);
        }
        let (bytes, placed) = part.finish();
        let place_of = |placed: PlacedRange| RangeRow {
            lease: 5,
            offset: placed.offset,
            length: placed.length,
            replicas: 1,
            count: 3,
            stored: 2,
            digest: placed.summary.digest,
            layer: 3,
        };
        let all = placed.into_iter();
        let all = all.map(|one| (one.summary.head, place_of(one)));
        let all: Vec<_> = all.collect();
        let storage = SimulatedStorage::new(0);
        storage.overwrite(&all[0].1.part().key(), bytes);
        (storage, all)
    }

    /// A record that is read is the one of the journal, or an error says that it is lost.
    #[test]
    fn records_are_read_as_they_were_written_or_lost() {
        let (storage, rows) = written();
        let read = ready(read_records(&storage, &rows));
        let read: Vec<Bytes> = read.into_iter().map(Result::unwrap).collect();
        assert_eq!(read, [&b"eleven"[..], b"a hundred"]);
        for (number, (head, row)) in rows.iter().enumerate() {
            let key = row.part().key();
            let is_lost = |storage: &SimulatedStorage, head: Head, row: &RangeRow| {
                let error = ready(read_record(storage, head, row)).unwrap_err();
                let lost = matches!(&error, StoreError::Lost { head: lost, .. } if *lost == head);
                assert!(lost, "{error:?}");
            };
            assert_eq!(
                ready(read_record(&storage, *head, row)).unwrap(),
                read[number]
            );
            let end = (row.offset + row.length) as usize;
            for at in row.offset as usize..end {
                let (storage, _) = written();
                assert!(storage.flip_bit(&key, at, 3));
                is_lost(&storage, *head, row);
            }
            let (cut, _) = written();
            assert!(cut.truncate(&key, end - 1));
            is_lost(&cut, *head, row);
            is_lost(&storage, *head, &RangeRow { lease: 6, ..*row });
        }
    }

    #[test]
    fn what_no_part_can_have_is_refused() {
        let good = PlacedRange {
            summary: summary(1),
            offset: 16,
            length: 40,
        };
        let most = losing_max(range_bits());
        let longest = u32::try_from(max_record_len(range_bits())).unwrap();
        let end = u32::try_from(BYTES_MAX).unwrap();
        let with = |count, stored| PlacedRange {
            summary: RangeSummary {
                count,
                stored,
                ..summary(1)
            },
            ..good
        };
        let headed = |head_bits: u32| PlacedRange {
            summary: summary(1 << (head_bits - 1)),
            ..good
        };
        let at = |offset| PlacedRange { offset, ..good };
        let of_length = |length| PlacedRange { length, ..good };
        for (placed, fits) in [
            (good, true),
            (with(most, most), true),
            (with(most + 1, 1), false),
            (with(2, 3), false),
            (headed(HEAD_BITS_MAX), true),
            (headed(HEAD_BITS_MAX + 1), false),
            (at(15), false),
            (at(end - 40), true),
            (at(end - 39), false),
            (of_length(0), false),
            (of_length(longest), true),
            (of_length(longest + 1), false),
        ] {
            assert_eq!(placed.validate(range_bits()).is_ok(), fits, "{placed:?}");
        }
    }

    #[test]
    #[should_panic(expected = "within its limits")]
    fn a_part_has_no_more_ranges_than_it_may() {
        let mut part = PartBuilder::default();
        for head in 0..=RANGES_MAX as u64 {
            part.push(summary(head), b"r");
        }
    }
}
