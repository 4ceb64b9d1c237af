//! The work of each range in proportion to the others. So the coordinator estimates the time left from the work that
//! is left, and not from the number of ranges.
//!
//! The unit is one position that is scattered into a bitmap, some nanoseconds. Only proportions count. They were
//! measured on one machine and serve for all: if one of them is wrong by half, the work of a layer is wrong by a
//! few percent.

use chomp_table::{Head, RangeBits, head};

use super::{Forecast, as_f64, losing_total, round};

/// The positions of a bitmap in one unit of work.
const POSITIONS_PER_UNIT: f64 = 16.0;
/// The work of encoding, checking and writing each losing position.
const CODING: f64 = 20.0;
/// The work of publishing each losing position, all by one thread.
const PUBLICATION: f64 = 8.0;
/// How many ranges of a layer are sampled.
const SAMPLES: usize = 16;

/// The work of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobWork {
    /// By layer: the work of each of its ranges, at least 1.
    pub ranges: Vec<u64>,
    /// The work of publication.
    pub publication: u64,
}

impl JobWork {
    /// The part of the work that is done, from 0 to 1, if these ranges are.
    pub fn part(&self, layers: &[Vec<Head>], done: &[Head]) -> f64 {
        let of_range = |head: &Head| self.ranges.get(head.layer() as usize);
        let done: u64 = done.iter().filter_map(of_range).sum();
        as_f64(done) / as_f64(self.total(layers))
    }

    /// The work of all ranges, and of publication.
    pub fn total(&self, layers: &[Vec<Head>]) -> u64 {
        let of_layers = layers.iter().zip(&self.ranges);
        let ranges = of_layers.map(|(heads, each)| heads.len() as u64 * each);
        ranges.sum::<u64>() + self.publication
    }

    /// The work of a table of `bits` bits, with at most as many heads as a plan holds.
    pub fn new(bits: u32, range_bits: RangeBits) -> JobWork {
        let forecast = Forecast::new(bits, range_bits);
        let layers = head::layers(bits, range_bits);
        JobWork {
            ranges: layers
                .iter()
                .map(|heads| of_each(&forecast, heads))
                .collect(),
            publication: round(losing_total(bits) * PUBLICATION).max(1),
        }
    }
}

/// The work of each of these ranges, on average.
fn of_each(forecast: &Forecast, heads: &[Head]) -> u64 {
    let step = heads.len().div_ceil(SAMPLES);
    let samples: Vec<f64> = heads
        .iter()
        .step_by(step.max(1))
        .map(|&head| {
            as_f64(forecast.range_bits().positions()) / POSITIONS_PER_UNIT
                + forecast.scattered(head)
                + forecast.losing(head) * CODING
        })
        .collect();
    let count = as_f64(samples.len() as u64).max(1.0);
    round(samples.iter().sum::<f64>() / count).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranges of high layers draw on more sources, so they are more work than those of low ones.
    #[test]
    fn work_grows_with_the_layer_and_is_never_nothing() {
        let range_bits = RangeBits::new(20).unwrap();
        let work = JobWork::new(32, range_bits);
        assert_eq!(work.ranges.len(), head::layer_count(32, range_bits));
        assert!(work.ranges.iter().all(|&work| work > 0));
        assert!(work.ranges[40] > work.ranges[1], "{work:?}");
        let total = work.total(&head::layers(32, range_bits));
        assert!(
            (total / 50..total / 2).contains(&work.publication),
            "{total} and {}",
            work.publication
        );
        assert_eq!(JobWork::new(2, range_bits).ranges.len(), 1);
        // With its publication there is always some left.
        let layers = head::layers(32, range_bits);
        let all: Vec<Head> = layers.iter().flatten().copied().collect();
        let part = |done: &[Head]| work.part(&layers, done);
        assert!(part(&[]) == 0.0 && (0.5..1.0).contains(&part(&all)));
        assert!(part(&layers[40][..1]) > part(&layers[1][..1]));
        // A range without sources.
        let positions = as_f64(range_bits.positions());
        let expected = positions / 16.0 + 20.0 * losing_total(20);
        assert_eq!(JobWork::new(20, range_bits).ranges, [round(expected)]);
    }
}
