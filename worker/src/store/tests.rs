//! Tests of how a worker opens and follows the store.

use chomp_store::objects::SimulatedStorage;
use chomp_store::{Entry, Journal};
use chomp_table::{Digest, RangeBits};

use super::*;

const TABLE: u64 = 9;

/// A store with a journal of three segments, and who follows it from the first on.
async fn store() -> (Arc<SimulatedStorage>, Store) {
    let storage = Arc::new(SimulatedStorage::new(0));
    let range_bits = RangeBits::new(12).unwrap();
    let journal = Journal::open(storage.clone(), range_bits, 16, 1, TABLE);
    let journal = journal.await.unwrap();
    let store = Store::open(storage.clone(), &job(TABLE), false).await;
    for _ in 0..2 {
        let heads = vec![Head(1)];
        journal
            .append(vec![Entry::Withdrawn { heads }])
            .await
            .unwrap();
    }
    (storage, store.unwrap())
}

fn job(table: u64) -> JobDescription {
    JobDescription {
        bits: 16,
        range_bits: RangeBits::new(12).unwrap(),
        table,
        lease: Duration::from_secs(30),
        store: String::new(),
        checkpoint: None,
        epoch: 0,
    }
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_segment_that_is_seen_late_is_waited_for() {
    let last = key("work/journal/0000000002");
    for (late, found) in [(0, true), (100, true), (3_000, true), (60_000, false)] {
        let (storage, store) = store().await;
        let bytes = storage.read(&last).await.unwrap();
        storage.delete(std::slice::from_ref(&last)).await.unwrap();
        let comes = async {
            tokio::time::sleep(Duration::from_millis(late)).await;
            storage.create(&last, bytes).await.unwrap();
        };
        let (followed, ()) = tokio::join!(store.follow(3), comes);
        assert_eq!(followed.is_ok(), found, "{late}: {followed:?}");
        let next = store.journal.read().await.ledger().next;
        assert_eq!(
            next,
            if found { 3 } else { 2 },
            "what was read before stays"
        );
        store.follow(3).await.unwrap();
    }
}

#[tokio::test]
async fn another_table_is_refused() {
    let (storage, _) = store().await;
    let other = Store::open(storage, &job(TABLE + 1), false).await;
    assert!(
        matches!(other, Err(Trouble::Failed(reason)) if reason.contains("not that of the job"))
    );
    let empty = Store::open(Arc::new(SimulatedStorage::new(0)), &job(TABLE), false).await;
    assert!(matches!(empty, Err(Trouble::Failed(_))));
}

#[tokio::test]
async fn records_that_cannot_be_are_not_read() {
    let (_, store) = store().await;
    let place = RecordPlace {
        layer: 0,
        lease: 1,
        offset: 16,
        length: u32::MAX,
        replicas: 1,
        count: 1,
        stored: 1,
        digest: Digest([1; 32]),
    };
    let mut records = store.records(&[(Head(2), place)]).await.unwrap();
    let lost = records.remove(0).unwrap_err();
    assert_eq!((lost.head, lost.digest), (Head(2), place.digest));
    assert!(
        lost.reason.contains("more than a range can have"),
        "{}",
        lost.reason
    );
    let missing = store.places([Head(3)]).await;
    assert!(matches!(missing, Err(Trouble::Missing(Head(3)))));
}

#[tokio::test]
async fn what_was_created_before_is_as_good_if_it_is_the_same() {
    let (storage, store) = store().await;
    let (part, shard) = (
        key("work/parts/0000/0000000000000007"),
        key("table-16/x.zst"),
    );
    let one = Bytes::from_static(b"one");
    for _ in 0..2 {
        store.put_part(&part, one.clone()).await.unwrap();
        store
            .put_shard("table-16", &shard, one.clone())
            .await
            .unwrap();
    }
    for other in ["one other", "on", "two"].map(Bytes::from) {
        let refused = store.put_part(&part, other.clone()).await;
        assert!(
            matches!(refused, Err(Trouble::Failed(reason)) if reason.contains("exists already"))
        );
        store
            .put_shard("table-16", &shard, other.clone())
            .await
            .unwrap();
        assert_eq!(storage.read(&part).await.unwrap(), one);
        assert_eq!(storage.read(&shard).await.unwrap(), other);
    }
}
