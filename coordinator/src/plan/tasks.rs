//! Who works on what: workers, their requests, tasks and leases.

use std::collections::BTreeSet;

use chomp_table::Head;

use super::messages::{
    Action, Answer, LeaseId, Loss, Millis, RequestId, StopReason, Task, WorkerId,
};
use super::ranges::State;
use super::{Phase, Plan};

/// A range that was tried in vain this often is offered alone.
const ALONE_AFTER: u32 = 2;

/// A worker that is there.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) threads: u32,
    pub(super) leases: BTreeSet<LeaseId>,
    pub(super) requests: BTreeSet<RequestId>,
}

/// A task in the hands of a worker.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) worker: WorkerId,
    /// The heads of the task, ascending.
    pub(super) heads: Vec<Head>,
    /// How many of them nobody else has handed in, at least one.
    pub(super) left: usize,
    pub(super) deadline: Millis,
}

impl Plan {
    pub(super) fn joined(&mut self, worker: WorkerId, threads: u32) {
        let new = Worker {
            threads: 0,
            leases: BTreeSet::new(),
            requests: BTreeSet::new(),
        };
        let entry = self.workers.entry(worker).or_insert(new);
        self.threads = self.threads - u64::from(entry.threads) + u64::from(threads);
        entry.threads = threads;
    }

    pub(super) fn left(&mut self, worker: WorkerId, out: &mut Vec<Action>) {
        if let Some(gone) = self.workers.remove(&worker) {
            self.threads -= u64::from(gone.threads);
            for request in gone.requests {
                self.requests.remove(&request);
            }
            for lease in gone.leases {
                self.end_lease(lease, None, out);
            }
        }
    }

    /// Lets the request wait; [`Plan::answer_requests`] ends the wait at once if it can.
    pub(super) fn wanted(&mut self, request: RequestId, worker: WorkerId, out: &mut Vec<Action>) {
        match self.workers.get_mut(&worker) {
            Some(entry) => {
                entry.requests.insert(request);
                self.requests.insert(request, worker);
            }
            None => out.push(Action::Answer {
                request,
                answer: Answer::NotJoined,
            }),
        }
    }

    pub(super) fn withdrawn(&mut self, request: RequestId) {
        if let Some(worker) = self.requests.remove(&request) {
            self.worker(worker).requests.remove(&request);
        }
    }

    pub(super) fn renewed(
        &mut self,
        now: Millis,
        worker: WorkerId,
        lease: LeaseId,
        out: &mut Vec<Action>,
    ) {
        let stands = !self.is_faulty() && self.holds(worker, lease);
        if stands {
            let deadline = now.plus(self.settings.lease_ms);
            let entry = self.leases.get_mut(&lease).expect("the worker holds it");
            self.deadlines.remove(&(entry.deadline, lease));
            self.deadlines.insert((deadline, lease));
            entry.deadline = deadline;
        }
        out.push(Action::Renewal { lease, stands });
    }

    pub(super) fn returned(&mut self, worker: WorkerId, lease: LeaseId, out: &mut Vec<Action>) {
        if self.holds(worker, lease) {
            self.end_lease(lease, None, out);
        }
    }

    pub(super) fn failed(
        &mut self,
        worker: WorkerId,
        lease: LeaseId,
        reason: String,
        out: &mut Vec<Action>,
    ) {
        if self.holds(worker, lease) {
            self.end_lease(lease, Some(&Loss::Failed { worker, reason }), out);
        }
    }

    /// Ends the leases whose time is over.
    pub(super) fn expire(&mut self, now: Millis, out: &mut Vec<Action>) {
        while let Some(&(deadline, lease)) = self.deadlines.first()
            && deadline <= now
        {
            let worker = self.leases[&lease].worker;
            self.end_lease(lease, Some(&Loss::Expired { worker }), out);
        }
    }

    /// Whether the lease stands and is this worker's.
    pub(super) fn holds(&self, worker: WorkerId, lease: LeaseId) -> bool {
        self.leases
            .get(&lease)
            .is_some_and(|lease| lease.worker == worker)
    }

    /// Ends a lease that stands. What nobody handed in is free again; with a `loss` it has one
    /// attempt less.
    pub(super) fn end_lease(&mut self, id: LeaseId, loss: Option<&Loss>, out: &mut Vec<Action>) {
        let lease = self.forget_lease(id);
        for head in lease.heads {
            if self.ranges.state(head) == State::Leased(id) {
                self.ranges.set_state(head, State::Waiting);
                self.free.insert(head);
                if let Some(last) = loss {
                    let attempts = self.ranges.lose(head);
                    if attempts >= self.settings.attempts_max {
                        self.stop(
                            StopReason::GaveUp {
                                head,
                                attempts,
                                last: last.clone(),
                            },
                            out,
                        );
                    }
                }
            }
        }
    }

    fn forget_lease(&mut self, id: LeaseId) -> Lease {
        let lease = self.leases.remove(&id).expect("the lease stands");
        self.deadlines.remove(&(lease.deadline, id));
        // A worker that leaves is gone before its leases.
        if let Some(worker) = self.workers.get_mut(&lease.worker) {
            worker.leases.remove(&id);
        }
        lease
    }

    /// Takes a range, which is not committed, out of the hands of whoever works on it.
    pub(super) fn take(&mut self, head: Head) {
        self.free.remove(&head);
        if let State::Leased(id) = self.ranges.state(head) {
            let lease = self.leases.get_mut(&id).expect("the range is leased");
            lease.left -= 1;
            if lease.left == 0 {
                self.forget_lease(id);
            }
        }
    }

    /// Makes the ranges of a layer that was just opened free to be offered.
    pub(super) fn share_open_layer(&mut self) {
        let heads = self.ranges.open_heads().iter().copied();
        self.free = heads
            .filter(|&head| self.ranges.state(head) == State::Waiting)
            .collect();
        self.to_share = self.ranges.open_missing();
    }

    /// Answers the requests that need not wait any longer.
    pub(super) fn answer_requests(&mut self, now: Millis, out: &mut Vec<Action>) {
        while let Some((&request, &worker)) = self.requests.first_key_value() {
            let answer = match &self.phase {
                Phase::Finished => Answer::Finished,
                Phase::Stopped(reason) => Answer::Stopped {
                    reason: reason.clone(),
                },
                Phase::Running if self.free.is_empty() => return,
                Phase::Running => Answer::Task(self.offer(now, worker)),
            };
            self.withdrawn(request);
            out.push(Action::Answer { request, answer });
        }
    }

    /// Cuts a task from the free ranges, of which there are some, and leases it.
    fn offer(&mut self, now: Millis, worker: WorkerId) -> Task {
        let heads = self.cut();
        let lease = LeaseId(self.next_lease);
        self.next_lease += 1;
        for &head in &heads {
            self.free.remove(&head);
            self.ranges.set_state(head, State::Leased(lease));
        }
        let task = Task {
            lease,
            attempt: self.ranges.lost(heads[0]).saturating_add(1),
            layer: self.ranges.open(),
            heads: heads.clone(),
            lease_ms: self.settings.lease_ms,
        };
        let deadline = now.plus(self.settings.lease_ms);
        self.leases.insert(
            lease,
            Lease {
                worker,
                left: heads.len(),
                heads,
                deadline,
            },
        );
        self.deadlines.insert((deadline, lease));
        self.worker(worker).leases.insert(lease);
        task
    }

    /// The lowest free range, and as many after it as make a good task, all with the same number
    /// of lost attempts.
    fn cut(&self) -> Vec<Head> {
        let lost = self
            .ranges
            .lost(*self.free.first().expect("some range is free"));
        let most = if lost >= ALONE_AFTER {
            1
        } else {
            self.task_ranges()
        };
        let alike = self
            .free
            .iter()
            .take_while(|&&head| self.ranges.lost(head) == lost);
        alike.take(most).copied().collect()
    }

    /// How many ranges make a good task: few enough that every thread gets several tasks of the
    /// layer, so that few idle at its end; but not so few that writing them takes longer than
    /// computing them, unless a thread would go without.
    fn task_ranges(&self) -> usize {
        let ranges = |positions| positions / self.settings.range_bits.positions();
        let to_share = self.to_share as u64;
        let tasks_per_thread = u64::from(self.settings.tasks_per_thread);
        let share = to_share / self.threads.saturating_mul(tasks_per_thread).max(1);
        let one_for_each_thread = to_share.div_ceil(self.threads.max(1));
        let least = ranges(self.settings.task_positions_min).min(one_for_each_thread);
        let most = ranges(self.settings.task_positions_max);
        usize::try_from(share.max(least).min(most))
            .unwrap_or(usize::MAX)
            .max(1)
    }

    /// A worker that holds a lease or waits, and so is there.
    fn worker(&mut self, worker: WorkerId) -> &mut Worker {
        self.workers
            .get_mut(&worker)
            .expect("leases and requests go with their worker")
    }
}
