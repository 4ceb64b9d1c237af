//! A job in a world where workers lie, stall and leave, records are lost, and coordinators restart at any moment.
//!
//! All chance follows from a seed. The content of a range follows from the contents of its sources, so a lie is passed
//! on to all that depend on it. Whatever happens, the job ends with the right table; nobody honest is put out; whoever
//! said something else than the referee decides is; the referee does no sampled check; what was acknowledged is durable;
//! and with two replicas no lie of one participant is ever committed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use chomp_table::rng::{Rng, mix};
use chomp_table::sources::sources;
use chomp_table::{Digest, Head, RangeBits, RangeSummary};
use chomp_testing::trials;

use crate::checks::Debt;
use crate::*;

const BITS: u32 = 16;
const RANGES: u64 = 16;
const LIAR: u32 = 3;
const REFEREE: WorkerId = WorkerId::new(ParticipantId::REFEREE.0, 0);

/// How often what was seen.
type Seen = BTreeMap<&'static str, u64>;

#[derive(Debug)]
struct Handles;

impl PlanTypes for Handles {
    type LeaseResponder = u64;
    type VerdictResponder = u64;
    type Location = Stored;
}

type Action = crate::Action<Handles>;

/// An object that a worker put into the store.
#[derive(Clone, Debug)]
struct Stored {
    range: Option<RangeSummary>,
    digest: Digest,
    is_forged: bool,
}

fn digest(number: u64) -> Digest {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&number.to_le_bytes());
    Digest(digest)
}

fn number(digest: Digest) -> u64 {
    u64::from_le_bytes(digest.0[..8].try_into().expect("8 bytes"))
}

fn range(head: Head, content: u64) -> RangeSummary {
    RangeSummary {
        head,
        count: content % 2000 + 1,
        stored: 1 + head.0 % 4,
        digest: digest(content),
    }
}

/// The sum of the durable entries of the journal.
#[derive(Clone, Debug, Default)]
struct Ledger {
    ranges: BTreeMap<Head, (RangeSummary, Finders)>,
    lost: BTreeMap<Head, (RangeSummary, Finders)>,
    shards: BTreeMap<u32, (Stored, Finders)>,
    out: Vec<(Party, String)>,
}

impl Ledger {
    fn apply(&mut self, write: &Write<Stored>) {
        match write {
            Write::Commit { units, .. } => {
                for FoundUnit {
                    unit,
                    finders,
                    location,
                } in units
                {
                    match unit {
                        Unit::Range(head) => {
                            let range = location.range.expect("of a range");
                            self.lost.remove(head);
                            self.ranges.insert(*head, (range, finders.clone()));
                        }
                        Unit::Shard(number) => {
                            self.shards
                                .insert(*number, (location.clone(), finders.clone()));
                        }
                    }
                }
            }
            Write::Confirm { units, finders } => {
                for unit in units {
                    let before = match unit {
                        Unit::Range(head) => self.ranges.get_mut(head).map(|(_, finders)| finders),
                        Unit::Shard(number) => {
                            self.shards.get_mut(number).map(|(_, finders)| finders)
                        }
                    };
                    if let Some(before) = before {
                        before.clone_from(finders);
                    }
                }
            }
            Write::Withdraw { heads } => {
                for head in heads {
                    self.ranges.remove(head);
                    self.lost.remove(head);
                }
                self.shards.clear();
            }
            Write::Lose { head } => {
                if let Some(range) = self.ranges.remove(head) {
                    self.lost.insert(*head, range);
                }
            }
            Write::Out { party, reason, .. } => {
                self.out.push((*party, reason.to_string()));
                let ranges = self.ranges.values_mut().chain(self.lost.values_mut());
                let of_ranges = ranges.map(|(_, finders)| finders);
                let shards = self.shards.values_mut().map(|(_, finders)| finders);
                for finders in of_ranges.chain(shards) {
                    *finders = finders.without(*party).unwrap_or_else(|| finders.clone());
                }
            }
        }
    }

    /// The content that a range has if its sources are those of the ledger; none if one is missing.
    fn follow(&self, head: Head, range_bits: RangeBits) -> Option<u64> {
        let mut content = mix(head.0 + 1);
        for source in sources(head, range_bits) {
            content = mix(content ^ number(self.ranges.get(&source)?.0.digest));
        }
        Some(content)
    }

    /// That of a shard: here all of them have words of all ranges.
    fn shard(&self, shard: u32) -> Option<u64> {
        let mut content = mix(!u64::from(shard));
        for head in (0..RANGES).map(Head) {
            content = mix(content ^ number(self.ranges.get(&head)?.0.digest));
        }
        Some(content)
    }
}

/// A task in the hands of a worker, with the contents that it computes from what it has read.
#[derive(Clone, Debug)]
struct Doing {
    worker: WorkerId,
    task: Task,
    contents: Vec<(Unit, u64)>,
}

struct World {
    rng: Rng,
    settings: Settings,
    truth: Ledger,
    ledger: Ledger,
    plan: Plan<Handles>,
    now: u64,
    epoch: u64,
    writes: VecDeque<Write<Stored>>,
    is_referee_called: bool,
    publishing: bool,
    doing: Vec<Doing>,
    requests: BTreeMap<u64, WorkerId>,
    next_request: u64,
    /// The results that are not answered, with what they said.
    replies: BTreeMap<u64, Vec<(Unit, u64)>>,
    next_reply: u64,
    /// The results that were the first for their unit, or differed from what was known of it.
    said: BTreeMap<Unit, Vec<(WorkerId, u64)>>,
    revoked: BTreeSet<ParticipantId>,
    lies: bool,
    losses: BTreeMap<Head, u64>,
    seen: Seen,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng(seed);
        let range_bits = RangeBits::new(12).expect("a number of range bits");
        let settings = Settings {
            lease_ms: 100,
            silence_ms: 1_000,
            straggler_ms: 50,
            failures_max: 3,
            expiries_max: 4,
            task_positions_min: 0,
            shard_words: 9,
            replicas: if rng.once_in(3) { 2 } else { 1 },
            checks_per_1000: [0, 400, 1000][rng.index(3).expect("three")],
            owner_checks_per_1000: [0, 500][rng.index(2).expect("two")],
            newcomer_ranges: 2,
            checks_waiting_per_thread: 1,
            check_seed: rng.next_u64(),
            ..Settings::new(BITS, range_bits)
        };
        let mut truth = Ledger::default();
        while truth.ranges.len() < 16 {
            for head in (0..RANGES).map(Head) {
                if let Some(content) = truth.follow(head, range_bits) {
                    let finders = Finders::default();
                    truth.ranges.insert(head, (range(head, content), finders));
                }
            }
        }
        let (plan, _) = Plan::new(settings.clone(), Past::default()).expect("a small job");
        let lies = !rng.once_in(3);
        World {
            rng,
            settings,
            truth,
            ledger: Ledger::default(),
            plan,
            now: 0,
            epoch: 0,
            writes: VecDeque::new(),
            is_referee_called: false,
            publishing: false,
            doing: Vec::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            replies: BTreeMap::new(),
            next_reply: 0,
            said: BTreeMap::new(),
            revoked: BTreeSet::new(),
            lies,
            losses: BTreeMap::new(),
            seen: Seen::new(),
        }
    }

    fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn handle(&mut self, event: Event<Handles>) {
        let actions = self.plan.handle(Millis(self.now), event);
        self.perform(actions);
        self.plan.assert_invariants();
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Answer {
                    worker,
                    responder,
                    answer,
                } => {
                    assert_eq!(self.requests.remove(&responder), Some(worker));
                    if let LeaseAnswer::Task(task) = answer {
                        self.begin(worker, task);
                    }
                }
                Action::SendVerdict { responder, verdict } => self.settled(responder, &verdict),
                Action::Write(write) => {
                    self.watch(&write);
                    self.writes.push_back(write);
                }
                Action::CallReferee => {
                    assert!(!self.is_referee_called, "called once");
                    self.is_referee_called = true;
                }
                Action::Publish => {
                    assert!(self.writes.is_empty() || !self.publishing);
                    self.publishing = true;
                }
                Action::Stop { reason } => panic!("the job stops: {reason}"),
            }
        }
    }

    /// The content that a unit has by what is durable now.
    fn content(&self, unit: Unit) -> Option<u64> {
        match unit {
            Unit::Range(head) => self.ledger.follow(head, self.settings.range_bits),
            Unit::Shard(number) => self.ledger.shard(number),
        }
    }

    fn begin(&mut self, worker: WorkerId, task: Task) {
        let units: Vec<Unit> = task.work.units().collect();
        let is_check = matches!(
            task.work,
            Work::Evaluate { is_check: true, .. } | Work::Merge { is_check: true, .. }
        );
        if worker.is_referee() {
            for &unit in &units {
                let is_owed = self.plan.debt(unit) == Some(Debt::Owed);
                let is_its = is_owed || self.plan.is_left_to_referee(unit);
                assert!(is_its, "the referee does a sampled check");
            }
            self.see("tasks of the referee");
        } else if is_check {
            self.see("checks");
        }
        let content = |&unit: &Unit| (unit, self.content(unit).expect("its sources are durable"));
        let contents = units.iter().map(content).collect();
        self.doing.push(Doing {
            worker,
            task,
            contents,
        });
    }

    fn settled(&mut self, responder: u64, verdict: &Verdict) {
        let told = self.replies.remove(&responder).expect("answered once");
        match verdict {
            Verdict::Accepted | Verdict::Duplicate => {
                self.see("acknowledged");
                for (unit, content) in told {
                    let is_durable = match unit {
                        Unit::Range(head) => {
                            let range = self.ledger.ranges.get(&head);
                            range.is_some_and(|(range, _)| range.digest == digest(content))
                        }
                        Unit::Shard(number) => {
                            let shard = self.ledger.shards.get(&number);
                            shard.is_some_and(|(shard, _)| shard.digest == digest(content))
                        }
                    };
                    assert!(is_durable, "{unit} was acknowledged too early");
                }
            }
            Verdict::Noted => self.see("noted"),
            Verdict::Rejected { reason } => {
                assert_ne!(*reason, Rejection::Stopped);
                self.see("rejected");
            }
        }
    }

    /// Asserts that this may be written at all.
    fn watch(&mut self, write: &Write<Stored>) {
        match write {
            Write::Commit { units, .. } => {
                for committed in units {
                    let participants = committed.finders.participants().count();
                    let is_own = committed.finders.wanted() == 0;
                    let is_range = matches!(committed.unit, Unit::Range(_));
                    let least = if is_range {
                        self.settings.replicas as usize
                    } else {
                        1
                    };
                    assert!(is_own || participants >= least || self.was_known(committed.unit));
                    let is_wrong =
                        Some(committed.location.digest) != self.content(committed.unit).map(digest);
                    if is_wrong && self.content(committed.unit).is_some() && is_range {
                        assert!(self.settings.replicas == 1, "a lie is committed");
                        self.see("lies");
                    }
                }
            }
            Write::Withdraw { heads } => {
                let all = heads.iter();
                let all = all.flat_map(|&head| self.plan.units.ranges.with_followers(head));
                let void: BTreeSet<Unit> = all.map(Unit::Range).collect();
                let is_void = |unit: &Unit| matches!(unit, Unit::Shard(_)) || void.contains(unit);
                self.said.retain(|unit, _| !is_void(unit));
                self.see("withdrawn");
            }
            Write::Out { party, reason, .. } => {
                let participant = party.participant();
                let is_liar = participant.0 == LIAR && self.lies;
                assert!(
                    is_liar || self.revoked.contains(&participant),
                    "{party:?} is slandered: {reason}"
                );
                self.see(if *reason == OutReason::Revoked {
                    "revoked"
                } else {
                    "found out"
                });
            }
            Write::Lose { .. } => self.see("lost"),
            Write::Confirm { .. } => self.see("confirmed"),
        }
    }

    fn was_known(&self, unit: Unit) -> bool {
        matches!(unit, Unit::Range(head) if self.ledger.lost.contains_key(&head) || self.writes.iter().any(|write| matches!(write, Write::Lose { head: lost } if *lost == head)))
    }

    fn write(&mut self) {
        let Some(write) = self.writes.pop_front() else {
            return;
        };
        self.ledger.apply(&write);
        if let Write::Commit { write, .. } = write {
            let outcome = Ok(());
            self.handle(Event::Written { write, outcome });
        }
    }

    /// Ends the publication, with a look at what is in the table.
    fn publish(&mut self) {
        if !std::mem::take(&mut self.publishing) {
            return;
        }
        let is_wrong = |head: &Head| {
            let follow = self.ledger.follow(*head, self.settings.range_bits);
            Some(self.ledger.ranges[head].0.digest) != follow.map(digest)
        };
        let wrong = (0..RANGES).map(Head).find(is_wrong);
        let shards = self.ledger.shards.iter();
        let lost = shards.filter(|&(&number, (shard, _))| {
            shard.is_forged || Some(shard.digest) != self.ledger.shard(number).map(digest)
        });
        let shards: Vec<u32> = lost.map(|(&number, _)| number).collect();
        let publication = if let Some(head) = wrong {
            self.see("publications that found a lie");
            let (heads, reason) = (vec![Head(self.rng.below(RANGES)), head], String::new());
            PublishOutcome::Wrong { heads, reason }
        } else if !shards.is_empty() {
            self.see("publications that found a shard");
            PublishOutcome::MergeAgain { shards }
        } else {
            for (head, (range, _)) in &self.truth.ranges {
                assert_eq!(self.ledger.ranges[head].0, *range);
            }
            self.see("published");
            PublishOutcome::Done
        };
        self.handle(Event::Published(publication));
    }

    fn some_worker(&mut self) -> WorkerId {
        if self.is_referee_called && self.rng.once_in(6) {
            return REFEREE;
        }
        let participant = self.rng.below(4);
        let number = self.rng.below(2);
        WorkerId::new(u32::try_from(participant).expect("small"), number)
    }

    fn join(&mut self, worker: WorkerId) {
        let threads = 1 + u32::try_from(self.rng.below(2)).expect("small");
        let name = format!("w{}-{}", worker.participant.0, worker.number);
        self.handle(Event::Joined {
            worker,
            name,
            threads,
        });
    }

    fn request(&mut self, worker: WorkerId) {
        self.next_request += 1;
        let request = self.next_request;
        self.requests.insert(request, worker);
        self.handle(Event::Requested {
            request: RequestId(request),
            worker,
            responder: request,
        });
    }

    fn complete(&mut self, mut doing: Doing) {
        let is_liar = self.lies && doing.worker.participant.0 == LIAR;
        // The file that a worker puts, and what it says of a file that it checks.
        let (mut puts_forged, mut says_forged) = (false, false);
        if let Work::Merge {
            shard,
            is_check: true,
            ..
        } = doing.task.work
        {
            let known = self.ledger.shards.get(&shard);
            says_forged = known.is_some_and(|(shard, _)| shard.is_forged);
            if says_forged {
                self.see("forged files");
            }
        }
        if is_liar {
            for (unit, content) in &mut doing.contents {
                if !self.rng.once_in(4) {
                    continue;
                }
                match (unit, self.rng.once_in(2)) {
                    (Unit::Shard(_), true) => puts_forged = true,
                    (Unit::Shard(_), false) if self.rng.once_in(2) => says_forged = !says_forged,
                    _ => *content = mix(*content),
                }
            }
        }
        if self.rng.once_in(10) {
            doing.contents.truncate(1);
        }
        self.next_reply += 1;
        let responder = self.next_reply;
        self.replies.insert(responder, doing.contents.clone());
        // Whether a file is forged counts as part of the content, where there is one.
        let said_of = |plan: &Plan<Handles>, unit, content: u64| match unit {
            Unit::Shard(_) if says_forged && plan.units.is_done(unit) => !content,
            _ => content,
        };
        let mut decided = Vec::new();
        if self.plan.holds(doing.worker, doing.task.lease) {
            for &(unit, content) in &doing.contents {
                let content = said_of(&self.plan, unit, content);
                let leases = self.plan.units.leases(unit);
                if doing.worker.is_referee() {
                    if leases.contains(&(doing.task.lease, REFEREE)) {
                        decided.push((unit, content));
                    }
                    continue;
                }
                let known = self.plan.units.content(unit);
                if known.map(|known| number(known.digest)) != Some(content) {
                    let said = self.said.entry(unit).or_default();
                    said.push((doing.worker, content));
                }
            }
        }
        let stored = |range: Option<RangeSummary>, content| Stored {
            range,
            digest: digest(content),
            is_forged: puts_forged,
        };
        let result = if let (Unit::Shard(number), content) = doing.contents[0] {
            TaskResult::Shard {
                number,
                digest: digest(content),
                is_forged: says_forged,
                location: stored(None, content),
            }
        } else {
            let ranges = doing.contents.iter().map(|&(unit, content)| {
                let Unit::Range(head) = unit else {
                    unreachable!("of one kind");
                };
                let range = range(head, content);
                (range, stored(Some(range), content))
            });
            TaskResult::Ranges(ranges.collect())
        };
        self.handle(Event::Completed {
            worker: doing.worker,
            lease: doing.task.lease,
            result,
            responder,
        });
        for (unit, content) in decided {
            for (worker, said) in self.said.remove(&unit).into_iter().flatten() {
                let is_out = self.plan.out_reason(worker).is_some();
                assert!(
                    is_out || said == content,
                    "{worker:?} has lied about {unit}"
                );
            }
            self.see("decided");
        }
    }

    /// Some records are lost at once.
    fn lose_records(&mut self) {
        if self.publishing {
            return;
        }
        let heads: Vec<Head> = self.ledger.ranges.keys().copied().collect();
        let mut records = Vec::new();
        for _ in 0..=self.rng.below(3) {
            if let Some(at) = self.rng.index(heads.len()) {
                let head = heads[at];
                let times = self.losses.entry(head).or_default();
                *times += 1;
                if *times <= u64::from(self.settings.failures_max) {
                    records.push((head, self.ledger.ranges[&head].0.digest));
                }
            }
        }
        self.handle(Event::Lost { records });
    }

    /// The coordinator dies, with the writes that are not durable, and another one takes over.
    fn restart(&mut self) {
        let durable = self.rng.below(self.writes.len() as u64 + 1);
        for _ in 0..durable {
            let write = self.writes.pop_front().expect("that many");
            self.ledger.apply(&write);
        }
        self.writes.clear();
        self.is_referee_called = false;
        self.publishing = false;
        self.requests.clear();
        self.replies.clear();
        self.said.clear();
        self.epoch += 1;
        let settings = Settings {
            epoch: self.epoch,
            check_seed: self.rng.next_u64(),
            ..self.settings.clone()
        };
        let ledger = &self.ledger;
        let past = Past {
            ranges: ledger.ranges.values().cloned().collect(),
            lost: ledger.lost.values().cloned().collect(),
            shards: ledger
                .shards
                .iter()
                .map(|(&number, (shard, finders))| (number, shard.digest, finders.clone()))
                .collect(),
            out: ledger.out.clone(),
        };
        let (plan, actions) = Plan::new(settings, past).expect("one content of each");
        self.plan = plan;
        self.perform(actions);
        self.plan.assert_invariants();
        let revoked = self.revoked.clone();
        for participant in revoked {
            self.handle(Event::Revoked { participant });
        }
        self.see("restarts");
    }

    fn tick(&mut self, ms: u64) {
        self.now += ms;
        while self.plan.next_deadline().is_some_and(|at| at.0 <= self.now) {
            self.handle(Event::Tick);
            let next = self.plan.next_deadline();
            assert!(
                next.is_none_or(|at| at.0 > self.now),
                "ticks for ever: {next:?} {:?}",
                self.plan
            );
        }
    }

    fn step(&mut self) {
        match self.rng.below(24) {
            0..=2 => {
                let worker = self.some_worker();
                self.join(worker);
            }
            3 => {
                let worker = self.some_worker();
                self.requests.retain(|_, of| *of != worker);
                self.handle(Event::Left { worker });
            }
            4..=9 => {
                let worker = self.some_worker();
                self.request(worker);
            }
            10..=14 => {
                if let Some(at) = self.rng.index(self.doing.len()) {
                    let doing = self.doing[at].clone();
                    if !self.rng.once_in(8) {
                        self.doing.swap_remove(at);
                    }
                    self.complete(doing);
                }
            }
            15 => {
                if let Some(at) = self.rng.index(self.doing.len()) {
                    let Doing { worker, task, .. } = self.doing.swap_remove(at);
                    let may_fail = !worker.is_referee() && self.rng.once_in(2);
                    let failure = may_fail.then(|| "no memory".to_owned());
                    self.handle(Event::Returned {
                        worker,
                        lease: task.lease,
                        failure,
                    });
                }
            }
            16 | 17 => self.write(),
            18 | 19 => {
                let ms = self.rng.below(60);
                self.tick(ms);
            }
            20 => {
                let worker = self.some_worker();
                let leases: Vec<_> = self
                    .doing
                    .iter()
                    .filter(|doing| doing.worker == worker)
                    .map(|doing| doing.task.lease)
                    .collect();
                let lost = self.plan.renew(Millis(self.now), worker, &leases);
                self.doing
                    .retain(|doing| doing.worker != worker || !lost.contains(&doing.task.lease));
            }
            21 if self.rng.once_in(3) => self.lose_records(),
            22 if self.rng.once_in(6) => self.restart(),
            23 if self.rng.once_in(12) => {
                let participant =
                    ParticipantId(1 + u32::try_from(self.rng.below(3)).expect("small"));
                self.revoked.insert(participant);
                self.handle(Event::Revoked { participant });
            }
            _ => self.publish(),
        }
    }

    /// From now on nothing more goes wrong, but that the liar lies: the job has to end.
    fn calm_down(&mut self) {
        self.doing.clear();
        let workers = [0, 4, 5].map(|participant| WorkerId::new(participant, 7));
        let referee = [REFEREE];
        for round in 0.. {
            assert!(
                round < 4000,
                "the job does not end: {:?}\n{:#?}",
                self.plan.waits_for(),
                self.plan
            );
            if *self.plan.phase() == Phase::Finished {
                break;
            }
            let referee = referee.iter().filter(|_| self.is_referee_called);
            let workers: Vec<WorkerId> = workers.iter().chain(referee).copied().collect();
            for worker in workers {
                if !self.plan.is_present(worker) {
                    self.join(worker);
                }
                if !self.requests.values().any(|&of| of == worker) {
                    self.request(worker);
                }
                self.plan.renew(Millis(self.now), worker, &[]);
            }
            if let Some(at) = self.rng.index(self.doing.len()) {
                let doing = self.doing.swap_remove(at);
                self.complete(doing);
            }
            self.write();
            self.publish();
            self.tick(if self.doing.is_empty() { 7 } else { 0 });
        }
        while !self.writes.is_empty() {
            self.write();
        }
        assert!(self.replies.is_empty(), "every result is answered");
        assert!(self.requests.is_empty(), "every request is answered");
    }
}

fn run(seed: u64) -> Seen {
    let mut world = World::new(seed);
    for _ in 0..world.rng.below(400) {
        world.step();
    }
    world.calm_down();
    world.seen
}

#[test]
#[expect(clippy::print_stderr, reason = "says what the schedules were made of")]
fn every_schedule_ends_with_the_right_table() {
    let some = trials("schedules of the plan").seconds(4.0).at_least(300);
    let (schedules, seen) = some.on_all_cores().gather(run, |all: &mut Seen, other| {
        for (what, count) in other {
            *all.entry(what).or_default() += count;
        }
    });
    eprintln!("{schedules}: {seen:?}");
}
