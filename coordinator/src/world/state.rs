//! The world: a storage, whoever coordinates on it, and what its workers hold.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use chomp_plan::{
    Action, Event, LeaseAnswer, Phase, Settings, Task, Unit, Verdict, Work, WorkerId,
};
use chomp_store::Key;
use chomp_store::objects::SimulatedStorage;
use chomp_table::rng::Rng;
use chomp_table::sources::sources;
use chomp_table::{Digest, Head};

use super::Seen;
use super::coordinator::{Coordinator, Heard, TaskResult};
use super::expected::{BITS_MAX, BITS_MIN, Expected, SHARD_WORDS};
use super::watch::Harm;
use crate::effects::Effect;
use crate::testing::range_bits;

/// Which bad things may happen in a schedule.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Perils {
    /// Workers may send wrong contents.
    pub(super) lies: bool,
    /// Parts and shards may be damaged or lost.
    pub(super) damage: bool,
    /// Answers get lost, and results are in part.
    pub(super) chaos: bool,
}

/// A process that does tasks. Its id is never used again.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: WorkerId,
    /// Whether it died without a word.
    pub(super) is_dead: bool,
    pub(super) tasks: Vec<Task>,
}

/// Why a worker has no result.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A record of the journal is lost.
    Lost(Head, Digest),
    /// A shard is not what was said of it.
    Unreadable,
    /// The storage fails, or the journal has gone on.
    Other,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) perils: Perils,
    pub(super) harm: Harm,
    pub(super) expected: &'static Expected,
    /// The bits of this job are these; the table may be extended on the way to the last ones.
    pub(super) settings: Settings,
    pub(super) last_bits: u32,
    pub(super) storage: Arc<SimulatedStorage>,
    pub(super) coordinator: Option<Coordinator>,
    /// One that does not know yet that another one has taken over.
    pub(super) overtaken: Option<Coordinator>,
    pub(super) now: u64,
    ids: u64,
    pub(super) processes: Vec<Process>,
    pub(super) outcomes: Vec<TaskResult>,
    /// Files of shards on their way into the storage.
    pub(super) late_files: Vec<(Key, Bytes)>,
    /// The ranges that workers were told are safe.
    pub(super) acknowledged: BTreeSet<Head>,
    /// How many tasks in a row could not be done.
    pub(super) troubles: u32,
    /// Whether the plan recounts all that it keeps twice after each event, which takes most of the time.
    recounts: bool,
    /// Whether the story is told.
    is_told: bool,
    pub(super) seen: Seen,
}

impl World {
    pub(super) fn new(mut rng: Rng) -> World {
        let sizes = [13, 14, 14, 14, 15, 15, 15, BITS_MAX];
        let last_bits = sizes[rng.index(sizes.len()).unwrap()];
        let bits = if rng.once_in(4) { BITS_MIN } else { last_bits };
        let perils = Perils {
            lies: rng.once_in(3),
            damage: rng.once_in(4),
            chaos: true,
        };
        let recounts = rng.once_in(3);
        let mut world = World::quiet(rng, bits);
        let (rng, positions) = (&mut world.rng, range_bits().positions());
        let mut few = |below: u64| u32::try_from(rng.below(below)).unwrap();
        world.settings = Settings {
            silence_ms: 200 + u64::from(few(400)),
            straggler_ms: 20 + u64::from(few(200)),
            failures_max: 2 + few(6),
            expiries_max: 2 + few(12),
            replicas: 1 + few(3),
            task_positions_max: u64::from(few(6)) * positions,
            task_positions_min: u64::from(few(4)) * positions,
            tasks_per_thread: few(3),
            draw_one_in: few(4),
            draw_own_one_in: few(4),
            newcomer_results: few(3),
            ..world.settings
        };
        World {
            perils,
            last_bits,
            recounts,
            is_told: std::env::var("CHOMP_TEST_CASES").is_ok_and(|cases| cases == "1"),
            ..world
        }
    }

    /// A world in which nothing bad happens by itself.
    pub(super) fn quiet(mut rng: Rng, bits: u32) -> World {
        let settings = Settings {
            lease_ms: 100,
            silence_ms: 500,
            straggler_ms: 40,
            failures_max: 50,
            expiries_max: 50,
            shard_words: SHARD_WORDS,
            draw_one_in: 0,
            draw_own_one_in: 0,
            ..Settings::new(bits, range_bits())
        };
        World {
            storage: Arc::new(SimulatedStorage::new(rng.below(u64::MAX))),
            rng,
            perils: Perils::default(),
            harm: Harm::default(),
            expected: Expected::get(),
            settings,
            last_bits: bits,
            coordinator: None,
            overtaken: None,
            now: 0,
            ids: 0,
            processes: Vec::new(),
            outcomes: Vec::new(),
            late_files: Vec::new(),
            acknowledged: BTreeSet::new(),
            troubles: 0,
            recounts: false,
            is_told: false,
            seen: Seen::new(),
        }
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// The ranges whose content in the journal is wrong.
    pub(super) fn wrong_ranges(&self) -> Vec<Head> {
        let Some(coordinator) = &self.coordinator else {
            return Vec::new();
        };
        let ledger = coordinator.tools.journal.ledger();
        let done = ledger.done(range_bits().heads(BITS_MAX));
        let wrong = done.filter(|(head, place)| place.digest != self.expected.digest(*head));
        wrong.map(|(head, _)| head).collect()
    }

    /// Each wrong range in the journal is a lie that nobody had to find, or follows from one.
    pub(super) fn check_ledger(&mut self) {
        for head in self.wrong_ranges() {
            let is_lie = self.harm.lies.contains(&Unit::Range(head));
            let draws = !sources(head, range_bits()).is_empty();
            assert!(is_lie || self.harm.got_in && draws, "range {head} is wrong");
            assert!(
                self.settings.replicas == 1,
                "one participant alone got range {head} in"
            );
            self.harm.got_in = true;
        }
    }

    /// The coordinator is gone, with all that it had begun; what workers hold they finish.
    pub(super) fn end(&mut self) {
        for process in std::mem::take(&mut self.processes) {
            self.keep_results(&process);
        }
        self.coordinator = None;
    }

    /// Does the tasks of a process that is gone: their results may still be sent.
    pub(super) fn keep_results(&mut self, process: &Process) {
        for task in &process.tasks {
            if let Ok(outcome) = self.do_task(process.id, task) {
                self.outcomes.push(outcome);
            }
        }
    }

    /// The machine is gone too.
    pub(super) fn crash(&mut self) {
        self.end();
        self.overtaken = None;
        self.storage = Arc::new(self.storage.crash());
    }

    /// How many effects of the coordinator are under way.
    pub(super) fn begun(&self) -> usize {
        self.coordinator.as_ref().map_or(0, |it| it.under_way.len())
    }

    /// Does something to the coordinator, if there is one, and looks at what comes of it.
    pub(super) fn with<T>(&mut self, act: impl FnOnce(&mut Coordinator, u64) -> T) -> Option<T> {
        let now = self.now;
        let done = act(self.coordinator.as_mut()?, now);
        self.hear();
        Some(done)
    }

    /// Tells the coordinator something.
    pub(super) fn tell(&mut self, event: Event) {
        self.with(|coordinator, now| coordinator.handle(now, event));
    }

    /// An effect of the coordinator is done.
    pub(super) fn end_effect(&mut self, index: usize) {
        let Some(coordinator) = &self.coordinator else {
            return;
        };
        let effect = &coordinator.under_way[index];
        let publishes = matches!(effect, Effect::Publish);
        if matches!(effect, Effect::Remove { .. }) {
            self.count("orphans");
        }
        if publishes {
            // After the publication they would be too late.
            while !self.late_files.is_empty() {
                self.file_comes();
            }
        }
        self.with(|coordinator, now| coordinator.end_effect(now, index));
        if publishes && self.phase() == Some(Phase::Running) {
            self.count("publications that found a lie");
        }
        self.check_ledger();
    }

    /// Looks at what the plan was told and asked for, and gives workers what they hear.
    pub(super) fn hear(&mut self) {
        let Some(mut coordinator) = self.coordinator.take() else {
            return;
        };
        let (told, heard) = (coordinator.told(), coordinator.heard());
        let removes = |effect: &Effect| matches!(effect, Effect::Remove { .. });
        coordinator.watch.removes_orphans |= coordinator.under_way.iter().any(removes);
        for (event, actions) in &told {
            self.tell_story(event, actions);
            let plan = &coordinator.desk.plan;
            coordinator.watch.take(event, actions, plan, &self.harm);
        }
        coordinator.watch.check_progress(&coordinator.desk.plan);
        let kept = coordinator.desk.pending() as u64;
        assert_eq!(kept, coordinator.desk.plan.progress().submissions);
        if self.recounts {
            coordinator.desk.plan.check_invariants();
        }
        self.coordinator = Some(coordinator);
        for (_, actions) in &told {
            self.note(actions);
        }
        for heard in heard {
            match heard {
                Heard::Answer(worker, reply) => {
                    assert_eq!(reply.written.is_some(), reads(&reply.answer));
                    self.answered(worker, reply.answer);
                }
                Heard::Settled(heads, Verdict::Accepted | Verdict::Duplicate)
                    if !self.harm.damaged && self.harm.liars.is_empty() =>
                {
                    self.acknowledged.extend(heads);
                }
                Heard::Settled(..) => {}
            }
        }
    }

    fn answered(&mut self, worker: WorkerId, answer: LeaseAnswer) {
        match answer {
            // It gets lost on its way.
            LeaseAnswer::Task(_) if self.perils.chaos && self.rng.once_in(15) => {}
            LeaseAnswer::Task(task) => {
                if let Some(process) = self.process(worker) {
                    process.tasks.push(task);
                }
            }
            LeaseAnswer::NotJoined | LeaseAnswer::Quarantined { .. } => self.evict(worker),
            LeaseAnswer::Finished | LeaseAnswer::Stopped { .. } => {}
        }
    }

    fn note(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Quarantine { worker, .. } => {
                    self.count("quarantined");
                    let participant = worker.participant;
                    let of_it = self.processes.iter().map(|process| process.id);
                    let of_it = of_it.filter(|id| id.participant == participant);
                    for id in of_it.collect::<Vec<_>>() {
                        self.evict(id);
                    }
                }
                Action::Withdraw { .. } | Action::Lose { .. } => {
                    self.count("withdrawn");
                    self.acknowledged.clear();
                }
                _ => {}
            }
        }
    }

    #[expect(clippy::print_stderr, reason = "tells the story to whoever replays it")]
    fn tell_story(&self, event: &Event, actions: &[Action]) {
        if self.is_told {
            eprintln!("{:>6} {event:?}", self.now);
            for action in actions {
                eprintln!("           {action:?}");
            }
        }
    }

    /// A worker is not known to the plan any more, and learns it.
    pub(super) fn evict(&mut self, worker: WorkerId) {
        let is_it = |process: &Process| process.id == worker;
        if let Some(index) = self.processes.iter().position(is_it) {
            let process = self.processes.swap_remove(index);
            self.keep_results(&process);
        }
    }

    pub(super) fn process(&mut self, id: WorkerId) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.id == id)
    }

    pub(super) fn phase(&self) -> Option<Phase> {
        let coordinator = self.coordinator.as_ref()?;
        Some(coordinator.desk.plan.phase().clone())
    }
}

/// Whether a worker is to read a shard: then it is told what was said of that.
fn reads(answer: &LeaseAnswer) -> bool {
    let LeaseAnswer::Task(task) = answer else {
        return false;
    };
    matches!(task.work, Work::Merge { written, .. } if written.is_some())
}
