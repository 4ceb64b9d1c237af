//! The longest that the parts of a shard can be, by the number of their words. A reader checks a length before it
//! allocates memory for the part.

use super::{ENTRY_LENGTH, HEADER_LENGTH, INDEX_LENGTH_MAX, ShardInfo, ShardSize, TRAILER_LENGTH};
use crate::format::{Damage, ensure};
use crate::{classes, gaps};

const INDEX_HEADER_LENGTH: u64 = 24;

/// The longest data frame of `entries` words, whose halves are among `span` numbers that follow each other.
pub(super) const fn frame_len_max(entries: u64, span: u64) -> u64 {
    gaps::frame_len_max(classes::block_len_max(entries, span, 1))
}

/// The most bytes of `frames` data frames together, with `entries` words whose halves are among `span` numbers that
/// follow each other. However words and span are divided among the frames, the limits of [`frame_len_max`] add up to no
/// more: each of their terms is proportional to the words, the span or the number of frames.
const fn data_len_max(entries: u64, span: u64, frames: u64) -> u64 {
    let one = gaps::frame_len_max(0);
    gaps::frame_len_max(classes::block_len_max(entries, span, frames)) + (frames - 1) * one
}

impl ShardInfo {
    /// The number of data frames that an index of this length has.
    fn frames(&self) -> Option<u64> {
        let length = self.bytes.checked_sub(self.index_offset)?;
        let entries = length.checked_sub(INDEX_HEADER_LENGTH + TRAILER_LENGTH as u64)?;
        let whole = length <= INDEX_LENGTH_MAX && entries.is_multiple_of(ENTRY_LENGTH as u64);
        whole.then_some(entries / ENTRY_LENGTH as u64)
    }

    /// Fails if the words are too many, or do not fit between the first and the last, or into so few or so many bytes.
    pub fn check_sizes(&self) -> Result<(), Damage> {
        let ShardInfo { first, last, .. } = *self;
        let even = first.is_multiple_of(2) && last.is_multiple_of(2);
        ensure(even && 2 <= first && first <= last, || {
            format!("{} goes from word {first} to {last}", self.name)
        })?;
        let span = (last - first) / 2 + 1;
        let most = span.min(ShardSize::PUBLISHED.shard_words as u64);
        ensure((1..=most).contains(&self.entries), || {
            format!("{} has {} words", self.name, self.entries)
        })?;
        let least = self
            .entries
            .div_ceil(ShardSize::PUBLISHED.frame_words as u64);
        let possible = |frames: u64| {
            let data = self.index_offset.checked_sub(HEADER_LENGTH);
            (least..=self.entries).contains(&frames)
                && data.is_some_and(|data| data <= data_len_max(self.entries, span, frames))
        };
        ensure(self.frames().is_some_and(possible), || {
            format!(
                "{} has {} bytes and its index at {}, which {} words cannot have",
                self.name, self.bytes, self.index_offset, self.entries
            )
        })
    }
}
