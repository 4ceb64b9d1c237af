//! Value shards: the files of a published table of values.
//!
//! A shard holds the values of 2^s consecutive ranks of one area, in frames of 2^f ranks; the last shard of an area may
//! have fewer ranks. A frame holds the values of the representatives among its ranks, in order: one byte for each
//! mirror pair. The place of a value follows from ranks alone: count the representatives from the start of the frame.
//!
//! ```text
//! header frame  4  0x184D2A50, a skippable frame of zstd
//!               4  12, the length of what follows
//!               8  "chompvsd"
//!               4  format version, 1
//! data frames   …  each one zstd frame, with a checksum and its length, of its values; no bytes if it has none
//! index frame   4  0x184D2A51, a skippable frame of zstd
//!               4  the length of what follows
//!               8  "chompvix"
//!               4  format version, 1
//!               4  area
//!               8  the first rank
//!               4  f
//!               4  n, the number of data frames; for each:
//!               4      its length in bytes
//!              32      SHA-256 of its bytes
//! ```
//!
//! All integers are little-endian. `zstd -d` gives the values of the shard. The manifest has the SHA-256 of the shard
//! and of its index frame, the index that of each data frame: what was read is checked before it is used.
//!
//! Limits: f at most 14, s from f to f + 10; so at most 1,024 data frames. This program writes f = 14 and s = 24.
//!
//! Version history: 1 is the first.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, DigestBuilder};
use crate::format::{Damage, FormatError, ensure};
use crate::gaps;
use crate::manifest::bounded::at_most;
use crate::partition::{AREA_MAX, Partition, Walk, count};
use crate::shard::{
    self as words, HEADER_LENGTH, Index, SkippableFrame, check_digest, shard_name, slice_of,
};

pub(crate) const HEADER: SkippableFrame = SkippableFrame {
    what: "a value shard",
    name: *b"chompvsd",
    version: 1,
    ..words::HEADER
};
const INDEX: SkippableFrame = SkippableFrame {
    what: "a value shard index",
    name: *b"chompvix",
    version: 1,
    ..words::INDEX
};
const INDEX_FIXED_LENGTH: u64 = 8 + 12 + 20;
const ENTRY_LENGTH: u64 = 36;

/// The numbers of ranks of a frame and of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueShardSize {
    /// A frame is of 2^`frame_bits` ranks.
    pub frame_bits: u32,
    /// A shard is of 2^`shard_bits` ranks.
    pub shard_bits: u32,
}

impl ValueShardSize {
    /// The size of published tables. It is also the largest that can be read.
    pub const PUBLISHED: ValueShardSize = ValueShardSize {
        frame_bits: 14,
        shard_bits: 24,
    };

    /// Whether this is within the limits.
    pub fn is_valid(self) -> bool {
        let most = ValueShardSize::PUBLISHED;
        let frames = self.shard_bits.checked_sub(self.frame_bits);
        self.frame_bits <= most.frame_bits
            && frames.is_some_and(|frames| frames <= most.shard_bits - most.frame_bits)
    }

    /// The shards of a table of `tiles` tiles, in their order: by area, then by ranks.
    pub fn spans(self, tiles: u32) -> impl Iterator<Item = ShardSpan> {
        (1..=tiles).flat_map(move |area| self.spans_of(area))
    }

    /// The shards of one area.
    pub fn spans_of(self, area: u32) -> impl Iterator<Item = ShardSpan> {
        let starts = (0..count(area)).step_by(1 << self.shard_bits);
        starts.map(move |start| ShardSpan {
            area,
            ranks: start..count(area).min(start + (1 << self.shard_bits)),
            frame_bits: self.frame_bits,
        })
    }
}

/// The area and ranks of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct ShardSpan {
    pub area: u32,
    pub ranks: Range<u64>,
    pub frame_bits: u32,
}

impl ShardSpan {
    fn len(&self) -> u64 {
        self.ranks.end - self.ranks.start
    }

    /// The number of frames.
    pub fn frames(&self) -> usize {
        let frames = self.len().div_ceil(1 << self.frame_bits);
        usize::try_from(frames).expect("at most 1,024")
    }

    /// The ranks of a frame.
    pub fn frame(&self, number: usize) -> Range<u64> {
        let start = self.ranks.start + ((number as u64) << self.frame_bits);
        start..self.ranks.end.min(start + (1 << self.frame_bits))
    }

    /// The frame that has `rank`, and the number of values before its value in the frame. `rank` is that of a
    /// representative.
    pub(super) fn find(&self, rank: u64) -> (usize, usize) {
        let frame = usize::try_from((rank - self.ranks.start) >> self.frame_bits);
        let frame = frame.expect("at most 1,024 frames");
        let first = self.frame(frame).start;
        let before = (first..rank).zip(Walk::from(self.area, first));
        let before = before.filter(|(_, positions)| *positions > 0).count();
        (frame, before)
    }

    /// Writes the values that the shard stores to `area`, which has a value for each rank of the area: each of them for
    /// both positions of a mirror pair. Panics if `stored` has too few values, or `area` too few ranks.
    pub fn spread(&self, stored: &[u8], area: &mut [u8]) {
        let mut position = Partition::at(self.area, self.ranks.start);
        let mut stored = stored.iter();
        for rank in self.ranks.clone() {
            let mirror = position.mirror();
            if position <= mirror {
                let value = stored.next().expect("a value for each mirror pair");
                for rank in [rank, mirror.rank()] {
                    area[usize::try_from(rank).expect("a rank in memory")] = *value;
                }
            }
            position.advance();
        }
    }

    fn index_length(&self) -> u64 {
        INDEX_FIXED_LENGTH + ENTRY_LENGTH * self.frames() as u64
    }
}

/// A shard, as a manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct ValueShardInfo {
    pub name: String,
    pub stored: u64,
    pub bytes: u64,
    pub sha256: Digest,
    /// Where the index frame starts; it ends with the file.
    pub index_offset: u64,
    pub index_sha256: Digest,
    /// The leaf of the fingerprint: SHA-256 of the values, one byte each.
    pub values_sha256: Digest,
    /// Index v holds how many positions with the value v have their representative here; the last number is not 0.
    #[serde(deserialize_with = "at_most::<_, _, { AREA_MAX as usize }>")]
    pub positions_by_value: Vec<u64>,
}

impl ValueShardInfo {
    /// Fails if the shard has more or fewer bytes or values than these ranks can have.
    pub fn check(&self, span: &ShardSpan) -> Result<(), Damage> {
        let frame_max = gaps::frame_len_max(1 << span.frame_bits);
        let data = self.index_offset.checked_sub(HEADER_LENGTH);
        let end = self.index_offset.checked_add(span.index_length());
        ensure(
            data.is_some_and(|data| data <= frame_max * span.frames() as u64)
                && end == Some(self.bytes),
            || format!("{} has a length that it cannot have", self.name),
        )?;
        let counts = &self.positions_by_value;
        let sum = counts.iter().try_fold(0u64, |sum, &n| sum.checked_add(n));
        let twice = self.stored.saturating_mul(2);
        ensure(
            self.stored <= span.len()
                && sum.is_some_and(|sum| (self.stored..=twice).contains(&sum))
                && counts.len() <= span.area as usize
                && counts.last() != Some(&0),
            || format!("{} counts values that it cannot have", self.name),
        )
    }
}

/// Writes one shard into memory.
#[derive(Debug)]
pub struct ValueShardWriter {
    number: usize,
    span: ShardSpan,
    bytes: Vec<u8>,
    frames: Vec<(u32, Digest)>,
    walk: Walk,
    rank: u64,
    /// The values of the frame that is not full yet.
    values: Vec<u8>,
    tally: ShardTally,
}

/// The counts and the leaf of the values of a shard.
#[derive(Debug, Default)]
struct ShardTally {
    stored: u64,
    positions: Vec<u64>,
    leaf: DigestBuilder,
}

impl ShardTally {
    fn add(&mut self, value: u8, positions: u64) {
        let value = usize::from(value);
        if self.positions.len() <= value {
            self.positions.resize(value + 1, 0);
        }
        self.positions[value] += positions;
        self.stored += 1;
    }
}

impl ValueShardWriter {
    /// The shard at `span`, which is number `number` of its table, counted from 0.
    pub fn new(number: usize, span: ShardSpan) -> ValueShardWriter {
        let mut bytes = Vec::new();
        HEADER.write(&[], &mut bytes);
        ValueShardWriter {
            number,
            bytes,
            frames: Vec::new(),
            walk: Walk::from(span.area, span.ranks.start),
            rank: span.ranks.start,
            span,
            values: Vec::new(),
            tally: ShardTally::default(),
        }
    }

    /// Takes the values of the next ranks, both of each mirror pair. Panics if they are too many, or one is not below
    /// the area.
    pub fn push(&mut self, values: &[u8]) {
        check_values(self.span.area, values).expect("values of the area");
        for &value in values {
            assert!(
                self.rank < self.span.ranks.end,
                "no more ranks than the shard has"
            );
            let positions = self.walk.next().expect("a position for each rank");
            if positions > 0 {
                self.tally.add(value, positions);
                self.values.push(value);
            }
            self.rank += 1;
            if self.rank == self.span.frame(self.frames.len()).end {
                self.finish_frame();
            }
        }
    }

    fn finish_frame(&mut self) {
        self.tally.leaf.push(&self.values);
        let frame = if self.values.is_empty() {
            Vec::new()
        } else {
            gaps::compress(&self.values, self.values.len())
        };
        let length = u32::try_from(frame.len()).expect("little more than 2^14 bytes");
        self.frames.push((length, Digest::of(&frame)));
        self.bytes.extend_from_slice(&frame);
        self.values.clear();
    }

    /// The finished shard. Panics if ranks are missing.
    pub fn finish(mut self) -> (ValueShardInfo, Vec<u8>) {
        assert_eq!(self.rank, self.span.ranks.end, "ranks are missing");
        let index_offset = self.bytes.len() as u64;
        let index = index_frame(&self.span, &self.frames);
        self.bytes.extend_from_slice(&index);
        let info = ValueShardInfo {
            name: shard_name(self.number),
            stored: self.tally.stored,
            bytes: self.bytes.len() as u64,
            sha256: Digest::of(&self.bytes),
            index_offset,
            index_sha256: Digest::of(&index),
            values_sha256: self.tally.leaf.finish(),
            positions_by_value: self.tally.positions,
        };
        (info, self.bytes)
    }
}

/// Whether all values are below the area, as those of its positions are.
fn check_values(area: u32, values: &[u8]) -> Result<(), Damage> {
    let largest = values.iter().fold(0, |largest, &value| value.max(largest));
    ensure(u32::from(largest) < area, || {
        format!("the value {largest} where all are below {area}")
    })
}

fn index_frame(span: &ShardSpan, frames: &[(u32, Digest)]) -> Vec<u8> {
    let count = u32::try_from(frames.len()).expect("at most 1,024 frames");
    let mut content = span.area.to_le_bytes().to_vec();
    content.extend(span.ranks.start.to_le_bytes());
    content.extend(span.frame_bits.to_le_bytes());
    content.extend(count.to_le_bytes());
    for (length, digest) in frames {
        content.extend(length.to_le_bytes());
        content.extend(digest.0);
    }
    let mut index = Vec::new();
    INDEX.write(&content, &mut index);
    index
}

/// The index of a shard: where its frames are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueShardIndex {
    span: ShardSpan,
    /// Where each frame starts, and the last one ends.
    offsets: Vec<u64>,
    digests: Vec<Digest>,
}

impl ValueShardIndex {
    /// The index in `frame`, the shard from `info.index_offset` on. Fails if it is not that of the shard at `span`.
    pub fn parse(
        frame: &[u8],
        info: &ValueShardInfo,
        span: &ShardSpan,
    ) -> Result<ValueShardIndex, FormatError> {
        check_digest("the index", frame, info.index_sha256)?;
        let mut fields = INDEX.read(frame)?;
        let (area, first) = (fields.u32()?, fields.u64()?);
        let (frame_bits, count) = (fields.u32()?, fields.u32()?);
        ensure(
            (area, first, frame_bits) == (span.area, span.ranks.start, span.frame_bits)
                && count as usize == span.frames()
                && frame.len() as u64 == span.index_length(),
            || "the index is that of other ranks",
        )?;
        let mut offsets = vec![HEADER_LENGTH];
        let mut digests = Vec::with_capacity(span.frames());
        let mut end = HEADER_LENGTH;
        for number in 0..span.frames() {
            let length = u64::from(fields.u32()?);
            let ranks = span.frame(number);
            ensure(
                length <= gaps::frame_len_max(ranks.end - ranks.start),
                || format!("frame {number} of the index has {length} bytes"),
            )?;
            end += length;
            offsets.push(end);
            digests.push(Digest(fields.array()?));
        }
        ensure(
            end == info.index_offset,
            || "the frames of the index do not end where it starts",
        )?;
        Ok(ValueShardIndex {
            span: span.clone(),
            offsets,
            digests,
        })
    }
}

impl Index for ValueShardIndex {
    type Entry = u8;

    fn memory(&self) -> usize {
        // An offset and a digest for each frame, and a last offset.
        size_of::<ValueShardIndex>() + self.span.frames() * (8 + 32) + 8
    }

    fn location(&self, number: usize) -> Range<u64> {
        self.offsets[number]..self.offsets[number + 1]
    }

    fn decode_frame(&self, number: usize, bytes: &[u8]) -> Result<Vec<u8>, FormatError> {
        check_digest(&format!("frame {number}"), bytes, self.digests[number])?;
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let ranks = self.span.frame(number);
        let values = gaps::decompress(bytes, ranks.end - ranks.start)?;
        ensure(!values.is_empty(), || {
            format!("frame {number} is empty and has bytes")
        })?;
        check_values(self.span.area, &values)?;
        Ok(values)
    }
}

/// The values of all representatives of a shard, after a check of every byte. Fails if `bytes` are not the shard that
/// `info` describes, at `span`.
pub fn decode_shard(
    bytes: &[u8],
    info: &ValueShardInfo,
    span: &ShardSpan,
) -> Result<Vec<u8>, FormatError> {
    check_digest("the shard", bytes, info.sha256)?;
    let slice = |range| slice_of(bytes, range);
    HEADER.read(slice(0..HEADER_LENGTH)?)?;
    let index = slice(info.index_offset..bytes.len() as u64)?;
    let index = ValueShardIndex::parse(index, info, span)?;

    let mut walk = Walk::from(span.area, span.ranks.start);
    let mut tally = ShardTally::default();
    let mut all = Vec::new();
    for number in 0..span.frames() {
        let values = index.decode_frame(number, slice(index.location(number))?)?;
        let ranks = span.frame(number);
        let positions = ranks.zip(walk.by_ref()).map(|(_, positions)| positions);
        let positions: Vec<u64> = positions.filter(|&positions| positions > 0).collect();
        ensure(positions.len() == values.len(), || {
            format!(
                "frame {number} has {} values of {}",
                values.len(),
                positions.len()
            )
        })?;
        for (&value, &positions) in values.iter().zip(&positions) {
            tally.add(value, positions);
        }
        tally.leaf.push(&values);
        all.extend(values);
    }
    ensure(
        tally.stored == info.stored
            && tally.positions == info.positions_by_value
            && tally.leaf.finish() == info.values_sha256,
        || "the values are not those that the manifest counts",
    )?;
    Ok(all)
}
