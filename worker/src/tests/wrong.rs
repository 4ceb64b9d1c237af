//! A coordinator that is wrong, or means ill: the worker ends with an error that says so, or fails the task, and
//! touches nothing that it should not.

use chomp_proto::v1;
use chomp_proto::v1::task::Work;
use chomp_store::{Entry, Finders, ShardSummary, Storage, published};
use chomp_table::Head;
use chomp_table::fingerprint::Leaf;
use chomp_table::manifest::folder_name;
use chomp_table::shard::{ShardInfo, ShardSize, ShardWriter, decode_shard};
use std::collections::BTreeSet;
use tonic::Status;

use super::fake::{Act, BITS, Fake, Lie, SHARD, State, config, now};
use crate::End;

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

/// The error of a worker that is told this lie, and why its tasks failed.
async fn told(lie: Lie) -> (String, Vec<String>) {
    let fake = Fake::new(until_enough);
    fake.state().lie = Some(lie);
    let before = fake.state().storage.objects();
    let error = fake.run(config(1)).await.expect_err("it is lied to");
    let state = fake.state();
    assert_eq!(state.storage.objects(), before, "nothing is written");
    (error.to_string(), state.returned.clone())
}

/// Leases the evaluation of these ranges.
fn evaluate(task: &mut v1::Task, layer: u32, heads: Vec<u64>) {
    task.work = Some(Work::Evaluate(v1::Evaluate {
        layer,
        heads,
        is_check: false,
    }));
}

/// Leases the shard number 0 that begins with this range, and was written if the result of the writer is given.
fn merge(task: &mut v1::Task, head: u64, written: Option<Vec<u8>>) {
    task.work = Some(Work::Merge(v1::Merge {
        head,
        written: written.map(|json| v1::Written { json }),
        ..v1::Merge::default()
    }));
}

/// The result for the shard number 1.
fn another_shard() -> Vec<u8> {
    let merged = ShardSummary {
        number: 1,
        shard: None,
        leaf: Leaf::default(),
        sums: Vec::new(),
    };
    merged.to_json()
}

#[tokio::test(start_paused = true)]
async fn jobs_and_tasks_that_cannot_be_end_the_worker() {
    let cases = [
        (
            Lie::Job(|job| job.range_bits = 0),
            "0 range bits are not possible",
        ),
        (
            Lie::Job(|job| job.range_bits = 11),
            "11 range bits are not possible",
        ),
        (
            Lie::Job(|job| job.range_bits = 33),
            "33 range bits are not possible",
        ),
        (
            Lie::Job(|job| job.bits = 65),
            "a table of 65 bits is not possible",
        ),
        (Lie::Job(|job| job.bits = u32::MAX), "is not possible"),
        (Lie::Job(|job| job.bits = 64), "MiB of memory are too few"),
        (Lie::Job(|job| job.lease_ms = 0), "its leases last 0 ms"),
        (Lie::Job(|job| job.lease_ms = u64::MAX), "its leases last"),
        (Lie::Task(|task| task.work = None), "a task without content"),
        (
            Lie::Task(|task| evaluate(task, 0, vec![0, 1 << 40])),
            "ranges to evaluate that are not those of a layer",
        ),
        (
            Lie::Task(|task| merge(task, 1 << 4, None)),
            "a shard that begins beyond the table",
        ),
        (
            Lie::Task(|task| merge(task, 0, Some(Vec::new()))),
            "a shard to read, and says",
        ),
        (
            Lie::Task(|task| merge(task, 0, Some(another_shard()))),
            "a shard to read, and speaks of another one",
        ),
        // More than any answer may have.
        (
            Lie::Task(|task| evaluate(task, 0, vec![u64::MAX; 1 << 20])),
            "message length too large",
        ),
    ];
    for (lie, what) in cases {
        let (error, returned) = told(lie).await;
        assert!(error.contains(what), "{what}: {error}");
        assert!(returned.is_empty(), "{what}: {returned:?}");
    }
}

/// A mistake that is only found when the task is done fails the task, and nothing else.
#[tokio::test(start_paused = true)]
async fn tasks_that_make_no_sense_fail() {
    for (lie, what) in [
        // The store is that of one table, and the job is said to be of another.
        (Lie::Job(|job| job.table += 1), "not that of the job"),
        // Nothing is merged before all is done.
        (Lie::Task(|task| merge(task, 0, None)), "is not done"),
        // A source that is not done.
        (
            Lie::Task(|task| evaluate(task, Head(3).layer(), vec![3])),
            "is not done",
        ),
        // A journal that is never there holds a task up for a while, and no more.
        (Lie::Task(|task| task.journal = u64::MAX), "work/journal/"),
    ] {
        let (error, returned) = told(lie).await;
        assert!(error.ends_with(ENOUGH), "{what}: {error}");
        // Tasks that were held up when it ended are given back without a reason.
        let mut failed = returned.iter().filter(|reason| !reason.is_empty());
        assert!(failed.clone().count() >= FAILURES, "{returned:?}");
        assert!(
            failed.all(|reason| reason.contains(what)),
            "{what}: {returned:?}"
        );
    }
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
    let (other, _, bytes) = writer.finish();
    *info = ShardInfo {
        words_sha256: info.words_sha256,
        ..other
    };
    state.storage.overwrite(&key, bytes);
    let entry = Entry::Shard {
        bits: BITS,
        finders: Finders::default(),
        summary: merged,
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
async fn a_shard_with_other_words_is_told() {
    for frame_words in [SHARD.frame_words, SHARD.frame_words / 2] {
        let fake = replacing(frame_words, |words| {
            let gap = words.windows(2).position(|pair| pair[1] - pair[0] > 2);
            words[gap.unwrap()] += 2;
        });
        assert_eq!(fake.run(config(1)).await.unwrap().end, End::Finished);
        let state = fake.state();
        assert_eq!(state.forged, BTreeSet::from([3]));
        assert!(state.returned.is_empty(), "{:?}", state.returned);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_may_be_packed_otherwise() {
    let fake = replacing(SHARD.frame_words / 2, |_| {});
    assert_eq!(fake.run(config(1)).await.unwrap().end, End::Finished);
    let state = fake.state();
    assert!(state.read.contains(&3) && state.forged.is_empty() && state.returned.is_empty());
}
