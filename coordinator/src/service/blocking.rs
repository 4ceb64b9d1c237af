//! Work for a CPU, kept off the threads that serve calls.

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::job::Over;

/// Does `work` on a thread for such work; in a runtime of one thread, which is that of a simulation,
/// here and now, so that nothing depends on how threads run.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Over> {
    let runtime = Handle::current();
    if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
        return Ok(work.await);
    }
    match tokio::task::spawn_blocking(move || runtime.block_on(work)).await {
        Ok(result) => Ok(result),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down.
            Err(_) => Err(Over),
        },
    }
}
