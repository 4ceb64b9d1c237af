//! The job under way: it tells the [plan](chomp_plan) what happens, and does what the plan asks for.
//!
//! One task owns the plan, at its [`desk`]. Calls of workers reach it as commands through a
//! [`Handle`]; effects run beside it and come back as events.
//!
//! The journal is written one segment at a time: what is agreed while one is under way, and for a short time after
//! it, goes into the next. So thousands of workers cost no more syncs than a few.

mod desk;
mod handle;
mod pace;
pub mod status;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chomp_plan::{
    Action, Event, JobProgress, LeaseId, Millis, Phase, Plan, StopReason, Verdict, WorkerId,
};
use chomp_table::manifest::Manifest;
use chomp_table::{Digest, Head};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use desk::{Desk, DeskJob, PutRefused, PutTarget, Reply, Transfer};
pub(crate) use handle::{CacheStats, Handle};

use handle::JobCall;
use pace::JobPace;
use status::Waits;

use crate::background;
use crate::effects::{Effect, EffectResult};
pub use crate::error::JobError;
use crate::error::{Refusal, WORKERS_MAX};
use crate::tools::{Tools, WorkerResult};

/// How long workers have to hear that the job has failed.
const HEARING_TIME: Duration = Duration::from_secs(1);

/// How a job ended.
#[derive(Debug)]
pub enum JobOutcome {
    /// The table is published.
    Finished(Box<Manifest>),
    /// The job was asked to stop, and everything committed so far is kept.
    Interrupted,
    /// The job cannot go on.
    Failed(JobError),
}

/// The job: owned by one task.
#[derive(Debug)]
pub(crate) struct Job {
    desk: Desk,
    tools: Arc<Tools>,
    commands: UnboundedReceiver<JobCall>,
    effects: JoinSet<EffectResult>,
    progress: watch::Sender<JobProgress>,
    start: Instant,
    pace: JobPace,
    waits: Waits,
    stats: HashMap<WorkerId, CacheStats>,
    /// The workers that have delivered nothing yet. The plan hears of their threads when they deliver: it makes tasks
    /// smaller for more threads, and anybody may claim to have many.
    newcomers: HashMap<WorkerId, Newcomer>,
}

/// A worker that has delivered nothing yet.
#[derive(Debug)]
struct Newcomer {
    name: String,
    threads: u32,
}

impl Job {
    /// A job, the handle by which calls reach it, and its progress. The progress is renewed when the phase changes, and
    /// whenever somebody asks for its [status](Handle::status). `published` is the manifest of the table, if the table
    /// is published already.
    pub(crate) fn new(
        plan: Plan,
        tools: Arc<Tools>,
        subject: DeskJob,
        published: Option<Manifest>,
    ) -> (Job, Handle, watch::Receiver<JobProgress>) {
        let (handle, commands) = Handle::new();
        let (progress, watcher) = watch::channel(plan.progress());
        let mut desk = Desk::new(plan, Arc::clone(&tools.journal), subject);
        desk.published = published;
        let job = Job {
            desk,
            tools,
            commands,
            effects: JoinSet::new(),
            progress,
            start: Instant::now(),
            pace: JobPace::default(),
            waits: Waits::default(),
            stats: HashMap::new(),
            newcomers: HashMap::new(),
        };
        (job, handle, watcher)
    }

    /// Runs until `stop` is cancelled and nothing is under way any more, or workers have had
    /// `finish_time` to hand in their tasks. `first` are the actions that the plan began with.
    pub(crate) async fn run(
        mut self,
        first: Vec<Action>,
        stop: CancellationToken,
        finish_time: Duration,
    ) -> JobOutcome {
        let now = self.now();
        self.desk.perform(now, first);
        self.after();
        let mut stops_at = None;
        while !stops_at.is_some_and(|at| self.may_go(at)) {
            let deadline = self.desk.next_deadline();
            let deadline = deadline.map(|at| self.start + Duration::from_millis(at.0));
            tokio::select! {
                biased;
                () = stop.cancelled(), if stops_at.is_none() => {
                    // Results for a job that has failed are of no use: workers only hear of the failure.
                    let time = if self.desk.has_failed() {
                        finish_time.min(HEARING_TIME)
                    } else {
                        finish_time
                    };
                    stops_at = Some(Instant::now() + time);
                    self.handle(Event::Shutdown);
                }
                () = sleep_until(stops_at.filter(|&at| at > Instant::now())) => {}
                () = sleep_until(deadline) => self.handle(Event::Tick),
                Some(done) = self.effects.join_next() => {
                    let done = done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
                    let now = self.now();
                    self.desk.end_effect(now, done);
                }
                Some(JobCall(call)) = self.commands.recv() => call(&mut self),
            }
            self.after();
        }
        self.outcome()
    }

    /// Whether a job that is to stop may end now. A segment that is being written is always waited for.
    fn may_go(&self, stops_at: Instant) -> bool {
        let quiet = self.desk.plan.is_quiet() && !self.desk.is_writing();
        quiet || self.effects.is_empty() && Instant::now() >= stops_at
    }

    fn outcome(self) -> JobOutcome {
        let Desk {
            plan,
            published,
            fault,
            ..
        } = self.desk;
        match (fault, plan.phase()) {
            (Some(error), _) => JobOutcome::Failed(error),
            (None, Phase::Stopped(StopReason::Shutdown) | Phase::Running) => {
                JobOutcome::Interrupted
            }
            (None, Phase::Stopped(reason)) => JobOutcome::Failed(JobError::Stopped(reason.clone())),
            (None, Phase::Finished) => match published {
                Some(published) => JobOutcome::Finished(Box::new(published)),
                None => unreachable!("the plan finishes when it is told of the publication"),
            },
        }
    }

    fn handle(&mut self, event: Event) {
        let now = self.now();
        self.desk.handle(now, event);
    }

    /// Begins the effects that came up, and tells of a phase that has ended.
    fn after(&mut self) {
        for effect in std::mem::take(&mut self.desk.effects) {
            self.begin(effect);
        }
        let plan = &self.desk.plan;
        self.progress.send_if_modified(|told| {
            let changed = told.phase != *plan.phase();
            if changed {
                *told = plan.progress();
            }
            changed
        });
    }

    /// Begins an effect. Work for a CPU is kept off the threads that serve calls.
    fn begin(&mut self, effect: Effect) {
        let tools = Arc::clone(&self.tools);
        let computes = matches!(effect, Effect::Arbitrate { .. } | Effect::Publish);
        let work = async move { effect.perform(&tools).await };
        match background::threads().filter(|_| computes) {
            Some(runtime) => self.effects.spawn_blocking(move || runtime.block_on(work)),
            None => self.effects.spawn(work),
        };
    }

    fn now(&self) -> Millis {
        Millis(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Makes the caller a worker of the job, or one again. Returns whether it was one.
    fn join(&mut self, worker: WorkerId, name: String, threads: u32) -> Result<bool, Refusal> {
        let plan = &self.desk.plan;
        if let Some(quarantine) = plan.quarantine_reason(worker) {
            return Err(Refusal::Quarantined(quarantine.clone()));
        }
        let was_there = plan.is_there(worker);
        if !was_there {
            if plan.workers().count() >= WORKERS_MAX {
                return Err(Refusal::TooManyWorkers);
            }
            tracing::info!("worker {name} has joined with {threads} threads");
        }
        let mut believed = threads;
        if !plan.has_delivered(worker) {
            believed = 0;
            let name = name.clone();
            self.newcomers.insert(worker, Newcomer { name, threads });
        }
        self.handle(Event::Joined {
            worker,
            name,
            threads: believed,
        });
        Ok(was_there)
    }

    /// Takes a heartbeat in; returns the leases that do not stand any more.
    fn renew(
        &mut self,
        worker: WorkerId,
        leases: Vec<LeaseId>,
        stats: CacheStats,
    ) -> Result<Vec<LeaseId>, Refusal> {
        let lost = self.desk.renew(self.now(), worker, leases);
        self.part(worker)?;
        self.stats.insert(worker, stats);
        Ok(lost)
    }

    /// Takes a result in; the verdict comes now or later.
    fn complete(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        result: WorkerResult,
        reply: oneshot::Sender<Verdict>,
    ) {
        let now = self.now();
        self.desk.complete(now, worker, lease, result, reply);
        if self.desk.plan.has_delivered(worker)
            && let Some(Newcomer { name, threads }) = self.newcomers.remove(&worker)
        {
            self.handle(Event::Joined {
                worker,
                name,
                threads,
            });
        }
    }

    /// Takes in that a worker says that records are lost.
    fn report(&mut self, worker: WorkerId, records: &[(Head, Digest)]) -> Result<(), Refusal> {
        self.part(worker)?;
        self.desk.report(worker, records);
        Ok(())
    }

    /// Refuses a worker that has no part in the job.
    fn part(&self, worker: WorkerId) -> Result<(), Refusal> {
        match self.desk.plan.quarantine_reason(worker) {
            Some(quarantine) => Err(Refusal::Quarantined(quarantine.clone())),
            None if !self.desk.plan.is_there(worker) => Err(Refusal::NotJoined),
            None => Ok(()),
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
