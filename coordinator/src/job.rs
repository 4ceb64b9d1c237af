//! The job under way: feeds the [plan](crate::plan) with what happens and does what it asks for.
//!
//! One task owns the plan. Calls of workers reach it as commands through a [`Handle`]; writing
//! to the store runs beside it and comes back as an event. The queue of commands is as long as
//! the calls that are under way, which the server bounds.

mod handle;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chomp_table::Head;
use chomp_table::manifest::Manifest;
use chomp_table::range::RangeSummary;
use chomp_table::shard::ShardSize;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use handle::{Handle, Over, Records};

use handle::Command;

use crate::plan::{
    Action, Answer, Event, LeaseId, Millis, Phase, Plan, Progress, RequestId, StopReason,
    SubmissionId, Verdict, WorkerId,
};
use crate::publish::PublishError;
use crate::store::{Store, StoreError};
use crate::writes::{Write, Written};

/// How a job ended.
#[derive(Debug)]
pub enum Outcome {
    /// The table is published.
    Finished(Box<Manifest>),
    /// The job was asked to stop, and everything committed so far is kept.
    Interrupted,
    /// The job cannot go on.
    Failed(JobError),
}

/// Why a job cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The store failed, or is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The table could not be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The plan stopped the job.
    #[error("the job stopped: {0}")]
    Stopped(StopReason),
}

/// The records of a submission by their heads, and who waits for the verdict.
type Submission = (
    HashMap<Head, (RangeSummary, Bytes)>,
    oneshot::Sender<Verdict>,
);

/// The job: owned by one task.
#[derive(Debug)]
pub(crate) struct Job {
    plan: Plan,
    store: Arc<Store>,
    commands: mpsc::UnboundedReceiver<Command>,
    requests: HashMap<RequestId, (WorkerId, oneshot::Sender<Answer>)>,
    submissions: HashMap<SubmissionId, Submission>,
    writes: JoinSet<Written>,
    progress: watch::Sender<Progress>,
    start: Instant,
    submission_count: u64,
    manifest: Option<Manifest>,
    fault: Option<JobError>,
}

impl Job {
    pub(crate) fn new(plan: Plan, store: Arc<Store>) -> (Job, Handle, watch::Receiver<Progress>) {
        let (handle, commands) = Handle::new();
        let (progress, watcher) = watch::channel(plan.progress());
        let job = Job {
            plan,
            store,
            commands,
            requests: HashMap::new(),
            submissions: HashMap::new(),
            writes: JoinSet::new(),
            progress,
            start: Instant::now(),
            submission_count: 0,
            manifest: None,
            fault: None,
        };
        (job, handle, watcher)
    }

    /// Runs until `stop` is cancelled and nothing is under way any more. `first` are the actions
    /// that the plan began with.
    pub(crate) async fn run(mut self, first: Vec<Action>, stop: CancellationToken) -> Outcome {
        self.perform(first);
        let mut stopping = false;
        while !(stopping && self.plan.is_quiet()) {
            let deadline = self
                .plan
                .next_deadline()
                .map(|at| self.start + Duration::from_millis(at.0));
            let event = tokio::select! {
                Some(command) = self.commands.recv() => self.take(command),
                Some(written) = self.writes.join_next() => Some(self.written(written)),
                () = sleep_until(deadline) => Some(Event::Tick),
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    Some(Event::Shutdown)
                }
            };
            if let Some(event) = event {
                self.handle(event);
            }
        }
        self.outcome()
    }

    fn outcome(self) -> Outcome {
        match (self.fault, self.plan.phase()) {
            (Some(error), _) => Outcome::Failed(error),
            (None, Phase::Stopped(StopReason::Shutdown) | Phase::Running) => Outcome::Interrupted,
            (None, Phase::Stopped(reason)) => Outcome::Failed(JobError::Stopped(reason.clone())),
            (None, Phase::Finished) => match self.manifest {
                Some(manifest) => Outcome::Finished(Box::new(manifest)),
                None => unreachable!("the plan finishes when it is told of the publication"),
            },
        }
    }

    fn handle(&mut self, event: Event) -> Vec<(LeaseId, bool)> {
        let now = Millis(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX));
        let actions = self.plan.handle(now, event);
        let renewals = self.perform(actions);
        self.progress.send_replace(self.plan.progress());
        renewals
    }

    fn take(&mut self, command: Command) -> Option<Event> {
        match command {
            Command::Event(event) => {
                if let Event::Withdrawn { request } = event {
                    self.requests.remove(&request);
                }
                Some(event)
            }
            Command::Join {
                worker,
                threads,
                reply,
            } => {
                // A worker that does not hear of this never asks for a task.
                let _ = reply.send(());
                Some(Event::Joined { worker, threads })
            }
            Command::Lease {
                request,
                worker,
                reply,
            } => {
                self.requests.insert(request, (worker, reply));
                Some(Event::Wanted { request, worker })
            }
            Command::Renew {
                worker,
                leases,
                reply,
            } => {
                let renew = |lease| self.handle(Event::Renewed { worker, lease });
                let renewals = leases.into_iter().flat_map(renew);
                let lost = renewals
                    .filter(|(_, stands)| !stands)
                    .map(|(lease, _)| lease)
                    .collect();
                let _ = reply.send(lost);
                None
            }
            Command::Submit {
                worker,
                lease,
                records,
                reply,
            } => {
                let submission = SubmissionId(self.submission_count);
                self.submission_count += 1;
                let ranges = records.iter().map(|(summary, _)| *summary).collect();
                let records = records
                    .into_iter()
                    .map(|record| (record.0.head, record))
                    .collect();
                self.submissions.insert(submission, (records, reply));
                Some(Event::Submitted {
                    submission,
                    worker,
                    lease,
                    ranges,
                })
            }
            Command::Fault(error) => {
                self.fault.get_or_insert_with(|| error.into());
                Some(Event::Shutdown)
            }
        }
    }

    fn written(&mut self, written: Result<Written, tokio::task::JoinError>) -> Event {
        let written = written.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        if self.fault.is_none() {
            self.fault = written.fault;
        }
        if written.manifest.is_some() {
            self.manifest = written.manifest;
        }
        written.event
    }

    /// Does what the plan asks for; returns what became of renewed leases.
    fn perform(&mut self, actions: Vec<Action>) -> Vec<(LeaseId, bool)> {
        let mut renewals = Vec::new();
        for action in actions {
            match action {
                Action::Answer { request, answer } => self.answer(request, answer),
                Action::Renewal { lease, stands } => renewals.push((lease, stands)),
                Action::Settle {
                    submission,
                    verdict,
                } => {
                    if let Some((_, reply)) = self.submissions.remove(&submission) {
                        // A worker that is gone learns it when it submits again.
                        let _ = reply.send(verdict);
                    }
                }
                Action::Commit {
                    submission,
                    layer,
                    heads,
                } => self.commit(submission, layer, &heads),
                Action::Seal { layer, ranges } => self.write(Write::Seal { layer, ranges }),
                Action::Publish => self.publish(),
                Action::Stop { reason } => tracing::debug!("the job stops: {reason}"),
            }
        }
        renewals
    }

    fn answer(&mut self, request: RequestId, answer: Answer) {
        let Some((worker, reply)) = self.requests.remove(&request) else {
            return;
        };
        if let Err(Answer::Task(task)) = reply.send(answer) {
            // The call was dropped. Its `Waiting` saw no task, so it goes back from here.
            self.handle(Event::Returned {
                worker,
                lease: task.lease,
            });
        }
    }

    fn commit(&mut self, submission: SubmissionId, layer: u32, heads: &[Head]) {
        let (records, _) = &self.submissions[&submission];
        let records = heads.iter().map(|head| records[head].clone()).collect();
        self.write(Write::Commit {
            submission,
            layer,
            records,
        });
    }

    fn write(&mut self, write: Write) {
        let store = Arc::clone(&self.store);
        self.writes
            .spawn(async move { write.perform(&store, ShardSize::PUBLISHED).await });
    }

    fn publish(&mut self) {
        let store = Arc::clone(&self.store);
        let runtime = tokio::runtime::Handle::current();
        // Merging is work for a CPU, not for the threads that serve calls.
        self.writes.spawn_blocking(move || {
            runtime.block_on(Write::Publish.perform(&store, ShardSize::PUBLISHED))
        });
    }
}

/// Sleeps until `deadline`, or for ever if there is none.
async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
