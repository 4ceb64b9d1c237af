//! Which workers are there, and which are not to be trusted.

use std::collections::BTreeSet;

use chomp_table::Head;

use super::Plan;
use super::messages::{
    Action, Answer, LeaseId, Loss, Millis, Misdeed, RequestId, WorkerId, WorkerProgress,
};
use super::ranges::Lost;

/// A worker that is there.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) threads: u32,
    pub(super) leases: BTreeSet<LeaseId>,
    pub(super) requests: BTreeSet<RequestId>,
    /// When it was last heard of.
    pub(super) heard: Millis,
    /// The tasks that it lost.
    pub(super) failures: u64,
    /// The tasks that it failed since one of its results was taken.
    pub(super) failures_in_a_row: u32,
}

/// A worker that gets no more tasks.
#[derive(Clone, Debug)]
pub(super) struct Outcast {
    pub(super) name: String,
    pub(super) misdeed: Misdeed,
}

impl Plan {
    pub(super) fn joined(&mut self, now: Millis, worker: WorkerId, name: String, threads: u32) {
        if self.outcasts.contains_key(&worker) {
            return;
        }
        let new = Worker {
            name: String::new(),
            threads: 0,
            leases: BTreeSet::new(),
            requests: BTreeSet::new(),
            heard: now,
            failures: 0,
            failures_in_a_row: 0,
        };
        let entry = self.workers.entry(worker).or_insert(new);
        self.threads = self.threads - u64::from(entry.threads) + u64::from(threads);
        entry.name = name;
        entry.threads = threads;
        self.heard(now, worker);
    }

    /// Notes that a worker is there.
    pub(super) fn heard(&mut self, now: Millis, worker: WorkerId) {
        if let Some(entry) = self.workers.get_mut(&worker) {
            self.silences.remove(&(entry.heard, worker));
            self.silences.insert((now, worker));
            entry.heard = now;
        }
    }

    pub(super) fn left(&mut self, worker: WorkerId, out: &mut Vec<Action>) {
        if let Some(gone) = self.remove(worker) {
            for request in gone.requests {
                self.requests.remove(&request);
            }
            for lease in gone.leases {
                self.end_lease(lease, None, out);
            }
        }
    }

    /// Forgets the workers that have fallen silent. They have lost their leases long before.
    pub(super) fn forget_silent(&mut self, now: Millis, out: &mut Vec<Action>) {
        while let Some(&(heard, worker)) = self.silences.first()
            && heard.plus(self.settings.silence_ms) <= now
        {
            self.left(worker, out);
        }
    }

    /// When the next worker is forgotten, unless it is heard of.
    pub(super) fn next_silence(&self) -> Option<Millis> {
        let first = self.silences.first();
        first.map(|(heard, _)| heard.plus(self.settings.silence_ms))
    }

    fn remove(&mut self, worker: WorkerId) -> Option<Worker> {
        let gone = self.workers.remove(&worker)?;
        self.silences.remove(&(gone.heard, worker));
        self.threads -= u64::from(gone.threads);
        Some(gone)
    }

    /// What people call a worker.
    pub(super) fn name(&self, worker: WorkerId) -> String {
        let here = self.workers.get(&worker).map(|worker| &worker.name);
        let outcast = self.outcasts.get(&worker).map(|outcast| &outcast.name);
        here.or(outcast)
            .cloned()
            .unwrap_or_else(|| format!("number {worker}, which has left"))
    }

    /// Counts a lost task of a worker; one that fails whatever it tries gets no more. To be silent
    /// is no sign of that: machines come and go.
    pub(super) fn count_loss(
        &mut self,
        worker: WorkerId,
        how: Lost,
        loss: &Loss,
        out: &mut Vec<Action>,
    ) {
        let Some(entry) = self.workers.get_mut(&worker) else {
            return;
        };
        entry.failures += 1;
        if how == Lost::Expired {
            return;
        }
        entry.failures_in_a_row += 1;
        let tasks = entry.failures_in_a_row;
        if tasks >= self.settings.worker_failures_max {
            let last = loss.to_string();
            self.quarantine(worker, Misdeed::Failing { tasks, last }, out);
        }
    }

    /// Has nothing to do with a worker any more: its leases go to others, its votes do not count,
    /// and if it lied, the coordinator computes again what it had delivered.
    pub(super) fn quarantine(&mut self, worker: WorkerId, misdeed: Misdeed, out: &mut Vec<Action>) {
        if self.outcasts.contains_key(&worker) {
            return;
        }
        let name = self.name(worker);
        let outcast = Outcast {
            name: name.clone(),
            misdeed: misdeed.clone(),
        };
        self.outcasts.insert(worker, outcast);
        if let Some(gone) = self.remove(worker) {
            for request in gone.requests {
                self.requests.remove(&request);
                let answer = Answer::Quarantined {
                    reason: misdeed.clone(),
                };
                out.push(Action::Answer { request, answer });
            }
            for lease in gone.leases {
                self.end_lease(lease, None, out);
            }
        }
        let delivered = self.delivered.remove(&worker).unwrap_or_default();
        for head in self.board.heads() {
            self.refile(head, |copies| {
                copies.votes.retain(|vote| vote.worker != worker);
            });
        }
        if matches!(misdeed, Misdeed::Lied { .. }) {
            self.audit_all(&delivered);
        }
        out.push(Action::Quarantine {
            worker,
            name,
            reason: misdeed,
        });
    }

    /// Notes that the content of a range that is being written is what `worker` found.
    pub(super) fn credit(&mut self, worker: WorkerId, head: Head) {
        self.delivered.entry(worker).or_default().push(head);
    }

    /// Why this worker gets no more tasks, if it does not.
    pub fn misdeed(&self, worker: WorkerId) -> Option<&Misdeed> {
        self.outcasts.get(&worker).map(|outcast| &outcast.misdeed)
    }

    /// Whether this worker has joined and is not forgotten.
    pub fn is_there(&self, worker: WorkerId) -> bool {
        self.workers.contains_key(&worker)
    }

    /// The workers that are there, and those that get no more tasks.
    pub fn workers(&self) -> impl Iterator<Item = WorkerProgress> + '_ {
        let here = self.workers.iter().map(|(&id, worker)| WorkerProgress {
            id,
            name: worker.name.clone(),
            threads: worker.threads,
            leases: worker.leases.len() as u64,
            ranges: self.delivered.get(&id).map_or(0, Vec::len) as u64,
            failures: worker.failures,
            heard: worker.heard,
            misdeed: None,
        });
        let outcasts = self.outcasts.iter().map(|(&id, outcast)| WorkerProgress {
            id,
            name: outcast.name.clone(),
            threads: 0,
            leases: 0,
            ranges: 0,
            failures: 0,
            heard: Millis(0),
            misdeed: Some(outcast.misdeed.clone()),
        });
        here.chain(outcasts)
    }
}
