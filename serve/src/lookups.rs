//! Work that reads a table: beside the threads that serve calls, and not too much of it at once.

use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// The requests that may wait for a thread. A warm lookup takes a tenth of a millisecond, so the
/// last of them waits a fraction of a second.
const WAITING_MAX: usize = 1024;
/// The threads that read a table, for each CPU: some wait for the disk.
const THREADS_EACH: usize = 4;

/// The threads and the queue for them. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Lookups {
    queue: Arc<Semaphore>,
    threads: Arc<Semaphore>,
}

/// Why work is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotDone {
    /// Too much of it waits already.
    #[error("too many questions at once: try again soon")]
    Full,
    /// It panicked, or the program is going down.
    #[error("the question could not be answered")]
    Lost,
}

impl Lookups {
    pub(crate) fn new() -> Lookups {
        let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Lookups::with_limits(THREADS_EACH * cpus, WAITING_MAX)
    }

    fn with_limits(threads: usize, waiting: usize) -> Lookups {
        Lookups {
            queue: Arc::new(Semaphore::new(threads + waiting)),
            threads: Arc::new(Semaphore::new(threads)),
        }
    }

    /// Does `work` when a thread is free.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let place = Arc::clone(&self.queue).try_acquire_owned();
        let place = place.map_err(|_| NotDone::Full)?;
        let thread = Arc::clone(&self.threads).acquire_owned().await;
        let thread = thread.map_err(|_| NotDone::Lost)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            // They are taken for as long as it works, even if nobody waits for that any more.
            drop((thread, place));
            done
        });
        done.await.map_err(|error| {
            tracing::error!("a question was not answered: {error}");
            NotDone::Lost
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn work_beyond_the_limits_is_refused() {
        let lookups = Lookups::with_limits(2, 3);
        let (release, wait) = mpsc::sync_channel::<()>(0);
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let mut under_way = tokio::task::JoinSet::new();
        for _ in 0..5 {
            let (lookups, wait) = (lookups.clone(), Arc::clone(&wait));
            under_way.spawn(async move {
                lookups
                    .run(move || wait.lock().unwrap().recv().unwrap())
                    .await
            });
        }
        while lookups.queue.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let beyond = tokio::time::timeout(Duration::from_secs(10), lookups.run(|| 1)).await;
        assert_eq!(beyond.unwrap(), Err(NotDone::Full));
        let sender = std::thread::spawn(move || (0..5).for_each(|_| release.send(()).unwrap()));
        while let Some(done) = under_way.join_next().await {
            assert_eq!(done.unwrap(), Ok(()));
        }
        sender.join().unwrap();
        assert_eq!(lookups.run(|| 1).await, Ok(1));
    }

    #[tokio::test]
    async fn a_panic_gives_its_thread_back() {
        let lookups = Lookups::with_limits(1, 0);
        for _ in 0..3 {
            let lost = lookups.run(|| panic!("as the test wants it")).await;
            assert_eq!(lost, Err::<(), _>(NotDone::Lost));
        }
        assert_eq!(lookups.run(|| 1).await, Ok(1));
    }
}
