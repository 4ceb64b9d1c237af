//! The tables that histories must end with: those of undisturbed ones, compared with the definition of W.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use chomp_store::objects::Key;
use chomp_table::manifest::{MANIFEST_NAME, Manifest, folder_name};
use chomp_table::{Digest, Word};
use chomp_testing::definition;

use crate::histories::history::History;
use crate::histories::network::Weather;
use crate::histories::world::{Plot, SHARD_WORDS, World};

pub(crate) const BITS_MIN: u32 = 13;
pub(crate) const BITS_MAX: u32 = 16;

pub(crate) type Objects = BTreeMap<Key, Bytes>;

/// The objects of the published table of `bits` bits, each range of which `replicas` workers computed.
pub(crate) fn published(bits: u32, replicas: u32) -> &'static Objects {
    static EXPECTED: OnceLock<BTreeMap<(u32, u32), Objects>> = OnceLock::new();
    let expected = EXPECTED.get_or_init(|| {
        let bits = BITS_MIN..=BITS_MAX;
        let plots = bits.flat_map(|bits| [(bits, 1), (bits, 2)]);
        plots
            .map(|(bits, replicas)| ((bits, replicas), undisturbed(bits, replicas)))
            .collect()
    });
    &expected[&(bits, replicas)]
}

/// The objects of the table of `bits` bits among others.
pub(crate) fn objects_of(bits: u32, objects: Objects) -> Objects {
    let folder = format!("{}/", folder_name(bits));
    let is_of = |key: &Key| key.as_str().starts_with(&folder);
    objects.into_iter().filter(|(key, _)| is_of(key)).collect()
}

fn undisturbed(bits: u32, replicas: u32) -> Objects {
    let plot = Plot {
        bits,
        replicas,
        slots: replicas as usize,
        lease_ms: 30_000,
        slowest: 0,
        segments: 0,
        weather: Weather::calm(1),
        between_faults: 0,
        calm_at: 0,
    };
    let mut world = World::new(History::new(0, false), plot);
    world.run_unchecked();
    let objects = objects_of(bits, world.store.now().objects());

    let manifest = Key::new(&format!("{}/{MANIFEST_NAME}", folder_name(bits))).unwrap();
    let manifest = Manifest::parse(&objects[&manifest]).unwrap();
    assert_eq!((manifest.bits, manifest.replicas), (bits, replicas));
    let losing = definition::losing(bits);
    let words = (1..1_u64 << (bits - 1)).map(|half| Word::new(half * 2));
    let kept = words.filter(|&word| losing[definition::index_of(word)] && word <= word.mirror());
    let kept: Vec<_> = kept.map(|word| word.get().to_le_bytes()).collect();
    let shards = kept.chunks(usize::try_from(SHARD_WORDS).unwrap());
    assert_eq!(manifest.shards.len(), shards.len());
    let leaves: Vec<u8> = shards
        .flat_map(|words| Digest::of(words.as_flattened()).0)
        .collect();
    assert_eq!(manifest.fingerprint, Digest::of(&leaves));
    assert_eq!(objects.len(), manifest.shards.len() + 2);
    objects
}
