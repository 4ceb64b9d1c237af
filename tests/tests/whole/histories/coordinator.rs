//! A coordinator in its node: it starts, answers the calls that reach it, and ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use chomp_coordinator::job::{JobError, JobOutcome};
use chomp_coordinator::publish::PublishError;
use chomp_coordinator::server::{SimulatedCoordinator, StartError};
use chomp_plan::{Phase, Settings};
use chomp_store::{Ledger, StoreError};
use chomp_worker::WorkerError;
use http::{HeaderMap, Method};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinHandle};

use crate::histories::chain::Fact;
use crate::histories::node::Node;
use crate::histories::store::{Store, View};
use crate::histories::watch::{Asked, Findings, Watch, answer, send};
use crate::histories::wire::{Packet, Payload, StreamId, Wire, request_body};

/// Names the table to workers.
pub(crate) const TABLE: u64 = 0x7ab1e;

/// A coordinator.
#[derive(Debug)]
pub(crate) struct Coordinator {
    pub(crate) number: u64,
    pub(crate) node: Node,
    store: Store,
    wire: Wire,
    state: State,
    /// Packets that came while it was paused.
    inbox: Vec<Packet>,
    calls: BTreeMap<StreamId, Call>,
    findings: Arc<Mutex<Findings>>,
}

#[derive(Debug)]
enum State {
    Starting(JoinHandle<Result<SimulatedCoordinator, StartError>>),
    Running(SimulatedCoordinator),
    /// It could not start.
    Ended(Ended),
}

/// A call under way.
#[derive(Debug)]
struct Call {
    body: UnboundedSender<Payload>,
    /// The bytes of a completion so far.
    completion: Option<Arc<Mutex<Vec<u8>>>>,
    task: AbortHandle,
}

/// A change of a coordinator's state.
#[derive(Debug)]
pub(crate) enum News {
    /// It has started.
    Started,
    /// Its job is over: it is to be [stopped](Coordinator::stop).
    Ended,
}

impl Coordinator {
    /// Starts one on the table to which there is this way.
    pub(crate) fn start(
        number: u64,
        node: Node,
        view: View,
        store: Store,
        settings: Settings,
        wire: Wire,
    ) -> Coordinator {
        let findings = Findings::new(settings.replicas);
        let start = SimulatedCoordinator::start(Arc::new(view), settings, TABLE, number);
        Coordinator {
            number,
            state: State::Starting(node.runtime().spawn(start)),
            node,
            store,
            wire,
            inbox: Vec::new(),
            calls: BTreeMap::new(),
            findings: Arc::new(Mutex::new(findings)),
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    pub(crate) fn has_finished(&self) -> bool {
        match &self.state {
            State::Running(running) => running.progress().borrow().phase == Phase::Finished,
            State::Starting(_) | State::Ended(_) => false,
        }
    }

    /// Its copy of the journal's state, once it runs.
    pub(crate) fn ledger(&self) -> Option<Ledger> {
        match &self.state {
            State::Running(running) => Some(running.journal().ledger().clone()),
            State::Starting(_) | State::Ended(_) => None,
        }
    }

    /// The number of its turn to own the table; the largest if that has not begun.
    pub(crate) fn epoch(&self) -> u64 {
        match &self.state {
            State::Running(running) => running.journal().epoch(),
            State::Starting(_) | State::Ended(_) => u64::MAX,
        }
    }

    /// Tells what is in the journal when it starts.
    pub(crate) fn found(&self, facts: impl Iterator<Item = Fact>) {
        self.findings.lock().unwrap().found = facts.collect();
    }

    /// Lets it go on to `now`.
    pub(crate) fn step(&mut self, now: u64) -> Option<News> {
        for packet in std::mem::take(&mut self.inbox) {
            self.take(packet);
        }
        self.node.step(now);
        if self.store.took_coordinators() {
            return None;
        }
        match &mut self.state {
            State::Starting(start) if start.is_finished() => {
                let started = self.node.runtime().block_on(start);
                match started.expect("a start does not panic") {
                    Ok(running) => {
                        self.state = State::Running(running);
                        Some(News::Started)
                    }
                    Err(error) => {
                        self.state = State::Ended(match error {
                            StartError::Store(StoreError::Fenced { .. }) => Ended::Fenced,
                            StartError::Store(StoreError::Storage(_)) => Ended::Unstored,
                            other => Ended::Other(format!("{other:?}")),
                        });
                        Some(News::Ended)
                    }
                }
            }
            State::Running(running) => {
                let stopped = matches!(running.progress().borrow().phase, Phase::Stopped(_));
                stopped.then_some(News::Ended)
            }
            State::Starting(_) | State::Ended(_) => None,
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
                send(&self.wire, &self.store, stream, answer);
            }
            Payload::Request(method, path, headers) => self.begin(stream, method, &path, headers),
            Payload::Reset => {
                if let Some(call) = self.calls.remove(&stream) {
                    call.task.abort();
                }
            }
            payload => {
                if let Some(call) = self.calls.get(&stream) {
                    if let Some(completion) = &call.completion {
                        let mut completion = completion.lock().unwrap();
                        match &payload {
                            Payload::Data(data) => completion.extend_from_slice(data),
                            Payload::End => self.findings.lock().unwrap().count(&completion),
                            _ => {}
                        }
                    }
                    // A call that has been answered does not listen any more.
                    call.body.send(payload).unwrap_or(());
                }
            }
        }
    }

    fn begin(&mut self, stream: StreamId, method: Method, path: &str, headers: HeaderMap) {
        let State::Running(running) = &self.state else {
            return send(&self.wire, &self.store, stream, Payload::Reset);
        };
        let (sender, incoming) = unbounded_channel();
        let mut request = http::Request::new(request_body(incoming));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("the path of a call");
        *request.headers_mut() = headers;
        let completion = path.ends_with("/Complete").then(Arc::default);
        let watch = Watch {
            wire: self.wire.clone(),
            store: self.store.clone(),
            stream,
            asked: match &completion {
                Some(bytes) => Asked::Complete(Arc::clone(bytes)),
                None if path.ends_with("/Lease") => Asked::Lease,
                None => Asked::Other,
            },
            findings: Arc::clone(&self.findings),
            reply: Mutex::default(),
        };
        let answer = answer(running.calls(), request, watch);
        let task = self.node.runtime().spawn(answer).abort_handle();
        self.calls.retain(|_, call| !call.task.is_finished());
        let call = Call {
            body: sender,
            completion,
            task,
        };
        self.calls.insert(stream, call);
    }

    /// Ends it in order.
    pub(crate) fn stop(self) -> Ended {
        let running = match self.state {
            State::Running(running) => running,
            State::Starting(_) => return Ended::Other("it has not started".to_owned()),
            State::Ended(ended) => return ended,
        };
        match self.node.runtime().block_on(running.stop()) {
            JobOutcome::Finished(_) => Ended::Finished,
            JobOutcome::Failed(JobError::Referee(WorkerError::Store(_))) => Ended::Unstored,
            JobOutcome::Failed(
                JobError::Store(error) | JobError::Publish(PublishError::Store(error)),
            ) => match error {
                StoreError::Fenced { .. } => Ended::Fenced,
                StoreError::Storage(_) => Ended::Unstored,
                other => Ended::Other(format!("{other:?}")),
            },
            other => Ended::Other(format!("{other:?}")),
        }
    }
}

/// How a coordinator ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Finished,
    /// Another one has taken the table over.
    Fenced,
    /// The storage failed.
    Unstored,
    #[expect(dead_code, reason = "what became of others is printed")]
    Other(String),
}
