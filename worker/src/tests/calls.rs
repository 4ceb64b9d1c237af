//! How the coordinator in memory answers.

use std::time::Duration;

use chomp_proto::v1::coordinator_server::{Coordinator, CoordinatorServer};
use chomp_proto::v1::{self, complete_reply, complete_request, lease_reply};
use chomp_proto::{OBJECTS_PATH, WORKER_HEADER};
use chomp_store::{
    Entry, FaultKind, Finders, Key, PartName, PlacedRange, Storage, StorageProblem, StoreError,
    published,
};
use chomp_table::manifest::folder_name;
use chomp_table::{Digest, Head, RangeSummary};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use tokio::time::timeout;
use tonic::body::Body;
use tonic::{Extensions, Request, Response, Status};
use tower::ServiceExt;

use super::fake::{Act, BITS, Fake, Leased, Lie, SECRET, State, done, now};

/// A call whose answer gets lost.
#[derive(Clone, Copy)]
struct Lost;

#[tonic::async_trait]
impl Coordinator for Fake {
    async fn join(
        &self,
        request: Request<v1::JoinRequest>,
    ) -> Result<Response<v1::JoinReply>, Status> {
        let mut state = self.state();
        let request = request.into_inner();
        state.known.insert(request.worker);
        state.joins.push(request);
        let mut reply = v1::JoinReply {
            bits: BITS,
            range_bits: state.range_bits.get(),
            table: state.journal.ledger().table,
            lease_ms: state.lease_ms,
            store: state.location.clone(),
            checkpoint: state.checkpoint(),
            epoch: state.journal.epoch(),
            coordinator: state.journal.coordinator_secret(),
        };
        if let Some(Lie::Job(lie)) = state.lie {
            lie(&mut reply);
        }
        Ok(Response::new(reply))
    }

    async fn lease(
        &self,
        request: Request<v1::LeaseRequest>,
    ) -> Result<Response<v1::LeaseReply>, Status> {
        self.check_joined(request.get_ref().worker)?;
        Ok(Response::new(self.next(request.extensions()).await))
    }

    async fn renew(
        &self,
        request: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::RenewReply>, Status> {
        let request = request.into_inner();
        self.check_joined(request.worker)?;
        let mut state = self.state();
        let stands = |lease: &u64| state.leases.contains_key(lease);
        let lost = request.leases.iter().copied();
        let lost = lost.filter(|lease| !stands(lease)).collect();
        let at = state.start.elapsed().as_millis();
        state.renewals.push((at, request));
        Ok(Response::new(v1::RenewReply { lost }))
    }

    async fn r#return(
        &self,
        request: Request<v1::ReturnRequest>,
    ) -> Result<Response<v1::ReturnReply>, Status> {
        let request = request.into_inner();
        self.check_joined(request.worker)?;
        let mut state = self.state();
        state.leases.remove(&request.lease);
        state.returned.push(request.failure);
        self.changed.notify_waiters();
        Ok(Response::new(v1::ReturnReply {}))
    }

    async fn complete(
        &self,
        request: Request<v1::CompleteRequest>,
    ) -> Result<Response<v1::CompleteReply>, Status> {
        let (_, extensions, request) = request.into_parts();
        self.check_joined(request.worker)?;
        let verdict = Some(self.state().take(&request));
        self.changed.notify_waiters();
        let next = if request.next {
            Some(self.next(&extensions).await)
        } else {
            None
        };
        Ok(Response::new(v1::CompleteReply { verdict, next }))
    }

    async fn report(
        &self,
        request: Request<v1::ReportRequest>,
    ) -> Result<Response<v1::ReportReply>, Status> {
        let request = request.into_inner();
        self.check_joined(request.worker)?;
        let mut state = self.state();
        let mut found = v1::ReportReply::default();
        for lost in request.records {
            let head = Head(lost.head);
            let digest = state.journal.ledger().range(head).map(|row| row.digest);
            state.reported.push((head, lost.reason));
            if digest.is_some_and(|digest| digest.0[..] == lost.digest) {
                let withdrawn = Entry::Withdrawn { heads: vec![head] };
                if state.is_whole(head) {
                    found.in_order.push(head.0);
                    continue;
                }
                now(state.journal.append(vec![withdrawn])).unwrap();
            }
            found.lost.push(head.0);
        }
        self.changed.notify_waiters();
        Ok(Response::new(found))
    }

    async fn leave(
        &self,
        request: Request<v1::LeaveRequest>,
    ) -> Result<Response<v1::LeaveReply>, Status> {
        let request = request.into_inner();
        self.check_joined(request.worker)?;
        let mut state = self.state();
        state.known.remove(&request.worker);
        state.left = true;
        Ok(Response::new(v1::LeaveReply {}))
    }
}

impl Fake {
    /// Answers a call or a request for an object, as the script says.
    pub(super) async fn handle(
        &self,
        mut request: http::Request<Body>,
    ) -> Result<http::Response<Body>, Status> {
        let token = request.headers().get("authorization");
        let right = token.is_some_and(|token| *token == *format!("Bearer {SECRET}"));
        self.state().authorized &= right;
        let path = request.uri().path();
        let is_call = !path.starts_with(OBJECTS_PATH);
        let name = if is_call {
            path.rsplit('/').next()
        } else {
            Some(request.method().as_str())
        };
        let act = self.enter(&name.unwrap().to_lowercase()).await?;
        if let Act::Lose(_) = act {
            request.extensions_mut().insert(Lost);
        }
        let response = if is_call {
            let answer = CoordinatorServer::new(self.clone()).oneshot(request).await;
            answer.unwrap_or_else(|never| match never {})
        } else {
            self.object(request).await
        };
        match act {
            Act::Lose(status) => Err(status),
            _ => Ok(response),
        }
    }

    fn check_joined(&self, worker: u64) -> Result<(), Status> {
        let is_known = self.state().known.contains(&worker);
        is_known
            .then_some(())
            .ok_or_else(|| Status::not_found("has not joined"))
    }

    /// Waits for a task; one whose answer is to be lost is taken back.
    async fn next(&self, extensions: &Extensions) -> v1::LeaseReply {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                {
                    let mut state = self.state();
                    if state.is_done() {
                        return lease_reply::Answer::Finished(v1::Finished {});
                    }
                    if let Some(mut task) = state.task() {
                        if let Some(Lie::Task(lie)) = state.lie {
                            lie(&mut task);
                        }
                        return lease_reply::Answer::Task(task);
                    }
                }
                changed.await;
            }
        };
        let wait = timeout(Duration::from_secs(10), wait).await;
        let reply = wait.unwrap_or(lease_reply::Answer::Wait(v1::Wait {}));
        if let (Some(Lost), lease_reply::Answer::Task(task)) = (extensions.get(), &reply) {
            self.state().leases.remove(&task.lease);
        }
        v1::LeaseReply {
            answer: Some(reply),
        }
    }
}

impl State {
    fn take(&mut self, request: &v1::CompleteRequest) -> complete_reply::Verdict {
        let leased = self.leases.remove(&request.lease);
        let duplicate = complete_reply::Verdict::Duplicate(v1::Duplicate {});
        let entry = match request.result.as_ref().unwrap() {
            complete_request::Result::Evaluated(evaluated) => {
                let placed = evaluated.ranges.iter().map(placed);
                let ranges = placed.filter(|placed| !self.is_range_done(placed.summary.head));
                let ranges: Vec<PlacedRange> = ranges.collect();
                let Some(first) = ranges.first() else {
                    return duplicate;
                };
                let part = PartName {
                    layer: first.summary.head.layer(),
                    lease: request.lease,
                };
                if now(self.storage.read(&part.key())).is_err() {
                    let reason = "there is no such part".to_owned();
                    return complete_reply::Verdict::Rejected(v1::Rejected { reason });
                }
                done(part, ranges)
            }
            complete_request::Result::Merged(v1::Merged { json, is_forged }) => {
                let merged: chomp_store::ShardSummary = serde_json::from_slice(json).unwrap();
                let known = self.journal.ledger().shard(BITS, merged.number).cloned();
                if let Some(known) = known {
                    assert_eq!(merged, known);
                    let Some(Leased::File(shard)) = leased else {
                        return duplicate;
                    };
                    self.read.insert(shard);
                    if *is_forged {
                        self.forged.insert(shard);
                    }
                    return complete_reply::Verdict::Accepted(v1::Accepted {});
                }
                let info = merged.shard.as_ref().unwrap();
                let key = published::key(&folder_name(BITS), &info.name).unwrap();
                let stands = now(self.storage.read(&key))
                    .is_ok_and(|bytes| Digest::of(&bytes) == info.sha256);
                if !stands || !self.are_ranges_done() {
                    let reason = "there is no such shard".to_owned();
                    return complete_reply::Verdict::Rejected(v1::Rejected { reason });
                }
                Entry::Shard {
                    bits: BITS,
                    finders: Finders::default(),
                    summary: merged,
                }
            }
        };
        now(self.journal.append(vec![entry])).unwrap();
        complete_reply::Verdict::Accepted(v1::Accepted {})
    }
}

fn placed(summary: &v1::Summary) -> PlacedRange {
    PlacedRange {
        summary: RangeSummary {
            head: Head(summary.head),
            count: summary.count,
            stored: summary.stored,
            digest: Digest(summary.digest.as_slice().try_into().unwrap()),
        },
        offset: summary.offset,
        length: summary.length,
    }
}

impl Fake {
    /// Answers a request for an object.
    async fn object(&self, request: http::Request<Body>) -> http::Response<Body> {
        let (parts, body) = request.into_parts();
        let key = Key::new(parts.uri.path().strip_prefix(OBJECTS_PATH).unwrap()).unwrap();
        let header = |name: &str| parts.headers.get(name)?.to_str().ok();
        let (status, bytes) = if parts.method == Method::GET {
            self.get(&key, header("range"))
        } else {
            let worker = header(WORKER_HEADER).unwrap().parse().unwrap();
            assert_eq!(header("if-none-match"), Some("*"));
            let bytes = body.collect().await.unwrap().to_bytes();
            assert_eq!(header("content-length"), Some(&*bytes.len().to_string()));
            (self.put(&key, worker, bytes), bytes::Bytes::new())
        };
        let more = self.state().more_bytes;
        let response = http::Response::builder()
            .status(status)
            .header("content-length", bytes.len() as u64 + more)
            .body(Body::new(Full::new(bytes)));
        response.unwrap()
    }

    fn get(&self, key: &Key, range: Option<&str>) -> (StatusCode, bytes::Bytes) {
        let mut state = self.state();
        if PartName::of(key).is_some() && !state.are_ranges_done() {
            state.fetched.push(format!("{key} {range:?}"));
        }
        let bytes = match now(state.storage.read(key)) {
            Ok(bytes) => bytes,
            Err(error) if error.problem == StorageProblem::NotFound => {
                return (StatusCode::NOT_FOUND, bytes::Bytes::new());
            }
            Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string().into()),
        };
        let Some(range) = range else {
            return (StatusCode::OK, bytes);
        };
        let (first, last) = range
            .strip_prefix("bytes=")
            .unwrap()
            .split_once('-')
            .unwrap();
        let first: usize = first.parse().unwrap();
        let last: u64 = last.parse().unwrap();
        if first >= bytes.len() {
            return (StatusCode::RANGE_NOT_SATISFIABLE, bytes::Bytes::new());
        }
        let end = usize::try_from(last).map_or(bytes.len(), |last| bytes.len().min(last + 1));
        (StatusCode::PARTIAL_CONTENT, bytes.slice(first..end))
    }

    fn put(&self, key: &Key, worker: u64, bytes: bytes::Bytes) -> StatusCode {
        let state = self.state();
        let part = PartName::of(key);
        let holds = match part {
            Some(part) => {
                let leased = state.leases.get(&part.lease);
                matches!(leased, Some(Leased::Ranges(heads)) if heads[0].layer() == part.layer)
            }
            None => key.as_str().starts_with("table-16/shard-"),
        };
        if !state.known.contains(&worker) || !holds {
            return StatusCode::FORBIDDEN;
        }
        let put = match part {
            Some(_) => now(state.storage.create(key, bytes)).map_err(Into::into),
            None => now(published::put(
                &*state.storage,
                &folder_name(BITS),
                key,
                bytes,
            )),
        };
        match put {
            Ok(()) => StatusCode::CREATED,
            Err(StoreError::Storage(error)) if error.problem == StorageProblem::AlreadyExists => {
                StatusCode::PRECONDITION_FAILED
            }
            Err(StoreError::Storage(error)) if error.is(FaultKind::Full) => {
                StatusCode::INSUFFICIENT_STORAGE
            }
            Err(error) => panic!("{error}"),
        }
    }
}
