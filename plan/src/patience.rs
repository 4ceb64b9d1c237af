//! Who takes tasks and does nothing with them has to wait, and longer each time.
//!
//! A task that somebody holds, or takes and gives back, costs its ranges a turn: at the end of a layer all others wait
//! until it is [doubled](super::Settings::straggler_ms). So tasks that come to nothing are counted for each participant:
//! those that it gave back or failed, and those that were slow and that somebody else has finished. After [`FREE`] of them
//! it gets one task at a time, and after each further one none for a while, twice as long each time. Each result that is
//! taken halves the count. Nobody waits who is there alone, or has merely fallen silent.

use std::collections::BTreeMap;

use super::Plan;
use super::ids::{Millis, ParticipantId, WorkerId};

/// So many tasks in a row may come to nothing.
const FREE: u32 = 3;
/// They are counted no further.
const MOST: u32 = 12;
/// How long one waits after the first task that is too much. After the last of [`MOST`] it is 51 s.
const WAIT_MS: u64 = 100;

/// The participants whose last tasks came to nothing.
#[derive(Debug, Default)]
pub(super) struct Patience(BTreeMap<ParticipantId, Idled>);

#[derive(Debug, Default)]
struct Idled {
    tasks: u32,
    /// It gets no task before.
    until: Millis,
}

impl Patience {
    fn of(&self, participant: ParticipantId) -> Option<&Idled> {
        let idled = self.0.get(&participant);
        idled.filter(|idled| idled.tasks > FREE)
    }

    /// When somebody's time is over, the first after `then`.
    fn next_after(&self, then: Millis) -> Option<Millis> {
        let ends = self.0.values().map(|idled| idled.until);
        ends.filter(|&until| until > then).min()
    }
}

impl Plan {
    /// A task of this worker came to nothing.
    pub(super) fn note_idled(&mut self, worker: WorkerId) {
        let idled = self.patience.0.entry(worker.participant).or_default();
        idled.tasks = MOST.min(idled.tasks + 1);
        if idled.tasks > FREE {
            idled.until = self.now.plus(WAIT_MS << (idled.tasks - FREE));
        }
    }

    /// A result of this worker was taken.
    pub(super) fn note_done(&mut self, worker: WorkerId) {
        let Some(idled) = self.patience.0.get_mut(&worker.participant) else {
            return;
        };
        idled.tasks /= 2;
        idled.until = Millis::default();
        if idled.tasks == 0 {
            self.patience.0.remove(&worker.participant);
        }
        self.news = true;
    }

    /// Whether this worker may have a task now, for all that is known of its participant.
    pub(super) fn may_begin(&self, now: Millis, worker: WorkerId) -> bool {
        let Some(idled) = self.patience.of(worker.participant) else {
            return true;
        };
        let is_alone = self.present.len() <= 1;
        is_alone || idled.until <= now && self.has_no_task(worker.participant)
    }

    fn has_no_task(&self, participant: ParticipantId) -> bool {
        let mut workers = self.workers.range(WorkerId::all_of(participant));
        workers.all(|(_, worker)| worker.leases.is_empty())
    }

    /// Notes that a lease of a participant has ended: others of its workers may have waited for that.
    pub(super) fn note_ended(&mut self, participant: ParticipantId) {
        if self.patience.of(participant).is_some() && self.has_no_task(participant) {
            self.news = true;
        }
    }

    /// When the next of those who have to wait may have a task again, if anybody asks for one.
    pub(super) fn next_patience(&self) -> Option<Millis> {
        if self.requests.is_empty() || !self.is_running() {
            return None;
        }
        self.patience.next_after(self.looked)
    }
}
