//! Signals that end the program in good order: SIGINT and SIGTERM, SIGHUP of a terminal that is lost, and the warnings
//! of batch systems before they kill: SIGUSR1, SIGUSR2 and SIGXCPU. A worker does not end at SIGUSR2, but takes no more
//! tasks. SIGXFSZ ends nothing: a file that would become larger than permitted is an error of the write.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};
use tokio_util::sync::CancellationToken;

use crate::exit::{Exit, Interruption};

/// The result of `work`, unless `stop` is cancelled first. Then `work` is dropped where it waits.
pub(crate) async fn unless_stopped<T>(
    stop: &CancellationToken,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let done = stop.run_until_cancelled(work).await;
    done.unwrap_or_else(|| Err(Interruption::Resumable.into()))
}

/// The time in which further signals are of the same event: some programs send each signal to a process and to its
/// group.
const SAME_EVENT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// Whether the command ends by itself after the first signal. A further signal, a second later, ends the process at
    /// once; nothing committed is lost.
    pub(crate) in_good_order: bool,
    /// Whether SIGUSR2 does not end the command, but drains the worker.
    pub(crate) drains: bool,
}

/// A token that the first signal from now on cancels.
#[expect(
    clippy::disallowed_methods,
    reason = "the task ends with the process, and a second signal is to end that at once"
)]
pub(crate) fn stop_on_signals(ending: Ending) -> anyhow::Result<CancellationToken> {
    let mut kinds = vec![Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1];
    kinds.extend((!ending.drains).then_some(Signal::SIGUSR2));
    kinds.extend((!is_hangup_ignored()).then_some(Signal::SIGHUP));
    let mut first = listeners(&kinds)?;
    // SIGXCPU counts only as the first signal: the system repeats it with each further second of CPU time.
    first.extend(listeners(&[Signal::SIGXCPU])?);
    // While SIGXFSZ has a listener, it does not end the process.
    let too_large = listeners(&[Signal::SIGXFSZ])?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        any(&mut first).await;
        token.cancel();
        if ending.in_good_order {
            tokio::time::sleep(SAME_EVENT).await;
            // New listeners hear only signals from now on.
            if let Ok(mut second) = listeners(&kinds) {
                any(&mut second).await;
            }
        }
        drop(too_large);
        std::process::exit(Exit::Stopped as i32);
    });
    Ok(stop)
}

/// A token that is cancelled by SIGUSR2.
#[expect(
    clippy::disallowed_methods,
    reason = "the task ends with the process, and a signal may come at any time until then"
)]
pub(crate) fn drain_on_signal() -> anyhow::Result<CancellationToken> {
    let mut signals = listeners(&[Signal::SIGUSR2])?;
    let drain = CancellationToken::new();
    let token = drain.clone();
    tokio::spawn(async move {
        any(&mut signals).await;
        token.cancel();
    });
    Ok(drain)
}

fn listeners(kinds: &[Signal]) -> anyhow::Result<Vec<unix::Signal>> {
    let listener = |&kind| unix::signal(SignalKind::from_raw(kind as i32));
    let listeners: Result<_, _> = kinds.iter().map(listener).collect();
    listeners.context("cannot wait for signals")
}

async fn any(listeners: &mut [unix::Signal]) {
    poll_fn(|context| {
        let mut listeners = listeners.iter_mut();
        if listeners.any(|listener| listener.poll_recv(context).is_ready()) {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}

/// Whether SIGHUP is ignored, as `nohup` has it.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}
