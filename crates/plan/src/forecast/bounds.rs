//! The bounds of a job: what it takes at least, and at most.
//!
//! Four things take time that no other can make up for: the CPU time on the threads there are, the [critical
//! path](CriticalPath), the coordinator's work, and the bytes on the links. No job is faster than the longest of them.
//! A thread idles only while the others finish a layer, so a job takes no longer than all four together (Graham,
//! *Bounds for certain multiprocessing anomalies*, 1966), as far as the costs are right.

use chomp_table::{Head, head, sources};

use super::{Costs, Forecast, HEADER_BYTES, as_f64, losing_total};
use crate::Settings;
use crate::slots::index;

/// The ratio of the times to restore and to encode a losing position: 17 ns and 2.5 ns, measured.
const RESTORED_PER_ENCODED: f64 = 7.0;
/// The CPU time for the SHA-256 of a byte of a shard that is read once more, on a CPU with instructions for it.
pub const HASH: f64 = 1e-9;

/// The ranges of a layer whose evaluation is estimated.
const SAMPLES: usize = 64;

/// Who works on a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// The workers.
    pub workers: u32,
    /// The threads of each, at least one.
    pub threads: u32,
    /// The bytes that each worker has for ranges.
    pub cache_bytes: u64,
    /// The threads of the coordinator's machine, at least one.
    pub coordinator_threads: u32,
    /// Whether the workers run on the coordinator's machine, and share its threads.
    pub shared: bool,
    /// The bytes a second that go from the store to each worker, and as many back; without one, they
    /// take no time.
    pub bandwidth: Option<f64>,
}

/// The critical path of a job: each layer waits for a range of the layer before, so a job takes at
/// least the number of layers times what a range takes from its sources to the journal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CriticalPath {
    /// The number of layers.
    pub layers: f64,
    /// The average seconds to evaluate a range and encode its record.
    pub evaluation: f64,
    /// The seconds until its part is durable, and then the segment of the journal that names it.
    pub commit: f64,
    /// The seconds until a source arrives.
    pub fetch: f64,
}

impl CriticalPath {
    /// The seconds of the whole path.
    pub fn seconds(&self) -> f64 {
        self.layers * (self.evaluation + self.commit + self.fetch)
    }
}

/// The CPU time and the bytes of a job, and what follows for its wall time. Seconds are CPU time unless it says
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostBounds {
    /// The tasks.
    pub tasks: u64,
    /// The bytes that workers read, at most.
    pub fetched: f64,
    /// The bytes of parts and shards that they write.
    pub put: f64,
    /// Evaluation, of what is found twice too.
    pub evaluation: f64,
    /// Reading, decoding and encoding records, at most.
    pub coding: f64,
    /// Writing shards, and reading them once more.
    pub shards: f64,
    /// The coordinator's work.
    pub coordinator: f64,
    /// Restoring ranges from the table that is extended.
    pub restoring: f64,
    /// The bytes that a worker needs to keep each range until the last range that draws on it is computed: the most
    /// at any layer. A cache has no use for more.
    pub useful_bytes: u64,
    /// The critical path.
    pub path: CriticalPath,
    cluster: Cluster,
}

impl CostBounds {
    /// The bounds of the job of this forecast on `cluster`. Ranges of the table of `from` bits are restored.
    pub fn new(
        forecast: &Forecast,
        costs: &Costs,
        cluster: Cluster,
        from: Option<u32>,
    ) -> CostBounds {
        let (bits, range_bits) = (forecast.bits(), forecast.range_bits());
        let settings = Settings::new(bits, range_bits);
        let all = forecast.ranges();
        let first = from.map_or(0, |from| range_bits.heads(from).min(all));
        let record = |head| forecast.losing(head) * costs.record_bytes + HEADER_BYTES;

        let threads = u64::from(cluster.workers) * u64::from(cluster.threads);
        let (mut evaluation, mut losing_before, mut bytes_before, mut of_ranges) =
            (0.0, 0.0, 0.0, 0);
        // The reads of workers that keep no source from one layer to the next, and have neighbours of each layer.
        let (mut reads, mut read_losing, mut read_bytes) = (0.0_f64, 0.0_f64, 0.0_f64);
        let mut read_for = vec![0_u32; index(Head(all))];
        let mut piece_layers = vec![0];
        let layers = head::layers(bits, range_bits);
        for heads in &layers {
            let new = heads.partition_point(|head| head.0 < first);
            let (restored, new) = heads.split_at(new);
            losing_before += restored
                .iter()
                .map(|&head| forecast.losing(head))
                .sum::<f64>();
            bytes_before += restored.iter().map(|&head| record(head)).sum::<f64>();
            evaluation += evaluation_of(new, forecast, costs);
            of_ranges += tasks(&settings, new.len() as u64, threads);
            for heads in new.chunks(new.len().div_ceil(cluster.workers as usize).max(1)) {
                let piece = u32::try_from(piece_layers.len()).expect("no more pieces than ranges");
                piece_layers.push(heads[0].layer());
                for &head in heads {
                    sources::each(head, range_bits, &mut |source| {
                        let read_for = &mut read_for[index(source)];
                        if std::mem::replace(read_for, piece) != piece {
                            reads += 1.0;
                            read_losing += forecast.losing(source);
                            read_bytes += record(source);
                        }
                    });
                }
            }
        }
        let last_use = read_for.iter().map(|&piece| piece_layers[piece as usize]);
        let useful_bytes = most_kept(forecast, layers.len(), last_use);
        let losing = losing_total(bits);
        let all_bytes = forecast.record_bytes(costs.record_bytes);
        let drawn = f64::from(settings.draw_own_one_in);
        let votes = if cluster.workers > 1 {
            1.0 + 1.0 / drawn
        } else {
            1.0
        };
        if cluster.cache_bytes >= useful_bytes {
            // Each worker reads a range once at most, and one that is alone only what was restored.
            let (bytes, of, count) = if cluster.workers > 1 {
                let workers = f64::from(cluster.workers);
                (workers * all_bytes, workers * losing, workers * as_f64(all))
            } else {
                (bytes_before, losing_before, as_f64(first))
            };
            read_bytes = read_bytes.min(bytes);
            read_losing = read_losing.min(of);
            reads = reads.min(count);
        }
        let ranges = as_f64(all - first) * votes;
        let own = losing - losing_before;
        let reading = reads * costs.read + read_losing * costs.decode;
        let coding = votes * own * costs.encode + ranges * costs.range + reading;

        let words = as_f64(settings.shard_words) * 2.0;
        let shard_count = (losing / words).max(1.0);
        let kept = (losing_before / words).floor();
        let share = ((shard_count - kept) / shard_count).max(0.0);
        let shard_bytes = forecast.shard_bytes(costs.shard_factor) * share;
        let merging = losing * (costs.decode + costs.shard) + as_f64(all) * costs.read;
        let shards = merging * share + shard_bytes * HASH;

        // Another worker reads each of them, if there is one; else the coordinator does.
        let (times, read_again) = if cluster.workers > 1 {
            (2.0, shard_bytes)
        } else {
            (1.0, 0.0)
        };
        let of_shards = times * (shard_count - kept).ceil();
        let of_tasks = as_f64(of_ranges) * votes + of_shards;
        let coordinator = costs.control * (of_tasks + ranges + of_shards);

        CostBounds {
            tasks: super::round(of_tasks),
            fetched: read_bytes + all_bytes * share + read_again,
            put: votes * (all_bytes - bytes_before) + shard_bytes,
            evaluation: votes * evaluation,
            coding,
            shards,
            coordinator,
            restoring: losing_before * costs.encode * RESTORED_PER_ENCODED,
            useful_bytes,
            path: CriticalPath {
                layers: as_f64(layers.len() as u64),
                evaluation: (evaluation + own * costs.encode) / as_f64((all - first).max(1)),
                commit: 2.0 * costs.commit + costs.control(1),
                fetch: costs.fetch,
            },
            cluster,
        }
    }

    /// All CPU time.
    pub fn cpu(&self) -> f64 {
        self.evaluation + self.coding + self.shards + self.coordinator + self.restoring
    }

    /// The CPU time of workers.
    fn on_workers(&self) -> f64 {
        if self.cluster.shared {
            self.cpu()
        } else {
            self.cpu() - self.coordinator - self.restoring
        }
    }

    /// The seconds that the CPU time takes on all threads.
    pub fn threads_seconds(&self) -> f64 {
        let threads = f64::from(self.cluster.workers) * f64::from(self.cluster.threads);
        let of_machine = f64::from(self.cluster.coordinator_threads);
        let threads = if self.cluster.shared {
            threads.min(of_machine)
        } else {
            threads
        };
        self.on_workers() / threads
    }

    /// The seconds that the coordinator takes by itself.
    pub fn coordinator_seconds(&self) -> f64 {
        let own = self.cpu() - self.on_workers();
        own / f64::from(self.cluster.coordinator_threads)
    }

    /// The seconds that the bytes take on the links.
    pub fn links_seconds(&self) -> f64 {
        let bytes = self.fetched.max(self.put) / f64::from(self.cluster.workers);
        self.cluster
            .bandwidth
            .map_or(0.0, |bandwidth| bytes / bandwidth)
    }

    fn parts(&self) -> [f64; 4] {
        [
            self.threads_seconds(),
            self.path.seconds(),
            self.coordinator_seconds(),
            self.links_seconds(),
        ]
    }

    /// The seconds that the job takes at least.
    pub fn least(&self) -> f64 {
        self.parts().into_iter().fold(0.0, f64::max)
    }

    /// The seconds that it takes at most.
    pub fn most(&self) -> f64 {
        self.parts().into_iter().sum()
    }

    /// With more threads than these the critical path or the coordinator takes longer than they do.
    pub fn threads_that_help(&self) -> f64 {
        let fixed = self.path.seconds().max(self.coordinator_seconds());
        (self.on_workers() / fixed).max(1.0)
    }
}

/// The seconds of one thread for ranges of one layer: a sample of them, and as much for each of the others.
fn evaluation_of(heads: &[Head], forecast: &Forecast, costs: &Costs) -> f64 {
    let step = heads.len().div_ceil(SAMPLES).max(1);
    let sampled = heads.iter().step_by(step);
    let count = as_f64(sampled.len() as u64).max(1.0);
    let seconds: f64 = sampled.map(|&head| costs.evaluation(forecast, head)).sum();
    seconds / count * as_f64(heads.len() as u64)
}

/// The most bytes of ranges that are kept at any layer, each until its last use.
fn most_kept(forecast: &Forecast, layers: usize, last_use: impl Iterator<Item = u32>) -> u64 {
    // Index S: what begins to be kept at layer S, less what is not kept any more after S - 1.
    let mut change = vec![0i64; layers + 1];
    for (head, last) in (0..).map(Head).zip(last_use) {
        let bytes = forecast.memory_bytes(head).cast_signed();
        if last > 0 {
            change[head.layer() as usize] += bytes;
            change[last as usize + 1] -= bytes;
        }
    }
    let kept = change.iter().scan(0, |kept, change| {
        *kept += change;
        Some(*kept)
    });
    kept.max().unwrap_or(0).cast_unsigned()
}

/// The number of tasks into which `left` ranges of a layer are cut, if all are ready.
fn tasks(settings: &Settings, mut left: u64, threads: u64) -> u64 {
    let mut tasks = 0;
    while left > 0 {
        left -= settings.task_ranges(left, threads).min(left);
        tasks += 1;
    }
    tasks
}
