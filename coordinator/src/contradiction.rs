//! The search for the wrong range of a table that contradicts itself.
//!
//! A position is losing if and only if its mirror image is. The two are mostly words of different ranges, which
//! different workers may have evaluated. So the count of the table shows that words were changed without their mirror
//! images. The search then finds the range in two steps:
//!
//! 1. **A word without its mirror image.** Of each pair of losing words the smaller one is put into one of [`SUMS`]
//!    sums, by exclusive or, once for each of the two. So pairs leave nothing, and a sum into which one word alone was
//!    put is that word.
//! 2. **Down to the cause.** The words that moves lead to are looked at with their mirror images too. As long as two of
//!    these differ, the search goes on there: the area falls with each step. In the end all of them agree, so they say
//!    what the word is, by the definition of W; and a range that says otherwise is not what its sources make of it,
//!    unless it was misled by the [edges](chomp_table::Range::edges) of a source: then that source is the wrong range.
//!
//! So the range that is found is wrong in itself, and no participant is blamed for what it computed from wrong sources.

use std::collections::HashMap;

use chomp_store::RecordPlace;
use chomp_table::range::decode_range;
use chomp_table::rng::mix;
use chomp_table::word::{mask, sort_segment};
use chomp_table::{Head, Range, RangeBits, Word};

use crate::arbiter::ArbiterError;
use crate::tools::Tools;

/// The number of sums is 2 to the power of this: 8 MiB.
const SUMS_BITS: u32 = 20;
/// The number of sums. Of fewer lies than this some are the only one in their sum.
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

    /// Words that are alone in their sum, and seldom others: what several words add up to mostly belongs to another
    /// sum.
    fn alone(&self, bits: u32) -> impl Iterator<Item = Word> {
        let alone = self.0.iter().enumerate();
        let alone = alone.filter(|&(at, &sum)| sum != 0 && Sums::of(sum) == at);
        let words = alone.map(|(_, &sum)| Word::new(sum));
        words.filter(move |word| word.bits() <= bits)
    }
}

/// A range of the table that is not what its sources make of it, if the mirror images lead to one. All
/// ranges of the table have to be done.
///
/// # Errors
///
/// If the record of a range cannot be read.
pub(crate) async fn wrong_range(tools: &Tools) -> Result<Option<Head>, ArbiterError> {
    let mut search = Search {
        tools,
        range_bits: tools.range_bits(),
        kept: HashMap::new(),
    };
    for word in search.unpaired().await? {
        if search.agreed(word).await?.is_none()
            && let Some(head) = search.descend(word).await?
        {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

struct Search<'a> {
    tools: &'a Tools,
    range_bits: RangeBits,
    kept: HashMap<Head, Range>,
}

impl Search<'_> {
    /// Some words whose ranges contradict those of their mirror images. A few other words may be among them.
    async fn unpaired(&self) -> Result<Vec<Word>, ArbiterError> {
        let mut sums = Sums::default();
        let places = self.tools.places(self.range_bits.heads(self.tools.bits));
        for places in places.chunks(READ) {
            for range in self.read(places).await? {
                let words = range.losing.indices();
                let words = words.map(|index| range.head.word(index.into(), self.range_bits));
                for word in words.filter(|word| word.bits() <= self.tools.bits) {
                    sums.put(word);
                }
            }
        }
        Ok(sums.alone(self.tools.bits).take(WORDS_MAX).collect())
    }

    /// The range that makes `word` and its mirror image differ.
    async fn descend(&mut self, mut word: Word) -> Result<Option<Head>, ArbiterError> {
        loop {
            let mut is_losing = word != Word::EMPTY;
            let mut differing = None;
            for (_, next) in word.moves() {
                let Some(next_is_losing) = self.agreed(next).await? else {
                    differing = Some(next);
                    break;
                };
                is_losing &= !next_is_losing;
            }
            match differing {
                Some(next) => word = next,
                None => return self.culprit(word, is_losing).await,
            }
        }
    }

    /// The range that is wrong about `word` or its mirror image, or the range that misled it. `is_losing` says what the
    /// two words are.
    async fn culprit(&mut self, word: Word, is_losing: bool) -> Result<Option<Head>, ArbiterError> {
        for word in [word, word.mirror()] {
            if self.says(word).await? != is_losing {
                let head = Head::of(word, self.range_bits);
                let misled_by = self.wrong_edges(word).await?;
                return Ok(Some(misled_by.unwrap_or(head)));
            }
        }
        Ok(None)
    }

    /// A range whose edges differ from the words that they stand for. Only those edges are compared that the range of
    /// `word` reads to find out what `word` is.
    async fn wrong_edges(&mut self, word: Word) -> Result<Option<Head>, ArbiterError> {
        let b = self.range_bits.get();
        let own = Head::of(word, self.range_bits);
        let path = word.get();
        // Edges are for moves that end at the last bit, which is a 1 then.
        for start in (1..word.bits()).filter(|start| path >> start & 1 == 1) {
            let next = sort_segment(path, start, 0);
            let head = Head(next >> b);
            if head != own {
                let zeros = b - (next & mask(b)).count_ones();
                let edge = self.range(head).await?.edges >> zeros & 1 == 1;
                if edge != self.says(Word::new(next)).await? {
                    return Ok(Some(head));
                }
            }
        }
        Ok(None)
    }

    /// Whether `word` is losing, if the two ranges agree on `word` and its mirror image.
    async fn agreed(&mut self, word: Word) -> Result<Option<bool>, ArbiterError> {
        let losing = self.says(word).await?;
        Ok((self.says(word.mirror()).await? == losing).then_some(losing))
    }

    /// Whether `word` is losing, as its range says.
    async fn says(&mut self, word: Word) -> Result<bool, ArbiterError> {
        let index = (word.get() & mask(self.range_bits.get())) / 2;
        let range = self.range(Head::of(word, self.range_bits)).await?;
        Ok(range.losing.contains(index))
    }

    async fn range(&mut self, head: Head) -> Result<&Range, ArbiterError> {
        if !self.kept.contains_key(&head) {
            if self.kept.len() >= KEPT {
                self.kept.clear();
            }
            let place = self.tools.place(head)?;
            let mut read = self.read(&[(head, place)]).await?;
            self.kept.extend(read.pop().map(|range| (head, range)));
        }
        Ok(&self.kept[&head])
    }

    async fn read(&self, places: &[(Head, RecordPlace)]) -> Result<Vec<Range>, ArbiterError> {
        let decode = |record: &[u8]| decode_range(record, self.range_bits);
        self.tools.read_all(places, decode).await
    }
}

#[cfg(test)]
mod tests;
