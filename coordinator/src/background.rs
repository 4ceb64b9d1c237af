//! Work for a CPU, kept off the threads that serve calls.

use std::panic::resume_unwind;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::error::Refusal;

/// The runtime, if it has threads for blocking work. A simulation has one thread for everything, so that nothing
/// depends on how threads run.
pub(crate) fn multi_thread_runtime() -> Option<Handle> {
    let runtime = Handle::try_current().ok()?;
    (runtime.runtime_flavor() != RuntimeFlavor::CurrentThread).then_some(runtime)
}

/// Runs `work` on a thread for blocking work, or in a simulation here and now. A panic of the work goes on here.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let Some(runtime) = multi_thread_runtime() else {
        return Ok(work());
    };
    let done = runtime.spawn_blocking(work).await;
    done.map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        // The runtime is being shut down: the work was not done.
        Err(_) => Refusal::ShuttingDown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_simulation_has_one_thread() {
        let here = std::thread::current().id();
        assert_eq!(run_blocking(|| std::thread::current().id()).await, Ok(here));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_is_kept_off_the_threads_of_calls() {
        let here = std::thread::current().id();
        assert_ne!(run_blocking(|| std::thread::current().id()).await, Ok(here));
    }
}
