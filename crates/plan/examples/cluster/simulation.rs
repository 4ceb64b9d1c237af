//! The cluster in virtual time: the true [`Plan`], whose actions are performed here, with workers whose tasks take as
//! long as forecast.
//!
//! The simulation of a task:
//!
//! 1. A lane gets the task; a worker has two lanes for each thread. The lane reads the new segments of the
//!    journal for its worker.
//! 2. It reads the sources that the worker does not have, some at a time, over the worker's link to the store.
//!    A few lanes share the link, and the others wait for their turn. The lane waits for a source that another
//!    lane is reading.
//! 3. The task is computed on the next free thread of the worker.
//! 4. The result goes over the link and becomes durable.
//! 5. One of the coordinator's threads takes it in. All results that came while a segment of the journal was
//!    written go into the next segment, and are done when that is durable.
//!
//! Merges, and reading the shards of others, are tasks like evaluations; a merge reads all its records from the
//! store. What the coordinator computes itself, and what it reads before it publishes the table, takes no time. The
//! simulation has no heartbeats, faults or slow machines, and so no speculative leases.
//!
//! Workers are of one participant and tell the truth, or they are [`Strangers`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use chomp_plan::forecast::{as_f64, round};
use chomp_plan::{
    Action, Event, LeaseAnswer, Millis, Past, Phase, Plan, RequestId, SubmissionId, Task, Unit,
    Work, WorkerId,
};
use chomp_table::rng::{Rng, mix};
use chomp_table::{Digest, Head, RangeSummary, sources};

use crate::costs::Cluster;
use crate::job::{Job, Load, Outcome};
use crate::serving::{Link, Servers};
use crate::store::Store;
use crate::worker::Worker;

/// Nanoseconds of virtual time.
pub(crate) type Nanos = u64;

/// The tasks that a worker has at a time, for each thread.
const LANES_PER_THREAD: u32 = 2;
/// How many tasks of a worker read sources at a time.
const READERS_MAX: u32 = 4;
/// The worker that lies, if one does.
const LIAR: u32 = 0;

/// A worker of one thread that has room for all, and whose links take no time.
pub(crate) const ALONE: Cluster = Cluster {
    workers: 1,
    threads: 1,
    cache_bytes: u64::MAX,
    coordinator_threads: 1,
    bandwidth: None,
};

/// Workers of one thread, each of a participant of its own, one of which lies. Each has one task at a time, and all
/// records at hand. How long a task takes is a matter of chance, so that each of them may be the next that is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strangers {
    /// The liar lies about a range with a chance of 1 in `one_in`.
    pub(crate) one_in: u64,
    /// Whether it begins when half of the ranges are done.
    pub(crate) is_late: bool,
    pub(crate) replicas: u32,
    pub(crate) seed: u64,
}

/// A lane of a worker, and what it is about.
#[derive(Default)]
struct Lane {
    task: Option<Task>,
    /// The reads that it waits for before its task is computed: its own, and those of other lanes.
    waits: u32,
    /// The sources that it reads, and the lanes that wait for them.
    reads: Vec<Head>,
    awaited_by: Vec<u32>,
    load: Load,
}

impl Lane {
    /// The ranges that it evaluates.
    fn heads(&self) -> &[Head] {
        match self.task.as_ref().map(|task| &task.work) {
            Some(Work::Evaluate { heads, .. }) => heads,
            _ => &[],
        }
    }
}

/// A direction of the link between a worker and the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Down,
    Up,
}

/// An event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// A lane has read the journal, and reads sources when it is its turn.
    Informed(u32),
    /// A lane begins to read over the link.
    Reading(u32),
    /// A transfer over a link of the lane's worker ends, unless something has changed on the link.
    Moved(u32, Way, u64),
    Computed(u32),
    Durable(u32),
    TakenIn(u32),
    Appended,
    Arbitrated(Unit),
}

struct Simulation<'a> {
    job: &'a Job,
    cluster: Cluster,
    strangers: Option<Strangers>,
    rng: Rng,
    plan: Plan,
    now: Nanos,
    /// The steps to come, by time; the number keeps those of one time in order.
    agenda: BinaryHeap<Reverse<(Nanos, u64, Step)>>,
    workers: Vec<Worker>,
    lanes_each: u32,
    lanes: Vec<Lane>,
    requests: BTreeMap<RequestId, u32>,
    submissions: BTreeMap<SubmissionId, u32>,
    /// Steps, requests and submissions are counted.
    numbers: u64,
    coordinator: Servers,
    /// The submissions in the segment that is being written, and those for the next.
    appending: Vec<SubmissionId>,
    pending: Vec<SubmissionId>,
    segments: u64,
    store: Store,
    outcome: Outcome,
}

/// Simulates a job done by `cluster`.
pub(crate) fn run(job: &Job, cluster: Cluster, strangers: Option<Strangers>) -> Outcome {
    let mut settings = job.settings.clone();
    if let Some(Strangers { replicas, seed, .. }) = strangers {
        settings.replicas = replicas;
        settings.key = mix(seed);
    }
    let (plan, first) = Plan::new(settings, &Past::default()).expect("a job that was checked");
    assert!(first.is_empty(), "nothing is done yet");
    let ranges = usize::try_from(job.forecast.ranges()).expect("as many as a plan holds");
    let workers = (0..cluster.workers).map(|_| Worker::new(&cluster, ranges));
    let lanes_each = match strangers {
        Some(_) => 1,
        None => cluster.threads * LANES_PER_THREAD,
    };
    let lanes = cluster.workers * lanes_each;
    let mut simulation = Simulation {
        job,
        cluster,
        strangers,
        rng: Rng(strangers.map_or(0, |strangers| strangers.seed)),
        plan,
        now: 0,
        agenda: BinaryHeap::new(),
        workers: workers.collect(),
        lanes: (0..lanes).map(|_| Lane::default()).collect(),
        lanes_each,
        requests: BTreeMap::new(),
        submissions: BTreeMap::new(),
        numbers: 0,
        coordinator: Servers::new(cluster.coordinator_threads),
        appending: Vec::new(),
        pending: Vec::new(),
        segments: 0,
        store: Store::default(),
        outcome: Outcome::default(),
    };
    simulation.run();
    simulation.outcome
}

impl Simulation<'_> {
    fn run(&mut self) {
        for worker in 0..self.cluster.workers {
            self.tell(Event::Joined {
                worker: self.id(worker),
                name: String::new(),
                threads: self.cluster.threads,
            });
        }
        // One lane of each worker after the other, as if all began at the same time.
        for lane in 0..self.lanes_each {
            for worker in 0..self.cluster.workers {
                self.want(worker * self.lanes_each + lane);
            }
        }
        while let Some(Reverse((at, _, step))) = self.agenda.pop() {
            self.now = at;
            self.step(step);
        }
        let phase = self.plan.phase();
        assert_eq!(*phase, Phase::Finished, "everything is offered to somebody");
    }

    fn id(&self, worker: u32) -> WorkerId {
        match self.strangers {
            Some(_) => WorkerId::only(worker + 1),
            None => WorkerId::new(0, worker.into()),
        }
    }

    fn lane(&mut self, lane: u32) -> &mut Lane {
        &mut self.lanes[lane as usize]
    }

    /// The worker that has a lane.
    fn worker(&mut self, lane: u32) -> &mut Worker {
        &mut self.workers[(lane / self.lanes_each) as usize]
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Informed(lane) => self.take_turn(lane),
            Step::Reading(lane) => self.transfer(lane, Way::Down),
            Step::Moved(lane, way, changes) => self.moved(lane, way, changes),
            Step::Computed(lane) => self.computed(lane),
            Step::Durable(lane) => self.durable(lane),
            Step::TakenIn(lane) => self.taken_in(lane),
            Step::Appended => {
                for submission in std::mem::take(&mut self.appending) {
                    self.tell(Event::Committed { submission });
                }
                self.append();
            }
            Step::Arbitrated(unit) => self.arbitrated(unit),
        }
    }

    fn later(&mut self, at: Nanos, step: Step) {
        let number = self.number();
        self.agenda.push(Reverse((at, number, step)));
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn want(&mut self, lane: u32) {
        let request = RequestId(self.number());
        self.requests.insert(request, lane);
        let worker = self.id(lane / self.lanes_each);
        self.tell(Event::Wanted { request, worker });
    }

    fn tell(&mut self, event: Event) {
        for action in self.plan.handle(Millis(self.now / 1_000_000), event) {
            self.perform(action);
        }
    }

    /// Does what the plan asks for.
    fn perform(&mut self, action: Action) {
        match action {
            Action::Answer {
                request,
                answer: LeaseAnswer::Task(task),
            } => {
                let lane = self.requests.remove(&request).expect("it was asked");
                self.begin(lane, task);
            }
            Action::Commit { submission, units } => {
                self.store.commit(submission, &units);
                self.pending.push(submission);
                self.append();
            }
            Action::Settle { submission, .. } => {
                // A result of the coordinator is of no lane.
                if let Some(lane) = self.submissions.remove(&submission) {
                    self.want(lane);
                }
            }
            Action::Withdraw { heads } => self.store.withdraw(&heads),
            Action::Arbitrate { unit, .. } => self.later(self.now, Step::Arbitrated(unit)),
            Action::Quarantine { worker, .. } => {
                let is_liar = self.strangers.is_some() && worker == self.id(LIAR);
                assert!(is_liar, "an honest one is blamed");
                self.outcome.found_after = Some(self.outcome.delivered);
            }
            Action::Publish => {
                self.outcome.seconds = seconds(self.now) + self.job.costs.commit;
                self.outcome.is_wrong = self.store.is_wrong();
                self.tell(Event::Published);
            }
            Action::Stop { reason } => panic!("the job stops: {reason}"),
            // The end, for requests that wait; and what the store has room for.
            _ => {}
        }
    }

    /// Writes the next segment of the journal, if there is something to write and nothing is being
    /// written.
    fn append(&mut self) {
        if self.appending.is_empty() && !self.pending.is_empty() {
            self.appending = std::mem::take(&mut self.pending);
            self.segments += 1;
            self.later(self.now + nanos(self.job.costs.commit), Step::Appended);
        }
    }

    /// A lane has a task.
    fn begin(&mut self, lane: u32, task: Task) {
        let (job, now) = (self.job, self.now);
        let worker = &mut self.workers[(lane / self.lanes_each) as usize];
        // Its own reading.
        let mut waits = 1;
        let mut reads = Vec::new();
        if let Work::Evaluate { heads, .. } = &task.work
            && self.strangers.is_none()
        {
            let lanes = &mut self.lanes;
            let mut draw_on = |source| {
                if let Some(other) = worker.look(source, lane, &mut reads) {
                    // A lane that waits for itself has all at the same time.
                    let awaited_by = &mut lanes[other as usize].awaited_by;
                    if awaited_by.last() != Some(&lane) {
                        awaited_by.push(lane);
                        waits += 1;
                    }
                }
            };
            for &head in heads {
                sources::each(head, job.settings.range_bits, &mut draw_on);
            }
        }
        let lacks = self.segments - std::mem::replace(&mut worker.segments, self.segments);
        let informed = worker.informed.max(now) + nanos(as_f64(lacks) * job.costs.fetch);
        worker.informed = informed;
        let load = job.load(&task.work, &reads);
        self.outcome.tasks += 1;
        self.outcome.load += load;
        let lane_of = &mut self.lanes[lane as usize];
        *lane_of = Lane {
            task: Some(task),
            waits,
            reads,
            awaited_by: std::mem::take(&mut lane_of.awaited_by),
            load,
        };
        self.later(informed, Step::Informed(lane));
    }

    /// Lets a lane read as soon as it is its turn. A merge reads by itself.
    fn take_turn(&mut self, lane: u32) {
        if !self.lane(lane).reads.is_empty() {
            let worker = self.worker(lane);
            if worker.readers == READERS_MAX {
                worker.in_line.push_back(lane);
                return;
            }
            worker.readers += 1;
        }
        let latency = self.lane(lane).load.turns * self.job.costs.fetch;
        self.later(self.now + nanos(latency), Step::Reading(lane));
    }

    fn transfer(&mut self, lane: u32, way: Way) {
        let load = self.lane(lane).load;
        let bytes = [load.down, load.up][way as usize];
        let now = self.now;
        match &mut self.worker(lane).links[way as usize] {
            Some(link) if bytes > 0.0 => {
                link.begin(now, bytes, lane);
                self.expect(lane, way);
            }
            _ => self.transferred(lane, way),
        }
    }

    /// Notes when the next transfer over a link of the worker of `lane` ends.
    fn expect(&mut self, lane: u32, way: Way) {
        let link = self.worker(lane).links[way as usize].as_ref();
        if let Some((at, changes)) = link.and_then(Link::next) {
            self.later(at, Step::Moved(lane, way, changes));
        }
    }

    fn moved(&mut self, of: u32, way: Way, changes: u64) {
        let now = self.now;
        let link = self.worker(of).links[way as usize].as_mut();
        if let Some(lane) = link.and_then(|link| link.end(now, changes)) {
            self.expect(lane, way);
            self.transferred(lane, way);
        }
    }

    fn transferred(&mut self, lane: u32, way: Way) {
        match way {
            Way::Down => self.has_read(lane),
            Way::Up => {
                let is_written = self.lane(lane).load.up > 0.0;
                let commit = is_written.then_some(self.job.costs.commit);
                self.later(self.now + nanos(commit.unwrap_or(0.0)), Step::Durable(lane));
            }
        }
    }

    /// Notes that a lane has read its sources. Other lanes may wait for them.
    fn has_read(&mut self, lane: u32) {
        let reads = std::mem::take(&mut self.lane(lane).reads);
        if !reads.is_empty() {
            let worker = self.worker(lane);
            worker.readers -= 1;
            if let Some(next) = worker.in_line.pop_front() {
                self.take_turn(next);
            }
        }
        let forecast = &self.job.forecast;
        for head in reads {
            self.worker(lane).keep(head, forecast);
        }
        self.come(lane);
        for other in std::mem::take(&mut self.lane(lane).awaited_by) {
            self.come(other);
        }
    }

    /// Notes that something has come that a lane waits for. If nothing else is missing, its task is computed.
    fn come(&mut self, lane: u32) {
        self.lane(lane).waits -= 1;
        if self.lane(lane).waits > 0 {
            return;
        }
        let mut seconds = self.lane(lane).load.seconds();
        if self.strangers.is_some() {
            // Exponentially distributed: who is at work already is as far from the end as who begins.
            let part = as_f64(self.rng.below(1 << 53)) / as_f64(1 << 53);
            seconds *= -(1.0 - part).ln();
        }
        let now = self.now;
        let at = self.worker(lane).threads.serve(now, seconds);
        self.later(at, Step::Computed(lane));
    }

    fn computed(&mut self, lane: u32) {
        let forecast = &self.job.forecast;
        let worker = &mut self.workers[(lane / self.lanes_each) as usize];
        for &head in self.lanes[lane as usize].heads() {
            worker.keep(head, forecast);
        }
        self.transfer(lane, Way::Up);
    }

    fn durable(&mut self, lane: u32) {
        // As much for a shard as for a task of one range.
        let ranges = self.lane(lane).heads().len().max(1);
        let control = self.job.costs.control(ranges);
        self.outcome.coordinator += control;
        let at = self.coordinator.serve(self.now, control);
        self.later(at, Step::TakenIn(lane));
    }

    fn taken_in(&mut self, lane: u32) {
        let worker = lane / self.lanes_each;
        let submission = SubmissionId(self.number());
        self.submissions.insert(submission, lane);
        let Task { lease, work, .. } = self.lane(lane).task.take().expect("it has a task");
        let event = match work {
            Work::Evaluate { heads, .. } => {
                let one_in = self.lies_one_in(worker, heads.len());
                let mut ranges = Vec::new();
                for head in heads {
                    let is_lie = one_in.is_some_and(|one_in| self.rng.once_in(one_in));
                    ranges.push(self.evaluate(submission, head, is_lie));
                }
                Event::Evaluated {
                    submission,
                    worker: self.id(worker),
                    lease,
                    ranges,
                }
            }
            Work::Merge { shard, .. } => Event::Merged {
                submission,
                worker: self.id(worker),
                lease,
                shard,
                digest: Digest([0; 32]),
            },
        };
        self.tell(event);
    }

    /// If this worker lies about these ranges: about one in how many.
    fn lies_one_in(&mut self, worker: u32, ranges: usize) -> Option<u64> {
        let Strangers {
            one_in, is_late, ..
        } = self.strangers.filter(|_| worker == LIAR)?;
        let progress = self.plan.progress();
        let is_time = !is_late || progress.ranges_done * 2 >= progress.ranges;
        if !is_time || self.outcome.found_after.is_some() {
            return None;
        }
        self.outcome.delivered += ranges as u64;
        Some(one_in)
    }

    fn evaluate(&mut self, submission: SubmissionId, head: Head, is_lie: bool) -> RangeSummary {
        let range_bits = self.job.settings.range_bits;
        let digest = self.store.tell(submission, head, range_bits, is_lie);
        self.job.summary(head, digest)
    }

    fn arbitrated(&mut self, unit: Unit) {
        let submission = SubmissionId(self.number());
        let range = match unit {
            Unit::Range(head) => Some(self.evaluate(submission, head, false)),
            Unit::Shard(_) => None,
        };
        self.tell(Event::Arbitrated {
            submission,
            unit,
            range,
            digest: range.map_or(Digest([0; 32]), |range| range.digest),
            is_forged: false,
        });
    }
}

pub(crate) fn nanos(seconds: f64) -> Nanos {
    round(seconds * 1e9)
}

#[expect(clippy::cast_precision_loss, reason = "a forecast need not be exact")]
pub(crate) fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}
