//! How a worker ends: stopped, refused, or out of patience.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chomp_access::{Access, Token};
use chomp_proto::v1::JoinRequest;
use chomp_table::format::describe;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::fake::{Act, Fake, SECRET, State, config};
use crate::error::ClientError;
use crate::link::Link;
use crate::{End, WorkerError, run_with};

/// Goes down for good at a certain number of calls.
fn down_after(calls: usize, act: Act) -> impl FnMut(&str, &mut State) -> Act + Send {
    let mut count = 0;
    move |call, _| {
        count += 1;
        match call {
            _ if count > calls => act.clone(),
            "complete" => Act::Slow(Duration::from_millis(300)),
            _ => Act::Go,
        }
    }
}

fn lost() -> Status {
    Status::unavailable("connection refused")
}

#[tokio::test(start_paused = true)]
async fn patience_ends() {
    for (calls, patience, least, most) in [
        (0, None, 10, 11),
        (12, None, 30 * 60, 31 * 60),
        (0, Some(100), 100, 101),
        (12, Some(100), 100, 130),
        (0, Some(0), 0, 1),
        (12, Some(0), 0, 1),
    ] {
        let fake = Fake::new(down_after(calls, Act::Fail(lost())));
        let mut config = config(1);
        config.patience = patience.map(Duration::from_secs);
        let start = Instant::now();
        let error = fake.run(config).await.unwrap_err();
        assert!(
            matches!(error, WorkerError::Client(ClientError::Unreachable { .. })),
            "{error:?}"
        );
        let took = start.elapsed().as_secs();
        assert!(
            (least..most).contains(&took),
            "{calls} calls, {patience:?}: {took} s"
        );
    }
}

/// A heartbeat that gets through is no contact for records that do not.
#[tokio::test(start_paused = true)]
async fn a_connection_that_never_carries_records_is_given_up() {
    let fake = Fake::new(|call, _| match call {
        "put" => Act::Fail(lost()),
        _ => Act::Go,
    });
    let mut config = config(1);
    config.patience = Some(Duration::from_mins(1));
    let error = fake.run(config).await.unwrap_err();
    assert!(
        matches!(error, WorkerError::Client(ClientError::Unreachable { .. })),
        "{error:?}"
    );
}

/// All tasks that it took are done, those that came with the last results aside, which go back when it leaves.
#[tokio::test(start_paused = true)]
async fn a_worker_that_drains_does_what_it_has() {
    let config = config(1);
    let drain = config.drain.clone();
    let mut completions = 0;
    let fake = Fake::new(move |call, _| {
        completions += usize::from(call == "complete");
        if completions == 10 {
            drain.cancel();
        }
        Act::Go
    });
    let report = fake.run(config).await.unwrap();
    assert_eq!((report.end, report.acknowledged), (End::Drained, true));
    assert!(report.ranges >= 10, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_slept_is_not_a_coordinator_that_is_gone() {
    let mut leases = 0;
    let fake = Fake::new(move |call, _| {
        leases += usize::from(call == "lease");
        // None of the four lanes gets an answer.
        match call {
            "lease" if leases <= 4 => Act::Hang,
            _ => Act::Go,
        }
    });
    let mut config = config(1);
    config.patience = Some(Duration::ZERO);
    fake.is_done_by(config).await;
}

#[tokio::test(start_paused = true)]
async fn refusals_end_it_at_once_with_their_reason() {
    for code in [
        Code::FailedPrecondition,
        Code::Unauthenticated,
        Code::PermissionDenied,
        Code::InvalidArgument,
    ] {
        for call in ["join", "lease", "renew"] {
            let fake = Fake::new(move |this, _| match this {
                _ if this == call => Act::Fail(Status::new(code, "not you")),
                "complete" => Act::Slow(Duration::from_secs(8)),
                _ => Act::Go,
            });
            let start = Instant::now();
            let error = fake.run(config(1)).await.unwrap_err();
            let text = error.to_string();
            assert!(text.ends_with(": not you"), "{call}, {code:?}: {text}");
            assert_eq!(
                fake.state().count(call),
                if call == "lease" { 4 } else { 1 }
            );
            assert!(start.elapsed() < Duration::from_secs(20), "{call}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_accepted_costs_a_task_and_not_the_worker() {
    for call in ["get", "put", "complete"] {
        let mut refused = false;
        let fake = Fake::new(move |this, _| {
            if this == call && !std::mem::replace(&mut refused, true) {
                return Act::Fail(Status::out_of_range("range 2 is not committed"));
            }
            Act::Go
        });
        fake.state().add_done(|head| head.0 < 2);
        fake.is_done_by(config(1)).await;
        let returned = fake.state().returned.clone();
        // The first that it gets is the journal: it joins again for that, and needs no task.
        assert_eq!(returned.len(), usize::from(call != "get"), "{returned:?}");
        let is_told = |reason: &String| reason.contains("not committed");
        assert!(returned.iter().all(is_told), "{returned:?}");
        assert_eq!(fake.state().count("join"), 1 + usize::from(call == "get"));
    }
}

/// Whenever it is told to stop, and whatever the coordinator does, it ends within the grace.
#[tokio::test(start_paused = true)]
async fn it_stops_within_the_grace() {
    for (name, act) in [
        ("up", Act::Slow(Duration::from_millis(150))),
        ("slow", Act::Slow(Duration::from_secs(9))),
        ("away", Act::Fail(lost())),
        ("hangs", Act::Hang),
    ] {
        for calls in (0..60).step_by(3) {
            let fake = Fake::new(down_after(calls, act.clone()));
            fake.state().task_heads = 1;
            let stop = CancellationToken::new();
            let worker = run_with(config(1), Arc::new(fake.clone()), stop.clone());
            let stopper = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                stop.cancel();
                Instant::now()
            };
            let (report, told) = tokio::join!(worker, stopper);
            let took = told.elapsed();
            assert!(
                took <= Duration::from_millis(15_100),
                "{name} after {calls}: {took:?}"
            );
            let end = report
                .unwrap_or_else(|error| panic!("{name} after {calls}: {error}"))
                .end;
            let state = fake.state();
            assert_eq!(
                end,
                if state.is_done() {
                    End::Finished
                } else {
                    End::Stopped
                }
            );
            if name == "up" {
                assert!(
                    state.left && state.leases.is_empty(),
                    "all is handed in or back"
                );
                assert!(!state.is_done() && state.returned.iter().all(String::is_empty));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_token_is_not_shown() {
    let (config, fake) = (config(1), Fake::new(|_, _| Act::Go));
    let link = |access: &Access| {
        let (join_request, rng) = (JoinRequest::default(), fastrand::Rng::with_seed(1));
        Link::new(access, Arc::new(fake.clone()), join_request, None, rng)
    };
    let sound = link(&config.access).unwrap();
    sound.join().await.unwrap();
    assert!(fake.state().authorized, "it is sent");
    let text = format!("{config:?} {sound:?} {config:#?} {sound:#?}");
    assert!(text.contains("session: Some"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
    let mut bad = config.access.clone();
    bad.token = Some(Token::new(format!("{SECRET}\n")));
    let error = link(&bad).unwrap_err();
    let text = format!("{error:?} {}", describe(&error));
    assert!(text.ends_with("failed to parse metadata value"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
}

/// Nobody knows a worker's number before, so nobody takes it for another's.
#[tokio::test(start_paused = true)]
async fn no_two_workers_have_one_number() {
    let fake = Fake::new(|call, _| match call {
        "lease" => Act::Fail(Status::failed_precondition("go")),
        _ => Act::Go,
    });
    for _ in 0..3 {
        let mut config = config(1);
        config.seed = None;
        fake.run(config).await.unwrap_err();
    }
    let state = fake.state();
    let numbers: BTreeSet<u64> = state.joins.iter().map(|join| join.worker).collect();
    assert_eq!(numbers.len(), 3);
}
