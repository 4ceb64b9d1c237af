//! Patience: a participant whose tasks come to nothing has to wait for the next one, and longer each time.
//!
//! A task that a worker merely holds, or gives back, delays its ranges: at the end of a layer all other workers wait
//! until one of them gets a [speculative lease](super::Settings::straggler_ms) on it. So each participant has a
//! **credit** of tasks that may come to nothing: those that it gives back or fails, and slow ones that another
//! participant finished. The credit begins with [`FREE`]. Each result that is taken adds one, and each task that comes
//! to nothing takes one away. A participant whose credit is used up gets one task at a time. After each task that comes
//! to nothing it gets none for a while, twice as long each time. Each result halves what it owes. So a machine that
//! stops costs its participant only credit that it has earned long before. A participant that is there alone does not
//! wait, nor does one that has merely fallen silent.

use std::collections::BTreeMap;

use super::Plan;
use super::ids::{Millis, ParticipantId, WorkerId};

/// The credit of a participant that has done nothing yet.
const FREE: i32 = 3;
/// The largest credit.
const MOST: i32 = 1000;
/// The lowest credit: no participant owes more.
const LEAST: i32 = -9;
/// Half of the time that a participant waits that owes one task. It doubles with each more, up to 51 s.
const WAIT_MS: u64 = 100;

/// The credits of all participants, but for those that have done nothing yet.
#[derive(Debug, Default)]
pub(super) struct Credits {
    accounts: BTreeMap<ParticipantId, Account>,
    /// Whether a participant came to owe something since the units that wait for votes were looked at: it is not
    /// counted on any more.
    pub(super) has_new_debtor: bool,
}

#[derive(Debug)]
struct Account {
    credit: i32,
    /// The participant gets no task before this time.
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

impl Credits {
    /// The account of a participant that owes something.
    fn of(&self, participant: ParticipantId) -> Option<&Account> {
        let account = self.accounts.get(&participant);
        account.filter(|account| account.credit < 0)
    }
}

impl Plan {
    /// Notes that a task of this worker came to nothing.
    pub(super) fn note_idled(&mut self, worker: WorkerId) {
        let account = self.patience.accounts.entry(worker.participant);
        let account = account.or_default();
        account.credit = LEAST.max(account.credit - 1);
        if account.credit < 0 {
            let wait = WAIT_MS << account.credit.unsigned_abs();
            account.until = self.now.plus(wait);
            self.patience.has_new_debtor = true;
        }
    }

    /// Notes that a result of this worker was taken.
    pub(super) fn note_done(&mut self, worker: WorkerId) {
        self.asks(worker);
        let account = self.patience.accounts.entry(worker.participant);
        let account = account.or_default();
        if account.credit < 0 {
            account.credit /= 2;
            account.until = Millis::default();
            self.requests_dirty = true;
        } else {
            account.credit = MOST.min(account.credit + 1);
        }
    }

    /// Whether this worker may have a task now, as far as its participant's credit is concerned.
    pub(super) fn may_begin(&self, worker: WorkerId) -> bool {
        let own = worker.participant;
        let may_again = |account: &Account| account.until <= self.now && self.has_no_task(own);
        !self.owes(own) || self.patience.of(own).is_none_or(may_again)
    }

    /// Whether a participant has to wait between tasks. It is not counted on for votes.
    pub(super) fn owes(&self, participant: ParticipantId) -> bool {
        self.present.len() > 1 && self.patience.of(participant).is_some()
    }

    fn has_no_task(&self, participant: ParticipantId) -> bool {
        let mut workers = self.workers.range(WorkerId::all_of(participant));
        workers.all(|(_, worker)| worker.leases.is_empty())
    }

    /// Notes that a lease of a participant has ended: others of its workers may have waited for that.
    pub(super) fn note_ended(&mut self, participant: ParticipantId) {
        if self.patience.of(participant).is_some() && self.has_no_task(participant) {
            self.requests_dirty = true;
        }
    }

    /// When the next participant that has to wait may have a task again, if a request waits.
    pub(super) fn next_patience(&self) -> Option<Millis> {
        if self.requests.is_empty() || !self.is_running() {
            return None;
        }
        let accounts = self.patience.accounts.values();
        let ends = accounts.map(|account| account.until);
        ends.filter(|&until| until > self.offered_until).min()
    }
}
