//! A coordinator that is dropped, and one that is told to end.

mod limits;

use std::time::Duration;

use chomp_access::Token;
use chomp_proto::PROTOCOL;
use chomp_proto::v1::coordinator_client::CoordinatorClient;
use chomp_proto::v1::{self, lease_reply};
use chomp_table::Word;
use chomp_table::fingerprint::FingerprintBuilder;
use chomp_table::manifest::Manifest;
use chomp_table::range;
use chomp_table::shard::ShardWriter;
use chomp_testing::definition;
use chomp_testing::waiting::becomes;
use tonic::Request;
use tower::ServiceExt;

use super::*;
use crate::message_budget::MESSAGE_TIME;
use crate::status::JobPhase;
use crate::testing::{nobody, range_bits};
use chomp_store::objects::SimulatedStorage;

/// For a job of 14 bits on loopback.
pub(crate) fn options(participants: Participants) -> CoordinatorOptions {
    CoordinatorOptions {
        range_bits: range_bits(),
        bits: 14,
        replicas: 1,
        keep_parts: false,
        checks_per_1000: None,
        store_hint: None,
        secrets: Arc::new(Secrets::in_memory()),
        participants,
        participants_file: None,
        tls: None,
        site: None,
        open_status: false,
        limits: Limits::default(),
        haste: 1,
    }
}

async fn start(storage: Arc<SimulatedStorage>, limits: Limits) -> (Coordinator, Token) {
    let mut participants = Participants::default();
    let token = participants.keep_or_renew_owner_token(None).unwrap();
    let options = CoordinatorOptions {
        limits,
        ..options(participants)
    };
    (start_with(options, storage, None).await, token)
}

async fn start_with(
    options: CoordinatorOptions,
    storage: Arc<SimulatedStorage>,
    published: Option<Manifest>,
) -> Coordinator {
    let listeners = Listeners {
        calls: Some(TcpListener::bind("127.0.0.1:0").await.unwrap()),
        pages: None,
    };
    let coordinator = Coordinator::start(storage, options, published, listeners).await;
    coordinator.unwrap()
}

fn hello(worker: u64) -> v1::JoinRequest {
    let kernel = chomp_kernel::fingerprint(chomp_kernel::Isa::Portable);
    v1::JoinRequest {
        protocol: PROTOCOL,
        format: range::VERSION,
        threads: 1,
        worker,
        kernel: kernel.0.to_vec(),
        ..v1::JoinRequest::default()
    }
}

fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let token = token.parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    request
}

#[tokio::test]
async fn dropping_it_ends_it() {
    let storage = Arc::new(SimulatedStorage::new(0));
    let (coordinator, _) = start(storage.clone(), Limits::default()).await;
    tokio::task::yield_now().await;
    assert!(Arc::strong_count(&storage) > 1);
    {
        let mut ended = std::pin::pin!(coordinator.ended());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(ended.as_mut().poll(&mut context).is_pending());
    }
    drop(coordinator);
    let is_free = || Arc::strong_count(&storage) == 1;
    becomes("the end of its use of the table", is_free).await;
}

#[tokio::test]
async fn a_worker_that_holds_on_for_ever_does_not_hold_the_end() {
    let limits = Limits {
        finish_time: Duration::from_millis(500),
        drain_time: Duration::from_millis(500),
        ..Limits::default()
    };
    let (coordinator, token) = start(Arc::new(SimulatedStorage::new(0)), limits).await;
    let url = format!("http://{}", coordinator.address().unwrap());
    let mut client = CoordinatorClient::new(
        tonic::transport::Endpoint::from_shared(url)
            .unwrap()
            .connect()
            .await
            .unwrap(),
    );
    let token = format!("Bearer {}", token.secret());
    client.join(with(&token, hello(7))).await.unwrap();
    let lease = client.lease(with(&token, v1::LeaseRequest { worker: 7 }));
    let Some(lease_reply::Answer::Task(task)) = lease.await.unwrap().into_inner().answer else {
        panic!("the first worker gets a task");
    };

    let renewing = async {
        let renew = v1::RenewRequest {
            worker: 7,
            leases: vec![task.lease],
        };
        let begin = tokio::time::Instant::now();
        while let Ok(reply) = client.renew(with(&token, renew.clone())).await {
            assert_eq!(reply.into_inner().lost, [0; 0]);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        begin.elapsed()
    };
    let (renewed, outcome) = tokio::join!(renewing, coordinator.stop());
    assert!(renewed >= limits.finish_time, "{renewed:?}: it was cut off");
    assert!(matches!(outcome, JobOutcome::Interrupted), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn who_follows_a_job_hears_of_its_end() {
    let losing = definition::losing(14);
    let words = (0..).step_by(2).map(Word::new).zip(losing);
    let words = words.filter(|&(word, is_losing)| is_losing && word <= word.mirror());
    let words: Vec<u64> = words.map(|(word, _)| word.get()).collect();
    let mut fingerprints = FingerprintBuilder::with_leaf(14, words.len());
    fingerprints.push(&words);
    let mut writer = ShardWriter::new(0, ShardSize::PUBLISHED);
    assert!(writer.push(&words).is_empty());
    let shards = vec![writer.finish().0];
    let software = "chomp 0.1.0".to_owned();
    let published =
        Manifest::new(range_bits(), 1, software, fingerprints.finish(), shards).unwrap();

    let options = options(Participants::default());
    let storage = Arc::new(SimulatedStorage::new(0));
    let coordinator = start_with(options, storage, Some(published)).await;
    let status = coordinator.status();
    let outcome = coordinator.stop().await;
    assert!(matches!(outcome, JobOutcome::Finished(_)), "{outcome:?}");
    assert_eq!(status.borrow().phase, JobPhase::Finished);
}

/// Calls of participants take none of the places that calls of anybody have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_wait_take_no_place_of_others() {
    const PLACES: usize = 8;
    let limits = Limits {
        answer_units: PLACES,
        ..Limits::default()
    };
    let (coordinator, token) = start(Arc::new(SimulatedStorage::new(0)), limits).await;
    let url = format!("http://{}", coordinator.address().unwrap());
    let client = CoordinatorClient::new(
        tonic::transport::Endpoint::from_shared(url)
            .unwrap()
            .connect()
            .await
            .unwrap(),
    );
    let bearer = format!("Bearer {}", token.secret());
    let mut waiting = tokio::task::JoinSet::new();
    for worker in 0..2 * PLACES as u64 {
        let (mut client, bearer) = (client.clone(), bearer.clone());
        client.join(with(&bearer, hello(worker))).await.unwrap();
        // One gets a task, and the others wait for one.
        waiting.spawn(async move {
            let lease = v1::LeaseRequest { worker };
            client.lease(with(&bearer, lease)).await.unwrap();
        });
    }
    waiting.join_next().await.unwrap().unwrap();
    let mut client = client;
    for worker in 0..2 * PLACES as u64 {
        client.join(with(&bearer, hello(worker))).await.unwrap();
    }
}

/// Messages that never come to their end, of any call.
#[tokio::test(start_paused = true)]
async fn every_call_bounds_its_message() {
    let storage = Arc::new(SimulatedStorage::new(0));
    let inputs = JobInputs {
        settings: Settings::new(14, range_bits()),
        participants: nobody(),
        coordinator_secret: 1,
        table: 2,
        store_hint: None,
        published: None,
    };
    let opened = Opened::new(storage, inputs, |epoch| epoch).await.unwrap();
    let guarded = calls(&opened.service);
    assert_eq!(guarded.len(), CALLS.len());
    for (path, route) in guarded {
        let endless = tokio_stream::pending::<Result<axum::body::Bytes, std::io::Error>>();
        let call = http::Request::post(path)
            .header("content-type", "application/grpc")
            .body(axum::body::Body::from_stream(endless));
        let start = tokio::time::Instant::now();
        let owner = Extension(AuthenticatedParticipant(ParticipantId::OWNER));
        let router = Router::new().route(path, route).layer(owner);
        let response = router.oneshot(call.unwrap()).await.unwrap();
        assert_eq!(start.elapsed(), MESSAGE_TIME, "{path}");
        assert_eq!(response.headers()["grpc-status"], "8", "{path}");
    }
}

/// Two that know the same secrets are told apart all the same, so that only one of them owns a table.
#[tokio::test]
async fn no_two_coordinators_are_alike() {
    let mut firsts = Vec::new();
    let options = options(Participants::default());
    for _ in 0..2 {
        let storage = Arc::new(SimulatedStorage::new(0));
        let coordinator = start_with(options.clone(), storage.clone(), None).await;
        let JobOutcome::Interrupted = coordinator.stop().await else {
            panic!("nobody computed anything");
        };
        firsts.push(storage.objects());
    }
    assert!(firsts[0].keys().eq(firsts[1].keys()));
    assert!(!firsts[0].is_empty());
    assert_ne!(firsts[0], firsts[1]);
}
