//! The faults that happen to the world.

use std::fmt;

use chomp_store::Storage;

use crate::histories::chain::at_once;
use crate::histories::network::Weather;
use crate::histories::store::{Cut, Health, is_part};
use crate::histories::wire::Way;
use crate::histories::worker::Worker;
use crate::histories::world::{Event, World};

impl World {
    pub(crate) fn happen(&mut self, event: Event) {
        self.history.log(format_args!("{event:?}"));
        match event {
            Event::Fault => {
                if !self.calm {
                    self.fault();
                    let next = self.history.rng.u64(1..=2 * self.plot.between_faults);
                    self.plan(next, Event::Fault);
                }
            }
            Event::StartWorker(slot) => {
                if self.slots[slot].worker.is_none() && !self.slots[slot].finished {
                    self.start_worker(slot);
                }
            }
            Event::StartCoordinator => {
                if self.coordinators.is_empty() {
                    self.start_coordinator();
                }
            }
            Event::ResumeWorker(number) => self.resume_worker(number),
            Event::ResumeCoordinator(number) => self.resume_coordinator(number),
            Event::MendWay(slot) => self.mend_way(slot),
            Event::MendStore => self.mend_store(),
            Event::Calm => self.calm_down(),
        }
    }

    fn fault(&mut self) {
        match self.history.rng.u32(0..100) {
            0..15 => self.part_some(),
            15..26 => self.pause_worker(),
            26..38 => self.pause_coordinator(),
            38..48 => self.crash_worker(),
            48..57 => self.crash_coordinator(),
            57..67 => self.crash_store(),
            67..77 => self.spoil_way(),
            77..87 => self.spoil_part(),
            87..94 => self.jump(),
            _ => {
                let slot = self.history.rng.usize(0..self.slots.len());
                self.count("broken connections", format_args!("{slot}"));
                self.break_streams(Some(slot), None);
            }
        }
    }

    pub(crate) fn count(&mut self, kind: &'static str, what: fmt::Arguments<'_>) {
        self.history.count(kind, what);
    }

    /// Ends all streams of a place, or of a coordinator.
    pub(crate) fn break_streams(&mut self, slot: Option<usize>, coordinator: Option<u64>) {
        let history = &mut self.history;
        self.network.break_streams(history, slot, coordinator);
    }

    /// Some milliseconds, mostly few.
    fn some_time(&mut self) -> u64 {
        let most = self.history.one_of(&[300, 3_000, 30_000]);
        self.history.rng.u64(1..=most)
    }

    fn part_some(&mut self) {
        let until = self.history.now + self.some_time();
        let drops = self.history.rng.bool();
        let (kind, ways): (_, &[Way]) = match self.history.rng.u32(0..4) {
            0 => ("partitions up", &[Way::Up]),
            1 => ("partitions down", &[Way::Down]),
            _ => ("partitions", &[Way::Up, Way::Down]),
        };
        let all = self.history.per_mille(300);
        let one = self.history.rng.usize(0..self.slots.len());
        for slot in (0..self.slots.len()).filter(|&slot| all || slot == one) {
            self.count(kind, format_args!("{slot} until {until}, drops {drops}"));
            self.network.part(slot, ways, until, drops);
        }
    }

    fn pause_worker(&mut self) {
        let time = self.some_time();
        let slot = self.history.rng.usize(0..self.slots.len());
        if let Some(worker) = &mut self.slots[slot].worker
            && !worker.node.paused
        {
            worker.node.paused = true;
            let number = worker.number();
            self.count("paused workers", format_args!("{number} for {time}"));
            self.plan(time, Event::ResumeWorker(number));
        }
    }

    fn resume_worker(&mut self, number: u64) {
        let slots = self.slots.iter_mut();
        let mut workers = slots.filter_map(|slot| slot.worker.as_mut());
        let worker = workers.find(|worker| worker.number() == number && worker.node.paused);
        if let Some(worker) = worker {
            worker.node.resume(self.history.now);
        }
    }

    /// The coordinator is stopped for a while; sometimes somebody starts another one meanwhile.
    fn pause_coordinator(&mut self) {
        let time = self.some_time();
        let last = self.coordinators.last_mut();
        let Some(last) = last.filter(|last| !last.node.paused) else {
            return;
        };
        last.node.paused = true;
        let number = last.number;
        self.count("paused coordinators", format_args!("{number} for {time}"));
        self.plan(time, Event::ResumeCoordinator(number));
        if self.history.per_mille(400) {
            self.count("overtaken coordinators", format_args!("{number}"));
            self.start_coordinator();
        }
    }

    fn resume_coordinator(&mut self, number: u64) {
        if let Some(at) = self.place_of(number)
            && self.coordinators[at].node.paused
        {
            self.coordinators[at].node.resume(self.history.now);
        }
    }

    fn crash_worker(&mut self) {
        let (time, loud) = (self.some_time(), self.history.rng.bool());
        let slot = self.history.rng.usize(0..self.slots.len());
        if self.slots[slot].worker.is_some() {
            self.kill_worker(slot, loud);
            self.plan(time, Event::StartWorker(slot));
        }
    }

    /// The process is gone, and what it wrote is there.
    fn crash_coordinator(&mut self) {
        let time = self.some_time();
        if let Some(last) = self.coordinators.pop() {
            self.count("crashed coordinators", format_args!("{}", last.number));
            self.bury(last.number);
            drop(last);
            // An overtaken one is not to be mistaken for the owner.
            self.end_coordinators();
            self.plan(time, Event::StartCoordinator);
        }
    }

    /// The store goes down, now or in the middle of one of the next calls; the coordinators may go with it.
    fn crash_store(&mut self) {
        if self.store.is_down() {
            return;
        }
        let (soon, together) = (self.history.rng.u64(0..12), self.history.rng.bool());
        self.history.log(format_args!(
            "the store crashes in {soon} calls, the coordinators too: {together}"
        ));
        self.store.crash_soon(soon, together);
    }

    pub(crate) fn crash_machine(&mut self) {
        let time = self.some_time();
        self.count("crashed machines", format_args!("for {time}"));
        self.end_coordinators();
        self.store.mend();
        self.plan(if self.calm { 1 } else { time }, Event::StartCoordinator);
    }

    /// The store is down, for some time.
    pub(crate) fn begin_outage(&mut self) {
        if self.in_outage {
            return;
        }
        let time = self.some_time();
        self.in_outage = true;
        self.outages += 1;
        self.count("outages", format_args!("for {time}"));
        self.plan(if self.calm { 1 } else { time }, Event::MendStore);
    }

    fn mend_store(&mut self) {
        if self.in_outage {
            self.in_outage = false;
            self.store.mend();
        }
    }

    /// Something goes wrong with the way of a place to the store.
    fn spoil_way(&mut self) {
        let (time, few) = (self.some_time(), self.history.rng.u32(1..4));
        let slot = self.history.rng.usize(0..self.slots.len());
        let mut health = Health::default();
        let kind = match self.history.rng.u32(0..6) {
            cut @ 0..=1 => {
                health.cut = Some([Cut::Waits, Cut::Fails][cut as usize]);
                "stores out of reach"
            }
            2 => {
                health.failures = 300;
                "failing stores"
            }
            3 => {
                health.lags = true;
                "lagging stores"
            }
            4 => {
                // Some, or all until the way is mended.
                health.rotten_reads = self.history.one_of(&[few, u32::MAX]);
                "rotten reads"
            }
            _ => {
                health.rotten_writes = few;
                "rotten writes"
            }
        };
        self.harms += u64::from(health.rotten_reads + health.rotten_writes);
        self.count(kind, format_args!("{slot} for {time}, {health:?}"));
        *self.slots[slot].health.lock().unwrap() = health;
        self.plan(time, Event::MendWay(slot));
    }

    fn mend_way(&mut self, slot: usize) {
        *self.slots[slot].health.lock().unwrap() = Health::default();
    }

    /// A part is lost, or gets a wrong bit.
    fn spoil_part(&mut self) {
        let storage = self.store.now();
        let objects = storage.objects();
        let parts: Vec<_> = objects.iter().filter(|(key, _)| is_part(key)).collect();
        if parts.is_empty() || storage.has_crashed() {
            return;
        }
        let (key, bytes) = parts[self.history.rng.usize(0..parts.len())];
        self.harms += 1;
        if self.history.rng.bool() {
            self.count("lost parts", format_args!("{key}"));
            // If the store goes down at this very moment, the part may stay.
            at_once(storage.delete(std::slice::from_ref(key))).unwrap_or(());
        } else {
            let at = self.history.rng.usize(0..bytes.len());
            self.count("rotten parts", format_args!("{key} at {at}"));
            storage.flip_bit(key, at, self.history.rng.u32(0..8));
        }
    }

    fn end_coordinators(&mut self) {
        for coordinator in std::mem::take(&mut self.coordinators) {
            self.bury(coordinator.number);
        }
    }

    /// Callers of a dead coordinator may hear of it, or not.
    fn bury(&mut self, number: u64) {
        if self.history.rng.bool() {
            self.break_streams(None, Some(number));
        }
    }

    fn jump(&mut self) {
        let time = self.some_time();
        let nodes = self.slots.len() + 1;
        let which = self.history.rng.usize(0..nodes);
        let workers = self.slots.iter_mut();
        let workers = workers.filter_map(|slot| slot.worker.as_mut());
        let mut nodes: Vec<_> = workers.map(|worker| &mut worker.node).collect();
        nodes.extend(self.coordinators.last_mut().map(|last| &mut last.node));
        if let Some(node) = nodes.into_iter().filter(|node| !node.paused).nth(which) {
            node.jump(time);
            self.count("jumped clocks", format_args!("node {which} by {time}"));
        }
    }

    /// Nothing bad happens any more.
    fn calm_down(&mut self) {
        self.calm = true;
        self.network.heal(Weather::calm(20));
        if self.store.took_coordinators() {
            self.crash_machine();
        }
        self.store.crash_soon(u64::MAX, false);
        self.mend_store();
        for slot in 0..self.slots.len() {
            self.mend_way(slot);
        }
        let overtaken: Vec<u64> = self.coordinators.iter().map(|it| it.number).collect();
        for number in overtaken {
            self.resume_coordinator(number);
        }
        if self.plot.replicas > 1 && self.coordinators.len() > 1 {
            // Each may wait for a worker that is with another, and write nothing meanwhile.
            self.end_coordinators();
        }
        self.plan(1, Event::StartCoordinator);
        let slots = self.slots.iter();
        let workers = slots.map(|slot| slot.worker.as_ref().map(Worker::number));
        let workers: Vec<_> = workers.collect();
        for (slot, worker) in workers.into_iter().enumerate() {
            match worker {
                Some(number) => self.resume_worker(number),
                None => self.plan(1, Event::StartWorker(slot)),
            }
        }
    }
}
