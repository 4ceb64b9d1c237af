//! The job under way: feeds the [plan](crate::plan) with what happens and does what it asks for.
//!
//! One task owns the plan. Calls of workers reach it as commands through a [`Handle`]; errands run
//! beside it and come back as events. The queue of commands is as long as the calls that are
//! under way, which the server bounds.

mod handle;
mod pace;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chomp_table::Head;
use chomp_table::format::describe;
use chomp_table::manifest::Manifest;
use chomp_table::range::RangeSummary;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use handle::{Handle, Over, Records, Refusal};
pub use handle::{Snapshot, WorkerSnapshot, WorkerStats};

use handle::Command;
use pace::Pace;

use crate::audit::{Audit, AuditError};
use crate::errands::{Done, Errand};
use crate::later;
use crate::plan::{
    Action, Answer, Event, LeaseId, Millis, Phase, Plan, Progress, RequestId, StopReason,
    SubmissionId, Verdict, WorkerId,
};
use crate::publish::{PublishError, Steps};
use crate::store::{Store, StoreError};

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
    /// A range could not be evaluated by the coordinator itself.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The plan stopped the job.
    #[error("the job stopped: {0}")]
    Stopped(StopReason),
}

/// The records of a submission by their heads, and who waits for the verdict, if anybody does.
type Submission = (
    HashMap<Head, (RangeSummary, Bytes)>,
    Option<oneshot::Sender<Verdict>>,
);

/// The job: owned by one task.
#[derive(Debug)]
pub(crate) struct Job {
    plan: Plan,
    store: Arc<Store>,
    audit: Arc<Audit>,
    commands: mpsc::UnboundedReceiver<Command>,
    requests: HashMap<RequestId, (WorkerId, oneshot::Sender<Answer>)>,
    submissions: HashMap<SubmissionId, Submission>,
    errands: JoinSet<Done>,
    progress: watch::Sender<Progress>,
    start: Instant,
    pace: Pace,
    stats: BTreeMap<WorkerId, WorkerStats>,
    submission_count: u64,
    manifest: Option<Manifest>,
    fault: Option<JobError>,
}

impl Job {
    /// A job, how calls reach it, and how it gets on. `manifest` is that of the table, if it is
    /// published already.
    pub(crate) fn new(
        plan: Plan,
        store: Arc<Store>,
        audit: Arc<Audit>,
        manifest: Option<Manifest>,
    ) -> (Job, Handle, watch::Receiver<Progress>) {
        let (handle, commands) = Handle::new();
        let (progress, watcher) = watch::channel(plan.progress());
        let job = Job {
            plan,
            store,
            audit,
            commands,
            requests: HashMap::new(),
            submissions: HashMap::new(),
            errands: JoinSet::new(),
            progress,
            start: Instant::now(),
            pace: Pace::default(),
            stats: BTreeMap::new(),
            submission_count: 0,
            manifest,
            fault: None,
        };
        (job, handle, watcher)
    }

    /// Runs until `stop` is cancelled and nothing is under way any more, or workers have had
    /// `finish_time` to hand in what they are at. `first` are the actions that the plan began with.
    pub(crate) async fn run(
        mut self,
        first: Vec<Action>,
        stop: CancellationToken,
        finish_time: Duration,
    ) -> Outcome {
        self.perform(first);
        let mut stops_at = None;
        while !stops_at.is_some_and(|at| self.may_go(at)) {
            let deadline = self
                .plan
                .next_deadline()
                .map(|at| self.start + Duration::from_millis(at.0));
            let event = tokio::select! {
                biased;
                () = stop.cancelled(), if stops_at.is_none() => {
                    stops_at = Some(Instant::now() + finish_time);
                    self.store.stop_publication();
                    Some(Event::Shutdown)
                }
                () = sleep_until(stops_at.filter(|&at| at > Instant::now())) => None,
                () = sleep_until(deadline) => Some(Event::Tick),
                Some(done) = self.errands.join_next() => Some(self.done(done)),
                Some(command) = self.commands.recv() => self.take(command),
            };
            if let Some(event) = event {
                self.handle(event);
            }
        }
        self.outcome()
    }

    /// Whether a job that is to stop may end now. What is being written is never given up.
    fn may_go(&self, stops_at: Instant) -> bool {
        self.plan.is_quiet() || self.errands.is_empty() && Instant::now() >= stops_at
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

    /// Tells the plan what happened, and what follows from that; returns what became of renewed
    /// leases.
    fn handle(&mut self, event: Event) -> Vec<(LeaseId, bool)> {
        let mut events = VecDeque::from([event]);
        let mut renewals = Vec::new();
        while let Some(event) = events.pop_front() {
            let actions = self.plan.handle(self.now(), event);
            let (renewed, more) = self.perform(actions);
            renewals.extend(renewed);
            events.extend(more);
        }
        let progress = self.plan.progress();
        self.pace
            .note(Instant::now(), &self.plan, self.store.merged());
        self.progress.send_replace(progress);
        renewals
    }

    fn now(&self) -> Millis {
        Millis(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
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
                name,
                threads,
                reply,
            } => {
                if !self.plan.is_there(worker) {
                    tracing::info!("worker {name} has joined with {threads} threads");
                }
                // A worker that does not hear of this never asks for a task.
                let _ = reply.send(match self.plan.misdeed(worker) {
                    Some(misdeed) => Err(Refusal::Quarantined(misdeed.clone())),
                    None => Ok(()),
                });
                Some(Event::Joined {
                    worker,
                    name,
                    threads,
                })
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
                stats,
                reply,
            } => {
                self.handle(Event::Alive { worker });
                let renew = |lease| self.handle(Event::Renewed { worker, lease });
                let renewals: Vec<_> = leases.into_iter().flat_map(renew).collect();
                let lost = renewals.into_iter().filter(|(_, stands)| !stands);
                // A worker that is gone does not mind.
                let _ = reply.send(match self.plan.misdeed(worker) {
                    Some(misdeed) => Err(Refusal::Quarantined(misdeed.clone())),
                    None if !self.plan.is_there(worker) => Err(Refusal::NotJoined),
                    None => Ok(lost.map(|(lease, _)| lease).collect()),
                });
                self.stats.insert(worker, stats);
                self.stats.retain(|&worker, _| self.plan.is_there(worker));
                None
            }
            Command::Submit {
                worker,
                lease,
                records,
                reply,
            } => {
                let ranges = records.iter().map(|(summary, _)| *summary).collect();
                let submission = self.keep(records, Some(reply));
                Some(Event::Submitted {
                    submission,
                    worker,
                    lease,
                    ranges,
                })
            }
            Command::Inspect { reply } => {
                // Whoever asked and went does not mind.
                let _ = reply.send(self.snapshot());
                None
            }
            Command::Unreadable(error) => {
                let reason = describe(&error);
                self.fault.get_or_insert_with(|| error.into());
                Some(Event::Unreadable { reason })
            }
        }
    }

    /// Keeps records until the plan settles what becomes of them.
    fn keep(&mut self, records: Records, reply: Option<oneshot::Sender<Verdict>>) -> SubmissionId {
        let submission = self.next_submission();
        self.keep_as(submission, records, reply);
        submission
    }

    fn keep_as(
        &mut self,
        submission: SubmissionId,
        records: Records,
        reply: Option<oneshot::Sender<Verdict>>,
    ) {
        let records = records.into_iter();
        let records = records.map(|record| (record.0.head, record)).collect();
        self.submissions.insert(submission, (records, reply));
    }

    fn next_submission(&mut self) -> SubmissionId {
        self.submission_count += 1;
        SubmissionId(self.submission_count)
    }

    fn done(&mut self, done: Result<Done, tokio::task::JoinError>) -> Event {
        let done = done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        if self.fault.is_none() {
            self.fault = done.fault;
        }
        if done.manifest.is_some() {
            self.manifest = done.manifest;
        }
        if let (Some(record), Event::Evaluated { submission, .. }) = (done.record, &done.event) {
            self.keep_as(*submission, vec![record], None);
        }
        done.event
    }

    /// Does what the plan asks for; returns what became of renewed leases, and what it must be told
    /// at once.
    fn perform(&mut self, actions: Vec<Action>) -> (Vec<(LeaseId, bool)>, Vec<Event>) {
        let (mut renewals, mut events) = (Vec::new(), Vec::new());
        for action in actions {
            match action {
                Action::Answer { request, answer } => events.extend(self.answer(request, answer)),
                Action::Renewal { lease, stands } => renewals.push((lease, stands)),
                Action::Settle {
                    submission,
                    verdict,
                } => {
                    if let Some((_, Some(reply))) = self.submissions.remove(&submission) {
                        // A worker that is gone learns it when it submits again.
                        let _ = reply.send(verdict);
                    }
                }
                Action::Commit {
                    submission,
                    layer,
                    heads,
                } => self.commit(submission, layer, &heads),
                Action::Forget { submission } => {
                    self.submissions.remove(&submission);
                }
                Action::Evaluate { head } => {
                    let submission = self.next_submission();
                    self.compute(Errand::Evaluate { submission, head });
                }
                Action::Quarantine { name, reason, .. } => {
                    tracing::warn!("worker {name} gets no more tasks: {reason}");
                }
                Action::Seal { layer, ranges } => self.write(Errand::Seal { layer, ranges }),
                Action::Publish => self.compute(Errand::Publish),
                Action::Stop { reason } => tracing::warn!("the job stops: {reason}"),
            }
        }
        (renewals, events)
    }

    fn answer(&mut self, request: RequestId, answer: Answer) -> Option<Event> {
        let (worker, reply) = self.requests.remove(&request)?;
        match reply.send(answer) {
            // The call was dropped. Its `Waiting` saw no task, so it goes back from here.
            Err(Answer::Task(task)) => Some(Event::Returned {
                worker,
                lease: task.lease,
            }),
            _ => None,
        }
    }

    fn commit(&mut self, submission: SubmissionId, layer: u32, heads: &[Head]) {
        let (records, _) = &self.submissions[&submission];
        let records = heads.iter().map(|head| records[head].clone()).collect();
        self.write(Errand::Commit {
            submission,
            layer,
            records,
        });
    }

    fn write(&mut self, errand: Errand) {
        let (store, audit) = (Arc::clone(&self.store), Arc::clone(&self.audit));
        self.errands
            .spawn(async move { errand.perform(&store, &audit, Steps::PUBLISHED).await });
    }

    /// Runs an errand that is work for a CPU, not for the threads that serve calls.
    fn compute(&mut self, errand: Errand) {
        let (store, audit) = (Arc::clone(&self.store), Arc::clone(&self.audit));
        let Some(runtime) = later::threads() else {
            self.write(errand);
            return;
        };
        self.errands.spawn_blocking(move || {
            runtime.block_on(errand.perform(&store, &audit, Steps::PUBLISHED))
        });
    }

    fn snapshot(&mut self) -> Snapshot {
        let now = self.now();
        self.pace
            .note(Instant::now(), &self.plan, self.store.merged());
        let workers = self.plan.workers().map(|worker| WorkerSnapshot {
            last_contact: Duration::from_millis(now.0.saturating_sub(worker.heard.0)),
            ranges_per_second: self.pace.of_worker(worker.id),
            stats: self.stats.get(&worker.id).copied().unwrap_or_default(),
            progress: worker,
        });
        Snapshot {
            phase: self.plan.phase().clone(),
            progress: self.plan.progress(),
            layers: self.plan.layer_progress().collect(),
            waits_for: self.plan.waits_for(),
            ranges_merged: self.store.merged(),
            ranges_per_second: self.pace.of_all(),
            time_left: self.pace.time_left(),
            workers: workers.collect(),
        }
    }
}

/// Sleeps until `deadline`, or for ever if there is none.
async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
