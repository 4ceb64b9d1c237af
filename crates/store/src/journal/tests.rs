//! A coordinator's work on a journal, repeated under every failure.

mod checkpoints;
mod damage;
mod faults;
mod writers;

use std::collections::BTreeMap;

use bytes::Bytes;
use chomp_plan::{ParticipantId, Party, REPLICAS_MAX, WorkerId};
use chomp_table::fingerprint::{Leaf, LeafLength};
use chomp_table::manifest::folder_name;
use chomp_table::shard::ShardInfo;
use chomp_table::{Digest, Head, RangeBits, RangeSummary, head};
use chomp_testing::waiting::HANG;
use tokio::task::JoinSet;

use super::*;
use crate::objects::SimulatedStorage;
use crate::ready;
use crate::{Finders, LengthSums, PartName, PlacedRange, RangeRow, ShardSummary};

/// The bits of the table: it has 128 ranges.
const BITS: u32 = 19;
const TABLE: u64 = 0x7ab1e;

fn range_bits() -> RangeBits {
    RangeBits::new(12).unwrap()
}

fn placed(head: Head, salt: u64) -> PlacedRange {
    PlacedRange {
        summary: RangeSummary {
            head,
            // No range with 12 bits has more than 512.
            count: head.0 + salt % 300,
            stored: head.0,
            digest: Digest::of(&[head.0, salt].map(u64::to_le_bytes).concat()),
        },
        offset: 16 + u32::try_from(salt).unwrap(),
        length: 100,
    }
}

fn merged(number: u32) -> ShardSummary {
    let digest = Digest::of(&number.to_le_bytes());
    // One of them has no words left.
    let words = if number == 1 {
        0
    } else {
        u64::from(number) + 5
    };
    let shard = ShardInfo {
        name: chomp_table::shard::shard_name(number as usize),
        first: 2,
        last: 2 + 2 * words,
        entries: words,
        bytes: 50 + 128,
        sha256: digest,
        index_offset: 50,
        index_sha256: digest,
        words_sha256: digest,
    };
    ShardSummary {
        number,
        shard: (words > 0).then_some(shard),
        leaf: Leaf {
            words,
            digest,
            lengths: (words > 0)
                .then_some(LeafLength {
                    bits: 12,
                    words,
                    digest,
                })
                .into_iter()
                .collect(),
        },
        sums: vec![LengthSums {
            bits: 12,
            losing: 9,
            mirror_sum: u64::MAX,
        }],
    }
}

/// The segments that the coordinator appends: all ranges layer by layer, some of them lost on
/// the way and computed again, then the shards.
fn script() -> Vec<Vec<Entry>> {
    let mut script = Vec::new();
    let mut lease = 0;
    for (layer, heads) in (0..).zip(head::layers(BITS, range_bits())) {
        let mut segment = Vec::new();
        for heads in heads.chunks(3) {
            lease += 1;
            let ranges = heads.iter().map(|&head| placed(head, lease)).collect();
            segment.push(done(layer, lease, 1 + layer % 2, finders(lease), ranges));
        }
        script.push(segment);
        if layer % 5 == 3 {
            let heads = heads[..1].to_vec();
            lease += 1;
            let ranges = vec![placed(heads[0], 1000)];
            let again = done(layer, lease, 3, found_by([3, 4]), ranges);
            let gone = if layer % 2 == 0 {
                Entry::Withdrawn { heads }
            } else {
                Entry::Lost { heads }
            };
            script.extend([vec![gone], vec![again]]);
        }
        if layer % 4 == 2 {
            let heads = heads[heads.len() / 2..].to_vec();
            let finders = finders(lease + 1);
            script.push(vec![Entry::Confirmed {
                finders,
                heads,
                shards: (BITS, Vec::new()),
            }]);
        }
        if layer % 6 == 5 {
            let heads = heads[..1].to_vec();
            let lost = heads.clone();
            script.push(vec![Entry::Lost { heads: lost }]);
            if layer == 5 {
                // It was wrong, too.
                script.push(vec![Entry::Withdrawn { heads }]);
            }
        }
        if layer % 3 == 1 {
            let (bits, seconds) = (BITS - u32::from(layer < 10), u64::from(layer) * 1000);
            script.push(vec![Entry::Worked { bits, seconds }]);
        }
        if layer % 4 == 3 {
            script.push(vec![out(layer % 3)]);
        }
    }
    for number in 0..3 {
        let finders = finders(number.into());
        script.push(vec![shard(BITS - number % 2, finders, merged(number))]);
    }
    script.push(vec![Entry::Confirmed {
        finders: found_by([5]),
        heads: Vec::new(),
        shards: (BITS, vec![0, 2]),
    }]);
    script.push(vec![out(1)]);
    // Nothing that was merged counts any more, and is merged again.
    let heads = vec![Head(0)];
    script.push(vec![Entry::Withdrawn { heads }]);
    script.push(vec![shard(BITS, finders(0), merged(0))]);
    // A lost range comes out the same, so its merged words count.
    let heads = vec![Head(1)];
    script.push(vec![Entry::Lost { heads }]);
    script
}

fn done(
    layer: u32,
    lease: u64,
    replicas: u32,
    finders: Finders,
    ranges: Vec<PlacedRange>,
) -> Entry {
    Entry::Done {
        part: PartName { layer, lease },
        replicas,
        finders,
        ranges,
    }
}

/// A reader takes a checkpoint in which each range has as many finders as there can be.
#[test]
fn an_entry_has_room_for_all_finders() {
    let finders = (0..=REPLICAS_MAX).map(|participant| WorkerId::new(participant, u64::MAX));
    let finders = Finders::new(REPLICAS_MAX + 1, finders);
    let entry = done(0, 1, REPLICAS_MAX, finders, vec![placed(Head(0), 0)]);
    let ledger = Ledger::new(TABLE, range_bits());
    let length = |entries: &[&Entry]| {
        let write = |writer: &mut _| {
            for entry in entries {
                format::write(writer, entry);
            }
        };
        format::encode(format::SEGMENT, &ledger, write).0.len()
    };
    assert_eq!(length(&[&entry]) - length(&[]), format::RANGE_ENTRY);
}

fn shard(bits: u32, finders: Finders, summary: ShardSummary) -> Entry {
    Entry::Shard {
        bits,
        finders,
        summary,
    }
}

/// Nobody, one, or two.
fn finders(lease: u64) -> Finders {
    let all = [0, 1 + u32::try_from(lease % 2).unwrap()];
    found_by(all[..usize::try_from(lease % 3).unwrap()].iter().copied())
}

fn finder(participant: u32) -> WorkerId {
    WorkerId::new(participant, 7 * u64::from(participant))
}

/// A worker of each of these participants, of one more that should have.
fn found_by(participants: impl IntoIterator<Item = u32>) -> Finders {
    let finders: Vec<WorkerId> = participants.into_iter().map(finder).collect();
    let wanted = u32::try_from(finders.len()).unwrap();
    Finders::new(wanted + u32::from(wanted > 0), finders)
}

/// A participant is out, or its worker alone.
fn out(participant: u32) -> Entry {
    let party = match participant {
        2 => Party::Worker(finder(2)),
        _ => Party::Participant(ParticipantId(participant)),
    };
    Entry::Out {
        party,
        reason: "it computed range 1011 wrongly".to_owned(),
    }
}

/// A simple model of the ledger, to compare it with.
#[derive(Clone, Debug, Default, PartialEq)]
struct Plain {
    ranges: BTreeMap<Head, (u64, u32, Vec<WorkerId>, PlacedRange)>,
    lost: BTreeMap<Head, (u64, u32, Vec<WorkerId>, PlacedRange)>,
    shards: Vec<(u32, Vec<WorkerId>, ShardSummary)>,
    out: BTreeMap<Party, String>,
    /// The bits of the job, and how many thousands of seconds it took: the test takes some itself.
    worked: Option<(u32, u64)>,
}

impl Plain {
    fn of<'a>(segments: impl IntoIterator<Item = &'a Vec<Entry>>) -> Plain {
        let mut plain = Plain::default();
        for entry in segments.into_iter().flatten() {
            match entry {
                Entry::Opened { .. } => {}
                Entry::Done {
                    part,
                    replicas,
                    finders,
                    ranges,
                } => {
                    for placed in ranges {
                        let finders = finders.workers().to_vec();
                        let row = (part.lease, *replicas, finders, *placed);
                        plain.lost.remove(&placed.summary.head);
                        plain.ranges.insert(placed.summary.head, row);
                    }
                }
                Entry::Withdrawn { heads } => {
                    plain.ranges.retain(|head, _| !heads.contains(head));
                    plain.lost.retain(|head, _| !heads.contains(head));
                    plain.shards.clear();
                }
                Entry::Lost { heads } => {
                    for head in heads {
                        plain.lost.extend(plain.ranges.remove_entry(head));
                    }
                }
                Entry::Shard {
                    bits,
                    finders,
                    summary,
                } => {
                    let finders = finders.workers().to_vec();
                    plain.shards.push((*bits, finders, summary.clone()));
                }
                Entry::Confirmed {
                    finders,
                    heads,
                    shards,
                } => {
                    for head in heads {
                        if let Some((_, _, before, _)) = plain.ranges.get_mut(head) {
                            *before = finders.workers().to_vec();
                        }
                    }
                    for (bits, before, summary) in &mut plain.shards {
                        if *bits == shards.0 && shards.1.contains(&summary.number) {
                            *before = finders.workers().to_vec();
                        }
                    }
                }
                Entry::Out { party, reason } => {
                    let ranges = plain.ranges.values_mut().chain(plain.lost.values_mut());
                    let of_ranges = ranges.map(|(_, _, finders, _)| finders);
                    let of_shards = plain.shards.iter_mut().map(|(_, finders, _)| finders);
                    for finders in of_ranges.chain(of_shards) {
                        finders.retain(|one| one.participant != party.participant());
                    }
                    plain.out.insert(*party, reason.clone());
                }
                Entry::Worked { bits, seconds } => {
                    plain.worked = Some((*bits, seconds / 1000));
                }
                Entry::Pruned => {
                    plain.ranges.clear();
                    plain.lost.clear();
                    plain.shards.clear();
                }
            }
        }
        plain
            .shards
            .sort_by_key(|(bits, _, summary)| (*bits, summary.number));
        plain.shards.dedup();
        plain
    }

    /// The model after the table of the script is published.
    fn pruned() -> Plain {
        let Plain { out, worked, .. } = Plain::of(&script());
        Plain {
            out,
            worked,
            ..Plain::default()
        }
    }

    fn found(ledger: &Ledger) -> Plain {
        let of_range = |(head, row, finders): (Head, &RangeRow, &Finders)| {
            let placed = row.placed(head);
            assert_eq!(row.part().lease, row.lease);
            let finders = finders.workers().to_vec();
            (head, (row.lease, row.replicas, finders, placed))
        };
        let of_bits = |bits| {
            let shards = ledger.shards(bits);
            for (summary, _) in ledger.shards(bits) {
                assert_eq!(ledger.shard(bits, summary.number), Some(summary));
            }
            shards
                .map(move |(summary, finders)| (bits, finders.workers().to_vec(), summary.clone()))
        };
        let ranges: BTreeMap<_, _> = ledger.done(u64::MAX).map(of_range).collect();
        for (head, row, _) in ledger.done(u64::MAX) {
            assert_eq!(ledger.range(head), Some(row));
        }
        assert_eq!(ledger.done_count(), ranges.len());
        Plain {
            ranges,
            lost: ledger.lost(u64::MAX).map(of_range).collect(),
            shards: (0..=64).flat_map(of_bits).collect(),
            worked: ledger.worked.map(|(bits, seconds)| (bits, seconds / 1000)),
            out: ledger
                .out()
                .map(|(party, reason)| (party, reason.to_owned()))
                .collect(),
        }
    }
}

async fn open(storage: &Arc<SimulatedStorage>) -> Result<Journal, StoreError> {
    Journal::open(storage.clone(), range_bits(), BITS, 7, TABLE).await
}

fn looked(storage: &SimulatedStorage) -> Ledger {
    ready(read_ledger(storage)).unwrap().unwrap()
}

/// A storage with a journal that has just begun.
fn begun() -> (Arc<SimulatedStorage>, Journal) {
    let storage = Arc::new(SimulatedStorage::new(1));
    let journal = ready(open(&storage)).unwrap();
    (storage, journal)
}

/// Appends segments, each with these entries.
fn append(journal: &Journal, segments: impl IntoIterator<Item = Vec<Entry>>) {
    for entries in segments {
        ready(journal.append(entries)).unwrap();
    }
}

/// A storage with a journal of the whole script.
fn finished() -> Arc<SimulatedStorage> {
    let (storage, journal) = begun();
    append(&journal, script());
    storage
}

/// Publishes the table of this many bits, as far as a journal looks.
fn publish_manifest(storage: &SimulatedStorage, bits: u32) {
    storage.overwrite(&keys::manifest(&folder_name(bits)), "");
}

/// The object that is damaged.
fn damaged(error: &StoreError) -> Option<&Key> {
    match error {
        StoreError::Damaged { key, .. } => Some(key),
        _ => None,
    }
}

/// A new storage with these objects and without faults.
fn restored(objects: &BTreeMap<Key, Bytes>) -> Arc<SimulatedStorage> {
    let storage = SimulatedStorage::new(1);
    for (key, bytes) in objects {
        storage.overwrite(key, bytes.clone());
    }
    Arc::new(storage)
}

fn remove_checkpoints(storage: &SimulatedStorage) -> usize {
    let checkpoints = ready(storage.list(&keys::checkpoints_prefix())).unwrap();
    for (key, _) in &checkpoints {
        ready(storage.delete(std::slice::from_ref(key))).unwrap();
    }
    checkpoints.len()
}

#[test]
fn it_is_read_back_after_every_segment() {
    let (storage, journal) = begun();
    let mut follower = ready(Follower::open(storage.clone(), None)).unwrap();
    let script = script();
    let mut most_checkpoints = 0;
    for (number, entries) in script.iter().enumerate() {
        ready(journal.append(entries.clone())).unwrap();
        let ledger = journal.ledger();
        assert_eq!(Plain::found(&ledger), Plain::of(&script[..=number]));
        assert_eq!(
            (ledger.next_segment, ledger.table),
            (number as u64 + 2, TABLE)
        );
        assert_eq!(looked(&storage), *ledger);

        // However far it was read before, and from wherever.
        ready(follower.catch_up(ledger.next_segment)).unwrap();
        assert_eq!(*follower.ledger(), *ledger);
        let keys = storage.objects().into_keys();
        let checkpoints = keys.filter(|key| key.is_in(&keys::checkpoints_prefix()));
        let newest = checkpoints.last().and_then(|key| keys::number_of(&key));
        assert_eq!(journal.latest_checkpoint(), newest);
        let mut late = ready(Follower::open(storage.clone(), newest)).unwrap();
        assert_eq!(late.ledger().next_segment, newest.unwrap_or(1));
        ready(late.catch_up(ledger.next_segment)).unwrap();
        assert_eq!(*late.ledger(), *ledger);
        let begun = Follower::open(storage.clone(), Some(99));
        assert_eq!(
            ready(begun).unwrap().ledger().next_segment,
            1,
            "there is no such checkpoint"
        );

        // Checkpoints save reading, and say nothing that segments do not.
        let copy = restored(&storage.objects());
        most_checkpoints = most_checkpoints.max(remove_checkpoints(&copy));
        assert_eq!(looked(&copy), *ledger);
    }
    assert_eq!(most_checkpoints, CHECKPOINTS_KEPT);
    let numbers = storage.objects().keys().filter_map(keys::number_of).count();
    assert_eq!(numbers, script.len() + 1 + CHECKPOINTS_KEPT);
}

#[test]
fn another_start_has_a_larger_number() {
    let storage = finished();
    let first = script().len() as u64 + 1;
    for start in 0..10 {
        let journal = ready(open(&storage)).unwrap();
        assert_eq!(journal.epoch(), first + start);
        assert_eq!(Plain::found(&journal.ledger()), Plain::of(&script()));
    }
    let other = RangeBits::new(13).unwrap();
    let error = ready(Journal::open(storage.clone(), other, BITS, 7, TABLE)).unwrap_err();
    assert!(matches!(&error, StoreError::Refused(what) if what.contains("has 12 range bits")));
    // The table keeps its name.
    let journal = ready(Journal::open(storage, range_bits(), BITS, 8, 1)).unwrap();
    assert_eq!(journal.ledger().table, TABLE);
}

#[test]
fn listings_may_lag() {
    let whole = finished();
    let expected = looked(&whole);
    for lag in 0..whole.objects().len() + 2 {
        whole.set_lag(lag);
        assert_eq!(looked(&whole), expected, "{lag}");
        let journal = ready(open(&restored(&whole.objects()))).unwrap();
        assert_eq!(journal.epoch(), expected.next_segment);
    }

    // Also right after all was forgotten, and for whoever goes on with a lagging listing.
    let storage = finished();
    let journal = ready(open(&storage)).unwrap();
    publish_manifest(&storage, BITS);
    assert!(ready(journal.prune(BITS)).unwrap());
    let expected = journal.ledger().clone();
    for lag in 0..10 {
        storage.set_lag(lag);
        assert_eq!(looked(&storage), expected, "{lag}");
    }
    let journal = ready(open(&storage)).unwrap();
    append(&journal, script());
    storage.set_lag(0);
    assert_eq!(Plain::found(&looked(&storage)), Plain::of(&script()));
}

#[test]
fn pruning() {
    let storage = finished();
    for name in [
        "work/parts/0001/0000000000000001",
        "work/parts/0002/00000000000000ff",
    ] {
        storage.overwrite(&Key::new(name).unwrap(), "part");
    }
    let journal = ready(open(&storage)).unwrap();
    let ledger = journal.ledger().clone();
    // The table is not published, or is not this one.
    assert!(!ready(journal.prune(BITS)).unwrap());
    publish_manifest(&storage, BITS - 1);
    assert!(!ready(journal.prune(BITS - 1)).unwrap());
    assert_eq!(*journal.ledger(), ledger);
    publish_manifest(&storage, BITS);
    for _ in 0..2 {
        assert!(ready(journal.prune(BITS)).unwrap());
        assert_eq!(Plain::found(&journal.ledger()), Plain::pruned());
        assert_eq!(looked(&storage), *journal.ledger());
        assert_eq!(ready(storage.list(&keys::parts_prefix())).unwrap(), []);
        assert_eq!(
            ready(storage.list(&keys::checkpoints_prefix()))
                .unwrap()
                .len(),
            1
        );
    }
    // A larger table goes on from here.
    ready(journal.append(script()[3].clone())).unwrap();
    let mut expected = Plain::of(&script()[3..4]);
    (expected.out, expected.worked) = (Plain::pruned().out, Plain::pruned().worked);
    assert_eq!(Plain::found(&looked(&storage)), expected);
}

/// Range by range: the parts with a record of a merged range, and none of a range before.
#[test]
fn parts_of_merged_ranges_are_removed() {
    let finished = finished();
    let ledger = looked(&finished);
    let parts = || ledger.done(u64::MAX).map(|(_, row, _)| row.part());
    for part in parts() {
        finished.overwrite(&part.key(), "part");
    }
    let heads = ledger.range_bits.head_count(BITS);
    for (start, end) in [
        (0, heads),
        (0, 0),
        (9, heads),
        (9, heads / 2),
        (heads - 1, heads),
    ] {
        let storage = restored(&finished.objects());
        let journal = ready(open(&storage)).unwrap();
        let summary = Head(start)..Head(end);
        ready(journal.remove_merged(BITS - 1, summary.clone())).unwrap();
        assert!(
            parts().all(|part| storage.objects().contains_key(&part.key())),
            "a larger table"
        );
        for _ in 0..2 {
            ready(journal.remove_merged(BITS, summary.clone())).unwrap();
        }
        for part in parts() {
            let rows = ledger
                .done(u64::MAX)
                .filter(|(_, row, _)| row.part() == part);
            let of_part: Vec<Head> = rows.map(|(head, ..)| head).collect();
            let is_before = of_part.iter().any(|head| *head < summary.start);
            let is_merged = of_part.iter().any(|head| summary.contains(head));
            let is_there = storage.objects().contains_key(&part.key());
            assert_eq!(is_there, is_before || !is_merged, "{part:?} {summary:?}");
        }
        assert_eq!(*journal.ledger(), looked(&storage));
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_all_runs_is_noted() {
    let storage = Arc::new(SimulatedStorage::new(1));
    for (bits, seconds, expected) in [(20, 5, 5), (20, 7, 12), (20, 0, 12), (21, 3, 3)] {
        let range_bits: RangeBits = range_bits();
        let journal = Journal::open(storage.clone(), range_bits, bits, 7, TABLE).await;
        let journal = journal.unwrap();
        for part in [1, 2] {
            tokio::time::advance(Duration::from_millis(seconds * 500)).await;
            journal.append(vec![out(part)]).await.unwrap();
        }
        let noted = looked(&storage).worked;
        assert_eq!(noted, Some((bits, expected)), "after {seconds} s more");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn long_work_holds_up_no_task() {
    let mut tasks = JoinSet::new();
    tasks.spawn(async {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let mut others = JoinSet::new();
        others.spawn(async move { sender.send(()).unwrap() });
        let done = compute(|| receiver.recv_timeout(HANG));
        done.expect("the other task of the only thread");
    });
    tasks.join_all().await;
}
