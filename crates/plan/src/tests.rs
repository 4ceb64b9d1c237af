//! Each rule of the plan, one at a time; all short sequences of events; and schedules of whole jobs.

mod leases;
mod rules;
mod sequences;
mod world;

use chomp_table::{Digest, Head, RangeBits, RangeSummary};

use crate::*;

const A: WorkerId = WorkerId::only(1);
const B: WorkerId = WorkerId::only(2);
const C: WorkerId = WorkerId::only(3);
const REFEREE: WorkerId = WorkerId::new(ParticipantId::REFEREE.0, 0);

/// Handles that are of no use.
#[derive(Debug)]
struct Nothing;

impl PlanTypes for Nothing {
    type LeaseResponder = ();
    type VerdictResponder = ();
    type Location = ();
}

/// 12 range bits: the layers of 16 bits are [0] [1] [2] [3 4] [5 8] [6 9] [7 a] [b c] [d] [e] [f]. Nothing is sampled.
fn settings() -> Settings {
    Settings {
        lease_ms: 100,
        silence_ms: 10_000,
        straggler_ms: 1_000_000,
        expiries_max: 5,
        task_positions_min: 0,
        task_positions_max: 0,
        checks_per_1000: 0,
        owner_checks_per_1000: 0,
        newcomer_ranges: 0,
        shard_words: 1000,
        ..Settings::new(16, RangeBits::new(12).unwrap())
    }
}

/// The content of a range: 0 is the right one.
fn range(head: u64, content: u8) -> RangeSummary {
    RangeSummary {
        head: Head(head),
        count: 7,
        stored: 3,
        digest: Digest([content; 32]),
    }
}

/// The result of merging a shard.
fn shard_of(number: u32, is_forged: bool) -> TaskResult<()> {
    TaskResult::Shard {
        number,
        digest: Digest([0; 32]),
        is_forged,
        location: (),
    }
}

/// A plan under test, in which commits are durable at once unless it is slow.
struct Bench {
    plan: Plan<Nothing>,
    now: u64,
    requests: u64,
    /// The actions of the plan.
    tasks: Vec<(WorkerId, Task)>,
    verdicts: Vec<Verdict>,
    is_referee_called: bool,
    out: Vec<Party>,
    withdrawn: Vec<Head>,
    confirmed: Vec<(Unit, Finders)>,
    committed: Vec<(Unit, Finders)>,
    publications: usize,
    /// Whether writes take until this is over.
    is_slow: bool,
    written: Vec<WriteId>,
}

impl Bench {
    fn new(settings: Settings, workers: &[WorkerId]) -> Bench {
        let mut bench = Bench::from(settings, Past::default());
        for &worker in workers {
            bench.join(worker);
        }
        bench
    }

    fn from(settings: Settings, past: Past) -> Bench {
        let (plan, actions) = Plan::new(settings, past).unwrap();
        let mut bench = Bench {
            plan,
            now: 0,
            requests: 0,
            tasks: Vec::new(),
            verdicts: Vec::new(),
            is_referee_called: false,
            out: Vec::new(),
            withdrawn: Vec::new(),
            confirmed: Vec::new(),
            committed: Vec::new(),
            publications: 0,
            is_slow: false,
            written: Vec::new(),
        };
        bench.perform(actions);
        bench
    }

    fn handle(&mut self, event: Event<Nothing>) {
        let actions = self.plan.handle(Millis(self.now), event);
        self.perform(actions);
        self.plan.assert_invariants();
    }

    fn perform(&mut self, actions: Vec<Action<Nothing>>) {
        for action in actions {
            match action {
                Action::Answer {
                    worker,
                    answer: LeaseAnswer::Task(task),
                    ..
                } => self.tasks.push((worker, task)),
                Action::SendVerdict { verdict, .. } => self.verdicts.push(verdict),
                Action::CallReferee => {
                    assert!(!self.is_referee_called, "called once");
                    self.is_referee_called = true;
                }
                Action::Write(Write::Commit { write, units }) => {
                    let units = units.into_iter().map(|unit| (unit.unit, unit.finders));
                    self.committed.extend(units);
                    self.written.push(write);
                }
                Action::Write(Write::Confirm { units, finders }) => {
                    let units = units.into_iter().map(|unit| (unit, finders.clone()));
                    self.confirmed.extend(units);
                }
                Action::Write(Write::Withdraw { heads }) => self.withdrawn.extend(heads),
                Action::Write(Write::Out { party, .. }) => self.out.push(party),
                Action::Publish => self.publications += 1,
                _ => {}
            }
        }
        while !self.is_slow && !self.written.is_empty() {
            let write = self.written.remove(0);
            let outcome = Ok(());
            self.handle(Event::Written { write, outcome });
        }
    }

    fn join(&mut self, worker: WorkerId) {
        self.handle(Event::Joined {
            worker,
            name: format!("{}-{worker}", worker.participant.0),
            threads: 1,
        });
    }

    /// The task that a worker gets at once, if it gets one; otherwise its request is withdrawn.
    fn take(&mut self, worker: WorkerId) -> Option<Task> {
        self.requests += 1;
        let (request, responder) = (RequestId(self.requests), ());
        self.handle(Event::Requested {
            request,
            worker,
            responder,
        });
        self.handle(Event::Withdrawn { request });
        self.tasks.pop().map(|(_, task)| task)
    }

    /// The heads of the task that a worker gets, if it gets one of ranges.
    fn heads(&mut self, worker: WorkerId) -> Option<(LeaseId, Vec<u64>)> {
        let task = self.take(worker)?;
        match task.work {
            Work::Evaluate { heads, .. } => {
                Some((task.lease, heads.iter().map(|head| head.0).collect()))
            }
            Work::Merge { .. } => None,
        }
    }

    /// A worker returns this content of a range that it is leased now.
    fn finds(&mut self, worker: WorkerId, head: u64, content: u8) -> Verdict {
        let unit = [Unit::Range(Head(head))];
        let lease = self.plan.pretend_leased(worker, &unit);
        self.returns(worker, lease, range(head, content))
    }

    fn returns(&mut self, worker: WorkerId, lease: LeaseId, range: RangeSummary) -> Verdict {
        self.completes(worker, lease, TaskResult::Ranges(vec![(range, ())]))
    }

    /// A worker has merged the shard of its task.
    fn merges(&mut self, worker: WorkerId, task: &Task) -> Verdict {
        let Work::Merge { shard, .. } = task.work else {
            panic!("{task:?}");
        };
        self.completes(worker, task.lease, shard_of(shard, false))
    }

    /// A worker returns the right result of a task of one unit.
    fn does(&mut self, worker: WorkerId, task: &Task) -> Verdict {
        match &task.work {
            Work::Merge { .. } => self.merges(worker, task),
            Work::Evaluate { heads, .. } => {
                assert_eq!(heads.len(), 1);
                self.returns(worker, task.lease, range(heads[0].0, 0))
            }
        }
    }

    fn completes(&mut self, worker: WorkerId, lease: LeaseId, result: TaskResult<()>) -> Verdict {
        self.handle(Event::Completed {
            worker,
            lease,
            result,
            responder: (),
        });
        self.verdicts.pop().expect("nothing has to be waited for")
    }

    /// The next unit for the referee, if it was called.
    fn for_referee(&self) -> Option<Unit> {
        let unit = self.plan.referee_unit();
        unit.filter(|_| self.is_referee_called)
    }

    /// The task that the referee gets at once, if it was called and gets one.
    fn take_as_referee(&mut self) -> Option<Task> {
        if !self.is_referee_called {
            return None;
        }
        if !self.plan.is_present(REFEREE) {
            self.join(REFEREE);
        }
        self.take(REFEREE)
    }

    /// The referee finds this content of a range, which is its next unit.
    fn decides(&mut self, head: u64, content: u8) {
        let task = self.take_as_referee().expect("something is left to it");
        assert!(task.work.units().eq([Unit::Range(Head(head))]), "{task:?}");
        self.returns(REFEREE, task.lease, range(head, content));
    }

    /// The record of a range with this content is lost.
    fn loses(&mut self, head: u64, content: u8) {
        let records = vec![(Head(head), range(head, content).digest)];
        self.handle(Event::Lost { records });
    }

    fn wait(&mut self, ms: u64) {
        self.now += ms;
        self.handle(Event::Tick);
    }

    fn finders(&self, head: u64) -> &[WorkerId] {
        self.plan.units.found_by(Unit::Range(Head(head)))
    }

    fn is_known(&self, head: u64) -> bool {
        self.plan.units.content(Unit::Range(Head(head))).is_some()
    }

    fn is_done(&self, head: u64) -> bool {
        self.plan.units.ranges.is_committed(Head(head))
    }
}
