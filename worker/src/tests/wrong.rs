//! A coordinator that is wrong, or means ill: the worker ends with an error that says so, or fails the task, and touches
//! nothing that it should not.

use std::sync::Arc;

use chomp_proto::v1;
use chomp_proto::v1::task::Work;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::fake::{Act, Fake, State, config};
use super::lies::{LieAboutJob, LieAboutTask, Lies};
use crate::{Report, WorkerError, run_with};

/// So many failed tasks are enough to see.
const FAILURES: usize = 3;
/// What ends a worker that goes on otherwise.
const ENOUGH: &str = "that was enough";

/// Goes on until enough tasks have failed.
fn until_enough(call: &str, state: &mut State) -> Act {
    match call {
        "lease" | "complete" if state.returned.len() >= FAILURES => {
            Act::Fail(Status::failed_precondition(ENOUGH))
        }
        _ => Act::Go,
    }
}

async fn run(fake: &Fake) -> Result<Report, WorkerError> {
    run_with(config(1), Arc::new(fake.clone()), CancellationToken::new()).await
}

/// What a worker says that hears these lies, and why its tasks failed.
async fn told(lies: Lies) -> (String, Vec<String>) {
    let fake = Fake::new(until_enough);
    fake.state().lies = lies;
    let before = fake.state().storage.objects();
    let error = run(&fake).await.expect_err("it is lied to");
    let state = fake.state();
    assert_eq!(state.storage.objects(), before, "nothing is written");
    (error.to_string(), state.returned.clone())
}

#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_is_not_joined() {
    let cases: [(LieAboutJob, &str); 8] = [
        (|job| job.range_bits = 0, "0 range bits are not possible"),
        (|job| job.range_bits = 11, "11 range bits are not possible"),
        (|job| job.range_bits = 33, "33 range bits are not possible"),
        (|job| job.bits = 65, "a table of 65 bits is not possible"),
        (|job| job.bits = u32::MAX, "is not possible"),
        (|job| job.bits = 64, "MiB of memory are too few"),
        (|job| job.lease_ms = 0, "its leases last 0 ms"),
        (|job| job.lease_ms = u64::MAX, "its leases last"),
    ];
    for (join, what) in cases {
        let lies = Lies {
            join,
            ..Lies::default()
        };
        let (error, returned) = told(lies).await;
        assert!(error.contains(what), "{what}: {error}");
        assert!(returned.is_empty(), "{what}: {returned:?}");
    }
}

/// The store is that of one table, and the job is said to be of another.
#[tokio::test(start_paused = true)]
async fn nothing_is_done_for_a_table_that_is_another() {
    let lies = Lies {
        join: |job| job.table += 1,
        ..Lies::default()
    };
    let (error, returned) = told(lies).await;
    assert!(error.ends_with(ENOUGH), "{error}");
    for reason in returned {
        assert!(reason.contains("not that of the job"), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_that_cannot_be_end_the_worker() {
    let cases: [(LieAboutTask, &str); 5] = [
        (|task| task.work = None, "a task without content"),
        (
            |task| {
                if let Some(Work::Evaluate(evaluate)) = &mut task.work {
                    evaluate.heads.push(1 << 40);
                }
            },
            "ranges to evaluate that are not those of a layer",
        ),
        (
            |task| {
                let head = 1 << 4;
                let (shard, skip) = (0, 0);
                task.work = Some(Work::Merge(v1::Merge { shard, head, skip }));
            },
            "a shard that begins beyond the table",
        ),
        (
            |task| {
                let bytes = 1 << 40;
                let (name, sha256) = ("shard-0000.zst".to_owned(), vec![0; 32]);
                let file = Some(v1::File {
                    name,
                    bytes,
                    sha256,
                });
                task.work = Some(Work::ReadBack(v1::ReadBack { file }));
            },
            "a file to read with 1099511627776 bytes",
        ),
        // More than any answer may have.
        (
            |task| {
                if let Some(Work::Evaluate(evaluate)) = &mut task.work {
                    evaluate.heads = vec![u64::MAX; 1 << 20];
                }
            },
            "message length too large",
        ),
    ];
    for (task, what) in cases {
        let lies = Lies {
            task,
            ..Lies::default()
        };
        let (error, returned) = told(lies).await;
        assert!(error.contains(what), "{what}: {error}");
        assert!(returned.is_empty(), "{what}: {returned:?}");
    }
}

/// What is only found out when the task is done fails it, and reaches nothing else.
#[tokio::test(start_paused = true)]
async fn tasks_that_make_no_sense_fail() {
    let cases: [(LieAboutTask, &str); 3] = [
        // Another file than one of the table.
        (
            |task| {
                let name = "../secrets.json".to_owned();
                let (bytes, sha256) = (9, vec![0; 32]);
                let file = Some(v1::File {
                    name,
                    bytes,
                    sha256,
                });
                task.work = Some(Work::ReadBack(v1::ReadBack { file }));
            },
            "secrets.json",
        ),
        // Nothing is merged before all is done.
        (
            |task| {
                let (shard, head, skip) = (0, 0, 0);
                task.work = Some(Work::Merge(v1::Merge { shard, head, skip }));
            },
            "is not done",
        ),
        // A source that is not done.
        (
            |task| {
                let head = chomp_table::Head(3);
                let (layer, heads) = (head.layer(), vec![head.0]);
                task.work = Some(Work::Evaluate(v1::Evaluate { layer, heads }));
            },
            "is not done",
        ),
    ];
    for (task, what) in cases {
        let lies = Lies {
            task,
            ..Lies::default()
        };
        let (error, returned) = told(lies).await;
        assert!(error.ends_with(ENOUGH), "{what}: {error}");
        for reason in returned {
            assert!(reason.contains(what), "{what}: {reason}");
        }
    }
}

/// A journal that is never there holds a task up for a while, and no more.
#[tokio::test(start_paused = true)]
async fn a_journal_that_is_not_there_is_not_waited_for_for_ever() {
    let lies = Lies {
        task: |task| task.journal = u64::MAX,
        ..Lies::default()
    };
    let (error, returned) = told(lies).await;
    assert!(error.ends_with(ENOUGH), "{error}");
    // Those that were held up when it ended are given back without a reason.
    let failed = returned.iter().filter(|reason| !reason.is_empty());
    assert!(failed.clone().count() >= FAILURES, "{returned:?}");
    assert!(
        failed
            .into_iter()
            .all(|reason| reason.contains("work/journal/"))
    );
}
