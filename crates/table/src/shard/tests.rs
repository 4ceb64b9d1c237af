//! Shards come back whole, and hostile ones are refused.

use proptest::prelude::*;

use super::writer::{index_frame, sign_index};
use super::*;
use crate::rng::mix;
use crate::word::Word;
use chomp_testing::definition;

const SMALL: ShardSize = size(16, 1000);

const fn size(frame_words: usize, shard_words: usize) -> ShardSize {
    ShardSize {
        frame_words,
        shard_words,
    }
}

fn write(words: &[u64], size: ShardSize) -> (ShardInfo, Vec<u8>) {
    let mut writer = ShardWriter::new(7, size);
    assert!(writer.is_empty());
    assert!(writer.push(words).is_empty());
    let (info, _, bytes) = writer.finish();
    (info, bytes)
}

/// The representative words of the table of 12 bits.
fn true_words() -> Vec<u64> {
    let losing = definition::losing(12);
    let words = (0..losing.len())
        .filter(|&index| losing[index])
        .map(|index| Word::new(index as u64 * 2));
    words
        .filter(|&word| word == word.representative())
        .map(Word::get)
        .collect()
}

/// The word of this half, if it is the smaller one of its mirror pair.
fn smaller(half: u64) -> Option<u64> {
    let word = Word::new(half * 2);
    (word == word.representative()).then_some(word.get())
}

/// `info` for the bytes of another shard: what a manifest says that was made to fit.
fn resigned(info: &ShardInfo, bytes: &[u8]) -> ShardInfo {
    let index = bytes
        .get(usize::try_from(info.index_offset).unwrap()..)
        .unwrap_or(&[]);
    ShardInfo {
        sha256: Digest::of(bytes),
        index_sha256: Digest::of(index),
        bytes: bytes.len() as u64,
        ..info.clone()
    }
}

/// The index of a shard, and the data frame with this number.
fn index_of(info: &ShardInfo, bytes: &[u8]) -> ShardIndex {
    let index = slice_of(bytes, info.index_offset..info.bytes).unwrap();
    ShardIndex::parse(index, info).unwrap()
}

fn frame_of<'a>(index: &ShardIndex, number: usize, bytes: &'a [u8]) -> &'a [u8] {
    slice_of(bytes, index.location(number)).unwrap()
}

fn check_round_trip(words: &[u64], size: ShardSize) {
    let (info, bytes) = write(words, size);
    assert_eq!(info.name, "shard-0007.zst");
    assert_eq!((info.first, info.last), (words[0], words[words.len() - 1]));
    assert_eq!(
        (info.entries, info.bytes),
        (words.len() as u64, bytes.len() as u64)
    );
    assert_eq!(decode_shard(&bytes, &info).unwrap(), words);

    for piece in [1, 3] {
        let mut in_pieces = ShardWriter::new(7, size);
        for words in words.chunks(piece) {
            assert!(in_pieces.push(words).is_empty());
            assert!(!in_pieces.is_empty());
        }
        let (other, _, other_bytes) = in_pieces.finish();
        assert_eq!((other, other_bytes), (info.clone(), bytes.clone()));
    }

    let index = index_of(&info, &bytes);
    assert_eq!(index.len(), words.len().div_ceil(size.frame_words));
    let none = ShardIndex {
        frames: Vec::new(),
        ..index
    };
    assert!(none.is_empty() && !index.is_empty());
    let frames = index.len() * size_of::<Frame>();
    assert!((frames..=4 * frames + size_of::<ShardIndex>()).contains(&index.memory()));
    for (number, frame) in words.chunks(size.frame_words).enumerate() {
        let stored = frame_of(&index, number, &bytes);
        assert_eq!(index.decode_frame(number, stored).unwrap(), frame);
        for &word in frame {
            assert_eq!(index.frame_of(word), Some(number));
        }
        assert_eq!(
            index.frame_of(frame[0] + 1),
            (frame[0] < info.last).then_some(number)
        );
    }
    assert_eq!(index.frame_of(info.first - 1), None);
    assert_eq!(index.frame_of(info.last + 1), None);
}

#[test]
fn round_trips() {
    let words = true_words();
    for frame_words in [1, 2, words.len() - 1, words.len(), words.len() + 1] {
        check_round_trip(&words, size(frame_words, 4096));
    }
    check_round_trip(&[2], SMALL);
    let last = u64::MAX << 32;
    check_round_trip(&[1 << 32, (1 << 32) + 2, 1 << 63, last], SMALL);
    check_round_trip(&[1 << 63, last], size(1, 2));
    let dense: Vec<u64> = (1..=200_000).filter_map(smaller).collect();
    check_round_trip(&dense, size(1 << 13, 200_000));
}

#[test]
fn a_full_shard_returns_the_words_without_room() {
    let mut writer = ShardWriter::new(0, size(2, 3));
    assert_eq!(writer.push(&[2, 4, 8, 10, 12]), [10, 12]);
    assert_eq!(writer.push(&[10]), [10]);
    let (info, _, bytes) = writer.finish();
    assert_eq!(decode_shard(&bytes, &info).unwrap(), [2, 4, 8]);
}

#[test]
fn other_words_are_refused() {
    for words in [&[2, 3][..], &[4, 4], &[4, 2]] {
        let result = std::panic::catch_unwind(|| write(words, SMALL));
        assert!(result.is_err(), "{words:?}");
    }
    assert!(std::panic::catch_unwind(|| ShardWriter::new(0, SMALL).finish()).is_err());
    assert!(std::panic::catch_unwind(|| ShardWriter::new(0, size(1 << 14, 1000))).is_err());
}

/// A program that knows zstd alone sees the class blocks and nothing else.
#[test]
fn plain_zstd_reads_a_shard() {
    let words = true_words();
    let (_, bytes) = write(&words, SMALL);
    let blocks: Vec<u8> = words
        .chunks(SMALL.frame_words)
        .flat_map(|frame| classes::encode(frame.iter().map(|word| word / 2)))
        .collect();
    assert_eq!(zstd::decode_all(&bytes[..]).unwrap(), blocks);
}

#[test]
fn every_truncation_and_every_flip_is_noticed() {
    let words = true_words();
    let (info, bytes) = write(&words, SMALL);
    for length in 0..bytes.len() {
        assert!(decode_shard(&bytes[..length], &info).is_err(), "{length}");
    }
    let start = usize::try_from(info.index_offset).unwrap();
    let index = index_of(&info, &bytes);
    for at in 0..bytes.len() {
        for mask in [1, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] ^= mask;
            assert!(decode_shard(&bytes, &info).is_err(), "byte {at}");
            assert!(
                at < start || ShardIndex::parse(&bytes[start..], &info).is_err(),
                "byte {at}"
            );
            for number in 0..index.len() {
                let result = index.decode_frame(number, frame_of(&index, number, &bytes));
                let is_here = index.location(number).contains(&(at as u64));
                assert_eq!(result.is_err(), is_here, "byte {at}");
            }
        }
    }
}

#[test]
fn another_digest_of_the_whole_shard_is_noticed() {
    let (info, bytes) = write(&true_words(), SMALL);
    let other = ShardInfo {
        sha256: info.index_sha256,
        ..info
    };
    let error = decode_shard(&bytes, &other).unwrap_err().to_string();
    assert!(error.contains("the shard has the SHA-256"), "{error}");
}

/// An honest frame with the same first word, last word and number of words, from another table.
#[test]
fn a_frame_of_another_shard_is_noticed() {
    let (info, bytes) = write(&[2, 4, 10], SMALL);
    let (other_info, other) = write(&[2, 6, 10], SMALL);
    let (index, other_index) = (index_of(&info, &bytes), index_of(&other_info, &other));
    let words = index.decode_frame(0, frame_of(&index, 0, &bytes));
    assert_eq!(words.unwrap(), [2, 4, 10]);
    let error = index.decode_frame(0, frame_of(&other_index, 0, &other));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("frame 0 has the SHA-256"), "{error}");
}

/// A shard that was put together from `frames` and the blocks that they hold.
fn forged(info: ShardInfo, frames: &mut [Frame], blocks: &[&[u8]]) -> Result<Vec<u64>, String> {
    let mut bytes = Vec::new();
    HEADER.write(&[], &mut bytes);
    for (frame, block) in frames.iter_mut().zip(blocks) {
        let stored = gaps::compress(block, 0);
        frame.offset += bytes.len() as u64;
        frame.length = u32::try_from(stored.len()).unwrap();
        frame.digest = Digest::of(&stored);
        bytes.extend_from_slice(&stored);
    }
    let info = ShardInfo {
        index_offset: bytes.len() as u64,
        ..info
    };
    bytes.extend(index_frame(frames, info.last, info.index_offset));
    decode_shard(&bytes, &resigned(&info, &bytes)).map_err(|error| error.to_string())
}

/// A frame of an index that says it starts with the word `first` and has `words` words.
fn frame(first: u64, words: u32) -> Frame {
    Frame {
        first,
        offset: 0,
        words,
        length: 0,
        digest: Digest::default(),
    }
}

/// The words of the blocks, all of one class.
const WORDS: [u64; 4] = [128, 256, 512, 640];

/// The blocks of the first two words and of the others.
const BLOCKS: [&[u8]; 2] = [&[1, 0], &[4, 0]];

#[test]
fn forged_indices_are_refused() {
    let (info, _) = write(&WORDS, SMALL);
    let mut honest = [frame(128, 2), frame(512, 2)];
    assert_eq!(
        forged(info.clone(), &mut honest, &BLOCKS),
        Ok(WORDS.to_vec())
    );
    let check = |frames: &[Frame], what: &str| {
        let error = forged(info.clone(), &mut frames.to_vec(), &BLOCKS).unwrap_err();
        assert!(error.contains(what), "{error} instead of {what}");
    };
    check(
        &[frame(256, 2), frame(512, 2)],
        "the index does not start with the word 128",
    );
    check(
        &[frame(128, 2), frame(513, 2)],
        "frame 1 of the index does not follow",
    );
    check(
        &[frame(128, 2), frame(130, 2)],
        "frame 1 of the index does not follow",
    );
    check(
        &[
            Frame {
                offset: 1,
                ..frame(128, 2)
            },
            frame(512, 2),
        ],
        "frame 0 of the index does not",
    );
    check(
        &[frame(128, 0), frame(512, 2)],
        "frame 0 of the index has 0 words",
    );
    check(
        &[frame(128, 8193), frame(512, 2)],
        "frame 0 of the index has 8193 words",
    );
    check(
        &[frame(128, 2), frame(512, 66)],
        "frame 1 of the index goes beyond",
    );
    check(
        &[frame(128, 2), frame(512, 1)],
        "the index has 3 words and the manifest 4",
    );
    check(
        &[frame(128, 2), frame(384, 2)],
        "frame 1 does not hold the first",
    );
    check(
        &[frame(128, 2), frame(512, 2), frame(514, 1)],
        "frame 2 of the index does not follow",
    );
    // Far from 0, words may be as close as anywhere, and take no more bytes.
    let far: Vec<u64> = (0..100).map(|i| (1 << 24) + 128 * i).collect();
    let noise: Vec<u8> = (0..800).map(|i| mix(i).to_le_bytes()[0]).collect();
    let (far_info, _) = write(&far, ShardSize::PUBLISHED);
    let error = forged(far_info, &mut [frame(far[0], 100)], &[&noise]).unwrap_err();
    assert!(error.contains("bytes for 100 words"), "{error}");
    let absurd = ShardInfo {
        index_offset: u64::MAX,
        sha256: Digest::of(&[]),
        ..info
    };
    assert!(decode_shard(&[], &absurd).is_err());
}

#[test]
fn bytes_that_belong_to_nothing_are_refused() {
    let (info, bytes) = write(&WORDS, SMALL);
    let index = usize::try_from(info.index_offset).unwrap();
    let check = |info: &ShardInfo, bytes: &[u8], what: &str| {
        let error = decode_shard(bytes, &resigned(info, bytes))
            .unwrap_err()
            .to_string();
        assert!(error.contains(what), "{error} instead of {what}");
    };
    let moved = ShardInfo {
        index_offset: info.index_offset + 1,
        ..info.clone()
    };
    let spaced = [&bytes[..index], &[0], &bytes[index..]].concat();
    check(&moved, &spaced, "the index says that it starts at byte");
    let mut agreeing = spaced;
    let start = agreeing.len() - TRAILER_LENGTH + 8;
    agreeing[start..start + 8].copy_from_slice(&moved.index_offset.to_le_bytes());
    sign_index(&mut agreeing[index + 1..]);
    check(
        &moved,
        &agreeing,
        "the frames of the index do not end where it starts",
    );
    check(
        &info,
        &[&bytes[..], &[0]].concat(),
        "a frame of 120 bytes where there are 121",
    );
    for (at, what) in [
        (4, "a frame of 13 bytes where there are 12"),
        (index + 4, "a frame of 121"),
    ] {
        let mut bytes = bytes.clone();
        bytes[at] += 1;
        check(&info, &bytes, what);
    }
}

#[test]
fn forged_frames_are_refused() {
    let (info, _) = write(&WORDS, SMALL);
    let check = |last, first_block: &[u8], what: &str| {
        let info = ShardInfo {
            last,
            ..info.clone()
        };
        let blocks = [first_block, BLOCKS[1]];
        let error = forged(info, &mut [frame(128, 2), frame(512, 2)], &blocks).unwrap_err();
        assert!(error.contains(what), "{error} instead of {what}");
    };
    check(640, &[1, 2], "the number 256 where all are below 256");
    check(640, &[0, 0], "frame 0 does not hold the first");
    check(640, &[1], "a block of 1 bytes for 2 numbers");
    check(640, &[1, 0, 0], "bytes after the last wide gap");
    check(
        640,
        &[1; 19],
        "a zstd frame of 19 bytes where 18 are possible",
    );
    check(640, &[1; 100], "a zstd frame of 100 bytes where");
    check(642, BLOCKS[0], "frame 1 does not hold the first and last");
}

/// Digests and counts are right: somebody wrote the larger word of a mirror pair, or both.
#[test]
fn the_larger_of_a_mirror_pair_is_refused() {
    for words in [&[2, 6][..], &[4, 6], &[2, 4, 10, u64::MAX - 1]] {
        let (info, bytes) = write(words, size(2, 10));
        let refused = decode_shard(&bytes, &info).unwrap_err().to_string();
        let what = format!("lists the word {}, whose mirror", words[words.len() - 1]);
        assert!(refused.contains(&what), "{refused}");
    }
}

#[test]
fn newer_shards_are_named() {
    let (info, mut bytes) = write(&[2], SMALL);
    let index = usize::try_from(info.index_offset).unwrap();
    for (at, what) in [(index + 16, "a shard index"), (16, "a shard")] {
        bytes[at] = 2;
        let error = decode_shard(&bytes, &resigned(&info, &bytes)).unwrap_err();
        assert_eq!(
            error,
            FormatError::Newer {
                what,
                found: 2,
                known: 1
            }
        );
    }
}

proptest! {
    #[test]
    fn any_words_come_back(
        values in prop::collection::btree_set((any::<u64>(), 0u32..63), 1..400),
        frame_words in 1usize..200
    ) {
        let smaller = |(value, shift)| Word::new((value >> shift | 2) & !1).representative().get();
        let mut words: Vec<u64> = values.into_iter().map(smaller).collect();
        words.sort_unstable();
        words.dedup();
        check_round_trip(&words, size(frame_words, 500));
    }
}
