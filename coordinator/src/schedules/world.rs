//! The world: a storage, whoever coordinates on it, and what its workers hold.

use std::collections::BTreeSet;
use std::sync::Arc;

use chomp_plan::{Event, LeaseAnswer, LeaseId, Phase, Task, Verdict, WorkerId};
use chomp_store::objects::SimulatedStorage;
use chomp_table::rng::Rng;
use chomp_table::{Digest, Head};

use super::Seen;
use super::coordinator::{Coordinator, Heard};
use super::expected::{BITS_MAX, BITS_MIN, Expected};
use crate::effects::Effect;
use crate::job::WorkerResult;
use crate::testing::range_bits;

/// Which bad things may happen in a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Perils {
    /// Workers may send wrong contents.
    pub(super) lies: bool,
    /// Parts and shards may be damaged or lost.
    pub(super) damage: bool,
    /// Answers get lost, and tasks are of any size.
    pub(super) chaos: bool,
}

/// A result on its way, or one that may be sent again.
#[derive(Clone, Debug)]
pub(super) struct TaskResult {
    pub(super) worker: WorkerId,
    pub(super) lease: LeaseId,
    pub(super) result: WorkerResult,
}

/// A task in somebody's hands.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) worker: WorkerId,
    pub(super) task: Task,
}

/// Why a worker has no result.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A record of the journal is lost.
    Lost(Head, Digest),
    /// The storage fails, or the journal has gone on.
    Other,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) perils: Perils,
    pub(super) expected: &'static Expected,
    /// The bits of this job, and of the last one: the table may be extended on the way.
    pub(super) bits: u32,
    pub(super) last_bits: u32,
    pub(super) storage: Arc<SimulatedStorage>,
    pub(super) coordinator: Option<Coordinator>,
    /// One that does not know yet that another one has taken over.
    pub(super) overtaken: Option<Coordinator>,
    pub(super) now: u64,
    pub(super) ids: u64,
    /// The tasks that somebody works on.
    pub(super) tasks: Vec<Held>,
    pub(super) outcomes: Vec<TaskResult>,
    /// The ranges that workers were told are safe.
    pub(super) acknowledged: BTreeSet<Head>,
    /// How many workers have to agree, and how many ranges there are for each that is drawn.
    pub(super) replicas: u32,
    pub(super) draw_one_in: u32,
    /// The ranges and shards of which a wrong content was sent, and who sent one. Nobody sends that of
    /// another, so a lie has one worker behind it.
    pub(super) lies: BTreeSet<Head>,
    pub(super) lied_shards: BTreeSet<u32>,
    pub(super) liars: BTreeSet<String>,
    /// Whether objects were damaged or lost.
    pub(super) damaged: bool,
    /// How many tasks in a row could not be done.
    pub(super) troubles: u32,
    pub(super) seen: Seen,
}

impl World {
    pub(super) fn new(mut rng: Rng) -> World {
        let last_bits = [13, 14, 14, 14, 15, 15, 15, BITS_MAX];
        let last_bits = last_bits[rng.index(last_bits.len()).unwrap()];
        let bits = if rng.once_in(4) { BITS_MIN } else { last_bits };
        let perils = Perils {
            lies: rng.once_in(6),
            damage: rng.once_in(4),
            chaos: true,
        };
        let mut world = World::quiet(rng, bits);
        world.last_bits = last_bits;
        world.perils = perils;
        world.replicas = if world.rng.once_in(2) { 1 } else { 2 };
        world.draw_one_in = [0, 1, 3][world.rng.index(3).unwrap()];
        world
    }

    /// A world in which nothing bad happens by itself.
    pub(super) fn quiet(mut rng: Rng, bits: u32) -> World {
        World {
            storage: Arc::new(SimulatedStorage::new(rng.below(u64::MAX))),
            rng,
            perils: Perils {
                lies: false,
                damage: false,
                chaos: false,
            },
            expected: Expected::get(),
            bits,
            last_bits: bits,
            coordinator: None,
            overtaken: None,
            now: 0,
            ids: 0,
            tasks: Vec::new(),
            outcomes: Vec::new(),
            acknowledged: BTreeSet::new(),
            replicas: 1,
            draw_one_in: 0,
            lies: BTreeSet::new(),
            lied_shards: BTreeSet::new(),
            liars: BTreeSet::new(),
            damaged: false,
            troubles: 0,
            seen: Seen::default(),
        }
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Whether the journal has a wrong content.
    pub(super) fn is_poisoned(&self) -> bool {
        let Some(coordinator) = &self.coordinator else {
            return false;
        };
        let ledger = coordinator.tools.journal.ledger();
        let mut done = ledger.done(range_bits().heads(BITS_MAX));
        done.any(|(head, place)| place.digest != self.expected.record(head).0.digest)
    }

    /// The coordinator is gone, with all that it had begun; what workers hold they finish.
    pub(super) fn end(&mut self) {
        for held in std::mem::take(&mut self.tasks) {
            if let Ok(outcome) = self.do_task(&held) {
                self.outcomes.push(outcome);
            }
        }
        self.coordinator = None;
    }

    /// The machine is gone too.
    pub(super) fn crash(&mut self) {
        self.end();
        self.overtaken = None;
        self.storage = Arc::new(self.storage.crash());
    }

    /// Tells the coordinator something.
    pub(super) fn tell(&mut self, event: Event) {
        let now = self.now;
        if let Some(coordinator) = &mut self.coordinator {
            let heard = coordinator.handle(now, event);
            self.hear(heard);
        }
    }

    pub(super) fn join(&mut self, worker: WorkerId) {
        self.tell(Event::Joined {
            worker,
            name: worker.to_string(),
            threads: 1,
        });
    }

    /// A new worker joins and asks for a task.
    pub(super) fn want(&mut self) {
        let worker = WorkerId::only(u32::try_from(self.new_id()).unwrap());
        self.join(worker);
        let now = self.now;
        if let Some(coordinator) = &mut self.coordinator {
            let heard = coordinator.want(now, worker);
            self.hear(heard);
        }
    }

    pub(super) fn complete(&mut self, outcome: TaskResult) {
        let now = self.now;
        if let Some(coordinator) = &mut self.coordinator {
            let TaskResult {
                worker,
                lease,
                result,
            } = outcome;
            let heard = coordinator.complete(now, worker, lease, result);
            self.hear(heard);
        }
    }

    /// A worker cannot do its task: it says what is lost, and gives the task back.
    pub(super) fn give_up(&mut self, held: &Held, trouble: &Trouble) {
        let now = self.now;
        if let (Trouble::Lost(head, digest), Some(coordinator)) = (trouble, &mut self.coordinator) {
            let heard =
                coordinator
                    .desk
                    .report(chomp_plan::Millis(now), held.worker, &[(*head, *digest)]);
            assert_eq!(heard, Ok(()), "nobody is wrong about so much");
            let heard = coordinator.heard();
            self.hear(heard);
        }
        self.now = now;
        self.tell(Event::Returned {
            worker: held.worker,
            lease: held.task.lease,
        });
    }

    /// An effect of the coordinator is done.
    pub(super) fn end_effect(&mut self, index: usize) {
        let now = self.now;
        if let Some(coordinator) = &mut self.coordinator {
            let ranges = |coordinator: &Coordinator| coordinator.tools.journal.ledger().len();
            let before = ranges(coordinator);
            let publishes = matches!(coordinator.under_way[index], Effect::Publish { .. });
            let removes = matches!(coordinator.under_way[index], Effect::Remove { .. });
            self.seen.orphans += u64::from(removes);
            let (_, heard) = coordinator.end_effect(now, index);
            let after = ranges(coordinator);
            let goes_on = *coordinator.desk.plan.phase() == Phase::Running;
            self.seen.healed += u64::from(publishes && goes_on);
            if after < before {
                let reason = self.damaged || !self.liars.is_empty();
                assert!(reason, "withdrawn for nothing");
                self.seen.withdrawn += (before - after) as u64;
                self.acknowledged.clear();
            }
            self.hear(heard);
        }
    }

    pub(super) fn hear(&mut self, heard: Vec<Heard>) {
        for heard in heard {
            match heard {
                Heard::Answer(worker, reply) => match reply.answer {
                    // It gets lost on its way.
                    LeaseAnswer::Task(_) if self.perils.chaos && self.rng.once_in(15) => {}
                    LeaseAnswer::Task(task) => self.tasks.push(Held { worker, task }),
                    LeaseAnswer::Quarantined { .. } => {
                        let name = worker.to_string();
                        assert!(!self.liars.is_empty(), "{name} was slandered");
                        self.seen.quarantined += 1;
                    }
                    _ => {}
                },
                Heard::Settled(heads, Verdict::Accepted | Verdict::Duplicate) => {
                    if !self.damaged && self.liars.is_empty() {
                        self.acknowledged.extend(heads);
                    }
                }
                Heard::Settled(_, Verdict::Rejected { reason }) => {
                    if let chomp_plan::Rejection::Quarantined { .. } = reason {
                        self.seen.quarantined += 1;
                    }
                }
                Heard::Settled(..) => {}
            }
        }
        self.note_quarantines();
    }

    /// Only who lied gets no more tasks, as long as nothing wrong was drawn upon.
    fn note_quarantines(&mut self) {
        let Some(coordinator) = &self.coordinator else {
            return;
        };
        let outcasts = coordinator
            .desk
            .plan
            .workers()
            .filter(|worker| worker.quarantine.is_some());
        let outcasts: Vec<String> = outcasts.map(|worker| worker.name).collect();
        if let Some(name) = outcasts.first() {
            assert!(!self.liars.is_empty(), "{name} was slandered");
            self.seen.quarantined = self.seen.quarantined.max(1);
        }
    }
}
