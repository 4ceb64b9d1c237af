//! Bytes that nobody wrote, in every place: each is named, none is believed, none makes a panic.

use super::*;

/// The objects that a start reads: all but the published ones and the epochs before the last.
fn read_at_start(objects: &BTreeMap<Key, Bytes>) -> Vec<Key> {
    let read = |key: &&Key| key.as_str().starts_with("work/");
    objects.keys().filter(read).cloned().collect()
}

fn damaged(error: Result<(Store, Progress), StoreError>, expected: &Key, what: &str) {
    match error {
        Err(StoreError::Damaged { ref key, .. }) if key == expected => {}
        other => panic!("{expected}, {what}: {other:?}"),
    }
}

#[test]
fn every_bit_flip_and_every_cut_is_found() {
    let objects = finished().objects();
    let mut cases = 0;
    for key in read_at_start(&objects) {
        for at in 0..objects[&key].len() {
            for bit in 0..8 {
                let storage = restored(&objects);
                assert!(storage.flip_bit(&key, at, bit));
                damaged(open(&storage), &key, &format!("bit {bit} of byte {at}"));
            }
            let storage = restored(&objects);
            assert!(storage.truncate(&key, at));
            damaged(open(&storage), &key, &format!("cut to {at} bytes"));
            let storage = restored(&objects);
            assert!(storage.zero_tail(&key, at));
            if storage.objects() != objects {
                damaged(open(&storage), &key, &format!("zeros from byte {at}"));
            }
            cases += 10;
        }
        let storage = restored(&objects);
        let longer = [&objects[&key], &b"\0"[..]].concat();
        storage.overwrite(&key, longer);
        damaged(open(&storage), &key, "a byte too long");
    }
    assert!(cases > 20_000, "{cases}");
}

#[test]
fn any_object_in_the_place_of_another_is_found() {
    let objects = finished().objects();
    let keys = read_at_start(&objects);
    for key in &keys {
        for other in keys.iter().filter(|&other| other != key) {
            let storage = restored(&objects);
            storage.overwrite(key, objects[other].clone());
            damaged(open(&storage), key, &format!("holds {other}"));
        }
    }
}

#[test]
fn a_record_that_rots_later() {
    let storage = finished();
    let (store, _) = open(&storage).unwrap();
    let part = key("work/parts/0003/0000000000000003-0000000001");
    let length = storage.objects()[&part].len();
    assert!(storage.flip_bit(&part, length - 1, 0));
    ready(store.read_record(Head(3))).unwrap();
    let error = ready(store.read_record(Head(4))).unwrap_err();
    assert!(
        matches!(&error, StoreError::Damaged { key, .. } if *key == part),
        "{error:?}"
    );
    assert!(storage.truncate(&part, length - 1));
    assert!(matches!(
        ready(store.read_record(Head(4))),
        Err(StoreError::Damaged { .. })
    ));
    ready(storage.delete(&part)).unwrap();
    let error = ready(store.read_record(Head(4))).unwrap_err();
    assert!(
        matches!(error, StoreError::Storage(StorageError::NotFound { .. })),
        "{error:?}"
    );
}

/// An object with other fields and a right digest of its header.
fn patched(bytes: &Bytes, at: usize, patch: &[u8]) -> Bytes {
    let mut bytes = bytes.to_vec();
    bytes[at..at + patch.len()].copy_from_slice(patch);
    let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let digest = Digest::of(&bytes[..length - 32]);
    bytes[length - 32..length].copy_from_slice(&digest.0);
    bytes.into()
}

const JOB: &str = "work/job";
const EPOCH: &str = "work/epochs/0000000001";
const PART: &str = "work/parts/0003/0000000000000003-0000000001";
const SEAL: &str = "work/seals/15/0003";

#[test]
fn newer_versions_are_told_from_damage() {
    let objects = finished().objects();
    for name in [JOB, EPOCH, PART, SEAL] {
        for (version, newer) in [(0_u32, false), (2, true), (u32::MAX, true)] {
            let storage = restored(&objects);
            let bytes = patched(&objects[&key(name)], 8, &version.to_le_bytes());
            storage.overwrite(&key(name), bytes);
            match open(&storage) {
                Err(StoreError::Newer {
                    key,
                    found,
                    known: 1,
                }) => {
                    assert!(newer && key.as_str() == name && found == version);
                }
                other => {
                    assert!(!newer, "{other:?}");
                    damaged(other, &key(name), "version 0");
                }
            }
        }
    }
}

#[test]
fn fields_that_make_no_sense() {
    let objects = finished().objects();
    let max = u64::MAX.to_le_bytes();
    let cases: &[(&str, usize, &[u8], &str)] = &[
        (JOB, 16, &[11, 0, 0, 0], "claims 11 range bits"),
        (JOB, 16, &[33, 0, 0, 0], "claims 33 range bits"),
        (JOB, 16, &[12, 0, 0, 1], "range bits"),
        (EPOCH, 16, &[2], "epoch 2"),
        (PART, 16, &[13], "13 range bits"),
        (PART, 20, &[4], "not of layer 4"),
        (PART, 24, &[2], "content is that of"),
        (PART, 32, &[0], "nobody computed"),
        (PART, 36, &[0], "claims 0 ranges"),
        (PART, 36, &[1], "claims 1 ranges"),
        (PART, 36, &[3], "claims 3 ranges"),
        (PART, 36, &[0xff; 4], "claims 4294967295 ranges"),
        (PART, 40, &[4], "out of order"),
        (PART, 40, &[5], "not of layer 3"),
        (PART, 40, &[2], "not of layer 3"),
        (PART, 47, &[0x10], "not of layer 3"),
        (PART, 48, &[1, 8], "claims 2049 losing positions"),
        (PART, 48, &max, "losing positions"),
        (PART, 88, &[8], "digest of the record of range 3"),
        (PART, 88, &[10], "digest of the record of range 3"),
        (PART, 88, &max, "ends in the record of 3"),
        (PART, 176, &[13], "ends in the record of 4"),
        (SEAL, 16, &[16], "of 16 bits"),
        (SEAL, 20, &[13], "13 range bits"),
        (SEAL, 24, &[2], "layer 2"),
        (SEAL, 36, &[0; 32], "does not follow"),
        (SEAL, 68, &[1], "claims 1 ranges"),
        (SEAL, 68, &[0xff; 4], "claims 4294967295 ranges"),
        (SEAL, 72, &[4], "out of order"),
        (SEAL, 72, &[2], "not of layer 3"),
        (SEAL, 80, &[1, 8], "claims 2049 losing positions"),
    ];
    for &(name, at, patch, expected) in cases {
        let storage = restored(&objects);
        storage.overwrite(&key(name), patched(&objects[&key(name)], at, patch));
        match open(&storage) {
            Err(StoreError::Damaged { key, what }) if key.as_str() == name => {
                assert!(what.contains(expected), "{name} {at} {patch:?}: {what}");
            }
            other => panic!("{name} {at} {patch:?}: {other:?}"),
        }
    }
}

#[test]
fn heads_of_more_than_64_bits() {
    let head = Head(1 << 52 | 1);
    let (wide, narrow) = (records(&[head]), RangeBits::new(12).unwrap());
    let name = PartName {
        layer: head.layer(),
        first: head,
        epoch: 1,
    };
    let (bytes, _) = part::encode(name, narrow, 1, &wide);
    let wrong = part::decode(&bytes, name, narrow).unwrap_err();
    assert!(
        matches!(&wrong, Wrong::Damaged(what) if what.contains("64 bits")),
        "{wrong:?}"
    );
}

#[test]
fn a_seal_of_other_ranges() {
    let (storage, subject) = (finished(), open(&finished()).unwrap().0.subject(3).unwrap());
    let chain = keys::seal(BITS, 2);
    let objects = storage.objects();
    let previous = &objects[&chain][objects[&chain].len() - 32..];
    let previous = Digest(previous.try_into().unwrap());
    for (heads, expected) in [
        (vec![Head(3)], "1 ranges"),
        (vec![Head(4)], "1 ranges"),
        (vec![], "0 ranges"),
    ] {
        let (bytes, _) = subject.encode(1, &previous, &summaries(&heads));
        storage.overwrite(&key(SEAL), bytes);
        match open(&storage) {
            Err(StoreError::Damaged { key, what }) if key.as_str() == SEAL => {
                assert!(what.contains(expected), "{what}");
            }
            other => panic!("{other:?}"),
        }
    }
    // Layer 4 has one range of 15 bits, 5, and one more of 16 bits, 8.
    let subject = open(&finished()).unwrap().0.subject(4).unwrap();
    let (bytes, _) = subject.encode(1, &previous, &summaries(&[Head(8)]));
    let wrong = subject.decode(&bytes).unwrap_err();
    assert!(
        matches!(&wrong, Wrong::Damaged(what) if what.contains("beyond 15 bits")),
        "{wrong:?}"
    );
}

#[test]
fn missing_seals() {
    let storage = finished();
    ready(storage.delete(&keys::seal(BITS, 6))).unwrap();
    assert_eq!(open(&storage).unwrap().1.sealed_layers, 6);
    ready(storage.delete(&key(SEAL))).unwrap();
    damaged(open(&storage), &keys::seals(BITS), "a gap");

    // What the error says helps, and nothing is computed again.
    for layer in [0, 1, 2, 4, 5] {
        ready(storage.delete(&keys::seal(BITS, layer))).unwrap();
    }
    let mut told = Acknowledged::default();
    ready(work(storage, &mut told)).unwrap();
    assert!(told.ranges.is_empty() && told.layers == 7);
}

#[test]
fn names_that_nobody_gave() {
    let objects = finished().objects();
    for name in [
        "work/parts/README",
        "work/parts/0003/0000000000000003-0000000001.bak",
        "work/seals/15/0003.bak",
        "work/seals/15/0007",
        "work/seals/15/9999999999",
        "work/epochs/00000000002",
        "work/epochs/99999999999999999999999",
    ] {
        let storage = restored(&objects);
        storage.overwrite(&key(name), "");
        damaged(open(&storage), &key(name), "a foreign name");
    }
}

#[test]
fn huge_objects_are_not_read() {
    let objects = finished().objects();
    let huge = Bytes::from(vec![0; usize::try_from(PART_BYTES_MAX).unwrap() + 1]);
    for name in [JOB, EPOCH, PART, SEAL] {
        let storage = restored(&objects);
        storage.overwrite(&key(name), huge.clone());
        match open(&storage) {
            // Said before any byte of it was looked at.
            Err(StoreError::Damaged { key, what }) if key.as_str() == name => {
                assert!(
                    what == "it is too long" || what.contains("larger than"),
                    "{what}"
                );
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    let storage = restored(&objects);
    storage.overwrite(&keys::manifest(BITS), huge);
    let (store, _) = open(&storage).unwrap();
    assert!(matches!(
        ready(store.published(BITS)),
        Err(StoreError::Damaged { .. })
    ));
}

#[test]
fn the_last_epoch() {
    let objects = finished().objects();
    let storage = restored(&objects);
    storage.overwrite(
        &keys::epoch(keys::EPOCH_MAX),
        epoch::encode(keys::EPOCH_MAX),
    );
    let error = open(&storage).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Storage(StorageError::AlreadyExists { .. })
        ),
        "{error:?}"
    );
}

/// The layouts that the modules describe, written down a second time.
#[test]
fn layouts() {
    let le32 = |value: u32| value.to_le_bytes().to_vec();
    let le64 = |value: u64| value.to_le_bytes().to_vec();
    let object = |magic: &[u8], fields: &[Vec<u8>]| {
        let fields = fields.concat();
        let length = u32::try_from(fields.len() + 48).unwrap();
        let bytes = [magic.to_vec(), le32(1), le32(length), fields].concat();
        let digest = Digest::of(&bytes).0;
        [bytes, digest.to_vec()].concat()
    };
    let objects = finished().objects();
    assert_eq!(objects[&key(JOB)], object(b"chompjob", &[le32(12)]));
    assert_eq!(objects[&key(EPOCH)], object(b"chompepo", &[le64(1)]));
    let (three, four) = (summary(Head(3)), summary(Head(4)));
    let (r3, r4) = (record(Head(3)), record(Head(4)));
    let part = [
        object(
            b"chomppar",
            &[
                le32(12),
                le32(3),
                le64(1),
                le32(1),
                le32(2),
                le64(3),
                le64(21),
                three.digest.0.to_vec(),
                le64(9),
                Digest::of(&r3).0.to_vec(),
                le64(4),
                le64(28),
                four.digest.0.to_vec(),
                le64(12),
                Digest::of(&r4).0.to_vec(),
            ],
        ),
        r3.to_vec(),
        r4.to_vec(),
    ];
    assert_eq!(objects[&key(PART)], part.concat());
    let before = &objects[&keys::seal(BITS, 2)];
    let seal = object(
        b"chompsea",
        &[
            le32(15),
            le32(12),
            le32(3),
            le64(1),
            before[before.len() - 32..].to_vec(),
            le32(2),
            le64(3),
            le64(21),
            three.digest.0.to_vec(),
            le64(4),
            le64(28),
            four.digest.0.to_vec(),
        ],
    );
    assert_eq!(objects[&key(SEAL)], seal);
}
