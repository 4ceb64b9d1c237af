//! A part: the result of one evaluation task, the records of some ranges of one layer.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `chomppar` |
//! | 8 | 4 | format version, 2 |
//! | 12 | 4 | 0 |
//! | 16 | … | the [records](chomp_table::range) of the ranges, one after the other, heads ascending |
//!
//! A part does not say where its records are: the journal does, and it has their digests. A part that
//! no segment of the journal names is an orphan; it goes when the table is published.
//!
//! Limits: [`RANGES_MAX`] ranges and [`BYTES_MAX`] bytes. Versions: 2, the first of this layout.

use bytes::Bytes;
use chomp_table::format::Damage;
use chomp_table::head::HEAD_BITS_MAX;
use chomp_table::range::{losing_max, max_record_len};
use chomp_table::{Digest, Head, RangeBits, RangeSummary};

use crate::StoreError;
use crate::keys;
use crate::ledger::Place;
use crate::objects::{Key, Storage, StorageError};

/// The most ranges that a part may have.
pub const RANGES_MAX: usize = 1 << 12;
/// The most bytes that a part may have: putting one takes this much memory.
pub const BYTES_MAX: u64 = 1 << 28;

const HEADER: [u8; 16] = *b"chomppar\x02\0\0\0\0\0\0\0";
/// What a part has before the first record.
pub const HEADER_BYTES: u64 = HEADER.len() as u64;

/// Which part: the task's layer, and the lease under which it was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartName {
    /// The layer of its ranges.
    pub layer: u32,
    /// The lease. No two tasks have the same, whoever coordinates them.
    pub lease: u64,
}

impl PartName {
    /// The key of the part.
    pub fn key(self) -> Key {
        keys::part(self)
    }

    /// The part that has this key, if one can have it.
    pub fn of(key: &Key) -> Option<PartName> {
        keys::part_name(key)
    }
}

/// A range of a part, and where its record is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The range.
    pub summary: RangeSummary,
    /// The first byte of the record.
    pub offset: u32,
    /// The bytes of the record.
    pub length: u32,
}

impl Placed {
    /// Whether a range with `range_bits` can be this, and its record can be there.
    ///
    /// # Errors
    ///
    /// If it has more positions, or a longer record, than a range can have, or lies outside a part.
    pub fn check(&self, range_bits: RangeBits) -> Result<(), Damage> {
        let RangeSummary {
            head,
            count,
            stored,
            ..
        } = self.summary;
        if head.len() > HEAD_BITS_MAX || head.len() + range_bits.get() > u64::BITS {
            return Err(Damage::new(format!("range {head} is not of this table")));
        }
        let most = losing_max(range_bits);
        if stored > count || count > most {
            return Err(Damage::new(format!(
                "range {head} with {count} losing positions, {stored} of them stored, where {most} are possible"
            )));
        }
        let (start, length) = (u64::from(self.offset), u64::from(self.length));
        let fits = HEADER_BYTES <= start && start + length <= BYTES_MAX;
        if !fits || !(1..=max_record_len(range_bits)).contains(&length) {
            return Err(Damage::new(format!(
                "the record of range {head} cannot be at {start} with {length} bytes"
            )));
        }
        Ok(())
    }
}

/// A part that is being filled.
#[derive(Clone, Debug)]
pub struct PartBuilder {
    bytes: Vec<u8>,
    placed: Vec<Placed>,
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
    /// Adds the record of a range, whose head is larger than those before.
    ///
    /// # Panics
    ///
    /// If the part becomes too large: a task is cut so that its part does not.
    pub fn push(&mut self, summary: RangeSummary, record: &[u8]) {
        let last = self.placed.last().map(|placed| placed.summary.head);
        assert!(last < Some(summary.head), "the heads of a part ascend");
        let size = |bytes: usize| u32::try_from(bytes).expect("a part is smaller than 4 GiB");
        self.placed.push(Placed {
            summary,
            offset: size(self.bytes.len()),
            length: size(record.len()),
        });
        self.bytes.extend_from_slice(record);
        let fits = self.placed.len() <= RANGES_MAX && self.bytes.len() as u64 <= BYTES_MAX;
        assert!(fits, "a part of a task is within its limits");
    }

    /// The bytes of the part, and where its records are.
    pub fn finish(self) -> (Bytes, Vec<Placed>) {
        (self.bytes.into(), self.placed)
    }
}

/// The record of the range at `place`, of which every byte is as the journal says.
///
/// # Errors
///
/// [`StoreError::Lost`] if it is not; [`StoreError::Storage`] if the storage fails otherwise.
pub async fn read_record(
    storage: &dyn Storage,
    head: Head,
    place: &Place,
) -> Result<Bytes, StoreError> {
    let mut read = read_records(storage, &[(head, *place)]).await;
    read.pop().expect("one was read")
}

/// The records of ranges, each as [`read_record`] reads it, in this order.
pub async fn read_records(
    storage: &dyn Storage,
    places: &[(Head, Place)],
) -> Vec<Result<Bytes, StoreError>> {
    let parts = places.iter().map(|(head, place)| {
        let start = u64::from(place.offset);
        let end = start + u64::from(place.length);
        (place.part(*head).key(), start..end)
    });
    let reads = storage.read_each(parts.collect()).await;
    let places = places.iter().zip(reads);
    let checked = places.map(|((head, place), read)| check(*head, place, read));
    checked.collect()
}

fn check(
    head: Head,
    place: &Place,
    read: Result<Bytes, StorageError>,
) -> Result<Bytes, StoreError> {
    let lost = |what| StoreError::Lost {
        head,
        key: place.part(head).key(),
        what,
    };
    let record = match read {
        Ok(record) => record,
        Err(StorageError::NotFound { .. }) => return Err(lost("it does not exist".to_owned())),
        Err(error) => match error.unfit() {
            Some(unfit) => return Err(lost(unfit.to_string())),
            None => return Err(error.into()),
        },
    };
    let found = Digest::of(&record);
    if found != place.digest {
        let what = format!("it has the digest {found} instead of {}", place.digest);
        return Err(lost(what));
    }
    Ok(record)
}
