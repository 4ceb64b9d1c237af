//! Right tables are published, wrong ones are refused, and a publication tells that it failed.

use std::sync::Arc;
use std::task::{Context, Waker};

use chomp_plan::{Plan, PublishOutcome, Settings, WorkerId};
use chomp_store::objects::{Fault, Moment, Operation, SimulatedStorage, StorageError};
use chomp_store::{Entry, FaultKind, Finders, Key, RangeRow};
use chomp_table::fingerprint::FingerprintBuilder;
use chomp_table::manifest::folder_name;
use chomp_table::shard::ShardSize;
use chomp_table::{Head, Word};
use chomp_testing::definition;
use chomp_worker::WorkerError;

use super::*;
use crate::effects::publish_table;
use crate::job::{Job, JobOutcome};
use crate::ready;
use crate::testing::{journal_of_ranges, merge, nobody, range_bits};
use crate::tools::Tools;

const BITS: u32 = 16;
/// So small that the table here has several shards.
const SIZE: ShardSize = ShardSize {
    frame_words: 10,
    shard_words: 24,
};

/// A table of which everything is merged.
struct Tested {
    storage: Arc<SimulatedStorage>,
    journal: Arc<Journal>,
    shards: Vec<ShardSummary>,
}

/// A job of `bits` bits, up to the publication, on this storage.
fn merged(
    storage: &Arc<SimulatedStorage>,
    bits: u32,
    change: impl Fn(&mut ShardSummary),
) -> Tested {
    let journal = journal_of_ranges(storage, bits, |_| ());
    let stored: u64 = journal
        .ledger()
        .done(u64::MAX)
        .map(|(_, row, _)| row.stored)
        .sum();
    let count = stored.div_ceil(SIZE.shard_words as u64);
    let tools = Tools::new(storage.clone(), &journal, bits, SIZE);
    let mut shards = Vec::new();
    for number in 0..u32::try_from(count).unwrap() {
        let mut merged = merge(&tools, number);
        change(&mut merged);
        append_shard(&journal, bits, &merged);
        shards.push(merged);
    }
    Tested {
        storage: storage.clone(),
        journal,
        shards,
    }
}

fn append_shard(journal: &Journal, bits: u32, merged: &ShardSummary) {
    let entry = Entry::Shard {
        finders: Finders::default(),
        bits,
        summary: merged.clone(),
    };
    ready(journal.append(vec![entry])).unwrap();
}

fn new() -> Arc<SimulatedStorage> {
    Arc::new(SimulatedStorage::new(0))
}

impl Tested {
    fn publish(&self, bits: u32) -> Result<Manifest, PublishError> {
        ready(publish(&*self.storage, &self.journal, bits))
    }

    fn has_manifest(&self) -> bool {
        ready(published::manifest(&*self.storage, &folder_name(BITS)))
            .unwrap()
            .is_some()
    }
}

/// The schedules show that the next start does a failed publication again.
#[test]
fn a_publication_fails_if_any_call_does() {
    let right = merged(&new(), BITS, |_| ());
    let before = right.storage.calls();
    right.publish(BITS).unwrap();
    let after = right.storage.calls();
    assert!(after > before + 15, "{before} {after}");
    for call in before..after {
        for moment in [Moment::Before, Moment::After] {
            let tested = merged(&new(), BITS, |_| ());
            tested.storage.set_fault(Some(Fault {
                call,
                sticky: false,
                moment,
            }));
            tested.publish(BITS).expect_err("the fault is in it");
        }
    }
}

/// Why a table is not published whose third shard is changed, and the bits of the first words in that shard.
fn refusal(change: fn(&mut ShardSummary)) -> (PublishError, u32) {
    let tested = merged(&new(), BITS, |merged| {
        if merged.number == 2 {
            change(merged);
        }
    });
    let error = tested.publish(BITS).unwrap_err();
    assert!(!tested.has_manifest());
    (error, tested.shards[2].sums[0].bits)
}

#[test]
fn words_that_are_no_mirror_pairs_are_refused() {
    let changes: [fn(&mut ShardSummary); 3] = [
        |merged| merged.sums[0].losing += 1,
        |merged| merged.sums[0].losing -= 1,
        |merged| merged.sums[0].mirror_sum ^= 1 << 40,
    ];
    for change in changes {
        let (error, expected) = refusal(change);
        let told = matches!(error, PublishError::Asymmetric { bits, .. } if bits == expected);
        assert!(told, "{error:?}");
    }
}

#[test]
fn shards_that_make_no_table_are_refused() {
    let changes: [fn(&mut ShardSummary); 6] = [
        |merged| merged.sums[0].bits = 64,
        |merged| merged.leaf.words += 1,
        |merged| merged.leaf.lengths.clear(),
        |merged| merged.shard.as_mut().unwrap().first = 2,
        |merged| merged.shard.as_mut().unwrap().entries += 1,
        |merged| merged.shard.as_mut().unwrap().words_sha256.0[0] ^= 1,
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let (error, _) = refusal(change);
        let refused = matches!(
            error,
            PublishError::Shards(_) | PublishError::Asymmetric { .. }
        );
        assert!(refused, "{index}: {error:?}");
    }
    // A shard is missing in the journal.
    let tested = merged(&new(), BITS, |_| ());
    let withdraw = Entry::Withdrawn { heads: Vec::new() };
    ready(tested.journal.append(vec![withdraw])).unwrap();
    for merged in tested.shards.iter().filter(|merged| merged.number != 1) {
        append_shard(&tested.journal, BITS, merged);
    }
    assert!(matches!(tested.publish(BITS), Err(PublishError::Shards(_))));
}

/// A participant that is revoked after the publication, or a newer program, changes the manifest and not the table.
#[test]
fn a_table_that_is_published_stays_as_it_is() {
    let tested = merged(&new(), BITS, |_| ());
    assert!(tested.shards.len() > 3, "{}", tested.shards.len());
    let first = tested.publish(BITS).unwrap();
    let fewest = "the fewest workers that agreed on any range";
    assert_eq!(first.replicas, 2, "{fewest}");
    assert_eq!(tested.publish(BITS).unwrap(), first);
    let other = Manifest {
        replicas: 7,
        ..first
    };
    let write = |manifest: &Manifest| {
        let bytes = manifest.to_bytes();
        let sums = sha256sums(&bytes, manifest);
        for (name, bytes) in [(MANIFEST_NAME, bytes), (SHA256SUMS_NAME, sums.into())] {
            let key = published::key(&folder_name(BITS), name).unwrap();
            tested.storage.overwrite(&key, bytes);
        }
    };
    write(&other);
    assert_eq!(tested.publish(BITS).unwrap(), other);
    let key = published::key(&folder_name(BITS), MANIFEST_NAME).unwrap();
    assert_eq!(tested.storage.objects()[&key], other.to_bytes());
    // Another table in its place is no such thing.
    tested.storage.overwrite(&key, &b"{}"[..]);
    let refused = tested.publish(BITS).unwrap_err();
    assert!(matches!(
        refused,
        PublishError::Store(StoreError::Damaged { .. })
    ));
}

#[test]
fn who_does_not_have_the_journal_does_not_publish() {
    let tested = merged(&new(), BITS, |_| ());
    let other = Journal::open(tested.storage.clone(), range_bits(), BITS, 3, 4);
    ready(other).unwrap();
    let error = tested.publish(BITS).unwrap_err();
    assert!(
        matches!(error, PublishError::Store(StoreError::Fenced { .. })),
        "{error:?}"
    );
    assert!(!tested.has_manifest());
}

#[test]
fn a_table_agrees_with_a_smaller_one_beside_it() {
    let storage = new();
    merged(&storage, 14, |_| ()).publish(14).unwrap();
    let tested = merged(&storage, BITS, |_| ());
    let manifest = tested.publish(BITS).unwrap();
    let key = published::key(&folder_name(14), MANIFEST_NAME).unwrap();
    let smaller = Manifest::parse(&storage.objects()[&key]).unwrap();
    assert_eq!(
        manifest.fingerprints_by_bits[..=14],
        smaller.fingerprints_by_bits
    );

    // A smaller table that says something else.
    let contradicts = |other: &Manifest, bits| {
        storage.overwrite(&key, other.to_bytes());
        let error = tested.publish(BITS).unwrap_err();
        let told = matches!(error, PublishError::Contradiction { smaller: 14, bits: told } if told == bits);
        assert!(told, "{error:?}");
    };
    let mut other = smaller.clone();
    other.fingerprints_by_bits[9].0[0] ^= 1;
    contradicts(&other, 9);
    let mut other = smaller;
    other.losing_by_bits[8] -= 1;
    contradicts(&other, 8);
    storage.overwrite(&key, "{}");
    let error = tested.publish(BITS).unwrap_err();
    assert!(
        matches!(&error, PublishError::Manifest { folder, .. } if folder == "table-14"),
        "{error:?}"
    );
}

/// The words of 20 bits are known. One mirror pair less adds up as well, and is no such table.
#[test]
fn a_table_that_is_known_to_be_another_is_not_published() {
    const BITS: u32 = 20;
    let losing = definition::losing(BITS);
    let words = (0..losing.len() as u64).map(|index| Word::new(2 * index));
    let words =
        words.filter(|&word| losing[definition::index_of(word)] && word == word.representative());
    let words: Vec<u64> = words.map(Word::get).collect();
    let pair = words.iter().position(|&word| {
        let word = Word::new(word);
        word != word.mirror() && word.bits() == BITS
    });
    let mut less = words.clone();
    less.remove(pair.unwrap());
    for (words, is_known) in [(words, true), (less, false)] {
        let mut builder = FingerprintBuilder::new(BITS);
        builder.push(&words);
        let found = known::compare_losing(&builder.finish().by_bits);
        assert_eq!(found.is_ok(), is_known, "{found:?}");
        if let Err(error) = found {
            assert_eq!(error.size, BITS);
        }
    }
    // A publication asks for that: the same words in small shards have another fingerprint.
    let error = merged(&new(), BITS, |_| ()).publish(BITS).unwrap_err();
    assert!(
        matches!(&error, PublishError::OtherFingerprint(other) if other.size == BITS),
        "{error:?}"
    );
}

/// How a publication ended.
fn publication(tools: &Tools) -> PublishOutcome {
    let (published, _) = ready(publish_table(tools));
    published.map_or_else(|failed| failed, |_| PublishOutcome::Done)
}

/// Each file is compared with what was said of it, byte by byte, before it is published.
#[test]
fn a_shard_that_changed_is_not_published() {
    let tested = merged(&new(), BITS, |_| ());
    let tools = Tools::new(tested.storage.clone(), &tested.journal, BITS, SIZE);
    let lost = || -> Vec<u32> {
        match publication(&tools) {
            PublishOutcome::MergeAgain { shards } => shards,
            PublishOutcome::Done => Vec::new(),
            other => panic!("{other:?}"),
        }
    };
    assert!(lost().is_empty());
    let name = &tested.shards[1].shard.as_ref().unwrap().name;
    let key = published::key(&folder_name(BITS), name).unwrap();
    let bytes = tested.storage.objects()[&key].to_vec();
    for change in [
        |bytes: &mut Vec<u8>| bytes[9] ^= 1,
        |bytes: &mut Vec<u8>| bytes.push(0),
        |bytes: &mut Vec<u8>| bytes.truncate(9),
    ] {
        let mut changed = bytes.clone();
        change(&mut changed);
        tested.storage.overwrite(&key, changed);
        assert_eq!(lost(), [1]);
    }
    tested.storage.overwrite(&key, bytes);
    assert!(lost().is_empty());
}

/// A shard of one participant alone is merged again if it may be the reason, and only then.
#[test]
fn what_one_has_found_may_be_why_a_table_is_not_published() {
    let told = |storage: &Arc<SimulatedStorage>, change: fn(&mut ShardSummary), finders: &[u32]| {
        let tested = merged(storage, BITS, |_| ());
        let mut merged = tested.shards[1].clone();
        change(&mut merged);
        let entry = Entry::Shard {
            finders: Finders::new(1, finders.iter().map(|&of| WorkerId::new(of, 7))),
            bits: BITS,
            summary: merged,
        };
        ready(tested.journal.append(vec![entry])).unwrap();
        let tools = Tools::new(storage.clone(), &tested.journal, BITS, SIZE);
        match publication(&tools) {
            PublishOutcome::MergeAgain { shards } => shards,
            PublishOutcome::Failed { .. } => Vec::new(),
            other => panic!("{other:?}"),
        }
    };
    let change: fn(&mut ShardSummary) = |merged| merged.sums[0].mirror_sum ^= 1;
    assert_eq!(told(&new(), change, &[1]), [1]);
    for finders in [&[][..], &[1, 2]] {
        assert!(told(&new(), change, finders).is_empty());
    }
    // A smaller table says something else, and then nothing at all.
    let storage = new();
    merged(&storage, 14, |_| ()).publish(14).unwrap();
    let key = published::key(&folder_name(14), MANIFEST_NAME).unwrap();
    let mut smaller = Manifest::parse(&storage.objects()[&key]).unwrap();
    smaller.losing_by_bits[8] -= 1;
    storage.overwrite(&key, smaller.to_bytes());
    assert_eq!(told(&storage, |_| (), &[1]), [1]);
    storage.overwrite(&key, "{}");
    assert!(told(&storage, |_| (), &[1]).is_empty());
}

/// If a table contradicts itself when parts are gone, their ranges are evaluated again.
#[test]
fn a_contradiction_needs_records_that_are_gone() {
    let tested = merged(&new(), BITS, |merged| merged.sums[0].mirror_sum ^= 1);
    let done: Vec<_> = {
        let ledger = tested.journal.ledger();
        let done = ledger.done(u64::MAX).map(|(head, row, _)| (head, *row));
        done.collect()
    };
    let merged = done[done.len() / 2].0..Head(u64::MAX);
    ready(tested.journal.remove_merged(BITS, merged)).unwrap();
    let is_there = |row: &RangeRow| tested.storage.objects().contains_key(&row.part().key());
    let gone = done.iter().filter(|(_, row)| !is_there(row));
    let mut gone: Vec<_> = gone.map(|(head, row)| (*head, row.digest)).collect();
    assert!(gone.len() > 1);
    // The search finds the first of them itself.
    gone.push(gone[0]);
    let tools = Tools::new(tested.storage.clone(), &tested.journal, BITS, SIZE);
    let told = publication(&tools);
    assert_eq!(told, PublishOutcome::RecordsLost { records: gone });
}

#[test]
fn a_shard_that_is_being_put_is_waited_for() {
    let tested = merged(&new(), BITS, |_| ());
    let tools = Tools::new(tested.storage.clone(), &tested.journal, BITS, SIZE);
    let put = ready(tools.shard_puts.read());
    let mut publishing = Box::pin(publish_table(&tools));
    let mut context = Context::from_waker(Waker::noop());
    assert!(publishing.as_mut().poll(&mut context).is_pending());
    drop(put);
    assert!(ready(publishing).0.is_ok());
}

/// The journal's last segment may fail when the table is published, and so may the referee: the job has done what it was
/// to do.
#[test]
fn failures_after_the_publication_change_nothing() {
    let tested = merged(&new(), BITS, |_| ());
    let published = tested.publish(BITS).unwrap();
    let settings = Settings::new(BITS, range_bits());
    let losing = published.losing_by_bits[BITS as usize];
    let plan = Plan::of_published(settings, losing).unwrap();
    let tools = Tools::new(tested.storage.clone(), &tested.journal, BITS, SIZE);
    let (mut job, ..) = Job::new((plan, Vec::new()), tools, 1, nobody(), Some(published));
    let fault = || {
        let key = Key::new("work/parts/0000/0").unwrap();
        let kind = FaultKind::Passing;
        StoreError::Storage(StorageError::new(kind, Operation::Read, &key, "gone"))
    };
    job.on_referee_ended(Err(WorkerError::Rng));
    job.on_appended(Vec::new(), Err(fault()));
    let outcome = job.outcome();
    assert!(matches!(outcome, JobOutcome::Finished(_)), "{outcome:?}");
}
