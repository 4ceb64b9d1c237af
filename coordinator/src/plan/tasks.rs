//! Who works on what: requests, tasks and leases.

use chomp_table::Head;

use super::copies::Copies;
use super::messages::{
    Action, Answer, LeaseId, Loss, Millis, RequestId, StopReason, Task, WorkerId,
};
use super::ranges::{Lost, State};
use super::workers::Worker;
use super::{Phase, Plan};

/// A range that was tried in vain this often is offered alone.
const ALONE_AFTER: u32 = 2;

/// A task in the hands of a worker.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) worker: WorkerId,
    /// The heads of the task, ascending.
    pub(super) heads: Vec<Head>,
    /// How many of them are not done, at least one.
    pub(super) left: usize,
    pub(super) deadline: Millis,
    /// When it was given.
    pub(super) since: Millis,
    /// Whether another worker was given the same because this one is slow, or the reverse.
    pub(super) doubled: bool,
}

impl Plan {
    /// Lets the request wait; [`Plan::answer_requests`] ends the wait at once if it can.
    pub(super) fn wanted(&mut self, request: RequestId, worker: WorkerId, out: &mut Vec<Action>) {
        if let Some(entry) = self.workers.get_mut(&worker) {
            entry.requests.insert(request);
            self.requests.insert(request, worker);
            return;
        }
        let answer = match self.misdeed(worker) {
            Some(reason) => Answer::Quarantined {
                reason: reason.clone(),
            },
            None => Answer::NotJoined,
        };
        out.push(Action::Answer { request, answer });
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
            let name = self.name(worker);
            let loss = Loss::Failed {
                worker: name,
                reason,
            };
            self.end_lease(lease, Some(&loss), out);
        }
    }

    /// Ends the leases whose time is over.
    pub(super) fn expire(&mut self, now: Millis, out: &mut Vec<Action>) {
        while let Some(&(deadline, lease)) = self.deadlines.first()
            && deadline <= now
        {
            let worker = self.name(self.leases[&lease].worker);
            self.end_lease(lease, Some(&Loss::Expired { worker }), out);
        }
    }

    /// Whether the lease stands and is this worker's.
    pub(super) fn holds(&self, worker: WorkerId, lease: LeaseId) -> bool {
        self.leases
            .get(&lease)
            .is_some_and(|lease| lease.worker == worker)
    }

    /// Ends a lease that stands. What is not done of it is wanted again; with a `loss` it has one
    /// attempt less.
    pub(super) fn end_lease(&mut self, id: LeaseId, loss: Option<&Loss>, out: &mut Vec<Action>) {
        let lease = self.forget_lease(id);
        let how = loss.map(|loss| match loss {
            Loss::Expired { .. } => Lost::Expired,
            Loss::Failed { .. } | Loss::Rejected { .. } => Lost::Failed,
        });
        for head in lease.heads {
            if self.ranges.state(head) != State::Ready {
                continue;
            }
            self.refile(head, |copies| {
                copies.leases.remove(&id);
                if how == Some(Lost::Failed) {
                    copies.failed.insert(lease.worker);
                }
            });
            if let (Some(how), Some(loss)) = (how, loss) {
                self.count_attempt(head, how, loss, out);
            }
        }
        if let (Some(how), Some(loss)) = (how, loss) {
            self.count_loss(lease.worker, how, loss, out);
        }
    }

    /// Counts a lost attempt at a range; after too many the job stops.
    fn count_attempt(&mut self, head: Head, how: Lost, last: &Loss, out: &mut Vec<Action>) {
        let attempts = self.ranges.lose(head, how);
        let most = match how {
            Lost::Expired => self.settings.expiries_max,
            Lost::Failed => self.settings.failures_max,
        };
        if attempts >= most {
            let reason = StopReason::GaveUp {
                head,
                attempts,
                last: last.clone(),
            };
            self.stop(reason, out);
        }
    }

    fn forget_lease(&mut self, id: LeaseId) -> Lease {
        let lease = self.leases.remove(&id).expect("the lease stands");
        self.deadlines.remove(&(lease.deadline, id));
        // A worker that goes is gone before its leases.
        if let Some(worker) = self.workers.get_mut(&lease.worker) {
            worker.leases.remove(&id);
        }
        lease
    }

    /// Takes a range that is done out of the hands of whoever works on it; tells what they said.
    pub(super) fn take(&mut self, head: Head) -> Copies {
        let copies = self.board.close(head);
        for &id in copies.leases.keys() {
            let lease = self.leases.get_mut(&id).expect("the range is leased");
            lease.left -= 1;
            if lease.left == 0 {
                self.forget_lease(id);
            }
        }
        copies
    }

    /// Changes what is known of the copies of a range that is ready.
    pub(super) fn refile(&mut self, head: Head, change: impl FnOnce(&mut Copies)) {
        let held_back = self.audits.contains(head);
        self.board.update(head, &self.ranges, held_back, change);
    }

    /// Answers the requests that need not wait any longer.
    pub(super) fn answer_requests(&mut self, now: Millis, out: &mut Vec<Action>) {
        let answer = match &self.phase {
            Phase::Running => return self.offer_tasks(now, out),
            Phase::Finished => Answer::Finished,
            Phase::Stopped(reason) => Answer::Stopped {
                reason: reason.clone(),
            },
        };
        while let Some((&request, _)) = self.requests.first_key_value() {
            self.withdrawn(request);
            let answer = answer.clone();
            out.push(Action::Answer { request, answer });
        }
    }

    fn offer_tasks(&mut self, now: Millis, out: &mut Vec<Action>) {
        // Requests come one by one, and what a request may have changes seldom: most of the time
        // this looks at one request, or at none.
        let waiting: Vec<_> = self.requests.iter().map(|(&r, &w)| (r, w)).collect();
        for (request, worker) in waiting {
            if self.board.is_empty() && self.stragglers(now).next().is_none() {
                return;
            }
            let heads = self.cut(worker);
            let task = if heads.is_empty() {
                self.double(now, worker)
            } else {
                Some(self.offer(now, worker, heads, false))
            };
            if let Some(task) = task {
                self.withdrawn(request);
                let answer = Answer::Task(task);
                out.push(Action::Answer { request, answer });
            }
        }
    }

    /// Leases ranges of one layer.
    fn offer(&mut self, now: Millis, worker: WorkerId, heads: Vec<Head>, doubled: bool) -> Task {
        let lease = LeaseId(self.next_lease);
        self.next_lease += 1;
        for &head in &heads {
            self.refile(head, |copies| {
                copies.leases.insert(lease, worker);
            });
        }
        let task = Task {
            lease,
            attempt: self.ranges.lost(heads[0]).saturating_add(1),
            layer: heads[0].layer(),
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
                since: now,
                doubled,
            },
        );
        self.deadlines.insert((deadline, lease));
        self.worker(worker).leases.insert(lease);
        task
    }

    /// The lowest ranges that `worker` may have, as many as make a good task, all with the same
    /// number of lost attempts.
    fn cut(&self, worker: WorkerId) -> Vec<Head> {
        let mut wanted = self.wanted_by(worker).peekable();
        let Some(&first) = wanted.peek() else {
            return Vec::new();
        };
        let lost = self.ranges.lost(first);
        let most = if lost >= ALONE_AFTER {
            1
        } else {
            self.task_ranges(first.layer())
        };
        let alike = wanted.take_while(|&head| self.ranges.lost(head) == lost);
        alike.take(most).collect()
    }

    fn wanted_by(&self, worker: WorkerId) -> impl Iterator<Item = Head> + '_ {
        let others = self.workers.len().saturating_sub(1);
        self.board.wanted_by(worker, others)
    }

    /// How many ranges make a good task: few enough that every thread gets several tasks of the
    /// layer, so that few idle at its end; but not so few that writing them takes longer than
    /// computing them, unless a thread would go without.
    fn task_ranges(&self, layer: u32) -> usize {
        let ranges = |positions| positions / self.settings.range_bits.positions();
        let copies = u64::from(self.settings.replicas.max(1));
        let to_share = self.ranges.missing_at_start(layer) as u64 * copies;
        let tasks_per_thread = u64::from(self.settings.tasks_per_thread);
        let share = to_share / self.threads.saturating_mul(tasks_per_thread).max(1);
        let one_for_each_thread = to_share.div_ceil(self.threads.max(1));
        let least = ranges(self.settings.task_positions_min).min(one_for_each_thread);
        let most = ranges(self.settings.task_positions_max);
        usize::try_from(share.max(least).min(most))
            .unwrap_or(usize::MAX)
            .max(1)
    }

    /// Gives `worker`, which would have nothing to do, what another one is slow with.
    fn double(&mut self, now: Millis, worker: WorkerId) -> Option<Task> {
        let others = self.workers.len().saturating_sub(1);
        let may_have = |head: &Head| {
            self.ranges.state(*head) == State::Ready
                && !self.audits.contains(*head)
                && self.board.may_have(worker, others, *head)
        };
        let (id, heads) = self.stragglers(now).find_map(|(id, lease)| {
            let heads: Vec<Head> = lease.heads.iter().copied().filter(may_have).collect();
            (!heads.is_empty()).then_some((id, heads))
        })?;
        self.leases.get_mut(&id).expect("it was just found").doubled = true;
        Some(self.offer(now, worker, heads, true))
    }

    /// The leases that have stood for long and are not doubled.
    fn stragglers(&self, now: Millis) -> impl Iterator<Item = (LeaseId, &Lease)> {
        let straggler_ms = self.settings.straggler_ms;
        // Leases have ascending numbers, so the old ones come first.
        let old = self.leases.iter().map(|(&id, lease)| (id, lease));
        old.take_while(move |(_, lease)| lease.since.plus(straggler_ms) <= now)
            .filter(|(_, lease)| !lease.doubled)
    }

    /// When the next lease will have stood for long, if anybody waits for that.
    pub(super) fn next_straggler(&self) -> Option<Millis> {
        if self.requests.is_empty() || !self.is_running() {
            return None;
        }
        let straggler_ms = self.settings.straggler_ms;
        let ends = self
            .leases
            .values()
            .map(|lease| lease.since.plus(straggler_ms));
        ends.into_iter().find(|&end| end > self.now)
    }

    /// A worker that holds a lease or waits, and so is there.
    pub(super) fn worker(&mut self, worker: WorkerId) -> &mut Worker {
        self.workers
            .get_mut(&worker)
            .expect("leases and requests go with their worker")
    }
}
