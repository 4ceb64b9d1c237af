//! The audit: the coordinator checks for itself whether what it was sent is true.
//!
//! A [spot check](Audit::spot_check) decides some words of a result by the definition of W, from
//! the range that holds them and from committed ranges. Which words these are follows from a
//! seed that workers do not know. It looks at one range in [`RANGES_PER_CHECK`] on average, at one at
//! least in each of the first [`FIRST_SUBMISSIONS`] submissions of a worker, and at
//! [`CHECKS_MAX`] in any at the most; of such a range at
//!
//! * [`LOSING_WORDS`] words that it claims to be losing: each move must lead to a winning one;
//! * [`WINNING_WORDS`] other words, half of them near claimed losing ones: some move must lead to
//!   a losing one;
//! * its first word and its edges, which are claims about shorter words;
//! * the mirror images of all losing words of one committed range, if one is found that has some
//!   in this range: they must be losing too. So words that were left out are found.
//!
//! Reading sources is what this costs. A range with more than [`SOURCES`] of them is checked
//! against all only so often that [`SOURCES`] are read on average, and else against as many of
//! them: moves to other sources then go unseen, so that losing words and edges may still be
//! refuted, and mirror images. Whatever is refuted is wrong, if the committed ranges are right.
//!
//! When results disagree, [`Audit::evaluate`] is the arbiter.
//!
//! All of this is work for a CPU between reads: callers choose a thread where that does no harm.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use chomp_kernel::{Evaluator, Isa, MissingSource, Source};
use chomp_table::format::FormatError;
use chomp_table::range::{self, RangeSummary};
use chomp_table::sources::sources;
use chomp_table::word::{mask, sort_segment};
use chomp_table::{Head, Range, RangeBits, Word};
use lru::LruCache;

use crate::chance::Chance;
use crate::plan::WorkerId;
use crate::store::{Store, StoreError};

/// One range of so many is checked: a small part of the work of evaluating them.
const RANGES_PER_CHECK: usize = 16;
/// Of so many submissions of a worker each is checked: what is broken is mostly so from the start.
const FIRST_SUBMISSIONS: u32 = 16;
/// The workers of which that is known. One that was forgotten is new again.
const WORKERS_KNOWN: NonZeroUsize = NonZeroUsize::new(1 << 12).unwrap();
/// The most ranges of a submission that are checked: thousands of tiny ones would take long.
const CHECKS_MAX: usize = 2;
/// The claimed losing words of a range that are checked. Looking up all moves of one takes tens
/// of microseconds.
const LOSING_WORDS: usize = 8;
/// The other words of a range that are checked.
const WINNING_WORDS: usize = 32;
/// How far from a claimed losing word, in positions, another is near.
const NEAR: u64 = 8;
/// So many words are tried to find a mirror image in a committed range.
const MIRRORS_TRIED: usize = 16;
/// The sources that a check reads, on average. Each takes some tenths of a millisecond with the
/// range bits of large tables.
const SOURCES: usize = 4;
/// The decoded sources that are kept for later checks.
const CACHE_BYTES_MAX: usize = 16 << 20;

/// Why a result is not found to be right.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// It is wrong.
    #[error(
        "range {head} was computed wrongly: it has the word {} as {}",
        word.get(),
        if *claimed_losing { "losing, and it is winning" } else { "winning, and it is losing" }
    )]
    Refuted {
        /// The range.
        head: Head,
        /// A word of which it says what is not so.
        word: Word,
        /// Whether it says that the word is losing.
        claimed_losing: bool,
    },
    /// A source is not committed, so it is too early to tell.
    #[error("range {head} is needed to check a result and is not committed")]
    NotReady {
        /// The source.
        head: Head,
    },
    /// A record is no range, though its digest was found right.
    #[error("the record of range {head} is wrong")]
    Record {
        /// The range.
        head: Head,
        /// What is wrong with it.
        source: FormatError,
    },
    /// The store failed, or is damaged.
    #[error(transparent)]
    Store(StoreError),
}

/// Checks results against the committed ranges of a store.
#[derive(Debug)]
pub struct Audit {
    store: Arc<Store>,
    chance: Mutex<Chance>,
    /// The submissions of each worker so far, as far as they matter.
    submissions: Mutex<LruCache<WorkerId, u32>>,
    cache: Mutex<Cache>,
}

/// Decoded sources, the least recently used forgotten first.
#[derive(Debug)]
struct Cache {
    ranges: LruCache<Head, Arc<Range>>,
    bytes: usize,
}

/// Ranges at hand.
#[derive(Debug, Default)]
struct Known(HashMap<Head, Arc<Range>>);

impl Known {
    fn find(&self, head: Head) -> Option<&Range> {
        self.0.get(&head).map(Arc::as_ref)
    }
}

impl Audit {
    /// An audit of results for `store`. Whoever knows `seed` knows what will be checked: take it
    /// from the randomness of the system.
    pub fn new(store: Arc<Store>, seed: u64) -> Audit {
        Audit {
            store,
            chance: Mutex::new(Chance(seed)),
            submissions: Mutex::new(LruCache::new(WORKERS_KNOWN)),
            cache: Mutex::new(Cache {
                ranges: LruCache::unbounded(),
                bytes: 0,
            }),
        }
    }

    /// Checks some words of a submission of `worker`, whose form and digests were found right. Its
    /// memory is that of the sources of one range.
    ///
    /// # Errors
    ///
    /// [`AuditError::Refuted`] if one is wrong; the others if that cannot be told.
    pub async fn spot_check(
        &self,
        worker: WorkerId,
        records: &[(RangeSummary, Bytes)],
    ) -> Result<(), AuditError> {
        let checks = self.checks(worker, records.len());
        let chosen = some(&mut self.chance(), records.len(), checks);
        for (summary, record) in chosen.into_iter().map(|index| &records[index]) {
            let range = self.decode(summary.head, record)?;
            self.check_range(range).await?;
        }
        Ok(())
    }

    /// How many of so many ranges to check.
    fn checks(&self, worker: WorkerId, ranges: usize) -> usize {
        let mut submissions = self.submissions();
        let so_far = submissions.get_or_insert_mut(worker, || 0);
        let least = usize::from(*so_far < FIRST_SUBMISSIONS);
        *so_far += u32::from(*so_far < FIRST_SUBMISSIONS);
        drop(submissions);
        let chance = below(&mut self.chance(), RANGES_PER_CHECK);
        let share = (ranges + chance) / RANGES_PER_CHECK;
        share.max(least).min(CHECKS_MAX)
    }

    async fn check_range(&self, range: Range) -> Result<(), AuditError> {
        let range_bits = self.store.range_bits();
        let mut heads = sources(range.head, range_bits);
        let (complete, words) = {
            let mut chance = self.chance();
            let count = heads.len();
            let complete = count <= SOURCES || below(&mut chance, count) < SOURCES;
            if !complete {
                let chosen = some(&mut chance, count, SOURCES);
                heads = chosen.into_iter().map(|index| heads[index]).collect();
            }
            (complete, words(&mut chance, &range, range_bits, complete))
        };
        let sources = self.load(&heads).await?;
        let claims = Claims {
            range,
            range_bits,
            sources,
        };
        claims.check(&words, complete)?;
        match self.mirror_of(&claims.range) {
            Some(mirror) => claims.check_mirror(&*self.load_one(mirror).await?),
            None => Ok(()),
        }
    }

    /// A committed range that has mirror images of words of `range`, if one is found soon.
    fn mirror_of(&self, range: &Range) -> Option<Head> {
        let range_bits = self.store.range_bits();
        let mut chance = self.chance();
        let mut heads = (0..MIRRORS_TRIED).map(|_| {
            let index = chance.below(range_bits.positions());
            Head::of(range.head.word(index, range_bits).mirror(), range_bits)
        });
        heads.find(|&head| head != range.head && self.store.is_committed(head))
    }

    /// Evaluates a range from the committed ones.
    ///
    /// # Errors
    ///
    /// [`AuditError::NotReady`] if one of its sources is not committed; others if one cannot be
    /// read.
    pub async fn evaluate(&self, head: Head) -> Result<(RangeSummary, Bytes), AuditError> {
        let range_bits = self.store.range_bits();
        let mut known = HashMap::new();
        for head in sources(head, range_bits) {
            known.insert(head, Source::new(&*self.load_one(head).await?));
        }
        let range = Evaluator::new(range_bits, Isa::Portable)
            .evaluate(head, &known)
            .map_err(|MissingSource(head)| AuditError::NotReady { head })?;
        let (summary, record) = range::encode(&range, range_bits);
        Ok((summary, record.into()))
    }

    async fn load(&self, heads: &[Head]) -> Result<Known, AuditError> {
        let mut known = Known::default();
        for &head in heads {
            known.0.insert(head, self.load_one(head).await?);
        }
        Ok(known)
    }

    async fn load_one(&self, head: Head) -> Result<Arc<Range>, AuditError> {
        let cached = self.cache().ranges.get(&head).cloned();
        if let Some(range) = cached {
            return Ok(range);
        }
        let record = self.store.read_record(head).await.map_err(|error| {
            if matches!(error, StoreError::Missing { .. }) {
                AuditError::NotReady { head }
            } else {
                AuditError::Store(error)
            }
        })?;
        let range = Arc::new(self.decode(head, &record)?);
        self.cache().insert(Arc::clone(&range));
        Ok(range)
    }

    fn decode(&self, head: Head, record: &[u8]) -> Result<Range, AuditError> {
        range::decode_known(record, self.store.range_bits())
            .map(|(_, range)| range)
            .map_err(|source| AuditError::Record { head, source })
    }

    // The locks are held for single operations: a panic leaves nothing half done.
    fn submissions(&self) -> MutexGuard<'_, LruCache<WorkerId, u32>> {
        let submissions = self.submissions.lock();
        submissions.unwrap_or_else(PoisonError::into_inner)
    }

    fn chance(&self) -> MutexGuard<'_, Chance> {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn insert(&mut self, range: Arc<Range>) {
        let bytes = |range: &Range| size_of_val(&range.losing[..]) + size_of::<Range>() + 128;
        self.bytes += bytes(&range);
        if let Some(old) = self.ranges.put(range.head, range) {
            self.bytes -= bytes(&old);
        }
        while self.bytes > CACHE_BYTES_MAX {
            let Some((_, old)) = self.ranges.pop_lru() else {
                return;
            };
            self.bytes -= bytes(&old);
        }
    }
}

/// A number below `limit`.
fn below(chance: &mut Chance, limit: usize) -> usize {
    usize::try_from(chance.below(limit as u64)).expect("below a usize")
}

/// `count` different numbers below `limit`, or all of them.
fn some(chance: &mut Chance, limit: usize, count: usize) -> BTreeSet<usize> {
    let mut some = BTreeSet::new();
    while some.len() < count.min(limit) {
        some.insert(below(chance, limit));
    }
    some
}

/// The indices of the words of `range` to check; those claimed winning only where all sources
/// will be at hand.
fn words(
    chance: &mut Chance,
    range: &Range,
    range_bits: RangeBits,
    complete: bool,
) -> BTreeSet<u64> {
    let losing = |at: usize| u64::from(range.losing[at]);
    let claimed = some(chance, range.losing.len(), LOSING_WORDS);
    let mut words: BTreeSet<u64> = claimed.into_iter().map(losing).collect();
    words.insert(0);
    if complete {
        let positions = range_bits.positions();
        for number in 0..WINNING_WORDS {
            let index = if number % 2 == 0 && !range.losing.is_empty() {
                let near = losing(below(chance, range.losing.len()));
                (near + positions + chance.below(2 * NEAR + 1) - NEAR) % positions
            } else {
                chance.below(positions)
            };
            words.insert(index);
        }
    }
    words
}

/// What a range claims, and the sources at hand to check it.
#[derive(Debug)]
struct Claims {
    range: Range,
    range_bits: RangeBits,
    sources: Known,
}

impl Claims {
    /// Checks the words at `indices`, and the edges. `complete` says that all sources are at hand.
    fn check(&self, indices: &BTreeSet<u64>, complete: bool) -> Result<(), AuditError> {
        for &index in indices {
            let claimed_losing = has(&self.range, index);
            if (claimed_losing || complete) && self.is_refuted(index, claimed_losing) {
                return Err(self.refuted(self.path(index), claimed_losing));
            }
        }
        let b = self.range_bits.get();
        for x in 0..b {
            let path = self.path(0) | mask(b - x);
            let claimed_losing = self.range.edges >> x & 1 == 1;
            if self.known(Word::new(path)) == Some(!claimed_losing) {
                return Err(self.refuted(path, claimed_losing));
            }
        }
        Ok(())
    }

    /// Checks the words of the range whose mirror images are losing words of `mirror`.
    fn check_mirror(&self, mirror: &Range) -> Result<(), AuditError> {
        for &index in &mirror.losing {
            let word = mirror.head.word(index.into(), self.range_bits).mirror();
            if self.known_here(word) == Some(false) {
                return Err(self.refuted(word.get(), false));
            }
        }
        Ok(())
    }

    fn refuted(&self, path: u64, claimed_losing: bool) -> AuditError {
        AuditError::Refuted {
            head: self.range.head,
            word: Word::new(path),
            claimed_losing,
        }
    }

    fn path(&self, index: u64) -> u64 {
        self.range.head.0 << self.range_bits.get() | index << 1
    }

    /// Whether a claim is seen to be wrong, by the definition of W.
    fn is_refuted(&self, index: u64, claimed_losing: bool) -> bool {
        let path = self.path(index);
        if path == 0 {
            return claimed_losing;
        }
        let mut all_known = true;
        for next in moves(path) {
            match self.is_losing(next) {
                Some(true) => return claimed_losing,
                Some(false) => {}
                None => all_known = false,
            }
        }
        !claimed_losing && all_known
    }

    /// Whether the position of `path`, which a move from this range leads to, is losing; none if
    /// its source is not at hand.
    fn is_losing(&self, path: u64) -> Option<bool> {
        let b = self.range_bits.get();
        let head = Head(path >> b);
        if path & 1 == 0 || head == self.range.head {
            return self.known(Word::new(path));
        }
        // The move sorted all low bits: to 0s and then 1s, which are an edge of another range.
        let x = b - (path & mask(b)).count_ones();
        let source = self.sources.find(head)?;
        Some(source.edges >> x & 1 == 1)
    }

    /// Whether `word` is losing, if its range is at hand.
    fn known(&self, word: Word) -> Option<bool> {
        self.known_here(word).or_else(|| {
            let source = self.sources.find(Head::of(word, self.range_bits))?;
            Some(has(source, self.index(word)))
        })
    }

    /// Whether the range claims that `word` is losing; none if it is not a word of the range.
    fn known_here(&self, word: Word) -> Option<bool> {
        let here = Head::of(word, self.range_bits) == self.range.head;
        here.then(|| has(&self.range, self.index(word)))
    }

    fn index(&self, word: Word) -> u64 {
        (word.get() & mask(self.range_bits.get())) / 2
    }
}

fn has(range: &Range, index: u64) -> bool {
    u32::try_from(index).is_ok_and(|index| range.losing.binary_search(&index).is_ok())
}

/// The paths that the moves from `path` lead to, those that start at its end first: most of these
/// stay in the range of the path.
fn moves(path: u64) -> impl Iterator<Item = u64> {
    let starts = (1..u64::BITS).filter(move |start| path >> start & 1 == 1);
    starts.flat_map(move |start| {
        let ends = (0..start).filter(move |end| path >> end & 1 == 0);
        ends.map(move |end| sort_segment(path, start, end))
    })
}

#[cfg(test)]
mod tests;
