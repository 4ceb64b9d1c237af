//! Measures what it costs, and how long it takes, to bring a result to the disk. It runs a small job in a directory of
//! its own, and writes and reads some objects.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use chomp_coordinator::job::JobOutcome;
use chomp_kernel::{Evaluator, Isa};
use chomp_plan::forecast::{Costs, as_f64};
use chomp_store::objects::{Key, LocalStorage, Storage, TableLock};
use tokio_util::sync::CancellationToken;

use crate::local::{self, Resources};
use crate::machine;

/// The bits and range bits of the job. Its many small ranges show what a range costs besides its positions.
const BITS: u32 = 23;
const RANGE_BITS: u32 = 13;
/// The memory of the job, which is more than it needs.
const MEMORY_BYTES: u64 = 256 << 20;
/// How many objects are written and read. The median time counts.
const OBJECTS: u64 = 9;
/// The bytes of each object: about those of a part.
const OBJECT_BYTES: usize = 64 << 10;
/// The coordinator's part of the cost of a range; the rest is the worker's. It was measured with separate processes.
const COORDINATOR_SHARE: f64 = 0.25;
/// About how many ranges a task of the job has.
const TASK_RANGES: f64 = 4.0;

/// Adds to `costs` what trials in a new directory below `parent` take.
pub(crate) async fn complete(
    costs: &mut Costs,
    threads: NonZeroUsize,
    isa: Isa,
    parent: &Path,
) -> anyhow::Result<()> {
    // Others may write there too: nobody knows its name before.
    let scratch = tempfile::Builder::new()
        .prefix("chomp-plan-")
        .tempdir_in(parent);
    let scratch = scratch.with_context(|| format!("in {}", parent.display()))?;
    let resources = Resources {
        threads,
        memory_bytes: MEMORY_BYTES
            + threads.get() as u64 * Evaluator::memory(machine::range_bits_of(RANGE_BITS)),
        isa,
    };
    let lock = TableLock::acquire(scratch.path())?;
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(lock)?);
    let in_scratch = || format!("for a trial in {}", scratch.path().display());
    latencies(costs, &*storage).await.with_context(in_scratch)?;
    job(costs, storage, resources)
        .await
        .with_context(in_scratch)?;
    if let Err(error) = scratch.close() {
        tracing::warn!("the directory of a trial was not removed: {error}");
    }
    Ok(())
}

/// Measures how long it takes to write an object and to read one, and the CPU time of reading.
async fn latencies(costs: &mut Costs, storage: &dyn Storage) -> anyhow::Result<()> {
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    let mut reading = Duration::ZERO;
    for number in 0..OBJECTS {
        let key = Key::new(&format!("work/trial/{number}"))?;
        let bytes = Bytes::from(vec![number.to_le_bytes()[0]; OBJECT_BYTES]);
        writes.push(seconds(storage.create(&key, bytes)).await?);
        let before = machine::cpu_time();
        reads.push(seconds(storage.read(&key)).await?);
        reading += machine::cpu_time().saturating_sub(before);
    }
    costs.read = reading.as_secs_f64() / as_f64(OBJECTS);
    costs.commit = middle(writes);
    costs.fetch = middle(reads);
    Ok(())
}

/// How long something takes.
async fn seconds<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<f64, E> {
    #[expect(clippy::disallowed_methods, reason = "a trial is about time")]
    let start = Instant::now();
    work.await?;
    Ok(start.elapsed().as_secs_f64())
}

fn middle(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Measures what a range costs besides its positions.
async fn job(
    costs: &mut Costs,
    storage: Arc<dyn Storage>,
    resources: Resources,
) -> anyhow::Result<()> {
    let range_bits = machine::range_bits_of(RANGE_BITS);
    let (coordinator, config) =
        local::start(storage, BITS, range_bits, false, resources, None).await?;
    let before = machine::cpu_time();
    let report = chomp_worker::run(config, CancellationToken::new()).await;
    let cpu = machine::cpu_time().saturating_sub(before);
    let outcome = coordinator.stop().await;
    let JobOutcome::Finished(published) = outcome else {
        anyhow::bail!("the job did not come to its end: {outcome:?}");
    };
    let report = report?;

    let losing = as_f64(published.losing_by_bits[BITS as usize]);
    let coding = losing * (costs.encode + costs.decode + costs.shard);
    let rest = cpu.saturating_sub(report.evaluation).as_secs_f64() - coding;
    let range = rest.max(0.0) / as_f64(report.ranges);
    costs.range = range * (1.0 - COORDINATOR_SHARE);
    // Each task counts as much as one of its ranges, of which it has a few here.
    costs.control = range * COORDINATOR_SHARE * (1.0 - 1.0 / TASK_RANGES);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_trial_ends_and_leaves_nothing_behind() {
        let parent = tempfile::tempdir().unwrap();
        let mut costs = Costs::default();
        complete(&mut costs, NonZeroUsize::MIN, Isa::detect(), parent.path())
            .await
            .unwrap();
        for cost in [costs.range, costs.control, costs.commit, costs.fetch] {
            assert!(cost > 0.0, "{costs:?}");
        }
        let left = std::fs::read_dir(parent.path()).unwrap().count();
        assert_eq!(left, 0);
    }
}
