//! How results come into the journal: one segment at a time, with all that was agreed meanwhile.
//!
//! A segment costs the same whatever is in it. So while all workers have tasks, the next segment begins no sooner than
//! [`WRITE_EVERY_MS`] after the last one. After each segment the journal pauses for [`PAUSE`] times as long as the
//! write took, even if a worker waits: a busy coordinator then writes fewer and larger segments, and a fast one pauses
//! for hardly any time.

use std::collections::VecDeque;
use std::mem::take;

use chomp_plan::{
    AgreedUnit, Event, Millis, ParticipantId, Phase, QuarantineReason, SubmissionId, Unit,
};
use chomp_store::{Entry, Finders, PartName, Placed};

use super::Desk;
use crate::effects::{Effect, SegmentContent};
use crate::tools::WorkerResult;

/// The ranges from which on a segment of the journal takes no more submissions.
const SEGMENT_RANGES: usize = if cfg!(test) { 16 } else { 1 << 16 };
/// The time between the beginnings of two segments that nobody waits for.
const WRITE_EVERY_MS: u64 = 100;
/// How long the journal pauses after a segment, beside the time that the segment took; but no longer than
/// [`WRITE_EVERY_MS`]. With 2 it is written to for a third of the time at most.
const PAUSE: u64 = 2;

/// Something to be written into the journal.
#[derive(Debug)]
pub(super) enum Write {
    Commit {
        submission: SubmissionId,
        units: Vec<AgreedUnit>,
    },
    /// An entry that the plan does not wait for.
    Note(Box<Entry>),
}

/// The queue of writes, and when the next may begin.
#[derive(Debug, Default)]
pub(super) struct Writes {
    pub(super) waiting: VecDeque<Write>,
    /// Since when a segment is under way, if one is.
    pub(super) under_way: Option<Millis>,
    /// Until then a segment begins only if a worker waits for it.
    rests_until: Millis,
    /// Until then no segment begins.
    pauses_until: Millis,
    /// Whether a worker waits for a verdict and has too little else to do.
    pub(super) is_urgent: bool,
    /// Why nothing more can be written.
    pub(super) failed: Option<String>,
}

impl Desk {
    /// Begins the next segment, unless one is under way.
    pub(super) fn write(&mut self, now: Millis) {
        if self.writes.under_way.is_some() {
            return;
        }
        if let Some(reason) = self.writes.failed.clone() {
            self.give_up(now, &reason);
            return;
        }
        if now < self.next_begin() {
            return;
        }
        let mut batch = SegmentContent::default();
        let mut ranges = 0;
        while ranges < SEGMENT_RANGES
            && let Some(write) = self.writes.waiting.pop_front()
        {
            match write {
                Write::Note(entry) => {
                    ranges += 1;
                    batch.entries.push(*entry);
                }
                Write::Commit { submission, units } => {
                    ranges += units.len();
                    batch.entries.extend(self.entries(submission, &units));
                    batch.submissions.push(submission);
                }
            }
        }
        if !batch.entries.is_empty() {
            self.writes.under_way = Some(now);
            self.writes.is_urgent = false;
            self.writes.rests_until = now.plus(WRITE_EVERY_MS);
            self.effects.push(Effect::Append(batch));
        }
    }

    /// Has an entry written that the plan does not wait for.
    pub(in crate::job) fn note(&mut self, entry: Entry) {
        self.writes.waiting.push_back(Write::Note(Box::new(entry)));
    }

    /// Has it written that a participant is not trusted any more.
    pub(super) fn note_quarantine(
        &mut self,
        participant: ParticipantId,
        reason: &QuarantineReason,
    ) {
        self.note(Entry::Quarantined {
            participant: participant.0,
            reason: reason.to_string(),
        });
    }

    /// Takes in that the segment under way has ended.
    pub(super) fn written(&mut self, now: Millis) {
        if let Some(since) = self.writes.under_way.take() {
            let took = now.0.saturating_sub(since.0);
            self.writes.pauses_until = now.plus((PAUSE * took).min(WRITE_EVERY_MS));
        }
    }

    /// When the next segment may begin.
    fn next_begin(&self) -> Millis {
        let writes = &self.writes;
        if *self.plan.phase() != Phase::Running {
            Millis::default()
        } else if writes.is_urgent || self.plan.is_anybody_idle() {
            writes.pauses_until
        } else {
            writes.pauses_until.max(writes.rests_until)
        }
    }

    /// When the desk has something to do though no event comes.
    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        let rests = self.writes.under_way.is_none() && !self.writes.waiting.is_empty();
        let rest = rests.then(|| self.next_begin());
        let search = self.parts.next_search();
        let others = search.into_iter().chain(self.plan.next_deadline());
        rest.into_iter().chain(others).min()
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

    /// The entries for these units of a submission: one for those that the same participants found.
    fn entries(&self, submission: SubmissionId, units: &[AgreedUnit]) -> Vec<Entry> {
        let pending = &self.submissions[&submission];
        let groups = units.chunk_by(|one, next| one.finders == next.finders);
        let entry = |group: &[AgreedUnit]| {
            let finders = group.iter().flat_map(|agreed| &agreed.finders);
            let finders = Finders::new(finders.map(|&ParticipantId(number)| number));
            match &pending.result {
                WorkerResult::Merged(merged) => Some(Entry::Shard {
                    bits: self.subject.bits,
                    finders,
                    merged: (**merged).clone(),
                }),
                WorkerResult::Ranges(_) => {
                    let heads = group.iter().filter_map(|agreed| match agreed.unit {
                        Unit::Range(head) => Some(head),
                        Unit::Shard(_) => None,
                    });
                    let ranges: Vec<Placed> = heads.map(|head| *pending.placed(head)).collect();
                    let layer = ranges.first()?.summary.head.layer();
                    Some(Entry::Done {
                        part: PartName {
                            layer,
                            lease: pending.lease,
                        },
                        replicas: self.subject.replicas,
                        finders,
                        ranges,
                    })
                }
            }
        };
        groups.filter_map(entry).collect()
    }
}
