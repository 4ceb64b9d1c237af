//! Values of all positions of at most so many tiles, on one thread, without disk or network:
//!
//! ```text
//! cargo run --release -p chomp-kernel --example grundy -- 60
//! ```
//!
//! It prints for each area the CPU time a position, the largest value, and how many positions are losing.

#![expect(clippy::print_stdout, reason = "an example prints what it finds")]

use std::time::Duration;

use chomp_kernel::grundy::{Evaluation, Lower};
use chomp_table::partition::count;
use nix::time::{ClockId, clock_gettime};

/// The values of a chunk, and of a range.
const CHUNK_BITS: u32 = 20;

fn main() {
    let tiles: u32 = std::env::args()
        .nth(1)
        .map_or(60, |tiles| tiles.parse().expect("a number"));
    let mut areas: Vec<Vec<Vec<u8>>> = vec![vec![]];
    let mut all = (Duration::ZERO, 0);
    println!("tiles,positions,ns_each,largest,losing");
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
        let values = chunks.iter().flatten();
        let largest = values.clone().max().expect("a position");
        let losing = values.filter(|&&value| value == 0).count();
        println!(
            "{area},{positions},{:.1},{largest},{losing}",
            each(took, positions)
        );
        areas.push(chunks);
    }
    let (took, positions) = all;
    println!(
        "all,{positions},{:.1} ns each,{took:.1?}",
        each(took, positions)
    );
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
