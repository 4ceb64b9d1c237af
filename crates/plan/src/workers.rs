//! Workers: which are there, and which participants are not trusted.
//!
//! A worker names itself, so the owner of one credential can be many workers. Trust is therefore a matter of
//! **participants**, which have a credential each. A participant has one vote, and is quarantined with all its workers.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;

use super::Plan;
use super::ids::{LeaseId, Millis, ParticipantId, RequestId, WorkerId};
use super::messages::{Action, LeaseAnswer, QuarantineReason, Rejection, WorkerProgress};

/// A worker that is there.
#[derive(Debug, Default)]
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) threads: u32,
    pub(super) leases: BTreeSet<LeaseId>,
    /// Its requests that wait.
    pub(super) requests: BTreeSet<RequestId>,
    /// Its place among the workers that wait, if it has a request.
    queued: Option<Waiter>,
    /// When it was last heard of.
    pub(super) heard: Millis,
    /// When it last asked for a task, or handed one in.
    pub(super) asked: Millis,
    /// The results of evaluations that were taken.
    pub(super) results: u64,
    /// The agreed units that it found.
    pub(super) agreed: u64,
    /// Its tasks that failed, were rejected, or were not renewed in time.
    pub(super) failures: u64,
}

/// A worker that waits, those with a thread without a task first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiter {
    /// Whether it has a task for each thread.
    pub(super) is_busy: bool,
    pub(super) request: RequestId,
    pub(super) worker: WorkerId,
}

impl Worker {
    /// Whether it has a task for each thread.
    pub(super) fn is_busy(&self) -> bool {
        self.leases.len() >= self.threads.max(1) as usize
    }
}

/// Why a participant gets no more tasks, and the name of the worker for which it was quarantined.
#[derive(Clone, Debug)]
pub(super) struct Quarantined {
    pub(super) name: String,
    pub(super) reason: QuarantineReason,
}

impl Plan {
    pub(super) fn joined(&mut self, worker: WorkerId, name: String, threads: u32) {
        if self.quarantine_reason(worker).is_some() {
            return;
        }
        let mut is_new = false;
        if let Entry::Vacant(vacant) = self.workers.entry(worker) {
            vacant.insert(Worker::default());
            *self.present.entry(worker.participant).or_default() += 1;
            is_new = true;
        }
        let entry = self.worker(worker);
        let before = std::mem::replace(&mut entry.threads, threads);
        entry.name = name;
        self.threads = self.threads - u64::from(before) + u64::from(threads);
        self.requeue(worker);
        self.heard(worker);
        if is_new {
            self.company_changed();
        }
    }

    /// Gives a worker its place among those that wait, after its requests, its leases or its threads have changed.
    pub(super) fn requeue(&mut self, worker: WorkerId) {
        let Some(entry) = self.workers.get_mut(&worker) else {
            return;
        };
        let new = entry.requests.first().map(|&request| Waiter {
            is_busy: entry.is_busy(),
            request,
            worker,
        });
        let old = std::mem::replace(&mut entry.queued, new);
        if let Some(old) = old {
            self.queue.remove(&old);
        }
        if let Some(new) = new {
            self.queue.insert(new);
            if old.is_none_or(|old| old.is_busy && !new.is_busy) {
                self.recheck_workers.insert(worker);
            }
        }
    }

    /// Whether a result of a worker that is there was taken.
    pub fn has_delivered(&self, worker: WorkerId) -> bool {
        let entry = self.workers.get(&worker);
        entry.is_some_and(|entry| entry.results > 0)
    }

    /// Whether a worker has fewer tasks than threads.
    pub fn would_idle(&self, worker: WorkerId) -> bool {
        let entry = self.workers.get(&worker);
        entry.is_some_and(|entry| !entry.is_busy())
    }

    /// Whether a thread of a worker waits for a task. Then everything that may lead to one is urgent.
    pub fn is_anybody_idle(&self) -> bool {
        self.queue.first().is_some_and(|first| !first.is_busy)
    }

    /// Notes that a worker is there.
    pub(super) fn heard(&mut self, worker: WorkerId) {
        if let Some(entry) = self.workers.get_mut(&worker) {
            self.silences.remove(&(entry.heard, worker));
            self.silences.insert((self.now, worker));
            entry.heard = self.now;
        }
    }

    pub(super) fn left(&mut self, worker: WorkerId) {
        if let Some(gone) = self.remove(worker) {
            for lease in gone.leases {
                self.note_idled(worker);
                self.end_lease(lease, None);
            }
            self.company_changed();
        }
    }

    /// Forgets the workers that have fallen silent. Their leases have ended long before.
    pub(super) fn forget_silent(&mut self) {
        while let Some(&(heard, worker)) = self.silences.first()
            && heard.plus(self.settings.silence_ms) <= self.now
        {
            self.left(worker);
        }
    }

    /// When the next worker is forgotten, unless it is heard of.
    pub(super) fn next_silence(&self) -> Option<Millis> {
        let first = self.silences.first();
        first.map(|(heard, _)| heard.plus(self.settings.silence_ms))
    }

    /// Takes a worker out, and its requests.
    fn remove(&mut self, worker: WorkerId) -> Option<Worker> {
        let gone = self.workers.remove(&worker)?;
        self.silences.remove(&(gone.heard, worker));
        self.asked.remove(&(gone.asked, worker));
        self.threads -= u64::from(gone.threads);
        let count = self.present.get_mut(&worker.participant);
        let count = count.expect("counted when it joined");
        *count -= 1;
        if *count == 0 {
            self.present.remove(&worker.participant);
        }
        self.ready.fresh.release(worker);
        for request in &gone.requests {
            self.requests.remove(request);
        }
        if let Some(waiter) = gone.queued {
            self.queue.remove(&waiter);
        }
        // The other workers may try again what they failed at.
        self.requests_dirty = true;
        Some(gone)
    }

    /// The name of a worker, for people.
    pub(super) fn name(&self, worker: WorkerId) -> String {
        let here = self.workers.get(&worker).map(|worker| &worker.name);
        let quarantined = self.quarantined(worker).map(|one| &one.name);
        here.or(quarantined)
            .cloned()
            .unwrap_or_else(|| format!("number {worker}, which has left"))
    }

    /// A worker of this participant: one that is there, if any is.
    pub(super) fn some_worker(&self, participant: ParticipantId) -> WorkerId {
        let mut here = self.workers.range(WorkerId::all_of(participant));
        let here = here.next().map(|(&worker, _)| worker);
        here.unwrap_or_else(|| WorkerId::new(participant.0, 0))
    }

    /// Excludes a participant for what this worker of it did. Its leases go to others, and its votes do not count.
    pub(super) fn quarantine(&mut self, worker: WorkerId, quarantine: QuarantineReason) {
        let participant = worker.participant;
        if self.quarantined.contains_key(&participant) {
            return;
        }
        let name = self.name(worker);
        let quarantined = Quarantined {
            name: name.clone(),
            reason: quarantine.clone(),
        };
        self.quarantined.insert(participant, quarantined);
        let workers = self.workers.range(WorkerId::all_of(participant));
        for worker in workers.map(|(&worker, _)| worker).collect::<Vec<_>>() {
            self.dismiss(worker, &quarantine);
        }
        let rejection = Rejection::Quarantined {
            reason: quarantine.clone(),
        };
        self.remove_votes(participant, &rejection);
        self.company_changed();
        self.out.push(Action::Quarantine {
            worker,
            name,
            reason: quarantine,
        });
    }

    /// Removes a worker that gets no more tasks, and answers its requests.
    fn dismiss(&mut self, worker: WorkerId, quarantine: &QuarantineReason) {
        if let Some(gone) = self.remove(worker) {
            for request in gone.requests {
                let answer = LeaseAnswer::Quarantined {
                    reason: quarantine.clone(),
                };
                self.out.push(Action::Answer { request, answer });
            }
            for lease in gone.leases {
                self.end_lease(lease, None);
            }
        }
    }

    /// Counts a unit whose agreed content `worker` found.
    pub(super) fn count_agreed(&mut self, worker: WorkerId) {
        if let Some(entry) = self.workers.get_mut(&worker) {
            entry.agreed += 1;
        }
    }

    /// Why this worker gets no more tasks, if it does not.
    pub fn quarantine_reason(&self, worker: WorkerId) -> Option<&QuarantineReason> {
        self.quarantined(worker).map(|one| &one.reason)
    }

    fn quarantined(&self, worker: WorkerId) -> Option<&Quarantined> {
        self.quarantined.get(&worker.participant)
    }

    /// Whether this worker has joined and is not forgotten.
    pub fn is_there(&self, worker: WorkerId) -> bool {
        self.workers.contains_key(&worker)
    }

    /// How many workers of a participant are there.
    pub fn workers_of(&self, participant: ParticipantId) -> usize {
        self.present.get(&participant).copied().unwrap_or(0)
    }

    /// The workers that are there, and those that get no more tasks.
    pub fn workers(&self) -> impl Iterator<Item = WorkerProgress> + '_ {
        let here = self.workers.iter().map(|(&id, worker)| WorkerProgress {
            id,
            name: worker.name.clone(),
            threads: worker.threads,
            leases: worker.leases.len() as u64,
            ranges: worker.agreed,
            failures: worker.failures,
            heard: worker.heard,
            quarantine: None,
        });
        let quarantined = self
            .quarantined
            .iter()
            .map(|(&participant, one)| WorkerProgress {
                id: WorkerId::new(participant.0, 0),
                name: one.name.clone(),
                threads: 0,
                leases: 0,
                ranges: 0,
                failures: 0,
                heard: Millis(0),
                quarantine: Some(one.reason.clone()),
            });
        here.chain(quarantined)
    }
}
