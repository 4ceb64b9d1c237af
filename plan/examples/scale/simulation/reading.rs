//! Reading over the links of the workers.

use super::{Simulation, Step, nanos, serving};

/// How many tasks of a worker read sources at a time.
const READERS_MAX: u32 = 4;

impl Simulation<'_> {
    /// Lets a lane read as soon as it is its turn.
    pub(super) fn take_turn(&mut self, lane: u32) {
        let worker = self.worker_of(lane);
        if self.lane(lane).takes_turns {
            if self.worker(worker).readers == READERS_MAX {
                self.worker(worker).in_line.push_back(lane);
                return;
            }
            self.worker(worker).readers += 1;
        }
        let at = self.now + nanos(self.lane(lane).latency);
        self.later(at, Step::Reading(lane));
    }

    pub(super) fn reading(&mut self, lane: u32) {
        let (now, worker, bytes) = (self.now, self.worker_of(lane), self.lane(lane).down);
        match &mut self.worker(worker).down {
            Some(link) if bytes > 0.0 => {
                link.begin(now, bytes, lane);
                self.expect_down(worker);
            }
            _ => self.has_read(lane),
        }
    }

    pub(super) fn expect_down(&mut self, worker: u32) {
        let next = self
            .worker(worker)
            .down
            .as_ref()
            .and_then(serving::Link::next);
        if let Some((at, changes)) = next {
            self.later(at, Step::Down { worker, changes });
        }
    }

    pub(super) fn expect_up(&mut self, worker: u32) {
        let next = self
            .worker(worker)
            .up
            .as_ref()
            .and_then(serving::Link::next);
        if let Some((at, changes)) = next {
            self.later(at, Step::Up { worker, changes });
        }
    }

    /// Notes that a lane has read its sources. Other lanes may wait for them.
    pub(super) fn has_read(&mut self, lane: u32) {
        let worker = self.worker_of(lane) as usize;
        if std::mem::take(&mut self.lane(lane).takes_turns) {
            self.workers[worker].readers -= 1;
            if let Some(next) = self.workers[worker].in_line.pop_front() {
                self.take_turn(next);
            }
        }
        for head in std::mem::take(&mut self.lane(lane).reads) {
            self.workers[worker].keep(head, &self.job.weights);
        }
        self.come(lane);
        for other in std::mem::take(&mut self.lane(lane).awaited_by) {
            self.come(other);
        }
    }

    /// Notes that something has come that a lane waits for. If nothing else is missing, its task is computed.
    pub(super) fn come(&mut self, lane: u32) {
        self.lane(lane).waits -= 1;
        if self.lane(lane).waits > 0 {
            return;
        }
        let (now, worker, mut work) = (self.now, self.worker_of(lane), self.lane(lane).work);
        if self.cluster.shared {
            // The machine's threads do the coordinator's work between their own.
            work += self.control(lane);
            let (threads, machine) = (self.cluster.threads, self.cluster.coordinator_threads);
            work *= (f64::from(threads) / f64::from(machine)).max(1.0);
        }
        let at = self.worker(worker).threads.serve(now, work);
        self.later(at, Step::Computed(lane));
    }
}
