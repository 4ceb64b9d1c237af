//! The units of a job, be it ranges or shards: the state of each, what is in it, and who found that.
//!
//! A content is known from the moment when enough participants have found it, even before it is durable, until it is
//! withdrawn. A unit whose record is lost keeps its content: a new result has to be equal to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chomp_table::{Digest, Head, RangeSummary};

use super::ids::{ParticipantId, Party, Unit, WorkerId, WriteId};
use super::ranges::Ranges;
use super::reasons::PlanError;
use super::settings::Settings;

/// The layer of shards: above all layers of ranges.
pub(super) const SHARD_LAYER: u32 = u32::MAX - 1;

/// The order of work: low layers first, shards after all ranges, the last shard before the others. Ranges depend only
/// on ranges before them, so once the last shards are durable, the records with their words can be removed.
pub(super) type Priority = (u32, u64);

pub(super) fn priority(unit: Unit) -> Priority {
    match unit {
        Unit::Range(head) => (head.layer(), head.0),
        Unit::Shard(number) => (SHARD_LAYER, (u32::MAX - number).into()),
    }
}

pub(super) fn unit_at((layer, number): Priority) -> Unit {
    if layer == SHARD_LAYER {
        Unit::Shard(u32::MAX - u32::try_from(number).expect("made of a shard's number"))
    } else {
        Unit::Range(Head(number))
    }
}

/// The index of a head: heads of a table are the numbers from 0.
pub(super) fn index(head: Head) -> usize {
    usize::try_from(head.0).expect("a head of the table, of at most HEAD_BITS_MAX bits")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Blocked,
    Ready,
    Writing(WriteId),
    Committed,
}

/// The content of a unit. Results are equal if the counts and the digest are: a worker may report wrong counts with the
/// right digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) count: u64,
    pub(super) stored: u64,
    pub(super) digest: Digest,
}

impl Content {
    pub(super) fn of_range(summary: RangeSummary) -> Content {
        Content {
            count: summary.count,
            stored: summary.stored,
            digest: summary.digest,
        }
    }

    pub(super) fn of_shard(digest: Digest) -> Content {
        Content {
            count: 0,
            stored: 0,
            digest,
        }
    }
}

/// The finders of a content, and how many it should have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitFinders {
    /// The workers that found it and are trusted, ascending.
    pub workers: Vec<WorkerId>,
    /// The number of finders that the unit should have, 0 if the coordinator computed it itself.
    pub wanted: u32,
}

impl UnitFinders {
    pub(super) fn participant_count(&self) -> usize {
        participants(self.workers.iter().copied()).len()
    }
}

pub(super) fn participants(workers: impl IntoIterator<Item = WorkerId>) -> BTreeSet<ParticipantId> {
    let participants = workers.into_iter().map(|worker| worker.participant);
    participants.collect()
}

/// The finders of units of which nothing is known.
static NOBODY: UnitFinders = UnitFinders {
    workers: Vec::new(),
    wanted: 0,
};

#[derive(Clone, Debug)]
struct Entry {
    state: State,
    known: Option<(Content, Arc<UnitFinders>)>,
}

#[derive(Debug)]
pub(super) struct Units {
    /// The ranges by head, then the shards by number.
    table: Vec<Entry>,
    pub(super) ranges: Ranges,
    /// Each value of `UnitFinders` once: many ranges have the same finders.
    distinct: BTreeSet<Arc<UnitFinders>>,
    /// The range in which each shard begins, and the stored words of it that come before. None before the table is cut.
    starts: Vec<(Head, u64)>,
    pub(super) shards_done: u64,
    losses: BTreeMap<Unit, u32>,
}

impl Units {
    /// All ranges, each of them blocked: [`begin`](Self::begin) finds out which ones are ready.
    pub(super) fn new(settings: &Settings) -> Result<Units, PlanError> {
        settings.validate()?;
        let ranges = Ranges::new(settings);
        let blocked = Entry {
            state: State::Blocked,
            known: None,
        };
        Ok(Units {
            table: vec![blocked; index(Head(ranges.count()))],
            ranges,
            distinct: BTreeSet::new(),
            starts: Vec::new(),
            shards_done: 0,
            losses: BTreeMap::new(),
        })
    }

    /// Finds out which ranges are ready. The ranges that earlier coordinators committed have to be marked before.
    pub(super) fn begin(&mut self) {
        self.ranges.begin();
        for head in (0..self.ranges.count()).map(Head) {
            if self.state(Unit::Range(head)) == State::Blocked {
                self.watch(head);
            }
        }
    }

    fn index(&self, unit: Unit) -> usize {
        match unit {
            Unit::Range(head) => index(head),
            Unit::Shard(number) => index(Head(self.ranges.count())) + number as usize,
        }
    }

    pub(super) fn all_ranges(&self) -> impl Iterator<Item = Unit> + use<> {
        (0..self.ranges.count()).map(|head| Unit::Range(Head(head)))
    }

    /// All shards, once the table is cut.
    pub(super) fn shards(
        &self,
    ) -> impl DoubleEndedIterator<Item = Unit> + ExactSizeIterator + use<> {
        let count = u32::try_from(self.starts.len());
        let count = count.expect("a shard has 4,194,304 words, a table at most 2^51");
        (0..count).map(Unit::Shard)
    }

    pub(super) fn contains(&self, unit: Unit) -> bool {
        match unit {
            Unit::Range(head) => head.0 < self.ranges.count(),
            Unit::Shard(number) => (number as usize) < self.starts.len(),
        }
    }

    pub(super) fn state(&self, unit: Unit) -> State {
        self.table[self.index(unit)].state
    }

    pub(super) fn set_state(&mut self, unit: Unit, state: State) {
        let index = self.index(unit);
        self.table[index].state = state;
    }

    pub(super) fn is_committed(&self, unit: Unit) -> bool {
        self.contains(unit) && self.state(unit) == State::Committed
    }

    /// Whether everything that the unit depends on is committed.
    pub(super) fn has_sources(&self, unit: Unit) -> bool {
        match unit {
            Unit::Range(head) => self.ranges.has_all_sources(head),
            Unit::Shard(_) => self.ranges.is_complete(),
        }
    }

    fn known(&self, unit: Unit) -> Option<&(Content, Arc<UnitFinders>)> {
        let entry = self.contains(unit).then(|| &self.table[self.index(unit)])?;
        entry.known.as_ref()
    }

    pub(super) fn content(&self, unit: Unit) -> Option<Content> {
        self.known(unit).map(|&(content, _)| content)
    }

    /// Whether this content of the unit is committed, or is being written.
    pub(super) fn is_found(&self, unit: Unit, content: Content) -> bool {
        let is_known = self.content(unit) == Some(content);
        is_known && matches!(self.state(unit), State::Writing(_) | State::Committed)
    }

    /// Whether another content of this unit is known.
    pub(super) fn differs(&self, unit: Unit, content: Content) -> bool {
        self.content(unit).is_some_and(|known| known != content)
    }

    pub(super) fn finders(&self, unit: Unit) -> &UnitFinders {
        self.known(unit).map_or(&NOBODY, |(_, finders)| finders)
    }

    pub(super) fn found_by(&self, unit: Unit) -> &[WorkerId] {
        &self.finders(unit).workers
    }

    /// Whether only the owner of the table has found what is known.
    pub(super) fn has_no_foreign_finder(&self, unit: Unit) -> bool {
        let is_owner = |finder: &WorkerId| finder.participant == ParticipantId::OWNER;
        self.found_by(unit).iter().all(is_owner)
    }

    pub(super) fn set_known(&mut self, unit: Unit, content: Content, mut finders: UnitFinders) {
        finders.workers.sort_unstable();
        finders.workers.dedup();
        let kept = self.distinct.get(&finders).cloned();
        let finders = kept.unwrap_or_else(|| Arc::new(finders));
        self.distinct.insert(Arc::clone(&finders));
        let index = self.index(unit);
        self.table[index].known = Some((content, finders));
    }

    pub(super) fn add_finder(&mut self, unit: Unit, worker: WorkerId) {
        self.change_finders(unit, |finders| finders.push(worker));
    }

    fn change_finders(&mut self, unit: Unit, change: impl FnOnce(&mut Vec<WorkerId>)) {
        if let Some((content, finders)) = self.known(unit) {
            let (content, mut finders) = (*content, UnitFinders::clone(finders));
            change(&mut finders.workers);
            self.set_known(unit, content, finders);
        }
    }

    /// Removes a party from the finders of all units. Returns the units that it had found.
    pub(super) fn remove_finder(&mut self, party: Party) -> Vec<Unit> {
        let is_theirs = |unit: &Unit| {
            let mut finders = self.found_by(*unit).iter();
            finders.any(|&finder| party.includes(finder))
        };
        let units = self.all_ranges().chain(self.shards());
        let units: Vec<Unit> = units.filter(is_theirs).collect();
        for &unit in &units {
            self.change_finders(unit, |finders| finders.retain(|&it| !party.includes(it)));
        }
        units
    }

    pub(super) fn forget(&mut self, unit: Unit) {
        let index = self.index(unit);
        self.table[index].known = None;
    }

    /// Marks a unit whose content is known as committed. Returns the ranges that became ready by this.
    pub(super) fn mark_committed(&mut self, unit: Unit) -> Vec<Unit> {
        self.set_state(unit, State::Committed);
        let Unit::Range(head) = unit else {
            self.shards_done += 1;
            return Vec::new();
        };
        let losing = self.content(unit).map_or(0, |content| content.count);
        let watchers = self.ranges.commit(head, losing).into_iter();
        let ready = watchers.filter(|&head| self.watch(head));
        ready.map(Unit::Range).collect()
    }

    /// Sets a unit back to ready, or a range that lacks a source to blocked. To be called when the content or the
    /// record of the unit is gone, or when a source is not committed any more.
    pub(super) fn revert(&mut self, unit: Unit) {
        let state = self.state(unit);
        match unit {
            Unit::Shard(_) => {
                self.shards_done -= u64::from(state == State::Committed);
                self.set_state(unit, State::Ready);
            }
            // A blocked range watches a source already.
            Unit::Range(_) if state == State::Blocked => {}
            Unit::Range(head) => {
                if state == State::Committed {
                    let losing = self.content(unit).map_or(0, |content| content.count);
                    self.ranges.uncommit(head, losing);
                }
                self.watch(head);
            }
        }
    }

    /// Makes a range ready, or has it watch a source. Returns whether it is ready.
    fn watch(&mut self, head: Head) -> bool {
        let is_ready = self.ranges.watch(head);
        let blocked = (!is_ready).then_some(State::Blocked);
        self.table[index(head)].state = blocked.unwrap_or(State::Ready);
        is_ready
    }

    /// Adds `more` losses of the record or the file of a unit. Returns the number of all its losses so far.
    pub(super) fn count_losses(&mut self, unit: Unit, more: u32) -> u32 {
        let losses = self.losses.entry(unit).or_default();
        *losses += more;
        *losses
    }

    pub(super) fn was_lost(&self, unit: Unit) -> bool {
        self.losses.contains_key(&unit)
    }

    /// Cuts the table, of which all ranges are committed. Each shard has `words` stored words, in the order of ranges,
    /// and the last shard has the rest; there is at least one.
    pub(super) fn cut(&mut self, words: u64) {
        let words = words.max(1);
        self.starts = vec![(Head(0), 0)];
        let (mut before, mut next) = (0u64, words);
        for head in (0..self.ranges.count()).map(Head) {
            let content = self.content(Unit::Range(head));
            let after = before.saturating_add(content.map_or(0, |content| content.stored));
            while next < after {
                self.starts.push((head, next - before));
                next = next.saturating_add(words);
            }
            before = after;
        }
        let ready = Entry {
            state: State::Ready,
            known: None,
        };
        self.table
            .resize(self.table.len() + self.starts.len(), ready);
    }

    pub(super) fn drop_shards(&mut self) {
        self.starts.clear();
        self.shards_done = 0;
        self.table.truncate(index(Head(self.ranges.count())));
        self.losses.retain(|unit, _| matches!(unit, Unit::Range(_)));
    }

    pub(super) fn is_cut(&self) -> bool {
        !self.starts.is_empty()
    }

    /// Whether all shards are there and committed.
    pub(super) fn are_shards_complete(&self) -> bool {
        self.is_cut() && self.shards_done == self.starts.len() as u64
    }

    pub(super) fn start(&self, shard: u32) -> (Head, u64) {
        self.starts[shard as usize]
    }
}
