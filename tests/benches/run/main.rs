//! CPU time and memory of `chomp run` from start to shards on disk, side by side with the plain method, or with
//! another program of the same name.
//!
//! ```text
//! cargo bench -p chomp-tests --bench run -- 28 30 32               CPU time and ratio for each
//! cargo bench -p chomp-tests --bench run -- --alone --rounds 1 36  without the plain method, once
//! cargo bench -p chomp-tests --bench run -- --beside PATH 32       with the chomp at this path instead
//! ```
//!
//! The two take turns; the medians are printed. CPU time is user and system time of the whole
//! process, and peak memory is that of the largest process so far.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod baseline;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::resource::{Usage, UsageWho, getrusage};

/// This program.
const THIS: &str = env!("CARGO_BIN_EXE_chomp-under-test");
/// How often each is run, unless the command line says otherwise.
const ROUNDS: usize = 3;

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    if let [mode, bits] = &args[..]
        && mode == "--baseline"
    {
        println!("{}", baseline::losing(parse(bits)));
        return;
    }
    let (mut beside, mut rounds, mut all_bits) = (Beside::PlainMethod, ROUNDS, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--alone" => beside = Beside::Nothing,
            "--beside" => beside = Beside::Program(args.next().expect("a path").into()),
            "--rounds" => rounds = parse(args.next().map_or("", String::as_str)) as usize,
            bits => all_bits.push(parse(bits)),
        }
    }
    if all_bits.is_empty() {
        all_bits = vec![26, 28, 30];
    }
    println!(
        "\n### `chomp run`, from nothing to shards\n\n\
         | bits | other, CPU s | run, CPU s | ratio | wall s | evaluation | peak MiB | ns a position | bits a losing position |\n\
         |{}",
        "---:|".repeat(9)
    );
    for bits in all_bits {
        row(bits, &beside, rounds);
    }
}

/// The program that this one is compared with.
#[derive(Debug)]
enum Beside {
    PlainMethod,
    Program(PathBuf),
    Nothing,
}

fn parse(bits: &str) -> u32 {
    bits.parse()
        .unwrap_or_else(|_| panic!("{bits} is not a number of bits"))
}

fn row(bits: u32, beside: &Beside, rounds: usize) {
    let (mut other, mut run, mut wall, mut share) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut losing_bits = 0.0;
    let mut peak = 0;
    for _ in 0..rounds {
        let (summary, cpu) = run_chomp(Path::new(THIS), bits);
        peak = usage().max_rss();
        run.push(cpu);
        wall.push(number(&summary, "seconds"));
        share.push(number(&summary, "evaluation_cpu_seconds") / cpu);
        losing_bits = number(&summary, "bytes") * 8.0 / number(&summary, "losing");
        let (losing, cpu) = match beside {
            Beside::PlainMethod => run_baseline(bits),
            Beside::Program(path) => {
                let (summary, cpu) = run_chomp(path, bits);
                (summary["losing"].to_string(), cpu)
            }
            Beside::Nothing => continue,
        };
        assert_eq!(losing, summary["losing"].to_string(), "both count alike");
        other.push(cpu);
    }
    let (run, wall, share) = (median(run), median(wall), median(share));
    let (other, ratio) = if other.is_empty() {
        ("-".to_owned(), "-".to_owned())
    } else {
        let other = median(other);
        (format!("{other:.3}"), format!("{:.2}", other / run))
    };
    println!(
        "| {bits} | {other} | {run:.3} | {ratio} | {wall:.2} | {:.0} % | {} | {:.3} | {losing_bits:.2} |",
        share * 100.0,
        peak / 1024,
        run * 1e9 / 2f64.powf(f64::from(bits - 1)),
    );
}

/// The summary of `chomp run` in a fresh directory, and its CPU seconds.
fn run_chomp(program: &Path, bits: u32) -> (serde_json::Value, f64) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let bits = bits.to_string();
    let mut command = Command::new(program);
    command
        .args(["run", "--json", "--bits", &bits, "--table"])
        .arg(directory.path());
    let (output, cpu) = cpu_of(&mut command);
    (serde_json::from_str(&output).expect("a summary"), cpu)
}

fn run_baseline(bits: u32) -> (String, f64) {
    let this = std::env::current_exe().expect("the path of this program");
    let (output, cpu) = cpu_of(Command::new(this).args(["--baseline", &bits.to_string()]));
    (output.trim().to_owned(), cpu)
}

/// Runs `command`; returns its standard output and the CPU seconds it took.
fn cpu_of(command: &mut Command) -> (String, f64) {
    let before = cpu_seconds(&usage());
    let output = command.output().expect("the program runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let cpu = cpu_seconds(&usage()) - before;
    (String::from_utf8(output.stdout).expect("text"), cpu)
}

fn usage() -> Usage {
    getrusage(UsageWho::RUSAGE_CHILDREN).expect("the usage of ended children")
}

fn cpu_seconds(usage: &Usage) -> f64 {
    [usage.user_time(), usage.system_time()]
        .into_iter()
        .map(|time| {
            Duration::from_secs(time.tv_sec().unsigned_abs())
                + Duration::from_micros(time.tv_usec().unsigned_abs())
        })
        .sum::<Duration>()
        .as_secs_f64()
}

fn number(summary: &serde_json::Value, name: &str) -> f64 {
    summary[name]
        .as_f64()
        .unwrap_or_else(|| panic!("the summary has {name}"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
