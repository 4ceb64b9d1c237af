//! The program `chomp`, under a name of its own, with variables that change what tests have to choose:
//!
//! | variable | does |
//! |---|---|
//! | `CHOMP_TEST_HASTE` | divides leases and pauses |
//! | `CHOMP_TEST_HASTE_LIMITS` | divides the limits of connections and the patience with servers |
//! | `CHOMP_TEST_DRAW_ONE_IN` | has a coordinator draw one range in so many for a check, or none if it is 0 |
//! | `CHOMP_TEST_ISA` | evaluates with no wider instruction set: portable, avx2 or avx512 |

use std::process::ExitCode;
use std::str::FromStr;

use chomp_cli::Haste;

fn main() -> ExitCode {
    chomp_cli::main_in_haste(Haste {
        leases: variable("CHOMP_TEST_HASTE").unwrap_or(1),
        limits: variable("CHOMP_TEST_HASTE_LIMITS").unwrap_or(1),
        draw_one_in: variable("CHOMP_TEST_DRAW_ONE_IN"),
        isa: variable("CHOMP_TEST_ISA"),
    })
}

fn variable<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let value = text.parse().ok();
    Some(value.unwrap_or_else(|| panic!("{name}={text}")))
}
