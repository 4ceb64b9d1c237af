//! Each rule of the plan, one at a time.

use chomp_table::RangeSummary;
use chomp_table::{Head, RangeBits};

use super::*;
use chomp_table::Digest;

mod arbitration;
mod checks;
mod doubts;
mod healing;
mod leases;
mod participants;
mod patience;
mod read_backs;
mod replicas;
mod scheduling;
mod settling;
mod storing;

const A: WorkerId = WorkerId::only(1);
const B: WorkerId = WorkerId::only(2);
const C: WorkerId = WorkerId::only(3);

/// 12 range bits: the layers of 16 bits are [0] [1] [2] [3 4] [5 8] [6 9] [7 a] [b c] [d] [e] [f].
fn settings(bits: u32) -> Settings {
    Settings {
        lease_ms: 100,
        silence_ms: 10_000,
        straggler_ms: 1_000_000,
        expiries_max: 5,
        task_positions_min: 0,
        check_one_in: 0,
        check_own_one_in: 0,
        shard_words: 100,
        ..Settings::new(bits, RangeBits::new(12).unwrap())
    }
}

/// The one right content of a range.
pub(super) fn summary(head: u64) -> RangeSummary {
    let mut digest = [7; 32];
    digest[..8].copy_from_slice(&head.to_le_bytes());
    RangeSummary {
        head: Head(head),
        count: head % 2000 + 1,
        stored: head % 5,
        digest: Digest(digest),
    }
}

/// Another content.
pub(super) fn wrong(head: u64) -> RangeSummary {
    RangeSummary {
        digest: Digest([0; 32]),
        ..summary(head)
    }
}

fn summaries(heads: impl IntoIterator<Item = u64>) -> Vec<RangeSummary> {
    heads.into_iter().map(summary).collect()
}

/// The one right content of a shard.
pub(super) fn shard_digest(number: u32) -> Digest {
    let mut digest = [9; 32];
    digest[..4].copy_from_slice(&number.to_le_bytes());
    Digest(digest)
}

/// The task that somebody is given.
fn given(action: &Action) -> &Task {
    match action {
        Action::Answer {
            answer: LeaseAnswer::Task(task),
            ..
        } => task,
        other => panic!("no task: {other:?}"),
    }
}

fn lose(head: u64) -> Action {
    Action::Lose { head: Head(head) }
}

fn withdraw(heads: &[u64]) -> Action {
    let heads = to_heads(heads);
    Action::Withdraw { heads }
}

/// A plan under test: every step checks the invariants.
struct Bench {
    plan: Plan,
    now: u64,
    requests: u64,
    submissions: u64,
}

impl Bench {
    fn new(settings: Settings, done: &[RangeSummary]) -> Bench {
        let (bench, actions) = Bench::with(settings, done, &[]);
        assert_eq!(actions, []);
        bench
    }

    fn with(
        settings: Settings,
        done: &[RangeSummary],
        shards: &[(u32, Digest)],
    ) -> (Bench, Vec<Action>) {
        let past = Past {
            ranges: done.to_vec(),
            shards: shards.to_vec(),
            ..Past::default()
        };
        Bench::resumed(settings, &past)
    }

    fn resumed(settings: Settings, past: &Past) -> (Bench, Vec<Action>) {
        let (plan, actions) = Plan::new(settings, past).unwrap();
        plan.check_invariants();
        (
            Bench {
                plan,
                now: 0,
                requests: 0,
                submissions: 0,
            },
            actions,
        )
    }

    /// All layers below `layer` of a table of `bits` bits are done.
    fn at_layer(settings: Settings, layer: u32) -> Bench {
        let heads = settings.division.layers(settings.size);
        let done = summaries(heads[..layer as usize].iter().flatten().map(|head| head.0));
        Bench::new(settings, &done)
    }

    fn tell(&mut self, event: Event) -> Vec<Action> {
        let actions = self.plan.handle(Millis(self.now), event);
        self.plan.check_invariants();
        actions
    }

    fn join(&mut self, worker: WorkerId, threads: u32) {
        let name = format!("w{worker}");
        let actions = self.tell(Event::Joined {
            worker,
            name,
            threads,
        });
        assert_eq!(actions, []);
    }

    fn want(&mut self, worker: WorkerId) -> Vec<Action> {
        self.requests += 1;
        self.tell(Event::Wanted {
            request: RequestId(self.requests),
            worker,
        })
    }

    /// Asks for a task that is there.
    fn task(&mut self, worker: WorkerId) -> Task {
        let actions = self.want(worker);
        let [
            Action::Answer {
                request,
                answer: LeaseAnswer::Task(task),
            },
        ] = actions.as_slice()
        else {
            panic!("no task: {actions:?}");
        };
        assert_eq!(request.0, self.requests);
        task.clone()
    }

    fn renew(&mut self, worker: WorkerId, lease: LeaseId) -> Vec<Action> {
        let leases = vec![lease];
        self.tell(Event::Renewed { worker, leases })
    }

    fn new_submission(&mut self) -> SubmissionId {
        self.submissions += 1;
        SubmissionId(self.submissions)
    }

    fn submit(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        ranges: Vec<RangeSummary>,
    ) -> (SubmissionId, Vec<Action>) {
        if !self.plan.is_there(worker) {
            self.join(worker, 0);
        }
        let heads = ranges.iter().map(|range| range.head).collect();
        let work = Work::Evaluate { layer: 0, heads };
        self.plan.pretend_leased(worker, lease, work);
        self.submit_as_it_is(worker, lease, ranges)
    }

    /// Hands in a result, whether its worker was given a lease on it or not.
    fn submit_as_it_is(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        ranges: Vec<RangeSummary>,
    ) -> (SubmissionId, Vec<Action>) {
        let submission = self.new_submission();
        let event = Event::Evaluated {
            submission,
            worker,
            lease,
            ranges,
            rng: submission.0,
        };
        (submission, self.tell(event))
    }

    fn merge(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        shard: u32,
        digest: Digest,
    ) -> (SubmissionId, Vec<Action>) {
        let (head, skip) = (Head(0), 0);
        let work = Work::Merge { shard, head, skip };
        self.plan.pretend_leased(worker, lease, work);
        let submission = self.new_submission();
        let event = Event::Merged {
            submission,
            worker,
            lease,
            shard,
            digest,
        };
        (submission, self.tell(event))
    }

    fn check(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        ranges: Vec<RangeSummary>,
    ) -> (SubmissionId, Vec<Action>) {
        let submission = self.new_submission();
        let event = Event::Checked {
            submission,
            worker,
            lease,
            ranges,
        };
        (submission, self.tell(event))
    }

    /// The record of a range is lost.
    fn lose(&mut self, head: u64) -> Vec<Action> {
        let digest = summary(head).digest;
        let head = Head(head);
        self.tell(Event::Lost {
            worker: A,
            head,
            digest,
        })
    }

    /// Each shard is read back by a worker that asks for it; returns what follows from the last.
    fn read_back(&mut self, workers: &[WorkerId]) -> Vec<Action> {
        let mut actions = Vec::new();
        for &worker in workers {
            let task = self.task(worker);
            assert!(matches!(task.work, Work::ReadBack { .. }), "{task:?}");
            let (checked, mut told) = self.check(worker, task.lease, Vec::new());
            assert_eq!(told.remove(0), accepted(checked));
            actions = told;
        }
        actions
    }

    /// The coordinator has evaluated a range itself.
    fn arbitrate(&mut self, range: RangeSummary) -> (SubmissionId, Vec<Action>) {
        let submission = self.new_submission();
        let event = Event::Arbitrated {
            submission,
            unit: Unit::Range(range.head),
            range: Some(range),
            digest: range.digest,
        };
        (submission, self.tell(event))
    }

    /// Hands in a result that has to be written.
    fn begin_commit(&mut self, worker: WorkerId, lease: LeaseId, heads: &[u64]) -> SubmissionId {
        let (submission, actions) = self.submit(worker, lease, summaries(heads.iter().copied()));
        let [
            Action::Commit {
                submission: written,
                units,
            },
        ] = &actions[..]
        else {
            panic!("{actions:?}");
        };
        assert_eq!(*written, submission);
        assert!(
            units
                .iter()
                .map(|one| one.unit)
                .eq(heads.iter().map(|&head| range(head)))
        );
        let found = |one: &AgreedUnit| one.finders.contains(&worker.participant);
        assert!(units.iter().all(found));
        submission
    }

    fn committed(&mut self, submission: SubmissionId) -> Vec<Action> {
        self.tell(Event::Committed { submission })
    }

    /// Hands in a result and has it written.
    fn finish(&mut self, worker: WorkerId, task: &Task) {
        let heads: Vec<u64> = heads(task).iter().map(|head| head.0).collect();
        let submission = self.begin_commit(worker, task.lease, &heads);
        let actions = self.committed(submission);
        assert!(actions.contains(&accepted(submission)), "{actions:?}");
    }
}

/// The heads of an evaluation.
fn heads(task: &Task) -> Vec<Head> {
    match &task.work {
        Work::Evaluate { heads, .. } => heads.clone(),
        work => panic!("no evaluation: {work:?}"),
    }
}

fn to_heads(heads: &[u64]) -> Vec<Head> {
    heads.iter().copied().map(Head).collect()
}

fn range(head: u64) -> Unit {
    Unit::Range(Head(head))
}

/// Ranges that A alone found are to be written.
fn commit(submission: SubmissionId, heads: &[u64]) -> Action {
    commit_by(submission, heads, &[A])
}

/// Ranges that these found are to be written.
fn commit_by(submission: SubmissionId, heads: &[u64], finders: &[WorkerId]) -> Action {
    let units: Vec<Unit> = heads.iter().map(|&head| range(head)).collect();
    commit_units(submission, &units, finders)
}

fn commit_units(submission: SubmissionId, units: &[Unit], finders: &[WorkerId]) -> Action {
    let finders: Vec<ParticipantId> = finders.iter().map(|worker| worker.participant).collect();
    let settled = |&unit: &Unit| AgreedUnit {
        unit,
        finders: finders.clone(),
    };
    let units = units.iter().map(settled).collect();
    Action::Commit { submission, units }
}

fn settled(submission: SubmissionId, verdict: Verdict) -> Action {
    Action::Settle {
        submission,
        verdict,
    }
}

fn accepted(submission: SubmissionId) -> Action {
    settled(submission, Verdict::Accepted)
}

fn duplicate(submission: SubmissionId) -> Action {
    settled(submission, Verdict::Duplicate)
}

fn rejected(submission: SubmissionId, reason: Rejection) -> Action {
    settled(submission, Verdict::Rejected { reason })
}

fn renewal(worker: WorkerId, lost: &[LeaseId]) -> Vec<Action> {
    let lost = lost.to_vec();
    vec![Action::Renewal { worker, lost }]
}
