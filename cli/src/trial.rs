//! Measures the costs of a job here: it runs two short jobs in a directory of their own, and writes some objects there.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use bytes::Bytes;
use chomp_coordinator::job::JobOutcome;
use chomp_kernel::{Evaluator, Isa};
use chomp_plan::forecast::{JobCost, MachineCosts, as_f64};
use chomp_store::objects::{Key, LocalStorage, Storage, TableLock};
use chomp_table::format::describe;
use chomp_table::head;
use tokio_util::sync::CancellationToken;

use crate::local::{self, Resources};
use crate::machine;

/// The bits and range bits of the jobs. The first evaluates long enough to be measured, in ranges of the usual size.
/// The many small ranges of the second show what a range costs besides its positions.
const JOBS: [(u32, u32); 2] = [(30, 24), (23, 13)];
/// The memory of each job, which is more than it needs.
const MEMORY_BYTES: u64 = 256 << 20;
/// How many objects are written. The median time counts.
const OBJECTS: u64 = 9;
/// The bytes of each object: about those of a part.
const OBJECT_BYTES: usize = 64 << 10;

/// The costs on a server of 2024 with AVX-512 and its disk.
const USUAL: MachineCosts = MachineCosts {
    work: 2e-9,
    range: 4e-4,
    commit: 0.003,
};

/// The work, the ranges and the CPU time of a job that has been run.
#[derive(Clone, Copy, Debug)]
struct Trial {
    work: f64,
    ranges: f64,
    cpu: f64,
}

/// Measures in the temporary folder or, if that fails, in `/dev/shm`, which Linux keeps in memory. If both fail, the
/// costs are [`USUAL`].
pub(crate) async fn measure(threads: NonZeroUsize) -> MachineCosts {
    for parent in [&*std::env::temp_dir(), Path::new("/dev/shm")] {
        match measure_in(threads, parent).await {
            Ok(costs) => return costs,
            Err(error) => {
                let (folder, error) = (parent.display(), describe(&*error));
                tracing::warn!("cannot measure what a job costs in {folder}: {error}");
            }
        }
    }
    tracing::warn!(
        "the times are those of another machine: set TMPDIR to a folder that can be written"
    );
    USUAL
}

async fn measure_in(threads: NonZeroUsize, parent: &Path) -> anyhow::Result<MachineCosts> {
    let mut trials = Vec::new();
    let mut commit = 0.0;
    for (bits, range_bits) in JOBS {
        // The folder may be writable for others, so the name is random.
        let scratch = tempfile::Builder::new()
            .prefix("chomp-plan-")
            .tempdir_in(parent);
        let scratch = scratch.with_context(|| format!("in {}", parent.display()))?;
        let in_scratch = || format!("for a trial in {}", scratch.path().display());
        let lock = TableLock::acquire(scratch.path())?;
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(lock)?);
        commit = commit_time(&*storage).await.with_context(in_scratch)?;
        let trial = run(storage, bits, range_bits, threads).await;
        trials.push(trial.with_context(in_scratch)?);
    }
    let (work, range) = costs(trials[0], trials[1]);
    Ok(MachineCosts {
        work,
        range,
        commit,
    })
}

/// The CPU time of a unit of work and that of a range, which together explain the CPU times of both trials. Neither is
/// negative.
fn costs(large: Trial, small: Trial) -> (f64, f64) {
    let both = large.work * small.ranges - small.work * large.ranges;
    let work = (large.cpu * small.ranges - small.cpu * large.ranges) / both;
    let work = work.clamp(0.0, large.cpu / large.work);
    let range = (small.cpu - work * small.work) / small.ranges;
    (work, range.max(0.0))
}

/// The median time to create an object, in seconds.
async fn commit_time(storage: &dyn Storage) -> anyhow::Result<f64> {
    let mut seconds = Vec::new();
    for number in 0..OBJECTS {
        let key = Key::new(&format!("work/trial/{number}"))?;
        let bytes = Bytes::from(vec![number.to_le_bytes()[0]; OBJECT_BYTES]);
        #[expect(clippy::disallowed_methods, reason = "a trial is about time")]
        let start = Instant::now();
        storage.create(&key, bytes).await?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

async fn run(
    storage: Arc<dyn Storage>,
    bits: u32,
    range_bits: u32,
    threads: NonZeroUsize,
) -> anyhow::Result<Trial> {
    let range_bits = machine::range_bits_of(range_bits);
    let resources = Resources {
        threads,
        memory_bytes: MEMORY_BYTES + threads.get() as u64 * Evaluator::memory(range_bits),
        isa: Isa::detect(),
    };
    let (coordinator, config) =
        local::start(storage, bits, range_bits, false, resources, None).await?;
    let before = machine::cpu_time();
    let report = local::work(&coordinator, config, CancellationToken::new()).await;
    let cpu = machine::cpu_time().saturating_sub(before);
    let outcome = coordinator.stop().await;
    let JobOutcome::Finished(_) = outcome else {
        anyhow::bail!("the job did not come to its end: {outcome:?}");
    };
    let work = JobCost::new(bits, range_bits);
    Ok(Trial {
        work: as_f64(work.total(&head::layers(bits, range_bits))),
        ranges: as_f64(report?.ranges),
        cpu: cpu.as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_trial_ends_and_leaves_nothing_behind() {
        let parent = tempfile::tempdir().unwrap();
        let costs = measure_in(NonZeroUsize::MIN, parent.path()).await.unwrap();
        assert!(costs.work > 0.0 && costs.commit > 0.0, "{costs:?}");
        let left = std::fs::read_dir(parent.path()).unwrap().count();
        assert_eq!(left, 0);
    }

    #[test]
    fn costs_explain_both_trials() {
        let trial = |work: f64, ranges: f64, cpu: f64| Trial { work, ranges, cpu };
        let near = |(a, b): (f64, f64), (c, d): (f64, f64)| {
            assert!((a - c).abs() < 1e-9 && (b - d).abs() < 1e-9, "{a} {b}");
        };
        near(
            costs(trial(100.0, 4.0, 208.0), trial(10.0, 40.0, 100.0)),
            (2.0, 2.0),
        );
        // Where ranges seem to cost less than nothing, all is work, and the other way round.
        near(
            costs(trial(100.0, 4.0, 200.0), trial(10.0, 40.0, 1.0)),
            (2.0, 0.0),
        );
        near(
            costs(trial(100.0, 4.0, 1.0), trial(10.0, 40.0, 100.0)),
            (0.0, 2.5),
        );
    }
}
