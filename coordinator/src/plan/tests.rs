//! Each rule of the plan, one at a time.

use chomp_table::head::layers;
use chomp_table::{Head, RangeBits};

use super::*;
use chomp_table::Digest;

mod audits;
mod leases;
mod replicas;
mod scheduling;
mod settling;
mod storing;

const A: WorkerId = WorkerId(1);
const B: WorkerId = WorkerId(2);

/// 12 range bits: the layers of 16 bits are [0] [1] [2] [3 4] [5 8] [6 9] [7 a] [b c] [d] [e] [f].
fn settings(bits: u32) -> Settings {
    Settings {
        lease_ms: 100,
        silence_ms: 10_000,
        straggler_ms: 1_000_000,
        expiries_max: 5,
        task_positions_min: 0,
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

/// A plan under test: every step checks the invariants.
struct Bench {
    plan: Plan,
    now: u64,
    requests: u64,
    submissions: u64,
}

impl Bench {
    fn new(settings: Settings, done: &[RangeSummary]) -> Bench {
        let (bench, _) = Bench::with(settings, done, &[], 0);
        bench
    }

    fn with(
        settings: Settings,
        done: &[RangeSummary],
        expected: &[RangeSummary],
        sealed: u32,
    ) -> (Bench, Vec<Action>) {
        let (plan, actions) = Plan::new(settings, done, expected, sealed).unwrap();
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

    /// All layers below `layer` of a table of `bits` bits are done, and sealed.
    fn at_layer(settings: Settings, layer: u32) -> Bench {
        let heads = layers(settings.bits, settings.range_bits);
        let done = summaries(heads[..layer as usize].iter().flatten().map(|head| head.0));
        Bench::with(settings, &done, &[], layer).0
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
                answer: Answer::Task(task),
            },
        ] = actions.as_slice()
        else {
            panic!("no task: {actions:?}");
        };
        assert_eq!(request.0, self.requests);
        task.clone()
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
        self.submissions += 1;
        let submission = SubmissionId(self.submissions);
        (
            submission,
            self.tell(Event::Submitted {
                submission,
                worker,
                lease,
                ranges,
            }),
        )
    }

    /// Hands in a result that has to be written.
    fn begin_commit(&mut self, worker: WorkerId, lease: LeaseId, heads: &[u64]) -> SubmissionId {
        let (submission, actions) = self.submit(worker, lease, summaries(heads.iter().copied()));
        let layer = Head(heads[0]).layer();
        assert_eq!(
            actions,
            [Action::Commit {
                submission,
                layer,
                heads: to_heads(heads)
            }]
        );
        submission
    }

    /// Hands in a result and has it written.
    fn finish(&mut self, worker: WorkerId, task: &Task) {
        let heads: Vec<u64> = task.heads.iter().map(|head| head.0).collect();
        let submission = self.begin_commit(worker, task.lease, &heads);
        let actions = self.tell(Event::Committed { submission });
        assert!(actions.contains(&accepted(submission)), "{actions:?}");
    }
}

fn to_heads(heads: &[u64]) -> Vec<Head> {
    heads.iter().copied().map(Head).collect()
}

fn accepted(submission: SubmissionId) -> Action {
    Action::Settle {
        submission,
        verdict: Verdict::Accepted,
    }
}

fn duplicate(submission: SubmissionId) -> Action {
    Action::Settle {
        submission,
        verdict: Verdict::Duplicate,
    }
}

fn rejected(submission: SubmissionId, reason: Rejection) -> Action {
    Action::Settle {
        submission,
        verdict: Verdict::Rejected { reason },
    }
}

fn renewal(lease: LeaseId, stands: bool) -> Vec<Action> {
    vec![Action::Renewal { lease, stands }]
}
