//! Work that another thread does while this one goes on.

use std::panic::resume_unwind;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

/// The runtime, if it has threads for such work. A simulation has one thread for everything, so that
/// nothing depends on how threads run.
pub(crate) fn threads() -> Option<Handle> {
    let runtime = Handle::try_current().ok()?;
    (runtime.runtime_flavor() != RuntimeFlavor::CurrentThread).then_some(runtime)
}

/// The runtime is being shut down: the work was not done.
#[derive(Debug)]
pub(crate) struct Abandoned;

/// Work that was begun. If this is dropped, it is done all the same.
#[derive(Debug)]
pub(crate) enum Background<T> {
    /// In a simulation it is done when it is begun.
    Done(T),
    /// A thread does it.
    UnderWay(JoinHandle<T>),
}

impl<T: Send + 'static> Background<T> {
    /// Begins `work`.
    pub(crate) async fn begin(work: impl Future<Output = T> + Send + 'static) -> Background<T> {
        match threads() {
            None => Background::Done(work.await),
            Some(runtime) => {
                let here = runtime.clone();
                Background::UnderWay(runtime.spawn_blocking(move || here.block_on(work)))
            }
        }
    }

    /// Waits for its end. A panic of the work goes on here.
    pub(crate) async fn end(self) -> Result<T, Abandoned> {
        match self {
            Background::Done(result) => Ok(result),
            Background::UnderWay(work) => match work.await {
                Ok(result) => Ok(result),
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    Err(_) => Err(Abandoned),
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_simulation_has_one_thread() {
        assert!(threads().is_none());
        assert!(matches!(
            Background::begin(async { 7 }).await,
            Background::Done(7)
        ));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_is_kept_off_the_threads_of_calls() {
        let here = std::thread::current().id();
        let work = Background::begin(async { std::thread::current().id() }).await;
        assert!(matches!(work, Background::UnderWay(_)));
        assert_ne!(work.end().await.unwrap(), here);
    }
}
