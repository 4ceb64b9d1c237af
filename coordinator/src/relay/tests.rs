//! Access to the relay, object by object, and the memory and time that a transfer may take.

use std::io;

use axum::{Extension, Router};
use chomp_plan::LeaseId;
use chomp_store::objects::SimulatedStorage;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tower::ServiceExt;

use super::*;
use crate::job::tests::job_with_lease;
use crate::testing::range_bits;
use crate::tools::Event;

mod places;

const BITS: u32 = 20;
/// The part and the shard that worker 7 may write, and nobody else.
const PART: &str = "work/parts/0000/0000000000000000";
const SHARD: &str = "table-20/shard-0001.zst";

struct Served {
    relay: Relay,
    storage: Arc<SimulatedStorage>,
    router: Router,
    routes: Router,
    _job: JoinSet<()>,
}

fn serve() -> Served {
    let (handle, job, part) = job_with_lease(WorkerId::only(7));
    assert_eq!(part.key().as_str(), PART);
    let storage = Arc::new(SimulatedStorage::new(0));
    // Of the layers above nothing is done.
    let known = ["work/journal/", "work/checkpoints/", "work/parts/000"];
    let refers_to = move |key: &Key| known.iter().any(|start| key.as_str().starts_with(start));
    let relay = Relay::new(
        storage.clone(),
        handle,
        refers_to,
        &chomp_table::manifest::folder_name(BITS),
        Arc::default(),
    );
    let (path, methods) = relay.route();
    let routes = Router::new().route(path, methods);
    let participant = WorkerId::only(7).participant;
    Served {
        relay,
        storage,
        router: routes
            .clone()
            .layer(Extension(AuthenticatedParticipant(participant))),
        routes,
        _job: job,
    }
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// The status, the range that the answer names, and its bytes.
type Answer = (u16, Option<String>, Vec<u8>);

impl Served {
    async fn send(&self, request: Request<Body>) -> Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// The bytes for bodies and the transfers that are free.
    fn free(&self) -> (usize, usize) {
        let Relay {
            memory, transfers, ..
        } = &self.relay;
        (
            memory.available_permits(),
            TRANSFERS_MAX - transfers.taken(),
        )
    }

    async fn get(&self, key: &str, range: Option<&str>) -> Answer {
        let mut request = Request::get(format!("{OBJECTS_PATH}{key}"));
        if let Some(range) = range {
            request = request.header(RANGE, range);
        }
        let response = self.send(request.body(Body::empty()).unwrap()).await;
        let (head, body) = response.into_parts();
        let named = head.headers.get(CONTENT_RANGE);
        let named = named.map(|named| named.to_str().unwrap().to_owned());
        let length = head.headers.get(CONTENT_LENGTH);
        let length = length.map(|length| length.to_str().unwrap().parse().unwrap());
        let bytes = body.collect().await.unwrap().to_bytes().to_vec();
        if head.status.is_success() {
            assert_eq!(bytes.len(), length.unwrap_or(bytes.len()));
        }
        (head.status.as_u16(), named, bytes)
    }

    async fn put(&self, key: &str, change: impl FnOnce(&mut HeaderMap), body: Body) -> u16 {
        let mut request = Request::put(format!("{OBJECTS_PATH}{key}"))
            .header(IF_NONE_MATCH, "*")
            .header(WORKER_HEADER, "7")
            .body(body)
            .unwrap();
        change(request.headers_mut());
        self.send(request).await.status().as_u16()
    }

    /// Puts a good body.
    async fn put_bytes(&self, key: &str, bytes: &'static [u8]) -> u16 {
        self.put(key, |_| (), Body::from(bytes)).await
    }
}

/// A worker computes a range again that is lost, and tries again what only failed.
#[tokio::test]
async fn what_is_no_file_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("elsewhere", directory.path().join("link")).unwrap();
    let storage = chomp_store::objects::LocalStorage::view(directory.path()).unwrap();
    let error = storage.read(&key("link")).await.unwrap_err();
    assert_eq!(failed(&error).status(), 404);
    let error = storage.create(&key("a"), Bytes::new()).await.unwrap_err();
    assert_eq!(failed(&error).status(), 500);
}

#[tokio::test]
async fn every_range_is_that_of_the_object() {
    let served = serve();
    let chunk = usize::try_from(CHUNK_BYTES).unwrap();
    for length in [
        1,
        100,
        chunk - 1,
        chunk,
        chunk + 1,
        2 * chunk,
        2 * chunk + 5,
    ] {
        let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
        let name = format!("work/parts/0001/{length:016x}");
        served.storage.overwrite(&key(&name), bytes.clone());
        assert_eq!(served.get(&name, None).await, (200, None, bytes.clone()));
        for first in [0, 1, length / 2, length - 1, length, length + 1] {
            for end in [
                first + 1,
                first + 2,
                length,
                first + chunk,
                first + chunk + 7,
                3 * length,
            ] {
                let Some(last) = end.checked_sub(1).filter(|&last| last >= first) else {
                    continue;
                };
                let range = format!("bytes={first}-{last}");
                let (status, named, found) = served.get(&name, Some(&range)).await;
                if first >= length {
                    assert_eq!(status, 416, "{range} of {length}");
                    continue;
                }
                assert!(
                    found == bytes[first..end.min(length)],
                    "{range} of {length}"
                );
                assert_eq!(status, 206);
                let named = named.unwrap();
                let exact = format!("bytes {first}-{}/*", end.min(length) - 1);
                let inexact = format!("bytes {first}-{last}/*");
                let is_long = found.len() >= chunk;
                assert!(
                    named == exact || is_long && named == inexact,
                    "{named} for {range} of {length}"
                );
            }
        }
    }
}

#[tokio::test]
async fn workers_read_what_tasks_need_and_nothing_else() {
    let served = serve();
    for name in [
        "work/parts/0001/0000000000000001",
        "work/journal/0000000000",
        "work/checkpoints/0000000009",
        "table-20/shard-0000.zst",
        "table-20/manifest.json",
    ] {
        assert_eq!(served.get(name, None).await.0, 404, "{name}");
        served.storage.overwrite(&key(name), "bytes");
        assert_eq!(
            served.get(name, None).await,
            (200, None, b"bytes".to_vec()),
            "{name}"
        );
    }
    for name in [
        "secrets.json",
        "work/secrets",
        "work/job",
        "table-7/a",
        "table-07/manifest.json",
        "table-20/secret",
        "values-020/shard-0000.zst",
        "work/parts/9999/0000000000000000",
        "table-/a",
        "table-x7/a",
        "tables/a",
        "work/parts",
        "work/parts/../secrets",
        "work/parts/%2e%2e/secrets",
        "work%2Fjournal/0000000000",
        "/work/journal/0000000000",
    ] {
        if let Ok(key) = Key::new(name) {
            served.storage.overwrite(&key, "secret");
        }
        let (status, _, bytes) = served.get(name, None).await;
        assert_eq!(status, 403, "{name}");
        assert!(!bytes.ends_with(b"secret"), "{name}");
    }
    for range in [
        "bytes=5-4",
        "bytes=5-",
        "bytes=-5",
        "bytes=1-2,4-5",
        "bytes=+1-2",
        "bytes=1-18446744073709551615",
        "lines=1-2",
        "bytes=1",
    ] {
        let (status, ..) = served.get("work/journal/0000000000", Some(range)).await;
        assert_eq!(status, 400, "{range}");
    }
    let fetched = served.relay.traffic.fetched.load(Ordering::Relaxed);
    assert_eq!(fetched, 5 * 5);
}

#[tokio::test]
async fn workers_write_their_leases_and_nothing_else() {
    let served = serve();
    for name in [
        "work/parts/0001/0000000000000000",
        "work/parts/0000/0000000000000001",
        "table-20/shard-0002.zst",
        "table-21/shard-0001.zst",
        "table-20/shard-00001.zst",
        "table-20/shard-1.zst",
        "table-20/manifest.json",
        "table-20/SHA256SUMS",
        "work/journal/0000000000",
        "work/checkpoints/0000000001",
        "secrets.json",
    ] {
        assert_eq!(served.put_bytes(name, b"bytes").await, 403, "{name}");
    }
    for (name, values, status) in [
        ("chomp-worker", &["8"][..], 403),
        ("chomp-worker", &["+7"], 400),
        ("chomp-worker", &["7", "7"], 400),
        ("chomp-worker", &[], 400),
        ("if-none-match", &[], 428),
        ("if-none-match", &["\"a\""], 428),
        ("content-length", &["268435457"], 413),
        ("content-length", &["6"], 400),
        ("content-length", &["4"], 400),
    ] {
        let change = |headers: &mut HeaderMap| {
            headers.remove(name);
            for value in values {
                headers.append(name, value.parse().unwrap());
            }
        };
        let answer = served.put(PART, change, Body::from("bytes")).await;
        assert_eq!(answer, status, "{name} {values:?}");
    }
    let (_sender, endless) = stalled();
    assert_eq!(served.put(PART, |_| (), endless).await, 411);
    assert!(served.storage.objects().is_empty());

    for name in [PART, SHARD] {
        assert_eq!(served.put_bytes(name, b"bytes").await, 201, "{name}");
        assert_eq!(served.storage.objects()[&key(name)], "bytes");
    }
    // A part is never overwritten; what an interrupted publication left is.
    assert_eq!(served.put_bytes(PART, b"others").await, 412);
    // One's own is taken again: the first answer may have been lost.
    assert_eq!(served.put_bytes(PART, b"bytes").await, 201);
    assert_eq!(served.put_bytes(SHARD, b"bytes").await, 201);
    assert_eq!(served.put_bytes(SHARD, b"others").await, 201);
    assert_eq!(served.storage.objects()[&key(SHARD)], "others");
    served
        .storage
        .overwrite(&key("table-20/manifest.json"), "{}");
    assert_eq!(served.put_bytes(SHARD, b"bytes").await, 412);
    assert_eq!(served.storage.objects()[&key(SHARD)], "others");
    let request = Request::delete(format!("{OBJECTS_PATH}{PART}"));
    let response = served.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
}

/// A task of one range of 2^12 words takes no more of the disk than such a range can.
#[tokio::test(start_paused = true)]
async fn a_part_is_no_longer_than_what_was_leased() {
    let served = serve();
    let most = part::bytes_max(1, range_bits());
    assert!(most < 1 << 10, "{most}");
    // It is refused before any of it comes.
    let (_sender, mut call) = open_put(&served, PART, most + 1);
    assert_eq!(call.join_next().await.unwrap().unwrap(), 413);
    let longest = vec![1; usize::try_from(most).unwrap()];
    assert_eq!(served.put(PART, |_| (), longest.into()).await, 201);
}

#[tokio::test]
async fn a_storage_that_fails_is_told_as_such() {
    let served = serve();
    served.storage.set_bytes_max(3);
    assert_eq!(served.put_bytes(PART, b"bytes").await, 507);
    served.storage.overwrite(&key(PART), vec![1; 3 << 20]);
    served.storage.set_fault(Some(chomp_store::objects::Fault {
        call: served.storage.calls() + 2,
        sticky: false,
        moment: chomp_store::objects::Moment::Before,
    }));
    // Two chunks are read, and then no more: the answer breaks off.
    let request = Request::get(format!("{OBJECTS_PATH}{PART}"));
    let request = request.header(RANGE, "bytes=0-2999999");
    let response = served.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
    assert!(response.into_body().collect().await.is_err());
    served.storage.overwrite(&key(SHARD), "bytes");
    let request = Request::get(format!("{OBJECTS_PATH}{SHARD}")).body(Body::empty());
    let mut body = served.send(request.unwrap()).await.into_body();
    assert!(!body.is_end_stream());
    assert!(body.frame().await.unwrap().is_ok() && body.is_end_stream());
    assert_eq!(served.get(PART, None).await.2.len(), 3 << 20);
    served.storage.crash_at(served.storage.calls());
    assert_eq!(served.get(PART, None).await.0, 503);
    assert_eq!(served.put_bytes(PART, b"bytes").await, 503);
}

/// A body that comes as the test sends it.
fn stalled() -> (mpsc::Sender<Bytes>, Body) {
    let (sender, frames) = mpsc::channel(10);
    let frames = ReceiverStream::new(frames).map(|bytes| Ok::<_, io::Error>(Frame::data(bytes)));
    (sender, Body::new(StreamBody::new(frames)))
}

fn put_of(key: &str, length: u64, body: Body) -> Request<Body> {
    let request = Request::put(format!("{OBJECTS_PATH}{key}"))
        .header(IF_NONE_MATCH, "*")
        .header(WORKER_HEADER, "7")
        .header(CONTENT_LENGTH, length);
    request.body(body).unwrap()
}

/// A put of `length` bytes, of which none come.
fn open_put(served: &Served, key: &str, length: u64) -> (mpsc::Sender<Bytes>, JoinSet<u16>) {
    let (sender, body) = stalled();
    let request = put_of(key, length, body);
    let router = served.router.clone();
    let mut call = JoinSet::new();
    call.spawn(async move { router.oneshot(request).await.unwrap().status().as_u16() });
    (sender, call)
}

#[tokio::test(start_paused = true)]
async fn a_body_that_takes_too_long_or_is_broken_off_leaves_nothing() {
    let served = serve();
    let start = Instant::now();
    let (still, mut call) = open_put(&served, SHARD, 1 << 20);
    assert_eq!(call.join_next().await.unwrap().unwrap(), 408);
    assert_eq!(start.elapsed(), BODY_TIME);
    drop(still);
    let (cut, mut call) = open_put(&served, SHARD, 1 << 20);
    drop(cut);
    assert_eq!(call.join_next().await.unwrap().unwrap(), 400);
    // The connection gives up one that is too slow, and its worker tries again.
    let slow = tokio_stream::once(Err::<Bytes, _>(io::Error::from(io::ErrorKind::TimedOut)));
    let request = put_of(SHARD, 4, Body::from_stream(slow));
    assert_eq!(
        served.send(request).await.status(),
        StatusCode::REQUEST_TIMEOUT
    );
    assert!(served.storage.objects().is_empty());
    assert_eq!(served.free(), (256 << 20, 64));
}

/// Others have done the work while it held its last byte back: what they have put stays.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_held_back_until_its_lease_has_ended_is_refused() {
    let served = serve();
    let (held, mut call) = open_put(&served, SHARD, 4);
    held.send(Bytes::from_static(b"lie")).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    served.storage.overwrite(&key(SHARD), &b"truth"[..]);
    let (worker, lease) = (WorkerId::only(7), LeaseId(1));
    let returned = Event::Returned {
        worker,
        lease,
        failure: None,
    };
    served
        .relay
        .handle
        .send(|job| job.handle(returned))
        .unwrap();
    held.send(Bytes::from_static(b"s")).await.unwrap();
    drop(held);
    assert_eq!(call.join_next().await.unwrap().unwrap(), 403);
    assert_eq!(served.storage.objects()[&key(SHARD)], &b"truth"[..]);
}

/// Nothing is put while the table is published, and after that only under a lease that stands.
#[tokio::test(start_paused = true)]
async fn a_shard_waits_until_a_table_is_published() {
    let served = serve();
    let publication = Arc::clone(&served.relay.shard_puts);
    let publication = publication.write_owned().await;
    let (body, mut call) = open_put(&served, SHARD, 4);
    body.send(Bytes::from_static(b"late")).await.unwrap();
    drop(body);
    assert_eq!(served.put_bytes(PART, b"bytes").await, 201);
    sleep(Duration::from_secs(1)).await;
    assert!(!served.storage.objects().contains_key(&key(SHARD)));
    let left = Event::Left {
        worker: WorkerId::only(7),
    };
    served.relay.handle.send(|job| job.handle(left)).unwrap();
    drop(publication);
    assert_eq!(call.join_next().await.unwrap().unwrap(), 403);
    assert!(!served.storage.objects().contains_key(&key(SHARD)));
}

#[tokio::test(start_paused = true)]
async fn bodies_together_take_bounded_memory() {
    let served = serve();
    let settle = || sleep(Duration::from_millis(1));
    let (_one, mut one) = open_put(&served, SHARD, 40 << 20);
    settle().await;
    assert_eq!(served.free(), (216 << 20, 63));
    assert_eq!(served.put_bytes(PART, b"bytes").await, 201);
    one.shutdown().await;
    settle().await;
    assert_eq!(served.free(), (256 << 20, 64));

    // The largest part takes all. A request that waits too long is told to come back.
    served.storage.delete(&[key(PART)]).await.unwrap();
    let (one, mut call) = open_put(&served, SHARD, part::BYTES_MAX);
    settle().await;
    let start = Instant::now();
    let piece = Bytes::from(vec![1; 64 << 10]);
    let steady = async {
        while one.send(piece.clone()).await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        status = served.put_bytes(PART, b"bytes") => assert_eq!(status, 503),
        () = steady => panic!("it is fast enough"),
    }
    assert_eq!(start.elapsed(), TURN_TIME);
    call.shutdown().await;
}
