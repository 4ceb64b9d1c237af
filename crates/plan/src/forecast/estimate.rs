//! The time that a job takes, from what a short trial has measured.
//!
//! Three things take time that no other can make up for: the CPU time on the threads there are, the coordinator's work,
//! and the critical path, as each layer waits for a range of the layer before. No job is faster than the longest of
//! them. A thread idles only while the others finish a layer, so a job takes no longer than all three together (Graham,
//! *Bounds for certain multiprocessing anomalies*, 1966), as far as the costs are right and links are fast enough.

use chomp_table::{RangeBits, head};

use super::{JobWork, as_f64, losing_total};
use crate::Settings;

/// The part of the cost of a range that is the coordinator's. It was measured with separate processes.
const COORDINATOR_SHARE: f64 = 0.25;
/// The work of restoring a losing position from a shard of a smaller table.
const RESTORING: f64 = 17.0;

/// What a trial job has measured, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The CPU time of a unit of [work](JobWork).
    pub work: f64,
    /// The CPU time of a range, besides its work.
    pub range: f64,
    /// How long a new object of the store takes to become durable.
    pub commit: f64,
}

/// Who works on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The workers; none if the job runs in one process, which shares its threads with the coordinator.
    pub workers: Option<u32>,
    /// The threads of each worker, at least one.
    pub threads: u32,
    /// The threads of the coordinator's machine, at least one.
    pub coordinator_threads: u32,
}

/// The estimate of a job. All times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The CPU time of all processes.
    pub cpu: f64,
    /// The CPU time of workers, divided by their threads.
    pub on_threads: f64,
    /// The time of the coordinator on its machine; 0 if it shares the threads of the worker.
    pub coordinator: f64,
    /// The number of layers.
    pub layers: u64,
    /// The time of one thread for an average range.
    pub evaluation: f64,
    /// The time until its part is durable, and then the segment of the journal that names it.
    pub commit: f64,
    threads: f64,
}

impl Estimate {
    /// The estimate of a job for the table of `bits` bits. The ranges of the table of `from` bits are restored.
    pub fn new(
        bits: u32,
        range_bits: RangeBits,
        from: Option<u32>,
        cluster: Cluster,
        costs: Costs,
    ) -> Estimate {
        let work = JobWork::new(bits, range_bits);
        let layers = head::layers(bits, range_bits);
        let restored = from.map_or(0, |from| range_bits.heads(from));
        let (mut ranges, mut units) = (0, 0);
        for (heads, each) in layers.iter().zip(&work.ranges) {
            let new = heads.len() - heads.partition_point(|head| head.0 < restored);
            ranges += new as u64;
            units += new as u64 * each;
        }
        let votes = match cluster.workers {
            None | Some(1) => 1.0,
            // Some ranges are computed by two workers.
            Some(_) => 1.0 + 1.0 / f64::from(Settings::new(bits, range_bits).draw_own_one_in),
        };
        let of_ranges = votes * as_f64(ranges) * costs.range;
        let evaluation = as_f64(units) * costs.work;
        let publication = as_f64(work.publication) * costs.work;
        let restoring = from.map_or(0.0, losing_total) * RESTORING * costs.work;
        let of_coordinator = COORDINATOR_SHARE * of_ranges + restoring;
        let of_workers = votes * evaluation + publication + (1.0 - COORDINATOR_SHARE) * of_ranges;
        let cpu = of_workers + of_coordinator;
        let machine = f64::from(cluster.coordinator_threads);
        let threads = f64::from(cluster.threads);
        let (threads, on_threads, coordinator) = match cluster.workers {
            None => (threads.min(machine), cpu, 0.0),
            Some(workers) => (threads * f64::from(workers), of_workers, of_coordinator),
        };
        Estimate {
            cpu,
            on_threads: on_threads / threads,
            coordinator: coordinator / machine,
            layers: layers.len() as u64,
            evaluation: evaluation / as_f64(ranges.max(1)),
            commit: 2.0 * costs.commit,
            threads,
        }
    }

    /// The time that no number of threads shortens.
    pub fn critical_path(&self) -> f64 {
        as_f64(self.layers) * (self.evaluation + self.commit)
    }

    /// The least time that the job takes.
    pub fn least(&self) -> f64 {
        let fixed = self.critical_path().max(self.coordinator);
        fixed.max(self.on_threads)
    }

    /// The most time that the job takes.
    pub fn most(&self) -> f64 {
        self.on_threads + self.critical_path() + self.coordinator
    }

    /// With more threads than these the critical path or the coordinator takes longer than they do.
    pub fn threads_that_help(&self) -> f64 {
        let fixed = self.critical_path().max(self.coordinator);
        (self.on_threads * self.threads / fixed).max(1.0)
    }
}
