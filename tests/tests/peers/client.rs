//! A worker made for tests: it does the real work, and may then say whatever it likes.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use chomp_access::Access;
use chomp_kernel::{Evaluator, Isa, Source};
use chomp_proto::PROTOCOL;
use chomp_proto::v1::coordinator_client::CoordinatorClient;
use chomp_proto::v1::{self, lease_reply, submit_reply};
use chomp_table::pieces::{self, Joiner, Piece};
use chomp_table::range::{self, max_record_len};
use chomp_table::sources::sources;
use chomp_table::{Digest, Head, Range, RangeBits};
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

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

/// A new connection with the token of `access`.
pub(crate) async fn connect(access: &Access) -> Rpc {
    let endpoint = Endpoint::from_shared(access.coordinator.clone()).unwrap();
    let channel = endpoint.tcp_nodelay(true).connect().await.unwrap();
    let token = access.token.as_ref().unwrap().secret();
    let authorization = Authorization(format!("Bearer {token}").parse().unwrap());
    CoordinatorClient::with_interceptor(channel, authorization)
        .max_decoding_message_size(4 << 20)
        .max_encoding_message_size(usize::MAX)
}

/// How many threads it says it has: layers are cut into tasks for them, so that it gets its share.
const THREADS: u32 = 32;

/// What a worker says that may come in.
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
    pub(crate) worker: u64,
    pub(crate) range_bits: RangeBits,
    evaluator: Evaluator,
    /// The sources so far.
    pub(crate) sources: HashMap<Head, Source>,
}

impl Client {
    pub(crate) async fn join(access: &Access, worker: u64, name: &str) -> Client {
        let mut rpc = connect(access).await;
        let reply = rpc.join(hello(worker, name)).await.unwrap().into_inner();
        let range_bits = RangeBits::new(reply.range_bits).unwrap();
        Client {
            rpc,
            worker,
            range_bits,
            evaluator: Evaluator::new(range_bits, Isa::detect()),
            sources: HashMap::new(),
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

    /// The truth about `heads`.
    pub(crate) async fn evaluate(&mut self, heads: &[u64]) -> Result<Vec<Range>, Status> {
        let needed = heads.iter();
        let needed = needed.flat_map(|&head| sources(Head(head), self.range_bits));
        let mut missing: Vec<u64> = needed
            .filter(|head| !self.sources.contains_key(head))
            .map(|head| head.0)
            .collect();
        missing.sort_unstable();
        missing.dedup();
        for heads in missing.chunks(chomp_proto::FETCH_RANGES_MAX) {
            self.fetch(heads).await?;
        }
        let heads = heads.iter().map(|&head| Head(head));
        let ranges = heads.map(|head| self.evaluator.evaluate(head, &self.sources).unwrap());
        Ok(ranges.collect())
    }

    async fn fetch(&mut self, heads: &[u64]) -> Result<(), Status> {
        let request = v1::FetchRequest {
            worker: self.worker,
            heads: heads.to_vec(),
        };
        let mut stream = self.rpc.fetch(request).await?.into_inner();
        let mut joiner = Joiner::new(max_record_len(self.range_bits));
        while let Some(message) = stream.message().await? {
            for v1::Piece { head, data, last } in message.pieces {
                let head = Head(head);
                if let Some((head, record)) = joiner.push(Piece { head, data, last }).unwrap() {
                    let (_, range) = range::decode(&record, self.range_bits).unwrap();
                    self.sources.insert(head, Source::new(&range));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn records(&self, ranges: &[Range]) -> Vec<(Head, Bytes)> {
        let encode = |range: &Range| range::encode(range, self.range_bits).1.into();
        let records = ranges.iter().map(|range| (range.head, encode(range)));
        records.collect()
    }

    /// Hands in records as a worker should.
    pub(crate) async fn submit(
        &mut self,
        lease: u64,
        records: Vec<(Head, Bytes)>,
    ) -> Result<submit_reply::Verdict, Status> {
        let bytes = records.iter().map(|(_, record)| record.len() as u64).sum();
        self.send(messages(self.worker, lease, bytes, records))
            .await
    }

    /// Sends a submission as it is.
    pub(crate) async fn send(
        &mut self,
        messages: Vec<v1::SubmitRequest>,
    ) -> Result<submit_reply::Verdict, Status> {
        let reply = self.rpc.submit(tokio_stream::iter(messages)).await?;
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

/// A submission that says of itself that it has so many bytes.
pub(crate) fn messages(
    worker: u64,
    lease: u64,
    bytes: u64,
    records: Vec<(Head, Bytes)>,
) -> Vec<v1::SubmitRequest> {
    let wire = |Piece { head, data, last }| v1::Piece {
        head: head.0,
        data,
        last,
    };
    let header = v1::SubmitRequest {
        header: Some(v1::SubmitHeader {
            worker,
            lease,
            bytes,
        }),
        pieces: Vec::new(),
    };
    let pieces = pieces::cut(records).map(|message| v1::SubmitRequest {
        header: None,
        pieces: message.into_iter().map(wire).collect(),
    });
    std::iter::once(header).chain(pieces).collect()
}
