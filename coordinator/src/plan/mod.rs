//! The plan: which ranges are computed next, by whom, and what becomes of a result.
//!
//! A plain state machine without clock, I/O, threads or chance: [`Plan::handle`] takes the time and
//! an [`Event`] and gives the [`Action`]s that follow from it. The same events give the same
//! actions, so a test can try any schedule. The caller performs the actions in any order and
//! tells what came of those that may fail.
//!
//! # A range
//!
//! ```text
//!   blocked ── its sources are committed ──> ready ──> committing ── durable ──> committed
//!                                             │  ^
//!                              leased to workers, whose results are votes
//! ```
//!
//! # What always holds
//!
//! * **Order.** A range is offered when all its sources are durable, and not before. All sources are of
//!   lower layers, so the lowest layer that is not complete can always go on; ranges of higher
//!   layers may be offered beside it, and low layers go first. Seals follow the layers strictly.
//! * **Leases decide who works, never what is right.** A result counts whether its lease stands or
//!   not. Each is a **vote** of its worker for a content. A content is kept when
//!   [`Settings::replicas`] workers found the same.
//! * **Disagreement is settled by the coordinator**, which evaluates the range itself: an **audit**. Who said
//!   otherwise gets no more tasks, and everything that it helped to settle is audited too. If
//!   that shows a committed content wrong, the job stops. Nothing is sealed or published
//!   while an audit is due.
//! * **Once.** A range is written once. It is acknowledged ([`Verdict::Accepted`], [`Verdict::Duplicate`])
//!   only when durable. A result for a range that is just being written waits for that write.
//! * **Every request and every submission is answered exactly once**; requests of a worker that
//!   left, and those withdrawn, are not.
//! * **No idling.** A request waits only while there is no range that its worker may have: all that
//!   are ready have enough copies under way, or one by this very worker. A lease that stands for
//!   long is then doubled.
//! * **Seals in order.** Layers are sealed ascending, one at a time, when complete; the table is
//!   published after the last seal.
//! * **Faults end it.** After a fault nothing is offered, begun or taken any more, and every request is
//!   answered so; a write under way still counts if it succeeds. A failed write is never tried
//!   again by the same plan: what the disk holds after it is known only by reading it anew.
//! * **No endless attempts.** A lease that expires, fails or is answered by a bad result is a lost
//!   attempt for each of its ranges. After two a range is offered alone, so that the one that cannot be
//!   computed is found; after [`Settings::failures_max`] failures, or [`Settings::expiries_max`]
//!   silences, the job stops. A worker gets what it failed at again only if nobody else is there. One that
//!   fails at everything gets no more tasks.
//! * **Nobody is shut out for having been away.** A worker is known by its number. It is forgotten after
//!   a long silence, and may join again at any time, with the same number, and hand in what it has.
//!
//! # Cost
//!
//! An event costs time in proportion to its task, times a logarithm, but for two: sealing a layer
//! looks at all of it, and a request that finds nothing to do looks at the ranges that wait for
//! others than its worker.

mod audits;
mod copies;
mod messages;
mod ranges;
mod submissions;
mod tasks;
mod workers;

#[cfg(test)]
mod invariants;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::{Head, RangeSummary};

pub use messages::{
    Action, Answer, Event, LeaseId, Loss, Millis, Misdeed, PlanError, Progress, Rejection,
    RequestId, Settings, StopReason, SubmissionId, Task, Verdict, WorkerId, WorkerProgress,
};
pub use ranges::HEAD_BITS_MAX;

use audits::Audits;
use copies::Board;
use ranges::{Ranges, State};
use submissions::Pending;
use tasks::Lease;
use workers::{Outcast, Worker};

/// What a plan is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// There is work to do.
    Running,
    /// The table is published.
    Finished,
    /// The job ends before that.
    Stopped(StopReason),
}

/// The plan of one job.
#[derive(Debug)]
pub struct Plan {
    settings: Settings,
    phase: Phase,
    /// The time of the last event.
    now: Millis,
    ranges: Ranges,
    board: Board,
    audits: Audits,
    workers: BTreeMap<WorkerId, Worker>,
    /// When each worker was last heard of.
    silences: BTreeSet<(Millis, WorkerId)>,
    threads: u64,
    /// The workers that get no more tasks.
    outcasts: BTreeMap<WorkerId, Outcast>,
    /// What each worker helped to settle.
    delivered: BTreeMap<WorkerId, Vec<Head>>,
    /// The requests that wait for a task.
    requests: BTreeMap<RequestId, WorkerId>,
    leases: BTreeMap<LeaseId, Lease>,
    /// The end of each lease.
    deadlines: BTreeSet<(Millis, LeaseId)>,
    next_lease: u64,
    /// The submissions that are not settled.
    pending: BTreeMap<SubmissionId, Pending>,
    /// The layers below this one are sealed.
    layers_sealed: u32,
    /// Whether the next layer is being sealed.
    sealing: bool,
    publishing: bool,
}

impl Plan {
    /// The plan of a job of which something may be done: `done` are the ranges that are durable,
    /// `sealed_layers` the number of layers with a seal, and `expected` what the seals say of
    /// ranges that may not be durable any more. Ranges beyond the table are ignored.
    ///
    /// # Errors
    ///
    /// If the job has too many ranges, or `done` and `expected` contradict each other.
    ///
    /// # Panics
    ///
    /// If more layers are sealed than there are.
    pub fn new(
        settings: Settings,
        done: &[RangeSummary],
        expected: &[RangeSummary],
        sealed_layers: u32,
    ) -> Result<(Plan, Vec<Action>), PlanError> {
        let ranges = Ranges::new(&settings, done, expected)?;
        assert!(
            sealed_layers <= ranges.layers(),
            "{sealed_layers} of {} layers",
            ranges.layers()
        );
        let mut plan = Plan::of(settings, ranges, sealed_layers);
        for head in (0..plan.ranges.count()).map(Head) {
            if plan.ranges.state(head) == State::Ready {
                plan.refile(head, |_| {});
            }
        }
        let mut actions = Vec::new();
        plan.advance_store(&mut actions);
        Ok((plan, actions))
    }

    fn of(settings: Settings, ranges: Ranges, layers_sealed: u32) -> Plan {
        Plan {
            phase: Phase::Running,
            now: Millis::default(),
            ranges,
            board: Board::new(settings.replicas),
            audits: Audits::default(),
            workers: BTreeMap::new(),
            silences: BTreeSet::new(),
            threads: 0,
            outcasts: BTreeMap::new(),
            delivered: BTreeMap::new(),
            requests: BTreeMap::new(),
            leases: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_lease: settings.epoch << 32,
            pending: BTreeMap::new(),
            layers_sealed,
            sealing: false,
            publishing: false,
            settings,
        }
    }

    /// The plan of a job whose table is published: it has nothing to do and says so. `losing` is the
    /// number of losing positions.
    ///
    /// # Errors
    ///
    /// If the job has too many ranges.
    pub fn finished(settings: Settings, losing: u64) -> Result<Plan, PlanError> {
        let ranges = Ranges::all_done(&settings, losing)?;
        let layers_sealed = ranges.layers();
        let mut plan = Plan::of(settings, ranges, layers_sealed);
        plan.phase = Phase::Finished;
        Ok(plan)
    }

    /// Takes in what happened at the time `now` and says what to do about it.
    ///
    /// # Panics
    ///
    /// If the outcome of an action is told that was not asked for, or is told twice: going on
    /// would mean to acknowledge what may not be durable.
    pub fn handle(&mut self, now: Millis, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let out = &mut actions;
        self.now = now;
        if let Some(worker) = event.sender() {
            self.heard(now, worker);
        }
        match event {
            Event::Joined {
                worker,
                name,
                threads,
            } => self.joined(now, worker, name, threads),
            Event::Alive { .. } => {}
            Event::Left { worker } => self.left(worker, out),
            Event::Wanted { request, worker } => self.wanted(request, worker, out),
            Event::Withdrawn { request } => self.withdrawn(request),
            Event::Renewed { worker, lease } => self.renewed(now, worker, lease, out),
            Event::Returned { worker, lease } => self.returned(worker, lease, out),
            Event::Failed {
                worker,
                lease,
                reason,
            } => self.failed(worker, lease, reason, out),
            Event::Submitted {
                submission,
                worker,
                lease,
                ranges,
            } => {
                self.submitted(submission, worker, lease, &ranges, out);
            }
            Event::Refuted {
                worker,
                lease,
                head,
            } => self.refuted(worker, lease, head, out),
            Event::Evaluated { submission, range } => self.evaluated(submission, range, out),
            Event::EvaluationFailed { head, reason } => {
                self.evaluation_failed(head, reason, out);
            }
            Event::Committed { submission } => self.committed(submission, out),
            Event::CommitFailed { submission, reason } => {
                self.commit_failed(submission, reason, out);
            }
            Event::Sealed { layer } => {
                self.sealing_ended(layer);
                self.layers_sealed += 1;
            }
            Event::SealFailed { layer, reason } => {
                self.sealing_ended(layer);
                self.stop(StopReason::SealFailed { layer, reason }, out);
            }
            Event::Published => {
                self.publishing_ended();
                if !self.is_faulty() {
                    self.phase = Phase::Finished;
                }
            }
            Event::PublishFailed { reason } => {
                self.publishing_ended();
                self.stop(StopReason::PublishFailed { reason }, out);
            }
            Event::PublicationStopped => self.publishing_ended(),
            Event::Unreadable { reason } => self.stop(StopReason::Unreadable { reason }, out),
            Event::Tick => {
                self.expire(now, out);
                self.forget_silent(now, out);
            }
            Event::Shutdown => {
                if self.phase == Phase::Running {
                    self.phase = Phase::Stopped(StopReason::Shutdown);
                }
            }
        }
        self.advance_audits(out);
        self.advance_store(out);
        self.answer_requests(now, out);
        actions
    }

    /// When the next [`Event::Tick`] is due, unless a renewal moves it.
    pub fn next_deadline(&self) -> Option<Millis> {
        let lease = self.deadlines.first().map(|&(deadline, _)| deadline);
        let others = [self.next_silence(), self.next_straggler()];
        lease.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// What the plan is about now.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Whether nothing is under way: no lease, no submission, no write. A coordinator that shuts
    /// down may go then.
    pub fn is_quiet(&self) -> bool {
        self.leases.is_empty()
            && self.pending.is_empty()
            && self.audits.under_way.is_none()
            && !self.sealing
            && !self.publishing
    }

    /// How far the job has come.
    pub fn progress(&self) -> Progress {
        let (work, work_done, publication_work) = self.ranges.work();
        Progress {
            phase: self.phase.clone(),
            layers: self.ranges.layers(),
            layer: self.ranges.open(),
            layers_sealed: self.layers_sealed,
            ranges: self.ranges.count(),
            ranges_done: self.ranges.done(),
            ranges_resumed: self.ranges.resumed(),
            losing: self.ranges.losing(),
            work,
            work_done,
            publication_work,
            leases: self.leases.len() as u64,
            submissions: self.pending.len() as u64,
            audits: self.audits.len() as u64,
            workers: self.workers.len() as u64,
            threads: self.threads,
        }
    }

    /// For each layer from the lowest, how many ranges it has, and how many of them are committed.
    pub fn layer_progress(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges.of_layers()
    }

    /// Why nobody works on anything, if that is so and not the end.
    pub fn waits_for(&self) -> Option<String> {
        let replicas = self.settings.replicas;
        match &self.phase {
            Phase::Stopped(reason) => Some(reason.to_string()),
            Phase::Finished => None,
            Phase::Running if self.publishing => Some("the shards are being written".to_owned()),
            Phase::Running if self.audits.len() > 0 => Some(format!(
                "the coordinator evaluates {} ranges itself, since a worker sent a wrong one",
                self.audits.len()
            )),
            Phase::Running if !self.leases.is_empty() || !self.is_quiet() => None,
            Phase::Running if self.workers.is_empty() => Some("no worker is there".to_owned()),
            Phase::Running if self.board.shared() > 0 && replicas > 1 => Some(format!(
                "each range must be computed by {replicas} workers, and those that are there have done what they can"
            )),
            Phase::Running => Some("no worker asks for a task".to_owned()),
        }
    }

    fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Whether the job stopped for another reason than that it was asked to.
    fn is_faulty(&self) -> bool {
        matches!(&self.phase, Phase::Stopped(reason) if *reason != StopReason::Shutdown)
    }

    /// Stops the job, for the first fault that it has.
    fn stop(&mut self, reason: StopReason, out: &mut Vec<Action>) {
        if !self.is_faulty() {
            self.phase = Phase::Stopped(reason.clone());
            out.push(Action::Stop { reason });
        }
    }

    /// Begins the next seal or the publication, when it is time for it.
    fn advance_store(&mut self, out: &mut Vec<Action>) {
        if !self.is_running() || self.sealing || self.publishing || self.audits.len() > 0 {
            return;
        }
        let layer = self.layers_sealed;
        if layer < self.ranges.layers() {
            if self.ranges.is_complete(layer) {
                self.sealing = true;
                out.push(Action::Seal {
                    layer,
                    ranges: self.ranges.summaries(layer),
                });
            }
        } else if self.ranges.open() == self.ranges.layers() {
            self.publishing = true;
            out.push(Action::Publish);
        }
    }

    fn sealing_ended(&mut self, layer: u32) {
        assert!(
            self.sealing && layer == self.layers_sealed,
            "layer {layer} was not to be sealed"
        );
        self.sealing = false;
    }

    fn publishing_ended(&mut self) {
        assert!(self.publishing, "the table was not to be published");
        self.publishing = false;
    }
}
