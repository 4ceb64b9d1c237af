//! Outages that end: the job is done as if nothing had been.

use std::time::Duration;

use chomp_testing::trials;
use tokio::runtime::Builder;
use tokio::time::Instant;
use tonic::Status;

use super::fake::{Act, Fake, State, config};
use crate::{Config, StoreChoice};

/// A worker that survives all outages of these tests.
fn patient(seed: u64) -> Config {
    Config {
        patience: Some(Duration::from_mins(30)),
        ..config(seed)
    }
}

fn lost() -> Status {
    Status::unavailable("connection reset")
}

/// Some calls fail, in every way that there is; with `moves` the job goes on elsewhere now and then.
fn chaos(seed: u64, moves: bool) -> impl FnMut(&str, &mut State) -> Act + Send {
    let mut rng = fastrand::Rng::with_seed(seed);
    let rate = rng.u32(2..12);
    move |_, state| match rng.u32(0..rate * 8) {
        0 => Act::Fail(lost()),
        1 => Act::Lose(lost()),
        2 => Act::Hang,
        3 => Act::Slow(Duration::from_millis(rng.u64(0..70_000))),
        4 => {
            state.restart();
            Act::Lose(lost())
        }
        5 => {
            state.restart();
            Act::Go
        }
        6 => Act::Fail(Status::resource_exhausted("later")),
        7 => {
            // Not after the end, of which some lanes may have heard already.
            if moves && !state.is_done() {
                state.move_table();
            }
            Act::Fail(Status::internal("h2 protocol error"))
        }
        _ => Act::Go,
    }
}

/// A job with the outages of a seed, in a time of its own.
async fn a_job_among_outages(seed: u64) {
    // Workers with a named store cannot follow a job to another one.
    let direct = seed % 2 == 1;
    let fake = Fake::new(chaos(seed, !direct));
    let config = Config {
        store: direct.then(|| StoreChoice::Shared(fake.state().storage.clone())),
        ..patient(seed)
    };
    fake.is_done_by(config).await;
    let state = fake.state();
    let first = &state.joins[0];
    let is_same = state.joins.iter().all(|join| join == first);
    assert!(is_same, "another identity");
}

#[test]
fn a_job_is_done_whatever_fails_on_the_way() {
    let jobs = trials("jobs among outages").at_least(12);
    jobs.on_all_cores().run(|seed| {
        let mut time = Builder::new_current_thread();
        let time = time.enable_all().start_paused(true).build();
        time.unwrap().block_on(a_job_among_outages(seed));
    });
}

#[tokio::test(start_paused = true)]
async fn equal_seeds_give_equal_runs() {
    let log = async |seed| {
        let mut log = Vec::new();
        for script in 0..3 {
            let fake = Fake::new(chaos(script, true));
            fake.run(patient(seed)).await.unwrap();
            log.append(&mut fake.state().log);
        }
        log
    };
    let (first, second, other) = (log(5).await, log(5).await, log(6).await);
    assert!(first == second, "{first:?}\n{second:?}");
    assert!(first != other, "the seed is of no consequence");
}

/// All lanes and the heartbeat notice the outage; one of them sees to it.
#[tokio::test(start_paused = true)]
async fn one_lane_joins_for_all() {
    let start = Instant::now();
    let down = move || (5..125).contains(&start.elapsed().as_secs());
    let fake = Fake::new(move |call, state| match call {
        _ if down() => {
            state.restart();
            Act::Fail(lost())
        }
        "complete" if start.elapsed().as_secs() < 5 => Act::Slow(Duration::from_secs(6)),
        _ => Act::Go,
    });
    fake.is_done_by(patient(1)).await;
    let state = fake.state();
    assert_eq!(state.joins.len(), 2, "at the start, and after the outage");
    let during = |(at, call): &&(u128, String)| call == "connect" && (5_000..125_000).contains(at);
    let attempts = state.log.iter().filter(during).map(|(at, _)| *at);
    let attempts: Vec<u128> = attempts.collect();
    // Every 5 to 10 seconds in the end, for the whole worker.
    assert!((12..32).contains(&attempts.len()), "{attempts:?}");
    assert!(
        attempts.is_sorted_by(|one, next| one < next),
        "{attempts:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn leases_survive_an_outage() {
    let mut failed = false;
    let fake = Fake::new(move |call, state| match call {
        "complete" if !failed => {
            failed = true;
            // It forgets the worker, but not its leases.
            state.known.clear();
            Act::Fail(lost())
        }
        _ => Act::Go,
    });
    fake.state().task_heads = 100;
    fake.is_done_by(patient(1)).await;
    let state = fake.state();
    let (layers, shards) = (11, 5);
    assert_eq!(
        state.count("complete"),
        layers + 2 * shards + 1,
        "the same result twice, and no more work"
    );
    assert_eq!(state.returned, Vec::<String>::new());
}

/// Sources are kept for as long as their records are the same, also if the table is another.
#[tokio::test(start_paused = true)]
async fn the_cache_outlives_connections() {
    for moves in [false, true] {
        // Some ranges are done before the worker comes, so it has to fetch them.
        let mut tasks = 0;
        let fake = Fake::new(move |call, state| {
            tasks += usize::from(call == "lease");
            if call == "lease" && tasks == 6 {
                if moves {
                    state.move_table();
                } else {
                    state.restart();
                }
                return Act::Fail(lost());
            }
            Act::Go
        });
        fake.state().add_done(|head| head.0 < 4);
        fake.is_done_by(patient(1)).await;
        assert!(fake.assert_fetched_once() >= 2);
    }
}

#[tokio::test(start_paused = true)]
async fn other_range_bits_end_the_worker() {
    let mut leases = 0;
    let fake = Fake::new(move |call, state| {
        leases += usize::from(call == "lease");
        if leases == 4 {
            state.restart();
            state.range_bits = chomp_table::RangeBits::new(13).unwrap();
        }
        Act::Go
    });
    let error = fake.run(patient(1)).await.unwrap_err().to_string();
    let what = "now has a job with 13 range bits instead of 12: start the worker again";
    assert!(error.ends_with(what), "{error}");
}

/// Each call that is never answered is given up after its deadline, and repeated.
#[tokio::test(start_paused = true)]
async fn every_call_has_a_deadline() {
    for (hanging, deadline) in [
        ("connect", 20),
        ("join", 20),
        ("lease", 20),
        ("renew", 20),
        ("get", 60),
        ("put", 120),
        ("complete", 120),
    ] {
        let mut hung = false;
        let fake = Fake::new(move |call, _| {
            if call == hanging && !std::mem::replace(&mut hung, true) {
                return Act::Hang;
            }
            // So that there is time for a heartbeat.
            if call == "complete" {
                return Act::Slow(Duration::from_secs(5));
            }
            Act::Go
        });
        fake.state().add_done(|head| head.0 < 2);
        let mut config = config(1);
        config.patience = Some(Duration::from_mins(5));
        config.threads = std::num::NonZeroUsize::MIN;
        fake.is_done_by(config).await;
        let state = fake.state();
        let mut log = state.log.iter();
        let (hung_at, _) = log.find(|(_, call)| call == hanging).unwrap();
        let mut log = log.skip_while(|(at, _)| at == hung_at);
        let again = log.find(|(_, call)| call == "connect");
        let again = again.expect("a new session").0 - hung_at;
        let wait = deadline * 1_000;
        assert!((wait..wait + 200).contains(&again), "{hanging}: {again} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn the_heartbeat_comes_four_times_a_lease_even_without_one() {
    let mut beats = 0;
    let fake = Fake::new(move |call, state| {
        beats += usize::from(call == "renew");
        state.task_heads = if beats < 4 { 0 } else { 100 };
        match call {
            "complete" => Act::Slow(Duration::from_secs(40)),
            _ => Act::Go,
        }
    });
    fake.run(patient(1)).await.unwrap();
    let state = fake.state();
    let times = state.renewals.iter().map(|(at, _)| *at);
    assert!(times.eq((1..=state.renewals.len() as u128).map(|i| i * 7_500)));
    // None at first, then one for the first range.
    let leases = state
        .renewals
        .iter()
        .map(|(_, renewal)| renewal.leases.len());
    assert!(leases.take(5).eq([0, 0, 0, 0, 1]));
}

/// A source is fetched once, however many lanes need it, and nobody waits for another's fetch of
/// something else.
#[tokio::test(start_paused = true)]
async fn sources_are_fetched_once() {
    let fake = Fake::new(|call, _| match call {
        "get" => Act::Slow(Duration::from_secs(5)),
        _ => Act::Go,
    });
    {
        let mut state = fake.state();
        state.task_heads = 1;
        state.add_done(|head| head.layer() < 6);
    }
    fake.is_done_by(patient(1)).await;
    assert!(fake.assert_fetched_once() > 5);
}
