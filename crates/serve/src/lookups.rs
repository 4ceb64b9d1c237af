//! Work that takes time, as reading a table: beside the threads that serve calls, and not too much of it at once.
//! Addresses take turns.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::net::limits::QUESTIONS;
use crate::net::{Places, network};
use crate::refusal::Refusal;
use crate::turns::Turns;

/// The threads that read a table, for each CPU: some wait for the disk.
const THREADS_EACH: usize = 4;

/// The threads and the queue for them. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Lookups {
    /// For those that wait.
    places: Places<IpAddr>,
    threads: Arc<Mutex<Threads>>,
}

#[derive(Debug)]
struct Threads {
    free: usize,
    waiting: Turns<IpAddr, oneshot::Sender<Thread>>,
}

/// The right to use a thread. When it is dropped, the next who waits has it.
#[derive(Debug)]
struct Thread(Arc<Mutex<Threads>>);

/// Too much work waits already.
const FULL: Refusal = Refusal::NotNow("too many questions at once: try again soon", 1);

impl Lookups {
    pub(crate) fn new() -> Lookups {
        let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = THREADS_EACH * cpus;
        Lookups::beside(threads, Places::new(QUESTIONS))
    }

    /// For work that is not to delay any other: threads of its own, a queue of its own.
    pub(crate) fn beside(threads: usize, places: Places<IpAddr>) -> Lookups {
        let threads = Threads {
            free: threads,
            waiting: Turns::default(),
        };
        Lookups {
            places,
            threads: Arc::new(Mutex::new(threads)),
        }
    }

    /// Does `work` for somebody at an address, when a thread is free and it is the turn of that address.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        address: IpAddr,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let address = network(address);
        let place = self.places.take(address).ok_or(FULL)?;
        let thread = tokio::select! {
            thread = self.thread(address) => thread?,
            () = place.is_lost() => return Err(FULL),
        };
        drop(place);
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            // It is taken for as long as it works, even if nobody waits for that any more.
            drop(thread);
            done
        });
        done.await.map_err(|error| {
            tracing::error!("a question was not answered: {error}");
            Refusal::Lost
        })
    }

    async fn thread(&self, address: IpAddr) -> Result<Thread, Refusal> {
        let turn = {
            let mut threads = now(&self.threads);
            if threads.free > 0 {
                threads.free -= 1;
                return Ok(Thread(Arc::clone(&self.threads)));
            }
            let (sender, turn) = oneshot::channel();
            threads.waiting.push(address, sender);
            turn
        };
        turn.await.map_err(|_| Refusal::Lost)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let next = {
            let mut threads = now(&self.0);
            let next = threads.waiting.pop();
            threads.free += usize::from(next.is_none());
            next
        };
        if let Some(next) = next {
            // If that one is gone, the right comes back, and goes to another.
            drop(next.send(Thread(Arc::clone(&self.0))));
        }
    }
}

fn now(threads: &Mutex<Threads>) -> MutexGuard<'_, Threads> {
    // They are changed in one step, whoever panicked.
    threads.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::mpsc;

    use super::*;
    use crate::net::Limit;

    const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    /// An address that asks for all it can delays another by the work under way, and no more.
    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test waits for the tasks")]
    async fn addresses_take_turns_and_none_has_the_whole_queue() {
        let lookups = Lookups::beside(1, Places::new(Limit { all: 5, each: 4 }));
        let (release, wait) = mpsc::sync_channel::<()>(0);
        let (tell, told) = mpsc::sync_channel(10);
        let wait = Arc::new(Mutex::new(wait));
        let ask = |address, name| {
            let (lookups, wait, tell) = (lookups.clone(), Arc::clone(&wait), tell.clone());
            let work = move || {
                wait.lock().unwrap().recv().unwrap();
                tell.send(name).unwrap();
            };
            tokio::spawn(async move { lookups.run(address, work).await })
        };
        let mut asked = Vec::new();
        for name in 0..5 {
            asked.push(ask(ONE, name));
            tokio::task::yield_now().await;
        }
        // One works and four wait.
        assert_eq!(ask(ONE, 9).await.unwrap(), Err(FULL));
        asked.push(ask(OTHER, 10));
        tokio::task::yield_now().await;
        // It has fewer than the first, whose oldest question makes room.
        asked.push(ask(OTHER, 11));
        assert_eq!(asked.remove(1).await.unwrap(), Err(FULL));
        let all = asked.len();
        std::thread::spawn(move || (0..all).for_each(|_| release.send(()).unwrap()));
        for asked in asked {
            assert_eq!(asked.await.unwrap(), Ok(()));
        }
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [0, 10, 2, 11, 3, 4]);
        assert_eq!(lookups.run(ONE, || 1).await, Ok(1));
    }

    #[tokio::test]
    async fn a_panic_gives_its_thread_back() {
        let lookups = Lookups::beside(1, Places::new(Limit { all: 1, each: 1 }));
        for _ in 0..3 {
            let lost = lookups.run(ONE, || panic!("as the test wants it")).await;
            assert_eq!(lost, Err::<(), _>(Refusal::Lost));
        }
        assert_eq!(lookups.run(ONE, || 1).await, Ok(1));
    }
}
