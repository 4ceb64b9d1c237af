//! How calls reach the job: each call puts one command into the queue of the job, and most calls wait for an answer.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chomp_plan::{Event, LeaseAnswer, LeaseId, RequestId, Verdict, WorkerId};
use chomp_store::StorageError;
use chomp_table::{Digest, Head};
use tokio::sync::oneshot;

use super::Job;
use super::desk::{PutRefused, PutTarget, Reply, Transfer};
use super::queue::{self, CallQueue, Receiver, Whose};
use super::status::Status;
use crate::error::{JobError, Refusal};
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
    commands: Arc<CallQueue<JobCall>>,
    requests: Arc<AtomicU64>,
}

impl Handle {
    /// A handle, and the queue from which the job takes its commands.
    pub(super) fn new() -> (Handle, Receiver<JobCall>) {
        let (commands, receiver) = queue::queue();
        let requests = Arc::default();
        (Handle { commands, requests }, receiver)
    }

    /// Makes the caller a worker of the job, or one again.
    pub(crate) async fn join(
        &self,
        worker: WorkerId,
        name: String,
        threads: u32,
    ) -> Result<bool, Refusal> {
        let join = move |job: &mut Job| job.join(worker, name, threads);
        self.ask(Some(worker.participant), join).await?
    }

    /// A task for `worker`, or nothing if none was free for [`LEASE_WAIT`].
    pub(crate) async fn lease(&self, worker: WorkerId) -> Result<Option<Reply>, Refusal> {
        let request = RequestId(self.requests.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        let lease = move |job: &mut Job| job.desk.lease(job.now(), request, worker, reply);
        self.send(Some(worker.participant), lease)?;
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
        self.ask(Some(worker.participant), renew).await?
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
        self.send(Some(worker.participant), complete)?;
        verdict.await.map_err(|_| Refusal::ShuttingDown)
    }

    /// Reports records as lost.
    pub(crate) async fn report(
        &self,
        worker: WorkerId,
        records: Vec<(Head, Digest)>,
    ) -> Result<(), Refusal> {
        let report = move |job: &mut Job| job.report(worker, &records);
        self.ask(Some(worker.participant), report).await?
    }

    /// Begins to put an object of `bytes` bytes for `worker`, if it may.
    pub(crate) async fn begin_put(
        &self,
        worker: WorkerId,
        target: PutTarget,
        bytes: u64,
    ) -> Result<Transfer, PutRefused> {
        let begin_put = move |job: &mut Job| job.desk.begin_put(worker, target, bytes);
        self.ask(Some(worker.participant), begin_put).await?
    }

    /// Tells the job an event of a worker, without waiting for an answer.
    pub(crate) fn tell_of(&self, worker: WorkerId, event: Event) -> Result<(), Refusal> {
        self.send(Some(worker.participant), |job| job.handle(event))
    }

    /// Tells the job an event that is of no worker, without waiting for an answer.
    pub(crate) fn tell(&self, event: Event) -> Result<(), Refusal> {
        self.send(None, |job| job.handle(event))
    }

    /// Ends the job, since its store does not work. A job that is over has ended already.
    pub(crate) fn fail(&self, error: StorageError) {
        let fault = JobError::Store(error.into());
        let command = JobCall(Box::new(|job| job.desk.fail(job.now(), fault)));
        self.commands.send_always(None, command).unwrap_or(());
    }

    /// The job as it is now.
    pub(crate) async fn status(&self) -> Result<Status, Refusal> {
        self.ask(None, Job::status).await
    }

    /// Has the job do something, without waiting for an answer.
    fn send(
        &self,
        whose: Whose,
        call: impl FnOnce(&mut Job) + Send + 'static,
    ) -> Result<(), Refusal> {
        self.commands.send(whose, JobCall(Box::new(call)))
    }

    /// Has the job do something, and waits for the answer.
    async fn ask<T: Send + 'static>(
        &self,
        whose: Whose,
        call: impl FnOnce(&mut Job) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.send(whose, |job| {
            // A caller that is gone needs no answer.
            let _ = reply.send(call(job));
        })?;
        answer.await.map_err(|_| Refusal::ShuttingDown)
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
        // It comes after the request, among those of the same participant. A job that is over has no use for it.
        let command = JobCall(Box::new(|job| job.handle(event)));
        let told = self
            .handle
            .commands
            .send_always(Some(self.worker.participant), command);
        told.unwrap_or(());
    }
}
