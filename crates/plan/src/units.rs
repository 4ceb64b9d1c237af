//! The units of a job, be it ranges or shards: one table, with all that is known of each and done about it.
//!
//! A content is known from the moment when enough participants have found it, even before it is durable, until it is
//! withdrawn. A unit whose record is lost keeps its content: a new result has to be equal to it.
//!
//! The table notes which units change. [Offers](super::offers), open checks and all else that is kept to find units
//! fast follow from their entries, and are computed again for these units once, at the end of an event.

use std::collections::BTreeSet;
use std::mem;

use chomp_table::{Digest, Head, RangeSummary};

use super::finders::Finders;
use super::ids::{LeaseId, ParticipantId, Party, Unit, WorkerId, WriteId};
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

/// How far a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Some source is not done.
    Blocked,
    /// It may be computed, or is.
    Open,
    /// Its content is known, and on its way into the journal.
    Writing(WriteId),
    /// Its content is durable. It may be computed once more, as a check.
    Done,
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

    pub(super) fn is_forged(self) -> bool {
        self == Content::of_forged(self.digest)
    }

    /// That of a shard with these words whose file has others.
    pub(super) fn of_forged(digest: Digest) -> Content {
        Content {
            count: 1,
            ..Content::of_shard(digest)
        }
    }
}

pub(super) fn participants(workers: impl IntoIterator<Item = WorkerId>) -> BTreeSet<ParticipantId> {
    let participants = workers.into_iter().map(|worker| worker.participant);
    participants.collect()
}

/// A result that does not count yet: too few participants have found the same content, or contents differ.
#[derive(Clone, Debug)]
pub(super) struct PendingResult<L> {
    pub(super) worker: WorkerId,
    pub(super) content: Content,
    pub(super) location: L,
}

/// All about one unit.
#[derive(Debug)]
struct Entry<L> {
    state: State,
    known: Option<(Content, Finders)>,
    /// Most units have none at most times.
    work: Option<Box<UnitWork<L>>>,
}

/// The attempts at a unit that is not done, or that is checked.
#[derive(Debug)]
pub(super) struct UnitWork<L> {
    pub(super) leases: Vec<(LeaseId, WorkerId)>,
    /// The failed attempts: leases that expired, and others.
    pub(super) expiries: u32,
    pub(super) failures: u32,
    /// Those of the referee, which are in `failures` too.
    pub(super) referee_failures: u32,
    pub(super) results: Vec<PendingResult<L>>,
    /// Whether the referee has to compute it, whatever others say: the publication failed because of it, its record or
    /// file was lost too often, or one of those who differed about it is out.
    pub(super) needs_referee: bool,
    /// How often its record or its file was lost since this coordinator took over, if ever.
    pub(super) losses: Option<u32>,
}

impl<L> Entry<L> {
    const fn new(state: State) -> Entry<L> {
        Entry {
            state,
            known: None,
            work: None,
        }
    }
}

impl<L> Default for UnitWork<L> {
    fn default() -> UnitWork<L> {
        UnitWork {
            leases: Vec::new(),
            expiries: 0,
            failures: 0,
            referee_failures: 0,
            results: Vec::new(),
            needs_referee: false,
            losses: None,
        }
    }
}

impl<L> UnitWork<L> {
    fn is_empty(&self) -> bool {
        let has_failed = self.expiries + self.failures > 0;
        let is_idle = self.leases.is_empty() && self.results.is_empty() && !has_failed;
        is_idle && !self.needs_referee && self.losses.is_none()
    }
}

#[derive(Debug)]
pub(super) struct Units<L> {
    /// The ranges by head, then the shards by number.
    table: Vec<Entry<L>>,
    pub(super) ranges: Ranges,
    /// The units that changed since the last [`take_changed`](Self::take_changed).
    changed: Vec<Unit>,
    /// The finders that were set last: units of one result share them.
    last_finders: Finders,
    /// The range in which each shard begins, and the stored words of it that come before. None before the table is cut.
    starts: Vec<(Head, u64)>,
    pub(super) shards_done: u64,
}

impl<L> Units<L> {
    /// All ranges, each of them blocked: [`begin`](Self::begin) finds out which ones are open.
    pub(super) fn new(settings: &Settings) -> Result<Units<L>, PlanError> {
        settings.validate()?;
        let ranges = Ranges::new(settings);
        let mut table = Vec::new();
        table.resize_with(index(Head(ranges.count())), || Entry::new(State::Blocked));
        Ok(Units {
            table,
            ranges,
            changed: Vec::new(),
            last_finders: Finders::NOBODY,
            starts: Vec::new(),
            shards_done: 0,
        })
    }

    /// The units that changed since the last call, ascending.
    pub(super) fn take_changed(&mut self) -> Vec<Unit> {
        let mut changed = mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        for &unit in &changed {
            if self.contains(unit) {
                let index = self.index(unit);
                let work = &mut self.table[index].work;
                work.take_if(|work| work.is_empty());
            }
        }
        changed
    }

    /// Has everything that follows from these units be computed again, since it may depend on others that changed.
    pub(super) fn touch(&mut self, units: impl IntoIterator<Item = Unit>) {
        self.changed.extend(units);
    }

    fn entry(&self, unit: Unit) -> Option<&Entry<L>> {
        self.contains(unit).then(|| &self.table[self.index(unit)])
    }

    fn entry_mut(&mut self, unit: Unit) -> &mut Entry<L> {
        self.changed.push(unit);
        let index = self.index(unit);
        &mut self.table[index]
    }

    fn work(&self, unit: Unit) -> Option<&UnitWork<L>> {
        self.entry(unit)?.work.as_deref()
    }

    pub(super) fn work_mut(&mut self, unit: Unit) -> &mut UnitWork<L> {
        self.entry_mut(unit).work.get_or_insert_default()
    }

    pub(super) fn leases(&self, unit: Unit) -> &[(LeaseId, WorkerId)] {
        self.work(unit).map_or(&[], |work| &work.leases)
    }

    pub(super) fn results(&self, unit: Unit) -> &[PendingResult<L>] {
        self.work(unit).map_or(&[], |work| &work.results)
    }

    pub(super) fn all_results(&self) -> impl Iterator<Item = &PendingResult<L>> {
        let works = self.table.iter().filter_map(|entry| entry.work.as_deref());
        works.flat_map(|work| &work.results)
    }

    /// Whether the unit waits for the referee to decide, and not only for a result.
    pub(super) fn awaits_decision(&self, unit: Unit) -> bool {
        self.work(unit).is_some_and(|work| work.needs_referee) || self.is_disputed(unit)
    }

    /// Whether attempts at the unit have failed too often.
    pub(super) fn failed_often(&self, unit: Unit, settings: &Settings) -> bool {
        self.work(unit).is_some_and(|work| {
            work.expiries >= settings.expiries_max || work.failures >= settings.failures_max
        })
    }

    pub(super) fn failed_attempts(&self, unit: Unit) -> u32 {
        let work = self.work(unit);
        work.map_or(0, |work| work.expiries + work.failures)
    }

    pub(super) fn was_lost(&self, unit: Unit) -> bool {
        self.work(unit).is_some_and(|work| work.losses.is_some())
    }

    /// Whether results for the unit differ from each other or from what is known.
    pub(super) fn is_disputed(&self, unit: Unit) -> bool {
        let results = self.results(unit).iter().map(|result| result.content);
        let mut contents = self.content(unit).into_iter().chain(results);
        let first = contents.next();
        contents.any(|other| Some(other) != first)
    }

    /// Finds out which ranges are open. The ranges that earlier coordinators committed have to be marked before.
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

    pub(super) fn all_ranges(&self) -> impl Iterator<Item = Unit> + use<L> {
        (0..self.ranges.count()).map(|head| Unit::Range(Head(head)))
    }

    /// All shards, once the table is cut.
    pub(super) fn shards(
        &self,
    ) -> impl DoubleEndedIterator<Item = Unit> + ExactSizeIterator + use<L> {
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
        self.entry_mut(unit).state = state;
    }

    pub(super) fn is_done(&self, unit: Unit) -> bool {
        self.contains(unit) && self.state(unit) == State::Done
    }

    /// Whether everything that the unit depends on is done.
    pub(super) fn has_sources(&self, unit: Unit) -> bool {
        match unit {
            Unit::Range(head) => self.ranges.has_all_sources(head),
            Unit::Shard(_) => self.ranges.is_complete(),
        }
    }

    fn known(&self, unit: Unit) -> Option<&(Content, Finders)> {
        self.entry(unit)?.known.as_ref()
    }

    pub(super) fn content(&self, unit: Unit) -> Option<Content> {
        self.known(unit).map(|(content, _)| *content)
    }

    /// Whether this content of the unit is done, or is being written.
    pub(super) fn is_found(&self, unit: Unit, content: Content) -> bool {
        let is_known = self.content(unit) == Some(content);
        is_known && matches!(self.state(unit), State::Writing(_) | State::Done)
    }

    /// Whether another content of this unit is known.
    pub(super) fn differs(&self, unit: Unit, content: Content) -> bool {
        self.content(unit).is_some_and(|known| known != content)
    }

    pub(super) fn finders(&self, unit: Unit) -> &Finders {
        let known = self.known(unit).map(|(_, finders)| finders);
        known.unwrap_or(&Finders::NOBODY)
    }

    pub(super) fn found_by(&self, unit: Unit) -> &[WorkerId] {
        self.finders(unit).workers()
    }

    /// Whether only the owner of the table has found what is known.
    pub(super) fn has_no_foreign_finder(&self, unit: Unit) -> bool {
        let is_owner = |finder: &WorkerId| finder.participant == ParticipantId::OWNER;
        self.found_by(unit).iter().all(is_owner)
    }

    pub(super) fn set_known(&mut self, unit: Unit, content: Content, finders: Finders) {
        if self.last_finders != finders {
            self.last_finders = finders;
        }
        let finders = self.last_finders.clone();
        self.entry_mut(unit).known = Some((content, finders));
    }

    /// Has a unit want no more finders than it has.
    pub(super) fn want_no_more(&mut self, unit: Unit) {
        let workers = self.found_by(unit).to_vec();
        let wanted = u32::try_from(workers.len()).expect("fewer than it wanted");
        self.set_finders(unit, Finders::new(wanted, workers));
    }

    pub(super) fn add_finder(&mut self, unit: Unit, worker: WorkerId) {
        let finders = self.finders(unit);
        let workers = finders.workers().iter().copied().chain([worker]);
        let finders = Finders::new(finders.wanted(), workers);
        self.set_finders(unit, finders);
    }

    fn set_finders(&mut self, unit: Unit, finders: Finders) {
        if let Some(content) = self.content(unit) {
            self.set_known(unit, content, finders);
        }
    }

    /// Removes a party from the finders of all units, and its results.
    pub(super) fn remove_finder(&mut self, party: Party) {
        for unit in self.all_ranges().chain(self.shards()) {
            if let Some(others) = self.finders(unit).without(party) {
                self.set_finders(unit, others);
            }
            let is_theirs = |result: &PendingResult<L>| party.includes(result.worker);
            if self.results(unit).iter().any(is_theirs) {
                let awaits_decision = self.awaits_decision(unit);
                let work = self.work_mut(unit);
                work.results.retain(|it| !is_theirs(it));
                work.needs_referee = awaits_decision;
            }
        }
    }

    /// Forgets the content of a unit, and all that was done about it.
    pub(super) fn forget(&mut self, unit: Unit) {
        let entry = self.entry_mut(unit);
        (entry.known, entry.work) = (None, None);
    }

    /// Marks a unit whose content is known as done, which opens ranges that depend on it.
    pub(super) fn mark_done(&mut self, unit: Unit) {
        self.set_state(unit, State::Done);
        let Unit::Range(head) = unit else {
            self.shards_done += 1;
            return;
        };
        let losing = self.content(unit).map_or(0, |content| content.count);
        for watcher in self.ranges.commit(head, losing) {
            self.watch(watcher);
        }
    }

    /// Sets a unit back to open, or a range that lacks a source to blocked. To be called when the content or the
    /// record of the unit is gone, or when a source is not done any more.
    pub(super) fn revert(&mut self, unit: Unit) {
        let state = self.state(unit);
        match unit {
            Unit::Shard(_) => {
                self.shards_done -= u64::from(state == State::Done);
                self.set_state(unit, State::Open);
            }
            // A blocked range watches a source already.
            Unit::Range(_) if state == State::Blocked => {}
            Unit::Range(head) => {
                if state == State::Done {
                    let losing = self.content(unit).map_or(0, |content| content.count);
                    self.ranges.uncommit(head, losing);
                }
                self.watch(head);
            }
        }
    }

    /// Opens a range, or has it watch a source.
    fn watch(&mut self, head: Head) {
        let blocked = (!self.ranges.watch(head)).then_some(State::Blocked);
        let state = blocked.unwrap_or(State::Open);
        self.set_state(Unit::Range(head), state);
    }

    /// Adds `more` losses of the record or the file of a unit. Returns the number of all its losses so far.
    pub(super) fn count_losses(&mut self, unit: Unit, more: u32) -> u32 {
        let losses = self.work_mut(unit).losses.get_or_insert_default();
        *losses += more;
        *losses
    }

    /// Cuts the table, of which all ranges are done. Each shard has `words` stored words, in the order of ranges,
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
        let count = self.table.len() + self.starts.len();
        self.table.resize_with(count, || Entry::new(State::Open));
        self.touch(self.shards());
    }

    /// Forgets the shards. No lease may be on one of them.
    pub(super) fn drop_shards(&mut self) {
        self.touch(self.shards());
        self.starts.clear();
        self.shards_done = 0;
        self.table.truncate(index(Head(self.ranges.count())));
    }

    pub(super) fn is_cut(&self) -> bool {
        !self.starts.is_empty()
    }

    /// Whether all shards are there and done.
    pub(super) fn are_shards_complete(&self) -> bool {
        self.is_cut() && self.shards_done == self.starts.len() as u64
    }

    pub(super) fn start(&self, shard: u32) -> (Head, u64) {
        self.starts[shard as usize]
    }
}
