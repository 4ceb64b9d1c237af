//! The job under way: it tells the [plan](chomp_plan) what happens, and does what the plan asks for.
//!
//! One tokio task owns the job, and runs functions of the job, one after another. Each call of a worker, sent through a
//! [`JobHandle`], is such a function, and so is the outcome of each effect that runs beside the task. The cost of an
//! event depends on its content, not on the number of workers and ranges.
//!
//! The journal is written one segment at a time: the units that are found while one is being written, and for a short
//! time after it, go into the next. So thousands of workers cost no more syncs than a few.

mod handle;
mod pace;
mod parts;
pub mod status;
#[cfg(test)]
pub(crate) mod tests;
mod writes;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use chomp_access::Participants;
use chomp_plan::{
    JobProgress, LeaseAnswer, LeaseId, Millis, Phase, PublishOutcome, StopReason, TaskResult, Unit,
    Verdict, Work, WorkerId, Write, WriteId, counted,
};
use chomp_store::tasks::output;
use chomp_store::{RangeRow, ShardSummary, StoreError};
use chomp_table::format::describe;
use chomp_table::manifest::Manifest;
use chomp_table::{Digest, Head};
use chomp_worker::WorkerError;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

pub(crate) use handle::{JobFn, JobHandle};
pub(crate) use parts::{PutGuard, PutRefused, PutTarget};
pub(crate) use status::StatusFeed;

use parts::RelayedParts;
use status::{STATUS_INTERVAL, StatusMaker};
use writes::Writes;

use crate::background;
use crate::effects::{Audit, Effect};
pub use crate::error::JobError;
use crate::error::{Refusal, WORKERS_MAX};
use crate::participants::{revoked, spare};
use crate::tools::{Action, Event, Plan, TaskAnswer, Tools, UnitLocation};

/// How long workers have to hear that the job has failed.
const HEARING_TIME: Duration = Duration::from_secs(1);
/// The reports of lost records audited at a time. More are dropped: a worker that needs a record reports it again.
const AUDITS_MAX: usize = 16;

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

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) plan: Plan,
    tools: Arc<Tools>,
    replicas: u32,
    participants: watch::Receiver<Participants>,
    published: Option<Manifest>,
    fault: Option<JobError>,
    calls: UnboundedReceiver<JobFn>,
    /// The effects to begin.
    effects: Vec<Effect>,
    running: JoinSet<JobFn>,
    progress: watch::Sender<JobProgress>,
    status: StatusMaker,
    start: Instant,
    /// The time of the latest event.
    now: Millis,
    is_referee_needed: bool,
    /// The calls of the referee, until it is started.
    referee_calls: Option<Routes>,
    stop_referee: CancellationToken,
    writes: Writes,
    relayed_parts: RelayedParts,
    /// The reports of lost records that are being audited.
    audits: usize,
    /// The first of the ranges at the end of the table whose parts are removed.
    removed_from: Head,
}

impl Job {
    /// The progress is renewed when the phase changes and with each status. `published` is the manifest of the table,
    /// if that is published already.
    pub(crate) fn new(
        (plan, first): (Plan, Vec<Action>),
        tools: Arc<Tools>,
        replicas: u32,
        mut participants: watch::Receiver<Participants>,
        published: Option<Manifest>,
    ) -> (Job, JobHandle, watch::Receiver<JobProgress>) {
        let (handle, calls) = JobHandle::new();
        // Some may be revoked already.
        participants.mark_changed();
        let (progress, watcher) = watch::channel(plan.progress());
        let removed_from = Head(tools.range_bits().head_count(tools.bits));
        let mut job = Job {
            plan,
            tools,
            replicas,
            participants,
            published,
            fault: None,
            calls,
            effects: Vec::new(),
            running: JoinSet::new(),
            progress,
            status: StatusMaker::default(),
            start: Instant::now(),
            now: Millis::default(),
            is_referee_needed: false,
            referee_calls: None,
            stop_referee: CancellationToken::new(),
            writes: Writes::default(),
            relayed_parts: RelayedParts::default(),
            audits: 0,
            removed_from,
        };
        job.perform(first);
        (job, handle, watcher)
    }

    /// Runs until `stop` is cancelled, and then until nothing is under way or `finish_time` is over, in which workers
    /// may hand in their results. `referee_calls` answers the referee, if it is called.
    pub(crate) async fn run(
        mut self,
        stop: CancellationToken,
        finish_time: Duration,
        referee_calls: Routes,
    ) -> JobOutcome {
        self.referee_calls = Some(referee_calls);
        self.start_effects();
        let mut stops_at = None;
        let mut next_status = Instant::now();
        while !stops_at.is_some_and(|at| self.may_end(at)) {
            let deadline = self.next_deadline();
            let deadline = deadline.map(|at| self.start + Duration::from_millis(at.0));
            let follows = self.status.has_readers().then_some(next_status);
            let call: JobFn = tokio::select! {
                biased;
                () = stop.cancelled(), if stops_at.is_none() => {
                    // Results for a job that has failed are of no use: workers only hear of the failure.
                    let time = if self.has_failed() {
                        finish_time.min(HEARING_TIME)
                    } else {
                        finish_time
                    };
                    stops_at = Some(Instant::now() + time);
                    self.stop_referee.cancel();
                    Box::new(|job| job.handle(Event::Shutdown))
                }
                Ok(()) = self.participants.changed() => Box::new(Job::revoke),
                () = sleep_until(stops_at.filter(|&at| at > Instant::now())) => Box::new(|_| ()),
                () = sleep_until(deadline) => Box::new(|job| job.handle(Event::Tick)),
                () = sleep_until(follows) => {
                    next_status = Instant::now() + STATUS_INTERVAL;
                    Box::new(Job::send_status)
                }
                Some(done) = self.running.join_next() => output(done).await,
                Some(call) = self.calls.recv() => call,
            };
            self.now = self.time();
            call(&mut self);
            self.start_effects();
        }
        self.outcome()
    }

    /// Whether a job that is to stop may end now. A segment that is being written is always waited for.
    fn may_end(&self, stops_at: Instant) -> bool {
        let quiet = self.plan.has_nothing_under_way() && !self.writes.is_under_way();
        quiet || self.running.is_empty() && Instant::now() >= stops_at
    }

    pub(crate) fn outcome(self) -> JobOutcome {
        match (self.plan.phase(), self.fault) {
            // A fault that did not prevent the publication does not matter.
            (Phase::Finished, _) => match self.published {
                Some(published) => JobOutcome::Finished(Box::new(published)),
                None => unreachable!("the plan finishes when it is told of the publication"),
            },
            (_, Some(error)) => JobOutcome::Failed(error),
            (Phase::Stopped(StopReason::Shutdown) | Phase::Running, None) => {
                JobOutcome::Interrupted
            }
            (Phase::Stopped(reason), None) => JobOutcome::Failed(JobError::Stopped(reason.clone())),
        }
    }

    /// Begins the effects that came up, and sends the status if the phase has changed.
    fn start_effects(&mut self) {
        if self.is_referee_needed
            && let Some(calls) = self.referee_calls.take()
        {
            let stop = self.stop_referee.clone();
            self.effects.push(Effect::Referee { calls, stop });
        }
        for effect in std::mem::take(&mut self.effects) {
            let tools = Arc::clone(&self.tools);
            // Work for a CPU is kept off the threads that serve calls.
            let computes = matches!(effect, Effect::Audit { .. } | Effect::Publish);
            let work = async move { effect.perform(&tools).await };
            match background::multi_thread_runtime().filter(|_| computes) {
                Some(runtime) => self.running.spawn_blocking(move || runtime.block_on(work)),
                None => self.running.spawn(work),
            };
        }
        if self.progress.borrow().phase != *self.plan.phase() {
            self.send_status();
        }
    }

    fn time(&self) -> Millis {
        Millis(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn handle(&mut self, event: Event) {
        let actions = self.plan.handle(self.now, event);
        self.perform(actions);
    }

    fn perform(&mut self, mut actions: Vec<Action>) {
        let mut events = VecDeque::new();
        loop {
            let follow = actions.into_iter().filter_map(|action| self.act(action));
            events.extend(follow);
            let Some(event) = events.pop_front() else {
                break;
            };
            actions = self.plan.handle(self.now, event);
        }
        self.begin_segment_if_due();
        self.remove_orphans();
    }

    /// Does one thing that the plan asks for. It returns the event that follows at once, if one does.
    fn act(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Answer {
                worker,
                responder,
                answer,
            } => return self.answer(worker, responder, answer),
            Action::SendVerdict { responder, verdict } => {
                // A worker that is gone learns the verdict when it sends the result again.
                let _ = responder.send(verdict);
            }
            Action::Write(write) => {
                self.warn_about(&write);
                self.writes.push(write);
            }
            Action::CallReferee => self.is_referee_needed = true,
            Action::Publish => {
                let lapsed = self.plan.lapsed_checks();
                if lapsed > 0 {
                    let checks = counted(lapsed, "sampled check");
                    tracing::info!("the table does not wait for {checks}, which nobody has done");
                }
                self.effects.push(Effect::Publish);
            }
            Action::Stop { reason } => tracing::warn!("the job stops: {reason}"),
        }
        None
    }

    fn answer(
        &self,
        worker: WorkerId,
        responder: oneshot::Sender<TaskAnswer>,
        answer: LeaseAnswer,
    ) -> Option<Event> {
        let known_summary = match &answer {
            LeaseAnswer::Task(task) => match task.work {
                Work::Merge {
                    shard,
                    is_check: true,
                    ..
                } => self.known_summary(Unit::Shard(shard)),
                _ => None,
            },
            _ => None,
        };
        let journal_end = self.tools.journal.ledger().next_segment;
        let sent = responder.send(TaskAnswer {
            answer,
            journal_end,
            known_summary,
        });
        match sent {
            // The call was dropped. Its `PendingRequest` saw no task, so the task is returned here.
            Err(TaskAnswer {
                answer: LeaseAnswer::Task(task),
                ..
            }) => Some(Event::Returned {
                worker,
                lease: task.lease,
                failure: None,
            }),
            _ => None,
        }
    }

    fn known_summary(&self, unit: Unit) -> Option<Box<ShardSummary>> {
        let Unit::Shard(shard) = unit else {
            return None;
        };
        let ledger = self.tools.journal.ledger();
        ledger.shard(self.tools.bits, shard).cloned().map(Box::new)
    }

    fn warn_about<P>(&self, write: &Write<P>) {
        match write {
            Write::Out {
                party,
                name,
                reason,
            } => {
                let participants = self.participants.borrow();
                let of = participants.get(party.participant().0);
                let of = of.map_or_else(String::new, |of| format!(" (participant {})", of.name));
                tracing::warn!("worker {name}{of} gets no more tasks: {reason}");
            }
            Write::Withdraw { heads } => {
                tracing::warn!("wrong ranges, which are computed again: {}", heads.len());
            }
            _ => {}
        }
    }

    /// Makes the caller a worker of the job, or one again. Returns whether it was one.
    pub(crate) fn join(
        &mut self,
        worker: WorkerId,
        name: String,
        threads: u32,
    ) -> Result<bool, Refusal> {
        if let Some(reason) = self.plan.out_reason(worker) {
            return Err(Refusal::Out(reason.clone()));
        }
        let was_there = self.plan.is_present(worker);
        if !was_there && !worker.is_referee() {
            let (all, theirs) = self.plan.present_workers(worker.participant);
            let free = WORKERS_MAX.saturating_sub(all);
            if !spare(worker.participant, WORKERS_MAX).admits(1, theirs, free) {
                return Err(Refusal::TooManyWorkers);
            }
        }
        self.handle(Event::Joined {
            worker,
            name,
            threads,
        });
        Ok(was_there)
    }

    fn revoke(&mut self) {
        let revoked = revoked(&self.participants.borrow_and_update());
        for participant in revoked {
            self.handle(Event::Revoked { participant });
        }
    }

    /// Handles a heartbeat. Returns the leases that do not stand any more.
    pub(crate) fn renew(
        &mut self,
        worker: WorkerId,
        leases: &[LeaseId],
    ) -> Result<Vec<LeaseId>, Refusal> {
        let lost = self.plan.renew(self.now, worker, leases);
        self.require_present(worker)?;
        Ok(lost)
    }

    /// Handles a result, whose part or shard is durable. The verdict is sent now or later.
    fn complete(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        result: TaskResult<UnitLocation>,
        responder: oneshot::Sender<Verdict>,
    ) {
        if let Err(reason) = self.relayed_parts.require_filled(worker, lease, &result) {
            let failure = Some(reason.to_string());
            self.handle(Event::Returned {
                worker,
                lease,
                failure,
            });
            // A worker that is gone has no use for it.
            let _ = responder.send(Verdict::Rejected { reason });
            return;
        }
        self.handle(Event::Completed {
            worker,
            lease,
            result,
            responder,
        });
        if self.plan.would_idle(worker) {
            self.writes.is_urgent = true;
            self.begin_segment_if_due();
        }
    }

    /// Begins an audit of the records that a worker reports as lost, each with its digest and the lease of its part. There
    /// is no look at one that the journal has in no such place, or that nobody needs any more.
    pub(crate) fn report(
        &mut self,
        worker: WorkerId,
        reported: &[(Head, Digest, LeaseId)],
        responder: oneshot::Sender<Audit>,
    ) -> Result<(), Refusal> {
        self.require_present(worker)?;
        let (mut audit, mut records) = (Audit::default(), Vec::new());
        for &(head, digest, lease) in reported {
            let row = self.tools.journal.ledger().range(head).copied();
            match row.filter(|row| (row.digest, LeaseId(row.lease)) == (digest, lease)) {
                Some(row) if head < self.plan.first_unneeded_head() => records.push((head, row)),
                _ => audit.outdated.push(head),
            }
        }
        let is_full = self.audits >= AUDITS_MAX && !worker.is_referee();
        if records.is_empty() || is_full {
            // A worker that is gone has no use for it.
            let _ = responder.send(audit);
            return Ok(());
        }
        self.audits += 1;
        self.effects.push(Effect::Audit {
            worker,
            records,
            audit,
            responder,
        });
        Ok(())
    }

    fn require_present(&self, worker: WorkerId) -> Result<(), Refusal> {
        match self.plan.out_reason(worker) {
            Some(reason) => Err(Refusal::Out(reason.clone())),
            None if !self.plan.is_present(worker) => Err(Refusal::NotJoined),
            None => Ok(()),
        }
    }

    pub(crate) fn on_audited(
        &mut self,
        worker: WorkerId,
        audit: Audit,
        responder: oneshot::Sender<Audit>,
    ) {
        self.audits -= 1;
        let records = {
            let ledger = self.tools.journal.ledger();
            // A range from `first_unneeded_head` on was merged, and its part removed, during the audit. Another one may
            // have been computed again.
            let unneeded = self.plan.first_unneeded_head();
            let is_lost = |&&(head, row): &&(Head, RangeRow)| {
                head < unneeded && ledger.range(head) == Some(&row)
            };
            let lost = audit.lost.iter().filter(is_lost);
            lost.map(|&(head, row)| (head, row.digest)).collect()
        };
        self.handle(Event::Lost { records });
        if let Some(head) = audit.in_order.first() {
            let count = audit.in_order.len() as u64;
            if self.plan.note_unreadable(worker, count) == Some(0)
                && let Some(end) = self.tools.log_lines.next(worker.participant)
            {
                let workers = self.plan.workers();
                let name = workers
                    .filter(|it| it.id == worker)
                    .map(|it| it.name)
                    .last();
                let name = name.unwrap_or_default();
                tracing::warn!(
                    "worker {name} cannot read what others can: the record of range {head} is in order{end}"
                );
            }
        }
        let _ = responder.send(audit);
    }

    pub(crate) fn on_appended(&mut self, writes: Vec<WriteId>, outcome: Result<(), StoreError>) {
        self.writes.end(self.now);
        let fault = outcome.err();
        let reason = fault.as_ref().map(|error| describe(error));
        if reason.is_some() {
            self.writes.failed.clone_from(&reason);
            if writes.is_empty() {
                // No result waits for this segment, so no `Event::Written` stops the plan: the job is ended here.
                self.handle(Event::Shutdown);
            }
        }
        for write in writes {
            let outcome = reason.clone().map_or(Ok(()), Err);
            self.handle(Event::Written { write, outcome });
        }
        self.remove_merged();
        match fault.map(JobError::Store) {
            Some(fault) if fault.is_storage_fault() => self.fail(fault),
            fault => self.fault = self.fault.take().or(fault),
        }
        self.begin_segment_if_due();
    }

    pub(crate) fn on_published(
        &mut self,
        outcome: Result<Manifest, PublishOutcome>,
        fault: Option<JobError>,
    ) {
        let publication = outcome.map(|published| self.published = Some(published));
        let publication = publication.map_or_else(|failed| failed, |()| PublishOutcome::Done);
        self.handle(Event::Published(publication));
        match fault {
            Some(fault) if fault.is_storage_fault() => self.fail(fault),
            // The fault is kept only if the plan has stopped because of a fault. Otherwise it does not matter.
            fault if self.is_faulty() => self.fault = self.fault.take().or(fault),
            _ => {}
        }
    }

    /// The job cannot settle everything without the referee.
    pub(crate) fn on_referee_ended(&mut self, ended: Result<(), WorkerError>) {
        if let Err(error) = ended
            && *self.plan.phase() == Phase::Running
        {
            self.fail(JobError::Referee(error));
        }
    }

    /// Ends the job, if its table is not published yet.
    pub(crate) fn fail(&mut self, fault: JobError) {
        if *self.plan.phase() == Phase::Finished {
            return;
        }
        if self.fault.is_none() {
            tracing::error!("the job stops: {}", describe(&fault));
            self.fault = Some(fault);
        }
        self.handle(Event::Shutdown);
    }

    /// Whether the job ends with an error.
    fn has_failed(&self) -> bool {
        self.fault.is_some() || self.is_faulty()
    }

    /// Whether the plan has stopped because of a fault, and not because it was asked to.
    fn is_faulty(&self) -> bool {
        matches!(self.plan.phase(), Phase::Stopped(reason) if *reason != StopReason::Shutdown)
    }
}

/// Sleeps until `deadline`, or for ever if there is none.
async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
