//! Requests: which of those that wait are answered, and when.
//!
//! The plan reviews a request when it comes, and lets it wait if there is no task for its worker. It reviews the
//! request again when the offer of a unit changes. A range of a [region](super::regions) matters only to the assignee
//! of the region, and to workers that have an idle thread. So an event does not cost more when a thousand workers wait.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::ids::{RequestId, WorkerId};
use super::messages::{Action, LeaseAnswer, PlanTypes};
use super::{Phase, Plan};

/// A worker that waits for a task. Workers with an idle thread come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiter {
    /// Whether it has a task for each thread.
    pub(super) is_busy: bool,
    pub(super) request: RequestId,
    pub(super) worker: WorkerId,
}

/// The waiting workers, and which of them the plan tries again to give a task.
#[derive(Debug, Default)]
pub(super) struct Review {
    /// Each worker with its first request.
    pub(super) waiting: BTreeSet<Waiter>,
    /// The workers whose requests are to be reviewed, whatever `is_due` says.
    pub(super) workers: BTreeSet<WorkerId>,
    /// Whether some other request may have a task now that had none at the last review.
    pub(super) is_due: bool,
}

impl<T: PlanTypes> Plan<T> {
    /// Lets the request wait; the review at the end of the event answers it at once if it can.
    pub(super) fn on_requested(
        &mut self,
        request: RequestId,
        worker: WorkerId,
        responder: T::LeaseResponder,
    ) {
        self.workers.hear(self.now, worker);
        if let Some(entry) = self.workers.by_id.get_mut(&worker) {
            entry.requests.insert(request);
            self.requests.insert(request, (worker, responder));
            return self.update_waiter(worker);
        }
        let answer = match self.workers.out_reason(worker).cloned() {
            Some(reason) => LeaseAnswer::Out { reason },
            None => LeaseAnswer::NotJoined,
        };
        self.send(worker, responder, answer);
    }

    pub(super) fn send(
        &mut self,
        worker: WorkerId,
        responder: T::LeaseResponder,
        answer: LeaseAnswer,
    ) {
        self.actions.push(Action::Answer {
            worker,
            responder,
            answer,
        });
    }

    pub(super) fn take_request(
        &mut self,
        request: RequestId,
    ) -> Option<(WorkerId, T::LeaseResponder)> {
        let (worker, responder) = self.requests.remove(&request)?;
        self.workers.get_mut(worker).requests.remove(&request);
        self.update_waiter(worker);
        Some((worker, responder))
    }

    /// To be called after the requests, the leases or the threads of a worker have changed.
    pub(super) fn update_waiter(&mut self, worker: WorkerId) {
        let Some(entry) = self.workers.by_id.get_mut(&worker) else {
            return;
        };
        let new = entry.requests.first().map(|&request| Waiter {
            is_busy: entry.is_busy(),
            request,
            worker,
        });
        let old = std::mem::replace(&mut entry.waiter, new);
        if let Some(old) = old {
            self.review.waiting.remove(&old);
        }
        if let Some(new) = new {
            self.review.waiting.insert(new);
            if old.is_none_or(|old| old.is_busy && !new.is_busy) {
                self.review.workers.insert(worker);
            }
        }
    }

    /// The number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.requests.len()
    }

    /// Whether a thread of a worker waits for a task.
    pub fn is_anybody_idle(&self) -> bool {
        let first = self.review.waiting.first();
        first.is_some_and(|first| !first.is_busy)
    }

    pub(super) fn answer_requests(&mut self) {
        let answer = match &self.phase {
            Phase::Running => return self.review_requests(),
            Phase::Finished => LeaseAnswer::Finished,
            Phase::Stopped(reason) => LeaseAnswer::Stopped {
                reason: reason.clone(),
            },
        };
        self.review.workers.clear();
        while let Some(&Waiter { request, .. }) = self.review.waiting.first() {
            self.answer(request, answer.clone());
        }
    }

    fn answer(&mut self, request: RequestId, answer: LeaseAnswer) {
        if let Some((worker, responder)) = self.take_request(request) {
            self.send(worker, responder, answer);
        }
    }

    fn review_requests(&mut self) {
        while let Some(worker) = self.review.workers.pop_first() {
            while let Some(entry) = self.workers.by_id.get(&worker)
                && let Some(&request) = entry.requests.first()
                && self.serve(request, worker)
            {}
        }
        while std::mem::take(&mut self.review.is_due) {
            let mut last = Bound::Unbounded;
            while let Some(&next) = self.review.waiting.range((last, Bound::Unbounded)).next()
                && self.queue.has_offers(!next.is_busy)
            {
                last = Bound::Excluded(next);
                self.serve(next.request, next.worker);
            }
        }
    }

    /// Answers a request if there is a task for its worker. Returns whether there is.
    fn serve(&mut self, request: RequestId, worker: WorkerId) -> bool {
        let Some(units) = self.cut_task(worker) else {
            return false;
        };
        let task = self.lease(worker, &units);
        self.update_offers();
        self.answer(request, LeaseAnswer::Task(task));
        true
    }
}
