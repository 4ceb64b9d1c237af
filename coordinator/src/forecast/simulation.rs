//! A job in virtual time: the true [`Plan`], with workers whose tasks take as long as forecast.
//!
//! What is simulated: lanes that ask, fetch, evaluate, submit and ask again, two for each thread; the
//! threads of each worker; the memory of each worker, which forgets the oldest ranges first; the
//! coordinator's threads and its link, which everybody shares. What is not: heartbeats, faults,
//! slow machines, and so no doubled leases.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use chomp_table::{Digest, Head, RangeSummary};

use super::{Costs, Forecast, each_source, round};
use crate::plan::{
    Action, Answer, Event, Millis, Plan, PlanError, RequestId, Settings, SubmissionId, Task,
    WorkerId,
};

/// Nanoseconds of virtual time.
type Nanos = u64;

/// Longer than any job.
const NEVER_MS: u64 = u64::MAX / 4;

/// Who works on a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// The workers.
    pub workers: u32,
    /// The threads of each, at least one.
    pub threads: u32,
    /// The bytes that each worker has for ranges.
    pub cache_bytes: u64,
    /// The threads of the coordinator's machine, at least one.
    pub coordinator_threads: u32,
    /// Whether worker and coordinator share a machine with so many threads.
    pub shared: bool,
    /// The bytes a second that go through the coordinator's link; without one, nothing takes time.
    pub bandwidth: Option<f64>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The seconds until all layers are sealed.
    pub seconds: f64,
    /// The tasks.
    pub tasks: u64,
    /// The bytes of records sent to workers.
    pub fetched: f64,
    /// The bytes of records that they submitted.
    pub submitted: f64,
    /// The seconds of the threads of all workers.
    pub worker_seconds: f64,
    /// The seconds of the coordinator's threads.
    pub coordinator_seconds: f64,
}

/// Something that serves one after the other: threads, or a link.
struct Servers(BinaryHeap<Reverse<Nanos>>);

impl Servers {
    fn new(count: u32) -> Servers {
        Servers((0..count.max(1)).map(|_| Reverse(0)).collect())
    }

    /// When work that comes at `now` and takes `seconds` is done.
    fn serve(&mut self, now: Nanos, seconds: f64) -> Nanos {
        let Reverse(free) = self.0.pop().expect("there is a server");
        let done = free.max(now) + nanos(seconds);
        self.0.push(Reverse(done));
        done
    }
}

struct Worker {
    threads: Servers,
    /// By head: whether the worker has the range.
    has: Vec<bool>,
    /// The ranges that it has, the oldest first.
    ages: VecDeque<Head>,
    bytes: u64,
}

/// A task on its way through a worker.
struct Lane {
    worker: usize,
    task: Task,
    /// The sources that were fetched, as losing positions.
    fetched: f64,
}

/// The next thing that happens to a lane.
enum Step {
    Fetched(Lane),
    Evaluated(Lane),
    Checked(Lane),
    Committed(SubmissionId),
    Sealed(u32),
}

struct Simulation<'a> {
    forecast: &'a Forecast,
    costs: &'a Costs,
    cluster: Cluster,
    plan: Plan,
    now: Nanos,
    /// What happens when; the number keeps those of one time in order.
    agenda: BinaryHeap<Reverse<(Nanos, u64)>>,
    steps: HashMap<u64, Step>,
    steps_made: u64,
    workers: Vec<Worker>,
    requests: HashMap<RequestId, usize>,
    requests_made: u64,
    submissions: HashMap<SubmissionId, usize>,
    submissions_made: u64,
    coordinator: Servers,
    link: Servers,
    outcome: Outcome,
}

/// Simulates the job that is forecast, done by `cluster`.
///
/// # Errors
///
/// If it has more ranges than a plan holds.
///
/// # Panics
///
/// If the plan does not come to its end, which would be a bug of one of both.
pub fn simulate(
    forecast: &Forecast,
    costs: &Costs,
    cluster: Cluster,
) -> Result<Outcome, PlanError> {
    let settings = Settings {
        lease_ms: NEVER_MS,
        silence_ms: NEVER_MS,
        straggler_ms: NEVER_MS,
        ..Settings::new(forecast.bits(), forecast.range_bits())
    };
    let (plan, first) = Plan::new(settings, &[], &[], 0)?;
    debug_assert!(first.is_empty(), "nothing is done yet");
    let ranges = usize::try_from(forecast.ranges()).expect("a plan holds them");
    let worker = |_| Worker {
        threads: Servers::new(cluster.threads),
        has: vec![false; ranges],
        ages: VecDeque::new(),
        bytes: 0,
    };
    let mut simulation = Simulation {
        forecast,
        costs,
        cluster,
        plan,
        now: 0,
        agenda: BinaryHeap::new(),
        steps: HashMap::new(),
        steps_made: 0,
        workers: (0..cluster.workers).map(worker).collect(),
        requests: HashMap::new(),
        requests_made: 0,
        submissions: HashMap::new(),
        submissions_made: 0,
        coordinator: Servers::new(cluster.coordinator_threads),
        link: Servers::new(1),
        outcome: Outcome::default(),
    };
    simulation.run();
    Ok(simulation.outcome)
}

impl Simulation<'_> {
    fn run(&mut self) {
        for worker in 0..self.workers.len() {
            self.tell(Event::Joined {
                worker: id(worker),
                name: String::new(),
                threads: self.cluster.threads,
            });
        }
        for _ in 0..2 * self.cluster.threads {
            for worker in 0..self.workers.len() {
                self.want(worker);
            }
        }
        while let Some(Reverse((at, number))) = self.agenda.pop() {
            self.now = at;
            let step = self.steps.remove(&number).expect("each is made once");
            self.step(step);
        }
        let progress = self.plan.progress();
        assert_eq!(
            progress.layers_sealed, progress.layers,
            "every range is offered to somebody"
        );
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Fetched(lane) => self.fetched(lane),
            Step::Evaluated(lane) => self.evaluated(lane),
            Step::Checked(lane) => self.checked(&lane),
            Step::Committed(submission) => self.tell(Event::Committed { submission }),
            Step::Sealed(layer) => {
                self.outcome.seconds = seconds(self.now);
                self.tell(Event::Sealed { layer });
            }
        }
    }

    fn later(&mut self, at: Nanos, step: Step) {
        self.steps_made += 1;
        self.agenda.push(Reverse((at, self.steps_made)));
        self.steps.insert(self.steps_made, step);
    }

    fn want(&mut self, worker: usize) {
        self.requests_made += 1;
        let request = RequestId(self.requests_made);
        self.requests.insert(request, worker);
        self.tell(Event::Wanted {
            request,
            worker: id(worker),
        });
    }

    fn tell(&mut self, event: Event) {
        for action in self.plan.handle(Millis(self.now / 1_000_000), event) {
            match action {
                Action::Answer {
                    request,
                    answer: Answer::Task(task),
                } => {
                    let worker = self.requests.remove(&request).expect("it was asked");
                    self.begin(worker, task);
                }
                Action::Commit { submission, .. } => {
                    let durable = self.now + nanos(self.costs.round_trip);
                    self.later(durable, Step::Committed(submission));
                }
                Action::Settle { submission, .. } => {
                    let worker = self.submissions.remove(&submission);
                    self.want(worker.expect("it was submitted"));
                }
                Action::Seal { layer, .. } => {
                    let durable = self.now + nanos(self.costs.round_trip);
                    self.later(durable, Step::Sealed(layer));
                }
                // The end: requests that wait are of no more interest.
                _ => {}
            }
        }
    }

    /// A lane has a task: it fetches what its worker does not have.
    fn begin(&mut self, worker: usize, task: Task) {
        let (forecast, costs) = (self.forecast, self.costs);
        let (mut bytes, mut losing, mut missing) = (0.0, 0.0, 0u32);
        for &head in &task.heads {
            each_source(head, forecast.range_bits(), &mut |source| {
                if self.workers[worker].keep(source, forecast, self.cluster.cache_bytes) {
                    bytes += forecast.record_bytes(source, costs.record_factor);
                    losing += forecast.losing(source);
                    missing += 1;
                }
            });
        }
        self.outcome.tasks += 1;
        self.outcome.fetched += bytes;
        let mut at = self.now;
        if missing > 0 {
            let reading = f64::from(missing) * costs.range;
            self.outcome.coordinator_seconds += reading;
            at = self.coordinator.serve(at, reading);
            at = self.send(at, bytes);
        }
        let lane = Lane {
            worker,
            task,
            fetched: losing,
        };
        self.later(at, Step::Fetched(lane));
    }

    fn send(&mut self, at: Nanos, bytes: f64) -> Nanos {
        match self.cluster.bandwidth {
            Some(bandwidth) => self.link.serve(at, bytes / bandwidth),
            None => at,
        }
    }

    /// The sources are there: the task is evaluated on the next free thread.
    fn fetched(&mut self, lane: Lane) {
        let (forecast, costs) = (self.forecast, self.costs);
        let heads = lane.task.heads.iter();
        let mut work: f64 = heads
            .map(|&head| costs.evaluation(forecast, head) + costs.encode * forecast.losing(head))
            .sum();
        work += costs.decode * lane.fetched;
        if self.cluster.shared {
            // The machine's threads do the coordinator's work between their own.
            work += self.checking(&lane.task);
            let (threads, machine) = (self.cluster.threads, self.cluster.coordinator_threads);
            work *= (f64::from(threads) / f64::from(machine)).max(1.0);
        }
        self.outcome.worker_seconds += work;
        let done = self.workers[lane.worker].threads.serve(self.now, work);
        self.later(done, Step::Evaluated(lane));
    }

    /// The coordinator's work with a result.
    fn checking(&self, task: &Task) -> f64 {
        let heads = task.heads.iter();
        heads
            .map(|&head| self.costs.checking(self.forecast, head))
            .sum()
    }

    /// The result is submitted and checked.
    fn evaluated(&mut self, lane: Lane) {
        let forecast = self.forecast;
        let factor = self.costs.record_factor;
        let heads = lane.task.heads.iter();
        let bytes = heads.map(|&head| forecast.record_bytes(head, factor)).sum();
        for &head in &lane.task.heads {
            self.workers[lane.worker].keep(head, forecast, self.cluster.cache_bytes);
        }
        self.outcome.submitted += bytes;
        let mut at = self.send(self.now, bytes);
        if !self.cluster.shared {
            let checking = self.checking(&lane.task);
            self.outcome.coordinator_seconds += checking;
            at = self.coordinator.serve(at, checking);
        }
        self.later(at, Step::Checked(lane));
    }

    fn checked(&mut self, lane: &Lane) {
        self.submissions_made += 1;
        let submission = SubmissionId(self.submissions_made);
        self.submissions.insert(submission, lane.worker);
        let ranges = lane.task.heads.iter().map(|&head| RangeSummary {
            head,
            count: round(self.forecast.losing(head)),
            digest: Digest([0; 32]),
        });
        let ranges = ranges.collect();
        self.tell(Event::Submitted {
            submission,
            worker: id(lane.worker),
            lease: lane.task.lease,
            ranges,
        });
    }
}

impl Worker {
    /// Has the worker keep a range, and forget others if there is no room; returns whether it is
    /// new to it.
    fn keep(&mut self, head: Head, forecast: &Forecast, bytes_max: u64) -> bool {
        let index = |head: Head| usize::try_from(head.0).expect("a head of the table");
        if std::mem::replace(&mut self.has[index(head)], true) {
            return false;
        }
        self.ages.push_back(head);
        self.bytes += forecast.memory_bytes(head);
        while self.bytes > bytes_max
            && let Some(old) = self.ages.pop_front()
        {
            self.has[index(old)] = false;
            self.bytes -= forecast.memory_bytes(old);
        }
        true
    }
}

fn id(worker: usize) -> WorkerId {
    WorkerId(worker as u64)
}

fn nanos(seconds: f64) -> Nanos {
    round(seconds * 1e9)
}

#[expect(clippy::cast_precision_loss, reason = "a forecast need not be exact")]
fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}
