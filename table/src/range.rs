//! A range: what evaluating one head gives, and its bytes, the **range record**.
//!
//! ```text
//!  0   8  "chomprng"
//!  8   4  format version, 2
//! 12   4  range bits b
//! 16   8  head
//! 24   8  edges
//! 32   8  count: the number of losing positions
//! 40   8  stored: how many of them are not larger than their mirror image
//! 48  2n  for each bucket of 2^16 consecutive indices, n in all: the number of its losing positions
//!  …   …  the gaps of all buckets, one after the other
//! ```
//!
//! All integers are little-endian. An index is the low bits of a word, halved; a range has 2^(b-1), and so
//! n = 2^(b-17) buckets, at least one. A losing index is written as the number of winning ones since the losing one before
//! it in its bucket, or since the bucket's start: as many bytes 255 as 255 goes into that number, then a byte for the
//! rest. Losing positions are about one in 150, so most take one byte, and reading one takes
//! a few instructions without a branch.
//!
//! The digest of a range is the SHA-256 of its record. There is one record for each content, so whoever
//! evaluates a range gets the same digest.
//!
//! Limits: b from 12 to 32, count at most [`losing_max`], a record at most [`max_record_len`] bytes.
//!
//! Version history: 1 had gaps as zstd frames, half the size, ten times as slow. 2 is this one.

use crate::digest::Digest;
use crate::format::{Damage, Fields, FormatError, ensure};
use crate::head::{Head, RangeBits};

const MAGIC: [u8; 8] = *b"chomprng";
/// The version of the range format.
pub const VERSION: u32 = 2;
const HEADER_LENGTH: usize = 48;
/// The number of low bits of an index that say where it is in its bucket.
pub const BUCKET_BITS: u32 = 16;
/// A byte that stands for so many winning positions, and not for a losing one after them.
const SKIP: u8 = u8::MAX;
/// So many bytes are written at a time.
const SKIPS_AT_ONCE: usize = 8;
/// So many bytes are read at a time.
const GAPS_AT_ONCE: usize = 8;

/// The losing positions of one range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The head of the range.
    pub head: Head,
    /// The losing positions, ascending, each as the low bits of its word, halved.
    pub losing: Vec<u32>,
    /// Bit x, for 0 ≤ x ≤ b: whether the path head · 0^x · 1^(b-x) is a losing position.
    pub edges: u64,
}

/// What is known of a range without its positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeSummary {
    /// The head of the range.
    pub head: Head,
    /// The number of losing positions.
    pub count: u64,
    /// How many of them are not larger than their mirror image: a table stores these.
    pub stored: u64,
    /// The digest of the record.
    pub digest: Digest,
}

/// The losing positions of a range by buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    /// The low 16 bits of all indices, ascending within each bucket.
    pub lows: Vec<u16>,
    /// Where in `lows` each bucket begins, and where the last one ends.
    pub first: Vec<u32>,
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The head of the range.
    pub head: Head,
    /// The edges of the [`Range`].
    pub edges: u64,
    /// What the record says of the losing positions that are not larger than their mirror image. It is not
    /// counted here.
    pub stored: u64,
    /// The losing positions.
    pub losing: Buckets,
}

/// The most losing positions of a range with `range_bits`, so that a record that is made up takes
/// little more memory than a real one.
///
/// The fullest ranges have 6.2 % of their positions losing with 12 range bits, 3.2 % with 16, 2.3 %
/// with 20, 0.7 % with 32: this is more than three times as many.
pub const fn losing_max(range_bits: RangeBits) -> u64 {
    range_bits.positions() / (range_bits.get() as u64 - 8)
}

/// The longest record of a range with `range_bits`.
pub const fn max_record_len(range_bits: RangeBits) -> u64 {
    let skips = range_bits.positions() / SKIP as u64;
    HEADER_LENGTH as u64 + 2 * buckets(range_bits) + losing_max(range_bits) + skips
}

const fn buckets(range_bits: RangeBits) -> u64 {
    range_bits.positions().div_ceil(1 << BUCKET_BITS)
}

/// The record of `range`, and its summary.
///
/// # Panics
///
/// If `range` is not a range with `range_bits`: such a record could not be read back.
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
    let bounded = range
        .losing
        .last()
        .is_none_or(|&last| u64::from(last) < range_bits.positions());
    assert!(bounded, "an index lies beyond the range");
    let has_first = range.losing.first() == Some(&0);
    check_edges(range.edges, has_first, range_bits).expect("the edges agree with the positions");

    let buckets = usize::try_from(buckets(range_bits)).expect("at most 2^15");
    let skips = usize::try_from(range_bits.positions() / u64::from(SKIP)).expect("at most 2^23");
    let gaps_max = range.losing.len() + skips + SKIPS_AT_ONCE;
    let mut record = header.bytes(range_bits).to_vec();
    record.resize(HEADER_LENGTH + 2 * buckets + gaps_max, 0);
    let (counts, gaps) = record[HEADER_LENGTH..].split_at_mut(2 * buckets);
    let mut length = 0;
    let mut rest = &range.losing[..];
    for (bucket, count) in (0u32..).zip(counts.as_chunks_mut().0) {
        let these = bucket_len(rest, bucket);
        let (these, others) = rest.split_at(these);
        *count = u16::try_from(these.len())
            .expect("a range is nowhere full")
            .to_le_bytes();
        length += encode_bucket(these, bucket << BUCKET_BITS, &mut gaps[length..]);
        rest = others;
    }
    record.truncate(HEADER_LENGTH + 2 * buckets + length);
    (header.summary(Digest::of(&record)), record)
}

/// How many of the ascending `indices`, of which none lies before the bucket, lie in it.
fn bucket_len(indices: &[u32], bucket: u32) -> usize {
    // A bucket has no more than these, and nobody looks at the others.
    let window = &indices[..indices.len().min(1 << BUCKET_BITS)];
    window.partition_point(|&index| index >> BUCKET_BITS <= bucket)
}

/// Writes the gaps between `indices`, the first from `next` on, and returns how many bytes they take.
/// What follows these bytes is written to as well.
fn encode_bucket(indices: &[u32], mut next: u32, gaps: &mut [u8]) -> usize {
    let mut length = 0;
    for &index in indices {
        let gap = index
            .checked_sub(next)
            .expect("the positions of a range ascend");
        let mut skips = (gap / u32::from(SKIP)) as usize;
        let last = (gap % u32::from(SKIP)).to_le_bytes()[0];
        // How many there are cannot be foreseen, so some are written always, and stay if they are needed.
        while skips >= SKIPS_AT_ONCE {
            gaps[length..][..SKIPS_AT_ONCE].fill(SKIP);
            length += SKIPS_AT_ONCE;
            skips -= SKIPS_AT_ONCE;
        }
        let place = gaps[length..].first_chunk_mut::<SKIPS_AT_ONCE>();
        let place = place.expect("there is room for so many more than needed");
        *place = [SKIP; SKIPS_AT_ONCE];
        place[skips] = last;
        length += skips + 1;
        next = index + 1;
    }
    length
}

/// How many of the losing words of `range` are not larger than their mirror image.
fn stored(range: &Range, range_bits: RangeBits) -> u64 {
    let stored = if range.head.is_empty() {
        let words = range.losing.iter();
        let words = words.map(|&index| range.head.word(index.into(), range_bits));
        words.filter(|&word| word <= word.mirror()).count()
    } else {
        let bits = range.head.len() + range_bits.get();
        let head = range.head.0 << range_bits.get();
        let count = |sum, &index: &u32| {
            let word = head | u64::from(index) << 1;
            // The first byte of both tells nearly always.
            let first = (word >> (bits - u8::BITS)).to_le_bytes()[0];
            let mirrored = MIRRORED[word.to_le_bytes()[0] as usize];
            let decided = usize::from(first < mirrored);
            if first == mirrored {
                let mirror = (!word).reverse_bits() >> (u64::BITS - bits);
                sum + usize::from(word <= mirror)
            } else {
                sum + decided
            }
        };
        range.losing.iter().fold(0, count)
    };
    stored as u64
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

/// The summary of a record, whose header is checked, but not its content.
///
/// # Errors
///
/// If this is not a record of a range with `range_bits`, as far as the header tells.
pub fn summary(record: &[u8], range_bits: RangeBits) -> Result<RangeSummary, FormatError> {
    let (header, _) = Header::parse(record, range_bits)?;
    Ok(header.summary(Digest::of(record)))
}

/// The range in `record`, everything checked as by [`decode`], and the number of stored positions too: this is
/// the only record of the range.
///
/// # Errors
///
/// If this is not a record of a range with `range_bits`.
pub fn decode_range(record: &[u8], range_bits: RangeBits) -> Result<Range, FormatError> {
    let Contents {
        head,
        edges,
        stored: claimed,
        losing,
    } = decode(record, range_bits)?;
    let mut indices = Vec::with_capacity(losing.lows.len());
    for (bucket, run) in (0u32..).zip(losing.first.windows(2)) {
        let lows = &losing.lows[run[0] as usize..run[1] as usize];
        indices.extend(
            lows.iter()
                .map(|&low| bucket << BUCKET_BITS | u32::from(low)),
        );
    }
    let range = Range {
        head,
        losing: indices,
        edges,
    };
    let counted = stored(&range, range_bits);
    ensure(counted == claimed, || {
        format!("{counted} positions to store where the header says {claimed}")
    })?;
    Ok(range)
}

/// What is in `record`, whose form is checked. Whether it is the record that was meant, its digest
/// tells.
///
/// Takes memory in proportion to the record, and never more than a range with `range_bits` can
/// need.
///
/// # Errors
///
/// If this is not a record of a range with `range_bits`.
pub fn decode(record: &[u8], range_bits: RangeBits) -> Result<Contents, FormatError> {
    let (header, rest) = Header::parse(record, range_bits)?;
    let buckets = usize::try_from(buckets(range_bits)).expect("at most 2^15");
    let (counts, gaps) = rest
        .split_at_checked(2 * buckets)
        .ok_or_else(|| Damage::new("the record is cut short"))?;
    let mut first = Vec::with_capacity(buckets + 1);
    let mut total = 0u32;
    for &count in counts.as_chunks().0 {
        first.push(total);
        total += u32::from(u16::from_le_bytes(count));
    }
    first.push(total);
    ensure(u64::from(total) == header.count, || {
        format!(
            "{total} losing positions where the header says {}",
            header.count
        )
    })?;
    ensure(
        gaps.len() as u64 >= header.count,
        || "the record is cut short",
    )?;
    let lows = decode_gaps(gaps, &first, range_bits)?;
    let has_first = first[1] > 0 && lows[0] == 0;
    check_edges(header.edges, has_first, range_bits)?;
    Ok(Contents {
        head: header.head,
        edges: header.edges,
        stored: header.stored,
        losing: Buckets { lows, first },
    })
}

/// The low bits of the indices with these gaps; `first` says where each bucket begins.
fn decode_gaps(mut gaps: &[u8], first: &[u32], range_bits: RangeBits) -> Result<Vec<u16>, Damage> {
    let bucket_len = range_bits.positions().min(1 << BUCKET_BITS);
    let total = *first.last().expect("there is a bucket") as usize;
    let mut lows = vec![0; total];
    for run in first.windows(2) {
        let bucket = &mut lows[run[0] as usize..run[1] as usize];
        let end = decode_bucket(&mut gaps, bucket)?;
        ensure(end <= bucket_len, || "an index lies beyond its bucket")?;
    }
    ensure(gaps.is_empty(), || "the record is too long")?;
    Ok(lows)
}

/// Takes the gaps of one bucket; returns the index after its last, from the bucket's start.
fn decode_bucket(gaps: &mut &[u8], mut lows: &mut [u16]) -> Result<u64, Damage> {
    let mut next = 0;
    // Which bytes are skips cannot be foreseen: what each byte leads to is written always, and the next
    // one is written over it if it was a skip.
    while let Some((these, rest)) = gaps.split_first_chunk::<GAPS_AT_ONCE>()
        && let Some(places) = lows.first_chunk_mut::<GAPS_AT_ONCE>()
    {
        let mut found = 0;
        for &gap in these {
            next += u64::from(gap);
            places[found % GAPS_AT_ONCE] = low(next);
            found += usize::from(gap != SKIP);
            next += u64::from(gap != SKIP);
        }
        *gaps = rest;
        lows = &mut lows[found..];
    }
    while let Some(place) = lows.first_mut() {
        let (&gap, rest) = gaps
            .split_first()
            .ok_or_else(|| Damage::new("the record is cut short"))?;
        *gaps = rest;
        next += u64::from(gap);
        *place = low(next);
        if gap != SKIP {
            next += 1;
            lows = &mut lows[1..];
        }
    }
    Ok(next)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low bits are what is asked for, and the others are checked"
)]
fn low(index: u64) -> u16 {
    index as u16
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

    /// The header of `record`, and what follows it.
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
        ensure(self.head.len() + bits <= u64::BITS, || {
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
