//! Restored ranges, compared with ranges by definition.

use std::fs;
use std::path::PathBuf;

use chomp_table::shard::ShardSize;
use chomp_testing::definition;
use chomp_testing::tables::{publish_words, words_of};

use super::*;

/// Writes a table of `bits` bits with these losing positions, in shards of `shard_words` words. Returns its folder.
fn publish(directory: &Path, bits: u32, losing: &[bool], shard_words: usize) -> PathBuf {
    let size = ShardSize {
        shard_words,
        frame_words: 100,
    };
    publish_words(directory, bits, size, &words_of(losing))
}

fn is_losing(losing: &[bool], word: Word) -> bool {
    losing[definition::index_of(word)]
}

/// The record of a range as its format says it.
fn record(losing: &[bool], head: Head, range_bits: RangeBits) -> (RangeSummary, Vec<u8>) {
    let b = range_bits.get();
    let indices = 0..u32::try_from(range_bits.positions()).unwrap();
    let here = |&index: &u32| is_losing(losing, head.word(index.into(), range_bits));
    let path = |zeros: u32| Word::new(head.0 << b | ((1 << (b - zeros)) - 1));
    let edges = (0..=b).filter(|&zeros| is_losing(losing, path(zeros)));
    let range = Range {
        head,
        losing: indices.filter(here).collect(),
        edges: edges.map(|zeros| 1 << zeros).sum(),
    };
    range::encode(&range, range_bits)
}

fn restored(
    table: &Table,
    range_bits: RangeBits,
    (threads, memory_bytes): (usize, u64),
    wanted: impl Fn(Head) -> bool + Sync,
) -> Records {
    let scratch = tempfile::tempdir().unwrap();
    let restorer = Restorer {
        table,
        range_bits,
        threads,
        memory_bytes,
        scratch: scratch.path(),
    };
    let all = Mutex::new(Vec::new());
    let told = Mutex::new((0, 0));
    let keep = |layers: BTreeMap<u32, Records>| {
        for (layer, records) in layers {
            assert!(records.is_sorted_by_key(|(summary, _)| summary.head));
            assert!(
                records
                    .iter()
                    .all(|(summary, _)| summary.head.layer() == layer)
            );
            all.lock().extend(records);
        }
        Ok(())
    };
    let watch = |done: u64, all: u64| {
        *told.lock() = (done, all);
        ControlFlow::Continue(())
    };
    restorer.run(&wanted, &keep, &watch).unwrap();
    let (done, most) = told.into_inner();
    assert!(done <= most);
    let mut all = all.into_inner();
    all.sort_unstable_by_key(|(summary, _)| summary.head);
    all
}

#[test]
fn records_are_those_of_ranges_that_were_evaluated() {
    let losing = definition::losing(18);
    for (bits, range_bits, threads, memory_bytes) in [
        (18, 12, 1, 1 << 20),
        (18, 12, 3, 1),
        (18, 13, 2, 5000),
        (18, 18, 2, 800),
        (17, 12, 2, 100_000),
        (12, 12, 2, 100),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let folder = publish(directory.path(), bits, &losing[..1 << (bits - 1)], 700);
        let table = Table::open(&folder).unwrap();
        let range_bits = RangeBits::new(range_bits).unwrap();
        let found = restored(&table, range_bits, (threads, memory_bytes), |_| true);
        let heads = (0..range_bits.head_count(bits)).map(Head);
        let expected: Vec<_> = heads
            .map(|head| record(&losing, head, range_bits))
            .collect();
        assert!(
            found == expected,
            "{bits} bits, {range_bits} range bits, {threads} threads"
        );
        let some = restored(&table, range_bits, (threads, memory_bytes), |head| {
            head.0 % 3 == 1
        });
        let expected = expected
            .into_iter()
            .filter(|(summary, _)| summary.head.0 % 3 == 1);
        assert!(some.into_iter().eq(expected));
    }
}

/// The table has only a part of the range.
#[test]
fn a_table_that_is_smaller_than_a_range_restores_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let folder = publish(directory.path(), 13, &definition::losing(13), 100);
    let table = Table::open(&folder).unwrap();
    let range_bits = RangeBits::new(14).unwrap();
    let nothing = restored(&table, range_bits, (2, 1 << 20), |_| true);
    assert_eq!(nothing, []);
}

#[test]
fn a_table_that_was_made_up_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let losing: Vec<bool> = (0..1 << 13).map(|index| index % 3 == 1).collect();
    let table = Table::open(&publish(directory.path(), 14, &losing, 1000)).unwrap();
    let restorer = Restorer {
        table: &table,
        range_bits: RangeBits::new(13).unwrap(),
        threads: 1,
        memory_bytes: 1 << 20,
        scratch: directory.path(),
    };
    let refused = restorer.run(&|_| true, &|_| Ok(()), &|_, _| ControlFlow::Continue(()));
    let error = refused.unwrap_err().to_string();
    assert!(
        error.contains("more losing positions than range 0 can have"),
        "{error}"
    );
    assert!(are_possible(&[0, 1, 5], restorer.range_bits));
    let full: Vec<u32> = (7..7 + (1 << BUCKET_BITS)).collect();
    let largest = RangeBits::new(32).unwrap();
    assert!(!are_possible(&full, largest) && are_possible(&full[1..], largest));
}

/// A shard may list the larger word of a mirror pair only if somebody made it up.
#[test]
fn a_word_whose_mirror_image_is_smaller_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut words = words_of(&definition::losing(14));
    let pair = words.iter().map(|&word| Word::new(word).mirror().get());
    let larger = pair.max().unwrap();
    words.push(larger);
    words.sort_unstable();
    let size = ShardSize {
        shard_words: 500,
        frame_words: 100,
    };
    let table = Table::open(&publish_words(directory.path(), 14, size, &words)).unwrap();
    let restorer = Restorer {
        table: &table,
        range_bits: RangeBits::new(12).unwrap(),
        threads: 1,
        memory_bytes: 1 << 20,
        scratch: directory.path(),
    };
    let kept = Mutex::new(0);
    let keep = |_| {
        *kept.lock() += 1;
        Ok(())
    };
    let refused = restorer.run(&|_| true, &keep, &|_, _| ControlFlow::Continue(()));
    let error = refused.unwrap_err().to_string();
    assert!(
        error.contains(&format!("lists the word {larger}, whose mirror")),
        "{error}"
    );
    assert_eq!(kept.into_inner(), 0);
}

/// Words that are kept are found again in the stretches that they are in, wherever the pieces begin in which they came.
#[test]
fn kept_words_are_those_of_their_stretches() {
    let mut rng = chomp_table::rng::Rng(5);
    for stretch_bits in [17, 18, 20] {
        let mut words: Vec<u64> = (0..3000).map(|_| 2 * rng.below(1 << 22)).collect();
        words.extend([0, 2, (1 << 17) - 2, 1 << 17, (1 << 23) - 2]);
        words.sort_unstable();
        words.dedup();
        let mut kept = KeptWords::default();
        for piece in words.chunks(77) {
            kept.push(piece);
        }
        let mut stretch = Stretch::new(stretch_bits);
        for number in 0..1_u64 << (23 - stretch_bits) {
            let span = number << stretch_bits..(number + 1) << stretch_bits;
            let here = words.iter().filter(|word| span.contains(word));
            let here: Vec<u32> = here.map(|word| low((word - span.start) / 2)).collect();
            assert_eq!(kept.add_to(&mut stretch, &span), here.len());
            assert_eq!(stretch.drain(), here);
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "damage to a table for a test")]
fn damage_and_a_wish_to_stop_end_it() {
    let directory = tempfile::tempdir().unwrap();
    let folder = publish(directory.path(), 16, &definition::losing(16), 200);
    let table = Table::open(&folder).unwrap();
    let run = |scratch: &Path, flow: ControlFlow<()>| {
        let restorer = Restorer {
            table: &table,
            range_bits: RangeBits::new(12).unwrap(),
            threads: 2,
            memory_bytes: 1000,
            scratch,
        };
        restorer.run(&|_| true, &|_| Ok(()), &|_, _| flow)
    };
    let stopped = run(directory.path(), ControlFlow::Break(()));
    assert!(matches!(stopped, Err(RestoreError::Stopped)), "{stopped:?}");
    let nowhere = run(&directory.path().join("none"), ControlFlow::Continue(()));
    assert!(
        matches!(nowhere, Err(RestoreError::Scratch(_))),
        "{nowhere:?}"
    );
    let shard = folder.join("shard-0001.zst");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[50] ^= 1;
    fs::write(&shard, bytes).unwrap();
    let damaged = run(directory.path(), ControlFlow::Continue(()));
    assert!(
        matches!(&damaged, Err(RestoreError::Table(TableError::Damaged { file, .. })) if *file == shard),
        "{damaged:?}"
    );
}
