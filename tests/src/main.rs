//! The program `chomp`, under a name of its own, and in haste if `CHOMP_TEST_HASTE` says so.

use std::process::ExitCode;

fn main() -> ExitCode {
    let haste = std::env::var("CHOMP_TEST_HASTE");
    let haste = haste.map_or(1, |haste| haste.parse().expect("a number of times"));
    chomp_cli::main_in_haste(haste)
}
