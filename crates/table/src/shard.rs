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
//!               8  the last word of the shard
//!               8  where the index frame starts in the file
//!              32  SHA-256 of the index frame up to here
//! ```
//!
//! All integers are little-endian. Each data frame decodes alone. Stock zstd skips header and
//! index: `zstd -d` gives the class blocks, `zstd -t` tests them.
//!
//! Trust flows from the manifest, which holds the SHA-256 of the shard and of its index frame, to the index, and from
//! there to each data frame: what was read is checked before it is used. Without the manifest, the last 48 bytes of a
//! shard tell where its index is; then nothing but the shard itself vouches for it. Digests do not show that words are
//! right. What a reader may rely on is that they ascend, and that each is the smaller of its mirror pair.
//!
//! Limits: 1 to 8,192 words in a data frame, 1 to 4,194,304 in a shard, 1 MiB for the index; no data frame is longer
//! than its words can make it (see `limits`). This program writes full frames and shards: only the last frame of a
//! shard and the last shard of a table may hold fewer words.
//!
//! Version history: 1 is the first.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::classes;
use crate::digest::Digest;
use crate::format::{Damage, Fields, FormatError, ensure};
use crate::gaps;
use crate::word::Word;

mod limits;
mod writer;

pub use writer::ShardWriter;

pub(crate) const HEADER: SkippableFrame = SkippableFrame {
    what: "a shard",
    magic: 0x184D_2A50,
    name: *b"chompshd",
    version: 1,
};
pub(crate) const INDEX: SkippableFrame = SkippableFrame {
    what: "a shard index",
    magic: 0x184D_2A51,
    name: *b"chompidx",
    version: 1,
};
pub(crate) const HEADER_LENGTH: u64 = 20;
const ENTRY_LENGTH: usize = 56;
/// The bytes of an index frame after its entries: they end the shard.
pub const TRAILER_LENGTH: usize = 48;
/// The most bytes of an index frame: those of 18,000 data frames.
pub const INDEX_LENGTH_MAX: u64 = 1 << 20;

/// How many words go into a data frame and into a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardSize {
    /// The words of every data frame of a shard but its last.
    pub frame_words: usize,
    /// The words of every shard of a table but its last.
    pub shard_words: usize,
}

impl ShardSize {
    /// The size of published tables. It is also the largest that can be read.
    pub const PUBLISHED: ShardSize = ShardSize {
        frame_words: 1 << 13,
        shard_words: 1 << 22,
    };
}

/// A shard, as a manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct ShardInfo {
    pub name: String,
    pub first: u64,
    pub last: u64,
    pub entries: u64,
    pub bytes: u64,
    pub sha256: Digest,
    /// Where the index frame starts; it ends with the file.
    pub index_offset: u64,
    pub index_sha256: Digest,
    /// The leaf of the fingerprint: the SHA-256 of the words, 8 bytes each, little-endian.
    pub words_sha256: Digest,
}

/// The file name of the shard with this number, counted from 0.
pub fn shard_name(number: usize) -> String {
    format!("shard-{number:04}.zst")
}

/// The index of a shard of words, or of values: where its data frames are.
pub trait Index {
    /// A word, or a value.
    type Entry;

    /// The bytes of memory that it takes.
    fn memory(&self) -> usize;

    /// Where the bytes of the frame with this number are in the file.
    fn location(&self, number: usize) -> Range<u64>;

    /// Fails if `bytes` have another digest or other words than the index names for the frame with this number.
    fn decode_frame(&self, number: usize, bytes: &[u8]) -> Result<Vec<Self::Entry>, FormatError>;
}

/// One entry of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    first: u64,
    offset: u64,
    words: u32,
    length: u32,
    digest: Digest,
}

/// The index of a shard: where to find which words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardIndex {
    frames: Vec<Frame>,
    last: u64,
}

impl ShardIndex {
    /// The index in `frame`, the shard from `info.index_offset` on. Fails if it is not the index of that shard.
    pub fn parse(frame: &[u8], info: &ShardInfo) -> Result<ShardIndex, FormatError> {
        check_digest("the index", frame, info.index_sha256)?;
        let (index, start) = ShardIndex::read(frame)?;
        ensure(
            start == info.index_offset && index.last == info.last,
            || {
                format!(
                    "the index says that it starts at byte {start} and ends with word {}",
                    index.last
                )
            },
        )?;
        ensure(index.first() == Some(info.first), || {
            format!("the index does not start with the word {}", info.first)
        })?;
        let words = index.word_count();
        ensure(words == info.entries, || {
            format!(
                "the index has {words} words and the manifest {}",
                info.entries
            )
        })?;
        Ok(index)
    }

    /// The index in `frame`, and where it says that it starts.
    fn read(frame: &[u8]) -> Result<(ShardIndex, u64), FormatError> {
        let (content, digest) = frame
            .split_last_chunk::<32>()
            .ok_or_else(|| Damage::new("the index is cut short"))?;
        let mut fields = INDEX.read(frame)?;
        let found = Digest::of(content);
        ensure(found.0 == *digest, || {
            format!(
                "the index has the SHA-256 {found} and says {}",
                Digest(*digest)
            )
        })?;
        let count = fields.u32()? as usize;
        let rest = fields.rest();
        ensure(
            count
                .checked_mul(ENTRY_LENGTH)
                .and_then(|length| length.checked_add(TRAILER_LENGTH))
                == Some(rest.len()),
            || {
                format!(
                    "an index of {count} frames has {} bytes for them",
                    rest.len()
                )
            },
        )?;
        let (entries, trailer) = rest.split_at(rest.len() - TRAILER_LENGTH);
        let mut trailer = Fields::new("the end of a shard index", trailer);
        let frames = entries.chunks_exact(ENTRY_LENGTH).map(parse_entry);
        let frames = frames.collect::<Result<Vec<Frame>, Damage>>()?;
        let (last, start) = (trailer.u64()?, trailer.u64()?);
        let index = ShardIndex { frames, last };
        index.check(start)?;
        Ok((index, start))
    }

    /// The index of a shard without its table. `frame` is the file from `start` on, and `start` the offset in its
    /// trailer. The index vouches for the data frames, but nothing vouches for the index. Fails if `frame` is no index
    /// that starts at `start`.
    pub fn parse_alone(frame: &[u8], start: u64) -> Result<ShardIndex, FormatError> {
        let (index, said) = ShardIndex::read(frame)?;
        ensure(said == start, || {
            format!("the index says that it starts at byte {said}")
        })?;
        Ok(index)
    }

    /// Where the last bytes of a shard say that its index starts.
    pub fn start(trailer: &[u8; TRAILER_LENGTH]) -> u64 {
        let [_, start, ..] = trailer.as_chunks::<8>().0 else {
            unreachable!("there are six times eight bytes")
        };
        u64::from_le_bytes(*start)
    }

    /// Whether the frames lie one after the other, end at `end`, and ascend to the last word.
    fn check(&self, end: u64) -> Result<(), Damage> {
        let mut offset = HEADER_LENGTH;
        let mut least = 2;
        for (number, frame) in self.frames.iter().enumerate() {
            ensure(
                frame.offset == offset && frame.first >= least && frame.first % 2 == 0,
                || format!("frame {number} of the index does not follow from what is before it"),
            )?;
            let most = ShardSize::PUBLISHED.frame_words as u64;
            let words = u64::from(frame.words);
            ensure((1..=most).contains(&words), || {
                format!("frame {number} of the index has {words} words")
            })?;
            offset += u64::from(frame.length);
            least = frame.first.saturating_add(2 * words);
            ensure(
                frame.first.saturating_add(2 * (words - 1)) <= self.last,
                || format!("frame {number} of the index goes beyond the last word"),
            )?;
            // A next frame that begins before this one is refused in its turn.
            let span = self.end(number).saturating_sub(frame.first / 2);
            ensure(
                u64::from(frame.length) <= limits::frame_len_max(words, span),
                || {
                    format!(
                        "frame {number} of the index has {} bytes for {words} words",
                        frame.length
                    )
                },
            )?;
        }
        ensure(
            offset == end,
            || "the frames of the index do not end where it starts",
        )?;
        ensure(!self.frames.is_empty(), || "an index without frames")
    }

    /// All words of a frame, halved, are below this.
    fn end(&self, number: usize) -> u64 {
        let next = self.frames.get(number + 1);
        next.map_or(self.last / 2 + 1, |next| next.first / 2)
    }

    /// The first word of the shard.
    pub fn first(&self) -> Option<u64> {
        self.frames.first().map(|frame| frame.first)
    }

    /// The last word of the shard.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The number of words in the shard.
    pub fn word_count(&self) -> u64 {
        self.frames.iter().map(|frame| u64::from(frame.words)).sum()
    }

    /// The number of data frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there are no data frames. No table has such a shard.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The words of a frame in any order, and not compared with their mirror images.
    pub(crate) fn decode_unsorted(
        &self,
        number: usize,
        bytes: &[u8],
    ) -> Result<Vec<u64>, FormatError> {
        let words = self.words(number, bytes, classes::decode_unsorted)?;
        self.check_ends(number, words.iter().min(), words.iter().max())?;
        Ok(words)
    }

    fn words(
        &self,
        number: usize,
        bytes: &[u8],
        decode: impl Fn(&[u8], u64, u64) -> Result<Vec<u64>, Damage>,
    ) -> Result<Vec<u64>, FormatError> {
        let frame = self.frames[number];
        check_digest(&format!("frame {number}"), bytes, frame.digest)?;
        let (count, end) = (u64::from(frame.words), self.end(number));
        let longest = classes::block_len_max(count, end - frame.first / 2, 1);
        let mut words = decode(&gaps::decompress(bytes, longest)?, count, end)?;
        for word in &mut words {
            *word *= 2;
        }
        Ok(words)
    }

    /// Fails if a word of a frame has a mirror image that is smaller.
    fn check_mirrored(number: usize, words: &[u64]) -> Result<(), Damage> {
        let are_smaller = words.iter().fold(true, |are_smaller, &word| {
            are_smaller & Word::new(word).is_representative()
        });
        ensure(are_smaller, || {
            let larger = words.iter().map(|&word| Word::new(word));
            let larger = larger.filter(|word| !word.is_representative()).min();
            let word = larger.unwrap_or_default();
            let (larger, smaller) = (word.get(), word.mirror().get());
            format!(
                "frame {number} lists the word {larger}, whose mirror image has a smaller one, {smaller}"
            )
        })
    }

    fn check_ends(
        &self,
        number: usize,
        first: Option<&u64>,
        last: Option<&u64>,
    ) -> Result<(), Damage> {
        let is_last = number + 1 == self.frames.len();
        let ends = first == Some(&self.frames[number].first);
        ensure(ends && (!is_last || last == Some(&self.last)), || {
            format!("frame {number} does not hold the first and last word that the index says")
        })
    }

    /// All words of a frame are below this, and those of later frames are not.
    pub(crate) fn bound(&self, number: usize) -> u64 {
        2 * self.end(number)
    }

    pub(crate) fn frames_in(&self, range: &Range<u64>) -> Range<usize> {
        let begun = |end: u64| self.frames.partition_point(|frame| frame.first < end);
        begun(range.start.saturating_add(1)).saturating_sub(1)..begun(range.end)
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
}

impl Index for ShardIndex {
    type Entry = u64;

    fn memory(&self) -> usize {
        size_of::<ShardIndex>() + self.frames.capacity() * size_of::<Frame>()
    }

    fn location(&self, number: usize) -> Range<u64> {
        let frame = self.frames[number];
        frame.offset..frame.offset + u64::from(frame.length)
    }

    fn decode_frame(&self, number: usize, bytes: &[u8]) -> Result<Vec<u64>, FormatError> {
        let words = self.words(number, bytes, classes::decode)?;
        ShardIndex::check_mirrored(number, &words)?;
        self.check_ends(number, words.first(), words.last())?;
        Ok(words)
    }
}

fn parse_entry(bytes: &[u8]) -> Result<Frame, Damage> {
    let mut fields = Fields::new("an entry of the index", bytes);
    Ok(Frame {
        first: fields.u64()?,
        offset: fields.u64()?,
        words: fields.u32()?,
        length: fields.u32()?,
        digest: Digest(fields.array()?),
    })
}

/// A kind of skippable frames of zstd: header or index, of either kind of shard.
pub(crate) struct SkippableFrame {
    /// Its name in an error text.
    pub(crate) what: &'static str,
    pub(crate) magic: u32,
    /// How its content begins.
    pub(crate) name: [u8; 8],
    pub(crate) version: u32,
}

impl SkippableFrame {
    /// Whether `bytes` have the name of such a frame, with at most one wrong byte. A file without the name is no
    /// damaged shard, but something else.
    pub(crate) fn resembles(&self, bytes: &[u8]) -> bool {
        let name = bytes.get(8..16).unwrap_or_default().iter().zip(&self.name);
        name.filter(|(found, known)| found == known).count() + 1 >= self.name.len()
    }

    /// The fields after the version in `frame`.
    pub(crate) fn read<'a>(&self, frame: &'a [u8]) -> Result<Fields<'a>, FormatError> {
        let mut fields = Fields::new(self.what, frame);
        let (found, length) = (fields.u32()?, fields.u32()?);
        ensure(found == self.magic, || {
            let magic = self.magic;
            format!("a frame with the magic number {found:08x}, not {magic:08x}")
        })?;
        let rest = fields.len();
        ensure(length as usize == rest, || {
            format!("a frame of {length} bytes where there are {rest}")
        })?;
        fields.version(self.name, self.version)?;
        Ok(fields)
    }

    /// Appends such a frame to `bytes`, with `content` after the version.
    pub(crate) fn write(&self, content: &[u8], bytes: &mut Vec<u8>) {
        let content = [&self.name[..], &self.version.to_le_bytes(), content].concat();
        let length = u32::try_from(content.len()).expect("a shard has at most 2^22 frames");
        bytes.extend(self.magic.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(content);
    }
}

pub(crate) fn check_digest(what: &str, bytes: &[u8], expected: Digest) -> Result<(), Damage> {
    let found = Digest::of(bytes);
    ensure(found == expected, || {
        format!("{what} has the SHA-256 {found} instead of {expected}")
    })
}

pub(crate) fn slice_of(bytes: &[u8], range: Range<u64>) -> Result<&[u8], Damage> {
    let start = usize::try_from(range.start).ok();
    let slice = start.zip(usize::try_from(range.end).ok());
    let slice = slice.and_then(|(start, end)| bytes.get(start..end));
    slice.ok_or_else(|| Damage::new(format!("the shard ends before byte {}", range.end)))
}

/// All words of a shard, after a check of every byte. Fails if `bytes` are not the shard that `info` describes.
pub fn decode_shard(bytes: &[u8], info: &ShardInfo) -> Result<Vec<u64>, FormatError> {
    check_digest("the shard", bytes, info.sha256)
        .map_err(|damage| Damage::new(format!("{damage}: {}", locate_damage(bytes, info))))?;
    let slice = |range| slice_of(bytes, range);
    HEADER.read(slice(0..HEADER_LENGTH)?)?;
    let index = ShardIndex::parse(slice(info.index_offset..bytes.len() as u64)?, info)?;
    let mut words = Vec::with_capacity(usize::try_from(info.entries).unwrap_or(0));
    for number in 0..index.len() {
        words.extend(index.decode_frame(number, slice(index.location(number))?)?);
    }
    Ok(words)
}

/// The words of a frame in ascending order: faster than a general sort, as they lie about evenly.
pub fn sort_words(words: Vec<u64>) -> Vec<u64> {
    classes::sorted(words)
}

/// Names the damaged part of a shard whose digest is not that of `info`.
fn locate_damage(bytes: &[u8], info: &ShardInfo) -> String {
    let length = bytes.len() as u64;
    if length != info.bytes {
        return format!("it has {length} bytes instead of {}", info.bytes);
    }
    let slice = |range| slice_of(bytes, range).ok();
    let at = |range: Range<u64>| format!("bytes {} to {}", range.start, range.end - 1);
    let index = info.index_offset..length;
    let parsed = slice(index.clone()).and_then(|frame| ShardIndex::parse(frame, info).ok());
    let Some(parsed) = parsed else {
        return format!("its index is damaged ({})", at(index));
    };
    let damaged = (0..parsed.len()).find(|&number| {
        let frame = slice(parsed.location(number));
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
