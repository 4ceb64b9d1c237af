//! What the plan may say and ask for: the world checks it.

use super::disk::Write;
use super::world::{Merged, Submission, World};
use crate::slots::Content;
use crate::{
    AgreedUnit, Event, LeaseId, Loss, Phase, Rejection, StopReason, SubmissionId, Unit, WorkerId,
};

impl World {
    /// The coordinator has computed what it was to find out.
    pub(super) fn arbitrated(&mut self, fails: bool) {
        let units: Vec<Unit> = self.arbitrations.keys().copied().collect();
        let Some(index) = self.rng.index(units.len()) else {
            return;
        };
        let unit = units[index];
        let arbitration = self.arbitrations.remove(&unit).unwrap();
        let content = match arbitration.found {
            Ok(content) if !fails => content,
            found => {
                let worker = WorkerId::only(u32::MAX);
                for (head, digest) in found.err().into_iter().flatten() {
                    self.tell(Event::Lost {
                        worker,
                        head,
                        digest,
                    });
                }
                let reason = "no memory".to_owned();
                self.tell(Event::ArbitrationFailed { unit, reason });
                return;
            }
        };
        let submission = SubmissionId(self.new_id());
        let mut entry = Submission {
            units: vec![(unit, content)],
            good: true,
            own: true,
            ..Submission::default()
        };
        let range = match unit {
            Unit::Range(head) => Some(content.summary(head)),
            Unit::Shard(number) => {
                entry.merged = Some(Merged {
                    number,
                    content,
                    file: content.digest,
                    is_read: false,
                });
                if arbitration.is_of_use {
                    self.disk.files.insert(number, content.digest);
                    self.disk.read.insert(number);
                }
                None
            }
        };
        self.submissions.insert(submission, entry);
        self.tell(Event::Arbitrated {
            submission,
            unit,
            range,
            digest: content.digest,
            is_forged: arbitration.is_forged,
        });
    }

    pub(super) fn check_progress(&self) {
        let progress = self.plan.progress();
        assert_eq!(progress.submissions, self.submissions.len() as u64);
        assert!(
            progress.ranges_done <= self.disk.ranges.len() as u64,
            "done but not durable"
        );
        if *self.plan.phase() != Phase::Running {
            assert!(self.requests.is_empty(), "a request waits for nothing");
        }
    }

    /// Begins a write that the plan asks for, if it may.
    pub(super) fn commit(&mut self, submission: SubmissionId, units: &[AgreedUnit]) {
        assert_eq!(self.stopped, None, "a write begun after a fault");
        let entry = self
            .submissions
            .get_mut(&submission)
            .expect("it is not settled");
        assert!(entry.good);
        let mut chosen = Vec::new();
        let mut found_by = Vec::new();
        for AgreedUnit { unit, finders } in units {
            assert!(entry.written.insert(*unit), "written twice");
            let of_it = entry.units.iter().find(|(other, _)| other == unit);
            chosen.push(*of_it.expect("a unit of it"));
            assert!((!entry.own || finders.is_empty()) && finders.is_sorted());
            found_by.push(finders.iter().copied().collect());
        }
        for (unit, content) in &chosen {
            let right = self.disk.compute(*unit);
            let lied = self.settings.replicas == 1 && self.lies.contains(unit);
            let is_right = right.is_err() || right == Ok(*content);
            assert!(lied || self.lie_got_in || is_right, "a lie gets in");
            let is_wrong = match unit {
                Unit::Range(head) => content.summary(*head) != crate::tests::summary(head.0),
                Unit::Shard(_) => !is_right,
            };
            self.lie_got_in |= is_wrong;
        }
        let file = entry.merged.map(|merged| merged.file);
        self.disk.begin_commit(submission, chosen, found_by, file);
    }

    pub(super) fn check_may_begin(&self) {
        assert_eq!(*self.plan.phase(), Phase::Running);
        assert_eq!(self.stopped, None);
    }

    pub(super) fn check_stop(&self, reason: &StopReason) {
        match reason {
            StopReason::GaveUp { attempts, last, .. } => {
                let most = match last {
                    Loss::Expired { .. } => self.settings.expiries_max,
                    Loss::Failed { .. } | Loss::Rejected { .. } => self.settings.failures_max,
                };
                assert!(*attempts >= most);
                assert!(
                    self.losses >= *attempts,
                    "gave up after {} losses",
                    self.losses
                );
            }
            StopReason::Lost { times, .. } => assert!(*times > self.settings.failures_max + 1),
            StopReason::ArbitrationFailed { reason, .. } => assert_eq!(reason, "no memory"),
            StopReason::Shutdown => panic!("a shutdown is no fault"),
            StopReason::PublishFailed { reason } if reason.contains("damaged") => {}
            StopReason::CommitFailed { reason } | StopReason::PublishFailed { reason } => {
                assert_eq!(reason, "disk full");
            }
        }
    }

    /// A lease stands only while work on it is of use.
    pub(super) fn check_renewal(&self, leases: &[LeaseId], lost: &[LeaseId]) {
        let tasks = self.processes.iter().flat_map(|process| &process.tasks);
        let standing = tasks
            .map(|(task, _)| task)
            .filter(|task| leases.contains(&task.lease) && !lost.contains(&task.lease));
        for task in standing {
            let is_of_use = |unit| !self.disk.holds(unit) || self.disk.is_doubted(unit);
            let of_use = task.work.units().any(is_of_use);
            assert!(of_use && self.stopped.is_none());
        }
    }

    pub(super) fn check_rejection(&self, settled: &Submission, reason: &Rejection) {
        let known = |&(unit, _): &(Unit, Content)| {
            self.disk.holds(unit) || self.disk.is_being_written(unit)
        };
        let allowed = match reason {
            // A shard of an earlier cut may still be on its way to the disk.
            Rejection::NotJoined
            | Rejection::Quarantined { .. }
            | Rejection::NotReady {
                unit: Unit::Shard(_),
            } => true,
            Rejection::NoLease { .. } => !settled.leased,
            Rejection::NotReady { .. } => !settled.units.iter().all(known),
            Rejection::Stale => {
                let withdrawn =
                    |write: &Write| matches!(write, Write::Withdraw { .. } | Write::Lose { .. });
                !self.disk.withdrawn.is_empty()
                    || self.disk.under_way.iter().any(withdrawn)
                    || matches!(settled.units[0].0, Unit::Shard(_))
            }
            Rejection::Unknown { .. } => self.lie_got_in,
            _ => false,
        };
        assert!(!settled.good || allowed, "{reason}");
    }
}
