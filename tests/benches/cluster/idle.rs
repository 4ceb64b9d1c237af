//! 1,000 workers that wait.
//!
//! Each has a connection, as real ones have, joins, sends heartbeats, and asks for tasks. There are none:
//! one more worker holds the only range of the first layer, on which all others depend.

use std::time::{Duration, Instant};

use chomp_access::Access;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::common::cluster::{Cluster, wait_for};
use crate::peers::client::{Link, back, connect, hello, renewal};

const WORKERS: u64 = 1000;
const BITS: u32 = 32;
const RANGE_BITS: u32 = 20;
/// A quarter of the time of a lease.
const HEARTBEAT: Duration = Duration::from_millis(7500);
/// How long all of them wait: for several answers to each request for a task.
const WAIT: Duration = Duration::from_secs(30);

pub(crate) fn measure() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let cluster = Cluster::new();
    let coordinator = cluster.start_coordinator(&mut cluster.coordinator(BITS, RANGE_BITS));
    let access = Access::read(&cluster.access()).expect("the file of a coordinator that listens");
    let mut holder = runtime.block_on(join(&access, u64::MAX));
    let held = runtime.block_on(holder.lease(u64::MAX)).expect("an answer");
    let held = held.expect("the first range").lease;
    let before = coordinator.peak_bytes();
    let mut workers = JoinSet::new();
    let start = Instant::now();
    for number in 1..=WORKERS {
        let access = access.clone();
        // Some at a time.
        let delay = Duration::from_millis(number * 4);
        let idle = async move {
            sleep(delay).await;
            idle(&access, number).await;
        };
        workers.spawn_on(idle, runtime.handle());
    }
    wait_for("all workers", || {
        cluster.metric("chomp_workers") == WORKERS + 1
    });
    let joined = start.elapsed();
    let (start, cpu) = (Instant::now(), coordinator.cpu_seconds());
    while start.elapsed() < WAIT {
        runtime.block_on(async {
            beat(&mut holder, u64::MAX, vec![held]).await;
            sleep(HEARTBEAT).await;
        });
    }
    let percent = (coordinator.cpu_seconds() - cpu) / start.elapsed().as_secs_f64() * 100.0;
    let waiting = coordinator.peak_bytes();

    assert_eq!(workers.len() as u64, WORKERS, "all of them are still there");
    println!(
        "workers   joined in s   peak MiB before   waiting   CPU % waiting\n\
         {WORKERS:>7}   {:>11.2}   {:>15}   {:>7}   {percent:>13.1}\n",
        joined.as_secs_f64(),
        before >> 20,
        waiting >> 20,
    );
}

async fn join(access: &Access, worker: u64) -> Link {
    let mut link = connect(access).await;
    let request = hello(worker, &format!("idle-{worker}"));
    link.rpc.join(request).await.expect("it may join");
    link
}

async fn beat(link: &mut Link, worker: u64, leases: Vec<u64>) {
    let reply = link.rpc.renew(renewal(worker, leases)).await;
    let lost = reply.expect("it is known").into_inner().lost;
    assert!(lost.is_empty(), "it holds on");
}

/// One worker that waits, for ever.
async fn idle(access: &Access, worker: u64) {
    let mut link = join(access, worker).await;
    let mut heart = link.clone();
    let beats = async {
        loop {
            sleep(HEARTBEAT).await;
            beat(&mut heart, worker, Vec::new()).await;
        }
    };
    let asks = async {
        loop {
            // A task whose holder is slow is given to one other worker.
            if let Some(task) = link.lease(worker).await.expect("an answer") {
                let back = back(worker, task.lease, String::new());
                link.rpc.r#return(back).await.expect("an answer");
            }
        }
    };
    tokio::join!(beats, asks);
}
