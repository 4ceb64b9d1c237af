//! Peers that are slow, hostile or too many, and a good one beside them.

#![expect(clippy::big_endian_bytes, reason = "frames of HTTP/2 have them")]

use std::net::Ipv4Addr;
use std::time::Duration;

use axum::body::Body;
use axum::routing::{get, post};
use bytes::Bytes;
use chomp_access::Certificate;
use chomp_testing::waiting::{arrives, becomes};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connection::{Shared, serve};
use super::*;
use crate::tests::{Tested, patient, start_with};

/// The bytes of `/large`: more than all buffers between two processes hold.
const LARGE_BYTES: usize = 24 << 20;
/// The bytes of an answer that a connection without a socket holds while its peer does not read.
const PIPE_BYTES: usize = 64 << 10;

/// Short limits: a test reaches each of them.
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

/// Limits for a piped connection: short times for standing still and draining, long times for all else.
fn still() -> Limits {
    Limits {
        still_time: Duration::from_secs(1),
        drain_time: Duration::from_secs(1),
        ..patient()
    }
}

fn router() -> Router {
    let large = Bytes::from(vec![7; LARGE_BYTES]);
    let slow = async || {
        tokio::time::sleep(Duration::from_secs(3)).await;
        "good"
    };
    Router::new()
        .route("/", get(|| async { "good" }))
        .route("/large", get(|| async move { Body::from(large) }))
        .route("/never", get(std::future::pending::<&str>))
        .route("/slow", get(slow))
        .route("/body", post(async |body: Bytes| body.len().to_string()))
        .route("/panic", get(panics))
}

async fn panics() -> &'static str {
    panic!("as the test wants it")
}

async fn start(limits: Limits, tls: Option<Arc<ServerConfig>>) -> Tested {
    start_with(router(), limits, tls).await
}

/// The peer's end of a connection that is served over no socket: with a paused clock its times are exact, however slow
/// the machine. Its task ends with the test.
fn piped(limits: Limits) -> Piped {
    piped_to(router(), limits, &Permits::new(&limits, Vec::new()))
}

fn piped_to(router: Router, limits: Limits, permits: &Permits) -> Piped {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let mut serving = JoinSet::new();
    let (place, peer) = permits.take(Ipv4Addr::LOCALHOST.into()).unwrap();
    let shared = Arc::new(Shared::new(limits, None));
    serving.spawn(async move {
        let _place = place;
        serve(theirs, router, shared, peer).await
    });
    serving.detach_all();
    Piped(ours)
}

struct Piped(DuplexStream);

impl Piped {
    async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// The bytes until there is a whole answer with a short body, or the connection ends.
    async fn answer(&mut self) -> String {
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let bytes = self.0.read(&mut buffer).await.unwrap_or(0);
            answer.extend(&buffer[..bytes]);
            let text = String::from_utf8(answer.clone()).unwrap();
            let is_whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "));
                length.unwrap().parse() == Ok(body.len())
            });
            if bytes == 0 || is_whole {
                return text;
            }
        }
    }

    async fn ask(&mut self, path: &str) -> String {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes())
            .await;
        self.answer().await
    }

    /// Sends `bytes` again and again until the connection is closed, and tells how long that took.
    async fn repeats(mut self, bytes: &[u8], pause: Duration) -> Duration {
        let start = Instant::now();
        let mut buffer = [0; 4096];
        loop {
            assert!(
                start.elapsed() < Duration::from_mins(10),
                "it stays for ever"
            );
            match tokio::time::timeout(pause, self.0.read(&mut buffer)).await {
                Ok(Ok(0) | Err(_)) => return start.elapsed(),
                Ok(Ok(_)) => {}
                Err(_) => self.0.write_all(bytes).await.unwrap_or(()),
            }
        }
    }
}

impl Tested {
    /// A connection, over which `bytes` were sent as far as it takes them.
    async fn sent(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = self.connect_from(1).await;
        stream.write_all(bytes).await.unwrap_or(());
        stream
    }

    async fn asks(&self, path: &str) -> TcpStream {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        self.sent(request.as_bytes()).await
    }

    /// Asks until there is a good answer: on a slow machine hasty limits end good connections, too.
    async fn is_good(&self) {
        const ASK: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let good = async {
            let mut answer = Vec::new();
            while !answer.ends_with(b"good") {
                answer.clear();
                drop(self.sent(ASK).await.read_to_end(&mut answer).await);
            }
        };
        arrives("a good answer", good).await;
    }

    async fn has_open(&self, count: u64) {
        let what = format!("{count} open connections");
        becomes(&what, || self.permits.open() == count).await;
    }
}

async fn until_closed(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    let closed = async { while !matches!(stream.read(&mut buffer).await, Ok(0) | Err(_)) {} };
    arrives("the end of a connection", closed).await;
}

const GET_LARGE: &[u8] = b"GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
const POST: &[u8] = b"POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const EMPTY_SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0chomping";
/// A frame of headers, with a length that is larger than the bytes that follow.
const HALF_HEADERS: &[u8] = b"\0\0\x20\x01\x04\0\0\0\x01\x82";
/// The beginning of a TLS `ClientHello`.
const TLS_HELLO: &[u8] = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_that_stand_still_are_dropped_and_others_are_served() {
    let certificate = Certificate::new("test", &["localhost".into()]).unwrap();
    let tls = Arc::new(certificate.server_config().unwrap());
    let plain = start(hasty(), None).await;
    let secret = start(hasty(), Some(tls)).await;
    let endless = vec![b'y'; 100_000];
    let openings: [&[u8]; 15] = [
        b"",
        b"G",
        &PREFACE[..12],
        &PREFACE[..23],
        PREFACE,
        &[PREFACE, EMPTY_SETTINGS].concat(),
        &[PREFACE, EMPTY_SETTINGS, HALF_HEADERS].concat(),
        &[PREFACE, &[0xff; 100]].concat(),
        &[0; 10_000],
        &endless,
        TLS_HELLO,
        b"GET / HTTP/1.1\r\nhost: a\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        &[POST, b"half"].concat(),
        &[b"GET / HTTP/1.1\r\nhost: a\r\nx: ", &endless[..]].concat(),
    ];
    let mut streams = Vec::new();
    for server in [&plain, &secret] {
        for opening in openings {
            streams.push(server.sent(opening).await);
        }
    }
    plain.is_good().await;
    for stream in &mut streams {
        until_closed(stream).await;
    }
    plain.has_open(0).await;
    secret.has_open(0).await;
    plain.is_good().await;
}

#[tokio::test(start_paused = true)]
async fn drops_and_pings_keep_no_connection() {
    let still_time = still().still_time;
    let gone = still_time + still().drain_time + still_time;
    let pause = Duration::from_millis(100);
    for (opening, more) in [
        (&b""[..], &b""[..]),
        (&PREFACE[..1], &PREFACE[1..2]),
        (&[PREFACE, EMPTY_SETTINGS].concat(), PING),
    ] {
        let mut peer = piped(still());
        peer.send(opening).await;
        let took = peer.repeats(more, pause).await;
        assert!(took >= still_time && took < gone, "{took:?}");
    }
    let mut peer = piped(hasty());
    peer.send(b"GET / HTTP/1.1\r\nx: y").await;
    let took = peer.repeats(b"y", pause).await;
    assert!(took < 2 * hasty().header_time, "{took:?}");
    // A peer that sends a request now and then keeps its connection, however long the answers take.
    let mut honest = piped(still());
    for path in ["/", "/slow", "/", "/slow"] {
        assert!(honest.ask(path).await.ends_with("good"));
        tokio::time::sleep(still_time / 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_download_goes_on_and_one_that_stands_still_ends() {
    let mut peer = piped(still());
    peer.send(GET_LARGE).await;
    // Reads a small piece at a time, for five times `still_time`.
    let (start, mut buffer, mut all) = (Instant::now(), vec![0; 256 << 10], 0);
    while start.elapsed() < 5 * still().still_time {
        all += peer.0.read(&mut buffer).await.unwrap();
        tokio::time::sleep(still().still_time / 10).await;
    }
    assert!(all < LARGE_BYTES / 2, "{all}: the pace tests nothing");
    let mut rest = Vec::new();
    peer.0.read_to_end(&mut rest).await.unwrap();
    assert!(all + rest.len() > LARGE_BYTES, "{}", rest.len());

    let mut peer = piped(still());
    peer.send(GET_LARGE).await;
    tokio::time::sleep(still().still_time * 3).await;
    rest.clear();
    peer.0.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() <= PIPE_BYTES, "it went on");
}

#[tokio::test(start_paused = true)]
async fn a_body_may_come_slowly_and_not_stand_still() {
    let mut honest = piped(still());
    honest.send(POST).await;
    for _ in 0..100 {
        honest.send(b"x").await;
        tokio::time::sleep(still().still_time / 2).await;
    }
    let answer = honest.answer().await;
    assert!(answer.ends_with("100"), "{answer}");
    honest.send(POST).await;
    let start = Instant::now();
    let answer = honest.answer().await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(start.elapsed() >= still().still_time);
    assert_eq!(honest.answer().await, "");
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
/// The stream of the first call of a connection.
const FIRST: u32 = 1;
/// That of its second call.
const SECOND: u32 = 3;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()];
    [&head.concat(), payload].concat()
}

/// A request without a body, with all of its headers in one frame.
fn get_over_http2(stream: u32, path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    // GET and http of the static table; then the path, and an authority.
    let headers = [&[0x82, 0x86, 0x04, length], path.as_bytes(), b"\x01\x01a"];
    frame(HEADERS, 0x05, stream, &headers.concat())
}

impl Piped {
    /// Begins HTTP/2 with this window for each call, and makes two calls.
    async fn call_twice(&mut self, window: u32, paths: [&str; 2]) {
        let setting = [&[0, 4][..], &window.to_be_bytes()].concat();
        self.send(&[PREFACE, &frame(SETTINGS, 0, 0, &setting)].concat())
            .await;
        for (stream, path) in [FIRST, SECOND].into_iter().zip(paths) {
            self.send(&get_over_http2(stream, path)).await;
        }
    }

    /// The next frame: its kind, flags and stream, and the length of its payload.
    async fn frame(&mut self) -> (u8, u8, u32, usize) {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.unwrap();
        let [a, b, c, kind, flags, stream @ ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        self.0.read_exact(&mut vec![0; length]).await.unwrap();
        (kind, flags, u32::from_be_bytes(stream), length)
    }

    /// The bytes of the second answer, once it is whole, or None once it is broken off.
    async fn second_answer(&mut self) -> Option<usize> {
        let mut bytes = 0;
        loop {
            let (kind, flags, stream, length) = self.frame().await;
            match (kind, stream) {
                (RST_STREAM, SECOND) => return None,
                (DATA, SECOND) => bytes += length,
                _ => {}
            }
            if stream == SECOND && kind <= HEADERS && flags & END_STREAM > 0 {
                return Some(bytes);
            }
        }
    }
}

/// An answer that gets no window ends, and nothing else on its connection.
#[tokio::test(start_paused = true)]
async fn an_answer_without_a_window_ends() {
    let still_time = still().still_time;
    for (path, windows, length) in [
        ("/", &[0, 1, 3][..], "good".len()),
        ("/large", &[0, 1, 1000, 65_535], LARGE_BYTES),
    ] {
        for &window in windows {
            let mut peer = piped(still());
            let start = Instant::now();
            peer.call_twice(window, ["/never", path]).await;
            let answer = arrives("its end", peer.second_answer()).await;
            assert_eq!(answer, None, "{path} {window}");
            let took = start.elapsed();
            assert!(took >= still_time && took < 2 * still_time, "{took:?}");
            // The other call is still there.
            let more = tokio::time::timeout(5 * still_time, peer.frame()).await;
            assert!(more.is_err(), "{more:?}");
        }
        // With windows now and then it comes to its end, however slowly.
        let mut peer = piped(still());
        peer.call_twice(3, ["/never", path]).await;
        let step = u32::try_from(length / 8 + 1).unwrap().to_be_bytes();
        let mut ended = None;
        for _ in 0..8 {
            for stream in [0, SECOND] {
                peer.send(&frame(WINDOW_UPDATE, 0, stream, &step)).await;
            }
            let pause = still_time * 3 / 4;
            let answer = tokio::time::timeout(pause, peer.second_answer()).await;
            if let Ok(answer) = answer {
                ended = answer;
                break;
            }
        }
        assert!(ended.is_some(), "{path}");
    }
}

/// Permits for an answer are held until its last byte is taken.
#[tokio::test(start_paused = true)]
async fn what_is_held_for_an_answer_is_held_until_it_is_taken() {
    for (window, taken) in [(3, false), (4, true)] {
        let (held, seen) = (Arc::new(()), Arc::new(Mutex::new(None)));
        let (weak, see) = (Arc::downgrade(&held), Arc::clone(&seen));
        let answer = get(async move || {
            let held = see.lock().take();
            holding(Body::from("good"), held)
        });
        *seen.lock() = Some(held);
        let router = Router::new().route("/", answer);
        let permits = Permits::new(&patient(), Vec::new());
        let mut peer = piped_to(router, patient(), &permits);
        peer.call_twice(window, ["/never", "/"]).await;
        if taken {
            assert_eq!(peer.second_answer().await, Some(4));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(weak.upgrade().is_none(), taken, "{window}");
    }
}

/// Calls are counted, whether they wait for their answers or do not take them, however small. Those beyond the share of
/// an address end without more memory for them.
#[tokio::test(start_paused = true)]
async fn answers_that_are_not_taken_are_bounded() {
    let limits = Limits {
        answer_units: 6,
        ..patient()
    };
    let permits = Permits::new(&limits, Vec::new());
    let mut peer = piped_to(router(), limits, &permits);
    peer.call_twice(0, ["/never", "/"]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut other = piped_to(router(), limits, &permits);
    other.call_twice(1000, ["/never", "/"]).await;
    assert_eq!(other.second_answer().await, None);
    // An answer that is taken makes room, and so does one that is given up.
    drop(other);
    let window = 1000_u32.to_be_bytes();
    peer.send(&frame(WINDOW_UPDATE, 0, SECOND, &window)).await;
    assert_eq!(peer.second_answer().await, Some(4));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut other = piped_to(router(), limits, &permits);
    other.call_twice(1000, ["/never", "/"]).await;
    assert_eq!(other.second_answer().await, Some(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_ends_one_connection() {
    let server = start(patient(), None).await;
    until_closed(&mut server.asks("/panic").await).await;
    server.is_good().await;
    server.has_open(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_waits_for_calls_but_not_for_ever() {
    let server = start(patient(), None).await;
    let mut silent = server.connect_from(1).await;
    let mut idle = server.asks("/").await;
    let mut busy = server.asks("/large").await;
    server.has_open(3).await;
    busy.readable().await.unwrap();
    idle.readable().await.unwrap();
    let download = async {
        let mut all = Vec::new();
        busy.read_to_end(&mut all).await.unwrap();
        all.len()
    };
    // The server waits for the download alone. Waiting for the end of `silent` and `idle` would take hours.
    let both = async { tokio::join!(server.server.stop(), download) };
    let ((), bytes) = arrives("the end of the server", both).await;
    assert!(bytes > LARGE_BYTES, "{bytes}");
    until_closed(&mut silent).await;
    until_closed(&mut idle).await;

    let limits = Limits {
        drain_time: hasty().drain_time,
        ..patient()
    };
    let server = start(limits, None).await;
    let mut never = server.asks("/never").await;
    server.has_open(1).await;
    arrives("the end of the server", server.server.stop()).await;
    until_closed(&mut never).await;
    assert_eq!(server.permits.open(), 0);
}
