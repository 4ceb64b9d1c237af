//! A coordinator in its node: it starts, answers the calls that reach it, and ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use chomp_coordinator::job::{JobError, Outcome};
use chomp_coordinator::plan::{Phase, Settings};
use chomp_coordinator::publish::PublishError;
use chomp_coordinator::server::{SimulatedCoordinator, StartError};
use chomp_coordinator::storage::SimulatedStorage;
use chomp_coordinator::store::StoreError;
use chomp_table::Head;
use http::HeaderMap;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinHandle};

use crate::disk::Disk;
use crate::node::Node;
use crate::watch::{Votes, Watch, answer, send};
use crate::wire::{Packet, Payload, StreamId, Wire, request_body};

/// Names the table to workers.
const TABLE: u64 = 0x7ab1e;

/// A coordinator.
#[derive(Debug)]
pub(crate) struct Coordinator {
    pub(crate) number: u64,
    pub(crate) node: Node,
    storage: Arc<SimulatedStorage>,
    wire: Wire,
    state: State,
    /// What came while it was paused.
    inbox: Vec<Packet>,
    calls: BTreeMap<StreamId, Call>,
    /// The ranges that were acknowledged before it started.
    owed: BTreeSet<Head>,
    votes: Arc<Mutex<Votes>>,
}

#[derive(Debug)]
enum State {
    Starting(JoinHandle<Result<SimulatedCoordinator, StartError>>),
    Running(SimulatedCoordinator),
}

/// A call under way.
#[derive(Debug)]
struct Call {
    body: UnboundedSender<Payload>,
    /// The bytes of the request so far.
    request: Arc<Mutex<Vec<u8>>>,
    is_submission: bool,
    task: AbortHandle,
}

/// What became of a coordinator.
#[derive(Debug)]
pub(crate) enum News {
    /// It has started.
    Started,
    /// Its job is over: it is to be [stopped](Coordinator::stop).
    Over,
}

impl Coordinator {
    /// Starts one on the table in `storage`.
    pub(crate) fn start(
        number: u64,
        node: Node,
        storage: &Arc<SimulatedStorage>,
        settings: Settings,
        slowest: u64,
        wire: Wire,
        owed: BTreeSet<Head>,
    ) -> Coordinator {
        let disk = Arc::new(Disk::new(Arc::clone(storage), slowest, number));
        let votes = Votes::new(settings.replicas);
        let start = SimulatedCoordinator::start(disk, settings, TABLE, number);
        Coordinator {
            number,
            state: State::Starting(node.runtime().spawn(start)),
            node,
            storage: Arc::clone(storage),
            wire,
            inbox: Vec::new(),
            calls: BTreeMap::new(),
            owed,
            votes: Arc::new(Mutex::new(votes)),
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    pub(crate) fn has_finished(&self) -> bool {
        match &self.state {
            State::Running(running) => running.progress().borrow().phase == Phase::Finished,
            State::Starting(_) => false,
        }
    }

    /// The number of its turn to own the table; the largest if that has not begun.
    pub(crate) fn epoch(&self) -> u64 {
        match &self.state {
            State::Running(running) => running.store().epoch(),
            State::Starting(_) => u64::MAX,
        }
    }

    /// Lets it go on to `now`.
    pub(crate) fn step(&mut self, now: u64) -> Option<News> {
        for packet in std::mem::take(&mut self.inbox) {
            self.take(packet);
        }
        self.node.step(now);
        if self.storage.has_crashed() {
            return None;
        }
        match &mut self.state {
            State::Starting(start) if start.is_finished() => {
                let started = self.node.runtime().block_on(start);
                let started = started.expect("a start does not panic");
                let running = started.expect("it starts on any storage in order");
                let store = running.store();
                let lost = self.owed.iter().find(|&&head| !store.is_committed(head));
                assert_eq!(lost, None, "an acknowledged range is lost");
                let heads = (0..store.range_bits().heads(store.bits())).map(Head);
                let found = heads.filter(|&head| store.is_committed(head));
                self.votes.lock().unwrap().found = found.collect();
                self.state = State::Running(running);
                Some(News::Started)
            }
            State::Running(running) => {
                let stopped = matches!(running.progress().borrow().phase, Phase::Stopped(_));
                stopped.then_some(News::Over)
            }
            State::Starting(_) => None,
        }
    }

    /// A packet has come.
    pub(crate) fn deliver(&mut self, packet: Packet) {
        self.inbox.push(packet);
    }

    fn take(&mut self, packet: Packet) {
        let Packet {
            stream, payload, ..
        } = packet;
        match payload {
            Payload::Connect => {
                let answer = if self.is_running() {
                    Payload::Connected(self.number)
                } else {
                    Payload::Reset
                };
                send(&self.wire, &self.storage, stream, answer);
            }
            Payload::Request(path, headers) => self.begin(stream, &path, headers),
            Payload::Reset => {
                if let Some(call) = self.calls.remove(&stream) {
                    call.task.abort();
                }
            }
            payload => {
                if let Some(call) = self.calls.get(&stream) {
                    if matches!(payload, Payload::End) && call.is_submission {
                        self.votes
                            .lock()
                            .unwrap()
                            .count(&call.request.lock().unwrap());
                    }
                    if let Payload::Data(data) = &payload {
                        call.request.lock().unwrap().extend_from_slice(data);
                    }
                    // A call that has been answered does not listen any more.
                    call.body.send(payload).unwrap_or(());
                }
            }
        }
    }

    fn begin(&mut self, stream: StreamId, path: &str, headers: HeaderMap) {
        let State::Running(running) = &self.state else {
            return send(&self.wire, &self.storage, stream, Payload::Reset);
        };
        let (sender, incoming) = unbounded_channel();
        let mut request = http::Request::new(request_body(incoming));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = path.parse().expect("the path of a call");
        *request.headers_mut() = headers;
        let bytes = Arc::default();
        let answer = answer(
            running.calls(),
            request,
            Watch {
                wire: self.wire.clone(),
                storage: Arc::clone(&self.storage),
                stream,
                submitted: path.ends_with("/Submit").then(|| Arc::clone(&bytes)),
                is_lease: path.ends_with("/Lease"),
                votes: Arc::clone(&self.votes),
                reply: Mutex::default(),
            },
        );
        let task = self.node.runtime().spawn(answer).abort_handle();
        self.calls.retain(|_, call| !call.task.is_finished());
        let call = Call {
            body: sender,
            request: bytes,
            is_submission: path.ends_with("/Submit"),
            task,
        };
        self.calls.insert(stream, call);
    }

    /// Ends it in order.
    pub(crate) fn stop(self) -> Ended {
        let State::Running(running) = self.state else {
            return Ended::Other("it has not started".to_owned());
        };
        match self.node.runtime().block_on(running.stop()) {
            Outcome::Finished(_) => Ended::Finished,
            Outcome::Failed(
                JobError::Store(StoreError::Fenced { .. })
                | JobError::Publish(PublishError::Store(StoreError::Fenced { .. })),
            ) => Ended::Fenced,
            other => Ended::Other(format!("{other:?}")),
        }
    }
}

/// How a coordinator ended.
#[expect(dead_code, reason = "what became of others is printed")]
#[derive(Debug)]
pub(crate) enum Ended {
    Finished,
    Fenced,
    Other(String),
}
