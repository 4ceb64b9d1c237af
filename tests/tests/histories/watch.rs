//! What is asked of the answers of coordinators, as they are given.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::{Buf, Bytes};
use chomp_coordinator::storage::SimulatedStorage;
use chomp_proto::v1::{self, lease_reply, submit_reply};
use chomp_table::Head;
use http::{HeaderMap, HeaderName};
use prost::Message;
use tonic::Code;
use tonic::body::Body;
use tower::Service;

use crate::wire::{Packet, Payload, Sent, StreamId, Way, Wire, respond};

/// Who submitted what to a coordinator.
#[derive(Debug)]
pub(crate) struct Votes {
    /// The ranges that were durable when it started.
    pub(crate) found: BTreeSet<Head>,
    workers: BTreeMap<Head, BTreeSet<u64>>,
    replicas: usize,
}

/// Looks at what a coordinator answers.
pub(crate) struct Watch {
    pub(crate) wire: Wire,
    pub(crate) storage: Arc<SimulatedStorage>,
    pub(crate) stream: StreamId,
    /// The request, if it is a submission.
    pub(crate) submitted: Option<Arc<Mutex<Vec<u8>>>>,
    /// Whether it asks for a task.
    pub(crate) is_lease: bool,
    pub(crate) votes: Arc<Mutex<Votes>>,
    pub(crate) reply: Mutex<Vec<u8>>,
}

/// Answers a call.
pub(crate) async fn answer(
    mut calls: impl Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    request: http::Request<Body>,
    watch: Watch,
) {
    let response = calls.call(request).await.unwrap_or_else(|no| match no {});
    respond(response, |payload| watch.send(payload)).await;
}

impl Watch {
    fn send(&self, payload: Payload) {
        match &payload {
            Payload::Response(_, headers) | Payload::Trailers(headers) => self.check(headers),
            Payload::Data(data) => self.reply.lock().unwrap().extend_from_slice(data),
            Payload::End => {
                self.note_lease();
                self.note_acknowledged();
            }
            _ => {}
        }
        send(&self.wire, &self.storage, self.stream, payload);
    }

    /// Honest workers make no calls that are not fit, and are not refused.
    fn check(&self, headers: &HeaderMap) {
        let value = |name| headers.get(HeaderName::from_static(name));
        let Some(code) = value("grpc-status") else {
            return;
        };
        let code = Code::from_bytes(code.as_bytes());
        let usual = [
            Code::Ok,
            Code::NotFound,
            Code::Unavailable,
            Code::DeadlineExceeded,
            // What a worker is told who asks for a range that an overtaken coordinator lacks.
            Code::OutOfRange,
        ];
        if !usual.contains(&code) && !self.storage.has_crashed() {
            let what = value("grpc-message");
            self.wire.send(Sent::Wrong(format!("{code:?}: {what:?}")));
        }
    }

    fn note_lease(&self) {
        if !self.is_lease || self.storage.has_crashed() {
            return;
        }
        for reply in messages::<v1::LeaseReply>(&self.reply.lock().unwrap()) {
            if let Some(lease_reply::Answer::Task(task)) = reply.answer {
                self.wire.send(Sent::Leased(task.lease));
            }
        }
    }

    fn note_acknowledged(&self) {
        let Some(submitted) = &self.submitted else {
            return;
        };
        let replies: Vec<v1::SubmitReply> = messages(&self.reply.lock().unwrap());
        let is_safe = |reply: &v1::SubmitReply| {
            matches!(
                reply.verdict,
                Some(submit_reply::Verdict::Accepted(_) | submit_reply::Verdict::Duplicate(_))
            )
        };
        if replies.iter().any(is_safe) && !self.storage.has_crashed() {
            let (_, heads) = submission(&submitted.lock().unwrap());
            let votes = self.votes.lock().unwrap();
            if let Some(head) = heads.iter().find(|&&head| !votes.suffice(head)) {
                let what = format!("range {head} is safe, which too few workers computed");
                self.wire.send(Sent::Wrong(what));
            }
            self.wire.send(Sent::Acknowledged(heads));
        }
    }
}

impl Votes {
    pub(crate) fn new(replicas: u32) -> Votes {
        Votes {
            found: BTreeSet::new(),
            workers: BTreeMap::new(),
            replicas: replicas as usize,
        }
    }

    /// Takes note of a submission.
    pub(crate) fn count(&mut self, request: &[u8]) {
        let (worker, heads) = submission(request);
        for head in heads {
            self.workers.entry(head).or_default().insert(worker);
        }
    }

    fn suffice(&self, head: Head) -> bool {
        let votes = self.workers.get(&head).map_or(0, BTreeSet::len);
        votes >= self.replicas || self.found.contains(&head)
    }
}

/// The worker and the ranges of a submission.
fn submission(request: &[u8]) -> (u64, Vec<Head>) {
    let requests: Vec<v1::SubmitRequest> = messages(request);
    let mut headers = requests
        .iter()
        .filter_map(|request| request.header.as_ref());
    let worker = headers.next().expect("a submission has a header").worker;
    let pieces = requests.iter().flat_map(|request| &request.pieces);
    (worker, pieces.map(|piece| Head(piece.head)).collect())
}

/// The messages in the bytes of a call.
fn messages<M: Message + Default>(mut bytes: &[u8]) -> Vec<M> {
    let mut messages = Vec::new();
    while bytes.len() >= 5 {
        assert_eq!(bytes.get_u8(), 0, "nothing is compressed here");
        let length = usize::try_from(bytes.get_u32()).expect("a message is small");
        let message = Bytes::copy_from_slice(&bytes[..length]);
        messages.push(M::decode(message).expect("it was encoded on the other side"));
        bytes.advance(length);
    }
    messages
}

/// Sends what a coordinator says, unless its machine is down.
pub(crate) fn send(wire: &Wire, storage: &SimulatedStorage, stream: StreamId, payload: Payload) {
    if !storage.has_crashed() {
        wire.send(Sent::Packet(Packet {
            stream,
            way: Way::Down,
            payload,
        }));
    }
}
