//! Work that takes time, such as reading a table. It is done on a limited number of threads that may wait for the disk,
//! with a bounded queue before them. A question has a limit of CPU time. Beside a job it runs on a thread that yields
//! to the job.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::time::ClockId;

use tokio::sync::{Semaphore, oneshot};

use crate::answer::Refusal;
use crate::net::limits::{GAME_QUESTIONS, QUESTIONS};

/// The threads that read a table, for each CPU: some wait for the disk.
const THREADS_EACH: usize = 4;

/// The nice value of threads that yield to all others.
#[cfg(target_os = "linux")]
const NICE_MAX: i32 = 19;

/// The limits of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionLimits {
    /// The CPU time of one question.
    pub time: Duration,
    /// Whether the threads of questions yield to all other threads.
    pub yields: bool,
}

thread_local! {
    /// The CPU time of this thread at which its question is to end.
    static DEADLINE: Cell<Duration> = const { Cell::new(Duration::MAX) };
}

/// The CPU time that this thread has used.
fn cpu_time() -> Option<Duration> {
    ClockId::CLOCK_THREAD_CPUTIME_ID
        .now()
        .ok()
        .map(Duration::from)
}

/// Whether the question of this thread has CPU time left. Long computations call it again and again.
pub(crate) fn has_time() -> bool {
    cpu_time().is_some_and(|used| used < DEADLINE.get())
}

/// Clones share the threads and the queue for them.
#[derive(Clone, Debug)]
pub(crate) struct QuestionThreads {
    limits: QuestionLimits,
    queue: Arc<Semaphore>,
    threads: Arc<Semaphore>,
}

const FULL: Refusal = Refusal::NotNow("too many questions at once: try again soon", 1);

impl QuestionThreads {
    pub(crate) fn of_tables(limits: QuestionLimits) -> QuestionThreads {
        let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        QuestionThreads::new(limits, THREADS_EACH * cpus, QUESTIONS)
    }

    /// One thread for questions about games, so that they delay no other questions.
    pub(crate) fn of_games(limits: QuestionLimits) -> QuestionThreads {
        QuestionThreads::new(limits, 1, GAME_QUESTIONS)
    }

    fn new(limits: QuestionLimits, threads: usize, queue: usize) -> QuestionThreads {
        QuestionThreads {
            limits,
            queue: Arc::new(Semaphore::new(queue)),
            threads: Arc::new(Semaphore::new(threads)),
        }
    }

    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let queued = self.queue.try_acquire().map_err(|_| FULL)?;
        let thread = Arc::clone(&self.threads).acquire_owned().await;
        drop(queued);
        let limits = self.limits;
        let work = move || {
            // The permit is held for as long as the work runs, even if the caller is gone.
            let _thread = thread;
            limits.begin();
            work()
        };
        if limits.yields {
            on_own_thread(work).await
        } else {
            blocking(work).await
        }
    }
}

impl QuestionLimits {
    /// The limits on a server without a job. The largest game that is allowed takes half a second.
    pub const ALONE: QuestionLimits = QuestionLimits {
        time: Duration::from_secs(2),
        yields: false,
    };
    /// The limits on a server with a job.
    pub const BESIDE_JOB: QuestionLimits = QuestionLimits {
        time: Duration::from_millis(250),
        yields: true,
    };

    /// Divides the CPU time of a question by `haste`: for tests.
    #[must_use]
    pub fn hastened(self, haste: u32) -> QuestionLimits {
        let time = self.time / haste;
        QuestionLimits { time, ..self }
    }

    fn begin(self) {
        DEADLINE.set(cpu_time().unwrap_or_default().saturating_add(self.time));
        #[cfg(target_os = "linux")]
        if self.yields
            && let Err(error) = rustix::process::setpriority_process(None, NICE_MAX)
        {
            tracing::debug!("a question does not yield to the job: {error}");
        }
    }
}

/// Runs `work` on a new thread. A question beside a job lowers the priority of its thread, which cannot be raised
/// again, so no thread is used twice.
async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let (sender, done) = oneshot::channel();
    let spawned = thread::Builder::new().spawn(move || {
        // A caller that is gone needs no answer.
        let _ = sender.send(work());
    });
    spawned.map_err(|_| FULL)?;
    done.await.map_err(|_| Refusal::Lost)
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let (sender, done) = oneshot::channel();
    spawn_blocking(Box::new(move || {
        // A caller that is gone needs no answer.
        let _ = sender.send(work());
    }));
    // The work panicked, as the log says, or the program is shutting down.
    done.await.map_err(|_| Refusal::Lost)
}

/// Takes `work` in a box, so that tokio's part is compiled only once.
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
        let threads = QuestionThreads::new(QuestionLimits::ALONE, 1, 3);
        let (release, wait) = mpsc::sync_channel::<()>(0);
        let wait = Arc::new(Mutex::new(wait));
        let mut asked = JoinSet::new();
        for _ in 0..4 {
            let (threads, wait) = (threads.clone(), Arc::clone(&wait));
            asked.spawn(async move {
                let work = move || wait.lock().unwrap().recv().unwrap();
                threads.run(work).await
            });
            tokio::task::yield_now().await;
        }
        // One works and three wait.
        assert_eq!(threads.run(|| ()).await, Err(FULL));
        std::thread::spawn(move || (0..4).for_each(|_| release.send(()).unwrap()));
        assert_eq!(asked.join_all().await, [const { Ok(()) }; 4]);
        assert_eq!(threads.run(|| 1).await, Ok(1));
    }

    /// A question ends when its time is over, and takes the CPU only when nobody else wants it.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_question_has_its_time_and_yields() {
        let limits = QuestionLimits::BESIDE_JOB.hastened(100);
        let beside_job = QuestionThreads::new(limits, 1, 1);
        let asked = beside_job.run(move || {
            let nice = rustix::process::getpriority_process(None).unwrap();
            let end = cpu_time().map(|now| now + 100 * limits.time);
            let mut asked = 0_u64;
            while has_time() && cpu_time() < end {
                asked += 1;
            }
            (nice, asked > 0, has_time())
        });
        assert_eq!(asked.await, Ok((NICE_MAX, true, false)));
        let before = rustix::process::getpriority_process(None).unwrap();
        let alone = QuestionThreads::new(QuestionLimits::ALONE, 1, 1);
        let nice = alone.run(|| rustix::process::getpriority_process(None).unwrap());
        assert_eq!(nice.await, Ok(before));
    }

    #[tokio::test]
    async fn a_panic_gives_its_thread_back() {
        let threads = QuestionThreads::new(QuestionLimits::ALONE, 1, 1);
        for _ in 0..3 {
            let lost = threads.run(|| panic!("as the test wants it")).await;
            assert_eq!(lost, Err::<(), _>(Refusal::Lost));
        }
        assert_eq!(threads.run(|| 1).await, Ok(1));
    }
}
