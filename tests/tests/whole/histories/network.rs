//! The network between nodes: it delays, loses, doubles, reorders, cuts and parts.
//!
//! The packets of a stream keep their order in each direction, as those of a connection do; streams
//! overtake each other.

use std::collections::BTreeMap;

use crate::histories::history::History;
use crate::histories::wire::{Packet, Payload, StreamId, Way, Wire};

/// The delays, losses and doubles of a network without any fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// The longest usual delay, in milliseconds.
    pub(crate) latency: u64,
    /// How many packets in a thousand take up to `tail` milliseconds.
    pub(crate) tails: u64,
    pub(crate) tail: u64,
    /// How many streams in a thousand are lost or cut.
    pub(crate) losses: u64,
    /// How many requests in a thousand come twice.
    pub(crate) doubles: u64,
}

/// One direction of the way between a place for workers and the coordinators.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// Nothing passes until then.
    blocked_until: u64,
    /// Whether what comes meanwhile is lost, and not just late.
    drops: bool,
    /// The last packet that came through, by the order in which they were sent.
    newest: u64,
}

/// A stream will fail.
#[derive(Clone, Copy, Debug)]
struct Fate {
    way: Way,
    /// The number of packets that still pass.
    after: u64,
    /// Whether the ends hear of it.
    loud: bool,
}

impl Weather {
    /// Nothing gets lost, and all takes up to so many milliseconds.
    pub(crate) const fn calm(latency: u64) -> Weather {
        Weather {
            latency,
            tails: 0,
            tail: 0,
            losses: 0,
            doubles: 0,
        }
    }
}

#[derive(Debug, Default)]
struct Stream {
    slot: usize,
    /// The coordinator at its other end, once there is one.
    coordinator: Option<u64>,
    fate: Option<Fate>,
    /// Which ways nothing passes any more.
    dead: [bool; 2],
    /// How many packets were sent each way, and when the last of them arrives.
    sent: [u64; 2],
    last: [u64; 2],
    /// The payloads that were sent up, if the request is to come again.
    copy: Option<Vec<Payload>>,
    /// Whether it is such a copy: nobody waits for the answer.
    ghost: bool,
}

/// The network.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) weather: Weather,
    wire: Wire,
    links: Vec<[Link; 2]>,
    streams: BTreeMap<StreamId, Stream>,
    /// By time of arrival and the order in which they were sent.
    flight: BTreeMap<(u64, u64), Packet>,
    order: u64,
}

impl Network {
    pub(crate) fn new(weather: Weather, wire: Wire, slots: usize) -> Network {
        Network {
            weather,
            wire,
            links: vec![[Link::default(); 2]; slots],
            streams: BTreeMap::new(),
            flight: BTreeMap::new(),
            order: 0,
        }
    }

    /// A worker begins a stream.
    pub(crate) fn open(
        &mut self,
        history: &mut History,
        stream: StreamId,
        slot: usize,
        coordinator: Option<u64>,
    ) {
        let fate = history.per_mille(self.weather.losses).then(|| Fate {
            way: history.one_of(&[Way::Up, Way::Down]),
            after: history.one_of(&[0, 0, 1, 1, 2]),
            loud: history.rng.bool(),
        });
        let doubled = coordinator.is_some() && history.per_mille(self.weather.doubles);
        let stream_of = Stream {
            slot,
            coordinator,
            fate,
            copy: doubled.then(Vec::new),
            ..Stream::default()
        };
        self.streams.insert(stream, stream_of);
    }

    /// Takes a packet from a node.
    pub(crate) fn send(&mut self, history: &mut History, packet: Packet) {
        let (id, way) = (packet.stream, packet.way);
        let delay = self.delay(history);
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let w = way as usize;
        if stream.dead[w] {
            return;
        }
        if let Some(fate) = &mut stream.fate
            && fate.way == way
        {
            if fate.after == 0 {
                let (loud, begun) = (fate.loud, stream.sent[w] > 0);
                let kind = match (way, begun) {
                    (_, true) => "cut streams",
                    (Way::Up, false) => "lost requests",
                    (Way::Down, false) => "lost answers",
                };
                stream.dead[w] = true;
                history.count(kind, format_args!("stream {id}, told {loud}"));
                if loud {
                    self.break_stream(history, id);
                }
                return;
            }
            fate.after -= 1;
        }
        let link = &self.links[stream.slot][w];
        let mut at = history.now + delay;
        if history.now < link.blocked_until {
            if link.drops {
                stream.dead[w] = true;
                history.count("streams in partitions", format_args!("stream {id}"));
                return;
            }
            history.count("packets held", format_args!("stream {id}"));
            at = link.blocked_until + delay;
        }
        stream.sent[w] += 1;
        stream.last[w] = stream.last[w].max(at);
        let at = stream.last[w];
        let double = match (way, &mut stream.copy, &packet.payload) {
            (Way::Up, copy, Payload::Reset) => {
                *copy = None;
                None
            }
            (Way::Up, Some(copy), payload) => {
                copy.push(payload.clone());
                matches!(payload, Payload::End).then(|| std::mem::take(copy))
            }
            _ => None,
        };
        self.put(at, packet);
        if let Some(payloads) = double {
            self.double(history, id, payloads);
        }
    }

    /// Makes a request come again, some time later.
    fn double(&mut self, history: &mut History, of: StreamId, payloads: Vec<Payload>) {
        let id = self.wire.new_stream();
        let later = history.one_of(&[10, 1_000, 20_000]);
        let mut at = history.now + history.rng.u64(1..=later);
        let what = format_args!("stream {of} as {id} at {at}");
        history.count("doubled requests", what);
        let (slot, coordinator) = (self.streams[&of].slot, self.streams[&of].coordinator);
        let ghost = Stream {
            slot,
            coordinator,
            dead: [false, true],
            ghost: true,
            ..Stream::default()
        };
        self.streams.insert(id, ghost);
        for payload in payloads {
            self.put(at, Packet::new(id, Way::Up, payload));
            at += history.rng.u64(0..=self.weather.latency);
        }
    }

    fn put(&mut self, at: u64, packet: Packet) {
        self.order += 1;
        self.flight.insert((at, self.order), packet);
    }

    fn delay(&self, history: &mut History) -> u64 {
        let longest = if history.per_mille(self.weather.tails) {
            self.weather.tail
        } else {
            self.weather.latency
        };
        history.rng.u64(1..=longest.max(1))
    }

    /// Ends a stream; both ends hear of it after a while.
    pub(crate) fn break_stream(&mut self, history: &mut History, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.dead = [true; 2];
        let last = stream.last;
        for way in [Way::Up, Way::Down] {
            let at = last[way as usize].max(history.now) + self.delay(history);
            self.put(at, Packet::new(id, way, Payload::Reset));
        }
    }

    /// Does that to all streams of a place, or of a coordinator.
    pub(crate) fn break_streams(
        &mut self,
        history: &mut History,
        slot: Option<usize>,
        coordinator: Option<u64>,
    ) {
        let of = |stream: &Stream| {
            !stream.ghost
                && slot.is_none_or(|slot| stream.slot == slot)
                && (coordinator.is_none() || stream.coordinator == coordinator)
        };
        let streams = self.streams.iter().filter(|(_, stream)| of(stream));
        let ids: Vec<StreamId> = streams.map(|(&id, _)| id).collect();
        for id in ids {
            self.break_stream(history, id);
        }
    }

    /// Nothing passes from or to a place, some ways, for some time.
    pub(crate) fn part(&mut self, slot: usize, ways: &[Way], until: u64, drops: bool) {
        for &way in ways {
            let link = &mut self.links[slot][way as usize];
            link.blocked_until = until;
            link.drops = drops;
        }
    }

    /// From now on everything passes.
    pub(crate) fn heal(&mut self, weather: Weather) {
        self.weather = weather;
        for link in self.links.iter_mut().flatten() {
            link.blocked_until = 0;
        }
        for stream in self.streams.values_mut() {
            stream.fate = None;
            stream.copy = None;
        }
    }

    /// When the next packet arrives.
    pub(crate) fn next_arrival(&self) -> Option<u64> {
        self.flight.first_key_value().map(|(&(at, _), _)| at)
    }

    /// The next packet that has arrived, and the coordinator at its end.
    pub(crate) fn arrived(&mut self, history: &mut History) -> Option<(Packet, Option<u64>)> {
        while self.next_arrival().is_some_and(|at| at <= history.now) {
            let ((_, order), packet) = self.flight.pop_first()?;
            let Some(stream) = self.streams.get(&packet.stream) else {
                continue;
            };
            let link = &mut self.links[stream.slot][packet.way as usize];
            if order < link.newest {
                history.count("reordered packets", format_args!("{packet:?}"));
            }
            link.newest = link.newest.max(order);
            history.log(format_args!("{packet:?}"));
            if let Payload::Data(data) = &packet.payload {
                history.digest(data);
            }
            let coordinator = stream.coordinator;
            let is_over = matches!(packet.payload, Payload::End | Payload::Reset);
            if packet.way == Way::Down && is_over {
                self.streams.remove(&packet.stream);
            }
            return Some((packet, coordinator));
        }
        None
    }
}
