//! One participant who does as much of everything as it can, while honest workers make a table: it is
//! told to wait, and they lose nothing.

use crate::common::FINGERPRINT_20;
use crate::peers::client::{Rpc, connect, false_result, hello, key_of};
use crate::peers::{Job, assert_content};
use bytes::Bytes;
use chomp_access::Access;
use chomp_proto::v1::task::Work;
use chomp_proto::{WORKER_HEADER, v1};
use chomp_store::location::Location;
use chomp_store::{Follower, part};
use chomp_table::{Head, RangeBits};
use http::Method;
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::{Code, Status};

const BITS: u32 = 20;
/// How many calls each flood has under way: as many as a connection may have.
const LANES: u64 = 64;
const RANGE_BITS: u32 = 12;

/// The calls that a participant makes as fast as it can.
#[derive(Clone, Copy, Debug)]
enum Flood {
    Heartbeats,
    Joins,
    Completions,
    Failures,
    Requests,
}

use Flood::{Completions, Failures, Heartbeats, Joins, Requests};

/// Makes one call after the other until it is stopped; what it was told last when it was told to wait.
async fn flood(kind: Flood, mut rpc: Rpc, lane: u64, stop: CancellationToken) -> Option<String> {
    let worker = 1000 + lane;
    // It may be told to wait.
    let _ = rpc.join(hello(worker, "flood")).await;
    let mut refused = None;
    for turn in 0.. {
        if stop.is_cancelled() {
            break;
        }
        let told = match kind {
            Heartbeats => {
                let renew = v1::RenewRequest {
                    worker,
                    leases: (0..8192).collect(),
                    stats: None,
                };
                rpc.renew(renew).await.map(drop)
            }
            Joins => {
                let number = 1 << 32 | lane << 20 | turn;
                rpc.join(hello(number, "flood")).await.map(drop)
            }
            Completions => {
                let complete = false_result(worker, turn);
                rpc.complete(complete).await.map(drop)
            }
            Failures => {
                let back = v1::ReturnRequest {
                    worker,
                    lease: turn,
                    failure: "\u{1b}[2J\r\n".repeat(100),
                };
                rpc.r#return(back).await.map(drop)
            }
            // It asks whether it is there, which is a call like any other.
            Requests => {
                let renew = v1::RenewRequest {
                    worker,
                    leases: Vec::new(),
                    stats: None,
                };
                rpc.renew(renew).await.map(drop)
            }
        };
        let busy = refusal(told).map(|status| status.message().to_owned());
        refused = busy.or(refused);
    }
    refused
}

fn refusal(told: Result<(), Status>) -> Option<Status> {
    told.err()
        .filter(|status| status.code() == Code::ResourceExhausted)
}

/// Reports all that the journal has as lost, again and again.
async fn reports(access: Access, table: String) {
    let (mut rpc, _) = connect(&access).await;
    let worker = 77;
    let store = Location::parse(&table).unwrap().open_view().unwrap();
    loop {
        // It may be told to wait before it is let in, and is forgotten when it waits too long.
        let _ = rpc.join(hello(worker, "reporter")).await;
        // It is being written.
        let Ok(journal) = Follower::open(store.clone(), None).await else {
            continue;
        };
        let ledger = journal.ledger();
        let done = ledger.done(ledger.range_bits.heads(BITS));
        let records = done.map(|(Head(head), place)| v1::LostRecord {
            head,
            digest: place.digest.0.to_vec(),
            reason: "gone".to_owned(),
        });
        let records = records.collect();
        let _ = rpc.report(v1::ReportRequest { worker, records }).await;
    }
}

/// Announces as many bytes as there may be, several times, under a lease that it has, and sends none of them.
async fn uploads(access: Access) {
    let (mut rpc, objects) = connect(&access).await;
    let mut silent = JoinSet::new();
    let worker = 1;
    rpc.join(hello(worker, "uploader")).await.unwrap();
    let reply = rpc.lease(v1::LeaseRequest { worker }).await.unwrap();
    let Some(v1::lease_reply::Answer::Task(task)) = reply.into_inner().answer else {
        panic!("it is the first to ask");
    };
    let Some(Work::Evaluate(evaluate)) = &task.work else {
        panic!("ranges come first");
    };
    let range_bits = RangeBits::new(RANGE_BITS).unwrap();
    let announced = part::bytes_max(evaluate.heads.len(), range_bits);
    for _ in 0..4 {
        let task = task.clone();
        let objects = objects.clone();
        silent.spawn(async move {
            let (worker, announced) = (worker.to_string(), announced.to_string());
            let headers = [
                (WORKER_HEADER, &*worker),
                ("content-length", &*announced),
                ("if-none-match", "*"),
            ];
            let nothing = tokio_stream::pending::<Result<Frame<Bytes>, Status>>();
            let body = Body::new(StreamBody::new(nothing));
            let key = key_of(&task);
            let _ = objects.ask(Method::PUT, key.as_str(), &headers, body).await;
        });
    }
    silent.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_floods_is_told_to_wait_and_honest_workers_lose_nothing() {
    let mut cluster = Job::start(BITS, RANGE_BITS, &["--keep-parts"]);
    let access = cluster.access_of("flood");
    let table = cluster.table().to_str().unwrap().to_owned();
    let stop = CancellationToken::new();
    let mut hostile = JoinSet::new();
    let mut silent = JoinSet::new();
    silent.spawn(uploads(access.clone()));
    for kind in [Heartbeats, Joins, Completions, Failures, Requests] {
        let (rpc, _) = connect(&access).await;
        for lane in 0..LANES {
            let (rpc, stop) = (rpc.clone(), stop.clone());
            hostile.spawn(async move { (kind, flood(kind, rpc, lane, stop).await) });
        }
    }
    let mut reporter = JoinSet::new();
    reporter.spawn(reports(access, table));

    let workers = ["honest", "proxied"].map(|name| cluster.start_worker(name));
    let cluster = tokio::task::spawn_blocking(move || {
        let manifest = cluster.published();
        assert_eq!(manifest["fingerprint"], FINGERPRINT_20);
        let status = cluster.status();
        for worker in status["workers"].as_array().unwrap() {
            if worker["participant"] != "flood" {
                assert_eq!(worker["failures"], 0, "{worker}");
                assert!(worker["quarantined"].is_null(), "{worker}");
            }
        }
        workers.into_iter().for_each(assert_content);
        cluster
    });
    let cluster = cluster.await.unwrap();
    stop.cancel();
    let told = hostile.join_all().await;
    // The calls that cost most are refused most. The others may come to their turn in time.
    let told = |wanted| {
        let mut told = told
            .iter()
            .filter(|(kind, _)| matches!(kind, Heartbeats) == wanted);
        told.find_map(|(_, told)| told.clone())
    };
    let (beats, others) = (told(true).expect("it is told to wait"), told(false));
    for told in std::iter::once(beats).chain(others) {
        assert!(told.contains("come back in "), "{told}");
    }
    reporter.shutdown().await;
    silent.shutdown().await;
    tokio::task::spawn_blocking(move || cluster.stop())
        .await
        .unwrap();
}
