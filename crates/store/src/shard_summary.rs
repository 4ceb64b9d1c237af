//! The summary of a shard of a table that is being published: a worker sends it, and the journal keeps it.

use chomp_table::Digest;
use chomp_table::fingerprint::{Leaf, LeafBuilder};
use chomp_table::format::{Damage, ensure};
use chomp_table::manifest::SHARDS_MAX;
use chomp_table::reader::ShardFileInfo;
use chomp_table::shard::{ShardInfo, decode_shard, shard_name};
use serde::{Deserialize, Serialize};

/// A shard, and the sums of the losing words that it [answers for](crate::merge).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardSummary {
    /// The number of the shard, from 0.
    pub number: u32,
    /// The shard's file; none if the shard has no words. If a table is smaller than its only range, all losing words of
    /// this range may belong to larger tables.
    pub shard: Option<ShardInfo>,
    /// The leaf of the fingerprint that is made of the words of the shard.
    pub leaf: Leaf,
    /// The sums of all words that the shard answers for, by number of bits, ascending.
    pub sums: Vec<LengthSums>,
}

impl ShardSummary {
    /// Fails if it is no summary, contradicts itself, or is what no table of `bits` bits can have.
    pub fn parse(json: &[u8], bits: u32) -> Result<ShardSummary, Damage> {
        let summary: ShardSummary =
            serde_json::from_slice(json).map_err(|error| Damage::new(error.to_string()))?;
        let checked = summary.validate(bits);
        checked.map_err(|damage| Damage::new(format!("shard {}: {damage}", summary.number)))?;
        Ok(summary)
    }

    /// The digest of this summary without the file: the same for the same words, however they are packed into a file.
    pub fn words_digest(&self) -> Digest {
        let words = ShardSummary {
            shard: None,
            ..self.clone()
        };
        Digest::of(&words.to_json())
    }

    /// This summary as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers, texts and lists always become JSON")
    }

    /// Compares `file`, the content of this shard's file, with `expected`, and its words with those of this summary.
    pub fn compare(&self, expected: Option<&ShardInfo>, file: &[u8]) -> Result<(), Difference> {
        let (Some(own), Some(expected)) = (&self.shard, expected) else {
            let agree_on_a_file = self.shard.is_some() == expected.is_some();
            return if agree_on_a_file {
                Ok(())
            } else {
                Err(Difference::Forged)
            };
        };
        if file.len() as u64 != expected.bytes || Digest::of(file) != expected.sha256 {
            return Err(Difference::Mismatch);
        }
        if own == expected {
            return Ok(());
        }
        // The file may have the same words, packed in another way.
        let words = decode_shard(file, expected).map_err(|_| Difference::Forged)?;
        let has_own_words = words.is_sorted_by(|one, next| one < next) && {
            let mut leaf = LeafBuilder::new();
            leaf.push(&words);
            leaf.finish() == self.leaf
        };
        if has_own_words && expected.words_sha256 == own.words_sha256 {
            Ok(())
        } else {
            Err(Difference::Forged)
        }
    }

    /// Its file, if it has one.
    pub fn file(&self) -> Option<ShardFileInfo> {
        self.shard.as_ref().map(Into::into)
    }

    fn validate(&self, bits: u32) -> Result<(), Damage> {
        let ShardSummary { leaf, sums, .. } = self;
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

/// How a file is not the shard that it is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// The file has another length or SHA-256 than expected.
    #[error("the file of the shard is not what was said of it")]
    Mismatch,
    /// The file has the expected length and SHA-256, and other words than the ranges; or there is a file, but no word
    /// for it, or the other way round.
    #[error("the file of the shard has other words than the ranges")]
    Forged,
}

/// Whether `numbers` are distinct, ascending, and at most `bits`.
fn ascend(numbers: impl Iterator<Item = u32> + Clone, bits: u32) -> bool {
    let mut all = numbers.clone();
    numbers.is_sorted_by(|one, next| one < next) && all.all(|number| number <= bits)
}

/// The sums of words of the same number of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthSums {
    /// The number of bits.
    pub bits: u32,
    /// The number of losing words, mirror images too.
    pub losing: u64,
    /// The check sum of mirror pairs: 0 over all words of this number of bits.
    #[serde(rename = "unpaired")]
    pub mirror_sum: u64,
}

impl LengthSums {
    /// The sums by number of bits, which is the index in `sums`. Numbers of bits without losing words are left out.
    pub(crate) fn of(sums: impl IntoIterator<Item = (u64, u64)>) -> Vec<LengthSums> {
        let sums = (0..).zip(sums).filter(|(_, (losing, _))| *losing > 0);
        let sums = sums.map(|(bits, (losing, mirror_sum))| LengthSums {
            bits,
            losing,
            mirror_sum,
        });
        sums.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chomp_table::shard::{ShardSize, ShardWriter};

    /// The summary of a shard of these words, and its file with frames of `frame_words` words.
    fn written(words: &[u64], frame_words: usize) -> (ShardSummary, Vec<u8>) {
        let size = ShardSize {
            frame_words,
            ..ShardSize::PUBLISHED
        };
        let mut writer = ShardWriter::new(0, size);
        writer.push(words);
        let (info, leaf, bytes) = writer.finish();
        let summary = ShardSummary {
            number: 0,
            shard: Some(info),
            leaf,
            sums: Vec::new(),
        };
        (summary, bytes)
    }

    #[test]
    fn a_file_is_what_is_said_of_it_and_has_the_right_words() {
        let mut words: Vec<u64> = (0..99).map(|index| (1 << 20) + 64 * index).collect();
        let (own, mut file) = written(&words, 10);
        let compare =
            |expected: &ShardSummary, file: &[u8]| own.compare(expected.shard.as_ref(), file);
        assert_eq!(compare(&own, &file), Ok(()));
        file[20] ^= 1;
        assert_eq!(compare(&own, &file), Err(Difference::Mismatch));
        // A file with the words of `own` in frames of another size is right, too, if `expected` has the digest of this
        // file and the same `words_sha256` as `own`, and the words in the file give the leaf of `own`.
        let (mut expected, file) = written(&words, 7);
        assert_eq!(compare(&expected, &file), Ok(()));
        expected.shard.as_mut().unwrap().words_sha256.0[0] ^= 1;
        assert_eq!(compare(&expected, &file), Err(Difference::Forged));
        let before = own.shard.as_ref().unwrap().words_sha256;
        words[98] += 2;
        let (mut expected, file) = written(&words, 7);
        expected.shard.as_mut().unwrap().words_sha256 = before;
        assert_eq!(compare(&expected, &file), Err(Difference::Forged));
        expected.shard = None;
        assert_eq!(compare(&expected, &[]), Err(Difference::Forged));
    }

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
