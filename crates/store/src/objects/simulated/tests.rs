//! The simulation fails as it is told to.

use super::super::testing::key;
use super::*;
use crate::ready;

fn create(
    storage: &SimulatedStorage,
    name: &str,
    bytes: &'static [u8],
) -> Result<(), StorageError> {
    ready(storage.create(&key(name), Bytes::from_static(bytes)))
}

#[test]
fn a_crash_leaves_a_creation_absent_complete_or_unfinished() {
    let mut seen = [0; 3];
    for seed in 0..60 {
        let storage = SimulatedStorage::new(seed);
        create(&storage, "a", b"first").unwrap();
        storage.crash_at(1);
        create(&storage, "b", b"second").unwrap_err();
        create(&storage, "c", b"third").unwrap_err();
        let unfinished = storage.unfinished().is_some();
        let survivor = storage.crash();
        let outcome = match survivor.objects().get(&key("b")) {
            Some(bytes) => {
                assert_eq!(bytes, "second");
                assert!(!unfinished);
                0
            }
            None => 1 + usize::from(unfinished),
        };
        seen[outcome] += 1;
        assert_eq!(survivor.objects()[&key("a")], "first");
        create(&survivor, "c", b"third").unwrap();
        ready(storage.read(&key("a"))).unwrap_err();
    }
    assert!(seen.iter().all(|&count| count > 5), "{seen:?}");
}

#[test]
fn a_listing_that_lags() {
    let storage = SimulatedStorage::new(1);
    for name in ["f/c", "f/a", "f/b"] {
        create(&storage, name, b"").unwrap();
    }
    let listed = |storage: &SimulatedStorage| {
        let objects = ready(storage.list(&key("f"))).unwrap();
        let names = objects.iter().map(|(key, _)| &key.as_str()[2..]);
        names.collect::<String>()
    };
    for (lag, names) in [(0, "abc"), (1, "ac"), (2, "c"), (3, ""), (9, "")] {
        storage.set_lag(lag);
        assert_eq!(listed(&storage), names);
        ready(storage.read(&key("f/b"))).unwrap();
    }
    let survivor = storage.crash();
    create(&survivor, "f/d", b"").unwrap();
    survivor.set_lag(2);
    assert_eq!(listed(&survivor), "ac");
    ready(survivor.delete(&[key("f/d")])).unwrap();
    for (lag, names) in [(0, "abc"), (1, "acd")] {
        survivor.set_lag(lag);
        assert_eq!(listed(&survivor), names);
    }
}
