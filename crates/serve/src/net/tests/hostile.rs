//! Peers that keep to the protocol, and hold what they have no use for; and honest ones beside them.

use std::io;

use chomp_testing::waiting::HANG;
use tokio::io::{AsyncRead, AsyncWrite};

use super::*;

const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0chomping";
/// Settings that leave no room for answers.
const NO_WINDOW: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";

/// The head of a request over HTTP/2.
fn head_of(path: &str, stream: u8) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    let fields = [b"\x82\x86\x01\x01a\x04", &[length][..], path.as_bytes()].concat();
    let bytes = u8::try_from(fields.len()).unwrap();
    [&[0, 0, bytes, 1, 5, 0, 0, 0, stream], &fields[..]].concat()
}

/// A connection that asks, again and again.
struct Asking<S>(S);

impl<S: AsyncRead + AsyncWrite + Unpin> Asking<S> {
    async fn ask(&mut self, path: &str) -> io::Result<String> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        self.0.write_all(request.as_bytes()).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> io::Result<String> {
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let bytes = arrives("an answer", self.0.read(&mut buffer)).await?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            answer.extend(&buffer[..bytes]);
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            if length.is_some_and(|length| length.parse() == Ok(body.len())) {
                return Ok(text.into_owned());
            }
        }
    }

    async fn is_good(&mut self, path: &str) {
        let answer = self.ask(path).await.unwrap();
        assert!(answer.ends_with("good"), "{answer}");
    }
}

/// Sends pings until the connection is closed, and tells how long that took.
async fn pings(mut stream: DuplexStream) -> Duration {
    let start = Instant::now();
    let mut buffer = [0; 4096];
    while start.elapsed() < HANG {
        let pause = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut buffer));
        match pause.await {
            Ok(Ok(0) | Err(_)) => return start.elapsed(),
            Ok(Ok(_)) => {}
            Err(_) => stream.write_all(PING).await.unwrap_or(()),
        }
    }
    panic!("pings keep a connection open");
}

#[tokio::test(start_paused = true)]
async fn pings_alone_keep_no_connection() {
    let still_time = Duration::from_millis(1500);
    let mut limits = patient();
    (limits.still_time, limits.drain_time) = (still_time, Duration::from_millis(300));
    let router = router();
    let mut honest = Asking(piped(&router, limits));
    let honest = async {
        for _ in 0..8 {
            honest.is_good("/").await;
            tokio::time::sleep(still_time / 4).await;
        }
    };
    // The server may take longer for an answer.
    let mut slow = Asking(piped(&router, limits));
    let slow = async {
        for _ in 0..3 {
            slow.is_good("/slow").await;
        }
    };
    let hostile = async {
        let mut stream = piped(&router, limits);
        let opening = [PREFACE, EMPTY_SETTINGS].concat();
        stream.write_all(&opening).await.unwrap();
        pings(stream).await
    };
    let ((), (), took) = tokio::join!(honest, slow, hostile);
    assert!(took >= still_time, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_reads_end_their_connection() {
    let limits = Limits {
        still_time: Duration::from_secs(1),
        ..patient()
    };
    let router = router();
    let mut asks = [PREFACE, NO_WINDOW].concat();
    for stream in 0..40 {
        asks.extend(head_of("/large", 2 * stream + 1));
    }
    let mut no_window = piped(&router, limits);
    no_window.write_all(&asks).await.unwrap();
    let took = pings(no_window).await;
    assert!(took >= limits.still_time, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_may_come_slowly_and_not_stand_still() {
    let limits = Limits {
        still_time: Duration::from_secs(1),
        ..patient()
    };
    let router = router();
    let post = b"POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n";
    let mut honest = Asking(piped(&router, limits));
    honest.0.write_all(post).await.unwrap();
    for _ in 0..100 {
        honest.0.write_all(b"x").await.unwrap();
        tokio::time::sleep(limits.still_time / 2).await;
    }
    let answer = honest.answer().await.unwrap();
    assert!(answer.ends_with("100"), "{answer}");
    honest.0.write_all(post).await.unwrap();
    let start = Instant::now();
    assert!(honest.answer().await.is_err(), "it goes on for ever");
    assert!(start.elapsed() >= limits.still_time);
}
