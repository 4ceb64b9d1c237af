//! How the job treats calls that are dropped, and how results come into the journal.

mod faults;
mod parts;
mod restarts;

use std::task::{Context, Poll, Waker};

use chomp_plan::{LeaseAnswer, ParticipantId, RequestId, Settings, Task, Unit, Work};
use chomp_store::objects::{Fault, Moment, SimulatedStorage};
use chomp_store::{Journal, PartName, PlacedRange};
use chomp_table::RangeSummary;
use chomp_table::shard::ShardSize;

use super::*;
use crate::ready;
use crate::server::begin;
use crate::testing::{nobody, range_bits};

const BITS: u32 = 20;

/// A job, and the storage below it.
struct Tested {
    job: Job,
    tools: Arc<Tools>,
    storage: Arc<SimulatedStorage>,
}

fn tested(change: impl FnOnce(&mut Settings)) -> Tested {
    started(&Arc::new(SimulatedStorage::new(0)), change)
}

/// The job of a coordinator that starts on this storage.
fn started(storage: &Arc<SimulatedStorage>, change: impl FnOnce(&mut Settings)) -> Tested {
    let storage = Arc::clone(storage);
    let opening = Journal::open(storage.clone(), range_bits(), BITS, 1, 2);
    let journal = Arc::new(ready(opening).unwrap());
    let mut settings = Settings::new(BITS, range_bits());
    (settings.checks_per_1000, settings.owner_checks_per_1000) = (0, 0);
    settings.newcomer_ranges = 0;
    change(&mut settings);
    let tools = Tools::new(storage.clone(), &journal, BITS, ShardSize::PUBLISHED);
    let replicas = settings.replicas;
    let begun = begin(settings, &journal).unwrap();
    let (job, ..) = Job::new(begun, Arc::clone(&tools), replicas, nobody(), None);
    Tested {
        job,
        tools,
        storage,
    }
}

impl Tested {
    fn join(&mut self, worker: u32) {
        let joined = Event::Joined {
            worker: WorkerId::only(worker),
            name: worker.to_string(),
            threads: 1,
        };
        self.job.handle(joined);
    }

    /// Lets enough time pass for any segment to begin.
    fn rest(&mut self) {
        self.job.now = self.job.now.plus(1000);
        self.job.handle(Event::Tick);
    }

    /// Writes all that is settled.
    fn write_all(&mut self) {
        self.rest();
        while !self.job.effects.is_empty() {
            self.do_effect();
            self.rest();
        }
    }

    /// Does the effect that was begun first.
    fn do_effect(&mut self) {
        let effect = self.job.effects.remove(0);
        ready(effect.perform(&self.tools))(&mut self.job);
    }

    /// The task that a worker gets at once, if it gets one.
    fn next_task(&mut self, worker: u32) -> Option<Task> {
        let (responder, mut answer) = oneshot::channel();
        let (request, worker) = (RequestId(next()), WorkerId::only(worker));
        self.job.handle(Event::Requested {
            request,
            worker,
            responder,
        });
        match answer.try_recv().ok()?.answer {
            LeaseAnswer::Task(task) => Some(task),
            other => panic!("{other:?}"),
        }
    }

    /// Hands a result in for a lease.
    fn hand_in(
        &mut self,
        worker: u32,
        lease: LeaseId,
        result: TaskResult<UnitLocation>,
    ) -> oneshot::Receiver<Verdict> {
        let (responder, verdict) = oneshot::channel();
        let worker = WorkerId::only(worker);
        self.job.complete(worker, lease, result, responder);
        verdict
    }

    /// Hands ranges in, whatever they are, under a lease that is made for it.
    fn hand_in_ranges(
        &mut self,
        worker: u32,
        ranges: Vec<PlacedRange>,
    ) -> oneshot::Receiver<Verdict> {
        let units = ranges.iter().map(|placed| Unit::Range(placed.summary.head));
        let units: Vec<Unit> = units.collect();
        let plan = &mut self.job.plan;
        let lease = plan.pretend_leased(WorkerId::only(worker), &units);
        self.hand_in(worker, lease, UnitLocation::in_part(lease, ranges))
    }

    fn complete(&mut self, worker: u32, heads: &[u64]) -> oneshot::Receiver<Verdict> {
        let ranges = heads.iter().map(|&head| placed(head)).collect();
        self.hand_in_ranges(worker, ranges)
    }

    /// The referee evaluates a range, and what follows from that is written.
    fn referee_finds(&mut self, range: PlacedRange) {
        let referee = ParticipantId::REFEREE.0;
        self.join(referee);
        let _verdict = self.hand_in_ranges(referee, vec![range]);
        self.write_all();
    }

    /// Takes the credential of a participant back.
    fn revoke(&mut self, participant: u32) {
        let participant = ParticipantId(participant);
        let revoked = Event::Revoked { participant };
        self.job.handle(revoked);
    }

    /// The next call of the storage fails.
    fn fail_next(&self, moment: Moment) {
        let (call, sticky) = (self.storage.calls(), false);
        self.storage.set_fault(Some(Fault {
            call,
            sticky,
            moment,
        }));
    }
}

fn placed(head: u64) -> PlacedRange {
    PlacedRange {
        summary: RangeSummary {
            head: Head(head),
            count: 1,
            stored: 1,
            digest: Digest::of(&head.to_le_bytes()),
        },
        offset: 16,
        length: 60,
    }
}

/// The same range with another content.
fn other(head: u64) -> PlacedRange {
    let mut placed = placed(head);
    placed.summary.digest = Digest::of(b"another");
    placed
}

/// A range that is offered, taken.
fn offered(tested: &mut Tested) -> Option<u64> {
    match tested.next_task(7)?.work {
        Work::Evaluate { heads, .. } => Some(heads[0].0),
        other @ Work::Merge { .. } => panic!("{other:?}"),
    }
}

/// Goes on until there are a few ranges to take at once, and takes them.
fn some_taken(tested: &mut Tested) -> Vec<u64> {
    loop {
        let ready: Vec<u64> = std::iter::from_fn(|| offered(tested)).collect();
        if ready.len() > 3 {
            return ready;
        }
        assert!(!ready.is_empty());
        for &head in &ready {
            tested.complete(7, &[head]);
        }
        tested.write_all();
    }
}

/// A number that was not used yet.
fn next() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1000);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A job whose tasks are ranges: the first is done, and worker 7 has taken some of the next.
fn with_taken() -> (Tested, Vec<u64>) {
    let mut tested = tested(|settings| {
        (settings.task_positions_min, settings.task_positions_max) = (0, 1);
    });
    tested.join(7);
    tested.complete(7, &[0]);
    tested.do_effect();
    let taken = some_taken(&mut tested);
    (tested, taken)
}

/// All results that wait fail with the journal, and so do later ones.
#[test]
fn a_journal_that_fails_is_not_written_any_more() {
    for moment in [Moment::Before, Moment::After] {
        let (mut tested, taken) = with_taken();
        tested.rest();
        let mut verdicts = Vec::from([2, 3].map(|at| tested.complete(7, &taken[at..=at])));
        assert_eq!(tested.job.effects.len(), 1, "the other one waits");
        assert!(tested.job.writes.is_under_way());
        tested.fail_next(moment);
        tested.do_effect();
        verdicts.push(tested.complete(7, &taken[..1]));
        for mut verdict in verdicts {
            assert!(matches!(verdict.try_recv(), Ok(Verdict::Rejected { .. })));
        }
        assert!(matches!(tested.job.fault, Some(JobError::Store(_))));
        assert!(matches!(tested.job.plan.phase(), Phase::Stopped(_)));
        assert!(!tested.job.writes.is_under_way() && tested.job.effects.is_empty());
        assert_eq!(tested.job.plan.progress().results_waiting, 0);
        let worker = WorkerId::only(7);
        tested.job.handle(Event::Left { worker });
        assert!(tested.job.plan.has_nothing_under_way());
    }
}

/// A journal that is slow is not written to all the time, though somebody waits.
#[test]
fn the_journal_pauses_after_a_segment_that_took_long() {
    for (took, pause) in [(0, 0), (7, 14), (1000, 100)] {
        let mut tested = tested(|_| ());
        tested.join(7);
        tested.complete(7, &[0]);
        tested.job.now = tested.job.now.plus(took);
        tested.do_effect();
        let mut second = tested.complete(7, &[1]);
        for _ in 0..pause {
            assert!(
                tested.job.effects.is_empty(),
                "{took}, {:?}",
                tested.job.now
            );
            assert!(tested.job.next_deadline().unwrap() > tested.job.now);
            tested.job.now = tested.job.now.plus(1);
            tested.job.handle(Event::Tick);
        }
        tested.do_effect();
        assert_eq!(second.try_recv().unwrap(), Verdict::Accepted);
    }
}

/// Takes in all that was sent so far.
fn take_all(job: &mut Job) {
    while let Ok(call) = job.calls.try_recv() {
        call(job);
    }
}

/// A call that waits for a task, once the job has heard of it.
fn poll<F: Future>(call: &mut std::pin::Pin<Box<F>>) -> Poll<F::Output> {
    call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// A job, how calls reach it, and how it gets on.
pub(crate) fn job() -> (Job, JobHandle, watch::Receiver<JobProgress>) {
    let Tested { tools, .. } = tested(|_| ());
    let settings = Settings::new(BITS, range_bits());
    let begun = begin(settings, &tools.journal).unwrap();
    Job::new(begun, tools, 1, nobody(), None)
}

/// How calls reach a job that takes them for as long as the set of tasks is kept, and the part that `worker` may write
/// there. It may write shard 1 too.
pub(crate) fn job_with_lease(worker: WorkerId) -> (JobHandle, JoinSet<()>, PartName) {
    let (mut job, handle, _) = job();
    job.join(worker, String::new(), 1).unwrap();
    let (responder, mut answer) = oneshot::channel();
    job.handle(Event::Requested {
        request: RequestId(0),
        worker,
        responder,
    });
    let LeaseAnswer::Task(task) = answer.try_recv().unwrap().answer else {
        panic!("the first worker gets a task");
    };
    job.plan.pretend_writing(worker, 1);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Some(call) = job.calls.recv().await {
            call(&mut job);
        }
    });
    let lease = task.lease.0;
    (handle, tasks, PartName { layer: 0, lease })
}

#[tokio::test]
async fn calls_that_are_dropped_leave_nothing_behind() {
    let (mut job, handle, _) = job();
    job.handle(Event::Joined {
        worker: WorkerId::only(7),
        name: String::new(),
        threads: 1,
    });

    // The only task of the first layer is taken, so the others wait.
    let mut holder = Box::pin(handle.lease(WorkerId::only(7)));
    assert!(poll(&mut holder).is_pending());
    take_all(&mut job);
    for _ in 0..10 {
        let mut waiting = Box::pin(handle.lease(WorkerId::only(7)));
        assert!(poll(&mut waiting).is_pending());
        take_all(&mut job);
        assert_eq!(job.plan.waiting(), 1);
        drop(waiting);
        take_all(&mut job);
        assert_eq!(job.plan.waiting(), 0);
    }

    // A task that was given to a call that is dropped goes back at once.
    assert_eq!(job.plan.progress().leases, 1);
    drop(holder);
    take_all(&mut job);
    assert_eq!(job.plan.progress().leases, 0);

    // So does one for a call that was dropped before the job heard of it.
    let mut early = Box::pin(handle.lease(WorkerId::only(7)));
    assert!(poll(&mut early).is_pending());
    drop(early);
    take_all(&mut job);
    assert_eq!((job.plan.progress().leases, job.plan.waiting()), (0, 0));
}

#[test]
fn a_segment_ends_with_the_ranges_that_fill_it() {
    let (mut tested, taken) = with_taken();
    tested.rest();
    tested.complete(7, &taken[..1]);
    tested.complete(7, &taken[1..4]);
    for _ in 0..14 {
        let lose = chomp_plan::Write::Lose { head: Head(0) };
        tested.job.perform(vec![Action::Write(lose)]);
    }
    let entries = |tested: &mut Tested| {
        tested.rest();
        match &tested.job.effects[0] {
            Effect::Append(batch) => batch.entries.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(entries(&mut tested), 1);
    tested.do_effect();
    // The three ranges of one submission are one entry.
    assert_eq!(entries(&mut tested), 1 + 13);
    tested.do_effect();
    assert_eq!(entries(&mut tested), 1);
}

/// Nobody waits for what a worker hands in that has something else to do.
#[test]
fn a_segment_waits_for_more_unless_somebody_is_idle() {
    let (mut tested, taken) = with_taken();
    tested.complete(7, &taken[2..3]);
    tested.do_effect();
    let mut second = tested.complete(7, &taken[..1]);
    assert!(tested.job.effects.is_empty());
    let at = tested.job.next_deadline().unwrap();
    assert!(tested.job.now < at);
    tested.job.now = at;
    tested.job.handle(Event::Tick);
    tested.do_effect();
    assert_eq!(second.try_recv().unwrap(), Verdict::Accepted);

    let mut third = tested.complete(7, &taken[1..2]);
    assert!(tested.job.effects.is_empty());
    tested.join(8);
    assert!(tested.next_task(8).is_none());
    tested.do_effect();
    assert_eq!(third.try_recv().unwrap(), Verdict::Accepted);
}
