//! Fingerprints against their definition, and leaves that no table has.

use proptest::prelude::*;

use super::*;
use chomp_testing::definition;

/// The fingerprint and the number of the words of at most `bits` bits, by the definition.
fn slowly(words: &[u64], bits: u32, leaf_words: usize) -> (Digest, u64) {
    let words = words.iter().copied();
    let words: Vec<u64> = words.filter(|&word| u128::from(word) < 1 << bits).collect();
    let leaves = words.chunks(leaf_words).flat_map(|leaf| {
        let bytes: Vec<u8> = leaf.iter().flat_map(|word| word.to_le_bytes()).collect();
        Digest::of(&bytes).0
    });
    let leaves: Vec<u8> = leaves.collect();
    (Digest::of(&leaves), words.len() as u64)
}

fn check(bits: u32, words: &[u64], leaf_words: usize, piece: usize) -> Fingerprints {
    let mut builder = FingerprintBuilder::with_leaf(bits, leaf_words);
    words.chunks(piece).for_each(|words| builder.push(words));
    let found = builder.finish();
    let expected = (0..=bits).map(|bits| slowly(words, bits, leaf_words));
    let (by_bits, stored_by_bits): (Vec<Digest>, Vec<u64>) = expected.unzip();
    assert_eq!(found.by_bits, by_bits);
    assert_eq!(found.stored_by_bits, stored_by_bits);
    assert_eq!(combine(bits, &leaves(words, leaf_words)), Ok(found.clone()));
    found
}

/// Each leaf by itself, as whoever makes its shard computes it.
fn leaves(words: &[u64], leaf_words: usize) -> Vec<Leaf> {
    let leaf = |words: &[u64]| {
        let mut builder = LeafBuilder::new();
        builder.push(words);
        builder.finish()
    };
    words.chunks(leaf_words).map(leaf).collect()
}

#[test]
fn the_fingerprint_of_twenty_bits() {
    let losing = definition::losing(20);
    let words: Vec<u64> = (0..losing.len())
        .filter(|&index| losing[index])
        .map(|index| Word::new(index as u64 * 2))
        .filter(|&word| word == word.representative())
        .map(Word::get)
        .collect();
    let known = crate::known::fingerprints().next();
    for piece in [1, 7, words.len()] {
        let found = check(20, &words, LEAF_WORDS, piece);
        assert_eq!(Some((20, found.by_bits[20])), known);
    }
    for leaf_words in [1, 2, 100, words.len() - 1, words.len()] {
        check(20, &words, leaf_words, 1000);
    }
}

#[test]
fn tables_of_no_words_and_of_64_bits() {
    let empty = check(0, &[], 1, 1);
    assert_eq!(empty.by_bits, [Digest::of(&[])]);
    check(1, &[], 5, 1);
    check(5, &[2], 1, 1);
    let words = [2, 1 << 32, 1 << 33, (1 << 63) - 2, 1 << 63, u64::MAX - 1];
    for leaf_words in 1..8 {
        check(64, &words, leaf_words, 2);
    }
}

#[test]
fn a_leaf_says_what_a_smaller_table_needs() {
    let [leaf] = &leaves(&[2, 4, 6, 16, 18], 5)[..] else {
        panic!("one leaf");
    };
    let lengths = leaf
        .lengths
        .iter()
        .map(|length| (length.bits, length.words));
    assert_eq!(lengths.collect::<Vec<_>>(), [(2, 1), (3, 3), (5, 5)]);
    assert_eq!((leaf.words, leaf.digest), (5, leaf.lengths[2].digest));
    let text = serde_json::to_string(leaf).unwrap();
    assert_eq!(serde_json::from_str::<Leaf>(&text).unwrap(), *leaf);
    assert_eq!(Leaf::default().digest, Digest::of(&[]));
}

/// The last shards of a table of fewer bits than one range has may turn out to have no words.
#[test]
fn leaves_without_words_come_last_and_do_not_count() {
    let words: Vec<u64> = (1..30).map(|half| half * 2).collect();
    for leaf_words in [7, 29] {
        let mut all = leaves(&words, leaf_words);
        let expected = combine(6, &all).unwrap();
        all.extend([Leaf::default(), Leaf::default()]);
        assert_eq!(combine(6, &all), Ok(expected));
    }
    let nothing = combine(3, &[]).unwrap();
    assert_eq!(combine(3, &[Leaf::default()]), Ok(nothing.clone()));
    assert_eq!(combine(3, &[Leaf::default(), Leaf::default()]), Ok(nothing));
}

type Change = fn(&mut Vec<Leaf>);

#[test]
fn leaves_that_no_table_has_are_refused() {
    let words: Vec<u64> = (1..100).map(|half| half * 2).collect();
    let all = leaves(&words, 30);
    assert!(combine(8, &all).is_ok());
    let changes: [(Change, &str); 13] = [
        (|leaves| leaves.swap(0, 1), "words of"),
        (|leaves| leaves.swap(2, 3), "leaf 3 has 30 words after 69"),
        (
            |leaves| leaves.rotate_right(1),
            "leaf 1 has 30 words after 9",
        ),
        (
            |leaves| leaves[1] = Leaf::default(),
            "leaf 2 has 30 words after 30",
        ),
        (
            |leaves| leaves[0] = Leaf::default(),
            "leaf 1 has 30 words after 0",
        ),
        (
            |leaves| leaves[3].lengths[0].bits = 9,
            "words of 9 bits in a table of 8",
        ),
        (
            |leaves| leaves[0].lengths[1].bits = 2,
            "leaf 0: numbers of bits",
        ),
        (
            |leaves| leaves[0].lengths[1].words = 1,
            "leaf 0: numbers of bits",
        ),
        (
            |leaves| leaves[0].lengths[0].words = 0,
            "leaf 0: numbers of bits",
        ),
        (
            |leaves| leaves[3].words = 8,
            "leaf 3: the last number of bits",
        ),
        (
            |leaves| leaves[3].digest = Digest::of(b"other"),
            "leaf 3: the last number of bits",
        ),
        (
            |leaves| leaves[0].lengths.truncate(1),
            "leaf 0: the last number of bits",
        ),
        (
            |leaves| leaves[3].lengths.clear(),
            "leaf 3: the last number of bits",
        ),
    ];
    for (change, what) in changes {
        let mut leaves = all.clone();
        change(&mut leaves);
        let error = combine(8, &leaves).unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
    assert!(combine(65, &[]).is_err());
    let claims = Leaf {
        words: 5,
        ..Leaf::default()
    };
    assert!(combine(8, &[claims]).is_err());
}

#[test]
fn words_out_of_order_or_beyond_the_table_are_refused() {
    let pieces: [(&[&[u64]], usize, &str); 4] = [
        (&[&[4], &[4]], 9, "ascend"),
        (&[&[4, 4]], 9, "ascend"),
        (&[&[4, 2]], 1, "ascend"),
        (&[&[1 << 10]], 9, "more bits"),
    ];
    for (pieces, leaf_words, what) in pieces {
        let panic = std::panic::catch_unwind(|| {
            let mut builder = FingerprintBuilder::with_leaf(10, leaf_words);
            for words in pieces {
                builder.push(words);
            }
        });
        let panic = panic.unwrap_err();
        assert!(panic.downcast_ref::<&str>().unwrap().contains(what));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn agrees_with_the_definition(
        paths in prop::collection::btree_set((any::<u64>(), 0u32..64), 0..3000),
        leaf_words in 1usize..4000,
        piece in 1usize..2000
    ) {
        let mut words: Vec<u64> =
            paths.into_iter().map(|(path, shift)| Word::new(path >> shift).get()).collect();
        words.sort_unstable();
        words.dedup();
        check(64, &words, leaf_words, piece);
    }
}
