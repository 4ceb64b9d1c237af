//! One session: the connection, and what the coordinator said when the worker joined.

use std::sync::Arc;
use std::time::Duration;

use chomp_access::Token;
use chomp_proto::PROTOCOL;
use chomp_proto::v1::JoinRequest;
use chomp_proto::v1::coordinator_client::CoordinatorClient;
use chomp_table::{Digest, RangeBits, range};
use http::HeaderValue;
use http::header::AUTHORIZATION;
use tonic::metadata::AsciiMetadataValue;
use tonic::metadata::errors::InvalidMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Status};

use super::{CONTROL, CallFailure, within};
use crate::job::JobDescription;
use crate::transport::{Connector, Transport};

/// No lease lasts longer: a worker is to be heard of within it.
const LEASE_MAX: Duration = Duration::from_hours(1);

/// A connection on which every call is authorised. Clones share it.
pub(crate) type Rpc = CoordinatorClient<InterceptedService<Transport, Authorization>>;

/// How a worker introduces itself when it joins.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    pub(crate) worker: u64,
    pub(crate) name: String,
    pub(crate) threads: u32,
    pub(crate) kernel: Digest,
}

/// A connection, and the job joined over it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) number: u64,
    transport: Transport,
    authorization: Authorization,
    rpc: Rpc,
    pub(crate) job: Arc<JobDescription>,
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

    /// The header with the token, for requests that are no calls.
    fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_bytes(self.0.as_ref()?.as_bytes()).ok()?;
        value.set_sensitive(true);
        Some(value)
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
    ) -> Result<Session, CallFailure> {
        let connected = async { connector.connect().await.map_err(CallFailure::outage) };
        let transport = within(CONTROL, connected).await?;
        let mut rpc = CoordinatorClient::with_interceptor(transport.clone(), authorization.clone());
        let request = JoinRequest {
            protocol: PROTOCOL,
            format: range::VERSION,
            software: concat!("chomp ", env!("CARGO_PKG_VERSION")).to_owned(),
            threads: hello.threads,
            worker: hello.worker,
            name: hello.name.clone(),
            kernel: hello.kernel.0.to_vec(),
        };
        let reply = within(CONTROL, rpc.join(request)).await?.into_inner();
        let range_bits = RangeBits::new(reply.range_bits).ok_or_else(|| {
            CallFailure::Protocol(format!("{} range bits are not possible", reply.range_bits))
        })?;
        if reply.bits > u64::BITS {
            let what = format!("a table of {} bits is not possible", reply.bits);
            return Err(CallFailure::Protocol(what));
        }
        let lease = Duration::from_millis(reply.lease_ms);
        if lease.is_zero() || lease > LEASE_MAX {
            let what = format!("its leases last {} ms", reply.lease_ms);
            return Err(CallFailure::Protocol(what));
        }
        let job = JobDescription {
            bits: reply.bits,
            range_bits,
            table: reply.table,
            lease,
            store: reply.store,
            checkpoint: (reply.checkpoint > 0).then_some(reply.checkpoint),
            epoch: reply.epoch,
        };
        Ok(Session {
            number,
            transport,
            authorization: authorization.clone(),
            rpc,
            job: Arc::new(job),
        })
    }

    /// For calls.
    pub(crate) fn rpc(&self) -> Rpc {
        self.rpc.clone()
    }

    /// Sends a request that is no call, authorised as calls are; returns the head of the answer and
    /// what follows it.
    pub(crate) async fn send(
        &self,
        mut request: http::Request<tonic::body::Body>,
    ) -> Result<http::Response<tonic::body::Body>, Status> {
        if let Some(value) = self.authorization.header() {
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        tower::ServiceExt::oneshot(self.transport.clone(), request).await
    }
}
