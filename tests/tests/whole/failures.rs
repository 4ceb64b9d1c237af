//! A worker and a coordinator on a storage that fails: both end soon, and say why.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use chomp_access::{Access, Participants, Secrets};
use chomp_coordinator::job::JobOutcome;
use chomp_coordinator::server::{Coordinator, CoordinatorOptions, Listeners, StartError};
use chomp_kernel::Isa;
use chomp_serve::net::Limits;
use chomp_store::objects::{Fault, Moment, SimulatedStorage};
use chomp_table::RangeBits;
use chomp_table::shard::ShardSize;
use chomp_testing::waiting::arrives;
use chomp_worker::{Config, End, Evaluation, Report, StoreChoice, WorkerError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const BITS: u32 = 16;

/// One run of a job, as `chomp run` does it.
async fn run(
    storage: &Arc<SimulatedStorage>,
) -> Result<(JobOutcome, Result<Report, WorkerError>), StartError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let range_bits = RangeBits::new(12).unwrap();
    let mut participants = Participants::default();
    let token = participants.owner(None).unwrap();
    let options = CoordinatorOptions {
        range_bits,
        size: BITS,
        replicas: 1,
        keep_parts: false,
        secrets: Arc::new(Secrets::in_memory().unwrap()),
        participants,
        participants_file: None,
        tls: None,
        site: None,
        open_status: false,
        limits: Limits::default(),
        haste: 1,
        store_hint: None,
        draw_one_in: None,
    };
    let listeners = Listeners {
        calls: listener,
        pages: None,
    };
    let coordinator = Coordinator::start(storage.clone(), options, None, listeners).await?;
    let config = Config {
        access: Access {
            coordinator: format!("http://{}", coordinator.address()),
            ca: None,
            token: Some(token),
        },
        name: "test".to_owned(),
        threads: NonZeroUsize::new(2).unwrap(),
        memory_bytes: 1 << 30,
        isa: Isa::Portable,
        patience: Some(Duration::ZERO),
        evaluation: Evaluation::Threads,
        seed: None,
        store: Some(StoreChoice::Shared(storage.clone())),
        shard: ShardSize::PUBLISHED,
        drain: CancellationToken::new(),
    };
    let run = async {
        let worker = chomp_worker::run(config, CancellationToken::new()).await;
        (coordinator.stop().await, worker)
    };
    Ok(arrives("the end of a job", Box::pin(run)).await)
}

/// Whether a job can be done though the call of this number and all later ones fail: how many it makes depends on how
/// its tasks were cut, and none is needed once the table is published.
fn may_finish(storage: &SimulatedStorage, call: u64) -> bool {
    let objects = storage.objects();
    let mut names = objects.keys().map(ToString::to_string);
    storage.calls() <= call || names.any(|name| name.ends_with("/manifest.json"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_at_any_time_ends_the_job_with_its_cause() {
    let undisturbed = Arc::new(SimulatedStorage::new(0));
    let (outcome, worker) = run(&undisturbed).await.unwrap();
    assert!(matches!(outcome, JobOutcome::Finished(_)), "{outcome:?}");
    assert_eq!(worker.unwrap().end, End::Finished);
    let calls = undisturbed.calls();

    let said = |text: String| {
        assert!(text.contains("failed before the effect"), "{text}");
        1
    };
    let mut failed = 0;
    for call in (0..calls).step_by(2) {
        let storage = Arc::new(SimulatedStorage::new(call));
        let fail_at = |call| {
            storage.set_fault(Some(Fault {
                call,
                sticky: true,
                moment: Moment::Before,
            }));
        };
        // In every other case a new worker goes on, which has to read the sources of its tasks.
        if call % 4 == 0 {
            fail_at(calls / 2);
            let (outcome, _) = run(&storage).await.unwrap();
            let has_failed = matches!(outcome, JobOutcome::Failed(_) | JobOutcome::Interrupted);
            assert!(has_failed || may_finish(&storage, calls / 2), "{outcome:?}");
        }
        let failing = storage.calls() + call;
        fail_at(failing);
        match run(&storage).await {
            Ok((JobOutcome::Failed(error), _)) => {
                failed += said(format!("{error:?}"));
            }
            // The coordinator had nothing to write yet, and the worker could not go on.
            Ok((JobOutcome::Interrupted, Err(error))) => failed += said(format!("{error:?}")),
            Ok((JobOutcome::Finished(_), _)) => {
                assert!(may_finish(&storage, failing), "{call} of {calls}");
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert!(matches!(error, StartError::Store(_)), "{error:?}"),
        }
        storage.set_fault(None);
        let (outcome, worker) = run(&storage).await.unwrap();
        assert!(matches!(outcome, JobOutcome::Finished(_)), "{outcome:?}");
        assert_eq!(worker.unwrap().end, End::Finished);
    }
    assert!(failed > 10, "{failed} of {calls}");
}
