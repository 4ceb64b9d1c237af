//! Signals that end the program in good order: SIGINT and SIGTERM, SIGHUP of a terminal that is lost, and SIGUSR1, by
//! which Slurm warns before it kills. SIGUSR2 has a worker take no more tasks.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
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

/// A token that is cancelled by such a signal. A second signal ends the process at once, which
/// loses nothing that is committed.
#[expect(
    clippy::disallowed_methods,
    reason = "the task ends with the process, and a second signal is to end that at once"
)]
pub(crate) fn stop_on_signals() -> anyhow::Result<CancellationToken> {
    let wait_for = |kind| signal(kind).context("cannot wait for signals");
    let mut interrupt = wait_for(SignalKind::interrupt())?;
    let mut terminate = wait_for(SignalKind::terminate())?;
    let mut warned = wait_for(SignalKind::user_defined1())?;
    let hangup = (!is_hangup_ignored()).then(|| wait_for(SignalKind::hangup()));
    let mut hangup = hangup.transpose()?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        for signals in 1.. {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = warned.recv() => {}
                Some(()) = async { hangup.as_mut()?.recv().await } => {}
            }
            if signals > 1 {
                std::process::exit(Exit::Stopped as i32);
            }
            token.cancel();
        }
    });
    Ok(stop)
}

/// A token that is cancelled by SIGUSR2.
#[expect(
    clippy::disallowed_methods,
    reason = "the task ends with the process, and a signal may come at any time until then"
)]
pub(crate) fn drain_on_signal() -> anyhow::Result<CancellationToken> {
    let told = signal(SignalKind::user_defined2());
    let mut told = told.context("cannot wait for signals")?;
    let drain = CancellationToken::new();
    let token = drain.clone();
    tokio::spawn(async move {
        told.recv().await;
        token.cancel();
    });
    Ok(drain)
}

/// Whether SIGHUP is ignored, as `nohup` has it.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}
