//! The requests to a server, with their limits.
//!
//! A request is repeated when the connection fails or the server answers 5xx or 429, after a pause that grows and has
//! some chance in it, until nothing has come for as long as the patience lasts. Any other refusal ends the download:
//! asking again would not change it. So does an answer that leads to another address: the user has named the server,
//! and the token is for no other.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use chomp_access::certificate;
use chomp_table::reader::TableName;
use reqwest::header::{
    AUTHORIZATION, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RANGE,
};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Response, StatusCode, Url};
use serde::Deserialize;

use crate::Reach;
use crate::error::{DownloadError, Outage};
use crate::patience::Contact;
use crate::proxy::proxy;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may pause.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of a list of tables: one of each takes 8 KiB.
const LIST_BYTES_MAX: u64 = 64 << 10;
/// The most of a header that is shown.
const HEADER_BYTES_MAX: usize = 200;

/// A folder on a server, and how to speak to it.
#[derive(Debug)]
pub(crate) struct Server {
    client: Client,
    base: Url,
    proxy: Option<String>,
    pub(crate) contact: Contact,
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
    let server = &Server::new(&reach)?;
    let ask = async || {
        let response = server.send(path, None).await?;
        let status = response.status().as_u16();
        let body = server.body(path, response, bytes_max).await?;
        Ok(ServerReply { status, body })
    };
    server.contact.retry(ask).await
}

/// An entry of a server's list: a table of losing positions by its bits, or one of values by its tiles. Its path is not
/// used: the number tells it.
#[derive(Debug, Deserialize)]
struct ListedTable {
    bits: Option<u32>,
    tiles: Option<u32>,
}

impl Server {
    pub(crate) fn new(reach: &Reach) -> Result<Server, DownloadError> {
        let base = parse(&reach.from, reach.ca.is_some())?;
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
        let proxy = proxy(&base, reach.ca.is_some());
        if proxy.is_none() {
            builder = builder.no_proxy();
        }
        Ok(Server {
            client: builder.build().map_err(unusable)?,
            contact: Contact::new(shown(&base, proxy.as_deref()), reach.patience),
            base,
            proxy,
        })
    }

    /// Finds the table whose folder the address is, or else the [first](TableName::first) that the server lists. The
    /// server is that of the table's folder then.
    pub(crate) async fn find_table(reach: &Reach) -> Result<(Server, TableName), DownloadError> {
        let mut server = Server::new(reach)?;
        let mut folders = server.base.path_segments().into_iter().flatten();
        let folder = folders.rfind(|folder| !folder.is_empty());
        if let Some(table) = folder.and_then(TableName::of) {
            return Ok((server, table));
        }
        let no_table = |server: &Server| DownloadError::NoTable {
            url: server.shown(""),
            table: None,
        };
        let list = match server.small("", LIST_BYTES_MAX).await {
            Err(DownloadError::NotFound(_)) => return Err(no_table(&server)),
            list => list?,
        };
        let list: Vec<ListedTable> = serde_json::from_slice(&list)
            .map_err(|error| server.strange("", format!("it is no list of tables: {error}")))?;
        let tables = list.iter().filter_map(|listed| {
            let bits = listed.bits.map(TableName::Losing);
            bits.or_else(|| listed.tiles.map(TableName::Values))
        });
        let found = TableName::first(tables).ok_or_else(|| no_table(&server))?;
        server.base = server.url(&format!("{}/", found.folder()));
        Ok((server, found))
    }

    /// A file that must not have more than `bytes_max` bytes.
    pub(crate) async fn small(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DownloadError> {
        let get = async || {
            let response = self.send(name, None).await?;
            match response.status() {
                StatusCode::OK => self.body(name, response, bytes_max).await,
                status => Err(self.unexpected(name, status)),
            }
        };
        self.contact.retry(get).await
    }

    /// Some bytes of a file that is `length` bytes long.
    pub(crate) async fn part(
        &self,
        name: &str,
        range: Range<u64>,
        length: u64,
    ) -> Result<Vec<u8>, DownloadError> {
        let expected = range.end - range.start;
        let get = async || {
            let response = self.get_range(name, &range, length).await?;
            if response.status() == StatusCode::OK {
                return Err(DownloadError::WholeFiles(self.shown(name)));
            }
            let bytes = self.body(name, response, expected).await?;
            let found = bytes.len() as u64;
            if found < expected {
                return Err(self.wrong(name, format!("{found} of {expected} bytes came")));
            }
            Ok(bytes)
        };
        self.contact.retry(get).await
    }

    /// The answer to a request for some bytes of a file that is `length` bytes long: these (status 206), or all of it
    /// from a server that knows no ranges (status 200).
    pub(crate) async fn get_range(
        &self,
        name: &str,
        range: &Range<u64>,
        length: u64,
    ) -> Result<Response, DownloadError> {
        let response = self.send(name, Some(range)).await?;
        match response.status() {
            StatusCode::OK => return Ok(response),
            StatusCode::PARTIAL_CONTENT => {}
            status => return Err(self.unexpected(name, status)),
        }
        let expected = format!("bytes {}-{}/{length}", range.start, range.end - 1);
        let found = header(&response, CONTENT_RANGE).unwrap_or_default();
        if found == expected {
            Ok(response)
        } else {
            let what = format!("it has the range {found:?} instead of {expected:?}");
            Err(self.wrong(name, what))
        }
    }

    /// The body of an answer, which must not have more than `bytes_max` bytes.
    async fn body(
        &self,
        name: &str,
        mut response: Response,
        bytes_max: u64,
    ) -> Result<Vec<u8>, DownloadError> {
        let mut bytes = Vec::new();
        while let Some(more) = self.chunk(&mut response).await? {
            bytes.extend_from_slice(&more);
            if bytes.len() as u64 > bytes_max {
                return Err(self.strange(name, format!("it has more than {bytes_max} bytes")));
            }
        }
        Ok(bytes)
    }

    /// The next bytes of an answer.
    pub(crate) async fn chunk(
        &self,
        response: &mut Response,
    ) -> Result<Option<Bytes>, DownloadError> {
        let chunk = self.contact.heed(response.chunk()).await?;
        self.contact.received();
        chunk.map_err(|error| self.contact.outage(failed(&error)))
    }

    /// The answer to a request, without its body: a success or a refusal.
    async fn send(
        &self,
        name: &str,
        range: Option<&Range<u64>>,
    ) -> Result<Response, DownloadError> {
        let mut request = self.client.get(self.url(name));
        if let Some(range) = range {
            request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end - 1));
        }
        let response = match self.contact.heed(request.send()).await? {
            Ok(response) => response,
            Err(error) => {
                return Err(match certificate::refusal(&error) {
                    Some(what) => DownloadError::Certificate {
                        url: self.shown(""),
                        what,
                    },
                    None => self.contact.outage(failed(&error)),
                });
            }
        };
        let status = response.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(self.contact.outage(Outage::Status(status.as_u16())));
        }
        self.contact.received();
        if status.is_redirection() {
            let target = header(&response, LOCATION).unwrap_or("elsewhere");
            let status = status.as_u16();
            let what = format!(
                "status {status} leads to {target}, which is not followed: ask there if you mean it"
            );
            return Err(self.strange(name, what));
        }
        let kind = header(&response, CONTENT_TYPE).unwrap_or_default();
        if status.is_success() && kind.starts_with("text/html") {
            let what = format!(
                "it is a web page ({kind}), as one to sign in; check the address, and that nothing has to be signed in to"
            );
            return Err(self.strange(name, what));
        }
        Ok(response)
    }

    /// The URL of a file, whose name is one that a manifest can have; of the folder, if the name is empty.
    pub(crate) fn url(&self, name: &str) -> Url {
        self.base.join(name).expect("a plain name can be joined")
    }

    /// An address as messages show it, with the proxy if any.
    pub(crate) fn shown(&self, name: &str) -> String {
        shown(&self.url(name), self.proxy.as_deref())
    }

    /// The meaning of an answer with this status, where another was expected.
    fn unexpected(&self, name: &str, status: StatusCode) -> DownloadError {
        let url = self.shown(name);
        if status == StatusCode::NOT_FOUND {
            DownloadError::NotFound(url)
        } else if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            self.wrong(name, format!("status {status}"))
        } else {
            let status = status.as_u16();
            DownloadError::Refused { url, status }
        }
    }

    pub(crate) fn wrong(&self, name: &str, what: String) -> DownloadError {
        let url = self.url(name).into();
        DownloadError::Wrong { url, what }
    }

    fn strange(&self, name: &str, what: String) -> DownloadError {
        let url = self.shown(name);
        DownloadError::Strange { url, what }
    }
}

fn shown(url: &Url, proxy: Option<&str>) -> String {
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

/// The URL of a folder, on a server that is `certified` or not.
fn parse(from: &str, certified: bool) -> Result<Url, DownloadError> {
    let refuse = |what: &str| DownloadError::Url {
        url: from.to_owned(),
        what: what.to_owned(),
    };
    if !from.is_ascii() {
        return Err(refuse(
            "it has letters that are not ASCII: write the name of a server as xn--…, and other letters as %…",
        ));
    }
    let mut url = match Url::parse(from) {
        Err(error) if from.contains("://") => return Err(refuse(&error.to_string())),
        Ok(url) if ["http", "https"].contains(&url.scheme()) && url.host().is_some() => url,
        _ => return Err(refuse("it starts with neither http:// nor https://")),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("it has a user's name or password"));
    }
    if certified && url.scheme() != "https" {
        return Err(refuse(
            "the access file has a certificate, so it starts with https://",
        ));
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}
