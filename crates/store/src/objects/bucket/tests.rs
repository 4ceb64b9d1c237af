//! A bucket of a server that fails on demand, and of a real one, if the environment names one.

mod stub;

use std::error::Error as _;

use object_store::memory::InMemory;
use object_store::{Attributes, GetResultPayload};
use tokio::task::JoinSet;

use super::super::contract::contract;
use super::super::testing::{key, list, read};
use super::*;
use chomp_testing::needs;
use chomp_testing::waiting::HANG;
use stub::{Conditions, Fault, State, Stub};

/// The address of a real S3 server, with a bucket of the name [`BUCKET`], that takes any credentials.
const SERVER: &str = "CHOMP_TEST_S3";
const BUCKET: &str = "chomp-test";

/// A bucket, and in it a folder that nobody else uses.
fn bucket(name: &str) -> Bucket {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().file_name().unwrap().to_str().unwrap();
    Bucket {
        service: Service::S3,
        name: name.to_owned(),
        prefix: Some(key(&format!("tests/{}", folder.trim_start_matches('.')))),
    }
}

/// A bucket of the S3 server at `endpoint`, whatever the environment says.
fn open(endpoint: &str, name: &str) -> BucketStorage {
    open_within(endpoint, name, REQUEST_TIMEOUT)
}

fn open_within(endpoint: &str, name: &str, timeout: Duration) -> BucketStorage {
    let builder = AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_access_key_id("test")
        .with_secret_access_key("testtest");
    let storage = BucketStorage::s3(&bucket(name), builder, timeout);
    storage.unwrap().with_patience(HANG)
}

/// Whether a creation fails since another object has the key.
fn exists(created: &Result<(), StorageError>) -> bool {
    matches!(created, Err(error) if error.problem == StorageProblem::AlreadyExists)
}

/// A folder of the stub's bucket.
fn stub() -> (Stub, BucketStorage) {
    let stub = Stub::start();
    let storage = open(&stub.endpoint, BUCKET);
    (stub, storage)
}

/// A creation, and what it says, whatever came before the server's answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creations_without_an_answer() {
    use Fault::{ActAndCut, ActAndRefuse, Cut, Refuse};
    let mut all = JoinSet::new();
    for faults in [
        vec![],
        vec![Cut],
        vec![ActAndCut],
        vec![Refuse(503), Refuse(500), Refuse(429)],
        vec![ActAndRefuse(500), Cut, ActAndCut],
        vec![ActAndRefuse(503), Refuse(409)],
        // Another creation is under way, and fails.
        vec![Refuse(409), Refuse(409)],
        // As behind a proxy that repeats what had no answer.
        vec![ActAndRefuse(409)],
        vec![ActAndRefuse(412)],
    ] {
        all.spawn(async move {
            let (stub, storage) = stub();
            stub.state.lock().unwrap().faults = faults.clone().into();
            let bytes = Bytes::from_static(b"mine");
            let done = storage.create(&key("work/a"), bytes.clone()).await;
            assert!(done.is_ok(), "{faults:?}: {done:?}");
            assert_eq!(read(&storage, "work/a").await, bytes);

            // Nobody's object is taken for ours, neither a shorter one nor a longer one.
            for other in [&b"mine too"[..], b"min"] {
                stub.state.lock().unwrap().faults = faults.clone().into();
                let other = Bytes::from_static(other);
                let done = storage.create(&key("work/a"), other).await;
                assert!(exists(&done), "{faults:?}: {done:?}");
            }
            assert_eq!(read(&storage, "work/a").await, bytes);
        });
    }
    all.join_all().await;
}

/// No failure makes an object shorter than it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readings_without_an_answer() {
    use Fault::{Cut, Refuse};
    let (stub, storage) = stub();
    let (object, bytes) = (key("work/a"), Bytes::from_static(b"mine"));
    storage.create(&object, bytes.clone()).await.unwrap();
    for faults in [vec![], vec![Cut], vec![Refuse(500)], vec![Refuse(503), Cut]] {
        for (range, expected) in [(0..2, 0..2), (1..u64::MAX, 1..4), (4..9, 4..4)] {
            stub.state.lock().unwrap().of_reads = faults.clone().into();
            let read = storage.read_at(&object, range).await.unwrap();
            assert_eq!(read, bytes.slice(expected), "{faults:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sound_server_passes_the_probe_and_others_are_refused() {
    type Change = fn(&mut State);
    let cases: [(Change, [Option<&str>; 2]); 4] = [
        (|_| (), [None; 2]),
        (
            |state| state.of_reads = [Fault::ActAndGarble].into(),
            [Some("does not give back"); 2],
        ),
        // Without this right it would fail in the middle of a job.
        (|state| state.lists = false, [Some("access is denied"); 2]),
        (
            |state| state.conditions = Conditions::Ignored,
            [None, Some("give --journal DIR")],
        ),
    ];
    for (change, [without, with]) in cases {
        let (stub, storage) = stub();
        for (has_journal, expected) in [(false, without), (true, with)] {
            change(&mut stub.state.lock().unwrap());
            match (storage.probe(has_journal).await, expected) {
                (Ok(()), None) => {}
                (Err(error), Some(what)) => assert!(error.to_string().contains(what), "{error}"),
                other => panic!("{other:?}"),
            }
            let left = &stub.state.lock().unwrap().objects;
            assert!(left.is_empty(), "all is removed");
        }
    }
}

/// Only creations that come at the same time show what it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loses_races_is_refused() {
    let (stub, storage) = stub();
    stub.state.lock().unwrap().conditions = Conditions::Raced;
    let key = key("work/a");
    storage.create(&key, Bytes::new()).await.unwrap();
    let second = storage.create(&key, Bytes::from_static(b"other")).await;
    assert!(
        exists(&second),
        "one after the other, all is well: {second:?}"
    );
    let error = storage.probe(true).await.unwrap_err();
    assert!(error.to_string().contains("give --journal DIR"), "{error}");
}

/// Where it leads to would be told the credentials.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_led_elsewhere() {
    let elsewhere = Stub::start();
    let (stub, storage) = stub();
    let target = elsewhere.endpoint.clone().leak();
    for status in [301, 302, 307, 308] {
        stub.state.lock().unwrap().leads_to = Some((status, target));
        let error = storage.read(&key("work/a")).await.unwrap_err();
        assert!(error.is(FaultKind::Lasting), "{error:?}");
        let source = error.source().unwrap().to_string();
        assert!(source.contains("address"), "{source}");
    }
    assert_eq!(stub.state.lock().unwrap().requests, 4);
    assert_eq!(elsewhere.state.lock().unwrap().requests, 0);
}

/// A page of a listing has a thousand names, and is read as a whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_without_an_end_is_not_kept() {
    let (stub, storage) = stub();
    let page = "<ListBucketResult>".to_owned() + &" ".repeat(17 << 20);
    stub.state.lock().unwrap().always = Some((200, page.leak()));
    let storage = storage.with_patience(Duration::ZERO);
    let error = storage.list(&key("work/parts")).await.unwrap_err();
    let source = chomp_table::format::describe(&error);
    assert!(source.contains("length limit exceeded"), "{source}");
}

/// Not all that is silent has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_answer_is_asked_again() {
    let stub = Stub::start();
    let storage = open_within(&stub.endpoint, BUCKET, Duration::from_secs(1));
    let (object, bytes) = (key("work/a"), Bytes::from_static(b"mine"));
    stub.state.lock().unwrap().faults = [Fault::Stall, Fault::ActAndStall].into();
    storage.create(&object, bytes.clone()).await.unwrap();
    stub.state.lock().unwrap().of_reads = [Fault::Stall, Fault::ActAndStall].into();
    assert_eq!(storage.read(&object).await.unwrap(), bytes);
    let state = stub.state.lock().unwrap();
    assert!(state.faults.is_empty() && state.of_reads.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_say_what_to_do_at_once() {
    for (status, body, expected) in [
        (403, "<Code>AccessDenied</Code>", "check the credentials"),
        (401, "", "check the credentials"),
        (400, "<Code>ExpiredToken</Code>", "have expired: put new"),
        (403, "<Code>ExpiredToken</Code>", "have expired: put new"),
        (
            404,
            "<Code>NoSuchBucket</Code>",
            "the bucket does not exist",
        ),
        (507, "507 Insufficient Storage", "no space left"),
        (403, "<Code>QuotaExceeded</Code>", "no space left"),
    ] {
        let (stub, storage) = stub();
        stub.state.lock().unwrap().always = Some((status, body));
        let error = storage.probe(true).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{status}: {error}");
        assert!(
            error.to_string().contains("s3://chomp-test/tests/"),
            "{error}"
        );
        for done in [
            storage.create(&key("work/a"), Bytes::new()).await,
            storage.read(&key("work/a")).await.map(drop),
            storage.read_at(&key("work/a"), 0..1).await.map(drop),
        ] {
            let error = done.unwrap_err();
            let full = error.is(FaultKind::Full);
            let failed = error.is(FaultKind::Lasting);
            let right = if expected == "no space left" {
                full && !error.is_refusal()
            } else {
                failed && error.is_refusal()
            };
            assert!(right, "{error:?}");
        }
        assert_eq!(
            stub.state.lock().unwrap().requests,
            4,
            "{status}: none is repeated"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server() {
    let server = std::env::var(SERVER).map_err(|_| format!("{SERVER} names no server"));
    let Some(server) = needs::found("S3", server) else {
        return;
    };
    let storage = open(&server, BUCKET);
    contract(Arc::new(storage.clone())).await;
    storage.probe(true).await.unwrap();
    assert_eq!(list(&storage, "work/probe").await, []);

    // More objects than a page of a listing has.
    let mut tasks = tokio::task::JoinSet::new();
    for start in 0..8 {
        let storage = storage.clone();
        tasks.spawn(async move {
            for number in (start..1100).step_by(8) {
                let key = key(&format!("work/many/{number:04}"));
                storage.create(&key, Bytes::new()).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let many = list(&storage, "work/many").await;
    assert!(many.is_sorted() && many.len() == 1100, "{}", many.len());

    let missing = open(&server, "chomp-no-such-bucket");
    let error = missing.probe(true).await.unwrap_err();
    assert!(
        error.to_string().contains("the bucket does not exist"),
        "{error}"
    );
}

/// A server that does not stop where it was asked to.
#[tokio::test]
async fn an_answer_that_does_not_end() {
    let pieces = |count: usize| {
        let piece = Bytes::from_static(&[7; 100]);
        let pieces = futures_util::stream::iter(vec![piece; count]).map(Ok);
        GetResult {
            payload: GetResultPayload::Stream(pieces.boxed()),
            meta: ObjectMeta {
                location: Path::from("shard"),
                last_modified: std::time::SystemTime::UNIX_EPOCH.into(),
                size: 300,
                e_tag: None,
                version: None,
            },
            range: 0..300,
            attributes: Attributes::default(),
            extensions: object_store::Extensions::default(),
        }
    };
    assert_eq!(take(pieces(3), 300).await.unwrap().len(), 300);
    let error = take(pieces(1_000_000), 300).await.unwrap_err();
    assert!(
        error.to_string().contains("more than the 300 bytes"),
        "{error}"
    );
}

/// Of a bucket in which somebody else writes without an end.
#[tokio::test]
async fn a_listing_is_bounded() {
    let storage = BucketStorage::with(&bucket(BUCKET), || Ok(InMemory::new()));
    let storage = storage.unwrap();
    let folder = key("work/parts");
    let create = async |number: usize| {
        let object = key(&format!("work/parts/{number:04}"));
        storage.create(&object, Bytes::new()).await.unwrap();
    };
    for number in 0..LISTED_MAX {
        create(number).await;
        // A name that cannot be a key is not counted.
        let foreign = format!("{folder}/{number} %");
        storage
            .put(&Path::from(foreign), Bytes::new())
            .await
            .unwrap();
    }
    assert_eq!(storage.list(&folder).await.unwrap().len(), LISTED_MAX);
    create(LISTED_MAX).await;
    let error = storage.list(&folder).await.unwrap_err();
    let text = format!("{error}: {}", error.source().unwrap());
    let start = "cannot list work/parts: it has more than 1200 objects";
    assert!(text.starts_with(start) && text.contains("Remove"), "{text}");
}
