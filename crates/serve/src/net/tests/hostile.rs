//! Peers that keep to the protocol, and hold what they have no use for; and honest ones beside them.

use std::io;
use std::num::{NonZeroU32, NonZeroU64};

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

impl Tested {
    async fn asking_from(&self, number: u8) -> Asking<TcpStream> {
        Asking(self.connect_from(number).await)
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
    let idle_time = Duration::from_millis(1500);
    let mut limits = patient();
    (limits.idle_time, limits.drain_time) = (idle_time, Duration::from_millis(300));
    let router = router();
    let mut honest = Asking(piped(&router, limits));
    let honest = async {
        for _ in 0..8 {
            honest.is_good("/").await;
            tokio::time::sleep(idle_time / 4).await;
        }
    };
    // A call that is under way for that long is no pause.
    let mut slow = Asking(piped(&router, limits));
    let slow = async {
        for _ in 0..3 {
            slow.is_good("/token/slow").await;
        }
    };
    let hostile = async {
        let mut stream = piped(&router, limits);
        let opening = [PREFACE, EMPTY_SETTINGS].concat();
        stream.write_all(&opening).await.unwrap();
        pings(stream).await
    };
    let ((), (), took) = tokio::join!(honest, slow, hostile);
    assert!(took >= idle_time, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_keep_nobody_out_who_has_a_token() {
    let limits = Limits {
        participants: Limit { all: 8, each: 8 },
        strangers: Limit { all: 8, each: 4 },
        ..patient()
    };
    let server = start(limits, None).await;
    // All places that strangers get, and more of them all the time.
    let mut hostile = Vec::new();
    for round in 0..8 {
        for number in 2..10 {
            let mut stream = server.connect_from(number).await;
            let opening = [PREFACE, EMPTY_SETTINGS, PING].concat();
            stream.write_all(&opening).await.unwrap_or(());
            hostile.push(stream);
        }
        // Somebody who was never here.
        let mut worker = server.asking_from(20 + round).await;
        worker.is_good("/token").await;
        let mut other = server.asking_from(20 + round).await;
        other.is_good("/").await;
        worker.is_good("/token").await;
        drop((worker, other));
        assert!(server.permits.open() <= 16);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_knocks_again_and_again_without_a_token_is_shut_out() {
    let mut limits = patient();
    limits.refusal_rate = NonZeroU32::MIN;
    let server = start(limits, None).await;
    let mut honest = server.asking_from(2).await;
    honest.is_good("/").await;
    let mut worker = server.asking_from(3).await;
    worker.is_good("/token").await;
    let mut hostile = server.asking_from(3).await;
    for _ in 0..2 {
        hostile.ask("/refused").await.unwrap();
    }
    // A few are no attack. So many are one, unless a machine takes a second for each.
    let many = "GET /refused HTTP/1.1\r\nhost: a\r\n\r\n".repeat(1000);
    hostile.0.write_all(many.as_bytes()).await.unwrap_or(());
    until_closed(&mut hostile.0).await;
    // Neither others nor those who have shown a token are concerned.
    honest.is_good("/").await;
    worker.is_good("/").await;
    assert!(worker.ask("/refused").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_reads_end_their_connection() {
    let limits = Limits {
        rate_min: NonZeroU64::new(64 << 10).unwrap(),
        rate_time: Duration::from_secs(1),
        ..patient()
    };
    let router = router();
    // Slow, and fast enough.
    let mut honest = piped(&router, limits);
    honest.write_all(GET_LARGE).await.unwrap();
    let (time, pause) = (limits.rate_time * 5 / 2, Duration::from_millis(50));
    let (_, all) = read_slowly(&mut honest, time, pause).await;
    assert!(all > LARGE_BYTES, "{all}");

    let mut asks = [PREFACE, NO_WINDOW].concat();
    for stream in 0..40 {
        asks.extend(head_of("/large", 2 * stream + 1));
    }
    let mut no_window = piped(&router, limits);
    no_window.write_all(&asks).await.unwrap();
    let took = pings(no_window).await;
    assert!(took >= limits.rate_time, "{took:?}");

    // Less than it should be.
    let mut slow = piped(&router, limits);
    slow.write_all(GET_LARGE).await.unwrap();
    let (mut all, mut buffer) = (0, [0; 1024]);
    loop {
        let bytes = slow.read(&mut buffer).await.unwrap();
        if bytes == 0 {
            break;
        }
        all += bytes;
        assert!(all < LARGE_BYTES, "a slow reader stays for ever");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_do_not_come_to_an_end_are_ended() {
    let limits = Limits {
        answer_time: Duration::from_millis(500),
        rate_min: NonZeroU64::new(1000).unwrap(),
        rate_time: Duration::from_secs(1),
        ..patient()
    };
    let router = router();
    let mut hostile = Asking(piped(&router, limits));
    let answer = hostile.ask("/never").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    // Who has shown a token may have to wait.
    let mut worker = Asking(piped(&router, limits));
    worker.is_good("/token/slow").await;
    // The body of a request has its rate, too.
    let post = |length: usize| {
        let head = format!("POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
        head.into_bytes()
    };
    let mut drops = Asking(piped(&router, limits));
    drops.is_good("/token").await;
    drops.0.write_all(&post(100_000)).await.unwrap();
    let mut bytes = 0;
    while drops.0.write_all(b"x").await.is_ok() {
        bytes += 1;
        assert!(bytes < 600, "it goes on for ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    worker.0.write_all(&post(4000)).await.unwrap();
    for _ in 0..40 {
        worker.0.write_all(&[b'x'; 100]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let answer = worker.answer().await.unwrap();
    assert!(answer.ends_with("4000"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn handshakes_wait_for_their_turn() {
    let limits = Limits {
        handshake_rate: NonZeroU32::new(10).unwrap(),
        ..Limits::default()
    };
    let shared = Shared::new(limits, None, limits.permits(), CancellationToken::new());
    let [hostile, honest] = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
    let start = tokio::time::Instant::now();
    for _ in 0..100 {
        shared.turn(hostile).await.unwrap();
    }
    let took = start.elapsed().as_secs();
    assert!((7..10).contains(&took), "{took}");
    let all_at_once = (0..300).map(|_| shared.turn(hostile));
    let ended = futures_util::future::join_all(all_at_once).await;
    assert!(ended.iter().any(Result::is_ok) && ended.iter().any(Result::is_err));
    let before = tokio::time::Instant::now();
    shared.turn(honest).await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
}
