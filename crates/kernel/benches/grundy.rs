//! Times Grundy values on one thread: `cargo bench -p chomp-kernel --bench grundy -- 100 [portable|avx2|avx512]`.
//!
//! It prints for each tenth number of tiles the nanoseconds for each of its positions, and the values that are read for
//! each. Without a number it evaluates 60 tiles.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::time::Instant;

use chomp_kernel::Isa;
use chomp_kernel::grundy::{AreaValues, GrundyEvaluator};
use chomp_table::partition::count;

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let tiles: u32 = words
        .next()
        .map_or(60, |tiles| tiles.parse().expect("a number"));
    let isa = words
        .next()
        .map_or_else(Isa::detect, |isa| isa.parse().expect("an instruction set"));
    let mut evaluator = GrundyEvaluator::new(isa);
    let mut areas = vec![AreaValues::zeros(0)];
    println!("tiles,positions,ns_each,bytes_read_each");
    for area in 1..=tiles {
        let mut values = AreaValues::zeros(area);
        #[expect(clippy::disallowed_methods, reason = "it is what is measured")]
        let start = Instant::now();
        evaluator.evaluate(area, 0, values.get_mut(), &areas);
        let each = start.elapsed().as_secs_f64() * 1e9 / values.get().len() as f64;
        areas.push(values);
        if area % 10 == 0 || area == tiles {
            let (positions, read) = (count(area), bytes_read(area));
            println!("{area},{positions},{each:.1},{read:.1}");
        }
    }
}

/// The values that are read for each position, on average: one for each move in the third and later columns, and one
/// for each row of one cell. So they are as many as tiles, less two for each row of two cells or more.
fn bytes_read(area: u32) -> f64 {
    // Of all partitions, k is a row as often as there are partitions of what k, 2 k, … leave.
    let rows = |row: u32| -> u64 {
        let left = (1..=area / row).map(|times| area - times * row);
        left.map(count).sum()
    };
    let long: u64 = (2..=area).map(rows).sum();
    f64::from(area) - 2.0 * long as f64 / count(area) as f64
}
