//! A worker made for tests: it does the real work, and may then say whatever it likes.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use chomp_access::Access;
use chomp_kernel::{Evaluator, Isa, Source};
use chomp_proto::v1::complete_request::Result as Said;
use chomp_proto::v1::coordinator_client::CoordinatorClient;
use chomp_proto::v1::task::Work;
use chomp_proto::v1::{self, complete_reply, lease_reply};
use chomp_proto::{OBJECTS_PATH, PROTOCOL, WORKER_HEADER};
use chomp_store::location::Location;
use chomp_store::merge::{Cut, Merger};
use chomp_store::part::{PartBuilder, read_record};
use chomp_store::{Follower, Key, Merged, PartName, Placed, Storage};
use chomp_table::shard::ShardSize;
use chomp_table::sources::sources;
use chomp_table::{Digest, Head, Range, RangeBits, range};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use tonic::body::Body;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};
use tower::{Service, ServiceExt};

pub(crate) type Rpc = CoordinatorClient<InterceptedService<Channel, Authorization>>;

/// Adds the token to each call.
#[derive(Clone, Debug)]
pub(crate) struct Authorization(AsciiMetadataValue);

impl Interceptor for Authorization {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request
            .metadata_mut()
            .insert("authorization", self.0.clone());
        Ok(request)
    }
}

/// The objects of the store, through the coordinator.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    channel: Channel,
    authorization: String,
}

/// A new connection with the token of `access`.
pub(crate) async fn connect(access: &Access) -> (Rpc, Objects) {
    let mut endpoint = Endpoint::from_shared(access.coordinator.clone()).unwrap();
    if let Some(ca) = &access.ca {
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
        endpoint = endpoint.tls_config(tls).unwrap();
    }
    let channel = endpoint.tcp_nodelay(true).connect().await.unwrap();
    let token = access.token.as_ref().unwrap().secret();
    let objects = Objects {
        channel: channel.clone(),
        authorization: format!("Bearer {token}"),
    };
    let authorization = Authorization(objects.authorization.parse().unwrap());
    let rpc = CoordinatorClient::with_interceptor(channel, authorization)
        .max_decoding_message_size(4 << 20)
        .max_encoding_message_size(usize::MAX);
    (rpc, objects)
}

impl Objects {
    /// The status and the body of the answer to a request for an object.
    pub(crate) async fn ask(
        &self,
        method: Method,
        key: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
        let response = self.begin(method, key, headers, body).await?;
        let (parts, body) = response.into_parts();
        Ok((parts.status, body.collect().await?.to_bytes()))
    }

    /// The answer to a request for an object, before its body is read.
    pub(crate) async fn begin(
        &self,
        method: Method,
        key: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Result<http::Response<Body>, Box<dyn std::error::Error + Send + Sync>> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{OBJECTS_PATH}{key}"))
            .header("authorization", &self.authorization);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut channel = self.channel.clone();
        Ok(channel.ready().await?.call(request.body(body)?).await?)
    }

    /// Puts an object as a worker should.
    pub(crate) async fn put(&self, worker: u64, key: &Key, bytes: Bytes) -> (StatusCode, String) {
        let (worker, length) = (worker.to_string(), bytes.len().to_string());
        let headers = [
            (WORKER_HEADER, &*worker),
            ("content-length", &*length),
            ("if-none-match", "*"),
        ];
        let body = Body::new(Full::new(bytes));
        let put = self.ask(Method::PUT, key.as_str(), &headers, body);
        let (status, text) = put.await.expect("an answer");
        (status, String::from_utf8_lossy(&text).into_owned())
    }
}

/// How many threads it says it has: layers are cut into tasks for them, so that it gets its share.
const THREADS: u32 = 32;

/// A result of one range that is none of the lease.
pub(crate) fn false_result(worker: u64, lease: u64) -> v1::CompleteRequest {
    let range = v1::Summary {
        head: 1,
        count: 1,
        stored: 1,
        digest: vec![7; 32],
        offset: 16,
        length: 16,
    };
    let ranges = vec![range];
    v1::CompleteRequest {
        worker,
        lease,
        result: Some(Said::Evaluated(v1::Evaluated { ranges })),
        next: false,
    }
}

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
    pub(crate) rpc: Rpc,
    pub(crate) objects: Objects,
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
        let (mut rpc, objects) = connect(access).await;
        let reply = rpc.join(hello(worker, name)).await.unwrap().into_inner();
        let range_bits = RangeBits::new(reply.range_bits).unwrap();
        let store = Location::parse(&reply.store).unwrap();
        let storage = store.open_view().unwrap();
        let checkpoint = Some(reply.checkpoint).filter(|&number| number > 0);
        Client {
            rpc,
            objects,
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
        match self.rpc.lease(v1::LeaseRequest { worker }).await {
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
        let place = *self.journal.ledger().place(head)?;
        if self.digests.get(&head) != Some(&place.digest) {
            let record = read_record(&*self.storage, head, &place).await.ok()?;
            let source = Source::decode(&record, self.range_bits).unwrap();
            self.sources.insert(head, source);
            self.digests.insert(head, place.digest);
        }
        Some(())
    }

    /// The truth about a shard of the table of `bits` bits.
    pub(crate) async fn merge(&mut self, task: &v1::Task, bits: u32) -> (Merged, Bytes) {
        let Some(Work::Merge(merge)) = &task.work else {
            panic!("{task:?} is no merge");
        };
        self.journal.catch_up(task.journal).await.unwrap();
        let (ledger, size) = (self.journal.ledger(), ShardSize::PUBLISHED);
        let from = (merge.shard, Head(merge.head), merge.skip);
        let cut = Cut::new(ledger, bits, size.shard_words as u64, from).unwrap();
        let mut filling = Merger::new(bits, self.range_bits, size, cut);
        while let Some(head) = filling.next() {
            let place = ledger.place(head).unwrap();
            let record = read_record(&*self.storage, head, place).await.unwrap();
            let range = range::decode(&record, self.range_bits).unwrap();
            filling.push(head, &range.losing, range.stored).unwrap();
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
        self.say(task, Some(bytes), Some(said)).await
    }

    /// Puts the bytes of a part, if there are any, and says something about the task.
    pub(crate) async fn say(
        &mut self,
        task: &v1::Task,
        bytes: Option<Bytes>,
        result: Option<Said>,
    ) -> Result<complete_reply::Verdict, Status> {
        if let Some(bytes) = bytes {
            let (status, text) = self.objects.put(self.worker, &key_of(task), bytes).await;
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
        let reply = self.rpc.complete(request).await?;
        Ok(reply.into_inner().verdict.unwrap())
    }

    pub(crate) async fn renew(&mut self, leases: Vec<u64>) -> Result<Vec<u64>, Status> {
        let request = v1::RenewRequest {
            worker: self.worker,
            leases,
            stats: None,
        };
        let reply = tokio::time::timeout(Duration::from_secs(30), self.rpc.renew(request));
        let reply = reply.await.map_err(|_| Status::unavailable("no answer"))?;
        Ok(reply?.into_inner().lost)
    }

    pub(crate) async fn give_back(&mut self, lease: u64) -> Result<(), Status> {
        let request = v1::ReturnRequest {
            worker: self.worker,
            lease,
            failure: String::new(),
        };
        self.rpc.r#return(request).await.map(drop)
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

pub(crate) fn summary(placed: &Placed) -> v1::Summary {
    v1::Summary {
        head: placed.summary.head.0,
        count: placed.summary.count,
        stored: placed.summary.stored,
        digest: placed.summary.digest.0.to_vec(),
        offset: placed.offset,
        length: placed.length,
    }
}
