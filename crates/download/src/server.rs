//! The requests to a server, with their limits.
//!
//! A request is repeated when the connection fails or the server answers 5xx or 429, after a pause that grows and has
//! some chance in it, until nothing has come for as long as the patience lasts. Any other refusal ends the download:
//! asking again would not change it. So does an answer that leads to another address: the user has named the server,
//! and the token is for no other.

use std::time::Duration;

use bytes::Bytes;
use chomp_access::{Token, certificate};
use chomp_table::reader::TableName;
use reqwest::header::{
    AUTHORIZATION, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;

use crate::contact::{Contact, ServerPatience, Tries};
use crate::error::{DownloadError, Outage};
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
pub(crate) struct Server {
    client: Client,
    base: Url,
    proxy: Option<Proxy>,
    contact: Contact,
}

/// Where a table's folder is.
#[derive(Clone, Debug)]
pub(crate) struct TableUrl {
    folder: Url,
    /// Which it is, if the name of the folder tells that.
    pub(crate) table: Option<TableName>,
}

/// An entry of a server's list: a table of losing positions by its bits, or one of values by its tiles. Its path is not used:
/// the number tells it.
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
    pub(crate) fn folder(&self) -> &Url {
        &self.folder
    }

    /// The URL of a file, whose name is one that a manifest can have.
    pub(crate) fn file(&self, name: &str) -> Url {
        self.folder.join(name).expect("a plain name can be joined")
    }
}

impl Server {
    /// The server at `from`, with the certificate of an authority, as PEM, if it is not one of the system's, and a
    /// token if one is needed.
    pub(crate) fn new(
        from: &str,
        ca: Option<&str>,
        token: Option<&Token>,
        patience: ServerPatience,
    ) -> Result<Server, DownloadError> {
        let base = parse(from)?;
        // Fails if the process has one already, which then serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let value = format!("Bearer {}", token.secret());
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| DownloadError::Credentials { what: "the token" })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let unusable = |_| DownloadError::Credentials {
            what: "the certificate",
        };
        let mut builder = Client::builder()
            .user_agent(concat!("chomp/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT);
        if let Some(ca) = ca {
            let certificates = Certificate::from_pem_bundle(ca.as_bytes()).map_err(unusable)?;
            builder = builder.tls_certs_only(certificates);
        }
        let proxy = Proxy::of(&base, ca.is_some());
        if proxy.is_none() {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(unusable)?;
        if ca.is_some() && base.scheme() != "https" {
            return Err(DownloadError::Url {
                url: from.to_owned(),
                what: "the access file has a certificate, so it starts with https://".to_owned(),
            });
        }
        let place = shown(&base, proxy.as_ref());
        Ok(Server {
            client,
            base,
            proxy,
            contact: Contact::new(place, patience),
        })
    }

    /// Finds the table: the one whose folder the server's address is, or one that the server lists.
    pub(crate) async fn find_table(
        &self,
        table: Option<TableName>,
    ) -> Result<TableUrl, DownloadError> {
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
            Err(DownloadError::NotFound { .. }) => return Err(self.no_table(table)),
            list => list?,
        };
        let list: Vec<ListedTable> = serde_json::from_slice(&list)
            .map_err(|error| self.strange(base, format!("it is no list of tables: {error}")))?;
        let mut there = list.iter().filter_map(ListedTable::table);
        let found = match table {
            Some(table) => there.find(|&found| found == table),
            None => TableName::first(there),
        };
        let found = found.ok_or_else(|| self.no_table(table))?;
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
        let mut tries = self.tries();
        loop {
            match self.try_get_small(url, bytes_max).await? {
                Ok(bytes) => return Ok(bytes),
                Err(outage) => tries.wait(outage).await?,
            }
        }
    }

    async fn try_get_small(
        &self,
        url: &Url,
        bytes_max: u64,
    ) -> Result<Result<Vec<u8>, Outage>, DownloadError> {
        let mut response = match self.answer(url, self.get(url)).await? {
            Ok(response) => response,
            Err(outage) => return Ok(Err(outage)),
        };
        if response.status() != StatusCode::OK {
            return Err(self.strange(url, format!("status {}", response.status())));
        }
        self.read(url, &mut response, bytes_max).await
    }

    /// The body of an answer, which must not have more than `bytes_max` bytes.
    pub(crate) async fn read(
        &self,
        url: &Url,
        response: &mut Response,
        bytes_max: u64,
    ) -> Result<Result<Vec<u8>, Outage>, DownloadError> {
        let mut bytes = Vec::new();
        loop {
            match self.chunk(response).await {
                Ok(Some(more)) => bytes.extend_from_slice(&more),
                Ok(None) => return Ok(Ok(bytes)),
                Err(outage) => return Ok(Err(outage)),
            }
            if bytes.len() as u64 > bytes_max {
                return Err(self.strange(url, format!("it has more than {bytes_max} bytes")));
            }
        }
    }

    /// The URL of what is at `path` below the address.
    pub(crate) fn below(&self, path: &str) -> Url {
        self.base.join(path).expect("a plain path can be joined")
    }

    pub(crate) fn get(&self, url: &Url) -> RequestBuilder {
        self.client.get(url.clone())
    }

    /// The answer to a request, without its body: a success or status 416, or an outage.
    pub(crate) async fn answer(
        &self,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<Result<Response, Outage>, DownloadError> {
        let response = match self.send(url, request).await? {
            Ok(response) => response,
            Err(outage) => return Ok(Err(outage)),
        };
        let (status, url) = (response.status(), self.shown(url));
        if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            Ok(Ok(response))
        } else if status == StatusCode::NOT_FOUND {
            Err(DownloadError::NotFound { url })
        } else {
            let status = status.as_u16();
            Err(DownloadError::Refused { url, status })
        }
    }

    /// The answer to a request, without its body: a success, a refusal, or an outage.
    pub(crate) async fn send(
        &self,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<Result<Response, Outage>, DownloadError> {
        let sent = async { Ok(request.send().await) };
        let response = match self.contact.heed(sent).await {
            Ok(Ok(response)) => response,
            // Nothing that time could mend.
            Ok(Err(error)) if error.is_builder() => {
                return Err(wrong(url, &error.without_url().to_string()));
            }
            Ok(Err(error)) => {
                return match certificate::refusal(&error) {
                    Some(what) => {
                        let url = self.shown(&self.base);
                        Err(DownloadError::Certificate { url, what })
                    }
                    None => Ok(Err(failed(&error))),
                };
            }
            Err(outage) => return Ok(Err(outage)),
        };
        let status = response.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Ok(Err(Outage::Status(status.as_u16())));
        }
        self.contact.answered();
        if status.is_redirection() {
            let target = header(&response, LOCATION).unwrap_or("elsewhere");
            let status = status.as_u16();
            let what = format!(
                "status {status} leads to {target}, which is not followed: ask there if you mean it"
            );
            return Err(self.strange(url, what));
        }
        let kind = header(&response, CONTENT_TYPE).unwrap_or_default();
        if status.is_success() && kind.starts_with("text/html") {
            let what = format!(
                "it is a web page ({kind}), as one to sign in; check the address, and that nothing has to be signed in to"
            );
            return Err(self.strange(url, what));
        }
        Ok(Ok(response))
    }

    /// The next bytes of an answer.
    pub(crate) async fn chunk(&self, response: &mut Response) -> Result<Option<Bytes>, Outage> {
        let chunk = async { response.chunk().await.map_err(|error| failed(&error)) };
        let chunk = self.contact.heed(chunk).await?;
        self.contact.came(chunk.as_ref().map(Bytes::len))?;
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
    Err(wrong(url, &what))
}

pub(crate) fn wrong(url: &Url, what: &str) -> DownloadError {
    DownloadError::Wrong {
        url: url.to_string(),
        what: what.to_owned(),
    }
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
