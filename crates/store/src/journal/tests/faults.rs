//! Every call fails, every call crashes, the disk runs full: nothing acknowledged is lost.

use super::*;
use crate::FaultKind;
use crate::objects::{Fault, Moment};

pub(super) fn fault(call: u64, sticky: bool, moment: Moment) -> Fault {
    Fault {
        call,
        sticky,
        moment,
    }
}

fn is_fault(error: &StoreError, kind: FaultKind) -> bool {
    matches!(error, StoreError::Storage(error) if error.is(kind))
}

/// Does what is left of the script. What is acknowledged is counted in `told`.
async fn work(storage: &Arc<SimulatedStorage>, told: &mut usize) -> Result<(), StoreError> {
    let journal = open(storage).await?;
    for entries in &script()[*told..] {
        journal.append(entries.clone()).await?;
        *told += 1;
    }
    Ok(())
}

/// Whether all that was acknowledged is there, and nothing else but what was under way.
fn kept(storage: &SimulatedStorage, told: usize) -> bool {
    let (script, found) = (script(), ready(read_ledger(storage)).unwrap());
    let found = found.as_ref().map(Plain::found).unwrap_or_default();
    let more = (told + 1).min(script.len());
    [told, more]
        .map(|upto| Plain::of(&script[..upto]))
        .contains(&found)
}

fn finish(storage: &Arc<SimulatedStorage>, told: &mut usize) {
    ready(work(storage, told)).unwrap();
    assert_eq!(Plain::found(&looked(storage)), Plain::of(&script()));
}

fn calls() -> u64 {
    finished().calls()
}

#[test]
fn every_call_fails() {
    for call in 0..calls() {
        for (sticky, moment) in [
            (false, Moment::Before),
            (false, Moment::After),
            (true, Moment::Before),
            (true, Moment::After),
        ] {
            let storage = Arc::new(SimulatedStorage::new(call));
            let fault = fault(call, sticky, moment);
            storage.set_fault(Some(fault));
            let mut told = 0;
            let error = ready(work(&storage, &mut told)).unwrap_err();
            let failed = is_fault(&error, FaultKind::Passing);
            assert!(failed, "{fault:?}: {error:?}");
            let storage = Arc::new(storage.crash());
            assert!(kept(&storage, told), "{fault:?}");
            finish(&storage, &mut told);
        }
    }
}

/// The number of storage calls with which a journal is begun.
fn opening() -> u64 {
    let storage = Arc::new(SimulatedStorage::new(0));
    ready(open(&storage)).unwrap();
    storage.calls()
}

/// After a failure the same coordinator may go on: it loses nothing, or is told that it is not the
/// writer any more.
#[test]
fn who_goes_on_after_a_failure() {
    for call in opening()..calls() {
        for moment in [Moment::Before, Moment::After] {
            let storage = Arc::new(SimulatedStorage::new(call));
            let mut told = 0;
            storage.set_fault(Some(fault(call, false, moment)));
            let journal = ready(open(&storage)).unwrap();
            for entries in script() {
                match ready(journal.append(entries)) {
                    Ok(()) => told += 1,
                    Err(_) => break,
                }
            }
            assert!(told < script().len());
            match ready(journal.append(script()[told].clone())) {
                Ok(()) => told += 1,
                Err(error) => assert!(matches!(error, StoreError::Fenced { .. }), "{error:?}"),
            }
            assert!(kept(&storage, told), "{call} {moment:?}");
            finish(&storage, &mut told);
        }
    }
}

#[test]
fn every_call_crashes() {
    for call in 0..calls() {
        for seed in 0..6 {
            let storage = Arc::new(SimulatedStorage::new(seed));
            storage.crash_at(call);
            let mut told = 0;
            ready(work(&storage, &mut told)).unwrap_err();
            let storage = Arc::new(storage.crash());
            assert!(kept(&storage, told), "{call} {seed}");
            finish(&storage, &mut told);
        }
    }
}

/// Shows that the tests here see a storage that acknowledges too early.
#[test]
fn a_lying_storage_is_noticed() {
    let noticed = |call| {
        let storage = Arc::new(SimulatedStorage::new(call));
        storage.set_lying(true);
        storage.crash_at(call);
        let mut told = 0;
        ready(work(&storage, &mut told)).unwrap_err();
        !kept(&storage.crash(), told)
    };
    let noticed = (0..calls()).filter(|&call| noticed(call)).count();
    assert!(noticed > 10, "{noticed}");
}

#[test]
fn the_disk_is_full_at_every_size() {
    let objects = finished().objects();
    let total: u64 = objects.values().map(|bytes| bytes.len() as u64).sum();
    for bytes_max in (0..total).step_by(301) {
        let storage = Arc::new(SimulatedStorage::new(1));
        storage.set_bytes_max(bytes_max);
        let mut told = 0;
        let error = ready(work(&storage, &mut told)).unwrap_err();
        assert!(is_fault(&error, FaultKind::Full), "{error:?}");
        storage.set_bytes_max(u64::MAX);
        assert!(kept(&storage, told));
        finish(&storage, &mut told);
    }
}

/// Pruning that is interrupted at every call, and repeated.
#[test]
fn pruning_fails() {
    let objects = {
        let storage = finished();
        publish_manifest(&storage, BITS);
        for lease in 0..5 {
            storage.overwrite(&PartName { layer: 1, lease }.key(), "part");
        }
        storage.objects()
    };
    let storage = restored(&objects);
    let journal = ready(open(&storage)).unwrap();
    let before = storage.calls();
    assert!(ready(journal.prune(BITS)).unwrap());
    let after = storage.calls();
    assert!(after - before > 10);
    for call in before..after {
        for (seed, moment) in [
            (0, None),
            (1, None),
            (0, Some(Moment::Before)),
            (0, Some(Moment::After)),
        ] {
            let storage = Arc::new(SimulatedStorage::new(seed));
            for (key, bytes) in &objects {
                storage.overwrite(key, bytes.clone());
            }
            match moment {
                None => storage.crash_at(call),
                Some(moment) => storage.set_fault(Some(fault(call, true, moment))),
            }
            let journal = ready(open(&storage)).unwrap();
            ready(journal.prune(BITS)).unwrap_err();
            let storage = Arc::new(storage.crash());
            let found = Plain::found(&looked(&storage));
            assert!([Plain::pruned(), Plain::of(&script())].contains(&found));
            if found == Plain::of(&script()) {
                let parts = ready(storage.list(&keys::parts_prefix())).unwrap();
                assert_eq!(parts.len(), 5, "what is done keeps its parts");
            }
            let journal = ready(open(&storage)).unwrap();
            assert!(ready(journal.prune(BITS)).unwrap());
            assert_eq!(ready(storage.list(&keys::parts_prefix())).unwrap(), []);
        }
    }
}
