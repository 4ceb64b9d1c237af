//! Shards are those of all words in one list, whatever the cuts.

use std::collections::BTreeMap;

use chomp_plan::Finders;
use chomp_table::Range;
use chomp_table::fingerprint::LeafBuilder;
use chomp_table::range::IndexBuckets;
use chomp_table::{Digest, RangeSummary};
use chomp_testing::definition;

use super::*;
use crate::part::PlacedRange;

const TABLE: u64 = 3;

fn range_bits() -> RangeBits {
    RangeBits::new(12).unwrap()
}

/// A table of `bits` bits whose losing words are `words`, with its ranges.
#[derive(Debug)]
struct Table {
    bits: u32,
    ranges: BTreeMap<Head, (Range, u64)>,
    words: Vec<u64>,
}

impl Table {
    fn new(bits: u32, words: Vec<u64>) -> Table {
        let range = |head: u64| {
            let lows = words.iter().filter(|&&word| word >> 12 == head);
            let losing = lows.map(|word| u32::try_from((word & 0xfff) / 2).unwrap());
            let stored = words
                .iter()
                .filter(|&&word| word >> 12 == head && is_stored(word));
            let range = Range {
                head: Head(head),
                losing: losing.collect(),
                edges: 0,
            };
            (Head(head), (range, stored.count() as u64))
        };
        Table {
            bits,
            ranges: (0..range_bits().head_count(bits)).map(range).collect(),
            words,
        }
    }

    /// The table of the game.
    fn real(bits: u32) -> Table {
        let losing = definition::losing(bits.max(12));
        let words = (0..losing.len()).filter(|&index| losing[index]);
        Table::new(bits, words.map(|index| index as u64 * 2).collect())
    }

    /// A table in runs: none, the stored, the others or all words of a run may be losing, and one in `one_in` is.
    fn made_up(bits: u32, one_in: u64, seed: u64) -> Table {
        let mut rng = chomp_table::rng::Rng(seed);
        let mut kind = 0;
        let words = (1..1_u64 << (bits - 1))
            .map(|half| half * 2)
            .filter(|&word| {
                if rng.once_in(100) {
                    kind = rng.below(4);
                }
                let fits = match kind {
                    0 => false,
                    1 => is_stored(word),
                    2 => !is_stored(word),
                    _ => true,
                };
                fits && rng.once_in(one_in)
            });
        Table::new(bits, words.collect())
    }

    fn ledger(&self) -> Ledger {
        self.ledger_without(None)
    }

    /// The ledger, but for one range.
    fn ledger_without(&self, missing: Option<Head>) -> Ledger {
        let mut ledger = Ledger::new(TABLE, range_bits());
        let ranges = self
            .ranges
            .iter()
            .filter(|(head, _)| Some(**head) != missing);
        for (&head, (range, stored)) in ranges {
            let summary = RangeSummary {
                head,
                count: range.losing.len() as u64,
                stored: *stored,
                digest: Digest([0; 32]),
            };
            let placed = PlacedRange {
                summary,
                offset: 0,
                length: 0,
            };
            ledger.add(1, 1, &Finders::default(), &placed);
        }
        ledger
    }

    /// Where shard `number` begins: the first range with stored word number `number` · `words`; in `other`
    /// form the range with the word before.
    fn start(&self, number: u32, words: u64, other: bool) -> (u32, Head, u64) {
        let mut skip = u64::from(number) * words;
        for (&head, &(_, stored)) in &self.ranges {
            let here = skip < stored || (other && skip > 0 && skip == stored);
            if here {
                return (number, head, skip);
            }
            skip -= stored;
        }
        assert_eq!(number, 0, "there is no such shard");
        (0, Head(0), 0)
    }

    fn merge(&self, size: ShardSize, number: u32, other: bool) -> (ShardSummary, Option<Vec<u8>>) {
        let words = size.shard_words as u64;
        let start = self.start(number, words, other);
        let bounds = ShardBounds::new(&self.ledger(), self.bits, words, start).unwrap();
        let mut merger = Merger::new(self.bits, range_bits(), size, bounds);
        while let Some(head) = merger.next_head() {
            assert!(head < bounds.end);
            push(&mut merger, &self.ranges[&head]).unwrap();
        }
        let all = Head(range_bits().head_count(self.bits));
        assert_eq!(merger.next, if bounds.last { all } else { bounds.end });
        merger.finish().unwrap()
    }

    /// All shards, from the list of all words.
    fn slowly(&self, size: ShardSize) -> Vec<(ShardSummary, Option<Vec<u8>>)> {
        let stored: Vec<u64> = self
            .words
            .iter()
            .copied()
            .filter(|&word| is_stored(word))
            .collect();
        let shards = stored.chunks(size.shard_words).len().max(1);
        let in_table = |word: u64| Word::new(word).bits() <= self.bits;
        let shard = |number: usize| {
            let words = stored.iter().skip(number * size.shard_words);
            let words = words.take(size.shard_words).copied();
            let words: Vec<u64> = words.filter(|&word| in_table(word)).collect();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut sums = BTreeMap::<u32, (u64, u64)>::new();
            let mut before = 0;
            for &word in &self.words {
                let of = (before / size.shard_words).min(shards - 1);
                before += usize::from(is_stored(word));
                if of == number && in_table(word) {
                    let (losing, sum) = sums.entry(Word::new(word).bits()).or_default();
                    *losing += 1;
                    *sum = sum.wrapping_add(check_sum(word));
                }
            }
            let (info, written) = (!words.is_empty())
                .then(|| {
                    let mut writer = ShardWriter::new(number, size);
                    assert!(writer.push(&words).is_empty());
                    let (info, _, bytes) = writer.finish();
                    (info, bytes)
                })
                .unzip();
            let mut leaf = LeafBuilder::new();
            leaf.push(&words);
            let leaf = leaf.finish();
            assert_eq!(
                (leaf.words, leaf.digest),
                (words.len() as u64, Digest::of(&bytes))
            );
            let sums = sums
                .into_iter()
                .map(|(bits, (losing, mirror_sum))| LengthSums {
                    bits,
                    losing,
                    mirror_sum,
                });
            let summary = ShardSummary {
                number: u32::try_from(number).unwrap(),
                shard: info,
                leaf,
                sums: sums.collect(),
            };
            (summary, written)
        };
        (0..shards).map(shard).collect()
    }

    fn check(&self, size: ShardSize) {
        for (number, expected) in (0..).zip(self.slowly(size)) {
            for other in [false, true] {
                let found = self.merge(size, number, other);
                assert!(found == expected, "{} bits, {size:?}: {found:?}", self.bits);
            }
        }
    }
}

fn is_stored(word: u64) -> bool {
    Word::new(word) <= Word::new(word).mirror()
}

/// The term of a word in the check sum, as the module describes it.
fn check_sum(word: u64) -> u64 {
    let mirror = Word::new(word).mirror().get();
    match word.cmp(&mirror) {
        std::cmp::Ordering::Less => mix(word),
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => 0_u64.wrapping_sub(mix(mirror)),
    }
}

/// A shard of this number that has words of the first ranges, so many of them.
fn whole_bounds(number: u32, ranges: u64, last: bool) -> ShardBounds {
    ShardBounds {
        number,
        head: Head(0),
        skip: 0,
        end: Head(ranges),
        last,
    }
}

fn size(frame_words: usize, shard_words: usize) -> ShardSize {
    ShardSize {
        frame_words,
        shard_words,
    }
}

fn push(merger: &mut Merger, (range, stored): &(Range, u64)) -> Result<(), MergeError> {
    merger.push(range.head, &range.losing, *stored)
}

#[test]
fn shards_are_those_of_all_words_in_one_list() {
    let table = Table::real(16);
    let stored = table.slowly(ShardSize::PUBLISHED)[0].0.leaf.words;
    let stored = usize::try_from(stored).unwrap();
    assert!(stored > 150, "{stored}");
    for words in [1, 2, 7, 50, stored - 1, stored, stored + 1] {
        table.check(size(3, words));
    }
    table.check(size(64, stored / 2));
}

#[test]
fn whole_tables_have_no_word_without_its_mirror_image() {
    for words in [5, 40, 1 << 20] {
        let table = Table::real(16);
        let mut sums = BTreeMap::<u32, (u64, u64)>::new();
        for (summary, _) in table.slowly(size(4, words)) {
            for sum in summary.sums {
                let (losing, mirror_sum) = sums.entry(sum.bits).or_default();
                *losing += sum.losing;
                *mirror_sum = mirror_sum.wrapping_add(sum.mirror_sum);
            }
        }
        assert!(sums.values().all(|&(_, mirror_sum)| mirror_sum == 0));
        let losing: u64 = sums.values().map(|&(losing, _)| losing).sum();
        assert_eq!(losing, table.words.len() as u64);
    }
}

#[test]
fn ranges_may_have_no_words_or_none_that_are_stored() {
    for seed in 0..40 {
        let table = Table::made_up(15, 1 + seed % 5 * 7, seed);
        for words in [1 + usize::try_from(seed).unwrap() * 3, 100, 1000] {
            if table.words.len() / words < 300 {
                table.check(size(10, words));
            }
        }
    }
    Table::new(14, Vec::new()).check(size(4, 10));
    Table::new(14, vec![0b10_1010_1010_1010]).check(size(4, 10));
}

/// Such a table has one range, with words that are longer than those of the table.
#[test]
fn longer_words_than_those_of_the_table_are_left_out() {
    for bits in [0, 1, 2, 5, 11, 12] {
        let table = Table::real(bits);
        for words in [1, 3, 8, 1000] {
            table.check(size(2, words));
        }
        let (whole, _) = table.merge(size(4, 1000), 0, false);
        let of_table = |word: &&u64| Word::new(**word).bits() <= bits && is_stored(**word);
        let words = table.words.iter().filter(of_table).count();
        assert_eq!(whole.leaf.words, words as u64);
        assert_eq!(whole.shard.is_none(), words == 0);
        // Only of those it is not known before how many words are left.
        let bounds = whole_bounds(0, 1, false);
        let mut merger = Merger::new(bits, range_bits(), size(4, 1000), bounds);
        push(&mut merger, &table.ranges[&Head(0)]).unwrap();
        assert_eq!(merger.finish().is_ok(), bits < 12);
    }
}

#[test]
fn buckets_make_no_difference() {
    let bits = RangeBits::new(18).unwrap();
    let lows: Vec<u16> = (0..=u16::MAX).step_by(77).collect();
    let count = u32::try_from(lows.len()).unwrap();
    let contents = |head: u64| {
        let words = (0..2_u64).flat_map(|bucket| {
            let word = move |&low: &u16| head << 18 | bucket << 17 | u64::from(low) << 1;
            lows.iter().map(word).collect::<Vec<u64>>()
        });
        let words: Vec<u64> = words.collect();
        let stored = words.iter().filter(|&&word| is_stored(word)).count();
        let range = Range {
            head: Head(head),
            losing: IndexBuckets::new([&lows[..], &lows[..]].concat(), vec![0, count, 2 * count]),
            edges: 0,
        };
        (words, (range, stored as u64))
    };
    let (first, second) = (contents(0), contents(1));
    let all: Vec<u64> = [first.0, second.0].concat();
    let bounds = whole_bounds(0, 2, true);
    let mut merger = Merger::new(19, bits, ShardSize::PUBLISHED, bounds);
    push(&mut merger, &first.1).unwrap();
    push(&mut merger, &second.1).unwrap();
    let (made, bytes) = merger.finish().unwrap();
    let kept: Vec<u64> = all.into_iter().filter(|&word| is_stored(word)).collect();
    let mut writer = ShardWriter::new(0, ShardSize::PUBLISHED);
    assert!(writer.push(&kept).is_empty());
    assert_eq!(bytes, Some(writer.finish().2));
    assert_eq!(made.leaf.words, kept.len() as u64);
}

#[test]
fn what_does_not_fit_is_refused() {
    let table = Table::real(14);
    let ledger = table.ledger();
    let stored: u64 = table.ranges.values().map(|(_, stored)| stored).sum();
    let beyond = ShardBounds::new(&ledger, 14, 10, (9, Head(0), stored));
    assert_eq!(beyond, Err(MergeError::Length { number: 9 }));
    let without = table.ledger_without(Some(Head(1)));
    let missing = ShardBounds::new(&without, 14, 10, (1, Head(2), 0));
    assert_eq!(missing, Err(MergeError::Missing { head: Head(1) }));

    let merger = |words: usize| {
        let words = size(4, words);
        let bounds = ShardBounds::new(&ledger, 14, words.shard_words as u64, (0, Head(0), 0));
        Merger::new(14, range_bits(), words, bounds.unwrap())
    };
    let mut wrong = table.ranges[&Head(0)].clone();
    wrong.1 += 1;
    let (said, found) = (wrong.1, wrong.1 - 1);
    let error = push(&mut merger(1000), &wrong);
    assert_eq!(
        error,
        Err(MergeError::Stored {
            head: Head(0),
            said,
            found
        })
    );
    // The words after the last one that is needed are checked too.
    assert!(matches!(
        push(&mut merger(1), &wrong),
        Err(MergeError::Stored { .. })
    ));

    let mut early = merger(1000);
    push(&mut early, &table.ranges[&Head(0)]).unwrap();
    assert_eq!(
        early.finish().unwrap_err(),
        MergeError::Length { number: 0 }
    );
    let bounds = whole_bounds(2, range_bits().head_count(14), true);
    let mut crowded = Merger::new(14, range_bits(), size(1, 2), bounds);
    let crowded = push(&mut crowded, &table.ranges[&Head(0)]);
    assert_eq!(crowded, Err(MergeError::Length { number: 2 }));
    let mut scarce = Merger::new(
        14,
        range_bits(),
        size(4, 1000),
        ShardBounds {
            last: false,
            ..bounds
        },
    );
    for range in table.ranges.values() {
        push(&mut scarce, range).unwrap();
    }
    assert_eq!(
        scarce.finish().unwrap_err(),
        MergeError::Length { number: 2 }
    );
}
