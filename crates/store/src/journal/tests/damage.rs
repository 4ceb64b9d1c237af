//! Bytes that nobody wrote, in every place: each is named, none is believed, none makes a panic.

use super::faults::fault;
use super::*;
use crate::objects::Moment;

/// A journal that is short and has entries of all kinds, two checkpoints, and segments after them.
fn small() -> BTreeMap<Key, Bytes> {
    let (storage, journal) = begun();
    let script = script();
    let done = script.iter().take(9).chain(&script[script.len() - 2..]);
    for entries in done {
        ready(journal.append(entries.clone())).unwrap();
    }
    let objects = storage.objects();
    let checkpoints = objects
        .keys()
        .filter(|key| key.is_in(&keys::checkpoints_prefix()));
    assert_eq!(checkpoints.count(), CHECKPOINTS_KEPT);
    objects
}

fn is_checkpoint(key: &Key) -> bool {
    key.is_in(&keys::checkpoints_prefix())
}

/// A damaged checkpoint does not matter. A damaged segment is named, if it is read at all.
fn check(storage: &SimulatedStorage, key: &Key, expected: &Ledger, what: &str) {
    match ready(read_ledger(storage)) {
        Ok(Some(found)) => assert_eq!(found, *expected, "{key}: {what}"),
        Err(StoreError::Damaged { key: named, .. }) => {
            assert!(
                named == *key && !is_checkpoint(key),
                "{key}: {what}, found in {named}"
            );
        }
        other => panic!("{key}: {what}: {other:?}"),
    }
}

#[test]
fn every_flip_and_every_cut_is_found() {
    let objects = small();
    let expected = looked(&restored(&objects));
    for key in objects.keys() {
        for at in 0..objects[key].len() {
            let storage = restored(&objects);
            assert!(storage.flip_bit(key, at, u32::try_from(at % 8).unwrap()));
            check(&storage, key, &expected, "a flipped bit");
            if !is_checkpoint(key) {
                remove_checkpoints(&storage);
                let error = ready(read_ledger(&*storage)).unwrap_err();
                assert_eq!(damaged(&error), Some(key), "at {at}: {error:?}");
            }
        }
        for length in (0..objects[key].len()).step_by(3) {
            let storage = restored(&objects);
            assert!(storage.truncate(key, length));
            check(&storage, key, &expected, "a cut");
        }
        let storage = restored(&objects);
        storage.overwrite(key, [&objects[key], &b"\0"[..]].concat());
        check(&storage, key, &expected, "a byte too long");
        for other in objects.keys().filter(|&other| other != key) {
            let storage = restored(&objects);
            storage.overwrite(key, objects[other].clone());
            check(&storage, key, &expected, &format!("holds {other}"));
        }
    }
}

/// Later segments may have acknowledged results: a coordinator that went on at the gap would forget them.
#[test]
fn a_segment_that_is_missing_ends_the_start() {
    let objects = small();
    let segments = objects.keys().filter(|&key| !is_checkpoint(key)).count();
    for number in 1..segments - 1 {
        let storage = restored(&objects);
        remove_checkpoints(&storage);
        let key = keys::segment(number as u64);
        ready(storage.delete(std::slice::from_ref(&key))).unwrap();
        let error = ready(open(&storage)).unwrap_err();
        assert_eq!(damaged(&error), Some(&key), "{error:?}");
    }
}

#[test]
fn damaged_checkpoints() {
    let objects = small();
    let expected = looked(&restored(&objects));
    let checkpoints: Vec<_> = objects.keys().filter(|&key| is_checkpoint(key)).collect();
    let storage = restored(&objects);
    for key in checkpoints.iter().rev() {
        assert!(storage.flip_bit(key, 100, 3));
        let calls = storage.calls();
        assert_eq!(looked(&storage), expected, "{key}");
        // A coordinator replaces them as it goes on, and workers need none.
        assert!(storage.calls() - calls <= objects.len() as u64 + 4);
        let number = keys::number_of(key);
        let mut follower = ready(Follower::open(storage.clone(), number)).unwrap();
        ready(follower.catch_up(expected.next_segment)).unwrap();
        assert_eq!(*follower.ledger(), expected);
    }
    let journal = ready(open(&storage)).unwrap();
    append(&journal, script());
    assert_eq!(looked(&storage), *journal.ledger());

    // One that the storage does not give now may be whole, and is not passed over.
    let storage = restored(&objects);
    let newest = checkpoints.last().unwrap();
    let fail = |call| {
        let call = storage.calls() + call;
        storage.set_fault(Some(fault(call, false, Moment::Before)));
    };
    fail(0);
    let begun = ready(Follower::open(storage.clone(), keys::number_of(newest)));
    assert!(matches!(begun, Err(StoreError::Storage(_))), "{begun:?}");
    // After the list of checkpoints.
    fail(1);
    let found = ready(read_ledger(&*storage));
    assert!(matches!(found, Err(StoreError::Storage(_))), "{found:?}");

    // Without the segments that would make up for them the newest one is named.
    let storage = restored(&objects);
    for key in &checkpoints {
        storage.flip_bit(key, 100, 3);
    }
    ready(storage.delete(&[keys::segment(2)])).unwrap();
    let error = ready(read_ledger(&*storage)).unwrap_err();
    assert_eq!(damaged(&error), Some(*newest), "{error:?}");
}

/// An object with other bytes and a right digest.
fn patched(bytes: &[u8], at: usize, patch: &[u8]) -> Bytes {
    let mut bytes = bytes.to_vec();
    let sealed = bytes.len() - 32;
    let end = sealed.min(at + patch.len());
    bytes[at..end].copy_from_slice(&patch[..end - at]);
    let digest = Digest::of(&bytes[..sealed]);
    bytes[sealed..].copy_from_slice(&digest.0);
    bytes.into()
}

/// The bytes before the entries of a segment, and those before the finders of its first entry.
const HEADING: usize = 16 + 8 + 32 + 8 + 4;
const FINDERS: usize = HEADING + 4 + 8 + 4 + 4 + 4;

#[test]
fn segments_that_no_journal_has_here() {
    let (storage, journal) = begun();
    ready(journal.append(script()[0].clone())).unwrap();
    let mut done = script()[0].clone();
    if let Entry::Done { finders, .. } = &mut done[0] {
        *finders = found_by([1, 2]);
    }
    ready(journal.append(done)).unwrap();
    let key = keys::segment(2);
    let bytes = storage.objects()[&key].clone();
    for (at, number, expected) in [
        (HEADING - 12, 99, "another table"),
        (HEADING - 4, 13, "another table"),
        (FINDERS, 3, "finders out of order"),
        (FINDERS + 12, 0, "finders out of order"),
    ] {
        storage.overwrite(&key, patched(&bytes, at, &u32::to_le_bytes(number)));
        let error = ready(read_ledger(&*storage)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_segment_with_a_wrong_entry_counts_for_nothing() {
    let (storage, journal) = begun();
    let mut follower = ready(Follower::open(storage.clone(), None)).unwrap();
    let before = follower.ledger().clone();
    let mut entries = script()[0].clone();
    let heads = vec![Head(0)];
    entries.push(Entry::Lost { heads });
    ready(journal.append(entries)).unwrap();
    let key = keys::segment(1);
    let bytes = storage.objects()[&key].clone();
    // The number of the heads of the last entry.
    let number = bytes.len() - 32 - 8 - 4;
    storage.overwrite(&key, patched(&bytes, number, &2_u32.to_le_bytes()));
    ready(follower.catch_up(2)).unwrap_err();
    assert_eq!(*follower.ledger(), before);
    storage.overwrite(&key, bytes);
    ready(follower.catch_up(2)).unwrap();
    assert_eq!(*follower.ledger(), *journal.ledger());
}

/// A coordinator that lies in its journal, with right digests. All that a [`PlacedRange`] may not be, its own test has.
#[test]
fn claims_beyond_a_table_are_refused() {
    let range = |change: &dyn Fn(&mut PlacedRange)| {
        let mut range = placed(Head(3), 1);
        change(&mut range);
        done(3, 1, 1, found_by([1]), vec![range])
    };
    let summed_up = |bits, change: &dyn Fn(&mut ShardSummary)| {
        let mut summary = merged(0);
        change(&mut summary);
        shard(bits, Finders::default(), summary)
    };
    let packed = |change: &dyn Fn(&mut ShardInfo)| {
        summed_up(BITS, &|summary| {
            change(summary.shard.as_mut().expect("it has words"));
        })
    };
    let nobody = done(3, 1, 0, Finders::default(), vec![placed(Head(3), 1)]);
    let sizes = "words cannot have";
    for (entry, expected) in [
        (range(&|_| ()), None),
        (
            range(&|range| range.length = u32::MAX),
            Some("cannot be at"),
        ),
        (nobody, Some("nobody computed")),
        (done(0, 1, 1, found_by([1]), vec![]), Some("without ranges")),
        (summed_up(BITS, &|_| ()), None),
        (summed_up(65, &|_| ()), Some("a table of 65 bits")),
        (
            summed_up(BITS, &|summary| summary.number = 1 << 16),
            Some("at most 65536 shards"),
        ),
        (
            packed(&|shard| shard.bytes = 1_000_000_000_000_000),
            Some(sizes),
        ),
        (
            packed(&|shard| {
                shard.index_offset += 1 << 30;
                shard.bytes += 1 << 30;
            }),
            Some(sizes),
        ),
        (packed(&|shard| shard.last = (1 << BITS) - 2), None),
        (
            packed(&|shard| shard.last = 1 << BITS),
            Some("words from 2 to 524288"),
        ),
    ] {
        let (storage, journal) = begun();
        append(&journal, [vec![entry]]);
        match (ready(read_ledger(&*storage)), expected) {
            (Ok(_), None) => {}
            (Err(StoreError::Damaged { key, what }), Some(expected)) => {
                assert!(what.contains(expected), "{what} instead of {expected}");
                assert_eq!(key, keys::segment(1));
            }
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }
    let storage = restored(&small());
    let key = Key::new("work/checkpoints/x").unwrap();
    storage.overwrite(&key, "");
    assert_eq!(
        damaged(&ready(read_ledger(&*storage)).unwrap_err()),
        Some(&key)
    );
}

#[test]
fn other_versions_are_told_from_damage() {
    let objects = small();
    let key = keys::segment(0);
    for version in [0, 2, 5, 7, u32::MAX] {
        let storage = restored(&objects);
        remove_checkpoints(&storage);
        storage.overwrite(&key, patched(&objects[&key], 8, &version.to_le_bytes()));
        let before = storage.objects();
        let expected =
            format!("{key} has format version {version}, and this program reads 6: finish");
        for error in [
            ready(open(&storage)).unwrap_err(),
            ready(read_ledger(&*storage)).unwrap_err(),
        ] {
            let refused =
                matches!(&error, StoreError::Refused(what) if what.starts_with(&expected));
            assert!(refused, "{error:?}");
        }
        assert_eq!(storage.objects(), before, "nothing is added");
    }
}

/// Whatever numbers an object claims, with a right digest: an error or a ledger, no panic, and no more memory
/// than the object has bytes.
#[test]
fn hostile_numbers() {
    let objects = small();
    for key in objects.keys() {
        for at in 12..objects[key].len() - 32 {
            for patch in [u64::MAX, 1 << 31, u64::from(u32::MAX), 1 << 63, 0, 6] {
                let storage = restored(&objects);
                if !is_checkpoint(key) {
                    remove_checkpoints(&storage);
                }
                storage.overwrite(key, patched(&objects[key], at, &patch.to_le_bytes()));
                match ready(read_ledger(&*storage)) {
                    Ok(Some(_)) | Err(StoreError::Damaged { .. }) => {}
                    other => panic!("{key} at {at}: {other:?}"),
                }
            }
        }
    }
}
