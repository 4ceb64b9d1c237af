//! The program `chomp`.

use std::process::ExitCode;

fn main() -> ExitCode {
    chomp_cli::main()
}
