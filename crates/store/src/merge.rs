//! The merge: ranges in the order of their heads become the words of one shard.
//!
//! Of each mirror pair the smaller word is stored. Each shard but the last has the same number of stored words. A shard
//! answers for all losing words after the last stored word of the shard before it, up to its own last stored word; the
//! last shard answers for all that are left. So each losing word of a table is counted once.
//!
//! The check sum of some words is the sum, in 64 bits, of a number for each: the hash of a word that is smaller than
//! its mirror image; the hash of the mirror image, with a minus, if the word is larger; and 0 if the word is its own
//! mirror image. The words of whole pairs have the sum 0, in any order. If an error makes words missing, double or
//! wrong, the sum is still 0 with a chance of one in 2^64.
//!
//! Nothing here reads or writes: the caller brings the ranges.

use chomp_table::fingerprint::Leaf;
use chomp_table::range::{BUCKET_BITS, IndexBuckets};
use chomp_table::rng::mix;
use chomp_table::shard::{ShardSize, ShardWriter};
use chomp_table::{Head, RangeBits, Word};

use crate::ledger::Ledger;
use crate::shard_summary::{LengthSums, ShardSummary};

/// The number of lows whose bits are reversed at a time, for mirror images. A low is bits 1 to 16 of a word.
const CHUNK: usize = 256;

/// Where a shard begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardBounds {
    /// The number of the shard, from 0.
    pub number: u32,
    /// The range to begin with.
    pub head: Head,
    /// The number of stored words of that range that earlier shards have.
    pub skip: u64,
    /// The range after the last one that has words of the shard.
    pub end: Head,
    /// Whether no stored words are left for another shard.
    pub last: bool,
}

/// Why a shard cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum MergeError {
    #[error("range {head} is not done")]
    Missing { head: Head },
    #[error("of the losing words of range {head} {found} are stored, and it says {said}")]
    Stored { head: Head, said: u64, found: u64 },
    /// The words end before the beginning of the shard, or before or after its end.
    #[error("shard {number} does not have the words that the journal says")]
    Length { number: u32 },
}

impl ShardBounds {
    /// The bounds of shard `number` of the table of `bits` bits in `ledger`. Each shard before has `shard_words` stored
    /// words. The plan says where the first stored word of this one is: in the range `head`, after `skip` of the stored
    /// words there.
    ///
    /// But the shard begins earlier, right after the last stored word (`s`) of the shard before. The words between
    /// (`.`) are not stored, as each is the larger one of its mirror pair. So if `skip` is 0, the shard begins in an
    /// earlier range:
    ///
    /// ```text
    ///     range h - 1      range h
    ///     . s . s . .      . s s .
    ///            ^          ^
    ///            the cut    where the plan says: h, after 0 stored words
    /// ```
    pub fn new(
        ledger: &Ledger,
        bits: u32,
        shard_words: u64,
        (number, head, skip): (u32, Head, u64),
    ) -> Result<ShardBounds, MergeError> {
        let heads = ledger.range_bits.head_count(bits);
        let (mut left, mut end) = (0u64, Head(heads));
        for (done, row, _) in ledger.done(heads).filter(|(done, ..)| *done >= head) {
            left += row.stored;
            if left >= skip.saturating_add(shard_words) {
                end = end.min(Head(done.0 + 1));
            }
        }
        if number > 0 && left <= skip {
            return Err(MergeError::Length { number });
        }
        let last = left - skip.min(left) <= shard_words;
        if last {
            end = Head(heads);
        }
        let (mut head, mut skip) = (head, skip);
        // The unstored words after the last stored word of the shard before belong to this shard.
        while number > 0 && skip == 0 {
            let before = head.0.checked_sub(1).ok_or(MergeError::Length { number })?;
            head = Head(before);
            let row = ledger.range(head).ok_or(MergeError::Missing { head })?;
            skip = row.stored;
        }
        Ok(ShardBounds {
            number,
            head,
            skip,
            end,
            last,
        })
    }
}

/// A shard that is being filled.
#[derive(Debug)]
pub struct Merger {
    bits: u32,
    range_bits: RangeBits,
    bounds: ShardBounds,
    next: Head,
    /// The stored words that are still to be skipped. As long as there are any, nothing is counted.
    skip: u64,
    room: u64,
    /// Whether the shard has all its words. Always false for the last shard, which ends with the table.
    full: bool,
    /// Index k: of the words of k bits, their number and their check sum.
    sums: Vec<(u64, u64)>,
    shard: ShardWriter,
    /// The stored words of a bucket.
    words: Vec<u64>,
}

impl Merger {
    /// An empty shard of a table of `bits` bits, to be filled with the words between these bounds.
    pub fn new(bits: u32, range_bits: RangeBits, size: ShardSize, bounds: ShardBounds) -> Merger {
        let number = usize::try_from(bounds.number).expect("32 bits");
        Merger {
            bits,
            range_bits,
            bounds,
            next: bounds.head,
            skip: bounds.skip,
            room: size.shard_words as u64,
            full: false,
            sums: vec![(0, 0); u64::BITS as usize + 1],
            shard: ShardWriter::new(number, size),
            words: Vec::new(),
        }
    }

    /// The range that is to be pushed next; none if the shard needs no more.
    pub fn next_head(&self) -> Option<Head> {
        let more = !self.full && self.next < self.bounds.end;
        more.then_some(self.next)
    }

    /// Adds the words of the next range. Panics if `head` is another range. Fails with [`MergeError::Stored`] if the
    /// number of stored words in `losing` is not `stored`.
    pub fn push(
        &mut self,
        head: Head,
        losing: &IndexBuckets,
        stored: u64,
    ) -> Result<(), MergeError> {
        assert_eq!(Some(head), self.next_head(), "ranges come in order");
        self.next = Head(head.0 + 1);
        let mut found = 0;
        for (bucket, number) in (0_u64..).zip(0..losing.bucket_count()) {
            let lows = losing.bucket(number);
            let base = head.0 << self.range_bits.get() | bucket << (BUCKET_BITS + 1);
            let whole = self.skip == 0
                && !head.is_zero()
                && (self.bounds.last || lows.len() as u64 <= self.room);
            found += if whole {
                self.take_all(head, base, lows)
            } else {
                self.take_each(base, lows)
            };
            let fits = self.shard.push(&self.words).is_empty();
            self.words.clear();
            if !fits {
                return Err(self.wrong_length());
            }
        }
        if found == stored {
            Ok(())
        } else {
            Err(MergeError::Stored {
                head,
                said: stored,
                found,
            })
        }
    }

    /// Takes all words of a bucket: none are skipped, and all have one length. Returns how many are stored.
    fn take_all(&mut self, head: Head, base: u64, lows: &[u16]) -> u64 {
        let bits = head.bit_len() + self.range_bits.get();
        self.words.resize(lows.len(), 0);
        let (mut kept, mut sum) = (0, 0_u64);
        let words = &mut self.words[..];
        each_pair(base, bits, lows, |word, mirror| {
            words[kept] = word;
            kept += usize::from(word <= mirror);
            sum = sum.wrapping_add(mirror_term(word, mirror));
        });
        self.words.truncate(kept);
        self.count(bits, lows.len() as u64, sum);
        self.room = self.room.saturating_sub(kept as u64);
        self.full = self.room == 0 && !self.bounds.last;
        kept as u64
    }

    /// Takes the words of a bucket one by one; returns how many are stored.
    fn take_each(&mut self, base: u64, lows: &[u16]) -> u64 {
        let mut stored = 0;
        for &low in lows {
            let word = Word::new(base | u64::from(low) << 1);
            let mirror = word.mirror();
            let is_stored = word <= mirror;
            stored += u64::from(is_stored);
            if self.full || word.bits() > self.bits {
                continue;
            }
            if self.skip > 0 {
                self.skip -= u64::from(is_stored);
                continue;
            }
            self.count(word.bits(), 1, mirror_term(word.get(), mirror.get()));
            if is_stored {
                self.words.push(word.get());
                self.room = self.room.saturating_sub(1);
                self.full = self.room == 0 && !self.bounds.last;
            }
        }
        stored
    }

    fn count(&mut self, bits: u32, words: u64, sum: u64) {
        let (losing, mirror_sum) = &mut self.sums[bits as usize];
        *losing += words;
        *mirror_sum = mirror_sum.wrapping_add(sum);
    }

    /// Fails with [`MergeError::Length`] if ranges are missing, or had fewer words than the journal says.
    pub fn finish(self) -> Result<(ShardSummary, Option<Vec<u8>>), MergeError> {
        // A table may be smaller than its only range, which then has words of larger tables too: without these the
        // shard need not be full.
        let short = self.bits < self.range_bits.get();
        if self.next_head().is_some() || !(self.full || self.bounds.last || short) {
            return Err(self.wrong_length());
        }
        let (shard, leaf, bytes) = if self.shard.is_empty() {
            (None, Leaf::default(), None)
        } else {
            let (info, leaf, bytes) = self.shard.finish();
            (Some(info), leaf, Some(bytes))
        };
        let summary = ShardSummary {
            number: self.bounds.number,
            shard,
            leaf,
            sums: LengthSums::of(self.sums),
        };
        Ok((summary, bytes))
    }

    fn wrong_length(&self) -> MergeError {
        let number = self.bounds.number;
        MergeError::Length { number }
    }
}

/// Gives `take` each word of a bucket with its mirror image. The bucket begins with `base`; its words have `bits` bits.
#[inline]
fn each_pair(base: u64, bits: u32, lows: &[u16], mut take: impl FnMut(u64, u64)) {
    let shift = u64::BITS - bits;
    let base_mirror = (!base).reverse_bits() >> shift;
    let mut turned = [0; CHUNK];
    for lows in lows.chunks(CHUNK) {
        // In a loop of its own, which the compiler vectorizes.
        for (turned, low) in turned.iter_mut().zip(lows) {
            *turned = low.reverse_bits();
        }
        for (&low, &turned) in lows.iter().zip(&turned) {
            let word = base | u64::from(low) << 1;
            // `low` is bits 1 to 16 of the word, as bit 0 is always 0. In the mirror they are the 16 bits below the top
            // bit, in reverse order and inverted: the XOR inverts them.
            let mirror = base_mirror ^ (u64::from(turned) << 47 >> shift);
            take(word, mirror);
        }
    }
}

#[inline]
fn mirror_term(word: u64, mirror: u64) -> u64 {
    let hash = mix(word.min(mirror));
    // Masks instead of branches, which the processor cannot predict.
    let plus = hash & 0_u64.wrapping_sub(u64::from(word <= mirror));
    let minus = hash & 0_u64.wrapping_sub(u64::from(word >= mirror));
    plus.wrapping_sub(minus)
}

#[cfg(test)]
mod tests;
