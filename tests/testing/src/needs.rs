//! Needs of tests beside Rust that not every machine has or permits: a program, a mount, a network.
//!
//! A test that finds it missing has nothing to do. It says so on the terminal, past what keeps back the output of
//! tests, and in the file that `CHOMP_NOT_RUN` names; with `CHOMP_REQUIRE_<NAME>=1` it fails. `.ci/run` sets these
//! variables.

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::thread;

/// Returns the need of this name if it was found. Else reports that the test is not run, or panics if it is required.
pub fn found<T>(name: &str, found: Result<T, String>) -> Option<T> {
    let variable = format!("CHOMP_REQUIRE_{name}");
    let required = env::var_os(&variable).is_some_and(|value| value == "1");
    match found {
        Ok(found) => Some(found),
        Err(why) if required => panic!("{variable}=1, but {why}"),
        Err(why) => {
            let thread = thread::current();
            let line = format!("NOT RUN: {}: {why}\n", thread.name().unwrap_or(name));
            // The macros would print into the captured output of the test.
            let mut terminal = io::stderr();
            terminal.write_all(line.as_bytes()).expect("somebody reads");
            if let Some(path) = env::var_os("CHOMP_NOT_RUN") {
                let file = File::options().create(true).append(true).open(path);
                let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
                written.expect("the list of what was not run can be written");
            }
            None
        }
    }
}

/// Whether a program that is there does this. The error names the missing thing.
pub fn can(what: &str, command: &mut Command) -> Result<(), String> {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
    match quiet.stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("{what} is not possible here")),
        Err(error) => Err(format!("{what} is not possible: {error}")),
    }
}

/// Whether system calls can be watched.
pub fn strace() -> bool {
    let mut watch = Command::new("strace");
    let watched = can("strace", watch.args(["-o", "/dev/null", "true"]));
    found("STRACE", watched).is_some()
}
