//! The calls over connections in memory, with a true job behind them: hostile submissions, workers
//! that stall, and what all of them together may take.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use chomp_kernel::{Evaluator, Isa, fingerprint};
use chomp_proto::v1::coordinator_client::CoordinatorClient;
use chomp_proto::v1::coordinator_server::CoordinatorServer;
use chomp_proto::v1::{self, submit_reply};
use chomp_proto::{FETCH_RANGES_MAX, PROTOCOL};
use chomp_table::{Head, RangeBits, range};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::*;
use crate::audit::Audit;
use crate::job::Job;
use crate::plan::{Plan, Settings};
use crate::storage::SimulatedStorage;

const BITS: u32 = 14;
const TABLE: u64 = 0xdead_beef;
const WORKER: u64 = 7;

type Client = CoordinatorClient<CoordinatorServer<Service>>;

/// A job and its service; the job runs for as long as this is kept.
struct Served {
    client: Client,
    service: Service,
    _job: JoinSet<()>,
}

fn range_bits() -> RangeBits {
    RangeBits::new(12).unwrap()
}

async fn serve() -> Served {
    let storage = Arc::new(SimulatedStorage::new(0));
    let (store, _) = Store::open(storage, range_bits(), BITS).await.unwrap();
    let store = Arc::new(store);
    let (plan, first) = Plan::new(Settings::new(BITS, range_bits()), &[], &[], 0).unwrap();
    let audit = Arc::new(Audit::new(Arc::clone(&store), 0));
    let (job, handle, _) = Job::new(plan, Arc::clone(&store), Arc::clone(&audit), None);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        job.run(first, CancellationToken::new(), Duration::ZERO)
            .await;
    });
    let service = Service::new(handle, store, audit, TABLE, 30_000);
    Served {
        client: CoordinatorClient::new(CoordinatorServer::new(service.clone())),
        service,
        _job: tasks,
    }
}

fn hello() -> v1::JoinRequest {
    v1::JoinRequest {
        protocol: PROTOCOL,
        format: range::VERSION,
        software: "chomp 9.9".to_owned(),
        threads: 1,
        worker: WORKER,
        name: "máquina".to_owned(),
        kernel: fingerprint(Isa::detect()).0.to_vec(),
    }
}

fn header(lease: u64, bytes: u64) -> v1::SubmitRequest {
    v1::SubmitRequest {
        header: Some(v1::SubmitHeader {
            worker: WORKER,
            lease,
            bytes,
        }),
        pieces: Vec::new(),
    }
}

fn piece(head: u64, data: impl Into<Bytes>, last: bool) -> v1::SubmitRequest {
    let data = data.into();
    v1::SubmitRequest {
        header: None,
        pieces: vec![v1::Piece { head, data, last }],
    }
}

/// The record of the first range.
fn first_record() -> Bytes {
    let mut evaluator = Evaluator::new(range_bits(), Isa::Portable);
    let none = std::collections::HashMap::new();
    let range = evaluator.evaluate(Head(0), &none).unwrap();
    range::encode(&range, range_bits()).1.into()
}

async fn submit(
    client: &Client,
    messages: Vec<v1::SubmitRequest>,
) -> Result<submit_reply::Verdict, Status> {
    let reply = client.clone().submit(tokio_stream::iter(messages)).await?;
    Ok(reply.into_inner().verdict.unwrap())
}

/// A submission that says how long it is, and then waits for what the test sends.
fn open(
    client: &Client,
    bytes: u64,
) -> (
    mpsc::Sender<v1::SubmitRequest>,
    JoinSet<Result<submit_reply::Verdict, Status>>,
) {
    let (sender, messages) = mpsc::channel(100);
    sender.try_send(header(0, bytes)).unwrap();
    let mut client = client.clone();
    let mut call = JoinSet::new();
    call.spawn(async move {
        let reply = client.submit(ReceiverStream::new(messages)).await?;
        Ok(reply.into_inner().verdict.unwrap())
    });
    (sender, call)
}

/// Joins, and computes and submits the first range.
async fn begin(client: &Client) {
    let reply = client.clone().join(hello()).await.unwrap().into_inner();
    assert_eq!((reply.bits, reply.range_bits), (BITS, 12));
    assert_eq!((reply.table, reply.lease_ms), (TABLE, 30_000));
    let request = v1::LeaseRequest { worker: WORKER };
    let lease = client.clone().lease(request).await.unwrap().into_inner();
    let Some(lease_reply::Answer::Task(task)) = lease.answer else {
        panic!("no task");
    };
    assert_eq!(task.heads, [0]);
    let record = first_record();
    let (one, two) = (record.slice(..50), record.slice(50..));
    let messages = vec![
        header(task.lease, record.len() as u64),
        piece(0, one, false),
        piece(0, two, true),
    ];
    let verdict = submit(client, messages).await.unwrap();
    assert!(
        matches!(verdict, submit_reply::Verdict::Accepted(_)),
        "{verdict:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_true_result_is_taken_and_given_out_again() {
    let Served {
        client,
        service,
        _job,
    } = serve().await;
    begin(&client).await;
    let record = first_record();
    let request = v1::FetchRequest {
        worker: WORKER,
        heads: vec![0, 0],
    };
    let mut stream = client.clone().fetch(request).await.unwrap().into_inner();
    let message = stream.message().await.unwrap().unwrap();
    let pieces: Vec<_> = message
        .pieces
        .iter()
        .map(|piece| (&piece.data, piece.last))
        .collect();
    assert_eq!(pieces, [(&record, true), (&record, true)]);
    assert_eq!(stream.message().await.unwrap(), None);
    let length = record.len() as u64;
    assert_eq!(service.traffic.submitted.load(Ordering::Relaxed), length);
    assert_eq!(service.traffic.fetched.load(Ordering::Relaxed), 2 * length);

    // The same again is known already; a range that is not there is no data loss.
    let again = vec![header(99, length), piece(0, record, true)];
    let verdict = submit(&client, again).await.unwrap();
    assert!(
        matches!(verdict, submit_reply::Verdict::Duplicate(_)),
        "{verdict:?}"
    );
    let request = v1::FetchRequest {
        worker: WORKER,
        heads: vec![0, 3],
    };
    let mut stream = client.clone().fetch(request).await.unwrap().into_inner();
    let status = stream.message().await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    let heads = vec![0; FETCH_RANGES_MAX + 1];
    let status = client
        .clone()
        .fetch(v1::FetchRequest {
            worker: WORKER,
            heads,
        })
        .await;
    assert_eq!(status.unwrap_err().code(), Code::InvalidArgument);
    begin_is_not_possible_without_joining(&client).await;
}

async fn begin_is_not_possible_without_joining(client: &Client) {
    let status = client
        .clone()
        .lease(v1::LeaseRequest { worker: 8 })
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert!(status.message().contains("has not joined"), "{status:?}");
}

#[tokio::test]
async fn workers_that_would_do_harm_do_not_join() {
    let Served { client, _job, .. } = serve().await;
    let refuse = async |change: fn(&mut v1::JoinRequest), code, words: &[&str]| {
        let mut request = hello();
        change(&mut request);
        let status = client.clone().join(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        for word in words {
            assert!(status.message().contains(word), "{word}: {status:?}");
        }
        assert!(status.message().len() < 600, "{status:?}");
    };
    let ours = fingerprint(Isa::Portable).to_string();
    let version: [&str; 3] = ["protocol 2", "protocol 1", "same version"];
    refuse(
        |hello| hello.protocol = 1,
        Code::FailedPrecondition,
        &version,
    )
    .await;
    refuse(
        |hello| hello.format = 9,
        Code::FailedPrecondition,
        &["format 9", "chomp 9.9"],
    )
    .await;
    let kernel = [&*ours, "CPU", "e3b0c442"];
    refuse(
        |hello| hello.kernel = Digest::of(&[]).0.to_vec(),
        Code::FailedPrecondition,
        &kernel,
    )
    .await;
    refuse(
        |hello| hello.kernel.clear(),
        Code::FailedPrecondition,
        &["0 bytes"],
    )
    .await;
    refuse(
        |hello| hello.threads = 0,
        Code::InvalidArgument,
        &["0 threads"],
    )
    .await;
    refuse(
        |hello| hello.threads = 1 << 17,
        Code::InvalidArgument,
        &["threads"],
    )
    .await;
    refuse(
        |hello| hello.name = "x".repeat(65),
        Code::InvalidArgument,
        &["64 bytes"],
    )
    .await;
    refuse(
        |hello| hello.name = "a\nb".to_owned(),
        Code::InvalidArgument,
        &["control"],
    )
    .await;
    let long = |hello: &mut v1::JoinRequest| {
        hello.protocol = 1;
        hello.software = "y".repeat(1 << 20);
    };
    refuse(long, Code::FailedPrecondition, &["yyy"]).await;
    client.clone().join(hello()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn submissions_that_are_not_what_they_say_are_refused() {
    let Served {
        client,
        service,
        _job,
    } = serve().await;
    begin(&client).await;
    let record = first_record();
    let length = record.len() as u64;
    let mut damaged = record.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let whole = || piece(0, record.clone(), true);
    let many: Vec<_> = std::iter::once(header(0, length))
        .chain((0..100_000).map(|_| piece(0, Bytes::new(), true)))
        .collect();
    for (messages, words) in [
        (vec![], "starts with a header"),
        (vec![whole()], "starts with a header"),
        (vec![header(0, u64::MAX)], "67108864 are possible"),
        (vec![header(0, (64 << 20) + 1)], "67108864 are possible"),
        (vec![header(0, length + 1), whole()], "whose header says"),
        (vec![header(0, length)], "of 0 bytes whose header says"),
        (vec![header(0, length - 1), whole()], "over the"),
        (vec![header(0, length), whole(), whole()], "over the"),
        (
            vec![header(0, length), piece(0, record.clone(), false)],
            "not complete",
        ),
        (vec![header(0, length), piece(0, damaged, true)], "checksum"),
        (
            vec![header(0, length), piece(1, record.clone(), true)],
            "another range",
        ),
        (
            vec![header(0, 10), piece(0, record.slice(..10), true)],
            "cut short",
        ),
        (many, "cut short"),
    ] {
        let status = submit(&client, messages).await.expect_err(words);
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains(words), "{words}: {status:?}");
    }
    assert_eq!(service.limits.memory.available_permits(), 128 << 10);
}

#[tokio::test(start_paused = true)]
async fn endless_submissions_end() {
    let Served {
        client,
        service,
        _job,
    } = serve().await;
    let start = Instant::now();
    let (stalled, mut call) = open(&client, 1 << 20);
    let status = call.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(
        (status.code(), start.elapsed().as_secs()),
        (Code::DeadlineExceeded, 30)
    );
    drop(stalled);

    // One byte every 29 seconds.
    let start = Instant::now();
    let (slow, mut call) = open(&client, 1 << 20);
    let drip = async {
        while slow.send(piece(0, vec![0], false)).await.is_ok() {
            sleep(Duration::from_secs(29)).await;
        }
    };
    let (status, ()) = tokio::join!(call.join_next(), drip);
    let status = status.unwrap().unwrap().unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!((600..630).contains(&start.elapsed().as_secs()));
    assert_eq!(service.limits.memory.available_permits(), 128 << 10);
}

/// Submissions wait for memory in turn, and one that is gone leaves its place.
#[tokio::test(start_paused = true)]
async fn submissions_together_take_bounded_memory() {
    let Served {
        client,
        service,
        _job,
    } = serve().await;
    client.clone().join(hello()).await.unwrap();
    let settle = || sleep(Duration::from_millis(1));
    let (_one, mut one) = open(&client, 64 << 20);
    let (_two, mut two) = open(&client, 60 << 20);
    settle().await;
    assert_eq!(service.limits.memory.available_permits(), 4 << 10);
    let (_large, mut large) = open(&client, 64 << 20);
    settle().await;
    // It would fit beside the first two, but not before the one that came first.
    let record = first_record();
    let (small, mut small_call) = open(&client, record.len() as u64);
    small.send(piece(0, record, true)).await.unwrap();
    drop(small);
    settle().await;
    assert!(small_call.try_join_next().is_none());
    // The rest is kept for the one that is next.
    assert_eq!(service.limits.memory.available_permits(), 0);

    one.shutdown().await;
    let verdict = small_call.join_next().await.unwrap().unwrap();
    assert!(verdict.is_ok(), "{verdict:?}");
    assert_eq!(service.limits.memory.available_permits(), 4 << 10);
    two.shutdown().await;
    large.shutdown().await;
    settle().await;
    assert_eq!(service.limits.memory.available_permits(), 128 << 10);
}

/// A worker that takes nothing is not waited for, and what was read for it is let go.
#[tokio::test(start_paused = true)]
async fn a_fetch_that_nobody_reads_ends() {
    let Served {
        client,
        service,
        _job,
    } = serve().await;
    begin(&client).await;
    let length = first_record().len();
    let per_message = chomp_table::pieces::PIECE_BYTES_MAX / length;
    assert!(
        FETCH_RANGES_MAX < 6 * per_message,
        "one call is a few messages here"
    );
    let heads = vec![0; FETCH_RANGES_MAX];
    let mut reading = Vec::new();
    for _ in 0..6 {
        reading.push(
            service.send_records(
                [heads.clone(), heads.clone(), heads.clone(), heads.clone()].concat(),
            ),
        );
    }
    sleep(Duration::from_secs(59)).await;
    let sent = service.traffic.fetched.load(Ordering::Relaxed);
    assert!(sent <= 6 * 2 * (1 << 20), "{sent} bytes are read ahead");
    assert!(
        reading
            .iter()
            .all(|replies| replies.queue.lock().unwrap().is_some())
    );
    sleep(Duration::from_secs(2)).await;
    for mut replies in reading {
        assert!(replies.queue.lock().unwrap().is_none(), "let go");
        let status = replies.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert!(replies.next().await.is_none());
    }
}
