//! Two coordinators that both believe that the table is theirs.

use super::*;

fn entry(lease: u64) -> Vec<Entry> {
    let ranges = vec![placed(Head(0), lease)];
    vec![done(0, lease, 1, found_by([1]), ranges)]
}

/// Each bit of `order` says who has the next turn. Each writer opens the journal with its first turn and
/// appends with the others.
fn run(order: u32, turns: u32) {
    let storage = Arc::new(SimulatedStorage::new(1));
    let mut writers: [Option<Journal>; 2] = [None, None];
    let mut fenced = [false; 2];
    let mut acknowledged = Vec::new();
    let mut owner = None;
    for turn in 0..turns {
        let who = (order >> turn & 1) as usize;
        let Some(journal) = &writers[who] else {
            writers[who] = Some(ready(open(&storage)).unwrap());
            owner = Some(who);
            continue;
        };
        let done = ready(journal.append(entry(u64::from(turn) + 1)));
        match done {
            Ok(()) => {
                assert!(owner == Some(who) && !fenced[who], "{order:b}: {turn}");
                acknowledged.push(entry(u64::from(turn) + 1));
            }
            Err(StoreError::Fenced { key }) => {
                assert!(owner != Some(who), "{order:b}: {turn}");
                assert!(storage.objects().contains_key(&key));
                fenced[who] = true;
            }
            Err(error) => panic!("{order:b}: {error:?}"),
        }
    }
    if owner.is_some() {
        assert_eq!(Plain::found(&looked(&storage)), Plain::of(&acknowledged));
    }
}

#[test]
fn the_later_one_has_it() {
    for order in 0..1 << 12 {
        run(order, 12);
    }
}

/// A coordinator that slept while another one finished and pruned the table.
#[test]
fn who_was_away_for_long() {
    let (storage, journal) = begun();
    let other = ready(open(&storage)).unwrap();
    append(&other, script());
    publish_manifest(&storage, BITS);
    assert!(ready(other.prune(BITS)).unwrap());
    for done in [
        ready(journal.append(entry(1))),
        ready(journal.prune(BITS)).map(drop),
    ] {
        assert!(matches!(done, Err(StoreError::Fenced { .. })), "{done:?}");
    }
    assert_eq!(Plain::found(&looked(&storage)), Plain::pruned());
}

#[test]
fn of_two_that_start_at_once_one_has_it() {
    // Both have found an empty journal, and the second is the first to write.
    let storage = Arc::new(SimulatedStorage::new(1));
    let [first, second] = [1, 2].map(|_| Journal {
        coordinator_secret: 0,
        storage: storage.clone(),
        parts: RwLock::default(),
        epoch: 0,
        bits: BITS,
        checkpoint: RwLock::default(),
        ledger: RwLock::new(Ledger::new(TABLE, range_bits())),
        writer: tokio::sync::Mutex::default(),
    });
    let opened = |secret_digest| {
        vec![Entry::Opened {
            secret_digest,
            bits: BITS,
        }]
    };
    ready(second.append(opened(2))).unwrap();
    let error = ready(first.append(opened(1))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the table was taken over by another coordinator: it wrote work/journal/0000000000"
    );
}
