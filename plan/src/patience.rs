//! Who takes tasks and does nothing with them has to wait, and longer each time.
//!
//! A task that somebody holds, or takes and gives back, costs its ranges a turn: at the end of a layer all others wait
//! until somebody else gets a [speculative lease](super::Settings::straggler_ms) on it. So each participant has a **credit** of tasks that may come to
//! nothing: those that it gives back or fails, and those that are slow and that somebody else has finished. At first it is
//! [`FREE`], each result that is taken adds one, and each such task takes one away. Without any, it gets one task at a
//! time, and after each that comes to nothing none for a while, twice as long each time; each result halves what it owes.
//! So a machine that stops costs its participant nothing that it has not earned long before. Nobody waits who is there
//! alone, or has merely fallen silent.

use std::collections::BTreeMap;

use super::Plan;
use super::ids::{Millis, ParticipantId, WorkerId};

/// The credit of who has done nothing yet.
const FREE: i32 = 3;
/// There is no larger credit.
const MOST: i32 = 1000;
/// Nobody owes more.
const LEAST: i32 = -9;
/// Half of the time for which one waits that owes one task; it doubles with each more, up to 51 s.
const WAIT_MS: u64 = 100;

/// The credits of all participants, but for those that have done nothing yet.
#[derive(Debug, Default)]
pub(super) struct Patience {
    accounts: BTreeMap<ParticipantId, Account>,
    /// Whether somebody owes something since the last look.
    has_new_debtor: bool,
}

#[derive(Debug)]
struct Account {
    credit: i32,
    /// It gets no task before.
    until: Millis,
}

impl Default for Account {
    fn default() -> Account {
        Account {
            credit: FREE,
            until: Millis::default(),
        }
    }
}

impl Patience {
    /// The account of a participant that owes something.
    fn of(&self, participant: ParticipantId) -> Option<&Account> {
        let account = self.accounts.get(&participant);
        account.filter(|account| account.credit < 0)
    }

    /// When somebody's time is over, the first after `then`.
    fn next_after(&self, then: Millis) -> Option<Millis> {
        let ends = self.accounts.values().map(|account| account.until);
        ends.filter(|&until| until > then).min()
    }
}

impl Plan {
    /// A task of this worker came to nothing.
    pub(super) fn note_idled(&mut self, worker: WorkerId) {
        let account = self
            .patience
            .accounts
            .entry(worker.participant)
            .or_default();
        account.credit = LEAST.max(account.credit - 1);
        if account.credit < 0 {
            let wait = WAIT_MS << account.credit.unsigned_abs();
            account.until = self.now.plus(wait);
            self.patience.has_new_debtor = true;
        }
    }

    /// A result of this worker was taken.
    pub(super) fn note_done(&mut self, worker: WorkerId) {
        let account = self
            .patience
            .accounts
            .entry(worker.participant)
            .or_default();
        if account.credit < 0 {
            account.credit /= 2;
            account.until = Millis::default();
            self.news = true;
        } else {
            account.credit = MOST.min(account.credit + 1);
        }
    }

    /// Whether this worker may have a task now, for all that is known of its participant.
    pub(super) fn may_begin(&self, now: Millis, worker: WorkerId) -> bool {
        let account = self.patience.of(worker.participant);
        let may_again =
            |account: &Account| account.until <= now && self.has_no_task(worker.participant);
        !self.owes(worker.participant) || account.is_none_or(may_again)
    }

    /// Whether a participant has to wait between tasks. It is not counted on for checks.
    pub(super) fn owes(&self, participant: ParticipantId) -> bool {
        self.present.len() > 1 && self.patience.of(participant).is_some()
    }

    /// No range waits for a check by one who has to wait itself.
    pub(super) fn release_for_debtors(&mut self) {
        if std::mem::take(&mut self.patience.has_new_debtor) {
            self.release_unwatched();
        }
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
