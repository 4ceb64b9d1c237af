//! A checkpoint: how far a publication has come, so that one that is interrupted goes on from there.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 16 | [envelope](super::envelope), magic `chompchk` |
//! | 16 | n | the fields of [`Checkpoint`] as JSON |
//! | 16 + n | 32 | SHA-256 of the bytes before it |
//!
//! It says what the shards before it were made of, but is not believed to say that they are still
//! there: who goes on reads them again. Each checkpoint replaces the one before.
//!
//! Limit: 64 MiB. Versions: 1, the first.

use chomp_table::fingerprint::{FingerprintBuilder, FingerprintState};
use chomp_table::shard::{ShardInfo, ShardSize, shard_name};
use chomp_table::{Digest, Head, RangeBits};
use serde::{Deserialize, Serialize};

use super::envelope::{Kind, Reader, Writer, Wrong, check};

pub(super) const KIND: Kind = Kind {
    magic: b"chompchk",
    version: 1,
};

/// A table of 65,536 shards has 24 MiB.
pub(super) const BYTES_MAX: u64 = 64 << 20;

/// The state of a publication right after the last word of a shard.
///
/// All but the shards is as it was before the range with that word: whoever goes on merges that
/// range, and puts its words after the last one of the shards into the next shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    /// The bits of the table.
    pub(crate) bits: u32,
    /// The bits of a range.
    pub(crate) range_bits: u32,
    /// The digest of the last seal: what is published.
    pub(crate) content: Digest,
    /// The words of a frame.
    pub(crate) frame_words: usize,
    /// The words of a shard.
    pub(crate) shard_words: usize,
    /// The shards so far, all of them full.
    pub(crate) shards: Vec<ShardInfo>,
    /// The range with the last word of the last shard.
    pub(crate) head: u64,
    /// Index k: the losing positions of k bits in the ranges before `head`.
    pub(crate) counts: Vec<u64>,
    /// Index k: what is left of the check sum of mirror pairs of k bits in the ranges before `head`.
    pub(crate) unpaired: Vec<u64>,
    /// The fingerprint of the ranges before `head`.
    pub(crate) fingerprint: FingerprintState,
}

impl Checkpoint {
    /// The last word of the last shard.
    pub(crate) fn last(&self) -> u64 {
        self.shards.last().map_or(0, |shard| shard.last)
    }

    /// The size of its shards.
    pub(crate) fn size(&self) -> ShardSize {
        ShardSize {
            frame_words: self.frame_words,
            shard_words: self.shard_words,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let text = serde_json::to_vec(self).expect("numbers, texts and lists always become JSON");
        let mut writer = Writer::new(KIND);
        writer.bytes(&text);
        writer.finish().0
    }

    /// The checkpoint in `bytes`, of a job of `bits` bits and after so many shards.
    pub(super) fn decode(bytes: &[u8], bits: u32, shards: usize) -> Result<Checkpoint, Wrong> {
        let text = Reader::whole(KIND, bytes)?.rest();
        let checkpoint: Checkpoint = serde_json::from_slice(text)
            .map_err(|error| Wrong::Damaged(format!("it is no checkpoint: {error}")))?;
        let (found_bits, found) = (checkpoint.bits, checkpoint.shards.len());
        check((found_bits, found) == (bits, shards), || {
            format!("it is for {found} shards of {found_bits} bits")
        })?;
        checkpoint.check()?;
        Ok(checkpoint)
    }

    /// Checks what it says about itself.
    fn check(&self) -> Result<(), Wrong> {
        let size = self.size();
        let most = ShardSize::PUBLISHED;
        check(
            (1..=most.frame_words).contains(&size.frame_words)
                && (1..=most.shard_words).contains(&size.shard_words),
            || "its shards have a size that no shard has".to_owned(),
        )?;
        let mut least = 0;
        for (number, shard) in self.shards.iter().enumerate() {
            check(
                shard.name == shard_name(number)
                    && shard.entries == size.shard_words as u64
                    && (least..=shard.last).contains(&shard.first)
                    && shard.last < u64::MAX,
                || format!("its shard {number} does not follow from the one before"),
            )?;
            least = shard.last + 1;
        }
        let range_bits = RangeBits::new(self.range_bits)
            .filter(|range_bits| self.head < range_bits.heads(self.bits))
            .filter(|range_bits| self.last() >> range_bits.get() == self.head);
        let first = range_bits.map(|range_bits| Head(self.head).word(0, range_bits).get());
        check(
            !self.shards.is_empty() && first.is_some_and(|first| self.fingerprint.least <= first),
            || "it does not go on where its shards end".to_owned(),
        )?;
        let numbers = self.bits as usize + 1;
        check(
            self.counts.len() == numbers
                && self.unpaired.len() == numbers
                && self.fingerprint.bits == self.bits,
            || "its counts are of another number of bits".to_owned(),
        )?;
        let fingerprint = FingerprintBuilder::resume(self.fingerprint.clone());
        fingerprint.map_err(|damage| Wrong::Damaged(damage.to_string()))?;
        Ok(())
    }
}
