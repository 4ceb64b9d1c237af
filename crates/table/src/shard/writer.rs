//! Writes shards.

use super::{Frame, HEADER, INDEX, ShardInfo, ShardSize, shard_name};
use crate::classes;
use crate::digest::Digest;
use crate::fingerprint::{Leaf, LeafBuilder};
use crate::gaps;

/// Writes one shard into memory.
#[derive(Debug)]
pub struct ShardWriter {
    number: usize,
    size: ShardSize,
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    /// The words of the frame that is not full yet.
    words: Vec<u64>,
    entries: usize,
    last: u64,
    leaf: LeafBuilder,
}

impl ShardWriter {
    /// A shard with this number, counted from 0. Panics if `size` is beyond the limits.
    pub fn new(number: usize, size: ShardSize) -> ShardWriter {
        let most = ShardSize::PUBLISHED;
        assert!(
            (1..=most.frame_words).contains(&size.frame_words),
            "the limits of a frame"
        );
        assert!(
            (1..=most.shard_words).contains(&size.shard_words),
            "the limits of a shard"
        );
        let mut bytes = Vec::with_capacity(size.shard_words * 5 / 4);
        HEADER.write(&[], &mut bytes);
        ShardWriter {
            number,
            size,
            bytes,
            frames: Vec::new(),
            words: Vec::with_capacity(size.frame_words),
            entries: 0,
            last: 0,
            leaf: LeafBuilder::new(),
        }
    }

    /// Takes as many words as there is room for, and returns the others. Panics if they are odd or do not ascend.
    pub fn push<'a>(&mut self, words: &'a [u64]) -> &'a [u64] {
        let room = self.size.shard_words - self.entries;
        let (mut words, rest) = words.split_at(words.len().min(room));
        while let Some(&first) = words.first() {
            assert!(
                self.entries == 0 || first > self.last,
                "the words of a shard ascend"
            );
            let room = self.size.frame_words - self.words.len();
            let (these, others) = words.split_at(words.len().min(room));
            assert!(
                these.iter().fold(0, |all, word| all | word) & 1 == 0,
                "words are even"
            );
            self.words.extend_from_slice(these);
            self.entries += these.len();
            self.last = *these.last().expect("there was a first one");
            if self.words.len() == self.size.frame_words {
                self.finish_frame();
            }
            words = others;
        }
        rest
    }

    /// Whether no words were pushed yet.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The shard, and the leaf of its words. Panics if it has no words: no table has such a shard.
    pub fn finish(mut self) -> (ShardInfo, Leaf, Vec<u8>) {
        if !self.words.is_empty() {
            self.finish_frame();
        }
        let first = self
            .frames
            .first()
            .expect("a shard has at least one word")
            .first;
        let index_offset = self.bytes.len() as u64;
        let index = index_frame(&self.frames, self.last, index_offset);
        self.bytes.extend_from_slice(&index);
        let leaf = self.leaf.finish();
        let info = ShardInfo {
            name: shard_name(self.number),
            first,
            last: self.last,
            entries: self.entries as u64,
            bytes: self.bytes.len() as u64,
            sha256: Digest::of(&self.bytes),
            index_offset,
            index_sha256: Digest::of(&index),
            words_sha256: leaf.digest,
        };
        (info, leaf, self.bytes)
    }

    fn finish_frame(&mut self) {
        self.leaf.push(&self.words);
        let block = classes::encode(self.words.iter().map(|word| word / 2));
        let frame = gaps::compress(&block, self.words.len());
        self.frames.push(Frame {
            first: self.words[0],
            offset: self.bytes.len() as u64,
            words: u32::try_from(self.words.len()).expect("at most 8,192"),
            length: u32::try_from(frame.len()).expect("at most ten bytes a word"),
            digest: Digest::of(&frame),
        });
        self.bytes.extend_from_slice(&frame);
        self.words.clear();
    }
}

pub(super) fn index_frame(frames: &[Frame], last: u64, start: u64) -> Vec<u8> {
    let count = u32::try_from(frames.len()).expect("a shard has at most 2^22 frames");
    let mut content = count.to_le_bytes().to_vec();
    for frame in frames {
        content.extend(frame.first.to_le_bytes());
        content.extend(frame.offset.to_le_bytes());
        content.extend(frame.words.to_le_bytes());
        content.extend(frame.length.to_le_bytes());
        content.extend(frame.digest.0);
    }
    content.extend(last.to_le_bytes());
    content.extend(start.to_le_bytes());
    content.extend([0; 32]);
    let mut index = Vec::new();
    INDEX.write(&content, &mut index);
    sign_index(&mut index);
    index
}

/// Puts the digest of an index frame at its end.
pub(super) fn sign_index(index: &mut [u8]) {
    let (content, digest) = index
        .split_last_chunk_mut()
        .expect("an index ends with a digest");
    *digest = Digest::of(content).0;
}
