//! Reading back. The store may hold another shard than a worker tells of, and another worker may have written it last.
//! So when all shards are committed, each is read once more before the table is published.
//!
//! A worker of another participant than the writer's reads a shard. The writer reads it if no other worker asks for tasks,
//! or none takes it for as long as a lease lasts. The coordinator reads a shard itself that two workers could not confirm.
//! When that time is over and no worker is there, it reads all of them, one after the other. It computes a shard again
//! that is something else than was said.

use std::collections::{BTreeMap, BTreeSet};

use super::Plan;
use super::arbitration::Cause;
use super::ids::{LeaseId, Millis, SubmissionId, Unit, WorkerId};
use super::messages::{Action, Rejection, Task, Verdict, Work};

/// After so many attempts that did not confirm a shard the coordinator reads it itself.
const FAILED_READS_MAX: u32 = 2;

/// The shards that are read back.
#[derive(Debug, Default)]
pub(super) struct ReadBacks {
    /// When they were begun.
    since: Option<Millis>,
    /// The shards that are not leased, by the worker that should not have them.
    wanted: BTreeMap<Option<WorkerId>, BTreeSet<u32>>,
    /// The shards that workers read.
    in_hand: BTreeMap<u32, LeaseId>,
    /// How many attempts did not confirm a shard.
    failed: BTreeMap<u32, u32>,
    /// The shards that the coordinator has to read.
    own: BTreeSet<u32>,
    /// The shard that the coordinator reads, and the generation of the shards when it began.
    reading: Option<(u32, u32)>,
}

impl ReadBacks {
    pub(super) fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Whether the coordinator reads one.
    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Whether reading has begun and no shard is left to read.
    fn is_over(&self) -> bool {
        let none_left = self.wanted.is_empty() && self.in_hand.is_empty() && self.own.is_empty();
        self.since.is_some() && none_left
    }

    fn insert(&mut self, shard: u32, not_by: Option<WorkerId>) {
        self.wanted.entry(not_by).or_default().insert(shard);
    }

    fn remove(&mut self, shard: u32, not_by: Option<WorkerId>) {
        if let Some(shards) = self.wanted.get_mut(&not_by) {
            shards.remove(&shard);
            if shards.is_empty() {
                self.wanted.remove(&not_by);
            }
        }
    }

    fn pop_any(&mut self) -> Option<u32> {
        let (&not_by, shards) = self.wanted.first_key_value()?;
        let shard = *shards.first()?;
        self.remove(shard, not_by);
        Some(shard)
    }
}

impl Plan {
    /// Whether all shards, which are committed, were read and are what their workers said. Begins the reading if it is
    /// not begun.
    pub(super) fn are_read_back(&mut self) -> bool {
        if self.read_backs.since.is_none() {
            self.read_backs.since = Some(self.now);
            for shard in self.units.shards.numbers() {
                let writer = self.units.shards.writer(shard);
                self.read_backs.insert(shard, writer);
            }
            self.requests_dirty = true;
        }
        let alone = self.workers.is_empty() && self.late().is_some_and(|late| late <= self.now);
        if alone && self.read_backs.own.is_empty() {
            let any = self.read_backs.pop_any();
            self.read_backs.own.extend(any);
        }
        if self.read_backs.reading.is_none()
            && let Some(&shard) = self.read_backs.own.first()
        {
            self.read_backs.reading = Some((shard, self.units.shards.generation));
            self.out.push(Action::ReadBack { shard });
        }
        self.read_backs.is_over()
    }

    /// Takes in that a worker has read a shard, which is what was said of it.
    pub(super) fn confirmed(&mut self, submission: SubmissionId, worker: WorkerId, lease: LeaseId) {
        let verdict = match (self.judge_sender(worker), self.work_of(worker, lease)) {
            (Err(reason), _) => Verdict::Rejected { reason },
            (Ok(()), Some(&Work::ReadBack { shard })) => {
                self.note_done(worker);
                self.confirm(shard);
                Verdict::Accepted
            }
            (Ok(()), _) => {
                let reason = Rejection::Stale;
                Verdict::Rejected { reason }
            }
        };
        self.out.push(Action::Settle {
            submission,
            verdict,
        });
    }

    /// Takes what the coordinator has read in a shard, unless the shards were cut anew since it began.
    pub(super) fn read_back(&mut self, shard: u32, is_whole: bool) {
        let reading = self.read_backs.reading.take();
        let reading = reading.filter(|(begun, _)| *begun == shard);
        let (_, generation) = reading.expect("the shard was to be read");
        if generation == self.units.shards.generation
            && self.read_backs.own.remove(&shard)
            && !is_whole
        {
            self.arbitrate(Unit::Shard(shard), Cause::Unsettled);
        }
    }

    /// A shard for `worker` to read, if there is one.
    pub(super) fn offer_read_back(&mut self, now: Millis, worker: WorkerId) -> Option<Task> {
        let (not_by, shard) = self.wanted_read_back(now, worker)?;
        self.read_backs.remove(shard, not_by);
        let work = Work::ReadBack { shard };
        let lease = self.lease(now, worker, work.clone(), 1);
        self.read_backs.in_hand.insert(shard, lease);
        let failed = self.read_backs.failed.get(&shard).copied();
        Some(Task {
            lease,
            attempt: failed.unwrap_or(0) + 1,
            lease_ms: self.settings.lease_ms,
            work,
        })
    }

    /// A shard that `worker` may read, with the worker that should not: one that `worker` has not written, if there is
    /// any.
    pub(super) fn wanted_read_back(
        &self,
        now: Millis,
        worker: WorkerId,
    ) -> Option<(Option<WorkerId>, u32)> {
        let wanted = &self.read_backs.wanted;
        let others = |&(not_by, _): &(&Option<WorkerId>, _)| {
            not_by.is_none_or(|writer| self.may_judge(worker, writer))
        };
        let (not_by, shards) = wanted.iter().find(others).or_else(|| {
            let is_alone = !self.active().any(|other| other != worker);
            let may = is_alone || self.late().is_some_and(|late| late <= now);
            wanted.first_key_value().filter(|_| may)
        })?;
        Some((*not_by, *shards.first()?))
    }

    /// The time until which only workers read a shard that did not write it.
    fn late(&self) -> Option<Millis> {
        let since = self.read_backs.since?;
        Some(since.plus(self.settings.lease_ms))
    }

    /// When writers may read what they have written, if shards are wanted and no request was looked at since then.
    pub(super) fn next_read_back(&self) -> Option<Millis> {
        let is_wanted = self.is_running() && self.read_backs.is_wanted();
        self.late()
            .filter(|&late| is_wanted && self.offered_until < late)
    }

    /// Counts a failed attempt to read a shard. It counts even if the worker gave the lease back: a worker that always
    /// does must not hold up the publication.
    pub(super) fn read_back_ended(&mut self, shard: u32, lease: LeaseId, worker: WorkerId) {
        if self.read_backs.in_hand.get(&shard) != Some(&lease) {
            return;
        }
        self.read_backs.in_hand.remove(&shard);
        let failed = self.read_backs.failed.entry(shard).or_default();
        *failed += 1;
        if *failed >= FAILED_READS_MAX {
            self.read_backs.own.insert(shard);
        } else {
            self.read_backs.insert(shard, Some(worker));
            self.requests_dirty = true;
        }
    }

    /// Notes that a shard is what was said of it.
    pub(super) fn confirm(&mut self, shard: u32) {
        if let Some(lease) = self.read_backs.in_hand.remove(&shard) {
            self.cancel(lease);
            return;
        }
        self.read_backs.own.remove(&shard);
        self.read_backs.wanted.retain(|_, shards| {
            shards.remove(&shard);
            !shards.is_empty()
        });
    }

    /// Ends the reading, because the shards are forgotten.
    pub(super) fn end_read_backs(&mut self) {
        let reading = self.read_backs.reading;
        let none = ReadBacks {
            reading,
            ..ReadBacks::default()
        };
        let ended = std::mem::replace(&mut self.read_backs, none);
        for lease in ended.in_hand.into_values() {
            self.cancel(lease);
        }
    }

    #[cfg(test)]
    pub(super) fn check_read_backs(&self) {
        let begun = self.read_backs.since.is_some();
        assert!(!begun || self.units.shards.is_cut());
        let ReadBacks {
            wanted,
            in_hand,
            own,
            ..
        } = &self.read_backs;
        assert!(begun || wanted.is_empty() && in_hand.is_empty() && own.is_empty());
        assert!(wanted.values().all(|shards| !shards.is_empty()));
        if self.publishing {
            assert!(self.read_backs.is_over(), "published unread");
        }
        for (shard, lease) in &self.read_backs.in_hand {
            assert_eq!(self.leases[lease].work, Work::ReadBack { shard: *shard });
        }
    }
}
