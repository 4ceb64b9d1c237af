//! Checks a published table by all means of this crate, a line for each check.
//!
//! ```sh
//! cargo run --release -p chomp-verify --example check -- DIR [--full] [--window-bits W] \
//!     [--sample N] [--seed S] [--memory MIB] [--rows]
//! ```
//!
//! `--full` marks backwards from every losing position: two bits of memory for each of the 2^(W-1)
//! positions of a window, the whole table unless W is given. `--sample` decides N random positions
//! (100,000 unless given; 0 is none). `--memory` bounds what the other checks hold (1024 MiB unless
//! given). `--rows` prints the rows of the tables in `docs/RESULTS.md` at the end.
//!
//! Exit codes: 0 all checks agree, 1 it cannot be read, 2 wrong usage, 3 a check failed.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program for the command line"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use chomp_table::{Table, TableError};
use chomp_verify::openings::{Opening, check_openings, openings};
use chomp_verify::survey::Survey;
use chomp_verify::{CheckError, catalogue, known, marking, sample};

const MIB: u64 = 1 << 20;

#[derive(Debug)]
struct Arguments {
    directory: PathBuf,
    full: bool,
    window_bits: u32,
    sample: u64,
    seed: u64,
    memory: u64,
    rows: bool,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            directory: PathBuf::new(),
            full: false,
            window_bits: u64::BITS,
            sample: 100_000,
            seed: 1,
            memory: 1024 * MIB,
            rows: false,
        };
        while let Some(word) = words.next() {
            let mut number = || -> Result<u64, String> {
                let text = words
                    .next()
                    .ok_or_else(|| format!("{word} needs a number"))?;
                text.parse()
                    .map_err(|_| format!("{word} {text}: not a number"))
            };
            match word.as_str() {
                "--full" => arguments.full = true,
                "--rows" => arguments.rows = true,
                "--sample" => arguments.sample = number()?,
                "--seed" => arguments.seed = number()?,
                "--memory" => arguments.memory = number()?.saturating_mul(MIB),
                "--window-bits" => {
                    let least = u64::from(marking::WINDOW_BITS_MIN);
                    let bits = number()?;
                    let bits = u32::try_from(bits).ok().filter(|_| bits >= least);
                    arguments.window_bits =
                        bits.ok_or_else(|| format!("--window-bits: at least {least}"))?;
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
    line("bytes", || {
        table.verify_bytes()?;
        Ok("all files are as the manifest says".into())
    })?;

    let mut survey = None;
    line("structure", || {
        let counted = survey.insert(Survey::of(&table)?);
        Ok(format!(
            "{} stored words stand for {} losing positions, and agree with what is proved",
            counted.stored(),
            counted.losing(bits)
        ))
    })?;
    let survey = survey.expect("the check before gave it or an error");
    line("counts", || {
        let known::Compared {
            by_bits,
            by_area,
            inside,
        } = known::compare(&survey)?;
        Ok(format!(
            "as others have found them: {by_bits} by bits, {by_area} by area, {inside} inside boxes"
        ))
    })?;
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
    if arguments.sample > 0 {
        line("sample", || {
            let report =
                sample::check_sample(&table, arguments.sample, arguments.seed, arguments.memory)?;
            Ok(format!(
                "{} random positions, {} of them losing, with {} moves, agree with the definition; \
                 with 95 % confidence the share of others is below {:.1e}",
                report.positions,
                report.losing,
                report.moves,
                report.wrong_share_bound()
            ))
        })?;
    }
    if arguments.full {
        line("full", || {
            let windows = marking::windows(bits, arguments.window_bits);
            let report = marking::check_all(&table, arguments.window_bits, |number, report| {
                if windows > 1 {
                    let (number, losing) = (number + 1, report.losing);
                    eprintln!("window {number} of {windows}: {losing} losing positions agree");
                }
            })?;
            Ok(format!(
                "{} positions, {} of them losing, agree with marking",
                report.positions, report.losing
            ))
        })?;
    }
    if arguments.rows {
        print_rows(&table, &survey, &all);
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

fn print_rows(table: &Table, survey: &Survey, openings: &[Opening]) {
    let manifest = table.manifest();
    println!("\nby bits");
    for bits in 25..=manifest.bits {
        let losing = survey.losing(bits);
        let stored = u64::midpoint(losing, u64::from(bits / 2));
        let fingerprint = &manifest.fingerprints_by_bits[bits as usize];
        let (losing, stored) = (commas(losing), commas(stored));
        println!("| {bits} | {losing} | {stored} | `{fingerprint}` |");
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
                CheckError::Table(_) => ExitCode::FAILURE,
            }
        }
    }
}
