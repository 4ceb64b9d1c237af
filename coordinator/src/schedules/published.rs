//! The right tables: of an undisturbed run, and checked against the definition of W. What is published is compared with
//! them at each start, and at the end.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use chomp_plan::Settings;
use chomp_store::{Finders, Key};
use chomp_table::definition;
use chomp_table::manifest::{MANIFEST_NAME, Manifest, SHA256SUMS_NAME, folder_name};
use chomp_table::rng::Rng;
use chomp_table::shard::decode_shard;
use chomp_table::{Head, Word};

use super::coordinator::Coordinator;
use super::ending::End;
use super::expected::{BITS_MAX, BITS_MIN, SHARD_WORDS};
use super::world::World;
use crate::server::StartError;
use crate::testing::range_bits;

type Objects = BTreeMap<Key, Bytes>;

impl World {
    /// Starts a coordinator; whoever coordinated before must be gone, or have been overtaken.
    pub(super) fn start(&mut self) -> Result<(), StartError> {
        let mut settings = Settings::new(self.bits, range_bits());
        settings.lease_ms = 100;
        settings.silence_ms = 500;
        settings.straggler_ms = 40;
        settings.failures_max = 50;
        settings.expiries_max = 50;
        settings.replicas = self.replicas;
        settings.shard_words = SHARD_WORDS;
        settings.draw_one_in = self.draw_one_in;
        settings.draw_own_one_in = self.draw_one_in;
        if self.perils.chaos {
            settings.newcomer_results = u32::try_from(self.rng.below(2)).unwrap();
            settings.task_positions_max = self.rng.below(5) * range_bits().positions();
            settings.task_positions_min = self.rng.below(4) * range_bits().positions();
            settings.tasks_per_thread = u32::try_from(self.rng.below(2)).unwrap();
        }
        let random = self.rng.below(u64::MAX);
        settings.key = random;
        let coordinator = Coordinator::start(&self.storage, settings, random)?;
        self.seen.starts += 1;
        let ledger = coordinator.tools.journal.ledger();
        self.seen.shards += u64::from(ledger.shards(self.bits).next().is_some());
        let end = Head(range_bits().heads(self.bits));
        let is_of_one_more = |finders: &Finders| finders.iter().len() > self.replicas as usize;
        let found = ledger.found(end.0);
        let drawn = found.filter(|(_, _, finders)| is_of_one_more(finders));
        self.seen.votes += drawn.count() as u64;
        let is_lost = |head: &Head| ledger.place(*head).is_none();
        let lost = self.acknowledged.range(..end).copied().find(is_lost);
        assert_eq!(lost, None, "an acknowledged range is lost");
        drop(ledger);
        self.coordinator = Some(coordinator);
        assert!(
            !self.is_poisoned() || !self.liars.is_empty(),
            "a wrong content that nobody sent"
        );
        assert!(
            self.replicas == 1 || !self.is_poisoned(),
            "one worker alone got a wrong content in"
        );
        if !self.damaged {
            self.check_published();
        }
        Ok(())
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
        let objects = self.storage.objects();
        let mut found: Objects = published_objects(&objects, self.bits);
        let right = published(self.bits);
        if !self.liars.is_empty() {
            // An attempt at a larger, wrong table may have left a shard beyond the last one.
            found.retain(|key, _| right.contains_key(key));
        }
        // How many workers agreed is told in the manifest, and is another matter.
        let content = |objects: &Objects| -> Objects {
            let shards = objects
                .iter()
                .filter(|(key, _)| key.as_str().contains("/shard-"));
            shards
                .map(|(key, bytes)| (key.clone(), bytes.clone()))
                .collect()
        };
        if self.replicas == 1 {
            assert!(found == *right, "the published table is not the right one");
        }
        assert!(
            content(&found) == content(right),
            "the published shards are not the right ones"
        );
        assert_eq!(found.len(), right.len());
        let coordinator = self.coordinator.as_ref().expect("it has just finished");
        let progress = coordinator.desk.plan.progress();
        assert_eq!(progress.ranges_done, range_bits().heads(self.bits));
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
        .filter(|word| losing[definition::index_of(*word)] && *word <= word.mirror())
        .map(Word::get)
        .collect();
    assert_eq!(words, right);
}
