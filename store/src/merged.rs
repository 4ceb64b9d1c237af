//! What a worker says of a shard of a table that is being published, and the journal keeps.

use chomp_table::Division;
use chomp_table::fingerprint::Leaf;
use chomp_table::format::{Damage, ensure};
use chomp_table::manifest::SHARDS_MAX;
use chomp_table::partition::AREA_MAX;
use chomp_table::reader::ShardFileInfo;
use chomp_table::shard::{ShardInfo, shard_name};
use chomp_table::values::shard::{ShardSize, ValueShardInfo};
use serde::{Deserialize, Serialize};

/// What is said of a shard. As JSON it is that of its kind alone: the kind is the table's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum MergedShard {
    /// Of a table of losing positions.
    Words(Merged),
    /// Of a table of Grundy values.
    Values(MergedValues),
}

impl MergedShard {
    /// What is said as `json` of a shard of a table of this size.
    ///
    /// # Errors
    ///
    /// If it is no such thing, contradicts itself, or is what no such table can have.
    pub fn parse(json: &[u8], division: Division, size: u32) -> Result<MergedShard, Damage> {
        let not_json = |error: serde_json::Error| Damage::new(error.to_string());
        let merged = match division {
            Division::Words(_) => {
                MergedShard::Words(serde_json::from_slice(json).map_err(not_json)?)
            }
            Division::Ranks(_) => {
                MergedShard::Values(serde_json::from_slice(json).map_err(not_json)?)
            }
        };
        let checked = match &merged {
            MergedShard::Words(words) => words.check(size),
            MergedShard::Values(values) => values.check(size),
        };
        checked.map_err(|damage| Damage::new(format!("shard {}: {damage}", merged.number())))?;
        Ok(merged)
    }

    /// The number of the shard, from 0.
    pub fn number(&self) -> u32 {
        match self {
            MergedShard::Words(words) => words.number,
            MergedShard::Values(values) => values.number,
        }
    }

    /// Its file, if it has one.
    pub fn file(&self) -> Option<ShardFileInfo> {
        match self {
            MergedShard::Words(words) => words.shard.as_ref().map(Into::into),
            MergedShard::Values(values) => Some((&values.shard).into()),
        }
    }
}

impl From<Merged> for MergedShard {
    fn from(words: Merged) -> MergedShard {
        MergedShard::Words(words)
    }
}

impl From<MergedValues> for MergedShard {
    fn from(values: MergedValues) -> MergedShard {
        MergedShard::Values(values)
    }
}

/// A shard of Grundy values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergedValues {
    /// The number of the shard, from 0.
    pub number: u32,
    /// The shard.
    pub shard: ValueShardInfo,
}

impl MergedValues {
    /// Whether a table of so many tiles can have this shard.
    fn check(&self, tiles: u32) -> Result<(), Damage> {
        let number = usize::try_from(self.number).unwrap_or(usize::MAX);
        let place = ShardSize::PUBLISHED.places(tiles.min(AREA_MAX)).nth(number);
        let place = place
            .ok_or_else(|| Damage::new(format!("a table of {tiles} tiles has no such shard")))?;
        ensure(
            self.shard.name == shard_name(number),
            || "another file name",
        )?;
        self.shard.check(&place)
    }
}

/// A shard of words, and what the words add up to that it [answers for](crate::merge).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merged {
    /// The number of the shard, from 0.
    pub number: u32,
    /// The shard; none if no words are left for it, as at the end of a table of one range.
    pub shard: Option<ShardInfo>,
    /// The leaf of the fingerprint that its words are.
    pub leaf: Leaf,
    /// What all words that were read add up to, by number of bits, ascending.
    pub sums: Vec<LengthSums>,
}

impl Merged {
    /// Whether a table of so many bits can have this shard.
    fn check(&self, bits: u32) -> Result<(), Damage> {
        let Merged { leaf, sums, .. } = self;
        ensure(bits <= u64::BITS, || format!("a table of {bits} bits"))?;
        let number = usize::try_from(self.number).unwrap_or(usize::MAX);
        ensure(number < SHARDS_MAX, || {
            format!("a table has at most {SHARDS_MAX} shards")
        })?;
        let words = self.shard.as_ref().map_or(0, |shard| shard.entries);
        ensure(leaf.words == words, || {
            format!("a leaf of {} words and a shard of {words}", leaf.words)
        })?;
        if let Some(shard) = &self.shard {
            ensure(shard.name == shard_name(number), || "another file name")?;
            shard.check_sizes()?;
            ensure(u128::from(shard.last) < 1 << bits, || {
                format!("words from {} to {}", shard.first, shard.last)
            })?;
        }
        let lengths = leaf.lengths.iter();
        ensure(
            ascend(lengths.clone().map(|of| of.bits), bits),
            || "leaves of lengths out of order",
        )?;
        ensure(
            lengths.clone().is_sorted_by_key(|of| of.words),
            || "counts of a leaf that fall",
        )?;
        let ends = lengths.last().is_none_or(|last| last.words == leaf.words);
        ensure(ends, || "counts of a leaf that do not end with its words")?;
        ensure(
            ascend(sums.iter().map(|sum| sum.bits), bits),
            || "sums of lengths out of order",
        )?;
        let possible = |sum: &LengthSums| u128::from(sum.losing) <= 1 << sum.bits.saturating_sub(1);
        ensure(
            sums.iter().all(possible),
            || "more losing words than there are",
        )
    }
}

/// Whether these are different numbers of bits, ascending, of a table of so many.
fn ascend(numbers: impl Iterator<Item = u32> + Clone, bits: u32) -> bool {
    let mut all = numbers.clone();
    numbers.is_sorted_by(|one, next| one < next) && all.all(|number| number <= bits)
}

/// What the words of one number of bits add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthSums {
    /// The number of bits.
    pub bits: u32,
    /// The number of losing words, mirror images too.
    pub losing: u64,
    /// The check sum of mirror pairs: 0 once all words of so many bits are in it.
    pub unpaired: u64,
}

impl LengthSums {
    /// The numbers of losing words, and their check sums, by the number of bits; those of no words are left out.
    pub(crate) fn of(sums: impl IntoIterator<Item = (u64, u64)>) -> Vec<LengthSums> {
        let sums = (0..).zip(sums).filter(|(_, (losing, _))| *losing > 0);
        let sums = sums.map(|(bits, (losing, unpaired))| LengthSums {
            bits,
            losing,
            unpaired,
        });
        sums.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bits_ascend_up_to_those_of_the_table() {
        for (numbers, fits) in [
            (&[][..], true),
            (&[2, 3, 19], true),
            (&[3, 2], false),
            (&[3, 3], false),
            (&[2, 20], false),
        ] {
            assert_eq!(ascend(numbers.iter().copied(), 19), fits, "{numbers:?}");
        }
    }
}
