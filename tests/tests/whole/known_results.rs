//! The table of 32 bits, as the program publishes it, says what others have found before: counts,
//! fingerprints, winning first moves, and the catalogue of a square.

use std::fs;
use std::sync::OnceLock;

use crate::common::{
    FINGERPRINT_20, FINGERPRINT_24, FINGERPRINT_28, FINGERPRINT_31, FINGERPRINT_32, chomp, end,
    fingerprint, number, run,
};
use chomp_table::rng::Rng;
use chomp_table::{Digest, Position, Table, Word};
use serde_json::Value;
use tempfile::TempDir;

const BITS: u32 = 32;
/// How many random positions are checked against the definition.
const SAMPLE_RANDOM: u64 = 100_000;

/// The one run that all tests look at.
struct Run {
    summary: Value,
    table: Table,
    /// The words of the table: one of each mirror pair, ascending.
    stored: Vec<u64>,
    _directory: TempDir,
}

impl Run {
    fn is_losing(&self, word: Word) -> bool {
        let losing = self.stored.binary_search(&word.representative().get());
        losing.is_ok()
    }

    /// The moves that lead from a rectangle to a losing position, by what the reader says.
    fn winning_moves(&self, rows: u32, columns: u32) -> Vec<(u32, u32)> {
        let rectangle = word(&vec![columns; rows as usize]);
        let moves = rectangle.moves();
        let winning = moves.filter(|(_, next)| self.table.is_losing(*next).unwrap());
        let mut cells: Vec<_> = winning.map(|(cell, _)| (cell.row, cell.column)).collect();
        cells.sort_unstable();
        cells
    }
}

fn word(rows: &[u32]) -> Word {
    Word::from(&Position::new(rows.to_vec()).unwrap())
}

fn rows_and_columns(word: u64) -> (u32, u32) {
    let columns = word.count_ones();
    (Word::new(word).bits() - columns, columns)
}

fn the_run() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let summary = end(&mut run(directory.path(), BITS)).summary();
        let table = Table::open(directory.path()).unwrap();
        table.verify_bytes().unwrap();
        let stored: Vec<u64> = table.words().flat_map(Result::unwrap).collect();
        assert!(stored.is_sorted_by(|one, next| one < next));
        Run {
            summary,
            table,
            stored,
            _directory: directory,
        }
    })
}

#[test]
fn counts() {
    let run = the_run();
    let summary = &run.summary;
    assert_eq!(number(summary, "bits"), 32);
    assert_eq!(number(summary, "positions"), 1 << 31);
    assert_eq!(number(summary, "losing"), 15_220_362);
    assert_eq!(number(summary, "stored"), 7_610_189);
    assert_eq!(run.stored.len(), 7_610_189);
    let by_bits: Vec<u64> = serde_json::from_value(summary["losing_by_bits"].clone()).unwrap();
    assert_eq!(by_bits.len(), 33);
    let known = [
        189_710, 363_603, 632_105, 1_154_468, 2_356_886, 3_893_679, 8_295_977, 15_220_362,
    ];
    assert_eq!(by_bits[25..], known);

    // Only the hooks with equal arms are their own mirror images, one for each even number.
    for (bits, losing) in (0..).zip(by_bits) {
        let stored = &run.stored;
        let stored = stored.partition_point(|&word| Word::new(word).bits() <= bits);
        let all = losing + u64::from(bits / 2);
        assert_eq!(2 * stored as u64, all, "{bits} bits");
    }
}

#[test]
fn fingerprints() {
    let run = the_run();
    assert_eq!(fingerprint(&run.summary), FINGERPRINT_32);
    let by_bits = &run.table.manifest().fingerprints_by_bits;
    for (bits, known) in [
        (20, FINGERPRINT_20),
        (24, FINGERPRINT_24),
        (28, FINGERPRINT_28),
        (31, FINGERPRINT_31),
        (32, FINGERPRINT_32),
    ] {
        assert_eq!(by_bits[bits].to_string(), known);
    }
}

/// The examples in README show what the program prints, but for the time.
#[test]
fn the_readme_tells_the_truth() {
    let page = include_str!("../../../README.md");
    let printed = |command: &str| {
        let (_, rest) = page.split_once(&format!("$ {command}\n")).unwrap();
        rest.split("\n$ ").next().unwrap().lines()
    };
    let directory = tempfile::tempdir().unwrap();
    let in_it = |line: &str| end(chomp(line).current_dir(directory.path())).done().stdout;
    let is_time = |line: &&str| line.starts_with("  time ");
    let found = in_it("run --bits 32");
    let found = found.lines().filter(|line| !is_time(line));
    let told = printed("cargo run --release -- run --bits 32").filter(|line| !is_time(line));
    assert!(found.eq(told));
    let found = in_it("query 8x10");
    assert_eq!(found.lines().next(), printed("chomp query 8x10").next());
}

/// OEIS A112470, for the numbers whose partitions all have 32 bits or less.
#[test]
fn partitions_by_number() {
    let known = [
        1, 0, 1, 0, 3, 0, 3, 2, 5, 2, 3, 10, 9, 10, 9, 14, 17, 14, 23, 42, 45, 28, 55, 74, 67, 96,
        107, 136, 177, 220, 241,
    ];
    assert_eq!(known.len(), 31);
    let mut by_area = [0; 32];
    for &word in &the_run().stored {
        let word = Word::new(word);
        if let Some(count) = by_area.get_mut(word.area() as usize) {
            *count += 1 + u64::from(word.mirror() != word);
        }
    }
    assert_eq!(by_area[0], 0);
    assert_eq!(by_area[1..], known);
}

#[test]
fn first_moves() {
    let run = the_run();
    for n in 2..=31 {
        assert_eq!(run.winning_moves(1, n), [(1, 2)], "1x{n}");
    }
    for n in 2..=16 {
        assert_eq!(run.winning_moves(n, n), [(2, 2)], "{n}x{n}");
    }
    for n in 2..=30 {
        assert_eq!(run.winning_moves(2, n), [(2, n)], "2x{n}");
    }
    for n in 1..=29 {
        assert_eq!(run.winning_moves(3, n).len(), 1, "3x{n}");
    }
    assert_eq!(run.winning_moves(8, 10), [(4, 9), (5, 6)]);
    assert_eq!(run.winning_moves(9, 10), [(7, 8), (9, 5)]);
    assert_eq!(run.winning_moves(6, 13), [(4, 12), (5, 9)]);
}

/// Any position is losing exactly when no move from it leads to a losing one.
#[test]
fn random_positions_agree_with_the_definition() {
    let run = the_run();
    let mut random = Rng(1);
    for _ in 0..SAMPLE_RANDOM {
        let word = Word::new(random.below(1 << 32));
        let by_definition =
            word != Word::EMPTY && !word.moves().any(|(_, next)| run.is_losing(next));
        assert_eq!(run.is_losing(word), by_definition, "{}", word.get());
    }
    // The last range of the table whole: its positions draw on all others.
    for path in (1_u64 << 32) - (1 << 14)..1 << 32 {
        let word = Word::new(path & !1);
        let by_definition = !word.moves().any(|(_, next)| run.is_losing(next));
        assert_eq!(run.is_losing(word), by_definition, "{}", word.get());
    }
}

/// The catalogue of the largest square that the table covers, made here of the words one by one,
/// has the digest of the exported one and of the page.
#[test]
fn the_catalogue_of_16_by_16() {
    let run = the_run();
    let images = |&word: &u64| [word, Word::new(word).mirror().get()];
    let mut words: Vec<u64> = run.stored.iter().flat_map(images).collect();
    words.retain(|&word| {
        let (rows, columns) = rows_and_columns(word);
        rows <= 16 && columns <= 16
    });
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), 3_317_972);
    let mut file = b"CHOMPP02".to_vec();
    for number in [words.len() as u64, *words.last().unwrap(), 16 | 16 << 32] {
        file.extend(number.to_le_bytes());
    }
    file.extend(words.iter().flat_map(|word| word.to_le_bytes()));

    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("catalogue");
    let mut export = chomp("export --json --format chomp-fast --box 16x16 --memory 20MB");
    export.arg("--table").arg(run.table.folder());
    let summary = end(export.arg("--out").arg(&out)).summary();
    assert!(fs::read(&out).unwrap() == file);
    let digest = Digest::of(&file).to_string();
    assert_eq!(summary["sha256"], digest);
    let page = include_str!("../../../docs/RESULTS.md");
    assert!(page.contains(&digest), "{digest}");
}
