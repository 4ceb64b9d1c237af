//! Attackers: each runs in a process of its own until it is killed, ignores the answers, and comes back when it is
//! thrown out.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chomp_access::Access;
use chomp_proto::{OBJECTS_PATH, v1};
use http::{Method, Response};
use hyper::body::Frame;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tonic::body::Body;

use crate::common::files;
use crate::peers::client::{
    BoxError, Link, all_records, back, false_result, hello, key_of, part_bytes_max, pieces, renewal,
};

/// The coordinator to attack, and the means of the attacker.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) access: Access,
    pub(crate) address: SocketAddr,
    /// The directory of the table: what one may read over the network is found there faster.
    pub(crate) table: std::path::PathBuf,
    /// The addresses that attack.
    pub(crate) addresses: usize,
}

impl Target {
    /// The address that a lane comes from. Honest peers have another.
    fn from(&self, lane: usize) -> IpAddr {
        let last = u8::try_from(lane % self.addresses + 1).expect("a few");
        Ipv4Addr::new(127, 0, 1, last).into()
    }
}

/// An attack: its name, whether it takes a token, whether it needs TLS, and from how many addresses it comes: a
/// participant may have machines in many places, a stranger has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) token: bool,
    pub(crate) tls: bool,
    pub(crate) addresses: usize,
}

const fn attack(name: &'static str, token: bool) -> Attack {
    Attack {
        name,
        token,
        tls: false,
        addresses: if token { 8 } else { 1 },
    }
}

const fn handshakes(name: &'static str, addresses: usize) -> Attack {
    Attack {
        tls: true,
        addresses,
        ..attack(name, false)
    }
}

/// One of several strangers.
const fn together(name: &'static str, addresses: usize) -> Attack {
    Attack {
        addresses,
        ..attack(name, false)
    }
}

/// All attacks. The first two have no contact with the coordinator; the last three come from many addresses.
pub(crate) const ALL: [Attack; 26] = [
    attack("nothing", false),
    attack("busy loops", false),
    attack("uploads never sent", true),
    attack("heartbeats", true),
    attack("joins", true),
    attack("unread streams", true),
    attack("small reads", true),
    attack("pings", false),
    attack("unread downloads", false),
    attack("failures", true),
    attack("returns", true),
    attack("completions", true),
    attack("lost records", true),
    attack("status", true),
    attack("listeners", true),
    attack("refused calls", false),
    attack("questions", false),
    attack("games", false),
    attack("unread answers", false),
    attack("messages without end", true),
    Attack {
        addresses: 2,
        ..attack("silence after a token", true)
    },
    handshakes("handshakes", 1),
    handshakes("begun handshakes", 1),
    handshakes("begun handshakes of seven", 7),
    together("games of six", 6),
    together("slow downloads of eight", 8),
];

/// A connection of several lanes, once one of them has opened it.
type Shared = Arc<tokio::sync::Mutex<Option<Link>>>;

/// Attacks until the process is killed.
pub(crate) async fn run(name: &str, target: Target) {
    let target = Arc::new(target);
    let mut lanes = JoinSet::new();
    // The number of lanes, spread over the addresses that the attacker has.
    let many = match name {
        "nothing" => 0,
        "busy loops" => 2,
        "uploads never sent" => 64,
        "unread streams" => 640,
        "unread answers" => 1024,
        "pings" => 4094,
        "silence after a token" => 5000,
        "begun handshakes" => 1622,
        "begun handshakes of seven" => 7 * 1622,
        "messages without end" => 6 * 64,
        "unread downloads" | "listeners" | "slow downloads of eight" => 256,
        _ => 128,
    };
    // A few connections share the calls, as those of a worker do.
    let connections = if name == "messages without end" {
        6
    } else {
        16
    };
    let peers: Vec<Shared> = (0..connections).map(|_| Shared::default()).collect();
    for lane in 0..many {
        let (name, target) = (name.to_owned(), Arc::clone(&target));
        let shared = Arc::clone(&peers[lane % peers.len()]);
        lanes.spawn(async move {
            loop {
                let done = match &*name {
                    "busy loops" => burn().await,
                    "pings" => ping(&target, lane).await,
                    "unread downloads" => download(&target, lane, Duration::MAX).await,
                    "slow downloads of eight" => download(&target, lane, SIP_EVERY).await,
                    "handshakes" => handshake(&target, lane).await,
                    "begun handshakes" | "begun handshakes of seven" => {
                        silence(&target, lane, &[22, 3, 1]).await
                    }
                    "silence after a token" => {
                        if lane < target.addresses {
                            show_token(&target, lane).await
                        } else {
                            silence(&target, lane, &[]).await
                        }
                    }
                    _ => with_peer(&name, &target, lane, &shared).await,
                };
                if done.is_err() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        });
    }
    lanes.join_all().await;
    std::future::pending::<()>().await;
}

/// Another number for each worker.
fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

async fn burn() -> Result<(), BoxError> {
    let mut number = 0_u64;
    for step in 0..10_000_000_u64 {
        number = std::hint::black_box(number.wrapping_mul(31).wrapping_add(step));
    }
    tokio::task::yield_now().await;
    Ok(())
}

async fn with_peer(
    name: &str,
    target: &Target,
    lane: usize,
    shared: &Shared,
) -> Result<(), BoxError> {
    let peer = {
        let mut present = shared.lock().await;
        if present.is_none() {
            let from = Some(target.from(lane));
            *present = Some(Link::open(&target.access, from).await?);
        }
        present.clone().expect("it was made")
    };
    let done = over(name, target, lane, peer).await;
    if done.is_err() {
        shared.lock().await.take();
    }
    done
}

/// One thing after the other over a connection, until it fails.
async fn over(name: &str, target: &Target, lane: usize, mut peer: Link) -> Result<(), BoxError> {
    let worker = number();
    let joins = [
        "joins",
        "refused calls",
        "status",
        "listeners",
        "questions",
        "games",
        "games of six",
        "unread answers",
        "messages without end",
    ];
    if target.access.token.is_some() && !joins.contains(&name) {
        peer.rpc.join(hello(worker, "attacker")).await?;
    }
    let reason = "\u{1b}[2J\u{1b}]0;x\u{7}\r\n".repeat(60);
    loop {
        match name {
            "uploads never sent" => upload(&mut peer, worker).await?,
            "heartbeats" => {
                let leases = (0..8192).map(|lease| 1 << 32 | lease).collect();
                patient(peer.rpc.renew(renewal(worker, leases)).await)?;
            }
            "joins" => patient(peer.rpc.join(hello(number(), "attacker")).await)?,
            "unread streams" => {
                let path = large_part(&target.table, lane)?;
                let body = peer.ask(Method::GET, &path, &[], Body::empty()).await?;
                unread(body).await;
            }
            "small reads" => {
                let path = format!("{OBJECTS_PATH}work/journal/0000000000");
                let answer = peer.ask(Method::GET, &path, &[], Body::empty()).await?;
                drop(answer);
            }
            "failures" | "returns" => {
                // The lease need not be one that stands: also those are looked at.
                let lease = match peer.lease(worker).await {
                    Ok(task) => task.map_or(1, |task| task.lease),
                    Err(status) => {
                        patient(Err::<(), _>(status))?;
                        1
                    }
                };
                let failure = reason.repeat(usize::from(name == "failures"));
                patient(peer.rpc.r#return(back(worker, lease, failure)).await)?;
            }
            "completions" => patient(peer.rpc.complete(false_result(worker, number())).await)?,
            "lost records" => {
                let records = all_records(&target.table, crate::BITS).await?;
                for records in records.chunks(4096).cycle().take(1000) {
                    let records = records.to_vec();
                    patient(peer.rpc.report(v1::ReportRequest { worker, records }).await)?;
                }
            }
            "status" => drop(peer.get("/status", &[]).await?),
            "listeners" => {
                let events = [("accept", "text/event-stream")];
                let body = peer.ask(Method::GET, "/api/status", &events, Body::empty());
                unread(body.await?).await;
            }
            // Whoever shows no token is refused, and asks again.
            "refused calls" => drop(peer.rpc.join(hello(worker, "stranger")).await),
            "questions" => drop(peer.get(&question(number()), &[]).await),
            // A large one: it takes its time.
            "games" | "games of six" => {
                let path = format!("/api/games/poisons/losing/{}", 200 + number() % 100);
                drop(peer.get(&path, &[]).await);
            }
            "unread answers" => {
                let path = "/api/games/poisons/losing/300";
                unread(peer.ask(Method::GET, path, &[], Body::empty()).await?).await;
            }
            "messages without end" => endless(&peer).await?,
            other => return Err(format!("{other} is no attack").into()),
        }
    }
}

/// Goes on after any answer, and fails when there is no connection.
fn patient<T>(answer: Result<T, tonic::Status>) -> Result<(), BoxError> {
    use std::error::Error;
    match answer {
        Err(status) if status.source().is_some() => Err(status.into()),
        _ => Ok(()),
    }
}

/// The path of a question about some position.
pub(crate) fn question(number: u64) -> String {
    let word =
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - crate::SERVED_BITS + 1) << 1;
    format!("/api/position/{word:#b}")
}

/// Takes a lease, announces the largest part that it may put, and sends none of it.
async fn upload(link: &mut Link, worker: u64) -> Result<(), BoxError> {
    let Some(task) = link.lease(worker).await? else {
        return Ok(());
    };
    let announced = part_bytes_max(&task, crate::RANGE_BITS);
    let silence = pieces(0, 0, false);
    link.announce(worker, &key_of(&task), announced, silence)
        .await?;
    Ok(())
}

/// Keeps an answer, and reads none of it, for as long as the coordinator lets it.
async fn unread(answer: Response<Body>) {
    if answer.status().is_success() {
        tokio::time::sleep(Duration::from_mins(1)).await;
    }
    drop(answer);
}

/// One of the largest parts, as a path.
fn large_part(table: &Path, lane: usize) -> Result<String, BoxError> {
    let mut parts: Vec<(u64, std::path::PathBuf)> = files(&table.join("work/parts"))
        .into_iter()
        .filter(|path| crate::common::is_whole(path))
        .filter_map(|path| Some((path.metadata().ok()?.len(), path)))
        .collect();
    parts.sort();
    let largest = parts.iter().rev().take(32).nth(lane % 32);
    let (_, path) = largest.ok_or("no part")?;
    let name = path.strip_prefix(table)?.to_str().ok_or("no text")?;
    Ok(format!("{OBJECTS_PATH}{name}"))
}

async fn raw(target: &Target, lane: usize) -> Result<TcpStream, BoxError> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    socket.bind(SocketAddr::new(target.from(lane), 0))?;
    Ok(socket.connect(target.address).await?)
}

/// A connection without a call, whose other end always hears that somebody is there.
async fn ping(target: &Target, lane: usize) -> Result<(), BoxError> {
    let mut stream = raw(target, lane).await?;
    stream.write_all(&crate::peers::raw::greeting()).await?;
    let mut head = [0; 9];
    loop {
        stream.read_exact(&mut head).await?;
        let length = head[..3]
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await?;
        // A ping is answered with the same, and settings are taken note of.
        if matches!(head[3], 4 | 6) && head[4] & 1 == 0 {
            let payload = if head[3] == 6 { &payload[..] } else { &[] };
            let length = u8::try_from(payload.len())?;
            let head = [0, 0, length, head[3], 1, 0, 0, 0, 0];
            stream.write_all(&[&head, payload].concat()).await?;
        }
    }
}

/// A call whose message is as large as one may be, and never comes to its end.
async fn endless(link: &Link) -> Result<(), BoxError> {
    let mut message = vec![0; 2 << 20];
    // It says that it has 2 MiB, of which the head of five bytes is not a part.
    message[2] = 0x20;
    let message = tokio_stream::once(Ok::<_, tonic::Status>(Frame::data(message.into())));
    let body = tokio_stream::StreamExt::chain(message, tokio_stream::pending());
    let body = Body::new(http_body_util::StreamBody::new(body));
    let headers = [("content-type", "application/grpc"), ("te", "trailers")];
    drop(link.ask(Method::POST, COMPLETE, &headers, body).await?);
    Ok(())
}

/// One call with the token, and no more over this connection.
async fn show_token(target: &Target, lane: usize) -> Result<(), BoxError> {
    let peer = Link::open(&target.access, Some(target.from(lane))).await?;
    peer.get("/status", &[]).await?;
    std::future::pending().await
}

/// A connection over which no more than this is said.
async fn silence(target: &Target, lane: usize, said: &[u8]) -> Result<(), BoxError> {
    let mut stream = raw(target, lane).await?;
    stream.write_all(said).await?;
    let mut byte = [0];
    while stream.read(&mut byte).await? != 0 {}
    Ok(())
}

/// How often some 64 KiB of a download are taken: a little more than a server asks of who downloads.
const SIP_EVERY: Duration = Duration::from_millis(1500);
const COMPLETE: &str = "/chomp.v1.Coordinator/Complete";

/// A download of the table of which nothing is read, or as much as a server asks for.
async fn download(target: &Target, lane: usize, every: Duration) -> Result<(), BoxError> {
    let mut stream = raw(target, lane).await?;
    let path = crate::shard_path();
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    if every < Duration::MAX {
        let mut sip = vec![0; 64 << 10];
        loop {
            tokio::time::sleep(every).await;
            stream.read_exact(&mut sip).await?;
        }
    }
    // It is seen that the connection is closed, and nothing of what was sent is taken.
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut byte = [0];
        if stream.peek(&mut byte).await? == 0 {
            return Ok(());
        }
        stream.write_all(b"").await?;
        if let Some(error) = stream.take_error()? {
            return Err(error.into());
        }
    }
}

/// Opens TLS, and goes when the server has done its part.
async fn handshake(target: &Target, lane: usize) -> Result<(), BoxError> {
    let mut stream = raw(target, lane).await?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost")?;
    let mut tls = ClientConnection::new(Arc::new(config), name)?;
    let mut opening = Vec::new();
    tls.write_tls(&mut opening)?;
    stream.write_all(&opening).await?;
    let mut byte = [0];
    stream.read_exact(&mut byte).await?;
    Ok(())
}
