//! Stores that are lost, damaged, somewhere else, or not the right one.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use chomp_store::journal::is_opened_by;
use chomp_store::location::StoreLocation;
use chomp_store::objects::{LocalStorage, SimulatedStorage, TableLock};
use chomp_store::{Entry, Journal, Key, Storage, StorageError};
use chomp_table::{Digest, Head, RangeSummary};
use tonic::Status;

use super::fake::{Act, BITS, Fake, Lie, State, config, done, now, truth};
use crate::{Config, StoreChoice};

/// Answers more calls than a job takes: one that does not come to its end fails.
fn go(_: &str, state: &mut State) -> Act {
    if state.log.len() < 5_000 {
        Act::Go
    } else {
        Act::Fail(Status::failed_precondition("it does not come to its end"))
    }
}

/// A configuration with the store of the coordinator itself.
fn direct(fake: &Fake) -> Config {
    Config {
        store: Some(StoreChoice::Shared(fake.state().storage.clone())),
        ..config(1)
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_reached_is_used() {
    let fake = Fake::new(go);
    let report = fake.is_done_by(direct(&fake)).await;
    let state = fake.state();
    assert_eq!((state.count("get"), state.count("put")), (0, 0));
    assert_eq!(report.ranges, 16);
    assert_eq!(state.returned, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn one_of_another_table_is_not() {
    let (fake, other) = (Fake::new(go), Fake::new(go));
    other.state().move_table();
    for config in [
        direct(&other),
        Config {
            store: Some(StoreChoice::Shared(Arc::new(SimulatedStorage::new(1)))),
            ..config(1)
        },
    ] {
        fake.is_done_by(config).await;
        assert!(fake.state().count("get") > 0);
    }
    assert!(
        other.state().storage.objects().len() < 3,
        "nothing is put there"
    );
}

/// A coordinator names a directory that the worker may write to, and its table, which anybody may know who reads there.
#[tokio::test(start_paused = true)]
async fn one_of_another_coordinator_is_not() {
    let fake = Fake::new(go);
    let directory = tempfile::tempdir().unwrap();
    let lock = TableLock::acquire(directory.path()).unwrap();
    let storage = LocalStorage::open(lock).unwrap();
    let objects = fake.state().storage.objects();
    for (key, bytes) in objects {
        storage.create(&key, bytes).await.unwrap();
    }
    let (epoch, number) = {
        let mut state = fake.state();
        state.location = directory.path().display().to_string();
        state.lie = Some(Lie::Job(|job| job.coordinator += 1));
        (state.journal.epoch(), state.journal.coordinator_secret())
    };
    assert!(is_opened_by(&storage, epoch, number).await.unwrap());
    fake.is_done_by(config(1)).await;
    assert!(fake.state().count("get") > 0);
    let parts = storage.list(&Key::new("work/parts").unwrap()).await;
    assert_eq!(parts.unwrap(), [], "nothing is put there");
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_none_is_no_hindrance() {
    for location in ["/there/is/no/such/place", "s3://", "gopher://x"] {
        let fake = Fake::new(go);
        fake.state().location = location.to_owned();
        fake.is_done_by(config(1)).await;
    }
}

/// Whatever is wrong with a record, whoever needs it tells, and it is computed again.
#[tokio::test(start_paused = true)]
async fn lost_records_are_reported_and_computed_again() {
    for proxied in [false, true] {
        for case in 0..4 {
            let fake = Fake::new(go);
            {
                let mut state = fake.state();
                state.add_done(|head| head.0 < 6);
                let key = state.part(Head(1));
                match case {
                    0 => assert!(state.storage.flip_bit(&key, 70, 3)),
                    1 => assert!(state.storage.truncate(&key, 50)),
                    2 => state
                        .storage
                        .overwrite(&key, Bytes::from_static(b"something else")),
                    _ => now(state.storage.delete(&[key])).unwrap(),
                }
            }
            let config = if proxied { config(1) } else { direct(&fake) };
            fake.is_done_by(config).await;
            let state = fake.state();
            assert!(
                !state.reported.is_empty() && state.reported.iter().all(|(head, _)| head.0 == 1)
            );
            assert!(
                state.returned.iter().all(String::is_empty),
                "{:?}",
                state.returned
            );
        }
    }
}

/// A store of which this worker sees one object with a wrong bit.
#[derive(Debug)]
struct Blurred(Arc<SimulatedStorage>, Key);

#[async_trait]
impl Storage for Blurred {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        self.0.create(key, bytes).await
    }

    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        let mut read = self.0.read_at(key, range).await?.to_vec();
        if *key == self.1 {
            read[0] ^= 1;
        }
        Ok(read.into())
    }

    async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        self.0.list(prefix).await
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), StorageError> {
        self.0.delete(keys).await
    }
}

/// A worker that alone cannot read a record fails at one task, and then reads it through the coordinator.
#[tokio::test(start_paused = true)]
async fn a_record_that_only_this_worker_cannot_read_is_read_through_the_coordinator() {
    let fake = Fake::new(go);
    let key = {
        let mut state = fake.state();
        state.add_done(|head| head.0 < 6);
        state.part(Head(1))
    };
    let storage = Blurred(Arc::clone(&fake.state().storage), key);
    let config = Config {
        store: Some(StoreChoice::Shared(Arc::new(storage))),
        ..config(1)
    };
    fake.is_done_by(config).await;
    let state = fake.state();
    // Each of two lanes may find out by itself.
    assert!((1..=2).contains(&state.reported.len()));
    assert_eq!(state.returned.len(), state.reported.len());
    assert!(state.returned[0].contains("is in order and cannot be read here"));
    assert!(state.count("get") > 0);
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_is_not_what_was_said_of_it_is_told() {
    for proxied in [false, true] {
        for case in 0..4 {
            let key = Key::new("table-16/shard-0004.zst").unwrap();
            let mut whole = None;
            let fake = Fake::new(move |_, state| {
                let storage = Arc::clone(&state.storage);
                if let Some(whole) = &whole {
                    // As a coordinator does that hears of it.
                    if !state.returned.is_empty() {
                        storage.overwrite(&key, Bytes::clone(whole));
                    }
                } else if state.are_shards_done() {
                    let bytes = now(storage.read(&key)).unwrap();
                    match case {
                        0 => assert!(storage.flip_bit(&key, 70, 3)),
                        1 => assert!(storage.truncate(&key, bytes.len() - 1)),
                        2 => storage.overwrite(&key, [&bytes[..], b"x"].concat()),
                        _ => now(storage.delete(std::slice::from_ref(&key))).unwrap(),
                    }
                    whole = Some(bytes);
                }
                Act::Go
            });
            let config = if proxied { config(1) } else { direct(&fake) };
            fake.is_done_by(config).await;
            let state = fake.state();
            let [told] = &state.returned[..] else {
                panic!("{:?}", state.returned);
            };
            let expected = match case {
                3 => "shard-0004.zst cannot be read",
                _ => "the file of the shard is not what was said of it",
            };
            assert!(told.contains(expected), "{told}");
        }
    }
}

/// Has a range done as the journal would not have it.
fn forge(state: &State, summary: RangeSummary, record: &[u8]) {
    let mut part = chomp_store::part::PartBuilder::default();
    part.push(summary, record);
    let (bytes, ranges) = part.finish();
    let part = chomp_store::PartName {
        layer: summary.head.layer(),
        lease: 0xbbbb,
    };
    now(state.storage.create(&part.key(), bytes)).unwrap();
    now(state.journal.append(vec![done(part, ranges)])).unwrap();
}

/// A record that is whole, and another's: nothing is computed from it.
#[tokio::test(start_paused = true)]
async fn the_record_of_another_range_is_no_source() {
    let fake = Fake::new(go);
    {
        let state = fake.state();
        let other = &truth(state.range_bits)[&Head(1)];
        let (summary, record) = chomp_table::range::encode(other, state.range_bits);
        let head = Head(0);
        forge(&state, RangeSummary { head, ..summary }, &record);
    }
    fake.is_done_by(direct(&fake)).await;
    let state = fake.state();
    let told = |lost: &(Head, String)| lost.0 == Head(0) && lost.1.contains("it is of range");
    assert!(
        !state.reported.is_empty() && state.reported.iter().all(told),
        "{:?}",
        state.reported
    );
}

/// A merge sees what nobody needed before, and what the journal says wrongly.
#[tokio::test(start_paused = true)]
async fn a_merge_reports_what_it_finds() {
    for case in 0..4 {
        let fake = Fake::new(go);
        let head = Head(15);
        {
            let mut state = fake.state();
            state.add_done(|head| head.0 < 15);
            let range = &truth(state.range_bits)[&head];
            let (mut summary, record) = chomp_table::range::encode(range, state.range_bits);
            let mut record = record;
            match case {
                0 => record[60] ^= 1,
                1 => summary.stored -= 1,
                2 => summary.count += 1,
                _ => {
                    // A record that lies about what is stored, with the digest of the lie.
                    record[40] -= 1;
                    summary.stored -= 1;
                    summary.digest = Digest::of(&record);
                }
            }
            forge(&state, summary, &record);
        }
        fake.is_done_by(direct(&fake)).await;
        let state = fake.state();
        assert!(
            !state.reported.is_empty() && state.reported.iter().all(|lost| lost.0 == head),
            "{case}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_in_the_way_fails_the_task() {
    let fake = Fake::new(go);
    let key = Key::new("work/parts/0000/0000000000000000").unwrap();
    now(fake.state().storage.create(&key, Bytes::from_static(b"x"))).unwrap();
    fake.is_done_by(direct(&fake)).await;
    let returned = fake.state().returned.clone();
    assert!(
        matches!(&*returned, [reason] if reason.contains("exists already")),
        "{returned:?}"
    );
}

/// A directory that can be read, and not be written: the coordinator writes.
#[tokio::test(start_paused = true)]
async fn a_store_that_takes_nothing_is_not_used() {
    let fake = Fake::new(go);
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("work")).unwrap();
    let location = StoreLocation::Directory(place.path().to_owned());
    let storage = location.open_shared().unwrap();
    let objects = fake.state().storage.objects();
    for (key, bytes) in objects {
        storage.create(&key, bytes).await.unwrap();
    }
    // A file where the folder of the parts is to be.
    let parts = Key::new("work/parts").unwrap();
    storage.create(&parts, Bytes::new()).await.unwrap();
    fake.state().location = location.to_string();
    fake.is_done_by(config(1)).await;
    let state = fake.state();
    let failed = |reason: &String| reason.contains("work/parts");
    let returned = &state.returned;
    assert!(
        !returned.is_empty() && returned.iter().all(failed),
        "{returned:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_shard_in_the_way_is_replaced() {
    for proxied in [false, true] {
        let fake = Fake::new(go);
        let key = Key::new("table-16/shard-0001.zst").unwrap();
        now(fake.state().storage.create(&key, Bytes::from_static(b"x"))).unwrap();
        let config = if proxied { config(1) } else { direct(&fake) };
        fake.is_done_by(config).await;
    }
}

/// Segments that are gone, or not what they were, while the worker follows: it begins again at the
/// newest checkpoint.
#[tokio::test(start_paused = true)]
async fn a_journal_that_cannot_be_followed_is_read_anew() {
    for damage in [false, true] {
        let mut completed = 0;
        let fake = Fake::new(move |call, state| {
            completed += usize::from(call == "complete");
            if call == "complete" && completed == 4 {
                let next = state.journal.ledger().next_segment;
                // Enough segments for a checkpoint.
                for _ in 0..64 {
                    now(state.journal.append(Vec::new())).unwrap();
                }
                assert!(state.checkpoint() > next);
                let key = Key::new(&format!("work/journal/{next:010}")).unwrap();
                if damage {
                    assert!(state.storage.flip_bit(&key, 40, 1));
                } else {
                    now(state.storage.delete(&[key])).unwrap();
                }
            }
            Act::Go
        });
        fake.is_done_by(direct(&fake)).await;
        let state = fake.state();
        assert_eq!(state.joins.len(), 2);
        assert_eq!(state.returned, Vec::<String>::new());
    }
}

/// Goes on with the table as it was when it had these objects.
fn put_back(state: &mut State, objects: BTreeMap<Key, Bytes>) {
    state.restart();
    let (table, storage) = (state.journal.ledger().table, SimulatedStorage::new(0));
    for (key, bytes) in objects {
        now(storage.create(&key, bytes)).unwrap();
    }
    state.storage = Arc::new(storage);
    let journal = Journal::open(state.storage.clone(), state.range_bits, BITS, 2, table);
    state.journal = Arc::new(now(journal).unwrap());
}

/// A table is put back as it was earlier, and the worker has read of ranges that were withdrawn later. What it needs
/// is not done by all that it knows, and it is not to believe that.
#[tokio::test(start_paused = true)]
async fn a_journal_that_was_put_back_is_read_anew() {
    let (mut calls, mut completed, mut before) = (0, 0, None);
    let fake = Fake::new(move |call, state| {
        calls += 1;
        assert!(calls < 1_000, "it gets nowhere");
        completed += usize::from(call == "complete");
        if call == "complete" && completed == 4 {
            before = Some(state.storage.objects());
            for head in (0..16).map(Head) {
                let heads = vec![head];
                now(state.journal.append(vec![Entry::Withdrawn { heads }])).unwrap();
            }
        } else if completed == 6
            && let Some(before) = before.take()
        {
            put_back(state, before);
            return Act::Fail(Status::unavailable("connection reset"));
        }
        Act::Go
    });
    fake.is_done_by(config(1)).await;
    assert_eq!(fake.state().joins.len(), 2);
}

/// If even the newest checkpoint is of no use, the task fails with the reason.
#[tokio::test(start_paused = true)]
async fn a_journal_that_is_damaged_fails_the_task() {
    let mut leased = 0;
    let fake = Fake::new(move |call, state| {
        leased += usize::from(call == "lease");
        let key = Key::new("work/journal/0000000000").unwrap();
        if leased == 1 || state.returned.len() == 2 {
            state.storage.flip_bit(&key, 40, 1);
            leased += 1;
            state.returned.push("mended, or not".to_owned());
        }
        Act::Go
    });
    let mut config = direct(&fake);
    config.threads = std::num::NonZeroUsize::MIN;
    fake.is_done_by(config).await;
    let returned = fake.state().returned.clone();
    assert!(
        returned.iter().any(|reason| reason.contains("is damaged")),
        "{returned:?}"
    );
}
