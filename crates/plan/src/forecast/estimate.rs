//! The time that a job takes, from what a short trial has measured.
//!
//! Two things take time that no other can make up for: the CPU time on the threads there are, and the critical path, as
//! each layer waits for a range of the layer before. No job is faster than the longer of them. A thread idles only while
//! the others finish a layer, so a job takes no longer than both together (Graham, *Bounds for certain multiprocessing
//! anomalies*, 1966), as far as the costs are right and links are fast enough.

use chomp_table::{RangeBits, head};

use super::{JobWork, as_f64, losing_total};
use crate::Settings;

/// The work of restoring a losing position from a shard of a smaller table.
const RESTORING: f64 = 17.0;

/// The costs that trial jobs have measured, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The CPU time of a unit of [work](JobWork).
    pub work: f64,
    /// The CPU time of a range, besides its work.
    pub range: f64,
    /// How long a new object of the store takes to become durable.
    pub commit: f64,
}

/// The estimate of a job, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The CPU time of all processes.
    pub cpu: f64,
    /// The layers of the critical path.
    pub layers: u64,
    /// The time of one thread for an average range.
    pub evaluation: f64,
    /// The time until its part is durable, and then the segment of the journal that names it.
    pub commit: f64,
}

impl Estimate {
    /// The estimate of a job for the table of `bits` bits by so many workers. The ranges of the table of `from` bits
    /// are restored.
    pub fn new(
        bits: u32,
        range_bits: RangeBits,
        from: Option<u32>,
        workers: u32,
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
        let ranges = as_f64(ranges.max(1));
        let units = as_f64(units);
        // Some ranges are computed by two workers.
        let drawn = f64::from(Settings::new(bits, range_bits).draw_own_one_in);
        let votes = if workers > 1 { 1.0 + 1.0 / drawn } else { 1.0 };
        let others = as_f64(work.publication) + from.map_or(0.0, losing_total) * RESTORING;
        Estimate {
            cpu: votes * (units * costs.work + ranges * costs.range) + others * costs.work,
            layers: layers.len() as u64,
            evaluation: units * costs.work / ranges,
            commit: 2.0 * costs.commit,
        }
    }

    /// The time that no number of threads shortens.
    pub fn critical_path(&self) -> f64 {
        as_f64(self.layers) * (self.evaluation + self.commit)
    }

    /// The least and the most time that the job takes with so many threads.
    pub fn wall(&self, threads: u64) -> [f64; 2] {
        let (on_threads, path) = (self.cpu / as_f64(threads), self.critical_path());
        [on_threads.max(path), on_threads + path]
    }

    /// With more threads than these the critical path takes longer than they do.
    pub fn threads_that_help(&self) -> f64 {
        (self.cpu / self.critical_path()).max(1.0)
    }
}
