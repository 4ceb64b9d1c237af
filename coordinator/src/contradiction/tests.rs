//! One range is wrong, and all others follow from it: of the suspects, it is the lowest one that does not follow from its
//! sources.

use std::collections::BTreeSet;
use std::sync::Arc;

use chomp_kernel::{Evaluator, Isa, Source};
use chomp_store::RangeRow;
use chomp_store::objects::SimulatedStorage;
use chomp_table::rng::Rng;
use chomp_table::shard::ShardSize;

use super::*;
use crate::ready;
use crate::testing::{journal_of_ranges, range_bits};

const BITS: u32 = 17;

/// A table that follows from what `change` makes of some range.
struct Tested {
    storage: Arc<SimulatedStorage>,
    tools: Arc<Tools>,
    losing: BTreeSet<Word>,
}

fn tested(change: impl Fn(&mut Range)) -> Tested {
    let storage = Arc::new(SimulatedStorage::new(1));
    let mut losing = BTreeSet::new();
    let journal = journal_of_ranges(&storage, BITS, |range| {
        change(range);
        let words = range.losing.indices();
        losing.extend(words.map(|index| range.head.word(index.into(), range_bits())));
    });
    Tested {
        tools: Tools::new(storage.clone(), &journal, BITS, ShardSize::PUBLISHED),
        storage,
        losing,
    }
}

impl Tested {
    /// The lowest suspect that does not follow from its sources. There is one if there are suspects.
    fn wrong_range(&self) -> Option<Head> {
        let mut suspects = ready(suspects(&self.tools)).unwrap();
        suspects.sort_by_key(|head| head.layer());
        let mut evaluator = Evaluator::new(range_bits(), Isa::Portable);
        let wrong = suspects.iter().find(|&&head| {
            let read = |source| {
                let decode = |record: &[u8]| Source::decode(record, range_bits());
                (source, ready(self.tools.read(source, decode)).unwrap())
            };
            let sources: HashMap<Head, Source> =
                sources(head, range_bits()).into_iter().map(read).collect();
            let range = evaluator.evaluate(head, &sources).unwrap();
            let (found, _) = chomp_table::range::encode(&range, range_bits());
            found.digest != self.tools.done_range(head).unwrap().digest
        });
        assert_eq!(wrong.is_some(), !suspects.is_empty(), "{suspects:?}");
        wrong.copied()
    }

    fn has_unpaired(&self) -> bool {
        let mut words = self.losing.iter();
        words.any(|word| !self.losing.contains(&word.mirror()))
    }
}

#[test]
fn a_right_table_does_not_contradict_itself() {
    let tested = tested(|_| {});
    assert!(!tested.has_unpaired());
    assert_eq!(tested.wrong_range(), None);
}

/// Words that are added and left out, one or several of a range, anywhere. The ranges above follow from them, and
/// hundreds of words contradict each other.
#[test]
fn whoever_changes_a_word_is_found() {
    let mut rng = Rng(7);
    let mut found = 0;
    for _ in 0..60 {
        let liar = Head(rng.below(range_bits().head_count(BITS)));
        let words = 1 + rng.below(3);
        let flips: BTreeSet<u32> = (0..words)
            .map(|_| u32::try_from(1 + rng.below(range_bits().positions() - 1)).unwrap())
            .collect();
        let tested = tested(|range| {
            if range.head == liar {
                let losing: BTreeSet<u32> = range.losing.indices().collect();
                range.losing = (&losing ^ &flips).into_iter().collect();
            }
        });
        let expected = tested.has_unpaired().then_some(liar);
        assert_eq!(tested.wrong_range(), expected, "{flips:?}");
        found += u32::from(expected.is_some());
    }
    assert!(found > 50, "{found}");
}

/// The edges of a range are what others read of shorter words. None of its own words is wrong then.
#[test]
fn whoever_changes_an_edge_is_found() {
    let mut found = 0;
    for liar in (0..range_bits().head_count(BITS)).map(Head) {
        for x in 0..range_bits().get() {
            let tested = tested(|range| range.edges ^= u64::from(range.head == liar) << x);
            let expected = tested.has_unpaired().then_some(liar);
            assert_eq!(tested.wrong_range(), expected, "edge {x} of {liar}");
            found += u32::from(expected.is_some());
        }
    }
    assert!(found > 30, "{found}");
}

#[test]
fn a_record_that_is_lost_is_named() {
    let tested = tested(|range| {
        if range.head == Head(5) {
            range.losing = range.losing.indices().chain([2047]).collect();
        }
    });
    assert_eq!(tested.wrong_range(), Some(Head(5)));
    let row = tested.tools.done_range(Head(9)).unwrap();
    assert!(tested.storage.truncate(&row.part().key(), 16));
    let error = ready(suspects(&tested.tools)).unwrap_err();
    let (lost, digest) = error.lost().unwrap();
    let lost_range = tested.tools.done_range(lost).unwrap();
    assert_eq!(digest, lost_range.digest);
    assert_eq!(lost_range.part(), row.part());
}

/// A record that is a range has to be the one that the journal describes, and its counts the true ones.
#[test]
fn counts_that_are_wrong_are_those_of_a_lost_record() {
    let tested = tested(|_| {});
    let head = Head(9);
    let row = tested.tools.done_range(head).unwrap();
    let record = |record: &[u8]| Ok(record.to_vec());
    let record = ready(tested.tools.read(head, record)).unwrap();
    let check = |row| tested.tools.check_record(head, &row, &record).is_ok();
    assert!(check(row));
    let (count, stored) = (row.count + 1, row.stored - 1);
    assert!(!check(RangeRow { count, ..row }));
    assert!(!check(RangeRow { stored, ..row }));
}

/// Twice as many words as there are sums have lost their mirror image: of those that are found alone nearly all are
/// true.
#[test]
fn words_that_share_a_sum_are_taken_for_none() {
    let mut sums = Sums::default();
    let mut lost = BTreeSet::new();
    for word in (0..).step_by(2).map(Word::new) {
        if word != word.mirror() && word == word.representative() {
            sums.put(word);
            lost.insert(word);
        }
        if lost.len() == 2 * SUMS {
            break;
        }
    }
    let found: Vec<_> = sums.alone(64).collect();
    let true_ones = found.iter().filter(|word| lost.contains(word)).count();
    // A sum has one of them with the chance 2 e^-2, which is 0.27.
    assert!(true_ones > SUMS / 4, "{true_ones}");
    assert!(found.len() - true_ones < 100, "{}", found.len() - true_ones);
}
