//! Two small jobs, run for real in a directory of their own, to see what ranges and losing positions
//! cost besides evaluation and coding, and how long a lane waits for its next task.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use chomp_coordinator::forecast::Costs;
use chomp_coordinator::job::Outcome;
use chomp_coordinator::storage::{LocalStorage, TableLock};
use chomp_kernel::{Evaluator, Isa};
use chomp_table::{RangeBits, head};
use tokio_util::sync::CancellationToken;

use crate::local::{self, Means};
use crate::machine;

/// The jobs, by bits and range bits: one in which ranges count, and one in which positions do.
const JOBS: [(u32, u32); 2] = [(23, 13), (28, 23)];
/// Enough for all of it.
const MEMORY_BYTES: u64 = 256 << 20;

/// A directory that goes when this does.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!("{} was not removed: {error}", self.0.display());
        }
    }
}

/// What a job took besides evaluation and coding.
struct Rest {
    ranges: f64,
    losing: f64,
    cpu_seconds: f64,
    /// The wall time in which no CPU was used, for each layer.
    waits: f64,
}

/// Completes `costs` by what trials in a new directory below `parent` take.
pub(crate) async fn complete(
    costs: &mut Costs,
    threads: NonZeroUsize,
    isa: Isa,
    parent: &Path,
) -> anyhow::Result<()> {
    let name = format!("chomp-plan-{}", std::process::id());
    let scratch = Scratch(parent.join(name));
    let means = Means {
        threads,
        memory_bytes: MEMORY_BYTES
            + threads.get() as u64 * Evaluator::memory(range_bits(JOBS[1].1)),
        isa,
    };
    let mut rests = Vec::new();
    for (bits, b) in JOBS {
        let directory = scratch.0.join(bits.to_string());
        let rest = run(costs, bits, range_bits(b), means, &directory).await;
        rests.push(rest.with_context(|| format!("for a trial in {}", directory.display()))?);
    }
    let [many, full] = &rests[..] else {
        unreachable!("there are two jobs");
    };
    (costs.range, costs.handling) = solve(many, full);
    costs.round_trip = many.waits;
    Ok(())
}

/// What a range and what a losing position costs, neither negative, if two jobs took so long.
fn solve(many: &Rest, full: &Rest) -> (f64, f64) {
    let determinant = many.ranges * full.losing - full.ranges * many.losing;
    let losing = many.ranges * full.cpu_seconds - full.ranges * many.cpu_seconds;
    let losing = (losing / determinant).clamp(0.0, full.cpu_seconds.max(0.0) / full.losing);
    let range = (many.cpu_seconds - many.losing * losing) / many.ranges;
    (range.max(0.0), losing)
}

async fn run(
    costs: &Costs,
    bits: u32,
    range_bits: RangeBits,
    means: Means,
    directory: &Path,
) -> anyhow::Result<Rest> {
    let lock = TableLock::acquire(directory)?;
    let storage = Arc::new(LocalStorage::open(lock)?);
    let (coordinator, config) = local::start(storage, bits, range_bits, None, means, None).await?;

    #[expect(clippy::disallowed_methods, reason = "a trial is about time")]
    let start = Instant::now();
    let before = machine::cpu_time();
    let report = chomp_worker::run(config, CancellationToken::new()).await;
    let wall = start.elapsed();
    let cpu = machine::cpu_time().saturating_sub(before);
    let outcome = coordinator.stop().await;
    let Outcome::Finished(manifest) = outcome else {
        anyhow::bail!("the job did not come to its end: {outcome:?}");
    };
    let report = report?;

    let losing = number(manifest.losing_by_bits[bits as usize]);
    let coding = losing * (costs.encode + 2.0 * costs.decode + costs.shard);
    let waits = wall.saturating_sub(cpu).as_secs_f64();
    Ok(Rest {
        ranges: number(report.ranges),
        losing,
        cpu_seconds: cpu.saturating_sub(report.evaluation).as_secs_f64() - coding,
        waits: waits / number(head::layer_count(bits, range_bits) as u64),
    })
}

fn range_bits(bits: u32) -> RangeBits {
    RangeBits::new(bits).expect("within the limits")
}

#[expect(clippy::cast_precision_loss, reason = "a forecast need not be exact")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costs_of_two_jobs_are_told_apart() {
        let rest = |ranges, losing, cpu_seconds| Rest {
            ranges,
            losing,
            cpu_seconds,
            waits: 0.0,
        };
        let near = |(a, b): (f64, f64), (c, d): (f64, f64)| {
            assert!((a - c).abs() < 1e-9 && (b - d).abs() < 1e-9, "{a} {b}");
        };
        near(
            solve(&rest(100.0, 10.0, 230.0), &rest(2.0, 50.0, 154.0)),
            (2.0, 3.0),
        );
        near(
            solve(&rest(100.0, 10.0, 200.0), &rest(2.0, 50.0, 0.0)),
            (2.0, 0.0),
        );
        near(
            solve(&rest(100.0, 10.0, -1.0), &rest(2.0, 50.0, -1.0)),
            (0.0, 0.0),
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_trial_ends_and_leaves_nothing_behind() {
        let parent = std::env::temp_dir().join(format!("chomp-trial-test-{}", std::process::id()));
        let mut costs = Costs::default();
        complete(&mut costs, NonZeroUsize::MIN, Isa::detect(), &parent)
            .await
            .unwrap();
        assert!(costs.range > 0.0 && costs.round_trip >= 0.0, "{costs:?}");
        let left = std::fs::read_dir(&parent).unwrap().count();
        std::fs::remove_dir_all(&parent).unwrap();
        assert_eq!(left, 0);
    }
}
