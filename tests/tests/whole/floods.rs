//! One participant who does as much of everything as it can, while honest workers make a table: it is
//! told to wait, and they lose nothing.

use std::path::PathBuf;

use crate::common::FINGERPRINT_20;
use crate::peers::client::{
    Link, Rpc, all_records, back, connect, false_result, hello, key_of, part_bytes_max, pieces,
    renewal,
};
use crate::peers::{Job, assert_content};
use chomp_access::Access;
use chomp_proto::v1;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
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
                let leases = (0..8192).collect();
                rpc.renew(renewal(worker, leases)).await.map(drop)
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
                let back = back(worker, turn, "\u{1b}[2J\r\n".repeat(100));
                rpc.r#return(back).await.map(drop)
            }
            // It asks whether it is there, which is a call like any other.
            Requests => rpc.renew(renewal(worker, Vec::new())).await.map(drop),
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
async fn reports(access: Access, table: PathBuf) {
    let Link { mut rpc, .. } = connect(&access).await;
    let worker = 77;
    loop {
        // It may be told to wait before it is let in, and is forgotten when it waits too long.
        let _ = rpc.join(hello(worker, "reporter")).await;
        // The journal is being written.
        if let Ok(records) = all_records(&table, BITS).await {
            let _ = rpc.report(v1::ReportRequest { worker, records }).await;
        }
    }
}

/// Announces as many bytes as there may be, several times, under a lease that it has, and sends none of them.
async fn uploads(access: Access) {
    let mut link = connect(&access).await;
    let mut silent = JoinSet::new();
    let worker = 1;
    link.rpc.join(hello(worker, "uploader")).await.unwrap();
    let task = link.lease(worker).await.unwrap();
    let task = task.expect("it is the first to ask");
    let announced = part_bytes_max(&task, RANGE_BITS);
    for _ in 0..4 {
        let (link, key) = (link.clone(), key_of(&task));
        silent.spawn(async move {
            let nothing = pieces(0, 0, false);
            let _ = link.announce(worker, &key, announced, nothing).await;
        });
    }
    silent.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_floods_is_told_to_wait_and_honest_workers_lose_nothing() {
    let mut cluster = Job::start(BITS, RANGE_BITS, &["--keep-parts"]);
    let access = cluster.access_of("flood");
    let table = cluster.table();
    let stop = CancellationToken::new();
    let mut hostile = JoinSet::new();
    let mut silent = JoinSet::new();
    silent.spawn(uploads(access.clone()));
    for kind in [Heartbeats, Joins, Completions, Failures, Requests] {
        let Link { rpc, .. } = connect(&access).await;
        for lane in 0..LANES {
            let (rpc, stop) = (rpc.clone(), stop.clone());
            hostile.spawn(flood(kind, rpc, lane, stop));
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
                assert!(worker["quarantined"].is_null(), "{worker}");
            }
        }
        workers.into_iter().for_each(assert_content);
        cluster
    });
    let cluster = cluster.await.unwrap();
    stop.cancel();
    let told = hostile.join_all().await;
    // Where calls take long, they come to their turn in time.
    for told in told.into_iter().flatten() {
        assert!(told.contains("come back in "), "{told}");
    }
    reporter.shutdown().await;
    silent.shutdown().await;
    tokio::task::spawn_blocking(move || cluster.stop())
        .await
        .unwrap();
}
