//! Checks what a plan says and asks for. A watch follows each event that a plan is told and the actions after it, and
//! compares them with what is really in the journal, and with what was really done to the job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chomp_plan::{
    Action, AgreedUnit, Event, LeaseAnswer, LeaseId, Loss, ParticipantId, Phase, Plan, Rejection,
    RequestId, Settings, StopReason, SubmissionId, Task, Unit, Verdict, Work, WorkerId,
};
use chomp_store::{Finders, Journal, QUARANTINED};
use chomp_table::sources::sources;
use chomp_table::{Digest, Head};

use crate::testing::range_bits;

/// The harm done to a job so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Harm {
    /// Who has handed in something wrong.
    pub(super) liars: BTreeSet<ParticipantId>,
    /// The units about which somebody has.
    pub(super) lies: BTreeSet<Unit>,
    /// Whose credentials were taken back.
    pub(super) revoked: BTreeSet<ParticipantId>,
    /// Whether parts or shards were lost or damaged.
    pub(super) damaged: bool,
    /// Whether the storage has failed or crashed, or was to.
    pub(super) troubled: bool,
    /// Whether a wrong content was durable some time: then honest workers may find wrong ones.
    pub(super) got_in: bool,
}

impl Harm {
    /// Whether something that is done may have to be done again.
    fn may_undo(&self) -> bool {
        self.damaged || !self.liars.is_empty()
    }
}

/// A result that is not settled, or of which a vote waits.
#[derive(Debug, Default)]
struct Outcome {
    units: Vec<(Unit, Digest)>,
    /// Who has handed it in; nobody if it is of the arbiter.
    participant: Option<ParticipantId>,
    /// The task that it is the result of, if that was given by this coordinator.
    work: Option<Work>,
    /// Whether it is what a plan should take.
    is_rubbish: bool,
    /// The units that the plan asked to write.
    written: BTreeSet<Unit>,
    is_noted: bool,
}

/// The state of a plan as it follows from its events and actions.
#[derive(Debug)]
pub(super) struct Watch {
    settings: Settings,
    journal: Arc<Journal>,
    /// The units that are done, and stay so.
    held: BTreeSet<Unit>,
    /// The units on their way into the journal.
    commits: BTreeMap<SubmissionId, Vec<Unit>>,
    outcomes: BTreeMap<SubmissionId, Outcome>,
    /// Who has said what.
    votes: BTreeSet<(Unit, Digest, ParticipantId)>,
    /// The contents that the arbiter found.
    arbitrated: BTreeSet<(Unit, Digest)>,
    requests: BTreeMap<RequestId, WorkerId>,
    given: BTreeMap<LeaseId, (WorkerId, Work)>,
    /// The units at the arbiter, and whether nothing was lost or withdrawn since it began.
    arbitrations: BTreeMap<Unit, bool>,
    quarantined: BTreeSet<ParticipantId>,
    /// How many attempts came to nothing, at least.
    losses: u32,
    has_undone: bool,
    stopped: Option<StopReason>,
    /// Whether parts were removed: results under their leases are not taken any more.
    pub(super) removes_orphans: bool,
    /// Whether the next result that is handed in is rubbish.
    pub(super) expects_rubbish: bool,
}

impl Watch {
    pub(super) fn new(settings: Settings, journal: &Arc<Journal>, plan: &Plan) -> Watch {
        let ledger = journal.ledger();
        let heads = range_bits().heads(settings.size);
        let ranges = ledger.done(heads).map(|(head, _)| Unit::Range(head));
        let mut held: BTreeSet<Unit> = ranges.collect();
        assert_eq!(plan.progress().ranges_resumed, held.len() as u64);
        if held.len() as u64 == heads {
            let shards = ledger.shards(settings.size);
            held.extend(shards.map(|merged| Unit::Shard(merged.number)));
        }
        let quarantined = ledger
            .quarantined()
            .map(|(number, _)| ParticipantId(number));
        let (mut votes, mut arbitrated) = (BTreeSet::new(), BTreeSet::new());
        let mut recall = |unit: Unit, digest: Digest, finders: &Finders| {
            if finders.is_empty() {
                arbitrated.insert((unit, digest));
            }
            let of = |one| (unit, digest, ParticipantId(one));
            votes.extend(finders.iter().map(of));
        };
        for (head, place, finders) in ledger.found(heads).chain(ledger.lost(heads)) {
            recall(Unit::Range(head), place.digest, finders);
        }
        for (merged, finders) in ledger.found_shards(settings.size) {
            recall(Unit::Shard(merged.number), merged.words_digest(), finders);
        }
        let watch = Watch {
            held,
            commits: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            votes,
            arbitrated,
            requests: BTreeMap::new(),
            given: BTreeMap::new(),
            arbitrations: BTreeMap::new(),
            quarantined: quarantined.collect(),
            losses: 0,
            has_undone: ledger.withdrawn,
            stopped: None,
            removes_orphans: false,
            expects_rubbish: false,
            journal: Arc::clone(journal),
            settings,
        };
        for &one in &watch.quarantined {
            assert!(plan.quarantine_reason(WorkerId::new(one.0, 0)).is_some());
        }
        drop(ledger);
        watch
    }

    /// Takes in an event, and checks what the plan makes of it.
    pub(super) fn take(&mut self, event: &Event, actions: &[Action], plan: &Plan, harm: &Harm) {
        self.note(event);
        for action in actions {
            self.check(action, plan, harm);
        }
        match event {
            Event::Renewed { worker, leases } => {
                let [Action::Renewal { worker: to, lost }, ..] = actions else {
                    panic!("a renewal is answered at once");
                };
                assert_eq!(worker, to);
                self.check_renewal(leases, lost);
            }
            Event::Tick => {
                // The requests of those that were forgotten are not answered.
                self.requests.retain(|_, worker| plan.is_there(*worker));
            }
            _ => {}
        }
    }

    /// Checks that no result is forgotten and no request waits after the end.
    pub(super) fn check_progress(&self, plan: &Plan) {
        let progress = plan.progress();
        assert_eq!(progress.submissions, self.outcomes.len() as u64);
        let done = self.journal.ledger().len() as u64;
        assert!(progress.ranges_done <= done, "done but not durable");
        if *plan.phase() != Phase::Running {
            assert!(self.requests.is_empty(), "a request waits for nothing");
        }
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Wanted { request, worker } => {
                self.requests.insert(*request, *worker);
            }
            Event::Withdrawn { request } => {
                self.requests.remove(request);
            }
            Event::Left { worker } => self.requests.retain(|_, other| other != worker),
            Event::Failed { .. } => self.losses += 1,
            Event::Tick => self.losses += u32::try_from(self.given.len()).unwrap(),
            Event::Evaluated {
                submission,
                worker,
                lease,
                ranges,
            } => {
                let units = ranges.iter();
                let units = units.map(|range| (Unit::Range(range.head), range.digest));
                self.handed_in(*submission, *worker, *lease, units.collect());
            }
            Event::Merged {
                submission,
                worker,
                lease,
                shard,
                digest,
            } => {
                let units = vec![(Unit::Shard(*shard), *digest)];
                self.handed_in(*submission, *worker, *lease, units);
            }
            Event::Arbitrated {
                submission,
                unit,
                digest,
                ..
            } => {
                self.arbitrations.remove(unit).expect("it was asked for");
                self.arbitrated.insert((*unit, *digest));
                let outcome = Outcome {
                    units: vec![(*unit, *digest)],
                    ..Outcome::default()
                };
                self.outcomes.insert(*submission, outcome);
            }
            Event::ArbitrationFailed { unit, .. } => {
                self.arbitrations.remove(unit).expect("it was asked for");
            }
            Event::Committed { submission } => {
                self.held.extend(self.commits.remove(submission).unwrap());
            }
            Event::CommitFailed { submission, .. } => {
                self.commits.remove(submission);
            }
            _ => {}
        }
    }

    fn handed_in(
        &mut self,
        submission: SubmissionId,
        worker: WorkerId,
        lease: LeaseId,
        units: Vec<(Unit, Digest)>,
    ) {
        let participant = worker.participant;
        let votes = units.iter();
        self.votes
            .extend(votes.map(|&(unit, digest)| (unit, digest, participant)));
        let given = self.given.get(&lease);
        let given = given.filter(|(holder, _)| *holder == worker);
        let outcome = Outcome {
            units,
            participant: Some(participant),
            work: given.map(|(_, work)| work.clone()),
            is_rubbish: self.expects_rubbish,
            ..Outcome::default()
        };
        self.outcomes.insert(submission, outcome);
    }

    fn check(&mut self, action: &Action, plan: &Plan, harm: &Harm) {
        match action {
            Action::Answer { request, answer } => self.check_answer(*request, answer, plan),
            Action::Renewal { .. } => {}
            Action::Settle {
                submission,
                verdict,
            } => self.check_verdict(*submission, verdict, plan, harm),
            Action::Commit { submission, units } => self.check_commit(*submission, units),
            Action::Confirmed { head, finders } => {
                let unit = Unit::Range(*head);
                let place = self.journal.ledger().place(*head).copied();
                let digest = place.expect("it is durable").digest;
                self.check_finders(unit, digest, finders);
            }
            Action::Withdraw { heads } => {
                assert!(harm.may_undo(), "withdrawn for nothing");
                for &head in heads {
                    self.undo(head);
                }
            }
            Action::Lose { head } => {
                // Parts of merged ranges are gone, and may be of use again.
                let is_gone = harm.may_undo() || !harm.revoked.is_empty();
                assert!(is_gone, "lost for nothing");
                self.undo(*head);
            }
            Action::Arbitrate { unit, .. } => {
                self.check_may_begin(*unit);
                let before = self.arbitrations.insert(*unit, true);
                assert_eq!(before, None, "{unit} is computed twice");
            }
            Action::Forget { submission } => {
                let forgotten = self.outcomes.remove(submission).expect("it is known");
                let is_own = forgotten.participant.is_none();
                assert!(forgotten.is_noted || is_own && forgotten.written.is_empty());
            }
            Action::Quarantine { worker, .. } => {
                let one = worker.participant;
                let has_reason = harm.liars.contains(&one) || harm.revoked.contains(&one);
                assert!(has_reason, "{worker} was slandered");
                self.quarantined.insert(one);
            }
            Action::Publish => self.check_publication(),
            Action::Stop { reason } => {
                assert_eq!(self.stopped, None, "stopped twice");
                self.check_stop(reason, harm);
                self.stopped = Some(reason.clone());
            }
        }
    }

    /// A range is not done any more, and so the table is not cut.
    fn undo(&mut self, head: Head) {
        let stays = |unit: &Unit| *unit != Unit::Range(head) && matches!(unit, Unit::Range(_));
        self.held.retain(stays);
        for units in self.commits.values_mut() {
            units.retain(stays);
        }
        for is_of_use in self.arbitrations.values_mut() {
            *is_of_use = false;
        }
        self.has_undone = true;
    }

    fn check_answer(&mut self, request: RequestId, answer: &LeaseAnswer, plan: &Plan) {
        let worker = self.requests.remove(&request);
        let worker = worker.expect("each request is answered once");
        match answer {
            LeaseAnswer::Task(task) => {
                self.check_task(task);
                let before = self.given.insert(task.lease, (worker, task.work.clone()));
                assert_eq!(before, None, "each lease has its own number");
            }
            LeaseAnswer::Finished => assert_eq!(*plan.phase(), Phase::Finished),
            LeaseAnswer::Stopped { reason } => {
                let stopped = self.stopped.as_ref().unwrap_or(&StopReason::Shutdown);
                assert_eq!(stopped, reason);
            }
            LeaseAnswer::NotJoined => assert!(!plan.is_there(worker)),
            LeaseAnswer::Quarantined { .. } => {
                assert!(plan.quarantine_reason(worker).is_some());
            }
        }
    }

    fn check_task(&self, task: &Task) {
        assert!(task.attempt >= 1);
        match &task.work {
            Work::Evaluate { layer, heads } => {
                assert!(heads.is_sorted_by(|a, b| a < b));
                assert!(heads.iter().all(|head| head.layer() == *layer));
                let positions = heads.len() as u64 * self.settings.range_bits.positions();
                let too_large = positions > self.settings.task_positions_max;
                assert!(!too_large || heads.len() == 1);
            }
            Work::Merge {
                shard, head, skip, ..
            } => {
                assert_eq!(self.in_doubt().next(), None, "merged in doubt");
                self.check_cut(*shard, *head, *skip);
            }
        }
        for unit in task.work.units() {
            self.check_may_begin(unit);
            let is_written = self.commits.values().flatten().any(|other| *other == unit);
            let is_missing = !self.held.contains(&unit) && !is_written;
            assert!(is_missing || self.is_open_again(unit), "{unit} is done");
        }
    }

    /// A unit is computed when all that it draws on is durable, and the job runs.
    fn check_may_begin(&self, unit: Unit) {
        assert_eq!(self.stopped, None);
        let ledger = self.journal.ledger();
        for source in self.sources(unit) {
            let is_there = self.held.contains(&Unit::Range(source));
            let is_durable = ledger.place(source).is_some();
            assert!(is_there && is_durable, "{unit} before its source {source}");
        }
    }

    fn sources(&self, unit: Unit) -> Vec<Head> {
        match unit {
            Unit::Range(head) => sources(head, range_bits()),
            Unit::Shard(_) => self.heads().collect(),
        }
    }

    fn heads(&self) -> impl Iterator<Item = Head> + use<> {
        (0..range_bits().heads(self.settings.size)).map(Head)
    }

    /// Whether too few of those that found this unit are trusted, as far as the journal knows.
    fn is_open_again(&self, unit: Unit) -> bool {
        let ledger = self.journal.ledger();
        let found = match unit {
            Unit::Range(head) => {
                let mut ranges = ledger.found(head.0 + 1);
                let range = ranges.find(|(other, ..)| *other == head);
                range.map(|(_, place, finders)| (finders, place.replicas.max(1)))
            }
            Unit::Shard(number) => {
                let mut shards = ledger.found_shards(self.settings.size);
                let shard = shards.find(|(merged, _)| merged.number == number);
                shard.map(|(_, finders)| (finders, 1))
            }
        };
        let is_trusted =
            |one: &u32| *one != QUARANTINED && !self.quarantined.contains(&ParticipantId(*one));
        found.is_some_and(|(finders, needed)| {
            let trusted = finders.iter().filter(is_trusted).count();
            !finders.is_empty() && trusted < needed as usize
        })
    }

    /// The number of shards, and of the words before a range.
    fn words_before(&self, head: Head) -> u64 {
        let ledger = self.journal.ledger();
        ledger.done(head.0).map(|(_, place)| place.stored).sum()
    }

    fn shard_count(&self) -> u64 {
        let end = Head(range_bits().heads(self.settings.size));
        let count = self.words_before(end).div_ceil(self.settings.shard_words);
        count.max(1)
    }

    /// Shards begin `shard_words` stored words apart.
    fn check_cut(&self, number: u32, head: Head, skip: u64) {
        assert!(u64::from(number) < self.shard_count());
        let begin = self.words_before(head) + skip;
        assert_eq!(begin, u64::from(number) * self.settings.shard_words);
        let stored = self.journal.ledger().place(head).unwrap().stored;
        assert!(number == 0 || skip < stored);
    }

    /// The ranges at the arbiter that have to be known before the table is published.
    fn in_doubt(&self) -> impl Iterator<Item = Unit> {
        let of_use = self
            .arbitrations
            .iter()
            .filter(|(_, is_of_use)| **is_of_use);
        let ranges = of_use.filter(|(unit, _)| matches!(unit, Unit::Range(_)));
        ranges.map(|(unit, _)| *unit)
    }

    fn check_commit(&mut self, submission: SubmissionId, units: &[AgreedUnit]) {
        assert_eq!(self.stopped, None, "a write begun after a fault");
        let outcome = self
            .outcomes
            .get_mut(&submission)
            .expect("it is not settled");
        assert!(!outcome.is_rubbish && !units.is_empty());
        let is_own = outcome.participant.is_none();
        for AgreedUnit { unit, .. } in units {
            assert!(outcome.written.insert(*unit), "written twice");
        }
        let said: BTreeMap<Unit, Digest> = outcome.units.iter().copied().collect();
        for AgreedUnit { unit, finders } in units {
            assert!(!is_own || finders.is_empty());
            self.check_finders(*unit, said[unit], finders);
        }
        let written = units.iter().map(|agreed| agreed.unit).collect();
        let before = self.commits.insert(submission, written);
        assert!(before.is_none(), "written while it is being written");
    }

    /// Those that are said to have found this have said so, and are trusted. None means that the arbiter has.
    fn check_finders(&self, unit: Unit, digest: Digest, finders: &[ParticipantId]) {
        assert!(finders.is_sorted_by(|a, b| a < b));
        let has_arbitrated = self.arbitrated.contains(&(unit, digest));
        assert!(
            has_arbitrated || !finders.is_empty(),
            "nobody has found {unit}"
        );
        for finder in finders {
            let has_said = self.votes.contains(&(unit, digest, *finder));
            assert!(has_said, "{finder:?} has not found {unit}");
        }
    }

    fn check_verdict(
        &mut self,
        submission: SubmissionId,
        verdict: &Verdict,
        plan: &Plan,
        harm: &Harm,
    ) {
        let mut outcome = self.outcomes.remove(&submission).expect("settled once");
        assert!(!outcome.is_noted, "settled once");
        match verdict {
            Verdict::Accepted | Verdict::Duplicate => {
                assert!(!outcome.is_rubbish, "rubbish was taken");
                let is_accepted = *verdict == Verdict::Accepted;
                assert!(outcome.written.is_empty() || is_accepted);
                for (unit, digest) in outcome.units {
                    let is_durable = self.known(unit) == Some(digest);
                    assert!(
                        is_durable || !self.held.contains(&unit),
                        "{unit} is not durable"
                    );
                }
            }
            Verdict::Noted => {
                assert!(!outcome.is_rubbish, "rubbish was taken");
                outcome.is_noted = true;
                self.outcomes.insert(submission, outcome);
            }
            Verdict::Rejected {
                reason: Rejection::Stopped,
            } => assert!(matches!(plan.phase(), Phase::Stopped(_))),
            Verdict::Rejected { reason } => {
                self.losses += 1;
                let is_allowed = outcome.is_rubbish || self.may_reject(&outcome, reason, harm);
                assert!(is_allowed, "{reason}");
            }
        }
    }

    fn known(&self, unit: Unit) -> Option<Digest> {
        let ledger = self.journal.ledger();
        match unit {
            Unit::Range(head) => ledger.place(head).map(|place| place.digest),
            Unit::Shard(number) => {
                let shard = ledger.shard(self.settings.size, number);
                shard.map(chomp_store::Merged::words_digest)
            }
        }
    }

    fn may_reject(&self, outcome: &Outcome, reason: &Rejection, harm: &Harm) -> bool {
        let is_shard = matches!(outcome.units[0].0, Unit::Shard(_));
        match reason {
            Rejection::NotJoined => true,
            Rejection::Quarantined { .. } => outcome
                .participant
                .is_some_and(|one| self.quarantined.contains(&one)),
            Rejection::NoLease { .. } => outcome.work.is_none() || self.removes_orphans,
            Rejection::NotReady { .. } | Rejection::Stale => is_shard || self.has_undone,
            Rejection::Unknown { .. } => harm.got_in,
            _ => false,
        }
    }

    /// A lease stands only while work on it is of use.
    fn check_renewal(&self, leases: &[LeaseId], lost: &[LeaseId]) {
        for lease in leases.iter().filter(|lease| !lost.contains(lease)) {
            let is_of_use = |unit| !self.held.contains(&unit) || self.is_open_again(unit);
            let of_use = self.given[lease].1.units().any(is_of_use);
            assert!(
                of_use && self.stopped.is_none(),
                "lease {lease} is of no use"
            );
        }
    }

    fn check_publication(&self) {
        assert_eq!(self.stopped, None);
        // One that is of no more use may still write a shard.
        assert!(self.arbitrations.is_empty());
        let ranges = self.heads().map(Unit::Range);
        let shards = (0..u32::try_from(self.shard_count()).unwrap()).map(Unit::Shard);
        for unit in ranges.chain(shards) {
            // Shards stay durable when a record is lost, until some range turns out to be wrong.
            let is_there = match unit {
                Unit::Range(_) => self.held.contains(&unit),
                Unit::Shard(number) => self
                    .journal
                    .ledger()
                    .shard(self.settings.size, number)
                    .is_some(),
            };
            assert!(is_there, "published without {unit}");
            // Who has confirmed a range may not be in the journal yet.
            let is_range = matches!(unit, Unit::Range(_));
            let is_found = is_range || !self.is_open_again(unit);
            assert!(is_found, "nobody trusted found {unit}");
        }
    }

    fn check_stop(&self, reason: &StopReason, harm: &Harm) {
        match reason {
            StopReason::GaveUp { attempts, last, .. } => {
                let most = match last {
                    Loss::Expired { .. } => self.settings.expiries_max,
                    Loss::Failed { .. } | Loss::Rejected { .. } => self.settings.failures_max,
                };
                assert!((most..=self.losses).contains(attempts), "{reason}");
            }
            StopReason::Lost { times, .. } => {
                assert!(*times > self.settings.failures_max + 1 && harm.damaged);
            }
            StopReason::Shutdown => panic!("a shutdown is no fault"),
            StopReason::ArbitrationFailed { .. }
            | StopReason::CommitFailed { .. }
            | StopReason::PublishFailed { .. } => assert!(harm.troubled, "{reason}"),
        }
    }
}
