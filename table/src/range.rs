//! A range: what evaluating one head gives, and its bytes, the **range record**.
//!
//! ```text
//!  0   8  "chomprng"
//!  8   4  format version, 1
//! 12   4  range bits b
//! 16   8  head
//! 24   8  edges
//! 32   8  count: the number of losing positions
//! 40  32  digest: SHA-256 of the bytes 0 to 39, then the gap block
//! 72   8  length of the frame
//! 80   …  the gap block of the indices, as one zstd frame (see the module `gaps`)
//! ```
//!
//! All integers are little-endian. The digest is taken before compression, so it depends on the
//! format version, b and the head alone: whoever evaluates a range gets the same one. Bytes of
//! zstd's own framing may change without a change of content; a store that wants to notice keeps
//! a digest of the whole record.
//!
//! Limits: b from 12 to 32, count at most [`losing_max`], a record at most [`max_record_len`] bytes.
//!
//! Version history: 1 is the first.

use crate::digest::Digest;
use crate::format::{Damage, Fields, FormatError, ensure};
use crate::gaps;
use crate::head::{Head, RangeBits};

const MAGIC: [u8; 8] = *b"chomprng";
/// The version of the range format.
pub const VERSION: u32 = 1;
/// The part of the header that the digest covers.
const PREFIX_LENGTH: usize = 40;
const HEADER_LENGTH: usize = 80;

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
    /// The digest of the content.
    pub digest: Digest,
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
    HEADER_LENGTH as u64 + gaps::frame_len_max(block_len_max(range_bits))
}

const fn block_len_max(range_bits: RangeBits) -> u64 {
    gaps::block_len_max(losing_max(range_bits), range_bits.positions())
}

/// The record of `range`, and its summary.
///
/// # Panics
///
/// If `range` is not a range with `range_bits`: such a record could not be read back.
pub fn encode(range: &Range, range_bits: RangeBits) -> (RangeSummary, Vec<u8>) {
    let count = range.losing.len();
    let block = gaps::encode(range.losing.iter().map(|&index| u64::from(index)));
    let header = Header {
        head: range.head,
        edges: range.edges,
        count: count as u64,
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

    let prefix = header.prefix(range_bits);
    let digest = Digest::of_parts(&[&prefix, &block]);
    let frame = gaps::compress(&block, count);
    let mut record = Vec::with_capacity(HEADER_LENGTH + frame.len());
    record.extend_from_slice(&prefix);
    record.extend_from_slice(&digest.0);
    record.extend_from_slice(&(frame.len() as u64).to_le_bytes());
    record.extend_from_slice(&frame);
    (header.summary(digest), record)
}

/// The summary in the header of `record`, whose lengths are checked, but not its content.
///
/// # Errors
///
/// If this is not a record of a range with `range_bits`, as far as the header tells.
pub fn summary(record: &[u8], range_bits: RangeBits) -> Result<RangeSummary, FormatError> {
    let (header, digest, _) = Header::parse(record, range_bits)?;
    Ok(header.summary(digest))
}

/// The range in `record`, of which everything is checked, and its summary.
///
/// Takes memory in proportion to the record, and never more than a range with `range_bits` can
/// need: the block and the positions.
///
/// # Errors
///
/// If this is not a record of a range with `range_bits`.
pub fn decode(record: &[u8], range_bits: RangeBits) -> Result<(RangeSummary, Range), FormatError> {
    decode_as(record, range_bits, index).map(Contents::range)
}

/// The same with each index in the form that `from` gives it. Whatever it makes of them is of no
/// use if the result is an error: they may be too large then.
///
/// # Errors
///
/// As [`decode`].
pub fn decode_as<T: Copy + Default>(
    record: &[u8],
    range_bits: RangeBits,
    from: impl FnMut(u64) -> T,
) -> Result<Contents<T>, FormatError> {
    decode_if(record, range_bits, from, |header, digest, block| {
        let found = Digest::of_parts(&[&header.prefix(range_bits), block]);
        ensure(found == digest, || {
            format!("the content has the digest {found} instead of {digest}")
        })
    })
}

/// The same as [`decode`] for a record that was found to be right before, and is the same by a
/// digest of all its bytes. The digest of the content is not checked again: it is most of the work.
///
/// # Errors
///
/// If this is not a record of a range with `range_bits`, as far as its form tells.
pub fn decode_known(
    record: &[u8],
    range_bits: RangeBits,
) -> Result<(RangeSummary, Range), FormatError> {
    let contents = decode_if(record, range_bits, index, |_, _, _| Ok(()));
    Ok(contents?.range())
}

/// What a record holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents<T> {
    /// What is known of the range without its positions.
    pub summary: RangeSummary,
    /// The edges of the [`Range`].
    pub edges: u64,
    /// The losing positions, ascending.
    pub losing: Vec<T>,
}

impl Contents<u32> {
    fn range(self) -> (RangeSummary, Range) {
        let range = Range {
            head: self.summary.head,
            losing: self.losing,
            edges: self.edges,
        };
        (self.summary, range)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a range has at most 2^31 positions"
)]
fn index(index: u64) -> u32 {
    index as u32
}

fn decode_if<T: Copy + Default>(
    record: &[u8],
    range_bits: RangeBits,
    mut from: impl FnMut(u64) -> T,
    check: impl FnOnce(&Header, Digest, &[u8]) -> Result<(), Damage>,
) -> Result<Contents<T>, FormatError> {
    let (header, digest, frame) = Header::parse(record, range_bits)?;
    let block = gaps::decompress(
        frame,
        gaps::block_len_max(header.count, range_bits.positions()),
    )?;
    check(&header, digest, &block)?;
    let mut has_first = false;
    let losing = gaps::decode(&block, header.count, range_bits.positions(), |index| {
        has_first |= index == 0;
        from(index)
    })?;
    check_edges(header.edges, has_first, range_bits)?;
    Ok(Contents {
        summary: header.summary(digest),
        edges: header.edges,
        losing,
    })
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
}

impl Header {
    fn prefix(&self, range_bits: RangeBits) -> [u8; PREFIX_LENGTH] {
        let mut prefix = [0; PREFIX_LENGTH];
        prefix[..8].copy_from_slice(&MAGIC);
        prefix[8..12].copy_from_slice(&VERSION.to_le_bytes());
        prefix[12..16].copy_from_slice(&range_bits.get().to_le_bytes());
        prefix[16..24].copy_from_slice(&self.head.0.to_le_bytes());
        prefix[24..32].copy_from_slice(&self.edges.to_le_bytes());
        prefix[32..].copy_from_slice(&self.count.to_le_bytes());
        prefix
    }

    /// The header of `record`, the digest of its content, and the frame.
    fn parse(record: &[u8], range_bits: RangeBits) -> Result<(Header, Digest, &[u8]), FormatError> {
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
        };
        header.check(range_bits)?;
        let digest = Digest(fields.array()?);
        let length = fields.u64()?;
        let frame = fields.rest();
        ensure(frame.len() as u64 == length, || {
            format!(
                "a frame of {} bytes where the header says {length}",
                frame.len()
            )
        })?;
        let block = gaps::block_len(frame)?;
        let longest = gaps::block_len_max(header.count, range_bits.positions());
        ensure((header.count..=longest).contains(&block), || {
            format!("a block of {block} bytes for {} positions", header.count)
        })?;
        Ok((header, digest, frame))
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
            digest,
        }
    }
}

#[cfg(test)]
mod tests;
