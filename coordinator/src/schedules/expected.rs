//! The right tables: evaluated once, and checked against the definition of W.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use chomp_kernel::{Isa, evaluate_table};
use chomp_store::Key;
use chomp_table::chance::Chance;
use chomp_table::definition;
use chomp_table::manifest::{MANIFEST_NAME, Manifest, SHA256SUMS_NAME, folder_name};
use chomp_table::range::{self, RangeSummary};
use chomp_table::shard::decode_shard;
use chomp_table::{Head, Range, RangeBits, Word};

use super::ending::End;
use super::world::World;

/// The bits of the smallest table here.
pub(super) const BITS_MIN: u32 = 13;
/// The bits of the largest table here: 16 ranges in 11 layers.
pub(super) const BITS_MAX: u32 = 16;
/// So small that a table has several shards.
pub(super) const SHARD_WORDS: u64 = 64;

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
        Expected {
            records: heads.clone().map(|head| record(&ranges[&head])).collect(),
            lies: heads.map(|head| record(&lie(&ranges[&head]))).collect(),
        }
    }

    pub(super) fn record(&self, head: Head) -> &Record {
        &self.records[usize::try_from(head.0).unwrap()]
    }

    pub(super) fn lie(&self, head: Head) -> &Record {
        &self.lies[usize::try_from(head.0).unwrap()]
    }
}

/// The objects of the published table of `bits` bits.
pub(super) fn published(bits: u32) -> &'static Objects {
    static PUBLISHED: [OnceLock<Objects>; 4] = [const { OnceLock::new() }; 4];
    PUBLISHED[(bits - BITS_MIN) as usize].get_or_init(|| undisturbed(bits))
}

/// The range with one bit wrong.
fn lie(range: &Range) -> Range {
    let mut lie = range.clone();
    if range.head.0.is_multiple_of(2) && range.losing.len() > 1 {
        lie.losing.pop();
    } else {
        let free = (1..2048).find(|index| !range.losing.contains(index));
        lie.losing.push(free.unwrap());
        lie.losing.sort_unstable();
    }
    lie
}

/// The objects of an undisturbed run, shown to be a table of the losing positions.
fn undisturbed(bits: u32) -> Objects {
    let mut world = World::quiet(Chance(0), bits);
    let end = world.run();
    assert!(matches!(end, End::Finished), "{end:?}");
    let objects = published_objects(&world.storage.objects(), bits);
    check_table(&objects, bits);
    objects
}

/// Those of the objects that are of the published table of `bits` bits.
pub(super) fn published_objects(objects: &Objects, bits: u32) -> Objects {
    let folder = format!("{}/", folder_name(bits));
    let published = objects
        .iter()
        .filter(|(key, _)| key.as_str().starts_with(&folder));
    published
        .map(|(key, bytes)| (key.clone(), bytes.clone()))
        .collect()
}

fn check_table(objects: &Objects, bits: u32) {
    let object = |name: &str| {
        let key = Key::new(&format!("{}/{name}", folder_name(bits))).unwrap();
        objects[&key].clone()
    };
    let manifest = Manifest::parse(&object(MANIFEST_NAME)).unwrap();
    assert!(
        bits < BITS_MAX || manifest.shards.len() >= 2,
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
}
