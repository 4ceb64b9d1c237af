//! The search for the ranges of which one is wrong, if a table contradicts itself.
//!
//! A position is losing if and only if its mirror image is. The two are mostly words of different ranges, which
//! different workers may have evaluated. So the counts and sums that publication compares show when words of one range
//! are wrong and their mirror images are not. The search then finds the ranges in two steps:
//!
//! 1. **A word without its mirror image.** For each losing word that is not its own mirror image, the smaller word of
//!    the pair is put into one of [`SUMS`] sums, by exclusive or. So two losing words that are mirror images of each
//!    other leave nothing, and a sum into which one word alone was put is that word.
//! 2. **Down to the cause.** The words that moves from this word lead to are compared with their mirror images too. If
//!    one of them differs from its mirror image, the search goes on with that word: the area falls with each step. In
//!    the end all of them agree, and so determine whether the last word is losing. The range of that word or of its
//!    mirror image says otherwise. Either it does not follow from its sources, or it was misled by the
//!    [edges](chomp_table::Range::edges) of a source, which does not follow from its own sources: so the two ranges and
//!    their sources are suspect.
//!
//! So one of these ranges is wrong in itself. The referee evaluates them again, those of low layers first: no participant
//! is blamed for what it computed from wrong sources.

use std::collections::{BTreeSet, HashMap};

use chomp_table::range::decode;
use chomp_table::rng::mix;
use chomp_table::sources::sources;
use chomp_table::word::mask;
use chomp_table::{Head, Range, RangeBits, Word};

use crate::records::ReadError;
use crate::tools::Tools;

/// The number of sums is 2 to the power of this: 8 MiB.
const SUMS_BITS: u32 = 20;
/// The number of sums. If fewer words than this are wrong, some of them are alone in their sums.
const SUMS: usize = 1 << SUMS_BITS;
/// The most words without a mirror image that the search follows.
const WORDS_MAX: usize = 16;
/// The ranges that are read at a time.
const READ: usize = 32;
/// The most ranges in memory: some 100 MiB with 26 range bits.
const KEPT: usize = 128;

/// Sums of words in which mirror pairs cancel.
struct Sums(Vec<u64>);

impl Default for Sums {
    fn default() -> Sums {
        Sums(vec![0; SUMS])
    }
}

impl Sums {
    fn of(word: u64) -> usize {
        usize::try_from(mix(word) >> (u64::BITS - SUMS_BITS)).expect("fewer bits than a usize has")
    }

    fn put(&mut self, word: Word) {
        if word != word.mirror() {
            let smaller = word.representative().get();
            self.0[Sums::of(smaller)] ^= smaller;
        }
    }

    /// Words alone in their sum, and seldom others: the sum of several words mostly belongs to another sum.
    fn alone(&self, bits: u32) -> impl Iterator<Item = Word> {
        let alone = self.0.iter().enumerate();
        let alone = alone.filter(|&(at, &sum)| sum != 0 && Sums::of(sum) == at);
        let words = alone.map(|(_, &sum)| Word::new(sum));
        words.filter(move |word| word.bits() <= bits)
    }
}

/// Ranges of which one does not follow from its sources, ascending. None if the search finds no contradiction. All
/// ranges have to be done.
pub(crate) async fn suspects(tools: &Tools) -> Result<Vec<Head>, ReadError> {
    let mut search = Search {
        tools,
        range_bits: tools.range_bits(),
        kept: HashMap::new(),
    };
    for word in search.mirror_sum().await? {
        if !search.agree(word).await? {
            return search.descend(word).await;
        }
    }
    Ok(Vec::new())
}

struct Search<'a> {
    tools: &'a Tools,
    range_bits: RangeBits,
    kept: HashMap<Head, Range>,
}

impl Search<'_> {
    /// Some words whose ranges contradict those of their mirror images. A few other words may be among them.
    async fn mirror_sum(&self) -> Result<Vec<Word>, ReadError> {
        let mut sums = Sums::default();
        let rows = self
            .tools
            .done_ranges(self.range_bits.head_count(self.tools.bits));
        let decode = |record: &[u8]| decode(record, self.range_bits);
        for rows in rows.chunks(READ) {
            for range in self.tools.read_all(rows, decode).await? {
                let words = range.losing.indices();
                let words = words.map(|index| range.head.word(index.into(), self.range_bits));
                for word in words.filter(|word| word.bits() <= self.tools.bits) {
                    sums.put(word);
                }
            }
        }
        Ok(sums.alone(self.tools.bits).take(WORDS_MAX).collect())
    }

    /// The ranges on which it depends whether `word` or a word that it leads to is losing.
    async fn descend(&mut self, mut word: Word) -> Result<Vec<Head>, ReadError> {
        'words: loop {
            for (_, next) in word.moves() {
                if !self.agree(next).await? {
                    word = next;
                    continue 'words;
                }
            }
            let heads = [word, word.mirror()].map(|word| Head::of(word, self.range_bits));
            let of_sources = heads.map(|head| sources(head, self.range_bits));
            let all: BTreeSet<Head> = heads
                .into_iter()
                .chain(of_sources.into_iter().flatten())
                .collect();
            return Ok(all.into_iter().collect());
        }
    }

    async fn agree(&mut self, word: Word) -> Result<bool, ReadError> {
        Ok(self.says(word).await? == self.says(word.mirror()).await?)
    }

    /// Whether `word` is losing, as its range says.
    async fn says(&mut self, word: Word) -> Result<bool, ReadError> {
        let index = (word.get() & mask(self.range_bits.get())) / 2;
        let range = self.range(Head::of(word, self.range_bits)).await?;
        Ok(range.losing.contains(index))
    }

    async fn range(&mut self, head: Head) -> Result<&Range, ReadError> {
        if !self.kept.contains_key(&head) {
            if self.kept.len() >= KEPT {
                self.kept.clear();
            }
            let decode = |record: &[u8]| decode(record, self.range_bits);
            self.kept.insert(head, self.tools.read(head, decode).await?);
        }
        Ok(&self.kept[&head])
    }
}

#[cfg(test)]
mod tests;
