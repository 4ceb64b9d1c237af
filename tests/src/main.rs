//! The program `chomp`, under a name of its own, with variables that change what tests have to choose:
//!
//! | variable | does |
//! |---|---|
//! | `CHOMP_TEST_HASTE` | divides leases and pauses |
//! | `CHOMP_TEST_HASTE_LIMITS` | divides the limits of connections and the patience with servers |
//! | `CHOMP_TEST_CHECKS_PER_1000` | of 1,000 ranges, the number that a coordinator selects for a check |
//! | `CHOMP_TEST_ISA` | evaluates with no wider instruction set: portable, avx2 or avx512 |

use std::process::ExitCode;
use std::str::FromStr;

use chomp_cli::TestOverrides;

fn main() -> ExitCode {
    chomp_cli::main_with(TestOverrides {
        lease_haste: variable("CHOMP_TEST_HASTE").unwrap_or(1),
        limit_haste: variable("CHOMP_TEST_HASTE_LIMITS").unwrap_or(1),
        checks_per_1000: variable("CHOMP_TEST_CHECKS_PER_1000"),
        isa: variable("CHOMP_TEST_ISA"),
    })
}

fn variable<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let value = text.parse().ok();
    Some(value.unwrap_or_else(|| panic!("{name}={text}")))
}
