//! The checks that are due, and which of them are leased.

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::Head;

use crate::ids::{LeaseId, Millis, SubmissionId, Unit, WorkerId};
use crate::slots::Content;
use crate::units::{Priority, priority};

/// The lowest range is chosen among the first so many groups of checks.
const GROUPS_LOOKED_AT: usize = 16;

/// A range that waits for a check.
#[derive(Debug)]
pub(in super::super) struct Check {
    /// The result that is committed after the check. `None` if the range is committed, and doubted.
    pub(in super::super) held: Option<SubmissionId>,
    pub(in super::super) content: Content,
    /// The trusted workers that found that content, one of each participant, ascending.
    pub(in super::super) voters: Vec<WorkerId>,
    /// The check that is under way.
    pub(in super::super) lease: Option<LeaseId>,
    /// The number of leases on it that ended without a result.
    pub(in super::super) failed: u32,
    pub(in super::super) since: Millis,
}

/// All checks that are due.
#[derive(Debug, Default)]
pub(in super::super) struct Checks {
    pub(super) due: BTreeMap<Head, Check>,
    /// The checks that are not leased, by the workers that must not have them.
    free: BTreeMap<Vec<WorkerId>, BTreeSet<Priority>>,
    /// The doubted ranges among these.
    doubted: BTreeSet<Priority>,
    /// The ranges that are held, the oldest first.
    pub(super) held: BTreeSet<(Millis, Head)>,
}

impl Checks {
    pub(in super::super) fn is_wanted(&self) -> bool {
        !self.free.is_empty()
    }

    pub(in super::super) fn contains(&self, head: Head) -> bool {
        self.due.contains_key(&head)
    }

    /// How many ranges are held.
    pub(in super::super) fn held(&self) -> usize {
        self.held.len()
    }

    /// How many ranges are doubted.
    pub(in super::super) fn doubts(&self) -> usize {
        self.due.len() - self.held.len()
    }

    /// The doubted ranges.
    pub(in super::super) fn all_doubted(&self) -> impl Iterator<Item = Head> {
        let doubted = self.due.iter().filter(|(_, check)| check.held.is_none());
        doubted.map(|(&head, _)| head)
    }

    /// The doubted ranges whose checks are not leased, low layers first.
    pub(in super::super) fn doubted(&self) -> impl Iterator<Item = Head> {
        self.doubted.iter().map(|&(_, number)| Head(number))
    }

    pub(super) fn insert(&mut self, head: Head, check: Check) {
        if check.held.is_some() {
            self.held.insert((check.since, head));
        }
        self.due.insert(head, check);
        self.set_free(head);
    }

    pub(super) fn remove(&mut self, head: Head) -> Option<Check> {
        let check = self.due.get(&head)?;
        self.held.remove(&(check.since, head));
        self.set_leased(head);
        self.due.remove(&head)
    }

    /// Notes that the check of this range is not leased.
    pub(super) fn set_free(&mut self, head: Head) {
        let check = &self.due[&head];
        let priority = priority(Unit::Range(head));
        if check.held.is_none() {
            self.doubted.insert(priority);
        }
        let group = self.free.entry(check.voters.clone()).or_default();
        group.insert(priority);
    }

    /// Notes that the check of this range is leased.
    pub(super) fn set_leased(&mut self, head: Head) {
        let voters = &self.due[&head].voters;
        let priority = priority(Unit::Range(head));
        self.doubted.remove(&priority);
        if let Some(group) = self.free.get_mut(voters) {
            group.remove(&priority);
            if group.is_empty() {
                self.free.remove(voters);
            }
        }
    }

    /// The next checks for a worker: ranges of one layer, ascending, and how many checks of each failed. `may` tells
    /// whether the worker may check what these voters have found.
    pub(super) fn wanted_by(
        &self,
        may: impl Fn(&[WorkerId]) -> bool,
        most: usize,
    ) -> Option<(Vec<Head>, u32)> {
        let admitted = self.free.iter().filter(|(voters, _)| may(voters));
        let group = admitted
            .take(GROUPS_LOOKED_AT)
            .map(|(_, group)| group)
            .min_by_key(|group| group.first().copied())?;
        let &(layer, first) = group.first()?;
        let of_layer = group.range((layer, first)..=(layer, u64::MAX));
        let failed = self.due[&Head(first)].failed;
        let heads = of_layer.map(|&(_, number)| Head(number));
        let alike = heads.take_while(|head| self.due[head].failed == failed);
        // A range whose check failed is checked alone.
        let most = if failed > 0 { 1 } else { most };
        Some((alike.take(most).collect(), failed))
    }

    #[cfg(test)]
    pub(in super::super) fn all(&self) -> &BTreeMap<Head, Check> {
        &self.due
    }

    /// The checks that are not leased.
    #[cfg(test)]
    pub(in super::super) fn free(&self) -> impl Iterator<Item = (&Vec<WorkerId>, Head)> {
        let groups = self.free.iter();
        groups.flat_map(|(voters, group)| {
            group.iter().map(move |priority| (voters, Head(priority.1)))
        })
    }
}
