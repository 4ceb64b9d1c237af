//! The time to write and read a range record and a shard: `cargo bench -p chomp-table --bench codecs`.
//!
//! The words are made up, as many and as far apart as in the middle of a table of 32 bits: of the
//! 64 classes of halved words (see `chomp_table::classes`) 40 have words, each word by chance.

use std::hint::black_box;

use chomp_table::shard::{Index, ShardIndex, ShardInfo, ShardSize, ShardWriter};
use chomp_table::{Digest, Head, Range, RangeBits, range};
use chomp_testing::ns_each;

/// One in `RARITY` words of a class is losing.
const RARITY: u64 = 160;

/// The range bits of the record.
const RANGE_BITS: u32 = 24;

/// The words of one frame, and four frames for the shard.
const SHARD_WORDS: usize = 4 << 16;

/// Numbers that look like losing words, halved: ascending, from 2^29 on.
fn halved_words() -> impl Iterator<Item = u64> {
    let mut state = 0u64;
    let mut rng = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    (1 << 29..)
        .filter(|number| number % 4 != 1 && number % 8 != 7)
        .filter(move |_| rng().is_multiple_of(RARITY))
}

fn a_range() -> (Range, RangeBits) {
    let range_bits = RangeBits::new(RANGE_BITS).expect("12 to 32");
    let indices = halved_words().map(|number| number - (1 << 29));
    let indices = indices.map(|index| u32::try_from(index).expect("the range ends before"));
    let end = 1 << (RANGE_BITS - 1);
    let losing: Vec<u32> = indices.take_while(|&index| index < end).collect();
    let edges = u64::from(losing.first() == Some(&0)) << RANGE_BITS;
    let head = Head(0x155);
    let range = Range {
        head,
        losing: losing.into_iter().collect(),
        edges,
    };
    (range, range_bits)
}

fn write_shard(words: &[u64]) -> (ShardInfo, Vec<u8>) {
    let mut writer = ShardWriter::new(0, ShardSize::PUBLISHED);
    assert!(writer.push(words).is_empty(), "one shard has room");
    let (info, _, bytes) = writer.finish();
    (info, bytes)
}

fn main() {
    records();
    frames();
}

fn records() {
    let (range, range_bits) = a_range();
    let (_, record) = range::encode(&range, range_bits);
    let positions = range.losing.len();
    ns_each("range record: encode and hash", positions, || {
        range::encode(black_box(&range), range_bits)
    });
    ns_each("range record: hash", positions, || {
        Digest::of(black_box(&record))
    });
    ns_each("range record: decode", positions, || {
        range::decode_trusting_stored(black_box(&record), range_bits).expect("it was encoded")
    });
}

fn frames() {
    let words: Vec<u64> = halved_words()
        .map(|number| number * 2)
        .take(SHARD_WORDS)
        .collect();
    let (info, bytes) = write_shard(&words);
    let position = |offset: u64| usize::try_from(offset).expect("a small file");
    let index = &bytes[position(info.index_offset)..];
    let index = ShardIndex::parse(index, &info).expect("it was written");
    ns_each("shard: encode, compress and hash", words.len(), || {
        write_shard(black_box(&words))
    });
    ns_each("shard: check, decompress and decode", words.len(), || {
        for frame in 0..index.len() {
            let place = index.location(frame);
            let stored = &bytes[position(place.start)..position(place.end)];
            let words = index.decode_frame(frame, black_box(stored));
            black_box(words.expect("it was written"));
        }
    });
}
