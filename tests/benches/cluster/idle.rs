//! 1,000 workers that wait.
//!
//! Each has two connections, as real ones have, joins, sends heartbeats, and asks for tasks. For the
//! first part there are none: one more worker holds the only range of the first layer, on which all
//! others depend. For the second part this one gives its range back, the waiting ones only send
//! heartbeats, and a real worker makes the table among them.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chomp_access::Access;
use chomp_proto::v1;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::common::wait;
use crate::peers::Cluster;
use crate::peers::client::{Client, Offer, connect, hello};

const WORKERS: u64 = 1000;
const BITS: u32 = 32;
/// A quarter of the time of a lease.
const HEARTBEAT: Duration = Duration::from_millis(7500);
/// How long all of them wait: for several answers to each request for a task.
const WAIT: Duration = Duration::from_secs(35);
/// So many join at a time.
const AT_ONCE: usize = 50;

pub(crate) fn measure() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut cluster = Cluster::start(BITS, &[]);
    let access = cluster.access.clone();
    let mut holder = runtime.block_on(Client::join(&access, u64::MAX, "holder"));
    let held = match runtime.block_on(holder.lease()) {
        Offer::Task(task) => task,
        other => panic!("{other:?} for the first worker"),
    };
    let before = cluster.peak_bytes();
    let (phase, asking) = watch::channel(true);
    let at_once = Arc::new(Semaphore::new(AT_ONCE));
    let mut workers = JoinSet::new();
    let start = Instant::now();
    for number in 1..=WORKERS {
        let (access, asking, at_once) = (access.clone(), asking.clone(), Arc::clone(&at_once));
        workers.spawn_on(idle(access, number, asking, at_once), runtime.handle());
    }
    cluster.wait_until("all workers", |cluster| {
        cluster.metric("chomp_workers") == WORKERS + 1
    });
    let joined = start.elapsed();
    let cpu = cpu_ticks(cluster.id());
    let start = Instant::now();
    while start.elapsed() < WAIT {
        let lost = runtime.block_on(holder.renew(vec![held.lease]));
        assert!(lost.expect("an answer").is_empty(), "it holds on");
        std::thread::sleep(HEARTBEAT.min(WAIT));
    }
    let percent = (cpu_ticks(cluster.id()) - cpu) / start.elapsed().as_secs_f64();
    let connections = cluster.metric("chomp_connections_open");
    let waiting = cluster.peak_bytes();

    phase.send(false).expect("they are there");
    // So that their last requests are answered.
    std::thread::sleep(Duration::from_secs(11));
    runtime
        .block_on(holder.give_back(held.lease))
        .expect("done");
    let start = Instant::now();
    let worker = cluster.worker("worker");
    let mut failures = 0;
    let mut finished = false;
    while !finished {
        let status = cluster.status();
        finished = status["phase"] == "finished";
        let all = status["workers"].as_array().expect("workers");
        let failed = all.iter().filter_map(|worker| worker["failures"].as_u64());
        failures = failures.max(failed.sum());
    }
    let wall = start.elapsed();
    wait(worker).summary();
    let peak = cluster.peak_bytes();
    assert_eq!(workers.len() as u64, WORKERS, "all of them are still there");
    println!(
        "workers   connections   joined in s   peak MiB before   waiting   working   CPU % waiting   table in s   leases lost"
    );
    println!(
        "{WORKERS:>7}   {connections:>11}   {:>11.2}   {:>15}   {:>7}   {:>7}   {percent:>13.1}   {:>10.2}   {failures:>11}\n",
        joined.as_secs_f64(),
        before >> 20,
        waiting >> 20,
        peak >> 20,
        wall.as_secs_f64(),
    );
    drop(runtime);
    cluster.stop();
}

/// One worker that waits, for ever.
async fn idle(
    access: Access,
    number: u64,
    mut asking: watch::Receiver<bool>,
    at_once: Arc<Semaphore>,
) {
    let turn = at_once.acquire().await.expect("it is never closed");
    let (mut control, mut data) = (connect(&access).await, connect(&access).await);
    let request = hello(number, &format!("idle-{number}"));
    control.join(request).await.expect("it may join");
    // Nothing to fetch yet: this opens the connection and no more.
    let fetch = v1::FetchRequest {
        worker: number,
        heads: Vec::new(),
    };
    data.fetch(fetch).await.expect("an answer");
    drop(turn);
    let mut heart = control.clone();
    let beat = async {
        loop {
            tokio::time::sleep(HEARTBEAT).await;
            let request = v1::RenewRequest {
                worker: number,
                leases: Vec::new(),
                stats: None,
            };
            heart.renew(request).await.expect("it is known");
        }
    };
    let ask = async {
        while *asking.borrow_and_update() {
            let request = v1::LeaseRequest { worker: number };
            let reply = control.lease(request).await.expect("an answer");
            // What the holder is slow with is given to one other.
            if let Some(v1::lease_reply::Answer::Task(task)) = reply.into_inner().answer {
                let request = v1::ReturnRequest {
                    worker: number,
                    lease: task.lease,
                    failure: String::new(),
                };
                control.r#return(request).await.expect("an answer");
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::join!(beat, ask);
}

/// The CPU time of a process so far, in hundredths of a second.
fn cpu_ticks(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    ticks(11) + ticks(12)
}
