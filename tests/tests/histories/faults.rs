//! What happens to the world.

use std::sync::Arc;

use crate::network::Weather;
use crate::wire::Way;
use crate::worker::Worker;
use crate::world::{Event, World};

/// Weather in which nothing gets lost.
const CALM: Weather = Weather {
    latency: 20,
    tails: 0,
    tail: 0,
    losses: 0,
    doubles: 0,
};

impl World {
    pub(crate) fn happen(&mut self, event: Event) {
        self.history.log(format_args!("{event:?}"));
        match event {
            Event::Fault => {
                if !self.calm {
                    self.fault();
                    let next = self.history.chance.u64(1..=2 * self.plot.between_faults);
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
            Event::Calm => self.calm_down(),
        }
    }

    fn fault(&mut self) {
        match self.history.chance.u32(0..100) {
            0..18 => self.part_some(),
            18..32 => self.pause_worker(),
            32..46 => self.pause_coordinator(),
            46..58 => self.crash_worker(),
            58..70 => self.crash_coordinator(),
            70..82 => self.crash_storage(),
            82..92 => self.jump(),
            _ => {
                let slot = self.history.chance.usize(0..self.slots.len());
                self.history
                    .count("broken connections", format_args!("{slot}"));
                self.network
                    .break_streams(&mut self.history, Some(slot), None);
            }
        }
    }

    /// Some milliseconds, mostly few.
    fn some_time(&mut self) -> u64 {
        let most = self.history.one_of(&[300, 3_000, 30_000]);
        self.history.chance.u64(1..=most)
    }

    fn part_some(&mut self) {
        let until = self.history.now + self.some_time();
        let drops = self.history.chance.bool();
        let (kind, ways): (_, &[Way]) = match self.history.chance.u32(0..4) {
            0 => ("partitions up", &[Way::Up]),
            1 => ("partitions down", &[Way::Down]),
            _ => ("partitions", &[Way::Up, Way::Down]),
        };
        let all = self.history.per_mille(300);
        let one = self.history.chance.usize(0..self.slots.len());
        for slot in (0..self.slots.len()).filter(|&slot| all || slot == one) {
            self.history
                .count(kind, format_args!("{slot} until {until}, drops {drops}"));
            self.network.part(slot, ways, until, drops);
        }
    }

    fn pause_worker(&mut self) {
        let time = self.some_time();
        let slot = self.history.chance.usize(0..self.slots.len());
        if let Some(worker) = &mut self.slots[slot].worker
            && !worker.node.paused
        {
            worker.node.paused = true;
            let number = worker.number();
            self.history
                .count("paused workers", format_args!("{number} for {time}"));
            self.plan(time, Event::ResumeWorker(number));
        }
    }

    fn resume_worker(&mut self, number: u64) {
        let mut workers = self
            .slots
            .iter_mut()
            .filter_map(|slot| slot.worker.as_mut());
        let worker = workers.find(|worker| worker.number() == number && worker.node.paused);
        if let Some(worker) = worker {
            worker.node.resume(self.history.now);
        }
    }

    /// The coordinator is stopped for a while; sometimes somebody starts another one meanwhile.
    fn pause_coordinator(&mut self) {
        let time = self.some_time();
        let Some(last) = self
            .coordinators
            .last_mut()
            .filter(|last| !last.node.paused)
        else {
            return;
        };
        last.node.paused = true;
        let number = last.number;
        self.history
            .count("paused coordinators", format_args!("{number} for {time}"));
        self.plan(time, Event::ResumeCoordinator(number));
        if self.history.per_mille(400) {
            self.history
                .count("overtaken coordinators", format_args!("{number}"));
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
        let (time, loud) = (self.some_time(), self.history.chance.bool());
        let slot = self.history.chance.usize(0..self.slots.len());
        if self.slots[slot].worker.is_some() {
            self.kill_worker(slot, loud);
            self.plan(time, Event::StartWorker(slot));
        }
    }

    /// The process is gone, and what it wrote is there.
    fn crash_coordinator(&mut self) {
        let time = self.some_time();
        if let Some(last) = self.coordinators.pop() {
            self.history
                .count("crashed coordinators", format_args!("{}", last.number));
            self.bury(last.number);
            drop(last);
            // An overtaken one is not to be mistaken for the owner.
            self.end_coordinators();
            self.plan(time, Event::StartCoordinator);
        }
    }

    /// The machine of the storage goes down, now or in the middle of one of the next calls.
    fn crash_storage(&mut self) {
        let soon = self.history.chance.u64(0..12);
        self.history
            .log(format_args!("the storage crashes in {soon} calls"));
        self.storage.crash_at(self.storage.calls() + soon);
    }

    pub(crate) fn crash_machine(&mut self) {
        let time = self.some_time();
        self.history
            .count("crashed machines", format_args!("for {time}"));
        self.end_coordinators();
        self.storage = Arc::new(self.storage.crash());
        self.plan(if self.calm { 1 } else { time }, Event::StartCoordinator);
    }

    fn end_coordinators(&mut self) {
        for coordinator in std::mem::take(&mut self.coordinators) {
            self.bury(coordinator.number);
        }
    }

    /// Those who speak to a dead coordinator may hear of it, or not.
    fn bury(&mut self, number: u64) {
        if self.history.chance.bool() {
            self.network
                .break_streams(&mut self.history, None, Some(number));
        }
    }

    fn jump(&mut self) {
        let time = self.some_time();
        let nodes = self.slots.len() + 1;
        let which = self.history.chance.usize(0..nodes);
        let workers = self.slots.iter_mut();
        let mut nodes: Vec<_> = workers
            .filter_map(|slot| slot.worker.as_mut())
            .map(|worker| &mut worker.node)
            .collect();
        nodes.extend(self.coordinators.last_mut().map(|last| &mut last.node));
        if let Some(node) = nodes.into_iter().filter(|node| !node.paused).nth(which) {
            node.jump(time);
            self.history
                .count("jumped clocks", format_args!("node {which} by {time}"));
        }
    }

    /// Nothing bad happens any more.
    fn calm_down(&mut self) {
        self.calm = true;
        self.network.heal(CALM);
        self.storage.crash_at(u64::MAX);
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
