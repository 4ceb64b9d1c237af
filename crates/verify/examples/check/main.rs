//! Compares a published table with what others have found, and prints what `docs/RESULTS.md` has of
//! it; a line for each comparison. `chomp verify` checks everything else.
//!
//! ```sh
//! cargo run --release -p chomp-verify --example check -- DIR [--memory MIB] [--rows]
//! ```
//!
//! `--memory` bounds what the comparisons hold (1024 MiB unless given). `--rows` prints the rows of
//! the tables in `docs/RESULTS.md` at the end.
//!
//! Exit codes: 0 all agree, 1 it cannot be read, 2 wrong usage, 3 something is another.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program for the command line"
)]

mod others;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use chomp_table::fingerprint::{FingerprintBuilder, LeafBuilder};
use chomp_table::{Table, TableError};
use chomp_verify::linear::linear_sha256;
use chomp_verify::survey::Survey;
use chomp_verify::{CheckError, known};
use others::catalogue;
use others::openings::{Opening, check_openings, openings};

const MIB: u64 = 1 << 20;

#[derive(Debug)]
struct Arguments {
    directory: PathBuf,
    memory: u64,
    rows: bool,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            directory: PathBuf::new(),
            memory: 1024 * MIB,
            rows: false,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--rows" => arguments.rows = true,
                "--memory" => {
                    let text = words.next().ok_or("--memory needs a number")?;
                    let mebibytes: Result<u64, _> = text.parse();
                    let mebibytes =
                        mebibytes.map_err(|_| format!("--memory {text}: not a number"))?;
                    arguments.memory = mebibytes.saturating_mul(MIB);
                }
                _ if word.starts_with('-') || arguments.directory != PathBuf::new() => {
                    return Err(format!("{word} is not understood"));
                }
                _ => arguments.directory = word.into(),
            }
        }
        if arguments.directory == PathBuf::new() {
            return Err("which table? Give its directory".into());
        }
        Ok(arguments)
    }
}

/// Runs one check and prints its line.
fn line(name: &str, check: impl FnOnce() -> Result<String, CheckError>) -> Result<(), CheckError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the time is shown, and nothing depends on it"
    )]
    let start = Instant::now();
    let text = check()?;
    println!("{name:<12} {text} ({:.1} s)", start.elapsed().as_secs_f64());
    Ok(())
}

fn check(arguments: &Arguments) -> Result<(), CheckError> {
    let table = Table::open(&arguments.directory)?;
    let bits = table.manifest().bits;
    println!("{:<12} {}, {bits} bits", "table", table.folder().display());
    let mut survey = None;
    line("counts", || {
        let known::Compared {
            by_bits,
            by_area,
            inside,
        } = known::compare(survey.insert(Survey::of(&table)?))?;
        Ok(format!(
            "as others have found them: {by_bits} by bits, {by_area} by area, {inside} inside boxes"
        ))
    })?;
    let survey = survey.expect("the comparison before gave it or an error");
    let mut all = Vec::new();
    line("openings", || {
        all = openings(&table)?;
        let compared = check_openings(&all)?;
        Ok(format!(
            "{} rectangles as is proved, {compared} of them as others have found them",
            all.len()
        ))
    })?;
    line("chomp-fast", || {
        let mut same = Vec::new();
        catalogue::check_published(&table, &survey, arguments.memory, |file| {
            same.push(format!(
                "{0} {1}x{1} ({2} bytes)",
                file.kind, file.side, file.bytes
            ));
        })?;
        Ok(format!("published SHA-256 sums: {}", same.join(", ")))
    })?;
    if arguments.rows {
        print_rows(&table, &survey, &all)?;
    }
    Ok(())
}

/// The number with commas between groups of three digits.
fn commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn print_rows(table: &Table, survey: &Survey, openings: &[Opening]) -> Result<(), CheckError> {
    let manifest = table.manifest();
    let mut fingerprints = FingerprintBuilder::new(manifest.bits);
    let mut all_words = LeafBuilder::new();
    for words in table.words() {
        let words = words?;
        fingerprints.push(&words);
        all_words.push(&words);
    }
    let fingerprints = fingerprints.finish().by_bits;
    let linear = linear_sha256(&all_words.finish(), manifest.bits);
    println!("\nby bits");
    for bits in 25..=manifest.bits {
        let losing = survey.losing(bits);
        let stored = u64::midpoint(losing, u64::from(bits / 2));
        let (fingerprint, linear) = (fingerprints[bits as usize], linear[bits as usize]);
        let (losing, stored) = (commas(losing), commas(stored));
        println!("| {bits} | {losing} | {stored} | `{fingerprint}` | `{linear}` |");
    }
    println!("\nby area, from 1");
    let counts = survey.by_area().iter().skip(1);
    println!(
        "{}",
        counts.map(u64::to_string).collect::<Vec<_>>().join(", ")
    );
    println!("\ninside squares");
    for side in 1..=manifest.bits / 2 {
        let inside = survey.inside(side, side).expect("within the table");
        println!("| {side}x{side} | {} |", commas(inside));
    }
    println!("\nmore than one winning first move");
    for opening in openings.iter().filter(|opening| opening.moves.len() > 1) {
        let cells = opening.moves.iter();
        let cells: Vec<_> = cells.map(|m| format!("({},{})", m.row, m.column)).collect();
        println!(
            "| {}x{} | {} |",
            opening.rows,
            opening.columns,
            cells.join(" ")
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    match check(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            match error {
                CheckError::Table(TableError::Damaged { .. }) | CheckError::Wrong(_) => {
                    ExitCode::from(3)
                }
                CheckError::Table(_) | CheckError::Stopped => ExitCode::FAILURE,
            }
        }
    }
}
