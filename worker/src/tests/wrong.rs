//! A coordinator that is wrong, or means ill: the worker ends with an error that says so, or fails the task, and touches
//! nothing that it should not.

use std::sync::Arc;

use chomp_proto::v1;
use chomp_proto::v1::task::Work;
use chomp_store::{Entry, Finders, Storage, published};
use chomp_table::manifest::folder_name;
use chomp_table::shard::{ShardInfo, ShardSize, ShardWriter, decode_shard};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::fake::{Act, BITS, Fake, SHARD, State, config, now};
use super::lies::{LieAboutJob, LieAboutTask, Lies};
use crate::{End, Report, WorkerError, run_with};

/// The number of failed tasks that ends a test.
const FAILURES: usize = 3;
/// The reason that ends a worker that goes on otherwise.
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

/// The error of a worker that hears these lies, and why its tasks failed.
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
                task.work = Some(Work::Merge(v1::Merge {
                    head: 1 << 4,
                    ..v1::Merge::default()
                }));
            },
            "a shard that begins beyond the table",
        ),
        (
            |task| {
                let written = Some(v1::Written::default());
                task.work = Some(Work::Merge(v1::Merge {
                    written,
                    ..v1::Merge::default()
                }));
            },
            "a shard to read, and says",
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

/// A mistake that is only found when the task is done fails the task, and nothing else.
#[tokio::test(start_paused = true)]
async fn tasks_that_make_no_sense_fail() {
    let cases: [(LieAboutTask, &str); 2] = [
        // Nothing is merged before all is done.
        (
            |task| task.work = Some(Work::Merge(v1::Merge::default())),
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

/// Puts another file in the place of the one of a shard, says so, and says of the words what was said.
fn replace(state: &State, number: u32, frame_words: usize, change: fn(&mut [u64])) {
    let mut merged = state.journal.ledger().shard(BITS, number).unwrap().clone();
    let info = merged.shard.as_mut().unwrap();
    let key = published::key(&folder_name(BITS), &info.name).unwrap();
    let mut words = decode_shard(&now(state.storage.read(&key)).unwrap(), info).unwrap();
    change(&mut words);
    let size = ShardSize {
        frame_words,
        ..SHARD
    };
    let mut writer = ShardWriter::new(number as usize, size);
    writer.push(&words);
    let (other, bytes) = writer.finish();
    *info = ShardInfo {
        words_sha256: info.words_sha256,
        ..other
    };
    state.storage.overwrite(&key, bytes);
    let entry = Entry::Shard {
        bits: BITS,
        finders: Finders::default(),
        merged,
    };
    now(state.journal.append(vec![entry])).unwrap();
}

/// A coordinator whose shard number 3 is replaced as soon as all are written. Workers read it as that of another
/// participant.
fn replacing(frame_words: usize, change: fn(&mut [u64])) -> Fake {
    let mut is_replaced = false;
    Fake::new(move |call, state| {
        if state.are_shards_done() && !std::mem::replace(&mut is_replaced, true) {
            replace(state, 3, frame_words, change);
        }
        until_enough(call, state)
    })
}

#[tokio::test(start_paused = true)]
async fn a_shard_with_other_words_is_told_and_not_handed_in() {
    for frame_words in [SHARD.frame_words, SHARD.frame_words / 2] {
        let fake = replacing(frame_words, |words| {
            let gap = words.windows(2).position(|pair| pair[1] - pair[0] > 2);
            words[gap.unwrap()] += 2;
        });
        let error = run(&fake).await.expect_err("it is lied to").to_string();
        assert!(error.ends_with(ENOUGH), "{error}");
        let state = fake.state();
        assert!(!state.read.contains(&3));
        let told = state.returned.iter().filter(|reason| !reason.is_empty());
        for reason in told.clone() {
            assert!(reason.contains("has other words"), "{reason}");
        }
        assert!(told.count() > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_may_be_packed_otherwise() {
    let fake = replacing(SHARD.frame_words / 2, |_| {});
    assert_eq!(run(&fake).await.unwrap().end, End::Finished);
    let state = fake.state();
    assert!(state.read.contains(&3) && state.returned.is_empty());
}
