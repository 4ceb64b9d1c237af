//! The merge: ranges in the order of their heads become the words of one shard after the other.

use chomp_table::fingerprint::FingerprintBuilder;
use chomp_table::{Head, Range, RangeBits};

use super::Steps;
use super::mirror::{first_representatives, representatives};
use crate::store::Checkpoint;

/// What the ranges so far make of the table, but for the words themselves.
#[derive(Clone, Debug)]
pub(super) struct Sums {
    /// Index k: the losing positions of k bits.
    pub(super) counts: Vec<u64>,
    /// Index k: the check sum of the words of k bits.
    pub(super) unpaired: Vec<u64>,
    pub(super) fingerprints: FingerprintBuilder,
}

/// Where a merge can go on: right after the last word of the shards so far.
#[derive(Debug)]
pub(super) struct Mark {
    /// The range with that word.
    pub(super) head: Head,
    /// Of the ranges before that one.
    pub(super) sums: Sums,
}

/// What comes of a range.
#[derive(Debug)]
pub(super) enum Step {
    /// The next shard is full.
    Shard { number: usize, words: Vec<u64> },
    /// The merge can go on here.
    Mark(Mark),
}

/// The merge so far.
#[derive(Debug)]
pub(super) struct Merge {
    bits: u32,
    range_bits: RangeBits,
    steps: Steps,
    sums: Sums,
    /// The range to go on with.
    next: Head,
    /// Smaller words are in the shards already.
    least: u64,
    /// The number of full shards, and of those before the last mark.
    shards: usize,
    marked: usize,
    /// The words of the shard that is not full yet.
    shard: Vec<u64>,
    /// The representatives of a range.
    words: Vec<u64>,
    /// The memory of earlier shards.
    spare: Vec<Vec<u64>>,
}

impl Merge {
    pub(super) fn new(bits: u32, range_bits: RangeBits, steps: Steps) -> Merge {
        let numbers = bits as usize + 1;
        Merge {
            bits,
            range_bits,
            steps,
            sums: Sums {
                counts: vec![0; numbers],
                unpaired: vec![0; numbers],
                fingerprints: FingerprintBuilder::new(bits),
            },
            next: Head(0),
            least: 0,
            shards: 0,
            marked: 0,
            shard: Vec::new(),
            words: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// The merge as it was at a checkpoint of this table.
    pub(super) fn resume(range_bits: RangeBits, steps: Steps, from: &Checkpoint) -> Merge {
        let fingerprints = FingerprintBuilder::resume(from.fingerprint.clone());
        Merge {
            sums: Sums {
                counts: from.counts.clone(),
                unpaired: from.unpaired.clone(),
                fingerprints: fingerprints.expect("it was checked when it was read"),
            },
            next: Head(from.head),
            least: from.last() + 1,
            shards: from.shards.len(),
            marked: from.shards.len(),
            ..Merge::new(from.bits, range_bits, steps)
        }
    }

    /// The range that is to be pushed next.
    pub(super) fn next(&self) -> Head {
        self.next
    }

    /// Takes back the words of a shard, for the memory that they are in.
    pub(super) fn take_back(&mut self, mut words: Vec<u64>) {
        words.clear();
        self.spare.push(words);
    }

    /// Takes the next range.
    pub(super) fn push(&mut self, range: &Range) -> Vec<Step> {
        debug_assert_eq!(range.head, self.next, "ranges come in order");
        let shard_words = self.steps.shard.shard_words;
        // Only where a shard may become full is there something to go back to.
        let may_fill = self.shard.len() + range.losing.len() >= shard_words;
        let before = may_fill.then(|| self.sums.clone());
        self.take(range);
        self.next = Head(range.head.0 + 1);

        let mut steps = Vec::new();
        let known = self.words.partition_point(|&word| word < self.least);
        let mut rest = &self.words[known..];
        while !rest.is_empty() {
            let (these, others) = rest.split_at(rest.len().min(shard_words - self.shard.len()));
            self.shard.extend_from_slice(these);
            rest = others;
            if self.shard.len() == shard_words {
                let next = self.spare.pop();
                let next = next.unwrap_or_else(|| Vec::with_capacity(shard_words));
                let words = std::mem::replace(&mut self.shard, next);
                let number = self.shards;
                steps.push(Step::Shard { number, words });
                self.shards += 1;
            }
        }
        let due = self.shards - self.marked >= self.steps.checkpoint_shards;
        if let Some(sums) = before.filter(|_| due) {
            self.marked = self.shards;
            let head = range.head;
            steps.push(Step::Mark(Mark { head, sums }));
        }
        steps
    }

    /// Counts the words of a range, and finds its representatives.
    fn take(&mut self, range: &Range) {
        self.words.clear();
        let (words, range_bits) = (&mut self.words, self.range_bits);
        let Sums {
            counts,
            unpaired,
            fingerprints,
        } = &mut self.sums;
        let mut note = |bits: u32, count, sum| {
            let bits = bits as usize;
            counts[bits] += count;
            unpaired[bits] = unpaired[bits].wrapping_add(sum);
        };
        if range.head.is_empty() {
            first_representatives(range, range_bits, self.bits, words, |bits, sum| {
                note(bits, 1, sum);
            });
        } else {
            let sum = representatives(range, range_bits, words);
            let bits = range.head.len() + range_bits.get();
            note(bits, range.losing.len() as u64, sum);
        }
        fingerprints.push(words);
    }

    /// What all ranges together have, the number of the last shard, and its words: none if the
    /// one before is full.
    pub(super) fn finish(self) -> (Sums, usize, Vec<u64>) {
        (self.sums, self.shards, self.shard)
    }
}
