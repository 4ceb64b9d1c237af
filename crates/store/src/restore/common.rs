//! The shards that a larger table has too.

use std::sync::{Mutex, PoisonError};

use chomp_table::fingerprint::{Leaf, LeafBuilder, LeafLength};
use chomp_table::shard::ShardInfo;
use chomp_table::{Table, TableError, Word};

use super::BUCKET_BITS;
use crate::merge::{each_pair, unpaired};
use crate::merged::{LengthSums, Merged};

/// All shards of a table but the last: a shard but the last has as many words in every table.
pub(super) struct Common<'a> {
    table: &'a Table,
    shards: &'a [ShardInfo],
    /// By shard: the sums of the words that it answers for, by number of bits.
    sums: Mutex<Vec<Sums>>,
}

type Sums = [(u64, u64); u64::BITS as usize + 1];

impl Common<'_> {
    pub(super) fn of(table: &Table) -> Common<'_> {
        let shards = table.manifest().shards.split_last();
        let shards = shards.map_or(&[][..], |(_, shards)| shards);
        Common {
            table,
            shards,
            sums: Mutex::new(vec![[(0, 0); u64::BITS as usize + 1]; shards.len()]),
        }
    }

    /// Takes the losing words of a region that begins with the word `base`, halved and ascending.
    pub(super) fn add(&self, base: u64, mut places: &[u32]) {
        let word = |place: u32| base + 2 * u64::from(place);
        while let Some(&first) = places.first() {
            let number = self
                .shards
                .partition_point(|shard| shard.last < word(first));
            let Some(shard) = self.shards.get(number) else {
                return;
            };
            let these;
            (these, places) =
                places.split_at(places.partition_point(|&place| word(place) <= shard.last));
            let more = sums_of(base, these);
            // Whole at any time.
            let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
            for ((losing, sum), (more, other)) in sums[number].iter_mut().zip(more) {
                *losing += more;
                *sum = sum.wrapping_add(other);
            }
        }
    }

    /// The summary of each shard, as a worker would send it.
    pub(super) fn finish(self) -> Result<Vec<Merged>, TableError> {
        let sums = self
            .sums
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let shards = self.shards.iter().zip(sums).enumerate();
        let merged = shards.map(|(number, (shard, sums))| {
            Ok(Merged {
                number: u32::try_from(number).expect("a table has at most 2^32 shards"),
                shard: Some(shard.clone()),
                leaf: leaf(self.table, number, shard)?,
                sums: LengthSums::of(sums),
            })
        });
        merged.collect()
    }
}

/// The sums of some words of a region.
fn sums_of(base: u64, places: &[u32]) -> Sums {
    let mut sums: Sums = [(0, 0); u64::BITS as usize + 1];
    let mut lows: Vec<u16> = Vec::new();
    for places in places.chunk_by(|one, next| one >> BUCKET_BITS == next >> BUCKET_BITS) {
        let bucket = base + 2 * u64::from(places[0] >> BUCKET_BITS << BUCKET_BITS);
        // The words of any other bucket have one length.
        if bucket == 0 {
            for word in places.iter().map(|&place| Word::new(2 * u64::from(place))) {
                let (losing, sum) = &mut sums[word.bits() as usize];
                *losing += 1;
                *sum = sum.wrapping_add(unpaired(word.get(), word.mirror().get()));
            }
            continue;
        }
        lows.clear();
        lows.extend(places.iter().map(|place| {
            let [first, second, ..] = place.to_le_bytes();
            u16::from_le_bytes([first, second])
        }));
        let (bits, mut sum) = (Word::new(bucket).bits(), 0_u64);
        each_pair(bucket, bits, &lows, |word, mirror| {
            sum = sum.wrapping_add(unpaired(word, mirror));
        });
        let (losing, all) = &mut sums[bits as usize];
        *losing += places.len() as u64;
        *all = all.wrapping_add(sum);
    }
    sums
}

/// The leaf of a shard. Its words are read only if they are of several lengths, or their digest is not known.
fn leaf(table: &Table, number: usize, shard: &ShardInfo) -> Result<Leaf, TableError> {
    let [first, last] = [shard.first, shard.last].map(|word| Word::new(word).bits());
    match shard.words_sha256 {
        Some(digest) if first == last => {
            let (bits, words) = (first, shard.entries);
            let lengths = vec![LeafLength {
                bits,
                words,
                digest,
            }];
            Ok(Leaf {
                words,
                digest,
                lengths,
            })
        }
        _ => {
            let mut leaf = LeafBuilder::new();
            leaf.push(&table.read_shard(number)?);
            Ok(leaf.finish())
        }
    }
}
