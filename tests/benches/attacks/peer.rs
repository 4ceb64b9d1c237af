//! A connection to the coordinator from an address of one's own: calls, objects and pages go over it.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::Bytes;
use chomp_access::Access;
use chomp_proto::v1::coordinator_client::CoordinatorClient;
use chomp_proto::v1::{self, lease_reply};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use tonic::body::Body;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Status};
use tower::{Service, ServiceExt};

/// The error of a request.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The least that HTTP/2 has: who reads nothing takes no more than this.
const WINDOW: u32 = (1 << 16) - 1;
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(20);

pub(crate) type Rpc = CoordinatorClient<InterceptedService<Channel, Shown>>;

/// The token, shown with each call, if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Shown(Option<AsciiMetadataValue>);

impl Interceptor for Shown {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        if let Some(value) = &self.0 {
            let value = value.clone();
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

/// One connection. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) rpc: Rpc,
    channel: Channel,
    bearer: Option<String>,
}

/// The addresses of this machine that an attacker has. Honest peers have another.
pub(crate) fn address(number: usize) -> IpAddr {
    let last = u8::try_from(number % 8 + 1).expect("below 9");
    Ipv4Addr::new(127, 0, 1, last).into()
}

impl Peer {
    /// A new connection from an address, or from where the system says.
    pub(crate) async fn connect(access: &Access, from: Option<IpAddr>) -> Result<Peer, BoxError> {
        let mut endpoint = Endpoint::from_shared(access.coordinator.clone())?
            .tcp_nodelay(true)
            .local_address(from)
            .connect_timeout(CONNECT)
            .initial_stream_window_size(WINDOW)
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
        Ok(Peer {
            rpc,
            channel,
            bearer,
        })
    }

    /// The head of the answer to a request, and what follows it.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Result<Response<Body>, BoxError> {
        let mut request = Request::builder().method(method).uri(path);
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
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("{path}: {status}").into());
        }
        Ok(answer.into_body().collect().await?.to_bytes())
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

/// Whether a call was refused because there is too much of its kind: honest peers wait then.
pub(crate) fn is_busy(status: &Status) -> bool {
    status.code() == Code::ResourceExhausted
}
