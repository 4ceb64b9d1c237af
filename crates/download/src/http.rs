//! The requests to a server, with their limits.
//!
//! A request is repeated when the connection fails or the server answers 5xx or 429, after a pause that grows and has
//! some chance in it, until nothing has come for as long as the patience lasts. Any other refusal ends the download:
//! asking again would not change it. So does an answer that leads to another address: the user has named the server,
//! and the token is for no other.

use std::cmp::Ordering;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use chomp_access::certificate;
use chomp_table::reader::TableName;
use reqwest::header::{
    AUTHORIZATION, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RANGE,
};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;

use crate::Reach;
use crate::error::{DownloadError, Failure, Outage};
use crate::patience::{Contact, Tries};
use crate::proxy::Proxy;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may pause.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of a list of tables: one of each takes 8 KiB.
const LIST_BYTES_MAX: u64 = 64 << 10;
/// The most of a header that is shown.
const HEADER_BYTES_MAX: usize = 200;

/// A server, and how to speak to it.
#[derive(Debug)]
pub(crate) struct TableServer {
    client: Client,
    base: Url,
    proxy: Option<Proxy>,
    contact: Contact,
}

/// Where a table's folder is.
#[derive(Clone, Debug)]
pub(crate) struct TableUrl {
    pub(crate) folder: Url,
    /// Which it is, if the name of the folder tells that.
    pub(crate) table: Option<TableName>,
}

/// The answer to a question that is not about a table.
#[derive(Clone, Debug)]
pub struct ServerReply {
    /// The HTTP status: a success, or a refusal.
    pub status: u16,
    /// The content, no longer than [`ask`] allows.
    pub body: Vec<u8>,
}

/// Asks a server for what is at `path` below its address, at most `bytes_max` bytes. No answer leads to another server.
///
/// # Errors
///
/// If the server cannot be reached, or what is there gives no answer of this kind.
pub async fn ask(reach: Reach, path: &str, bytes_max: u64) -> Result<ServerReply, DownloadError> {
    let server = TableServer::new(&reach)?;
    let url = &server.base.join(path).expect("a plain path can be joined");
    let ask = async || {
        let response = server.send(url, server.get(url)).await?;
        let status = response.status().as_u16();
        let body = server.read(url, response, bytes_max).await?;
        Ok(ServerReply { status, body })
    };
    server.repeat(ask).await
}

/// An entry of a server's list: a table of losing positions by its bits, or one of values by its tiles. Its path is not
/// used: the number tells it.
#[derive(Debug, Deserialize)]
struct ListedTable {
    bits: Option<u32>,
    tiles: Option<u32>,
}

impl ListedTable {
    fn table(&self) -> Option<TableName> {
        let bits = self.bits.map(TableName::Losing);
        let table = bits.or_else(|| self.tiles.map(TableName::Values));
        table.filter(|table| TableName::of(&table.folder()) == Some(*table))
    }
}

impl TableUrl {
    /// The URL of a file, whose name is one that a manifest can have.
    pub(crate) fn file(&self, name: &str) -> Url {
        self.folder.join(name).expect("a plain name can be joined")
    }
}

impl TableServer {
    pub(crate) fn new(reach: &Reach) -> Result<TableServer, DownloadError> {
        let base = parse(&reach.from)?;
        // Fails if the process has one already, which then serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        if let Some(token) = &reach.token {
            let value = format!("Bearer {}", token.secret());
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| DownloadError::Credentials("the token"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let unusable = |_| DownloadError::Credentials("the certificate");
        let mut builder = Client::builder()
            .user_agent(concat!("chomp/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT);
        if let Some(ca) = &reach.ca {
            let certificates = Certificate::from_pem_bundle(ca.as_bytes()).map_err(unusable)?;
            builder = builder.tls_certs_only(certificates);
        }
        let proxy = Proxy::of(&base, reach.ca.is_some());
        if proxy.is_none() {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(unusable)?;
        if reach.ca.is_some() && base.scheme() != "https" {
            let what = "the access file has a certificate, so it starts with https://".to_owned();
            let url = reach.from.clone();
            return Err(DownloadError::Url { url, what });
        }
        let place = shown(&base, proxy.as_ref());
        Ok(TableServer {
            client,
            base,
            proxy,
            contact: Contact::new(place, reach.patience),
        })
    }

    /// Finds the table whose folder the server's address is, or else the [first](TableName::first) that it lists.
    pub(crate) async fn find_table(&self) -> Result<TableUrl, DownloadError> {
        let base = &self.base;
        let name = base
            .path_segments()
            .and_then(|mut it| it.rfind(|it| !it.is_empty()));
        let named = name.and_then(TableName::of);
        if named.is_some() {
            return Ok(TableUrl {
                folder: base.clone(),
                table: named,
            });
        }
        let list = match self.get_small(base, LIST_BYTES_MAX).await {
            Err(DownloadError::NotFound(_)) => return Err(self.no_table(None)),
            list => list?,
        };
        let list: Vec<ListedTable> = serde_json::from_slice(&list)
            .map_err(|error| self.strange(base, format!("it is no list of tables: {error}")))?;
        let found = TableName::first(list.iter().filter_map(ListedTable::table));
        let found = found.ok_or_else(|| self.no_table(None))?;
        let folder = format!("{}/", found.folder());
        Ok(TableUrl {
            folder: base.join(&folder).expect("a plain name can be joined"),
            table: Some(found),
        })
    }

    /// An object that must not have more than `bytes_max` bytes.
    pub(crate) async fn get_small(
        &self,
        url: &Url,
        bytes_max: u64,
    ) -> Result<Vec<u8>, DownloadError> {
        let get = async || {
            let response = self.answer(url, self.get(url)).await?;
            if response.status() != StatusCode::OK {
                let what = format!("status {}", response.status());
                return Err(self.strange(url, what).into());
            }
            self.read(url, response, bytes_max).await
        };
        self.repeat(get).await
    }

    /// Some bytes of a file that is `length` bytes long.
    pub(crate) async fn get_part(
        &self,
        url: &Url,
        range: Range<u64>,
        length: u64,
    ) -> Result<Vec<u8>, DownloadError> {
        let (first, last, expected) = (range.start, range.end - 1, range.end - range.start);
        let get = async || {
            let request = self.get(url).header(RANGE, format!("bytes={first}-{last}"));
            let response = self.answer(url, request).await?;
            match response.status() {
                StatusCode::PARTIAL_CONTENT => {}
                StatusCode::OK => return Err(DownloadError::WholeFiles(self.shown(url)).into()),
                status => {
                    return Err(wrong(url, format!("status {status} for a part of it")).into());
                }
            }
            other_range(url, &response, &format!("bytes {first}-{last}/{length}"))?;
            let bytes = self.body(response, expected).await?;
            match (bytes.len() as u64).cmp(&expected) {
                Ordering::Less => Err(Failure::Outage(Outage::Lost {
                    bytes: first + bytes.len() as u64,
                    expected: length,
                })),
                Ordering::Equal => Ok(bytes),
                Ordering::Greater => {
                    Err(wrong(url, format!("it has more than {expected} bytes")).into())
                }
            }
        };
        self.repeat(get).await
    }

    /// Tries until something comes of it, or no other try would help.
    async fn repeat<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, DownloadError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut tries = self.tries();
        loop {
            match attempt().await {
                Ok(done) => return Ok(done),
                Err(failure) => tries.wait(failure).await?,
            }
        }
    }

    /// The body of an answer, which must not have more than `bytes_max` bytes.
    async fn read(
        &self,
        url: &Url,
        response: Response,
        bytes_max: u64,
    ) -> Result<Vec<u8>, Failure> {
        let bytes = self.body(response, bytes_max).await?;
        if bytes.len() as u64 > bytes_max {
            let what = format!("it has more than {bytes_max} bytes");
            return Err(self.strange(url, what).into());
        }
        Ok(bytes)
    }

    /// The body of an answer, or its start if it has more than `bytes_max` bytes.
    async fn body(&self, mut response: Response, bytes_max: u64) -> Result<Vec<u8>, Outage> {
        let mut bytes = Vec::new();
        while bytes.len() as u64 <= bytes_max
            && let Some(more) = self.chunk(&mut response).await?
        {
            bytes.extend_from_slice(&more);
        }
        Ok(bytes)
    }

    pub(crate) fn get(&self, url: &Url) -> RequestBuilder {
        self.client.get(url.clone())
    }

    /// The answer to a request, without its body: a success or status 416.
    pub(crate) async fn answer(
        &self,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<Response, Failure> {
        let response = self.send(url, request).await?;
        let (status, url) = (response.status(), self.shown(url));
        if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            Ok(response)
        } else if status == StatusCode::NOT_FOUND {
            Err(DownloadError::NotFound(url).into())
        } else {
            let status = status.as_u16();
            Err(DownloadError::Refused { url, status }.into())
        }
    }

    /// The answer to a request, without its body: a success or a refusal.
    async fn send(&self, url: &Url, request: RequestBuilder) -> Result<Response, Failure> {
        let sent = async { Ok(request.send().await) };
        let response = match self.contact.heed(sent).await? {
            Ok(response) => response,
            // Nothing that time could mend.
            Err(error) if error.is_builder() => {
                return Err(wrong(url, error.without_url().to_string()).into());
            }
            Err(error) => {
                let Some(what) = certificate::refusal(&error) else {
                    return Err(failed(&error).into());
                };
                let url = self.shown(&self.base);
                return Err(DownloadError::Certificate { url, what }.into());
            }
        };
        let status = response.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(Outage::Status(status.as_u16()).into());
        }
        self.contact.answered();
        if status.is_redirection() {
            let target = header(&response, LOCATION).unwrap_or("elsewhere");
            let status = status.as_u16();
            let what = format!(
                "status {status} leads to {target}, which is not followed: ask there if you mean it"
            );
            return Err(self.strange(url, what).into());
        }
        let kind = header(&response, CONTENT_TYPE).unwrap_or_default();
        if status.is_success() && kind.starts_with("text/html") {
            let what = format!(
                "it is a web page ({kind}), as one to sign in; check the address, and that nothing has to be signed in to"
            );
            return Err(self.strange(url, what).into());
        }
        Ok(response)
    }

    /// The next bytes of an answer.
    pub(crate) async fn chunk(&self, response: &mut Response) -> Result<Option<Bytes>, Outage> {
        let chunk = async { response.chunk().await.map_err(|error| failed(&error)) };
        let chunk = self.contact.heed(chunk).await?;
        self.contact.received();
        Ok(chunk)
    }

    pub(crate) fn tries(&self) -> Tries<'_> {
        self.contact.tries()
    }

    /// An address as messages show it, with the proxy if any.
    pub(crate) fn shown(&self, url: &Url) -> String {
        shown(url, self.proxy.as_ref())
    }

    /// There is no table, or not this one.
    pub(crate) fn no_table(&self, table: Option<TableName>) -> DownloadError {
        DownloadError::NoTable {
            url: self.shown(&self.base),
            table,
        }
    }

    fn strange(&self, url: &Url, what: String) -> DownloadError {
        let url = self.shown(url);
        DownloadError::Strange { url, what }
    }
}

fn shown(url: &Url, proxy: Option<&Proxy>) -> String {
    match proxy {
        Some(proxy) => format!("{url} ({proxy})"),
        None => url.to_string(),
    }
}

/// The outage that a failed request is: the innermost cause says most, and those around it repeat it.
fn failed(error: &reqwest::Error) -> Outage {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    Outage::Connection(cause.to_string())
}

/// The start of a header, if it is text that can be shown.
fn header(response: &Response, name: HeaderName) -> Option<&str> {
    let value = response.headers().get(name)?.to_str().ok()?;
    Some(&value[..value.len().min(HEADER_BYTES_MAX)])
}

/// Fails if an answer has another part of a file than was asked for.
pub(crate) fn other_range(
    url: &Url,
    response: &Response,
    expected: &str,
) -> Result<(), DownloadError> {
    let what = match response.headers().get(CONTENT_RANGE) {
        Some(found) if found.as_bytes() == expected.as_bytes() => return Ok(()),
        Some(_) => {
            let found = header(response, CONTENT_RANGE).unwrap_or("that is no text");
            format!("it has the range \"{found}\" instead of \"{expected}\"")
        }
        None => format!("it does not say that it has the range \"{expected}\""),
    };
    Err(wrong(url, what))
}

pub(crate) fn wrong(url: &Url, what: String) -> DownloadError {
    let url = url.to_string();
    DownloadError::Wrong { url, what }
}

/// The URL of a folder.
fn parse(from: &str) -> Result<Url, DownloadError> {
    let refuse = |what: String| DownloadError::Url {
        url: from.to_owned(),
        what,
    };
    let host = from
        .split("://")
        .nth(1)
        .and_then(|rest| rest.split('/').next());
    if host.is_some_and(|host| !host.is_ascii()) {
        return Err(refuse(
            "the name of the server has letters that are not ASCII: write it as xn--…".to_owned(),
        ));
    }
    let unnamed = || refuse("it starts with neither http:// nor https://".to_owned());
    let mut url = match Url::parse(from) {
        Ok(url) => url,
        Err(_) if !from.contains("://") => return Err(unnamed()),
        Err(error) => return Err(refuse(error.to_string())),
    };
    if !["http", "https"].contains(&url.scheme()) || url.host().is_none() {
        return Err(unnamed());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("it has a user's name or password".to_owned()));
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}
