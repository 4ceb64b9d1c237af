//! Losing words in memory, two bytes each.
//!
//! All words of a **bucket** share the bits from 17 up. For a band, only the intervals are kept that a move
//! leads to from it.

use chomp_table::word::mask;
use chomp_table::{Table, Word};

use super::block::CHUNK_BITS;
use crate::{CheckError, Watch, ensure, tell};

/// The words of a bucket, which are even, differ in 16 bits.
const BUCKET_BITS: u32 = 17;
/// The buckets that are sorted, in some milliseconds, between two reports of progress.
const TELL_BUCKETS: usize = 1 << 10;

#[derive(Debug)]
pub(crate) struct Lists {
    /// An interval has 2^`interval_bits` words.
    interval_bits: u32,
    bucket_bits: u32,
    /// For each interval of the table, its index among the kept intervals.
    places: Vec<Option<u32>>,
    /// Where the words of each bucket start, and where the last one's end.
    starts: Vec<usize>,
    /// The words within their buckets, halved.
    lows: Vec<u16>,
}

impl Lists {
    /// The words of a table up to `last` that lie in these intervals, which ascend, of 2^`interval_bits` words each.
    pub(crate) fn gather(
        table: &Table,
        (interval_bits, block_bits): (u32, u32),
        intervals: &[u64],
        last: u64,
        watch: Watch<'_>,
    ) -> Result<Lists, CheckError> {
        let mut lists = Lists::new(interval_bits, block_bits, intervals);
        let buckets = intervals.len() << (interval_bits - lists.bucket_bits);
        // While words are counted, the count of bucket i is at i + 2. While they are placed, its next free place is at
        // i + 1.
        let mut starts = vec![0; buckets + 2];
        let third = |third: u64| move |seen, all| tell(watch, third * all + seen, 3 * all);
        each_losing(table, last, third(0), |word| {
            if let Some(bucket) = lists.bucket(word) {
                starts[bucket + 2] += 1;
            }
            Ok(())
        })?;
        for bucket in 1..starts.len() {
            starts[bucket] += starts[bucket - 1];
        }
        lists.lows = vec![0; starts[buckets + 1]];
        let changed = || "the table changed while it was read".to_owned();
        each_losing(table, last, third(1), |word| {
            if let Some(bucket) = lists.bucket(word) {
                let place = &mut starts[bucket + 1];
                ensure(*place < lists.lows.len(), changed)?;
                lists.lows[*place] = lists.low(word);
                *place += 1;
            }
            Ok(())
        })?;
        ensure(starts[buckets] == lists.lows.len(), changed)?;
        starts.pop();
        lists.starts = starts;
        for bucket in 0..buckets {
            if bucket % TELL_BUCKETS == 0 {
                third(2)(bucket as u64, buckets as u64)?;
            }
            let (start, end) = (lists.starts[bucket], lists.starts[bucket + 1]);
            lists.lows[start..end].sort_unstable();
        }
        Ok(lists)
    }

    /// Lists for all words of a table of `bits` bits, still empty.
    pub(crate) fn begin(bits: u32, block_bits: u32) -> Lists {
        Lists::new(bits, block_bits, &[0])
    }

    fn new(interval_bits: u32, block_bits: u32, intervals: &[u64]) -> Lists {
        let mut places = vec![None; intervals.last().map_or(0, |&last| index(last) + 1)];
        for (place, &interval) in (0..).zip(intervals) {
            places[index(interval)] = Some(place);
        }
        Lists {
            interval_bits,
            bucket_bits: BUCKET_BITS.min(block_bits),
            places,
            starts: vec![0],
            lows: Vec::new(),
        }
    }

    /// Adds the words of the next block, ascending.
    pub(crate) fn push_block(&mut self, block_bits: u32, words: &[u64]) {
        let buckets = self.starts.len() - 1 + (1 << (block_bits - self.bucket_bits));
        for &word in words {
            let bucket = index(word >> self.bucket_bits);
            self.starts.resize(bucket + 1, self.lows.len());
            self.lows.push(self.low(word));
        }
        self.starts.resize(buckets + 1, self.lows.len());
    }

    /// The bytes that `words` words in `intervals` intervals take.
    pub(crate) fn bytes(interval_bits: u32, intervals: u64, words: u64) -> u64 {
        let buckets = intervals << interval_bits.saturating_sub(BUCKET_BITS);
        8 * (buckets + 2) + 2 * words
    }

    /// The index of the bucket of `word`, if its interval is kept.
    fn bucket(&self, word: u64) -> Option<usize> {
        let interval = word.checked_shr(self.interval_bits).unwrap_or(0);
        let place = (*self.places.get(index(interval))?)?;
        let inside = (word & mask(self.interval_bits)) >> self.bucket_bits;
        Some(((place as usize) << (self.interval_bits - self.bucket_bits)) + index(inside))
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the bits above are the bucket's"
    )]
    fn low(&self, word: u64) -> u16 {
        ((word & mask(self.bucket_bits)) >> 1) as u16
    }

    /// The words of the bucket of `word`.
    fn lows(&self, word: u64) -> &[u16] {
        let bucket = self.bucket(word).expect("an interval that is kept");
        &self.lows[self.starts[bucket]..self.starts[bucket + 1]]
    }

    /// The words from `first` to `last`, ascending.
    pub(crate) fn words(&self, first: u64, last: u64) -> impl Iterator<Item = u64> {
        let buckets = first >> self.bucket_bits..=last >> self.bucket_bits;
        buckets.flat_map(move |bucket| {
            let start = bucket << self.bucket_bits;
            let lows = self.lows(start);
            let from = lows.partition_point(|&low| start + 2 * u64::from(low) < first);
            let words = lows[from..]
                .iter()
                .map(move |&low| start + 2 * u64::from(low));
            words.take_while(move |&word| word <= last)
        })
    }

    pub(crate) fn contains(&self, word: u64) -> bool {
        self.lows(word).binary_search(&self.low(word)).is_ok()
    }

    /// Sets the bits of the words in the block with this number, whose bitmap has as many bits as `chunks`.
    pub(crate) fn set_bits(&self, block: u64, chunks: &mut [u64]) {
        let per_bucket = 1 << self.bucket_bits.saturating_sub(CHUNK_BITS);
        let start = block * ((chunks.len() as u64) << CHUNK_BITS);
        for (chunks, bucket) in chunks.chunks_mut(per_bucket).zip(0..) {
            for &low in self.lows(start + (bucket << self.bucket_bits)) {
                chunks[usize::from(low >> 6)] |= 1 << (low & 63);
            }
        }
    }
}

pub(crate) fn index(number: u64) -> usize {
    usize::try_from(number).expect("a number of things in memory")
}

/// Calls `visit` with the losing words up to `last`, both of a mirror pair.
fn each_losing(
    table: &Table,
    last: u64,
    seen: impl Fn(u64, u64) -> Result<(), CheckError>,
    mut visit: impl FnMut(u64) -> Result<(), CheckError>,
) -> Result<(), CheckError> {
    for piece in table.words() {
        let piece = piece?;
        // For the progress, words count as evenly spread: they are dense enough.
        let first = piece.first().map_or(0, |&word| word.min(last));
        seen(first >> 16, last >> 16)?;
        for representative in piece {
            // The mirror image is larger.
            if representative > last {
                return Ok(());
            }
            visit(representative)?;
            let mirror = Word::new(representative).mirror().get();
            if mirror != representative && mirror <= last {
                visit(mirror)?;
            }
        }
    }
    Ok(())
}
