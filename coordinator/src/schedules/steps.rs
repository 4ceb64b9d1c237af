//! What may happen in a world.

use chomp_plan::Event;
use chomp_store::objects::{Fault, Moment};
use chomp_store::{Key, Storage};

use super::world::World;
use crate::job::WorkerResult;
use crate::ready;

impl World {
    /// Something happens.
    pub(super) fn step(&mut self) {
        if self.coordinator.is_none() {
            self.try_to_start();
            return;
        }
        match self.rng.below(40) {
            0..10 => self.want(),
            10..20 => self.hand_in(),
            20..28 => self.end_some_effect(),
            28 => self.hand_in_again(),
            29 => self.lose_a_task(),
            30 => {
                self.now += 100;
                self.tell(Event::Tick);
            }
            31 => self.set_fault(),
            32 => {
                let call = self.storage.calls() + self.rng.below(40);
                self.storage.crash_at(call);
            }
            33 => self.crash(),
            34 => self.run_full(),
            35 => self.be_overtaken(),
            36 => self.damage(),
            37 => self.tell(Event::Shutdown),
            _ => self.leave_if_stopped(),
        }
        self.let_the_overtaken_go_on();
    }

    /// A worker does its task and hands it in, or not.
    pub(super) fn hand_in(&mut self) {
        let Some(index) = self.rng.index(self.tasks.len()) else {
            return;
        };
        let held = self.tasks.swap_remove(index);
        match self.do_task(&held) {
            Ok(outcome) => {
                if self.rng.once_in(4) {
                    self.outcomes.push(outcome.clone());
                }
                if !self.rng.once_in(12) {
                    self.complete(outcome);
                }
            }
            Err(trouble) => self.give_up(&held, &trouble),
        }
    }

    /// A result comes late, or once more.
    fn hand_in_again(&mut self) {
        if let Some(index) = self.rng.index(self.outcomes.len()) {
            let mut outcome = self.outcomes[index].clone();
            let end = crate::testing::range_bits().heads(self.bits);
            // A result for a larger table is refused, and its worker would not be there.
            if let WorkerResult::Ranges(ranges) = &mut outcome.result {
                ranges.retain(|placed| placed.summary.head.0 < end);
            }
            // Who was forgotten, or joined another coordinator, joins first.
            self.join(outcome.worker);
            self.complete(outcome);
        }
    }

    /// A worker dies, gives a task back, fails, or leaves.
    fn lose_a_task(&mut self) {
        let Some(index) = self.rng.index(self.tasks.len()) else {
            return;
        };
        let held = self.tasks.swap_remove(index);
        let (worker, lease) = (held.worker, held.task.lease);
        match self.rng.below(4) {
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

    fn end_some_effect(&mut self) {
        let begun = self.coordinator.as_ref().map_or(0, |it| it.under_way.len());
        if let Some(index) = self.rng.index(begun) {
            self.end_effect(index);
        }
    }

    fn set_fault(&mut self) {
        let fault = Fault {
            call: self.storage.calls() + self.rng.below(40),
            sticky: self.rng.once_in(2),
            moment: [Moment::Before, Moment::After][self.rng.index(2).unwrap()],
        };
        self.storage.set_fault(Some(fault));
    }

    fn run_full(&mut self) {
        let held: usize = self.storage.objects().values().map(bytes::Bytes::len).sum();
        let room = self.rng.below(2000);
        self.storage.set_bytes_max(held as u64 + room);
    }

    /// Another coordinator takes the table over while this one still runs.
    fn be_overtaken(&mut self) {
        let tasks = std::mem::take(&mut self.tasks);
        for held in tasks {
            if let Ok(outcome) = self.do_task(&held) {
                self.outcomes.push(outcome);
            }
        }
        let before = self.coordinator.take();
        if self.start().is_ok() {
            self.overtaken = before;
            self.seen.overtaken += 1;
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
            let before = overtaken.tools.journal.ledger().next;
            let (written, _) = overtaken.end_effect(now, index);
            let after = overtaken.tools.journal.ledger().next;
            assert!(
                !written && before == after,
                "an overtaken coordinator wrote the journal"
            );
            assert!(
                overtaken.desk.published.is_none(),
                "an overtaken coordinator published"
            );
        }
    }

    /// A bit of some part or shard flips, or it gets lost.
    fn damage(&mut self) {
        let objects = self.storage.objects();
        let folders = ["work/parts/", "table-"];
        let mut keys: Vec<&Key> = objects.keys().collect();
        keys.retain(|key| {
            folders
                .iter()
                .any(|folder| key.as_str().starts_with(folder))
        });
        // Shards that were read back are not looked at any more.
        let manifests = objects
            .keys()
            .any(|key| key.as_str().ends_with("manifest.json"));
        let progress = self.coordinator.as_ref().map(|it| it.desk.plan.progress());
        let merged = progress.is_some_and(|it| it.shards > 0 && it.shards == it.shards_done);
        keys.retain(|key| key.as_str().starts_with("work") || !(manifests || merged));
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
        self.damaged = true;
        self.acknowledged.clear();
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
        if self.rng.once_in(2) {
            self.storage.set_fault(None);
        }
        if self.rng.once_in(2) {
            self.storage.set_bytes_max(u64::MAX);
        }
        if self.rng.once_in(6) {
            self.bits = self.last_bits;
        }
        if self.start().is_err() {
            self.crash();
        }
    }
}
