//! The world: a storage, whoever coordinates on it, and what its workers hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chomp_table::{Head, RangeSummary};

use bytes::Bytes;
use chomp_table::head::layers;
use chomp_table::manifest::{MANIFEST_NAME, folder_name};

use super::Seen;
use super::coordinator::{Coordinator, Told};
use super::expected::{BITS_MAX, BITS_MIN, Expected, Record, range_bits};
use crate::audit::AuditError;
use crate::chance::Chance;
use crate::job::JobError;
use crate::plan::{Answer, Event, LeaseId, Settings, Task, Verdict, WorkerId};
use crate::publish::PublishError;
use crate::ready;
use crate::server::StartError;
use crate::storage::{Key, SimulatedStorage, Storage};
use crate::store::{Progress, StoreError};

/// A result on its way, or one that may be sent again.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) worker: WorkerId,
    pub(super) lease: LeaseId,
    pub(super) records: Vec<Record>,
}

/// Which bad things may happen in a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Perils {
    /// Workers may send wrong contents.
    pub(super) lies: bool,
    /// Objects may be damaged at rest.
    pub(super) damage: bool,
    /// Answers get lost, and tasks are of any size.
    pub(super) chaos: bool,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) chance: Chance,
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
    pub(super) workers: Vec<WorkerId>,
    /// The tasks that somebody works on.
    pub(super) tasks: Vec<(WorkerId, Task)>,
    pub(super) outcomes: Vec<Outcome>,
    /// The ranges that workers were told are safe.
    pub(super) acknowledged: BTreeSet<Head>,
    /// The contents that were found or acknowledged.
    pub(super) known: BTreeMap<Head, RangeSummary>,
    /// The bits of a job, and how many of its layers were told to be sealed.
    pub(super) sealed: (u32, u32),
    /// How many workers have to agree.
    pub(super) replicas: u32,
    /// The ranges of which a wrong content was sent. Nobody sends that of another, so a lie has one
    /// worker behind it.
    pub(super) lies: BTreeSet<Head>,
    /// Whether a wrong content was sent.
    pub(super) lied: bool,
    /// Whether a wrong content is durable.
    pub(super) poisoned: bool,
    /// Whether objects were damaged.
    pub(super) damaged: bool,
    pub(super) seen: Seen,
}

impl World {
    pub(super) fn new(mut chance: Chance) -> World {
        let last_bits = [13, 14, 14, 14, 15, 15, 15, BITS_MAX];
        let last_bits = last_bits[chance.index(last_bits.len()).unwrap()];
        let bits = if chance.once_in(4) {
            BITS_MIN
        } else {
            last_bits
        };
        let perils = Perils {
            lies: chance.once_in(6),
            damage: chance.once_in(6),
            chaos: true,
        };
        let mut world = World::quiet(chance, bits);
        world.last_bits = last_bits;
        world.perils = perils;
        world.replicas = if world.chance.once_in(2) { 1 } else { 2 };
        world
    }

    /// A world in which nothing bad happens by itself.
    pub(super) fn quiet(mut chance: Chance, bits: u32) -> World {
        World {
            storage: Arc::new(SimulatedStorage::new(chance.below(u64::MAX))),
            chance,
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
            workers: Vec::new(),
            tasks: Vec::new(),
            outcomes: Vec::new(),
            acknowledged: BTreeSet::new(),
            known: BTreeMap::new(),
            sealed: (bits, 0),
            replicas: 1,
            lies: BTreeSet::new(),
            lied: false,
            poisoned: false,
            damaged: false,
            seen: Seen::default(),
        }
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Starts a coordinator; whoever coordinated before must be gone, or have been overtaken.
    pub(super) fn start(&mut self) -> Result<(), StartError> {
        self.workers.clear();
        let mut settings = Settings::new(self.bits, range_bits());
        settings.lease_ms = 100;
        settings.silence_ms = 500;
        settings.straggler_ms = 40;
        settings.failures_max = 20;
        settings.replicas = self.replicas;
        if self.perils.chaos {
            settings.task_positions_max = self.chance.below(5) * range_bits().positions();
            settings.task_positions_min = self.chance.below(4) * range_bits().positions();
            settings.tasks_per_thread = u32::try_from(self.chance.below(2)).unwrap();
        }
        let (coordinator, found) = Coordinator::start(&self.storage, settings)?;
        self.seen.starts += 1;
        self.seen.checkpoints += u64::from(!self.checkpoints().is_empty());
        self.check_found(&found);
        if self.damaged {
            // All of it was just read, so damage was found then.
            for range in &found.done {
                let record = ready(coordinator.store.read_record(range.head));
                let is_damaged = matches!(record, Err(StoreError::Damaged { .. }));
                assert!(!is_damaged, "damage was not found at the start");
            }
        }
        self.coordinator = Some(coordinator);
        Ok(())
    }

    /// What was acknowledged is there, and nothing else than what is right.
    fn check_found(&mut self, found: &Progress) {
        let known = || found.done.iter().chain(&found.expected);
        self.known = known().map(|range| (range.head, *range)).collect();
        let wrong = known().filter(|range| self.expected.record(range.head).0 != **range);
        self.poisoned = wrong.count() > 0;
        assert!(
            self.replicas == 1 || !self.poisoned,
            "one worker alone got a wrong content in"
        );
        assert!(
            self.lied || !self.poisoned,
            "a wrong content that nobody sent"
        );
        let (bits, sealed) = self.sealed;
        assert!(
            bits != self.bits || found.sealed_layers >= sealed,
            "a seal is lost"
        );
        self.sealed = (self.bits, found.sealed_layers);
        for head in layers(self.bits, range_bits())[..found.sealed_layers as usize].concat() {
            assert!(
                self.known.contains_key(&head),
                "what a seal says is forgotten"
            );
        }
        if !self.damaged {
            self.check_published();
        }
        let done: BTreeSet<Head> = found.done.iter().map(|range| range.head).collect();
        let end = Head(range_bits().heads(self.bits));
        for head in self.acknowledged.range(..end) {
            assert!(
                done.contains(head),
                "range {head} was acknowledged and is lost"
            );
        }
    }

    /// The checkpoints of this job's publication.
    pub(super) fn checkpoints(&self) -> Vec<Key> {
        let folder = Key::new(&format!("work/publications/{:02}", self.bits)).unwrap();
        let keys = self.storage.objects().into_keys();
        keys.filter(|key| key.is_in(&folder)).collect()
    }

    /// A table that is there is whole and right.
    fn check_published(&self) {
        let objects = self.storage.objects();
        for bits in BITS_MIN..=self.last_bits {
            let right = self.expected.published(bits);
            let is_there = |(key, bytes): (&Key, &Bytes)| objects.get(key) == Some(bytes);
            let manifest = Key::new(&format!("{}/{MANIFEST_NAME}", folder_name(bits))).unwrap();
            if objects.contains_key(&manifest) {
                assert!(right.iter().all(is_there), "a manifest without its table");
            }
        }
    }

    /// The coordinator is gone, with all that it had begun; what workers hold stays with them.
    pub(super) fn end(&mut self) {
        self.coordinator = None;
        for (worker, task) in std::mem::take(&mut self.tasks) {
            let records = task
                .heads
                .iter()
                .map(|&head| self.expected.record(head).clone());
            self.outcomes.push(Outcome {
                worker,
                lease: task.lease,
                records: records.collect(),
            });
        }
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
            let told = coordinator.handle(now, event);
            self.hear(told);
        }
    }

    pub(super) fn submit(&mut self, outcome: Outcome) {
        let now = self.now;
        if let Some(coordinator) = &mut self.coordinator {
            let Outcome {
                worker,
                lease,
                records,
            } = outcome;
            let told = coordinator.submit(now, worker, lease, records);
            self.hear(told);
        }
    }

    /// A write of the coordinator is done.
    pub(super) fn write(&mut self, index: usize) {
        let now = self.now;
        if let Some(coordinator) = &mut self.coordinator {
            let (event, told) = coordinator.write(now, index);
            if let Event::Sealed { layer } = event {
                self.sealed = (self.bits, layer + 1);
            }
            self.hear(told);
        }
    }

    fn hear(&mut self, told: Vec<Told>) {
        for told in told {
            match told {
                Told::Answer(request, Answer::Task(task)) => {
                    for head in &task.heads {
                        assert!(
                            !self.acknowledged.contains(head),
                            "range {head} was acknowledged and is offered again"
                        );
                    }
                    // Requests have the id of the worker that makes them.
                    if !(self.perils.chaos && self.chance.once_in(15)) {
                        self.tasks.push((WorkerId(request.0), task));
                    }
                }
                Told::Settled(ranges, Verdict::Accepted | Verdict::Duplicate) => {
                    for range in ranges {
                        let known = *self.known.entry(range.head).or_insert(range);
                        assert_eq!(range, known, "two contents are acknowledged");
                        self.acknowledged.insert(range.head);
                    }
                }
                Told::Quarantined(name) => {
                    assert!(self.lied, "{name} was slandered");
                    self.seen.quarantined += 1;
                }
                Told::Answer(..) | Told::Settled(..) => {}
            }
        }
    }

    /// Reads the sources of a task as its worker does. What cannot be read ends the job.
    pub(super) fn fetch(&mut self, heads: &[Head]) {
        let sources = heads
            .iter()
            .flat_map(|&head| chomp_table::sources::sources(head, range_bits()));
        for source in sources {
            let Some(coordinator) = &mut self.coordinator else {
                return;
            };
            match ready(coordinator.store.read_record(source)) {
                Ok(record) => assert!(
                    record == self.expected.record(source).1 || self.lied,
                    "the record of range {source} is wrong"
                ),
                Err(StoreError::Missing { head }) => panic!("source {head} is not there"),
                Err(error) => {
                    coordinator.fault.get_or_insert_with(|| error.into());
                    self.tell(Event::Shutdown);
                    return;
                }
            }
        }
    }

    /// After damage, what was promised may be lost.
    pub(super) fn forget_promises(&mut self) {
        self.acknowledged.clear();
        self.sealed = (self.bits, 0);
    }

    /// What a person does about an error, as it says: removes what is damaged. False if there is
    /// nothing to be done about it.
    pub(super) fn repair(&mut self, error: &StoreError) -> bool {
        let StoreError::Damaged { key, .. } = error else {
            return false;
        };
        assert!(self.damaged || self.poisoned, "{error}");
        self.seen.repairs += 1;
        let objects = self.storage.objects();
        let named = objects
            .keys()
            .filter(|object| *object == key || object.is_in(key));
        let named: Vec<Key> = named.cloned().collect();
        assert!(!named.is_empty(), "{key} is not there");
        for key in &named {
            ready(self.storage.delete(key)).expect("the storage is in order again");
        }
        self.forget_promises();
        true
    }
}

/// The error of the store in another one.
pub(super) fn store_error(error: &JobError) -> Option<&StoreError> {
    match error {
        JobError::Store(error)
        | JobError::Publish(PublishError::Store(error))
        | JobError::Audit(AuditError::Store(error)) => Some(error),
        JobError::Publish(_) | JobError::Audit(_) | JobError::Stopped(_) => None,
    }
}
