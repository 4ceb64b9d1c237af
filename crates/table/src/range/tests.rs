//! Records come back whole, and hostile ones are refused.

use proptest::prelude::*;

use super::*;
use chomp_testing::definition;

fn bits(bits: u32) -> RangeBits {
    RangeBits::new(bits).unwrap()
}

/// Every range of the table of 15 bits with 12 range bits, by the definition.
fn true_ranges() -> Vec<Range> {
    let losing = definition::losing(15);
    let is_losing = |path| losing[usize::try_from(path / 2).unwrap()];
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

/// The record of `range` as the layout has it, one number after the other.
fn encode_slowly(range: &Range, range_bits: RangeBits) -> Vec<u8> {
    let words = range.losing.indices();
    let words = words.map(|index| range.head.word(index.into(), range_bits));
    let stored = words.filter(|&word| word == word.representative()).count();
    let mut record = b"chomprng".to_vec();
    record.extend(3u32.to_le_bytes());
    record.extend(range_bits.get().to_le_bytes());
    for number in [range.head.0, range.edges] {
        record.extend(number.to_le_bytes());
    }
    for number in [range.losing.len(), stored] {
        record.extend((number as u64).to_le_bytes());
    }
    let (mut highs, mut lows) = (Vec::new(), Vec::new());
    let positions = u32::try_from(range_bits.positions()).unwrap();
    for start in (0..positions).step_by(1 << 16) {
        let mut count = 0u16;
        let mut string = Vec::new();
        for index in start..start + positions.min(1 << 16) {
            if range.losing.contains(index.into()) {
                string.push(1);
                lows.push(index.to_le_bytes()[0]);
                count += 1;
            }
            if index % 256 == 255 {
                string.push(0);
            }
        }
        record.extend(count.to_le_bytes());
        highs.extend(string.chunks(8).map(|bits| {
            let bits = bits.iter().enumerate();
            bits.fold(0, |byte, (place, bit)| byte | bit << place)
        }));
    }
    [record, highs, lows].concat()
}

fn check_round_trip(range: &Range, range_bits: RangeBits) -> Vec<u8> {
    let (encoded, record) = encode(range, range_bits);
    assert!(record.len() as u64 <= max_record_len(range_bits));
    assert_eq!(encoded.head, range.head);
    assert_eq!(encoded.count, range.losing.len() as u64);
    assert_eq!(encoded.digest, Digest::of(&record));
    assert_eq!(summary(&record, range_bits), Ok(encoded));
    assert_eq!(decode(&record, range_bits), Ok(range.clone()));
    let stored = encoded.stored;
    assert_eq!(
        decode_trusting_stored(&record, range_bits),
        Ok((range.clone(), stored))
    );
    record
}

#[test]
fn round_trips_of_true_empty_and_full_ranges() {
    for range in [true_ranges(), vec![Range::default()]].concat() {
        let record = check_round_trip(&range, bits(12));
        assert_eq!(record, encode_slowly(&range, bits(12)));
    }
    let full = Range {
        head: Head(3),
        losing: (0..1 << 9).collect(),
        edges: (1 << 13) - 1,
    };
    assert_eq!(full.losing.len() as u64, losing_max(bits(12)));
    let record = check_round_trip(&full, bits(12));
    assert_eq!(record.len(), HEADER_LENGTH + 2 + (8 + 512) / 8 + 512);
    let late = Range {
        losing: (1536..2048).collect(),
        edges: 0,
        ..full
    };
    check_round_trip(&late, bits(12));
    let ends = Range {
        head: Head(u64::MAX >> 32),
        losing: [0, u32::MAX >> 1].into_iter().collect(),
        edges: 1 << 32,
    };
    check_round_trip(&ends, bits(32));
}

/// As many as there may be, spread over 8 buckets: the limit is no more than a byte for each too high.
#[test]
fn the_longest_record_is_as_long_as_is_said() {
    let range_bits = bits(20);
    let most = u32::try_from(losing_max(range_bits)).unwrap();
    let range = Range {
        head: Head(3),
        losing: (0..most).map(|number| 12 * number + 1).collect(),
        edges: 0,
    };
    let record = check_round_trip(&range, range_bits);
    let spare = max_record_len(range_bits) - record.len() as u64;
    assert!(spare <= buckets(range_bits), "{spare}");
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

/// `encode` writes the highs by words, `decode` reads them by bytes, and both end where there are fewer.
#[test]
fn highs_of_every_length() {
    for count in (0..=130).chain([250, 1000]) {
        for step in [1, 5, 256, 300, 512] {
            for start in [
                0,
                1,
                255,
                (1 << 16) - 300,
                1 << 16,
                (1u32 << 17).saturating_sub(1 + count * step),
            ] {
                let losing = (0..count).map(|number| start + number * step);
                let losing: Vec<u32> = losing.filter(|&index| index < 1 << 17).collect();
                let edges = u64::from(losing.first() == Some(&0)) << 18;
                let range = Range {
                    head: Head(1),
                    losing: losing.into_iter().collect(),
                    edges,
                };
                let record = check_round_trip(&range, bits(18));
                let slowly = encode_slowly(&range, bits(18));
                assert_eq!(record, slowly, "{count} from {start} by {step}");
            }
        }
    }
}

#[test]
fn positions_beyond_the_range_or_out_of_order_are_not_written() {
    for (losing, what) in [(vec![1 << 11], "beyond the range"), (vec![5, 4], "ascend")] {
        let range = Range {
            head: Head(1),
            losing: losing.into_iter().collect(),
            edges: 0,
        };
        let panic = std::panic::catch_unwind(|| encode(&range, bits(12))).unwrap_err();
        assert!(panic.downcast_ref::<&str>().unwrap().contains(what));
    }
}

/// As one index after the other, wherever the range begins.
#[test]
fn buckets_are_those_of_the_indices() {
    for start in [0, 1 << 11, 5 << 16, (1 << 32) - (1 << 18)] {
        for indices in [
            &[][..],
            &[0],
            &[70_000],
            &[3, 65_535, 65_536, 200_001, 262_143],
        ] {
            let beyond: Vec<u32> = indices
                .iter()
                .map(|&index| u32::try_from(start + u64::from(index)).unwrap())
                .collect();
            let expected: IndexBuckets = indices.iter().copied().collect();
            assert_eq!(IndexBuckets::from_ascending(&beyond, start), expected);
        }
    }
}

#[test]
#[should_panic(expected = "ascend")]
fn positions_are_not_put_into_an_earlier_bucket() {
    let _: IndexBuckets = [1 << 16, 5].into_iter().collect();
}

/// Decodes any bytes: if they are a record, it is the only one of its range.
fn check_any(record: &[u8], range_bits: RangeBits) -> Result<Range, FormatError> {
    let decoded = decode_trusting_stored(record, range_bits);
    if let Ok((range, _)) = &decoded {
        assert!(range.losing.len() <= record.len());
        assert!(range.losing.bucket_count() as u64 <= buckets(range_bits));
    }
    let range = decode(record, range_bits)?;
    assert!(decoded.is_ok());
    assert_eq!(encode(&range, range_bits).1, record);
    Ok(range)
}

#[test]
fn every_truncation_is_refused_and_every_flip_is_seen() {
    let range_bits = bits(12);
    let original = &true_ranges()[5];
    let record = check_round_trip(original, range_bits);
    for length in 0..record.len() {
        assert!(
            decode_trusting_stored(&record[..length], range_bits).is_err(),
            "{length}"
        );
    }
    for length in 0..HEADER_LENGTH {
        assert!(summary(&record[..length], range_bits).is_err(), "{length}");
    }
    for byte in [0, 1, 255] {
        assert!(decode_trusting_stored(&[&record[..], &[byte]].concat(), range_bits).is_err());
    }
    let mut others = 0;
    for at in 0..record.len() {
        for mask in 1..=255 {
            let mut record = record.clone();
            record[at] ^= mask;
            if let Ok(range) = check_any(&record, range_bits) {
                assert_ne!(&range, original, "byte {at} ^ {mask:02x}");
                others += 1;
            }
        }
    }
    assert!(others > 0, "the digest is what tells them apart");
}

#[test]
fn newer_formats_and_other_range_bits_are_named() {
    let mut record = check_round_trip(&true_ranges()[1], bits(12));
    let other = decode_trusting_stored(&record, bits(13)).unwrap_err();
    assert_eq!(
        other.to_string(),
        "the record has 12 range bits instead of 13"
    );
    record[8] = 4;
    let newer = FormatError::Newer {
        what: "a range record",
        found: 4,
        known: 3,
    };
    assert_eq!(summary(&record, bits(12)), Err(newer.clone()));
    assert_eq!(decode_trusting_stored(&record, bits(12)), Err(newer));
    record[8] = 2;
    let older = decode_trusting_stored(&record, bits(12)).unwrap_err();
    assert_eq!(older.to_string(), "a range record has the unknown format 2");
}

/// A record of this header, these counts, and these highs and lows.
fn forged(range_bits: u32, header: [u64; 4], counts: &[u16], rest: &[u8]) -> Vec<u8> {
    let [head, edges, count, stored] = header;
    let header = Header {
        head: Head(head),
        edges,
        count,
        stored,
    };
    let mut record = header.bytes(bits(range_bits)).to_vec();
    record.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
    [&record, rest].concat()
}

#[test]
fn forged_records_are_refused() {
    let check_bits = |range_bits, header, counts: &[u16], rest: &[u8], what: &str| {
        let record = forged(range_bits, header, counts, rest);
        let error = check_any(&record, bits(range_bits))
            .unwrap_err()
            .to_string();
        assert!(error.contains(what), "{error}");
    };
    let check = |header, counts: &[u16], rest: &[u8], what: &str| {
        check_bits(12, header, counts, rest, what);
    };
    check([1 << 52, 0, 0, 0], &[0], &[0], "too long");
    check([1, 1 << 13, 0, 0], &[0], &[0], "bit above b");
    check(
        [1, 0, 1, 2],
        &[1],
        &[1, 0, 1],
        "2 of 1 losing positions stored",
    );
    check([1, 0, 1, 0], &[1], &[1, 0, 0], "edges disagree");
    check([1, 1 << 12, 1, 0], &[1], &[1, 0, 1], "edges disagree");
    check([1, 1 << 12, 0, 0], &[0], &[0], "edges disagree");
    let stored = "1 positions to store where the header says 0";
    check([1, 0, 1, 0], &[1], &[1, 0, 2], stored);
    check([1, 0, 0, 0], &[], &[], "cut short");
    let other = "1 losing positions where the header says 2";
    check([1, 0, 2, 0], &[1], &[3, 0, 1, 2], other);
    let other = "2 losing positions where the header says 1";
    check([1, 0, 1, 0], &[2], &[3, 0, 1, 2], other);
    check([1, 0, 2, 0], &[2], &[3, 0, 1], "cut short");
    check([1, 0, 2, 0], &[2], &[3], "cut short");
    check([1, 0, 1, 0], &[1], &[1, 0, 1, 0], "too long");
    check([1, 0, 0, 0], &[0], &[0, 0], "too long");
    let most = "513 losing positions of 2048, where 512 are";
    check([1, 0, 513, 0], &[513], &[0; 66 + 513], most);

    let highs = "highs of a bucket are damaged";
    for (high, next) in [(0, 0), (3, 0), (0, 1), (0, 2), (2, 1), (1, 2), (255, 255)] {
        check([1, 0, 1, 0], &[1], &[high, next, 7], highs);
    }
    check([1, 0, 0, 0], &[0], &[1], highs);
    check([1, 0, 0, 0], &[0], &[128], highs);
    check([1, 0, 2, 0], &[2], &[3, 4, 1, 2], highs);
    // As many 1s as there are positions, and not where they belong.
    check_bits(
        18,
        [1, 0, 2, 0],
        &[1, 1],
        &[&[3][..], &[0; 65], &[1, 2]].concat(),
        highs,
    );
    check_bits(
        18,
        [1, 0, 2, 0],
        &[1, 1],
        &[&[0; 33][..], &[3], &[0; 32], &[1, 2]].concat(),
        highs,
    );
    for lows in [[1, 1], [2, 1]] {
        let rest = [[3, 0], lows].concat();
        check([1, 0, 2, 0], &[2], &rest, "do not ascend");
    }
    let last = [&[0; 31][..], &[0x80, 0], &[0; 32], &[255]].concat();
    let record = forged(18, [1, 0, 1, 0], &[1, 0], &last);
    assert_eq!(
        decode_trusting_stored(&record, bits(18))
            .unwrap()
            .0
            .losing
            .lows,
        [u16::MAX]
    );
    let beyond = [&[0; 31][..], &[0, 1], &[0; 32], &[255]].concat();
    check_bits(18, [1, 0, 1, 0], &[1, 0], &beyond, highs);
}

/// Counts up to those of a full range of 32 range bits, and hardly a byte.
#[test]
fn huge_claims_are_refused_before_memory_is_taken() {
    let most = losing_max(bits(32));
    let record = forged(32, [1, 0, most, 0], &vec![u16::MAX; 1 << 15], &[0; 100]);
    let error = decode_trusting_stored(&record, bits(32))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("losing positions where the header"),
        "{error}"
    );
    let mut counts = vec![u16::MAX; 1 << 15];
    let full = usize::try_from(most / u64::from(u16::MAX)).unwrap();
    counts[full] = u16::try_from(most % u64::from(u16::MAX)).unwrap();
    counts[full + 1..].fill(0);
    let record = forged(32, [1, 0, most, 0], &counts, &[0; 100]);
    let error = decode_trusting_stored(&record, bits(32))
        .unwrap_err()
        .to_string();
    assert!(error.contains("cut short"), "{error}");
}

proptest! {
    #[test]
    fn the_stored_positions_are_counted_as_the_definition_says(
        head in prop_oneof![0u64..64, any::<u64>()],
        b in 12u32..=32,
        indices in prop::collection::btree_set(any::<u32>(), 0..300),
        palindromes in prop::collection::vec(any::<u32>(), 0..20)
    ) {
        let range_bits = bits(b);
        let head = Head(head >> b);
        let end = u32::try_from(range_bits.positions()).unwrap();
        // Words whose ends are each other's image: the first byte does not tell.
        let alike = |low: u32| {
            let bits = head.bit_len() + b;
            let top = head.0 << b | u64::from(low % end) << 1;
            let mirror = (!top).reverse_bits() >> (u64::BITS - bits);
            u32::try_from((mirror & 0xffff) >> 1).unwrap() | low & !0x7fff
        };
        let palindromes = palindromes.into_iter().filter(|_| !head.is_zero()).map(alike);
        let mut losing: Vec<u32> = indices.into_iter().chain(palindromes).map(|index| index % end).collect();
        losing.sort_unstable();
        losing.dedup();
        let range = Range { head, losing: losing.into_iter().collect(), edges: 0 };
        let words = range.losing.indices().map(|index| head.word(index.into(), range_bits));
        let expected = words.filter(|&word| word == word.representative()).count();
        prop_assert_eq!(stored(&range, range_bits), expected as u64);
    }

    #[test]
    fn round_trips(indices in prop::collection::btree_set(0u32..1 << 23, 0..300), head in 0u64..1 << 40) {
        let losing: Vec<u32> = indices.into_iter().collect();
        let edges = u64::from(losing.first() == Some(&0)) << 24;
        let range = Range { head: Head(head), losing: losing.into_iter().collect(), edges };
        check_round_trip(&range, bits(24));
    }
}
