//! One session: the connections, and what the coordinator said when the worker joined.

use std::time::Duration;

use chomp_access::Token;
use chomp_proto::PROTOCOL;
use chomp_proto::v1::JoinRequest;
use chomp_proto::v1::coordinator_client::CoordinatorClient;
use chomp_table::pieces::PIECE_BYTES_MAX;
use chomp_table::{Digest, RangeBits, range};
use tonic::metadata::AsciiMetadataValue;
use tonic::metadata::errors::InvalidMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Status};

use super::{CONTROL, Failure, within};
use crate::client::Job;
use crate::transport::{Connector, Transport};

/// The largest message that is read: a message of pieces and its framing.
const MESSAGE_BYTES_MAX: usize = 2 * PIECE_BYTES_MAX;

/// A connection on which every call is authorised. Clones share it.
pub(crate) type Rpc = CoordinatorClient<InterceptedService<Transport, Authorization>>;

/// What a worker says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    pub(crate) worker: u64,
    pub(crate) name: String,
    pub(crate) threads: u32,
    pub(crate) kernel: Digest,
}

/// Two connections, and the job joined over them.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) number: u64,
    control: Rpc,
    data: Rpc,
    pub(crate) job: Job,
}

/// Adds the token to each call. It is not shown when printed for debugging.
#[derive(Clone, Debug)]
pub(crate) struct Authorization(Option<AsciiMetadataValue>);

impl Authorization {
    pub(crate) fn new(token: Option<&Token>) -> Result<Authorization, InvalidMetadataValue> {
        let value = |token: &Token| {
            let mut value: AsciiMetadataValue = format!("Bearer {}", token.secret()).parse()?;
            value.set_sensitive(true);
            Ok(value)
        };
        token.map(value).transpose().map(Authorization)
    }
}

impl Interceptor for Authorization {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", value.clone());
        }
        Ok(request)
    }
}

impl Session {
    /// Connects and joins.
    pub(crate) async fn join(
        number: u64,
        connector: &dyn Connector,
        authorization: &Authorization,
        hello: &Hello,
    ) -> Result<Session, Failure> {
        let connect = async || {
            let connected = async { connector.connect().await.map_err(Failure::outage) };
            let transport = within(CONTROL, connected).await?;
            let rpc = CoordinatorClient::with_interceptor(transport, authorization.clone());
            Ok::<Rpc, Failure>(rpc.max_decoding_message_size(MESSAGE_BYTES_MAX))
        };
        let (mut control, data) = (connect().await?, connect().await?);
        let request = JoinRequest {
            protocol: PROTOCOL,
            format: range::VERSION,
            software: concat!("chomp ", env!("CARGO_PKG_VERSION")).to_owned(),
            threads: hello.threads,
            worker: hello.worker,
            name: hello.name.clone(),
            kernel: hello.kernel.0.to_vec(),
        };
        let reply = within(CONTROL, control.join(request)).await?.into_inner();
        let range_bits = RangeBits::new(reply.range_bits).ok_or_else(|| {
            Failure::Protocol(format!("{} range bits are not possible", reply.range_bits))
        })?;
        if reply.lease_ms == 0 {
            return Err(Failure::Protocol("its leases last no time".to_owned()));
        }
        let job = Job {
            bits: reply.bits,
            range_bits,
            table: reply.table,
            lease: Duration::from_millis(reply.lease_ms),
        };
        Ok(Session {
            number,
            control,
            data,
            job,
        })
    }

    /// The connection for all but records.
    pub(crate) fn control(&self) -> Rpc {
        self.control.clone()
    }

    /// The connection for records.
    pub(crate) fn data(&self) -> Rpc {
        self.data.clone()
    }
}
