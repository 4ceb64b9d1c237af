//! Working files are removed when a published table has what they hold, and not before.

use chomp_table::fingerprint::FingerprintBuilder;
use chomp_table::manifest::Manifest;
use chomp_table::shard::{ShardSize, ShardWriter};

use super::*;
use crate::storage::{Fault, Moment};

/// A manifest of a table of hooks alone: what the shards hold is not asked.
fn manifest(bits: u32) -> Bytes {
    let hook = |arm: u32| -> u64 { (1 << (2 * arm - 1)) | ((1 << arm) - 2) };
    let words: Vec<u64> = (1..=bits / 2).map(hook).collect();
    let mut fingerprints = FingerprintBuilder::new(bits);
    fingerprints.push(&words);
    let mut shard = ShardWriter::new(0, ShardSize::PUBLISHED);
    assert!(shard.push(&words).is_empty());
    let shards = vec![shard.finish().0];
    let software = "chomp 0.0.0".into();
    let manifest = Manifest::new(range_bits(), 1, software, fingerprints.finish(), shards);
    manifest.to_bytes().into()
}

/// A finished job whose table is published.
fn published() -> Arc<SimulatedStorage> {
    let storage = finished();
    storage.overwrite(&keys::manifest(BITS), manifest(BITS));
    storage
}

fn names(storage: &SimulatedStorage) -> Vec<String> {
    storage.objects().keys().map(Key::to_string).collect()
}

/// The objects but for epochs.
fn lasting(storage: &SimulatedStorage) -> Vec<String> {
    let mut names = names(storage);
    names.retain(|name| !name.starts_with("work/epochs/"));
    names
}

#[test]
fn what_is_published_is_removed_and_nothing_else() {
    let storage = published();
    // Seals of another job go too.
    let (other, _) = ready(Store::open(storage.clone(), range_bits(), 14)).unwrap();
    ready(other.seal(0, &summaries(&[Head(0)]))).unwrap();
    let (store, _) = open(&storage).unwrap();
    assert!(ready(store.prune()).unwrap());
    assert_eq!(
        lasting(&storage),
        [
            "table-15/manifest.json",
            "table-15/shard-0000.zst",
            "work/job"
        ]
    );
    assert!(names(&storage).contains(&"work/epochs/0000000003".to_owned()));
    assert!(!store.is_committed(Head(0)));
    assert!(ready(store.prune()).unwrap(), "again");
    let (store, progress) = open(&storage).unwrap();
    assert_eq!((progress.done, progress.sealed_layers), (vec![], 0));
    assert_eq!(store.epoch(), 4);
}

#[test]
fn nothing_is_removed_that_is_not_published() {
    let unpublished = finished();
    ready(unpublished.delete(&keys::manifest(BITS))).unwrap();
    let beyond = published();
    let (store, _) = ready(Store::open(beyond.clone(), range_bits(), 16)).unwrap();
    ready(store.commit(4, records(&[Head(8)]))).unwrap();
    let smaller = finished();
    smaller.overwrite(&keys::manifest(BITS), manifest(14));
    for storage in [unpublished, beyond, smaller] {
        let (store, _) = open(&storage).unwrap();
        let before = storage.objects();
        assert!(!ready(store.prune()).unwrap());
        assert_eq!(storage.objects(), before);
    }

    let storage = finished();
    let (store, _) = open(&storage).unwrap();
    let before = storage.objects();
    let error = ready(store.prune()).unwrap_err();
    assert!(
        matches!(&error, StoreError::Damaged { key, .. } if *key == keys::manifest(BITS)),
        "{error:?}"
    );
    assert_eq!(storage.objects(), before);

    let storage = published();
    let (old, _) = open(&storage).unwrap();
    open(&storage).unwrap();
    let before = storage.objects();
    assert!(matches!(ready(old.prune()), Err(StoreError::Fenced { .. })));
    assert_eq!(storage.objects(), before);
}

#[test]
fn every_call_crashes_or_fails() {
    let all = published();
    let (store, _) = open(&all).unwrap();
    let before = all.calls();
    ready(store.prune()).unwrap();
    let calls = all.calls() - before;
    assert!(calls > 14, "{calls}");
    for call in 0..calls {
        for seed in 0..4 {
            let storage = published();
            let storage = restored_with(seed, &storage.objects());
            let (store, _) = open(&storage).unwrap();
            if seed < 2 {
                storage.crash_at(storage.calls() + call);
            } else {
                storage.set_fault(Some(Fault {
                    call: storage.calls() + call,
                    sticky: seed == 2,
                    moment: Moment::After,
                }));
            }
            ready(store.prune()).unwrap_err();
            let storage = Arc::new(storage.crash());
            // What is left is a store in order, and the published table is whole.
            let (store, progress) = open(&storage).unwrap();
            for range in &progress.done {
                ready(store.read_record(range.head)).unwrap();
            }
            assert!(progress.expected.is_empty(), "{call}: {progress:?}");
            assert!(ready(store.prune()).unwrap());
            assert_eq!(
                lasting(&storage),
                [
                    "table-15/manifest.json",
                    "table-15/shard-0000.zst",
                    "work/job"
                ]
            );
        }
    }
}

fn restored_with(seed: u64, objects: &BTreeMap<Key, Bytes>) -> Arc<SimulatedStorage> {
    let storage = SimulatedStorage::new(seed);
    for (key, bytes) in objects {
        storage.overwrite(key, bytes.clone());
    }
    Arc::new(storage)
}
