//! The test vectors of `docs/FORMAT.md`: what the page says is what the program reads.

use chomp_table::fingerprint::{LeafBuilder, combine};
use chomp_table::format::describe;
use chomp_table::range;
use chomp_table::shard::{ShardInfo, decode_shard, shard_name};
use chomp_table::{Digest, Head, Range, RangeBits, TableError};

/// The bytes of the code block of this name.
fn vector(name: &str) -> Vec<u8> {
    let page = include_str!("../../../../docs/FORMAT.md");
    let start = format!("```text {name}\n");
    let (_, block) = page.split_once(&start).expect("the page has this vector");
    let (digits, _) = block.split_once("```").expect("the block ends");
    let digits: Vec<u32> = digits
        .chars()
        .filter(|digit| !digit.is_whitespace())
        .map(|digit| digit.to_digit(16).unwrap())
        .collect();
    digits
        .chunks(2)
        .map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap())
        .collect()
}

#[test]
fn the_range_record() {
    let range_bits = RangeBits::new(12).unwrap();
    let range = Range {
        head: Head(5),
        losing: [1, 3, 2047].into_iter().collect(),
        edges: 1 << 4,
    };
    let record = vector("range");
    assert_eq!(range::decode(&record, range_bits), Ok(range.clone()));
    let (summary, encoded) = range::encode(&range, range_bits);
    assert_eq!(encoded, record);
    assert_eq!(vector("range-sha256"), summary.digest.0);
}

#[test]
fn the_shard() {
    let bytes = vector("shard");
    let info = ShardInfo {
        name: shard_name(0),
        first: 2,
        last: 1 << 33,
        entries: 4,
        bytes: bytes.len() as u64,
        sha256: Digest::of(&bytes),
        index_offset: 64,
        index_sha256: Digest(vector("shard-index-sha256").try_into().unwrap()),
        words_sha256: Digest(vector("shard-words-sha256").try_into().unwrap()),
    };
    let words = decode_shard(&bytes, &info).unwrap();
    assert_eq!(words, [2, 12, 1026, 1 << 33]);
    let mut leaf = LeafBuilder::new();
    leaf.push(&words);
    let leaf = leaf.finish();
    assert_eq!(leaf.digest, info.words_sha256);
    let fingerprints = combine(34, &[leaf]).unwrap();
    assert_eq!(vector("shard-fingerprint"), fingerprints.by_bits[34].0);
}

#[test]
fn errors_are_told_with_their_causes() {
    let error = TableError::Io {
        file: "table-32/manifest.json".into(),
        source: std::io::Error::other("no light"),
    };
    let text = describe(&error);
    assert!(
        text.contains("manifest.json") && text.ends_with(": no light"),
        "{text}"
    );
}
