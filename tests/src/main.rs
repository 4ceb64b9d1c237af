//! The program `chomp`, under a name of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    chomp_cli::main()
}
