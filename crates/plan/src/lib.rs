//! The plan: it decides which worker computes which ranges next, and what becomes of a result.
//!
//! It is a plain state machine without clock, I/O, threads or chance: [`Plan::handle`] takes the time and an [`Event`],
//! and returns the [`Action`]s that follow from it. The same events lead to the same actions, so a test can try any
//! schedule. Actions may be performed in any order, except that [writes](Action::Write) keep their order. The plan
//! keeps the [responders](PlanTypes) of requests and results that have no answer yet, and never reads them.
//!
//! | modules | what they have |
//! |---|---|
//! | `messages`, `ids`, `finders`, `reasons`, `settings` | events and actions |
//! | `units`, `ranges` | the table of units: all that is known of each, and done about it |
//! | `queue`, `regions`, `offers` | which unit is offered to which workers |
//! | `workers`, `requests`, `leases` | which worker waits for a task or has one, and for how long |
//! | `results` | how a result is used, and how a unit becomes done |
//! | `checks` | what follows when results differ, a party is out, or a record is lost |
//! | `referee` | what is left to the referee, and what it decides |
//! | `publication`, `past`, [`forecast`] | the end of a job, its state from before, and the estimate of a job |
//!
//! # A unit
//!
//! Ranges are evaluated, and when all are done the table is cut into shards, which are merged. Both are
//! [units](Unit), and the plan does the same with both:
//!
//! ```text
//!   blocked ── its sources are done ──> open ── enough equal results ──> writing ── durable ──> done
//!      ^                                  ^                                                      │
//!      │                                  └─────────────── its record is lost ───────────────────┤
//!      └─────────────────────────── a range that it depends on was wrong ────────────────────────┘
//! ```
//!
//! The entry of a unit in the table says where it is, which results wait, and who has it leased. What else the plan
//! keeps (offers, open checks, deadlines) follows from the entries, and only finds units fast. An event changes
//! entries; at its end the rest is computed again for the units that changed.
//!
//! # What always holds
//!
//! * **Order.** A range is offered when all its sources are durable. All sources are of lower layers, so the lowest
//!   layer that is not complete can always go on. Shards are offered when all ranges are durable and none is in doubt.
//!   The table is published when all shards are durable and no check is left.
//! * **A lease says who works, never what is right.** A result counts if its worker holds a lease on the unit.
//! * **Once.** A unit is written once, unless it was withdrawn or lost in between. A result is acknowledged
//!   ([`Verdict::Accepted`], [`Verdict::Duplicate`]) only when all of it is durable.
//! * **Every request and every result is answered exactly once**, but for requests that were withdrawn or whose worker
//!   left.
//! * **No idling.** A request waits only while there is no unit that its worker may have. A lease that stands for long
//!   gets a *speculative* second one by a worker that would idle.
//! * **No endless attempts.** A lease that expires or ends without a result is a failed attempt at each of its units.
//!   After two failed attempts a unit is offered alone, since another unit of the task may be the cause; after
//!   [`failures_max`](Settings::failures_max) failures or [`expiries_max`](Settings::expiries_max) expired leases it is
//!   left to the referee. If the referee fails too, the job stops.
//! * **Faults end the job.** After a fault no unit is offered and no result is accepted; a write under way still
//!   counts.
//!
//! # Why a late or second result does no harm
//!
//! The record of a range depends on the format version, the range bits and the head alone: not on the worker, its CPU,
//! the number of threads, or what crashed before. A shard depends on the ranges alone. So a second result for a unit
//! raises one question: are the digests equal? If they are, its worker becomes one more finder, or the result is
//! dropped. If not, one of the two is wrong, and the referee finds out which.
//!
//! After an outage a worker joins again under its number, goes on under its leases, and repeats the calls that had no
//! answer. Leases of an earlier coordinator are void: numbers of leases begin with the number of the segment with which
//! the coordinator took over, so no two coordinators give the same number.
//!
//! # Cost
//!
//! An event costs time in proportion to the units that it concerns, times a logarithm, however many ranges, workers and
//! requests there are. Exceptions are rare: a record that is lost, a party that is out, a range that was wrong.

mod checks;
mod finders;
pub mod forecast;
mod ids;
mod leases;
mod messages;
mod offers;
mod past;
mod publication;
mod queue;
mod ranges;
mod reasons;
mod referee;
mod regions;
mod requests;
mod results;
mod settings;
mod units;
mod workers;

#[cfg(any(test, feature = "testing"))]
mod invariants;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use finders::{Finders, REPLICAS_MAX};
pub use ids::{LeaseId, Millis, ParticipantId, Party, RequestId, Unit, WorkerId, WriteId};
pub use messages::{
    Action, Event, FoundUnit, JobProgress, LeaseAnswer, PlanTypes, PublishOutcome, Task,
    TaskResult, Verdict, Work, WorkerProgress, Write,
};
pub use past::Past;
pub use reasons::{Failure, OutReason, PlanError, Rejection, StopReason, counted};
pub use settings::{HEAD_BITS_MAX, Settings};

/// The reason why a job without workers waits.
pub const NO_WORKER: &str = "no worker is there";

use checks::Checks;
use leases::Leases;
use publication::Ending;
use queue::Queue;
use requests::Review;
use results::Writes;
use units::Units;
use workers::Workers;

/// How far the job is: running, finished or stopped.
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
pub struct Plan<T: PlanTypes> {
    settings: Settings,
    phase: Phase,
    units: Units<T::Location>,
    queue: Queue,
    leases: Leases,
    workers: Workers,
    requests: BTreeMap<RequestId, (WorkerId, T::LeaseResponder)>,
    review: Review,
    writes: Writes<T>,
    checks: Checks,
    is_referee_called: bool,
    ending: Ending,
    /// Whether shards may be merged, as their offers have it.
    could_merge: bool,
    /// The time of the latest event.
    now: Millis,
    actions: Vec<Action<T>>,
}

impl<T: PlanTypes> Plan<T> {
    /// The plan of a job, and the actions that it begins with. Fails if the job has too many ranges, or if `past` has
    /// two different contents of one unit.
    pub fn new(settings: Settings, past: Past) -> Result<(Plan<T>, Vec<Action<T>>), PlanError> {
        let mut plan = Plan::empty(settings)?;
        plan.recall(past)?;
        plan.units.begin();
        let actions = plan.advance();
        Ok((plan, actions))
    }

    /// The plan of a job whose table is published: it has nothing to do and says so. `losing` is the number of losing
    /// positions. Fails if the job has too many ranges.
    pub fn of_published(settings: Settings, losing: u64) -> Result<Plan<T>, PlanError> {
        let mut plan = Plan::empty(settings)?;
        for unit in plan.units.all_ranges() {
            plan.units.mark_done(unit);
        }
        plan.units.begin();
        plan.units.ranges.losing = losing;
        plan.phase = Phase::Finished;
        Ok(plan)
    }

    fn empty(mut settings: Settings) -> Result<Plan<T>, PlanError> {
        settings.replicas = settings.replicas.max(1);
        Ok(Plan {
            phase: Phase::Running,
            units: Units::new(&settings)?,
            queue: Queue::new(settings.head_bits()),
            leases: Leases::new(settings.epoch << 32),
            workers: Workers::default(),
            requests: BTreeMap::new(),
            review: Review::default(),
            writes: Writes::new(),
            checks: Checks::default(),
            is_referee_called: false,
            ending: Ending::default(),
            could_merge: false,
            now: Millis::default(),
            actions: Vec::new(),
            settings,
        })
    }

    /// Takes an event that happened at the time `now`, and returns the actions that follow from it. Panics if the
    /// caller reports the outcome of an action that was not asked for, or reports it twice: going on would mean to
    /// acknowledge what may not be durable.
    pub fn handle(&mut self, now: Millis, event: Event<T>) -> Vec<Action<T>> {
        // A clock that goes back counts as one that stands.
        self.now = self.now.max(now);
        self.dispatch(event);
        self.advance()
    }

    fn dispatch(&mut self, event: Event<T>) {
        match event {
            Event::Joined {
                worker,
                name,
                threads,
            } => self.on_joined(worker, name, threads),
            Event::Left { worker } => self.on_left(worker),
            Event::Requested {
                request,
                worker,
                responder,
            } => self.on_requested(request, worker, responder),
            Event::Withdrawn { request } => drop(self.take_request(request)),
            Event::Completed {
                worker,
                lease,
                result,
                responder,
            } => self.on_completed(worker, lease, result, responder),
            Event::Returned {
                worker,
                lease,
                failure,
            } => self.on_returned(worker, lease, failure),
            Event::Lost { records } => self.on_lost(&records),
            Event::Revoked { participant } => self.on_revoked(participant),
            Event::Written { write, outcome } => self.on_written(write, outcome),
            Event::Published(publication) => self.on_published(publication),
            Event::Tick => {
                self.expire();
                self.speculate();
                self.forget_silent();
                self.lapse();
            }
            Event::Shutdown => {
                if self.phase == Phase::Running {
                    self.phase = Phase::Stopped(StopReason::Shutdown);
                }
            }
        }
    }

    fn advance(&mut self) -> Vec<Action<T>> {
        self.update_offers();
        self.call_referee();
        self.advance_publication();
        self.update_offers();
        self.answer_requests();
        std::mem::take(&mut self.actions)
    }

    /// When the next [`Event::Tick`] is due, unless a renewal moves it.
    pub fn next_deadline(&self) -> Option<Millis> {
        let next = [
            self.leases.next_deadline(),
            self.next_silence(),
            self.next_check_due(),
        ];
        next.into_iter().flatten().min()
    }

    /// How far the job is.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Whether nothing is under way: no lease, no write. A coordinator that shuts down may end then.
    pub fn has_nothing_under_way(&self) -> bool {
        self.leases.all.is_empty() && !self.writes.is_writing() && !self.ending.is_under_way
    }

    /// How far the job has come.
    pub fn progress(&self) -> JobProgress {
        let ranges = &self.units.ranges;
        let (work, work_done) = ranges.cost();
        JobProgress {
            phase: self.phase.clone(),
            layers: ranges.layer_count(),
            layer: ranges.current_layer(),
            ranges: ranges.count(),
            ranges_done: ranges.committed_count(),
            ranges_resumed: ranges.resumed,
            losing: ranges.losing,
            shards: self.units.shards().len() as u64,
            shards_done: self.units.shards_done,
            work,
            work_done,
            publication_work: ranges.cost.publication,
            leases: self.leases.all.len() as u64,
            results_waiting: self.writes.unanswered_count() as u64,
            checks_waiting: self.checks.open_count() as u64,
            checks_lapsed: self.lapsed_checks(),
            left_to_referee: self.checks.left_to_referee.len() as u64,
            workers: self.workers.count() as u64,
        }
    }

    /// The locations of the pending results: those that count only once enough participants have found the same
    /// content.
    pub fn pending_locations(&self) -> impl Iterator<Item = &T::Location> {
        self.units.all_results().map(|result| &result.location)
    }

    /// For each layer from the lowest, how many ranges it has, and how many of them are committed.
    pub fn layer_progress(&self) -> impl Iterator<Item = (u64, u64)> {
        self.units.ranges.of_layers()
    }

    /// Why no worker works on anything, if that is so and the table is not published.
    pub fn waits_for(&self) -> Option<String> {
        let replicas = self.settings.replicas;
        match &self.phase {
            Phase::Stopped(reason) => Some(reason.to_string()),
            Phase::Finished => None,
            Phase::Running if self.ending.is_under_way => {
                Some("the manifest is being written".to_owned())
            }
            Phase::Running if !self.leases.all.is_empty() || self.writes.is_writing() => None,
            Phase::Running if self.workers.count() == 0 => Some(NO_WORKER.to_owned()),
            Phase::Running
                if self.workers.count_by_participant.len() < replicas as usize
                    && !self.units.ranges.is_complete() =>
            {
                Some(format!(
                    "each range must be computed by {replicas} participants, and present are {}: `chomp access add NAME` \
                     makes a credential for another one",
                    self.workers.count_by_participant.len()
                ))
            }
            Phase::Running if self.checks.open_count() > 0 => Some(format!(
                "ranges or shards that wait for a check: {}",
                self.checks.open_count()
            )),
            Phase::Running => Some("no worker asks for a task".to_owned()),
        }
    }

    fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Whether a fault stopped the job, and not [`Event::Shutdown`].
    fn is_faulty(&self) -> bool {
        matches!(&self.phase, Phase::Stopped(reason) if *reason != StopReason::Shutdown)
    }

    /// Stops the job, for the first fault that it has.
    fn stop(&mut self, reason: StopReason) {
        if !self.is_faulty() {
            self.phase = Phase::Stopped(reason.clone());
            self.actions.push(Action::Stop { reason });
        }
    }
}
