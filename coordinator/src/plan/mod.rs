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
//!                ┌── lease ended ──┐
//!                v                 │
//!            waiting ── offered ─> leased
//!                │                 │
//!                └──> committing <─┘      a result came, from whomever
//!                         │
//!                         └── durable ──> committed
//! ```
//!
//! # What always holds
//!
//! * **Order.** One layer is open: the lowest that is not complete. Only ranges of the open layer
//!   are offered, so all sources of a task are durable before it is offered. Sealing does not
//!   hold this up.
//! * **Leases decide who works, never what is right.** A result counts whether its lease stands or
//!   not: ranges that are missing are committed, others are compared. The first content of a
//!   range is kept; another one stops the job, since nobody can tell which is right.
//! * **Once.** A range is in the hands of one lease or of one commit at most, and is committed
//!   once. It is acknowledged ([`Verdict::Accepted`], [`Verdict::Duplicate`]) only when durable. A
//!   result for a range that is just being written waits for that write.
//! * **Every request and every submission is answered exactly once**; requests of a worker that
//!   left, and those withdrawn, are not.
//! * **No idling.** A request waits only while every range of the open layer is leased or being
//!   written.
//! * **Seals in order.** Layers are sealed ascending, one at a time, when complete; the table is
//!   published after the last seal.
//! * **Faults end it.** After a fault nothing is offered, begun or taken any more, and every request is
//!   answered so; a write under way still counts if it succeeds. A failed write is never tried
//!   again by the same plan: what the disk holds after it is known only by reading it anew.
//! * **No endless attempts.** A lease that expires, fails or is answered by a bad result is a lost
//!   attempt for each of its ranges. After a few, a range is offered alone, so that the one that
//!   cannot be computed is found; at [`Settings::attempts_max`] the job stops.
//!
//! # Cost
//!
//! An event costs time in proportion to its task, times a logarithm. Opening and sealing a layer
//! look at the whole layer, once.

mod messages;
mod ranges;
mod submissions;
mod tasks;

#[cfg(test)]
mod invariants;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::Head;

pub use messages::{
    Action, Answer, Event, LeaseId, Loss, Millis, PlanError, Progress, Rejection, RequestId,
    Settings, StopReason, SubmissionId, Task, Verdict, WorkerId,
};
pub use ranges::HEAD_BITS_MAX;

use chomp_table::RangeSummary;
use ranges::Ranges;
use submissions::Pending;
use tasks::{Lease, Worker};

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
    ranges: Ranges,
    workers: BTreeMap<WorkerId, Worker>,
    threads: u64,
    /// The requests that wait for a task.
    requests: BTreeMap<RequestId, WorkerId>,
    /// The ranges of the open layer that nobody works on.
    free: BTreeSet<Head>,
    /// How many ranges the open layer missed when it was opened.
    to_share: usize,
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
        let mut plan = Plan {
            settings,
            phase: Phase::Running,
            ranges,
            workers: BTreeMap::new(),
            threads: 0,
            requests: BTreeMap::new(),
            free: BTreeSet::new(),
            to_share: 0,
            leases: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_lease: 0,
            pending: BTreeMap::new(),
            layers_sealed: sealed_layers,
            sealing: false,
            publishing: false,
        };
        plan.share_open_layer();
        let mut actions = Vec::new();
        plan.advance_store(&mut actions);
        Ok((plan, actions))
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
        match event {
            Event::Joined { worker, threads } => self.joined(worker, threads),
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
            Event::Tick => self.expire(now, out),
            Event::Shutdown => {
                if self.phase == Phase::Running {
                    self.phase = Phase::Stopped(StopReason::Shutdown);
                }
            }
        }
        self.advance_store(out);
        self.answer_requests(now, out);
        actions
    }

    /// When the next [`Event::Tick`] is due, unless a renewal moves it.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// What the plan is about now.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Whether nothing is under way: no lease, no submission, no write. A coordinator that shuts
    /// down may go then.
    pub fn is_quiet(&self) -> bool {
        self.leases.is_empty() && self.pending.is_empty() && !self.sealing && !self.publishing
    }

    /// How far the job has come.
    pub fn progress(&self) -> Progress {
        Progress {
            layers: self.ranges.layers(),
            layer: self.ranges.open(),
            layers_sealed: self.layers_sealed,
            ranges: self.ranges.count(),
            ranges_done: self.ranges.done(),
            ranges_resumed: self.ranges.resumed(),
            losing: self.ranges.losing(),
            leases: self.leases.len() as u64,
            submissions: self.pending.len() as u64,
            workers: self.workers.len() as u64,
            threads: self.threads,
        }
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
        if self.phase != Phase::Running || self.sealing || self.publishing {
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
