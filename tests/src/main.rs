//! The program `chomp`, under a name of its own, and in haste if `CHOMP_TEST_HASTE` or `CHOMP_TEST_HASTE_LIMITS` says
//! so.

use std::process::ExitCode;

use chomp_cli::Haste;

fn main() -> ExitCode {
    let divisor = |name: &str| -> u32 {
        let text = std::env::var(name);
        text.map_or(1, |text| text.parse().expect("a number of times"))
    };
    chomp_cli::main_in_haste(Haste {
        leases: divisor("CHOMP_TEST_HASTE"),
        limits: divisor("CHOMP_TEST_HASTE_LIMITS"),
    })
}
