//! Every call fails, every call crashes, the disk runs full: nothing acknowledged is lost.

use super::*;
use crate::storage::{Fault, Moment};

/// The number of storage calls of an undisturbed job.
fn calls() -> u64 {
    finished().calls()
}

/// Works on until the job is done, and checks that it ends as an undisturbed one.
fn finish(storage: &Arc<SimulatedStorage>, told: &mut Acknowledged) {
    ready(work(storage.clone(), told)).unwrap();
    assert_eq!(ready(lost(storage.clone(), told)).unwrap(), [""; 0]);
    let (store, progress) = open(storage).unwrap();
    assert_eq!((progress.done, progress.expected), (all(), vec![]));
    assert_eq!(progress.sealed_layers, 7);
    for (name, bytes) in PUBLISHED {
        let key = keys::published(BITS, name).unwrap();
        assert_eq!(ready(storage.read(&key)).unwrap(), bytes);
    }
    assert!(ready(store.published(BITS)).unwrap().is_some());
}

#[test]
fn every_call_fails() {
    let calls = calls();
    assert!(calls > 30, "{calls}");
    for call in 0..calls {
        for (sticky, moment) in [
            (false, Moment::Before),
            (false, Moment::After),
            (true, Moment::Before),
            (true, Moment::After),
        ] {
            let storage = Arc::new(SimulatedStorage::new(call));
            let fault = Fault {
                call,
                sticky,
                moment,
            };
            storage.set_fault(Some(fault));
            let mut told = Acknowledged::default();
            let error = ready(work(storage.clone(), &mut told)).unwrap_err();
            assert!(
                matches!(error, StoreError::Storage(StorageError::Failed { .. })),
                "{fault:?}: {error:?}"
            );
            let storage = Arc::new(storage.crash());
            assert_eq!(
                ready(lost(storage.clone(), &told)).unwrap(),
                [""; 0],
                "{fault:?}"
            );
            finish(&storage, &mut told);
        }
    }
}

#[test]
fn every_call_crashes() {
    for call in 0..calls() {
        for seed in 0..8 {
            let storage = Arc::new(SimulatedStorage::new(seed));
            storage.crash_at(call);
            let mut told = Acknowledged::default();
            ready(work(storage.clone(), &mut told)).unwrap_err();
            let storage = Arc::new(storage.crash());
            assert_eq!(
                ready(lost(storage.clone(), &told)).unwrap(),
                [""; 0],
                "{call} {seed}"
            );
            finish(&storage, &mut told);
        }
    }
}

#[test]
fn crash_after_crash() {
    let mut crashes = 0;
    for seed in 0..200_u64 {
        let mut storage = Arc::new(SimulatedStorage::new(seed));
        let mut told = Acknowledged::default();
        for round in 0.. {
            // The start alone takes a growing number of calls: later crashes must come later.
            storage.crash_at((seed * 31 + round * 17) % (10 + round * 8));
            if ready(work(storage.clone(), &mut told)).is_ok() {
                break;
            }
            crashes += 1;
            storage = Arc::new(storage.crash());
            assert_eq!(
                ready(lost(storage.clone(), &told)).unwrap(),
                [""; 0],
                "{seed} {round}"
            );
            storage = Arc::new(storage.crash());
        }
        finish(&Arc::new(storage.crash()), &mut told);
    }
    assert!(crashes > 1000, "{crashes}");
}

/// Shows that the tests here see a storage that acknowledges too early.
#[test]
fn a_lying_storage_is_noticed() {
    let noticed = |call| {
        let storage = Arc::new(SimulatedStorage::new(call));
        storage.set_lying(true);
        storage.crash_at(call);
        let mut told = Acknowledged::default();
        ready(work(storage.clone(), &mut told)).unwrap_err();
        let storage = Arc::new(storage.crash());
        !ready(lost(storage, &told)).unwrap().is_empty()
    };
    let noticed = (0..calls()).filter(|&call| noticed(call)).count();
    assert!(noticed > 20, "{noticed}");
}

#[test]
fn the_disk_is_full_at_every_size() {
    let mut objects = finished().objects();
    // The work does not write it.
    objects.remove(&keys::checkpoint(BITS, 1)).unwrap();
    let total: u64 = objects.values().map(|bytes| bytes.len() as u64).sum();
    for bytes_max in (0..total).step_by(7).chain([total - 1]) {
        let storage = Arc::new(SimulatedStorage::new(1));
        storage.set_bytes_max(bytes_max);
        let mut told = Acknowledged::default();
        let error = ready(work(storage.clone(), &mut told)).unwrap_err();
        assert!(
            matches!(error, StoreError::Storage(StorageError::Full { .. })),
            "{error:?}"
        );
        storage.set_bytes_max(u64::MAX);
        assert_eq!(ready(lost(storage.clone(), &told)).unwrap(), [""; 0]);
        finish(&storage, &mut told);
    }
}
