//! Tests of a site over real connections.

mod api;
pub(crate) mod description;
mod games;
mod open;
mod status;
mod tables;

use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use chomp_table::shard::ShardSize;
use chomp_testing::tables::words;
use chomp_testing::waiting::arrives;
use rustls::ServerConfig;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::net::{Endpoint, Limits, Listener, Permits, Server};
use crate::question_threads::QuestionLimits;
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
        still_time: LONG,
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
    let listener = Listener::Port(listener);
    let endpoints = vec![Endpoint { listener, router }];
    let permits = Permits::new(&limits, Vec::new());
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

async fn site(directory: &Path) -> Site {
    let options = SiteOptions {
        question_limits: QuestionLimits::ALONE,
        directory: directory.to_owned(),
        cache_bytes: 16 << 20,
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

/// Publishes the table of `bits` bits, as it is by definition, in two shards.
pub(crate) fn publish(directory: &Path, bits: u32) -> PathBuf {
    let words = words(bits);
    let size = ShardSize {
        shard_words: words.len() / 2 + 1,
        ..ShardSize::PUBLISHED
    };
    chomp_testing::tables::publish_words(directory, bits, size, &words)
}

#[expect(clippy::disallowed_methods, reason = "a file for a test")]
fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}
