//! Which checks are due, and which of them nobody has in hand.

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::{Division, Head};

use crate::ids::{LeaseId, Millis, SubmissionId, Unit, WorkerId};
use crate::slots::Content;
use crate::units::{Priority, priority};

/// Of so many groups of checks the lowest range is chosen.
const GROUPS_LOOKED_AT: usize = 16;

/// A range that waits for a check.
#[derive(Debug)]
pub(in super::super) struct Check {
    /// The result that is committed after the check; none if the range is committed, and doubted.
    pub(in super::super) held: Option<SubmissionId>,
    pub(in super::super) content: Content,
    /// Who found that content and is trusted, one of each participant, ascending.
    pub(in super::super) voters: Vec<WorkerId>,
    /// The check that is under way.
    pub(in super::super) lease: Option<LeaseId>,
    pub(in super::super) lost: u32,
    pub(in super::super) since: Millis,
}

/// All checks that are due.
#[derive(Debug)]
pub(in super::super) struct Checks {
    division: Division,
    pub(super) due: BTreeMap<Head, Check>,
    /// Those that nobody has in hand, by who must not have them.
    free: BTreeMap<Vec<WorkerId>, BTreeSet<Priority>>,
    /// The doubted ranges among these.
    doubted: BTreeSet<Priority>,
    /// The ranges that are held, the oldest first.
    pub(super) held: BTreeSet<(Millis, Head)>,
}

impl Checks {
    pub(in super::super) fn new(division: Division) -> Checks {
        Checks {
            division,
            due: BTreeMap::new(),
            free: BTreeMap::new(),
            doubted: BTreeSet::new(),
            held: BTreeSet::new(),
        }
    }

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

    /// Those that nobody has in hand, low layers first.
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
        self.set_taken(head);
        self.due.remove(&head)
    }

    /// Anybody who may check this range can have it.
    pub(super) fn set_free(&mut self, head: Head) {
        let check = &self.due[&head];
        let priority = priority(self.division, Unit::Range(head));
        if check.held.is_none() {
            self.doubted.insert(priority);
        }
        let group = self.free.entry(check.voters.clone()).or_default();
        group.insert(priority);
    }

    pub(super) fn set_taken(&mut self, head: Head) {
        let voters = &self.due[&head].voters;
        let priority = priority(self.division, Unit::Range(head));
        self.doubted.remove(&priority);
        if let Some(group) = self.free.get_mut(voters) {
            group.remove(&priority);
            if group.is_empty() {
                self.free.remove(voters);
            }
        }
    }

    /// Some ranges of a low layer that somebody may check who `may` look at what these have found, ascending; and how
    /// many checks of each were lost.
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
        let lost = self.due[&Head(first)].lost;
        let heads = of_layer.map(|&(_, number)| Head(number));
        let alike = heads.take_while(|head| self.due[head].lost == lost);
        // One that was tried in vain is tried alone.
        let most = if lost > 0 { 1 } else { most };
        Some((alike.take(most).collect(), lost))
    }

    #[cfg(test)]
    pub(in super::super) fn all(&self) -> &BTreeMap<Head, Check> {
        &self.due
    }

    /// Those that nobody has in hand.
    #[cfg(test)]
    pub(in super::super) fn free(&self) -> impl Iterator<Item = (&Vec<WorkerId>, Head)> {
        let groups = self.free.iter();
        groups.flat_map(|(voters, group)| {
            group.iter().map(move |priority| (voters, Head(priority.1)))
        })
    }
}
