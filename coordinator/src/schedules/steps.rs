//! What may happen in a world.

use super::world::{Outcome, World};
use crate::plan::{Event, RequestId, WorkerId};
use crate::storage::{Fault, Moment};

impl World {
    /// Something happens.
    pub(super) fn step(&mut self) {
        if self.coordinator.is_none() {
            self.try_to_start();
            return;
        }
        match self.chance.below(40) {
            0..10 => self.want(),
            10..20 => self.hand_in(),
            20..28 => self.end_a_write(),
            28 => self.hand_in_again(),
            29 => self.lose_a_task(),
            30 => {
                self.now += 100;
                self.tell(Event::Tick);
            }
            31 => self.set_fault(),
            32 => {
                let call = self.storage.calls() + self.chance.below(12);
                self.storage.crash_at(call);
            }
            33 => self.crash(),
            34 => self.run_full(),
            35 => self.be_overtaken(),
            36 => self.damage(),
            37 => self.tell(Event::Shutdown),
            _ => self.leave_if_stopped(),
        }
        self.let_the_overtaken_write();
    }

    /// A worker asks for a task.
    fn want(&mut self) {
        // A request has the id of its worker, so each worker makes one.
        let id = self.new_id();
        let worker = WorkerId(id);
        self.join(worker);
        self.workers.push(worker);
        let request = RequestId(id);
        self.tell(Event::Wanted { request, worker });
    }

    pub(super) fn join(&mut self, worker: WorkerId) {
        self.tell(Event::Joined {
            worker,
            name: worker.to_string(),
            threads: 1,
        });
    }

    /// A worker is done with a task, or with some of it.
    fn hand_in(&mut self) {
        let Some(index) = self.chance.index(self.tasks.len()) else {
            return;
        };
        let (worker, task) = self.tasks.swap_remove(index);
        if self.chance.once_in(3) {
            self.fetch(&task.heads);
        }
        let mut heads = task.heads;
        if self.chance.once_in(5) {
            heads = self.chance.some(&heads);
        }
        if self.chance.once_in(3) {
            heads.reverse();
        }
        let mut records: Vec<_> = heads
            .iter()
            .map(|&head| self.expected.record(head).clone())
            .collect();
        if self.perils.lies
            && self.chance.once_in(8)
            && let Some(index) = self.chance.index(heads.len())
            && self.lies.insert(heads[index])
        {
            records[index] = self.expected.lie(heads[index]).clone();
            self.lied = true;
        }
        let outcome = Outcome {
            worker,
            lease: task.lease,
            records,
        };
        if self.chance.once_in(4) {
            self.outcomes.push(outcome.clone());
        }
        if !self.chance.once_in(12) {
            self.submit(outcome);
        }
    }

    /// A result comes late, or once more.
    fn hand_in_again(&mut self) {
        if let Some(index) = self.chance.index(self.outcomes.len()) {
            let mut outcome = self.outcomes[index].clone();
            let end = super::expected::range_bits().heads(self.bits);
            // A result for a larger table is refused, and its worker would not be there.
            outcome.records.retain(|(summary, _)| summary.head.0 < end);
            // Who was forgotten, or joined another coordinator, joins first.
            self.join(outcome.worker);
            self.submit(outcome);
        }
    }

    /// A worker dies, gives a task back, fails, or leaves.
    fn lose_a_task(&mut self) {
        let Some(index) = self.chance.index(self.tasks.len()) else {
            return;
        };
        let (worker, task) = self.tasks.swap_remove(index);
        let lease = task.lease;
        match self.chance.below(4) {
            0 => {}
            1 => self.tell(Event::Returned { worker, lease }),
            2 => self.tell(Event::Left { worker }),
            _ => {
                let reason = "the worker's memory is broken".to_owned();
                self.tell(Event::Failed {
                    worker,
                    lease,
                    reason,
                });
            }
        }
    }

    fn end_a_write(&mut self) {
        let begun = self.coordinator.as_ref().map_or(0, |it| it.under_way.len());
        if let Some(index) = self.chance.index(begun) {
            self.write(index);
        }
    }

    fn set_fault(&mut self) {
        let fault = Fault {
            call: self.storage.calls() + self.chance.below(12),
            sticky: self.chance.once_in(2),
            moment: [Moment::Before, Moment::After][self.chance.index(2).unwrap()],
        };
        self.storage.set_fault(Some(fault));
    }

    fn run_full(&mut self) {
        let held: usize = self.storage.objects().values().map(bytes::Bytes::len).sum();
        let room = self.chance.below(2000);
        self.storage.set_bytes_max(held as u64 + room);
    }

    /// Another coordinator takes the table over while this one still runs.
    fn be_overtaken(&mut self) {
        let before = self.coordinator.take();
        self.end();
        if self.start().is_ok() {
            self.overtaken = before;
            self.seen.overtaken += 1;
        } else {
            // Nobody knows who owns it: both go.
            self.overtaken = None;
        }
    }

    /// An overtaken coordinator goes on with what it has begun, and learns it.
    fn let_the_overtaken_write(&mut self) {
        let now = self.now;
        if let Some(overtaken) = &mut self.overtaken
            && let Some(index) = self.chance.index(overtaken.under_way.len())
        {
            let (event, _) = overtaken.write(now, index);
            let failed = matches!(
                event,
                Event::CommitFailed { .. }
                    | Event::SealFailed { .. }
                    | Event::PublishFailed { .. }
                    // Reading does no harm.
                    | Event::Evaluated { .. }
                    | Event::EvaluationFailed { .. }
            );
            assert!(
                failed,
                "an overtaken coordinator was told that it may: {event:?}"
            );
        }
    }

    /// A bit of some object flips.
    fn damage(&mut self) {
        let objects = self.storage.objects();
        if !self.perils.damage || objects.is_empty() {
            return;
        }
        let index = self.chance.index(objects.len()).unwrap();
        let (key, bytes) = objects.iter().nth(index).unwrap();
        if let Some(byte) = self.chance.index(bytes.len()) {
            assert!(self.storage.flip_bit(key, byte, 3));
            self.damaged = true;
            self.forget_promises();
        }
    }

    /// The process of a job that is over ends.
    fn leave_if_stopped(&mut self) {
        if self.coordinator.as_ref().is_some_and(|it| !it.is_running()) {
            self.seen.stops += 1;
            self.end();
        }
    }

    /// Somebody starts the program again, after a while with the storage in order.
    fn try_to_start(&mut self) {
        if self.chance.once_in(2) {
            self.storage.set_fault(None);
        }
        if self.chance.once_in(2) {
            self.storage.set_bytes_max(u64::MAX);
        }
        if self.chance.once_in(6) {
            self.bits = self.last_bits;
        }
        if self.start().is_err() {
            self.crash();
        }
    }
}
