//! Values of all positions of at most so many tiles, on one thread, without disk or network:
//!
//! ```text
//! cargo run --release -p chomp-kernel --example grundy -- 60
//! ```
//!
//! It prints for each area the CPU time a position, the largest value, how many positions are losing, and the bits a stored value
//! takes in a published table beside the entropy of the values: what a code needs that knows how often each value occurs, and no more.

#![expect(clippy::print_stdout, reason = "an example prints what it finds")]

use std::time::Duration;

use chomp_kernel::grundy::{Evaluation, Lower};
use chomp_table::partition::count;
use chomp_table::values::shard::{ShardSize, ValueShardWriter};
use nix::time::{ClockId, clock_gettime};

/// The values of a chunk, and of a range.
const CHUNK_BITS: u32 = 20;

fn main() {
    let tiles: u32 = std::env::args()
        .nth(1)
        .map_or(60, |tiles| tiles.parse().expect("a number"));
    let mut areas: Vec<Vec<Vec<u8>>> = vec![vec![]];
    let mut all = (Duration::ZERO, 0);
    println!("tiles,positions,ns_each,largest,losing,bits_each,entropy");
    for area in 1..=tiles {
        let mut lower = Lower::new(CHUNK_BITS);
        for (area, chunks) in (0..).zip(&areas).skip(1) {
            lower.put(area, chunks.iter().map(|chunk| &chunk[..]).collect());
        }
        let start = thread_time();
        let positions = count(area);
        let chunks = (0..positions).step_by(1 << CHUNK_BITS).map(|start| {
            let mut evaluation =
                Evaluation::new(area, start..positions.min(start + (1 << CHUNK_BITS)));
            evaluation.apply(&lower);
            evaluation.finish()
        });
        let chunks: Vec<Vec<u8>> = chunks.collect();
        let took = thread_time().saturating_sub(start);
        all = (all.0 + took, all.1 + positions);
        let counts = counts(&chunks);
        let (largest, losing) = (counts.len() - 1, counts[0]);
        let (bits, entropy) = (bits_each(area, &chunks), entropy(&counts));
        let ns = each(took, positions);
        println!("{area},{positions},{ns:.1},{largest},{losing},{bits:.3},{entropy:.3}");
        areas.push(chunks);
    }
    let (took, positions) = all;
    println!(
        "all,{positions},{:.1} ns each,{took:.1?}",
        each(took, positions)
    );
}

/// How many positions have each value.
fn counts(chunks: &[Vec<u8>]) -> Vec<u64> {
    let mut counts = vec![0; 120];
    for &value in chunks.iter().flatten() {
        counts[usize::from(value)] += 1;
    }
    let length = counts.iter().rposition(|&count| count > 0).unwrap_or(0) + 1;
    counts.truncate(length);
    counts
}

/// The bits of the shards of an area for each value in them.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn bits_each(area: u32, chunks: &[Vec<u8>]) -> f64 {
    let (mut bytes, mut stored) = (0, 0);
    for (shard, place) in chunks.chunks(16).zip(ShardSize::PUBLISHED.places_of(area)) {
        let mut writer = ValueShardWriter::new(0, place);
        for chunk in shard {
            writer.push(chunk);
        }
        let (info, _) = writer.finish();
        (bytes, stored) = (bytes + info.bytes, stored + info.stored);
    }
    (8 * bytes) as f64 / stored as f64
}

/// Of values that occur so often, in bits.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn entropy(counts: &[u64]) -> f64 {
    let all: u64 = counts.iter().sum();
    let shares = counts.iter().map(|&count| count as f64 / all as f64);
    shares
        .filter(|&share| share > 0.0)
        .map(|share| -share * share.log2())
        .sum()
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn each(took: Duration, positions: u64) -> f64 {
    took.as_nanos() as f64 / positions as f64
}

fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .expect("Unix has this clock")
        .into()
}
