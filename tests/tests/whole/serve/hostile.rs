//! Peers that are slow, many, or mean no good, while honest ones ask: those are answered, memory
//! stays bounded, and whoever is of no use has to go.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use chomp_table::rng::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::Served;
use crate::common::http::get;
use crate::common::{end, run};

const SILENT: usize = 800;
const SLOW: usize = 800;
/// The server's time limits are those in `crates/serve/src/net/limits.rs` divided by this.
const HASTE: u32 = 4;
/// When they must be gone: fifteen seconds are the limit of a connection without a call.
const GONE: Duration = Duration::from_secs(30);
/// The least time and the least number of honest questions. The others stay for longer, so a question that is answered
/// within this time did not wait for them to go.
const AMONG_THEM: Duration = Duration::from_secs(2);
const QUESTIONS: usize = 50;
const PEAK_BYTES_MAX: u64 = 300 << 20;

/// Sends `opening` at once and then a byte of `drops` a second, until the connection is closed.
async fn stay(address: SocketAddr, opening: Vec<u8>, drops: &'static [u8]) -> Duration {
    let begin = Instant::now();
    let Ok(mut stream) = TcpStream::connect(address).await else {
        return Duration::ZERO;
    };
    let (mut reader, mut writer) = stream.split();
    let read = async {
        let mut buffer = vec![0; 4096];
        while matches!(reader.read(&mut buffer).await, Ok(1..)) {}
    };
    let write = async {
        if writer.write_all(&opening).await.is_ok() {
            for drop in drops.iter().cycle() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if writer.write_all(&[*drop]).await.is_err() {
                    break;
                }
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
    begin.elapsed()
}

/// Requests that no client makes.
fn absurd() -> Vec<Vec<u8>> {
    let mut random = Rng(1);
    let mut noise = || {
        (0..20_000)
            .map(|_| u8::try_from(random.below(256)).unwrap())
            .collect()
    };
    let get = |path: &str, header: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: a\r\n{header}\r\n\r\n").into_bytes()
    };
    let mut requests: Vec<Vec<u8>> = vec![
        noise(),
        noise(),
        get("/api/table", &format!("x: {}", "y".repeat(1 << 20))),
        get("/api/table", &"x: y\r\n".repeat(100_000)),
        get(&format!("/api/position/{}", "1,".repeat(500_000)), "x: y"),
        get(&format!("/api/position/{}", "9".repeat(10_000)), "x: y"),
        get(&format!("/{}", "a/".repeat(5_000)), "x: y"),
        get("/api/position/4294967295x4294967295", "x: y"),
        get("/table-16/shard-0000.zst", &format!("range: bytes={}", "0-1,".repeat(3_000))),
        get("/table-16/shard-0000.zst", "range: bytes=18446744073709551615-18446744073709551616"),
        get("/table-16/shard-0000.zst", "range: bytes=-0"),
        get("/api/status", &format!("accept: {}", "text/html;q=0.1,".repeat(900))),
        get("/", &format!("accept: text/html;q={}", "9".repeat(10_000))),
        b"POST /api/table HTTP/1.1\r\nhost: a\r\ncontent-length: 18446744073709551615\r\n\r\nhalf".to_vec(),
        b"POST /api/table HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n".to_vec(),
        b"GET /api/table HTTP/9.9\r\nhost: a\r\n\r\n".to_vec(),
        b"GET http://[::1/api HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(),
    ];
    // Many at once over one connection.
    requests.push(get("/api/openings", "x: y").repeat(500));
    requests
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn honest_questions_are_answered_among_hostile_ones() {
    let home = tempfile::tempdir().unwrap();
    end(&mut run(&home.path().join("table"), 16)).summary();
    let served = Served::in_haste(HASTE, home, &["--rate", "0", "--trust-proxy", "127.0.0.1"]);
    let port = served.port;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stays = JoinSet::new();
    for _ in 0..SILENT {
        stays.spawn(stay(address, Vec::new(), b""));
    }
    for _ in 0..SLOW {
        stays.spawn(stay(
            address,
            b"GET /api/table HT".to_vec(),
            b"TP/1.1\r\nx: y",
        ));
    }
    for request in absurd() {
        stays.spawn(stay(address, request, b"z"));
    }
    let honest = tokio::task::spawn_blocking(move || {
        let begin = Instant::now();
        let mut asked = 0;
        while asked < QUESTIONS || begin.elapsed() < AMONG_THEM {
            let start = Instant::now();
            let response = get(port, "/api/position/8x8", &[]);
            assert_eq!(response.status, 200, "{response:?}");
            let took = start.elapsed();
            assert!(took < AMONG_THEM, "{took:?}");
            asked += 1;
        }
    });
    honest.await.unwrap();
    let gone = async { while stays.join_next().await.is_some() {} };
    tokio::time::timeout(GONE, gone)
        .await
        .expect("all have to go");
    let peak = served.process.peak_bytes();
    assert!(peak < PEAK_BYTES_MAX, "{peak}");
    tokio::task::block_in_place(|| served.stop());
}
