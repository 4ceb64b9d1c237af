//! A cluster in virtual time: workers, the store and the coordinator's journal around the true plan.
//!
//! | command, after `cargo run --release -p chomp-plan --example cluster --` | what it prints |
//! |---|---|
//! | `scale 48 range_bits=28 bandwidth=1.25e9` | how many threads help, and what limits a job: see docs/SCALING.md |
//! | `liars [JOBS [PARTICIPANTS]]` | what one liar among many can get into the table: see docs/SECURITY.md |

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the tables are what it is for"
)]

mod costs;
mod job;
mod liars;
mod scale;
mod serving;
mod simulation;
mod store;
#[cfg(test)]
mod tests;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let answered = match arguments.next().as_deref() {
        Some("scale") => scale::answer(arguments),
        Some("liars") => liars::answer(arguments),
        _ => Err("ask for scale or liars".to_owned()),
    };
    if let Err(wrong) = answered {
        eprintln!("{wrong}");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}
