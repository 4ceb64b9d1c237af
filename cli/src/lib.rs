//! The program `chomp`: arguments, progress, printing.
//!
//! Results go to stdout, everything else to stderr. [`exit`] has the exit codes.

mod args;
pub mod exit;
mod machine;
mod progress;
mod run;
mod summary;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use exit::Exit;
use progress::Display;

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let display = Display::new();
    start_log(&display);
    let result = match args.command {
        Command::Run(args) => run::main(args, &display),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            display.error(&error);
            Exit::of(&error).into()
        }
    }
}

/// Sends log lines to stderr, above the progress bar. `CHOMP_LOG` chooses which.
fn start_log(display: &Display) {
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::WARN.into())
        .with_env_var("CHOMP_LOG")
        .from_env_lossy();
    let writer = display.clone();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || writer.clone())
        .with_target(false)
        .with_ansi(display.is_terminal())
        .init();
}

/// Prints a result on stdout. A reader that went away is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}
