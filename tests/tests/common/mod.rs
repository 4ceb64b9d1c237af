//! What the whole-system tests share: starting the program, waiting for it, reading what it says.

#![allow(dead_code, reason = "each test file uses a part of this")]

pub(crate) mod cluster;
pub(crate) mod http;
pub(crate) mod netns;
pub(crate) mod proxy;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_chomp-under-test");

/// The fingerprints of 20, 24, 30 and 32 bits, which any correct program gets.
pub(crate) const FINGERPRINT_20: &str =
    "ccc3c24a30b196dd251acf2a76668b94991ef6839a9491b2bf82128d22dc102e";
pub(crate) const FINGERPRINT_24: &str =
    "a266f1fc415003256dd6df7df5c61781155a4e4c6a2d34984f56c0820467c341";
pub(crate) const FINGERPRINT_30: &str =
    "d82e0472d012698c4955229d073960b610a80e5f7c1bc7759056b7165b0ca3e3";
pub(crate) const FINGERPRINT_32: &str =
    "a6484e0651b98ea40b72e66962ff7e8f3711b95ca8d328e882838724cdf8b4b0";

/// A process that has not ended after this long hangs.
const HANG: Duration = Duration::from_mins(5);

/// What a process left behind.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// None if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program, with nothing in its environment that it would listen to.
pub(crate) fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CHOMP_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `chomp run --json` for the table of `bits` bits in `table`.
pub(crate) fn run(table: &Path, bits: u32) -> Command {
    let mut command = program();
    command.args(["run", "--json", "--threads", "2", "--bits"]);
    command.arg(bits.to_string()).arg("--table").arg(table);
    command
}

/// The same with ranges of 2^`range_bits` words.
pub(crate) fn run_in(table: &Path, bits: u32, range_bits: u32) -> Command {
    let mut command = run(table, bits);
    command.args(["--range-bits", &range_bits.to_string()]);
    command
}

pub(crate) fn start(command: &mut Command) -> Child {
    command.spawn().expect("the program starts")
}

/// Runs `command` to its end.
pub(crate) fn end(command: &mut Command) -> Ended {
    wait(start(command))
}

/// Waits for the end of `child`; one that hangs is killed, so that its test fails.
pub(crate) fn wait(child: Child) -> Ended {
    let pid = child.id();
    let (ended, watch) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if watch.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout) {
            send(pid, Signal::SIGKILL);
        }
    });
    let output = child.wait_with_output().expect("the program ends");
    drop(ended);
    watchdog.join().expect("the watchdog ends");
    let text = |bytes| String::from_utf8(bytes).expect("the program prints text");
    Ended {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Sends a signal to a process that was not waited for yet.
pub(crate) fn send(pid: u32, signal: Signal) {
    kill(process(pid), signal).expect("the process is there");
}

/// Stops a process, and waits until all its threads have: a call to the system that is under way
/// is finished first.
pub(crate) fn pause(pid: u32) {
    send(pid, Signal::SIGSTOP);
    let status = waitpid(process(pid), Some(WaitPidFlag::WUNTRACED)).expect("a child of ours");
    assert_eq!(status, WaitStatus::Stopped(process(pid), Signal::SIGSTOP));
}

fn process(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).expect("a process id"))
}

/// Waits until `condition` holds or the process has ended; returns whether it is still there.
pub(crate) fn wait_until(child: &mut Child, condition: impl Fn() -> bool) -> bool {
    loop {
        let met = condition();
        if child.try_wait().expect("a process of ours").is_some() {
            return false;
        }
        if met {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Ended {
    /// The summary of a run that is done.
    pub(crate) fn summary(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts the exit code, and that the message has all of `texts` and stdout nothing.
    pub(crate) fn refuses(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        for text in texts {
            assert!(self.stderr.contains(text), "no {text:?} in {self:?}");
        }
    }
}

pub(crate) fn fingerprint(summary: &Value) -> &str {
    summary["fingerprint"].as_str().expect("a fingerprint")
}

pub(crate) fn number(summary: &Value, name: &str) -> u64 {
    let number = summary[name].as_u64();
    number.unwrap_or_else(|| panic!("no number {name} in {summary}"))
}

/// All files in `folder` and its subfolders, sorted; none if it is not there.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The number of ranges that the parts of a table hold: each part says it at its offset 36.
pub(crate) fn ranges_committed(table: &Path) -> u64 {
    let parts = files(&table.join("work/parts"));
    // A file that is still being written has a `#` in its name.
    let whole = parts
        .iter()
        .filter(|path| !path.to_string_lossy().contains('#'));
    let ranges = whole.map(|path| {
        let part = fs::read(path).expect("a part");
        let number = part[36..40].try_into().expect("four bytes");
        u64::from(u32::from_le_bytes(number))
    });
    ranges.sum()
}
