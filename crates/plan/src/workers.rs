//! Workers: which are present, and which get no more tasks.
//!
//! A worker names itself, so the owner of one credential can be many workers. Trust is therefore a matter of
//! **participants**, which have a credential each.

use std::collections::{BTreeMap, BTreeSet};

use super::Plan;
use super::ids::{LeaseId, Millis, ParticipantId, Party, RequestId, Unit, WorkerId};
use super::messages::{LeaseAnswer, PlanTypes, WorkerProgress};
use super::reasons::OutReason;
use super::requests::Waiter;

#[derive(Debug, Default)]
pub(super) struct Worker {
    pub(super) progress: WorkerProgress,
    pub(super) leases: BTreeSet<LeaseId>,
    pub(super) requests: BTreeSet<RequestId>,
    /// The position of the worker among the waiting ones, if it has a request.
    pub(super) waiter: Option<Waiter>,
}

impl Worker {
    pub(super) fn is_busy(&self) -> bool {
        self.leases.len() >= self.progress.threads.max(1) as usize
    }
}

#[derive(Debug, Default)]
pub(super) struct Workers {
    /// Also the referee.
    pub(super) by_id: BTreeMap<WorkerId, Worker>,
    /// The referee, if it is present.
    pub(super) referee: Option<WorkerId>,
    /// The number of present workers of each participant but the referee, none of them 0.
    pub(super) count_by_participant: BTreeMap<ParticipantId, usize>,
    /// When each worker was last heard of.
    last_heard: BTreeSet<(Millis, WorkerId)>,
    /// The threads of all present workers together, but the referee's.
    pub(super) threads: u64,
    /// The parties that are out: for each, the name of the worker that caused it, and the reason.
    pub(super) out: BTreeMap<Party, (String, OutReason)>,
    /// Parties that have joined: all of them, or more than have to find the same.
    pub(super) parties: BTreeSet<Party>,
    /// The number of ranges that each participant has found, to tell [newcomers](super::Settings::newcomer_ranges).
    pub(super) ranges_found: BTreeMap<ParticipantId, u32>,
}

impl Workers {
    /// A worker that holds a lease or waits, and so is present.
    pub(super) fn get_mut(&mut self, worker: WorkerId) -> &mut Worker {
        let entry = self.by_id.get_mut(&worker);
        entry.expect("leases and requests end with their worker")
    }

    /// Counts a unit that a worker found, if it is a range.
    pub(super) fn credit(&mut self, worker: WorkerId, unit: Unit) {
        if let (Some(entry), Unit::Range(_)) = (self.by_id.get_mut(&worker), unit) {
            entry.progress.ranges += 1;
        }
    }

    pub(super) fn hear(&mut self, now: Millis, worker: WorkerId) {
        if let Some(entry) = self.by_id.get_mut(&worker) {
            let before = std::mem::replace(&mut entry.progress.heard, now);
            self.last_heard.remove(&(before, worker));
            self.last_heard.insert((now, worker));
        }
    }

    /// The present workers but the referee.
    pub(super) fn all(&self) -> impl Iterator<Item = WorkerId> + '_ {
        let all = self.by_id.keys().copied();
        all.filter(|worker| !worker.is_referee())
    }

    pub(super) fn count(&self) -> usize {
        self.by_id.len() - usize::from(self.referee.is_some())
    }

    fn join(&mut self, now: Millis, worker: WorkerId, name: String, threads: u32) {
        let is_new = !self.by_id.contains_key(&worker);
        let entry = self.by_id.entry(worker).or_default();
        let before = std::mem::replace(&mut entry.progress.threads, threads);
        (entry.progress.id, entry.progress.name) = (worker, name);
        if worker.is_referee() {
            self.referee = Some(worker);
        } else {
            self.threads = self.threads - u64::from(before) + u64::from(threads);
            let count = self.count_by_participant.entry(worker.participant);
            *count.or_default() += usize::from(is_new);
        }
        self.hear(now, worker);
    }

    fn remove(&mut self, worker: WorkerId) -> Option<Worker> {
        let gone = self.by_id.remove(&worker)?;
        self.last_heard.remove(&(gone.progress.heard, worker));
        if worker.is_referee() {
            self.referee = None;
            return Some(gone);
        }
        self.threads -= u64::from(gone.progress.threads);
        let count = self.count_by_participant.get_mut(&worker.participant);
        let count = count.expect("counted when it joined");
        *count -= 1;
        if *count == 0 {
            self.count_by_participant.remove(&worker.participant);
        }
        Some(gone)
    }

    fn out(&self, worker: WorkerId) -> Option<&(String, OutReason)> {
        let of_all = self.out.get(&Party::Participant(worker.participant));
        of_all.or_else(|| self.out.get(&Party::Worker(worker)))
    }

    pub(super) fn out_reason(&self, worker: WorkerId) -> Option<&OutReason> {
        self.out(worker).map(|(_, reason)| reason)
    }

    pub(super) fn name(&self, worker: WorkerId) -> String {
        let present = self.by_id.get(&worker).map(|worker| &worker.progress.name);
        let out = self.out(worker).map(|(name, _)| name);
        let name = present.or(out).cloned();
        name.unwrap_or_else(|| format!("number {worker}, which has left"))
    }

    pub(super) fn of(&self, party: Party) -> Vec<WorkerId> {
        let workers = self.by_id.range(WorkerId::all_of(party.participant()));
        let workers = workers.map(|(&worker, _)| worker);
        workers.filter(|&worker| party.includes(worker)).collect()
    }
}

impl<T: PlanTypes> Plan<T> {
    pub(super) fn on_joined(&mut self, worker: WorkerId, name: String, threads: u32) {
        if self.workers.out_reason(worker).is_none() {
            self.workers.join(self.now, worker, name, threads);
            let party = self.party_of(worker);
            // More make no difference.
            if !worker.is_referee() && self.workers.parties.len() <= self.settings.replicas as usize
            {
                self.workers.parties.insert(party);
            }
            self.update_waiter(worker);
            self.touch_sampled();
        }
    }

    /// The leases of a worker that leaves are offered to others. Requests of a worker that is out are answered with the
    /// reason; requests of other workers need no answer.
    pub(super) fn on_left(&mut self, worker: WorkerId) {
        let Some(gone) = self.workers.remove(worker) else {
            return;
        };
        self.queue.fresh.release(worker);
        self.review.is_due = true;
        if let Some(waiter) = gone.waiter {
            self.review.waiting.remove(&waiter);
        }
        let reason = self.workers.out_reason(worker).cloned();
        for request in gone.requests {
            let request = self.requests.remove(&request);
            if let (Some((_, responder)), Some(reason)) = (request, reason.clone()) {
                self.send(worker, responder, LeaseAnswer::Out { reason });
            }
        }
        for lease in gone.leases {
            self.end_lease(lease, None);
        }
        self.touch_sampled();
    }

    /// Forgets the workers that have fallen silent. Their leases have ended long before.
    pub(super) fn forget_silent(&mut self) {
        while let Some(&(heard, worker)) = self.workers.last_heard.first()
            && heard.plus(self.settings.silence_ms) <= self.now
        {
            self.on_left(worker);
        }
    }

    /// When the next worker is forgotten, unless it is heard of.
    pub(super) fn next_silence(&self) -> Option<Millis> {
        let first = self.workers.last_heard.first();
        first.map(|(heard, _)| heard.plus(self.settings.silence_ms))
    }

    /// The party for which a worker counts, whoever else is there. Each worker of the owner is one at one replica. Workers
    /// of another participant could confirm each other's lies, so it is one party with all of them; and so is the owner
    /// where several participants have to find the same.
    pub(super) fn party_of(&self, worker: WorkerId) -> Party {
        if worker.participant == ParticipantId::OWNER && self.settings.replicas == 1 {
            Party::Worker(worker)
        } else {
            Party::Participant(worker.participant)
        }
    }

    /// Notes that a worker cannot read so many records, which are in order. Returns how many there were before, or
    /// nothing if the worker is gone.
    pub fn note_unreadable(&mut self, worker: WorkerId, records: u64) -> Option<u64> {
        let entry = self.workers.by_id.get_mut(&worker)?;
        let before = entry.progress.unreadable;
        entry.progress.unreadable += records;
        Some(before)
    }

    /// The number of workers that are present, and of those of one participant among them.
    pub fn present_workers(&self, participant: ParticipantId) -> (usize, usize) {
        let theirs = self.workers.count_by_participant.get(&participant);
        (self.workers.count(), theirs.copied().unwrap_or(0))
    }

    /// Whether a worker has fewer tasks than threads.
    pub fn would_idle(&self, worker: WorkerId) -> bool {
        let entry = self.workers.by_id.get(&worker);
        entry.is_some_and(|entry| !entry.is_busy())
    }

    /// Whether this worker has joined and is not forgotten.
    pub fn is_present(&self, worker: WorkerId) -> bool {
        self.workers.by_id.contains_key(&worker)
    }

    /// Why this worker is out, if it is.
    pub fn out_reason(&self, worker: WorkerId) -> Option<&OutReason> {
        self.workers.out_reason(worker)
    }

    /// The workers that are present, but the referee, and those that get no more tasks.
    pub fn workers(&self) -> impl Iterator<Item = WorkerProgress> + '_ {
        let present = self.workers.all().map(|worker| {
            let worker = &self.workers.by_id[&worker];
            WorkerProgress {
                leases: worker.leases.len() as u64,
                ..worker.progress.clone()
            }
        });
        let out = self.workers.out.iter().map(|(&party, (name, reason))| {
            let id = match party {
                Party::Participant(participant) => WorkerId::new(participant.0, 0),
                Party::Worker(worker) => worker,
            };
            WorkerProgress {
                id,
                name: name.clone(),
                out: Some(reason.clone()),
                ..WorkerProgress::default()
            }
        });
        present.chain(out)
    }
}
