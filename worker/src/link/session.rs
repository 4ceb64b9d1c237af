//! One session: the connection, and what the coordinator said when the worker joined.

use std::sync::Arc;
use std::time::Duration;

use chomp_proto::v1::JoinRequest;
use chomp_proto::v1::coordinator_client::CoordinatorClient;
use chomp_table::RangeBits;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use tonic::Status;
use tonic::body::Body;
use tower::ServiceExt;

use super::{CONTROL_TIMEOUT, CallFailure, within};
use crate::transport::{Connector, Transport};

/// No lease lasts longer: a worker is to be heard of within it.
const LEASE_MAX: Duration = Duration::from_hours(1);

#[derive(Clone, Debug)]
pub(crate) struct JobDescription {
    pub(crate) bits: u32,
    pub(crate) range_bits: RangeBits,
    /// Names the table.
    pub(crate) table: u64,
    /// How long a lease lasts unless renewed.
    pub(crate) lease: Duration,
    /// Where the store is; empty if only the coordinator reaches it.
    pub(crate) store: String,
    /// A checkpoint of the journal to begin with, if there is one.
    pub(crate) checkpoint: Option<u64>,
    /// The segment of the journal with which the coordinator took the table over.
    pub(crate) epoch: u64,
    /// The coordinator's random number; the segment `epoch` has the digest of it.
    pub(crate) coordinator_secret: u64,
}

#[cfg(any(test, feature = "fuzzing"))]
impl JobDescription {
    /// A job of these bits, whose store is the coordinator's.
    pub(crate) fn of(bits: u32, range_bits: RangeBits, table: u64) -> JobDescription {
        JobDescription {
            bits,
            range_bits,
            table,
            lease: Duration::from_secs(30),
            store: String::new(),
            checkpoint: None,
            epoch: 0,
            coordinator_secret: 0,
        }
    }
}

/// A connection on which every request is authorised, and the job joined over it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) number: u64,
    transport: Transport,
    pub(crate) job: Arc<JobDescription>,
}

impl Session {
    /// Connects and joins. `authorization` is the header of all requests of the connection.
    pub(super) async fn join(
        number: u64,
        connector: &dyn Connector,
        authorization: Option<HeaderValue>,
        join_request: JoinRequest,
    ) -> Result<Session, CallFailure> {
        let connected = async { connector.connect().await.map_err(CallFailure::outage) };
        let mut transport = within(CONTROL_TIMEOUT, connected).await?;
        if let Some(header) = authorization {
            let authorize = move |mut request: http::Request<Body>| {
                request.headers_mut().insert(AUTHORIZATION, header.clone());
                request
            };
            transport = Transport::new(transport.map_request(authorize));
        }
        let mut rpc = CoordinatorClient::new(transport.clone());
        let reply = within(CONTROL_TIMEOUT, rpc.join(join_request))
            .await?
            .into_inner();
        let wrong = |what| Err(CallFailure::Protocol(what));
        let Some(range_bits) = RangeBits::new(reply.range_bits) else {
            return wrong(format!("{} range bits are not possible", reply.range_bits));
        };
        if reply.bits > u64::BITS {
            return wrong(format!("a table of {} bits is not possible", reply.bits));
        }
        let lease = Duration::from_millis(reply.lease_ms);
        if lease.is_zero() || lease > LEASE_MAX {
            return wrong(format!("its leases last {} ms", reply.lease_ms));
        }
        let job = JobDescription {
            bits: reply.bits,
            range_bits,
            table: reply.table,
            lease,
            store: reply.store,
            checkpoint: (reply.checkpoint > 0).then_some(reply.checkpoint),
            epoch: reply.epoch,
            coordinator_secret: reply.coordinator,
        };
        Ok(Session {
            number,
            transport,
            job: Arc::new(job),
        })
    }

    /// Sends a request that is no call; returns the head of the answer and what follows it.
    pub(crate) async fn send(
        &self,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, Status> {
        self.transport.clone().oneshot(request).await
    }

    pub(crate) fn rpc(&self) -> CoordinatorClient<Transport> {
        CoordinatorClient::new(self.transport.clone())
    }
}
