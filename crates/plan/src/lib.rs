//! The plan: it decides which worker computes which ranges next, and what becomes of a result.
//!
//! It is a plain state machine without clock, I/O, threads or chance: [`Plan::handle`] takes the time and
//! an [`Event`] and returns the [`Action`]s that follow from it. The same events give the same
//! actions, so a test can try any schedule. The caller performs the actions in any order, but keeps the order of
//! [commits](Action::Commit), [withdrawals](Action::Withdraw) and [losses](Action::Lose). It tells what came of actions
//! that may fail.
//!
//! | modules | what they have |
//! |---|---|
//! | `messages`, `ids`, `reasons`, `settings`, `waiting` | what the plan and its caller tell each other |
//! | `units`, `ranges`, `shards`, `slots` | the units and their states |
//! | `offers`, `attempts`, `regions`, `leases`, `patience` | which worker gets which task, and for how long |
//! | `jury`, `eligible` | what is believed of a unit, and how long it waits for votes |
//! | `judging`, `submissions` | what becomes of a result |
//! | `arbitration`, `healing`, `workers`, `past` | what follows when something was wrong or is lost |
//! | `publication`, [`forecast`] | the end of a job; the estimate of a job |
//!
//! # A unit
//!
//! Ranges are evaluated, and when all are done the table is cut into shards, which are merged. Both are
//! [units](Unit), and the plan does the same with both:
//!
//! ```text
//!   blocked ── its sources are committed ──> ready ── enough votes ──> committing ── durable ──> committed
//!      ^                                      │  ^                                                  │
//!      │        leased to workers, whose results are votes                                          │
//!      └───────────────── its record is lost, or was wrong ─────────────────────────────────────────┘
//! ```
//!
//! # What always holds
//!
//! * **Order.** A range is offered when all its sources are durable, and not before. All sources are of
//!   lower layers, so the lowest layer that is not complete can always go on; ranges of higher
//!   layers may be offered beside it, and low layers go first. Shards come when all ranges are
//!   durable, and the publication when all shards are.
//! * **Leases decide who works, never what is right.** A result counts if its worker was given a lease on the unit,
//!   whether that still stands or not. Each is a **vote** of its participant for a content. A unit is settled when
//!   [`Settings::replicas`] participants found the same. Ranges that are **drawn**, nobody knows which, need one more
//!   vote, and are offered to one participant more from the start. Nothing waits for a vote that nobody can give.
//! * **Files are read.** The writer of a shard gives the first vote. Another participant merges the ranges itself and
//!   compares the file: the second. Before it publishes the table, the coordinator compares the digest of each file.
//! * **The coordinator decides disputes.** It computes the unit itself: an **arbitration**. The participant that said
//!   otherwise is **quarantined**: it gets no more tasks, and its votes are gone, so units that it settled may be open
//!   again, for others to find. While a range is in doubt no shard task is given out; while any unit is, nothing is
//!   published.
//! * **The job heals itself.** A range whose record is lost is computed again, and has to come out the same. A range
//!   that turns out wrong is withdrawn with all that follows from it, and results from before that are not taken any
//!   more. The same happens to a range because of which the finished table contradicts itself. The job stops only if
//!   the store keeps losing the same range.
//! * **Once.** A unit is written once, unless it was withdrawn in between. A result that is written is acknowledged
//!   ([`Verdict::Accepted`], [`Verdict::Duplicate`]) only when durable. Of several results the first that found the
//!   content is written. A result for a unit that is just being written waits for that write.
//! * **Every request and every submission is answered exactly once**; requests of a worker that
//!   left, and those withdrawn, are not.
//! * **No idling.** A request waits only while there is no work that its worker may have. Each unit that is ready has
//!   enough attempts under way, or one by this very worker, or belongs to another worker while this one has a task for
//!   each of its threads. A lease that stands for long gets a *speculative* second one by a worker that would idle.
//! * **Faults end the job.** After a fault nothing is offered, begun or taken any more, and every request is
//!   answered so; a write under way still counts if it succeeds. The same plan never tries a failed write
//!   again: only reading the disk anew tells what it holds.
//! * **No endless attempts.** A lease that expires, fails or is answered by a bad result is a failed
//!   attempt at each of its units. After two a unit is offered alone, so that the one that cannot be
//!   computed is found; after [`Settings::failures_max`] failures, or [`Settings::expiries_max`]
//!   expired leases, the coordinator computes it. If it cannot either, the job stops. A participant gets a unit that it
//!   failed at again only if no other is there to try. If the others do not take it for as long as a lease lasts, the
//!   coordinator computes it. A worker that fails at everything gets no more tasks.
//! * **Idle holders wait.** A participant whose tasks come to nothing waits: it gets them one at a time, and
//!   after a while, unless it is there alone.
//! * **A worker may come back.** A worker is known by its number. It is forgotten after
//!   a long silence, and may join again at any time, with the same number, and hand in what it has.
//!
//! # Why a late or second result does no harm
//!
//! The record of a range depends on the format version, the range bits and the head alone: not on the worker, its CPU,
//! the number of threads, or what crashed before. A shard depends on the ranges alone. So there is one question about a
//! result that is known already: do the digests agree? If so, the second one is acknowledged and dropped. If not, one
//! of the two was computed wrongly, and the coordinator computes it itself to find out which.
//!
//! After an outage a worker joins again under its number, goes on under its leases, and repeats the calls that had no
//! answer. Leases of an earlier coordinator are void: numbers of leases begin with the number of the segment with which
//! the coordinator took over, so no two coordinators give the same.
//!
//! # Cost
//!
//! An event costs time in proportion to what it is about, times a logarithm, however many ranges,
//! workers and requests there are. Exceptions are rare: a record that is lost (all that is ready is looked
//! at), a worker that is quarantined (all that is begun), a range that was wrong (everything above it).

mod arbitration;
mod attempts;
mod eligible;
pub mod forecast;
mod healing;
mod ids;
mod judging;
mod jury;
mod leases;
mod messages;
mod offers;
mod past;
mod patience;
mod publication;
mod ranges;
mod reasons;
mod regions;
mod settings;
mod shards;
mod slots;
mod submissions;
mod units;
mod waiting;
mod workers;

#[cfg(any(test, feature = "testing"))]
mod invariants;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::{Digest, Head};

pub use messages::{
    Action, AgreedUnit, Event, JobProgress, LeaseAnswer, LeaseId, Loss, Millis, ParticipantId,
    PlanError, QuarantineReason, Rejection, RequestId, Settings, StopReason, SubmissionId, Task,
    Unit, Verdict, Work, WorkerId, WorkerProgress,
};
pub use past::{Found, Past};
pub use settings::HEAD_BITS_MAX;

use arbitration::Arbitrations;
use attempts::ReadyQueue;
use eligible::Awaited;
use jury::Jury;
use leases::{Ended, Lease, TypicalTaskTime};
use patience::Credits;
use ranges::RangeStates;
use shards::ShardStates;
use submissions::Pending;
use units::Units;
use workers::{Quarantined, Waiter, Worker};

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
pub struct Plan {
    settings: Settings,
    phase: Phase,
    units: Units,
    ready: ReadyQueue,
    arbitrations: Arbitrations,
    workers: BTreeMap<WorkerId, Worker>,
    /// How many workers of each participant are there; none has 0.
    present: BTreeMap<ParticipantId, usize>,
    /// The time when each worker was last heard of.
    silences: BTreeSet<(Millis, WorkerId)>,
    threads: u64,
    /// The participants whose workers get no more tasks.
    quarantined: BTreeMap<ParticipantId, Quarantined>,
    patience: Credits,
    jury: Jury,
    /// The units that wait for votes.
    awaited: Awaited,
    /// The time when each worker last asked for a task, or handed one in.
    asked: BTreeSet<(Millis, WorkerId)>,
    /// The requests that wait for a task.
    requests: BTreeMap<RequestId, WorkerId>,
    /// The workers that wait, each by its first request: before others those that have a thread without a task.
    queue: BTreeSet<Waiter>,
    /// The workers whose requests are to be looked at, whatever `requests_dirty` says.
    recheck_workers: BTreeSet<WorkerId>,
    /// Whether a waiting request may have a task now, though it had none when all were last looked at.
    requests_dirty: bool,
    /// Leases that became slow up to this time were offered to the workers that wait.
    offered_until: Millis,
    leases: BTreeMap<LeaseId, Lease>,
    task_time: TypicalTaskTime,
    ended: Ended,
    /// The end of each lease.
    deadlines: BTreeSet<(Millis, LeaseId)>,
    /// The leases without a speculative second one, by the time when they may get one.
    unspeculated: BTreeSet<(Millis, LeaseId)>,
    next_lease: u64,
    /// Units that failed and have no lease, with the time since when. An entry may be out of date, so its unit is
    /// looked at before anything is done for it.
    left_over: BTreeSet<(Millis, Unit)>,
    /// Results of leases on ranges that have ended count only from this lease on.
    oldest_lease: LeaseId,
    /// Results of leases on shards that have ended count only from this lease on.
    oldest_merge: LeaseId,
    /// The submissions that are not answered, or of which a vote waits for others.
    pending: BTreeMap<SubmissionId, Pending>,
    /// Those that may go on when the present event is taken in.
    stirred: BTreeSet<SubmissionId>,
    /// The ranges that are being written and turned out wrong meanwhile.
    condemned: BTreeSet<Head>,
    publishing: bool,
    /// Whether parts go when their ranges are merged: nobody but the owner had found a range when the table was cut.
    may_trim: bool,
    /// The shards that were durable before the table is cut, and the first range of which nothing was known: none that
    /// has words of it, or of later ones, is of use.
    shards_before: BTreeMap<u32, (Digest, Found)>,
    missing_before: Head,
    /// The ranges that the coordinator computed because the table could not be published.
    suspects: BTreeSet<Head>,
    /// The time of the latest event.
    now: Millis,
    /// The actions that follow from the present event.
    out: Vec<Action>,
}

impl Plan {
    /// The plan of a job of which something may be done.
    ///
    /// # Errors
    ///
    /// If the job has too many ranges, or `past` knows a unit in two versions.
    pub fn new(settings: Settings, past: &Past) -> Result<(Plan, Vec<Action>), PlanError> {
        let ranges = RangeStates::new(&settings, &past.ranges)?;
        let mut plan = Plan::of(settings, ranges);
        plan.recall(past)?;
        for head in (0..plan.units.ranges.count()).map(Head) {
            plan.reconsider(Unit::Range(head));
        }
        let ranges = &plan.units.ranges;
        let mut heads = (0..ranges.count()).map(Head);
        let missing = heads.find(|&head| plan.jury.known(Unit::Range(head)).is_none());
        plan.missing_before = missing.unwrap_or_else(|| Head(ranges.count()));
        if plan.units.ranges.is_complete() {
            plan.cut_shards();
        }
        for unit in plan.jury.reopened().collect::<Vec<_>>() {
            plan.reopened(unit);
        }
        plan.review();
        plan.advance_arbitrations();
        plan.advance_publication();
        let actions = std::mem::take(&mut plan.out);
        Ok((plan, actions))
    }

    fn of(mut settings: Settings, ranges: RangeStates) -> Plan {
        settings.replicas = settings.replicas.max(1);
        let next_lease = settings.epoch << 32;
        let mut jury = Jury::new(settings.clone(), ranges.count());
        jury.set_alone(true);
        Plan {
            phase: Phase::Running,
            units: Units {
                ranges,
                shards: ShardStates::default(),
            },
            ready: ReadyQueue::new(settings.head_bits()),
            arbitrations: Arbitrations::default(),
            workers: BTreeMap::new(),
            silences: BTreeSet::new(),
            threads: 0,
            present: BTreeMap::new(),
            quarantined: BTreeMap::new(),
            patience: Credits::default(),
            jury,
            awaited: Awaited::default(),
            asked: BTreeSet::new(),
            requests: BTreeMap::new(),
            queue: BTreeSet::new(),
            recheck_workers: BTreeSet::new(),
            requests_dirty: false,
            offered_until: Millis::default(),
            leases: BTreeMap::new(),
            task_time: TypicalTaskTime::default(),
            ended: Ended::default(),
            deadlines: BTreeSet::new(),
            unspeculated: BTreeSet::new(),
            left_over: BTreeSet::new(),
            next_lease,
            oldest_lease: LeaseId(settings.oldest_lease),
            // How the table was cut before is not known.
            oldest_merge: LeaseId(next_lease),
            pending: BTreeMap::new(),
            stirred: BTreeSet::new(),
            condemned: BTreeSet::new(),
            publishing: false,
            may_trim: false,
            shards_before: BTreeMap::new(),
            missing_before: Head(0),
            suspects: BTreeSet::new(),
            now: Millis::default(),
            out: Vec::new(),
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
        let ranges = RangeStates::all_done(&settings, losing)?;
        let mut plan = Plan::of(settings, ranges);
        plan.phase = Phase::Finished;
        Ok(plan)
    }

    /// Takes an event that happened at the time `now`, and returns the actions that follow from it.
    ///
    /// # Panics
    ///
    /// If the caller tells the outcome of an action that was not asked for, or tells it twice: going on would mean to
    /// acknowledge what may not be durable.
    pub fn handle(&mut self, now: Millis, event: Event) -> Vec<Action> {
        // A clock that goes back counts as one that stands.
        self.now = self.now.max(now);
        if let Some(worker) = event.sender() {
            self.heard(worker);
        }
        let was_in_doubt = self.are_ranges_in_doubt();
        self.dispatch(event);
        // What follows comes in the order in which one step may need another. Units whose votes end are settled or
        // arbitrated, submissions that this moves on are answered and may free ranges, the coordinator takes from these
        // what it has to decide, and only what is left then is given to those that wait.
        if !self.is_running() {
            self.end_votes();
        }
        if std::mem::take(&mut self.patience.has_new_debtor) {
            self.review();
        }
        self.advance_stirred();
        // Shards may be merged after the last doubt.
        self.requests_dirty |= was_in_doubt && !self.are_ranges_in_doubt();
        self.advance_arbitrations();
        self.advance_publication();
        self.answer_requests();
        std::mem::take(&mut self.out)
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Joined {
                worker,
                name,
                threads,
            } => self.joined(worker, name, threads),
            Event::Left { worker } => self.left(worker),
            Event::Revoked { participant } => {
                let worker = self.some_worker(participant);
                self.quarantine(worker, QuarantineReason::Revoked);
            }
            Event::Wanted { request, worker } => self.wanted(request, worker),
            Event::Withdrawn { request } => self.withdrawn(request),
            Event::Renewed { worker, leases } => self.renewed(worker, leases),
            Event::Returned { worker, lease } => self.returned(worker, lease),
            Event::Failed {
                worker,
                lease,
                reason,
            } => self.failed(worker, lease, reason),
            Event::Evaluated {
                submission,
                worker,
                lease,
                ranges,
            } => self.evaluated(submission, worker, lease, &ranges),
            Event::Merged {
                submission,
                worker,
                lease,
                shard,
                digest,
            } => self.merged(submission, worker, lease, shard, digest),
            Event::Lost { head, digest, .. } => self.lost(head, digest),
            Event::Arbitrated {
                submission,
                unit,
                range,
                digest,
                is_forged,
            } => self.arbitrated(submission, unit, range, digest, is_forged),
            Event::ArbitrationFailed { unit, reason } => self.arbitration_failed(unit, reason),
            Event::Committed { submission } => self.committed(submission),
            Event::CommitFailed { submission, reason } => {
                self.commit_failed(submission, reason);
            }
            Event::Published => self.published(),
            Event::PublishFailed { reason } => {
                self.publishing_ended();
                self.stop(StopReason::PublishFailed { reason });
            }
            Event::Unpublished { head, reason } => {
                self.publishing_ended();
                self.unpublished(head, reason);
            }
            Event::RecordsLost { records } => {
                self.publishing_ended();
                for (head, digest) in records {
                    self.lost(head, digest);
                }
            }
            Event::ShardsLost { shards } => {
                self.publishing_ended();
                self.shards_lost(&shards);
            }
            Event::Tick => {
                self.expire();
                self.forget_silent();
                self.review();
                self.arbitrate_left_over();
            }
            Event::Shutdown => {
                if self.phase == Phase::Running {
                    self.phase = Phase::Stopped(StopReason::Shutdown);
                }
            }
        }
    }

    /// When the next [`Event::Tick`] is due, unless a renewal moves it.
    pub fn next_deadline(&self) -> Option<Millis> {
        let lease = self.deadlines.first().map(|&(deadline, _)| deadline);
        let others = [
            self.next_silence(),
            self.next_speculation(),
            self.next_review(),
            self.next_left_over(),
            self.next_patience(),
        ];
        lease.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// How far the job is.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Whether nothing is under way: no lease, no submission, no write. A coordinator that shuts
    /// down may go then.
    pub fn is_quiet(&self) -> bool {
        self.leases.is_empty()
            && self.pending.values().all(Pending::rests)
            && !self.arbitrations.is_busy()
            && !self.publishing
    }

    /// How far the job has come.
    pub fn progress(&self) -> JobProgress {
        let Units { ranges, shards } = &self.units;
        JobProgress {
            phase: self.phase.clone(),
            layers: ranges.layers(),
            layer: ranges.open(),
            ranges: ranges.count(),
            ranges_done: ranges.done,
            ranges_resumed: ranges.resumed,
            losing: ranges.losing,
            shards: shards.count(),
            shards_done: shards.done,
            work: ranges.work_total,
            work_done: ranges.work_done,
            publication_work: ranges.work.publication,
            leases: self.leases.len() as u64,
            submissions: self.pending.len() as u64,
            arbitrations: self.in_doubt() as u64,
            workers: self.workers.len() as u64,
            threads: self.threads,
        }
    }

    /// For each layer from the lowest, how many ranges it has, and how many of them are committed.
    pub fn layer_progress(&self) -> impl Iterator<Item = (u64, u64)> {
        self.units.ranges.of_layers()
    }

    fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Whether the job stopped for another reason than that it was asked to.
    fn is_faulty(&self) -> bool {
        matches!(&self.phase, Phase::Stopped(reason) if *reason != StopReason::Shutdown)
    }

    /// Stops the job, for the first fault that it has.
    fn stop(&mut self, reason: StopReason) {
        if !self.is_faulty() {
            self.phase = Phase::Stopped(reason.clone());
            self.out.push(Action::Stop { reason });
        }
    }
}
