//! Processes of a test, and what they leave: to start, wait for, stop and kill them.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chomp_testing::waiting::{HANG, Watchdog, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use super::{fingerprint, folder};

/// Makes the files of processes different from each other.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The pause between two looks for a moment that passes.
const LOOK: Duration = Duration::from_millis(1);

/// The exit code and the output of a process.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// None if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A process that writes what it says to files. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    /// Of these files, if they are in none of the test.
    folder: Option<TempDir>,
}

/// Starts a process whose files are in no folder of the test.
pub(crate) fn start(command: &mut Command) -> Process {
    let folder = folder();
    let mut process = Process::start(command, folder.path());
    process.folder = Some(folder);
    process
}

/// Runs `command` to its end.
pub(crate) fn end(command: &mut Command) -> Ended {
    finish(command.spawn().expect("the program starts"))
}

/// Runs a command with `input` on stdin.
pub(crate) fn ask(command: &mut Command, input: String) -> Ended {
    command.stdin(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let ended = finish(child);
    // It may have ended before it had read all.
    drop(writer.join().expect("the writer ends"));
    ended
}

/// Waits for the end of a process with pipes; one that hangs is killed, so that its test fails.
fn finish(child: Child) -> Ended {
    let pid = child.id();
    let watchdog = Watchdog::calling(move || send(pid, Signal::SIGKILL));
    let output = child.wait_with_output().expect("the program ends");
    drop(watchdog);
    let text = |bytes| String::from_utf8(bytes).expect("the program prints text");
    Ended {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Sends a signal to a process that was not waited for yet.
pub(crate) fn send(process: u32, signal: Signal) {
    kill(pid(process), signal).expect("the process is there");
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(i32::try_from(process).expect("a process id"))
}

impl Process {
    pub(crate) fn start(command: &mut Command, home: &Path) -> Process {
        Process::spawn(command, home, None)
    }

    /// Starts a process whose stderr goes elsewhere.
    pub(crate) fn start_unread(command: &mut Command, home: &Path, stderr: Stdio) -> Process {
        Process::spawn(command, home, Some(stderr))
    }

    fn spawn(command: &mut Command, home: &Path, elsewhere: Option<Stdio>) -> Process {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let [stdout, stderr] =
            ["stdout", "stderr"].map(|name| home.join(format!("{number}.{name}")));
        let to_file = Stdio::from(File::create(&stderr).unwrap());
        let child = command
            .stdout(File::create(&stdout).unwrap())
            .stderr(elsewhere.unwrap_or(to_file))
            .spawn()
            .expect("the program starts");
        Process {
            child,
            stdout,
            stderr,
            folder: None,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    /// Its standard output so far.
    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap()
    }

    pub(crate) fn send(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Whether it has a handler for a signal.
    pub(crate) fn catches(&self, signal: Signal) -> bool {
        // A process that has ended may be gone.
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.map(|caught| u64::from_str_radix(caught.trim(), 16).unwrap());
        caught.is_some_and(|caught| caught >> (signal as i32 - 1) & 1 == 1)
    }

    /// The most memory that it ever had.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
        kib.parse::<u64>().unwrap() << 10
    }

    /// The CPU time that it has taken so far, which the system counts in hundredths of a second.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let ticks = fields.split(' ').skip(11).take(2);
        let ticks: f64 = ticks.map(|ticks| ticks.parse::<f64>().unwrap()).sum();
        ticks / 100.0
    }

    /// The nice values of its threads.
    pub(crate) fn nice_values(&self) -> Vec<i32> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        // A thread may end meanwhile.
        let stats = threads
            .filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("stat")).ok());
        let nice = |stat: String| {
            let (_, fields) = stat.rsplit_once(") ").unwrap();
            fields.split(' ').nth(16).unwrap().parse().unwrap()
        };
        stats.map(nice).collect()
    }

    /// Its exit code and output, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<Ended> {
        let status = self.child.try_wait().expect("a process of ours")?;
        Some(Ended {
            code: status.code(),
            stdout: fs::read_to_string(&self.stdout).unwrap(),
            stderr: self.said(),
        })
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Ended {
        let mut ended = None;
        wait_for("the end of a process", || {
            ended = self.ended();
            ended.is_some()
        });
        ended.expect("it has ended")
    }

    /// Asks it to stop, and waits for its end.
    pub(crate) fn stop(self) -> Ended {
        self.send(Signal::SIGTERM);
        self.wait()
    }

    /// Kills it; what it left behind says whether it had ended before.
    pub(crate) fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        self.wait()
    }

    /// Makes sure that it is gone.
    pub(crate) fn end(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Removes what it said: of thousands of processes nobody reads it.
    pub(crate) fn forget(&self) {
        fs::remove_file(&self.stdout).unwrap();
        fs::remove_file(&self.stderr).unwrap();
    }

    /// Waits until it has said this.
    pub(crate) fn wait_to_say(&mut self, text: &str) {
        wait_for(text, || {
            let ended = self.ended();
            assert!(ended.is_none(), "{ended:?}");
            self.said().contains(text)
        });
    }

    /// Waits until `condition` holds or it has ended; returns whether it is still there.
    pub(crate) fn wait_until(&mut self, condition: impl Fn() -> bool) -> bool {
        let start = Instant::now();
        loop {
            let met = condition();
            if self.ended().is_some() || met {
                return self.ended().is_none();
            }
            assert!(start.elapsed() < HANG, "it hangs: {}", self.said());
            thread::sleep(LOOK);
        }
    }

    /// Stops it, and waits until all its threads have: a call to the system that is under way is finished first.
    pub(crate) fn pause(&self) {
        self.send(Signal::SIGSTOP);
        let flags = WaitPidFlag::WUNTRACED;
        let status = waitpid(pid(self.pid()), Some(flags)).expect("a child of ours");
        assert!(matches!(status, WaitStatus::Stopped(..)), "{status:?}");
    }

    /// Waits until `condition` holds of the process, which stands still for each look, and leaves it standing; returns
    /// whether it is still there. However slow a look is, the process does not get on meanwhile.
    pub(crate) fn hold_when(&self, condition: impl Fn() -> bool) -> bool {
        let start = Instant::now();
        loop {
            self.send(Signal::SIGSTOP);
            let flags = WaitPidFlag::WUNTRACED | WaitPidFlag::WNOWAIT | WaitPidFlag::WEXITED;
            let status = waitid(Id::Pid(pid(self.pid())), flags).expect("a child of ours");
            if !matches!(status, WaitStatus::Stopped(..)) {
                return false;
            }
            if condition() {
                return true;
            }
            assert!(start.elapsed() < HANG, "it hangs: {}", self.said());
            self.send(Signal::SIGCONT);
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

impl Ended {
    /// Asserts the exit code.
    pub(crate) fn exits(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Asserts that all went well.
    pub(crate) fn done(self) -> Ended {
        self.exits(0)
    }

    /// The summary of a run that is done.
    pub(crate) fn summary(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The summary of a run that has made the table with this fingerprint.
    pub(crate) fn made(&self, known: &str) -> Value {
        let summary = self.summary();
        assert_eq!(fingerprint(&summary), known, "{self:?}");
        summary
    }

    /// Asserts that there was a message with this text.
    pub(crate) fn says(&self, text: &str) {
        assert!(self.stderr.contains(text), "no {text:?} in {self:?}");
    }

    /// Asserts that no message had this text.
    pub(crate) fn says_nothing_of(&self, text: &str) {
        assert!(!self.stderr.contains(text), "{text:?} is in {self:?}");
    }

    /// Asserts the exit code, and that the message has all of `texts` and stdout nothing.
    pub(crate) fn refuses(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        for text in texts {
            self.says(text);
        }
    }
}
