//! Right results pass, wrong ones are refuted, as often as the constants promise.

use std::collections::BTreeMap;

use chomp_kernel::evaluate_table;
use chomp_table::definition;
use chomp_table::head::layers;

use super::*;
use crate::ready;
use crate::storage::{Key, SimulatedStorage};

/// Ranges with up to eight head bits: most have more sources than a check reads.
const BITS: u32 = 20;

fn range_bits() -> RangeBits {
    RangeBits::new(12).unwrap()
}

/// A table whose ranges are all committed.
struct Finished {
    ranges: BTreeMap<Head, Range>,
    storage: Arc<SimulatedStorage>,
    store: Arc<Store>,
}

fn finished(bits: u32) -> Finished {
    let storage = Arc::new(SimulatedStorage::new(0));
    let (store, _) = ready(Store::open(storage.clone(), range_bits(), bits)).unwrap();
    let ranges = evaluate_table(bits, range_bits(), Isa::detect());
    for (layer, heads) in (0..).zip(layers(bits, range_bits())) {
        let records = heads.iter().map(|head| record(&ranges[head]));
        ready(store.commit(layer, records.collect())).unwrap();
    }
    Finished {
        ranges,
        storage,
        store: Arc::new(store),
    }
}

/// A worker of which nothing is known yet, if each of them is used once.
fn new(number: u32) -> WorkerId {
    WorkerId(number.into())
}

fn record(range: &Range) -> (RangeSummary, Bytes) {
    let (summary, record) = range::encode(range, range_bits());
    (summary, record.into())
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
    fn audit(&self, seed: u64) -> Audit {
        Audit::new(Arc::clone(&self.store), seed)
    }

    /// What `range` claims, with all sources at hand.
    fn claims(&self, range: Range) -> Claims {
        let heads = sources(range.head, range_bits());
        Claims {
            range,
            range_bits: range_bits(),
            sources: ready(self.audit(0).load(&heads)).unwrap(),
        }
    }

    /// How many of so many checks of a wrong range refute it; no check says anything else.
    fn refutations(&self, wrong: &Range, checks: u32) -> u32 {
        let (audit, records) = (self.audit(u64::from(checks)), [record(wrong)]);
        let refuted = |&check: &u32| match ready(audit.spot_check(new(check), &records)) {
            Ok(()) => false,
            Err(AuditError::Refuted { head, .. }) => head == wrong.head,
            Err(error) => panic!("{error:?}"),
        };
        u32::try_from((0..checks).filter(refuted).count()).unwrap()
    }
}

#[test]
fn right_results_pass() {
    let table = finished(BITS);
    let audit = table.audit(1);
    for layer in layers(BITS, range_bits()) {
        let records: Vec<_> = layer
            .iter()
            .map(|head| record(&table.ranges[head]))
            .collect();
        for check in 0..20 {
            ready(audit.spot_check(new(check), &records)).unwrap();
        }
    }
    for range in table.ranges.values() {
        let all: BTreeSet<u64> = (0..range_bits().positions()).collect();
        table.claims(range.clone()).check(&all, true).unwrap();
    }
    ready(audit.spot_check(new(0), &[])).unwrap();
}

#[test]
fn a_chosen_wrong_word_is_always_refuted() {
    let bits = 15;
    let table = finished(bits);
    let losing = definition::losing(bits);
    for range in table.ranges.values() {
        for index in 0..range_bits().positions() {
            let wrong = flipped(range, index);
            let word = range.head.word(index, range_bits());
            let error = table
                .claims(wrong)
                .check(&BTreeSet::from([index]), true)
                .unwrap_err();
            let truth = losing[definition::index_of(word)];
            assert!(
                matches!(error, AuditError::Refuted { head, word: found, claimed_losing }
                    if head == range.head && found == word && claimed_losing != truth),
                "{error:?}"
            );
        }
        for edge in 0..range_bits().get() {
            let mut wrong = range.clone();
            wrong.edges ^= 1 << edge;
            let error = table
                .claims(wrong)
                .check(&BTreeSet::new(), true)
                .unwrap_err();
            assert!(matches!(error, AuditError::Refuted { .. }), "{error:?}");
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
    for head in [0, 1, 6, 0b1011, 0b1010_0101, 0xff].map(Head) {
        let range = &table.ranges[&head];
        let sources = sources(head, range_bits()).len();
        let complete = (real(SOURCES) / real(sources)).min(1.0);
        let expect = |wrong: &Range, promised: f64, checks: u32| {
            let found = f64::from(table.refutations(wrong, checks));
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
    for head in (1..256).map(Head) {
        let right = &table.ranges[&head];
        let empty = Range {
            head,
            ..Range::default()
        };
        let other = Range {
            head,
            ..table.ranges[&Head(head.0 - 1)].clone()
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
    for range in table.ranges.values() {
        for &index in &range.losing {
            let mirror = range.head.word(index.into(), range_bits()).mirror();
            let mirror = &table.ranges[&Head::of(mirror, range_bits())];
            table.claims(range.clone()).check_mirror(mirror).unwrap();
            if mirror.head != range.head {
                let wrong = flipped(range, index.into());
                let error = table.claims(wrong).check_mirror(mirror);
                assert!(matches!(error, Err(AuditError::Refuted { .. })));
                seen += 1;
            }
        }
    }
    assert!(seen > 300, "{seen}");

    // Seldom are all sources of a range with a long head read.
    let table = finished(BITS);
    let long = (128..256).map(|head| &table.ranges[&Head(head)]);
    let long = long.filter(|range| sources(range.head, range_bits()).len() > 2 * SOURCES);
    let range = long.max_by_key(|range| range.losing.len()).unwrap();
    let empty = Range {
        head: range.head,
        ..Range::default()
    };
    let found = table.refutations(&empty, 400);
    assert!(found > 180, "{found} for {}", range.head);
}

#[test]
fn one_wrong_range_among_many_is_found_in_time() {
    let table = finished(BITS);
    let layer = &layers(BITS, range_bits())[14];
    let mut records: Vec<_> = layer
        .iter()
        .map(|head| record(&table.ranges[head]))
        .collect();
    assert!(records.len() > 8);
    let head = layer[layer.len() / 2];
    records[layer.len() / 2] = record(&Range {
        head,
        ..table.ranges[&Head(3)].clone()
    });
    let audit = table.audit(3);
    let found = (0..1000).filter(|&check| ready(audit.spot_check(new(check), &records)).is_err());
    let (found, expected) = (found.count(), 1000 / records.len());
    assert!(found * 2 > expected && found < 500, "{found} of {expected}");
}

#[test]
fn the_first_submissions_are_checked_and_then_one_range_in_sixteen() {
    let table = finished(13);
    let audit = table.audit(7);
    let checks = |worker, ranges, times: usize| -> usize {
        (0..times).map(|_| audit.checks(new(worker), ranges)).sum()
    };
    let first = FIRST_SUBMISSIONS as usize;
    assert_eq!(checks(0, 1, first), first);
    for ranges in [1, 5, 20] {
        let found = checks(0, ranges, 8_000);
        let expected = 500 * ranges;
        assert!(
            (expected * 9 / 10..expected * 11 / 10).contains(&found),
            "{found} of {expected}"
        );
    }
    assert_eq!(checks(0, 1000, 3), 3 * CHECKS_MAX);
    assert_eq!(checks(1, 1, first), first, "another worker is new");
    for worker in 2..=5000 {
        assert!(audit.checks(new(worker), 1) > 0);
    }
    assert_eq!(audit.submissions().len(), WORKERS_KNOWN.get());
}

#[test]
fn the_arbiter_evaluates_the_same() {
    let table = finished(BITS);
    let audit = table.audit(4);
    for range in table.ranges.values() {
        assert_eq!(ready(audit.evaluate(range.head)).unwrap(), record(range));
    }
}

#[test]
fn what_cannot_be_told_is_said() {
    let table = finished(14);
    let storage = Arc::new(SimulatedStorage::new(0));
    let (store, _) = ready(Store::open(storage, range_bits(), 14)).unwrap();
    let early = Audit::new(Arc::new(store), 5);
    let records = [record(&table.ranges[&Head(2)])];
    for error in [
        ready(early.spot_check(new(0), &records)).unwrap_err(),
        ready(early.evaluate(Head(2))).unwrap_err(),
    ] {
        assert!(
            matches!(error, AuditError::NotReady { head: Head(0) }),
            "{error:?}"
        );
    }
    let audit = table.audit(6);
    let cut = [(records[0].0, records[0].1.slice(..90))];
    let error = ready(audit.spot_check(new(0), &cut)).unwrap_err();
    assert!(
        matches!(error, AuditError::Record { head: Head(2), .. }),
        "{error:?}"
    );
    let key = Key::new("work/parts/0000/0000000000000000-0000000001").unwrap();
    let last = table.storage.objects()[&key].len() - 1;
    assert!(table.storage.flip_bit(&key, last, 0));
    let error = ready(audit.spot_check(new(0), &records)).unwrap_err();
    assert!(
        matches!(error, AuditError::Store(StoreError::Damaged { .. })),
        "{error:?}"
    );
}

#[test]
fn the_cache_is_bounded() {
    let mut cache = Cache {
        ranges: LruCache::unbounded(),
        bytes: 0,
    };
    for head in (0..100).map(Head) {
        let losing = vec![0; 1 << 18];
        cache.insert(Arc::new(Range {
            head,
            losing,
            edges: 0,
        }));
        assert!(cache.bytes <= CACHE_BYTES_MAX);
    }
    assert_eq!(cache.ranges.len(), 15);
    assert!(cache.ranges.contains(&Head(99)));
}
