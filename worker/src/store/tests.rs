//! Tests of how a worker opens and follows the store.

use chomp_store::objects::SimulatedStorage;
use chomp_store::{Entry, Journal, Key};
use chomp_table::{Digest, RangeBits};

use super::*;

/// A store with a journal of three segments, and who follows it from the first on.
async fn store() -> (Arc<SimulatedStorage>, Store) {
    let storage = Arc::new(SimulatedStorage::new(0));
    let range_bits = RangeBits::new(12).unwrap();
    let journal = Journal::open(storage.clone(), range_bits, 16, 1, 9);
    let journal = journal.await.unwrap();
    let job = JobDescription::of(16, range_bits, 9);
    let store = Store::open(storage.clone(), storage.clone(), &job, false).await;
    for _ in 0..2 {
        let heads = vec![Head(1)];
        journal
            .append(vec![Entry::Withdrawn { heads }])
            .await
            .unwrap();
    }
    (storage, store.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_segment_that_is_seen_late_is_waited_for() {
    let last = Key::new("work/journal/0000000002").unwrap();
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
        let next = store.journal.read().await.ledger().next_segment;
        assert_eq!(
            next,
            if found { 3 } else { 2 },
            "what was read before stays"
        );
        store.follow(3).await.unwrap();
    }
}

#[tokio::test]
async fn records_that_cannot_be_are_not_read() {
    let (_, store) = store().await;
    let row = RangeRow {
        layer: 0,
        lease: 1,
        offset: 16,
        length: u32::MAX,
        replicas: 1,
        count: 1,
        stored: 1,
        digest: Digest([1; 32]),
    };
    let read = store.records(&[(Head(2), row)]).await;
    let Err(Trouble::Lost(lost)) = read else {
        panic!("{read:?}")
    };
    let reason = format!("it has {} bytes, more than a range can have", u32::MAX);
    assert_eq!(lost, [lost_record(Head(2), &row, reason)]);
    let missing = store.done_ranges([Head(3)]).await;
    assert!(matches!(missing, Err(Trouble::Missing(Head(3)))));
}
