//! Records come back whole, and hostile ones are refused.

use proptest::prelude::*;

use super::*;
use crate::definition;

fn bits(bits: u32) -> RangeBits {
    RangeBits::new(bits).unwrap()
}

/// Every range of the table of 15 bits with 12 range bits, by the definition.
fn true_ranges() -> Vec<Range> {
    let losing = definition::losing(15);
    let is_losing = |path| losing[definition::index_of(crate::Word::new(path))];
    let range = |head: u64| Range {
        head: Head(head),
        losing: (0..1 << 11)
            .filter(|&index| is_losing(head << 12 | u64::from(index) << 1))
            .collect(),
        edges: (0..=12)
            .filter(|x| is_losing(head << 12 | ((1 << (12 - x)) - 1)))
            .fold(0, |edges, x| edges | 1 << x),
    };
    (0..8).map(range).collect()
}

fn check_round_trip(range: &Range, range_bits: RangeBits) -> Vec<u8> {
    let (encoded, record) = encode(range, range_bits);
    assert!(record.len() as u64 <= max_record_len(range_bits));
    assert_eq!(encoded.head, range.head);
    assert_eq!(encoded.count, range.losing.len() as u64);
    assert_eq!(summary(&record, range_bits), Ok(encoded));
    assert_eq!(decode(&record, range_bits), Ok((encoded, range.clone())));
    assert_eq!(
        decode_known(&record, range_bits),
        decode(&record, range_bits)
    );
    record
}

#[test]
fn round_trips_of_true_empty_and_full_ranges() {
    for range in true_ranges() {
        check_round_trip(&range, bits(12));
    }
    check_round_trip(&Range::default(), bits(12));
    let full = Range {
        head: Head(3),
        losing: (0..1 << 9).collect(),
        edges: (1 << 13) - 1,
    };
    assert_eq!(full.losing.len() as u64, losing_max(bits(12)));
    check_round_trip(&full, bits(12));
    let ends = Range {
        head: Head(u64::MAX >> 32),
        losing: vec![0, u32::MAX >> 1],
        edges: 1 << 32,
    };
    check_round_trip(&ends, bits(32));
}

/// A limit that a true range broke would lose work: the densities are those of the fullest ranges.
#[test]
fn true_ranges_have_at_most_a_third_of_the_positions_that_are_possible() {
    for (range_bits, fullest) in [(12, 126), (14, 353), (16, 1036), (18, 3333), (22, 36_673)] {
        let most = losing_max(bits(range_bits));
        assert!(3 * fullest < most, "{range_bits} range bits: {most}");
    }
    assert!(5 * 15_220_362 < losing_max(bits(32)));
}

/// The bytes that `docs/FORMAT.md` shows.
#[test]
fn the_test_vector_of_the_format() {
    let range = Range {
        head: Head(5),
        losing: vec![1, 3, 2047],
        edges: 1 << 4,
    };
    let (summary, record) = encode(&range, bits(12));
    let prefix = [
        &b"chomprng"[..],
        &[
            1, 0, 0, 0, 12, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0,
            0, 0, 0, 0,
        ],
    ]
    .concat();
    assert_eq!(record[..40], prefix);
    assert_eq!(
        summary.digest,
        Digest::of_parts(&[&prefix, &[1, 1, 0xe7, 0x1b]])
    );
    assert_eq!(
        summary.digest.to_string(),
        "b9cfbecd683c4cec6911531c35d39dd28d311da2d2356a6805d9bb6d5a5d56e9"
    );
    assert_eq!(record[40..72], summary.digest.0);
    assert_eq!(record[72..80], (record.len() as u64 - 80).to_le_bytes());
    assert_eq!(zstd::decode_all(&record[80..]).unwrap(), [1, 1, 0xe7, 0x1b]);
}

/// A damaged record never gives another range: the header is compared, the content hashed.
#[test]
fn every_truncation_and_every_flip_is_an_error_or_harmless() {
    let range_bits = bits(12);
    let original = &true_ranges()[5];
    let record = check_round_trip(original, range_bits);
    for length in 0..record.len() {
        assert!(summary(&record[..length], range_bits).is_err(), "{length}");
        assert!(decode(&record[..length], range_bits).is_err(), "{length}");
    }
    assert!(decode(&[&record[..], &[0]].concat(), range_bits).is_err());
    let mut harmless = 0;
    for at in 0..record.len() {
        for mask in 1..=255 {
            let mut record = record.clone();
            record[at] ^= mask;
            match decode(&record, range_bits) {
                Err(_) => {}
                Ok((_, range)) => {
                    assert_eq!(&range, original, "byte {at} ^ {mask:02x}");
                    assert!(at >= HEADER_LENGTH, "byte {at} ^ {mask:02x} of the header");
                    harmless += 1;
                }
            }
        }
    }
    assert!(harmless < 255, "{harmless} flips of zstd's framing went by");
}

#[test]
fn newer_formats_and_other_range_bits_are_named() {
    let mut record = check_round_trip(&true_ranges()[1], bits(12));
    let other = decode(&record, bits(13)).unwrap_err();
    assert_eq!(
        other.to_string(),
        "the record has 12 range bits instead of 13"
    );
    record[8] = 2;
    let newer = FormatError::Newer {
        what: "a range record",
        found: 2,
        known: 1,
    };
    assert_eq!(summary(&record, bits(12)), Err(newer.clone()));
    assert_eq!(decode(&record, bits(12)), Err(newer));
    record[8] = 0;
    assert!(matches!(
        decode(&record, bits(12)),
        Err(FormatError::Damaged(_))
    ));
}

/// A record with honest digests and lengths whose content is no range.
fn forged(range_bits: RangeBits, header: &Header, block: &[u8]) -> Vec<u8> {
    let prefix = header.prefix(range_bits);
    let frame = gaps::compress(block, 0);
    let digest = Digest::of_parts(&[&prefix, block]).0;
    [
        &prefix[..],
        &digest,
        &(frame.len() as u64).to_le_bytes(),
        &frame,
    ]
    .concat()
}

#[test]
fn forged_records_are_refused() {
    let check = |head, edges, count, block: &[u8], what: &str| {
        let record = forged(
            bits(12),
            &Header {
                head: Head(head),
                edges,
                count,
            },
            block,
        );
        let error = decode(&record, bits(12)).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    check(1 << 52, 0, 0, &[], "too long");
    check(1, 1 << 13, 0, &[], "bit above b");
    check(1, 0, 1, &[0], "edges disagree");
    check(1, 1 << 12, 1, &[1], "edges disagree");
    let beyond = [0xe7, 0x20];
    check(1, 0, 1, &beyond, "the number 2048 where all are below 2048");
    check(1, 0, 1, &[0xe7, 0, 0], "a block of 3 bytes");
    check(1, 0, 3, &[1, 1], "a block of 2 bytes for 3 positions");
    check(1, 0, 1, &[0xe7], "a block of 1 bytes");
    check(
        1,
        0,
        513,
        &[0; 513],
        "513 losing positions of 2048, where 512 are",
    );
    check(1, 0, 1, &[1, 0], "bytes after the last wide gap");
    check(1, 0, 5, &[0, 0, 0, 0, 255], "is cut short");
}

#[test]
fn huge_claims_take_no_memory() {
    let header = Header {
        head: Head(0),
        edges: 0,
        count: losing_max(bits(32)),
    };
    let record = forged(bits(32), &header, &[0; 100]);
    assert!(decode(&record, bits(32)).is_err());
    // A frame that says it holds the 2^32 bytes that would be needed.
    let mut record = record[..HEADER_LENGTH].to_vec();
    record.extend_from_slice(&[
        0x28,
        0xb5,
        0x2f,
        0xfd,
        0b1110_0100,
        0,
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        1,
        0,
        0,
    ]);
    let length = (record.len() - HEADER_LENGTH) as u64;
    record[72..80].copy_from_slice(&length.to_le_bytes());
    let error = decode(&record, bits(32)).unwrap_err().to_string();
    assert!(error.contains("claims to hold 4294967296"), "{error}");
}

proptest! {
    #[test]
    fn round_trips(indices in prop::collection::btree_set(0u32..1 << 23, 0..300), head in 0u64..1 << 40) {
        let losing: Vec<u32> = indices.into_iter().collect();
        let edges = u64::from(losing.first() == Some(&0)) << 24;
        check_round_trip(&Range { head: Head(head), losing, edges }, bits(24));
    }
}
