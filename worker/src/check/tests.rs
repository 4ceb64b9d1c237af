//! Right results pass, wrong ones are refuted, as often as the constants promise.

use std::collections::BTreeMap;
use std::sync::Arc;

use chomp_kernel::{Isa, evaluate_table};
use chomp_table::definition;

use super::*;

/// Ranges with up to eight head bits: most have more sources than a check reads.
const BITS: u32 = 20;

fn range_bits() -> RangeBits {
    RangeBits::new(12).unwrap()
}

/// A table whose ranges are all done.
struct Finished(BTreeMap<Head, Range>);

fn finished(bits: u32) -> Finished {
    Finished(evaluate_table(bits, range_bits(), Isa::detect()))
}

/// The range with one word the other way round.
fn flipped(range: &Range, index: u64) -> Range {
    let mut wrong = range.clone();
    let index = u32::try_from(index).unwrap();
    match wrong.losing.binary_search(&index) {
        Ok(at) => drop(wrong.losing.remove(at)),
        Err(at) => wrong.losing.insert(at, index),
    }
    wrong.edges ^= u64::from(index == 0) << range_bits().get();
    wrong
}

impl Finished {
    fn range(&self, head: u64) -> &Range {
        &self.0[&Head(head)]
    }

    fn sources(&self, heads: &[Head]) -> TaskSources {
        let mut sources = TaskSources::default();
        for head in heads {
            sources.insert(Arc::new(Source::new(&self.0[head])));
        }
        sources
    }

    /// What `range` claims, with all sources at hand.
    fn claims(&self, range: Range) -> Claims {
        let heads = sources(range.head, range_bits());
        Claims {
            sources: self.sources(&heads),
            range,
            range_bits: range_bits(),
        }
    }

    /// What a check finds in a record.
    fn check(&self, summary: RangeSummary, record: &[u8], seed: u64) -> Option<Word> {
        let mut draw = Draw::new(summary.head, range_bits(), seed);
        let mirror = draw.mirrors.first().copied();
        let mut heads = draw.sources.clone();
        heads.extend(mirror);
        verify(record, summary, &mut draw, self.sources(&heads), mirror)
    }

    fn check_range(&self, range: &Range, seed: u64) -> Option<Word> {
        let (summary, record) = encode(range, range_bits());
        self.check(summary, &record, seed)
    }

    /// How many of so many checks of a wrong range refute it.
    fn refutations(&self, wrong: &Range, checks: u64) -> u64 {
        (0..checks)
            .map(|check| u64::from(self.check_range(wrong, check << 32 | checks).is_some()))
            .sum()
    }
}

#[test]
fn right_results_pass() {
    let table = finished(BITS);
    for range in table.0.values() {
        for seed in 0..20 {
            assert_eq!(table.check_range(range, seed), None);
        }
        let all: BTreeSet<u64> = (0..range_bits().positions()).collect();
        assert_eq!(table.claims(range.clone()).refuted(&all, true), None);
    }
}

#[test]
fn a_chosen_wrong_word_is_always_refuted() {
    let bits = 15;
    let table = finished(bits);
    let losing = definition::losing(bits);
    for range in table.0.values() {
        for index in 0..range_bits().positions() {
            let wrong = flipped(range, index);
            let word = range.head.word(index, range_bits());
            let truth = losing[definition::index_of(word)];
            assert_eq!(has(&wrong, index), !truth);
            let found = table.claims(wrong).refuted(&BTreeSet::from([index]), true);
            assert_eq!(found, Some(word));
        }
        for edge in 0..range_bits().get() {
            let mut wrong = range.clone();
            wrong.edges ^= 1 << edge;
            let found = table.claims(wrong).refuted(&BTreeSet::new(), true);
            assert!(found.is_some(), "edge {edge} of {}", range.head);
        }
    }
}

fn real(count: usize) -> f64 {
    u32::try_from(count).unwrap().into()
}

/// One wrong word or edge of a range is found as often as it is chosen.
#[test]
fn one_wrong_word_is_refuted_with_the_probability_promised() {
    let table = finished(BITS);
    for head in [0, 1, 6, 0b1011, 0b1010_0101, 0xff] {
        let range = table.range(head);
        let sources = sources(range.head, range_bits()).len();
        let complete = (real(SOURCES) / real(sources)).min(1.0);
        let expect = |wrong: &Range, promised: f64, checks: u32| {
            let found = table.refutations(wrong, checks.into());
            let found = real(usize::try_from(found).unwrap());
            let least = promised * f64::from(checks) / 2.0;
            assert!(least > 4.0 && found >= least, "{head}: {found} of {least}");
        };
        let count = real(range.losing.len());
        let free = (100..200).find(|&index| !has(range, index)).unwrap();
        let promised = (real(LOSING_WORDS) / (count + 1.0)).min(1.0) * complete;
        expect(&flipped(range, free), promised, 400);

        if let Some(&left_out) = range.losing.get(range.losing.len() / 2) {
            let promised = real(WINNING_WORDS) / 2.0 / 2048.0 * complete;
            expect(&flipped(range, left_out.into()), promised, 12_000);
        }

        let mut wrong = range.clone();
        wrong.edges ^= 2;
        expect(&wrong, complete, 100);
        let first = flipped(range, 0);
        // That a winning word is losing may be seen with few sources.
        expect(&first, complete, 100);
    }
}

/// How often depends on how many words are wrong: half of the checks for most ranges.
#[test]
fn other_content_is_refuted() {
    let table = finished(BITS);
    let (mut seldom, mut cases) = (0, 0);
    for head in 1..256 {
        let right = table.range(head);
        let empty = Range {
            head: Head(head),
            ..Range::default()
        };
        let other = Range {
            head: Head(head),
            ..table.range(head - 1).clone()
        };
        for wrong in [empty, other] {
            if wrong.losing == right.losing {
                continue;
            }
            let found = table.refutations(&wrong, 40);
            let wrong_words = wrong.losing.len() + right.losing.len();
            assert!(wrong_words < 8 || found > 0, "{head}: {wrong_words} words");
            seldom += u32::from(found < 20);
            cases += 1;
        }
    }
    assert!(cases > 400 && seldom * 4 < cases, "{seldom} of {cases}");
}

#[test]
fn words_that_were_left_out_are_seen_in_the_mirror() {
    let table = finished(16);
    let mut seen = 0;
    for range in table.0.values() {
        for &index in &range.losing {
            let mirror = range.head.word(index.into(), range_bits()).mirror();
            let mirror = Source::new(&table.0[&Head::of(mirror, range_bits())]);
            let right = table.claims(range.clone()).refuted_by_mirror(&mirror);
            assert_eq!(right, None);
            if mirror.head() != range.head {
                let wrong = table.claims(flipped(range, index.into()));
                assert!(wrong.refuted_by_mirror(&mirror).is_some());
                seen += 1;
            }
        }
    }
    assert!(seen > 300, "{seen}");

    // Seldom are all sources of a range with a long head read.
    let table = finished(BITS);
    let long = (128..256).map(|head| table.range(head));
    let long = long.filter(|range| sources(range.head, range_bits()).len() > 2 * SOURCES);
    let range = long.max_by_key(|range| range.losing.len()).unwrap();
    let empty = Range {
        head: range.head,
        ..Range::default()
    };
    let found = table.refutations(&empty, 400);
    assert!(found > 180, "{found} for {}", range.head);
}

/// What a summary says is checked against the record, and the record against its form.
#[test]
fn records_that_are_none_and_summaries_of_others_are_refuted() {
    let table = finished(16);
    let range = table.range(5);
    let (summary, record) = encode(range, range_bits());
    assert_eq!(table.check(summary, &record, 1), None);
    let count = RangeSummary {
        count: summary.count + 1,
        ..summary
    };
    let stored = RangeSummary {
        stored: summary.stored - 1,
        ..summary
    };
    let head = RangeSummary {
        head: Head(4),
        ..summary
    };
    for wrong in [count, stored, head] {
        assert!(table.check(wrong, &record, 1).is_some(), "{wrong:?}");
    }
    // The record lies about what is stored, and has the digest of that.
    let mut lie = record.clone();
    lie[40] -= 1;
    let lie_summary = RangeSummary {
        stored: summary.stored - 1,
        digest: chomp_table::Digest::of(&lie),
        ..summary
    };
    assert!(table.check(lie_summary, &lie, 1).is_some());
    let cut = &record[..record.len() - 1];
    assert!(table.check(summary, cut, 1).is_some());
}

#[test]
fn the_seed_decides_what_is_looked_at() {
    let table = finished(BITS);
    let range = table.range(0xf5);
    let drawn = |seed| {
        let mut draw = Draw::new(range.head, range_bits(), seed);
        let words = draw.words(range);
        (draw.complete, draw.sources, draw.mirrors, words)
    };
    assert_eq!(drawn(7), drawn(7));
    assert_ne!(drawn(7), drawn(8));
    let complete = (0..1000).filter(|&seed| drawn(seed).0).count();
    let sources = sources(range.head, range_bits()).len();
    let expected = 1000 * SOURCES / sources;
    assert!(
        (expected / 2..expected * 2).contains(&complete),
        "{complete} of {expected}"
    );
}
