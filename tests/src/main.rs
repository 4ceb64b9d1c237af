//! The program `chomp`, under a name of its own, whose leases may be shorter.

use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let lease = std::env::var("CHOMP_TEST_LEASE_MS").ok();
    let millis = lease.map(|millis| millis.parse().expect("a number of milliseconds"));
    chomp_cli::main_with(millis.map(Duration::from_millis))
}
