//! The worker's side of the protocol. The wire types end here.

use std::time::Duration;

use bytes::Bytes;
use chomp_access::Access;
use chomp_proto::PROTOCOL;
use chomp_proto::v1::coordinator_client::CoordinatorClient;
use chomp_proto::v1::{self, lease_reply, submit_reply};
use chomp_table::pieces::{self, Joiner, Piece, PiecesError};
use chomp_table::range::{self, max_record_len};
use chomp_table::{Head, RangeBits};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// How long to try to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a quiet connection is checked, and how long the answer may take.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// The largest message that is read: a message of pieces and its framing.
const MESSAGE_BYTES_MAX: usize = 2 * pieces::PIECE_BYTES_MAX;

/// A connection to the coordinator, as a worker of its job. Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    rpc: CoordinatorClient<InterceptedService<Channel, Bearer>>,
    url: String,
    worker: u64,
    job: Job,
}

/// What the coordinator says of the job.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The bits of the table.
    pub bits: u32,
    /// The bits of a range.
    pub range_bits: RangeBits,
}

/// A lease, by the coordinator's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId(u64);

/// A leased task.
#[derive(Clone, Debug)]
pub struct Task {
    /// The lease.
    pub lease: LeaseId,
    /// How long the lease lasts unless renewed.
    pub duration: Duration,
    /// The ranges to evaluate, ascending.
    pub heads: Vec<Head>,
}

/// The answer to the request for a task.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A task.
    Task(Task),
    /// Nothing now: ask again.
    Wait,
    /// The job is done.
    Finished,
    /// The job has stopped, for this reason.
    Stopped(String),
}

/// Why the coordinator is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no connection.
    #[error(
        "the coordinator at {url} cannot be reached: check the address, and that it is running"
    )]
    Unreachable {
        /// Its address.
        url: String,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It speaks another version, or does not want this worker.
    #[error("the coordinator at {url} refuses: {reason}")]
    Refused {
        /// Its address.
        url: String,
        /// What it says.
        reason: String,
    },
    /// It says something that it never should.
    #[error("the coordinator at {url} does not keep to the protocol: {what}")]
    Protocol {
        /// Its address.
        url: String,
        /// What is wrong.
        what: String,
    },
}

impl Client {
    /// Connects to the coordinator and joins its job with so many threads.
    ///
    /// # Errors
    ///
    /// If the coordinator cannot be reached or speaks another version.
    pub async fn join(access: &Access, threads: usize) -> Result<Client, ClientError> {
        let url = access.coordinator.as_str();
        let unreachable = |source: tonic::transport::Error| ClientError::Unreachable {
            url: url.to_owned(),
            source: source.into(),
        };
        let endpoint = Endpoint::from_shared(url.to_owned())
            .map_err(unreachable)?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        let channel = endpoint.connect().await.map_err(unreachable)?;
        let mut rpc = CoordinatorClient::with_interceptor(channel, Bearer::new(access)?)
            .max_decoding_message_size(MESSAGE_BYTES_MAX);

        let worker = identity().map_err(|what| ClientError::Protocol {
            url: url.to_owned(),
            what,
        })?;
        let request = v1::JoinRequest {
            protocol: PROTOCOL,
            format: range::VERSION,
            software: concat!("chomp ", env!("CARGO_PKG_VERSION")).to_owned(),
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
            worker,
            name: String::new(),
            kernel: Vec::new(),
        };
        let reply = rpc
            .join(request)
            .await
            .map_err(|status| explain(url, status))?
            .into_inner();
        let range_bits = RangeBits::new(reply.range_bits).ok_or_else(|| ClientError::Protocol {
            url: url.to_owned(),
            what: format!("{} range bits are not possible", reply.range_bits),
        })?;
        let job = Job {
            bits: reply.bits,
            range_bits,
        };
        Ok(Client {
            rpc,
            url: url.to_owned(),
            worker,
            job,
        })
    }

    /// The job.
    pub fn job(&self) -> Job {
        self.job
    }

    /// Asks for a task; waits some seconds at the most.
    ///
    /// # Errors
    ///
    /// If the coordinator is of no use.
    pub async fn lease(&self) -> Result<Answer, ClientError> {
        let request = v1::LeaseRequest {
            worker: self.worker,
        };
        let reply = self
            .rpc
            .clone()
            .lease(request)
            .await
            .map_err(|status| explain(&self.url, status))?;
        match reply.into_inner().answer {
            Some(lease_reply::Answer::Task(task)) => Ok(Answer::Task(Task {
                lease: LeaseId(task.lease),
                duration: Duration::from_millis(task.lease_ms),
                heads: task.heads.into_iter().map(Head).collect(),
            })),
            Some(lease_reply::Answer::Wait(v1::Wait {})) => Ok(Answer::Wait),
            Some(lease_reply::Answer::Finished(v1::Finished {})) => Ok(Answer::Finished),
            Some(lease_reply::Answer::Stopped(v1::Stopped { reason })) => {
                Ok(Answer::Stopped(reason))
            }
            None => Err(self.broken("an answer without content".to_owned())),
        }
    }

    /// Keeps leases alive; returns those that no longer stand.
    ///
    /// # Errors
    ///
    /// If the coordinator is of no use.
    pub async fn renew(&self, leases: Vec<LeaseId>) -> Result<Vec<LeaseId>, ClientError> {
        let leases = leases.into_iter().map(|lease| lease.0).collect();
        let request = v1::RenewRequest {
            worker: self.worker,
            leases,
            stats: None,
        };
        let reply = self
            .rpc
            .clone()
            .renew(request)
            .await
            .map_err(|status| explain(&self.url, status))?;
        Ok(reply.into_inner().lost.into_iter().map(LeaseId).collect())
    }

    /// Gives a lease back; `failure` is empty unless the task cannot be done here.
    ///
    /// # Errors
    ///
    /// If the coordinator is of no use.
    pub async fn give_back(&self, lease: LeaseId, failure: String) -> Result<(), ClientError> {
        let request = v1::ReturnRequest {
            worker: self.worker,
            lease: lease.0,
            failure,
        };
        self.rpc
            .clone()
            .r#return(request)
            .await
            .map_err(|status| explain(&self.url, status))?;
        Ok(())
    }

    /// Fetches the records of `heads`.
    ///
    /// # Errors
    ///
    /// If the coordinator is of no use.
    pub async fn fetch(&self, heads: Vec<Head>) -> Result<Vec<(Head, Bytes)>, ClientError> {
        if heads.is_empty() {
            return Ok(Vec::new());
        }
        let request = v1::FetchRequest {
            worker: self.worker,
            heads: heads.iter().map(|head| head.0).collect(),
        };
        let reply = self
            .rpc
            .clone()
            .fetch(request)
            .await
            .map_err(|status| explain(&self.url, status))?;
        let mut stream = reply.into_inner();
        let mut joiner = Joiner::new(max_record_len(self.job.range_bits));
        let mut records = Vec::with_capacity(heads.len());
        let broken = |error: PiecesError| self.broken(error.to_string());
        while let Some(message) = stream
            .message()
            .await
            .map_err(|status| explain(&self.url, status))?
        {
            for v1::Piece { head, data, last } in message.pieces {
                records.extend(
                    joiner
                        .push(Piece {
                            head: Head(head),
                            data,
                            last,
                        })
                        .map_err(broken)?,
                );
            }
        }
        joiner.finish().map_err(broken)?;
        if !records.iter().map(|(head, _)| *head).eq(heads) {
            return Err(self.broken("it sent other ranges than it was asked for".to_owned()));
        }
        Ok(records)
    }

    /// Submits the records of a task; returns when they are on disk.
    ///
    /// # Errors
    ///
    /// If the coordinator is of no use, or rejects the result.
    pub async fn submit(
        &self,
        lease: LeaseId,
        records: Vec<(Head, Bytes)>,
    ) -> Result<(), ClientError> {
        let header = v1::SubmitHeader {
            worker: self.worker,
            lease: lease.0,
            bytes: records.iter().map(|(_, record)| record.len() as u64).sum(),
        };
        let header = v1::SubmitRequest {
            header: Some(header),
            pieces: Vec::new(),
        };
        let pieces = pieces::cut(records).map(|message| v1::SubmitRequest {
            header: None,
            pieces: message
                .into_iter()
                .map(|Piece { head, data, last }| v1::Piece {
                    head: head.0,
                    data,
                    last,
                })
                .collect(),
        });
        let messages =
            tokio_stream::iter(std::iter::once(header).chain(pieces).collect::<Vec<_>>());
        let reply = self
            .rpc
            .clone()
            .submit(messages)
            .await
            .map_err(|status| explain(&self.url, status))?;
        match reply.into_inner().verdict {
            Some(submit_reply::Verdict::Rejected(v1::Rejected { reason })) => {
                Err(ClientError::Refused {
                    url: self.url.clone(),
                    reason,
                })
            }
            Some(_) => Ok(()),
            None => Err(self.broken("a verdict without content".to_owned())),
        }
    }

    /// Leaves the job.
    ///
    /// # Errors
    ///
    /// If the coordinator is of no use.
    pub async fn leave(&self) -> Result<(), ClientError> {
        let request = v1::LeaveRequest {
            worker: self.worker,
        };
        self.rpc
            .clone()
            .leave(request)
            .await
            .map_err(|status| explain(&self.url, status))?;
        Ok(())
    }

    fn broken(&self, what: String) -> ClientError {
        ClientError::Protocol {
            url: self.url.clone(),
            what,
        }
    }
}

/// Shows the token with each call.
#[derive(Clone, Debug)]
struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    fn new(access: &Access) -> Result<Bearer, ClientError> {
        let Some(token) = &access.token else {
            return Ok(Bearer(None));
        };
        let shown = format!("Bearer {}", token.secret());
        let mut shown = MetadataValue::try_from(shown).map_err(|_| ClientError::Refused {
            url: access.coordinator.clone(),
            reason: "the token has characters that no token has".to_owned(),
        })?;
        shown.set_sensitive(true);
        Ok(Bearer(Some(shown)))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(shown) = &self.0 {
            let metadata = request.metadata_mut();
            metadata.insert("authorization", shown.clone());
        }
        Ok(request)
    }
}

/// A number that no other worker has.
fn identity() -> Result<u64, String> {
    let bytes = ring::rand::generate::<[u8; 8]>(&ring::rand::SystemRandom::new());
    let bytes = bytes.map_err(|_| "the system gives no random numbers".to_owned())?;
    Ok(u64::from_le_bytes(bytes.expose()))
}

/// What a failed call means.
fn explain(url: &str, status: Status) -> ClientError {
    let url = url.to_owned();
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Unknown => {
            ClientError::Unreachable {
                url,
                source: status.into(),
            }
        }
        _ => ClientError::Refused {
            url,
            reason: status.message().to_owned(),
        },
    }
}
