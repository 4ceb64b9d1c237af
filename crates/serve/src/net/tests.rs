//! Peers that are slow, hostile or too many, and a good one beside them.

use std::time::Duration;

use axum::body::Body;
use axum::routing::{get, post};
use bytes::Bytes;
use chomp_access::Certificate;
use chomp_testing::waiting::{arrives, becomes};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connection::{Connection, Shared};
use super::*;
use crate::tests::{Tested, patient, start_with};

mod hostile;

/// The bytes of `/large`: more than all buffers between two processes hold.
const LARGE_BYTES: usize = 24 << 20;
/// How long the server takes for `/slow`: longer than its peer may stand still.
const SLOW_TIME: Duration = Duration::from_secs(3);
/// What a connection holds of an answer that its peer does not read, if there is no socket.
const PIPE_BYTES: usize = 64 << 10;

/// Limits of which each is reached in a test.
fn hasty() -> Limits {
    Limits {
        tls_time: Duration::from_millis(600),
        header_time: Duration::from_millis(600),
        still_time: Duration::from_millis(1200),
        keepalive: Duration::from_millis(400),
        drain_time: Duration::from_millis(600),
        ..Limits::default()
    }
}

fn router() -> Router {
    let large = Bytes::from(vec![7; LARGE_BYTES]);
    Router::new()
        .route("/", get(|| async { "good" }))
        .route("/large", get(|| async move { Body::from(large) }))
        .route("/never", get(std::future::pending::<&str>))
        .route("/slow", get(slow))
        .route("/body", post(async |body: Bytes| body.len().to_string()))
        .route("/panic", get(panics))
}

async fn start(limits: Limits, tls: Option<Arc<ServerConfig>>) -> Tested {
    start_with(router(), limits, tls).await
}

/// The peer's end of a connection that is served over no socket: with a paused clock its times are exact, however slow
/// the machine. Its task ends with the test.
fn piped(router: &Router, limits: Limits) -> DuplexStream {
    let shared = Shared::new(limits, CancellationToken::new());
    let connection = Connection::new(router.clone(), Arc::new(shared));
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let mut serving = JoinSet::new();
    serving.spawn(connection.serve(theirs));
    serving.detach_all();
    ours
}

/// An answer that takes the server a while.
async fn slow() -> &'static str {
    tokio::time::sleep(SLOW_TIME).await;
    "good"
}

async fn panics() -> &'static str {
    panic!("as the test wants it")
}

fn tls() -> Arc<ServerConfig> {
    let certificate = Certificate::new("test", &["localhost".into()]);
    Arc::new(certificate.unwrap().server_config().unwrap())
}

impl Tested {
    /// A connection from 127.0.0.`number`, over which `path` was asked for.
    async fn asks(&self, number: u8, path: &str) -> TcpStream {
        let mut stream = self.connect_from(number).await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn is_good(&self) {
        assert_eq!(self.get("/").await.body, b"good");
    }

    /// Asks until there is a good answer: on a slow machine hasty limits end good connections, too.
    async fn becomes_good(&self) {
        const ASK: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let good = async {
            let mut answer = Vec::new();
            while !answer.ends_with(b"good") {
                let mut stream = self.connect_from(1).await;
                stream.write_all(ASK).await.unwrap_or(());
                answer.clear();
                drop(stream.read_to_end(&mut answer).await);
            }
        };
        arrives("a good answer", good).await;
    }

    /// Sends `bytes` and then nothing; fails unless the server ends the connection.
    async fn is_dropped(&self, bytes: &[u8]) -> Duration {
        let start = Instant::now();
        let mut stream = self.connect_from(1).await;
        // It may be closed before all is sent.
        stream.write_all(bytes).await.unwrap_or(());
        until_closed(&mut stream).await;
        start.elapsed()
    }

    async fn has_open(&self, count: u64) {
        let what = format!("{count} open connections");
        becomes(&what, || self.permits.open() == count).await;
    }
}

/// Reads a piece at a time for so long, with pauses, and then the rest at once; the bytes by then, and in all.
async fn read_slowly(stream: &mut DuplexStream, time: Duration, pause: Duration) -> (usize, usize) {
    let (start, mut buffer, mut slowly) = (Instant::now(), vec![0; 256 << 10], 0);
    while start.elapsed() < time {
        slowly += stream.read(&mut buffer).await.unwrap();
        tokio::time::sleep(pause).await;
    }
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    (slowly, slowly + rest.len())
}

async fn until_closed(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    let closed = async { while !matches!(stream.read(&mut buffer).await, Ok(0) | Err(_)) {} };
    arrives("the end of a connection", closed).await;
}

const GET_LARGE: &[u8] = b"GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const EMPTY_SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// A frame of headers that says it is longer than what comes.
const HALF_HEADERS: &[u8] = b"\0\0\x20\x01\x04\0\0\0\x01\x82";
/// A hello of TLS, or its beginning.
const TLS_HELLO: &[u8] = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_stands_still_is_dropped_and_others_are_served() {
    let plain = start(hasty(), None).await;
    let secret = start(hasty(), Some(tls())).await;
    let with = |after: &[u8]| [PREFACE, after].concat();
    let hostile = [
        Vec::new(),
        b"G".to_vec(),
        PREFACE[..12].to_vec(),
        PREFACE[..23].to_vec(),
        PREFACE.to_vec(),
        with(EMPTY_SETTINGS),
        with(&[EMPTY_SETTINGS, HALF_HEADERS].concat()),
        with(&[0xff; 100]),
        vec![0; 10_000],
        vec![b'x'; 100_000],
        TLS_HELLO.to_vec(),
        b"GET / HTTP/1.1\r\nhost: a\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(),
        b"POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhalf".to_vec(),
        [
            &b"GET / HTTP/1.1\r\nhost: a\r\nx: "[..],
            &vec![b'y'; 100_000],
        ]
        .concat(),
    ];
    // All at once.
    let mut streams = Vec::new();
    for server in [&plain, &secret] {
        for bytes in &hostile {
            let mut stream = server.connect_from(1).await;
            stream.write_all(bytes).await.unwrap_or(());
            streams.push(stream);
        }
    }
    plain.becomes_good().await;
    for stream in &mut streams {
        until_closed(stream).await;
    }
    plain.has_open(0).await;
    secret.has_open(0).await;
    plain.becomes_good().await;
    // Each limit by itself.
    let (still_time, tls_time) = (hasty().still_time, hasty().tls_time);
    let mut limits = patient();
    (limits.still_time, limits.drain_time) = (still_time, tls_time);
    let plain = start(limits, None).await;
    let mut limits = patient();
    limits.tls_time = tls_time;
    let secret = start(limits, Some(tls())).await;
    for bytes in [0, 8] {
        let greeted = plain.is_dropped(&PREFACE[..bytes]);
        let shaken = secret.is_dropped(&TLS_HELLO[..bytes]);
        let (greeted, shaken) = tokio::join!(greeted, shaken);
        assert!(greeted >= still_time, "{greeted:?}");
        assert!(shaken >= tls_time, "{shaken:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn drop_by_drop_is_no_way_to_stay() {
    let router = router();
    let header = [&b"GET / HTTP/1.1\r\n"[..], &b"a: b\r\n".repeat(8)].concat();
    // The others take 2.4 seconds, twice what is given them.
    for (at_once, bytes) in [(&b""[..], PREFACE), (&header[..40], &header[40..])] {
        let mut stream = piped(&router, hasty());
        stream.write_all(at_once).await.unwrap();
        let mut bytes = bytes.iter();
        loop {
            let byte = bytes.next().expect("the end comes before the last byte");
            if stream.write_all(&[*byte]).await.is_err() {
                break;
            }
            let mut buffer = [0; 256];
            let pause = Duration::from_millis(100);
            let read = tokio::time::timeout(pause, stream.read(&mut buffer)).await;
            if let Ok(Ok(0) | Err(_)) = read {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_download_goes_on_and_one_that_stands_still_ends() {
    let still_time = Duration::from_millis(800);
    let mut limits = hasty();
    limits.still_time = still_time;
    let router = router();
    let mut stream = piped(&router, limits);
    stream.write_all(GET_LARGE).await.unwrap();
    // A small piece at a time, for several times as long as nothing may move.
    let pause = Duration::from_millis(100);
    let (slowly, all) = read_slowly(&mut stream, still_time * 3, pause).await;
    assert!(slowly < LARGE_BYTES / 2, "{slowly}: the pace tests nothing");
    assert!(all > LARGE_BYTES, "{all}");

    let mut stream = piped(&router, limits);
    stream.write_all(GET_LARGE).await.unwrap();
    tokio::time::sleep(still_time * 2).await;
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    assert!(all.len() < LARGE_BYTES, "it went on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_connections_are_refused_and_counted() {
    let mut limits = patient();
    limits.connections_per_address = 3;
    let server = start(limits, None).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(server.connect_from(1).await);
    }
    server.has_open(3).await;
    let mut refused = server.connect_from(1).await;
    until_closed(&mut refused).await;
    assert_eq!((server.permits.open(), server.permits.refused()), (3, 1));
    drop(held.pop());
    server.has_open(2).await;
    server.is_good().await;
}

/// More connections of one address than there are in all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_leaves_half_of_the_connections_to_others() {
    let limits = Limits {
        connections: 100,
        connections_per_address: 50,
        ..patient()
    };
    let server = start(limits, None).await;
    let mut silent = Vec::new();
    for _ in 0..150 {
        silent.push(server.connect_from(2).await);
    }
    becomes("refusals", || server.permits.refused() == 100).await;
    server.has_open(50).await;
    server.is_good().await;
    drop(silent);
    server.has_open(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_ends_one_connection() {
    let server = start(patient(), None).await;
    until_closed(&mut server.asks(1, "/panic").await).await;
    server.is_good().await;
    server.has_open(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_waits_for_calls_but_not_for_ever() {
    let server = start(patient(), None).await;
    let mut silent = server.connect_from(1).await;
    let mut idle = server.asks(1, "/").await;
    let mut busy = server.asks(1, "/large").await;
    server.has_open(3).await;
    busy.readable().await.unwrap();
    idle.readable().await.unwrap();

    let stop = server.server.stop();
    let download = async {
        let mut all = Vec::new();
        busy.read_to_end(&mut all).await.unwrap();
        all.len()
    };
    // Nobody else is waited for: that would take hours.
    let both = async { tokio::join!(stop, download) };
    let ((), bytes) = arrives("the end of the server", both).await;
    assert!(bytes > LARGE_BYTES, "{bytes}");
    until_closed(&mut silent).await;
    until_closed(&mut idle).await;

    let drain_time = hasty().drain_time;
    let mut limits = patient();
    limits.drain_time = drain_time;
    let begun = Arc::new(Notify::new());
    let begins = Arc::clone(&begun);
    let never = move || async move {
        begins.notify_one();
        std::future::pending::<&'static str>().await
    };
    let router = Router::new().route("/never", get(never));
    let server = start_with(router, limits, None).await;
    let mut never = server.asks(1, "/never").await;
    arrives("the call", begun.notified()).await;
    let start = Instant::now();
    arrives("the end of the server", server.server.stop()).await;
    let took = start.elapsed();
    assert!(took >= drain_time, "{took:?}");
    until_closed(&mut never).await;
    assert_eq!(server.permits.open(), 0);
}
