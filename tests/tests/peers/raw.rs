//! Peers that are no workers: they send bytes, or none, and see how long they may stay.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use chomp_table::rng::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

/// The first bytes of a connection of HTTP/2.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Kinds of frames of HTTP/2.
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
/// The flag of an answer to a ping.
const ACK: u8 = 1;
/// The flags of the end of a stream, and of its headers.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A hostile peer on a connection of its own.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// The bytes that it sends at once.
    pub(crate) opening: Vec<u8>,
    pub(crate) then: Then,
    /// The last byte of its address, 127.0.0.`from`.
    pub(crate) from: u8,
    /// When it must be gone.
    pub(crate) within: Duration,
}

/// A peer's conduct after its opening.
#[derive(Clone, Debug)]
pub(crate) enum Then {
    /// Waits for the end.
    Silence,
    /// Sends a byte of these ten times a second.
    Drip(Vec<u8>),
    /// Sends these, changed by the number of the turn, as fast as they are taken.
    Flood(fn(u32) -> Vec<u8>),
}

impl Peer {
    /// How long it may stay; fails if that is longer than it should be.
    pub(crate) async fn stay(self, address: SocketAddr) -> Duration {
        let begin = Instant::now();
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind(SocketAddr::from(([127, 0, 0, self.from], 0)))
            .unwrap();
        let stream = socket.connect(address).await.unwrap();
        let (mut reader, mut writer) = stream.into_split();
        let read = async {
            let mut buffer = vec![0; 64 << 10];
            while matches!(reader.read(&mut buffer).await, Ok(1..)) {}
        };
        let write = async {
            // Errors mean that it is not wanted any more, which the reader finds out.
            let _ = writer.write_all(&self.opening).await;
            match self.then {
                Then::Silence => {}
                Then::Drip(bytes) => {
                    for byte in bytes {
                        let _ = writer.write_all(&[byte]).await;
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
                Then::Flood(next) => {
                    let mut turn = 0;
                    while writer.write_all(&next(turn)).await.is_ok() {
                        turn += 1;
                    }
                }
            }
            std::future::pending::<()>().await;
        };
        let gone = async {
            tokio::select! {
                () = read => {}
                () = write => {}
            }
        };
        let gone = tokio::time::timeout(self.within, gone).await;
        assert!(
            gone.is_ok(),
            "{} is there after {:?}",
            self.name,
            self.within
        );
        begin.elapsed()
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    let mut frame = Vec::with_capacity(9 + payload.len());
    frame.extend([16, 8, 0].map(|shift| byte(length, shift)));
    frame.extend([kind, flags]);
    frame.extend([24, 16, 8, 0].map(|shift| byte(stream, shift)));
    frame.extend_from_slice(payload);
    frame
}

fn byte(number: u32, shift: u32) -> u8 {
    (number >> shift & 0xff) as u8
}

/// The beginning of HTTP/2 from a client that keeps to it so far.
pub(crate) fn greeting() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// A header in the plainest coding.
fn header(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).expect("below 127, in one byte");
    let mut bytes = vec![0, length(name)];
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(length(value));
    bytes.extend_from_slice(value.as_bytes());
    bytes
}

fn call_headers() -> Vec<u8> {
    [
        header(":method", "POST"),
        header(":scheme", "http"),
        header(":path", "/chomp.v1.Coordinator/Complete"),
        header(":authority", "a"),
        header("content-type", "application/grpc"),
        header("te", "trailers"),
    ]
    .concat()
}

/// Calls are numbered 1, 3, 5, ….
fn number(turn: u32) -> u32 {
    2 * turn + 1
}

/// A call that begins and does not go on.
pub(crate) fn half_call(turn: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, number(turn), &call_headers())
}

/// A call that is taken back at once.
pub(crate) fn reset_call(turn: u32) -> Vec<u8> {
    let end = END_HEADERS | END_STREAM;
    let begin = frame(HEADERS, end, number(turn), &call_headers());
    [begin, frame(RST_STREAM, 0, number(turn), &[0, 0, 0, 8])].concat()
}

/// Headers that never end.
pub(crate) fn endless_headers(turn: u32) -> Vec<u8> {
    if turn == 0 {
        return frame(HEADERS, 0, 1, &call_headers());
    }
    let more = header("x", &"y".repeat(100)).repeat(100);
    frame(CONTINUATION, 0, 1, &more)
}

/// Answers to pings that nobody sent.
pub(crate) fn ping_answers(_: u32) -> Vec<u8> {
    frame(PING, ACK, 0, b"chomping").repeat(1000)
}

/// Header lines of HTTP/1 that never end.
pub(crate) fn endless_lines(_: u32) -> Vec<u8> {
    b"x: y\r\n".repeat(1000)
}

/// Bytes without meaning.
pub(crate) fn noise(turn: u32) -> Vec<u8> {
    let mut random = Rng(turn.into());
    (0..10_000)
        .map(|_| (random.below(256) & 0xff) as u8)
        .collect()
}
