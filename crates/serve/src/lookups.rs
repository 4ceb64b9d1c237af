//! Work that takes time, as reading a table: on threads that may wait for the disk, so many at a time, with a bounded
//! queue before them.

use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot};

use crate::answer::Refusal;
use crate::net::limits::{GAME_QUESTIONS, QUESTIONS};

/// The threads that read a table, for each CPU: some wait for the disk.
const THREADS_EACH: usize = 4;

/// The threads and the queue for them. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Lookups {
    queue: Arc<Semaphore>,
    threads: Arc<Semaphore>,
}

/// Too much work waits already.
const FULL: Refusal = Refusal::NotNow("too many questions at once: try again soon", 1);

impl Lookups {
    /// Threads for questions to tables.
    pub(crate) fn of_tables() -> Lookups {
        let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Lookups::new(THREADS_EACH * cpus, QUESTIONS)
    }

    /// A thread for questions about games, which delay no others.
    pub(crate) fn of_games() -> Lookups {
        Lookups::new(1, GAME_QUESTIONS)
    }

    fn new(threads: usize, queue: usize) -> Lookups {
        Lookups {
            queue: Arc::new(Semaphore::new(queue)),
            threads: Arc::new(Semaphore::new(threads)),
        }
    }

    /// Does `work` when a thread is free.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let queued = self.queue.try_acquire().map_err(|_| FULL)?;
        let thread = Arc::clone(&self.threads).acquire_owned().await;
        drop(queued);
        blocking(move || {
            let done = work();
            // It is taken for as long as it works, even if the caller is gone.
            drop(thread);
            done
        })
        .await
    }
}

/// Does `work` on a thread that may wait for the disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let (sender, done) = oneshot::channel();
    spawn_blocking(Box::new(move || {
        // A caller that is gone needs no answer.
        let _ = sender.send(work());
    }));
    // The work has panicked, which the log says, or the program ends.
    done.await.map_err(|_| Refusal::Lost)
}

/// Begins `work` on a thread that may wait for the disk. It is boxed, so tokio's part is compiled once.
pub(crate) fn spawn_blocking(work: Box<dyn FnOnce() + Send>) {
    tokio::task::spawn_blocking(work);
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn the_queue_is_bounded() {
        let lookups = Lookups::new(1, 3);
        let (release, wait) = mpsc::sync_channel::<()>(0);
        let wait = Arc::new(Mutex::new(wait));
        let mut asked = JoinSet::new();
        for _ in 0..4 {
            let (lookups, wait) = (lookups.clone(), Arc::clone(&wait));
            asked.spawn(async move {
                let work = move || wait.lock().unwrap().recv().unwrap();
                lookups.run(work).await
            });
            tokio::task::yield_now().await;
        }
        // One works and three wait.
        assert_eq!(lookups.run(|| ()).await, Err(FULL));
        std::thread::spawn(move || (0..4).for_each(|_| release.send(()).unwrap()));
        assert_eq!(asked.join_all().await, [const { Ok(()) }; 4]);
        assert_eq!(lookups.run(|| 1).await, Ok(1));
    }

    #[tokio::test]
    async fn a_panic_gives_its_thread_back() {
        let lookups = Lookups::new(1, 1);
        for _ in 0..3 {
            let lost = lookups.run(|| panic!("as the test wants it")).await;
            assert_eq!(lost, Err::<(), _>(Refusal::Lost));
        }
        assert_eq!(lookups.run(|| 1).await, Ok(1));
    }
}
