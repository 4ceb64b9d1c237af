//! How results come into the journal: one segment at a time, with all that was settled meanwhile.
//!
//! A segment costs the same whatever is in it. So as long as all workers have something in hand, the next one
//! begins no sooner than [`WRITE_EVERY_MS`] after the last.

use std::collections::VecDeque;
use std::mem::take;

use chomp_plan::{Event, Millis, Phase, SubmissionId, Unit};
use chomp_store::{Entry, PartName, Placed};
use chomp_table::Head;

use super::Desk;
use super::kept::Handed;
use crate::errands::{Batch, Errand};

/// A segment of the journal has the ranges of no more submissions once it has so many.
const SEGMENT_RANGES: usize = 1 << 16;
/// The time between the beginnings of two segments that nobody waits for.
const WRITE_EVERY_MS: u64 = 100;

/// Something for the journal.
#[derive(Debug)]
pub(super) enum Write {
    Commit {
        submission: SubmissionId,
        units: Vec<Unit>,
    },
    Withdraw {
        heads: Vec<Head>,
    },
}

/// What is to be written, in order.
#[derive(Debug, Default)]
pub(super) struct Writes {
    pub(super) waiting: VecDeque<Write>,
    pub(super) under_way: bool,
    /// Until then only what somebody waits for is written.
    rests_until: Millis,
    /// Whether somebody waits for a verdict who has too little else to do.
    pub(super) is_urgent: bool,
    /// Why nothing more can be written.
    pub(super) failed: Option<String>,
}

impl Desk {
    /// Begins the next segment, unless one is under way.
    pub(super) fn write(&mut self, now: Millis) {
        if self.writes.under_way {
            return;
        }
        if let Some(reason) = self.writes.failed.clone() {
            self.give_up(now, &reason);
            return;
        }
        if now < self.writes.rests_until && self.may_rest() {
            return;
        }
        let mut batch = Batch::default();
        let mut ranges = 0;
        while ranges < SEGMENT_RANGES
            && let Some(write) = self.writes.waiting.pop_front()
        {
            match write {
                Write::Withdraw { heads } => {
                    ranges += heads.len();
                    batch.entries.push(Entry::Withdrawn { heads });
                }
                Write::Commit { submission, units } => {
                    ranges += units.len();
                    batch.entries.extend(self.entries(submission, &units));
                    batch.submissions.push(submission);
                }
            }
        }
        if !batch.entries.is_empty() {
            self.writes.under_way = true;
            self.writes.is_urgent = false;
            self.writes.rests_until = now.plus(WRITE_EVERY_MS);
            self.errands.push(Errand::Append(batch));
        }
    }

    /// Whether nobody waits for what is to be written.
    fn may_rest(&self) -> bool {
        !self.writes.is_urgent
            && !self.plan.is_anybody_idle()
            && *self.plan.phase() == Phase::Running
    }

    /// When something is to be done though nothing happens.
    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        let rests = !self.writes.under_way && !self.writes.waiting.is_empty();
        let rest = rests.then_some(self.writes.rests_until);
        rest.into_iter().chain(self.plan.next_deadline()).min()
    }

    /// Once the journal has failed, what waits for it has failed too.
    fn give_up(&mut self, now: Millis, reason: &str) {
        for write in take(&mut self.writes.waiting) {
            if let Write::Commit { submission, .. } = write {
                let reason = reason.to_owned();
                self.handle(now, Event::CommitFailed { submission, reason });
            }
        }
    }

    fn entries(&self, submission: SubmissionId, units: &[Unit]) -> Option<Entry> {
        let kept = &self.submissions[&submission];
        let heads = units.iter().filter_map(|unit| match unit {
            Unit::Range(head) => Some(*head),
            Unit::Shard(_) => None,
        });
        match &kept.handed {
            Handed::Merged(merged) => Some(Entry::Shard {
                bits: self.subject.bits,
                merged: (**merged).clone(),
            }),
            Handed::Ranges(_) => {
                let ranges: Vec<Placed> = heads.map(|head| *kept.placed(head)).collect();
                let layer = ranges.first()?.summary.head.layer();
                Some(Entry::Done {
                    part: PartName {
                        layer,
                        lease: kept.lease,
                    },
                    replicas: self.subject.replicas,
                    ranges,
                })
            }
            Handed::Checked { .. } => None,
        }
    }
}
