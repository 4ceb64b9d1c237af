//! A range: what evaluating one head gives, and its bytes, the **range record**.
//!
//! ```text
//!  0   8  "chomprng"
//!  8   4  format version, 3
//! 12   4  range bits b
//! 16   8  head
//! 24   8  edges
//! 32   8  count: the number of losing positions
//! 40   8  stored: how many of them are not larger than their mirror image
//! 48  2n  for each bucket of 2^16 consecutive indices, n in all: the number of its losing positions
//!  …   …  the highs of all buckets, one after the other
//!  …   …  the lows of all buckets: count bytes
//! ```
//!
//! All integers are little-endian. An index is the low bits of a word, halved; a range has 2^(b-1) indices, and so
//! n = 2^(b-17) buckets, at least one. Losing indices are in the Elias-Fano form. The 16 bits of an index within its
//! bucket have two bytes: the last one is its **low**, the other one its **high**. The highs of a bucket are one bit
//! string: for each high from 0 to the greatest of the bucket, a 1 for each losing index that has it, and then a 0. The
//! string is filled up with 0s to whole bytes, and the least bit of a byte comes first.
//!
//! About one position in 150 to 400 is losing, so each high has one or two losing indices, and an index takes 10 to 11
//! bits. A random set of this density needs 9 to 10. A reader of the highs needs one table, with an entry for each
//! byte.
//!
//! The digest of a range is the SHA-256 of its record. There is one record for each content, so all workers that
//! evaluate a range get the same digest.
//!
//! Limits: b from 12 to 32, count at most [`losing_max`], a record at most [`max_record_len`] bytes.
//!
//! Version history: 1 had gaps as zstd frames, ten times as slow. 2 had a byte for each gap and another for each 255 in
//! it, a quarter longer and 1.4 times as slow. 3 is this one.

mod highs;

use std::ops::BitOr;

pub use self::highs::BUCKET_BITS;
use crate::digest::Digest;
use crate::format::{Damage, Fields, FormatError, ensure};
use crate::head::{Head, RangeBits};

const MAGIC: [u8; 8] = *b"chomprng";
/// The version of the range format.
pub const VERSION: u32 = 3;
const HEADER_LENGTH: usize = 48;
/// The losing positions of one range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The head of the range.
    pub head: Head,
    /// The losing positions.
    pub losing: IndexBuckets,
    /// Bit x, for 0 ≤ x ≤ b: whether the path head · 0^x · 1^(b-x) is a losing position.
    pub edges: u64,
}

/// The head, the counts and the digest of a range, without its positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct RangeSummary {
    pub head: Head,
    pub count: u64,
    /// How many losing positions are not larger than their mirror image: a table stores these.
    pub stored: u64,
    pub digest: Digest,
}

/// The losing positions of a range, ascending, by buckets of 2^16 indices. An index is the low bits of a word, halved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexBuckets {
    /// All indices within their buckets, each as its last 16 bits; they ascend within each bucket.
    lows: Vec<u16>,
    /// The places in `lows` at which the buckets begin, and the one at which the last bucket ends. The last bucket is
    /// not empty, unless it is the only one.
    first: Vec<u32>,
}

impl Default for IndexBuckets {
    fn default() -> IndexBuckets {
        IndexBuckets {
            lows: Vec::new(),
            first: vec![0; 2],
        }
    }
}

impl IndexBuckets {
    /// Bucket i has the low bits from place `first[i]` to before `first[i + 1]` of `lows`. Panics if `first` does not
    /// begin with 0, ascend and end with the number of `lows`.
    pub fn new(lows: Vec<u16>, mut first: Vec<u32>) -> IndexBuckets {
        let ends = first.last().map(|&end| end as usize) == Some(lows.len());
        assert!(first.first() == Some(&0) && first.is_sorted() && ends);
        while let [.., last, end] = first[..]
            && first.len() > 2
            && last == end
        {
            first.pop();
        }
        first.resize(first.len().max(2), 0);
        IndexBuckets { lows, first }
    }

    /// From indices that ascend, each of them `start` too large. Panics if one is smaller than that, or the last one is
    /// 2^32 or more than that.
    pub fn from_ascending(indices: &[u32], start: u64) -> IndexBuckets {
        let mut first = vec![0];
        let mut done = 0;
        while done < indices.len() {
            let end = start + ((first.len() as u64) << BUCKET_BITS);
            let rest = &indices[done..];
            done += rest.partition_point(|&index| u64::from(index) < end);
            first.push(u32::try_from(done).expect("at most 2^31 positions"));
        }
        let [low, high, ..] = start.to_le_bytes();
        let start = u16::from_le_bytes([low, high]);
        let low = |index: &u32| {
            let [low, high, ..] = index.to_le_bytes();
            u16::from_le_bytes([low, high]).wrapping_sub(start)
        };
        first.resize(first.len().max(2), 0);
        IndexBuckets {
            lows: indices.iter().map(low).collect(),
            first,
        }
    }

    /// The number of losing positions.
    pub fn len(&self) -> usize {
        self.lows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lows.is_empty()
    }

    /// The last 16 bits of the indices of the bucket with this number.
    #[inline]
    pub fn bucket(&self, number: usize) -> &[u16] {
        match self.first.get(number..).unwrap_or_default() {
            [this, next, ..] => &self.lows[*this as usize..*next as usize],
            _ => &[],
        }
    }

    /// The number of buckets up to the last that has positions, or 1.
    pub fn bucket_count(&self) -> usize {
        self.first.len() - 1
    }

    /// Whether the position at this index is losing.
    pub fn contains(&self, index: u64) -> bool {
        let bucket = usize::try_from(index >> BUCKET_BITS).unwrap_or(usize::MAX);
        let [low, high, ..] = index.to_le_bytes();
        let found = self
            .bucket(bucket)
            .binary_search(&u16::from_le_bytes([low, high]));
        found.is_ok()
    }

    /// All indices.
    pub fn indices(&self) -> impl Iterator<Item = u32> {
        let buckets = (0..).zip(0..self.bucket_count());
        buckets.flat_map(|(high, number)| {
            let lows = self.bucket(number).iter();
            lows.map(move |&low| high << BUCKET_BITS | u32::from(low))
        })
    }

    /// The bytes of memory that the indices take.
    pub fn memory(&self) -> u64 {
        (size_of_val(&self.lows[..]) + size_of_val(&self.first[..])) as u64
    }
}

/// From ascending indices; panics if they fall back into an earlier bucket.
impl FromIterator<u32> for IndexBuckets {
    fn from_iter<I: IntoIterator<Item = u32>>(indices: I) -> IndexBuckets {
        let (mut lows, mut first) = (Vec::new(), vec![0]);
        for index in indices {
            let end = u32::try_from(lows.len()).expect("at most 2^31 positions");
            let bucket = (index >> BUCKET_BITS) as usize;
            while first.len() <= bucket {
                first.push(end);
            }
            assert_eq!(first.len(), bucket + 1, "the positions of a range ascend");
            let [low, high, ..] = index.to_le_bytes();
            lows.push(u16::from_le_bytes([low, high]));
        }
        first.push(u32::try_from(lows.len()).expect("at most 2^31 positions"));
        IndexBuckets { lows, first }
    }
}

/// The most losing positions of a record with `range_bits`, so that a forged record takes little more memory than a
/// real one. The fullest ranges have 6.2 % of their positions losing with 12 range bits, 3.2 % with 16, 2.3 % with 20,
/// 0.7 % with 32: the limit is more than three times as many.
pub const fn losing_max(range_bits: RangeBits) -> u64 {
    range_bits.positions() / (range_bits.get() as u64 - 8)
}

/// The longest record of a range with `range_bits`.
pub const fn max_record_len(range_bits: RangeBits) -> u64 {
    let fixed = 2 + highs::len(0, range_bits) as u64 + 1;
    let most = losing_max(range_bits);
    HEADER_LENGTH as u64 + fixed * buckets(range_bits) + most / 8 + most
}

const fn buckets(range_bits: RangeBits) -> u64 {
    range_bits.positions().div_ceil(1 << BUCKET_BITS)
}

/// The record of `range`, and its summary. Panics unless it is a range with `range_bits`: it could not be read back.
pub fn encode(range: &Range, range_bits: RangeBits) -> (RangeSummary, Vec<u8>) {
    let header = Header {
        head: range.head,
        edges: range.edges,
        count: range.losing.len() as u64,
        stored: stored(range, range_bits),
    };
    header
        .check(range_bits)
        .expect("head, edges and count are those of a range");
    let buckets = usize::try_from(buckets(range_bits)).expect("at most 2^15");
    let split = || (0..buckets).map(|number| range.losing.bucket(number));
    assert!(split().all(ascend), "the positions of a range ascend");
    let last = range.losing.bucket(buckets - 1).last();
    let beyond = last.is_some_and(|&low| u64::from(low) >= range_bits.positions());
    assert!(
        range.losing.bucket_count() <= buckets && !beyond,
        "an index lies beyond the range"
    );
    let has_first = range.losing.bucket(0).first() == Some(&0);
    check_edges(range.edges, has_first, range_bits).expect("the edges agree with the positions");

    let counts = split().map(<[u16]>::len);
    let counts = counts.map(|count| u16::try_from(count).expect("a range is nowhere full"));
    let counts: Vec<u16> = counts.collect();

    let highs = counts.iter().map(|&count| highs::len(count, range_bits));
    let length = HEADER_LENGTH + 2 * counts.len() + highs.sum::<usize>() + range.losing.len();
    let mut record = Vec::with_capacity(length);
    record.extend(header.bytes(range_bits));
    record.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
    for (these, &count) in split().zip(&counts) {
        highs::encode(these, highs::len(count, range_bits), &mut record);
    }
    record.extend(range.losing.lows.iter().map(|low| low.to_le_bytes()[0]));
    (header.summary(Digest::of(&record)), record)
}

/// Whether each index is larger than the one before. Nearly always they are, so the loop compares all, many at a time,
/// and does not stop early.
fn ascend<T: Ord>(indices: &[T]) -> bool {
    let next = indices.get(1..).unwrap_or_default();
    let falls = indices.iter().zip(next).map(|(one, next)| one >= next);
    !falls.fold(false, BitOr::bitor)
}

/// How many of the losing words of `range` are not larger than their mirror image.
fn stored(range: &Range, range_bits: RangeBits) -> u64 {
    let is_stored = |index: u32| {
        let word = range.head.word(index.into(), range_bits);
        word <= word.mirror()
    };
    if range.head.is_zero() {
        return range
            .losing
            .indices()
            .filter(|&index| is_stored(index))
            .count() as u64;
    }
    // The first bytes of a word and of its mirror image nearly always differ, and so decide which is smaller.
    let more = u8::BITS.saturating_sub(range.head.bit_len());
    let shared = range_bits.get() - 1 - more;
    let count = |start: u32, lows: &[u16]| {
        let bits = range.head.bit_len() + more;
        let first = (range.head.0 << more | u64::from(start >> shared)) >> (bits - u8::BITS);
        let [first, ..] = first.to_le_bytes();
        lows.iter().fold(0u32, |stored, &low| {
            let [last, ..] = (low << 1).to_le_bytes();
            let mirrored = MIRRORED[usize::from(last)];
            let tie = first == mirrored && is_stored(start | u32::from(low));
            stored + u32::from(first < mirrored) + u32::from(tie)
        })
    };
    let mut stored = 0;
    for (start, number) in (0..)
        .step_by(1 << BUCKET_BITS)
        .zip(0..range.losing.bucket_count())
    {
        let mut lows = range.losing.bucket(number);
        // A piece has the indices that agree in the bits from `shared` up, so its words have the same first byte.
        while let Some(&low) = lows.first() {
            let same = |&other: &u16| (other ^ low).checked_shr(shared).unwrap_or(0) == 0;
            let (piece, others) = lows.split_at(lows.partition_point(same));
            stored += u64::from(count(start | u32::from(low) >> shared << shared, piece));
            lows = others;
        }
    }
    stored
}

/// The first byte of the mirror image of a word whose last byte is the index.
const MIRRORED: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut byte = u8::MIN;
    loop {
        bytes[byte as usize] = (!byte).reverse_bits();
        if byte == u8::MAX {
            break bytes;
        }
        byte += 1;
    }
};

/// Fails if the header, which is all that is checked of `record`, is not that of a range with `range_bits`.
pub fn summary(record: &[u8], range_bits: RangeBits) -> Result<RangeSummary, FormatError> {
    let (header, _) = Header::parse(record, range_bits)?;
    Ok(header.summary(Digest::of(record)))
}

/// Checks everything, the number of stored positions too. Fails if `record` is not that of a range with `range_bits`.
pub fn decode(record: &[u8], range_bits: RangeBits) -> Result<Range, FormatError> {
    let (range, claimed) = decode_trusting_stored(record, range_bits)?;
    let counted = stored(&range, range_bits);
    ensure(counted == claimed, || {
        format!("{counted} positions to store where the header says {claimed}")
    })?;
    Ok(range)
}

/// As [`decode`], but with the number of stored positions as the record claims it: for records whose digest was
/// compared. Takes memory in proportion to the record, and never more than a range with `range_bits` can need.
pub fn decode_trusting_stored(
    record: &[u8],
    range_bits: RangeBits,
) -> Result<(Range, u64), FormatError> {
    let (header, rest) = Header::parse(record, range_bits)?;
    let buckets = usize::try_from(buckets(range_bits)).expect("at most 2^15");
    let (counts, rest) = rest
        .split_at_checked(2 * buckets)
        .ok_or_else(|| Damage::new("the record is cut short"))?;
    let counts = counts.as_chunks().0.iter();
    let counts: Vec<u16> = counts.map(|&count| u16::from_le_bytes(count)).collect();
    let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    ensure(total == header.count, || {
        format!(
            "{total} losing positions where the header says {}",
            header.count
        )
    })?;
    let lengths = counts.iter().map(|&count| highs::len(count, range_bits));
    let highs_len: usize = lengths.sum();
    let length = highs_len as u64 + total;
    ensure(rest.len() as u64 >= length, || "the record is cut short")?;
    ensure(rest.len() as u64 <= length, || "the record is too long")?;
    let (highs, lows) = rest.split_at(highs_len);
    let losing = decode_buckets(&counts, highs, lows, range_bits)?;
    let has_first = losing.bucket(0).first() == Some(&0);
    check_edges(header.edges, has_first, range_bits)?;
    let range = Range {
        head: header.head,
        losing,
        edges: header.edges,
    };
    Ok((range, header.stored))
}

/// The losing positions with these highs and lows, whose lengths follow from the counts.
fn decode_buckets(
    counts: &[u16],
    mut highs: &[u8],
    lows: &[u8],
    range_bits: RangeBits,
) -> Result<IndexBuckets, Damage> {
    let mut indices = vec![0; lows.len()];
    let mut first = vec![0];
    let mut done = 0;
    for &count in counts {
        let (these, others) = highs.split_at(highs::len(count, range_bits));
        let found = highs::decode(these, &lows[done..], &mut indices[done..]);
        ensure(
            found == Some(count.into()) && highs::is_ended(these, count, range_bits),
            || "the highs of a bucket are damaged",
        )?;
        let bucket = &indices[done..][..count.into()];
        ensure(ascend(bucket), || "the positions of a bucket do not ascend")?;
        highs = others;
        done += usize::from(count);
        first.push(u32::try_from(done).expect("at most 2^27 positions"));
    }
    Ok(IndexBuckets::new(indices, first))
}

/// Bit b of the edges and index 0 are the same position.
fn check_edges(edges: u64, has_first: bool, range_bits: RangeBits) -> Result<(), Damage> {
    let edge = edges >> range_bits.get() & 1 == 1;
    ensure(
        edge == has_first,
        || "the edges disagree with the first position",
    )
}

struct Header {
    head: Head,
    edges: u64,
    count: u64,
    stored: u64,
}

impl Header {
    fn bytes(&self, range_bits: RangeBits) -> [u8; HEADER_LENGTH] {
        let mut bytes = [0; HEADER_LENGTH];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&range_bits.get().to_le_bytes());
        bytes[16..24].copy_from_slice(&self.head.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.edges.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.count.to_le_bytes());
        bytes[40..].copy_from_slice(&self.stored.to_le_bytes());
        bytes
    }

    fn parse(record: &[u8], range_bits: RangeBits) -> Result<(Header, &[u8]), FormatError> {
        let mut fields = Fields::new("a range record", record);
        fields.version(MAGIC, VERSION)?;
        let bits = fields.u32()?;
        ensure(bits == range_bits.get(), || {
            format!("the record has {bits} range bits instead of {range_bits}")
        })?;
        let header = Header {
            head: Head(fields.u64()?),
            edges: fields.u64()?,
            count: fields.u64()?,
            stored: fields.u64()?,
        };
        header.check(range_bits)?;
        Ok((header, fields.rest()))
    }

    fn check(&self, range_bits: RangeBits) -> Result<(), Damage> {
        let (bits, positions) = (range_bits.get(), range_bits.positions());
        ensure(self.head.bit_len() + bits <= u64::BITS, || {
            format!("the head {} is too long", self.head)
        })?;
        ensure(self.edges >> bits <= 1, || {
            format!("the edges {:x} have a bit above b", self.edges)
        })?;
        let most = losing_max(range_bits);
        ensure(self.stored <= self.count, || {
            format!("{} of {} losing positions stored", self.stored, self.count)
        })?;
        ensure(self.count <= most, || {
            format!(
                "{} losing positions of {positions}, where {most} are possible",
                self.count
            )
        })
    }

    fn summary(&self, digest: Digest) -> RangeSummary {
        RangeSummary {
            head: self.head,
            count: self.count,
            stored: self.stored,
            digest,
        }
    }
}

#[cfg(test)]
mod tests;
