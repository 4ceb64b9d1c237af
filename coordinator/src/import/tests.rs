//! What is imported is what evaluation gives, whatever the range bits, and whatever goes wrong.

use std::fs;

use chomp_kernel::{Isa, evaluate_table};
use chomp_table::Digest;
use chomp_table::head::layers;
use chomp_table::shard::ShardSize;
use tempfile::TempDir;

use super::*;
use crate::publish::{Steps, publish};
use crate::ready;
use crate::storage::SimulatedStorage;

type Record = (RangeSummary, Bytes);

/// So small that the tables here have many shards.
const SMALL: ShardSize = ShardSize {
    frame_words: 24,
    shard_words: 64,
};

fn steps(shard: ShardSize) -> Steps {
    Steps {
        shard,
        ..Steps::PUBLISHED
    }
}

fn range_bits(bits: u32) -> RangeBits {
    RangeBits::new(bits).unwrap()
}

/// All records of a job, by evaluation.
fn evaluated(bits: u32, range_bits: RangeBits) -> BTreeMap<Head, Record> {
    let record = |(head, range): (Head, Range)| {
        let (summary, record) = range::encode(&range, range_bits);
        (head, (summary, record.into()))
    };
    let ranges = evaluate_table(bits, range_bits, Isa::detect());
    ranges.into_iter().map(record).collect()
}

fn open(storage: &Arc<SimulatedStorage>, bits: u32, range_bits: RangeBits) -> (Store, Progress) {
    ready(Store::open(storage.clone(), range_bits, bits)).unwrap()
}

fn commit(store: &Store, records: &BTreeMap<Head, Record>) {
    for (layer, heads) in (0..).zip(layers(store.bits(), store.range_bits())) {
        let new = heads.iter().filter(|&&head| !store.is_committed(head));
        let new: Vec<Record> = new.map(|head| records[head].clone()).collect();
        if !new.is_empty() {
            ready(store.commit(layer, new)).unwrap();
        }
    }
}

/// The directory of a published table, and the table.
#[expect(
    clippy::disallowed_methods,
    reason = "a table made for a test need not be durable"
)]
fn published(bits: u32, size: ShardSize) -> (TempDir, Table) {
    let storage = Arc::new(SimulatedStorage::new(0));
    let (store, _) = open(&storage, bits, range_bits(13));
    commit(&store.with_replicas(2), &evaluated(bits, range_bits(13)));
    let (store, _) = open(&storage, bits, range_bits(13));
    ready(publish(&Arc::new(store), steps(size))).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for (key, bytes) in storage.objects() {
        let path = directory.path().join(key.as_str());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let table = Table::open(directory.path()).unwrap();
    (directory, table)
}

fn assert_has(store: &Store, records: &BTreeMap<Head, Record>) {
    for (head, (_, record)) in records {
        assert_eq!(ready(store.read_record(*head)).unwrap(), *record, "{head}");
    }
}

#[test]
fn imported_records_are_those_of_a_run() {
    for bits in 12..=18 {
        let (_directory, table) = published(bits, SMALL);
        for b in [12, 13, 15, bits.max(12)].map(range_bits) {
            if b.get() > bits {
                continue;
            }
            let expected = evaluated(bits, b);
            // In many passes, in some, in one; for a job of the same size, larger, and smaller.
            for (band_words, job) in [(1, bits), (100, bits + 3), (u64::MAX, bits + 1), (9, 12)] {
                let storage = Arc::new(SimulatedStorage::new(0));
                let (store, _) = open(&storage, job, b);
                let imported = ready(import(&store, &table, &[], band_words)).unwrap();
                let end = b.heads(bits.min(job));
                let mut expected = expected.clone();
                expected.retain(|head, _| head.0 < end);
                assert_eq!(imported.len(), expected.len(), "{bits} bits, {b}, {job}");
                for summary in &imported {
                    assert_eq!(*summary, expected[&summary.head].0);
                }
                assert_has(&store, &expected);
                assert_eq!(store.replicas(), 2);
                let (store, found) = open(&storage, job, b);
                assert_eq!(found.done.len(), expected.len());
                // Nothing is left to import, so nothing is read.
                assert!(ready(import(&store, &table, &[], 1)).unwrap().is_empty());
            }
        }
    }
}

#[test]
fn a_table_smaller_than_a_range_gives_nothing() {
    let (_directory, table) = published(14, SMALL);
    let storage = Arc::new(SimulatedStorage::new(0));
    let (store, _) = open(&storage, 20, range_bits(15));
    assert!(ready(import(&store, &table, &[], 1)).unwrap().is_empty());
    assert!(!store.is_committed(Head(0)));
}

/// The fingerprint of 20 bits is known; a table of 17 bits is extended to them.
#[test]
fn an_imported_table_is_extended() {
    let known = "ccc3c24a30b196dd251acf2a76668b94991ef6839a9491b2bf82128d22dc102e";
    let (_directory, table) = published(17, ShardSize::PUBLISHED);
    for b in [12, 16].map(range_bits) {
        let storage = Arc::new(SimulatedStorage::new(0));
        let (store, _) = open(&storage, 20, b);
        ready(import(&store, &table, &[], 1000)).unwrap();
        commit(&store, &evaluated(20, b));
        let manifest = ready(publish(&Arc::new(store), steps(SMALL))).unwrap();
        assert_eq!(manifest.fingerprint.to_string(), known);
        assert_eq!(manifest.replicas, 1, "that of the ranges that were new");
    }
}

#[test]
fn only_what_is_missing_is_imported() {
    let (_directory, table) = published(16, SMALL);
    let b = range_bits(12);
    let records = evaluated(16, b);
    let storage = Arc::new(SimulatedStorage::new(0));
    let (store, _) = open(&storage, 16, b);
    for head in [0, 3, 9].map(Head) {
        ready(store.commit(head.layer(), vec![records[&head].clone()])).unwrap();
    }
    let imported = ready(import(&store, &table, &[], 50)).unwrap();
    assert_eq!(imported.len(), 13);
    assert_has(&store, &records);
}

#[test]
fn a_crash_at_every_call() {
    let (_directory, table) = published(16, SMALL);
    let b = range_bits(12);
    let records = evaluated(16, b);
    let undisturbed = Arc::new(SimulatedStorage::new(0));
    ready(import(&open(&undisturbed, 16, b).0, &table, &[], 300)).unwrap();
    assert!(undisturbed.calls() > 20, "{}", undisturbed.calls());
    for call in 0..undisturbed.calls() {
        for seed in 0..3 {
            let storage = Arc::new(SimulatedStorage::new(seed));
            storage.crash_at(call);
            if let Ok((store, _)) = ready(Store::open(storage.clone(), b, 16)) {
                let error = ready(import(&store, &table, &[], 300)).unwrap_err();
                assert!(matches!(error, ImportError::Store(_)), "{error:?}");
            }
            let storage = Arc::new(storage.crash());
            let (store, found) = open(&storage, 16, b);
            let imported = ready(import(&store, &table, &[], 300)).unwrap();
            assert_eq!(imported.len() + found.done.len(), 16, "none is made twice");
            assert_has(&store, &records);
        }
    }
}

#[test]
fn what_was_sealed_must_come_back_the_same() {
    let (_directory, table) = published(14, SMALL);
    let b = range_bits(12);
    let records = evaluated(14, b);
    let storage = Arc::new(SimulatedStorage::new(0));
    let (store, _) = open(&storage, 14, b);
    let (right, other) = (records[&Head(2)].0, Digest::of(b"another result"));
    let wrong = RangeSummary {
        digest: other,
        ..right
    };
    let error = ready(import(&store, &table, &[wrong], 1)).unwrap_err();
    assert!(
        matches!(error, ImportError::Disagrees { head: Head(2), .. }),
        "{error:?}"
    );
    ready(import(&store, &table, &[right], 1)).unwrap();
}

#[test]
fn progress_takes_in_what_was_imported() {
    let summary = |head| RangeSummary {
        head: Head(head),
        count: 0,
        digest: Digest::of(&[]),
    };
    let mut progress = Progress {
        done: vec![summary(1), summary(5)],
        expected: vec![summary(0), summary(7), summary(3)],
        sealed_layers: 2,
    };
    progress.add(vec![summary(3), summary(0)]);
    assert_eq!(progress.done, [0, 1, 3, 5].map(summary));
    assert_eq!(progress.expected, [summary(7)]);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "damages a table that was made for a test"
)]
fn a_damaged_table_is_refused_before_anything_is_imported() {
    let (_directory, table) = published(16, SMALL);
    let storage = Arc::new(SimulatedStorage::new(0));
    let (store, _) = open(&storage, 16, range_bits(12));
    let file = table.folder().join("shard-0001.zst");
    let mut bytes = fs::read(&file).unwrap();
    bytes[50] ^= 1;
    fs::write(&file, bytes).unwrap();
    let before = storage.objects();
    let error = ready(import(&store, &table, &[], 1)).unwrap_err();
    assert!(
        matches!(error, ImportError::Table(TableError::Damaged { .. })),
        "{error:?}"
    );
    assert_eq!(storage.objects(), before);
}

#[test]
fn parts_have_limits() {
    let record = |head, length| {
        let summary = RangeSummary {
            head: Head(head),
            count: 0,
            digest: Digest::of(&[]),
        };
        (summary, Bytes::from(vec![0; length]))
    };
    let lengths = |records| -> Vec<usize> { parts(records).iter().map(Vec::len).collect() };
    let many = (0..=PART_RANGES_MAX as u64).map(|head| record(head, 0));
    assert_eq!(lengths(many.collect()), [PART_RANGES_MAX, 1]);
    let half = usize::try_from(PART_RECORDS_BYTES_MAX / 2).unwrap();
    let large = (0..5).map(|head| record(head, half));
    assert_eq!(lengths(large.collect()), [2, 2, 1]);
    assert!(parts(Vec::new()).is_empty());
}
