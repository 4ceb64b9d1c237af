//! The ends of the network in the nodes: connections of a worker, calls that reach a coordinator.
//!
//! Packets from a node wait here until the world takes them. Packets that the world delivers go into
//! the queue of their call.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use chomp_worker::transport::{BoxError, Connector, Transport};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Frame;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::body::Body;
use tonic::{Status, codegen};
use tower::Service;

use crate::histories::chain::Fact;

/// Names a call, or an attempt to connect.
pub(crate) type StreamId = u64;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From a worker to a coordinator.
    Up,
    /// Back.
    Down,
}

/// The content of a packet.
#[derive(Clone)]
pub(crate) enum Payload {
    /// May I connect?
    Connect,
    /// Yes, to the coordinator of this number.
    Connected(u64),
    Request(Method, String, HeaderMap),
    Response(StatusCode, HeaderMap),
    Data(Bytes),
    Trailers(HeaderMap),
    End,
    /// There will be no more, and not because all was said.
    Reset,
}

/// A piece of a stream, on one of its two ways.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) stream: StreamId,
    pub(crate) way: Way,
    pub(crate) payload: Payload,
}

impl Packet {
    pub(crate) fn new(stream: StreamId, way: Way, payload: Payload) -> Packet {
        Packet {
            stream,
            way,
            payload,
        }
    }
}

/// An event in a node, for the world.
#[derive(Debug)]
pub(crate) enum Sent {
    /// A worker begins a stream: on a connection to the coordinator of this number, or to connect.
    Opened {
        stream: StreamId,
        slot: usize,
        coordinator: Option<u64>,
    },
    Packet(Packet),
    /// A coordinator gives out a lease.
    Leased(u64),
    /// A coordinator says that this is safe.
    Acknowledged(Vec<Fact>),
    /// A coordinator has use for the result that came on this stream.
    Used(StreamId),
    /// A coordinator says what no honest worker should hear.
    Wrong(String),
}

/// Where packets leave and enter nodes. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    sent: Vec<Sent>,
    streams: u64,
    /// The streams on which workers wait, each with the number of the worker and its queue.
    waiting: BTreeMap<StreamId, (u64, UnboundedSender<Payload>)>,
    /// The workers that say nothing any more.
    silent: BTreeSet<u64>,
}

impl Wire {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap()
    }

    /// Takes the events since the last call.
    pub(crate) fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut self.shared().sent)
    }

    pub(crate) fn send(&self, sent: Sent) {
        self.shared().sent.push(sent);
    }

    /// From now on the worker of this number is not heard.
    pub(crate) fn silence(&self, worker: u64) {
        self.shared().silent.insert(worker);
    }

    /// A number for a stream.
    pub(crate) fn new_stream(&self) -> StreamId {
        let mut shared = self.shared();
        shared.streams += 1;
        shared.streams
    }

    /// Which worker waits for what comes on a stream, if any does.
    pub(crate) fn worker_of(&self, stream: StreamId) -> Option<u64> {
        let shared = self.shared();
        shared.waiting.get(&stream).map(|&(worker, _)| worker)
    }

    /// Gives a worker what came for it.
    pub(crate) fn deliver_down(&self, stream: StreamId, payload: Payload) {
        if let Some((_, queue)) = self.shared().waiting.get(&stream) {
            // One that does not listen any more is about to say so.
            queue.send(payload).unwrap_or(());
        }
    }
}

/// How a worker reaches a coordinator.
#[derive(Clone, Debug)]
pub(crate) struct WorkerEnd {
    pub(crate) wire: Wire,
    /// Its place in the network.
    pub(crate) slot: usize,
    /// Tells it from the worker that was in this place before.
    pub(crate) number: u64,
}

impl WorkerEnd {
    fn open(&self, coordinator: Option<u64>) -> (Line, UnboundedReceiver<Payload>) {
        let stream = self.wire.new_stream();
        let (queue, incoming) = unbounded_channel();
        let entry = (self.number, queue);
        self.wire.shared().waiting.insert(stream, entry);
        let line = Line {
            wire: self.wire.clone(),
            worker: self.number,
            stream,
            ended: false,
        };
        let slot = self.slot;
        line.put(Sent::Opened {
            stream,
            slot,
            coordinator,
        });
        (line, incoming)
    }
}

#[async_trait::async_trait]
impl Connector for WorkerEnd {
    async fn connect(&self) -> Result<Transport, BoxError> {
        let (mut line, mut incoming) = self.open(None);
        line.send(Payload::Connect);
        let answer = incoming.recv().await;
        line.ended = true;
        match answer {
            Some(Payload::Connected(coordinator)) => Ok(Transport::new(Connection {
                end: self.clone(),
                coordinator,
            })),
            _ => Err("connection refused".into()),
        }
    }
}

/// A connection of a worker.
#[derive(Clone, Debug)]
struct Connection {
    end: WorkerEnd,
    coordinator: u64,
}

impl Service<http::Request<Body>> for Connection {
    type Response = http::Response<Body>;
    type Error = Status;
    type Future = codegen::BoxFuture<http::Response<Body>, Status>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (line, incoming) = self.end.open(Some(self.coordinator));
        Box::pin(exchange(line, incoming, request))
    }
}

/// Sends a request while waiting for the response, which is returned when it begins.
async fn exchange(
    mut line: Line,
    mut incoming: UnboundedReceiver<Payload>,
    request: http::Request<Body>,
) -> Result<http::Response<Body>, Status> {
    let (parts, mut body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    line.send(Payload::Request(parts.method, path, parts.headers));
    let send = async {
        while let Some(Ok(frame)) = body.frame().await {
            line.send(of_frame(frame));
        }
        line.send(Payload::End);
        std::future::pending::<()>().await;
    };
    let first = tokio::select! {
        biased;
        first = incoming.recv() => first,
        () = send => None,
    };
    let Some(Payload::Response(status, headers)) = first else {
        line.ended = true;
        return Err(broken());
    };
    let mut response = http::Response::new(Body::new(Incoming {
        incoming,
        line: Some(line),
    }));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

fn broken() -> Status {
    Status::unavailable("the connection broke")
}

fn of_frame(frame: Frame<Bytes>) -> Payload {
    match frame.into_data() {
        Ok(data) => Payload::Data(data),
        Err(frame) => Payload::Trailers(frame.into_trailers().unwrap_or_default()),
    }
}

/// A worker's hold on a stream. If it lets go before the end, the other side hears of it.
struct Line {
    wire: Wire,
    worker: u64,
    stream: StreamId,
    ended: bool,
}

impl Line {
    fn send(&self, payload: Payload) {
        self.put(Sent::Packet(Packet::new(self.stream, Way::Up, payload)));
    }

    fn put(&self, sent: Sent) {
        let mut shared = self.wire.shared();
        if !shared.silent.contains(&self.worker) {
            shared.sent.push(sent);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.wire.shared().waiting.remove(&self.stream);
        if !self.ended {
            self.send(Payload::Reset);
        }
    }
}

/// A body as it comes in.
struct Incoming {
    incoming: UnboundedReceiver<Payload>,
    line: Option<Line>,
}

impl hyper::body::Body for Incoming {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let payload = ready!(self.incoming.poll_recv(context));
        if !matches!(payload, Some(Payload::Data(_)))
            && let Some(line) = &mut self.line
        {
            line.ended = true;
        }
        Poll::Ready(match payload {
            Some(Payload::Data(data)) => Some(Ok(Frame::data(data))),
            Some(Payload::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Some(Payload::End) => None,
            _ => Some(Err(broken())),
        })
    }
}

/// The body of a request that comes in over `incoming`.
pub(crate) fn request_body(incoming: UnboundedReceiver<Payload>) -> Body {
    Body::new(Incoming {
        incoming,
        line: None,
    })
}

/// Sends the response of a coordinator; `send` says whether it still can.
pub(crate) async fn respond(response: http::Response<Body>, send: impl Fn(Payload)) {
    let (parts, mut body) = response.into_parts();
    send(Payload::Response(parts.status, parts.headers));
    loop {
        match body.frame().await {
            Some(Ok(frame)) => send(of_frame(frame)),
            Some(Err(_)) => return send(Payload::Reset),
            None => return send(Payload::End),
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = |headers: &HeaderMap| headers.get("grpc-status").cloned();
        match self {
            Payload::Connect => f.write_str("connect"),
            Payload::Connected(number) => write!(f, "connected to coordinator {number}"),
            Payload::Request(method, path, _) => {
                let path = path.strip_prefix("/chomp.v1.Coordinator/").unwrap_or(path);
                write!(f, "{method} {path}")
            }
            Payload::Response(code, headers) => write!(f, "response {code} {:?}", status(headers)),
            Payload::Data(data) => write!(f, "{} bytes", data.len()),
            Payload::Trailers(trailers) => write!(f, "trailers {:?}", status(trailers)),
            Payload::End => f.write_str("end"),
            Payload::Reset => f.write_str("reset"),
        }
    }
}
