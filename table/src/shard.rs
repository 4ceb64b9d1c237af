//! Shards: the files of a published table. Each holds the next representative words, ascending.
//!
//! ```text
//! header frame  4  0x184D2A50, a skippable frame of zstd
//!               4  12, the length of what follows
//!               8  "chompshd"
//!               4  format version, 1
//! data frames   …  each one zstd frame of the class block of the next words, halved (see `classes`)
//! index frame   4  0x184D2A51, a skippable frame of zstd
//!               4  the length of what follows
//!               8  "chompidx"
//!               4  format version, 1
//!               4  n, the number of data frames; for each:
//!               8      its first word
//!               8      where it starts in the file
//!               4      the number of its words
//!               4      its length in bytes
//!              32      SHA-256 of its bytes
//! ```
//!
//! All integers are little-endian. Each data frame decodes alone. Stock zstd skips header and
//! index: `zstd -d` gives the class blocks, `zstd -t` tests them.
//!
//! Trust flows from the manifest, which holds the SHA-256 of the shard and of its index frame, to
//! the index, and from there to each data frame: what was read is checked before it is used.
//!
//! Limits: 1 to 65,536 words in a data frame, 1 to 4,194,304 in a shard. What this program writes
//! is full: only the last frame of a shard and the last shard of a table may hold fewer.
//!
//! Version history: 1 is the first.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::classes;
use crate::digest::Digest;
use crate::format::{Damage, Fields, FormatError, ensure};
use crate::gaps;

mod writer;

pub use writer::ShardWriter;

const HEADER_MAGIC: u32 = 0x184D_2A50;
const INDEX_MAGIC: u32 = 0x184D_2A51;
const HEADER_NAME: [u8; 8] = *b"chompshd";
const INDEX_NAME: [u8; 8] = *b"chompidx";
const VERSION: u32 = 1;
const HEADER_LENGTH: u64 = 20;
const ENTRY_LENGTH: usize = 56;

/// How many words go into a data frame and into a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardSize {
    /// The words of every data frame of a shard but its last.
    pub frame_words: usize,
    /// The words of every shard of a table but its last.
    pub shard_words: usize,
}

impl ShardSize {
    /// What published tables have. It is also the largest that can be read.
    pub const PUBLISHED: ShardSize = ShardSize {
        frame_words: 1 << 16,
        shard_words: 1 << 22,
    };
}

/// What a manifest says about a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardInfo {
    /// The name of the file.
    pub name: String,
    /// The first word.
    pub first: u64,
    /// The last word.
    pub last: u64,
    /// The number of words.
    pub entries: u64,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: Digest,
    /// Where the index frame starts; it ends with the file.
    pub index_offset: u64,
    /// SHA-256 of the index frame.
    pub index_sha256: Digest,
}

/// The file name of the shard with this number, counted from 0.
pub fn shard_name(number: usize) -> String {
    format!("shard-{number:04}.zst")
}

/// One entry of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    first: u64,
    offset: u64,
    entries: u32,
    length: u32,
    digest: Digest,
}

/// The index of a shard: where to find which words, checked against the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardIndex {
    frames: Vec<Frame>,
    last: u64,
}

impl ShardIndex {
    /// The index in `frame`, the bytes of the shard from `info.index_offset` on.
    ///
    /// # Errors
    ///
    /// If the bytes are not the index of that shard.
    pub fn parse(frame: &[u8], info: &ShardInfo) -> Result<ShardIndex, FormatError> {
        let found = Digest::of(frame);
        ensure(found == info.index_sha256, || {
            format!(
                "the index has the SHA-256 {found} instead of {}",
                info.index_sha256
            )
        })?;
        let mut fields = Fields::new("a shard index", frame);
        check_skippable_frame(&mut fields, INDEX_MAGIC)?;
        fields.version(INDEX_NAME, VERSION)?;
        let count = fields.u32()? as usize;
        let entries = fields.rest();
        ensure(
            Some(entries.len()) == count.checked_mul(ENTRY_LENGTH),
            || {
                format!(
                    "an index of {count} frames has {} bytes for them",
                    entries.len()
                )
            },
        )?;
        let frames = entries.chunks_exact(ENTRY_LENGTH).map(parse_entry);
        let frames = frames.collect::<Result<Vec<Frame>, Damage>>()?;
        let index = ShardIndex {
            frames,
            last: info.last,
        };
        index.check(info)?;
        Ok(index)
    }

    /// Whether the frames lie one after the other and hold what `info` says.
    fn check(&self, info: &ShardInfo) -> Result<(), Damage> {
        let mut offset = HEADER_LENGTH;
        let mut entries = 0;
        let mut least = info.first;
        for (number, frame) in self.frames.iter().enumerate() {
            let in_order = if number == 0 {
                frame.first == least
            } else {
                frame.first >= least
            };
            ensure(
                frame.offset == offset && in_order && frame.first % 2 == 0,
                || format!("frame {number} of the index does not follow from what is before it"),
            )?;
            let frame_words = ShardSize::PUBLISHED.frame_words as u64;
            let frame_entries = u64::from(frame.entries);
            ensure((1..=frame_words).contains(&frame_entries), || {
                format!("frame {number} of the index has {frame_entries} words")
            })?;
            offset += u64::from(frame.length);
            entries += frame_entries;
            least = frame.first.saturating_add(2 * frame_entries);
            ensure(
                frame.first.saturating_add(2 * (frame_entries - 1)) <= info.last,
                || format!("frame {number} of the index goes beyond the last word"),
            )?;
        }
        ensure(
            offset == info.index_offset,
            || "the frames of the index do not end where it starts",
        )?;
        ensure(entries == info.entries, || {
            format!(
                "the index has {entries} words and the manifest {}",
                info.entries
            )
        })
    }

    /// The number of data frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there are no data frames, which is so in no table.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The number of the frame that holds `word` if the shard does.
    pub fn frame_of(&self, word: u64) -> Option<usize> {
        let after = self.frames.partition_point(|frame| frame.first <= word);
        if word <= self.last {
            after.checked_sub(1)
        } else {
            None
        }
    }

    /// Where the bytes of the frame with this number are in the file.
    pub fn location(&self, number: usize) -> Range<u64> {
        let frame = self.frames[number];
        frame.offset..frame.offset + u64::from(frame.length)
    }

    /// The words in `bytes`, the data frame with this number.
    ///
    /// # Errors
    ///
    /// If the bytes are not those that the index names, or do not hold what it says.
    pub fn decode_frame(&self, number: usize, bytes: &[u8]) -> Result<Vec<u64>, FormatError> {
        let frame = self.frames[number];
        let found = Digest::of(bytes);
        ensure(found == frame.digest, || {
            format!(
                "frame {number} has the SHA-256 {found} instead of {}",
                frame.digest
            )
        })?;
        let next = self.frames.get(number + 1);
        let end = next.map_or(self.last / 2 + 1, |next| next.first / 2);
        let count = u64::from(frame.entries);
        let block = gaps::decompress(bytes, classes::block_len_max(count))?;
        let mut words = classes::decode(&block, count, end)?;
        for word in &mut words {
            *word *= 2;
        }
        let last = if next.is_some() {
            words.last()
        } else {
            Some(&self.last)
        };
        ensure(
            words.first() == Some(&frame.first) && words.last() == last,
            || format!("frame {number} does not hold the first and last word that the index says"),
        )?;
        Ok(words)
    }
}

fn parse_entry(bytes: &[u8]) -> Result<Frame, Damage> {
    let mut fields = Fields::new("an entry of the index", bytes);
    Ok(Frame {
        first: fields.u64()?,
        offset: fields.u64()?,
        entries: fields.u32()?,
        length: fields.u32()?,
        digest: Digest(fields.array()?),
    })
}

fn check_skippable_frame(fields: &mut Fields<'_>, magic: u32) -> Result<(), Damage> {
    let (found, length) = (fields.u32()?, fields.u32()?);
    ensure(found == magic, || {
        format!("a frame with the magic number {found:08x}, not {magic:08x}")
    })?;
    let rest = fields.len();
    ensure(length as usize == rest, || {
        format!("a frame of {length} bytes where there are {rest}")
    })
}

/// All words of a shard, of which every byte is checked.
///
/// # Errors
///
/// If `bytes` are not the shard that `info` describes.
pub fn decode_shard(bytes: &[u8], info: &ShardInfo) -> Result<Vec<u64>, FormatError> {
    let found = Digest::of(bytes);
    ensure(found == info.sha256, || {
        format!(
            "the shard has the SHA-256 {found} instead of {}: {}",
            info.sha256,
            locate_damage(bytes, info)
        )
    })?;
    let part = |range: Range<u64>| {
        let start = usize::try_from(range.start).ok();
        let end = usize::try_from(range.end).ok();
        let part = start
            .zip(end)
            .and_then(|(start, end)| bytes.get(start..end));
        part.ok_or_else(|| Damage::new(format!("the shard ends before byte {}", range.end)))
    };
    let mut header = Fields::new("a shard", part(0..HEADER_LENGTH)?);
    check_skippable_frame(&mut header, HEADER_MAGIC)?;
    header.version(HEADER_NAME, VERSION)?;
    let index = ShardIndex::parse(part(info.index_offset..bytes.len() as u64)?, info)?;
    let mut words = Vec::with_capacity(usize::try_from(info.entries).unwrap_or(0));
    for number in 0..index.len() {
        words.extend(index.decode_frame(number, part(index.location(number))?)?);
    }
    Ok(words)
}

/// Which part of a shard with another digest than `info` has is not as it was.
fn locate_damage(bytes: &[u8], info: &ShardInfo) -> String {
    let length = bytes.len() as u64;
    if length != info.bytes {
        return format!("it has {length} bytes instead of {}", info.bytes);
    }
    let part = |range: &Range<u64>| {
        let start = usize::try_from(range.start).ok()?;
        bytes.get(start..usize::try_from(range.end).ok()?)
    };
    let at = |range: Range<u64>| format!("bytes {} to {}", range.start, range.end - 1);
    let index = info.index_offset..length;
    let parsed = part(&index).and_then(|frame| ShardIndex::parse(frame, info).ok());
    let Some(parsed) = parsed else {
        return format!("its index is damaged ({})", at(index));
    };
    let damaged = (0..parsed.len()).find(|&number| {
        let frame = part(&parsed.location(number));
        frame.is_none_or(|frame| Digest::of(frame) != parsed.frames[number].digest)
    });
    match damaged {
        Some(number) => {
            let location = parsed.location(number);
            format!("its frame {number} is damaged ({})", at(location))
        }
        None => format!("its header is damaged ({})", at(0..HEADER_LENGTH)),
    }
}

#[cfg(test)]
mod tests;
