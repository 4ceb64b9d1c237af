//! Simulates a job in virtual time: the true [`Plan`], with workers whose tasks take as long as forecast.
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
//! store. What the coordinator reads before it publishes the table takes no time. The simulation has no heartbeats,
//! faults or slow machines, and so no speculative leases.

mod job;
mod profile;
mod reading;
mod serving;
mod worker;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use chomp_table::{Digest, Head, sources};

use chomp_plan::forecast::{Cluster, as_f64, round};
use chomp_plan::{
    Action, Event, LeaseAnswer, Millis, Past, Phase, Plan, PlanError, RequestId, SubmissionId,
    Task, Work, WorkerId,
};
pub(crate) use job::Job;
pub(crate) use profile::Prediction;
use profile::Profile;
use serving::Servers;
use worker::{Look, Worker};

/// Nanoseconds of virtual time.
type Nanos = u64;

/// Longer than any job.
const NEVER_MS: u64 = u64::MAX / 4;
/// The tasks that a worker has at a time, for each thread.
const LANES_PER_THREAD: u32 = 2;
/// The records that are read at a time, for one task.
const READS_MAX: usize = 16;
/// The bytes of the records that are merged at a time.
const BATCH_BYTES: f64 = 1_048_576.0;

/// A lane of a worker, and what it is about.
#[derive(Default)]
struct Lane {
    task: Option<Task>,
    /// What it has to wait for before its task is computed: its own reading, and that of others.
    waits: u32,
    /// The ranges that it reads, and the lanes that wait for them.
    reads: Vec<Head>,
    awaited_by: Vec<u32>,
    /// The seconds until the first bytes arrive, for all records that are read one after the other.
    latency: f64,
    /// The bytes to read.
    down: f64,
    /// Whether it reads only when it is its turn.
    takes_turns: bool,
    /// The seconds that its task takes on a thread.
    work: f64,
    /// The bytes of its result.
    up: f64,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// A lane has read the journal, and reads sources when it is its turn.
    Informed(u32),
    /// A lane begins to read over the link.
    Reading(u32),
    /// A transfer to a worker ends, or from it, unless something has changed on the link.
    Down {
        worker: u32,
        changes: u64,
    },
    Up {
        worker: u32,
        changes: u64,
    },
    Computed(u32),
    Durable(u32),
    TakenIn(u32),
    Appended,
}

struct Simulation<'a> {
    job: &'a Job,
    cluster: Cluster,
    plan: Plan,
    now: Nanos,
    /// What happens when; the number keeps what happens at one time in order.
    agenda: BinaryHeap<Reverse<(Nanos, u64, Step)>>,
    steps: u64,
    workers: Vec<Worker>,
    lanes: Vec<Lane>,
    requests: BTreeMap<RequestId, u32>,
    submissions: BTreeMap<SubmissionId, u32>,
    /// Requests and submissions are counted.
    numbers: u64,
    coordinator: Servers,
    /// The submissions in the segment that is being written, and those for the next.
    appending: Vec<SubmissionId>,
    pending: Vec<SubmissionId>,
    segments: u64,
    profile: Profile,
}

impl Job {
    /// Simulates the job done by `cluster`.
    ///
    /// # Errors
    ///
    /// If it has more ranges than a plan holds.
    ///
    /// # Panics
    ///
    /// If the plan does not come to its end, which would be a bug of one of both.
    pub(crate) fn run(&self, cluster: Cluster) -> Result<Prediction, PlanError> {
        let (plan, first) = Plan::new(self.settings.clone(), &Past::default())?;
        debug_assert!(first.is_empty(), "there is something to do");
        let lanes = cluster.workers * cluster.threads * LANES_PER_THREAD;
        let mut simulation = Simulation {
            job: self,
            cluster,
            plan,
            now: 0,
            agenda: BinaryHeap::new(),
            steps: 0,
            workers: (0..cluster.workers)
                .map(|_| Worker::new(&cluster, self.losing.len()))
                .collect(),
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            requests: BTreeMap::new(),
            submissions: BTreeMap::new(),
            numbers: 0,
            coordinator: Servers::new(cluster.coordinator_threads),
            appending: Vec::new(),
            pending: Vec::new(),
            segments: 0,
            profile: Profile::default(),
        };
        simulation.run();
        Ok(simulation.profile.outcome)
    }
}

impl Simulation<'_> {
    fn run(&mut self) {
        for worker in 0..self.cluster.workers {
            self.tell(Event::Joined {
                worker: WorkerId::new(0, worker.into()),
                name: String::new(),
                threads: self.cluster.threads,
            });
        }
        // One lane of each worker after the other, as if all began at the same time.
        for lane in 0..self.lanes_each() {
            for worker in 0..self.cluster.workers {
                self.want(worker * self.lanes_each() + lane);
            }
        }
        while let Some(Reverse((at, _, step))) = self.agenda.pop() {
            self.now = at;
            self.step(step);
        }
        assert_eq!(
            self.plan.phase(),
            &Phase::Finished,
            "everything is offered to somebody"
        );
    }

    fn lanes_each(&self) -> u32 {
        self.cluster.threads * LANES_PER_THREAD
    }

    fn worker_of(&self, lane: u32) -> u32 {
        lane / self.lanes_each()
    }

    fn lane(&mut self, lane: u32) -> &mut Lane {
        &mut self.lanes[lane as usize]
    }

    fn worker(&mut self, worker: u32) -> &mut Worker {
        &mut self.workers[worker as usize]
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Informed(lane) => self.take_turn(lane),
            Step::Reading(lane) => self.reading(lane),
            Step::Down { worker, changes } => {
                let now = self.now;
                let link = self.worker(worker).down.as_mut();
                if let Some(lane) = link.and_then(|link| link.end(now, changes)) {
                    self.expect_down(worker);
                    self.has_read(lane);
                }
            }
            Step::Up { worker, changes } => {
                let now = self.now;
                let link = self.worker(worker).up.as_mut();
                if let Some(lane) = link.and_then(|link| link.end(now, changes)) {
                    self.expect_up(worker);
                    self.sent(lane);
                }
            }
            Step::Computed(lane) => self.computed(lane),
            Step::Durable(lane) => self.durable(lane),
            Step::TakenIn(lane) => self.taken_in(lane),
            Step::Appended => {
                for submission in std::mem::take(&mut self.appending) {
                    self.tell(Event::Committed { submission });
                }
                self.append();
            }
        }
    }

    fn later(&mut self, at: Nanos, step: Step) {
        self.steps += 1;
        self.agenda.push(Reverse((at, self.steps, step)));
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn want(&mut self, lane: u32) {
        let request = RequestId(self.number());
        self.requests.insert(request, lane);
        let worker = WorkerId::new(0, self.worker_of(lane).into());
        self.tell(Event::Wanted { request, worker });
    }

    fn tell(&mut self, event: Event) {
        for action in self.plan.handle(Millis(self.now / 1_000_000), event) {
            match action {
                Action::Answer {
                    request,
                    answer: LeaseAnswer::Task(task),
                } => {
                    let lane = self.requests.remove(&request).expect("it was asked");
                    self.begin(lane, task);
                }
                Action::Commit { submission, .. } => {
                    self.pending.push(submission);
                    self.append();
                }
                Action::Settle { submission, .. } => {
                    let lane = self.submissions.remove(&submission);
                    self.want(lane.expect("it was submitted"));
                }
                Action::Publish => {
                    self.profile.outcome.seconds = seconds(self.now) + self.job.costs.commit;
                    self.tell(Event::Published);
                }
                // The end: requests that wait are of no more interest.
                _ => {}
            }
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
        let worker = self.worker_of(lane);
        self.profile.begun(&task.work, self.now);
        let mut needed = Vec::new();
        // The records that are read one after the other.
        let mut turns = 0.0;
        let (mut down, mut reads) = (0.0, 0);
        match &task.work {
            Work::Evaluate { heads, .. } => {
                for &head in heads {
                    sources::each(head, self.job.settings.range_bits, &mut |source| {
                        needed.push(source);
                    });
                }
            }
            // All are of one participant, which compares its files with what was said.
            Work::Merge {
                written: Some(_), ..
            } => (turns, reads, down) = (1.0, 1, self.job.shard_bytes),
            Work::Merge { shard, head, .. } => {
                let heads = self.job.merged(*shard, *head);
                reads = heads.len();
                down = heads
                    .map(|head| self.job.record_bytes(Head(head as u64)))
                    .sum();
                turns = (down / BATCH_BYTES).max(as_f64(reads.div_ceil(READS_MAX) as u64));
            }
        }
        let mut missing = Vec::new();
        let mut losing = 0.0;
        let mut waits = 0;
        for source in needed {
            match self.worker(worker).look(source) {
                Look::Here => {}
                // A lane that waits for itself has all at the same time.
                Look::Coming(other) => {
                    let awaited_by = &mut self.lane(other).awaited_by;
                    if awaited_by.last() != Some(&lane) {
                        awaited_by.push(lane);
                        waits += 1;
                    }
                }
                Look::Missing => {
                    self.worker(worker).read(source, lane);
                    down += self.job.record_bytes(source);
                    losing += self.job.losing(source);
                    missing.push(source);
                }
            }
        }
        reads += missing.len();
        turns += as_f64(missing.len().div_ceil(READS_MAX) as u64);
        // A merge reads by itself.
        let takes_turns = !missing.is_empty();
        let fetch = self.job.costs.fetch;
        let (work, up) = self.profile.work(self.job, &task.work, reads, losing, down);
        *self.lane(lane) = Lane {
            task: Some(task),
            waits: waits + 1,
            reads: missing,
            awaited_by: std::mem::take(&mut self.lane(lane).awaited_by),
            latency: turns * fetch,
            down,
            takes_turns,
            work,
            up,
        };
        let segments = self.segments;
        let now = self.now;
        let journal = &mut self.worker(worker).journal;
        let lacks = segments - std::mem::replace(&mut journal.0, segments);
        journal.1 = journal.1.max(now) + nanos(as_f64(lacks) * fetch);
        let at = journal.1;
        self.later(at, Step::Informed(lane));
    }

    /// What the coordinator does for the task of a lane.
    fn control(&mut self, lane: u32) -> f64 {
        let ranges = match self.lane(lane).task.as_ref().map(|task| &task.work) {
            Some(Work::Evaluate { heads, .. }) => heads.len(),
            _ => 1,
        };
        let control = self.job.costs.control(ranges);
        self.profile.outcome.coordinator_seconds += control;
        control
    }

    fn computed(&mut self, lane: u32) {
        let (now, worker) = (self.now, self.worker_of(lane));
        let weights = &self.job.weights;
        let lane_of = &self.lanes[lane as usize];
        if let Some(Task {
            work: Work::Evaluate { heads, .. },
            ..
        }) = &lane_of.task
        {
            for &head in heads {
                self.workers[worker as usize].keep(head, weights);
            }
        }
        let bytes = lane_of.up;
        match &mut self.worker(worker).up {
            Some(link) if bytes > 0.0 => {
                link.begin(now, bytes, lane);
                self.expect_up(worker);
            }
            _ => self.sent(lane),
        }
    }

    /// The bytes of a result have arrived at the store.
    fn sent(&mut self, lane: u32) {
        let durable = if self.lane(lane).up > 0.0 {
            self.job.costs.commit
        } else {
            0.0
        };
        self.later(self.now + nanos(durable), Step::Durable(lane));
    }

    fn durable(&mut self, lane: u32) {
        let mut at = self.now;
        if !self.cluster.shared {
            let control = self.control(lane);
            at = self.coordinator.serve(at, control);
        }
        self.later(at, Step::TakenIn(lane));
    }

    fn taken_in(&mut self, lane: u32) {
        let worker = WorkerId::new(0, self.worker_of(lane).into());
        let submission = SubmissionId(self.number());
        self.submissions.insert(submission, lane);
        let Task { lease, work, .. } = self.lane(lane).task.take().expect("it has a task");
        self.tell(match work {
            Work::Evaluate { heads, .. } => Event::Evaluated {
                submission,
                worker,
                lease,
                ranges: heads
                    .into_iter()
                    .map(|head| self.job.summary(head))
                    .collect(),
            },
            Work::Merge { shard, .. } => Event::Merged {
                submission,
                worker,
                lease,
                shard,
                digest: Digest([0; 32]),
            },
        });
    }
}

fn index(head: Head) -> usize {
    usize::try_from(head.0).expect("a head of the table")
}

fn nanos(seconds: f64) -> Nanos {
    round(seconds * 1e9)
}

#[expect(clippy::cast_precision_loss, reason = "a forecast need not be exact")]
fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}
