//! A table is the same whatever it was made with: range bits, threads, instruction set, memory,
//! in one go or in steps. Small tables agree with the definition position by position.

use std::path::Path;

use crate::common::{
    FINGERPRINT_20, FINGERPRINT_24, FINGERPRINT_32, chomp, digests, end, fingerprint, number, run,
    run_in,
};
use chomp_table::{Table, Word};
use chomp_testing::definition;

/// Runs in an empty directory.
fn fresh<T>(run: impl FnOnce(&Path) -> T) -> T {
    let directory = tempfile::tempdir().unwrap();
    run(&directory.path().join("table"))
}

/// An instruction set that this CPU lacks is replaced by the widest that it has.
#[test]
fn any_range_bits_threads_and_instruction_sets() {
    for (bits, range_bits, threads, isa) in [
        (24, 12, 1, "portable"),
        (24, 15, 3, "avx2"),
        (24, 20, 2, "avx512"),
        (20, 24, 2, "avx512"),
    ] {
        fresh(|table| {
            let size = format!("--bits {bits} --range-bits {range_bits}");
            let mut command = chomp(&format!("run --json {size} --threads {threads} --table"));
            command.env("CHOMP_TEST_ISA", isa);
            let known = [FINGERPRINT_20, FINGERPRINT_24][usize::from(bits == 24)];
            end(command.arg(table)).made(known);
        });
    }
}

/// The least memory leaves the cache 16 MiB; the positions of this table take 30 as sources, so
/// that most are forgotten and fetched again.
#[test]
fn the_least_memory() {
    fresh(|table| {
        let too_little = end(run_in(table, 32, 24).args(["--memory", "1"]));
        too_little.refuses(2, &["memory", "at least "]);
        let (_, least) = too_little.stderr.split_once("at least --memory ").unwrap();
        let least = least.split(',').next().unwrap();
        end(run_in(table, 32, 24).args(["--memory", least])).made(FINGERPRINT_32);
    });
}

#[test]
fn small_tables_agree_with_the_definition() {
    for bits in [2, 3, 12, 13, 16] {
        let losing = definition::losing(bits);
        for range_bits in [12, 13] {
            fresh(|directory| {
                let summary = end(&mut run_in(directory, bits, range_bits)).summary();
                let count = losing.iter().filter(|&&losing| losing).count();
                assert_eq!(number(&summary, "losing"), count as u64);
                let table = Table::open(directory).unwrap();
                table.verify_bytes().unwrap();
                for (index, &losing) in losing.iter().enumerate() {
                    let word = Word::new(index as u64 * 2);
                    let found = table.is_losing(word).unwrap();
                    assert_eq!(found, losing, "{bits} bits, {range_bits}: {}", word.get());
                }
            });
        }
    }
}

#[test]
fn a_table_in_steps() {
    const RANGE_BITS: u32 = 14;
    fresh(|table| {
        let mut evaluated = 0;
        for bits in [16, 20, 24] {
            let summary = end(run_in(table, bits, RANGE_BITS).arg("--keep-parts")).summary();
            evaluated += number(&summary, "ranges_evaluated");
            // As many as at once: none is evaluated twice.
            assert_eq!(evaluated, 1 << (bits - RANGE_BITS), "{bits} bits");
            match bits {
                20 => assert_eq!(fingerprint(&summary), FINGERPRINT_20),
                24 => assert_eq!(fingerprint(&summary), FINGERPRINT_24),
                _ => {}
            }
        }
        // This table and smaller ones need no evaluation.
        for (bits, known) in [(24, FINGERPRINT_24), (20, FINGERPRINT_20)] {
            let summary = end(&mut run(table, bits)).summary();
            assert_eq!(number(&summary, "ranges_evaluated"), 0, "{bits} bits");
            assert_eq!(number(&summary, "bits"), u64::from(bits));
            assert_eq!(fingerprint(&summary), known);
        }
        fresh(|at_once| {
            let summary = end(&mut run_in(at_once, 24, RANGE_BITS)).summary();
            assert_eq!(number(&summary, "ranges_evaluated"), evaluated);
            let [steps, at_once] = [table, at_once].map(|table| table.join("table-24"));
            assert_eq!(digests(&steps), digests(&at_once));
        });
    });
}
