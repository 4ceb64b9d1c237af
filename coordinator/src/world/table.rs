//! The right tables: those of an undisturbed run, checked against the definition of W. What is published is compared
//! with them at each start, and at the end.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use chomp_store::Key;
use chomp_table::manifest::{MANIFEST_NAME, Manifest, SHA256SUMS_NAME, folder_name};
use chomp_table::rng::Rng;
use chomp_table::shard::decode_shard;
use chomp_table::{Head, Word, definition};

use super::coordinator::Coordinator;
use super::ending::End;
use super::expected::{BITS_MAX, BITS_MIN};
use super::state::World;
use crate::server::StartError;
use crate::testing::{journal_of_ranges, range_bits};

type Objects = BTreeMap<Key, Bytes>;

impl World {
    /// Starts a coordinator; whoever coordinated before must be gone, or have been overtaken.
    pub(super) fn start(&mut self) -> Result<(), StartError> {
        let random = self.rng.below(u64::MAX);
        self.settings.key = random;
        let coordinator = Coordinator::start(&self.storage, self.settings.clone(), random)?;
        self.count("starts");
        self.late_files.clear();
        let ledger = coordinator.tools.journal.ledger();
        let bits = self.settings.size;
        if ledger.shards(bits).next().is_some() {
            self.count("starts with shards");
        }
        let end = Head(range_bits().heads(bits));
        let is_lost = |head: &Head| ledger.place(*head).is_none();
        let lost = self.acknowledged.range(..end).copied().find(is_lost);
        assert_eq!(lost, None, "an acknowledged range is lost");
        drop(ledger);
        self.coordinator = Some(coordinator);
        self.hear();
        self.check_ledger();
        if !self.harm.damaged {
            self.check_published();
        }
        Ok(())
    }

    /// All ranges are done before somebody starts a coordinator.
    pub(super) fn do_ranges(&mut self) {
        self.count("starts at the cut");
        self.settings.size = self.last_bits;
        journal_of_ranges(&self.storage, self.last_bits, |_| ());
    }

    /// A table that is there is whole and right.
    fn check_published(&self) {
        let objects = self.storage.objects();
        for bits in BITS_MIN..=self.last_bits {
            let manifest = Key::new(&format!("{}/{MANIFEST_NAME}", folder_name(bits))).unwrap();
            if objects.contains_key(&manifest) {
                let mut right = published(bits)
                    .iter()
                    .filter(|(key, _)| !key.as_str().ends_with("json"));
                let is_there = right.all(|(key, bytes)| {
                    let has_manifest = key.as_str().ends_with("SHA256SUMS");
                    has_manifest || objects.get(key) == Some(bytes)
                });
                assert!(is_there, "a manifest without its table");
            }
        }
    }

    /// The table is the one of an undisturbed run.
    pub(super) fn check_table(&self) {
        let bits = self.settings.size;
        let mut found: Objects = published_objects(&self.storage.objects(), bits);
        let mut right = published(bits).clone();
        if !self.harm.liars.is_empty() {
            // An attempt at a larger, wrong table may have left a shard beyond the last one.
            found.retain(|key, _| right.contains_key(key));
        }
        assert!(found.keys().eq(right.keys()), "other files");
        let mut manifests = [&mut found, &mut right].map(|objects| {
            let manifest = Key::new(&format!("{}/{MANIFEST_NAME}", folder_name(bits))).unwrap();
            let manifest = Manifest::parse(&objects[&manifest]).unwrap();
            objects.retain(|key, _| key.as_str().contains("/shard-"));
            manifest
        });
        // How many participants agreed is told in the manifest.
        let is_of_others = self.seen.contains_key("starts at the cut");
        let replicas = [1, self.settings.replicas];
        assert!(is_of_others || replicas.contains(&manifests[0].replicas));
        manifests[1].replicas = manifests[0].replicas;
        assert_eq!(manifests[0], manifests[1]);
        for (key, bytes) in &right {
            assert!(found[key] == *bytes, "{key} is not the right one");
        }
        let coordinator = self.coordinator.as_ref().expect("it has just finished");
        let progress = coordinator.desk.plan.progress();
        assert_eq!(progress.ranges_done, range_bits().heads(bits));
    }
}

/// The objects of the published table of `bits` bits.
fn published(bits: u32) -> &'static Objects {
    static PUBLISHED: [OnceLock<Objects>; 4] = [const { OnceLock::new() }; 4];
    PUBLISHED[(bits - BITS_MIN) as usize].get_or_init(|| undisturbed(bits))
}

/// The objects of an undisturbed run, shown to be a table of the losing positions.
fn undisturbed(bits: u32) -> Objects {
    let mut world = World::quiet(Rng(0), bits);
    let end = world.run();
    assert!(matches!(end, End::Finished), "{end:?}");
    let objects = published_objects(&world.storage.objects(), bits);
    check_table(&objects, bits);
    objects
}

/// Those of the objects that are of the published table of `bits` bits.
fn published_objects(objects: &Objects, bits: u32) -> Objects {
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
        .clone()
        .filter(|word| losing[definition::index_of(*word)] && *word <= word.mirror())
        .map(Word::get)
        .collect();
    assert_eq!(words, right);
    let losing: Vec<Word> = all
        .filter(|word| losing[definition::index_of(*word)])
        .collect();
    for (bits, &count) in manifest.losing_by_bits.iter().enumerate() {
        let shorter = losing.iter().filter(|word| word.bits() as usize <= bits);
        assert_eq!(shorter.count() as u64, count, "{bits}");
    }
}
