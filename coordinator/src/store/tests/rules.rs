//! What the store promises, rule by rule.

use super::*;
use crate::storage::{LocalStorage, TableLock};

#[test]
fn a_job_from_start_to_end() {
    let storage = Arc::new(SimulatedStorage::new(1));
    assert_eq!(ready(Store::range_bits_of(&*storage)).unwrap(), None);
    let (store, progress) = open(&storage).unwrap();
    let nothing = Progress {
        done: vec![],
        expected: vec![],
        sealed_layers: 0,
    };
    assert_eq!((progress, store.epoch()), (nothing, 1));
    assert_eq!(ready(store.published(BITS)).unwrap(), None);
    assert!(matches!(
        ready(store.read_record(Head(0))),
        Err(StoreError::Missing { head: Head(0) })
    ));

    let mut told = Acknowledged::default();
    ready(work(storage.clone(), &mut told)).unwrap();
    assert_eq!(ready(lost(storage.clone(), &told)).unwrap(), [""; 0]);
    let (store, progress) = open(&storage).unwrap();
    assert_eq!((progress.done, progress.expected), (all(), vec![]));
    assert_eq!((progress.sealed_layers, store.epoch()), (7, 4));
    assert_eq!(
        ready(Store::range_bits_of(&*storage)).unwrap(),
        Some(range_bits())
    );
    assert_eq!(
        ready(store.published(BITS)).unwrap().unwrap(),
        PUBLISHED[1].1
    );
    let names: Vec<String> = storage.objects().keys().map(Key::to_string).collect();
    for name in [
        "work/job",
        "work/epochs/0000000004",
        "work/parts/0003/0000000000000003-0000000002",
        "work/seals/15/0006",
        "table-15/manifest.json",
    ] {
        assert!(
            names.iter().any(|found| found == name),
            "{name} in {names:?}"
        );
    }
}

#[tokio::test]
async fn the_same_in_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let open =
        || Arc::new(LocalStorage::open(TableLock::acquire(directory.path()).unwrap()).unwrap());
    let mut told = Acknowledged::default();
    work(open(), &mut told).await.unwrap();
    assert_eq!(told.ranges.len(), 8);
    assert_eq!(lost(open(), &told).await.unwrap(), [""; 0]);
}

#[test]
fn the_newer_owner_fences_off_the_older() {
    let storage = Arc::new(SimulatedStorage::new(1));
    let (old, _) = open(&storage).unwrap();
    let (new, _) = open(&storage).unwrap();
    let heads = [Head(0)];
    for result in [
        ready(old.commit(0, records(&heads))),
        ready(old.seal(0, &summaries(&heads))),
        ready(old.publish_object(BITS, "a", Bytes::new())),
    ] {
        assert!(
            matches!(result, Err(StoreError::Fenced { epoch: 1, newer: 2 })),
            "{result:?}"
        );
    }
    ready(new.commit(0, records(&heads))).unwrap();
    assert_eq!(storage.objects().len(), 4);
}

#[test]
fn owners_that_start_together_have_different_epochs() {
    let storage = Arc::new(SimulatedStorage::new(1));
    open(&storage).unwrap();
    for (others, epoch) in [(0, 2), (2, 5), (14, 20)] {
        let late = Arc::new(Late(storage.clone(), others));
        let (store, _) = ready(Store::open(late, range_bits(), BITS)).unwrap();
        assert_eq!(store.epoch(), epoch);
    }
    let late = Arc::new(Late(storage, 16));
    let error = ready(Store::open(late, range_bits(), BITS)).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Storage(StorageError::AlreadyExists { .. })
        ),
        "{error:?}"
    );
}

/// A storage where so many others take an epoch between the list and the creation of ours.
#[derive(Debug)]
struct Late(Arc<SimulatedStorage>, u64);

#[async_trait::async_trait]
impl Storage for Late {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        self.0.create(key, bytes).await
    }

    async fn read(&self, key: &Key) -> Result<Bytes, StorageError> {
        self.0.read(key).await
    }

    async fn read_at(&self, key: &Key, range: std::ops::Range<u64>) -> Result<Bytes, StorageError> {
        self.0.read_at(key, range).await
    }

    async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        let found = self.0.list(prefix).await?;
        if *prefix == keys::epochs() {
            let last = found
                .last()
                .map_or(0, |(key, _)| keys::epoch_of(key).unwrap());
            for epoch in last + 1..=last + self.1 {
                self.0.overwrite(&keys::epoch(epoch), epoch::encode(epoch));
            }
        }
        Ok(found)
    }

    async fn delete(&self, key: &Key) -> Result<(), StorageError> {
        self.0.delete(key).await
    }
}

#[test]
fn other_range_bits_are_refused() {
    let storage = finished();
    let epochs = ready(storage.list(&keys::epochs())).unwrap();
    let asked = RangeBits::new(13).unwrap();
    let error = ready(Store::open(storage.clone(), asked, BITS)).unwrap_err();
    assert!(
        matches!(error, StoreError::OtherRangeBits { table, asked: a } if table == range_bits() && a == asked)
    );
    assert_eq!(
        ready(storage.list(&keys::epochs())).unwrap(),
        epochs,
        "the owner is not disturbed"
    );
}

#[test]
fn a_lost_part_is_expected_to_come_back_the_same() {
    let storage = finished();
    let part = key("work/parts/0003/0000000000000003-0000000001");
    ready(storage.delete(&part)).unwrap();
    let (store, progress) = open(&storage).unwrap();
    assert_eq!(progress.expected, summaries(&[Head(3), Head(4)]));
    assert_eq!((progress.done.len(), progress.sealed_layers), (6, 7));
    ready(store.commit(3, records(&[Head(4), Head(3)]))).unwrap();
    let (store, progress) = open(&storage).unwrap();
    assert_eq!((progress.done, progress.expected), (all(), vec![]));
    assert_eq!(ready(store.read_record(Head(4))).unwrap(), record(Head(4)));
}

#[test]
fn a_table_grows_and_shrinks() {
    let storage = finished();
    let (store, progress) = ready(Store::open(storage.clone(), range_bits(), 16)).unwrap();
    assert_eq!(
        (progress.done, progress.sealed_layers),
        (all(), 0),
        "the seals are of another job"
    );
    ready(store.commit(4, records(&[Head(8)]))).unwrap();
    ready(store.seal(0, &summaries(&[Head(0)]))).unwrap();
    for (bits, ranges, layers) in [(12, 1, 0), (14, 4, 0), (15, 8, 7), (16, 9, 1), (17, 9, 0)] {
        let (store, progress) = ready(Store::open(storage.clone(), range_bits(), bits)).unwrap();
        assert_eq!(
            (progress.done.len(), progress.sealed_layers),
            (ranges, layers),
            "{bits}"
        );
        assert_eq!(ready(store.read_record(Head(8))).unwrap(), record(Head(8)));
    }
}

fn other(head: Head) -> (RangeSummary, Bytes) {
    let digest = Digest::of(b"another result");
    (
        RangeSummary {
            digest,
            ..summary(head)
        },
        record(head),
    )
}

#[test]
fn results_that_disagree() {
    let storage = Arc::new(SimulatedStorage::new(1));
    let (store, _) = open(&storage).unwrap();
    ready(store.commit(3, records(&[Head(3)]))).unwrap();
    let before = storage.objects();
    let error = ready(store.commit(3, vec![other(Head(3)), (summary(Head(4)), Bytes::new())]));
    let first = key("work/parts/0003/0000000000000003-0000000001");
    assert!(
        matches!(error, Err(StoreError::Disagrees { head: Head(3), other, .. }) if other == first)
    );
    assert_eq!(storage.objects(), before, "nothing was written");

    // In two parts: the second is one that an owner which was fenced off has left.
    let name = PartName {
        layer: 3,
        first: Head(3),
        epoch: 9,
    };
    let (bytes, _) = part::encode(name, range_bits(), 1, &[other(Head(3))]);
    storage.overwrite(&name.key(), bytes);
    match open(&storage).unwrap_err() {
        StoreError::Disagrees { head, key, other } => {
            assert_eq!((head, key, other), (Head(3), name.key(), first));
        }
        error => panic!("{error:?}"),
    }
}

#[test]
fn two_parts_with_the_same_range() {
    let storage = finished();
    let name = PartName {
        layer: 3,
        first: Head(4),
        epoch: 9,
    };
    let (bytes, _) = part::encode(name, range_bits(), 1, &records(&[Head(4)]));
    storage.overwrite(&name.key(), bytes);
    let (store, progress) = open(&storage).unwrap();
    assert_eq!(progress.done, all());
    ready(storage.delete(&name.key())).unwrap();
    ready(store.read_record(Head(4))).unwrap();
}

#[test]
fn seals_that_are_there_already() {
    let storage = finished();
    let (store, _) = open(&storage).unwrap();
    let before = storage.objects();
    ready(store.seal(3, &summaries(&[Head(3), Head(4)]))).unwrap();
    let error = ready(store.seal(3, &[summary(Head(3)), other(Head(4)).0])).unwrap_err();
    assert!(
        matches!(error, StoreError::Disagrees { head: Head(4), .. }),
        "{error:?}"
    );
    assert_eq!(storage.objects(), before);

    // An owner that was fenced off sealed a layer after this one had looked.
    let storage = Arc::new(SimulatedStorage::new(1));
    let (store, _) = open(&storage).unwrap();
    let seal = finished().objects()[&keys::seal(BITS, 0)].clone();
    storage.overwrite(&keys::seal(BITS, 0), seal);
    for (layer, head) in [(0, Head(0)), (1, Head(1))] {
        ready(store.commit(layer, records(&[head]))).unwrap();
        ready(store.seal(layer, &summaries(&[head]))).unwrap();
    }
    assert_eq!(open(&storage).unwrap().1.sealed_layers, 2);
}

#[test]
fn a_seal_that_differs_from_a_part() {
    let storage = Arc::new(SimulatedStorage::new(1));
    let (store, _) = open(&storage).unwrap();
    ready(store.seal(0, &[other(Head(0)).0])).unwrap();
    ready(store.commit(0, records(&[Head(0)]))).unwrap();
    let error = open(&storage).unwrap_err();
    assert!(
        matches!(&error, StoreError::Disagrees { head: Head(0), key, .. } if *key == keys::seal(BITS, 0)),
        "{error:?}"
    );
}

#[test]
fn what_is_claimed_of_a_job_is_true_of_its_least_checked_range() {
    let storage = Arc::new(SimulatedStorage::new(1));
    let claimed = |bits| {
        let (store, _) = ready(Store::open(storage.clone(), range_bits(), bits)).unwrap();
        store.with_replicas(3).replicas()
    };
    let commit = |replicas, layer, head| {
        let (store, _) = open(&storage).unwrap();
        let store = store.with_replicas(replicas);
        ready(store.commit(layer, records(&[head]))).unwrap();
    };
    commit(3, 0, Head(0));
    assert_eq!((claimed(12), claimed(BITS)), (3, 3));
    commit(2, 1, Head(1));
    assert_eq!((claimed(12), claimed(BITS)), (3, 2));
    commit(1, 4, Head(8));
    assert_eq!((claimed(BITS), claimed(BITS + 1)), (2, 1));
}

#[test]
fn publication_is_repeated_until_the_manifest_is_there() {
    let storage = Arc::new(SimulatedStorage::new(1));
    let (store, _) = open(&storage).unwrap();
    let publish = |name, bytes: &'static str| ready(store.publish_object(BITS, name, bytes.into()));
    let read = |name: &str| storage.objects()[&keys::published(BITS, name).unwrap()].clone();
    publish("a", "first").unwrap();
    publish("a", "firstborn").unwrap();
    publish("a", "second").unwrap();
    assert_eq!(read("a"), "second");
    publish("manifest.json", "all").unwrap();
    publish("a", "second").unwrap();
    publish("manifest.json", "all").unwrap();
    for name in ["a", "manifest.json"] {
        let error = publish(name, "third").unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    }
    assert_eq!(
        (read("a"), read("manifest.json")),
        ("second".into(), "all".into())
    );
    for name in ["../../lock", "", "a b", "/etc/passwd"] {
        assert!(
            matches!(publish(name, "x"), Err(StoreError::Name(_))),
            "{name}"
        );
    }
}

#[test]
fn limits_of_a_part() {
    let storage = Arc::new(SimulatedStorage::new(1));
    let (store, _) = ready(Store::open(storage.clone(), range_bits(), 13)).unwrap();
    let before = storage.objects();
    let overhead = part::size(&records(&[Head(0)])) - record(Head(0)).len() as u64;
    let largest = usize::try_from(PART_BYTES_MAX - overhead).unwrap();
    let commit = |length| ready(store.commit(0, vec![(summary(Head(0)), vec![0; length].into())]));
    let error = commit(largest + 1).unwrap_err();
    assert!(
        matches!(error, StoreError::TooLarge { ranges: 1, .. }),
        "{error:?}"
    );
    assert_eq!(storage.objects(), before);
    commit(largest).unwrap();
    ready(Store::open(storage, range_bits(), 13)).unwrap();
}

#[test]
fn mistakes_of_the_caller_panic_before_anything_is_written() {
    let storage = Arc::new(SimulatedStorage::new(1));
    let (store, _) = open(&storage).unwrap();
    let before = storage.objects();
    let panics =
        |action: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(action)).is_err();
    for (layer, heads) in [
        (0, vec![]),
        (0, vec![Head(1)]),
        (3, vec![Head(3), Head(3)]),
        (0, vec![Head(0), Head(1)]),
    ] {
        assert!(
            panics(&|| ready(store.commit(layer, records(&heads))).unwrap()),
            "{heads:?}"
        );
    }
    for (layer, heads) in [
        (0, vec![]),
        (1, vec![Head(1)]),
        (7, vec![]),
        (0, vec![Head(1)]),
        (0, vec![Head(0), Head(0)]),
    ] {
        assert!(
            panics(&|| ready(store.seal(layer, &summaries(&heads))).unwrap()),
            "{heads:?}"
        );
    }
    assert_eq!(storage.objects(), before);
}
