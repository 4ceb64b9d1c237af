//! The HTTP client of buckets: it follows no redirection, and limits the bytes of each answer that is no object.
//!
//! After a redirection the next request would carry the credentials to another server.

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt, Limited};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions, Error};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};

/// The most bytes of an answer that is no object: a page of a listing has a thousand names.
const PAGE_BYTES_MAX: usize = 16 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
pub(super) struct ClientConnector {
    pub(super) timeout: Duration,
    /// Whether the server is on this machine, to which no proxy leads.
    pub(super) is_local: bool,
}

impl ClientConnector {
    /// A connector to the server at `endpoint`, or to the usual servers of a service if none.
    pub(super) fn new(endpoint: Option<&str>, timeout: Duration) -> ClientConnector {
        let host = endpoint.and_then(|url| Url::parse(url).ok()?.host_str().map(str::to_owned));
        let is_local = host.is_some_and(|host| {
            let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
            host == "localhost" || address.is_ok_and(|address| address.is_loopback())
        });
        ClientConnector { timeout, is_local }
    }
}

#[derive(Debug)]
struct Bounded(Client);

impl HttpConnector for ClientConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = client(options, *self).map_err(|source| Error::Generic {
            store: "bucket",
            source: source.into(),
        })?;
        Ok(HttpClient::new(Bounded(client)))
    }
}

/// A client as these options want it, of which the environment sets some.
fn client(options: &ClientOptions, connector: ClientConnector) -> reqwest::Result<Client> {
    let is_set = |key| {
        options
            .get_config_value(&key)
            .is_some_and(|value| value == "true")
    };
    let mut builder = Client::builder()
        .user_agent(concat!("chomp/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .http1_only()
        .https_only(!is_set(ClientConfigKey::AllowHttp))
        .danger_accept_invalid_certs(is_set(ClientConfigKey::AllowInvalidCertificates))
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(connector.timeout);
    if connector.is_local {
        builder = builder.no_proxy();
    }
    builder.build()
}

#[async_trait]
impl HttpService for Bounded {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_object = request.method().as_str() == "GET" && request.uri().query().is_none();
        let answer = HttpService::call(&self.0, request).await?;
        // An object needs no limit here: its reader stops after the bytes that it asked for. Other answers need one.
        let most = if is_object && answer.status().is_success() {
            usize::MAX
        } else {
            PAGE_BYTES_MAX
        };
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, most);
        let body = body.map_err(|source| match source.downcast::<HttpError>() {
            Ok(error) => *error,
            Err(source) => HttpError::new_boxed(HttpErrorKind::Decode, source),
        });
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}
