//! How calls reach the job: each call queues one function of the job, and most calls wait for its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chomp_plan::{LeaseAnswer, LeaseId, RequestId, TaskResult, Verdict, WorkerId};
use chomp_table::{Digest, Head};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::Job;
use crate::effects::Audit;
use crate::error::{CALLS_MAX, Refusal};
use crate::tools::{Event, TaskAnswer, UnitLocation};

/// How long a request for a task waits before the worker is told to ask again.
const LEASE_WAIT: Duration = Duration::from_secs(10);

/// How long a report of lost records waits for the look at them.
const AUDIT_WAIT: Duration = Duration::from_secs(10);

pub(crate) type JobFn = Box<dyn FnOnce(&mut Job) + Send>;

/// How the calls of workers reach the job. Clones reach the same job.
#[derive(Clone, Debug)]
pub(crate) struct JobHandle {
    queue: UnboundedSender<JobFn>,
    permits: Arc<Semaphore>,
    requests: Arc<AtomicU64>,
}

impl JobHandle {
    #[expect(
        clippy::disallowed_methods,
        reason = "`permits` bounds it: besides, each call takes back at most one task or request"
    )]
    pub(super) fn new() -> (JobHandle, UnboundedReceiver<JobFn>) {
        let (queue, receiver) = mpsc::unbounded_channel();
        let handle = JobHandle {
            queue,
            permits: Arc::new(Semaphore::new(CALLS_MAX)),
            requests: Arc::default(),
        };
        (handle, receiver)
    }

    /// Queues a function of the job under a permit for a call of a worker. The function holds the permit until it was
    /// called, and the caller until the call is answered: either may be first.
    fn begin(
        &self,
        call: impl FnOnce(&mut Job) + Send + 'static,
    ) -> Result<Arc<OwnedSemaphorePermit>, Refusal> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let permit = Arc::new(permit.map_err(|_| Refusal::TooManyCalls)?);
        let queued = Arc::clone(&permit);
        self.send(move |job| {
            call(job);
            drop(queued);
        })?;
        Ok(permit)
    }

    /// Queues a function of the job. It takes no permit: a caller that serves a worker has one.
    pub(crate) fn send(&self, call: impl FnOnce(&mut Job) + Send + 'static) -> Result<(), Refusal> {
        let sent = self.queue.send(Box::new(call));
        sent.map_err(|_| Refusal::ShuttingDown)
    }

    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Job) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (responder, answer) = oneshot::channel();
        let _permit = self.begin(|job| {
            // A caller that is gone needs no answer.
            let _ = responder.send(call(job));
        })?;
        answer.await.map_err(|_| Refusal::ShuttingDown)
    }

    /// A task for `worker`, or nothing if none was free for [`LEASE_WAIT`].
    pub(crate) async fn lease(&self, worker: WorkerId) -> Result<Option<TaskAnswer>, Refusal> {
        let request = RequestId(self.requests.fetch_add(1, Ordering::Relaxed));
        let (responder, answer) = oneshot::channel();
        let requested = Event::Requested {
            request,
            worker,
            responder,
        };
        let _permit = self.begin(move |job| job.handle(requested))?;
        let mut waiting = PendingRequest {
            handle: self,
            request,
            worker,
            answer,
        };
        match tokio::time::timeout(LEASE_WAIT, &mut waiting.answer).await {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(_)) => Err(Refusal::ShuttingDown),
            Err(_) => Ok(None),
        }
    }

    /// The verdicts on records that a worker reports as lost; none if reading them takes too long.
    pub(crate) async fn report(
        &self,
        worker: WorkerId,
        records: Vec<(Head, Digest, LeaseId)>,
    ) -> Result<Audit, Refusal> {
        let (responder, audit) = oneshot::channel();
        self.ask(move |job| job.report(worker, &records, responder))
            .await??;
        match tokio::time::timeout(AUDIT_WAIT, audit).await {
            Ok(audit) => audit.map_err(|_| Refusal::ShuttingDown),
            Err(_) => Ok(Audit::default()),
        }
    }

    /// Hands a result in. Its part or shard is durable already.
    pub(crate) async fn complete(
        &self,
        worker: WorkerId,
        lease: LeaseId,
        result: TaskResult<UnitLocation>,
    ) -> Result<Verdict, Refusal> {
        let (responder, verdict) = oneshot::channel();
        let _permit = self.begin(move |job| job.complete(worker, lease, result, responder))?;
        verdict.await.map_err(|_| Refusal::ShuttingDown)
    }
}

/// A request for a task. If the call that waits for the task is dropped, the request is withdrawn, and a task that was
/// already sent to the call is returned.
struct PendingRequest<'a> {
    handle: &'a JobHandle,
    request: RequestId,
    worker: WorkerId,
    answer: oneshot::Receiver<TaskAnswer>,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.answer.close();
        let event = match self.answer.try_recv() {
            Ok(TaskAnswer {
                answer: LeaseAnswer::Task(task),
                ..
            }) => Event::Returned {
                worker: self.worker,
                lease: task.lease,
                failure: None,
            },
            Ok(_) => return,
            Err(_) => Event::Withdrawn {
                request: self.request,
            },
        };
        // This event is queued after the request, and needs no permit. A job that is over has no use for the event.
        self.handle.send(|job| job.handle(event)).unwrap_or(());
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// A call that its caller has given up takes memory until the job has seen it.
    #[tokio::test]
    async fn calls_under_way_are_bounded() {
        let worker = WorkerId::only(1);
        let mut context = Context::from_waker(Waker::noop());
        let ways: [fn(&JobHandle, WorkerId) -> Call<'_>; 3] = [
            |handle, worker| {
                let left = handle.ask(move |job| job.handle(Event::Left { worker }));
                Box::pin(async { left.await.err() })
            },
            |handle, worker| Box::pin(async move { handle.lease(worker).await.err() }),
            |handle, worker| {
                let nothing = TaskResult::Ranges(Vec::new());
                let complete = handle.complete(worker, LeaseId(1), nothing);
                Box::pin(async { complete.await.err() })
            },
        ];
        for way in ways {
            let (handle, mut queue) = JobHandle::new();
            let mut call = || way(&handle, worker).as_mut().poll(&mut context);
            let refused = Poll::Ready(Some(Refusal::TooManyCalls));
            for _ in 0..CALLS_MAX {
                assert!(call().is_pending());
            }
            assert_eq!(call(), refused);
            // The coordinator's own functions find room, and a call releases its permit when it is done.
            handle.send(|_| ()).unwrap();
            drop(queue.try_recv().unwrap());
            assert!(call().is_pending());
            assert_eq!(call(), refused);
            drop(queue);
            assert_eq!(handle.send(|_| ()), Err(Refusal::ShuttingDown));
        }
    }

    type Call<'a> = std::pin::Pin<Box<dyn Future<Output = Option<Refusal>> + 'a>>;
}
