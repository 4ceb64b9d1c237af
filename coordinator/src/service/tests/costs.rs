//! Calls that are about many things cost as much as many calls.

use tokio::time::Instant;

use super::*;

/// The items in each call.
const THINGS: usize = 60_000;

/// How often a participant makes a call until its next one has to wait.
async fn calls_until_it_waits(call: impl AsyncFn(&Served)) -> usize {
    let served = serve().await;
    served.client.clone().join(hello()).await.unwrap();
    for calls in 1..=1000 {
        call(&served).await;
        let asked = Instant::now();
        let turn = served.quota.turn(ParticipantId(1)).await;
        if turn.is_err() || asked.elapsed() > Duration::ZERO {
            return calls;
        }
    }
    panic!("1000 calls about {THINGS} things each never wait");
}

fn summaries() -> Vec<v1::Summary> {
    vec![v1::Summary::default(); THINGS]
}

#[tokio::test(start_paused = true)]
async fn whatever_a_call_is_about_is_paid_for() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let at_once = 2 * 1000 * cpus.max(2);
    let most = at_once / (THINGS / 64) + 1;

    let complete = async |served: &Served, result| {
        served.complete(1, Some(result)).await.unwrap_err();
    };
    let evaluated = calls_until_it_waits(async |served| {
        complete(served, evaluated(&summaries())).await;
    });
    assert!(evaluated.await <= most);
    let leases = calls_until_it_waits(async |served| {
        let request = v1::RenewRequest {
            worker: WORKER,
            leases: vec![1; THINGS],
            stats: None,
        };
        served.client.clone().renew(request).await.unwrap_err();
    });
    assert!(leases.await <= most);
    let records = calls_until_it_waits(async |served| {
        let records = vec![v1::LostRecord::default(); THINGS];
        served.report(records).await.unwrap_err();
    });
    assert!(records.await <= most);
}
