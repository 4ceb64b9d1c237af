//! Each rule of the plan, one at a time.

use chomp_table::RangeSummary;
use chomp_table::{Head, RangeBits, head};

use super::*;
use chomp_table::Digest;

mod actions;
mod arbitration;
mod healing;
mod leases;
mod participants;
mod patience;
mod replicas;
mod scheduling;
mod settling;
mod storing;
mod votes;

use actions::*;

const OWNER: WorkerId = WorkerId {
    participant: ParticipantId::OWNER,
    number: 0,
};
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
        draw_one_in: 0,
        draw_own_one_in: 0,
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

/// Every range is drawn.
fn all_drawn(bits: u32) -> Settings {
    Settings {
        draw_one_in: 1,
        draw_own_one_in: 1,
        ..settings(bits)
    }
}

/// Two participants have to find the same.
fn two_replicas(bits: u32) -> Settings {
    Settings {
        replicas: 2,
        ..settings(bits)
    }
}

/// The table is cut into shards of `shard_words` words.
fn shards_of(shard_words: u64, bits: u32) -> Settings {
    Settings {
        shard_words,
        ..settings(bits)
    }
}

/// Leases are slow after `straggler_ms`.
fn slow_after(straggler_ms: u64, bits: u32) -> Settings {
    Settings {
        straggler_ms,
        ..settings(bits)
    }
}

/// The task of the only action.
fn only_task(actions: &[Action]) -> &Task {
    assert_eq!(actions.len(), 1, "{actions:?}");
    given(&actions[0])
}

/// The task that an action gives.
fn given(action: &Action) -> &Task {
    task_of(action).unwrap_or_else(|| panic!("no task: {action:?}"))
}

fn task_of(action: &Action) -> Option<&Task> {
    match action {
        Action::Answer {
            answer: LeaseAnswer::Task(task),
            ..
        } => Some(task),
        _ => None,
    }
}

/// The first task that actions give, if they give one.
fn some_task(actions: &[Action]) -> Option<Task> {
    actions.iter().find_map(task_of).cloned()
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
        let (bench, actions) = Bench::resumed(settings, &past(done.to_vec(), &[]));
        assert_eq!(actions, []);
        bench
    }

    fn resumed(settings: Settings, past: &Past) -> (Bench, Vec<Action>) {
        let (plan, actions) = Plan::new(settings, past).unwrap();
        plan.check_invariants();
        let bench = Bench {
            plan,
            now: 0,
            requests: 0,
            submissions: 0,
        };
        (bench, actions)
    }

    fn with_shards(
        settings: Settings,
        done: &[RangeSummary],
        shards: &[(u32, Digest)],
    ) -> (Bench, Vec<Action>) {
        let past = Past {
            shards: shards.to_vec(),
            ..past(done.to_vec(), &[])
        };
        Bench::resumed(settings, &past)
    }

    /// The ranges of 14 bits are done, and no shard.
    fn to_merge(settings: Settings) -> Bench {
        Bench::new(settings, &summaries(0..4))
    }

    /// All layers below `layer` of a table of `bits` bits are done.
    fn at_layer(settings: Settings, layer: u32) -> Bench {
        let heads = head::layers(settings.size, settings.range_bits);
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

    /// Joins workers of one thread each.
    fn join_all(&mut self, workers: &[WorkerId]) {
        for &worker in workers {
            self.join(worker, 1);
        }
    }

    fn leave(&mut self, worker: WorkerId) -> Vec<Action> {
        self.tell(Event::Left { worker })
    }

    fn is_out(&self, worker: WorkerId) -> bool {
        self.plan.quarantine_reason(worker).is_some()
    }

    fn revoke(&mut self, participant: ParticipantId) -> Vec<Action> {
        self.tell(Event::Revoked { participant })
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
        let task = only_task(&actions).clone();
        let answer = LeaseAnswer::Task(task.clone());
        assert_eq!(actions, [answered(self.requests, answer)]);
        task
    }

    fn renew(&mut self, worker: WorkerId, lease: LeaseId) -> Vec<Action> {
        let leases = vec![lease];
        self.tell(Event::Renewed { worker, leases })
    }

    fn give_back(&mut self, worker: WorkerId, lease: LeaseId) -> Vec<Action> {
        self.tell(Event::Returned { worker, lease })
    }

    fn fail(&mut self, worker: WorkerId, lease: LeaseId) -> Vec<Action> {
        self.tell(Event::Failed {
            worker,
            lease,
            reason: "no memory".to_owned(),
        })
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
        if self.plan.work_of(worker, lease).is_none() {
            let written = None;
            let work = Work::Merge {
                shard,
                head,
                skip,
                written,
            };
            self.plan.pretend_leased(worker, lease, work);
        }
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

    /// The record of a range is lost.
    fn lose(&mut self, head: u64) -> Vec<Action> {
        let RangeSummary { head, digest, .. } = summary(head);
        let worker = A;
        self.tell(Event::Lost {
            worker,
            head,
            digest,
        })
    }

    /// The coordinator has evaluated a range itself.
    fn arbitrate(&mut self, range: RangeSummary) -> (SubmissionId, Vec<Action>) {
        self.arbitrated(Unit::Range(range.head), Some(range), range.digest, false)
    }

    /// The coordinator has merged a shard itself.
    fn arbitrate_shard(&mut self, shard: u32, is_forged: bool) -> (SubmissionId, Vec<Action>) {
        self.arbitrated(Unit::Shard(shard), None, shard_digest(shard), is_forged)
    }

    fn arbitrated(
        &mut self,
        unit: Unit,
        range: Option<RangeSummary>,
        digest: Digest,
        is_forged: bool,
    ) -> (SubmissionId, Vec<Action>) {
        let submission = self.new_submission();
        let event = Event::Arbitrated {
            submission,
            unit,
            range,
            digest,
            is_forged,
        };
        (submission, self.tell(event))
    }

    /// The coordinator cannot compute a unit itself.
    fn fail_arbitration(&mut self, unit: Unit, reason: &str) -> Vec<Action> {
        let reason = reason.to_owned();
        self.tell(Event::ArbitrationFailed { unit, reason })
    }

    /// A result could not be written.
    fn fail_commit(&mut self, submission: SubmissionId) -> Vec<Action> {
        let reason = "disk full".to_owned();
        self.tell(Event::CommitFailed { submission, reason })
    }

    /// Hands in a result after which something is written: this result, or the first that found the same.
    fn begin_commit(&mut self, worker: WorkerId, lease: LeaseId, heads: &[u64]) -> SubmissionId {
        let (submission, actions) = self.submit(worker, lease, summaries(heads.iter().copied()));
        let commit = actions.iter().find_map(|action| match action {
            Action::Commit { submission, units } => Some((*submission, units)),
            _ => None,
        });
        let (written, units) = commit.unwrap_or_else(|| panic!("{submission}: {actions:?}"));
        assert!(
            units
                .iter()
                .map(|one| one.unit)
                .eq(heads.iter().map(|&head| range(head)))
        );
        // Units that the coordinator computed have no finders.
        let found =
            |one: &AgreedUnit| one.finders.is_empty() || one.finders.contains(&worker.participant);
        assert!(units.iter().all(found));
        written
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
        work @ Work::Merge { .. } => panic!("no evaluation: {work:?}"),
    }
}

fn to_heads(heads: &[u64]) -> Vec<Head> {
    heads.iter().copied().map(Head).collect()
}

/// What an earlier coordinator left: ranges, and who found what.
fn past(ranges: Vec<RangeSummary>, found: &[(Unit, Found)]) -> Past {
    Past {
        ranges,
        found: found.iter().cloned().collect(),
        ..Past::default()
    }
}

/// A settled unit with its finders and needed votes.
fn found(unit: Unit, finders: &[WorkerId], needed: u32) -> (Unit, Found) {
    let finders = finders.iter().map(|worker| worker.participant).collect();
    (unit, Found { finders, needed })
}

/// The first ranges of layer 12 of a table of 20 bits.
fn of_layer_12(count: usize) -> Vec<u64> {
    let layers = head::layers(20, settings(20).range_bits);
    layers[12][..count].iter().map(|head| head.0).collect()
}

fn range(head: u64) -> Unit {
    Unit::Range(Head(head))
}
