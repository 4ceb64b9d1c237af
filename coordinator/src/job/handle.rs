//! How calls reach the job: each call puts one command into the queue of the job, and most calls wait for an answer.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chomp_plan::{Event, LeaseAnswer, LeaseId, RequestId, Verdict, WorkerId};
use chomp_store::StorageError;
use chomp_table::{Digest, Head};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::Job;
use super::desk::{PutRefused, PutTarget, Reply, Transfer};
use super::status::Status;
use crate::error::{CALLS_MAX, JobError, Refusal};
use crate::tools::WorkerResult;

/// How long a request for a task waits before the worker is told to ask again.
const LEASE_WAIT: Duration = Duration::from_secs(10);

/// A function of the job that is run by the task that owns the job.
pub(super) struct JobCall(pub(super) Box<dyn FnOnce(&mut Job) + Send>);

impl fmt::Debug for JobCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Command(..)")
    }
}

/// A worker's report on its cache, for people to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheStats {
    /// The bytes of the ranges that it keeps.
    pub(crate) bytes: u64,
    /// The sources that it found among them since it started.
    pub(crate) hits: u64,
    /// The sources that it had to fetch since it started.
    pub(crate) misses: u64,
}

/// How the calls of workers reach the job. Clones reach the same job.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    commands: UnboundedSender<JobCall>,
    calls: Arc<Semaphore>,
    requests: Arc<AtomicU64>,
}

impl Handle {
    /// A handle, and the queue from which the job takes its commands.
    #[expect(
        clippy::disallowed_methods,
        reason = "`calls` bounds it: besides, each call takes back at most one task or request"
    )]
    pub(super) fn new() -> (Handle, UnboundedReceiver<JobCall>) {
        let (commands, receiver) = mpsc::unbounded_channel();
        let handle = Handle {
            commands,
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            requests: Arc::default(),
        };
        (handle, receiver)
    }

    /// A place for a call of a worker, which the call keeps until it is answered.
    fn call(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let place = Arc::clone(&self.calls).try_acquire_owned();
        place.map_err(|_| Refusal::TooManyCalls)
    }

    /// Makes the caller a worker of the job, or one again.
    pub(crate) async fn join(
        &self,
        worker: WorkerId,
        name: String,
        threads: u32,
    ) -> Result<bool, Refusal> {
        let join = move |job: &mut Job| job.join(worker, name, threads);
        self.ask_as_call(join).await?
    }

    /// A task for `worker`, or nothing if none was free for [`LEASE_WAIT`].
    pub(crate) async fn lease(&self, worker: WorkerId) -> Result<Option<Reply>, Refusal> {
        let request = RequestId(self.requests.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        let lease = move |job: &mut Job| job.desk.lease(job.now(), request, worker, reply);
        let _call = self.call()?;
        self.send(lease)?;
        let mut waiting = WaitingLease {
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

    /// Keeps a worker known and its leases alive; returns those that no longer stand.
    pub(crate) async fn renew(
        &self,
        worker: WorkerId,
        leases: Vec<LeaseId>,
        stats: CacheStats,
    ) -> Result<Vec<LeaseId>, Refusal> {
        let renew = move |job: &mut Job| job.renew(worker, leases, stats);
        self.ask_as_call(renew).await?
    }

    /// Hands a result in. Its part or shard is durable already.
    pub(crate) async fn complete(
        &self,
        worker: WorkerId,
        lease: LeaseId,
        result: WorkerResult,
    ) -> Result<Verdict, Refusal> {
        let (reply, verdict) = oneshot::channel();
        let complete = move |job: &mut Job| job.complete(worker, lease, result, reply);
        let _call = self.call()?;
        self.send(complete)?;
        verdict.await.map_err(|_| Refusal::ShuttingDown)
    }

    /// Reports records as lost.
    pub(crate) async fn report(
        &self,
        worker: WorkerId,
        records: Vec<(Head, Digest)>,
    ) -> Result<(), Refusal> {
        let report = move |job: &mut Job| job.report(worker, &records);
        self.ask_as_call(report).await?
    }

    /// Begins to put an object of `bytes` bytes for `worker`, if it may.
    pub(crate) async fn begin_put(
        &self,
        worker: WorkerId,
        target: PutTarget,
        bytes: u64,
    ) -> Result<Transfer, PutRefused> {
        let begin_put = move |job: &mut Job| job.desk.begin_put(worker, target, bytes);
        self.ask_as_call(begin_put).await?
    }

    /// Tells the job an event of a worker, without waiting for an answer.
    pub(crate) fn tell_of_worker(&self, event: Event) -> Result<(), Refusal> {
        let call = self.call()?;
        self.send(|job| {
            job.handle(event);
            drop(call);
        })
    }

    /// Tells the job an event that is of no worker, without waiting for an answer.
    pub(crate) fn tell(&self, event: Event) -> Result<(), Refusal> {
        self.send(|job| job.handle(event))
    }

    /// Ends the job, since its store does not work. A job that is over has ended already.
    pub(crate) fn fail(&self, error: StorageError) {
        let fault = JobError::Store(error.into());
        let fail = |job: &mut Job| job.desk.fail(job.now(), fault);
        self.send(fail).unwrap_or(());
    }

    /// The job as it is now.
    pub(crate) async fn status(&self) -> Result<Status, Refusal> {
        self.ask(Job::status).await
    }

    /// Has the job do something, without waiting for an answer.
    fn send(&self, command: impl FnOnce(&mut Job) + Send + 'static) -> Result<(), Refusal> {
        let sent = self.commands.send(JobCall(Box::new(command)));
        sent.map_err(|_| Refusal::ShuttingDown)
    }

    /// Has the job do something, and waits for the answer.
    async fn ask<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Job) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.send(|job| {
            // A caller that is gone needs no answer.
            let _ = reply.send(command(job));
        })?;
        answer.await.map_err(|_| Refusal::ShuttingDown)
    }

    /// Does the same for a call of a worker.
    async fn ask_as_call<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Job) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let call = self.call()?;
        // The command has the place: it takes memory until it is done, even if its caller is gone.
        self.ask(|job| {
            let answer = command(job);
            drop(call);
            answer
        })
        .await
    }
}

/// A request for a task. If the call that waits for it is dropped, so is the request, and a task
/// that was just given to it goes back.
struct WaitingLease<'a> {
    handle: &'a Handle,
    request: RequestId,
    worker: WorkerId,
    answer: oneshot::Receiver<Reply>,
}

impl Drop for WaitingLease<'_> {
    fn drop(&mut self) {
        self.answer.close();
        let event = match self.answer.try_recv() {
            Ok(Reply {
                answer: LeaseAnswer::Task(task),
                ..
            }) => Event::Returned {
                worker: self.worker,
                lease: task.lease,
            },
            Ok(_) => return,
            Err(_) => Event::Withdrawn {
                request: self.request,
            },
        };
        // It comes after the request, and needs no place of its own. A job that is over has no use for it.
        self.handle.tell(event).unwrap_or(());
    }
}

#[cfg(test)]
mod tests {
    use chomp_plan::ParticipantId;

    use super::*;

    #[test]
    fn calls_under_way_are_bounded() {
        let (handle, mut commands) = Handle::new();
        let worker = WorkerId {
            participant: ParticipantId(1),
            number: 7,
        };
        let left = || handle.tell_of_worker(Event::Left { worker });
        for _ in 0..CALLS_MAX {
            left().unwrap();
        }
        assert_eq!(left(), Err(Refusal::TooManyCalls));
        // The coordinator's own commands find room, and a call leaves its place when it is done.
        handle.tell(Event::Tick).unwrap();
        drop(commands.try_recv().unwrap());
        left().unwrap();
        assert_eq!(left(), Err(Refusal::TooManyCalls));
        drop(commands);
        assert_eq!(handle.tell(Event::Tick), Err(Refusal::ShuttingDown));
    }
}
