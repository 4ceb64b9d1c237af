//! The requests to a server, with their limits and their patience.
//!
//! A request is repeated when the connection fails or the server answers 5xx or 429, after a pause that grows and has
//! some chance in it, until nothing has come for as long as the patience lasts. Any other refusal ends the download:
//! asking again would not change it. So does an answer that leads to another address: the user has named the server,
//! and the token is for no other.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use bytes::Bytes;
use chomp_access::Token;
use chomp_table::reader::TableName;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use tokio::time::Instant;

use crate::error::{DownloadError, Outage};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may pause.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The first pause before a request is repeated, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// The most bytes of a list of tables: one of each takes 8 KiB.
const LIST_BYTES_MAX: u64 = 64 << 10;
/// The most of the address that a server leads to that is shown.
const TARGET_BYTES_MAX: usize = 200;

/// A server, and how to speak to it.
#[derive(Debug)]
pub(crate) struct Server {
    client: Client,
    /// Whether the user gave a certificate for it. Then nothing is sent unencrypted.
    certified: bool,
    patience: Duration,
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
struct Listed {
    bits: Option<u32>,
    tiles: Option<u32>,
}

impl Listed {
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
    /// With the certificate of an authority, as PEM, if it is not one of the system's, and a token
    /// if one is needed; `patience` is how long the server may give nothing.
    pub(crate) fn new(
        ca: Option<&str>,
        token: Option<&Token>,
        patience: Duration,
    ) -> Result<Server, DownloadError> {
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
        let certificate = |_| DownloadError::Credentials {
            what: "the certificate",
        };
        let mut builder = Client::builder()
            .user_agent(concat!("chomp/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT);
        if let Some(ca) = ca {
            let certificates = Certificate::from_pem_bundle(ca.as_bytes()).map_err(certificate)?;
            builder = builder.tls_certs_only(certificates);
        }
        Ok(Server {
            client: builder.build().map_err(certificate)?,
            certified: ca.is_some(),
            patience,
        })
    }

    /// Finds the table: the one whose folder `from` is, or one that the server at `from` lists.
    pub(crate) async fn find_table(
        &self,
        from: &str,
        table: Option<TableName>,
    ) -> Result<TableUrl, DownloadError> {
        let base = parse(from)?;
        if self.certified && base.scheme() != "https" {
            return Err(DownloadError::Url {
                url: from.to_owned(),
                what: "the access file has a certificate, so it starts with https://".to_owned(),
            });
        }
        let name = base
            .path_segments()
            .and_then(|mut it| it.rfind(|it| !it.is_empty()));
        let named = name.and_then(TableName::of);
        if named.is_some() {
            return Ok(TableUrl {
                folder: base,
                table: named,
            });
        }
        let list = self.get_small(&base, LIST_BYTES_MAX).await?;
        let list: Vec<Listed> =
            serde_json::from_slice(&list).map_err(|error| DownloadError::Wrong {
                url: base.to_string(),
                what: format!("it is no list of tables: {error}"),
            })?;
        let mut there = list.iter().filter_map(Listed::table);
        let found = match table {
            Some(table) => there.find(|&found| found == table),
            None => TableName::first(there),
        };
        let found = found.ok_or_else(|| DownloadError::NoTable {
            url: base.to_string(),
            table,
        })?;
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
        let mut patience = self.patience();
        loop {
            match self.try_get_small(url, bytes_max).await? {
                Ok(bytes) => return Ok(bytes),
                Err(outage) => patience.wait(url, outage).await?,
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
            return Err(wrong(url, &format!("status {}", response.status())));
        }
        let mut bytes = Vec::new();
        loop {
            match chunk(&mut response).await {
                Ok(Some(more)) => bytes.extend_from_slice(&more),
                Ok(None) => return Ok(Ok(bytes)),
                Err(outage) => return Ok(Err(outage)),
            }
            if bytes.len() as u64 > bytes_max {
                return Err(wrong(url, &format!("it has more than {bytes_max} bytes")));
            }
        }
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
        let response = match request.send().await {
            Ok(response) => response,
            // Nothing that time could mend.
            Err(error) if error.is_builder() => {
                return Err(wrong(url, &error.without_url().to_string()));
            }
            Err(error) => return Ok(Err(Outage::Connection(error.without_url()))),
        };
        let status = response.status();
        if status.is_redirection() {
            return Err(wrong(url, &leads_elsewhere(&response)));
        }
        let url = url.to_string();
        if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            Ok(Ok(response))
        } else if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            Ok(Err(Outage::Status(status.as_u16())))
        } else if status == StatusCode::NOT_FOUND {
            Err(DownloadError::NotFound { url })
        } else {
            let status = status.as_u16();
            Err(DownloadError::Refused { url, status })
        }
    }

    pub(crate) fn patience(&self) -> Patience {
        Patience {
            most: self.patience,
            since: Instant::now(),
            pause: PAUSES.0,
        }
    }
}

/// What is said of an answer that names another address.
fn leads_elsewhere(response: &Response) -> String {
    let target = response.headers().get(LOCATION);
    // What is not ASCII, or no sign that is shown, is no text here.
    let target = target.and_then(|target| target.to_str().ok());
    let target = target.map_or("elsewhere", |target| {
        &target[..target.len().min(TARGET_BYTES_MAX)]
    });
    let status = response.status().as_u16();
    format!("status {status} leads to {target}, which is not followed: ask there if you mean it")
}

/// The next bytes of an answer.
pub(crate) async fn chunk(response: &mut Response) -> Result<Option<Bytes>, Outage> {
    let chunk = response.chunk().await;
    chunk.map_err(|error| Outage::Connection(error.without_url()))
}

pub(crate) fn wrong(url: &Url, what: &str) -> DownloadError {
    DownloadError::Wrong {
        url: url.to_string(),
        what: what.to_owned(),
    }
}

/// How long somebody has had nothing from a server.
#[derive(Debug)]
pub(crate) struct Patience {
    most: Duration,
    since: Instant,
    pause: Duration,
}

impl Patience {
    /// Something came.
    pub(crate) fn renew(&mut self) {
        self.since = Instant::now();
        self.pause = PAUSES.0;
    }

    /// Waits before a request is repeated, or gives up.
    pub(crate) async fn wait(&mut self, url: &Url, outage: Outage) -> Result<(), DownloadError> {
        if self.since.elapsed() >= self.most {
            return Err(DownloadError::Unreachable {
                url: url.to_string(),
                source: outage,
            });
        }
        tracing::debug!("{url} is asked for again: {outage}");
        // Between a half and all of the pause: of many that failed together, few ask together.
        let rng = RandomState::new().hash_one(url.as_str()) % 512;
        let pause = self
            .pause
            .mul_f64(0.5 + f64::from(u16::try_from(rng).unwrap_or(0)) / 1024.0);
        tokio::time::sleep(pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        Ok(())
    }
}

/// The URL of a folder.
fn parse(from: &str) -> Result<Url, DownloadError> {
    let refuse = |what: String| DownloadError::Url {
        url: from.to_owned(),
        what,
    };
    let mut url = Url::parse(from).map_err(|error| refuse(error.to_string()))?;
    if !["http", "https"].contains(&url.scheme()) || url.host().is_none() {
        return Err(refuse(
            "it starts with neither http:// nor https://".to_owned(),
        ));
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
