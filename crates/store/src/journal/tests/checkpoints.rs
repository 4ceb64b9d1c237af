//! When there is a checkpoint, and what it takes.

use super::*;

#[test]
fn a_checkpoint_of_many_ranges() {
    let mut ledger = Ledger::new(TABLE, RangeBits::new(28).unwrap());
    for head in 0..1_000_000 {
        let finders = finders(head % 1000);
        ledger.add(head % 1000, 1, &finders, &placed(Head(head), head % 1000));
    }
    let bytes = encode_checkpoint(&ledger);
    assert!(bytes.len() < 105 * ledger.done_count(), "{}", bytes.len());
    let read = format::decode(format::CHECKPOINT, &bytes, 0);
    assert!(read.is_ok_and(|read| read == ledger));
}

/// By all bytes and segments since the last checkpoint, whoever wrote them.
#[test]
fn a_checkpoint_is_due_when_an_eighth_of_the_last_was_written() {
    let (storage, journal) = begun();
    let ranges = (0..60).map(|head| placed(Head(head), 1)).collect();
    let mut entry = done(0, 1, 1, found_by([1]), ranges);
    let (mut segments, mut bytes, mut last) = (1, storage.objects()[&keys::segment(0)].len(), 0);
    let mut waits = Vec::new();
    for number in 1..100 {
        ready(journal.append(vec![entry])).unwrap();
        entry = Entry::Lost { heads: vec![] };
        let objects = storage.objects();
        segments += 1;
        bytes += objects[&keys::segment(number)].len();
        let checkpoint = objects.get(&keys::checkpoint(number + 1));
        let due = segments >= CHECKPOINT_SEGMENTS_MIN && bytes >= last / 8;
        assert_eq!(checkpoint.is_some(), due, "{number}");
        if let Some(checkpoint) = checkpoint {
            waits.push(segments);
            (segments, bytes, last) = (0, 0, checkpoint.len());
        }
    }
    assert!(
        waits
            .iter()
            .any(|&segments| segments > CHECKPOINT_SEGMENTS_MIN),
        "{waits:?}"
    );
}

/// As a worker sees them that lists and reads while a coordinator removes the first.
#[test]
fn checkpoints_that_are_removed_are_passed_over() {
    let storage = finished();
    let expected = looked(&storage);
    assert!(remove_checkpoints(&storage) > 0);
    for lag in 0..4 {
        storage.set_lag(lag);
        assert_eq!(looked(&storage), expected, "{lag}");
    }
}
