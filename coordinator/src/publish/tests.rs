//! Publications that are interrupted end with the same bytes, and wrong tables are refused.

use std::collections::BTreeMap;

use bytes::Bytes;
use chomp_kernel::{Isa, evaluate_table};
use chomp_table::head::layers;
use chomp_table::{RangeBits, Word};

use super::*;
use crate::ready;
use crate::storage::{Fault, Key, Moment, SimulatedStorage};

type Forge = fn(&mut Checkpoint);
type Objects = BTreeMap<Key, Bytes>;

const BITS: u32 = 16;

/// So small that the table here has many shards, and a checkpoint after almost every range.
const STEPS: Steps = Steps {
    shard: ShardSize {
        frame_words: 10,
        shard_words: 24,
    },
    checkpoint_shards: 2,
};

fn range_bits() -> RangeBits {
    RangeBits::new(12).unwrap()
}

fn evaluated(bits: u32) -> Vec<Range> {
    evaluate_table(bits, range_bits(), Isa::Portable)
        .into_values()
        .collect()
}

fn open(storage: &Arc<SimulatedStorage>, bits: u32) -> Arc<Store> {
    let (store, _) = ready(Store::open(storage.clone(), range_bits(), bits)).unwrap();
    Arc::new(store)
}

/// Commits and seals these ranges, which are all of the job.
fn seal(store: &Store, ranges: &[Range]) {
    for (layer, heads) in (0..).zip(layers(store.bits(), store.range_bits())) {
        let of_layer = ranges.iter().filter(|range| heads.contains(&range.head));
        let records: Vec<_> = of_layer
            .map(|range| {
                let (summary, record) = range::encode(range, range_bits());
                (summary, Bytes::from(record))
            })
            .collect();
        let summaries: Vec<_> = records.iter().map(|(summary, _)| *summary).collect();
        let missing: Vec<_> = records
            .into_iter()
            .filter(|(summary, _)| !store.is_committed(summary.head))
            .collect();
        if !missing.is_empty() {
            ready(store.commit(layer, missing)).unwrap();
        }
        ready(store.seal(layer, &summaries)).unwrap();
    }
}

/// A job of which nothing is left to do but its publication.
fn sealed(bits: u32) -> Arc<SimulatedStorage> {
    let storage = Arc::new(SimulatedStorage::new(0));
    seal(&open(&storage, bits), &evaluated(bits));
    storage
}

fn restored(objects: &Objects) -> Arc<SimulatedStorage> {
    let storage = SimulatedStorage::new(1);
    for (key, bytes) in objects {
        storage.overwrite(key, bytes.clone());
    }
    Arc::new(storage)
}

fn of_folder(storage: &SimulatedStorage, folder: &str) -> Objects {
    let folder = Key::new(folder).unwrap();
    let mut objects = storage.objects();
    objects.retain(|key, _| key.is_in(&folder));
    objects
}

fn table(storage: &SimulatedStorage) -> Objects {
    of_folder(storage, "table-16")
}

fn checkpoints(storage: &SimulatedStorage) -> Objects {
    of_folder(storage, "work/publications")
}

/// The objects of the table that an undisturbed publication makes.
fn right() -> Objects {
    let storage = sealed(BITS);
    ready(publish(&open(&storage, BITS), STEPS)).unwrap();
    assert!(checkpoints(&storage).is_empty());
    table(&storage)
}

/// The job with all shards and all checkpoints that its publication ever had.
fn interrupted() -> (Arc<SimulatedStorage>, Vec<Key>) {
    let storage = sealed(BITS);
    let objects = storage.objects();
    let mut all = Objects::new();
    for call in 0.. {
        let storage = restored(&objects);
        let store = open(&storage, BITS);
        storage.crash_at(storage.calls() + call);
        let end = ready(publish(&store, STEPS));
        let left = storage.crash();
        all.extend(checkpoints(&left));
        if end.is_ok() {
            break;
        }
    }
    let keys: Vec<Key> = all.keys().cloned().collect();
    assert!(keys.len() >= 4, "{keys:?}");
    for (key, bytes) in right().into_iter().chain(all) {
        if !key.as_str().ends_with("manifest.json") {
            storage.overwrite(&key, bytes);
        }
    }
    (storage, keys)
}

/// Publishes and checks the table; returns the range and the number of shards it started after.
fn go_on(storage: &Arc<SimulatedStorage>, right: &Objects) -> (u64, usize) {
    let from = {
        let storage = restored(&storage.objects());
        let (merge, shards) = ready(begin(&open(&storage, BITS), STEPS)).unwrap();
        (merge.next().0, shards.len())
    };
    let store = open(storage, BITS);
    ready(publish(&store, STEPS)).unwrap();
    assert_eq!(table(storage), *right);
    assert!(checkpoints(storage).is_empty());
    assert_eq!(store.merged(), 16);
    from
}

/// Keeps these checkpoints alone.
fn with(storage: &SimulatedStorage, keep: &[Key]) -> Arc<SimulatedStorage> {
    let mut objects = storage.objects();
    let folder = Key::new("work/publications").unwrap();
    objects.retain(|key, _| !key.is_in(&folder) || keep.contains(key));
    restored(&objects)
}

#[test]
fn a_publication_goes_on_from_each_checkpoint() {
    let right = right();
    let (storage, keys) = interrupted();
    let mut last = 0;
    for (number, key) in keys.iter().enumerate() {
        // Older ones do no harm, and newer ones are chosen.
        for keep in [std::slice::from_ref(key), &keys[..=number]] {
            let storage = with(&storage, keep);
            let checkpoint = ready(open(&storage, BITS).checkpoints()).unwrap().remove(0);
            let (head, shards) = go_on(&storage, &right);
            assert_eq!((head, shards), (checkpoint.head, checkpoint.shards.len()));
            assert!(head >= last && shards >= 2, "{head} {shards}");
            last = head;
        }
    }
    assert!(last > 8);
}

/// What is not read again cannot be missed: the parts before the checkpoint.
#[test]
fn ranges_before_a_checkpoint_are_not_merged_again() {
    let (storage, keys) = interrupted();
    let last = keys.last().unwrap().clone();
    let storage = with(&storage, &[last]);
    let before = {
        let storage = restored(&storage.objects());
        let store = open(&storage, BITS);
        let calls = storage.calls();
        ready(begin(&store, STEPS)).unwrap();
        storage.calls() - calls
    };
    let store = open(&storage, BITS);
    let head = ready(store.checkpoints()).unwrap()[0].head;
    storage.set_fault(Some(Fault {
        call: storage.calls() + before,
        sticky: true,
        moment: Moment::Before,
    }));
    let error = ready(publish(&store, STEPS)).unwrap_err();
    assert!(matches!(error, PublishError::Store(StoreError::Storage(_))));
    assert_eq!(store.merged(), head, "progress starts where it goes on");
}

#[test]
fn shards_that_are_missing_or_changed_are_made_again() {
    let right = right();
    let (storage, keys) = interrupted();
    let shards: Vec<usize> = {
        let all = ready(open(&storage, BITS).checkpoints()).unwrap();
        all.iter().rev().map(|it| it.shards.len()).collect()
    };
    assert!(right.len() > 12, "{}", right.len());
    for bad in 0..right.len() - 2 {
        let key = Key::new(&format!("table-16/shard-{bad:04}.zst")).unwrap();
        let length = right[&key].len();
        for damage in 0..4 {
            let storage = with(&storage, &keys);
            match damage {
                0 => ready(crate::storage::Storage::delete(&*storage, &key)).unwrap(),
                1 => assert!(storage.flip_bit(&key, length / 2, 3)),
                2 => assert!(storage.truncate(&key, length - 1)),
                _ => storage.overwrite(&key, [&right[&key][..], b"\0"].concat()),
            }
            let usable = shards.iter().copied().filter(|&shards| shards <= bad).max();
            let (head, shards) = go_on(&storage, &right);
            assert_eq!(shards, usable.unwrap_or(0), "{bad} {damage}");
            assert!(head == 0 || shards > 0);
        }
    }
}

#[test]
fn a_checkpoint_of_another_content_or_size_is_removed() {
    let right = right();
    let (storage, keys) = interrupted();
    let last = keys.last().unwrap().clone();
    let storage = with(&storage, &[last]);
    let checkpoint = ready(open(&storage, BITS).checkpoints()).unwrap().remove(0);
    let mut other_content = checkpoint.clone();
    other_content.content.0[7] ^= 1;
    let mut other_frames = checkpoint.clone();
    other_frames.frame_words += 1;
    for other in [other_content, other_frames] {
        let storage = restored(&storage.objects());
        ready(open(&storage, BITS).keep_checkpoint(&other)).unwrap();
        {
            let storage = restored(&storage.objects());
            ready(begin(&open(&storage, BITS), STEPS)).unwrap();
            assert!(checkpoints(&storage).is_empty());
        }
        assert_eq!(go_on(&storage, &right), (0, 0));
    }
    // Nor is one used while it is not known what the content is.
    let mut objects = storage.objects();
    objects.retain(|key, _| !key.as_str().starts_with("work/seals/16/001"));
    let store = open(&restored(&objects), BITS);
    assert_eq!(ready(begin(&store, STEPS)).unwrap().0.next(), Head(0));
    // The same content with other bytes, such as those of another owner.
    ready(open(&storage, BITS).keep_checkpoint(&checkpoint)).unwrap();
    assert!(go_on(&storage, &right).0 > 0);
}

#[test]
fn damaged_checkpoints_are_named() {
    let (storage, keys) = interrupted();
    let key = keys.last().unwrap().clone();
    let storage = with(&storage, std::slice::from_ref(&key));
    let objects = storage.objects();
    for at in (0..objects[&key].len()).step_by(7) {
        let storage = restored(&objects);
        let store = open(&storage, BITS);
        assert!(storage.flip_bit(&key, at, 3));
        let error = ready(publish(&store, STEPS)).unwrap_err();
        let PublishError::Store(StoreError::Damaged { key: named, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(named, key);
        let again = ready(Store::open(storage.clone(), range_bits(), BITS));
        assert!(matches!(again, Err(StoreError::Damaged { key: named, .. }) if named == key));
    }
}

#[test]
fn forged_checkpoints_are_refused_for_what_they_say() {
    let (storage, keys) = interrupted();
    let key = keys.last().unwrap().clone();
    let storage = with(&storage, std::slice::from_ref(&key));
    let sound = ready(open(&storage, BITS).checkpoints()).unwrap().remove(0);
    let forgeries: [(&str, Forge); 16] = [
        ("bits", |it| it.bits = 15),
        ("shards", |it| it.range_bits = 11),
        ("shards", |it| it.range_bits = 13),
        ("size", |it| it.frame_words = 0),
        ("size", |it| it.shard_words = (1 << 22) + 1),
        ("does not follow", |it| it.shard_words = 23),
        ("does not follow", |it| it.shards[1].name.push('x')),
        ("does not follow", |it| it.shards[1].entries -= 1),
        ("does not follow", |it| {
            it.shards[1].first = it.shards[0].last;
        }),
        ("does not follow", |it| it.shards[1].last = 0),
        ("go on", |it| it.head += 1),
        ("go on", |it| it.fingerprint.least += 1 << 14),
        ("counts", |it| it.counts.push(0)),
        ("counts", |it| it.unpaired.truncate(3)),
        ("counts", |it| it.fingerprint.bits = 17),
        ("fingerprint", |it| it.fingerprint.hasher.truncate(3)),
    ];
    for (number, (what, forge)) in forgeries.into_iter().enumerate() {
        let storage = restored(&storage.objects());
        let mut forged = sound.clone();
        forge(&mut forged);
        ready(open(&storage, BITS).keep_checkpoint(&forged)).unwrap();
        let opened = ready(Store::open(storage, range_bits(), BITS));
        let Err(StoreError::Damaged {
            key: named,
            what: told,
        }) = opened
        else {
            panic!("{number}: {opened:?}");
        };
        assert_eq!(named, key);
        assert!(told.contains(what), "{number}: {told}");
    }
}

#[test]
fn a_table_is_extended_after_an_interrupted_publication() {
    let right = right();
    let storage = sealed(14);
    let small = open(&storage, 14);
    storage.crash_at(storage.calls() + 14);
    ready(publish(&small, STEPS)).unwrap_err();
    let storage = Arc::new(storage.crash());
    assert_eq!(checkpoints(&storage).len(), 1);
    let store = open(&storage, BITS);
    seal(&store, &evaluated(BITS));
    let (merge, _) = ready(begin(&store, STEPS)).unwrap();
    assert_eq!(merge.next(), Head(0), "a checkpoint of a smaller table");
    ready(publish(&store, STEPS)).unwrap();
    assert_eq!(table(&storage), right);
    // The smaller one may still be published, or all of it goes with the working files.
    {
        let storage = restored(&storage.objects());
        let store = open(&storage, 14);
        assert!(!ready(begin(&store, STEPS)).unwrap().1.is_empty());
        ready(publish(&store, STEPS)).unwrap();
        assert!(checkpoints(&storage).is_empty());
    }
    assert!(ready(store.prune()).unwrap());
    assert!(checkpoints(&storage).is_empty());
}

/// Ranges in which a word that is larger than its mirror image gives way to another such word: all
/// counts are right.
#[test]
fn a_word_exchanged_for_another_is_refused() {
    let larger = |word: Word| word > word.mirror();
    let mut refused = 0;
    for wrong in [0, 1, 5, 8, 11, 15] {
        let mut ranges = evaluated(BITS);
        let range = &mut ranges[wrong];
        let word = |index: u32| range.head.word(index.into(), range_bits());
        let Some(gone) = range.losing.iter().rposition(|&index| larger(word(index))) else {
            continue;
        };
        let bits = word(range.losing[gone]).bits();
        let other = (1..2048).find(|index| {
            let other = word(*index);
            larger(other) && other.bits() == bits && !range.losing.contains(index)
        });
        range.losing[gone] = other.unwrap();
        range.losing.sort_unstable();
        let storage = Arc::new(SimulatedStorage::new(0));
        let store = open(&storage, BITS);
        seal(&store, &ranges);
        let error = ready(publish(&store, STEPS)).unwrap_err();
        let PublishError::Asymmetric {
            bits: named,
            counted,
            expected,
        } = error
        else {
            panic!("{error:?}");
        };
        assert_eq!((named, counted), (bits, expected));
        let manifest = Key::new("table-16/manifest.json").unwrap();
        assert!(!storage.objects().contains_key(&manifest));
        refused += 1;
    }
    assert!(refused >= 4, "{refused}");
}

#[test]
fn a_word_too_few_is_refused() {
    for wrong in [1, 6, 15] {
        let mut ranges = evaluated(BITS);
        ranges[wrong].losing.pop();
        let storage = Arc::new(SimulatedStorage::new(0));
        let store = open(&storage, BITS);
        seal(&store, &ranges);
        let error = ready(publish(&store, STEPS)).unwrap_err();
        assert!(matches!(error, PublishError::Asymmetric { .. }), "{error}");
    }
}

#[test]
fn other_threads_make_no_difference() {
    let right = right();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for _ in 0..20 {
        let storage = sealed(BITS);
        runtime
            .block_on(publish(&open(&storage, BITS), STEPS))
            .unwrap();
        assert_eq!(table(&storage), right);
        assert!(checkpoints(&storage).is_empty());
    }
    // What goes wrong on another thread is told here.
    let storage = sealed(BITS);
    let store = open(&storage, BITS);
    for part in of_folder(&storage, "work/parts/0003").into_keys() {
        assert!(storage.flip_bit(&part, 400, 1));
    }
    let error = runtime.block_on(publish(&store, STEPS)).unwrap_err();
    assert!(
        matches!(error, PublishError::Store(StoreError::Damaged { .. })),
        "{error:?}"
    );
}
