//! Checks of the answers of coordinators, as they are given.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::{Buf, Bytes};
use chomp_proto::v1::{self, complete_reply, complete_request, lease_reply};
use chomp_table::{Digest, Head};
use http::{HeaderMap, HeaderName, StatusCode};
use prost::Message;
use tonic::Code;
use tonic::body::Body;
use tower::Service;

use crate::histories::chain::Fact;
use crate::histories::store::Store;
use crate::histories::wire::{Packet, Payload, Sent, StreamId, Way, Wire, respond};

/// The calls to a coordinator, with their callers.
#[derive(Debug)]
pub(crate) struct Findings {
    /// The facts that were durable when it started.
    pub(crate) found: BTreeSet<Fact>,
    workers: BTreeMap<Fact, BTreeSet<u64>>,
    replicas: usize,
}

/// The kind of a call.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A task.
    Lease,
    /// That the result of one be taken, which these bytes say.
    Complete(Arc<Mutex<Vec<u8>>>),
    Other,
}

/// Looks at what a coordinator answers.
pub(crate) struct Watch {
    pub(crate) wire: Wire,
    pub(crate) store: Store,
    pub(crate) stream: StreamId,
    pub(crate) asked: Asked,
    pub(crate) findings: Arc<Mutex<Findings>>,
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
            Payload::Response(status, headers) => {
                self.check_status(*status);
                self.check(headers);
            }
            Payload::Trailers(headers) => self.check(headers),
            Payload::Data(data) if !matches!(self.asked, Asked::Other) => {
                self.reply.lock().unwrap().extend_from_slice(data);
            }
            Payload::End => {
                self.note_lease();
                self.note_acknowledged();
            }
            _ => {}
        }
        send(&self.wire, &self.store, self.stream, payload);
    }

    /// Honest workers ask for no objects but those that they may have, or might have had before the
    /// coordinator was started again.
    fn check_status(&self, status: StatusCode) {
        let usual = [
            StatusCode::FORBIDDEN,
            StatusCode::NOT_FOUND,
            // The network is slow.
            StatusCode::REQUEST_TIMEOUT,
            StatusCode::PRECONDITION_FAILED,
            StatusCode::RANGE_NOT_SATISFIABLE,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        let fails = status.is_server_error() && self.store.has_been_down();
        if !status.is_success() && !usual.contains(&status) && !fails {
            let what = format!("an object is answered with {status}");
            self.wire.send(Sent::Wrong(what));
        }
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
        ];
        if !usual.contains(&code) && !self.store.has_been_down() {
            let what = value("grpc-message");
            self.wire.send(Sent::Wrong(format!("{code:?}: {what:?}")));
        }
    }

    fn note_lease(&self) {
        if self.store.took_coordinators() {
            return;
        }
        let bytes = self.reply.lock().unwrap();
        let replies: Vec<v1::LeaseReply> = match &self.asked {
            Asked::Lease => messages(&bytes),
            Asked::Complete(_) => {
                let replies = messages::<v1::CompleteReply>(&bytes).into_iter();
                replies.filter_map(|reply| reply.next).collect()
            }
            Asked::Other => return,
        };
        for reply in replies {
            if let Some(lease_reply::Answer::Task(task)) = reply.answer {
                self.wire.send(Sent::Leased(task.lease));
            }
        }
    }

    fn note_acknowledged(&self) {
        let Asked::Complete(request) = &self.asked else {
            return;
        };
        let replies: Vec<v1::CompleteReply> = messages(&self.reply.lock().unwrap());
        let verdicts = replies.iter().filter_map(|reply| reply.verdict.as_ref());
        let mut used =
            verdicts.filter(|verdict| !matches!(verdict, complete_reply::Verdict::Rejected(_)));
        if used.next().is_some() {
            self.wire.send(Sent::Used(self.stream));
        }
        let is_safe = |reply: &v1::CompleteReply| {
            matches!(
                reply.verdict,
                Some(complete_reply::Verdict::Accepted(_) | complete_reply::Verdict::Duplicate(_))
            )
        };
        if replies.iter().any(is_safe) && !self.store.took_coordinators() {
            let (_, facts) = completion(&request.lock().unwrap());
            let findings = self.findings.lock().unwrap();
            if let Some(fact) = facts.iter().find(|fact| !findings.suffice(fact)) {
                let what = format!("{fact:?} is safe, which too few workers say");
                self.wire.send(Sent::Wrong(what));
            }
            self.wire.send(Sent::Acknowledged(facts));
        }
    }
}

impl Findings {
    pub(crate) fn new(replicas: u32) -> Findings {
        Findings {
            found: BTreeSet::new(),
            workers: BTreeMap::new(),
            replicas: replicas as usize,
        }
    }

    /// Takes note of a completion.
    pub(crate) fn count(&mut self, request: &[u8]) {
        let (worker, facts) = completion(request);
        for fact in facts {
            self.workers.entry(fact).or_default().insert(worker);
        }
    }

    fn suffice(&self, fact: &Fact) -> bool {
        // A shard counts at once, and is checked before the table is published.
        let needed = match fact {
            Fact::Range(..) => self.replicas,
            Fact::Shard(..) => 1,
        };
        let found = self.workers.get(fact).map_or(0, BTreeSet::len);
        found >= needed || self.found.contains(fact)
    }
}

/// Which worker says what with a completion.
fn completion(request: &[u8]) -> (u64, Vec<Fact>) {
    let mut requests: Vec<v1::CompleteRequest> = messages(request);
    let request = requests.pop().expect("a call has a message");
    let range = |summary: &v1::Summary| {
        let digest = summary.digest[..].try_into().expect("32 bytes");
        Fact::Range(Head(summary.head), Digest(digest))
    };
    let facts = match request.result.expect("a result of some kind") {
        complete_request::Result::Evaluated(evaluated) => {
            evaluated.ranges.iter().map(range).collect()
        }
        complete_request::Result::Merged(merged) => {
            let merged: chomp_store::ShardSummary =
                serde_json::from_slice(&merged.json).expect("a summary of a shard");
            vec![Fact::of_shard(&merged)]
        }
    };
    (request.worker, facts)
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
pub(crate) fn send(wire: &Wire, store: &Store, stream: StreamId, payload: Payload) {
    if !store.took_coordinators() {
        wire.send(Sent::Packet(Packet::new(stream, Way::Down, payload)));
    }
}
