//! A worker made for tests: it does the real work, and may then say whatever it likes.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use chomp_access::Access;
use chomp_kernel::{Evaluator, Isa, Source};
use chomp_proto::v1::complete_request::Result as Said;
use chomp_proto::v1::coordinator_client::CoordinatorClient;
use chomp_proto::v1::task::Work;
use chomp_proto::v1::{self, complete_reply, lease_reply};
use chomp_proto::{OBJECTS_PATH, PROTOCOL, WORKER_HEADER};
use chomp_store::location::StoreLocation;
use chomp_store::merge::{Merger, ShardBounds};
use chomp_store::part::{PartBuilder, read_record};
use chomp_store::{Follower, Key, PartName, PlacedRange, ShardSummary, Storage};
use chomp_table::shard::ShardSize;
use chomp_table::sources::sources;
use chomp_table::{Digest, Head, Range, RangeBits, range};
use chomp_testing::waiting::{HANG, arrives};
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use tokio_stream::StreamExt;
use tonic::body::Body;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};
use tower::{Service, ServiceExt};

pub(crate) type Rpc = CoordinatorClient<InterceptedService<Channel, Shown>>;

/// The error of a request.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The least that HTTP/2 has: who reads nothing takes no more than this.
const WINDOW: u32 = (1 << 16) - 1;

/// The token, shown with each call, if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Shown(Option<AsciiMetadataValue>);

impl Interceptor for Shown {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            let value = value.clone();
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

/// A connection to a coordinator: calls, objects and pages go over it. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) rpc: Rpc,
    channel: Channel,
    bearer: Option<String>,
}

/// A new connection with the token of `access`.
pub(crate) async fn connect(access: &Access) -> Link {
    let link = Link::open(access).await;
    link.expect("a coordinator that listens")
}

impl Link {
    pub(crate) async fn open(access: &Access) -> Result<Link, BoxError> {
        Link::open_from(access, Ipv4Addr::LOCALHOST, WINDOW).await
    }

    /// A connection from this address, which takes so many bytes of an answer that is not read.
    pub(crate) async fn open_from(
        access: &Access,
        from: Ipv4Addr,
        window: u32,
    ) -> Result<Link, BoxError> {
        let mut endpoint = Endpoint::from_shared(access.coordinator.clone())?
            .tcp_nodelay(true)
            .local_address(Some(from.into()))
            .connect_timeout(HANG)
            .initial_stream_window_size(window)
            .initial_connection_window_size(WINDOW);
        if let Some(ca) = &access.ca {
            let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
            endpoint = endpoint.tls_config(tls)?;
        }
        let channel = endpoint.connect().await?;
        let token = access.token.as_ref();
        let bearer = token.map(|token| format!("Bearer {}", token.secret()));
        let shown = bearer.as_ref().map(|bearer| bearer.parse()).transpose()?;
        let rpc = CoordinatorClient::with_interceptor(channel.clone(), Shown(shown))
            .max_encoding_message_size(usize::MAX);
        Ok(Link {
            rpc,
            channel,
            bearer,
        })
    }

    /// The answer to a request, before its body is read.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Result<Response<Body>, BoxError> {
        let mut request = http::Request::builder().method(method).uri(path);
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", bearer);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut channel = self.channel.clone();
        Ok(channel.ready().await?.call(request.body(body)?).await?)
    }

    /// All of an answer with status 200 or 206.
    pub(crate) async fn get(
        &self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Bytes, BoxError> {
        let answer = self.ask(Method::GET, path, headers, Body::empty()).await?;
        let (status, bytes) = all(answer).await?;
        if !status.is_success() {
            return Err(format!("{path}: {status}").into());
        }
        Ok(bytes)
    }

    /// Announces an object of so many bytes as a worker should, and sends this of it.
    pub(crate) async fn announce(
        &self,
        worker: u64,
        key: &Key,
        bytes: u64,
        body: Body,
    ) -> Result<(StatusCode, Bytes), BoxError> {
        let (worker, length) = (worker.to_string(), bytes.to_string());
        let headers = [
            (WORKER_HEADER, &*worker),
            ("content-length", &*length),
            ("if-none-match", "*"),
        ];
        let path = format!("{OBJECTS_PATH}{key}");
        all(self.ask(Method::PUT, &path, &headers, body).await?).await
    }

    /// Puts an object as a worker should.
    pub(crate) async fn put(&self, worker: u64, key: &Key, bytes: Bytes) -> (StatusCode, String) {
        let length = bytes.len() as u64;
        let put = self.announce(worker, key, length, Body::new(Full::new(bytes)));
        let (status, text) = put.await.expect("an answer");
        (status, String::from_utf8_lossy(&text).into_owned())
    }

    /// A task for a worker, if there is one for it.
    pub(crate) async fn lease(&mut self, worker: u64) -> Result<Option<v1::Task>, Status> {
        let reply = self.rpc.lease(v1::LeaseRequest { worker }).await?;
        Ok(match reply.into_inner().answer {
            Some(lease_reply::Answer::Task(task)) => Some(task),
            _ => None,
        })
    }
}

/// The status and the body of an answer.
pub(crate) async fn all(answer: Response<Body>) -> Result<(StatusCode, Bytes), BoxError> {
    let (parts, body) = answer.into_parts();
    Ok((parts.status, body.collect().await?.to_bytes()))
}

/// A body of `count` pieces of `bytes` bytes each, which is never complete unless it `ends`.
pub(crate) fn pieces(count: usize, bytes: usize, ends: bool) -> Body {
    let piece = Bytes::from(vec![0; bytes]);
    let pieces = tokio_stream::iter(vec![piece; count]);
    let frames = pieces.map(|piece| Ok::<_, Status>(Frame::data(piece)));
    if ends {
        Body::new(StreamBody::new(frames))
    } else {
        Body::new(StreamBody::new(frames.chain(tokio_stream::pending())))
    }
}

/// A heartbeat.
pub(crate) fn renewal(worker: u64, leases: Vec<u64>) -> v1::RenewRequest {
    v1::RenewRequest { worker, leases }
}

/// A lease that is handed back, with what went wrong, if anything did.
pub(crate) fn back(worker: u64, lease: u64, failure: String) -> v1::ReturnRequest {
    v1::ReturnRequest {
        worker,
        lease,
        failure,
    }
}

/// How many threads it says it has: layers are cut into tasks for them, so that it gets its share.
const THREADS: u32 = 32;

/// A request to join that the coordinator accepts.
pub(crate) fn hello(worker: u64, name: &str) -> v1::JoinRequest {
    static KERNEL: OnceLock<Digest> = OnceLock::new();
    let kernel = KERNEL.get_or_init(|| chomp_kernel::fingerprint(Isa::detect()));
    v1::JoinRequest {
        protocol: PROTOCOL,
        format: range::VERSION,
        software: "a test".to_owned(),
        threads: THREADS,
        worker,
        name: name.to_owned(),
        kernel: kernel.0.to_vec(),
    }
}

/// The answer to a request for a task.
#[derive(Clone, Debug)]
pub(crate) enum Offer {
    Task(v1::Task),
    Wait,
    /// The job is done.
    Finished,
    /// There is nothing more for this worker.
    Refused(Status),
}

/// A worker that has joined.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) link: Link,
    pub(crate) worker: u64,
    pub(crate) range_bits: RangeBits,
    storage: Arc<dyn Storage>,
    pub(crate) journal: Follower,
    evaluator: Evaluator,
    /// The sources so far, and the digests of their records.
    sources: HashMap<Head, Source>,
    digests: HashMap<Head, Digest>,
}

impl Client {
    pub(crate) async fn join(access: &Access, worker: u64, name: &str) -> Client {
        let mut link = connect(access).await;
        let reply = link.rpc.join(hello(worker, name)).await.unwrap();
        let reply = reply.into_inner();
        let range_bits = RangeBits::new(reply.range_bits).unwrap();
        let store = StoreLocation::parse(&reply.store).unwrap();
        let storage = store.open_view().unwrap();
        let checkpoint = Some(reply.checkpoint).filter(|&number| number > 0);
        Client {
            link,
            worker,
            range_bits,
            journal: Follower::open(storage.clone(), checkpoint).await.unwrap(),
            storage,
            evaluator: Evaluator::new(range_bits, Isa::detect()),
            sources: HashMap::new(),
            digests: HashMap::new(),
        }
    }

    pub(crate) async fn lease(&mut self) -> Offer {
        let worker = self.worker;
        // A coordinator that has ended wants nothing any more.
        match self.link.rpc.lease(v1::LeaseRequest { worker }).await {
            Err(status) => Offer::Refused(status),
            Ok(reply) => match reply.into_inner().answer.unwrap() {
                lease_reply::Answer::Task(task) => Offer::Task(task),
                lease_reply::Answer::Wait(_) => Offer::Wait,
                lease_reply::Answer::Finished(_) => Offer::Finished,
                lease_reply::Answer::Stopped(stopped) => {
                    Offer::Refused(Status::unavailable(stopped.reason))
                }
            },
        }
    }

    /// The truth about `heads`, whose sources are all known to the journal below segment `journal`. None
    /// if a source is lost.
    pub(crate) async fn evaluate(&mut self, heads: &[u64], journal: u64) -> Option<Vec<Range>> {
        self.journal.catch_up(journal).await.unwrap();
        for &head in heads {
            for source in sources(Head(head), self.range_bits) {
                self.fetch(source).await?;
            }
        }
        let heads = heads.iter().map(|&head| Head(head));
        let ranges = heads.map(|head| self.evaluator.evaluate(head, &self.sources).unwrap());
        Some(ranges.collect())
    }

    async fn fetch(&mut self, head: Head) -> Option<()> {
        let row = *self.journal.ledger().range(head)?;
        if self.digests.get(&head) != Some(&row.digest) {
            let record = read_record(&*self.storage, head, &row).await.ok()?;
            let source = Source::decode(&record, self.range_bits).unwrap();
            self.sources.insert(head, source);
            self.digests.insert(head, row.digest);
        }
        Some(())
    }

    /// The truth about a shard of the table of `bits` bits.
    pub(crate) async fn merge(&mut self, task: &v1::Task, bits: u32) -> (ShardSummary, Bytes) {
        let Some(Work::Merge(merge)) = &task.work else {
            panic!("{task:?} is no merge");
        };
        self.journal.catch_up(task.journal).await.unwrap();
        let (ledger, size) = (self.journal.ledger(), ShardSize::PUBLISHED);
        let from = (merge.shard, Head(merge.head), merge.skip);
        let span = ShardBounds::new(ledger, bits, size.shard_words as u64, from).unwrap();
        let mut filling = Merger::new(bits, self.range_bits, size, span);
        while let Some(head) = filling.next_head() {
            let row = ledger.range(head).unwrap();
            let record = read_record(&*self.storage, head, row).await.unwrap();
            let (range, stored) = range::decode_trusting_stored(&record, self.range_bits).unwrap();
            filling.push(head, &range.losing, stored).unwrap();
        }
        let (merged, bytes) = filling.finish().unwrap();
        (merged, bytes.unwrap().into())
    }

    /// The part with these ranges, and what is to be said of it.
    pub(crate) fn part(&self, ranges: &[Range]) -> (Bytes, Vec<v1::Summary>) {
        let mut part = PartBuilder::default();
        for range in ranges {
            let (summary, record) = range::encode(range, self.range_bits);
            part.push(summary, &record);
        }
        let (bytes, placed) = part.finish();
        (bytes, placed.iter().map(summary).collect())
    }

    /// Hands in ranges as a worker should.
    pub(crate) async fn submit(
        &mut self,
        task: &v1::Task,
        ranges: &[Range],
    ) -> Result<complete_reply::Verdict, Status> {
        let (bytes, ranges) = self.part(ranges);
        let said = Said::Evaluated(v1::Evaluated { ranges });
        // Of a check only the result is wanted.
        let is_check = matches!(&task.work, Some(Work::Evaluate(work)) if work.is_check);
        self.say(task, (!is_check).then_some(bytes), Some(said))
            .await
    }

    /// Puts the bytes of a part, if there are any, and says something about the task.
    pub(crate) async fn say(
        &mut self,
        task: &v1::Task,
        bytes: Option<Bytes>,
        result: Option<Said>,
    ) -> Result<complete_reply::Verdict, Status> {
        if let Some(bytes) = bytes {
            let (status, text) = self.link.put(self.worker, &key_of(task), bytes).await;
            if status != StatusCode::CREATED {
                return Err(Status::unknown(format!("{status}: {text}")));
            }
        }
        let request = v1::CompleteRequest {
            worker: self.worker,
            lease: task.lease,
            result,
            next: false,
        };
        let reply = self.link.rpc.complete(request).await?;
        Ok(reply.into_inner().verdict.unwrap())
    }

    pub(crate) async fn renew(&mut self, leases: Vec<u64>) -> Result<Vec<u64>, Status> {
        let reply = self.link.rpc.renew(renewal(self.worker, leases));
        let reply = arrives("an answer to a heartbeat", reply).await?;
        Ok(reply.into_inner().lost)
    }

    pub(crate) async fn give_back(&mut self, lease: u64) -> Result<(), Status> {
        let request = back(self.worker, lease, String::new());
        self.link.rpc.r#return(request).await.map(drop)
    }

    /// Says that it goes.
    pub(crate) async fn leave(&mut self) {
        let worker = self.worker;
        let request = v1::LeaveRequest { worker };
        self.link.rpc.leave(request).await.unwrap();
    }

    /// The first task of the first worker, which is to evaluate ranges, and the truth about these.
    pub(crate) async fn first_task(&mut self) -> (v1::Task, Vec<Range>) {
        let Offer::Task(task) = self.lease().await else {
            panic!("there is a task for the first worker");
        };
        let heads = heads_of(&task).expect("the first task is an evaluation");
        let truth = self.evaluate(heads, task.journal).await;
        let truth = truth.expect("all sources are there");
        (task, truth)
    }
}

/// The ranges of a task, if there are any to be evaluated.
pub(crate) fn heads_of(task: &v1::Task) -> Option<&Vec<u64>> {
    match &task.work {
        Some(Work::Evaluate(evaluate)) => Some(&evaluate.heads),
        _ => None,
    }
}

/// The key of the part of an evaluation.
pub(crate) fn key_of(task: &v1::Task) -> Key {
    let layer = match &task.work {
        Some(Work::Evaluate(evaluate)) => evaluate.layer,
        _ => 0,
    };
    let lease = task.lease;
    PartName { layer, lease }.key()
}

pub(crate) fn summary(placed: &PlacedRange) -> v1::Summary {
    v1::Summary {
        head: placed.summary.head.0,
        count: placed.summary.count,
        stored: placed.summary.stored,
        digest: placed.summary.digest.0.to_vec(),
        offset: placed.offset,
        length: placed.length,
    }
}
