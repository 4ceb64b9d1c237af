//! Waiting for an event, however slow the machine is.
//!
//! A test waits for the event itself, never for a time after which it should have come: so no verdict depends on the
//! machine's speed. An event that does not come within [`HANG`] ends the test, or the process, with its name.

use std::io::{self, Write};
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A wait that takes longer hangs.
pub const HANG: Duration = Duration::from_mins(10);

/// The pause between two looks at a condition.
const POLL: Duration = Duration::from_millis(5);

/// Waits until `condition` holds. Panics if it does not hold within [`HANG`].
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < HANG, "no sign of {what} in {HANG:?}");
        thread::sleep(POLL);
    }
}

/// Waits for the output of `future`. Panics if it does not come within [`HANG`], or with a paused clock, if nothing
/// else is left to wait for.
#[cfg(feature = "tokio")]
pub async fn arrives<F: Future>(what: &str, future: F) -> F::Output {
    let output = tokio::time::timeout(HANG, future).await;
    output.unwrap_or_else(|_| panic!("no sign of {what} in {HANG:?}"))
}

/// Waits until `condition` holds, and lets other tasks run meanwhile. Panics if it does not hold within [`HANG`].
#[cfg(feature = "tokio")]
pub async fn becomes(what: &str, mut condition: impl FnMut() -> bool) {
    let holds = async {
        while !condition() {
            tokio::time::sleep(POLL).await;
        }
    };
    arrives(what, holds).await;
}

/// Calls a function if nothing new begins within [`HANG`] and it is not dropped: for what cannot be interrupted.
#[derive(Debug)]
pub struct Watchdog {
    begins: Option<Sender<String>>,
    watch: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Ends the process, with the name of what has begun last.
    pub fn of_this_process() -> Watchdog {
        Watchdog::new(HANG, |what| {
            // The macros would print into the captured output of a test, which nobody sees any more.
            let _ = writeln!(io::stderr(), "{what}: no end in {HANG:?}");
            process::abort();
        })
    }

    /// Calls `end`.
    pub fn calling(end: impl FnOnce() + Send + 'static) -> Watchdog {
        Watchdog::new(HANG, |_| end())
    }

    fn new(after: Duration, end: impl FnOnce(String) + Send + 'static) -> Watchdog {
        let (begins, begun) = mpsc::channel();
        let watch = thread::spawn(move || {
            let mut last = String::new();
            loop {
                match begun.recv_timeout(after) {
                    Ok(what) => last = what,
                    Err(RecvTimeoutError::Timeout) => return end(last),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Watchdog {
            begins: Some(begins),
            watch: Some(watch),
        }
    }

    /// Something of this name begins, for which there is all the time again.
    pub fn begin(&self, what: String) {
        let begins = self.begins.as_ref().expect("it is not dropped");
        // One that has called its function hears nothing any more.
        let _ = begins.send(what);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.begins.take());
        let ended = self.watch.take().expect("it is dropped once").join();
        ended.expect("what it calls does not panic");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_calls_when_nothing_new_begins_and_never_after_it_was_dropped() {
        let (calls, called) = mpsc::channel();
        let dropped = calls.clone();
        drop(Watchdog::calling(move || {
            dropped.send("a dropped one".to_owned()).unwrap();
        }));
        let watchdog = Watchdog::new(Duration::ZERO, move |what| calls.send(what).unwrap());
        watchdog.begin("a late one".to_owned());
        // It may have ended before that began.
        assert!(["", "a late one"].contains(&&*called.recv().unwrap()));
        drop(watchdog);
        assert!(called.recv().is_err());
    }

    #[test]
    fn a_condition_is_looked_at_until_it_holds() {
        let mut looks = 0;
        wait_for("three looks", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }
}
