//! A manifest comes back whole, and is refused when it contradicts itself.

use serde_json::{Value, json};

use super::*;
use crate::fingerprint::FingerprintBuilder;
use crate::shard::{ShardSize, ShardWriter};

const SIZE: ShardSize = ShardSize {
    frame_words: 2,
    shard_words: 3,
};

/// As many words of each number of bits as a table of 6 bits could hold.
const WORDS: [u64; 8] = [2, 10, 20, 36, 38, 44, 46, 52];

fn example() -> Manifest {
    let mut fingerprints = FingerprintBuilder::with_leaf(6, SIZE.shard_words);
    fingerprints.push(&WORDS);
    let shard = |(number, words): (usize, &[u64])| {
        let mut writer = ShardWriter::new(number, SIZE);
        assert!(writer.push(words).is_empty());
        writer.finish().0
    };
    let shards = WORDS
        .chunks(SIZE.shard_words)
        .enumerate()
        .map(shard)
        .collect();
    let range_bits = RangeBits::new(12).unwrap();
    Manifest::new(
        range_bits,
        2,
        "chomp 0.1.0".into(),
        fingerprints.finish(),
        shards,
    )
    .unwrap()
}

#[test]
fn a_manifest_comes_back() {
    let manifest = example();
    assert_eq!((manifest.bits, manifest.positions), (6, 32));
    assert_eq!((manifest.stored, manifest.losing), (8, 13));
    assert_eq!(manifest.losing_by_bits, [0, 0, 1, 1, 2, 4, 13]);
    let bytes = manifest.to_bytes();
    assert_eq!(bytes.last(), Some(&b'\n'));
    assert_eq!(Manifest::parse(&bytes), Ok(manifest));
}

#[test]
fn the_list_of_digests() {
    let manifest = example();
    let sums = sha256sums(b"abc", &manifest);
    let lines: Vec<&str> = sums.lines().collect();
    assert!(
        sums.ends_with('\n') && lines.is_sorted_by_key(|line| line.split_once("  ").unwrap().1)
    );
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(lines[0], format!("{abc}  manifest.json"));
    assert_eq!(
        lines[3],
        format!("{}  shard-0002.zst", manifest.shards[2].sha256)
    );
    assert_eq!(lines.len(), 4);
}

#[test]
fn a_newer_format_is_named_whatever_else_it_holds() {
    let newer = FormatError::Newer {
        what: "the manifest",
        found: 3,
        known: 2,
    };
    assert_eq!(
        Manifest::parse(b"{\"format\": 3, \"new\": [1.5]}"),
        Err(newer.clone())
    );
    let text = newer.to_string();
    assert_eq!(
        text,
        "the manifest has format 3, and this program knows format 2: use a newer chomp"
    );
}

fn check(pointer: &str, value: Value, what: &str) {
    let mut json = serde_json::to_value(example()).unwrap();
    *json.pointer_mut(pointer).unwrap() = value;
    match Manifest::parse(json.to_string().as_bytes()) {
        Err(FormatError::Damaged(damage)) => {
            assert!(damage.to_string().contains(what), "{pointer}: {damage}");
        }
        other => panic!("{pointer}: {other:?}"),
    }
}

/// Which field is changed, the JSON that is put there, and how it is refused.
const CONTRADICTIONS: &str = r#"
/format                 | 0    | unknown format 0
/format                 | 1    | unknown format 1
/bits                   | 7    | 32 positions; there are 64
/bits                   | 65   | 65 bits
/bits                   | -1   | it is not a manifest
/positions              | 33   | 33 positions
/losing                 | 14   | losing_by_bits does not end
/stored                 | 7    | 7 stored words
/losing_by_bits         | [0,13] | losing_by_bits has 2
/losing_by_bits/3       | 3    | losing_by_bits falls
/losing_by_bits/1       | 1    | losing_by_bits falls
/losing_by_bits/2       | 2    | losing_by_bits falls
/losing_by_bits/6       | MAX  | losing_by_bits falls
/fingerprint            | OTHER | does not end with the fingerprint
/fingerprint            | "00" | 64 hexadecimal digits
/shards/1/words_sha256  | OTHER | not that of the words_sha256
/shards/2/words_sha256  | null | invalid type: null
/fingerprints_by_bits   | []   | fingerprints_by_bits has 0
/range_bits             | 11   | 11 range bits
/replicas               | 0    | nobody computed
/replicas               | -1   | it is not a manifest
/software               | 7    | it is not a manifest
/shards                 | []   | hold 0 words of 8
/shards/1/name          | "shard-0002.zst"    | shard 1 is called
/shards/1/name          | "../shard-0001.zst" | shard 1 is called
/shards/1/name          | "/shard-0001.zst"   | shard 1 is called
/shards/1/name          | "shard-1.zst"       | shard 1 is called
/shards/1/name          | ""   | shard 1 is called
/shards/0/first         | 0    | goes from word 0
/shards/0/first         | 3    | goes from word 3
/shards/1/first         | 20   | goes from word 20
/shards/1/last          | 34   | from word 36 to 34
/shards/1/last          | 47   | from word 36 to 47
/shards/2/last          | 64   | to 64
/shards/2/last          | 18446744073709551614 | to 18446744073709551614
/shards/0/entries       | 0    | has 0 words
/shards/0/entries       | 11   | has 11 words
/shards/0/entries       | MAX  | has 18446744073709551615 words
/shards/0/entries       | 2    | shard-0001.zst is larger
/shards/1/entries       | 2    | shard-0002.zst is larger
/shards/2/entries       | 1    | hold 7 words of 8
/shards/0/index_offset  | MAX  | its index at 18446744073709551615
/shards/0/bytes         | 1    | has 1 bytes
/shards/0               | {"name": "shard-0000.zst"} | missing field
"#;

#[test]
fn whatever_contradicts_itself_is_refused() {
    let other = json!(Digest::of(&[])).to_string();
    for case in CONTRADICTIONS.trim().lines() {
        let case = case.replace("MAX", &u64::MAX.to_string());
        let case = case.replace("OTHER", &other);
        let [pointer, value, what] = case.splitn(3, '|').map(str::trim).collect::<Vec<_>>()[..]
        else {
            panic!("{case}");
        };
        check(pointer, serde_json::from_str(value).unwrap(), what);
    }
}

#[test]
fn unknown_and_repeated_fields_are_refused() {
    let text = String::from_utf8(example().to_bytes()).unwrap();
    for field in ["\"bits\": 6,", "\"more\": 6,"] {
        let text = text.replacen('{', &format!("{{{field}"), 1);
        assert!(Manifest::parse(text.as_bytes()).is_err(), "{field}");
    }
    let text = text.replacen("\"name\"", "\"more\": 6, \"name\"", 1);
    assert!(Manifest::parse(text.as_bytes()).is_err());
    for text in [
        "",
        "[]",
        "null",
        "{}",
        "{\"format\": 1}",
        "{\"format\": 2}",
        "{\"format\": \"1\"}",
    ] {
        assert!(
            matches!(
                Manifest::parse(text.as_bytes()),
                Err(FormatError::Damaged(_))
            ),
            "{text}"
        );
    }
}

#[test]
fn sizes_and_lists_beyond_the_limits_are_refused() {
    let shard = &example().shards[0];
    // Shorter or longer than an index with an entry for each frame, and with more frames than words.
    for frames in [-2, -1, 1, 2, 1_000] {
        let bytes = shard.bytes.checked_add_signed(frames * 56).unwrap();
        let possible = (1..=3).contains(&(frames + 2));
        if !possible {
            check("/shards/0/bytes", json!(bytes), "words cannot have");
        }
        check("/shards/0/bytes", json!(bytes + 1), "words cannot have");
    }
    check("/shards/0/bytes", json!(10u64.pow(15)), "words cannot have");
    check("/shards/0/index_offset", json!(19), "words cannot have");
    check("/software", json!("c".repeat(257)), "a name of 257 bytes");
    check(
        "/shards/1/name",
        json!("shard".repeat(100)),
        &format!("is called {:?}", "shard".repeat(16)),
    );
    check(
        "/losing_by_bits",
        json!(vec![0; 66]),
        "a list of at most 65",
    );
    check("/shards", json!(vec![0; 66]), "invalid type");
}

/// The sizes of shards with the longest frames that there can be, and with one byte more.
#[test]
fn no_shard_is_longer_than_its_words_can_make_it() {
    // Words of all classes, each far from the one before.
    let words: Vec<u64> = (0..2_000u64)
        .map(|word| 2 + word * ((1 << 24) + 2))
        .collect();
    for frame_words in [1, 3, 100, 2_000] {
        let mut writer = ShardWriter::new(
            0,
            ShardSize {
                frame_words,
                shard_words: 2_000,
            },
        );
        assert!(writer.push(&words).is_empty());
        let (info, ..) = writer.finish();
        assert_eq!(info.check_sizes(), Ok(()));
        let frames = 2_000_u64.div_ceil(frame_words as u64);
        // Nine bytes a word, those that zstd adds, and its own for each frame.
        let most = 20 + 9 * 2_000 + 9 * 2_000 / 256 + 64 * frames;
        let index = info.bytes - info.index_offset;
        for (offset, possible) in [(most, true), (most + 1, false)] {
            let info = ShardInfo {
                index_offset: offset,
                bytes: offset + index,
                ..info.clone()
            };
            assert_eq!(info.check_sizes().is_ok(), possible, "{frame_words}");
        }
        // Words that stand close together have few wide gaps: two bytes each, and one for each class.
        let close = ShardInfo {
            last: info.first + 2 * 8_000,
            index_offset: most,
            bytes: most + index,
            ..info
        };
        assert_eq!(close.check_sizes().is_ok(), frame_words < 32);
    }
}

/// At most half of all positions are losing, and true counts are far below.
#[test]
fn true_counts_are_possible() {
    for bits in 2..=16 {
        let losing = chomp_testing::definition::losing(bits);
        let count = losing.iter().filter(|&&losing| losing).count() as u64;
        assert!((1..=losing_max(bits)).contains(&count), "{bits}: {count}");
        assert_eq!(losing_max(bits), positions(bits) / 2);
    }
}

#[test]
fn tables_without_words_have_no_shards() {
    for bits in [0, 1] {
        let fingerprints = FingerprintBuilder::new(bits).finish();
        let range_bits = RangeBits::new(24).unwrap();
        let manifest = Manifest::new(
            range_bits,
            1,
            "chomp 0.1.0".into(),
            fingerprints,
            Vec::new(),
        )
        .unwrap();
        assert_eq!((manifest.positions, manifest.losing), (1, 0));
        assert_eq!(Manifest::parse(&manifest.to_bytes()), Ok(manifest));
    }
}
