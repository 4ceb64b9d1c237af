//! The requests to a server, with their limits.
//!
//! A request is repeated when the connection fails or the server answers 5xx, 429 or 408, after a pause that grows and
//! has some chance in it, until nothing has come for as long as the patience lasts. Any other refusal ends the
//! download: asking again would not change it.
//!
//! Archives keep files on other servers: so a redirection is followed, within the limits of [`may_lead`], since the
//! server that the user has named vouches for the others. With a token, or a certificate for this server, none is
//! followed: these are for no other server.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use chomp_access::certificate;
use chomp_table::manifest::{MANIFEST_BYTES_MAX, MANIFEST_NAME};
use chomp_table::reader::{AnyManifest, TableName};
use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    HeaderMap, HeaderName, HeaderValue, LOCATION, RANGE, TRANSFER_ENCODING,
};
use reqwest::redirect::{Action, Attempt, Policy};
use reqwest::{Certificate, Client, Response, StatusCode, Url};
use serde::Deserialize;

use crate::Reach;
use crate::error::{DownloadError, Outage};
use crate::patience::Contact;
use crate::proxy::{describe_proxy, is_loopback};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(30);
const REDIRECTS_MAX: usize = 5;
/// The most bytes of a list of tables: with one table of each size it takes 8 KiB.
const LIST_BYTES_MAX: u64 = 64 << 10;
/// The most of a header that is shown.
const HEADER_BYTES_MAX: usize = 200;

/// A folder on a server, and the client for it.
#[derive(Debug)]
pub(crate) struct ServerClient {
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

/// Asks a server for the content of `path` below its address, at most `bytes_max` bytes.
pub async fn ask(reach: Reach, path: &str, bytes_max: u64) -> Result<ServerReply, DownloadError> {
    let server = &ServerClient::new(&reach)?;
    let ask = async || {
        let mut response = server.send(path, None).await?;
        let status = response.status().as_u16();
        let body = server.body(path, &mut response, bytes_max).await?;
        Ok(ServerReply { status, body })
    };
    server.contact.retry(ask).await
}

/// An entry in the list of tables: one of losing positions has bits, one of values has tiles. Its path is not read,
/// since that follows from the number.
#[derive(Debug, Deserialize)]
struct ListedTable {
    bits: Option<u32>,
    tiles: Option<u32>,
}

impl ServerClient {
    pub(crate) fn new(reach: &Reach) -> Result<ServerClient, DownloadError> {
        let base = parse(&reach.from, reach.ca.is_some())?;
        // Fails if the process has a provider already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        // Without this header the server may encode the bytes, but digests are those of the bytes themselves.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
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
            .redirect(match (&reach.ca, &reach.token) {
                (None, None) => Policy::custom(redirect),
                _ => Policy::none(),
            })
            // A part of the address may be a secret.
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT);
        if let Some(ca) = &reach.ca {
            let certificates = Certificate::from_pem_bundle(ca.as_bytes()).map_err(unusable)?;
            builder = builder.tls_certs_only(certificates);
        }
        let proxy = describe_proxy(&base, reach.ca.is_some());
        if reach.ca.is_some() || is_loopback(&base) {
            builder = builder.no_proxy();
        }
        Ok(ServerClient {
            client: builder.build().map_err(unusable)?,
            contact: Contact::new(shown(&base, proxy.as_deref()), reach.patience),
            base,
            proxy,
        })
    }

    /// Finds the table whose name is that of the folder at the address, or else the [preferred](TableName::preferred)
    /// one that the server lists, or else the one whose manifest is at the address: archives have no list, and give
    /// folders names of their own. The client that is returned is for the folder of the table.
    pub(crate) async fn find_table(
        reach: &Reach,
    ) -> Result<(ServerClient, TableName), DownloadError> {
        let mut server = ServerClient::new(reach)?;
        let mut folders = server.base.path_segments().into_iter().flatten();
        let folder = folders.rfind(|folder| !folder.is_empty());
        if let Some(table) = folder.and_then(TableName::of) {
            return Ok((server, table));
        }
        let found = match server.first_listed().await {
            Err(error @ (DownloadError::NoTable { .. } | DownloadError::Strange { .. })) => {
                return match server.small(MANIFEST_NAME, MANIFEST_BYTES_MAX).await {
                    Err(error @ DownloadError::Unreachable { .. }) => Err(error),
                    Ok(bytes) => match AnyManifest::parse(&bytes) {
                        Ok(manifest) => Ok((server, manifest.table())),
                        Err(_) => Err(error),
                    },
                    Err(_) => Err(error),
                };
            }
            found => found?,
        };
        server.base = server.url(&format!("{}/", found.folder()));
        Ok((server, found))
    }

    /// The [preferred](TableName::preferred) table that the server lists.
    async fn first_listed(&self) -> Result<TableName, DownloadError> {
        let no_table = || DownloadError::NoTable {
            url: self.shown(""),
            table: None,
        };
        let list = match self.small("", LIST_BYTES_MAX).await {
            Err(DownloadError::NotFound(_)) => return Err(no_table()),
            list => list?,
        };
        let list: Vec<ListedTable> = serde_json::from_slice(&list)
            .map_err(|error| self.strange("", format!("it is no list of tables: {error}")))?;
        let tables = list.iter().filter_map(|listed| {
            let bits = listed.bits.map(TableName::Losing);
            bits.or_else(|| listed.tiles.map(TableName::Values))
        });
        TableName::preferred(tables).ok_or_else(no_table)
    }

    pub(crate) async fn small(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DownloadError> {
        let get = async || {
            let mut response = self.send(name, None).await?;
            if response.status() != StatusCode::OK {
                return Err(self.unexpected(name, &response));
            }
            match header(&response, CONTENT_ENCODING) {
                None | Some("identity") => self.body(name, &mut response, bytes_max).await,
                Some(encoding) => {
                    let what = format!("it is encoded with {encoding}, which was not asked for");
                    Err(self.strange(name, what))
                }
            }
        };
        self.contact.retry(get).await
    }

    /// Some bytes of a file that is `length` bytes long.
    pub(crate) async fn fetch_slice(
        &self,
        name: &str,
        range: Range<u64>,
        length: u64,
    ) -> Result<Vec<u8>, DownloadError> {
        let mut bytes = Vec::new();
        let mut missing = range;
        while missing.start < missing.end {
            let get = async || {
                let (mut response, slice) = self.get_range(name, &missing, length).await?;
                if response.status() == StatusCode::OK {
                    return Err(DownloadError::WholeFiles(self.shown(name)));
                }
                let expected = slice.end - slice.start;
                let bytes = self.body(name, &mut response, expected).await?;
                let found = bytes.len() as u64;
                if found < expected {
                    let what = format!("{found} of {expected} bytes came");
                    return Err(self.cut_short_error(name, &response, what));
                }
                Ok(bytes)
            };
            let slice = self.contact.retry(get).await?;
            missing.start += slice.len() as u64;
            bytes.extend(slice);
        }
        Ok(bytes)
    }

    /// The answer to a request for some bytes of a file that is `length` bytes long, and its slice of the file: these
    /// bytes or the first ones of them (status 206), or all of it from a server that knows no ranges (status 200).
    pub(crate) async fn get_range(
        &self,
        name: &str,
        range: &Range<u64>,
        length: u64,
    ) -> Result<(Response, Range<u64>), DownloadError> {
        let response = self.send(name, Some(range)).await?;
        match response.status() {
            StatusCode::OK => return Ok((response, 0..length)),
            StatusCode::PARTIAL_CONTENT => {}
            _ => return Err(self.unexpected(name, &response)),
        }
        let found = header(&response, CONTENT_RANGE).unwrap_or_default();
        match content_range(found, length) {
            Some(slice) if slice.start == range.start && slice.end <= range.end => {
                Ok((response, slice))
            }
            _ => {
                let expected = format!("bytes {}-{}/{length}", range.start, range.end - 1);
                let what = format!("it has the range {found:?} instead of {expected:?}");
                Err(self.wrong(name, what))
            }
        }
    }

    /// The error for an answer that ends too soon. If it did not announce its length, the connection may have broken
    /// off.
    pub(crate) fn cut_short_error(
        &self,
        name: &str,
        answer: &Response,
        what: String,
    ) -> DownloadError {
        let headers = answer.headers();
        if headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING) {
            self.wrong(name, what)
        } else {
            self.contact.outage(Outage::Connection(what))
        }
    }

    async fn body(
        &self,
        name: &str,
        response: &mut Response,
        bytes_max: u64,
    ) -> Result<Vec<u8>, DownloadError> {
        let mut bytes = Vec::new();
        while let Some(more) = self.chunk(response).await? {
            bytes.extend_from_slice(&more);
            if bytes.len() as u64 > bytes_max {
                return Err(self.strange(name, format!("it has more than {bytes_max} bytes")));
            }
        }
        Ok(bytes)
    }

    pub(crate) async fn chunk(
        &self,
        response: &mut Response,
    ) -> Result<Option<Bytes>, DownloadError> {
        let chunk = self.contact.heed(response.chunk()).await?;
        self.contact.note_received();
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
                let url = self.shown("");
                return Err(match certificate::refusal(&error) {
                    Some(what) => DownloadError::Certificate { url, what },
                    None => self.contact.outage(failed(&error)),
                });
            }
        };
        let status = response.status();
        let is_passing = [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT];
        if status.is_server_error() || is_passing.contains(&status) {
            return Err(self.contact.outage(Outage::Status(status.as_u16())));
        }
        self.contact.note_received();
        if status.is_redirection() {
            let target = without_query(header(&response, LOCATION).unwrap_or("elsewhere"));
            let status = status.as_u16();
            let what = format!(
                "status {status} leads to {target}, which is not followed: with an access file no answer is, and \
                 otherwise at most {REDIRECTS_MAX} that lead to https://; ask there if you mean it"
            );
            return Err(self.strange(name, what));
        }
        let kind = header(&response, CONTENT_TYPE).unwrap_or_default();
        if status.is_success() && kind.to_ascii_lowercase().starts_with("text/html") {
            let what = format!(
                "it is a web page ({kind}), as one to sign in; check the address, and that nothing has to be signed in to"
            );
            return Err(self.strange(name, what));
        }
        Ok(response)
    }

    /// The URL of a file, whose name is one that a manifest can have; of the folder, if the name is empty.
    pub(crate) fn url(&self, name: &str) -> Url {
        let mut url = self.base.join(name).expect("a plain name can be joined");
        // The query may be a signature that opens the whole folder.
        url.set_query(self.base.query());
        url
    }

    /// The address of the folder, to which messages append the name of a file.
    pub(crate) fn address(&self) -> String {
        let mut url = self.base.clone();
        url.set_query(None);
        url.into()
    }

    /// An address as messages show it, with the proxy if any.
    pub(crate) fn shown(&self, name: &str) -> String {
        shown(&self.url(name), self.proxy.as_deref())
    }

    /// The address of a file as messages show it, with that of the answer if it led elsewhere.
    fn full_name(&self, name: &str, answer: &Url) -> String {
        let asked = self.shown(name);
        if answer.origin() == self.base.origin() {
            return asked;
        }
        format!(
            "{asked}, which leads to {},",
            without_query(answer.as_str())
        )
    }

    fn unexpected(&self, name: &str, answer: &Response) -> DownloadError {
        let (url, status) = (self.full_name(name, answer.url()), answer.status());
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
        let url = self.shown(name);
        DownloadError::Wrong { url, what }
    }

    fn strange(&self, name: &str, what: String) -> DownloadError {
        let url = self.shown(name);
        DownloadError::Strange { url, what }
    }
}

fn redirect(attempt: Attempt<'_>) -> Action {
    let from = attempt.previous().last();
    let may_lead = from.is_some_and(|from| may_lead(from, attempt.url()));
    if may_lead && attempt.previous().len() <= REDIRECTS_MAX {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// Whether an answer from one address may lead to another: always to https; to http only from http, on the same server
/// or within this machine.
fn may_lead(from: &Url, to: &Url) -> bool {
    let is_clear = [from, to].iter().all(|url| url.scheme() == "http");
    let is_near = from.origin() == to.origin() || (is_loopback(from) && is_loopback(to));
    to.scheme() == "https" || (is_clear && is_near)
}

fn shown(url: &Url, proxy: Option<&str>) -> String {
    let url = without_query(url.as_str());
    match proxy {
        Some(proxy) => format!("{url} ({proxy})"),
        None => url,
    }
}

/// An address without the part after `?`, which may be a secret.
fn without_query(url: &str) -> String {
    match url.split_once('?') {
        Some((url, _)) => format!("{url}?…"),
        None => url.to_owned(),
    }
}

/// The range that a header gives, as `bytes 5-9/100`, or as `bytes 5-9/*` without the `length` of the file.
fn content_range(text: &str, length: u64) -> Option<Range<u64>> {
    let (unit, range) = text.split_once(' ')?;
    let (range, total) = range.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let is_it = unit.eq_ignore_ascii_case("bytes") && (total == "*" || total.parse() == Ok(length));
    (is_it && first <= last && last < length).then(|| first..last + 1)
}

/// The outage of a failed request. It has the innermost cause alone, which says most: the errors around it repeat it.
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
        url: without_query(from),
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
        return Err(DownloadError::Url {
            url: format!("{}://…@…", url.scheme()),
            what: "it has a user's name or password, which is not sent: leave them out".to_owned(),
        });
    }
    if url.fragment().is_some() {
        return Err(refuse(
            "it has a # with a part after it, which no server sees: leave that out",
        ));
    }
    if certified && url.scheme() != "https" {
        return Err(refuse(
            "the access file has a certificate, so it starts with https://",
        ));
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_from_what_is_encrypted_to_the_clear() {
        let may =
            |from: &str, to: &str| may_lead(&Url::parse(from).unwrap(), &Url::parse(to).unwrap());
        for (from, to, expected) in [
            ("https://a.org/x", "https://b.org/", true),
            ("http://a.org/x", "https://b.org/", true),
            ("http://a.org/x", "http://a.org/x/", true),
            ("http://127.0.0.1:1/", "http://localhost:2/", true),
            ("http://a.org/x", "http://b.org/", false),
            ("http://a.org/x", "http://a.org:81/x", false),
            ("http://a.org/x", "http://127.0.0.1/", false),
            ("http://127.0.0.1/", "http://a.org/", false),
            ("https://a.org/x", "http://a.org/x", false),
            ("https://127.0.0.1/", "http://127.0.0.1/", false),
            ("http://a.org/x", "ftp://a.org/x", false),
        ] {
            assert_eq!(may(from, to), expected, "{from} to {to}");
        }
    }

    #[test]
    fn slices_are_told_in_several_ways() {
        for (text, expected) in [
            ("bytes 0-9/100", Some(0..10)),
            ("bytes 90-99/*", Some(90..100)),
            ("Bytes 5-5/100", Some(5..6)),
            ("bytes 0-9/101", None),
            ("bytes 0-100/*", None),
            ("bytes 9-8/100", None),
            ("bytes */100", None),
            ("lines 0-9/100", None),
            ("", None),
        ] {
            assert_eq!(content_range(text, 100), expected, "{text:?}");
        }
    }
}
