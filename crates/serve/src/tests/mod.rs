//! Tests of a site over real connections.

mod api;
pub(crate) mod description;
mod games;
mod open;
mod status;
mod tables;

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use chomp_table::shard::ShardSize;
use chomp_testing::tables::words;
use chomp_testing::waiting::arrives;
use http::{HeaderName, HeaderValue, StatusCode};
use rustls::ServerConfig;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tower::ServiceExt;

use crate::net::{Caller, Endpoint, Limits, Permits, Server};
use crate::site::{Site, SiteOptions};

pub(crate) struct Tested {
    pub(crate) server: Server,
    pub(crate) permits: Permits,
    pub(crate) address: SocketAddr,
}

#[derive(Debug)]
pub(crate) struct Answer {
    status: u16,
    headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// What a router has answered over no connection.
    async fn of(response: Response) -> Answer {
        let (head, body) = response.into_parts();
        let header = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        Answer {
            status: head.status.as_u16(),
            headers: head.headers.iter().map(header).collect(),
            body: to_bytes(body, usize::MAX).await.unwrap().to_vec(),
        }
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// Limits of which none is reached, however slow the machine: what ends a connection is something else.
pub(crate) fn patient() -> Limits {
    const LONG: Duration = Duration::from_hours(10);
    Limits {
        tls_time: LONG,
        header_time: LONG,
        keepalive: LONG,
        drain_time: LONG,
        idle_time: LONG,
        answer_time: LONG,
        rate_time: LONG,
        ..Limits::default()
    }
}

async fn start(router: Router) -> Tested {
    start_with(router, patient(), None).await
}

pub(crate) async fn start_with(
    router: Router,
    limits: Limits,
    tls: Option<Arc<ServerConfig>>,
) -> Tested {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let endpoints = vec![Endpoint { listener, router }];
    let permits = limits.permits();
    Tested {
        server: Server::start(endpoints, tls.as_ref(), limits, &permits),
        permits,
        address,
    }
}

impl Tested {
    /// Sends a request as it is, and takes what comes until the connection ends.
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n");
        for (name, value) in headers {
            request.extend([name, ": ", value, "\r\n"]);
        }
        request += "\r\n";
        let mut stream = self.connect_from(1).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        let all = arrives("the end of an answer", stream.read_to_end(&mut bytes)).await;
        all.unwrap();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("{path}: {:?}", String::from_utf8_lossy(&bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap()[9..12].parse().unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        });
        Answer {
            status,
            headers: headers.collect(),
            body: bytes[end + 4..].to_vec(),
        }
    }

    /// A connection from 127.0.0.`number`.
    pub(crate) async fn connect_from(&self, number: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        let from = Ipv4Addr::new(127, 0, 0, number);
        socket.bind((from, 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[]).await
    }

    /// Asserts that each path below `start` is refused with a status and a reason.
    async fn refuses(&self, start: &str, cases: &[(&str, u16, &str)]) {
        for (path, status, reason) in cases {
            let answer = self.get(&format!("{start}{path}")).await;
            assert_eq!(answer.status, *status, "{path}");
            let error = answer.error();
            assert!(error.contains(reason), "{path}: {error}");
        }
    }
}

impl Answer {
    fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/json");
        let text = std::str::from_utf8(&self.body).unwrap();
        assert!(text.ends_with('\n') && text.lines().count() == 1, "{text}");
        serde_json::from_str(text).unwrap()
    }

    /// The reason of a refusal, which says nothing else.
    fn error(&self) -> String {
        let said = self.json();
        assert_eq!(said.as_object().unwrap().len(), 1, "{said}");
        said["error"].as_str().unwrap().to_owned()
    }
}

/// A request for `path` from 127.0.0.`number`, over no connection: with a paused clock it is answered at once.
fn request_from(number: u8, path: &str) -> Request {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = path.parse().unwrap();
    let caller = Caller::at(Ipv4Addr::new(127, 0, 0, number).into());
    request.extensions_mut().insert(caller);
    request
}

async fn answered(router: &Router, request: Request) -> Response {
    router.clone().oneshot(request).await.unwrap()
}

/// How many requests for `path` 127.0.0.`number` may make at once, and the answer that refuses the next one.
async fn let_in(router: &Router, number: u8, path: &str) -> (u32, Response) {
    for count in 0..1000 {
        let answer = answered(router, request_from(number, path)).await;
        if answer.status() == StatusCode::TOO_MANY_REQUESTS {
            return (count, answer);
        }
    }
    panic!("{path} has no rate");
}

async fn site(directory: &Path) -> Site {
    Site::open(options(directory)).await
}

/// Whom sites believe for whom it asks.
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

fn options(directory: &Path) -> SiteOptions {
    SiteOptions {
        directory: directory.to_owned(),
        rate: NonZeroU32::new(1_000_000),
        proxies: vec![PROXY],
        cache_bytes: 16 << 20,
    }
}

/// A site that lets in so many requests a second from each address; any number if none.
async fn limited(directory: &Path, a_second: u32) -> Site {
    let options = SiteOptions {
        rate: NonZeroU32::new(a_second),
        cache_bytes: 0,
        ..options(directory)
    };
    Site::open(options).await
}

/// A site with the table of 14 bits, and the table's folder.
async fn with_table() -> (Tested, TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let folder = publish(directory.path(), 14);
    let tested = start(site(directory.path()).await.router()).await;
    (tested, directory, folder)
}

/// Publishes the table of `bits` bits, as it is by definition, in several shards.
pub(crate) fn publish(directory: &Path, bits: u32) -> PathBuf {
    publish_in_frames(directory, bits, ShardSize::PUBLISHED.frame_words)
}

/// Publishes the table of `bits` bits in frames of `frame_words` words.
fn publish_in_frames(directory: &Path, bits: u32, frame_words: usize) -> PathBuf {
    publish_words(directory, bits, &words(bits), frame_words)
}

/// A table of two shards that has these words, whatever they are.
fn publish_words(directory: &Path, bits: u32, words: &[u64], frame_words: usize) -> PathBuf {
    let shard_words = words.len() / 2 + 1;
    let size = ShardSize {
        shard_words,
        frame_words,
    };
    chomp_testing::tables::publish_words(directory, bits, size, words)
}

#[expect(clippy::disallowed_methods, reason = "a file for a test")]
fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}
