//! A coordinator in memory with a small job, which fails as a script tells it to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use chomp_access::{Access, Token};
use chomp_kernel::{Isa, evaluate_table};
use chomp_proto::v1::coordinator_server::{Coordinator, CoordinatorServer};
use chomp_proto::v1::{self, lease_reply, submit_reply};
use chomp_table::pieces::{self, Joiner, Piece};
use chomp_table::{Head, RangeBits, head, range};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::Stream;
use tonic::body::Body;
use tonic::{Request, Response, Status, Streaming};
use tower::ServiceExt;

use crate::transport::{BoxError, Connector, Transport};
use crate::{Config, Evaluation};

pub(super) const BITS: u32 = 16;
pub(super) const SECRET: &str = "open-sesame";

/// What happens to a call.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// It is answered.
    Go,
    /// It fails before anything is done.
    Fail(Status),
    /// All is done, but the answer gets lost.
    Lose(Status),
    /// It is never answered.
    Hang,
    /// All is done so much later.
    Slow(Duration),
}

type Script = Box<dyn FnMut(&str, &mut State) -> Act + Send>;

/// The coordinator. Clones are the same.
#[derive(Clone)]
pub(super) struct Fake {
    state: Arc<Mutex<State>>,
    script: Arc<Mutex<Script>>,
    changed: Arc<Notify>,
}

pub(super) struct State {
    pub(super) table: u64,
    pub(super) range_bits: RangeBits,
    pub(super) lease_ms: u64,
    pub(super) task_heads: usize,
    pub(super) known: BTreeSet<u64>,
    pub(super) done: BTreeMap<Head, Bytes>,
    pub(super) leases: BTreeMap<u64, Vec<Head>>,
    next_lease: u64,
    /// All calls that came in, and when, in milliseconds since the start.
    pub(super) log: Vec<(u128, String)>,
    pub(super) joins: Vec<v1::JoinRequest>,
    pub(super) renewals: Vec<(u128, v1::RenewRequest)>,
    pub(super) returned: Vec<String>,
    /// Every head that was asked for, as often as it was.
    pub(super) fetched: Vec<Head>,
    pub(super) left: bool,
    pub(super) authorized: bool,
    start: Instant,
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fake")
    }
}

impl State {
    pub(super) fn count(&self, call: &str) -> usize {
        self.log.iter().filter(|(_, name)| name == call).count()
    }

    fn heads(&self) -> Vec<Head> {
        head::layers(BITS, self.range_bits).concat()
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.len() == self.heads().len()
    }

    /// Some ranges of the first layer that is not done, unless all of them are leased.
    fn task(&mut self) -> Option<v1::Task> {
        let layers = head::layers(BITS, self.range_bits);
        let leased: BTreeSet<Head> = self.leases.values().flatten().copied().collect();
        let open = |layer: &Vec<Head>| layer.iter().any(|head| !self.done.contains_key(head));
        let (layer, heads) = layers
            .into_iter()
            .enumerate()
            .find(|(_, layer)| open(layer))?;
        let mut heads = heads;
        heads.retain(|head| !self.done.contains_key(head) && !leased.contains(head));
        heads.truncate(self.task_heads);
        if heads.is_empty() {
            return None;
        }
        let lease = self.next_lease;
        self.next_lease += 1;
        self.leases.insert(lease, heads.clone());
        Some(v1::Task {
            lease,
            attempt: 1,
            layer: u32::try_from(layer).unwrap(),
            heads: heads.into_iter().map(|head| head.0).collect(),
            lease_ms: self.lease_ms,
        })
    }

    /// As a coordinator that was started anew: it knows no workers and no leases.
    pub(super) fn restart(&mut self) {
        self.known.clear();
        self.leases.clear();
        self.next_lease = 1_000 * (1 + self.next_lease / 1_000);
    }
}

impl Fake {
    pub(super) fn new(script: impl FnMut(&str, &mut State) -> Act + Send + 'static) -> Fake {
        let state = State {
            table: 77,
            range_bits: RangeBits::new(12).unwrap(),
            lease_ms: 30_000,
            task_heads: 2,
            known: BTreeSet::new(),
            done: BTreeMap::new(),
            leases: BTreeMap::new(),
            next_lease: 0,
            log: Vec::new(),
            joins: Vec::new(),
            renewals: Vec::new(),
            returned: Vec::new(),
            fetched: Vec::new(),
            left: false,
            authorized: true,
            start: Instant::now(),
        };
        Fake {
            state: Arc::new(Mutex::new(state)),
            script: Arc::new(Mutex::new(Box::new(script))),
            changed: Arc::default(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What is to happen to a call, once what happens before it has.
    async fn enter(&self, call: &str) -> Result<Act, Status> {
        let act = {
            let mut state = self.state();
            let at = state.start.elapsed().as_millis();
            state.log.push((at, call.to_owned()));
            (self.script.lock().unwrap())(call, &mut state)
        };
        match act {
            Act::Fail(status) => Err(status),
            Act::Hang => std::future::pending().await,
            Act::Slow(time) => {
                sleep(time).await;
                Ok(Act::Go)
            }
            act => Ok(act),
        }
    }

    /// The same for a call that carries a worker's number.
    async fn enter_as<T>(
        &self,
        call: &str,
        worker: u64,
        request: &Request<T>,
    ) -> Result<Act, Status> {
        let act = self.enter(call).await?;
        self.check_token(request);
        if self.state().known.contains(&worker) {
            Ok(act)
        } else {
            Err(Status::not_found("has not joined"))
        }
    }

    fn check_token<T>(&self, request: &Request<T>) {
        let token = request.metadata().get("authorization");
        let right = token.is_some_and(|token| token == format!("Bearer {SECRET}").as_str());
        self.state().authorized &= right;
    }

    /// All is as it would be if the job had been done without any failure.
    pub(super) fn assert_done(&self) {
        let state = self.state();
        assert_eq!(state.done, truth(state.range_bits));
        assert!(state.authorized, "a call without the token");
    }
}

/// The records of the whole table.
pub(super) fn truth(range_bits: RangeBits) -> BTreeMap<Head, Bytes> {
    let ranges = evaluate_table(BITS, range_bits, Isa::Portable).into_iter();
    ranges
        .map(|(head, range)| (head, range::encode(&range, range_bits).1.into()))
        .collect()
}

pub(super) fn config(seed: u64) -> Config {
    Config {
        access: Access {
            coordinator: "http://fake".to_owned(),
            ca: None,
            token: Some(Token::new(SECRET.to_owned())),
        },
        name: "tester".to_owned(),
        threads: NonZeroUsize::new(2).unwrap(),
        memory_bytes: 1 << 30,
        isa: Isa::Portable,
        patience: None,
        evaluation: Evaluation::Inline,
        seed: Some(seed),
    }
}

#[tonic::async_trait]
impl Connector for Fake {
    async fn connect(&self) -> Result<Transport, BoxError> {
        self.enter("connect").await?;
        let server = CoordinatorServer::new(self.clone());
        Ok(Transport::new(ServiceExt::<http::Request<Body>>::map_err(
            server,
            |never| match never {},
        )))
    }
}

fn answer<T>(act: Act, reply: T) -> Result<Response<T>, Status> {
    match act {
        Act::Lose(status) => Err(status),
        _ => Ok(Response::new(reply)),
    }
}

#[tonic::async_trait]
impl Coordinator for Fake {
    async fn join(
        &self,
        request: Request<v1::JoinRequest>,
    ) -> Result<Response<v1::JoinReply>, Status> {
        let act = self.enter("join").await?;
        self.check_token(&request);
        let mut state = self.state();
        let request = request.into_inner();
        state.known.insert(request.worker);
        state.joins.push(request);
        let reply = v1::JoinReply {
            bits: BITS,
            range_bits: state.range_bits.get(),
            table: state.table,
            lease_ms: state.lease_ms,
        };
        answer(act, reply)
    }

    async fn lease(
        &self,
        request: Request<v1::LeaseRequest>,
    ) -> Result<Response<v1::LeaseReply>, Status> {
        let act = self
            .enter_as("lease", request.get_ref().worker, &request)
            .await?;
        let wait = async {
            loop {
                let changed = self.changed.notified();
                {
                    let mut state = self.state();
                    if state.is_done() {
                        return lease_reply::Answer::Finished(v1::Finished {});
                    }
                    if let Some(task) = state.task() {
                        return lease_reply::Answer::Task(task);
                    }
                }
                changed.await;
            }
        };
        let wait = timeout(Duration::from_secs(10), wait).await;
        let reply = wait.unwrap_or(lease_reply::Answer::Wait(v1::Wait {}));
        if let (Act::Lose(_), lease_reply::Answer::Task(task)) = (&act, &reply) {
            self.state().leases.remove(&task.lease);
        }
        answer(
            act,
            v1::LeaseReply {
                answer: Some(reply),
            },
        )
    }

    async fn renew(
        &self,
        request: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::RenewReply>, Status> {
        let act = self
            .enter_as("renew", request.get_ref().worker, &request)
            .await?;
        let request = request.into_inner();
        let mut state = self.state();
        let stands = |lease: &u64| state.leases.contains_key(lease);
        let lost = request
            .leases
            .iter()
            .copied()
            .filter(|lease| !stands(lease))
            .collect();
        let at = state.start.elapsed().as_millis();
        state.renewals.push((at, request));
        answer(act, v1::RenewReply { lost })
    }

    async fn r#return(
        &self,
        request: Request<v1::ReturnRequest>,
    ) -> Result<Response<v1::ReturnReply>, Status> {
        let act = self
            .enter_as("return", request.get_ref().worker, &request)
            .await?;
        let request = request.into_inner();
        let mut state = self.state();
        state.leases.remove(&request.lease);
        state.returned.push(request.failure);
        self.changed.notify_waiters();
        answer(act, v1::ReturnReply {})
    }

    type FetchStream = Pin<Box<dyn Stream<Item = Result<v1::FetchReply, Status>> + Send>>;

    async fn fetch(
        &self,
        request: Request<v1::FetchRequest>,
    ) -> Result<Response<Self::FetchStream>, Status> {
        let act = self
            .enter_as("fetch", request.get_ref().worker, &request)
            .await?;
        let heads = request.into_inner().heads;
        let mut state = self.state();
        state.fetched.extend(heads.iter().copied().map(Head));
        let records: Vec<_> = heads
            .into_iter()
            .map(|head| (Head(head), state.done[&Head(head)].clone()))
            .collect();
        let wire = |Piece { head, data, last }| v1::Piece {
            head: head.0,
            data,
            last,
        };
        let reply = |message: Vec<Piece>| v1::FetchReply {
            pieces: message.into_iter().map(wire).collect(),
        };
        let mut replies: Vec<_> = pieces::cut(records)
            .map(|message| Ok(reply(message)))
            .collect();
        if let Act::Lose(status) = act {
            // Half of it comes, and then nothing.
            replies.truncate(replies.len() / 2);
            replies.push(Err(status));
        }
        Ok(Response::new(Box::pin(tokio_stream::iter(replies))))
    }

    async fn submit(
        &self,
        request: Request<Streaming<v1::SubmitRequest>>,
    ) -> Result<Response<v1::SubmitReply>, Status> {
        self.check_token(&request);
        let mut messages = request.into_inner();
        let header = messages.message().await?.unwrap().header.unwrap();
        let mut joiner = Joiner::new(1 << 20);
        let mut records = Vec::new();
        while let Some(message) = messages.message().await? {
            for v1::Piece { head, data, last } in message.pieces {
                let piece = Piece {
                    head: Head(head),
                    data,
                    last,
                };
                records.extend(joiner.push(piece).unwrap());
            }
        }
        let act = self.enter("submit").await?;
        let mut state = self.state();
        if !state.known.contains(&header.worker) {
            return Err(Status::not_found("has not joined"));
        }
        assert_eq!(
            header.bytes,
            records
                .iter()
                .map(|(_, record)| record.len() as u64)
                .sum::<u64>()
        );
        let before = state.done.len();
        state.done.extend(records);
        state.leases.remove(&header.lease);
        let verdict = if state.done.len() > before {
            submit_reply::Verdict::Accepted(v1::Accepted {})
        } else {
            submit_reply::Verdict::Duplicate(v1::Duplicate {})
        };
        self.changed.notify_waiters();
        answer(
            act,
            v1::SubmitReply {
                verdict: Some(verdict),
            },
        )
    }

    async fn leave(
        &self,
        request: Request<v1::LeaveRequest>,
    ) -> Result<Response<v1::LeaveReply>, Status> {
        let act = self
            .enter_as("leave", request.get_ref().worker, &request)
            .await?;
        let mut state = self.state();
        state.known.remove(&request.get_ref().worker);
        state.left = true;
        answer(act, v1::LeaveReply {})
    }
}
