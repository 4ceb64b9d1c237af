//! Evaluated ranges against W by its definition and against other people's counts, for many range
//! bits, for each instruction set, and for words of up to 64 bits.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Once;

use chomp_kernel::{Evaluator, Isa, MissingSource, Source, evaluate_heads};
use chomp_table::sources::{closure, sources};
use chomp_table::{Head, Range, RangeBits, Word, head};
use chomp_testing::definition::{self, Oracle};

fn range_bits(bits: u32) -> RangeBits {
    RangeBits::new(bits).expect("valid range bits")
}

/// The instruction sets of this CPU. Of the others it is said, also when tests pass, that nothing was compared.
fn instruction_sets() -> impl Iterator<Item = Isa> {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        for isa in Isa::ALL.iter().filter(|isa| !isa.is_available()) {
            // Past the tests' own output, which is shown only for those that fail.
            let text = format!("\nnot compared: this CPU has no {isa}\n");
            io::stderr().write_all(text.as_bytes()).unwrap();
        }
    });
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

/// All ranges of the table of `bits` bits.
fn evaluate_table(bits: u32, range_bits: RangeBits, isa: Isa) -> BTreeMap<Head, Range> {
    evaluate_heads(head::layers(bits, range_bits).concat(), range_bits, isa)
}

/// All losing words of some ranges, ascending.
fn words(ranges: &BTreeMap<Head, Range>, range_bits: RangeBits) -> Vec<Word> {
    let words = ranges.values().flat_map(|range| {
        let indices = range.losing.indices();
        indices.map(|index| range.head.word(index.into(), range_bits))
    });
    let mut words: Vec<Word> = words.collect();
    words.sort_unstable();
    words
}

/// The edges of `range` as their definition has them.
fn edges(range: &Range, range_bits: RangeBits, mut is_losing: impl FnMut(Word) -> bool) -> u64 {
    let b = range_bits.get();
    let path = |x| range.head.0 << b | ((1u64 << (b - x)) - 1);
    (0..=b)
        .filter(|&x| is_losing(Word::new(path(x))))
        .map(|x| 1 << x)
        .sum()
}

/// `CHOMP_EXPECT_ISA` says what an emulated CPU is there for.
#[test]
fn the_widest_instruction_set_is_the_one_that_is_expected() {
    if let Ok(expected) = std::env::var("CHOMP_EXPECT_ISA") {
        assert_eq!(Isa::detect().to_string(), expected);
    }
    assert_eq!(instruction_sets().last(), Some(Isa::detect()));
}

#[test]
fn small_tables_equal_the_definition() {
    // Under Miri, which takes thousands of times as long, the least table with a range that draws on another.
    let bits = if cfg!(miri) { 13 } else { 18 };
    let losing = definition::losing(bits);
    let is_losing = |word: Word| losing[definition::index_of(word)];
    let expected: Vec<Word> = (0..1 << (bits - 1))
        .map(|index| Word::new(index * 2))
        .filter(|&word| is_losing(word))
        .collect();
    let range_bits_max = if cfg!(miri) { 12 } else { bits };
    for (b, isa) in (12..=range_bits_max).flat_map(|b| instruction_sets().map(move |isa| (b, isa)))
    {
        let ranges = evaluate_table(bits, range_bits(b), isa);
        assert_eq!(
            words(&ranges, range_bits(b)),
            expected,
            "{b} range bits, {isa}"
        );
        for range in ranges.values() {
            assert_eq!(
                range.edges,
                edges(range, range_bits(b), is_losing),
                "{b}, {}",
                range.head
            );
        }
    }
}

#[test]
fn all_range_bits_and_instruction_sets_agree() {
    let bits = 23;
    let expected = words(
        &evaluate_table(bits, range_bits(12), Isa::Portable),
        range_bits(12),
    );
    assert_eq!(expected.len(), 57_173);
    for b in [12, 15, 16, 19, 20, 21, 22, 23] {
        for isa in instruction_sets() {
            let ranges = evaluate_table(bits, range_bits(b), isa);
            assert_eq!(
                words(&ranges, range_bits(b)),
                expected,
                "{b} range bits, {isa}"
            );
        }
    }
}

/// Counts of S. Volodarsky, 2009, with a single range whose indices go up to 2^31.
#[test]
fn the_largest_range_has_the_known_counts() {
    let range_bits = range_bits(32);
    let ranges = evaluate_heads([Head(0)], range_bits, Isa::detect());
    let words = words(&ranges, range_bits);
    for (bits, count) in [
        (25, 189_710),
        (26, 363_603),
        (27, 632_105),
        (28, 1_154_468),
        (29, 2_356_886),
        (30, 3_893_679),
        (31, 8_295_977),
        (32, 15_220_362),
    ] {
        assert_eq!(
            words.partition_point(|word| word.bits() <= bits),
            count,
            "{bits} bits"
        );
    }
}

/// Heads with few 1s draw on few others, so whole ranges of words far beyond 2^32 can be tested.
#[test]
fn words_of_up_to_64_bits_equal_the_definition() {
    for (head, b, step) in [
        (1 << 51, 12, 1),
        (1 << 50 | 1, 13, 7),
        (1 << 40, 12, 1),
        (1 << 31 | 1 << 5, 12, 5),
        (1 << 25 | 1 << 21, 14, 41),
        (0b11 << 20, 12, 3),
        (0b111 << 9, 12, 3),
        (0b11111, 12, 1),
    ] {
        let (head, range_bits) = (Head(head), range_bits(b));
        let ranges = evaluate_heads(closure(head, range_bits), range_bits, Isa::detect());
        let range = &ranges[&head];
        let mut oracle = Oracle::default();
        for index in (0..range_bits.positions()).step_by(step) {
            let word = head.word(index, range_bits);
            let found = range.losing.contains(index);
            assert_eq!(found, oracle.is_losing(word), "word {:b}", word.get());
        }
        assert_eq!(
            range.edges,
            edges(range, range_bits, |word| oracle.is_losing(word))
        );
    }
}

/// Such a head's moves may lose more 1s than an index has bits.
#[test]
fn heads_with_more_ones_than_index_bits_equal_a_single_range() {
    let (head, small, large) = (Head((1 << 14) - 1), range_bits(12), range_bits(26));
    let all = words(&evaluate_heads([Head(0)], large, Isa::Portable), large);
    for isa in instruction_sets() {
        let ranges = evaluate_heads(closure(head, small), small, isa);
        let is_here = |&word: &Word| ranges.contains_key(&Head::of(word, small));
        let expected = all.iter().copied().filter(is_here);
        assert!(expected.eq(words(&ranges, small)), "{isa}");
    }
}

#[test]
fn a_missing_source_is_named() {
    let range_bits = range_bits(12);
    let head = Head(0b1_0110);
    let all = evaluate_heads(closure(head, range_bits), range_bits, Isa::detect());
    let mut evaluator = Evaluator::new(range_bits, Isa::detect());
    let known = all
        .iter()
        .map(|(&head, range)| (head, Source::new(range.clone())));
    let known: HashMap<Head, Source> = known.collect();
    for source in sources(head, range_bits) {
        let mut known = known.clone();
        known.remove(&source);
        assert_eq!(evaluator.evaluate(head, &known), Err(MissingSource(source)));
        assert_eq!(
            evaluator.mark_from_sources(head, &known),
            Err(MissingSource(source))
        );
    }
    assert_eq!(evaluator.evaluate(head, &known).as_ref(), Ok(&all[&head]));
}

/// The figures of docs/OPERATIONS.md, by which workers decide how many ranges fit into their memory.
#[test]
fn the_memory_of_an_evaluator() {
    let halves_of_a_mib = |bits| Evaluator::memory(range_bits(bits)) >> 19;
    assert_eq!([24, 26].map(halves_of_a_mib), [9, 33]);
}
