//! Everything that a port on a network has to expect, all at once, while a real worker makes a table:
//! the job goes on, memory stays bounded, and whoever is of no use has to go.

use std::error::Error;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::common::FINGERPRINT_24;
use crate::common::cluster::wait_for;
use crate::peers::client::{Link, all, connect, hello, pieces};
use crate::peers::raw::{
    PREFACE, Peer, Then, endless_headers, endless_lines, greeting, half_call, noise, ping_answers,
    reset_call,
};
use crate::peers::{Job, assert_content};
use chomp_access::Access;
use chomp_proto::{OBJECTS_PATH, WORKER_HEADER, v1};
use chomp_testing::waiting::{HANG, arrives};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use tokio::task::JoinSet;
use tonic::body::Body;
use tonic::{Code, Status};

const PEAK_BYTES_MAX: u64 = 300 << 20;
/// Connections of one address that send nothing: more than there are in all.
const SILENT: usize = 5000;
/// The coordinator's time limits are those in `crates/serve/src/net/limits.rs` divided by this.
const HASTE: u32 = 4;
/// The limit of a handshake, and of the head of a request.
const HANDSHAKE: Duration = Duration::from_millis(2500);
/// How long those go on that nobody ends: longer than a connection may stand still.
const WATCHED: Duration = Duration::from_secs(10);

fn raw_peers() -> Vec<Peer> {
    let peer = |name, opening: &[u8], then| Peer {
        name,
        opening: opening.to_vec(),
        then,
        from: 3,
        within: HANG,
    };
    let hello = b"GET /status HTTP/1.1\r\nhost: a\r\n";
    let get = [&hello[..], b"\r\n"].concat();
    let begun = greeting();
    let deaf = [&begun[..], &half_call(0), &half_call(1)].concat();
    let tls = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let post = b"POST /chomp.v1.Coordinator/Join HTTP/1.1\r\nhost: a\r\ncontent-type: text/html\r\ncontent-length: 100\r\n\r\nhalf";
    let drops = |bytes: &[u8]| Then::Drip(bytes.to_vec());
    let calls = half_call(0).repeat(10);
    vec![
        peer("half a preface", &PREFACE[..12], Then::Silence),
        peer("a preface in drops", b"", drops(PREFACE)),
        peer("a silent caller", PREFACE, Then::Silence),
        // It does not answer when it is asked whether it is there.
        peer("half a call", &deaf, Then::Silence),
        peer("a call in drops", &begun, drops(&calls)),
        peer("half a request", hello, Then::Silence),
        peer("a request in drops", hello, drops(&endless_lines(0))),
        peer("a request and no more", &get, Then::Silence),
        peer("half of another type", post, Then::Silence),
        peer("endless lines", hello, Then::Flood(endless_lines)),
        peer("endless headers", &begun, Then::Flood(endless_headers)),
        peer("resets", &begun, Then::Flood(reset_call)),
        peer("noise", b"", Then::Flood(noise)),
        peer("TLS", &tls, Then::Silence),
    ]
}

/// A worker of this number has joined, and holds no lease.
const WORKER: u64 = u64::MAX;

/// The answer of a coordinator. A connection that takes longer than the hasty limits allow, as on a slow machine, is
/// ended without one: then the call is made again, on a new one.
async fn answer<T, F>(call: impl Fn() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let answered = async {
        loop {
            match call().await {
                Err(ended) if ended.source().is_some() => {}
                answer => return answer,
            }
        }
    };
    arrives("an answer", answered).await
}

/// The connection of a worker that has joined.
async fn joined(access: &Access, worker: u64, name: &str) -> Link {
    let join = || async {
        let link = Link::open(access).await;
        let mut link = link.map_err(Status::from_error)?;
        link.rpc.join(hello(worker, name)).await?;
        Ok(link)
    };
    answer(join).await.unwrap()
}

/// Requests for objects by somebody who has a token, and no lease.
async fn objects(access: Access) {
    let link = joined(&access, WORKER, "hostile").await;
    let ask = async |method, key: &str, headers: &[(&str, &str)], body| {
        let path = format!("{OBJECTS_PATH}{key}");
        all(link.ask(method, &path, headers, body).await?).await
    };
    let worker = WORKER.to_string();
    let refusals = [
        StatusCode::BAD_REQUEST,
        StatusCode::FORBIDDEN,
        StatusCode::NOT_FOUND,
        StatusCode::METHOD_NOT_ALLOWED,
        StatusCode::LENGTH_REQUIRED,
        StatusCode::PAYLOAD_TOO_LARGE,
    ];
    for key in [
        "access.json",
        "work/../access.json",
        "work/parts/../../access.json",
        "%2e%2e/access.json",
        "/etc/passwd",
        "work/parts/0000/%00",
        "work/parts",
        "work/job",
        &"a/".repeat(2000),
    ] {
        let get = || async {
            let asked = ask(Method::GET, key, &[], Body::empty()).await;
            asked.map_err(Status::from_error)
        };
        let (status, _) = answer(get).await.unwrap();
        assert!(refusals.contains(&status), "GET {key}: {status}");
    }
    let part = "work/parts/0000/0000000100000001";
    let put = async |key: &str, more: &[(&str, &str)], body: Body| {
        let mut headers = vec![(WORKER_HEADER, &*worker), ("if-none-match", "*")];
        headers.extend(more);
        let put = ask(Method::PUT, key, &headers, body);
        let answer = arrives(key, put).await;
        // A stream may also be ended before there is an answer.
        if let Ok((status, text)) = answer {
            let is_refusal = refusals.contains(&status);
            assert!(is_refusal, "PUT {key} {more:?}: {status}: {text:?}");
        }
    };
    let mib = 1 << 20;
    let length = |length: &'static str| [("content-length", length)];
    let (hundred, most) = (length("100"), length("268435456"));
    let (too_many, none) = (length("18446744073709551615"), length("-1"));
    let other = async |key| put(key, &length("9"), pieces(1, 9, true)).await;
    tokio::join!(
        put(part, &hundred, pieces(1, 100, true)),
        put(part, &hundred, pieces(1, 99, false)),
        put(part, &hundred, pieces(1, 101, true)),
        put(part, &too_many, pieces(1, mib, false)),
        put(part, &none, pieces(1, 100, true)),
        put(part, &[], pieces(1, 100, true)),
        put(part, &[], pieces(400, mib, true)),
        put(part, &most, pieces(256, mib, true)),
        put(part, &most, pieces(0, 0, false)),
        put("work/parts/0000/0000000100000002", &[], pieces(0, 0, false)),
        other("work/journal/0000000009"),
        other("work/checkpoints/0000000009"),
        other("table-24/manifest.json"),
        other("table-24/shard-0000.zst"),
        other("access.json"),
        put(
            "table-24/shard-0000.zst",
            &[(WORKER_HEADER, "x")],
            pieces(1, 9, true)
        ),
    );
}

/// Objects that are asked for and not read, though the connection shows that somebody is there.
async fn deaf_readers(access: Access) {
    let link = joined(&access, WORKER - 1, "deaf").await;
    let segment = format!("{OBJECTS_PATH}work/journal/0000000000");
    let get = || async {
        let asked = link.ask(Method::GET, &segment, &[], Body::empty()).await;
        asked.map_err(Status::from_error)
    };
    let mut bodies = vec![answer(get).await.unwrap()];
    for _ in 1..50 {
        // Where this takes long, it waits too long for its reader before all are asked for.
        let Ok(response) = arrives("an answer", get()).await else {
            break;
        };
        bodies.push(response);
    }
    tokio::time::sleep(WATCHED).await;
    for response in bodies {
        assert_eq!(response.status(), StatusCode::OK);
        // Connections that waited too long for their reader may be gone.
        let _ = response.into_body().collect().await;
    }
}

/// Reports without end, of ranges that nobody has lost.
async fn reports(access: Access) {
    let worker = WORKER - 2;
    let report = |count: u64, digest: usize| {
        let record = |head| v1::LostRecord {
            head,
            digest: vec![7; digest],
            reason: "gone".to_owned(),
            lease: 7,
        };
        let records = (0..count).map(record).collect();
        v1::ReportRequest { worker, records }
    };
    let stranger = || async {
        let link = Link::open(&access).await;
        let mut link = link.map_err(Status::from_error)?;
        link.rpc.report(report(1, 32)).await
    };
    let stranger = answer(stranger).await;
    let stranger = stranger.expect_err("it has not joined");
    assert_eq!(stranger.code(), Code::NotFound);
    let rpc = joined(&access, worker, "reporter").await.rpc;
    let unfit = [
        Code::InvalidArgument,
        Code::OutOfRange,
        Code::ResourceExhausted,
    ];
    for (name, request) in [
        ("a digest of 31 bytes", report(1, 31)),
        ("messages that are too long", report(100_000, 32)),
    ] {
        let call = || async { rpc.clone().report(request.clone()).await };
        let refused = answer(call).await.expect_err(name);
        assert!(unfit.contains(&refused.code()), "{name}: {refused:?}");
    }
    for _ in 0..500 {
        // Whatever it is told: there was never such a record.
        let _ = rpc.clone().report(report(1000, 32)).await;
    }
}

/// More calls than a connection may have, none of which goes on. Those beyond wait on this side.
async fn thousands_of_calls(access: Access) {
    let link = connect(&access).await;
    let mut calls = JoinSet::new();
    for _ in 0..5000 {
        let link = link.clone();
        calls.spawn(async move {
            let headers = [("content-length", "1000000")];
            let path = format!("{OBJECTS_PATH}work/parts/0000/00");
            let put = link.ask(Method::PUT, &path, &headers, pieces(0, 0, false));
            put.await.map(drop)
        });
    }
    let _ = tokio::time::timeout(WATCHED, calls.join_all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_goes_on_among_hostile_peers() {
    let mut cluster = Job::start_with_hasty_limits(HASTE, 24, 12, &["--keep-parts"]);
    let (address, access) = (cluster.address(), cluster.access_of("hostile"));
    assert_eq!(cluster.status()["phase"], "running");
    let mut stays = JoinSet::new();
    for peer in raw_peers() {
        stays.spawn(async move { (peer.name, peer.stay(address).await) });
    }
    for _ in 0..SILENT {
        let silent = Peer {
            name: "a silent connection",
            opening: Vec::new(),
            then: Then::Silence,
            from: 2,
            within: HANG,
        };
        stays.spawn(async move { (silent.name, silent.stay(address).await) });
    }
    let mut calls = JoinSet::new();
    calls.spawn(objects(access.clone()));
    calls.spawn(deaf_readers(access.clone()));
    calls.spawn(reports(access.clone()));
    calls.spawn(thousands_of_calls(access));

    let worker = cluster.start_worker("honest");
    let cluster = tokio::task::spawn_blocking(move || {
        let manifest = cluster.published();
        assert_eq!(manifest["fingerprint"], FINGERPRINT_24);
        assert_content(worker);
        cluster
    });
    let cluster = cluster.await.unwrap();
    while let Some(stay) = stays.join_next().await {
        let (name, time) = stay.unwrap();
        // A connection that is dropped only for its silence gets the time that others need. Of the silent ones, most
        // are beyond the share of their address.
        if name == "half a request" {
            assert!(time > HANDSHAKE / 2, "{name}: {time:?}");
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

/// It answers the coordinator's pings, grants no window, and takes each transfer that it may have again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_takes_nothing_holds_up_nobody_else() {
    const READERS: usize = 64;
    let mut cluster = Job::start_with_hasty_limits(HASTE, 24, 12, &["--keep-parts"]);
    let access = cluster.access_of("hostile");
    let link = Link::open_from(&access, Ipv4Addr::LOCALHOST, 0)
        .await
        .unwrap();
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let link = link.clone();
        readers.spawn(async move {
            let segment = format!("{OBJECTS_PATH}work/journal/0000000000");
            loop {
                let asked = link.ask(Method::GET, &segment, &[], Body::empty()).await;
                // It has no answer if its connection was closed.
                let Ok(answer) = asked else { return };
                // It ends without having been taken.
                let _ = answer.into_body().collect().await;
            }
        });
    }
    tokio::task::block_in_place(|| {
        let worker = cluster.start_worker("honest-proxied");
        assert_eq!(cluster.published()["fingerprint"], FINGERPRINT_24);
        assert_content(worker);
    });
    readers.shutdown().await;
    tokio::task::block_in_place(|| cluster.stop());
}

/// Another participant may join, and the owner, however many workers one has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_participant_leaves_places_for_workers_of_others() {
    let cluster = Job::start(24, 12, &[]);
    let join = async |link: &Link, worker| {
        let mut rpc = link.rpc.clone();
        rpc.join(hello(worker, "many")).await
    };
    let many = connect(&cluster.access_of("many")).await;
    let mut workers = 0;
    let refusal = loop {
        match join(&many, workers).await {
            Ok(_) => workers += 1,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(refusal.code(), Code::ResourceExhausted, "{refusal}");
    assert!(workers > 1000, "{workers}");
    let owner = Access::read(&cluster.access()).unwrap();
    for other in [cluster.access_of("other"), owner] {
        let link = connect(&other).await;
        for worker in 0..100 {
            join(&link, worker).await.unwrap();
        }
    }
}

/// The log says from where those come that are refused, and neither they nor strangers fill it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_peers_do_fills_no_log() {
    const LOUD: u64 = 3000;
    const LOG_BYTES_MAX: usize = 100_000;
    let cluster = Job::start_with_hasty_limits(HASTE, 24, 12, &[]);
    let stranger = Peer {
        name: "answers to pings that nobody sent",
        opening: greeting(),
        then: Then::Flood(ping_answers),
        from: 3,
        within: HANG,
    };
    let mut strangers = JoinSet::new();
    strangers.spawn(stranger.stay(cluster.address()));
    let addresses = [Ipv4Addr::new(127, 0, 0, 4), Ipv4Addr::new(127, 0, 0, 5)];
    let named = ["loud", "quiet"].into_iter().zip(addresses);
    for ((name, from), calls) in named.zip([LOUD, 1]) {
        let link = Link::open_from(&cluster.access_of(name), from, 1 << 16).await;
        let mut rpc = link.unwrap().rpc;
        for worker in 0..calls {
            let mut refused = hello(worker, name);
            refused.protocol = 0;
            let refusal = rpc.join(refused).await.unwrap_err();
            assert_eq!(refusal.code(), Code::FailedPrecondition);
        }
    }
    strangers.join_all().await;
    let has = |log: &str, name, from| log.contains(&format!("{name}\\\" from 127.0.0.{from}: "));
    tokio::task::block_in_place(|| {
        let mut log = String::new();
        wait_for("a line about each", || {
            log = cluster.log();
            has(&log, "loud", 4) && has(&log, "quiet", 5)
        });
        assert!(log.contains("are left out for a minute"), "{log}");
        assert!(log.len() < LOG_BYTES_MAX, "{} bytes", log.len());
    });
}
