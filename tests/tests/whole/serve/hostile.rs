//! Peers that are slow, many, or mean no good, while honest ones ask: those are answered, memory
//! stays bounded, and whoever is of no use has to go.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use chomp_access::Access;
use chomp_serve::net::limits::FOREIGN_QUESTIONS;
use chomp_table::rng::Rng;
use chomp_testing::waiting::{HANG, arrives};
use http::{Method, Response};
use tokio::task::JoinSet;
use tonic::body::Body;

use super::{BITS, Served, home};
use crate::common::cluster::{Cluster, wait_for};
use crate::common::http::get;
use crate::peers::client::Link;
use crate::peers::raw::{Peer, Then};

const SILENT: usize = 800;
const SLOW: usize = 800;
/// The server's time limits are those in `crates/serve/src/net/limits.rs` divided by this.
const HASTE: u32 = 4;
/// How long one that had to go stays away.
const AWAY: Duration = Duration::from_millis(100);
/// The least number of honest questions.
const QUESTIONS: usize = 50;
const PEAK_BYTES_MAX: u64 = 300 << 20;

/// Requests that no client makes.
fn absurd() -> Vec<Vec<u8>> {
    let mut random = Rng(1);
    let mut noise = || {
        (0..20_000)
            .map(|_| u8::try_from(random.below(256)).unwrap())
            .collect()
    };
    let ask = |path: &str, header: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: a\r\n{header}\r\n\r\n").into_bytes()
    };
    let mut requests: Vec<Vec<u8>> = vec![
        noise(),
        noise(),
        ask("/api/table", &format!("x: {}", "y".repeat(1 << 20))),
        ask("/api/table", &"x: y\r\n".repeat(100_000)),
        ask(&format!("/api/position/{}", "1,".repeat(500_000)), "x: y"),
        ask(&format!("/api/position/{}", "9".repeat(10_000)), "x: y"),
        ask(&format!("/{}", "a/".repeat(5_000)), "x: y"),
        ask("/api/position/4294967295x4294967295", "x: y"),
        ask("/table-16/shard-0000.zst", &format!("range: bytes={}", "0-1,".repeat(3_000))),
        ask("/table-16/shard-0000.zst", "range: bytes=18446744073709551615-18446744073709551616"),
        ask("/table-16/shard-0000.zst", "range: bytes=-0"),
        ask("/api/status", &format!("accept: {}", "text/html;q=0.1,".repeat(900))),
        ask("/", &format!("accept: text/html;q={}", "9".repeat(10_000))),
        b"POST /api/table HTTP/1.1\r\nhost: a\r\ncontent-length: 18446744073709551615\r\n\r\nhalf".to_vec(),
        b"POST /api/table HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n".to_vec(),
        b"GET /api/table HTTP/9.9\r\nhost: a\r\n\r\n".to_vec(),
        b"GET http://[::1/api HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(),
    ];
    // Many at once over one connection.
    requests.push(ask("/api/openings", "x: y").repeat(500));
    requests
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn honest_questions_are_answered_among_hostile_ones() {
    let served = Served::in_haste(HASTE, home(16), "--trust-proxy 127.0.0.1");
    let port = served.server.port;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let answered = Arc::new(AtomicBool::new(false));
    // Connections that had to go once.
    let gone = Arc::new(AtomicUsize::new(0));
    let mut stays = JoinSet::new();
    let mut come = |name, opening: Vec<u8>, then| {
        let peer = Peer {
            name,
            opening,
            then,
            from: 1,
            within: HANG,
        };
        let (answered, gone) = (Arc::clone(&answered), Arc::clone(&gone));
        stays.spawn(async move {
            peer.clone().stay(address).await;
            gone.fetch_add(1, Ordering::Relaxed);
            // They come again for as long as somebody honest asks.
            while !answered.load(Ordering::Relaxed) {
                tokio::time::sleep(AWAY).await;
                peer.clone().stay(address).await;
            }
        });
    };
    for _ in 0..SILENT {
        come("a silent connection", Vec::new(), Then::Silence);
    }
    for _ in 0..SLOW {
        let drops = Then::Drip(b"TP/1.1\r\nx: y".repeat(100));
        come("a slow request", b"GET /api/table HT".to_vec(), drops);
    }
    for request in absurd() {
        come("an absurd request", request, Then::Drip(vec![b'z'; 1000]));
    }
    let honest = tokio::task::spawn_blocking(move || {
        let mut asked = 0;
        // Until so many had to go, all were there.
        wait_for("answers among hostile peers", || {
            let response = get(port, "/api/position/8x8", &[]);
            assert_eq!(response.status, 200, "{response:?}");
            asked += 1;
            asked >= QUESTIONS && gone.load(Ordering::Relaxed) >= SLOW
        });
    });
    honest.await.unwrap();
    answered.store(true, Ordering::Relaxed);
    stays.join_all().await;
    let peak = served.server.process.peak_bytes();
    assert!(peak < PEAK_BYTES_MAX, "{peak}");
    tokio::task::block_in_place(|| served.stop());
}

/// They answer the server's pings, grant no window, and so take nothing of what they ask for. They take no memory that
/// visitors from elsewhere need, and have theirs for a time only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn visitors_who_take_nothing_hold_up_nobody_else() {
    const CALLS: usize = 64;
    let served = Served::in_haste(HASTE, home(24), "");
    let shard = "/table-24/shard-0000.zst";
    let visitor = Access {
        coordinator: served.server.url(),
        ca: None,
        token: None,
    };
    let open = || async {
        let link = Link::open_from(&visitor, Ipv4Addr::new(127, 0, 0, 2), 0).await;
        link.unwrap()
    };
    // A call beyond all memory has no answer, not even a refusal.
    let is_refused = |answer: &Result<Response<Body>, _>| {
        answer
            .as_ref()
            .map_or(true, |answer| answer.status() == 503)
    };
    let ask = |link: Link| async move { link.ask(Method::GET, shard, &[], Body::empty()).await };
    let (mut held, mut refused) = (Vec::new(), false);
    while !refused {
        let link = open().await;
        for _ in 0..CALLS {
            let answer = ask(link.clone()).await;
            refused |= is_refused(&answer);
            held.push(answer);
        }
        let other = tokio::task::block_in_place(|| served.get(shard));
        assert_eq!(other.status, 200);
    }
    // The answers that were held end, though nobody dropped them.
    let again = async { while is_refused(&ask(open().await).await) {} };
    arrives("room for more", again).await;
    drop(held);
    tokio::task::block_in_place(|| served.stop());
}

/// One that takes a second of CPU time or more.
const LONG: &str = "/api/games/poisons/1000,1000,1000@1,1000@3,1000";

#[test]
fn a_question_has_so_much_time_and_no_more() {
    // A twentieth of a second.
    let served = Served::in_haste(40, home(BITS), "");
    let refused = served.get(LONG);
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()["error"], "this takes too much time here");
    assert_eq!(served.get("/api/games/poisons/3x4").status, 200);
    served.stop();
}

/// A page of another site asks through the browser of a visitor, who asks as well.
#[test]
fn pages_of_other_sites_cost_the_visitor_nothing() {
    const PAGES: usize = 12;
    for header in ["Origin: https://example.org", "Sec-Fetch-Site: cross-site"] {
        let served = Served::of(home(BITS), "");
        let port = served.server.port;
        let asked = (0..PAGES).map(|_| thread::spawn(move || get(port, LONG, &[header]).status));
        let asked: Vec<_> = asked.collect();
        // The questions that are answered take all places that foreign ones have.
        wait_for("questions that are refused", || {
            let answered = asked.iter().filter(|asked| asked.is_finished());
            answered.count() >= PAGES - FOREIGN_QUESTIONS
        });
        assert_eq!(served.get("/api/position/3x4").status, 200);
        for own in ["Origin: http://localhost", "Sec-Fetch-Site: same-origin"] {
            assert_eq!(get(port, "/api/position/3x4", &[own]).status, 200);
        }
        let asked = asked.into_iter().map(|asked| asked.join().unwrap());
        let refused = asked.filter(|status| *status == 503).count();
        assert!(refused > 0, "all were answered");
        served.stop();
    }
}

/// Beside a job a question is answered by a thread that yields to it.
#[test]
fn questions_to_a_coordinator_yield_to_its_job() {
    /// It is there for a quarter of a second of CPU time, and may be missed.
    const TRIES: usize = 10;
    let cluster = Cluster::new();
    let coordinator = cluster.start_coordinator(&mut cluster.coordinator(20, 12));
    let yields = (0..TRIES).any(|_| {
        thread::scope(|scope| {
            let asked = scope.spawn(|| cluster.get(LONG, &[]));
            let mut yields = false;
            while !asked.is_finished() {
                yields |= coordinator.nice_values().contains(&19);
            }
            yields
        })
    });
    assert!(yields);
    coordinator.stop();
}
