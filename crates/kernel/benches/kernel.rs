//! The time and memory of the kernel, on one thread, without coding, network or disk:
//!
//! ```text
//! cargo bench -p chomp-kernel                      all sections
//! cargo bench -p chomp-kernel -- levels            some: levels, tables
//! ```
//!
//! * **levels**: all ranges of one table, by range bits. What solving takes more with two more range
//!   bits are the lifts of two levels; what marking takes less is the same work left to other ranges.
//! * **tables**: tables of different bits.
//!
//! CPU time of the thread, the least of two rounds for each range; for each instruction set.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::collections::HashMap;
use std::time::Duration;

use chomp_kernel::{Evaluator, Isa, Source};
use chomp_table::{Range, RangeBits, head};
use nix::time::{ClockId, clock_gettime};

/// How often each thing is measured.
const ROUNDS: usize = 2;
/// The bits of the table that is measured with all range bits.
const LEVELS_OF: u32 = 30;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let sections = ["levels", "tables"];
    let chosen = |name| {
        let asked = |name: &str| args.iter().any(|arg| arg == name);
        asked(name) || !sections.iter().any(|name| asked(name))
    };
    if chosen("levels") {
        levels();
    }
    if chosen("tables") {
        tables();
    }
}

/// The instruction sets of this CPU, the widest first.
fn instruction_sets() -> Vec<Isa> {
    let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    available.rev().collect()
}

fn title(section: &str, columns: &[&str]) {
    println!("\n### {section}\n\n| {} |", columns.join(" | "));
    println!("|{}", "---:|".repeat(columns.len()));
}

fn levels() {
    let columns = [
        "instruction set",
        "range bits",
        "mark, ms",
        "solve, ms",
        "both, ms",
    ];
    let section = format!("The ranges of {LEVELS_OF} bits, for each 2^23 positions");
    title(&section, &columns);
    for isa in instruction_sets() {
        for b in (14..=26).step_by(2) {
            let [mark, both] = table(LEVELS_OF, range_bits(b), isa);
            println!(
                "| {isa} | {b} | {mark:.2} | {:.2} | {both:.2} |",
                both - mark
            );
        }
    }
}

fn tables() {
    let columns = [
        "instruction set",
        "bits",
        "range bits",
        "mark, ms",
        "solve, ms",
        "both, ms",
    ];
    title("Tables, for each 2^23 positions", &columns);
    for isa in instruction_sets() {
        for (bits, b) in [(28, 24), (30, 24), (32, 24), (34, 24), (34, 26)] {
            let [mark, both] = table(bits, range_bits(b), isa);
            println!(
                "| {isa} | {bits} | {b} | {mark:.2} | {:.2} | {both:.2} |",
                both - mark
            );
        }
    }
}

/// The milliseconds for each 2^23 positions of a table, to mark from sources and for all.
fn table(bits: u32, range_bits: RangeBits, isa: Isa) -> [f64; 2] {
    let mut evaluator = Evaluator::new(range_bits, isa);
    let (mut mark, mut both) = (Duration::ZERO, Duration::ZERO);
    let mut sources = HashMap::new();
    for head in head::layers(bits, range_bits).concat() {
        let all = "sources are in lower layers";
        let mut range = Range::default();
        mark += least(|| evaluator.mark_from_sources(head, &sources).expect(all));
        both += least(|| range = evaluator.evaluate(head, &sources).expect(all));
        sources.insert(head, Source::new(range));
    }
    let blocks = 2f64.powi(i32::try_from(bits).expect("small") - 24);
    [mark, both].map(|time| time.as_secs_f64() * 1e3 / blocks)
}

fn range_bits(bits: u32) -> RangeBits {
    RangeBits::new(bits).expect("valid range bits")
}

/// The least time of some rounds.
fn least(mut work: impl FnMut()) -> Duration {
    let round = |_| {
        let start = cpu_time();
        work();
        cpu_time().saturating_sub(start)
    };
    (0..ROUNDS).map(round).min().expect("some rounds")
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    Duration::from(time.expect("the system has the clock"))
}
