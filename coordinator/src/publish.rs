//! Publication: all ranges of a job merged into the shards of a table.
//!
//! Ranges are read in the order of their heads, so their words ascend. Of each mirror pair the
//! smaller word is kept. Shards are written as they fill, then `SHA256SUMS`, and the manifest
//! last: a table without a manifest is none. Everything is a function of the committed ranges, so
//! a publication that was interrupted is simply done again. One range and one shard are in memory
//! at a time.

use chomp_table::fingerprint::FingerprintBuilder;
use chomp_table::format::FormatError;
use chomp_table::manifest::{MANIFEST_NAME, Manifest, SHA256SUMS_NAME, sha256sums};
use chomp_table::range;
use chomp_table::shard::{ShardInfo, ShardSize, ShardWriter};
use chomp_table::{Head, Range, RangeBits};

use crate::store::{Store, StoreError};

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
        "of the positions of at most {bits} bits {counted} are losing, and the mirror images make it {expected}: \
         nothing in this table can be trusted; build it anew in another directory"
    )]
    Asymmetric {
        /// The number of bits.
        bits: u32,
        /// The losing positions.
        counted: u64,
        /// What their number is when each that is stored is counted with its mirror image.
        expected: u64,
    },
}

/// Merges the ranges of a complete job and publishes the table.
pub(crate) async fn publish(store: &Store, size: ShardSize) -> Result<Manifest, PublishError> {
    let (bits, range_bits) = (store.bits(), store.range_bits());
    let mut merge = Merge::new(bits, range_bits, size);
    for head in (0..range_bits.heads(bits)).map(Head) {
        let record = store.read_record(head).await?;
        let decoded = range::decode_known(&record, range_bits);
        let (_, range) = decoded.map_err(|source| PublishError::Record { head, source })?;
        for (info, bytes) in merge.push(&range) {
            store.publish_object(bits, &info.name, bytes.into()).await?;
        }
        if !store.note_merged(head.0 + 1) {
            return Err(PublishError::Stopped);
        }
    }
    let (manifest, last) = merge.finish(store.replicas())?;
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
    Ok(manifest)
}

/// A finished shard and its bytes.
type Shard = (ShardInfo, Vec<u8>);

/// The merge so far.
#[derive(Debug)]
struct Merge {
    bits: u32,
    range_bits: RangeBits,
    size: ShardSize,
    fingerprints: FingerprintBuilder,
    shard: ShardWriter,
    shards: Vec<ShardInfo>,
    /// Index k: the losing positions of k bits.
    counts: Vec<u64>,
    words: Vec<u64>,
}

impl Merge {
    fn new(bits: u32, range_bits: RangeBits, size: ShardSize) -> Merge {
        Merge {
            bits,
            range_bits,
            size,
            fingerprints: FingerprintBuilder::new(bits),
            shard: ShardWriter::new(0, size),
            shards: Vec::new(),
            counts: vec![0; bits as usize + 1],
            words: Vec::new(),
        }
    }

    /// Takes the next range; returns the shards that it fills.
    fn push(&mut self, range: &Range) -> Vec<Shard> {
        self.words.clear();
        if range.head.is_empty() {
            self.push_first(range);
        } else {
            let bits = range.head.len() + self.range_bits.get();
            self.counts[bits as usize] += range.losing.len() as u64;
            representatives(range, self.range_bits, &mut self.words);
        }
        self.fingerprints.push(&self.words);

        let mut full = Vec::new();
        let mut rest = &self.words[..];
        loop {
            rest = self.shard.push(rest);
            if rest.is_empty() {
                return full;
            }
            let next = ShardWriter::new(self.shards.len() + 1, self.size);
            let (info, bytes) = std::mem::replace(&mut self.shard, next).finish();
            self.shards.push(info.clone());
            full.push((info, bytes));
        }
    }

    /// Takes the range of the empty head, whose words have all lengths and may go beyond the table.
    fn push_first(&mut self, range: &Range) {
        for &index in &range.losing {
            let word = range.head.word(index.into(), self.range_bits);
            if word.bits() > self.bits {
                break;
            }
            self.counts[word.bits() as usize] += 1;
            if word.representative() == word {
                self.words.push(word.get());
            }
        }
    }

    /// The manifest, and the last shard unless it is empty.
    fn finish(mut self, replicas: u32) -> Result<(Manifest, Option<Shard>), PublishError> {
        let last = (!self.shard.is_empty()).then(|| self.shard.finish());
        self.shards
            .extend(last.iter().map(|(info, _)| info.clone()));
        let software = concat!("chomp ", env!("CARGO_PKG_VERSION")).to_owned();
        let manifest = Manifest::new(
            self.range_bits,
            replicas,
            software,
            self.fingerprints.finish(),
            self.shards,
        );
        let mut counted = 0;
        for ((bits, count), &expected) in (0..).zip(self.counts).zip(&manifest.losing_by_bits) {
            counted += count;
            if counted != expected {
                return Err(PublishError::Asymmetric {
                    bits,
                    counted,
                    expected,
                });
            }
        }
        Ok((manifest, last))
    }
}

/// Appends the words of `range`, which are all of one length, that are not larger than their
/// mirror image.
fn representatives(range: &Range, range_bits: RangeBits, words: &mut Vec<u64>) {
    let shift = u64::BITS - range.head.len() - range_bits.get();
    let head = range.head.0 << range_bits.get();
    words.resize(range.losing.len(), 0);
    let mut kept = 0;
    for &index in &range.losing {
        let word = head | u64::from(index) << 1;
        words[kept] = word;
        kept += usize::from(word <= (!word).reverse_bits() >> shift);
    }
    words.truncate(kept);
}

#[cfg(test)]
mod tests {
    use chomp_table::Word;

    use super::*;

    #[test]
    fn representatives_are_those_of_the_words() {
        let range_bits = RangeBits::new(12).expect("valid");
        for head in [1, 2, 3, 0b1010_1100, (1 << 52) - 1, 1 << 51].map(Head) {
            let losing: Vec<u32> = (0..2048).step_by(3).collect();
            let all = losing
                .iter()
                .map(|&index| head.word(index.into(), range_bits));
            let expected: Vec<u64> = all
                .filter(|word| word.representative() == *word)
                .map(Word::get)
                .collect();
            let mut words = Vec::new();
            representatives(
                &Range {
                    head,
                    losing: losing.clone(),
                    edges: 0,
                },
                range_bits,
                &mut words,
            );
            assert_eq!(words, expected, "{head}");
        }
    }
}
