//! The forecast estimates how many losing positions each range has, and from that the [work](JobWork), the bytes and
//! the [time](Estimate) of a job that has not been run.
//!
//! # The law
//!
//! About the share [`SHARE`] / k² of the positions of at most k bits is losing. The true number is within 15 % of
//! that for all k from 23 to 36, and within 10 % from 27 on. The sequence shows no other trend for larger k; the
//! parity of k and chance cause the differences. (The 191,372,350 of 36 bits are 0.3 % more than the law says.)
//!
//! Two facts give the part of each range. Words that begin with 101 are not losing, but for those of two rows.
//! Elsewhere the density is proportional to 1 / A, where A is the average area of the positions of the range: a
//! larger area means more moves. These two facts explain nine tenths of the differences between the ranges of 36
//! bits, with 26 range bits.
//!
//! In all ranges a record takes about the same number of bytes for each losing position. A shard of n stored
//! positions among p takes about n (log2(p/n) + log2 e) bits times a factor. Both numbers were measured.

mod estimate;
#[cfg(test)]
mod tests;
mod work;

use chomp_table::sources::starts;
use chomp_table::{Head, RangeBits};

use crate::slots::index;

pub use estimate::{Costs, Estimate};
pub use work::JobWork;

/// The share of losing positions among those of at most k bits, times k².
pub const SHARE: f64 = 7.2;
/// The bytes of a record for each losing position.
const RECORD_BYTES: f64 = 1.18;
/// The bytes of a record besides its frame.
pub const HEADER_BYTES: f64 = 80.0;
/// The bytes of shards, as a multiple of the entropy of their positions.
const SHARD_FACTOR: f64 = 0.81;
/// The bytes of a range in memory besides its positions, of two bytes each, and its buckets.
const RANGE_BYTES: u64 = 256;
/// The positions of a bucket. The place of a bucket takes four bytes.
const BUCKET_POSITIONS: u64 = 1 << 16;

/// How many positions of at most `bits` bits are expected to be losing.
pub fn losing_total(bits: u32) -> f64 {
    let k = f64::from(bits);
    2f64.powf(k - 1.0) * SHARE / (k * k)
}

/// The expected losing positions of each range of a table.
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
        self.losing[index(head)]
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
}

/// The bytes that all ranges of a table take in a worker's memory.
pub fn memory_bytes(bits: u32, range_bits: RangeBits) -> u64 {
    let each = RANGE_BYTES + range_bits.positions() / BUCKET_POSITIONS * 4;
    range_bits.heads(bits) * each + 2 * round(losing_total(bits))
}

/// The bytes of all records of a table.
pub fn record_bytes(bits: u32, range_bits: RangeBits) -> f64 {
    HEADER_BYTES * as_f64(range_bits.heads(bits)) + RECORD_BYTES * losing_total(bits)
}

/// The bytes of all shards of a table.
pub fn shard_bytes(bits: u32) -> f64 {
    SHARD_FACTOR * entropy_bytes(losing_total(bits) / 2.0, positions(bits))
}

/// How many losing positions a range has, but for a factor that is the same for all ranges of a table.
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

/// The least bytes that list `losing` among `positions`, if every place is equally likely.
pub fn entropy_bytes(losing: f64, positions: f64) -> f64 {
    if losing <= 0.0 {
        return 0.0;
    }
    losing * ((positions / losing).log2() + std::f64::consts::LOG2_E) / 8.0
}

/// The number of positions of at most `bits` bits.
pub fn positions(bits: u32) -> f64 {
    2f64.powf(f64::from(bits) - 1.0)
}

/// A count as a floating-point number.
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
