//! The program `chomp`, under a name of its own. `CHOMP_TEST_HASTE` and `CHOMP_TEST_HASTE_LIMITS` divide its times, and
//! with `CHOMP_TEST_DRAW_ONE_IN` a coordinator draws one range in so many for a check.

use std::process::ExitCode;

use chomp_cli::Haste;

fn main() -> ExitCode {
    let number = |name: &str| -> Option<u32> {
        let text = std::env::var(name).ok()?;
        Some(text.parse().expect("a whole number"))
    };
    chomp_cli::main_in_haste(Haste {
        leases: number("CHOMP_TEST_HASTE").unwrap_or(1),
        limits: number("CHOMP_TEST_HASTE_LIMITS").unwrap_or(1),
        draw_one_in: number("CHOMP_TEST_DRAW_ONE_IN"),
    })
}
