//! Ranges from a published table: they need not be computed again when the table is extended.
//!
//! A shard has one word of each mirror pair, ascending. Its words are in the order of the ranges, their mirror images
//! are anywhere. So the table is read twice. The first pass puts each mirror image into the list of its **stretch**,
//! which is some ranges that follow each other. When the lists have filled the memory, they are moved to a file. The
//! second pass puts one stretch after the other together in a bitmap, from its list and from the words of the shards,
//! which are kept in memory if all fit there. The ranges of the stretch are then encoded like evaluated ones.
//!
//! **Edges.** With b range bits, bit x of the edges of a range says whether the path head · 0^x · 1^(b-x) is losing.
//! The word of a path is the path without its last 1s: here head · 0^x, and for x = 0 the head without its last 1s. So
//! a losing word w sets bit x of the head w / 2^x, for each x from 1 to the number of its last 0s; and bit 0 of the
//! heads w, w1, w11 and so on. Few words have so many last 0s that these numbers are heads of the table: the first pass
//! notes their edges.

mod spill;

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range as Span};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use chomp_table::fingerprint::LeafBuilder;
use chomp_table::manifest::MANIFEST_NAME;
use chomp_table::range::{self, BUCKET_BITS, IndexBuckets, Range, losing_max};
use chomp_table::shard::sort_words;
use chomp_table::{Head, RangeBits, RangeSummary, Table, TableError, Word};
use parking_lot::Mutex;

use crate::StoreError;

use spill::{KEPT_BITS_MIN, KeptWords, Spill, Stretch, index_in_stretch};

/// A stretch (see the module) has about 2^this losing positions: enough to span many frames of a shard, few enough that
/// the bitmap of the stretch stays in a processor's cache. No stretch is smaller than a range.
const STRETCH_LOSING_BITS: u32 = 17;
/// The most bits of a stretch: its positions are counted by 31 bits.
const STRETCH_BITS_MAX: u32 = 32;
/// The most bytes that a mirror image takes while it waits for its stretch, in a list that grows.
const WAITING_BYTES: u64 = 8;
/// The bytes for each word if it is kept from the first pass for the second, in two bytes and a little, while its mirror
/// image waits in a list that is three quarters full.
const BOTH_BYTES: u64 = 9;
/// The bytes for each losing position of an average stretch, in a list and in records. They are enough for a stretch
/// with twice as many losing positions.
const TOGETHER_BYTES: u64 = 16;

/// A restoration of the ranges of a published table.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub struct Restorer<'a> {
    pub table: &'a Table,
    pub range_bits: RangeBits,
    pub threads: usize,
    /// The memory for words that wait for their stretch, and for stretches.
    pub memory_bytes: u64,
    /// Where files are made that nobody else sees, and that are gone with the process.
    pub scratch: &'a Path,
}

/// Why ranges were not restored.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum RestoreError {
    #[error(transparent)]
    Table(#[from] TableError),
    #[error("cannot use a file for the words that wait for their ranges")]
    Scratch(#[from] std::io::Error),
    #[error("what was restored cannot be kept")]
    Keep(#[source] StoreError),
    #[error("stopped")]
    Stopped,
}

/// Ranges of one layer, ascending, with their records.
pub type Records = Vec<(RangeSummary, Vec<u8>)>;

/// Takes restored ranges, some at a time, by layers, from several threads.
pub type Keep<'a> = &'a (dyn Fn(BTreeMap<u32, Records>) -> Result<(), StoreError> + Sync);

impl Restorer<'_> {
    /// Restores the `wanted` ranges of which the table has all positions, and gives them to `keep`. `watch` is called
    /// with the number of words read so far and in all, and may end the run. If the run fails, the ranges that `keep`
    /// has got are right.
    pub fn run(
        &self,
        wanted: &(dyn Fn(Head) -> bool + Sync),
        keep: Keep<'_>,
        watch: &(dyn Fn(u64, u64) -> ControlFlow<()> + Sync),
    ) -> Result<(), RestoreError> {
        let bits = self.table.manifest().bits;
        if bits < self.range_bits.get() {
            return Ok(());
        }
        let stretches = (self.table.manifest().losing >> STRETCH_LOSING_BITS).max(1);
        let stretch_bits = bits - stretches.ilog2();
        let stretch_bits = stretch_bits.clamp(self.range_bits.get(), STRETCH_BITS_MAX);
        let stretches = 1_usize << (bits - stretch_bits);
        let all = 2 * self.table.manifest().stored;
        let done = AtomicU64::new(0);
        let tell = |words: usize| {
            let before = done.fetch_add(words as u64, Ordering::Relaxed);
            match watch(before + words as u64, all) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(RestoreError::Stopped),
            }
        };

        let edges = Edges::new(bits, self.range_bits);
        let stored = self.table.manifest().stored;
        let keeps = stretch_bits > KEPT_BITS_MIN && self.memory_bytes / BOTH_BYTES >= stored;
        let room = self.memory_bytes / WAITING_BYTES / self.threads as u64;
        let spills = Mutex::new(Vec::new());
        let shards = &self.table.manifest().shards;
        let kept: Vec<OnceLock<KeptWords>> = shards.iter().map(|_| OnceLock::new()).collect();
        each(shards.len(), self.threads, |numbers| {
            let mut spill = Spill::new(self.scratch, stretches, stretch_bits, room)?;
            for number in numbers {
                let own = self.read_shard(number, &edges, &mut spill, &tell)?;
                if keeps {
                    kept[number].get_or_init(|| own);
                }
            }
            spills.lock().push(spill);
            Ok(())
        })?;

        let spills = spills.into_inner();
        let per_stretch = 1_u64 << (stretch_bits - self.range_bits.get());
        let losing_bytes = self.table.manifest().losing / stretches as u64 * TOGETHER_BYTES;
        let fit = self.memory_bytes / (Stretch::bytes(stretch_bits) + losing_bytes);
        let threads = usize::try_from(fit).map_or(self.threads, |fit| self.threads.min(fit));
        each(stretches, threads, |numbers| {
            let mut stretch = Stretch::new(stretch_bits);
            for number in numbers {
                let first = number as u64 * per_stretch;
                let heads = (first..first + per_stretch).map(Head);
                let heads: Vec<Head> = heads.filter(|&head| wanted(head)).collect();
                if heads.is_empty() {
                    continue;
                }
                let span = (number as u64) << stretch_bits..(number as u64 + 1) << stretch_bits;
                for spill in &spills {
                    spill.add_to(&mut stretch, number)?;
                }
                if keeps {
                    let of_shards = shards.iter().zip(&kept);
                    let theirs = of_shards
                        .filter(|(shard, _)| shard.first < span.end && span.start <= shard.last);
                    let kept = theirs.filter_map(|(_, kept)| kept.get());
                    tell(kept.map(|kept| kept.add_to(&mut stretch, &span)).sum())?;
                } else {
                    self.table.frames_in(&span, |words, _| {
                        let words = words.into_iter().filter(|word| span.contains(word));
                        tell(
                            words
                                .map(|word| stretch.insert(index_in_stretch(word, stretch_bits)))
                                .count(),
                        )
                    })?;
                }
                let losing = stretch.drain();
                let mut layers = BTreeMap::<u32, Records>::new();
                for head in heads {
                    let start = (head.0 - first) << (self.range_bits.get() - 1);
                    let losing = within(&losing, start..start + self.range_bits.positions());
                    if !are_possible(losing, self.range_bits) {
                        let file = self.table.folder().join(MANIFEST_NAME);
                        let what =
                            format!("it has more losing positions than range {head} can have");
                        return Err(TableError::Damaged { file, what }.into());
                    }
                    let range = Range {
                        head,
                        losing: IndexBuckets::from_ascending(losing, start),
                        edges: edges.of(head),
                    };
                    let record = range::encode(&range, self.range_bits);
                    layers.entry(head.layer()).or_default().push(record);
                }
                keep(layers).map_err(RestoreError::Keep)?;
            }
            Ok(())
        })
    }

    /// Reads a shard: notes the edges that its words and their mirror images set, and puts the mirror images where they
    /// wait. Returns the words.
    fn read_shard(
        &self,
        number: usize,
        edges: &Edges,
        spill: &mut Spill,
        tell: &dyn Fn(usize) -> Result<(), RestoreError>,
    ) -> Result<KeptWords, RestoreError> {
        let shard = &self.table.manifest().shards[number];
        let file = || self.table.folder().join(&shard.name);
        let (mut leaf, mut own) = (LeafBuilder::new(), KeptWords::default());
        self.table
            .frames_in(&(shard.first..shard.last + 1), |words, _| {
                let words = sort_words(words);
                leaf.push(&words);
                own.push(&words);
                spill.reserve(words.len() as u64)?;
                for &word in &words {
                    let mirror = Word::new(word).mirror().get();
                    if mirror < word {
                        let what = format!(
                            "it lists the word {word}, whose mirror image has a smaller one, {mirror}"
                        );
                        return Err(TableError::damaged(file(), what).into());
                    }
                    edges.add(word);
                    edges.add(mirror);
                    spill.push(mirror);
                }
                tell(words.len())
            })?;
        // The fingerprint of the table is made of these digests.
        if leaf.finish().digest != shard.words_sha256 {
            let what = "its words are not those of the fingerprint";
            return Err(TableError::damaged(file(), what).into());
        }
        Ok(own)
    }
}

/// Calls `work` in at most `threads` threads, but at least one, and hands the numbers below `count` out to them. After
/// an error no more numbers are handed out.
fn each(
    count: usize,
    threads: usize,
    work: impl Fn(&mut dyn Iterator<Item = usize>) -> Result<(), RestoreError> + Sync,
) -> Result<(), RestoreError> {
    let next = AtomicUsize::new(0);
    let one = || {
        let all = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let done = work(&mut all.take_while(|&number| number < count));
        if done.is_err() {
            next.store(count, Ordering::Relaxed);
        }
        done
    };
    std::thread::scope(|scope| {
        let threads = (0..threads.min(count).max(1)).map(|_| scope.spawn(one));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().try_for_each(|thread| {
            let end = thread.join();
            end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

struct Edges {
    range_bits: u32,
    /// At index h, the edges of the range with head h.
    bits: Vec<AtomicU64>,
}

impl Edges {
    fn new(bits: u32, range_bits: RangeBits) -> Edges {
        Edges {
            range_bits: range_bits.get(),
            bits: (0..range_bits.head_count(bits))
                .map(|_| AtomicU64::new(0))
                .collect(),
        }
    }

    /// Sets the edges whose path has this losing word. There are none unless the word without its last 0s is a head.
    fn add(&self, word: u64) {
        let zeros = word.trailing_zeros();
        let head = word.checked_shr(zeros);
        if head.and_then(|head| self.at(head)).is_none() {
            return;
        }
        let mut trimmed = word;
        while let Some(edges) = self.at(trimmed) {
            edges.fetch_or(1, Ordering::Relaxed);
            trimmed = 2 * trimmed + 1;
        }
        for zeros in 1..=zeros.min(self.range_bits) {
            if let Some(edges) = self.at(word >> zeros) {
                edges.fetch_or(1 << zeros, Ordering::Relaxed);
            }
        }
    }

    fn at(&self, head: u64) -> Option<&AtomicU64> {
        self.bits.get(usize::try_from(head).ok()?)
    }

    fn of(&self, head: Head) -> u64 {
        let edges = self.at(head.0).expect("a range of the table");
        edges.load(Ordering::Relaxed)
    }
}

/// Whether a range can have these losing positions: a table that somebody made up may have too many.
fn are_possible(losing: &[u32], range_bits: RangeBits) -> bool {
    let all = (1 << BUCKET_BITS) - 1;
    let ends = losing.iter().skip(all as usize);
    let is_full = losing
        .iter()
        .zip(ends)
        .any(|(first, last)| last - first == all);
    losing.len() as u64 <= losing_max(range_bits) && !is_full
}

/// The numbers that are in `span`, of a list that ascends.
fn within(numbers: &[u32], span: Span<u64>) -> &[u32] {
    let before = |bound: u64| numbers.partition_point(|&number| u64::from(number) < bound);
    &numbers[before(span.start)..before(span.end)]
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a stretch has 2^31 positions at the most"
)]
fn low(number: u64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests;
