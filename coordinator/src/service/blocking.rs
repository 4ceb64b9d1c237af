//! Work for a CPU, kept off the threads that serve calls.

use crate::job::Unheard;
use crate::later::Later;

/// Does `work` on a thread for such work; in a simulation here and now.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Unheard> {
    let work = Later::begin(work).await;
    work.end().await.map_err(|_| Unheard::Over)
}
