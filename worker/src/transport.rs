//! How calls reach the coordinator: over a connection to an address, in this process, or as a simulation has it.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use chomp_access::Access;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

/// How long to try to connect, TLS not counted.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a quiet connection is checked, and how long the answer may take.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A connection. Clones share it.
pub type Transport = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Status>;

/// Makes connections to the coordinator.
#[tonic::async_trait]
pub trait Connector: fmt::Debug + Send + Sync {
    /// A new connection. Fails if there is none to be had now.
    async fn connect(&self) -> Result<Transport, BoxError>;
}

/// The coordinator at an address, with TLS if the address begins with `https`.
#[derive(Debug)]
pub(crate) struct Remote {
    endpoint: Endpoint,
}

impl Remote {
    /// Fails, with a reason, if the address of `access` cannot be used. Divides the usual times by `haste`.
    pub(crate) fn new(access: &Access, haste: u32) -> Result<Remote, BoxError> {
        if !access.coordinator.is_ascii() {
            return Err("it has letters that are not ASCII: write the name as xn--…".into());
        }
        let mut endpoint = Endpoint::from_shared(access.coordinator.clone())?
            .connect_timeout(CONNECT_TIMEOUT / haste)
            .http2_keep_alive_interval(KEEPALIVE / haste)
            .keep_alive_timeout(KEEPALIVE / haste)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        match endpoint.uri().scheme_str() {
            Some("http") if access.ca.is_some() => {
                return Err(
                    "the access file has a certificate, so the address begins with https://: \
                     nothing is said in the clear"
                        .into(),
                );
            }
            Some("http") => {}
            Some("https") => {
                let ca = access.ca.as_deref().ok_or(
                    "an https address needs the certificate of the coordinator's authority, which its access file has: give it with --access FILE",
                )?;
                let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
                endpoint = endpoint.tls_config(tls)?;
            }
            _ => return Err("an address begins with http:// or https://".into()),
        }
        Ok(Remote { endpoint })
    }
}

#[tonic::async_trait]
impl Connector for Remote {
    async fn connect(&self) -> Result<Transport, BoxError> {
        let channel = self.endpoint.connect().await?;
        Ok(Transport::new(
            channel.map_err(|error| Status::from_error(error.into())),
        ))
    }
}

/// The coordinator in this process, which answers calls without a connection.
#[derive(Clone, Debug)]
pub struct InProcess(Transport);

impl InProcess {
    /// The coordinator with this service for its calls.
    pub fn new<S>(calls: S) -> InProcess
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
    {
        InProcess(Transport::new(calls.map_err(|never| match never {})))
    }
}

#[tonic::async_trait]
impl Connector for InProcess {
    async fn connect(&self) -> Result<Transport, BoxError> {
        Ok(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_used_are_refused_with_a_reason() {
        let refused = |url: &str, ca: Option<&str>| {
            let access = Access {
                coordinator: url.to_owned(),
                ca: ca.map(str::to_owned),
                token: None,
            };
            Remote::new(&access, 1).err().map(|error| error.to_string())
        };
        assert_eq!(refused("http://127.0.0.1:7171", None), None);
        for (url, ca, what) in [
            ("https://host:7171", None, "access file"),
            ("host:7171", None, "begins with http"),
            ("ftp://host", None, "begins with http"),
            ("http://host:7171", Some("a certificate"), "in the clear"),
            ("HTTP://host:7171", Some("a certificate"), "in the clear"),
            ("http://a b", None, "invalid"),
            ("http://höst:7171", None, "ASCII"),
        ] {
            let reason = refused(url, ca).expect(url);
            assert!(reason.contains(what), "{url}: {reason}");
        }
    }
}
