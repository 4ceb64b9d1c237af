//! The world: it does what the plan asks for, and checks that it may be asked for.

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::rng::Rng;
use chomp_table::{Digest, Head, RangeBits};

use super::disk::{Disk, Write};
use crate::slots::Content;
use crate::{
    Action, Event, LeaseAnswer, LeaseId, Millis, ParticipantId, Past, Phase, Plan, Rejection,
    RequestId, Settings, StopReason, SubmissionId, Task, Unit, Verdict, Work, WorkerId, Written,
};

/// What a worker says at the end of a task.
#[derive(Clone, Debug)]
pub(super) enum Finding {
    /// It has evaluated these ranges.
    Units(Vec<(Unit, Content)>),
    Shard(Merged),
    /// It could not read the file of a shard, or found other words there.
    Unreadable,
    /// It could not read these records.
    Lost(Vec<(Head, Digest)>),
}

/// What a worker says of a shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merged {
    pub(super) number: u32,
    pub(super) content: Content,
    pub(super) file: Digest,
    /// Whether it has read the file that another one has written.
    pub(super) is_read: bool,
}

/// A process that computes tasks. Its id is never used again.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: WorkerId,
    /// Whether it died without a word.
    pub(super) dead: bool,
    pub(super) tasks: Vec<(Task, Finding)>,
}

/// A result on its way, or one that may be sent again.
#[derive(Clone, Debug)]
pub(super) struct TaskResult {
    pub(super) worker: WorkerId,
    pub(super) lease: LeaseId,
    pub(super) finding: Finding,
}

#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is asked for on its own"
)]
pub(super) struct Submission {
    pub(super) units: Vec<(Unit, Content)>,
    /// Whether it is what the plan should take.
    pub(super) good: bool,
    /// Whether the coordinator computed it itself.
    pub(super) own: bool,
    /// What it says of the file, if it is of a shard.
    pub(super) merged: Option<Merged>,
    pub(super) participant: Option<ParticipantId>,
    /// Whether its worker was given its lease by this coordinator.
    pub(super) leased: bool,
    /// What the plan asked to write of it.
    pub(super) written: BTreeSet<Unit>,
    /// Whether it is answered, and a vote of it waits for others.
    pub(super) noted: bool,
}

/// What the coordinator computes itself.
#[derive(Debug)]
pub(super) struct Arbitration {
    /// What it finds, or the records that it misses.
    pub(super) found: Result<Content, Vec<(Head, Digest)>>,
    pub(super) is_forged: bool,
    /// Whether nothing was lost or withdrawn since it began.
    pub(super) is_of_use: bool,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) rng: Rng,
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
    pub(super) outcomes: Vec<TaskResult>,
    /// Not yet answered.
    pub(super) requests: BTreeMap<RequestId, WorkerId>,
    /// Not yet settled, or held.
    pub(super) submissions: BTreeMap<SubmissionId, Submission>,
    pub(super) ids: u64,
    /// Leases whose task got lost on its way to the worker, which is known.
    pub(super) lost_answers: Vec<(WorkerId, LeaseId)>,
    /// How many attempts this plan was made to lose, at least.
    pub(super) losses: u32,
    /// What the coordinator computes itself just now.
    pub(super) arbitrations: BTreeMap<Unit, Arbitration>,
    /// Files of shards on their way to the disk.
    pub(super) late_files: Vec<(WorkerId, u32, Digest)>,
    /// The units about which somebody lied, and with one worker each those whose lie nobody can trace
    /// any more.
    pub(super) lies: BTreeSet<Unit>,
    pub(super) liars: BTreeSet<ParticipantId>,
    /// The leases that this coordinator gave, and to whom.
    pub(super) given: BTreeMap<LeaseId, WorkerId>,
    /// Whether a wrong content was durable some time: then what honest workers find may be wrong.
    pub(super) lie_got_in: bool,
}

impl World {
    pub(super) fn new(mut rng: Rng) -> World {
        let range_bits = RangeBits::new(12).unwrap();
        let sizes = [13, 14, 14, 15, 15, 15, 16, 17];
        let size = sizes[rng.index(sizes.len()).unwrap()];
        let settings = Settings {
            lease_ms: 100,
            silence_ms: 200 + rng.below(400),
            straggler_ms: 20 + rng.below(200),
            failures_max: 2 + u32::try_from(rng.below(6)).unwrap(),
            expiries_max: 2 + u32::try_from(rng.below(12)).unwrap(),
            replicas: 1 + u32::try_from(rng.below(3)).unwrap(),
            task_positions_max: rng.below(6) * range_bits.positions(),
            task_positions_min: rng.below(4) * range_bits.positions(),
            tasks_per_thread: u32::try_from(rng.below(3)).unwrap(),
            shard_words: 1 + rng.below(30),
            draw_one_in: u32::try_from(rng.below(4)).unwrap(),
            draw_own_one_in: u32::try_from(rng.below(4)).unwrap(),
            newcomer_results: u32::try_from(rng.below(3)).unwrap(),
            key: rng.below(u64::MAX),
            ..Settings::new(size, range_bits)
        };
        let disk = Disk::new(&settings);
        let (plan, actions) = Plan::new(settings.clone(), &Past::default()).unwrap();
        assert_eq!(actions, []);
        let recounts = rng.once_in(3);
        World {
            rng,
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
            arbitrations: BTreeMap::new(),
            late_files: Vec::new(),
            lies: BTreeSet::new(),
            liars: BTreeSet::new(),
            given: BTreeMap::new(),
            lie_got_in: false,
        }
    }

    /// All ranges are done, and a coordinator begins with that.
    pub(super) fn do_ranges(&mut self) {
        for &head in self.disk.layers.iter().flatten() {
            self.disk.ranges.insert(head, crate::tests::summary(head.0));
        }
        self.restart();
    }

    /// The coordinator is gone, and another one starts from what is on the disk.
    pub(super) fn restart(&mut self) {
        self.disk.crash(&mut self.rng);
        self.disk.read.clear();
        self.arbitrations.clear();
        self.late_files.clear();
        self.requests.clear();
        self.submissions.clear();
        self.lost_answers.clear();
        self.given.clear();
        self.stopped = None;
        self.losses = 0;
        // The workers have to join anew; what they were at may still be handed in.
        for process in std::mem::take(&mut self.processes) {
            self.keep_outcomes(process);
        }
        self.settings.epoch += 1;
        if !self.disk.withdrawn.is_empty() {
            self.settings.oldest_lease = self.settings.epoch << 32;
        }
        // A plan that starts anew does not know what was in doubt, or was computed from what was
        // withdrawn.
        for (head, range) in &self.disk.ranges {
            if *range != crate::tests::summary(head.0) {
                self.lies.insert(Unit::Range(*head));
            }
        }
        let past = self.disk.past();
        let (plan, actions) = Plan::new(self.settings.clone(), &past).unwrap();
        for (outcast, _) in &past.outcasts {
            assert!(plan.quarantine_reason(plan.some_worker(*outcast)).is_some());
        }
        self.plan = plan;
        self.perform(actions);
        assert_eq!(
            self.plan.progress().ranges_resumed,
            past.ranges.len() as u64
        );
        if self.disk.is_complete() {
            let is_done = |number: &&u32| !self.disk.is_doubted(Unit::Shard(**number));
            let done = self.disk.shards.keys().filter(is_done).count();
            assert_eq!(self.plan.progress().shards_done, done as u64);
        }
    }

    /// What a process that is gone had computed may still be sent.
    pub(super) fn keep_outcomes(&mut self, process: Process) {
        for (task, finding) in process.tasks {
            self.outcomes.push(TaskResult {
                worker: process.id,
                lease: task.lease,
                finding,
            });
        }
    }

    /// Tells the plan something, and does what it asks for.
    pub(super) fn tell(&mut self, event: Event) {
        let renewed = match &event {
            Event::Renewed { worker, leases } => Some((*worker, leases.clone())),
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
            Action::Renewal { worker, .. } => Some(*worker),
            _ => None,
        });
        let workers = renewed.iter().map(|(worker, _)| *worker);
        assert!(renewals.eq(workers), "each renewal is answered at once");
        if let (Some((_, leases)), Some(Action::Renewal { lost, .. })) = (renewed, actions.first())
        {
            self.check_renewal(&leases, lost);
        }
        self.perform(actions);
        self.check_progress();
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Answer { request, answer } => self.answered(request, answer),
                Action::Renewal { .. } => {}
                Action::Settle {
                    submission,
                    verdict,
                } => self.settled(submission, verdict),
                Action::Commit { submission, units } => self.commit(submission, &units),
                Action::Confirmed { head, finders } => {
                    let known = self.disk.content(Unit::Range(head));
                    let found = self.disk.compute(Unit::Range(head));
                    // What it was computed from may be lost by now.
                    let is_same = found.is_err() || found.ok() == known;
                    assert!(is_same || self.lie_got_in, "a lie is confirmed");
                    let finders = finders.into_iter().collect();
                    self.disk
                        .under_way
                        .push_back(Write::Confirm { head, finders });
                }
                Action::Lose { head } => {
                    self.uncut();
                    self.disk.under_way.push_back(Write::Lose { head });
                }
                Action::Withdraw { heads } => {
                    self.uncut();
                    self.disk.under_way.push_back(Write::Withdraw { heads });
                }
                Action::Forget { submission } => {
                    let forgotten = self.submissions.remove(&submission).unwrap();
                    assert!(forgotten.noted || forgotten.own && forgotten.written.is_empty());
                }
                Action::Arbitrate { unit, vote } => {
                    self.check_may_begin();
                    self.disk.check_may_be_computed(unit);
                    let found = self.disk.compute(unit);
                    let is_forged = matches!((unit, &found), (Unit::Shard(number), Ok(right))
                        if self.is_forged(number, vote, *right));
                    let arbitration = Arbitration {
                        found,
                        is_forged,
                        is_of_use: true,
                    };
                    let before = self.arbitrations.insert(unit, arbitration);
                    assert!(before.is_none(), "{unit} is computed twice");
                }
                Action::Quarantine { worker, reason, .. } => {
                    assert!(
                        self.liars.contains(&worker.participant),
                        "{worker} never lied"
                    );
                    self.disk.under_way.push_back(Write::FoundOut {
                        participant: worker.participant,
                        reason: reason.to_string(),
                    });
                    let gone = self.processes.iter().map(|process| process.id);
                    let gone = gone.filter(|id| self.plan.quarantine_reason(*id).is_some());
                    for id in gone.collect::<Vec<_>>() {
                        self.evict(id);
                    }
                }
                Action::Publish { unread } => {
                    assert_eq!(self.in_doubt().next(), None, "published in doubt");
                    self.check_may_begin();
                    self.disk.begin_publish(unread);
                }
                Action::Stop { reason } => {
                    assert_eq!(self.stopped, None, "stopped twice");
                    self.check_stop(&reason);
                    self.stopped = Some(reason);
                }
            }
        }
    }

    /// The table is not cut any more. No file of a shard comes later than that.
    fn uncut(&mut self) {
        self.disk.read.clear();
        self.late_files.clear();
        for arbitration in self.arbitrations.values_mut() {
            arbitration.is_of_use = false;
        }
    }

    /// Whether the file of a shard that this vote speaks of, or the journal, is there and has other words.
    fn is_forged(&self, number: u32, vote: Option<SubmissionId>, right: Content) -> bool {
        let of_journal = self.disk.said.get(&number).copied();
        let said = vote.map_or(of_journal, |vote| {
            Some(self.submissions[&vote].merged?.file)
        });
        let file = self.disk.files.get(&number).copied();
        file.is_some() && file == said && file != Some(right.digest)
    }

    /// What the coordinator computes, and has to be known before the table is published.
    fn in_doubt(&self) -> impl Iterator<Item = Unit> {
        let of_use = self.arbitrations.iter().filter(|(_, one)| one.is_of_use);
        of_use.map(|(unit, _)| *unit)
    }

    fn answered(&mut self, request: RequestId, answer: LeaseAnswer) {
        let worker = self
            .requests
            .remove(&request)
            .expect("each request is answered once");
        match answer {
            LeaseAnswer::Task(task) => {
                self.check_may_begin();
                let finding = self.find(worker, &task);
                assert!(task.attempt >= 1);
                self.given.insert(task.lease, worker);
                if self.rng.once_in(12) {
                    self.lost_answers.push((worker, task.lease));
                } else if let Some(process) = self.process(worker) {
                    process.tasks.push((task, finding));
                }
            }
            LeaseAnswer::Finished => assert!(self.disk.published),
            LeaseAnswer::Stopped { reason } => {
                assert_eq!(self.stopped.clone().unwrap_or(StopReason::Shutdown), reason);
                assert_eq!(*self.plan.phase(), Phase::Stopped(reason));
            }
            LeaseAnswer::NotJoined => self.evict(worker),
            LeaseAnswer::Quarantined { .. } => {
                assert!(self.plan.quarantine_reason(worker).is_some());
                self.evict(worker);
            }
        }
    }

    /// What comes of a task, which has to be one that may be given.
    fn find(&mut self, worker: WorkerId, task: &Task) -> Finding {
        let units: Vec<Unit> = task.work.units().collect();
        match &task.work {
            Work::Merge {
                shard, head, skip, ..
            } => {
                let is_range = |unit| matches!(unit, Unit::Range(_));
                assert!(!self.in_doubt().any(is_range), "merged in doubt");
                self.disk.check_shard(*shard, *head, *skip);
            }
            Work::Evaluate { layer, heads } => {
                assert!(heads.is_sorted_by(|a, b| a < b));
                assert!(heads.iter().all(|head| head.layer() == *layer));
                let positions = heads.len() as u64 * self.settings.range_bits.positions();
                let too_large = positions > self.settings.task_positions_max;
                assert!(!too_large || heads.len() == 1);
            }
        }
        let mut found = Vec::new();
        for unit in units {
            self.disk.check_may_be_computed(unit);
            if !self.disk.is_doubted(unit) {
                self.disk.check_is_missing(unit);
            }
            match self.disk.compute(unit) {
                Ok(content) => found.push((unit, content)),
                Err(lost) => return Finding::Lost(lost),
            }
        }
        match task.work {
            Work::Merge { shard, written, .. } => self.merge(worker, shard, found[0].1, written),
            Work::Evaluate { .. } => Finding::Units(found),
        }
    }

    /// What comes of a merge, whose right content is this.
    fn merge(
        &self,
        worker: WorkerId,
        number: u32,
        right: Content,
        written: Option<Written>,
    ) -> Finding {
        let Some(Written { submission, is_own }) = written else {
            return Finding::Shard(Merged {
                number,
                content: right,
                file: right.digest,
                is_read: false,
            });
        };
        let first = &self.submissions[&submission];
        assert_eq!(is_own, first.participant == Some(worker.participant));
        let said = first.merged.expect("it is about a shard");
        assert_eq!(said.number, number);
        let is_there = self.disk.files.get(&number) == Some(&said.file);
        if !is_there || !is_own && said.file != right.digest {
            return Finding::Unreadable;
        }
        let content = if is_own { said.content } else { right };
        Finding::Shard(Merged {
            content,
            is_read: true,
            ..said
        })
    }

    fn settled(&mut self, submission: SubmissionId, verdict: Verdict) {
        let mut settled = self
            .submissions
            .remove(&submission)
            .expect("each is settled once");
        assert!(!settled.noted, "each is settled once");
        if !matches!(verdict, Verdict::Rejected { .. }) {
            let read = settled.merged.filter(|merged| merged.is_read);
            self.disk.read.extend(read.map(|merged| merged.number));
        }
        match verdict {
            Verdict::Accepted | Verdict::Duplicate => {
                let is_written = !settled.written.is_empty();
                assert!(!is_written || verdict == Verdict::Accepted);
                assert!(settled.good, "rubbish was taken: {:?}", settled.units);
                for &(unit, content) in &settled.units {
                    let durable = self.disk.content(unit) == Some(content);
                    let withdrawn = !self.disk.holds(unit);
                    assert!(durable || withdrawn, "not durable");
                }
            }
            Verdict::Noted => {
                // What was lost the coordinator may be at.
                let is_lost = self.losses > 0;
                let doubt = is_lost || self.settings.replicas > 1 || !self.lies.is_empty();
                assert!(settled.good && (doubt || self.are_drawn() || settled.merged.is_some()));
                settled.noted = true;
                self.submissions.insert(submission, settled);
            }
            Verdict::Rejected {
                reason: Rejection::Stopped,
            } => {
                // The settling may come just before the action that says why.
                assert!(matches!(self.plan.phase(), Phase::Stopped(_)));
            }
            Verdict::Rejected { reason } => self.check_rejection(&settled, &reason),
        }
    }

    fn are_drawn(&self) -> bool {
        let Settings {
            draw_one_in,
            draw_own_one_in,
            ..
        } = self.settings;
        draw_one_in.max(draw_own_one_in) > 0
    }

    /// A worker is not known to the plan any more, and learns it.
    pub(super) fn evict(&mut self, worker: WorkerId) {
        let is_it = |process: &Process| process.id == worker;
        if let Some(index) = self.processes.iter().position(is_it) {
            let process = self.processes.swap_remove(index);
            self.keep_outcomes(process);
        }
    }

    pub(super) fn process(&mut self, id: WorkerId) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.id == id)
    }
}
