//! The right tables: evaluated once, and checked against the definition of W.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use chomp_kernel::{Isa, evaluate_table};
use chomp_table::definition;
use chomp_table::head::layers;
use chomp_table::manifest::{MANIFEST_NAME, Manifest, SHA256SUMS_NAME, folder_name};
use chomp_table::range::{self, RangeSummary};
use chomp_table::shard::{ShardSize, decode_shard};
use chomp_table::{Digest, Head, Range, RangeBits, Word};

use crate::publish::{Steps, publish};
use crate::ready;
use crate::storage::{Key, SimulatedStorage};
use crate::store::Store;

/// The bits of the smallest table here.
pub(super) const BITS_MIN: u32 = 13;
/// The bits of the largest table here: 16 ranges in 11 layers.
pub(super) const BITS_MAX: u32 = 16;
/// So small that a table has several shards, and checkpoints between them.
pub(super) const STEPS: Steps = Steps {
    shard: ShardSize {
        frame_words: 24,
        shard_words: 64,
    },
    checkpoint_shards: 2,
};

pub(super) type Record = (RangeSummary, Bytes);
pub(super) type Objects = BTreeMap<Key, Bytes>;

pub(super) fn range_bits() -> RangeBits {
    RangeBits::new(12).unwrap()
}

/// What is right.
#[derive(Debug)]
pub(super) struct Expected {
    /// By head.
    records: Vec<Record>,
    /// The same with one position too many or too few.
    lies: Vec<Record>,
    /// The objects of the published tables, from [`BITS_MIN`] on.
    published: Vec<Objects>,
}

impl Expected {
    pub(super) fn get() -> &'static Expected {
        static EXPECTED: OnceLock<Expected> = OnceLock::new();
        EXPECTED.get_or_init(Expected::new)
    }

    fn new() -> Expected {
        let ranges = evaluate_table(BITS_MAX, range_bits(), Isa::Portable);
        let heads = (0..range_bits().heads(BITS_MAX)).map(Head);
        let record = |range: &Range| {
            let (summary, record) = range::encode(range, range_bits());
            (summary, Bytes::from(record))
        };
        let records: Vec<Record> = heads.clone().map(|head| record(&ranges[&head])).collect();
        let lies = heads.map(|head| record(&lie(&ranges[&head])));
        Expected {
            lies: lies.collect(),
            published: (BITS_MIN..=BITS_MAX)
                .map(|bits| published(bits, &records))
                .collect(),
            records,
        }
    }

    pub(super) fn record(&self, head: Head) -> &Record {
        &self.records[usize::try_from(head.0).unwrap()]
    }

    pub(super) fn lie(&self, head: Head) -> &Record {
        &self.lies[usize::try_from(head.0).unwrap()]
    }

    pub(super) fn published(&self, bits: u32) -> &Objects {
        &self.published[(bits - BITS_MIN) as usize]
    }
}

/// The range with one bit wrong.
fn lie(range: &Range) -> Range {
    let mut lie = range.clone();
    if range.head.0.is_multiple_of(2) && range.losing.len() > 1 {
        lie.losing.pop();
    } else {
        let free = (1..2048)
            .find(|index| !range.losing.contains(index))
            .unwrap();
        lie.losing.push(free);
        lie.losing.sort_unstable();
    }
    lie
}

/// The objects of an undisturbed run, shown to be a table of the losing positions.
fn published(bits: u32, records: &[Record]) -> Objects {
    let storage = Arc::new(SimulatedStorage::new(0));
    let (store, _) = ready(Store::open(storage.clone(), range_bits(), bits)).unwrap();
    for (layer, heads) in (0..).zip(layers(bits, range_bits())) {
        let of_head = |head: &Head| records[usize::try_from(head.0).unwrap()].clone();
        ready(store.commit(layer, heads.iter().map(of_head).collect())).unwrap();
    }
    let manifest = ready(publish(&Arc::new(store), STEPS)).unwrap();
    let objects = published_objects(&storage.objects(), bits);
    check_table(&objects, bits, &manifest);
    objects
}

/// Those of the objects that are of the published table of `bits` bits.
pub(super) fn published_objects(objects: &Objects, bits: u32) -> Objects {
    let folder = Key::new(&folder_name(bits)).unwrap();
    let published = objects.iter().filter(|(key, _)| key.is_in(&folder));
    published
        .map(|(key, bytes)| (key.clone(), bytes.clone()))
        .collect()
}

fn check_table(objects: &Objects, bits: u32, manifest: &Manifest) {
    let object = |name: &str| {
        let key = Key::new(&format!("{}/{name}", folder_name(bits))).unwrap();
        objects[&key].clone()
    };
    assert_eq!(Manifest::parse(&object(MANIFEST_NAME)).unwrap(), *manifest);
    assert!(
        manifest.shards.len() >= 2,
        "only {} shards",
        manifest.shards.len()
    );
    assert!(!object(SHA256SUMS_NAME).is_empty());
    assert_eq!(objects.len(), manifest.shards.len() + 2);
    let shards = manifest.shards.iter();
    let words = shards.flat_map(|info| decode_shard(&object(&info.name), info).unwrap());
    let words: Vec<u64> = words.collect();

    let losing = definition::losing(bits);
    let all = (1..1_u64 << (bits - 1)).map(|half| Word::new(half * 2));
    let right: Vec<u64> = all
        .filter(|word| losing[definition::index_of(*word)] && *word <= word.mirror())
        .map(Word::get)
        .collect();
    assert_eq!(words, right);
    let bytes: Vec<u8> = right.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(manifest.fingerprint, Digest::of(&bytes));
}
