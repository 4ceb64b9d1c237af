//! What the plan may say and ask for: the world checks it.

use super::disk::Write;
use super::world::{Submission, World};
use crate::units::Content;
use crate::{LeaseId, Loss, Phase, Rejection, StopReason, Unit, Work};

impl World {
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
            StopReason::Lost { times, .. } => assert!(*times > self.settings.failures_max),
            StopReason::ArbitrationFailed { reason, .. } => assert_eq!(reason, "no memory"),
            StopReason::Shutdown => panic!("a shutdown is no fault"),
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
            let is_check = matches!(task.work, Work::Check { .. } | Work::ReadBack { .. });
            let of_use = task.work.units().any(|unit| !self.disk.holds(unit));
            assert!((is_check || of_use) && self.stopped.is_none());
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
                let withdrawn = |write: &Write| matches!(write, Write::Withdraw { .. });
                settled.is_check
                    || !self.disk.withdrawn.is_empty()
                    || self.disk.under_way.iter().any(withdrawn)
                    || matches!(settled.units[0].0, Unit::Shard(_))
            }
            // Where a lie was kept, the truth is questioned.
            Rejection::Disagreement { unit } => self.lies.contains(unit) || self.lie_got_in,
            Rejection::Unknown { .. } => self.lie_got_in,
            _ => false,
        };
        assert!(!settled.good || allowed, "{reason}");
    }
}
