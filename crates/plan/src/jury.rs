//! The jury: what is believed of a unit, and of whom.
//!
//! # The rule
//!
//! **A unit counts when as many trusted participants as it needs have found the same.** What a participant found is its
//! **vote**. A unit needs [`Settings::replicas`](crate::Settings::replicas) votes, and one more if it is **drawn**: by
//! a hash of its number with a key that nobody knows but this process, or as one of the first results of a newcomer. A
//! shard is drawn if one vote would be enough and several participants are there. What was settled stays **known**,
//! with its finders and the votes that it needed then. If trusted votes differ from each other, or from what is known,
//! the unit is **disputed**: the coordinator computes it, and whoever found something else is **quarantined**. For the
//! jury that removes its votes, and does nothing else. A known unit that has fewer finders left than it needed is open
//! again.
//!
//! While only one participant is there, and one vote is enough, its workers vote on drawn units: a machine may be
//! faulty.
//!
//! # Why no one participant settles a unit that needs two
//!
//! A unit becomes known in three ways: by [`Jury::settle`], by [`Jury::truth`], or from the journal. The last two say
//! what the coordinator computed, or what one of the others had made durable. `settle` is called when the
//! [standing](Jury::standing) of the unit is [`Standing::Settled`], or [`Standing::Agreed`] when nobody is there to
//! give the vote that is missing. Either way all votes are equal, and the participants that gave them, with the finders
//! from before, are at least as many as the unit needs without being drawn. Votes are counted by participants, so
//! whoever votes twice counts once. A quarantine removes its votes before anything else is judged.
//!
//! # Why waiting ends
//!
//! A unit that is not settled is either *open*, *agreed* or *disputed*.
//!
//! * Disputed: the coordinator computes it when its sources are there, which are of lower layers.
//! * Agreed: it is offered to all who have not voted. It is settled when none of them is [eligible](super::eligible).
//!   If one is and does not vote for the time of a lease, the coordinator computes it.
//! * Open, and known: the same, but that the coordinator computes it, too, when nobody is eligible.
//! * Open, and not known: it is offered to all who have not voted. Their leases expire, and after some failures the
//!   coordinator computes it. If they are too few, the job waits for more participants and says so.

use std::collections::{BTreeMap, BTreeSet};

use chomp_table::rng::mix;

use super::ids::{ParticipantId, SubmissionId, Unit, WorkerId};
use super::past::Found;
use super::settings::Settings;
use super::slots::{UnitContent, index};

/// The result of a worker for a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vote {
    pub(super) worker: WorkerId,
    pub(super) content: UnitContent,
    /// The result that it is of.
    pub(super) submission: SubmissionId,
}

/// One that does something about a unit, as far as votes are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doer {
    /// A participant with all its workers.
    Participant(ParticipantId),
    /// One worker of the only participant.
    Worker(WorkerId),
}

impl Doer {
    /// What `worker` does counts for its participant, or for the worker alone.
    pub(super) fn of(worker: WorkerId, is_by_worker: bool) -> Doer {
        if is_by_worker {
            Doer::Worker(worker)
        } else {
            Doer::Participant(worker.participant)
        }
    }

    /// Whether a vote of `worker` would be one more of the same.
    pub(super) fn includes(self, worker: WorkerId) -> bool {
        match self {
            Doer::Participant(participant) => participant == worker.participant,
            Doer::Worker(one) => one == worker,
        }
    }

    pub(super) fn participant(self) -> ParticipantId {
        match self {
            Doer::Participant(participant) => participant,
            Doer::Worker(worker) => worker.participant,
        }
    }
}

/// How far a unit is from being settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Too few have found anything.
    Open,
    /// Enough have found the same, but the unit is drawn, and one more is to find it.
    Agreed,
    /// Enough have found this.
    Settled(UnitContent),
    /// Votes differ.
    Disputed,
}

/// The settled content of a unit, and who found it.
#[derive(Clone, Copy, Debug)]
struct SettledContent {
    content: UnitContent,
    /// Its trusted finders: the number of a set of [`ParticipantSets`].
    finders: u32,
    /// The votes that it needed. 0 if the coordinator computed it.
    needed: u32,
}

/// The votes on a unit.
#[derive(Clone, Debug, Default)]
struct Case {
    votes: Vec<Vote>,
    /// Whether it needs one more because a newcomer voted on it.
    is_of_newcomer: bool,
}

/// Sets of participants, each kept once: there are few, and many ranges have each.
#[derive(Debug, Default)]
struct ParticipantSets {
    all: Vec<Vec<ParticipantId>>,
    numbers: BTreeMap<Vec<ParticipantId>, u32>,
}

impl ParticipantSets {
    /// The number of the set of these, which ascend.
    fn number(&mut self, set: Vec<ParticipantId>) -> u32 {
        if let Some(&number) = self.numbers.get(&set) {
            return number;
        }
        let number = u32::try_from(self.all.len()).expect("few sets");
        self.all.push(set.clone());
        self.numbers.insert(set, number);
        number
    }
}

/// The votes that a quarantine removes, and the units that it reopens.
#[derive(Debug, Default)]
pub(super) struct RemovedVotes {
    /// Its votes on units that are not settled.
    pub(super) votes: Vec<(Unit, Vote)>,
    /// The known units that it found and that have too few finders now.
    pub(super) reopened: Vec<Unit>,
}

/// The votes and what became of them.
#[derive(Debug)]
pub(super) struct Jury {
    /// They say how many votes a unit needs.
    settings: Settings,
    ranges: Vec<Option<SettledContent>>,
    shards: Vec<Option<SettledContent>>,
    sets: ParticipantSets,
    cases: BTreeMap<Unit, Case>,
    /// The known units that have fewer finders than they needed.
    reopened: BTreeSet<Unit>,
    /// How often each unit was withdrawn: it is drawn anew then.
    withdrawals: BTreeMap<Unit, u64>,
    /// Whether workers vote, as only one participant is there.
    is_by_worker: bool,
}

impl Jury {
    /// A jury for `ranges` ranges, none of which is known.
    pub(super) fn new(settings: Settings, ranges: u64) -> Jury {
        let ranges = usize::try_from(ranges).expect("at most 2^HEAD_BITS_MAX");
        Jury {
            settings,
            ranges: vec![None; ranges],
            shards: Vec::new(),
            sets: ParticipantSets::default(),
            cases: BTreeMap::new(),
            reopened: BTreeSet::new(),
            withdrawals: BTreeMap::new(),
            is_by_worker: false,
        }
    }

    /// Notes what was settled: the finders that are not quarantined, and the votes that were needed, 0 if the
    /// coordinator computed it.
    pub(super) fn know(
        &mut self,
        unit: Unit,
        content: UnitContent,
        mut finders: Vec<ParticipantId>,
        needed: u32,
    ) {
        finders.sort_unstable();
        finders.dedup();
        if finders.len() < needed as usize {
            self.reopened.insert(unit);
        } else {
            self.reopened.remove(&unit);
        }
        let known = SettledContent {
            content,
            finders: self.sets.number(finders),
            needed,
        };
        *self.place(unit) = Some(known);
    }

    fn place(&mut self, unit: Unit) -> &mut Option<SettledContent> {
        match unit {
            Unit::Range(head) => &mut self.ranges[index(head)],
            Unit::Shard(number) => {
                let index = number as usize;
                if self.shards.len() <= index {
                    self.shards.resize(index + 1, None);
                }
                &mut self.shards[index]
            }
        }
    }

    fn of(&self, unit: Unit) -> Option<&SettledContent> {
        let known = match unit {
            Unit::Range(head) => self.ranges.get(usize::try_from(head.0).ok()?),
            Unit::Shard(number) => self.shards.get(number as usize),
        };
        known?.as_ref()
    }

    /// The settled content of a unit, whether its finders are still trusted or not.
    pub(super) fn known(&self, unit: Unit) -> Option<UnitContent> {
        self.of(unit).map(|known| known.content)
    }

    /// Whether another content of this unit is known.
    pub(super) fn differs(&self, unit: Unit, content: UnitContent) -> bool {
        self.known(unit).is_some_and(|known| known != content)
    }

    /// The trusted participants that found what is known of a unit, ascending.
    pub(super) fn finders(&self, unit: Unit) -> &[ParticipantId] {
        let set = self.of(unit).map(|known| known.finders as usize);
        set.map_or(&[], |set| &self.sets.all[set])
    }

    /// Whether nobody but the owner of the table has found what is known of a unit.
    pub(super) fn is_of_owner(&self, unit: Unit) -> bool {
        let mut finders = self.finders(unit).iter();
        finders.all(|&finder| finder == ParticipantId::OWNER)
    }

    /// Who found what is known of a unit.
    pub(super) fn found(&self, unit: Unit) -> Found {
        Found {
            finders: self.finders(unit).to_vec(),
            needed: self.of(unit).map_or(0, |known| known.needed),
        }
    }

    /// Whether a known unit has fewer trusted finders than it needed.
    pub(super) fn is_reopened(&self, unit: Unit) -> bool {
        self.reopened.contains(&unit)
    }

    /// The units that [`is_reopened`](Jury::is_reopened) is true of.
    pub(super) fn reopened(&self) -> impl Iterator<Item = Unit> + '_ {
        self.reopened.iter().copied()
    }

    /// Notes whether only one participant is there. Returns whether that changes who votes.
    pub(super) fn set_alone(&mut self, is_alone: bool) -> bool {
        let is_by_worker = is_alone && self.settings.replicas <= 1;
        std::mem::replace(&mut self.is_by_worker, is_by_worker) != is_by_worker
    }

    /// Whether the workers of one participant vote.
    pub(super) fn is_by_worker(&self) -> bool {
        self.is_by_worker
    }

    fn doer(&self, worker: WorkerId) -> Doer {
        Doer::of(worker, self.is_by_worker)
    }

    /// The hash by which a unit is drawn.
    fn hash(&self, unit: Unit) -> u64 {
        let number = match unit {
            Unit::Range(head) => head.0,
            Unit::Shard(number) => u64::from(number) | 1 << 63,
        };
        let times = self.withdrawals.get(&unit).copied().unwrap_or(0);
        mix(self.settings.key ^ mix(number + 1) ^ mix(!times))
    }

    /// The unit among these that is to be confirmed for a newcomer: which one, nobody knows.
    pub(super) fn of_newcomer(&self, units: impl Iterator<Item = Unit>) -> Option<Unit> {
        units.min_by_key(|unit| self.hash(*unit))
    }

    /// Whether a unit needs one more vote than others.
    fn is_drawn(&self, unit: Unit) -> bool {
        let one_in = if self.is_by_worker {
            self.settings.draw_own_one_in
        } else {
            self.settings.draw_one_in
        };
        if self.of(unit).is_some() {
            return false;
        }
        if let Unit::Shard(_) = unit {
            return self.settings.replicas <= 1 && !self.is_by_worker;
        }
        if one_in == 0 {
            return false;
        }
        let case = self.cases.get(&unit);
        case.is_some_and(|case| case.is_of_newcomer)
            || self.hash(unit).is_multiple_of(one_in.into())
    }

    /// The votes that a unit needs at least.
    fn least(&self, unit: Unit) -> usize {
        let needed = self.of(unit).map(|known| known.needed);
        needed.unwrap_or(self.settings.replicas) as usize
    }

    /// How many should compute a unit.
    pub(super) fn need(&self, unit: Unit) -> usize {
        self.least(unit).max(1) + usize::from(self.is_drawn(unit))
    }

    /// Those that have found something in a unit which is not settled. Of one that lost its record nobody has: all it
    /// needs is the record.
    pub(super) fn doers(&self, unit: Unit) -> BTreeSet<Doer> {
        let finders = self.finders(unit).iter().copied();
        let finders = finders.filter(|_| self.is_reopened(unit));
        let finders = finders.map(Doer::Participant);
        let voters = self.votes(unit).iter().map(|vote| self.doer(vote.worker));
        finders.chain(voters).collect()
    }

    pub(super) fn votes(&self, unit: Unit) -> &[Vote] {
        self.cases.get(&unit).map_or(&[], |case| &case.votes)
    }

    /// The result whose file others read, if a shard has votes: the first.
    pub(super) fn file(&self, unit: Unit) -> Option<SubmissionId> {
        self.votes(unit).first().map(|vote| vote.submission)
    }

    /// The units with votes that are not settled.
    pub(super) fn voted(&self) -> impl Iterator<Item = Unit> + '_ {
        self.cases.keys().copied()
    }

    /// Takes a vote. Returns whether it says anything new.
    pub(super) fn vote(&mut self, unit: Unit, vote: Vote, is_of_newcomer: bool) -> bool {
        let Vote {
            worker, content, ..
        } = vote;
        if self.known(unit) == Some(content) && !self.is_reopened(unit) {
            return false;
        }
        let doer = self.doer(worker);
        let votes = self.votes(unit).iter();
        let mut earlier = votes.filter(|earlier| self.doer(earlier.worker) == doer);
        // One that contradicts itself is heard once more.
        let is_new = match (earlier.next(), earlier.next()) {
            (None, _) => true,
            (Some(first), None) => first.content != content,
            _ => false,
        };
        if is_new {
            let case = self.cases.entry(unit).or_default();
            case.votes.push(vote);
            case.is_of_newcomer |= is_of_newcomer;
        }
        is_new
    }

    /// How far a unit is from being settled.
    pub(super) fn standing(&self, unit: Unit) -> Standing {
        let votes = self.votes(unit);
        let found = votes.iter().map(|vote| vote.content);
        let mut found = self.known(unit).into_iter().chain(found);
        let Some(content) = found.next() else {
            return Standing::Open;
        };
        if found.any(|other| other != content) {
            return Standing::Disputed;
        }
        if self.count_finders(unit) < self.least(unit) {
            Standing::Open
        } else if self.is_drawn(unit) && self.doers(unit).len() < self.need(unit) {
            Standing::Agreed
        } else {
            Standing::Settled(content)
        }
    }

    /// How many participants have found something in a unit.
    fn count_finders(&self, unit: Unit) -> usize {
        let (finders, votes) = (self.finders(unit), self.votes(unit));
        let is_new = |(number, vote): &(usize, &Vote)| {
            let participant = vote.worker.participant;
            let mut before = votes[..*number].iter();
            !finders.contains(&participant)
                && before.all(|vote| vote.worker.participant != participant)
        };
        finders.len() + votes.iter().enumerate().filter(is_new).count()
    }

    /// Takes the content on which all agree for the known one. Returns it with its finders, of which there are none if
    /// the coordinator has computed it, and the votes. `current` is the vote that was taken last, if there was one.
    pub(super) fn settle(
        &mut self,
        unit: Unit,
        current: Option<Vote>,
    ) -> (UnitContent, Vec<ParticipantId>, Vec<Vote>) {
        let votes = self.void(unit);
        let known = self.of(unit).copied();
        let content = known.map(|known| known.content);
        let content = content.or_else(|| votes.first().map(|vote| vote.content));
        let content = content.expect("somebody found it");
        let needed = known.map_or(self.settings.replicas, |known| known.needed);
        let found = votes.iter().chain(&current);
        let found = found.map(|vote| vote.worker.participant);
        let finders = self.finders(unit).iter().copied().chain(found);
        let finders: BTreeSet<ParticipantId> = finders.filter(|_| needed > 0).collect();
        let finders: Vec<ParticipantId> = finders.into_iter().collect();
        self.know(unit, content, finders.clone(), needed);
        (content, finders, votes)
    }

    /// Those that found something else than the truth: a worker of each, if that is known. If the file is forged that
    /// the votes speak of, or the finders if there are no votes, all of these did: each has written or read it.
    pub(super) fn liars(&self, unit: Unit, truth: UnitContent, is_forged: bool) -> Vec<Doer> {
        let is_wrong = |vote: &&Vote| is_forged || vote.content != truth;
        let wrong = self.votes(unit).iter().filter(is_wrong);
        let mut liars: Vec<Doer> = wrong.map(|vote| Doer::Worker(vote.worker)).collect();
        let is_of_finders = is_forged && self.votes(unit).is_empty();
        if is_of_finders || self.differs(unit, truth) {
            let finders = self.finders(unit).iter().copied();
            liars.extend(finders.map(Doer::Participant));
        }
        liars
    }

    /// Takes what the coordinator has computed for the known content. Returns the votes.
    pub(super) fn truth(&mut self, unit: Unit, content: UnitContent) -> Vec<Vote> {
        let votes = self.void(unit);
        self.know(unit, content, Vec::new(), 0);
        votes
    }

    /// Forgets the votes on a unit, and returns them.
    pub(super) fn void(&mut self, unit: Unit) -> Vec<Vote> {
        let case = self.cases.remove(&unit);
        case.map_or_else(Vec::new, |case| case.votes)
    }

    /// Forgets what is known of a unit. Returns the votes on it, which do not count any more.
    pub(super) fn withdraw(&mut self, unit: Unit) -> Vec<Vote> {
        *self.place(unit) = None;
        self.reopened.remove(&unit);
        *self.withdrawals.entry(unit).or_default() += 1;
        self.void(unit)
    }

    /// Removes the votes of a participant: it counts as a finder of nothing any more.
    pub(super) fn remove_votes(&mut self, participant: ParticipantId) -> RemovedVotes {
        let mut removed = RemovedVotes::default();
        for (&unit, case) in &mut self.cases {
            let theirs = |vote: &mut Vote| vote.worker.participant == participant;
            let votes = case.votes.extract_if(.., theirs);
            removed.votes.extend(votes.map(|vote| (unit, vote)));
        }
        self.cases.retain(|_, case| !case.votes.is_empty());
        let has = |set: &Vec<ParticipantId>| set.contains(&participant);
        let theirs: Vec<bool> = self.sets.all.iter().map(has).collect();
        let ranges = (0..).map(|head| Unit::Range(chomp_table::Head(head)));
        let units = ranges.zip(&self.ranges);
        let units = units.chain((0..).map(Unit::Shard).zip(&self.shards));
        let found = units.filter_map(|(unit, known)| known.as_ref().map(|known| (unit, *known)));
        let found: Vec<(Unit, SettledContent)> = found
            .filter(|(_, known)| theirs[known.finders as usize])
            .collect();
        for (unit, known) in found {
            let finders = self.finders(unit).iter().copied();
            let finders = finders.filter(|&finder| finder != participant).collect();
            self.know(unit, known.content, finders, known.needed);
            if self.is_reopened(unit) {
                removed.reopened.push(unit);
            }
        }
        removed
    }

    /// Panics if a unit is a case without votes.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn check(&self) {
        assert!(self.cases.values().all(|case| !case.votes.is_empty()));
    }
}

#[cfg(test)]
mod tests;
