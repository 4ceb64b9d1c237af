//! Work for a CPU, kept off the threads that serve calls.

use crate::background::Background;
use crate::job::CallRefused;

/// Does `work` on a thread for such work; in a simulation here and now.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, CallRefused> {
    let work = Background::begin(work).await;
    work.end().await.map_err(|_| CallRefused::ShuttingDown)
}
