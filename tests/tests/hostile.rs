//! Everything that a port on a network has to expect, all at once, while a real worker makes a table:
//! the job goes on, memory stays bounded, and whoever is of no use has to go.

mod common;
mod peers;

use std::time::Duration;

use bytes::Bytes;
use chomp_access::Access;
use chomp_proto::v1;
use common::FINGERPRINT_24;
use peers::client::{Rpc, connect, hello};
use peers::raw::{
    PREFACE, Peer, Then, endless_headers, endless_lines, greeting, half_call, noise, reset_call,
};
use peers::{Cluster, assert_content};
use tokio::task::JoinSet;
use tonic::{Code, Status};

const PEAK_BYTES_MAX: u64 = 300 << 20;
/// Connections of one peer that send nothing. Fewer than one address may have.
const SILENT: usize = 1000;
/// What a busy machine may add to any time.
const SLACK: Duration = Duration::from_secs(15);
/// The named limits: see `serve/src/net/limits.rs`.
const GREETING: Duration = Duration::from_secs(10);
const HEADER: Duration = Duration::from_secs(10);
const KEEPALIVE: Duration = Duration::from_secs(20);
/// How long the next message of a submission may take.
const MESSAGE: Duration = Duration::from_secs(30);
/// Those that can only be seen to stay may do so for as long as all others.
const WATCHED: Duration = Duration::from_secs(45);

fn raw_peers() -> Vec<Peer> {
    let peer = |name, opening: &[u8], then, within: Duration| Peer {
        name,
        opening: opening.to_vec(),
        then,
        within: within + SLACK,
    };
    let soon = Duration::ZERO;
    let hello = b"GET /status HTTP/1.1\r\nhost: a\r\n";
    let get = [&hello[..], b"\r\n"].concat();
    let deaf = [&greeting()[..], &half_call(0), &half_call(1)].concat();
    let tls = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let post = b"POST /chomp.v1.Coordinator/Join HTTP/1.1\r\nhost: a\r\ncontent-type: text/html\r\ncontent-length: 100\r\n\r\nhalf";
    vec![
        peer("half a preface", &PREFACE[..12], Then::Silence, GREETING),
        peer(
            "a preface in drops",
            b"",
            Then::Drip(PREFACE.to_vec()),
            GREETING,
        ),
        peer("a silent caller", PREFACE, Then::Silence, 2 * KEEPALIVE),
        // It does not answer when it is asked whether it is there.
        peer("half a call", &deaf, Then::Silence, 2 * KEEPALIVE),
        peer(
            "a call in drops",
            &greeting(),
            Then::Drip(half_call(0).repeat(10)),
            2 * KEEPALIVE,
        ),
        peer("half a request", hello, Then::Silence, HEADER),
        peer(
            "a request in drops",
            hello,
            Then::Drip(endless_lines(0)),
            HEADER,
        ),
        peer("a request and no more", &get, Then::Silence, HEADER),
        peer("half of another type", post, Then::Silence, soon),
        peer("endless lines", hello, Then::Flood(endless_lines), soon),
        peer(
            "endless headers",
            &greeting(),
            Then::Flood(endless_headers),
            soon,
        ),
        peer("resets", &greeting(), Then::Flood(reset_call), soon),
        peer("noise", b"", Then::Flood(noise), soon),
        peer("TLS", &tls, Then::Silence, GREETING),
    ]
}

/// A call that must end by itself within `within`, with one of `codes`.
async fn assert_ends<T: std::fmt::Debug>(
    name: &str,
    within: Duration,
    codes: &[Code],
    call: impl Future<Output = Result<T, Status>>,
) {
    let ended = tokio::time::timeout(within + SLACK, call).await;
    let ended = ended.unwrap_or_else(|_| panic!("{name} is there after {within:?}"));
    let status = ended.expect_err(name);
    assert!(codes.contains(&status.code()), "{name}: {status:?}");
}

fn header(bytes: u64) -> v1::SubmitRequest {
    let header = v1::SubmitHeader {
        worker: 1,
        lease: 1,
        bytes,
    };
    v1::SubmitRequest {
        header: Some(header),
        pieces: Vec::new(),
    }
}

fn pieces(data: Vec<u8>, count: usize) -> v1::SubmitRequest {
    let piece = v1::Piece {
        head: 0,
        data: Bytes::from(data),
        last: false,
    };
    v1::SubmitRequest {
        header: None,
        pieces: vec![piece; count],
    }
}

/// Submissions by somebody who has a token.
async fn submissions(access: Access) {
    use tokio_stream::{StreamExt, iter, pending};
    let rpc = connect(&access).await;
    let submit = async |messages: Vec<v1::SubmitRequest>, then_silent: bool| {
        let mut rpc: Rpc = rpc.clone();
        if then_silent {
            rpc.submit(iter(messages).chain(pending())).await
        } else {
            rpc.submit(iter(messages)).await
        }
    };
    let soon = Duration::ZERO;
    let invalid = [Code::InvalidArgument];
    let mib = || pieces(vec![0; 1 << 20], 1);
    let late = [Code::DeadlineExceeded];
    tokio::join!(
        assert_ends("no message", MESSAGE, &late, submit(vec![], true)),
        // It keeps half of the memory for all submissions, for as long as that.
        assert_ends("64 MiB that do not come", MESSAGE, &late, async {
            submit(vec![header(64 << 20)], true).await
        }),
        assert_ends("more than declared", soon, &invalid, async {
            submit(vec![header(5), mib()], true).await
        }),
        assert_ends("less than declared", soon, &invalid, async {
            submit(vec![header(5 << 20), mib()], false).await
        }),
        assert_ends("too much declared", soon, &invalid, async {
            submit(vec![header(u64::MAX), mib()], true).await
        }),
        assert_ends("64 MiB of zeros", soon, &invalid, async {
            let mut zeros = vec![header(64 << 20)];
            zeros.extend(std::iter::repeat_n(mib(), 64));
            submit(zeros, false).await
        }),
        assert_ends("a million empty pieces", soon, &invalid, async {
            let empty = pieces(Vec::new(), 300_000);
            submit(vec![header(5 << 20), empty.clone(), empty], false).await
        }),
        assert_ends(
            "a message above the limit",
            soon,
            &[Code::OutOfRange, Code::ResourceExhausted],
            async { submit(vec![header(64 << 20), pieces(vec![0; 16 << 20], 1)], false).await }
        ),
        assert_ends("no header", soon, &invalid, submit(vec![mib()], true)),
    );
    // One that goes on and on within its limits may do so for ten minutes; nobody else minds.
    let endless = tokio_stream::StreamExt::throttle(
        iter(std::iter::once(header(1 << 20)).chain(std::iter::repeat(pieces(Vec::new(), 1)))),
        Duration::from_millis(100),
    );
    let mut rpc = rpc.clone();
    let endless = tokio::time::timeout(Duration::from_secs(5), rpc.submit(endless)).await;
    assert!(endless.is_err(), "{endless:?}");
}

/// Fetches that nobody reads, though the connection shows that somebody is there.
async fn deaf_fetches(access: Access) {
    let mut rpc = connect(&access).await;
    rpc.join(hello(u64::MAX, "deaf")).await.unwrap();
    let request = |count| v1::FetchRequest {
        worker: u64::MAX,
        heads: vec![0; count],
    };
    // The range is not there at once.
    let is_there = async {
        loop {
            let reply = rpc.fetch(request(1)).await.unwrap();
            if reply.into_inner().message().await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(WATCHED, is_there).await.unwrap();
    let mut streams = Vec::new();
    for _ in 0..50 {
        let stream = rpc.fetch(request(chomp_proto::FETCH_RANGES_MAX)).await;
        streams.push(stream.unwrap());
    }
    let refused = rpc.fetch(request(5000)).await.expect_err("too many ranges");
    assert_eq!(refused.code(), Code::InvalidArgument);
    tokio::time::sleep(WATCHED).await;
    drop(streams);
}

/// More calls than a connection may have, none of which goes on. Those beyond wait on this side.
async fn thousands_of_calls(access: Access) {
    let rpc = connect(&access).await;
    let mut calls = JoinSet::new();
    for _ in 0..5000 {
        let mut rpc = rpc.clone();
        calls.spawn(async move {
            let silent = tokio_stream::pending::<v1::SubmitRequest>();
            rpc.submit(silent).await.map(drop)
        });
    }
    let _ = tokio::time::timeout(WATCHED, calls.join_all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_goes_on_among_hostile_peers() {
    let mut cluster = Cluster::start(24, &["--range-bits", "12", "--keep-parts"]);
    let (address, access) = (cluster.address(), cluster.access.clone());
    let mut stays = JoinSet::new();
    for peer in raw_peers() {
        stays.spawn(async move { (peer.name, peer.stay(address).await) });
    }
    for _ in 0..SILENT {
        let silent = Peer {
            name: "a silent connection",
            opening: Vec::new(),
            then: Then::Silence,
            within: GREETING + SLACK,
        };
        stays.spawn(async move { (silent.name, silent.stay(address).await) });
    }
    let mut calls = JoinSet::new();
    calls.spawn(submissions(access.clone()));
    calls.spawn(deaf_fetches(access.clone()));
    calls.spawn(thousands_of_calls(access));

    let worker = cluster.worker("honest");
    let cluster = tokio::task::spawn_blocking(move || {
        let manifest = cluster.published();
        assert_eq!(manifest["fingerprint"], FINGERPRINT_24);
        assert_content(worker);
        cluster
    });
    let cluster = cluster.await.unwrap();
    while let Some(stay) = stays.join_next().await {
        let (name, time) = stay.unwrap();
        // What is dropped only for its silence is given the time that others need.
        if name == "a silent connection" || name == "half a request" {
            assert!(time > GREETING / 2, "{name}: {time:?}");
        }
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
    let mut cluster = cluster;
    let cluster = tokio::task::spawn_blocking(move || {
        cluster.wait_until("all connections closed", |cluster| {
            cluster.metric("chomp_connections_open") <= 1
        });
        let peak = cluster.peak_bytes();
        assert!(peak < PEAK_BYTES_MAX, "{peak} bytes");
        cluster
    });
    cluster.await.unwrap().stop();
}
