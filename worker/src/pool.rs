//! Threads for work that keeps a CPU busy: evaluation, decoding, merging, digests. They never run tokio's work.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use chomp_kernel::{Evaluator, Isa, Source, Sources};
use chomp_store::PlacedRange;
use chomp_store::part::PartBuilder;
use chomp_table::format::{FormatError, ensure};
use chomp_table::range;
use chomp_table::{Head, RangeBits};
use nix::time::{ClockId, clock_gettime};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::trouble::Trouble;
use crate::{End, ExecutionMode, Report};

/// Where ranges are evaluated. Its threads end when it is dropped.
pub(crate) struct Pool {
    executor: Executor,
    range_bits: RangeBits,
    isa: Isa,
    counters: Counters,
}

enum Executor {
    Threads(Arc<PoolQueue>),
    Inline(Box<Mutex<Evaluator>>),
}

#[derive(Debug, Default)]
struct Counters {
    ranges: AtomicU64,
    evaluation_ns: AtomicU64,
}

impl Pool {
    /// With the instruction set `isa` at the most. Fails if the system does not give the threads.
    pub(crate) fn start(
        execution: ExecutionMode,
        threads: NonZeroUsize,
        range_bits: RangeBits,
        isa: Isa,
    ) -> std::io::Result<Pool> {
        let new = move || Evaluator::new(range_bits, isa);
        let pool = Pool {
            executor: match execution {
                ExecutionMode::Inline => Executor::Inline(Box::new(Mutex::new(new()))),
                ExecutionMode::Threads => Executor::Threads(Arc::default()),
            },
            range_bits,
            isa,
            counters: Counters::default(),
        };
        if let Executor::Threads(queue) = &pool.executor {
            for i in 0..threads.get() {
                let queue = Arc::clone(queue);
                let run = move || {
                    let mut evaluator = new();
                    while let Some(job) = queue.next() {
                        job(&mut evaluator);
                    }
                };
                let thread = std::thread::Builder::new().name(format!("evaluate-{i}"));
                // If one does not start, those that have started end with the pool.
                thread.spawn(run)?;
            }
        }
        Ok(pool)
    }

    /// Evaluates a task on the next free thread, unless `stop` is cancelled by then. Returns the part with the records,
    /// where the record of each range is, and the ranges as sources, in the order of the task.
    pub(crate) async fn evaluate(
        self: &Arc<Pool>,
        heads: Vec<Head>,
        sources: impl Sources + Send + 'static,
        stop: CancellationToken,
    ) -> Result<(Bytes, Vec<PlacedRange>, Vec<Arc<Source>>), Trouble> {
        let pool = Arc::clone(self);
        self.run(false, move |evaluator| {
            if stop.is_cancelled() {
                return Err(Trouble::Stopped);
            }
            let mut ranges = Vec::with_capacity(heads.len());
            let mut part = PartBuilder::default();
            for &head in &heads {
                let before = thread_cpu_time();
                let range = evaluator.evaluate(head, &sources);
                let time = thread_cpu_time().saturating_sub(before).as_nanos();
                let nanos = u64::try_from(time).unwrap_or(u64::MAX);
                pool.counters
                    .evaluation_ns
                    .fetch_add(nanos, Ordering::Relaxed);
                let range = range.map_err(|missing| Trouble::failed(&missing))?;
                pool.counters.ranges.fetch_add(1, Ordering::Relaxed);

                let (summary, record) = range::encode(&range, evaluator.range_bits());
                part.push(summary, &record);
                ranges.push(Arc::new(Source::new(range)));
            }
            let (part, placed) = part.finish();
            Ok((part, placed, ranges))
        })
        .await?
    }

    pub(crate) fn report(&self, end: End, acknowledged: bool) -> Report {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Report {
            end,
            acknowledged,
            ranges: count(&self.counters.ranges),
            evaluation_cpu: Duration::from_nanos(count(&self.counters.evaluation_ns)),
        }
    }

    /// Runs `work` on the next free thread. If it is to be `first`, it runs before all waiting work that is not.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        first: bool,
        work: impl FnOnce(&mut Evaluator) -> T + Send + 'static,
    ) -> Result<T, Trouble> {
        let queue = match &self.executor {
            Executor::Inline(evaluator) => return Ok(work(&mut evaluator.lock())),
            Executor::Threads(queue) => queue,
        };
        let (done, outcome) = oneshot::channel();
        let (range_bits, isa) = (self.range_bits, self.isa);
        let job: PoolTask = Box::new(move |evaluator| {
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| work(evaluator)));
            if outcome.is_err() {
                *evaluator = Evaluator::new(range_bits, isa);
            }
            // If the lane was dropped, nobody waits for the outcome.
            let _ = done.send(outcome.ok());
        });
        queue.add(first, job);
        // The panic was printed where it happened.
        let panicked =
            "the evaluation panicked: this is a bug, please report it with the lines above";
        let outcome = outcome.await.ok().flatten();
        outcome.ok_or_else(|| Trouble::Failed(panicked.to_owned()))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Executor::Threads(queue) = &self.executor {
            queue.jobs.lock().closed = true;
            queue.ready.notify_all();
        }
    }
}

/// Jobs that wait for a thread. Each lane has one at the most.
#[derive(Default)]
struct PoolQueue {
    jobs: Mutex<Jobs>,
    ready: Condvar,
}

type PoolTask = Box<dyn FnOnce(&mut Evaluator) + Send>;

#[derive(Default)]
struct Jobs {
    first: VecDeque<PoolTask>,
    later: VecDeque<PoolTask>,
    closed: bool,
}

impl PoolQueue {
    fn add(&self, first: bool, job: PoolTask) {
        let mut jobs = self.jobs.lock();
        if first {
            jobs.first.push_back(job);
        } else {
            jobs.later.push_back(job);
        }
        drop(jobs);
        self.ready.notify_one();
    }

    /// The next job; nothing once the pool is gone.
    fn next(&self) -> Option<PoolTask> {
        let idle = |jobs: &mut Jobs| jobs.first.is_empty() && jobs.later.is_empty() && !jobs.closed;
        let mut jobs = self.jobs.lock();
        self.ready.wait_while(&mut jobs, idle);
        if jobs.closed {
            return None;
        }
        jobs.first.pop_front().or_else(|| jobs.later.pop_front())
    }
}

pub(crate) fn decode_all(
    records: &[(Head, Bytes)],
    range_bits: RangeBits,
) -> Vec<Result<Arc<Source>, FormatError>> {
    let decode = |(head, record): &(Head, Bytes)| decode(*head, record, range_bits).map(Arc::new);
    records.iter().map(decode).collect()
}

/// Decodes the record of the range `head`. Fails if these bytes are no record, or the record of another range.
pub(crate) fn decode(
    head: Head,
    record: &[u8],
    range_bits: RangeBits,
) -> Result<Source, FormatError> {
    let source = Source::decode(record, range_bits)?;
    ensure(source.head() == head, || {
        format!("it is of range {}", source.head())
    })?;
    Ok(source)
}

/// The CPU time of this thread, or 0 where the system does not tell.
fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use chomp_table::RangeBits;

    use super::*;
    use crate::cache::TaskSources;

    /// Sources that cannot be asked.
    struct Broken;

    impl Sources for Broken {
        fn find(&self, _: Head) -> Option<&Source> {
            panic!("on purpose")
        }
    }

    #[tokio::test]
    async fn what_comes_of_good_and_bad_tasks() {
        let range_bits = RangeBits::new(12).unwrap();
        for execution in [ExecutionMode::Threads, ExecutionMode::Inline] {
            let pool = Pool::start(execution, NonZeroUsize::MIN, range_bits, Isa::detect());
            let pool = Arc::new(pool.unwrap());
            let go = CancellationToken::new();
            let stopped = CancellationToken::new();
            stopped.cancel();

            let none = TaskSources::default;
            let evaluated = pool.evaluate(vec![Head(0)], none(), go.clone()).await;
            let (part, placed, ranges) = evaluated.unwrap();
            let (range, placed) = (ranges[0].clone(), placed[0]);
            let start = placed.offset as usize;
            let record = part.slice(start..start + placed.length as usize);
            assert_eq!(decode(Head(0), &record, range_bits).unwrap(), *range);
            assert_eq!(placed.summary.digest, chomp_table::Digest::of(&record));
            assert_eq!(pool.report(End::Finished, true).ranges, 1);
            let missing = pool.evaluate(vec![Head(1)], none(), go.clone()).await;
            assert!(
                matches!(&missing, Err(Trouble::Failed(why)) if why.contains("needed as a source")),
                "{missing:?}"
            );
            let late = pool.evaluate(vec![Head(0)], none(), stopped).await;
            assert!(matches!(late, Err(Trouble::Stopped)), "{late:?}");

            let records = vec![(Head(0), record.clone()), (Head(0), record.slice(1..))];
            let decode = pool.run(true, move |_| decode_all(&records, range_bits));
            let [good, damaged] = &decode.await.unwrap()[..] else {
                panic!("two records")
            };
            assert_eq!(good.as_ref().unwrap(), &range);
            assert!(damaged.is_err());
            if execution == ExecutionMode::Threads {
                let broken = pool.evaluate(vec![Head(1)], Broken, go.clone()).await;
                assert!(
                    matches!(&broken, Err(Trouble::Failed(why)) if why.contains("panicked")),
                    "{broken:?}"
                );
            }
            let again = pool.evaluate(vec![Head(0)], none(), go).await.unwrap();
            assert_eq!(again.0, part);
        }
    }
}
