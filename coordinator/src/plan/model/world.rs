//! The world: it does what the plan asks for, and checks that it may be asked for.

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::{Head, RangeBits};

use super::disk::{Disk, Write};
use crate::chance::Chance;
use crate::plan::tests::summary;
use crate::plan::{
    Action, Answer, Event, LeaseId, Loss, Millis, Misdeed, Phase, Plan, Rejection, RequestId,
    Settings, StopReason, SubmissionId, Task, Verdict, WorkerId,
};
use chomp_table::RangeSummary;

/// A process that computes tasks. Its id is never used again.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: WorkerId,
    /// Whether it died without a word.
    pub(super) dead: bool,
    pub(super) tasks: Vec<Task>,
}

/// A result on its way, or one that may be sent again.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) worker: WorkerId,
    pub(super) lease: LeaseId,
    pub(super) ranges: Vec<RangeSummary>,
}

#[derive(Debug)]
pub(super) struct Submission {
    pub(super) ranges: Vec<RangeSummary>,
    /// Whether it is what the plan should take.
    pub(super) good: bool,
    /// Whether the coordinator evaluated it itself.
    pub(super) own: bool,
    /// Whether the plan asked for a write of it.
    pub(super) written: bool,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) chance: Chance,
    pub(super) settings: Settings,
    /// Whether the plan's own invariants are checked, which takes most of the time.
    recounts: bool,
    pub(super) now: u64,
    pub(super) disk: Disk,
    pub(super) plan: Plan,
    /// The reason that this plan gave for stopping.
    pub(super) stopped: Option<StopReason>,
    /// Those that the plan knows first, the others after.
    pub(super) processes: Vec<Process>,
    pub(super) outcomes: Vec<Outcome>,
    /// Not yet answered.
    pub(super) requests: BTreeMap<RequestId, WorkerId>,
    /// Not yet settled.
    pub(super) submissions: BTreeMap<SubmissionId, Submission>,
    pub(super) ids: u64,
    /// Leases whose task got lost on its way to the worker, which is known.
    pub(super) lost_answers: Vec<(WorkerId, LeaseId)>,
    /// How many attempts this plan was made to lose, at least.
    pub(super) losses: u32,
    /// What the coordinator evaluates itself just now.
    pub(super) evaluation: Option<Head>,
    /// The ranges about which somebody lied; one worker each at the most.
    pub(super) lies: BTreeSet<Head>,
    pub(super) liars: BTreeSet<WorkerId>,
}

impl World {
    pub(super) fn new(mut chance: Chance) -> World {
        let bits = [13, 14, 14, 15, 15, 15, 16, 17];
        let range_bits = RangeBits::new(12).unwrap();
        let bits = bits[chance.index(bits.len()).unwrap()];
        let settings = Settings {
            lease_ms: 100,
            silence_ms: 200 + chance.below(400),
            straggler_ms: 20 + chance.below(200),
            failures_max: 2 + u32::try_from(chance.below(6)).unwrap(),
            expiries_max: 2 + u32::try_from(chance.below(12)).unwrap(),
            worker_failures_max: 3 + u32::try_from(chance.below(6)).unwrap(),
            replicas: 1 + u32::try_from(chance.below(3)).unwrap(),
            task_positions_max: chance.below(6) * range_bits.positions(),
            task_positions_min: chance.below(4) * range_bits.positions(),
            tasks_per_thread: u32::try_from(chance.below(3)).unwrap(),
            ..Settings::new(bits, range_bits)
        };
        let disk = Disk::new(&settings);
        let (plan, actions) = Plan::new(settings.clone(), &[], &[], 0).unwrap();
        assert_eq!(actions, []);
        let recounts = chance.once_in(3);
        World {
            chance,
            settings,
            recounts,
            now: 0,
            disk,
            plan,
            stopped: None,
            processes: Vec::new(),
            outcomes: Vec::new(),
            requests: BTreeMap::new(),
            submissions: BTreeMap::new(),
            ids: 0,
            lost_answers: Vec::new(),
            losses: 0,
            evaluation: None,
            lies: BTreeSet::new(),
            liars: BTreeSet::new(),
        }
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// The coordinator is gone, and another one starts from what is on the disk.
    pub(super) fn restart(&mut self) {
        self.disk.crash(&mut self.chance);
        if self.chance.once_in(6) {
            // A part was found damaged, and removed.
            let heads: Vec<Head> = self.disk.ranges.keys().copied().collect();
            if let Some(index) = self.chance.index(heads.len()) {
                self.disk.ranges.remove(&heads[index]);
            }
        }
        self.evaluation = None;
        self.requests.clear();
        self.submissions.clear();
        self.lost_answers.clear();
        self.stopped = None;
        self.losses = 0;
        // The workers have to join anew; what they were at may still be handed in.
        for process in std::mem::take(&mut self.processes) {
            for task in process.tasks {
                self.outcomes.push(super::steps::outcome(process.id, &task));
            }
        }
        self.settings.epoch += 1;
        let (done, expected) = self.disk.read(&mut self.chance);
        let (plan, actions) =
            Plan::new(self.settings.clone(), &done, &expected, self.disk.seals).unwrap();
        self.plan = plan;
        self.perform(actions);
        assert_eq!(self.plan.progress().ranges_resumed, done.len() as u64);
    }

    /// Tells the plan something, and does what it asks for.
    pub(super) fn tell(&mut self, event: Event) {
        let renewed = match &event {
            Event::Renewed { lease, .. } => Some(*lease),
            _ => None,
        };
        let is_tick = event == Event::Tick;
        let actions = self.plan.handle(Millis(self.now), event);
        if is_tick {
            // The requests of those that were forgotten are not answered.
            let answered = |id: &RequestId| {
                let is_answer = |action: &Action| matches!(action, Action::Answer { request, .. } if request == id);
                actions.iter().any(is_answer)
            };
            let plan = &self.plan;
            self.requests
                .retain(|id, worker| plan.is_there(*worker) || answered(id));
        }
        if self.recounts {
            self.plan.check_invariants();
        }
        let renewals = actions.iter().filter_map(|action| match action {
            Action::Renewal { lease, .. } => Some(*lease),
            _ => None,
        });
        assert!(renewals.eq(renewed), "each renewal is answered at once");
        self.perform(actions);
        self.check_progress();
    }

    fn check_progress(&self) {
        let progress = self.plan.progress();
        assert_eq!(progress.submissions, self.submissions.len() as u64);
        assert!(
            progress.ranges_done <= self.disk.ranges.len() as u64,
            "done but not durable"
        );
        if *self.plan.phase() != Phase::Running {
            assert!(self.requests.is_empty(), "a request waits for nothing");
        }
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Answer { request, answer } => self.answered(request, answer),
                Action::Renewal { lease, stands } => self.renewal(lease, stands),
                Action::Settle {
                    submission,
                    verdict,
                } => self.settled(submission, verdict),
                Action::Commit {
                    submission,
                    layer,
                    heads,
                } => self.commit(submission, layer, &heads),
                Action::Forget { submission } => {
                    let forgotten = self.submissions.remove(&submission).unwrap();
                    assert!(forgotten.own && !forgotten.written);
                }
                Action::Evaluate { head } => {
                    self.check_may_begin();
                    self.disk.check_may_be_evaluated(head);
                    assert_eq!(self.evaluation.replace(head), None, "one at a time");
                }
                Action::Quarantine { worker, reason, .. } => match reason {
                    Misdeed::Lied { .. } => {
                        assert!(self.liars.contains(&worker), "{worker} never lied");
                        self.evict(worker);
                    }
                    Misdeed::Failing { tasks, .. } => {
                        assert_eq!(tasks, self.settings.worker_failures_max);
                        self.evict(worker);
                    }
                },
                Action::Seal { layer, ranges } => {
                    assert_eq!(self.evaluation, None, "sealed before it is found out");
                    self.check_may_begin();
                    self.disk.begin_seal(layer, &ranges);
                }
                Action::Publish => {
                    assert_eq!(self.evaluation, None, "published before it is found out");
                    self.check_may_begin();
                    self.disk.begin_publish();
                }
                Action::Stop { reason } => {
                    assert_eq!(self.stopped, None, "stopped twice");
                    self.check_stop(&reason);
                    self.stopped = Some(reason);
                }
            }
        }
    }

    fn check_may_begin(&self) {
        assert_eq!(*self.plan.phase(), Phase::Running);
        assert_eq!(self.stopped, None);
    }

    fn check_stop(&self, reason: &StopReason) {
        match reason {
            StopReason::GaveUp { attempts, last, .. } => {
                let most = match last {
                    Loss::Expired { .. } => self.settings.expiries_max,
                    Loss::Failed { .. } | Loss::Rejected { .. } => self.settings.failures_max,
                };
                assert_eq!(*attempts, most);
                assert!(
                    self.losses >= *attempts,
                    "gave up after {} losses",
                    self.losses
                );
            }
            StopReason::Wrong { head, .. } => {
                assert!(self.settings.replicas == 1, "one worker alone got a lie in");
                assert!(self.lies.contains(head), "nobody lied about range {head}");
            }
            StopReason::EvaluationFailed { reason, .. } => assert_eq!(reason, "no memory"),
            StopReason::Unreadable { .. } => panic!("everything can be read"),
            StopReason::Shutdown => panic!("a shutdown is no fault"),
            StopReason::CommitFailed { reason }
            | StopReason::SealFailed { reason, .. }
            | StopReason::PublishFailed { reason } => assert_eq!(reason, "disk full"),
        }
    }

    fn answered(&mut self, request: RequestId, answer: Answer) {
        let worker = self
            .requests
            .remove(&request)
            .expect("each request is answered once");
        match answer {
            Answer::Task(task) => {
                self.check_may_begin();
                self.disk.check_may_be_made(task.layer, &task.heads);
                assert!(task.heads.is_sorted_by(|a, b| a < b));
                let positions = task.heads.len() as u64 * self.settings.range_bits.positions();
                let too_large = positions > self.settings.task_positions_max;
                assert!(!too_large || task.heads.len() == 1);
                let most = self.settings.failures_max + self.settings.expiries_max;
                assert!((1..=most).contains(&task.attempt));
                if self.chance.once_in(12) {
                    self.lost_answers.push((worker, task.lease));
                } else if let Some(process) = self.process(worker) {
                    process.tasks.push(task);
                }
            }
            Answer::Finished => assert!(self.disk.published),
            Answer::Stopped { reason } => {
                assert_eq!(self.stopped.clone().unwrap_or(StopReason::Shutdown), reason);
                assert_eq!(*self.plan.phase(), Phase::Stopped(reason));
            }
            Answer::NotJoined => self.evict(worker),
            Answer::Quarantined { .. } => {
                assert!(self.plan.misdeed(worker).is_some());
                self.evict(worker);
            }
        }
    }

    fn renewal(&mut self, lease: LeaseId, stands: bool) {
        let tasks = self.processes.iter().flat_map(|process| &process.tasks);
        let task = tasks
            .clone()
            .find(|task| task.lease == lease)
            .expect("someone renewed it");
        let is_useful = task.heads.iter().any(|&head| !self.disk.holds(head));
        assert!(!stands || (is_useful && self.stopped.is_none()));
    }

    fn commit(&mut self, submission: SubmissionId, layer: u32, heads: &[Head]) {
        assert_eq!(self.stopped, None, "a write begun after a fault");
        let entry = self
            .submissions
            .get_mut(&submission)
            .expect("it is not settled");
        assert!(!entry.written && entry.good);
        entry.written = true;
        let chosen = |head: &Head| {
            entry
                .ranges
                .iter()
                .find(|range| range.head == *head)
                .copied()
        };
        let ranges: Vec<_> = heads
            .iter()
            .map(|head| chosen(head).expect("a range of it"))
            .collect();
        for range in &ranges {
            let lied = self.settings.replicas == 1 && self.lies.contains(&range.head);
            assert!(lied || *range == summary(range.head.0), "a lie gets in");
        }
        self.disk.begin_commit(submission, layer, ranges);
    }

    fn settled(&mut self, submission: SubmissionId, verdict: Verdict) {
        let settled = self
            .submissions
            .remove(&submission)
            .expect("each is settled once");
        match verdict {
            Verdict::Accepted | Verdict::Duplicate => {
                assert_eq!(settled.written, verdict == Verdict::Accepted);
                assert!(settled.good, "rubbish was taken: {:?}", settled.ranges);
                for range in &settled.ranges {
                    let durable = self.disk.ranges.get(&range.head);
                    assert_eq!(durable, Some(range), "not durable");
                }
            }
            Verdict::Noted => {
                assert!(self.settings.replicas > 1 || !self.lies.is_empty());
            }
            Verdict::Rejected {
                reason: Rejection::Stopped,
            } => {
                // The settling may come just before the action that says why.
                assert!(matches!(self.plan.phase(), Phase::Stopped(_)));
            }
            Verdict::Rejected { reason } => {
                assert!(!settled.written);
                let known = |range: &RangeSummary| {
                    self.disk.holds(range.head) || self.disk.is_being_written(range.head)
                };
                let early = matches!(reason, Rejection::NotReady { .. });
                let refused =
                    matches!(reason, Rejection::NotJoined | Rejection::Quarantined { .. });
                // Where a lie was kept, the truth is questioned.
                let doubted =
                    matches!(reason, Rejection::Disagreement { head } if self.lies.contains(&head));
                assert!(
                    !settled.good
                        || refused
                        || doubted
                        || early && !settled.ranges.iter().all(known),
                    "{reason}"
                );
            }
        }
    }

    /// A worker is not known to the plan any more, and learns it.
    fn evict(&mut self, worker: WorkerId) {
        if let Some(index) = self
            .processes
            .iter()
            .position(|process| process.id == worker)
        {
            let process = self.processes.swap_remove(index);
            let outcomes = process
                .tasks
                .iter()
                .map(|task| super::steps::outcome(worker, task));
            self.outcomes.extend(outcomes);
        }
    }

    /// The coordinator has evaluated what it was to find out.
    pub(super) fn evaluated(&mut self, fails: bool) {
        let Some(head) = self.evaluation.take() else {
            return;
        };
        if fails {
            let reason = "no memory".to_owned();
            self.tell(Event::EvaluationFailed { head, reason });
            return;
        }
        let submission = SubmissionId(self.new_id());
        let range = summary(head.0);
        let entry = Submission {
            ranges: vec![range],
            good: true,
            own: true,
            written: false,
        };
        self.submissions.insert(submission, entry);
        self.tell(Event::Evaluated { submission, range });
    }

    pub(super) fn process(&mut self, id: WorkerId) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.id == id)
    }

    /// A write ends well: it takes effect, and the plan is told.
    pub(super) fn write_ends(&mut self, index: usize) {
        let write = self.disk.under_way.remove(index);
        self.disk.perform(&write);
        self.tell(match write {
            Write::Commit { submission, .. } => Event::Committed { submission },
            Write::Seal { layer } => Event::Sealed { layer },
            Write::Publish => Event::Published,
        });
    }

    /// A write fails. It may have taken effect all the same.
    pub(super) fn write_fails(&mut self, index: usize) {
        let write = self.disk.under_way.remove(index);
        if self.chance.once_in(2) {
            self.disk.perform(&write);
        }
        let reason = "disk full".to_owned();
        self.tell(match write {
            Write::Commit { submission, .. } => Event::CommitFailed { submission, reason },
            Write::Seal { layer } => Event::SealFailed { layer, reason },
            Write::Publish => Event::PublishFailed { reason },
        });
        assert!(self.stopped.is_some(), "a failed write stops the job");
    }
}
