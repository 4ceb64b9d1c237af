//! A small job to show the store on.

mod faults;
mod hostile;
mod prune;
mod rules;

use std::collections::BTreeMap;

use chomp_table::fingerprint::FingerprintBuilder;
use chomp_table::head::layers;
use chomp_table::shard::{ShardInfo, shard_name};

use super::*;
use crate::ready;
use crate::storage::SimulatedStorage;

/// Eight ranges in seven layers, two of them in layer 3.
const BITS: u32 = 15;

fn range_bits() -> RangeBits {
    RangeBits::new(12).unwrap()
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn summary(head: Head) -> RangeSummary {
    RangeSummary {
        head,
        count: head.0 * 7,
        digest: Digest::of(&head.0.to_le_bytes()),
    }
}

fn record(head: Head) -> Bytes {
    let length = usize::try_from(head.0 % 5 * 3).unwrap();
    Bytes::from(vec![head.0.to_le_bytes()[0] + 1; length])
}

fn records(heads: &[Head]) -> Vec<(RangeSummary, Bytes)> {
    let record = |&head: &Head| (summary(head), record(head));
    heads.iter().map(record).collect()
}

fn summaries(heads: &[Head]) -> Vec<RangeSummary> {
    heads.iter().copied().map(summary).collect()
}

/// All ranges of the job.
fn all() -> Vec<RangeSummary> {
    (0..8).map(Head).map(summary).collect()
}

/// What the store said is safe.
#[derive(Debug, Default)]
struct Acknowledged {
    ranges: Vec<RangeSummary>,
    layers: u32,
    published: BTreeMap<&'static str, Bytes>,
}

const PUBLISHED: [(&str, &[u8]); 2] = [("shard-0000.zst", b"words"), ("manifest.json", b"{}\n")];

/// Does what is left to do of the job, as a coordinator would.
async fn work(storage: Arc<dyn Storage>, told: &mut Acknowledged) -> Result<(), StoreError> {
    let (store, progress) = Store::open(storage, range_bits(), BITS).await?;
    for (layer, heads) in (0..).zip(layers(BITS, range_bits())) {
        let missing = |head: &Head| !progress.done.contains(&summary(*head));
        let missing: Vec<Head> = heads.iter().copied().filter(missing).collect();
        if !missing.is_empty() {
            store.commit(layer, records(&missing)).await?;
            told.ranges.extend(summaries(&missing));
        }
        if layer >= progress.sealed_layers {
            store.seal(layer, &summaries(&heads)).await?;
            told.layers = told.layers.max(layer + 1);
        }
    }
    for (name, bytes) in PUBLISHED {
        let bytes = Bytes::from_static(bytes);
        store.publish_object(BITS, name, bytes.clone()).await?;
        told.published.insert(name, bytes);
    }
    Ok(())
}

/// Opens the store and says what of `told` is not there.
async fn lost(storage: Arc<dyn Storage>, told: &Acknowledged) -> Result<Vec<String>, StoreError> {
    let (store, progress) = Store::open(Arc::clone(&storage), range_bits(), BITS).await?;
    let mut lost = Vec::new();
    for range in &told.ranges {
        if !progress.done.contains(range) {
            lost.push(format!("{range:?}"));
        }
    }
    for range in &progress.done {
        assert_eq!(*range, summary(range.head), "a range that nobody committed");
        assert_eq!(store.read_record(range.head).await?, record(range.head));
    }
    if progress.sealed_layers < told.layers {
        lost.push(format!("the seal of layer {}", told.layers - 1));
    }
    for (name, bytes) in &told.published {
        let found = storage.read(&keys::published(BITS, name).unwrap()).await;
        if !found.is_ok_and(|found| found == *bytes) {
            lost.push((*name).to_owned());
        }
    }
    Ok(lost)
}

/// A storage with these objects.
fn restored(objects: &BTreeMap<Key, Bytes>) -> Arc<SimulatedStorage> {
    let storage = SimulatedStorage::new(1);
    for (key, bytes) in objects {
        storage.overwrite(key, bytes.clone());
    }
    Arc::new(storage)
}

/// A finished job, and a checkpoint of its publication that nobody removed.
fn finished() -> Arc<SimulatedStorage> {
    let storage = Arc::new(SimulatedStorage::new(1));
    ready(work(storage.clone(), &mut Acknowledged::default())).unwrap();
    let key = keys::checkpoint(BITS, 1);
    storage.overwrite(&key, checkpoint().encode());
    storage
}

/// A checkpoint after a shard of two words.
fn checkpoint() -> Checkpoint {
    Checkpoint {
        bits: BITS,
        range_bits: range_bits().get(),
        content: Digest([7; 32]),
        frame_words: 2,
        shard_words: 2,
        shards: vec![ShardInfo {
            name: shard_name(0),
            first: 2,
            last: 12,
            entries: 2,
            bytes: 5,
            sha256: Digest::of(b"words"),
            index_offset: 3,
            index_sha256: Digest::of(b"ds"),
        }],
        head: 0,
        counts: vec![0; BITS as usize + 1],
        unpaired: vec![0; BITS as usize + 1],
        fingerprint: FingerprintBuilder::new(BITS).state(),
    }
}

fn open(storage: &Arc<SimulatedStorage>) -> Result<(Store, Progress), StoreError> {
    ready(Store::open(storage.clone(), range_bits(), BITS))
}
