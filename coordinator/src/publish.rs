//! Publication: all ranges of a job merged into the shards of a table.
//!
//! Ranges are read in the order of their heads, so their words ascend. Of each mirror pair the
//! smaller word is kept. Shards are written as they fill, then `SHA256SUMS`, and the manifest
//! last: a table without a manifest is none. Everything is a function of the committed ranges, so
//! a publication that was interrupted may be done again. So that little of it is, there is a
//! checkpoint after every few shards, and a start goes on from the last one of which all shards
//! are found as they were.
//!
//! The next ranges are read, and full shards are compressed, on other threads meanwhile. What is
//! made durable is so in order: a checkpoint after its shards.

mod merge;
mod mirror;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use chomp_table::format::FormatError;
use chomp_table::manifest::{MANIFEST_NAME, Manifest, SHA256SUMS_NAME, sha256sums};
use chomp_table::range;
use chomp_table::shard::{ShardInfo, ShardSize, ShardWriter};
use chomp_table::{Digest, Head, Range, RangeBits};

use crate::later::{Abandoned, Later};
use crate::store::{Checkpoint, Store, StoreError};
use merge::{Mark, Merge, Step, Sums};

/// So many ranges are read ahead of the merge.
const RANGES_AHEAD: usize = 4;
/// So many shards are compressed, or wait to be written, while the merge goes on; and one more
/// while it waits for the first of them.
const SHARDS_BEHIND: usize = 1;

/// How a publication proceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    /// What goes into a shard.
    pub(crate) shard: ShardSize,
    /// After so many shards, at least, there is a checkpoint.
    pub(crate) checkpoint_shards: usize,
}

impl Steps {
    /// Those of published tables: a checkpoint after 2^26 words.
    pub(crate) const PUBLISHED: Steps = Steps {
        shard: ShardSize::PUBLISHED,
        checkpoint_shards: 16,
    };
}

/// Why a table was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// It was told to stop. What it wrote is used or replaced by the next publication.
    #[error("the publication was stopped")]
    Stopped,
    /// The store failed, or is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record has the digest it was committed with, but is no range.
    #[error("the record of range {head} is wrong")]
    Record {
        /// The range.
        head: Head,
        /// What is wrong with it.
        source: FormatError,
    },
    /// The losing positions are not those of mirror pairs.
    #[error(
        "the losing positions of {bits} bits are not those of mirror pairs: up to there {counted} are losing, and those that \
         are stored make it {expected} with their mirror images; nothing in this table can be trusted; build it anew in another directory"
    )]
    Asymmetric {
        /// The number of bits.
        bits: u32,
        /// The losing positions of at most so many bits.
        counted: u64,
        /// What their number is when each that is stored is counted with its mirror image. If it
        /// is the same, some are mirror images of others than those that are stored.
        expected: u64,
    },
}

impl From<Abandoned> for PublishError {
    fn from(Abandoned: Abandoned) -> PublishError {
        PublishError::Stopped
    }
}

/// Merges the ranges of a complete job and publishes the table.
pub(crate) async fn publish(store: &Arc<Store>, steps: Steps) -> Result<Manifest, PublishError> {
    let bits = store.bits();
    let (merge, shards) = begin(store, steps).await?;
    let mut shards = Shards {
        store,
        steps,
        content: store.content(),
        done: shards,
        under_way: VecDeque::new(),
        used: Vec::new(),
    };
    let (sums, number, words) = merge_all(store, merge, &mut shards).await?;
    shards.settle(0).await?;
    let last = (!words.is_empty()).then(|| compress(number, &words, steps.shard));
    let mut infos = shards.done;
    infos.extend(last.iter().map(|(info, _)| info.clone()));
    let manifest = manifest(store, sums, infos)?;
    if let Some((info, bytes)) = last {
        store.publish_object(bits, &info.name, bytes.into()).await?;
    }
    let bytes = manifest.to_bytes();
    let sums = sha256sums(&bytes, &manifest);
    store
        .publish_object(bits, SHA256SUMS_NAME, sums.into())
        .await?;
    store
        .publish_object(bits, MANIFEST_NAME, bytes.into())
        .await?;
    store.remove_checkpoints(None).await?;
    Ok(manifest)
}

/// The merge to go on with, and the shards that are there. Checkpoints that are of no use are
/// removed.
async fn begin(store: &Arc<Store>, steps: Steps) -> Result<(Merge, Vec<ShardInfo>), PublishError> {
    let range_bits = store.range_bits();
    if let Some(content) = store.content() {
        for checkpoint in store.checkpoints().await? {
            let fits = checkpoint.content == content
                && checkpoint.range_bits == range_bits.get()
                && checkpoint.size() == steps.shard;
            if fits && has_all(store, &checkpoint.shards).await? {
                store.remove_checkpoints(Some(&checkpoint)).await?;
                let merge = Merge::resume(range_bits, steps, &checkpoint);
                return Ok((merge, checkpoint.shards));
            }
        }
        store.remove_checkpoints(None).await?;
    }
    let merge = Merge::new(store.bits(), range_bits, steps);
    Ok((merge, Vec::new()))
}

/// Whether these shards are there, every byte of them.
async fn has_all(store: &Store, shards: &[ShardInfo]) -> Result<bool, PublishError> {
    for shard in shards {
        if store.is_publication_stopped() {
            return Err(PublishError::Stopped);
        }
        if !store.has_shard(shard).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Merges the ranges that are left; returns what all of them have, and the last shard, which is
/// not full.
async fn merge_all(
    store: &Arc<Store>,
    mut merge: Merge,
    shards: &mut Shards<'_>,
) -> Result<(Sums, usize, Vec<u64>), PublishError> {
    let heads = store.range_bits().heads(store.bits());
    let mut unread = (merge.next().0..heads).map(Head);
    let mut ahead = VecDeque::new();
    loop {
        store.note_merged(merge.next().0);
        if store.is_publication_stopped() {
            return Err(PublishError::Stopped);
        }
        for head in unread.by_ref().take(RANGES_AHEAD - ahead.len()) {
            ahead.push_back(Later::begin(read(Arc::clone(store), head)).await);
        }
        let Some(range) = ahead.pop_front() else {
            return Ok(merge.finish());
        };
        let range = range.end().await??;
        for step in merge.push(&range) {
            shards.add(step).await?;
        }
        for words in shards.used.drain(..) {
            merge.take_back(words);
        }
    }
}

async fn read(store: Arc<Store>, head: Head) -> Result<Range, PublishError> {
    let record = store.read_record(head).await?;
    let decoded = range::decode_known(&record, store.range_bits());
    let (_, range) = decoded.map_err(|source| PublishError::Record { head, source })?;
    Ok(range)
}

/// A finished shard and its bytes.
type Shard = (ShardInfo, Vec<u8>);

fn compress(number: usize, words: &[u64], size: ShardSize) -> Shard {
    let mut shard = ShardWriter::new(number, size);
    let rest = shard.push(words);
    assert!(rest.is_empty(), "no more words than a shard has");
    shard.finish()
}

/// Does with all ranges of a table of one shard what publication does; returns the bytes of the
/// shard.
pub(crate) fn write_shard(bits: u32, range_bits: RangeBits, ranges: &[Range]) -> usize {
    let mut merge = Merge::new(bits, range_bits, Steps::PUBLISHED);
    for range in ranges {
        let steps = merge.push(range);
        debug_assert!(steps.is_empty(), "a shard has room for a small table");
    }
    let (sums, number, words) = merge.finish();
    sums.fingerprints.finish();
    compress(number, &words, ShardSize::PUBLISHED).1.len()
}

/// Shards on their way to the disk, and the checkpoints between them.
#[derive(Debug)]
struct Shards<'a> {
    store: &'a Store,
    steps: Steps,
    /// What is published, if that is known.
    content: Option<Digest>,
    /// The shards that are durable.
    done: Vec<ShardInfo>,
    under_way: VecDeque<UnderWay>,
    /// The words of shards that are durable, which nobody needs any more.
    used: Vec<Vec<u64>>,
}

#[derive(Debug)]
enum UnderWay {
    Shard(Later<(Shard, Vec<u64>)>),
    Mark(Mark),
}

impl Shards<'_> {
    async fn add(&mut self, step: Step) -> Result<(), PublishError> {
        let size = self.steps.shard;
        self.under_way.push_back(match step {
            Step::Shard { number, words } => {
                let work = async move { (compress(number, &words, size), words) };
                UnderWay::Shard(Later::begin(work).await)
            }
            Step::Mark(mark) => UnderWay::Mark(mark),
        });
        self.settle(SHARDS_BEHIND).await
    }

    /// Makes durable what was added first, until so much at the most is under way.
    async fn settle(&mut self, most: usize) -> Result<(), PublishError> {
        while self.under_way.len() > most {
            match self.under_way.pop_front() {
                Some(UnderWay::Shard(shard)) => {
                    let ((info, bytes), words) = shard.end().await?;
                    self.used.push(words);
                    let (bits, name) = (self.store.bits(), &info.name);
                    self.store.publish_object(bits, name, bytes.into()).await?;
                    self.done.push(info);
                }
                Some(UnderWay::Mark(mark)) => {
                    if let Some(content) = self.content {
                        let checkpoint = self.checkpoint(content, mark);
                        self.store.keep_checkpoint(&checkpoint).await?;
                    }
                }
                None => break,
            }
        }
        Ok(())
    }

    fn checkpoint(&self, content: Digest, mark: Mark) -> Checkpoint {
        Checkpoint {
            bits: self.store.bits(),
            range_bits: self.store.range_bits().get(),
            content,
            frame_words: self.steps.shard.frame_words,
            shard_words: self.steps.shard.shard_words,
            shards: self.done.clone(),
            head: mark.head.0,
            counts: mark.sums.counts,
            unpaired: mark.sums.unpaired,
            fingerprint: mark.sums.fingerprints.state(),
        }
    }
}

/// The manifest of a table of which all words are those of mirror pairs.
fn manifest(store: &Store, sums: Sums, shards: Vec<ShardInfo>) -> Result<Manifest, PublishError> {
    let software = concat!("chomp ", env!("CARGO_PKG_VERSION")).to_owned();
    let manifest = Manifest::new(
        store.range_bits(),
        store.replicas(),
        software,
        sums.fingerprints.finish(),
        shards,
    );
    let mut counted = 0;
    let by_bits = sums.counts.iter().zip(&sums.unpaired);
    for ((bits, (count, &unpaired)), &expected) in (0..).zip(by_bits).zip(&manifest.losing_by_bits)
    {
        counted += count;
        if counted != expected || unpaired != 0 {
            return Err(PublishError::Asymmetric {
                bits,
                counted,
                expected,
            });
        }
    }
    Ok(manifest)
}
