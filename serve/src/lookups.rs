//! Work that takes time, as reading a table: beside the threads that serve calls, and not too much of it at once.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::net::Slots;

/// The requests that may wait for a thread. A warm lookup takes a tenth of a millisecond, so the
/// last of them waits a fraction of a second.
const WAITING_MAX: usize = 1024;
/// The same from one address, or one IPv6 network of 64 bits: nobody keeps all others out, or asks
/// much more than its rate before it is known what that costs.
const WAITING_PER_ADDRESS: usize = 128;
/// The threads that read a table, for each CPU: some wait for the disk.
const THREADS_EACH: usize = 4;

/// The threads and the queue for them. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Lookups {
    queue: Slots,
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
    /// An address has half of the places in the queue unless they are `shared`.
    pub(crate) fn new(shared: bool) -> Lookups {
        let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = THREADS_EACH * cpus;
        Lookups::beside(threads, WAITING_MAX, WAITING_PER_ADDRESS, shared)
    }

    /// For work that is not to delay any other: threads of its own, a queue of its own.
    pub(crate) fn beside(
        threads: usize,
        waiting: usize,
        waiting_per_address: usize,
        shared: bool,
    ) -> Lookups {
        let queue = Slots::shared(threads + waiting, waiting_per_address, shared);
        Lookups::with_limits(threads, queue)
    }

    fn with_limits(threads: usize, queue: Slots) -> Lookups {
        Lookups {
            queue,
            threads: Arc::new(Semaphore::new(threads)),
        }
    }

    /// Does `work` for somebody at an address, when a thread is free.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        address: IpAddr,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let place = self.queue.take(address).ok_or(NotDone::Full)?;
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
    use std::net::Ipv4Addr;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[tokio::test]
    async fn work_beyond_the_limits_is_refused() {
        full(&Lookups::with_limits(2, Slots::new(5, 4)), 4, 1).await;
    }

    #[tokio::test]
    async fn who_may_come_as_often_as_it_likes_leaves_others_half() {
        full(&Lookups::beside(2, 6, 1, false), 4, 4).await;
    }

    /// The first address has so many places, and then there are so many left for the other one.
    async fn full(lookups: &Lookups, first: usize, left: usize) {
        let (release, wait) = mpsc::sync_channel::<()>(0);
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let mut under_way = tokio::task::JoinSet::new();
        let ask = async |address| {
            let asked = lookups.run(address, || 1);
            let asked = tokio::time::timeout(Duration::from_secs(10), asked).await;
            asked.unwrap()
        };
        for (address, count) in [(ONE, first), (OTHER, left)] {
            let before = lookups.queue.open();
            for _ in 0..count {
                let (lookups, wait) = (lookups.clone(), Arc::clone(&wait));
                under_way.spawn(async move {
                    let work = move || wait.lock().unwrap().recv().unwrap();
                    lookups.run(address, work).await
                });
            }
            while lookups.queue.open() < before + count {
                tokio::task::yield_now().await;
            }
            // The first has its part, and there are places left for the other one.
            assert_eq!(ask(address).await, Err(NotDone::Full));
        }
        let all = first + left;
        let sender = std::thread::spawn(move || (0..all).for_each(|_| release.send(()).unwrap()));
        while let Some(done) = under_way.join_next().await {
            assert_eq!(done.unwrap(), Ok(()));
        }
        sender.join().unwrap();
        assert_eq!(lookups.run(ONE, || 1).await, Ok(1));
    }

    #[tokio::test]
    async fn a_panic_gives_its_thread_back() {
        let lookups = Lookups::with_limits(1, Slots::new(1, 1));
        for _ in 0..3 {
            let lost = lookups.run(ONE, || panic!("as the test wants it")).await;
            assert_eq!(lost, Err::<(), _>(NotDone::Lost));
        }
        assert_eq!(lookups.run(ONE, || 1).await, Ok(1));
    }
}
