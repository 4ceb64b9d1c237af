//! Checks whether what somebody else computed is true.
//!
//! A check decides some words of a range by the definition of W, from the range itself and from ranges
//! that are done. Which words these are follows from a seed that whoever computed it did not know:
//!
//! * [`LOSING_WORDS`] words that it claims to be losing: each move must lead to a winning one;
//! * [`WINNING_WORDS`] other words, half of them near claimed losing ones: some move must lead to
//!   a losing one;
//! * its first word and its edges, which are claims about shorter words;
//! * the mirror images of all losing words of one range that is done, if one is found that has some
//!   in this range: they must be losing too. So words that were left out are found.
//!
//! Reading sources is what this costs. A range with more than [`SOURCES`] of them is checked
//! against all only so often that [`SOURCES`] are read on average, and else against as many of
//! them: moves to other sources then go unseen, so that losing words and edges may still be
//! refuted, and mirror images. Whatever is refuted is wrong, if the ranges that are done are right.

use std::collections::BTreeSet;

use chomp_kernel::{Source, Sources};
use chomp_store::{Place, Placed};
use chomp_table::chance::Chance;
use chomp_table::range::{RangeSummary, decode_range, encode};
use chomp_table::sources::sources;
use chomp_table::word::{mask, sort_segment};
use chomp_table::{Head, Range, RangeBits, Word};

use crate::cache::TaskSources;
use crate::gather::{Gathered, Gatherer};
use crate::pool::Pool;
use crate::store::Store;
use crate::trouble::Trouble;

/// The claimed losing words of a range that are checked. Looking up all moves of one takes tens
/// of microseconds.
const LOSING_WORDS: usize = 8;
/// The other words of a range that are checked.
const WINNING_WORDS: usize = 32;
/// How far from a claimed losing word, in positions, another is near.
const NEAR: u64 = 8;
/// So many words are tried to find a mirror image in a range that is done.
const MIRRORS_TRIED: usize = 16;
/// The sources that a check reads, on average. Each takes some tenths of a millisecond with the
/// range bits of large tables.
const SOURCES: usize = 4;
/// The memory that a check takes for the range, in lengths of its record.
const MEMORY_PER_LENGTH: u64 = 6;

/// Checks the record of `range`, in the part of the lease `part`. Returns a word of which it says what is
/// not so, if one is found.
pub(crate) async fn check(
    (gatherer, pool): (&Gatherer, &Pool),
    (store, range_bits): (&Store, RangeBits),
    (range, part, seed): (Placed, u64, u64),
) -> Result<Option<Word>, Trouble> {
    let summary = range.summary;
    let mut draw = Draw::new(summary.head, range_bits, seed);
    let mirror = store.first_done(&draw.mirrors).await;
    let needed: BTreeSet<Head> = draw.sources.iter().copied().chain(mirror).collect();
    let besides = u64::from(range.length) * MEMORY_PER_LENGTH;
    let Gathered { sources, room } = gatherer.gather(store, needed, besides).await?;

    let place = Place {
        lease: part,
        offset: range.offset,
        length: range.length,
        replicas: 1,
        count: summary.count,
        stored: summary.stored,
        digest: summary.digest,
    };
    let record = store.record(summary.head, &place).await?;
    // It may be the store that lost it, so nobody lied.
    let record = record.map_err(|lost| Trouble::Failed(lost.reason))?;
    let verify = move |_: &mut _| verify(&record, summary, &mut draw, sources, mirror);
    let found = pool.run(false, verify).await?;
    drop(room);
    pool.note_check();
    Ok(found)
}

/// What is to be looked at.
#[derive(Debug)]
struct Draw {
    range_bits: RangeBits,
    chance: Chance,
    /// Whether these are all sources of the range.
    complete: bool,
    sources: Vec<Head>,
    /// Ranges that have mirror images of words of the range.
    mirrors: Vec<Head>,
}

impl Draw {
    fn new(head: Head, range_bits: RangeBits, seed: u64) -> Draw {
        let mut chance = Chance(seed);
        let mut heads = sources(head, range_bits);
        let count = heads.len();
        let complete = count <= SOURCES || below(&mut chance, count) < SOURCES;
        if !complete {
            let chosen = some(&mut chance, count, SOURCES);
            heads = chosen.into_iter().map(|index| heads[index]).collect();
        }
        let mirrors = (0..MIRRORS_TRIED).map(|_| {
            let index = chance.below(range_bits.positions());
            Head::of(head.word(index, range_bits).mirror(), range_bits)
        });
        let mirrors = mirrors.filter(|&mirror| mirror != head).collect();
        Draw {
            range_bits,
            complete,
            sources: heads,
            mirrors,
            chance,
        }
    }

    /// The indices of the words of `range` to check; those claimed winning only where all sources
    /// are at hand.
    fn words(&mut self, range: &Range) -> BTreeSet<u64> {
        let chance = &mut self.chance;
        let losing = |at: usize| u64::from(range.losing[at]);
        let claimed = some(chance, range.losing.len(), LOSING_WORDS);
        let mut words: BTreeSet<u64> = claimed.into_iter().map(losing).collect();
        words.insert(0);
        if self.complete {
            let positions = self.range_bits.positions();
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

/// A word of which a record says what is not so. The digest of the record is that of `summary`, so
/// what is wrong with it was so when it was written.
fn verify(
    record: &[u8],
    summary: RangeSummary,
    draw: &mut Draw,
    sources: TaskSources,
    mirror: Option<Head>,
) -> Option<Word> {
    let range_bits = draw.range_bits;
    let range = decode_range(record, range_bits).ok();
    let range = range.filter(|range| encode(range, range_bits).0 == summary);
    let Some(range) = range else {
        return Some(summary.head.word(0, range_bits));
    };
    let words = draw.words(&range);
    let claims = Claims {
        range,
        range_bits,
        sources,
    };
    let refuted = claims.refuted(&words, draw.complete);
    refuted.or_else(|| claims.refuted_by_mirror(claims.sources.find(mirror?)?))
}

/// What a range claims, and the sources at hand to check it.
#[derive(Debug)]
struct Claims {
    range: Range,
    range_bits: RangeBits,
    sources: TaskSources,
}

impl Claims {
    /// Checks the words at `indices`, and the edges. `complete` says that all sources are at hand.
    fn refuted(&self, indices: &BTreeSet<u64>, complete: bool) -> Option<Word> {
        let wrong = indices.iter().find(|&&index| {
            let claimed_losing = has(&self.range, index);
            (claimed_losing || complete) && self.is_refuted(index, claimed_losing)
        });
        if let Some(&index) = wrong {
            return Some(Word::new(self.path(index)));
        }
        let b = self.range_bits.get();
        (0..b).find_map(|x| {
            let word = Word::new(self.path(0) | mask(b - x));
            let claimed_losing = self.range.edges >> x & 1 == 1;
            (self.known(word) == Some(!claimed_losing)).then_some(word)
        })
    }

    /// Checks the words of the range whose mirror images are losing words of `mirror`.
    fn refuted_by_mirror(&self, mirror: &Source) -> Option<Word> {
        let losing = mirror.between(0..self.range_bits.positions());
        let mut words = losing.map(|index| mirror.head().word(index, self.range_bits).mirror());
        words.find(|&word| self.known_here(word) == Some(false))
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
        Some(source.edges() >> x & 1 == 1)
    }

    /// Whether `word` is losing, if its range is at hand.
    fn known(&self, word: Word) -> Option<bool> {
        self.known_here(word).or_else(|| {
            let source = self.sources.find(Head::of(word, self.range_bits))?;
            Some(source.contains(self.index(word)))
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
