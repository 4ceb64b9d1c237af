//! The forecast estimates how many losing positions a table has, and from that the [cost](JobCost), the bytes and
//! the [time](Estimate) of a job that has not been run.
//!
//! # The law
//!
//! About the share [`SHARE`] / k² of the positions of at most k bits is losing. The true number is within 15 % of
//! that for all k from 23 to 36, and within 10 % from 27 on. The sequence shows no other trend for larger k; the
//! parity of k and chance cause the differences. (The 191,372,350 of 36 bits are 0.3 % more than the law says.)
//!
//! The forecast takes all ranges to have equally many losing positions. In truth the ranges of low layers have more. So
//! the estimated share of the work that is done is wrong by up to six hundredths of the whole. The estimate of the
//! whole is wrong by a factor that hardly depends on the table, so that measured costs make up for it.
//!
//! In all ranges a record takes about the same number of bytes for each losing position. A shard of n stored
//! positions among p takes about n (log2(p/n) + log2 e) bits times a factor. Both numbers were measured.
//!
//! # The work
//!
//! The coordinator estimates the time left from the work that is left, and not from the number of ranges. The unit of
//! work is one position that is scattered into a bitmap, some nanoseconds. Only proportions count. They were measured
//! on one machine and serve for all: if one of them is wrong by half, the work of a layer is wrong by a few percent.
//!
//! # The time
//!
//! Two times bound a job from below: the CPU time divided by the number of threads, and the critical path, as each
//! layer waits for a range of the layer before. No job is faster than the longer of them. A thread idles only while the
//! others finish a layer, so a job takes no longer than both together (Graham, *Bounds for certain multiprocessing
//! anomalies*, 1966), as far as the costs are right and links are fast enough.

#[cfg(test)]
mod tests;

use chomp_table::{Head, RangeBits, head};

use crate::Settings;

/// The share of losing positions among those of at most k bits, times k².
const SHARE: f64 = 7.2;
/// The bytes of a record for each losing position.
const RECORD_BYTES: f64 = 1.18;
/// The bytes of a record that do not depend on its number of losing positions.
const HEADER_BYTES: f64 = 80.0;
/// The bytes of shards, as a multiple of the entropy of their positions.
const SHARD_FACTOR: f64 = 0.81;
/// The fixed memory of a range. Its losing positions (two bytes each) and its buckets come on top.
const RANGE_BYTES: u64 = 256;
/// The positions of a bucket. The place of a bucket takes four bytes.
const BUCKET_POSITIONS: u64 = 1 << 16;
/// The positions of a bitmap in one unit of work.
const POSITIONS_PER_COST: f64 = 16.0;
/// The work of encoding, checking and writing each losing position.
const CODING: f64 = 20.0;
/// The work of publishing each losing position, all by one thread.
const PUBLICATION: f64 = 8.0;
/// The work of restoring a losing position from a shard of a smaller table.
const RESTORING: f64 = 17.0;

/// How many positions of at most `bits` bits are expected to be losing.
pub fn losing_total(bits: u32) -> f64 {
    let k = f64::from(bits);
    2f64.powf(k - 1.0) * SHARE / (k * k)
}

/// How often a whole source's worth of losing positions is put into a bitmap for a range. A source counts once for each
/// move that reads it. A move from a 1 of the head to a 0 of the head reads a whole source. The moves from one 1 of the
/// head to the first, second, third 0 of the low bits read a half, a quarter, an eighth of a source, and so on: they
/// count as one together. Moves that start in the low bits are not counted. See [`chomp_table::sources`].
fn moves(head: Head) -> u32 {
    // The layer counts each pair of 1s, too.
    let ones = head.0.count_ones();
    head.layer() - ones * ones.saturating_sub(1) / 2
}

/// The bytes that all ranges of a table take in a worker's memory.
pub fn memory_bytes(bits: u32, range_bits: RangeBits) -> u64 {
    let each = RANGE_BYTES + range_bits.positions() / BUCKET_POSITIONS * 4;
    range_bits.head_count(bits) * each + 2 * round(losing_total(bits))
}

/// The bytes of all records of a table.
pub fn record_bytes(bits: u32, range_bits: RangeBits) -> f64 {
    HEADER_BYTES * as_f64(range_bits.head_count(bits)) + RECORD_BYTES * losing_total(bits)
}

/// The bytes of all shards of a table.
pub fn shard_bytes(bits: u32) -> f64 {
    let stored = losing_total(bits) / 2.0;
    // The least bytes that list `stored` positions, if every one is equally likely.
    let rarity = 2f64.powf(f64::from(bits) - 1.0) / stored;
    SHARD_FACTOR * stored * (rarity.log2() + std::f64::consts::LOG2_E) / 8.0
}

/// The cost of a job, in a unit that is the same on all machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobCost {
    /// By layer: the cost of each of its ranges, at least 1.
    pub per_range: Vec<u64>,
    /// The cost of publication.
    pub publication: u64,
}

impl JobCost {
    /// The cost of the ranges `done`, as a fraction of the whole cost, from 0 to 1.
    pub fn fraction_done(&self, layers: &[Vec<Head>], done: &[Head]) -> f64 {
        let of_range = |head: &Head| self.per_range.get(head.layer() as usize);
        let done: u64 = done.iter().filter_map(of_range).sum();
        as_f64(done) / as_f64(self.total(layers))
    }

    /// The cost of all ranges, and of publication.
    pub fn total(&self, layers: &[Vec<Head>]) -> u64 {
        let of_layers = layers.iter().zip(&self.per_range);
        let ranges = of_layers.map(|(heads, each)| heads.len() as u64 * each);
        ranges.sum::<u64>() + self.publication
    }

    /// The cost of a table of `bits` bits. It lists all heads, so the caller makes sure that they have at most
    /// [`HEAD_BITS_MAX`](crate::HEAD_BITS_MAX) bits.
    pub fn new(bits: u32, range_bits: RangeBits) -> JobCost {
        let bitmap = as_f64(range_bits.positions()) / POSITIONS_PER_COST;
        let losing = losing_total(bits) / as_f64(range_bits.head_count(bits));
        // The cost of each of these ranges, on average.
        let of_each = |heads: Vec<Head>| {
            let moves: u64 = heads.iter().map(|&head| u64::from(moves(head))).sum();
            let moves = as_f64(moves) / as_f64(heads.len() as u64);
            round(bitmap + losing * (moves + CODING)).max(1)
        };
        let layers = head::layers(bits, range_bits).into_iter();
        JobCost {
            per_range: layers.map(of_each).collect(),
            publication: round(losing_total(bits) * PUBLICATION).max(1),
        }
    }
}

/// The costs that trial jobs have measured, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineCosts {
    /// The CPU time of a [job cost](JobCost) of 1.
    pub work: f64,
    /// The CPU time of a range, besides its cost.
    pub range: f64,
    /// How long a new object of the store takes to become durable.
    pub commit: f64,
}

/// The estimate of a job. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The CPU time of all processes.
    pub cpu: f64,
    /// The layers of the critical path.
    pub layers: u64,
    /// The time of one thread for the positions of an average range.
    pub evaluation: f64,
    /// The time until the part of a range is durable, and then the segment of the journal that names the part.
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
        costs: MachineCosts,
    ) -> Estimate {
        let cost = JobCost::new(bits, range_bits);
        let layers = head::layers(bits, range_bits);
        let restored = from.map_or(0, |from| range_bits.head_count(from));
        let (mut ranges, mut new_cost) = (0, 0);
        for (heads, each) in layers.iter().zip(&cost.per_range) {
            let new = heads.len() - heads.partition_point(|head| head.0 < restored);
            ranges += new as u64;
            new_cost += new as u64 * each;
        }
        let ranges = as_f64(ranges.max(1));
        let new_cost = as_f64(new_cost);
        // Some ranges are computed by two workers.
        let checked = f64::from(Settings::new(bits, range_bits).owner_checks_per_1000) / 1000.0;
        let times = if workers > 1 { 1.0 + checked } else { 1.0 };
        let others = as_f64(cost.publication) + from.map_or(0.0, losing_total) * RESTORING;
        Estimate {
            cpu: times * (new_cost * costs.work + ranges * costs.range) + others * costs.work,
            layers: layers.len() as u64,
            evaluation: new_cost * costs.work / ranges,
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

    /// The number of threads, at least one, with which the CPU time takes as long as the critical path. More threads
    /// hardly shorten the job.
    pub fn threads_that_help(&self) -> f64 {
        (self.cpu / self.critical_path()).max(1.0)
    }
}

/// A count as a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "a forecast need not be exact")]
pub fn as_f64(number: u64) -> f64 {
    number as f64
}

/// The nearest whole number to an estimate.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "expected numbers are not negative, and need not be exact"
)]
pub fn round(number: f64) -> u64 {
    number.round() as u64
}
