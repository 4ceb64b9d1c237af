//! The random steps of a world.

use bytes::Bytes;
use chomp_plan::{Event, LeaseId, Millis, Phase, Task, WorkerId};
use chomp_store::objects::{Fault, Moment};
use chomp_store::part::PartBuilder;
use chomp_store::{Key, Storage};
use chomp_table::Head;
use chomp_table::manifest::MANIFEST_NAME;

use super::coordinator::Coordinator;
use super::coordinator::TaskResult;
use super::state::{Process, Trouble, World};
use crate::ready;
use crate::testing::range_bits;
use crate::tools::WorkerResult;

impl World {
    /// Something happens.
    pub(super) fn step(&mut self) {
        if self.coordinator.is_none() {
            self.try_to_start();
            return;
        }
        match self.rng.below(64) {
            0..=3 => self.join(),
            4..=13 => self.want(),
            14..=24 => self.hand_in(),
            25..=34 => self.end_some_effect(),
            35..=36 => self.time_passes(),
            37 => self.renew(),
            38 => self.hand_in_again(),
            39 => self.lose_a_task(),
            40 => self.withdraw(),
            41 => self.leave(),
            42 => self.die(),
            43 => self.send_rubbish(),
            44 => self.claim_a_loss(),
            45 if self.rng.once_in(4) => self.revoke(),
            46..=47 => self.file_comes(),
            48 => self.set_fault(),
            49 => {
                let call = self.storage.calls() + self.rng.below(40);
                self.harm.troubled = true;
                self.storage.crash_at(call);
            }
            50 if self.rng.once_in(2) => self.crash(),
            51 if self.rng.once_in(2) => self.run_full(),
            52 => self.be_overtaken(),
            53 => self.damage(),
            54 if self.rng.once_in(4) => self.tell(Event::Shutdown),
            55..=57 => self.leave_if_stopped(),
            _ => {}
        }
        self.let_the_overtaken_go_on();
    }

    fn any_process(&mut self) -> Option<usize> {
        let index = self.rng.index(self.processes.len())?;
        (!self.processes[index].is_dead).then_some(index)
    }

    /// Some task that a worker is at, taken from it.
    fn take_task(&mut self) -> Option<(WorkerId, Task)> {
        let index = self.any_process()?;
        let task = self.rng.index(self.processes[index].tasks.len())?;
        let process = &mut self.processes[index];
        Some((process.id, process.tasks.swap_remove(task)))
    }

    /// A worker joins, or joins again.
    fn join(&mut self) {
        let threads = u32::try_from(self.rng.below(4)).unwrap();
        if let Some(index) = self.any_process().filter(|_| self.processes.len() >= 4) {
            self.join_as(self.processes[index].id, threads);
        } else if self.processes.len() < 8 {
            let id = self.new_worker();
            self.join_as(id, threads);
        }
    }

    pub(super) fn join_as(&mut self, id: WorkerId, threads: u32) {
        let Some(coordinator) = &self.coordinator else {
            return;
        };
        // The job refuses those, and does not tell the plan.
        if coordinator.desk.plan.quarantine_reason(id).is_some() {
            return;
        }
        if self.process(id).is_none() {
            self.processes.push(Process {
                id,
                is_dead: false,
                tasks: Vec::new(),
            });
        }
        self.tell(Event::Joined {
            worker: id,
            name: id.to_string(),
            threads,
        });
    }

    /// A worker of a new participant, or of one that has others.
    fn new_worker(&mut self) -> WorkerId {
        let known = self.rng.index(self.processes.len());
        match known.filter(|_| self.rng.once_in(3)) {
            Some(index) => {
                let participant = self.processes[index].id.participant;
                WorkerId::new(participant.0, self.new_id())
            }
            None => self.new_participant(),
        }
    }

    /// The first worker of a new participant. The first one is the owner of the table.
    pub(super) fn new_participant(&mut self) -> WorkerId {
        WorkerId::only(u32::try_from(self.new_id() - 1).unwrap())
    }

    fn want(&mut self) {
        let joined = self.any_process().map(|index| self.processes[index].id);
        self.want_for(joined.unwrap_or(WorkerId::only(u32::MAX - 1)));
    }

    pub(super) fn want_for(&mut self, worker: WorkerId) {
        self.with(|coordinator, now| coordinator.want(now, worker));
    }

    pub(super) fn complete(&mut self, outcome: TaskResult) {
        self.with(|coordinator, now| coordinator.complete(now, outcome));
    }

    /// A worker does its task and hands it in, or not.
    fn hand_in(&mut self) {
        let Some((worker, task)) = self.take_task() else {
            return;
        };
        match self.do_task(worker, &task) {
            Ok(outcome) => {
                if self.rng.once_in(4) {
                    self.outcomes.push(outcome.clone());
                }
                if !self.rng.once_in(12) {
                    self.complete(outcome);
                }
            }
            Err(trouble) => self.give_up(worker, &task, &trouble),
        }
    }

    /// A worker cannot do its task: it says what is lost, and gives the task back.
    pub(super) fn give_up(&mut self, worker: WorkerId, task: &Task, trouble: &Trouble) {
        let lease = task.lease;
        if let Trouble::Lost(head, digest) = *trouble {
            self.with(|coordinator, _| coordinator.desk.report(worker, &[(head, digest)]));
        }
        self.tell(match trouble {
            Trouble::Unreadable => Event::Failed {
                worker,
                lease,
                reason: "the shard is something else".to_owned(),
            },
            Trouble::Lost(..) | Trouble::Other => Event::Returned { worker, lease },
        });
    }

    /// A result comes late, or once more, or from somebody else.
    fn hand_in_again(&mut self) {
        let Some(index) = self.rng.index(self.outcomes.len()) else {
            return;
        };
        let mut outcome = self.outcomes[index].clone();
        let end = range_bits().heads(self.settings.size);
        if let WorkerResult::Ranges(ranges) = &mut outcome.result {
            // A result for a larger table is refused, and its worker would not be there.
            ranges.retain(|placed| placed.summary.head.0 < end);
            if ranges.is_empty() {
                return;
            }
        }
        if self.rng.once_in(4) {
            outcome.worker = self.new_worker();
        }
        // Who was forgotten, or joined another coordinator, joins first.
        if self.rng.once_in(2) {
            self.join_as(outcome.worker, 1);
        }
        self.complete(outcome);
    }

    /// A worker gives a task back, fails, or never does it.
    fn lose_a_task(&mut self) {
        let Some((worker, Task { lease, .. })) = self.take_task() else {
            return;
        };
        match self.rng.below(3) {
            0 => {}
            1 => self.tell(Event::Returned { worker, lease }),
            _ => self.tell(Event::Failed {
                worker,
                lease,
                reason: "the worker's memory is broken".to_owned(),
            }),
        }
    }

    /// A worker sends what no plan should take.
    fn send_rubbish(&mut self) {
        let held = self.take_task();
        let heads = match self.rng.below(4) {
            0 => vec![],
            1 => vec![0, 1],
            2 => vec![64 << self.rng.below(58)],
            _ => vec![1, 1],
        };
        let mut builder = PartBuilder::default();
        for head in 0..heads.len() as u64 {
            let (summary, record) = self.expected.record(Head(head));
            builder.push(*summary, record);
        }
        let mut placed = builder.finish().1;
        for (placed, head) in placed.iter_mut().zip(heads) {
            placed.summary.head = Head(head);
        }
        let nobody = (WorkerId::only(u32::MAX - 1), LeaseId(0));
        let (worker, lease) = held.map_or(nobody, |(worker, task)| (worker, task.lease));
        let rubbish = TaskResult {
            worker,
            lease,
            result: WorkerResult::Ranges(placed),
        };
        self.with(|coordinator, now| {
            coordinator.watch.expects_rubbish = true;
            coordinator.complete(now, rubbish);
        });
        self.with(|coordinator, _| coordinator.watch.expects_rubbish = false);
    }

    /// A worker says that a record is lost which is not, or with another digest.
    fn claim_a_loss(&mut self) {
        let (Some(process), Some(head)) = (self.any_process(), self.rng.index(8)) else {
            return;
        };
        let worker = self.processes[process].id;
        let head = Head(head as u64);
        let digest = if self.rng.once_in(2) {
            self.expected.digest(head)
        } else {
            self.expected.lie(head).0.digest
        };
        self.with(|coordinator, _| coordinator.desk.report(worker, &[(head, digest)]));
    }

    /// The owner of the table takes a credential back.
    fn revoke(&mut self) {
        if let Some(index) = self.rng.index(self.processes.len()) {
            let participant = self.processes[index].id.participant;
            self.count("revoked");
            self.harm.revoked.insert(participant);
            self.tell(Event::Revoked { participant });
        }
    }

    fn renew(&mut self) {
        let Some(index) = self.any_process() else {
            return;
        };
        let process = &self.processes[index];
        let worker = process.id;
        let leases = process.tasks.iter().map(|task| task.lease).collect();
        self.with(|coordinator, now| coordinator.desk.renew(Millis(now), worker, leases));
    }

    /// A worker does not wait for an answer any more.
    fn withdraw(&mut self) {
        let waiting = self.coordinator.as_ref().map_or(&[][..], |it| &it.requests);
        if let Some(index) = self.rng.index(waiting.len()) {
            let request = waiting[index].0;
            self.tell(Event::Withdrawn { request });
        }
    }

    /// A worker leaves, or its death is noticed.
    fn leave(&mut self) {
        if let Some(index) = self.rng.index(self.processes.len()) {
            let worker = self.processes[index].id;
            self.evict(worker);
            self.tell(Event::Left { worker });
        }
    }

    fn die(&mut self) {
        if let Some(index) = self.any_process() {
            self.processes[index].is_dead = true;
            self.processes[index].tasks.clear();
        }
    }

    fn time_passes(&mut self) {
        if self.rng.once_in(8) {
            // Parts that nobody has use for are looked for every ten seconds, and go at the second time.
            for _ in 0..2 {
                self.now += 10_000;
                self.tick();
            }
        }
        self.now += self.rng.below(120);
        if !self.rng.once_in(4) {
            self.tick();
        }
    }

    pub(super) fn tick(&mut self) {
        self.tell(Event::Tick);
        if let Some(coordinator) = &self.coordinator {
            let next = coordinator.desk.plan.next_deadline();
            let overdue = next.filter(|deadline| deadline.0 <= self.now);
            assert_eq!(overdue, None, "an expired lease stands");
        }
    }

    fn end_some_effect(&mut self) {
        if let Some(index) = self.rng.index(self.begun()) {
            self.end_effect(index);
        }
    }

    fn set_fault(&mut self) {
        let fault = Fault {
            call: self.storage.calls() + self.rng.below(40),
            sticky: self.rng.once_in(2),
            moment: [Moment::Before, Moment::After][self.rng.index(2).unwrap()],
        };
        self.harm.troubled = true;
        self.storage.set_fault(Some(fault));
    }

    fn run_full(&mut self) {
        let held: usize = self.storage.objects().values().map(Bytes::len).sum();
        let room = self.rng.below(2000);
        self.harm.troubled = true;
        self.storage.set_bytes_max(held as u64 + room);
    }

    /// Another coordinator takes the table over while this one still runs.
    fn be_overtaken(&mut self) {
        for process in std::mem::take(&mut self.processes) {
            self.keep_results(&process);
        }
        let before = self.coordinator.take();
        self.harm.troubled = true;
        if self.start().is_ok() {
            self.overtaken = before;
            self.count("overtaken");
        } else {
            // Nobody knows who owns it: both go.
            self.overtaken = None;
        }
    }

    /// An overtaken coordinator goes on with what it has begun, and learns it.
    fn let_the_overtaken_go_on(&mut self) {
        let now = self.now;
        if let Some(overtaken) = &mut self.overtaken
            && let Some(index) = self.rng.index(overtaken.under_way.len())
        {
            let next = |it: &Coordinator| it.tools.journal.ledger().next;
            let before = next(overtaken);
            let has_published = overtaken.desk.published.is_some();
            let has_written = overtaken.end_effect(now, index);
            overtaken.heard();
            let has_written = has_written || before != next(overtaken);
            assert!(!has_written, "an overtaken coordinator wrote the journal");
            let publishes = !has_published && overtaken.desk.published.is_some();
            assert!(!publishes, "an overtaken coordinator published");
        }
    }

    /// A file of a shard is written at last.
    pub(super) fn file_comes(&mut self) {
        if let Some(index) = self.rng.index(self.late_files.len()) {
            let (key, bytes) = self.late_files.swap_remove(index);
            self.count("late files");
            // It does not matter whether that works.
            let _ = self.put_shard(&key, bytes);
        }
    }

    /// A bit of some part or shard flips, or it gets lost.
    fn damage(&mut self) {
        let objects = self.storage.objects();
        let is_in = |key: &Key, folder: &str| key.as_str().starts_with(folder);
        let mut keys: Vec<&Key> = objects.keys().collect();
        keys.retain(|key| is_in(key, "work/parts/") || is_in(key, "table-"));
        let is_published = |key: &Key| key.as_str().ends_with(MANIFEST_NAME);
        if objects.keys().any(is_published) {
            keys.retain(|key| is_in(key, "work"));
        }
        let Some(index) = self.rng.index(keys.len()).filter(|_| self.perils.damage) else {
            return;
        };
        let key = keys[index].clone();
        let length = objects[&key].len();
        if self.rng.once_in(2) {
            // A removal that fails may have taken place.
            let _ = ready(self.storage.delete(&[key]));
        } else if let Some(byte) = self.rng.index(length) {
            self.storage.flip_bit(&key, byte, 3);
        }
        self.harm.damaged = true;
        self.acknowledged.clear();
    }

    /// The process of a job that is over ends.
    fn leave_if_stopped(&mut self) {
        if self.phase().is_some_and(|phase| phase != Phase::Running) {
            self.count("stops");
            self.end();
        }
    }

    /// Somebody starts the program again, after a while with the storage in order.
    fn try_to_start(&mut self) {
        if self.rng.once_in(2) {
            self.storage.set_fault(None);
        }
        if self.rng.once_in(2) {
            self.storage.set_bytes_max(u64::MAX);
        }
        if self.rng.once_in(6) {
            self.settings.size = self.last_bits;
        }
        if self.start().is_err() {
            self.crash();
        }
    }
}
