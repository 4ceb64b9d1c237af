//! Threads that evaluate. Nothing else runs on them, and they never run tokio's work.

use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use bytes::Bytes;
use chomp_kernel::{Evaluator, Isa, MissingSource};
use chomp_table::format::FormatError;
use chomp_table::range;
use chomp_table::{Head, Range, RangeBits};
use nix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;

use crate::cache::TaskSources;

/// A set of evaluation threads. They end when the pool is dropped.
#[derive(Debug)]
pub struct Pool {
    jobs: mpsc::Sender<Job>,
    isa: Isa,
    counters: Arc<Counters>,
}

/// A task as the pool takes it.
#[derive(Debug)]
pub struct Work {
    /// The ranges to evaluate.
    pub heads: Vec<Head>,
    /// Sources that the cache held.
    pub sources: TaskSources,
    /// Records of the other sources.
    pub records: Vec<(Head, Bytes)>,
}

/// What comes of a task.
#[derive(Debug)]
pub struct Evaluated {
    /// The evaluated ranges and their records, in the order of the task.
    pub ranges: Vec<(Arc<Range>, Bytes)>,
    /// The sources that were decoded on the way.
    pub decoded: Vec<Arc<Range>>,
}

/// Why a task could not be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The coordinator sent a damaged source, or another than it was asked for.
    #[error("the record of source {head} is damaged")]
    Source {
        /// The source.
        head: Head,
        /// What is wrong with it.
        source: FormatError,
    },
    /// The coordinator sent another range than it was asked for.
    #[error("the record sent for source {asked} is of range {sent}")]
    OtherSource {
        /// The source asked for.
        asked: Head,
        /// The range that the record is of.
        sent: Head,
    },
    /// A source was not sent.
    #[error(transparent)]
    Missing(#[from] MissingSource),
    /// The evaluation panicked. The panic was printed where it happened.
    #[error("the evaluation panicked: this is a bug, please report it with the lines above")]
    Panicked,
}

type Outcome = Result<Evaluated, PoolError>;

#[derive(Debug)]
struct Job {
    work: Work,
    done: oneshot::Sender<Outcome>,
}

#[derive(Debug, Default)]
struct Counters {
    ranges: AtomicU64,
    evaluation_ns: AtomicU64,
}

impl Pool {
    /// Starts `threads` threads for ranges of `range_bits`, with the instruction set `isa` at the
    /// most.
    ///
    /// # Errors
    ///
    /// If the system does not give the threads.
    pub fn start(threads: NonZeroUsize, range_bits: RangeBits, isa: Isa) -> std::io::Result<Pool> {
        #[expect(
            clippy::disallowed_methods,
            reason = "each lane waits for the job that it sent"
        )]
        let (jobs, queue) = mpsc::channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        let counters = Arc::new(Counters::default());
        for i in 0..threads.get() {
            let (queue, counters) = (Arc::clone(&queue), Arc::clone(&counters));
            std::thread::Builder::new()
                .name(format!("evaluate-{i}"))
                .spawn(move || {
                    let mut evaluator = Evaluator::new(range_bits, isa);
                    loop {
                        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        let Ok(Job { work, done }) = job else { break };
                        let run = AssertUnwindSafe(|| {
                            evaluate(work, range_bits, &mut evaluator, &counters)
                        });
                        let outcome = std::panic::catch_unwind(run).unwrap_or_else(|_| {
                            evaluator = Evaluator::new(range_bits, isa);
                            Err(PoolError::Panicked)
                        });
                        // Nobody waits any more when the lane was dropped: the result is not needed.
                        let _ = done.send(outcome);
                    }
                })?;
        }
        Ok(Pool {
            jobs,
            isa: isa.min(Isa::detect()),
            counters,
        })
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Evaluates a task on the next free thread.
    ///
    /// # Errors
    ///
    /// If a source is damaged or missing.
    pub async fn evaluate(&self, work: Work) -> Outcome {
        let (done, outcome) = oneshot::channel();
        if self.jobs.send(Job { work, done }).is_err() {
            return Err(PoolError::Panicked);
        }
        outcome.await.unwrap_or(Err(PoolError::Panicked))
    }

    /// The ranges evaluated so far, and the CPU time it took.
    pub fn done(&self) -> (u64, Duration) {
        let nanos = self.counters.evaluation_ns.load(Ordering::Relaxed);
        (
            self.counters.ranges.load(Ordering::Relaxed),
            Duration::from_nanos(nanos),
        )
    }
}

fn evaluate(
    work: Work,
    range_bits: RangeBits,
    evaluator: &mut Evaluator,
    counters: &Counters,
) -> Outcome {
    let Work {
        heads,
        mut sources,
        records,
    } = work;
    let mut decoded = Vec::with_capacity(records.len());
    for (head, record) in records {
        let (summary, range) = range::decode(&record, range_bits)
            .map_err(|source| PoolError::Source { head, source })?;
        if summary.head != head {
            return Err(PoolError::OtherSource {
                asked: head,
                sent: summary.head,
            });
        }
        let range = Arc::new(range);
        sources.insert(Arc::clone(&range));
        decoded.push(range);
    }
    let mut ranges = Vec::with_capacity(heads.len());
    for head in heads {
        let before = thread_cpu_time();
        let range = evaluator.evaluate(head, &sources)?;
        let nanos =
            u64::try_from(thread_cpu_time().saturating_sub(before).as_nanos()).unwrap_or(u64::MAX);
        counters.evaluation_ns.fetch_add(nanos, Ordering::Relaxed);
        counters.ranges.fetch_add(1, Ordering::Relaxed);

        let (_, record) = range::encode(&range, range_bits);
        ranges.push((Arc::new(range), record.into()));
    }
    Ok(Evaluated { ranges, decoded })
}

/// The CPU time of this thread, or 0 where the system does not tell.
fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
