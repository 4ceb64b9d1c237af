//! Tables of Grundy values, by the arbiter alone.

use std::collections::BTreeSet;

use chomp_kernel::grundy::{Evaluation, Lower};
use chomp_plan::{SubmissionId, Unit};
use chomp_store::MergedValues;
use chomp_table::partition::count;
use chomp_table::{Division, Head, RankBits};

use super::*;
use crate::arbiter::{Arbitrated, digest_of};

/// So many that the largest areas have several ranges of the smallest size.
const TILES: u32 = 20;

fn division() -> Division {
    Division::Ranks(RankBits::new(8).unwrap())
}

/// The journal of a job whose ranges and shards the coordinator has all computed itself.
fn arbitrated(storage: &Arc<SimulatedStorage>, tiles: u32) -> Arc<Journal> {
    let journal = Journal::open(storage.clone(), division(), tiles, 1, 2);
    let journal = Arc::new(ready(journal).unwrap());
    let arbiter = Arbiter::new(storage.clone(), Arc::clone(&journal), tiles, SIZE);
    let mut submissions = (0..).map(SubmissionId);
    let mut decide = |unit| ready(arbiter.decide(submissions.next().unwrap(), unit));
    for head in (0..division().ranges(tiles)).map(Head) {
        let Arbitrated::Range { part, placed } = decide(Unit::Range(head)).unwrap() else {
            panic!("a range")
        };
        let done = Entry::Done {
            part,
            replicas: 1,
            finders: Finders::default(),
            ranges: vec![placed],
        };
        ready(journal.append(vec![done])).unwrap();
    }
    for shard in 0..tiles {
        let Arbitrated::Shard(merged) = decide(Unit::Shard(shard)).unwrap() else {
            panic!("a shard")
        };
        let shard = Entry::Shard {
            bits: tiles,
            finders: Finders::default(),
            merged: *merged,
        };
        ready(journal.append(vec![shard])).unwrap();
    }
    assert!(decide(Unit::Shard(tiles)).is_err(), "an area has one shard");
    journal
}

fn publish_values(
    storage: &Arc<SimulatedStorage>,
    journal: &Journal,
    tiles: u32,
) -> Result<ValuesManifest, PublishError> {
    match ready(publish(&**storage, journal, tiles))? {
        AnyManifest::Values(manifest) => Ok(manifest),
        AnyManifest::Losing(_) => panic!("a table of words"),
    }
}

#[test]
fn what_is_published_are_the_values_of_all_positions() {
    let storage = new();
    let journal = arbitrated(&storage, TILES);
    let manifest = publish_values(&storage, &journal, TILES).unwrap();
    let mut areas: Vec<Vec<u8>> = Vec::new();
    for (area, info) in (1..).zip(&manifest.areas) {
        let mut lower = Lower::new(16);
        for (area, values) in (1..).zip(&areas) {
            lower.put(area, vec![values]);
        }
        let mut evaluation = Evaluation::new(area, 0..count(area));
        evaluation.apply(&lower);
        let values = evaluation.finish();
        let counts = info.positions_by_value();
        for (value, &counted) in (0..).zip(&counts) {
            let found: u64 = values.iter().map(|&found| u64::from(found == value)).sum();
            assert_eq!(found, counted, "{area} tiles, value {value}");
        }
        assert_eq!(counts.iter().sum::<u64>(), count(area));
        areas.push(values);
    }
    // A record that is lost is named.
    let place = *journal.ledger().place(Head(3)).unwrap();
    assert!(storage.truncate(&place.part().key(), 20));
    let arbiter = Arbiter::new(storage, journal, TILES, SIZE);
    let error = ready(arbiter.decide(SubmissionId(1 << 20), Unit::Range(Head(9))));
    assert_eq!(error.unwrap_err().lost(), Some((Head(3), place.digest)));
}

/// Changes what the journal says of the counts of eight tiles.
fn with_other_counts(journal: &Journal, change: fn(&mut Vec<u64>)) {
    let merged = journal.ledger().shard(TILES, 7).unwrap().clone();
    let MergedShard::Values(mut merged) = merged else {
        panic!("a shard of words")
    };
    change(&mut merged.shard.positions_by_value);
    let shard = Entry::Shard {
        bits: TILES,
        finders: Finders::default(),
        merged: merged.into(),
    };
    ready(journal.append(vec![shard])).unwrap();
}

#[test]
fn values_that_cannot_be_or_are_known_to_be_others_are_not_published() {
    let storage = new();
    let journal = arbitrated(&storage, TILES);
    with_other_counts(&journal, |counts| {
        counts[0] += 2;
        counts[1] -= 2;
    });
    let error = publish_values(&storage, &journal, TILES).unwrap_err();
    let refused = matches!(
        error,
        PublishError::CountDiffersFromKnown {
            area: 8,
            found: 4,
            known: 2
        }
    );
    assert!(refused, "{error:?}");
    with_other_counts(&journal, |counts| counts[1] += 1);
    let error = publish_values(&storage, &journal, TILES).unwrap_err();
    assert!(matches!(error, PublishError::Shards(_)), "{error:?}");
    let folder = division().folder_name(TILES);
    let manifest = published::manifest(&*storage, &folder);
    assert_eq!(ready(manifest).unwrap(), None);
}

#[test]
fn values_that_contradict_a_smaller_table_are_not_published() {
    let other = new();
    let smaller = arbitrated(&other, 6);
    let manifest = publish_values(&other, &smaller, 6).unwrap();
    let storage = new();
    let key = published::key("values-006", MANIFEST_NAME).unwrap();
    let journal = arbitrated(&storage, 9);
    storage.overwrite(&key, manifest.to_bytes());
    publish_values(&storage, &journal, 9).unwrap();
    let is_named = |folder: &str| folder == "values-006";
    storage.overwrite(&key, &b"{}"[..]);
    let error = publish_values(&storage, &journal, 9).unwrap_err();
    let named = matches!(&error, PublishError::Manifest { folder, .. } if is_named(folder));
    assert!(named, "{error:?}");
    // Another table, which is one all the same.
    let mut infos: Vec<_> = manifest.shards().cloned().collect();
    infos[5].values_sha256 = Digest::of(b"other");
    let wrong = ValuesManifest::new(6, manifest.size(), 1, "chomp".to_owned(), infos).unwrap();
    storage.overwrite(&key, wrong.to_bytes());
    let error = publish_values(&storage, &journal, 9).unwrap_err();
    let named = matches!(&error, PublishError::OtherValues { folder } if is_named(folder));
    assert!(named, "{error:?}");
}

/// By this digest the plan finds out whether two workers say the same of a shard, and whether the arbiter does.
#[test]
fn whatever_is_changed_of_a_shard_of_values_changes_its_digest() {
    let journal = arbitrated(&new(), 3);
    let shards: Vec<MergedShard> = journal.ledger().shards(3).cloned().collect();
    let changes: [fn(&mut MergedValues); 5] = [
        |merged| merged.number += 1,
        |merged| merged.shard.stored += 1,
        |merged| merged.shard.sha256 = Digest::of(b"another"),
        |merged| merged.shard.values_sha256 = Digest::of(b"another"),
        |merged| merged.shard.positions_by_value[0] += 1,
    ];
    let mut digests = BTreeSet::new();
    for shard in &shards {
        assert!(digests.insert(digest_of(shard).0));
        for change in changes {
            let MergedShard::Values(mut merged) = shard.clone() else {
                panic!("a shard of words")
            };
            change(&mut merged);
            digests.insert(digest_of(&merged.into()).0);
        }
    }
    assert_eq!(digests.len(), shards.len() * (1 + changes.len()));
}
