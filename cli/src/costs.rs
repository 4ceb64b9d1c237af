//! Measures on samples what the parts of a job cost on this machine.
//!
//! * **Evaluation:** some ranges of the job's size are evaluated, with invented sources that have as many losing
//!   positions as is expected. Their times give the cost of a bitmap, which every range has, and the cost of each
//!   position that is scattered into it.
//! * **Coding:** the ranges and shards of a small true table are written and read.
//!
//! Only [trial jobs](crate::trial) show the other costs.

use std::time::Duration;

use chomp_kernel::{Evaluator, Isa, Source, Sources, evaluate_table};
use chomp_store::merge::{Cut, Merger};
use chomp_table::range::{decode, encode};
use chomp_table::shard::ShardSize;
use chomp_table::{Digest, Head, Range, RangeBits};

use chomp_plan::forecast::{Costs, Forecast, as_f64, entropy_bytes, positions, round};

use crate::machine;

/// The small table: its bits and range bits.
const SAMPLE: (u32, u32) = (26, 20);
/// The range bits of the largest range that is tried out. The bitmaps of larger ranges are far larger than a core's
/// cache too, so each position costs the same.
const TRIED_RANGE_BITS_MAX: u32 = 26;
/// The heads that are tried out beside the shortest. Their bits are cut to the length of the job's heads.
const TRIED: [u64; 2] = [0xd9b2_6c35_a5c9_3a6d, 0xe5a9_c6d3_9a53_6ac9];
/// How often each sample is measured; the least time counts.
const TRIES: usize = 2;
/// The number of invented sources. Several, so that not all reads are from the same memory.
const SOURCES: usize = 8;

/// Returns the CPU time that the caller has taken.
pub(crate) type Clock<'a> = &'a mut dyn FnMut() -> Duration;

/// Measures the costs. It takes less than a second for the range bits of most tables.
pub(crate) fn measure(bits: u32, range_bits: RangeBits, isa: Isa, clock: Clock) -> Costs {
    let mut costs = coding(isa, clock);
    let tried = range_bits.get().min(TRIED_RANGE_BITS_MAX);
    let tried = machine::range_bits_of(tried);
    let head_bits = bits.saturating_sub(range_bits.get());
    (costs.position, costs.scattered) = evaluation(tried, head_bits, isa, clock);
    costs
}

/// The cost of each position and of each scattered one.
fn evaluation(range_bits: RangeBits, head_bits: u32, isa: Isa, clock: Clock) -> (f64, f64) {
    let forecast = Forecast::new(range_bits.get() + head_bits.min(8), range_bits);
    let typical = (0..forecast.ranges())
        .map(|head| forecast.losing(Head(head)))
        .sum::<f64>()
        / as_f64(forecast.ranges());
    let sources = MadeUp::new(range_bits, round(typical));
    let count = as_f64(sources.losing);
    let mut evaluator = Evaluator::new(range_bits, isa);
    let mut samples = Vec::new();
    let long = TRIED.map(|bits| Head(bits.checked_shr(u64::BITS - head_bits).unwrap_or(0)));
    for head in std::iter::once(Head(1)).chain(long) {
        let seconds = least(clock, || {
            evaluator
                .evaluate(head, &sources)
                .expect("every source is made up");
        });
        samples.push((scattered_of_equals(head) * count, seconds));
    }
    let (each, scattered) = line(&samples);
    (each / as_f64(range_bits.positions()), scattered)
}

/// How many sources' worth of positions an evaluation scatters, if all sources have the same number.
fn scattered_of_equals(head: Head) -> f64 {
    let starts = chomp_table::sources::starts(head);
    starts
        .map(|start| {
            let inside = u32::try_from(start.inside().count()).unwrap_or(u32::MAX);
            // 1/2 + 1/4 + … for d below `ones`, and twice the last again.
            f64::from(inside) + 1.0
        })
        .sum()
}

/// The line through samples: its value at 0 and its slope, neither negative.
fn line(samples: &[(f64, f64)]) -> (f64, f64) {
    let count = as_f64(samples.len() as u64);
    let mean_x = samples.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = samples.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = samples.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let common: f64 = samples
        .iter()
        .map(|(x, y)| (x - mean_x) * (y - mean_y))
        .sum();
    let rise = if spread > 0.0 {
        (common / spread).clamp(0.0, mean_y / mean_x)
    } else {
        0.0
    };
    (mean_y - rise * mean_x, rise)
}

/// The costs of coding the sample table.
fn coding(isa: Isa, clock: Clock) -> Costs {
    let (bits, range_bits) = SAMPLE;
    let range_bits = machine::range_bits_of(range_bits);
    let ranges: Vec<Range> = evaluate_table(bits, range_bits, isa)
        .into_values()
        .collect();
    let losing: usize = ranges.iter().map(|range| range.losing.len()).sum();
    let losing = as_f64(losing as u64);

    let mut records = Vec::new();
    let encoding = least(clock, || {
        let encoded = ranges.iter().map(|range| encode(range, range_bits).1);
        records = encoded.collect();
    });
    let decoding = least(clock, || {
        for record in &records {
            // Whoever reads a record compares its digest.
            Digest::of(record);
            Source::decode(record, range_bits).expect("it was just encoded");
        }
    });
    let contents = records.iter().map(|record| decode(record, range_bits));
    let contents: Vec<(Range, u64)> = contents
        .collect::<Result<_, _>>()
        .expect("they were just encoded");
    let mut shard_bytes = 0;
    let writing = least(clock, || {
        shard_bytes = write_shard(bits, range_bits, &contents);
    });

    let record_bytes: usize = records.iter().map(Vec::len).sum();
    let shard_entropy = entropy_bytes(losing / 2.0, positions(bits));
    Costs {
        encode: encoding / losing,
        decode: decoding / losing,
        shard: writing / losing,
        record_bytes: as_f64(record_bytes as u64) / losing,
        shard_factor: as_f64(shard_bytes as u64) / shard_entropy,
        ..Costs::default()
    }
}

/// Merges all ranges of a table of one shard; returns the bytes of the shard.
fn write_shard(bits: u32, range_bits: RangeBits, ranges: &[(Range, u64)]) -> usize {
    let cut = Cut {
        number: 0,
        head: Head(0),
        skip: 0,
        end: Head(ranges.len() as u64),
        last: true,
    };
    let mut merger = Merger::new(bits, range_bits, ShardSize::PUBLISHED, cut);
    for (range, stored) in ranges {
        let pushed = merger.push(range.head, &range.losing, *stored);
        pushed.expect("they are all ranges, in order");
    }
    let (_, bytes) = merger.finish().expect("all ranges were pushed");
    bytes.map_or(0, |bytes| bytes.len())
}

/// The seconds that `run` takes, the least of some tries.
fn least(clock: Clock, mut run: impl FnMut()) -> f64 {
    let tries = (0..TRIES).map(|_| {
        let before = clock();
        run();
        clock().saturating_sub(before).as_secs_f64()
    });
    tries.fold(f64::INFINITY, f64::min)
}

/// Sources of any head: the same few ranges for all.
struct MadeUp {
    ranges: Vec<Source>,
    /// The losing positions of the first of them.
    losing: u64,
}

impl MadeUp {
    /// Ranges with `count` losing positions each, or a few less, at random distances.
    fn new(range_bits: RangeBits, count: u64) -> MadeUp {
        let gap = range_bits.positions() / count.max(1);
        let mut state = 1u64;
        let range = |_| {
            let mut losing = Vec::new();
            let mut index = 0;
            loop {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                index += 1 + (state >> 33) % (2 * gap).max(1);
                match u32::try_from(index) {
                    Ok(position) if index < range_bits.positions() => losing.push(position),
                    _ => break,
                }
            }
            Range {
                head: Head(0),
                losing: losing.into_iter().collect(),
                edges: 0,
            }
        };
        let ranges: Vec<Range> = (0..SOURCES).map(range).collect();
        MadeUp {
            losing: ranges[0].losing.len() as u64,
            ranges: ranges.into_iter().map(Source::new).collect(),
        }
    }
}

impl Sources for MadeUp {
    fn find(&self, head: Head) -> Option<&Source> {
        self.ranges.get(head.0.count_ones() as usize % SOURCES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again_and_never_falls() {
        let near = |(a, b): (f64, f64), (c, d): (f64, f64)| {
            assert!((a - c).abs() < 1e-9 && (b - d).abs() < 1e-9, "{a} {b}");
        };
        near(line(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]), (3.0, 2.0));
        near(line(&[(1.0, 5.0), (2.0, 3.0)]), (4.0, 0.0));
        near(line(&[(1.0, 1.0), (2.0, 9.0)]), (0.0, 10.0 / 3.0));
        near(line(&[(0.0, 2.0), (0.0, 4.0)]), (3.0, 0.0));
    }

    /// Whatever the clock says, costs are numbers: what they are worth shows where they are used.
    #[test]
    fn costs_follow_the_clock() {
        let range_bits = RangeBits::new(16).unwrap();
        let mut now = Duration::ZERO;
        let mut clock = || {
            now += Duration::from_millis(5);
            now
        };
        let costs = measure(24, range_bits, Isa::Portable, &mut clock);
        let positions = as_f64(range_bits.positions());
        assert!(
            (costs.position * positions - 0.005).abs() < 1e-9,
            "{costs:?}"
        );
        assert!(costs.scattered.abs() < 1e-15, "{costs:?}");
        // 363,603 positions of 26 bits are losing.
        for cost in [costs.encode, costs.decode, costs.shard] {
            assert!((cost * 363_603.0 - 0.005).abs() < 1e-9, "{costs:?}");
        }
        assert!((1.0..2.0).contains(&costs.record_bytes), "{costs:?}");
        assert!((0.7..1.1).contains(&costs.shard_factor), "{costs:?}");
    }

    #[test]
    fn made_up_sources_are_ranges_of_the_size_that_is_asked_for() {
        let range_bits = RangeBits::new(20).unwrap();
        let sources = MadeUp::new(range_bits, 4000);
        assert!((3500..4500).contains(&sources.losing));
        for range in &sources.ranges {
            assert!((7000..20_000).contains(&range.memory()));
        }
        assert!(sources.find(Head(u64::MAX)).is_some());
    }
}
