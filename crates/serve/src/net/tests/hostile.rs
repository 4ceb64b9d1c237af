//! Peers that keep to the protocol, and hold what they have no use for; and honest ones beside them.

use std::num::{NonZeroU32, NonZeroU64};

use tokio::task::JoinSet;

use super::super::connection::Shared;
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
struct Asking(TcpStream);

impl Asking {
    async fn ask(&mut self, path: &str) -> io::Result<String> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        self.0.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let bytes = tokio::time::timeout(SOON, self.0.read(&mut buffer)).await??;
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
    async fn asking_from(&self, number: u8) -> Asking {
        Asking(self.connect_from(number).await)
    }
}

/// Sends pings until the connection is closed, and tells how long that took.
async fn pings(mut stream: TcpStream) -> Duration {
    let start = now();
    let mut buffer = [0; 4096];
    while start.elapsed() < SOON {
        let pause = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut buffer));
        match pause.await {
            Ok(Ok(0) | Err(_)) => return start.elapsed(),
            Ok(Ok(_)) => {}
            Err(_) => stream.write_all(PING).await.unwrap_or(()),
        }
    }
    panic!("pings keep a connection open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_alone_keep_no_connection() {
    let idle_time = Duration::from_millis(1500);
    let mut limits = patient();
    (limits.idle_time, limits.drain_time) = (idle_time, Duration::from_millis(300));
    let server = start(limits, None).await;
    let mut honest = server.asking_from(2).await;
    let honest = async {
        for _ in 0..8 {
            honest.is_good("/").await;
            tokio::time::sleep(idle_time / 4).await;
        }
    };
    // A call that is under way for that long is no pause.
    let mut slow = server.asking_from(2).await;
    let slow = async {
        for _ in 0..3 {
            slow.is_good("/token/slow").await;
        }
    };
    let hostile = async {
        let mut all = JoinSet::new();
        for _ in 0..20 {
            let mut stream = server.connect_from(3).await;
            let opening = [PREFACE, EMPTY_SETTINGS].concat();
            stream.write_all(&opening).await.unwrap();
            all.spawn(pings(stream));
        }
        all.join_all().await
    };
    let ((), (), took) = tokio::join!(honest, slow, hostile);
    assert!(took.iter().all(|took| *took >= idle_time), "{took:?}");
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
    limits.refusal_rate = NonZeroU32::new(5).unwrap();
    let server = start(limits, None).await;
    let mut honest = server.asking_from(2).await;
    honest.is_good("/").await;
    let mut worker = server.asking_from(3).await;
    worker.is_good("/token").await;
    let mut hostile = server.asking_from(3).await;
    let mut asked = 0;
    while hostile.ask("/refused").await.is_ok() {
        asked += 1;
        assert!(asked < 10_000, "it may go on for ever");
    }
    assert!(asked >= 10, "{asked}: a few are no attack");
    // Neither others nor those who have shown a token are concerned.
    honest.is_good("/").await;
    worker.is_good("/").await;
    assert!(worker.ask("/refused").await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_reads_end_their_connection() {
    let limits = Limits {
        rate_min: NonZeroU64::new(64 << 10).unwrap(),
        rate_time: Duration::from_secs(1),
        ..patient()
    };
    let server = start(limits, None).await;
    // Slow, and fast enough.
    let honest = async {
        let mut stream = server.connect_from(2).await;
        stream.write_all(GET_LARGE).await.unwrap();
        let (time, pause) = (limits.rate_time * 5 / 2, Duration::from_millis(50));
        let (_, all) = read_slowly(&mut stream, time, pause).await;
        assert!(all > LARGE_BYTES, "{all}");
    };
    let no_window = async {
        let mut asks = [PREFACE, NO_WINDOW].concat();
        for stream in 0..40 {
            asks.extend(head_of("/large", 2 * stream + 1));
        }
        let mut stream = server.connect_from(3).await;
        stream.write_all(&asks).await.unwrap();
        pings(stream).await
    };
    let one_by_one = async {
        let mut stream = server.asks(3, "/large").await;
        let start = now();
        // Less than it should be.
        while start.elapsed() < SOON {
            let mut buffer = [0; 1024];
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return start.elapsed(),
                Ok(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
            if server.permits.open() == 0 {
                return start.elapsed();
            }
        }
        panic!("a slow reader stays for ever");
    };
    let ((), took, _) = tokio::join!(honest, no_window, one_by_one);
    // The server counts from a moment before.
    assert!(took >= Duration::from_millis(500), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_do_not_come_to_an_end_are_ended() {
    let limits = Limits {
        answer_time: Duration::from_millis(500),
        rate_min: NonZeroU64::new(1000).unwrap(),
        rate_time: Duration::from_secs(1),
        ..patient()
    };
    let server = start(limits, None).await;
    let mut hostile = server.asking_from(2).await;
    let answer = hostile.ask("/never").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    // Who has shown a token may have to wait.
    let mut worker = server.asking_from(2).await;
    worker.is_good("/token/slow").await;
    // The body of a request has its rate, too.
    let post = |length: usize| {
        let head = format!("POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
        head.into_bytes()
    };
    let mut drops = server.asks(2, "/token").await;
    drops.write_all(&post(100_000)).await.unwrap();
    let mut bytes = 0;
    while drops.write_all(b"x").await.is_ok() {
        bytes += 1;
        assert!(bytes < 600, "it goes on for ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut steady = worker.0;
    steady.write_all(&post(4000)).await.unwrap();
    for _ in 0..40 {
        steady.write_all(&[b'x'; 100]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut answer = [0; 1024];
    let bytes = steady.read(&mut answer).await.unwrap();
    assert!(String::from_utf8_lossy(&answer[..bytes]).ends_with("4000"));
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
