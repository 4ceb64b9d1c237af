//! The forecast: how many losing positions to expect in each range, and what follows from it for
//! CPU time, bytes and the wall time of a job that has not been run.
//!
//! # The law
//!
//! Of the positions of at most k bits about the share [`SHARE`] / k² is losing. For all k from 23
//! to 36 the true number is within 15 % of that, for k from 27 to 36 within 10 %, and nothing in
//! the sequence suggests another trend for larger k; the parity of k and chance make the rest.
//! (The 191,372,350 of 36 bits are 0.3 % more than the law says.)
//!
//! A range gets its part by two facts. Words that begin with 101 are not losing, but for those of two rows. And elsewhere
//! the density falls with the number of moves: it goes with 1 / A, where A is the area that a position
//! of the range has on average. These two explain nine tenths of how the ranges of 36 bits
//! differ, with 26 range bits.
//!
//! A record takes about as many bytes for each losing position, whatever the range: that is measured. A
//! shard of n stored positions among p takes about n (log2(p/n) + log2 e) bits times a factor that
//! is measured too.

mod costs;
pub mod simulation;
#[cfg(test)]
mod tests;
mod work;

use chomp_table::sources::{self, starts};
use chomp_table::{Head, RangeBits, head};

pub use costs::Costs;
pub use work::Work;

/// The share of losing positions among those of at most k bits, times k².
pub const SHARE: f64 = 7.2;
/// The bytes of a record besides its frame.
const HEADER_BYTES: f64 = 80.0;
/// What a range in memory takes besides its positions, of two bytes each, and its buckets.
const RANGE_BYTES: u64 = 256;
/// The positions of a bucket, of which the place takes four bytes.
const BUCKET_POSITIONS: u64 = 1 << 16;

/// How many positions of at most `bits` bits are expected to be losing.
pub fn losing_total(bits: u32) -> f64 {
    let k = f64::from(bits);
    2f64.powf(k - 1.0) * SHARE / (k * k)
}

/// What is expected of each range of a table.
#[derive(Clone, Debug)]
pub struct Forecast {
    bits: u32,
    range_bits: RangeBits,
    /// By head: the expected losing positions.
    losing: Vec<f64>,
}

impl Forecast {
    /// The forecast for a table of `bits` bits, with at most as many heads as a plan holds.
    pub fn new(bits: u32, range_bits: RangeBits) -> Forecast {
        let heads = range_bits.heads(bits);
        let weights: Vec<f64> = (0..heads)
            .map(|head| weight(Head(head), range_bits))
            .collect();
        let scale = losing_total(bits) / weights.iter().sum::<f64>();
        let most = as_f64(range_bits.positions());
        Forecast {
            bits,
            range_bits,
            losing: weights
                .into_iter()
                .map(|weight| (weight * scale).min(most))
                .collect(),
        }
    }

    /// The bits of the table.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The bits of a range.
    pub fn range_bits(&self) -> RangeBits {
        self.range_bits
    }

    /// The number of ranges.
    pub fn ranges(&self) -> u64 {
        self.losing.len() as u64
    }

    /// How many positions of the range `head` are expected to be losing.
    ///
    /// # Panics
    ///
    /// If the head is not of this table.
    pub fn losing(&self, head: Head) -> f64 {
        let index = usize::try_from(head.0).expect("a head of the table");
        self.losing[index]
    }

    /// How many positions of its sources the evaluation of a range puts into bitmaps, one by one.
    /// A source that serves several moves counts for each.
    pub fn scattered(&self, head: Head) -> f64 {
        starts(head)
            .map(|start| {
                let inside: f64 = start.inside().map(|source| self.losing(source)).sum();
                // The indices that begin with d 1s are one in 2^d; with 0s before them, twice as
                // many.
                let crossing = (1..start.ones).map(|d| {
                    let source = self.losing(start.crossing(d));
                    source * 0.5f64.powf(f64::from(d))
                });
                let last = self.losing(start.crossing(start.ones));
                inside + crossing.sum::<f64>() + last * 0.5f64.powf(f64::from(start.ones) - 1.0)
            })
            .sum()
    }

    /// The bytes of all records, `each` being [`Costs::record_bytes`].
    pub fn record_bytes(&self, each: f64) -> f64 {
        HEADER_BYTES * as_f64(self.ranges()) + each * losing_total(self.bits)
    }

    /// The bytes of all shards, `factor` being [`Costs::shard_factor`].
    pub fn shard_bytes(&self, factor: f64) -> f64 {
        factor * entropy_bytes(losing_total(self.bits) / 2.0, positions(self.bits))
    }

    /// The bytes that a worker needs to keep each range from when it is computed until the last
    /// that draws on it is: the most at any layer, and no more is of use to a cache.
    pub fn useful_bytes(&self) -> u64 {
        let layers = head::layer_count(self.bits, self.range_bits);
        let mut last_use = vec![0; self.losing.len()];
        for head in (0..self.ranges()).map(Head) {
            let layer = head.layer();
            let mut used = |source: Head| {
                let index = usize::try_from(source.0).expect("a head of the table");
                last_use[index] = layer.max(last_use[index]);
            };
            sources::each(head, self.range_bits, &mut used);
        }
        // Index S: what begins to be kept at layer S, less what is not kept any more after S - 1.
        let mut change = vec![0i64; layers + 1];
        for (head, last) in (0..).map(Head).zip(last_use) {
            let bytes = self.memory_bytes(head).cast_signed();
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

    /// What a range takes of a worker's cache: ranges have many sizes, so what is forgotten leaves holes that
    /// are not all filled.
    fn cache_bytes(&self, head: Head) -> u64 {
        self.memory_bytes(head) / 4 * 5
    }

    /// What a range takes in a worker's memory.
    fn memory_bytes(&self, head: Head) -> u64 {
        RANGE_BYTES
            + 2 * round(self.losing(head))
            + self.range_bits.positions() / BUCKET_POSITIONS * 4
    }
}

/// How many positions a range has that are losing, but for a factor that all ranges of a table
/// share.
fn weight(head: Head, range_bits: RangeBits) -> f64 {
    open_share(head) / mean_area(head, range_bits)
}

/// The share of the words of a range that do not begin with 101.
fn open_share(head: Head) -> f64 {
    match head.len() {
        0 | 1 => 0.75,
        2 if head.0 == 0b10 => 0.5,
        2 => 1.0,
        length if head.0 >> (length - 3) == 0b101 => 0.0,
        _ => 1.0,
    }
}

/// The area of a position of the range, on average over its index.
fn mean_area(head: Head, range_bits: RangeBits) -> f64 {
    let ones = head.0.count_ones();
    // The layer counts, beside the area of the head, one cell for each pair of 1s, a 1 with itself
    // too.
    let area = head.layer() - ones * (ones + 1) / 2;
    let index_bits = f64::from(range_bits.get() - 1);
    let to_index = f64::from(ones) * (index_bits / 2.0 + 1.0);
    f64::from(area) + to_index + index_bits * (index_bits - 1.0) / 8.0 + index_bits / 2.0
}

/// The bytes that tell which `losing` of `positions` are, if they are anywhere with equal chance.
pub fn entropy_bytes(losing: f64, positions: f64) -> f64 {
    if losing <= 0.0 {
        return 0.0;
    }
    losing * ((positions / losing).log2() + std::f64::consts::LOG2_E) / 8.0
}

/// How many positions of at most so many bits there are.
pub fn positions(bits: u32) -> f64 {
    2f64.powf(f64::from(bits) - 1.0)
}

/// A count, as forecasts calculate with it.
#[expect(clippy::cast_precision_loss, reason = "a forecast need not be exact")]
pub fn as_f64(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "expected numbers are not negative, and need not be exact"
)]
/// The whole number next to an expected one.
pub fn round(number: f64) -> u64 {
    number.round() as u64
}
