//! The world: its nodes, the time that passes for them, and what must hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chomp_plan::Settings;
use chomp_proto::OBJECTS_PATH;
use chomp_store::{Entry, Journal};
use chomp_table::RangeBits;
use chomp_table::shard::ShardSize;

use crate::histories::chain::{Chain, Fact, at_once};
use crate::histories::coordinator::{Coordinator, Ended, News, TABLE};
use crate::histories::expected;
use crate::histories::history::History;
use crate::histories::network::{Network, Weather};
use crate::histories::node::Node;
use crate::histories::store::{Store, View};
use crate::histories::wire::{Packet, Payload, Sent, Way, Wire};
use crate::histories::worker::Slot;

/// Few, so that small tables have several shards.
pub(crate) const SHARD_WORDS: u64 = 100;
/// The shortest and the longest step of time, in milliseconds. Packets may come late by a step.
const STEP_MIN: u64 = 4;
const STEP_MAX: u64 = 256;
/// A history that takes longer once nothing bad happens any more has failed: many times what the
/// longest deadlines make of it.
pub(crate) const END_MAX: u64 = 20 * 60 * 1000;

/// The conditions of a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plot {
    pub(crate) bits: u32,
    pub(crate) replicas: u32,
    pub(crate) slots: usize,
    pub(crate) lease_ms: u64,
    /// The longest delay of a write.
    pub(crate) slowest: u64,
    /// The segments in the journal before the first coordinator starts.
    pub(crate) segments: u64,
    pub(crate) weather: Weather,
    /// The usual time between two faults, and when the last one may come.
    pub(crate) between_faults: u64,
    pub(crate) calm_at: u64,
}

/// Something that will happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Fault,
    StartWorker(usize),
    StartCoordinator,
    ResumeWorker(u64),
    ResumeCoordinator(u64),
    /// The way of a place to the store is in order again.
    MendWay(usize),
    MendStore,
    Calm,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) history: History,
    pub(crate) plot: Plot,
    pub(crate) network: Network,
    pub(crate) wire: Wire,
    pub(crate) store: Store,
    chain: Chain,
    /// How often something happened to parts, and how often the store went down without coordinators.
    pub(crate) harms: u64,
    pub(crate) outages: u64,
    pub(crate) in_outage: bool,
    /// By epoch, those that have none yet last. All but the last were overtaken by it, or will be.
    pub(crate) coordinators: Vec<Coordinator>,
    pub(crate) slots: Vec<Slot>,
    events: BTreeMap<(u64, u64), Event>,
    numbers: u64,
    step: u64,
    pub(crate) calm: bool,
    /// The leases that were given out.
    leases: BTreeSet<u64>,
}

pub(crate) fn shard_size() -> ShardSize {
    ShardSize {
        shard_words: usize::try_from(SHARD_WORDS).unwrap(),
        ..ShardSize::PUBLISHED
    }
}

pub(crate) fn range_bits() -> RangeBits {
    RangeBits::new(12).unwrap()
}

impl World {
    pub(crate) fn new(history: History, plot: Plot) -> World {
        let wire = Wire::default();
        let mut world = World {
            network: Network::new(plot.weather, wire.clone(), plot.slots),
            wire,
            store: Store::new(),
            chain: Chain::new(plot.bits),
            harms: 0,
            outages: 0,
            in_outage: false,
            coordinators: Vec::new(),
            slots: Vec::new(),
            events: BTreeMap::new(),
            numbers: 0,
            step: STEP_MIN,
            calm: false,
            leases: BTreeSet::new(),
            history,
            plot,
        };
        world.history.log(format_args!("{plot:?}"));
        world.write_segments();
        world.plan(0, Event::StartCoordinator);
        for slot in 0..plot.slots {
            world.slots.push(Slot::default());
            let at = world.history.rng.u64(0..2000);
            world.plan(at, Event::StartWorker(slot));
        }
        world.plan(plot.calm_at, Event::Calm);
        if plot.calm_at > 0 {
            world.plan(plot.between_faults / 2, Event::Fault);
        }
        world
    }

    /// Makes the journal longer, so that some histories come to a checkpoint.
    fn write_segments(&mut self) {
        if self.plot.segments == 0 {
            return;
        }
        let (storage, bits) = (self.store.now(), self.plot.bits);
        let journal = Journal::open(storage, range_bits(), bits, 0, TABLE);
        let journal = at_once(journal).expect("the store is in order");
        for secret_digest in 1..self.plot.segments {
            let opened = Entry::Opened {
                secret_digest,
                bits,
            };
            at_once(journal.append(vec![opened])).expect("the store is in order");
        }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Lets an event happen `after` milliseconds from now.
    pub(crate) fn plan(&mut self, after: u64, event: Event) {
        let number = self.number();
        let at = self.history.now + after;
        self.events.insert((at, number), event);
    }

    /// Lets the history go on to its end, which must be the right one.
    pub(crate) fn run(&mut self) {
        self.run_unchecked();
        let objects = self.store.now().objects();
        self.chain.read(&objects);
        self.check_withdrawals();
        let published = expected::objects_of(self.plot.bits, objects);
        let right = expected::published(self.plot.bits, self.plot.replicas);
        assert!(
            published == *right,
            "the published table is not the right one"
        );
    }

    pub(crate) fn run_unchecked(&mut self) {
        while !self.has_ended() {
            let quiet = self.pass();
            self.step = if quiet {
                (2 * self.step).min(STEP_MAX)
            } else {
                STEP_MIN
            };
            let end = self.plot.calm_at + END_MAX;
            assert!(self.history.now < end, "the history does not end");
        }
        let last = self.coordinators.pop().expect("it has finished");
        let ended = last.stop();
        assert!(matches!(ended, Ended::Finished), "{ended:?}");
        let (withdrawn, kept) = (self.chain.withdrawn, self.checkpoints());
        *self.history.seen.0.entry("withdrawn ranges").or_default() += withdrawn;
        *self.history.seen.0.entry("checkpoints").or_default() += kept;
    }

    fn checkpoints(&self) -> u64 {
        let objects = self.store.now().objects();
        let keys = objects.keys().map(chomp_store::Key::as_str);
        let kept = keys.filter(|key| key.starts_with("work/checkpoints/"));
        kept.count() as u64
    }

    /// Nothing is withdrawn unless something happened to a part.
    fn check_withdrawals(&self) {
        let withdrawn = self.chain.withdrawn;
        let has_cause = withdrawn == 0 || self.harms > 0;
        assert!(has_cause, "{withdrawn} ranges are withdrawn");
    }

    fn has_ended(&self) -> bool {
        self.slots.iter().all(|slot| slot.finished)
            && self
                .coordinators
                .last()
                .is_some_and(|last| last.has_finished() && !last.node.paused)
    }

    /// Some time passes. Tells whether nothing moved.
    fn pass(&mut self) -> bool {
        let now = self.history.now;
        let event = self.events.first_key_value().map(|(&(at, _), _)| at);
        let next = [self.network.next_arrival(), event];
        let next = next.into_iter().flatten().min().unwrap_or(u64::MAX);
        let until = (now + self.step).min(next).max(now + 1);
        self.history.now = until;
        self.step_coordinators();
        self.step_workers();
        let sent = self.wire.take();
        let mut quiet = sent.is_empty();
        for sent in sent {
            self.take(sent);
        }
        while let Some((packet, coordinator)) = self.network.arrived(&mut self.history) {
            quiet = false;
            self.deliver(packet, coordinator);
        }
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= until
        {
            let event = entry.remove();
            self.happen(event);
        }
        quiet
    }

    fn step_coordinators(&mut self) {
        let now = self.history.now;
        let (mut over, mut started) = (Vec::new(), Vec::new());
        for coordinator in &mut self.coordinators {
            if coordinator.node.paused {
                continue;
            }
            match coordinator.step(now) {
                Some(News::Started) => started.push(coordinator.number),
                Some(News::Ended) => over.push(coordinator.number),
                None => {}
            }
        }
        self.coordinators.sort_by_key(Coordinator::epoch);
        if self.store.took_coordinators() {
            self.crash_machine();
            return;
        }
        if self.store.is_down() {
            self.begin_outage();
        }
        for number in started {
            self.note_start(number);
        }
        for number in over {
            self.note_end(number);
        }
    }

    fn note_start(&mut self, number: u64) {
        let at = self.place_of(number).expect("it was just there");
        let epoch = self.coordinators[at].epoch();
        let what = format_args!("coordinator {number} has started, epoch {epoch}");
        self.history.log(what);
        self.chain.read(&self.store.now().objects());
        self.check_withdrawals();
        let found = self.coordinators[at].ledger().expect("it runs");
        if self.chain.next() == found.next_segment {
            let is_same = Some(&found) == self.chain.ledger();
            assert!(is_same, "it has read something else");
        }
        // Lost ranges have to come out the same, and one result settles them.
        let lost = found.lost(u64::MAX);
        let lost = lost.map(|(head, row, _)| Fact::Range(head, row.digest));
        let known = self.chain.now().iter().copied().chain(lost);
        self.coordinators[at].found(known);
    }

    fn note_end(&mut self, number: u64) {
        let at = self.place_of(number).expect("it was just there");
        let is_last = at + 1 == self.coordinators.len();
        let coordinator = self.coordinators.remove(at);
        let known = coordinator.ledger().map(|ledger| ledger.next_segment);
        self.chain.read(&self.store.now().objects());
        let is_overtaken = known.is_none_or(|known| known < self.chain.next());
        match coordinator.stop() {
            Ended::Fenced if is_overtaken => self.history.count("fenced", format_args!("{number}")),
            Ended::Unstored if self.outages > 0 => {
                self.history.count("unstored", format_args!("{number}"));
            }
            ended => panic!("the job of coordinator {number} ended: {ended:?}"),
        }
        self.break_streams(None, Some(number));
        if is_last && self.coordinators.is_empty() {
            let time = self.history.rng.u64(1..2_000);
            self.plan(time, Event::StartCoordinator);
        }
    }

    pub(crate) fn place_of(&self, number: u64) -> Option<usize> {
        let mut coordinators = self.coordinators.iter();
        coordinators.position(|coordinator| coordinator.number == number)
    }

    fn take(&mut self, sent: Sent) {
        match sent {
            Sent::Opened {
                stream,
                slot,
                coordinator,
            } => self
                .network
                .open(&mut self.history, stream, slot, coordinator),
            Sent::Packet(packet) => {
                let of_rpc = |path: &str| !path.starts_with(OBJECTS_PATH);
                if matches!(&packet.payload, Payload::Request(_, path, _) if of_rpc(path)) {
                    self.count_call(packet.stream);
                }
                self.network.send(&mut self.history, packet);
            }
            Sent::Used(stream) => self.forget_calls(stream),
            Sent::Acknowledged(facts) => {
                self.history.log(format_args!("acknowledged {facts:?}"));
                self.chain.read(&self.store.now().objects());
                for fact in facts {
                    assert!(self.chain.knows(&fact), "{fact:?} is not in the journal");
                }
            }
            Sent::Leased(lease) => {
                let is_new = self.leases.insert(lease);
                assert!(is_new, "lease {lease} was given out before");
            }
            Sent::Wrong(what) => panic!("a worker is told: {what}"),
        }
    }

    fn deliver(&mut self, packet: Packet, coordinator: Option<u64>) {
        if packet.way == Way::Down {
            self.deliver_down(packet);
            return;
        }
        let at = match coordinator {
            None => self.coordinators.len().checked_sub(1),
            Some(number) => self.place_of(number),
        };
        if let Some(at) = at {
            self.coordinators[at].deliver(packet);
        } else if !matches!(packet.payload, Payload::Reset) && self.history.rng.bool() {
            // Nobody listens there, and the machine says so.
            self.network.break_stream(&mut self.history, packet.stream);
        }
    }

    pub(crate) fn start_coordinator(&mut self) {
        let number = self.number();
        let rate = self.history.rng.u64(900..=1100);
        let node = Node::new(self.history.now, rate);
        let rng = &mut self.history.rng;
        let mut settings = Settings::new(self.plot.bits, range_bits());
        settings.replicas = self.plot.replicas;
        settings.lease_ms = self.plot.lease_ms;
        settings.silence_ms = 3 * self.plot.lease_ms;
        settings.straggler_ms = rng.u64(300..3_000);
        settings.failures_max = 1_000;
        settings.expiries_max = 1_000;
        settings.task_positions_max = rng.u64(0..5) * range_bits().positions();
        settings.task_positions_min = rng.u64(0..4) * range_bits().positions();
        settings.tasks_per_thread = rng.u32(0..2);
        settings.checks_per_1000 = [0, 400, 1000][rng.usize(0..3)];
        settings.owner_checks_per_1000 = settings.checks_per_1000;
        settings.newcomer_ranges = rng.u32(0..3);
        settings.shard_words = SHARD_WORDS;
        self.history
            .log(format_args!("coordinator {number} starts, {rate}"));
        let health = Arc::default();
        let view = View::new(self.store.clone(), self.plot.slowest, health, number);
        self.coordinators.push(Coordinator::start(
            number,
            node,
            view,
            self.store.clone(),
            settings,
            self.wire.clone(),
        ));
    }
}
