//! SIGINT and SIGTERM.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;

/// The result of `work`, or none if `stop` is cancelled first. Then `work` is dropped where it waits.
pub(crate) async fn unless_stopped<T>(
    stop: &CancellationToken,
    work: impl Future<Output = T>,
) -> Option<T> {
    stop.run_until_cancelled(work).await
}

/// A token that is cancelled by SIGINT or SIGTERM. A second signal ends the process at once, which
/// loses nothing that is committed.
#[expect(
    clippy::disallowed_methods,
    reason = "the task ends with the process, and a second signal is to end that at once"
)]
pub(crate) fn stop_on_signals() -> anyhow::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        for signals in 1.. {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if signals > 1 {
                std::process::exit(Exit::Stopped as i32);
            }
            token.cancel();
        }
    });
    Ok(stop)
}
